/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Further addresses of hosts, which are asked because their hosts have told them: whose they are, and when they go. */
#include "hosts_fixture.h"

#include <stdio.h>

static void test_learned(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1"), two = unit_gid("10.4.0.1"), three = unit_gid("10.5.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target;

	(void)state;
	target = md_targets_use(&targets, &one, 77, MD_S);
	assert_true(md_targets_learn(&targets, &two, target));
	assert_false(md_targets_learn(&targets, &two, target));
	assert_false(md_targets_learn(&targets, &one, target));
	/* What follows from a learned one is the first one's. */
	assert_true(md_targets_learn(&targets, &three, md_targets_find(&targets, &two)));
	assert_true(mv_gid_equal(&md_targets_find(&targets, &three)->via, &one));
	assert_int_equal(targets.users->n, 3);
	n_asked = 0;
	md_targets_tick(&targets, 2 * MD_S, ask, NULL);
	assert_int_equal(n_asked, 3);
	first_tries(2 * MD_S);
	n_asked = 3;
	/* We have changed: those that answer are asked at once, the others when it is their time. */
	md_target_answered(md_targets_find(&targets, &two), &id, 2 * MD_S);
	md_targets_hurry(&targets, &map, true, 3 * MD_S);
	md_targets_tick(&targets, 3 * MD_S, ask, NULL);
	assert_int_equal(n_asked, 4);
	/* Nobody needs the first one any more. */
	md_targets_tick(&targets, 2 * MD_S + MD_TARGET_IDLE_NS, ask, NULL);
	md_targets_tick(&targets, 3 * MD_S + MD_TARGET_IDLE_NS, ask, NULL);
	assert_int_equal(targets.n, 0);
	assert_null(targets.users);
}

/* A description of eight rails, the first of which has 10.3.0.1, and the others addresses that only description @n has. */
static struct md_desc *with_addresses(unsigned int n)
{
	char text[8 * 48];
	size_t len = (size_t)snprintf(text, sizeof(text), "rail mlx5_0; gid 10.3.0.1/24 v2;");

	for (unsigned int i = 1; i < 8; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "rail mlx5_%u; gid 10.%u.%u.%u/24 v2;", i, 10 + i, n / 250, 1 + n % 250);
	return peers_desc(text);
}

/* The address of a port that is down stays, because its connections move by it; so does an address that a process asks for. */
static void test_learned_and_kept(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1"), other = unit_gid("10.4.0.1");
	struct md_desc *kept = peers_desc("rail mlx5_0; gid 10.3.0.1/28 v2; rail mlx5_1 down; gid 10.4.0.1/28 grace;");
	struct md_desc *gone = peers_desc("rail mlx5_0; gid 10.3.0.1/28 v2;");

	(void)state;
	md_targets_use(&targets, &one, 77, MD_S);
	assert_true(md_targets_learn(&targets, &other, md_targets_find(&targets, &one)));
	md_targets_unlearn(&targets, md_targets_find(&targets, &one), kept);
	assert_non_null(md_targets_find(&targets, &other));
	md_targets_use(&targets, &other, 77, MD_S);
	md_targets_unlearn(&targets, md_targets_find(&targets, &one), gone);
	assert_non_null(md_targets_find(&targets, &other));
	free(kept);
	free(gone);
}

/* A host that has ever other addresses takes no more than its part of the account of who asked for it. */
static void test_learned_ever_others(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1"), file = unit_gid("10.11.0.1");
	const struct md_target *of;

	(void)state;
	md_targets_use(&targets, &one, 77, MD_S);
	for (unsigned int n = 0; n < 1000; n++) {
		struct md_desc *desc = with_addresses(n);

		of = md_targets_find(&targets, &one);
		md_targets_unlearn(&targets, of, desc);
		for (uint32_t g = 0; g < desc->n_gids; g++)
			md_targets_learn(&targets, &desc->gids[g].gid, of);
		assert_int_equal(targets.n, 8);
		for (uint32_t g = 0; g < desc->n_gids; g++)
			assert_non_null(md_targets_find(&targets, &desc->gids[g].gid));
		free(desc);
		assert_int_equal(targets.users->n, 8);
	}
	/* Ever more addresses in one description. */
	for (unsigned int n = 0; n < 100; n++) {
		union ibv_gid gid = one;

		gid.raw[13] = 100;
		gid.raw[15] = (uint8_t)n;
		md_targets_learn(&targets, &gid, md_targets_find(&targets, &one));
	}
	assert_int_equal(targets.n, 1 + MD_LEARNED_TARGETS);
	/* An address of the hosts file stays, without account. */
	{
		struct md_desc *desc = with_addresses(0), *none = peers_desc("rail mlx5_0;");

		md_targets_unlearn(&targets, md_targets_find(&targets, &one), none);
		assert_int_equal(targets.n, 1);
		assert_true(md_targets_learn(&targets, &desc->gids[1].gid, md_targets_find(&targets, &one)));
		assert_int_equal(md_targets_add(&targets, &file, "host1"), 0);
		assert_true(mv_gid_equal(&desc->gids[1].gid, &file));
		/* The host has answered at an address that it no longer has. */
		md_targets_unlearn(&targets, md_targets_find(&targets, &file), none);
		assert_non_null(md_targets_find(&targets, &file));
		assert_true(md_targets_learn(&targets, &desc->gids[2].gid, md_targets_find(&targets, &one)));
		md_targets_unlearn(&targets, md_targets_find(&targets, &desc->gids[2].gid), none);
		assert_null(md_targets_find(&targets, &desc->gids[2].gid));
		assert_int_equal(targets.n, 2);
		free(desc);
		free(none);
	}
}

