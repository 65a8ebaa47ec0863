// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The table of memory regions against a list of them: seeded sequences of additions, removals and look-ups, with and
 * without memory to grow.
 */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fault.h"
#include "keytab.h"

#define REGIONS 5000

static struct ibv_context contexts[2];
static struct ibv_pd pds[4];
static struct ibv_mr mrs[REGIONS];
static struct mesh_key regions[REGIONS];
static bool there[REGIONS];

static void region_init(size_t i, uint32_t keys)
{
	struct mesh_key *r = &regions[i];

	memset(r, 0, sizeof(*r));
	r->mr = &mrs[i];
	r->pd = &pds[(unsigned int)rand() % 4];
	r->verbs = &contexts[r->pd - pds < 2];
	r->lkey = (uint32_t)i % keys;
	r->rkey = (uint32_t)i % keys + 7;
}

static void check(const struct mesh_keytab *tab, size_t i, bool unique)
{
	struct mesh_key *r = &regions[i], *found;

	assert_ptr_equal(mesh_keytab_find_mr(tab, r->mr), there[i] ? r : NULL);
	if (!unique)
		return;
	assert_ptr_equal(mesh_keytab_find(tab, MESH_BY_LKEY, r->pd, r->lkey), there[i] ? r : NULL);
	assert_ptr_equal(mesh_keytab_find(tab, MESH_BY_RKEY, r->pd, r->rkey), there[i] ? r : NULL);
	/* Of another PD it is none; there, and in the other index, a region of the same number may be. */
	found = mesh_keytab_find(tab, MESH_BY_LKEY, r->pd == pds ? pds + 1 : pds, r->lkey);
	assert_ptr_not_equal(found, r);
	found = mesh_keytab_find(tab, MESH_BY_LKEY, r->pd, r->rkey);
	assert_ptr_not_equal(found, r);
}

static void run(unsigned int seed, uint32_t keys)
{
	struct mesh_keytab *tab = NULL;
	unsigned int n, i;

	srand(seed);
	memset(there, 0, sizeof(there));
	assert_null(mesh_keytab_find_mr(NULL, &mrs[0]));
	assert_null(mesh_keytab_find(NULL, MESH_BY_LKEY, &pds[0], 1));
	assert_null(mesh_keytab_next_of(NULL, &contexts[0], &(struct mesh_keytab_walk){0}));
	for (n = 0; n < 40000; n++) {
		i = (unsigned int)rand() % REGIONS;
		if (there[i] && rand() % 3 == 0) {
			mesh_keytab_del(tab, &regions[i]);
			there[i] = false;
		} else if (!there[i]) {
			region_init(i, keys);
			assert_int_equal(mesh_keytab_add(&tab, &regions[i]), 0);
			there[i] = true;
		}
		check(tab, i, keys >= REGIONS);
		check(tab, (unsigned int)rand() % REGIONS, false);
	}
	for (n = 0; n < 2; n++) {
		struct mesh_keytab_walk walk = {0};
		struct mesh_key *r;

		while ((r = mesh_keytab_next_of(tab, &contexts[n], &walk))) {
			assert_ptr_equal(r->verbs, &contexts[n]);
			assert_true(there[r - regions]);
			there[r - regions] = false;
			mesh_keytab_del(tab, r);
		}
	}
	for (i = 0; i < REGIONS; i++)
		assert_false(there[i]);
	mesh_keytab_free(tab);
}

static void test_random(void **state)
{
	(void)state;
	run(1, REGIONS);
	run(2, REGIONS);
	run(3, 16); /* keys that many share, as when a program never deregisters */
}

static void test_newest_is_found(void **state)
{
	struct mesh_keytab *tab = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < REGIONS; i++) {
		region_init(i, REGIONS);
		regions[i].pd = &pds[0];
		regions[i].lkey = regions[i].rkey = (uint32_t)i / 2;
		assert_int_equal(mesh_keytab_add(&tab, &regions[i]), 0);
	}
	for (i = 0; i < REGIONS; i++) /* also after growing */
		assert_ptr_equal(mesh_keytab_find(tab, MESH_BY_RKEY, &pds[0], (uint32_t)i / 2), &regions[i | 1]);
	mesh_keytab_free(tab);
}

