// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* How often the agent's directory is searched for other paths, and how long its file and what was found are kept. */
#include "published.h"

#include <stdio.h>

/* Who asks nothing any more does not keep the files of former directories, but for the last one until there is time. */
static void test_forgotten(void **state)
{
	const union ibv_gid own = unit_gid("10.1.0.1"), remote = unit_gid("10.1.0.2");
	const struct mv_directory *dir;

	(void)state;
	atomic_store(&process.thread, (struct mesh_helper *)&process); /* nobody looks into it */
	mesh_directory_forget(); /* nothing yet */
	mesh_directory_rest();
	publish(A B);
	assert_true(mesh_directory_has_path(&own, &remote));
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	mesh_directory_rest(); /* not what is in use */
	assert_true(mesh_directory_has_path(&own, &remote));
	dir = (const struct mv_directory *)process.directory.state; /* its first member */
	publish(A);
	mesh_directory_forget();
	assert_null(dir->header);
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	assert_false(mesh_directory_has_path(&own, &remote));
	assert_int_equal(tmpdir_mapped(&tmp), 2);
	publish(A B);
	mesh_directory_forget();
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
	assert_int_equal(tmpdir_mapped(&tmp), 2);
	mesh_directory_rest();
	assert_int_equal(tmpdir_mapped(&tmp), 1);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
	mesh_directory_forget();
	mesh_directory_rest();
	assert_int_equal(tmpdir_mapped(&tmp), 0);
	/* Without that thread nobody comes by later. */
	atomic_store(&process.thread, NULL);
	assert_true(mesh_directory_has_path(&own, &remote));
	publish(A);
	assert_false(mesh_directory_has_path(&own, &remote));
	assert_int_equal(tmpdir_mapped(&tmp), 1);
}

/* The agent was stopped and started: its former directory was deleted, so nothing is said in that, and it has been alive lately. */
static void test_renewed(void **state)
{
	const union ibv_gid own = unit_gid("10.1.0.1"), remote = unit_gid("10.1.0.2");

	(void)state;
	mesh_directory_renew(); /* nothing yet */
	publish(A B);
	assert_true(mesh_directory_has_path(&own, &remote));
	delete();
	mesh_directory_renew();
	assert_true(mesh_directory_has_path(&own, &remote)); /* there is no other */
	publish(A);
	assert_true(mesh_directory_has_path(&own, &remote));
	mesh_directory_renew();
	assert_false(mesh_directory_has_path(&own, &remote));
	/* What there was not a moment ago is looked for at once. */
	delete();
	clock_ns += 6 * SECOND;
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_UNKNOWN, false);
	publish(A B);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_UNKNOWN, false);
	mesh_directory_renew();
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
	delete();
	clock_ns += 6 * SECOND;
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_UNKNOWN, false);
	publish(A B);
	mesh_directory_forget();
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
}

/* Ranks of queue pairs go to the same few peers. */
static void test_searched_once(void **state)
{
	struct mv_path_request primary = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2"), now = primary;
	struct mesh_path_decision decision;

	(void)state;
	now.device = "d1";
	now.sgid = unit_gid("10.2.0.1");
	now.dgid = unit_gid("10.2.0.2");
	publish(A B_DOWN);
	for (unsigned int i = 0; i < 1000; i++) {
		mesh_directory_decide(&primary, &decision);
		assert_int_equal(decision.verdict, MV_PATH_REMOTE_DOWN);
		assert_int_equal(decision.n_paths, 1);
		mesh_directory_paths(&primary, &decision);
		assert_int_equal(decision.n_paths, 1);
		mesh_directory_paths(&now, &decision);
		assert_int_equal(decision.n_paths, 1);
	}
	assert_int_equal(n_searches, 2);
	/* Each change is seen at once. */
	publish(A B);
	mesh_directory_paths(&primary, &decision);
	assert_int_equal(n_searches, 3);
	assert_int_equal(decision.n_paths, 3);
	assert_int_equal(decision.paths[0].stays, 3);
	publish(A B);
	mesh_directory_paths(&primary, &decision);
	assert_int_equal(n_searches, 4);
}

