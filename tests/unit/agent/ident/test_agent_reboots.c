/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A host that has another id after each boot: which of its ids counts, and which has its GIDs. */
#include "knownhosts.h"

#include <stdlib.h>
#include <string.h>

static bool is_bound(unsigned int n)
{
	struct mv_host_id id = peers_id(n);

	return md_bound_find(&met.trust, &id);
}

/* The host has sealed something. */
static void seal(unsigned int n)
{
	struct mv_host_id id = peers_id(n);

	md_trust_confirmed(&met, &id);
}

/* Somebody repeats the statement of a former life: the host's present id stays its own. */
static void test_former_life(void **state)
{
	const struct peer former = {1, 100, 1, 5000, UP}, later = {1, 100, 2, 5000, UP}, present = {2, 200, 1, 5000, UP},
			  next = {3, 300, 1, 5000, UP};
	struct md_identity identity, foreign;

	(void)state;
	make_lasting(&identity);
	make_lasting(&foreign);
	show(&former, "h", &identity);
	show(&present, "h", &identity);
	assert_true(is_trusted(2) && is_bound(2) && !is_bound(1));
	show(&later, "h", &identity);
	assert_true(is_bound(2) && !is_bound(1));
	seal(2);
	/* It falls silent, so it may have booted with its clock set back. That has to seal, too. */
	md_hosts_fini(&met.hosts);
	show(&former, "h", &identity);
	assert_true(is_trusted(1) && is_bound(2));
	show(&present, "other", &foreign);
	assert_false(is_trusted(2));
	assert_int_equal(vouch_of(2)->trust, MD_TRUST_CHANGED);
	seal(1);
	assert_true(is_bound(1) && !is_bound(2));
	/* The next boot. */
	show(&next, "h", &identity);
	assert_true(is_trusted(3) && is_bound(1));
	seal(3);
	assert_true(is_bound(3) && !is_bound(1));
	show(&present, "h", &identity);
	assert_false(is_trusted(2));
}

/* ... before the host has sealed anything, and before its former life was heard. */
static void test_former_life_first(void **state)
{
	const struct peer former = {1, 100, 1, 5000, UP}, present = {2, 200, 1, 5000, UP};
	struct md_identity identity;

	(void)state;
	make_lasting(&identity);
	show(&present, "h", &identity);
	show(&former, "h", &identity);
	assert_true(is_trusted(2) && is_bound(2));
	assert_false(is_trusted(1));
}

static bool holds(unsigned int n)
{
	struct mv_host_id id = peers_id(n);
	union ibv_gid gid = unit_gid("10.1.0.2");

	return md_gidmap_holds(&met.gidmap, &id, &gid);
}

/* Somebody repeats beacons of the former life, so that it seems to be heard: the host's GIDs go with the host. */
static void test_gids_of_former_life(void **state)
{
	struct peer first = {1, 100, 1, 60000, UP}, second = {2, 200, 1, 5000, UP}, third = {3, 300, 1, 5000, UP};
	struct md_identity identity;
	unsigned int changed;

	(void)state;
	make_lasting(&identity);
	show(&first, "host1", &identity);
	assert_true(holds(1));
	/* Neither has sealed anything. */
	show(&second, "host1", &identity);
	assert_true(holds(2));
	assert_null(vouch_of(1));
	/* One that has sealed gives way to one that seals. */
	seal(2);
	show(&third, "host1", &identity);
	assert_true(holds(2));
	seal(3);
	assert_true(holds(3));
	assert_null(vouch_of(2));
	assert_int_equal(peers_hear(&met.hosts, &first, 1, 0, 2 * MD_S, &changed), 0);
	show(&first, "host1", &identity);
	assert_null(vouch_of(1));
	met.gidmap.unsettled = true;
	md_gidmap_settle(&met.gidmap, &met.hosts, met.watch.view, &met.targets);
	assert_true(holds(3));
}

/* Somebody goes on with repeated beacons. Does the host @n keep the GIDs? */
static bool keeps(unsigned int n, const struct peer *replayed)
{
	unsigned int changed;

	peers_hear(&met.hosts, replayed, 1, 0, 2 * MD_S, &changed);
	met.gidmap.unsettled = met.gidmap.other_ground = true;
	md_gidmap_settle(&met.gidmap, &met.hosts, met.watch.view, &met.targets);
	return holds(n);
}

/*
 * The host boots, so its present id expires. Meanwhile somebody repeats statements and beacons of boots before the last one:
 * their ids have the GIDs until the host seals under its new id, or is heard under its present one.
 */
static void test_gids_of_older_lives(void **state)
{
	struct peer first = {1, 100, 1, 60000, UP}, second = {2, 200, 1, 60000, UP}, third = {3, 300, 1, 5000, UP},
		    fourth = {4, 400, 1, 5000, UP};
	struct mv_host_id third_id = peers_id(3);
	struct md_identity identity;

	(void)state;
	make_lasting(&identity);
	show(&third, "host1", &identity);
	seal(3);
	md_hosts_forget(&met.hosts, &third_id);
	show(&first, "host1", &identity);
	show(&second, "host1", &identity);
	assert_true(is_trusted(1) && holds(1) && is_bound(3));
	show(&fourth, "host1", &identity);
	assert_true(holds(1));
	seal(4);
	assert_true(is_bound(4) && holds(4));
	assert_null(vouch_of(1));
	assert_null(vouch_of(2));
	assert_true(keeps(4, &first));
}

