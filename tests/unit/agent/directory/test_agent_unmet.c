/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* GIDs that a host announces without having been met on their link: the directory marks them as unmet, unless there is a fleet key. */
#include "peers.h"

#include "heardhosts.h"

/* Return: does the directory mark the GID, mv_dir_gid_is_unmet()? -1: the directory has no such GID. */
static int unmet(const char *gid_text)
{
	struct md_dir_build_from what = from();
	const union ibv_gid gid = unit_gid(gid_text);
	struct md_dir_build content;
	int ret = -1;

	assert_int_equal(md_dir_build_make(&what, MD_S, &content), 0);
	for (uint32_t g = 0; g < content.dir.n_gids; g++)
		if (mv_gid_equal(&content.dir.gids[g].gid, &gid))
			ret = mv_dir_gid_is_unmet(&content.dir.gids[g]);
	md_dir_build_free(&content);
	return ret;
}

#define UNMET_B "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1 down; gid 10.2.0.2/24 v2; gid 10.7.0.2/24 v2;"

/* A host announces an address of our network, but was never heard there: the address may belong to a host without an agent. */
static void test_unmet(void **state)
{
	(void)state;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_int_equal(unmet("10.1.0.2"), false);
	assert_int_equal(unmet("10.2.0.2"), true);
	assert_int_equal(unmet("10.7.0.2"), false); /* beyond a router */
	claim_again(true);
	assert_int_equal(unmet("10.2.0.2"), false);
	claim_again(false);
	assert_int_equal(unmet("10.2.0.2"), true);
	assert_int_equal(unmet("10.2.0.1"), false); /* our own */
	assert_int_equal(holder("10.2.0.2"), 1);
	/* Once heard on that link, the host counts as met there as long as it is known. */
	hear(1, 1, UNMET_B, 2, 1, 2 * MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
	md_hosts_forget_net(&hosts, 2);
	hear(1, 2, UNMET_B, 1, 0, 3 * MD_S);
	assert_int_equal(host(1)->sightings.n, 1);
	assert_int_equal(unmet("10.2.0.2"), false);
	hear(1, 3, UNMET_B "gid 10.2.0.3/24 v2;", 1, 0, 3 * MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
	assert_int_equal(unmet("10.2.0.3"), false);
}

/* A GID in grace has no index, which would hold the mark: the directory leaves the GID out. */
static void test_unmet_in_grace(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2; rail mlx5_1; gid 10.2.0.2/24 grace;", 1, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), -1);
	assert_int_equal(holder("10.2.0.2"), 1);
	claim_again(true);
	assert_int_equal(unmet("10.2.0.2"), false);
}

/* A host that answers at the address has been met. The agent asks there also for an address of the hosts file. */
static void test_unmet_answers(void **state)
{
	const struct mv_host_id id = peers_id(1);
	union ibv_gid gid = unit_gid("10.2.0.2");
	struct md_target *target;

	(void)state;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	target = md_targets_use(&targets, &gid, 0, MD_S);
	assert_non_null(target);
	host(1)->claimed.view = 0;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), true);
	assert_true(md_target_answered(target, &id, MD_S));
	host(1)->claimed.view = 0; /* as the agent does when an answer comes */
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
}

/* Beyond a router a host has to answer, too. */
static void test_unanswered(void **state)
{
	const struct mv_host_id id = peers_id(1);
	union ibv_gid gid = unit_gid("10.7.0.2");
	struct md_target *target;

	(void)state;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_true(md_gidmap_find(&map, &gid)->doubts == MV_DIR_INDEX_UNANSWERED);
	target = md_targets_use(&targets, &gid, 0, MD_S);
	assert_non_null(target);
	assert_true(md_target_answered(target, &id, MD_S));
	claim_again(false);
	assert_int_equal(md_gidmap_find(&map, &gid)->doubts, 0);
	assert_int_equal(holder("10.1.0.2"), 1);
	gid = unit_gid("10.1.0.2");
	assert_int_equal(md_gidmap_find(&map, &gid)->doubts, 0);
}

/*
 * While our own port is down, nothing leaves by it and nothing is marked. When the port is up again, all claims are
 * checked anew.
 */
static void test_unmet_when_ours_is_up(void **state)
{
	struct mv_dir_rail *rail = &view->desc->rails[1];

	(void)state;
	rail->flags = 0;
	view->nets[1].running = false;
	hear(1, 1, UNMET_B, 1, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
	rail->flags = MV_RAIL_UP;
	view->nets[1].running = true;
	view->number++;
	md_gidmap_own(&map, view);
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_int_equal(unmet("10.2.0.2"), true);
}

/* Two of our ports are in one network. Only a port with carrier counts: a host heard on the other port has not been met. */
static void test_unmet_where_it_carries(void **state)
{
	(void)state;
	md_view_free(view);
	view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2; rail mlx5_2; gid 10.2.0.7/24 v2;");
	hear(1, 1, UNMET_B, 3, 0, MD_S);
	assert_int_equal(unmet("10.2.0.2"), false);
	view->nets[2].running = false;
	claim_again(false);
	assert_int_equal(unmet("10.2.0.2"), true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_unmet, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet_in_grace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unanswered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet_when_ours_is_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unmet_where_it_carries, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
