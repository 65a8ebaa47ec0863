// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The table of memory regions against a list of them: seeded sequences of additions, removals and look-ups, with and
 * without memory to grow; how many are looked at when a few of many are new.
 */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fault.h"
#include "mr_table.h"

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

static void check(const struct mesh_mr_table *tab, size_t i, bool unique)
{
	struct mesh_key *r = &regions[i], *found;

	assert_ptr_equal(mesh_mr_table_find_mr(tab, r->mr), there[i] ? r : NULL);
	if (!unique)
		return;
	assert_ptr_equal(mesh_mr_table_find(tab, MESH_BY_LKEY, r->pd, r->lkey), there[i] ? r : NULL);
	assert_ptr_equal(mesh_mr_table_find(tab, MESH_BY_RKEY, r->pd, r->rkey), there[i] ? r : NULL);
	/* Of another PD it is none; there, and in the other index, a region of the same number may be. */
	found = mesh_mr_table_find(tab, MESH_BY_LKEY, r->pd == pds ? pds + 1 : pds, r->lkey);
	assert_ptr_not_equal(found, r);
	found = mesh_mr_table_find(tab, MESH_BY_LKEY, r->pd, r->rkey);
	assert_ptr_not_equal(found, r);
}

static void run(unsigned int seed, uint32_t keys)
{
	struct mesh_mr_table *tab = NULL;
	unsigned int n, i;

	srand(seed);
	memset(there, 0, sizeof(there));
	assert_null(mesh_mr_table_find_mr(NULL, &mrs[0]));
	assert_null(mesh_mr_table_find(NULL, MESH_BY_LKEY, &pds[0], 1));
	assert_null(mesh_mr_table_next_of(NULL, &contexts[0], &(struct mesh_mr_table_walk){0}));
	for (n = 0; n < 40000; n++) {
		i = (unsigned int)rand() % REGIONS;
		if (there[i] && rand() % 3 == 0) {
			mesh_mr_table_del(tab, &regions[i]);
			there[i] = false;
		} else if (!there[i]) {
			region_init(i, keys);
			assert_int_equal(mesh_mr_table_add(&tab, &regions[i]), 0);
			there[i] = true;
		}
		check(tab, i, keys >= REGIONS);
		check(tab, (unsigned int)rand() % REGIONS, false);
	}
	for (n = 0; n < 2; n++) {
		struct mesh_mr_table_walk walk = {0};
		struct mesh_key *r;

		while ((r = mesh_mr_table_next_of(tab, &contexts[n], &walk))) {
			assert_ptr_equal(r->verbs, &contexts[n]);
			assert_true(there[r - regions]);
			there[r - regions] = false;
			mesh_mr_table_del(tab, r);
		}
	}
	for (i = 0; i < REGIONS; i++)
		assert_false(there[i]);
	mesh_mr_table_free(tab);
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
	struct mesh_mr_table *tab = NULL;
	size_t i;

	(void)state;
	for (i = 0; i < REGIONS; i++) {
		region_init(i, REGIONS);
		regions[i].pd = &pds[0];
		regions[i].lkey = regions[i].rkey = (uint32_t)i / 2;
		assert_int_equal(mesh_mr_table_add(&tab, &regions[i]), 0);
	}
	for (i = 0; i < REGIONS; i++) /* also after growing */
		assert_ptr_equal(mesh_mr_table_find(tab, MESH_BY_RKEY, &pds[0], (uint32_t)i / 2), &regions[i | 1]);
	mesh_mr_table_free(tab);
}

static void test_no_memory(void **state)
{
	struct mesh_mr_table *tab = NULL;
	unsigned int refused = 0;
	size_t i;

	(void)state;
	for (i = 0; i < REGIONS; i++) {
		region_init(i, REGIONS);
		if (i != 2)
			fault_arm(FAULT_ALLOC, i == 1 ? 2 : 1, ENOMEM);
		if (mesh_mr_table_add(&tab, &regions[i])) {
			assert_null(tab);
			refused++;
		} else {
			there[i] = true;
		}
		fault_disarm();
	}
	assert_int_equal(refused, 2); /* there was no table at all; what cannot grow works */
	for (i = 2; i < REGIONS; i++)
		assert_ptr_equal(mesh_mr_table_find_mr(tab, &mrs[i]), &regions[i]);
	mesh_mr_table_free(tab);
}

static struct mesh_key *add_many(struct mesh_mr_table **tab, const struct ibv_mr *of, struct ibv_context *verbs,
				 uint32_t n)
{
	struct mesh_key *r = calloc(n, sizeof(*r));
	uint32_t i;

	assert_non_null(r);
	for (i = 0; i < n; i++) {
		r[i].mr = &of[i];
		r[i].pd = &pds[0];
		r[i].verbs = verbs;
		r[i].lkey = r[i].rkey = i << 8;
		assert_int_equal(mesh_mr_table_add(tab, &r[i]), 0);
	}
	return r;
}

