// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Datagrams over another rail: the rail that is chosen for a peer, and the rails that are lost. */
#include <errno.h>
#include <string.h>

#include "udnics.h"

/* A datagram of the peer's by the way that is described in a question, to the program. Return: whether it got there. */
static bool hear(const struct mesh_ud_peer *peer, const struct mv_ctl_msg *way)
{
	struct fake_rail *r = &rails[way->path.gid.raw[13]];
	struct mesh_ud_rail *rail = mesh_ud_rail_of(&r->rail);
	uint8_t *grh = mesh_ud_buffer(rail, 0);
	unsigned int before = sent.n;

	grh[20] = 4 << 4;
	memcpy(grh + 32, way->path_peer_gid.raw + 12, 4);
	r->wc = (struct ibv_wc){
		.status = IBV_WC_SUCCESS,
		.byte_len = UD_GRH_BYTES + 1,
		.qp_num = way->path.qpn,
		.src_qp = PATH_QPN + way->path_peer_gid.raw[13],
		.wc_flags = IBV_WC_GRH,
	};
	r->has_wc = true;
	assert_true(mesh_ud_event(rail->rail, rail->cq));
	if (sent.n == before)
		return false;
	assert_int_equal(sent.from, peer->relay->qp->qp_num);
	assert_int_equal(sent.to, QPN);
	return true;
}

/* What is there is used while nobody can be asked for anything better; and then it is asked for. */
static void test_stays(void **state)
{
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	ready_by(peer, 1);
	paths(MV_PATH_UNKNOWN, N_RAILS, N_RAILS); /* there is no agent */
	go_on(peer);
	assert_true(talk(peer));
	assert_string_equal(peer->host, "b");
	paths(MV_PATH_APART, 1, N_RAILS);
	rails[1].shut = true; /* for new ones */
	go_on(peer);
	assert_true(talk(peer));
	rails[1].shut = false;
	assert_int_equal(n_asked, 1);
	go_on(peer);
	assert_int_equal(n_asked, 2);
	assert_true(talk(peer));
}

/* The program's own path works by now. It goes on with what it has. */
static void test_own_path_works(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	paths(MV_PATH_WORKS, 0, 1);
	peer = new_peer();
	ready_by(peer, 0);
}

static void test_first_has_no_outlet(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	rails[1].shut = true;
	peer = new_peer();
	assert_int_equal(n_asked, 1);
	ready_by(peer, 2);
	go_on(peer); /* there is nothing better yet */
	ready_by(peer, 2);
	rails[1].shut = false;
	go_on(peer);
	ready_by(peer, 1);
}

/* The peer would have it, but an address has gone meanwhile. */
static void test_first_has_no_address(void **state)
{
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	rails[1].bare = true;
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	now_ns += SECOND_NS;
	mesh_ud_run(now_ns);
	ready_by(peer, 2);
}

static void test_none_has_an_outlet(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	rails[1].shut = rails[2].shut = true;
	peer = new_peer();
	assert_int_equal(n_asked, 0);
	assert_int_equal(peer->state, MESH_UD_FAILED);
	rails[2].shut = false;
	assert_false(talk(peer)); /* not at once */
	mesh_ud_run(now_ns);
	assert_int_equal(n_asked, 0);
	go_on(peer);
	ready_by(peer, 2);
}

/* By a peer that cannot have an outlet there: also when we have another path already. */
static void test_refused(void **state)
{
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	assert_int_equal(asked_rail(), 1);
	answer(MV_CTL_REASON_NO_PATH);
	now_ns += SECOND_NS;
	mesh_ud_run(now_ns);
	ready_by(peer, 2);
	go_on(peer);
	assert_int_equal(asked_rail(), 1);
	answer(MV_CTL_REASON_NO_PATH);
	assert_true(talk(peer));
	go_on(peer);
	ready_by(peer, 2);
}

/* The neighbour does not answer, which the kernel takes a second to find out; the peer asks again and again. */
static void test_silent_neighbour(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	struct mv_ctl_msg theirs = {
		.type = MV_CTL_UD_GET,
		.gid_type = MV_GID_TYPE_ROCE_V2,
		.key = QKEY,
		.rkey = QKEY,
		.from = asked.to,
		.to = asked.from,
		.path = {.gid = gid(2, 2), .qpn = PATH_QPN + 2},
		.path_peer_gid = gid(2, 1),
	};
	unsigned int i;

	(void)state;
	silent = true;
	n_waited = 0;
	for (i = 0; i < 30; i++) {
		mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
		assert_int_equal(asked.type, MV_CTL_UD_PUT);
		assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
		now_ns += SECOND_NS / 2;
	}
	assert_int_equal(n_waited, 4); /* of 30 */
	silent = false;
	now_ns += 4 * SECOND_NS;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_READY);
}

