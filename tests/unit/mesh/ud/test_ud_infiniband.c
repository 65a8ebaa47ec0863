// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Datagrams over another rail of InfiniBand: LIDs and P_Keys. The peer's outlets have LIDs 0x20, 0x21, ... */
#include <string.h>

#include "udnics.h"

#define PEER_LID 0x20u

/* A datagram of that LID comes to the outlet on that rail. @sgid: in its GRH; NULL: it has none. Return: whether the program gets it. */
static bool hear(unsigned int rail, uint32_t outlet, uint16_t slid, const union ibv_gid *sgid)
{
	struct fake_rail *r = &rails[rail];
	uint8_t *grh = mesh_ud_buffer(mesh_ud_rail_of(&r->rail), 0);
	unsigned int before = sent.n;

	r->wc = (struct ibv_wc){
		.status = IBV_WC_SUCCESS,
		.byte_len = UD_GRH_BYTES + 1,
		.qp_num = outlet,
		.src_qp = PATH_QPN + rail,
		.slid = slid,
		.wc_flags = sgid ? IBV_WC_GRH : 0,
	};
	if (sgid)
		memcpy(grh + 8, sgid->raw, sizeof(sgid->raw));
	r->has_wc = true;
	assert_true(mesh_ud_event(&r->rail, mesh_ud_rail_of(&r->rail)->cq));
	return sent.n > before && sent.to == QPN;
}

static bool hear_from(unsigned int rail, uint32_t outlet, uint16_t slid)
{
	return hear(rail, outlet, slid, NULL);
}

static struct mv_ctl_msg question(uint16_t lid)
{
	return (struct mv_ctl_msg){
		.type = MV_CTL_UD_GET,
		.gid_type = MV_GID_TYPE_IB,
		.key = QKEY,
		.rkey = QKEY,
		.from = {.gid = gid(0, 2), .qpn = PEER_QPN},
		.to = {.gid = gid(0, 1), .qpn = QPN},
		.path = {.gid = gid(1, 2), .qpn = PATH_QPN + 1},
		.path_lid = lid,
		.path_peer_gid = gid(1, 1),
	};
}

/* The question names the LID of the outlet here, and the answer that of the peer's. */
static void test_asks(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	infiniband();
	u.pkey_index = 2;
	peer = new_peer();
	/* The program's QP is reached by the LID of its own port. */
	assert_int_equal(rails[0].ah.dlid, 0x10);
	assert_int_equal(rails[0].ah.is_global, 1);
	assert_int_equal(peer->local_type, MV_GID_TYPE_IB);
	assert_int_equal(asked.path_lid, 0x11);
	assert_int_equal(last_pkey_index, 7);
	peer->attr.src_path_bits = 3;
	peer->attr.sl = 4;
	ready_by(peer, 1);
	assert_int_equal(rails[1].ah.dlid, PEER_LID + 1);
	assert_int_equal(rails[1].ah.is_global, 1);
	assert_memory_equal(rails[1].ah.grh.dgid.raw, gid(1, 2).raw, 16);
	assert_int_equal(rails[1].ah.grh.sgid_index, 3);
	assert_int_equal(rails[1].ah.src_path_bits, 0);
	assert_int_equal(rails[1].ah.sl, 4);
	assert_true(hear_from(1, asked.path.qpn, PEER_LID + 1));
	assert_false(hear_from(1, asked.path.qpn, PEER_LID + 2));
	/* Virtual functions of one port share its LID. */
	assert_true(hear(1, asked.path.qpn, PEER_LID + 1, &peer->path.gid));
	assert_false(hear(1, asked.path.qpn, PEER_LID + 1, &peer->end.gid));
	/* By no LID there is no way, and none is looked for in the GID table. */
	assert_false(hear_from(1, asked.path.qpn, 0));
}

/* A subnet manager may give a port another LID. What still comes from the former one is taken. */
static void test_another_lid(void **state)
{
	struct mesh_ud_peer *peer;
	struct mv_ctl_msg again;

	(void)state;
	infiniband();
	peer = new_peer();
	ready_by(peer, 1);
	go_on(peer);
	rails[1].lid = 0x31;
	now_ns += SECOND_NS;
	again = question(PEER_LID + 5);
	mesh_ud_message("mlx5_0", QPN, &host_b, &again, now_ns);
	assert_int_equal(asked.type, MV_CTL_UD_PUT);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_int_equal(asked.path_lid, 0x31);
	assert_int_equal(rails[1].ah.dlid, PEER_LID + 5);
	assert_true(hear_from(1, asked.path.qpn, PEER_LID + 5));
	assert_true(hear_from(1, asked.path.qpn, PEER_LID + 1));
	assert_false(hear_from(1, asked.path.qpn, PEER_LID + 6));
	go_on(peer);
	assert_int_equal(asked.path_lid, 0x31);
}