/* A host that lists the further address of another does not take it along when it goes. */
static void test_learned_by_another(void **state)
{
	const struct mv_host_id thief = {.bytes = {1}}, owner = {.bytes = {2}};
	const union ibv_gid further = unit_gid("10.202.0.2");
	struct md_target *of_thief = use("10.201.0.1", 1000, MD_S), *of_owner = use("10.202.0.1", 1001, MD_S);
	const struct md_desc empty = {0};

	(void)state;
	tick(MD_S);
	md_target_answered(of_thief, &thief, MD_S);
	md_target_answered(of_owner, &owner, MD_S);
	assert_true(md_targets_learn(&targets, &further, of_thief));
	/* Whose it is nobody knows before one has answered there. */
	assert_false(md_targets_learn(&targets, &further, of_owner));
	tick(2 * MD_S);
	md_target_answered(md_targets_find(&targets, &further), &owner, 2 * MD_S);
	assert_false(md_targets_learn(&targets, &further, of_thief));
	assert_true(md_targets_learn(&targets, &further, of_owner));
	assert_false(md_targets_learn(&targets, &further, of_owner));
	assert_int_equal(of_owner->n_learned, 1);
	md_targets_unlearn(&targets, of_thief, &empty);
	assert_int_equal(of_thief->n_learned, 0);
	assert_non_null(md_targets_find(&targets, &further));
	use("10.202.0.1", 1001, 500 * MD_S);
	tick(700 * MD_S);
	assert_int_equal(targets.n, 2);
	assert_int_equal(md_targets_find(&targets, &further)->payer->account, 1001);
	md_targets_unlearn(&targets, of_owner, &empty);
	assert_null(md_targets_find(&targets, &further));
}

/* A host has two addresses that were asked for. Its further address does not go with the one that is needed no more. */
static void test_learned_at_two_addresses(void **state)
{
	const struct mv_host_id owner = {.bytes = {2}};
	const union ibv_gid in_file = unit_gid("10.202.0.1"), further = unit_gid("10.202.0.3");
	struct md_target *of_file, *of_process;

	(void)state;
	assert_int_equal(md_targets_add(&targets, &in_file, "b"), 0);
	of_file = md_targets_find(&targets, &in_file);
	of_process = use("10.202.0.2", 1001, MD_S);
	tick(MD_S);
	md_target_answered(of_file, &owner, MD_S);
	md_target_answered(of_process, &owner, MD_S);
	assert_true(md_targets_learn(&targets, &further, of_file));
	tick(2 * MD_S);
	md_target_answered(md_targets_find(&targets, &further), &owner, 2 * MD_S);
	/* The host has not answered at the address of the file for a while. */
	assert_false(md_targets_learn(&targets, &further, of_process));
	tick(700 * MD_S);
	assert_int_equal(targets.n, 2);
	assert_non_null(md_targets_find(&targets, &further));
}

static void learn_all(uint32_t first)
{
	union ibv_gid one = mv_gid_from_ipv4(htonl(first)), further;

	for (uint32_t j = 1; j <= MD_LEARNED_TARGETS; j++) {
		further = mv_gid_from_ipv4(htonl(first + j));
		md_targets_learn(&targets, &further, md_targets_find(&targets, &one));
	}
}

/* Thousands of hosts of the hosts file, or of an account, with eight further addresses each: a process finds others. */
static void test_learned_of_thousands(void **state)
{
	union ibv_gid gid;
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < MD_FILE_ADDRS_MAX; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000000 + 16 * i));
		assert_int_equal(md_targets_add(&targets, &gid, "x"), 0);
	}
	for (uint32_t i = 0; i < MD_FILE_ADDRS_MAX; i++)
		learn_all(0x0a000000 + 16 * i);
	assert_int_equal(targets.n, MD_TARGETS_PER_ACCOUNT);
	use("10.201.0.1", 1000, MD_S);
	free_targets(state);
	reset_targets(state);
	for (uint32_t i = 0; i < 3000; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000000 + 16 * i));
		assert_non_null(md_targets_use(&targets, &gid, 1000, MD_S));
		learn_all(0x0a000000 + 16 * i);
	}
	/* So many hosts got further addresses: the last one not all of them. */
	n = (MD_TARGETS_PER_ACCOUNT / 2 + MD_LEARNED_TARGETS) / (MD_LEARNED_TARGETS + 1);
	assert_int_equal(targets.n, MD_TARGETS_PER_ACCOUNT / 2 + 3000 - n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_learned, hosts_setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_learned_and_kept, hosts_setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_learned_ever_others, hosts_setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_learned_by_another, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_learned_at_two_addresses, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_learned_of_thousands, reset_targets, free_targets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
