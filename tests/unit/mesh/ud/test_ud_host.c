// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Datagrams over another rail: the host that the peer is on, and other hosts that speak for it. */
#include <string.h>

#include "udnics.h"

/* A question for a path by a rail, in the peer's name. */
static struct mv_ctl_msg question_by(unsigned int rail)
{
	return (struct mv_ctl_msg){
		.type = MV_CTL_UD_GET,
		.gid_type = MV_GID_TYPE_ROCE_V2,
		.key = QKEY,
		.rkey = QKEY,
		.from = {.gid = gid(0, 2), .qpn = PEER_QPN},
		.to = {.gid = gid(0, 1), .qpn = QPN},
		.path = {.gid = gid(rail, 2), .qpn = PATH_QPN + rail},
		.path_peer_gid = gid(rail, 1),
	};
}

static bool is_last_host(const struct mv_host_id *host)
{
	return !memcmp(&last_host, host, sizeof(*host));
}

/* Another holder of the peer's GID does not speak for the peer. */
static void test_another_host(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();
	struct mv_ctl_msg forged = {
		.type = MV_CTL_UD_PUT,
		.request_id = asked.request_id,
		.from = asked.to,
		.to = asked.from,
		.path = {.gid = asked.path_peer_gid, .qpn = PATH_QPN + 1},
	};

	(void)state;
	assert_true(is_last_host(&no_host));
	mesh_ud_message("mlx5_0", QPN, &host_c, &forged, now_ns);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	assert_int_equal(asked.type, MV_CTL_UD_GET); /* it had no answer */
	ready_by(peer, 1);
	n_holders = 2;
	go_on(peer);
	assert_true(is_last_host(&host_b));
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 1);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 2);
}

/* The peer's address is on another host by now; or its host started anew, and has another id. */
static void test_host_has_changed(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	ready_by(peer, 1);
	holder = MESH_HOLDER_OTHER;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 2);
	assert_memory_equal(&peer->host_id, &host_c, sizeof(host_c));
}

/* An agent of an older version does not tell which host asks. */
static void test_host_is_not_told(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	ready_by(peer, 1);
	mesh_ud_message("mlx5_0", QPN, &no_host, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 2);
	assert_memory_equal(&peer->host_id, &host_b, sizeof(host_b));
}

/* A stranger who asks first may be any of the hosts that have his GID. */
static void test_several_holders_ask(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);

	(void)state;
	n_holders = 2;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_int_equal(asked.type, MV_CTL_UD_PUT);
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
	assert_null(u.peers);
	n_holders = 1;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_memory_equal(&u.peers->host_id, &host_b, sizeof(host_b));
}

/* The question of a host that is not believed to have the address that it asks for, or to have it there, has no answer. */
static void test_not_believed(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	ready_by(peer, 1);
	doubted = theirs.path.gid;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	/* Nor that of a host that another one's address went to, in doubt. */
	holder = MESH_HOLDER_OTHER;
	doubted = theirs.from.gid;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	doubted = (union ibv_gid){0};
	c_has_it = false;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	holder = MESH_HOLDER_SAME;
	apart = true;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.type, MV_CTL_UD_GET);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 1);
	apart = false;
	/* The host that the peer was met on is heard on none of our links that the peer's own address is of. */
	doubted = theirs.from.gid;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 2);
}

/* Nor does an answer lead to an address in doubt. */
static void test_answer_not_believed(void **state)
{
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	doubted = asked.path_peer_gid;
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	doubted = (union ibv_gid){0};
	answer(MV_CTL_REASON_NONE);
	assert_int_equal(peer->state, MESH_UD_READY);
}

static unsigned int n_of_peers(void)
{
	const struct mesh_ud_peer *peer;
	unsigned int n = 0;

	for (peer = u.peers; peer; peer = peer->next)
		n++;
	return n;
}

