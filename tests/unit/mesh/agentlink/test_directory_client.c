// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the agent's directory says of a path, and of who is at an address. */
#include "published.h"

#include "failover_policy.h"
#include "path_select.h"

static void test_verdicts(void **state)
{
	(void)state;
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_UNKNOWN, false); /* no agent */
	clock_ns += 2 * SECOND;
	publish(A B);
	for (int i = 0; i < 2; i++) {
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_WORKS, false);
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V1, "10.1.0.2", MV_PATH_ASK, false);
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.2.0.2", MV_PATH_APART, false);
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.2.0.1", MV_PATH_SELF, false);
		check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.9.0.1", MV_PATH_UNKNOWN, false);
		check_verdict("::", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_NO_ENTRY, false);
	}
	publish(A B_DOWN);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_REMOTE_DOWN, false);
	publish_drained(A_DOWN B, 0);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_LOCAL_DOWN, true);
	publish_drained(A B_DOWN, 2);
	check_verdict("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2", MV_PATH_REMOTE_DOWN, true);
}

/* What the agent is asked to watch: it has to know both ends. */
static void test_has_path(void **state)
{
	const union ibv_gid own = unit_gid("10.1.0.1"), remote = unit_gid("10.1.0.2"), nobody = unit_gid("10.9.0.1");

	(void)state;
	assert_true(mesh_directory_has_path(&nobody, &nobody)); /* without a directory it is the agent that can tell */
	clock_ns += 2 * SECOND;
	publish(A B);
	assert_true(mesh_directory_has_path(&own, &remote));
	assert_false(mesh_directory_has_path(&own, &nobody));
	assert_false(mesh_directory_has_path(&nobody, &remote));
	assert_false(mesh_directory_has_path(&own, &own));
	assert_false(mesh_directory_has_path(&remote, &remote));
}

/* A path that failed has other addresses, too. */
static void test_same_rail(void **state)
{
	const union ibv_gid first = unit_gid("10.1.0.1"), second = unit_gid("10.1.0.2"), third = unit_gid("10.1.0.3"), nobody = unit_gid("10.9.0.1");

	(void)state;
	assert_true(mesh_directory_same_rail(&first, &first)); /* without a directory as well */
	assert_false(mesh_directory_same_rail(&first, &second));
	clock_ns += 2 * SECOND;
	publish("host a; rail d0; gid 10.1.0.1/24 v1; gid 10.1.0.2/24 v2; rail d1; gid 10.1.0.3/24 v2; host b; rail d0; gid 10.1.0.1/24 v2;");
	assert_true(mesh_directory_same_rail(&first, &second));
	assert_true(mesh_directory_same_rail(&second, &first));
	assert_false(mesh_directory_same_rail(&first, &third));
	assert_false(mesh_directory_same_rail(&third, &second));
	assert_false(mesh_directory_same_rail(&first, &nobody));
}

static unsigned int n_holders(const char *gid)
{
	const union ibv_gid at = unit_gid(gid);

	return mesh_directory_n_holders(&at);
}

static void check_holder(uint8_t host, const char *gid, enum mesh_holder expected, uint32_t expected_flags)
{
	const struct mv_host_id id = {.bytes = {host}};
	const union ibv_gid at = unit_gid(gid);
	uint32_t flags = 0;

	assert_int_equal(mesh_directory_holder(&id, &at, &flags), expected);
	assert_int_equal(flags, expected_flags);
}

/* What works for a connection that is there is not known to work for one that is being made; the other way round it is. */
static void test_unmet(void **state)
{
	struct mv_path_request request = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2");
	struct mesh_path_decision decision;

	(void)state;
	clock_ns += 2 * SECOND;
	publish("host a; rail d0; gid 10.1.0.1/24 v2; host b; rail d0; gid 10.1.0.2/24 v2 unmet;");
	request.made = 1;
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_WORKS);
	request.made = 0;
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_UNKNOWN);
	publish("host a; rail d0; gid 10.1.0.1/24 v2; host b; rail d0; gid 10.1.0.2/24 v2;");
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_WORKS);
	request.made = 1;
	mesh_directory_paths(&request, &decision); /* host and rail are those of before */
	assert_int_equal(decision.verdict, MV_PATH_WORKS);
	assert_string_equal(decision.host, "b");
	assert_int_equal(decision.paths[0].remote_rail, 1);
	/* Once it is known whose it is, nobody else's counts. */
	request.host = &(struct mv_host_id){.bytes = {2}};
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_WORKS);
	request.host = &(struct mv_host_id){.bytes = {3}};
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.verdict, MV_PATH_UNKNOWN);
}

