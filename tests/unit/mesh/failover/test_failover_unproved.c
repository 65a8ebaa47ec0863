// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Messages that are not proved to be the peer's, and paths that are not its host's. */
#include <errno.h>
#include <string.h>

#include "connstatus.h"
#include "failing_over.h"
#include "failover_exec.h"
#include "move_failover.h"
#include "path_select.h"
#include "proved.h"
#include "sealed.h"
#include "negotiateint.h"

/* Nothing proves the peer: its PSNs are 0, and anybody could be its host. */
static void is_unproved(void)
{
	is_to_move();
	conn.ends.host_id.bytes[0] = 5;
	holder = MESH_HOLDER_SAME;
	conn.move.attempts.peer = 1;
	decision.verdict = MV_PATH_LOCAL_DOWN;
}

static bool moves(void)
{
	bool can;

	conn.move.failover = false;
	conn.move.state = MV_MOVE_PASSTHROUGH;
	conn.move.actions.n = conn.move.actions.next = 0;
	conn.retry.stayed = NULL;
	conn.moving.since_ns = 0;
	can = mesh_conn_paths_for(&conn, MV_CTL_REASON_PORT, decision.paths);
	assert_true(can == !mesh_conn_bound(&conn));
	return can;
}

/* What a sealed message in the peer's name comes to. @host: whose agent has sent it; 0: not told */
static int opens(uint8_t host)
{
	struct mv_ctl_msg msg = {.type = MV_CTL_HELLO,
				 .from = conn.ends.peer,
				 .to = conn.ends.local,
				 .from_psn = conn.move.rq_psn,
				 .to_psn = conn.move.sq_psn};
	const struct mv_host_id from = {.bytes = {host}};

	mv_proof_seal(&msg, NULL);
	return mesh_conn_open(&conn, &from, &msg, NULL, now_ns);
}

static void test_unproved(void **state)
{
	const struct mv_move_action prepare = {.type = MV_DO_PREPARE, .local_gid = {.raw = {3}}, .remote_gid = {.raw = {4}}};
	const struct mv_move_action stay = {.type = MV_DO_STAY, .reason = MV_CTL_REASON_UNSUPPORTED};
	struct mv_move_action refusal;

	(void)state;
	is_unproved();
	assert_false(moves());
	assert_non_null(strstr(mesh_conn_bound(&conn), "authenticated"));
	/* Nor does it when the peer leads. */
	assert_int_equal(mv_move_start(&conn.move, MV_CTL_REASON_PORT, decision.paths, 1, now_ns), 0);
	conn.move.actions.next = conn.move.actions.n;
	mesh_conn_carry_out(&conn, &prepare, now_ns);
	assert_false(conn.move.failover);
	assert_true(mv_move_next(&conn.move, &refusal));
	assert_int_equal(refusal.msg.type, MV_CTL_REFUSE);
	assert_int_equal(refusal.msg.reason, MV_CTL_REASON_UNSUPPORTED);
	/* The peer hears of no reason. The program's user does. */
	vqp.tracker->broken = false;
	mesh_conn_carry_out(&conn, &stay, now_ns);
	assert_non_null(strstr(conn.retry.stayed, "authenticated"));
	/* The agents have met. */
	authenticated = true;
	assert_true(moves());
	authenticated = false;
	assert_false(moves());
	mesh_root.config.survive_unauthenticated = true;
	assert_true(moves());
	mesh_root.config.survive_unauthenticated = false;
	/* Either PSN is proof; in RTR the own one is not known. */
	conn.move.rq_psn = 1;
	assert_true(moves());
	conn.move.rq_psn = 0;
	conn.move.sq_psn = 1;
	assert_true(moves());
	conn.move.sq_psn = MV_CTL_PSN_NONE;
	assert_false(moves());
	/* Its own host is itself. */
	conn.ends.own_host = true;
	assert_true(moves());
	conn.ends.own_host = false;
	holder = MESH_HOLDER_UNKNOWN; /* no agent: whether there is a path is another question */
	assert_true(moves());
}