/* Whoever asks under many numbers leaves room for others, and for those that the program speaks to. */
static void test_many_strangers(void **state)
{
	struct mv_ctl_msg theirs = question_by(2);
	struct mv_host_id host = host_b;
	unsigned int i;

	(void)state;
	for (i = 0; i < UD_MAX_PEERS; i++) {
		theirs.from.qpn = 0x1000 + i;
		mesh_ud_message("mlx5_0", QPN, &host, &theirs, now_ns);
	}
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_RESOURCES);
	assert_int_equal(n_of_peers(), UD_MAX_OF_A_HOST);
	u.peers->spoken = true;
	theirs.from.qpn = 0x2000;
	mesh_ud_message("mlx5_0", QPN, &host, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	u.peers->next->spoken = false;
	/* Of many hosts. */
	for (i = 0; i < UD_MAX_PEERS; i++) {
		host.bytes[1] = (uint8_t)(i / 32);
		theirs.from.qpn = 0x3000 + i;
		mesh_ud_message("mlx5_0", QPN, &host, &theirs, now_ns);
	}
	assert_int_equal(n_of_peers(), UD_MAX_STRANGERS);
	ready_by(new_peer(), 1);
	/* Those that are idle make room. */
	now_ns += UD_IDLE_NS;
	host = host_b;
	mesh_ud_message("mlx5_0", QPN, &host, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	theirs.from.qpn = 0x4000;
	mesh_ud_message("mlx5_0", QPN, &host, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
}

/* Each question names another neighbour, and all of them are silent. */
static void test_many_silent_neighbours(void **state)
{
	struct mv_ctl_msg theirs = question_by(2);
	uint64_t began_ns = now_ns;
	unsigned int i;

	(void)state;
	silent = true;
	n_waited = 0;
	for (i = 0; i < 100; i++) {
		theirs.path.gid.raw[14] = (uint8_t)i;
		mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
		now_ns += SECOND_NS / 10;
		if (i < 10)
			assert_int_equal(n_waited, i < 5 ? i + 1 : 5);
	}
	assert_in_range(n_waited, 5, 5 + (now_ns - began_ns) / (4 * SECOND_NS) + 1);
	silent = false;
	now_ns += 20 * SECOND_NS;
	theirs = question_by(2);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
}

/* A path that is there costs no time, so it stays while there is no time for new paths. */
static void test_known_path_needs_no_time(void **state)
{
	struct mv_ctl_msg theirs = question_by(2), others = question_by(2);

	(void)state;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	mesh_root.ud.asked_until_ns = now_ns + 100 * SECOND_NS;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	others.from.qpn++;
	mesh_ud_message("mlx5_0", QPN, &host_b, &others, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
}

/* A peer that the program has sent nothing to, and that this end asks since its datagrams come. */
static struct mesh_ud_peer *stranger_who_is_asked(void)
{
	struct mv_ctl_msg theirs = question_by(2);

	paths(MV_PATH_APART, 1, 2);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	now_ns += REFRESH_NS;
	u.peers->used_at_ns = now_ns;
	mesh_ud_peer_run(u.peers, now_ns);
	assert_int_equal(asked.type, MV_CTL_UD_GET);
	return u.peers;
}

/* An answer to the last question names another silent neighbour each time. */
static void answer_by(unsigned int neighbour)
{
	struct mv_ctl_msg reply = {
		.type = MV_CTL_UD_PUT,
		.request_id = asked.request_id,
		.from = asked.to,
		.to = asked.from,
		.path = {.gid = asked.path_peer_gid, .qpn = PATH_QPN},
	};

	reply.path.gid.raw[14] = (uint8_t)neighbour;
	mesh_ud_message("mlx5_0", QPN, &host_b, &reply, now_ns);
}

/* Answers take no more time than questions, whoever the peer is. */
static void assert_answers_rationed(struct mesh_ud_peer *peer)
{
	uint64_t began_ns = now_ns;
	unsigned int i;

	silent = true;
	for (i = 0; i < 100; i++) {
		mesh_ud_peer_ask(peer, now_ns);
		mesh_ud_peer_run(peer, now_ns);
		answer_by(1 + i);
		now_ns += SECOND_NS / 10;
	}
	assert_in_range(n_waited, 3, 5 + (now_ns - began_ns) / (4 * SECOND_NS) + 1);
	silent = false;
}

static void test_many_answers(void **state)
{
	(void)state;
	assert_answers_rationed(stranger_who_is_asked());
}

static void test_many_answers_of_one_spoken_to(void **state)
{
	(void)state;
	assert_answers_rationed(new_peer());
}

/* Each question has one answer. */
static void test_answers_to_one_question(void **state)
{
	unsigned int i;

	(void)state;
	stranger_who_is_asked();
	silent = true;
	for (i = 0; i < 3; i++)
		answer_by(1 + i);
	assert_int_equal(n_waited, 1);
}

/* Strangers do not use up the time for those that the program speaks to. */
static void test_time_for_those_spoken_to(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();

	(void)state;
	mesh_root.ud.asked_until_ns = now_ns + 100 * SECOND_NS;
	ready_by(peer, 1);
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_true(talk(peer));
	assert_int_equal(sent.to, PATH_QPN + 2);
}

/* A question whose relay cannot be made has spent time all the same. */
static void test_relay_that_cannot_be_made(void **state)
{
	struct mv_ctl_msg theirs = question_by(2);
	uint64_t began_ns = now_ns;
	unsigned int i, before = n_qps;

	(void)state;
	rails[0].bare = true;
	search_ns = SECOND_NS / 30;
	for (i = 0; i < 1000; i++) {
		mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
		assert_int_not_equal(asked.reason, MV_CTL_REASON_NONE);
		now_ns += SECOND_NS / 100;
	}
	/* A tenth of a second for each. */
	assert_in_range(n_qps - before, 30, 10 * (5 + (now_ns - began_ns) / (4 * SECOND_NS) + 1));
	mesh_root.ud.asked_until_ns = now_ns + 100 * SECOND_NS;
	before = n_qps;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(n_qps, before);
	rails[0].bare = false;
}

/* A kernel refuses a relay the peer's QKey if that is privileged. The program's datagrams have its own QKey then. */
static void test_privileged_qkey(void **state)
{
	struct mv_ctl_msg theirs = question_by(2);

	(void)state;
	theirs.rkey = 0x80010000;
	mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_int_equal(u.peers->qkey, QKEY);
	mesh_ud_set_qkey(u.peers, 0x80010000);
	assert_int_equal(u.peers->qkey, QKEY);
}

/* The program has met nobody at that GID yet, and one of several holders speaks. */
static void test_several_holders_of_one_unmet(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer;

	(void)state;
	paths(MV_PATH_UNKNOWN, N_RAILS, N_RAILS);
	peer = new_peer();
	assert_int_equal(peer->state, MESH_UD_FAILED);
	n_holders = 2;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
	assert_int_equal(peer->state, MESH_UD_FAILED);
	assert_true(mv_host_id_is_zero(&peer->host_id));
	n_holders = 1;
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NONE);
	assert_memory_equal(&peer->host_id, &host_c, sizeof(host_c));
}

/* The host that the peer was met on has gone, and several have its GID. */
static void test_several_holders_take_over(void **state)
{
	const struct mv_ctl_msg theirs = question_by(2);
	struct mesh_ud_peer *peer = new_peer();
	struct mv_ctl_msg reply = {
		.type = MV_CTL_UD_PUT,
		.request_id = asked.request_id,
		.from = asked.to,
		.to = asked.from,
		.path = {.gid = asked.path_peer_gid, .qpn = PATH_QPN + 1},
	};

	(void)state;
	holder = MESH_HOLDER_OTHER;
	n_holders = 2;
	mesh_ud_message("mlx5_0", QPN, &host_c, &reply, now_ns);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	mesh_ud_message("mlx5_0", QPN, &host_c, &theirs, now_ns);
	assert_int_equal(asked.reason, MV_CTL_REASON_NO_PATH);
	assert_int_equal(peer->state, MESH_UD_ASKING);
	assert_memory_equal(&peer->host_id, &host_b, sizeof(host_b));
	n_holders = 1;
	mesh_ud_message("mlx5_0", QPN, &host_c, &reply, now_ns);
	assert_int_equal(peer->state, MESH_UD_READY);
}

/* Strangers have no lines of the log. */
static void test_log_of_strangers(void **state)
{
	struct mv_ctl_msg theirs = question_by(2);
	unsigned int i;

	(void)state;
	for (i = 0; i < 10; i++) {
		theirs.from.qpn = 0x1000 + i;
		mesh_ud_message("mlx5_0", QPN, &host_b, &theirs, now_ns);
	}
	assert_int_equal(n_of_peers(), 10);
	assert_int_equal(n_lines, 0);
	ready_by(new_peer(), 1);
	assert_int_equal(n_lines, 1);
}

/* An agent of an older version names no hosts. So their peers are not counted by host. */
static void test_many_of_unnamed_hosts(void **state)
{
	struct mv_ctl_msg theirs = question_by(2);
	unsigned int i;

	(void)state;
	for (i = 0; i < UD_MAX_PEERS; i++) {
		theirs.from.qpn = 0x1000 + i;
		mesh_ud_message("mlx5_0", QPN, &no_host, &theirs, now_ns);
	}
	assert_int_equal(n_of_peers(), UD_MAX_STRANGERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_another_host),
		TEST(test_host_has_changed),
		TEST(test_host_is_not_told),
		TEST(test_several_holders_ask),
		TEST(test_not_believed),
		TEST(test_answer_not_believed),
		TEST(test_many_strangers),
		TEST(test_many_silent_neighbours),
		TEST(test_known_path_needs_no_time),
		TEST(test_many_answers),
		TEST(test_many_answers_of_one_spoken_to),
		TEST(test_answers_to_one_question),
		TEST(test_time_for_those_spoken_to),
		TEST(test_relay_that_cannot_be_made),
		TEST(test_privileged_qkey),
		TEST(test_several_holders_of_one_unmet),
		TEST(test_several_holders_take_over),
		TEST(test_log_of_strangers),
		TEST(test_many_of_unnamed_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