/* Addresses that may belong to a host without an agent, and where the kernel has found no host. */
static void test_doubted(void **state)
{
	const union ibv_gid a = unit_gid("10.1.0.1"), unmet = unit_gid("10.1.0.2"), unanswered = unit_gid("10.9.0.2"), b = unit_gid("10.1.0.3");

	(void)state;
	assert_false(mesh_directory_is_doubted(&unmet, true)); /* no agent */
	clock_ns += 2 * SECOND;
	publish("host a; rail d0; gid 10.1.0.1/24 v2; host b; rail d0; gid 10.1.0.2/24 v2 unmet; gid 10.9.0.2/24 v2 unanswered; gid 10.1.0.3/24 v2;");
	assert_true(mesh_directory_is_doubted(&unmet, true));
	assert_true(mesh_directory_is_doubted(&unmet, false));
	/* Without a route no packet gets to an address of no network of this host. */
	assert_true(mesh_directory_is_doubted(&unanswered, true));
	assert_false(mesh_directory_is_doubted(&unanswered, false));
	assert_false(mesh_directory_is_doubted(&b, true));
	assert_false(mesh_directory_is_doubted(&a, true));
	assert_true(mesh_directory_is_stranger(&unanswered, true));
	assert_false(mesh_directory_is_stranger(&unanswered, false));
	assert_true(mesh_directory_is_stranger(&unmet, true));
	assert_true(mesh_directory_is_stranger(&unmet, false));
	assert_false(mesh_directory_is_stranger(&b, true));

	assert_false(mesh_directory_is_absent(&a, &unmet));
	mesh_directory_note_absent(&a, &unmet);
	assert_false(mesh_directory_is_absent(&b, &unmet));
	assert_false(mesh_directory_is_absent(&a, &b));
	clock_ns += 9 * SECOND;
	assert_true(mesh_directory_is_absent(&a, &unmet));
	clock_ns += SECOND;
	assert_false(mesh_directory_is_absent(&a, &unmet));
}

/* Hosts are numbered from 1. */
static void test_holder(void **state)
{
	struct mv_path_request request = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.2");
	struct mesh_path_decision decision;

	(void)state;
	check_holder(2, "10.1.0.2", MESH_HOLDER_UNKNOWN, 0);
	assert_int_equal(n_holders("10.1.0.2"), 0);
	clock_ns += 2 * SECOND;
	publish(A B);
	check_holder(2, "10.1.0.2", MESH_HOLDER_SAME, 0);
	check_holder(1, "10.1.0.2", MESH_HOLDER_OTHER, 0);
	check_holder(2, "10.9.0.1", MESH_HOLDER_UNKNOWN, 0);
	mesh_directory_verdict(&request, &decision);
	assert_int_equal(decision.host_id.bytes[0], 2);
	flags_of_b = MV_PEER_AUTHENTICATED | MV_PEER_ROUTED;
	publish(A B);
	flags_of_b = 0;
	check_holder(2, "10.1.0.2", MESH_HOLDER_SAME, MV_PEER_AUTHENTICATED | MV_PEER_ROUTED);
	/* A link-local address may be of both. */
	publish("host a; rail d0; gid 10.1.0.1/24 v2; gid fe80::1 v2; host b; rail d0; gid fe80::1 v2; gid 10.1.0.2/24 v2; "
		"rail d1; gid fe80::1 v2;");
	check_holder(1, "fe80::1", MESH_HOLDER_SAME, 0);
	check_holder(2, "fe80::1", MESH_HOLDER_SAME, 0);
	check_holder(3, "fe80::1", MESH_HOLDER_OTHER, 0);
	assert_int_equal(n_holders("10.1.0.2"), 1);
	assert_int_equal(n_holders("fe80::1"), 2);
}