/* Each end finds another way the best, and has got what it asked for. */
static void test_two_ways(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	struct mv_ctl_msg ours = asked, theirs = {
		.type = MV_CTL_UD_GET,
		.gid_type = MV_GID_TYPE_ROCE_V2,
		.key = QKEY,
		.rkey = QKEY,
		.from = ours.to,
		.to = ours.from,
		.path = {.gid = gid(2, 2), .qpn = PATH_QPN + 2},
		.path_peer_gid = gid(2, 1),
	};
	struct mv_ctl_msg other = theirs; /* as we would have asked for theirs */

	(void)state;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.type, MV_CTL_UD_PUT);
	other.path = asked.path;
	other.path_peer_gid = theirs.path.gid;
	assert_true(hear(peer, &other));
	assert_false(hear(peer, &ours));
	asked = ours;
	ready_by(peer, 1);
	assert_true(hear(peer, &ours));
	assert_true(hear(peer, &other));
	mesh_ud_rail_lost(&rails[2].rail);
	assert_true(hear(peer, &ours));
	assert_null(peer->old.outlet);
}

static void test_outlet_is_lost(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	struct mv_ctl_msg late;
	unsigned int before;

	(void)state;
	ready_by(peer, 1);
	go_on(peer);
	late = asked;
	mesh_ud_rail_lost(&rails[1].rail);
	assert_int_equal(rails[1].rail.refs, 0);
	answer(MV_CTL_REASON_NONE); /* to a question that named what is no more */
	assert_int_equal(peer->state, MESH_UD_ASKING);
	mesh_ud_run(now_ns);
	assert_false(talk(peer));
	assert_int_not_equal(asked.path.qpn, late.path.qpn);
	before = sent.n;
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(sent.n, before + 1); /* what was queued */
	assert_true(talk(peer));
	assert_int_equal(sent.from, asked.path.qpn);
}

/* It is not in use: not yet, not any more. */
static void test_other_outlet_is_lost(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	uint32_t outlet;

	(void)state;
	ready_by(peer, 1);
	outlet = sent.from;
	paths(MV_PATH_APART, 2, N_RAILS);
	go_on(peer);
	mesh_ud_rail_lost(&rails[2].rail);
	answer(MV_CTL_REASON_NONE); /* the peer has been told of one that is no more */
	assert_true(talk(peer));
	assert_int_equal(sent.from, outlet);
	go_on(peer);
	ready_by(peer, 2);
	mesh_ud_rail_lost(&rails[1].rail);
	assert_int_equal(peer->state, MESH_UD_READY);
	assert_true(talk(peer));
	assert_non_null(u.outlets);
	assert_null(u.outlets->next_outlet);
}

/* The peer is found anew, by whoever speaks first. */
static void test_relay_is_lost(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	const union ibv_gid to = peer->end.gid;
	struct mv_ctl_msg question = {.type = MV_CTL_UD_GET, .gid_type = MV_GID_TYPE_ROCE_V2, .key = QKEY, .rkey = QKEY};
	uint32_t relay = peer->relay->qp->qp_num;

	(void)state;
	ready_by(peer, 1);
	mesh_ud_rail_lost(&rails[0].rail);
	assert_int_equal(rails[0].rail.refs, 0);
	assert_null(mesh_ud_peer_find(&u, &to, PEER_QPN));
	assert_int_equal(mesh_root.ud.n_peers, 0);
	peer = new_peer();
	assert_int_not_equal(peer->relay->qp->qp_num, relay);
	ready_by(peer, 1);
	relay = peer->relay->qp->qp_num;
	mesh_ud_rail_lost(&rails[0].rail);
	question.from = (struct mv_ctl_end){.gid = to, .qpn = PEER_QPN};
	question.to = (struct mv_ctl_end){.gid = gid(0, 1), .qpn = QPN};
	question.path = (struct mv_ctl_end){.gid = gid(1, 2), .qpn = PATH_QPN};
	question.path_peer_gid = gid(1, 1);
	mesh_ud_message("mlx5_0", QPN, &host_b, &question, now_ns);
	peer = mesh_ud_peer_find(&u, &to, PEER_QPN);
	assert_non_null(peer);
	assert_int_not_equal(peer->relay->qp->qp_num, relay);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN);
}