/* @ret_first: the first one */
static size_t take_out(struct mesh_mr_table *tab, const struct ibv_context *verbs, struct mesh_mr_table_walk *walk,
		       size_t max, struct mesh_key **ret_first)
{
	struct mesh_key *r;
	size_t n;

	for (n = 0; n < max && (r = mesh_mr_table_next_of(tab, verbs, walk)); n++) {
		assert_ptr_equal(r->verbs, verbs);
		mesh_mr_table_del(tab, r);
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
	struct mesh_mr_table_walk walk = {0}, early;
	struct mesh_mr_table *tab = NULL;
	size_t n_left = n - n / 2;

	assert_non_null(of);
	mine = add_many(&tab, of, &contexts[0], n);
	assert_int_equal(take_out(tab, &contexts[0], &walk, n / 2, &passed), n / 2);
	early = walk;
	/* Where it was is not looked at again, unless all are elsewhere since. */
	assert_int_equal(mesh_mr_table_add(&tab, passed), 0);
	if (others)
		theirs = add_many(&tab, of + n, &contexts[1], others);
	assert_int_equal(take_out(tab, &contexts[0], &walk, n, NULL), n_left + (others != 0));
	assert_int_equal(walk.n_buckets != early.n_buckets, others != 0);
	walk = (struct mesh_mr_table_walk){0};
	assert_int_equal(take_out(tab, &contexts[0], &walk, n, NULL), !others);
	walk = (struct mesh_mr_table_walk){0};
	assert_int_equal(take_out(tab, &contexts[1], &walk, n + others, NULL), others);
	mesh_mr_table_free(tab);
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

/* One region at a time. @ret: lkeys of those that are missing, in their order. Return: how many are looked at. */
static size_t look_at(struct mesh_mr_table *tab, uint64_t after, size_t max, uint32_t *ret, size_t *ret_n)
{
	bool more = true;
	size_t looks, n;

	*ret_n = 0;
	for (looks = 0; more && looks < max; looks++) {
		more = mesh_mr_table_missing(tab, &pds[0], NULL, after, 1, ret + *ret_n, &n);
		*ret_n += n;
	}
	return looks;
}

#define MANY 200000

static uint32_t missing[MANY + 4];

/* Who registers one more of many does not have all of them looked at. */
static void test_changes(void **state)
{
	struct ibv_mr *of = calloc(MANY + 4, sizeof(*of));
	struct mesh_mr_table *tab = NULL;
	struct mesh_key *keys, more[4];
	uint64_t looked;
	size_t n, i;

	(void)state;
	assert_non_null(of);
	assert_int_equal(mesh_mr_table_look(NULL), 0);
	assert_int_equal(look_at(NULL, 0, 1, missing, &n), 1);
	keys = add_many(&tab, of, &contexts[0], MANY);
	looked = mesh_mr_table_look(tab);
	assert_int_equal(look_at(tab, 0, MANY + 1, missing, &n), MANY);
	assert_int_equal(n, MANY);
	for (i = 0; i < MANY; i++)
		assert_int_equal(missing[i], keys[MANY - 1 - i].lkey);
	for (i = 0; i < 4; i++)
		more[i] = (struct mesh_key){.mr = &of[MANY + i], .pd = &pds[i == 2], .lkey = 1u << 30 | (uint32_t)i};
	more[3].no_prereg = true;
	for (i = 0; i < 4; i++)
		assert_int_equal(mesh_mr_table_add(&tab, &more[i]), 0);
	mesh_mr_table_look(tab);
	assert_int_equal(look_at(tab, looked, MANY, missing, &n), 4);
	assert_int_equal(n, 2);
	assert_int_equal(missing[0], more[1].lkey);
	assert_int_equal(missing[1], more[0].lkey);
	/* One that was changed is a change again, and the only one. */
	looked = mesh_mr_table_look(tab);
	mesh_mr_table_del(tab, &keys[7]);
	assert_int_equal(mesh_mr_table_add(&tab, &keys[7]), 0);
	mesh_mr_table_look(tab);
	assert_int_equal(look_at(tab, looked, MANY, missing, &n), 1);
	assert_int_equal(n, 1);
	assert_int_equal(missing[0], keys[7].lkey);
	/* A rail that is new has all of them looked at. */
	mesh_mr_table_look(tab);
	look_at(tab, 0, 2 * MANY, missing, &n);
	assert_int_equal(n, MANY + 2);
	mesh_mr_table_free(tab);
	free(keys);
	free(of);
}

/* What comes and goes while the lock is let go: what goes is not given, what comes is given the next time. */
static void test_change_meanwhile(void **state)
{
	struct ibv_mr *of = calloc(6000, sizeof(*of));
	struct mesh_key *keys, *others;
	struct mesh_mr_table *tab = NULL;
	uint64_t looked;
	size_t n, i;

	(void)state;
	assert_non_null(of);
	keys = add_many(&tab, of, &contexts[0], 1000);
	looked = mesh_mr_table_look(tab);
	assert_int_equal(look_at(tab, 0, 500, missing, &n), 500);
	mesh_mr_table_del(tab, &keys[999]); /* that was looked at */
	mesh_mr_table_del(tab, &keys[499]); /* the next one */
	mesh_mr_table_del(tab, &keys[498]);
	mesh_mr_table_del(tab, &keys[0]); /* the last one */
	others = add_many(&tab, of + 1000, &contexts[0], 5000); /* the table grows */
	look_at(tab, 0, 1000, missing, &n);
	assert_int_equal(n, 497);
	for (i = 0; i < n; i++)
		assert_int_equal(missing[i], keys[497 - i].lkey);
	mesh_mr_table_look(tab);
	assert_int_equal(look_at(tab, looked, 10000, missing, &n), 5000);
	assert_int_equal(n, 5000);
	/* All go before anybody looks. */
	mesh_mr_table_look(tab);
	for (i = 0; i < 5000; i++)
		mesh_mr_table_del(tab, &others[i]);
	assert_int_equal(look_at(tab, looked, 10000, missing, &n), 1);
	assert_int_equal(n, 0);
	for (i = 1; i < 999; i++)
		if (i != 498 && i != 499)
			mesh_mr_table_del(tab, &keys[i]);
	assert_int_equal(look_at(tab, 0, 10000, missing, &n), 1);
	assert_int_equal(n, 0);
	mesh_mr_table_free(tab);
	free(keys);
	free(others);
	free(of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_newest_is_found),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_one_pass),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_change_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