/* Groups of connections have paths of equal rank in orders of their own. */
static void test_spread(void **state)
{
	struct mv_path_request request = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2");
	struct mesh_path_decision decision;

	(void)state;
	publish(A B);
	for (request.spread = 0; request.spread < 4; request.spread++) {
		mesh_directory_paths(&request, &decision);
		mesh_directory_paths(&request, &decision);
		assert_int_equal(n_searches, request.spread + 1);
	}
}

/* As one would be told who searched anew. */
static void check_paths(const struct mv_path_request *request)
{
	struct mv_path paths[MV_MOVE_MAX_PATHS];
	uint32_t host = 0, rail = 0;
	struct mesh_path_decision decision;
	size_t n = 0, i;

	mesh_directory_paths(request, &decision);
	assert_int_equal(decision.verdict, mv_path_decide(&world.dir, request, &host, &rail));
	if (decision.verdict != MV_PATH_UNKNOWN && decision.verdict != MV_PATH_SELF)
		n = __real_mv_path_find(&world.dir, request, host, rail, paths, MV_MOVE_MAX_PATHS);
	assert_int_equal(decision.n_paths, n);
	for (i = 0; i < n; i++) {
		assert_int_equal(decision.paths[i].local_rail, paths[i].local_rail);
		assert_int_equal(decision.paths[i].remote_rail, paths[i].remote_rail);
		assert_true(mv_gid_equal(&decision.paths[i].local_gid, &paths[i].local_gid));
		assert_true(mv_gid_equal(&decision.paths[i].remote_gid, &paths[i].remote_gid));
		assert_int_equal(decision.paths[i].type, paths[i].type);
		assert_int_equal(decision.paths[i].stays, paths[i].stays);
		assert_int_equal(decision.paths[i].linked, paths[i].linked);
	}
}

/* With everything that may make a difference. */
static void check_requests(const char *from, const char *to)
{
	struct mv_path_request request = {.sgid = unit_gid(from), .dgid = unit_gid(to)};
	unsigned int n, i;

	for (n = 0; n < 64; n++) {
		i = n ^ n >> 1; /* from one to the next, one thing changes */
		request.device = i & 1 ? "d1" : "d0";
		request.port_num = i & 2 ? 2 : 1;
		request.sgid_type = i & 4 ? MV_GID_TYPE_ROCE_V1 : MV_GID_TYPE_ROCE_V2;
		request.routed = !!(i & 8);
		request.own_host = !!(i & 16);
		request.down_too = !!(i & 32);
		check_paths(&request);
	}
}

static void test_each_its_own(void **state)
{
	/* More pairs of them than are remembered. */
	static const char a[] = "host a; rail d0; gid fe80::a v2; gid 10.1.0.1/24 v2; gid 10.1.0.2/24 v2; gid 10.1.0.3/24 v1; gid 10.1.0.4/24 v1;"
				"gid 10.1.0.5/24 v2; gid 10.1.0.6/24 v2; rail d1 down; gid 10.1.0.7/24 v2; gid 10.2.0.8/24 v2;"
				"rail d1 port 2; gid 10.2.0.9/24 v2; rail d2 down; gid 10.1.0.7/24 v2;";
	static const char b[] = "host b; rail d0; gid fe80::b v2; gid 10.1.0.21/24 v2; gid 10.1.0.22/24 v2; gid 10.1.0.23/24 v1;"
				"gid 10.1.0.24/24 v1; gid 10.1.0.25/24 v2; gid 10.1.0.26/24 v2; rail d1 down; gid 10.1.0.27/24 v2;"
				"gid 10.2.0.28/24 v2; rail d2; gid 10.2.0.29/24 v2;";
	char text[2048], from[16], to[16];

	(void)state;
	for (unsigned int round = 0; round < 2; round++) {
		snprintf(text, sizeof(text), "%s%s%s", a, b, round ? "link 0 4; link 0 6;" : "");
		publish(text);
		for (unsigned int i = 1; i <= 9; i++)
			for (unsigned int k = 21; k <= 29; k++) {
				snprintf(from, sizeof(from), "10.%u.0.%u", 1 + i / 8, i);
				snprintf(to, sizeof(to), "10.%u.0.%u", 1 + k / 28, k);
				check_requests(from, to);
				check_requests(from, from);
			}
		check_requests("fe80::a", "fe80::b");
	}
	assert_true(n_searches > 2 * 81);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_forgotten, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_renewed, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_spread, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_searched_once, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_each_its_own, published_setup, published_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
