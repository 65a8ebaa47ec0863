/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections of InfiniBand: by GIDs of other subnets, and by LIDs without a GRH. */
#include "two_subnets.h"

#include "connectint.h"
#include "ud.h"

/* Nobody here knows of routers between subnets of InfiniBand. */
static void infiniband_router(void)
{
	struct ibv_context *context = open_in("host a; rail mlx5_0 ib; gid fec0:0:0:1::1 ib; rail mlx5_1 ib; gid fec0:0:0:8::1 ib;"
					      "host b; rail mlx5_0 ib; gid fec0:0:0:2::2 ib; rail mlx5_1 ib; gid fec0:0:0:8::2 ib;"
					      "host c; rail mlx5_0 ib; gid fe80::3 ib; rail mlx5_1 ib; gid fec0:0:0:8::3 ib;");
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE};

	set_gid(0, 1, "fec0:0:0:1::1", 0);
	fake.state->gids[0].type = IBV_GID_TYPE_IB;
	fake.state->n_gids = 1;
	fake.async_event(context, &event);
	assert_int_equal(mc->tables.devices[0].ports[0].link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_false(rtr_holds_to(context, "fec0:0:0:2::2"));
	assert_true(ah_is_the_programs_to(context, "fec0:0:0:2::2"));
	/* But that they do not forward this. */
	assert_true(rtr_holds_to(context, "fe80::3"));
	/* Datagrams without a LID stay. */
	assert_true(ah_is_the_programs_to(context, "fe80::3"));
	close_in(context);
}

/* Return: was it to be held? */
static bool rtr_holds_to_lid(struct ibv_context *context, uint16_t dlid, enum ibv_qp_type type)
{
	struct ibv_qp qp = {.context = context, .qp_type = type, .qp_num = 7};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .dest_qp_num = 8, .ah_attr = {.dlid = dlid, .port_num = 1}};
	struct mesh_conn *conn = type == IBV_QPT_RC ? mesh_conn_new(mesh_context_get(context), &qp) : NULL;
	unsigned int before = n_vqps, n = fake.state->n_modify, waits = n_lookups;

	assert_int_equal(fake.modify_qp(&qp, &attr, RTR_MASK), 0);
	assert_int_equal(fake.state->n_modify, n + 1);
	assert_int_equal(attr.ah_attr.dlid, dlid);
	assert_int_equal(attr.ah_attr.is_global, 0);
	assert_int_equal(n_lookups, waits);
	if (conn) {
		mesh_conn_unlink(conn);
		mesh_conn_put(conn);
	}
	return n_vqps != before;
}

#define LIDS_A "host a; rail mlx5_0 ib lid 3 dev ib0; gid fe80::a0 ib; rail mlx5_1 ib lid 4 dev ib1 down; gid fe80::a1 ib;"
#define LIDS_B "host b; rail mlx5_0 ib lid 5 dev ib0 down; gid fe80::b0 ib; rail mlx5_1 ib lid 6 dev ib1; gid fe80::b1 ib;"