/* Where the PSNs prove nothing, a message has to come from the host that had the peer's GID when the connection was made. */
static void test_message_of_another_host(void **state)
{
	(void)state;
	is_unproved();
	authenticated = true;
	assert_int_equal(opens(0), 0); /* an agent of an older version does not say whose it is */
	assert_int_equal(opens(5), 0);
	assert_int_equal(opens(6), -EBADMSG);
	conn.ends.host_id.bytes[0] = 0; /* nor was it known */
	assert_int_equal(opens(6), 0);
	conn.ends.host_id.bytes[0] = 5;
	mesh_root.config.survive_unauthenticated = true;
	assert_int_equal(opens(6), -EBADMSG);
	mesh_root.config.survive_unauthenticated = false;
	/* Who knows the PSNs is the peer. */
	conn.move.rq_psn = conn.move.sq_psn = 1;
	assert_int_equal(opens(6), 0);
}

/* Anybody on the way may be a host beyond a router, whatever the PSNs; where it is authenticated, nobody else is. */
static void test_unproved_beyond_a_router(void **state)
{
	(void)state;
	is_unproved();
	routed = true;
	conn.move.rq_psn = conn.move.sq_psn = 1;
	assert_false(moves());
	assert_non_null(strstr(mesh_conn_bound(&conn), "beyond a router"));
	authenticated = true;
	assert_true(moves());
	authenticated = false;
	mesh_root.config.survive_unauthenticated = true;
	assert_true(moves());
	mesh_root.config.survive_unauthenticated = false;
	conn.ends.own_host = true;
	assert_true(moves());
	conn.ends.own_host = false;
	assert_false(moves());
	routed = false;
	assert_true(moves());
}

/* It waits for the agents to meet as it would for a path, and then the program gets its errors. */
static void test_unproved_fails(void **state)
{
	uint64_t begun_ns = now_ns;

	(void)state;
	is_unproved();
	for (; conn.state == MESH_CONN_PASSTHROUGH && now_ns < begun_ns + 2000 * MS; now_ns += 10 * MS) {
		mesh_conn_run(&conn, now_ns, now_ns);
		assert_false(conn.move.failover);
	}
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_true(now_ns >= begun_ns + 500 * MS && now_ns <= begun_ns + 530 * MS);
}

/* Who has come by the peer's address is another host, and does not speak for the connection; nor is one moved to a third host. */
static void test_path_of_another_host(void **state)
{
	struct mv_move_action action = {.type = MV_DO_PREPARE, .local_gid = {.raw = {3}}, .remote_gid = {.raw = {4}}};
	const struct mv_ctl_msg hello = {
		.type = MV_CTL_HELLO, .flags = MV_CTL_MOVE, .attempt = 5, .from = {.gid = {.raw = {2}}, .qpn = 8}, .to = {.gid = {.raw = {1}}, .qpn = 7}};

	(void)state;
	is_unproved();
	is_well();
	authenticated = true;
	of_others.raw[0] = 4;
	conn.move.attempts.peer = 1;
	assert_int_equal(mv_move_start(&conn.move, MV_CTL_REASON_PORT, decision.paths, 1, now_ns), 0);
	assert_int_equal(conn.move.state, MV_MOVE_PREPARING);
	conn.move.actions.next = conn.move.actions.n;
	mesh_conn_carry_out(&conn, &action, now_ns);
	assert_false(conn.move.failover); /* there is no other path */
	assert_int_equal(conn.moving.steps.prepared_ns, 0); /* nothing was made */
	conn.move.actions.next = conn.move.actions.n;
	of_others = conn.ends.peer.gid;
	message_comes(&conn, &hello, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.attempts.peer, 1);
	of_others.raw[0] = 9;
	message_comes(&conn, &hello, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.attempts.peer, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_unproved),
		T(test_message_of_another_host),
		T(test_unproved_beyond_a_router),
		T(test_unproved_fails),
		T(test_path_of_another_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