/* It was only silent for a while, and has its id still. */
static void test_gids_after_silence(void **state)
{
	struct peer first = {1, 100, 1, 60000, UP}, second = {2, 200, 1, 5000, UP}, next = {3, 300, 1, 60000, UP};
	struct mv_host_id second_id = peers_id(2);
	struct md_identity identity;

	(void)state;
	make_lasting(&identity);
	show(&second, "host1", &identity);
	seal(2);
	md_hosts_forget(&met.hosts, &second_id);
	show(&first, "host1", &identity);
	show(&next, "host1", &identity); /* made while its clock was ahead */
	assert_true(holds(1));
	show(&second, "host1", &identity);
	assert_true(is_trusted(3));
	assert_null(vouch_of(1));
	seal(2);
	assert_true(is_bound(2) && holds(2));
	assert_null(vouch_of(3));
	assert_true(keeps(2, &first));
}

/* The host had its key rotated while it was down, once or twice: it is the host of the former id all the same. */
static void test_rotated_while_down(void **state)
{
	const struct peer first = {1, 100, 1, 60000, UP}, second = {2, 200, 1, 60000, UP}, third = {3, 300, 1, 5000, UP};
	struct md_identity identity, foreign;

	for (unsigned int seals = 0; seals < 2; seals++) {
		make_lasting(&identity);
		show(&first, "host1", &identity);
		if (seals)
			seal(1);
		rotate(&identity);
		show(&second, "host1", &identity);
		assert_true(is_trusted(2) && is_bound(seals ? 1 : 2) && holds(seals ? 1 : 2));
		rotate(&identity);
		show(&third, "host1", &identity);
		assert_true(is_trusted(3) && is_bound(seals ? 1 : 3) && holds(seals ? 1 : 3));
		/* Nobody else has the id meanwhile. */
		make_lasting(&foreign);
		show(&(const struct peer){seals ? 1 : 3, 900, 1, 60000, UP}, "other", &foreign);
		assert_false(strcmp(vouch_of(seals ? 1 : 3)->said.name, "host1"));
		seal(3);
		assert_true(is_bound(3) && holds(3));
		assert_null(vouch_of(1));
		assert_null(vouch_of(2));
		assert_true(keeps(3, &first));
		meeting_teardown(state);
		meeting_setup(state);
	}
}

/* ... and with its clock set back, so its statement counts once the former id is silent. */
static void test_rotated_with_clock_set_back(void **state)
{
	const struct peer first = {1, 300, 1, 60000, UP}, second = {2, 200, 1, 5000, UP};
	struct mv_host_id first_id = peers_id(1);
	struct md_identity identity;

	(void)state;
	make_lasting(&identity);
	show(&first, "host1", &identity);
	seal(1);
	rotate(&identity);
	show(&second, "host1", &identity);
	assert_false(is_trusted(2));
	md_hosts_forget(&met.hosts, &first_id);
	show(&second, "host1", &identity);
	assert_true(is_trusted(2) && is_bound(1));
	seal(2);
	assert_true(is_bound(2) && holds(2));
}

/* The hosts file has the former key: the id is the host's own, with either key. */
static void test_rotated_with_key_of_file(void **state)
{
	const struct peer first = {1, 100, 1, 60000, UP}, later = {1, 100, 2, 60000, UP}, second = {2, 200, 1, 5000, UP};
	struct md_identity identity;

	(void)state;
	make_lasting(&identity);
	assert_int_equal(md_pins_set_file(&met.trust.pins, "host1", &identity.sign), 0);
	show(&first, "host1", &identity);
	seal(1);
	rotate(&identity);
	show(&later, "host1", &identity);
	assert_true(is_trusted(1) && is_bound(1));
	show(&second, "host1", &identity);
	assert_true(is_trusted(2) && is_bound(1));
	seal(2);
	assert_true(is_bound(2) && holds(2));
	assert_null(vouch_of(1));
}

/* Notes, and hosts, come and go in any order. */
static void test_lives_come_and_go(void **state)
{
	struct md_identity identity, foreign;
	struct mv_host_id id;

	(void)state;
	srandom(1);
	make_lasting(&identity);
	make_lasting(&foreign);
	for (unsigned int i = 0; i < 1000; i++) {
		const unsigned int n = 1 + (unsigned int)random() % 8;
		const struct peer peer = {n, 100 + i, 1, 5000, UP};

		id = peers_id(n);
		if (random() % 4 == 0)
			seal(n);
		else if (random() % 4 == 0)
			md_hosts_forget(&met.hosts, &id);
		else if (random() % 16 == 0)
			md_bound_drop_all(&met.trust);
		else if (random() % 16 == 0)
			rotate(&identity);
		else
			show(&peer, random() % 4 ? "host1" : "host2", random() % 8 ? &identity : &foreign);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, meeting_setup, meeting_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_former_life),
		TEST(test_former_life_first),
		TEST(test_gids_of_former_life),
		TEST(test_gids_of_older_lives),
		TEST(test_gids_after_silence),
		TEST(test_rotated_while_down),
		TEST(test_rotated_with_clock_set_back),
		TEST(test_rotated_with_key_of_file),
		TEST(test_lives_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
