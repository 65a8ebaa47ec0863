/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Somebody makes up hosts and keys: what the full table of keys, its file and its notes of host ids still take. */
#include "knownhosts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int setup(void **state)
{
	return pins_setup(state) || meeting_setup(state);
}

static int teardown(void **state)
{
	return meeting_teardown(state) || pins_teardown(state);
}

static const char *invented(unsigned int n)
{
	static char name[32];

	snprintf(name, sizeof(name), "h%u", n);
	return name;
}

static void invent(struct md_pins *to, unsigned int from, unsigned int n)
{
	for (unsigned int i = from; i < from + n; i++)
		assert_int_equal(md_pins_set(to, invented(i), &one, MD_PIN_UNCONFIRMED, 5), 0);
}

/* Names that somebody makes up leave room for others, as long as they have sealed nothing. */
static void test_full(void **state)
{
	enum md_pin_how how;

	(void)state;
	invent(&pins, 0, MD_PINS_MAX);
	md_pins_seen(&pins, "h1", 9); /* heard longer than others */
	assert_int_equal(md_pins_confirm(&pins, "h3", &two), 0); /* another key: nothing */
	assert_int_equal(md_pins_confirm(&pins, "h4", &one), 0);
	assert_int_equal(md_pins_confirm(&pins, "nobody", &one), -ENOENT);
	assert_int_equal(md_pins_set_file(&pins, "h5", &two), 0);
	assert_int_equal(md_pins_set(&pins, "h6", &two, MD_PIN_OPERATOR, 5), 0);
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_UNCONFIRMED, 5), 0);
	assert_null(md_pins_find(&pins, "h0", NULL, NULL));
	invent(&pins, MD_PINS_MAX, 4);
	assert_int_equal(pins.n, MD_PINS_MAX);
	assert_int_equal(pins.n_replaced, 5);
	assert_true(is_pinned("h1", &one));
	assert_false(is_pinned("h2", &one));
	assert_false(is_pinned("h3", &one));
	assert_non_null(md_pins_find(&pins, "h4", &how, NULL));
	assert_int_equal(how, MD_PIN_FIRST_CONTACT);
	md_pins_forget_file(&pins);
	invent(&pins, 2 * MD_PINS_MAX, MD_PINS_MAX);
	assert_true(is_pinned("h4", &one));
	assert_false(is_pinned("h5", &one));
	assert_true(is_pinned("h6", &two));
	/* Those of the operator find room as well, until no other ones are left. */
	for (unsigned int i = 0; i < MD_PINS_MAX - 2; i++) {
		assert_int_equal(md_pins_set(&pins, invented(4 * MD_PINS_MAX + i), &one, MD_PIN_OPERATOR, 5), 0);
		assert_int_equal(pins.n, MD_PINS_MAX);
	}
	assert_int_equal(md_pins_set(&pins, "z", &one, MD_PIN_OPERATOR, 5), -ENOSPC);
	assert_int_equal(md_pins_set_file(&pins, "z", &one), -ENOSPC);
	assert_int_equal(md_pins_set(&pins, "h4", &two, MD_PIN_OPERATOR, 5), 0);
}

/* The hosts file is read again: which host was heard longest ago stays known. */
static void test_order_after_reload(void **state)
{
	(void)state;
	invent(&pins, 0, MD_PINS_MAX);
	md_pins_seen(&pins, "h0", 9);
	md_pins_forget_file(&pins);
	invent(&pins, MD_PINS_MAX, 1);
	assert_true(is_pinned("h0", &one));
	assert_false(is_pinned("h1", &one));
}

static void test_unconfirmed_file(void **state)
{
	unsigned int n_bad, line;
	enum md_pin_how how;
	size_t len;
	char *text;

	(void)state;
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_UNCONFIRMED, 1234), 0);
	assert_int_equal(md_pins_set(&pins, "b", &one, MD_PIN_FIRST_CONTACT, 1234), 0);
	text = md_pins_format(&pins, &len);
	assert_non_null(strstr(text, " unconfirmed 1234\n"));
	assert_int_equal(md_pins_save(dir_fd, text, len), 0);
	free(text);
	md_pins_fini(&pins);
	assert_int_equal(md_pins_load(dir_fd, &pins, &n_bad, &line), 0);
	assert_int_equal(n_bad, 0);
	assert_non_null(md_pins_find(&pins, "a", &how, NULL));
	assert_int_equal(how, MD_PIN_UNCONFIRMED);
	invent(&pins, 0, MD_PINS_MAX);
	assert_null(md_pins_find(&pins, "a", NULL, NULL));
	assert_true(is_pinned("b", &one));
}

/* Host @n is heard on our link, and shows its key. */
static void meet(unsigned int n, struct md_identity *identity, bool rotates)
{
	struct peer peer = {n, 100, 1 + rotates, 5000, UP};
	char name[16];

	if (rotates)
		rotate(identity);
	else
		make_lasting(identity);
	snprintf(name, sizeof(name), "host%u", n);
	show(&peer, name, identity);
	assert_true(is_trusted(n));
}

static enum md_pin_how how_of(const char *name)
{
	enum md_pin_how how = MD_PIN_REVOKED; /* no pin is */

	md_pins_find(&met.trust.pins, name, &how, NULL);
	return how;
}