static void test_no_memory(void **state)
{
	struct mesh_keytab *tab = NULL;
	unsigned int refused = 0;
	size_t i;

	(void)state;
	for (i = 0; i < REGIONS; i++) {
		region_init(i, REGIONS);
		if (i != 2)
			fault_arm(FAULT_ALLOC, i == 1 ? 2 : 1, ENOMEM);
		if (mesh_keytab_add(&tab, &regions[i])) {
			assert_null(tab);
			refused++;
		} else {
			there[i] = true;
		}
		fault_disarm();
	}
	assert_int_equal(refused, 2); /* there was no table at all; what cannot grow works */
	for (i = 2; i < REGIONS; i++)
		assert_ptr_equal(mesh_keytab_find_mr(tab, &mrs[i]), &regions[i]);
	mesh_keytab_free(tab);
}

static struct mesh_key *add_many(struct mesh_keytab **tab, const struct ibv_mr *of, struct ibv_context *verbs, uint32_t n)
{
	struct mesh_key *r = calloc(n, sizeof(*r));
	uint32_t i;

	assert_non_null(r);
	for (i = 0; i < n; i++) {
		r[i].mr = &of[i];
		r[i].pd = &pds[0];
		r[i].verbs = verbs;
		r[i].lkey = r[i].rkey = i << 8;
		assert_int_equal(mesh_keytab_add(tab, &r[i]), 0);
	}
	return r;
}

/* @ret_first: the first one */
static size_t take_out(struct mesh_keytab *tab, const struct ibv_context *verbs, struct mesh_keytab_walk *walk, size_t max,
		       struct mesh_key **ret_first)
{
	struct mesh_key *r;
	size_t n;

	for (n = 0; n < max && (r = mesh_keytab_next_of(tab, verbs, walk)); n++) {
		assert_ptr_equal(r->verbs, verbs);
		mesh_keytab_del(tab, r);
		if (!n && ret_first)
			*ret_first = r;
	}
	return n;
}

/* A context of @n regions is closed; @others: registered meanwhile. */
static void close_with(uint32_t n, uint32_t others)
{
	struct ibv_mr *of = calloc(n + others, sizeof(*of)); /* their addresses are all that counts */
	struct mesh_key *mine, *theirs = NULL, *passed = NULL;
	struct mesh_keytab_walk walk = {0}, early;
	struct mesh_keytab *tab = NULL;
	size_t n_left = n - n / 2;

	assert_non_null(of);
	mine = add_many(&tab, of, &contexts[0], n);
	assert_int_equal(take_out(tab, &contexts[0], &walk, n / 2, &passed), n / 2);
	early = walk;
	/* Where it was is not looked at again, unless all are elsewhere since. */
	assert_int_equal(mesh_keytab_add(&tab, passed), 0);
	if (others)
		theirs = add_many(&tab, of + n, &contexts[1], others);
	assert_int_equal(take_out(tab, &contexts[0], &walk, n, NULL), n_left + (others != 0));
	assert_int_equal(walk.n_buckets != early.n_buckets, others != 0);
	walk = (struct mesh_keytab_walk){0};
	assert_int_equal(take_out(tab, &contexts[0], &walk, n, NULL), !others);
	walk = (struct mesh_keytab_walk){0};
	assert_int_equal(take_out(tab, &contexts[1], &walk, n + others, NULL), others);
	mesh_keytab_free(tab);
	free(mine);
	free(theirs);
	free(of);
}

static void test_one_pass(void **state)
{
	(void)state;
	close_with(200000, 0); /* all who register memory wait meanwhile */
	close_with(2000, 10000); /* the table grows: those that are left are anywhere */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_newest_is_found),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_one_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