/* Of thousands that are away, each asks for the way back to the primary path with each directory. */
static void test_way_to_primary(void **state)
{
	struct mesh_conn conn = {.qp = &(struct ibv_qp){0},
				 .state = MESH_CONN_MOVED,
				 .primary = {.device = "d0",
					     .port = 1,
					     .gid = unit_gid("10.1.0.1"),
					     .gid_type = MV_GID_TYPE_ROCE_V2,
					     .peer_gid = unit_gid("10.1.0.2")}};
	struct mv_path path;

	(void)state;
	publish(A_DOWN B);
	assert_int_equal(mesh_conn_paths_for(&conn, MV_CTL_REASON_PRIMARY, &path), 0);
	publish(A B_DOWN);
	assert_int_equal(mesh_conn_paths_for(&conn, MV_CTL_REASON_PRIMARY, &path), 0);
	assert_int_equal(n_searches, 0);
	publish(A B);
	assert_int_equal(mesh_conn_paths_for(&conn, MV_CTL_REASON_PRIMARY, &path), 1);
	assert_gid(path.local_gid, "10.1.0.1");
	assert_gid(path.remote_gid, "10.1.0.2");
	assert_int_equal(path.type, MV_GID_TYPE_ROCE_V2);
	assert_int_equal(n_searches, 1);
}

static struct mesh_vqp vqp;

/* Nor does who only wants to know whether its path works look for another. */
static void test_path_works(void **state)
{
	struct mesh_conn conn = {.qp = &(struct ibv_qp){0},
				 .state = MESH_CONN_MOVED,
				 .vqp = &vqp,
				 .path = {.device = "d0",
					  .port = 1,
					  .gid = unit_gid("10.1.0.1"),
					  .gid_type = MV_GID_TYPE_ROCE_V2,
					  .peer_gid = unit_gid("10.1.0.2")}};

	(void)state;
	publish(A B);
	assert_true(mesh_conn_path_works(&conn));
	publish(A B_DOWN);
	assert_false(mesh_conn_path_works(&conn));
	publish_drained(A B_DOWN, 2);
	assert_true(mesh_conn_path_works(&conn));
	assert_int_equal(n_searches, 0);
}

/* What works by prefixes may not work by links. */
static void test_by_links(void **state)
{
	struct mv_path_request request = request_to("10.1.0.1", MV_GID_TYPE_ROCE_V2, "10.1.0.4");
	struct mesh_path_decision decision;

	(void)state;
	publish("host a; rail d0; gid 10.1.0.1/24 v2; rail d1; gid 10.1.0.2/24 v2;"
		"host b; rail d0; gid 10.1.0.3/24 v2; rail d1; gid 10.1.0.4/24 v2; link 0 2; link 1 3;");
	for (unsigned int i = 0; i < 4; i++) {
		request.by_links = i % 2;
		mesh_directory_verdict(&request, &decision);
		assert_int_equal(decision.verdict, request.by_links ? MV_PATH_APART : MV_PATH_WORKS);
	}
}

#define IB_A "host a; rail d0 ib lid 3 dev ib0; gid fe80::a0 ib;"

/* As the directory of the moment has it. */
static void test_lid(void **state)
{
	struct mv_lid_ends ends;

	(void)state;
	assert_int_equal(mesh_directory_lid("d0", 1, 6, &ends), -ENOENT); /* no agent */
	mesh_directory_forget();
	publish(IB_A "host b; rail d0 ib lid 6 dev ib0; gid fe80::b0 ib; rail d1 ib lid 70 dev ib1; gid fe80::b1 ib; link 0 1; link 0 2;");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mesh_directory_lid("d0", 1, 6, &ends), 0);
		assert_gid(ends.local, "fe80::a0");
		assert_gid(ends.remote, "fe80::b0");
		assert_int_equal(mesh_directory_lid("d0", 1, 70, &ends), 0); /* as 6, modulo 64 */
		assert_gid(ends.remote, "fe80::b1");
		assert_int_equal(mesh_directory_lid("d0", 2, 6, &ends), -ENODEV);
		assert_int_equal(mesh_directory_lid("d1", 1, 6, &ends), -ENODEV);
		assert_int_equal(mesh_directory_lid("d0", 1, 7, &ends), -ENOENT);
	}
	/* The subnet manager has given out others. */
	publish(IB_A "host b; rail d0 ib lid 7 dev ib0; gid fe80::b0 ib; link 0 1;");
	assert_int_equal(mesh_directory_lid("d0", 1, 6, &ends), -ENOENT);
	assert_int_equal(mesh_directory_lid("d0", 1, 7, &ends), 0);
	assert_gid(ends.remote, "fe80::b0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_verdicts, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_has_path, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_same_rail, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_holder, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_way_to_primary, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_path_works, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_unmet, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_doubted, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_by_links, published_setup, published_teardown),
		cmocka_unit_test_setup_teardown(test_lid, published_setup, published_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