/* A host that is met when the table is full of names that somebody has made up is noted, and for good once it seals. */
static void test_met_when_full(void **state)
{
	struct mv_host_id id = peers_id(1);
	struct md_identity identity;

	(void)state;
	invent(&met.trust.pins, 0, MD_PINS_MAX);
	meet(1, &identity, false);
	assert_int_equal(how_of("host1"), MD_PIN_UNCONFIRMED);
	/* A rotation proves no more. */
	meet(1, &identity, true);
	assert_int_equal(how_of("host1"), MD_PIN_UNCONFIRMED);
	/* It makes room itself before it has sealed anything. */
	invent(&met.trust.pins, MD_PINS_MAX, MD_PINS_MAX);
	assert_int_equal(how_of("host1"), MD_PIN_REVOKED);
	md_trust_confirmed(&met, &id);
	assert_int_equal(how_of("host1"), MD_PIN_FIRST_CONTACT);
	meet(2, &identity, false);
	id = peers_id(2);
	md_trust_confirmed(&met, &id);
	assert_int_equal(how_of("host2"), MD_PIN_FIRST_CONTACT);
	invent(&met.trust.pins, 2 * MD_PINS_MAX, MD_PINS_MAX);
	assert_int_equal(how_of("host1"), MD_PIN_FIRST_CONTACT);
	assert_int_equal(how_of("host2"), MD_PIN_FIRST_CONTACT);
	meet(2, &identity, true);
	assert_int_equal(how_of("host2"), MD_PIN_ROTATED);
}

/* Nor do they, or one that claims ever other host ids, keep its id from being noted. */
static void test_ids_when_full(void **state)
{
	struct md_statement said = {.sign = one};
	struct mv_host_id id = peers_id(1);
	struct md_identity identity;

	(void)state;
	invent(&met.trust.pins, 0, 1000);
	for (unsigned int i = 0; i < MD_PINS_MAX + 100; i++) {
		said.host = peers_id(1000 + i);
		snprintf(said.name, sizeof(said.name), "%s", invented(i));
		md_bound_note(&met.trust, &said, false);
	}
	assert_int_equal(met.trust.n_bound, MD_PINS_MAX);
	snprintf(said.name, sizeof(said.name), "known");
	assert_int_equal(md_pins_set(&met.trust.pins, said.name, &one, MD_PIN_FIRST_CONTACT, 5), 0);
	for (unsigned int i = 0; i < 2 * MD_PINS_MAX; i++) {
		said.host = peers_id(1000000 + i);
		md_bound_note(&met.trust, &said, false);
	}
	assert_true(met.trust.n_bound <= MD_PINS_MAX);
	assert_non_null(md_bound_find(&met.trust, &said.host));
	said.host = peers_id(1000000);
	assert_null(md_bound_find(&met.trust, &said.host));
	meet(1, &identity, false);
	assert_non_null(md_bound_find(&met.trust, &id));
	md_trust_confirmed(&met, &id);
	for (unsigned int i = 0; i < 2 * MD_PINS_MAX; i++) {
		said.host = peers_id(3000000 + i);
		snprintf(said.name, sizeof(said.name), "%s", invented(i));
		md_bound_note(&met.trust, &said, false);
	}
	assert_non_null(md_bound_find(&met.trust, &id));
}

/* Is the file written now? Waits until it is. */
static bool saves(sd_event *event, uint64_t now_ns)
{
	bool out;

	md_trust_look(&met, now_ns);
	out = met.trust.save.out;
	while (met.trust.save.out)
		assert_true(sd_event_run(event, UINT64_MAX) >= 0);
	return out;
}

/* Somebody makes up ever other names, also in a full table: the file is not written over and over for that. */
static void test_saved_seldom(void **state)
{
	struct md_pins *saved = &met.trust.pins;
	sd_event *event;

	(void)state;
	met.trust.dir_fd = dir_fd;
	met.trust.save_ns = UINT64_MAX;
	assert_int_equal(sd_event_new(&event), 0);
	assert_int_equal(md_jobs_start(&met.jobs, event), 0);
	invent(saved, 0, MD_PINS_MAX);
	for (unsigned int i = 0; i < 100; i++) {
		invent(saved, MD_PINS_MAX + i, 1);
		assert_false(saved->dirty);
		assert_false(saves(event, (1 + 5 * i) * MD_S));
	}
	/* One that seals is on the disk at once, and the others with it. */
	assert_int_equal(md_pins_confirm(saved, invented(MD_PINS_MAX), &one), 0);
	assert_true(saves(event, 510 * MD_S));
	assert_false(saves(event, 3600 * MD_S));
	invent(saved, 2 * MD_PINS_MAX, 1);
	assert_true(saves(event, 3600 * MD_S));
	invent(saved, 2 * MD_PINS_MAX + 1, 1);
	assert_false(saves(event, 4199 * MD_S));
	assert_true(saves(event, 4200 * MD_S));
	md_jobs_stop(&met.jobs);
	sd_event_unref(event);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_full),
		TEST(test_order_after_reload),
		TEST(test_unconfirmed_file),
		TEST(test_met_when_full),
		TEST(test_ids_when_full),
		TEST(test_saved_seldom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