/* Connections without a GRH. */
static void infiniband_by_lid(void)
{
	struct ibv_context *context = open_in(LIDS_A LIDS_B "link 0 3;");
	struct mesh_context *mc = mesh_context_get(context);

	assert_false(rtr_holds_to_lid(context, 6, IBV_QPT_RC));
	assert_true(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	/* Nobody's; this host's own; no LID of one port; no reliable connection. */
	assert_false(rtr_holds_to_lid(context, 7, IBV_QPT_RC));
	assert_false(rtr_holds_to_lid(context, 4, IBV_QPT_RC));
	assert_false(rtr_holds_to_lid(context, 0xffff, IBV_QPT_RC));
	assert_false(rtr_holds_to_lid(context, 5, IBV_QPT_UC));
	mc->sees_peers = false;
	assert_false(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	mc->sees_peers = true;
	close_in(context);
}

/*
 * A QP that is connected to itself by its port's LID. Where the directory has the LID of some seconds ago, another host may have that
 * LID now, and a QP of the same number.
 */
static void infiniband_by_own_lid(void)
{
	struct ibv_qp_attr attr = {.dest_qp_num = 7, .ah_attr = {.dlid = 3, .port_num = 1}};
	struct ibv_qp qp = {.qp_type = IBV_QPT_RC, .qp_num = 7};
	struct ibv_context *context;
	struct mesh_choice choice;
	struct mesh_context *mc;
	struct mesh_path_decision decision;

	asks_port = true;
	context = qp.context = open_in(LIDS_A LIDS_B "link 0 3;");
	mc = mesh_context_get(context);
	assert_non_null(mc->lower.query_port);
	fake.state->port.lid = 3;
	mesh_decide_rtr(mc, &qp, &attr, false, &choice, &decision);
	assert_int_equal(decision.verdict, MV_PATH_SELF);
	fake.state->port.lid = 2;
	fake.state->port.lmc = 1;
	mesh_decide_rtr(mc, &qp, &attr, false, &choice, &decision);
	assert_int_equal(decision.verdict, MV_PATH_SELF);
	fake.state->port.lmc = 0;
	fake.state->port.lid = 9;
	mesh_decide_rtr(mc, &qp, &attr, false, &choice, &decision);
	assert_int_equal(decision.verdict, MV_PATH_UNKNOWN);
	close_in(context);
}

/* Where two hosts may be meant, or the agent of the one that is is too old, all stays as the program asks. */
static void infiniband_by_doubtful_lid(void)
{
	struct ibv_context *context = open_in(LIDS_A LIDS_B "host c; rail mlx5_0 ib lid 5 dev ib0 down; gid fe80::c0 ib; link 0 3;");

	assert_false(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	close_in(context);
}

static void infiniband_without_agent(void)
{
	struct ibv_context *context = open_in(LIDS_A LIDS_B "link 0 3;");

	assert_true(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	((struct mv_dir_host *)&world.dir.hosts[1])->agent_version = 0;
	assert_false(rtr_holds_to_lid(context, 5, IBV_QPT_RC));
	close_in(context);
}

/* Return: is it the lower provider's handle, as the program asked? */
static bool ah_stays(struct ibv_context *context, const char *to, uint16_t dlid, bool is_global)
{
	struct ibv_pd pd = {.context = context};
	struct ibv_ah_attr attr = {
		.is_global = is_global, .dlid = dlid, .port_num = 1, .grh = {.sgid_index = 1, .dgid = gid(to)}};
	struct ibv_ah *ah = fake.create_ah(&pd, &attr);
	bool stays = fake.state->ah_dlid == dlid;

	assert_non_null(ah);
	assert_true(stays || fake.state->ah_dlid == 0xfffe); /* that of the handle that leads nowhere */
	assert_int_equal(attr.dlid, dlid);
	ah->context = context; /* libibverbs' part */
	assert_int_equal(mesh_destroy_ah(ah), 0);
	return stays;
}

/* A port of InfiniBand at index 1, with LID 3. */
static struct ibv_context *open_fabrics(const char *text)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE};
	struct ibv_context *context;

	asks_port = true;
	context = open_in(text);
	set_gid(0, 1, "fe80::a0", 0);
	fake.state->gids[0].type = IBV_GID_TYPE_IB;
	fake.state->n_gids = 1;
	fake.state->port.lid = 3;
	fake.async_event(context, &event);
	return context;
}

#define UP_A "host a; rail mlx5_0 ib lid 3 dev ib0; gid fe80::a0 ib; rail mlx5_1 ib lid 4 dev ib1; gid fe80::a1 ib;"
#define UP_B "host b; rail mlx5_0 ib lid 5 dev ib0; gid fe80::b0 ib; rail mlx5_1 ib lid 6 dev ib1; gid fe80::b1 ib;"
#define TWO_FABRICS UP_A UP_B "link 0 2; link 1 3;"

/* Datagrams to a port that is known to be on another fabric. */
static void infiniband_datagrams(void)
{
	struct ibv_context *context = open_fabrics(TWO_FABRICS);
	struct mesh_context *mc = mesh_context_get(context);

	assert_false(ah_stays(context, "fe80::b1", 6, true));
	assert_true(ah_stays(context, "fe80::b0", 5, true)); /* it is on this fabric */
	assert_true(ah_stays(context, "fe80::b1", 5, true)); /* not its LID: perhaps a router's */
	assert_true(ah_stays(context, "fe80::b1", 0, true));
	assert_true(ah_stays(context, "fe80::b1", 0xc001, true));
	assert_true(ah_stays(context, "fe80::a1", 4, true)); /* this host */
	assert_true(ah_stays(context, "fe80::b1", 6, false)); /* a host without an agent may have it here */
	/* Connections stay, as ever. */
	assert_false(rtr_holds_to(context, "fe80::b1"));
	fake.state->port.lid = 0; /* no relay could be reached */
	assert_true(ah_stays(context, "fe80::b1", 6, true));
	fake.state->port.lid = 3;
	no_rail = "mlx5_1 cannot be opened";
	assert_true(ah_stays(context, "fe80::b1", 6, true));
	no_rail = NULL;
	other_partition = true;
	assert_true(ah_stays(context, "fe80::b1", 6, true));
	other_partition = false;
	mc->sees_peers = false;
	assert_true(ah_stays(context, "fe80::b1", 6, true));
	mc->sees_peers = true;
	assert_false(ah_stays(context, "fe80::b1", 6, true));
	close_in(context);
}

/* The default prefix is not routed. */
static void infiniband_datagrams_of_two_prefixes(void)
{
	struct ibv_context *context = open_fabrics(UP_A "host b; rail mlx5_0 ib lid 5 dev ib0; gid fec0::b0 ib; rail mlx5_1 ib lid 6 dev ib1; gid fe80::b1 ib;"
						      "link 1 3;");

	other_partition = true; /* beacons are not asked */
	assert_false(ah_stays(context, "fec0::b0", 5, true));
	assert_true(ah_stays(context, "fec0::b0", 6, true)); /* perhaps a router's LID */
	other_partition = false;
	close_in(context);
}

/* Where it is not certain that there are two fabrics, all stays as the program asks. */
static void infiniband_datagrams_in_doubt(void)
{
	static const char *const worlds[] = {
		UP_A UP_B "link 0 2; link 1 3; link 0 3;", /* it is heard */
		UP_A UP_B "link 0 2; link 0 3; link 1 2; link 1 3;", /* one fabric */
		UP_A UP_B "link 1 3;", /* the own port has come up just now */
		UP_A UP_B "link 0 2;", /* the peer's has */
		LIDS_A LIDS_B "link 0 3;", /* a relay needs loopback, which needs both ports up */
	};
	struct ibv_context *context;
	size_t i;

	for (i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
		context = open_fabrics(worlds[i]);
		assert_true(ah_stays(context, "fe80::b1", 6, true));
		assert_true(ah_stays(context, "fe80::b0", 5, true));
		close_in(context);
	}
}

TEST(infiniband_router)
TEST(infiniband_datagrams)
TEST(infiniband_datagrams_of_two_prefixes)
TEST(infiniband_datagrams_in_doubt)
TEST(infiniband_by_lid)
TEST(infiniband_by_own_lid)
TEST(infiniband_by_doubtful_lid)
TEST(infiniband_without_agent)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_infiniband_router),
		cmocka_unit_test(test_infiniband_datagrams),
		cmocka_unit_test(test_infiniband_datagrams_of_two_prefixes),
		cmocka_unit_test(test_infiniband_datagrams_in_doubt),
		cmocka_unit_test(test_infiniband_by_lid),
		cmocka_unit_test(test_infiniband_by_own_lid),
		cmocka_unit_test(test_infiniband_by_doubtful_lid),
		cmocka_unit_test(test_infiniband_without_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