/* Both by one NIC. */
static void test_all_is_lost(void **state)
{
	struct mesh_ud_peer *peer;

	(void)state;
	paths(MV_PATH_APART, 0, N_RAILS);
	peer = new_peer();
	ready_by(peer, 0);
	mesh_ud_rail_lost(&rails[0].rail);
	assert_null(u.peers);
	assert_null(u.outlets);
	assert_int_equal(n_objects, 0);
}

static int count_posts(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)wr;
	(void)bad;
	sent.n++;
	return 0;
}

/* What the kernel has found for the latest handle counts for the next search for paths. */
static void test_later_handle(void **state)
{
	struct mesh_context *mc = u.mc;
	struct mesh_ud_peer *peer;
	unsigned int n;

	(void)state;
	peer = new_peer();
	ready_by(peer, 1);
	mc->lower.io.post_send = count_posts;
	n = sent.n;
	for (unsigned int i = 1; i <= 4; i++) {
		struct ibv_ah program = {0}, self = {0};
		struct mesh_ud_ah a = {.ah = &program, .self = &self, .local_gid = gid(0, 1), .local_type = MV_GID_TYPE_ROCE_V2, .by_links = i % 2};
		struct ibv_send_wr wr = {.wr.ud = {.ah = &program, .remote_qpn = PEER_QPN, .remote_qkey = QKEY}}, *bad;

		a.attr.grh.dgid = gid(0, 2);
		assert_int_equal(mesh_map_put(&mc->ud.ahs, &program, &a), 0);
		assert_int_equal(mesh_ud_post_send(mc, u.qp, &wr, &bad), 0);
		assert_ptr_equal(mesh_map_drop(&mc->ud.ahs, &program), &a);
		assert_int_equal(sent.n, n + i);
		go_on(peer);
		assert_int_equal(by_links, i % 2);
		n = sent.n - i;
	}
	mesh_map_fini(&mc->ud.ahs);
}

/* A provider that names no error, as mlx5 for some: there is no path, and no peer. */
static void test_error_without_errno(void **state)
{
	const struct mv_ctl_end end = {.gid = gid(0, 2), .qpn = PEER_QPN + 1};
	const union ibv_gid own = gid(0, 1);
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	mute = true;
	errno = 0;
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	errno = 0;
	assert_null(mesh_ud_peer_new(&u, &end, &own, MV_GID_TYPE_ROCE_V2, QKEY));
	assert_int_not_equal(errno, 0);
}

/* Datagrams that come faster than they are relayed: the helper thread has more to do, and others wait for ud_lock. */
static void test_flood(void **state)
{
	struct mesh_ud_peer *peer = new_peer();
	struct fake_rail *r = &rails[1];
	struct mesh_ud_rail *rail;

	(void)state;
	ready_by(peer, 1);
	rail = mesh_ud_rail_of(&r->rail);
	r->wc = (struct ibv_wc){.status = IBV_WC_SUCCESS, .byte_len = UD_GRH_BYTES, .qp_num = sent.from, .wc_flags = IBV_WC_GRH};
	r->n_flood = 100000;
	assert_true(mesh_ud_event(rail->rail, rail->cq));
	/* All that were there when the CQ was armed, so that an event tells of the others. */
	assert_in_range(100000 - r->n_flood, UD_RECEIVES + UD_SENDS, 2 * (UD_RECEIVES + UD_SENDS));
	r->n_flood = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_stays),
		TEST(test_own_path_works),
		TEST(test_first_has_no_outlet),
		TEST(test_first_has_no_address),
		TEST(test_none_has_an_outlet),
		TEST(test_refused),
		TEST(test_silent_neighbour),
		TEST(test_two_ways),
		TEST(test_outlet_is_lost),
		TEST(test_other_outlet_is_lost),
		TEST(test_relay_is_lost),
		TEST(test_all_is_lost),
		TEST(test_later_handle),
		TEST(test_error_without_errno),
		TEST(test_flood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