/* A plugin of an older version names no LID: it gets no datagrams by InfiniBand, and leads none here. */
static void test_older_version(void **state)
{
	struct mv_ctl_msg theirs;
	struct mesh_ud_peer *peer;

	(void)state;
	infiniband();
	peer = new_peer();
	asked.path_lid = 0; /* answer() repeats that */
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	assert_null(peer->path_ah);
	theirs = question(0);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.type, MV_CTL_UD_PUT);
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
	assert_null(peer->path_ah);
	/* No more is such a LID one of a port. */
	theirs = question(0xc001);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
	theirs = question(PEER_LID + 1);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_int_equal(asked.path_lid, 0x11);
	assert_int_equal(peer->state, MESH_UD_READY);
}

/* A port without the program's P_Key has no outlet. */
static void test_no_pkey(void **state)
{
	struct mv_ctl_msg theirs = question(PEER_LID + 1);

	(void)state;
	infiniband();
	rails[1].no_pkey = true;
	ready_by(new_peer(), 2);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
}

/* No subnet manager has seen the port yet. */
static void test_no_lid_yet(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	infiniband();
	rails[1].lid = 0xffff;
	peer = new_peer();
	assert_int_equal(asked.path_lid, 0);
	answer(MV_CTL_REASON_NO_PATH); /* as test_older_version */
	now_ns += SECOND_NS;
	mesh_ud_run(now_ns);
	ready_by(peer, 2);
}

/* Who is asked first has spoken to nobody, and has no attributes of the program. */
static void test_is_asked(void **state)
{
	struct mv_ctl_msg theirs = question(PEER_LID + 1);

	(void)state;
	infiniband();
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_int_equal(u.peers->local_type, MV_GID_TYPE_IB);
	assert_int_equal(rails[0].ah.dlid, 0x10);
	assert_int_equal(rails[1].ah.dlid, PEER_LID + 1);
	assert_int_equal(rails[1].ah.is_global, 1);
	assert_memory_equal(rails[1].ah.grh.dgid.raw, gid(1, 2).raw, 16);
	assert_int_equal(rails[1].ah.grh.sgid_index, 3);
	assert_true(hear_from(1, asked.path.qpn, PEER_LID + 1));
}

/* On Ethernet a LID in a message means nothing. */
static void test_roce(void **state)
{
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	assert_int_equal(asked.path_lid, 0);
	peer->attr.dlid = 9;
	peer->attr.src_path_bits = 2;
	ready_by(peer, 1);
	assert_int_equal(rails[1].ah.dlid, 9);
	assert_int_equal(rails[1].ah.src_path_bits, 2);
	assert_int_equal(rails[1].ah.is_global, 1);
	assert_int_equal(last_pkey_index, 0);
	assert_false(hear_from(1, asked.path.qpn, 0)); /* without a GRH */
}

/* Beacons that are not heard prove something only where they would go by one partition. */
static void test_heard_alike(void **state)
{
	const struct ibv_pd pd = {.context = &rails[0].context};
	struct ibv_ah_attr attr = {.port_num = 1, .grh.dgid = gid(1, 2)};
	struct mesh_path_decision decision;

	(void)state;
	infiniband();
	mesh_directory_paths(&(struct mv_path_request){.device = "mlx5_0"}, &decision);
	assert_int_equal(decision.n_paths, 2);
	assert_false(mesh_ud_is_heard_alike(&pd, &attr, &decision)); /* not heard */
	decision.paths[0].linked = decision.paths[1].linked = 1;
	assert_true(mesh_ud_is_heard_alike(&pd, &attr, &decision));
	rails[1].no_pkey = true;
	assert_false(mesh_ud_is_heard_alike(&pd, &attr, &decision));
	attr.grh.dgid = gid(2, 2);
	assert_true(mesh_ud_is_heard_alike(&pd, &attr, &decision));
	rails[2].shut = true;
	assert_false(mesh_ud_is_heard_alike(&pd, &attr, &decision));
	attr.grh.dgid = gid(0, 2);
	rails[2].shut = false;
	assert_false(mesh_ud_is_heard_alike(&pd, &attr, &decision)); /* no path leads to that port itself */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_asks),
		TEST(test_another_lid),
		TEST(test_older_version),
		TEST(test_no_pkey),
		TEST(test_no_lid_yet),
		TEST(test_is_asked),
		TEST(test_roce),
		TEST(test_heard_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
