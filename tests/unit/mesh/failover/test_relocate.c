// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs that have failed wait for a path for a while, for whatever reason there is none, before the program gets their errors. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "connstatus.h"
#include "move_live.h"
#include "oneconn.h"
#include "probed.h"
#include "proved.h"
#include "reasons.h"
#include "relocate.h"
#include "sealed.h"
#include "ways.h"

static const struct mv_ctl_keys no_keys;

static void waits_for(enum mv_ctl_reason reason)
{
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	now_ns += 400 * MS;
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	assert_int_equal(cq.n_stash, 0);
	now_ns += 101 * MS;
	stay(reason);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.n_stash, 1);
	assert_int_equal(cq.stash[0].status, IBV_WC_RETRY_EXC_ERR);
}

static void test_no_path(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_NO_PATH);
}

/* There seemed to be one, but its port went down, too, before anyone was told: nothing can be connected there. */
static void test_path_that_does_not_work(void **state)
{
	(void)state;
	waits_for(MV_CTL_REASON_NO_RESOURCES);
}

/* Thousands wait until as many as may have moved, and are called: were each to look often meanwhile, the thread would do nothing else. */
static void test_waits_for_its_turn(void **state)
{
	(void)state;
	conn.rts_mask = 1;
	atomic_store(&process.n_moving, 1000);
	assert_true(mesh_conn_check(&conn, now_ns, now_ns) >= now_ns + 1000 * MS);
	assert_false(conn.move.live);
	assert_int_equal(conn.stayed_ns, 0);
}

/* Its port is down; @failed: it has noticed that itself */
static void is_among_many(bool leads, bool failed)
{
	is_to_move();
	conn.path_failed = failed;
	view.verdict = MV_PATH_LOCAL_DOWN;
	conn.move.leader = leads;
	process.n_fresh = process.n_moving = MESH_MANY_MOVING;
}

/* Whose peer leads lets it begin, for a while; if it knows of something that the peer may not know, at once. */
static void test_follows(void **state)
{
	(void)state;
	is_among_many(false, false);
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), now_ns + 250 * MS);
	assert_false(conn.move.live);
	mesh_conn_check(&conn, now_ns + 249 * MS, now_ns + 249 * MS);
	assert_false(conn.move.live);
	mesh_conn_check(&conn, now_ns + 250 * MS, now_ns + 250 * MS);
	assert_true(conn.move.live);
	assert_int_equal(conn.turn_ns, 0);
}

/* It has its turn, and no reason any more; or its peer begins. The next time, it waits anew. */
static void test_waits_anew(void **state)
{
	(void)state;
	is_well();
	conn.move.leader = false;
	conn.turn_ns = now_ns;
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_false(conn.move.live);
	assert_int_equal(conn.turn_ns, 0);
	conn.turn_ns = now_ns;
	mesh_conn_note_begin(&conn, now_ns);
	assert_int_equal(conn.turn_ns, 0);
}

static void confirms(unsigned int n_fresh, enum mv_move_action_type first)
{
	const struct mv_move_action action = {.type = MV_DO_QUIESCE};

	is_well();
	conn.move.leader = true;
	conn.move.settled = conn.move.state;
	conn.move.state = MV_MOVE_QUIESCING;
	conn.move.live = true;
	conn.move.phase_since = now_ns;
	process.n_fresh = n_fresh;
	assert_true(mesh_conn_live(&conn, &action, now_ns));
	assert_int_equal(conn.move.state, MV_MOVE_FENCING);
	assert_int_equal(mv_move_peek(&conn.move)->type, first);
	conn.move.live = false;
}

static void test_confirms(void **state)
{
	(void)state;
	confirms(15, MV_DO_SEND);
}

static void test_sync_confirms(void **state)
{
	(void)state;
	confirms(16, MV_DO_FENCE);
}

static void test_follows_for_few(void **state)
{
	(void)state;
	is_among_many(false, false);
	process.n_fresh = MESH_MANY_MOVING - 1; /* the others have no peer any more */
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_true(conn.move.live);
}

static void test_leads_by_failing(void **state)
{
	(void)state;
	is_among_many(false, true);
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_true(conn.move.live);
}

static void test_leads(void **state)
{
	(void)state;
	is_among_many(true, false);
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_true(conn.move.live);
}

static void test_will_never_be(void **state)
{
	(void)state;
	stay(MV_CTL_REASON_UNSUPPORTED);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.n_stash, 1);
}

/* The NIC of the only other path makes poorer queue pairs: nothing is waited for, and the program gets its errors. */
static void test_poorer_next_one(void **state)
{
	const struct mv_move_action prepare = {.type = MV_DO_PREPARE, .local_gid = {.raw = {3}}, .remote_gid = {.raw = {4}}};

	(void)state;
	held.poorer = "this test says so";
	conn.move.live = true;
	assert_true(mesh_conn_live(&conn, &prepare, now_ns)); /* there may be another one, with another end */
	assert_null(held.poorer);
	conn.move.live = false;
	held.poorer = "this test says so";
	stay(MV_CTL_REASON_NO_PATH);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(cq.n_stash, 1);
}

/* Nobody needs to know any more whether the path of one that has failed works. */
static void test_failed_one_is_not_watched(void **state)
{
	const union ibv_gid local = {.raw = {1}}, remote = {.raw = {2}};

	(void)state;
	mesh_lock_init(&conn.lock);
	mesh_probed_use(&conn.probed.work, MV_WATCH_WORK, &local, &remote);
	assert_non_null(conn.probed.work);
	conn.state = MESH_CONN_FAILED;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(conn.probed.work);
}

/* An attempt that began earlier, or for another reason: the peer is there. */
static void test_peer_gave_up(void **state)
{
	(void)state;
	process.n_more_moving = 100;
	waits_for(MV_CTL_REASON_TIMEOUT);
	assert_true(process.n_more_moving <= 50); /* as many at once as that were too many */
}

static void test_peer_has_atomics(void **state)
{
	(void)state;
	process.n_more_moving = 100;
	waits_for(MV_CTL_REASON_BUSY);
	assert_int_equal(process.n_more_moving, 100);
}

static void test_peer_does_not_answer(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_STAY, .reason = MV_CTL_REASON_TIMEOUT, .timed_out = true};

	(void)state;
	process.n_more_moving = 100;
	assert_true(mesh_conn_live(&conn, &action, now_ns));
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(process.n_more_moving, 50);
}

/* Nor after the fence. */
static void test_peer_does_not_say(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_SURFACE, .timed_out = true};

	(void)state;
	is_to_move();
	process.n_more_moving = 100;
	assert_true(mesh_conn_live(&conn, &action, now_ns));
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(process.n_more_moving, 50);
}

/* What begins, and fails in the same moment, is tried again, and given up in time, though nobody tells of anything. */
static void test_fails_at_once(void **state)
{
	uint64_t deadline = now_ns, begun_ns = now_ns;

	(void)state;
	is_to_move();
	conn.move.peer_attempt = 1; /* so it need not ask */
	while (conn.state == MESH_CONN_NATIVE && now_ns < begun_ns + 2000 * MS) {
		deadline = mesh_conn_run(&conn, now_ns, now_ns);
		if (conn.state != MESH_CONN_NATIVE)
			break;
		assert_false(conn.move.live);
		assert_true(deadline <= now_ns + 10 * MS);
		now_ns = deadline;
	}
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_true(now_ns >= begun_ns + 500 * MS && now_ns <= begun_ns + 520 * MS);
	assert_int_equal(cq.n_stash, 1);
}

/* Nothing proves the peer: its PSNs are 0, and anybody could be its host. */
static void is_unproved(void)
{
	is_to_move();
	conn.host_id.bytes[0] = 5;
	holder = MESH_HOLDER_SAME;
	conn.move.peer_attempt = 1;
	view.verdict = MV_PATH_LOCAL_DOWN;
}

static bool moves(void)
{
	bool can;

	conn.move.live = false;
	conn.move.state = MV_MOVE_NATIVE;
	conn.move.n_actions = conn.move.next_action = 0;
	conn.stayed = NULL;
	conn.moving_ns = 0;
	can = mesh_conn_paths_for(&conn, MV_CTL_REASON_PORT, view.paths);
	assert_true(can == !mesh_conn_bound(&conn));
	return can;
}

/* What a sealed message in the peer's name comes to. @host: whose agent has sent it; 0: not told */
static int opens(uint8_t host)
{
	struct mv_ctl_msg msg = {.type = MV_CTL_HELLO,
				 .from = conn.peer,
				 .to = conn.local,
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
	assert_int_equal(mv_move_start(&conn.move, MV_CTL_REASON_PORT, view.paths, 1, now_ns), 0);
	conn.move.next_action = conn.move.n_actions;
	assert_true(mesh_conn_live(&conn, &prepare, now_ns));
	assert_false(conn.move.live);
	assert_true(mv_move_next(&conn.move, &refusal));
	assert_int_equal(refusal.msg.type, MV_CTL_REFUSE);
	assert_int_equal(refusal.msg.reason, MV_CTL_REASON_UNSUPPORTED);
	/* The peer hears of no reason. The program's user does. */
	held.guard->broken = false;
	assert_true(mesh_conn_live(&conn, &stay, now_ns));
	assert_non_null(strstr(conn.stayed, "authenticated"));
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
	conn.own_host = true;
	assert_true(moves());
	conn.own_host = false;
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
	conn.host_id.bytes[0] = 0; /* nor was it known */
	assert_int_equal(opens(6), 0);
	conn.host_id.bytes[0] = 5;
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
	conn.own_host = true;
	assert_true(moves());
	conn.own_host = false;
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
	for (; conn.state == MESH_CONN_NATIVE && now_ns < begun_ns + 2000 * MS; now_ns += 10 * MS) {
		mesh_conn_run(&conn, now_ns, now_ns);
		assert_false(conn.move.live);
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
	conn.move.peer_attempt = 1;
	assert_int_equal(mv_move_start(&conn.move, MV_CTL_REASON_PORT, view.paths, 1, now_ns), 0);
	assert_int_equal(conn.move.state, MV_MOVE_PREPARING);
	conn.move.next_action = conn.move.n_actions;
	assert_true(mesh_conn_live(&conn, &action, now_ns));
	assert_false(conn.move.live); /* there is no other path */
	assert_int_equal(conn.steps.prepared_ns, 0); /* nothing was made */
	conn.move.next_action = conn.move.n_actions;
	of_others = conn.peer.gid;
	message_comes(&conn, &hello, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.peer_attempt, 1);
	of_others.raw[0] = 9;
	message_comes(&conn, &hello, &no_keys, now_ns, now_ns);
	assert_int_equal(conn.move.peer_attempt, 5);
}

/* One that has not failed leaves a port that is down again soon, then less and less often. */
static void test_leaves_again_at_once(void **state)
{
	uint64_t deadline, wait_ns;

	(void)state;
	is_to_move();
	conn.move.peer_attempt = 1;
	conn.path_failed = false;
	held.guard->broken = false;
	view.verdict = MV_PATH_LOCAL_DOWN;
	for (wait_ns = 10 * MS; wait_ns <= 640 * MS; wait_ns *= 2) {
		deadline = mesh_conn_run(&conn, now_ns, now_ns);
		assert_false(conn.move.live);
		assert_non_null(conn.stayed);
		assert_int_equal(deadline, now_ns + wait_ns);
		now_ns = deadline;
	}
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
}

/* One that has failed, and waits for a path, does not wait for its turn as well: it has not the time. */
static void test_turn_is_kept(void **state)
{
	(void)state;
	is_to_move();
	view.n_paths = 0;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(conn.state, MESH_CONN_NATIVE);
	process.n_moving = 1000;
	view.n_paths = 1;
	now_ns += 400 * MS;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_true(conn.move.live);
}

/* A queue pair that is to be connected ahead does not keep the move waiting that has begun since. */
static void test_standby_is_passed(void **state)
{
	(void)state;
	is_to_move();
	conn.move.peer_attempt = 1;
	conn.path_failed = false;
	conn.move.actions[conn.move.n_actions++] = (struct mv_move_action){.type = MV_DO_STANDBY};
	conn.path_failed = true;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(mv_move_peek(&conn.move));
	assert_non_null(conn.stayed); /* it has been tried */
}

/* The program goes to RTS while the old one is in ERR: that is for the next one, and nothing of the old one's log is forgotten. */
static void test_rts_behind_the_fence(void **state)
{
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .sq_psn = 77};

	(void)state;
	held.mode = MESH_HELD_FENCED;
	assert_int_equal(mesh_live_base_rts(&held, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	assert_true(held.guard->broken);
	assert_int_equal(held.guard->sends.first_psn, 0);
	assert_false(mesh_live_sends(&held));
}

/* The peer refuses. */
static void refused(void)
{
	struct mv_move_action action;

	while (mv_move_next(&conn.move, &action))
		;
	conn.move.live = false;
	conn.move.state = conn.move.settled;
	conn.move.resend_at = 0;
	stay(MV_CTL_REASON_UNSUPPORTED);
}

/* Leaving a port that is down is refused again and again, for as long as it lasts. */
static void test_backs_off(void **state)
{
	uint64_t deadline, end_ns = now_ns + 20000 * MS;
	unsigned int n = 0;

	(void)state;
	is_well();
	view.verdict = MV_PATH_LOCAL_DOWN;
	for (; now_ns < end_ns; now_ns = deadline) {
		deadline = mesh_conn_run(&conn, now_ns, now_ns);
		if (conn.move.live) {
			n++;
			refused();
			deadline = mesh_conn_run(&conn, now_ns, now_ns);
		}
		assert_false(conn.move.live);
		assert_true(deadline > now_ns && deadline <= now_ns + 1000 * MS);
	}
	assert_true(n > 20 && n < 40);
	/* News: perhaps the peer has a path now. */
	now_ns = conn.stayed_ns + 10 * MS;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_false(conn.move.live);
	view.generation++;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_true(conn.move.live);
	conn.move.live = false;
}

/* What comes to nothing before anything was sent is tried again, though nobody tells of anything. */
static void test_again_by_itself(void **state)
{
	uint64_t deadline;

	(void)state;
	is_well();
	conn.move.peer_attempt = 1; /* so it need not ask, and fails at once */
	view.verdict = MV_PATH_LOCAL_DOWN;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_non_null(conn.stayed);
	assert_false(conn.move.live);
	assert_true(deadline <= now_ns + 1000 * MS);
}

/* A peer that wants to move is told that there is nobody any more. */
static void test_failed_one_says_so(void **state)
{
	struct mv_ctl_msg msg = {.type = MV_CTL_OFFER, .flags = MV_CTL_MOVE, .request_id = 1};

	(void)state;
	is_to_move();
	stay(MV_CTL_REASON_UNSUPPORTED);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	msg.from = conn.peer;
	msg.to = conn.local;
	msg.attempt = 2;
	msg.to_attempt = conn.move.attempt;
	msg.from_psn = conn.move.rq_psn;
	msg.to_psn = conn.move.sq_psn;
	message_comes(&conn, &msg, &no_keys, now_ns, now_ns);
	assert_int_equal(sent.type, MV_CTL_REFUSE);
	assert_int_equal(sent.reason, MV_CTL_REASON_GONE);
	assert_null(mv_move_peek(&conn.move));
}

static uint64_t late_ns; /* the peer may have sent something since then */

/* Return: when it is to be looked at. */
static uint64_t say_bye(uint32_t attempt)
{
	const struct mv_ctl_msg bye = {.type = MV_CTL_BYE,
				       .from = conn.peer,
				       .to = conn.local,
				       .attempt = attempt,
				       .to_attempt = conn.move.attempt,
				       .from_psn = conn.move.rq_psn,
				       .to_psn = conn.move.sq_psn};

	return message_comes(&conn, &bye, &no_keys, now_ns, now_ns - late_ns);
}

/* Where many move, it is looked at later if there is nothing that it has to do soon. The message is not the peer's, and changes nothing. */
static void test_look_after_message(void **state)
{
	struct mesh_conn_key key = {.key = 1};

	(void)state;
	is_well();
	conn.move.peer_attempt = 3;
	process.n_fresh = 15;
	assert_int_equal(say_bye(2), now_ns);
	process.n_fresh = 16;
	assert_int_equal(say_bye(2), now_ns + 100 * MS);
	conn.stayed = "of something";
	assert_int_equal(say_bye(2), now_ns);
	conn.stayed = NULL;
	conn.pathless_ns = 1;
	assert_int_equal(say_bye(2), now_ns);
	conn.pathless_ns = 0;
	held.guard->broken = true;
	assert_int_equal(say_bye(2), now_ns);
	held.guard->broken = false;
	held.guard->lost = "of something";
	assert_int_equal(say_bye(2), now_ns);
	held.guard->lost = NULL;
	conn.state = MESH_CONN_HELD; /* it is being connected */
	assert_int_equal(say_bye(2), now_ns);
	conn.state = MESH_CONN_NATIVE;
	conn.at_work = true;
	assert_int_equal(say_bye(2), now_ns);
	conn.at_work = false;
	conn.move.live = true;
	conn.move.phase_since = now_ns;
	conn.move.resend_at = now_ns + 7 * MS;
	assert_int_equal(say_bye(2), now_ns + 7 * MS);
	late_ns = 30 * MS;
	assert_int_equal(say_bye(2), now_ns + 37 * MS);
	late_ns = 0;
	conn.move.state = MV_MOVE_QUIESCING; /* what it holds back is looked at more often */
	assert_int_equal(say_bye(2), now_ns);
	conn.move.state = MV_MOVE_NATIVE;
	conn.fencing = true;
	assert_int_equal(say_bye(2), now_ns);
	conn.fencing = false;
	conn.move.actions[conn.move.n_actions++] = (struct mv_move_action){.type = MV_DO_CONNECT}; /* a worker's */
	assert_int_equal(say_bye(2), now_ns);
	conn.move.n_actions = conn.move.next_action = 0;
	conn.move.live = false;
	TAILQ_INIT(&conn.keys);
	assert_int_equal(say_bye(2), now_ns + 100 * MS);
	TAILQ_INSERT_TAIL(&conn.keys, &key, of_conn); /* which it may have to ask for again */
	assert_int_equal(say_bye(2), now_ns);
	TAILQ_REMOVE(&conn.keys, &key, of_conn);
}

/* A worker has the connection, or the program is in the middle of a call, when the peer says that it goes. */
static void bye_is_kept(_Atomic bool *worker)
{
	is_well();
	conn.move.peer_attempt = 3;
	if (worker)
		*worker = true;
	else
		pthread_mutex_lock(&conn.lock.mutex.pthread); /* another thread has it */
	say_bye(3);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(held.guard->lost);
	if (worker)
		*worker = false; /* and has it queued */
	else
		pthread_mutex_unlock(&conn.lock.mutex.pthread);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_non_null(held.guard->lost);
	held.guard->lost = NULL;
	/* Once. */
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(held.guard->lost);
}

static void test_bye_at_work(void **state)
{
	(void)state;
	bye_is_kept(&conn.at_work);
}

static void test_bye_in_a_call(void **state)
{
	(void)state;
	bye_is_kept(NULL);
}

/* It proves what it says like any other. */
static void test_late_bye_of_another(void **state)
{
	(void)state;
	is_well();
	conn.move.peer_attempt = 3;
	conn.at_work = true;
	say_bye(2);
	conn.at_work = false;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(held.guard->lost);
}

/* So it is where the PSNs prove nothing: the host that it was from is kept with it. */
static void test_late_bye_of_another_host(void **state)
{
	(void)state;
	is_well();
	conn.move.peer_attempt = 3;
	conn.host_id.bytes[0] = 5;
	holder = MESH_HOLDER_SAME;
	for (said_by.bytes[0] = 6; said_by.bytes[0] >= 5; said_by.bytes[0]--) {
		conn.at_work = true;
		say_bye(3);
		conn.at_work = false;
		mesh_conn_run(&conn, now_ns, now_ns);
		assert_int_equal(held.guard->lost != NULL, said_by.bytes[0] == 5);
	}
	said_by.bytes[0] = 0;
}

/* It goes while ours is being fenced: what that flushes is not the program's to see. */
static void test_bye_while_fencing(void **state)
{
	struct mesh_completion flushed = {.wr_id = 1, .cq = &cq, .status = IBV_WC_WR_FLUSH_ERR};

	(void)state;
	is_well();
	conn.move.peer_attempt = 3;
	held.mode = MESH_HELD_FENCING;
	say_bye(3);
	assert_true(conn.peer_gone);
	assert_null(held.guard->lost);
	assert_false(mesh_guard_completed(&held, &flushed));
}

/* Its own program takes it away when the peer waits to be told what it has executed. */
static void test_last_word(void **state)
{
	(void)state;
	is_well();
	sent = (struct mv_ctl_msg){0};
	mesh_conn_last_word(&conn);
	assert_int_equal(sent.type, 0); /* nothing moves */
	conn.move.peer_attempt = 3;
	conn.move.live = true;
	conn.move.state = MV_MOVE_FENCED;
	conn.move.next.offer = 5;
	conn.move.my_sync = (struct mv_move_sync){0x123, 4};
	mesh_conn_last_word(&conn);
	assert_int_equal(sent.type, MV_CTL_SYNC);
	assert_int_equal(sent.request_id, 5);
	assert_int_equal(sent.next_psn, 0x123);
	assert_int_equal(sent.n_received, 4);
	/* It cannot be known any more: better nothing than something wrong. */
	sent = (struct mv_ctl_msg){0};
	conn.move.state = MV_MOVE_FENCING;
	held.mode = MESH_HELD_FENCING;
	mesh_conn_last_word(&conn);
	assert_int_equal(sent.type, 0);
	conn.move.live = false;
}

/* The program has posted, since its next one was prepared, what cannot be moved: nothing is fenced. */
static void test_lost_meanwhile(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_QUIESCE};

	(void)state;
	is_well();
	conn.move.settled = conn.move.state;
	conn.move.state = MV_MOVE_QUIESCING;
	conn.move.live = true;
	held.guard->lost = "this test says so";
	assert_true(mesh_conn_live(&conn, &action, now_ns));
	assert_false(conn.move.live);
	assert_int_equal(conn.move.state, MV_MOVE_NATIVE);
	held.guard->lost = NULL;
}

/* Likewise a key that no other NIC can have. */
static void test_stays_meanwhile(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_QUIESCE};
	struct ibv_pd pd = {.context = qp.context};

	(void)state;
	is_well();
	qp.pd = &pd;
	conn.move.settled = conn.move.state;
	conn.move.state = MV_MOVE_QUIESCING;
	conn.move.live = true;
	atomic_store_explicit(&process.all_stay, "this test says so", memory_order_relaxed);
	assert_string_equal(mesh_conn_bound(&conn), "this test says so");
	assert_true(mesh_conn_live(&conn, &action, now_ns));
	atomic_store_explicit(&process.all_stay, NULL, memory_order_relaxed);
	assert_false(conn.move.live);
	assert_int_equal(conn.move.state, MV_MOVE_NATIVE);
	qp.pd = NULL;
}

/* Only of one that the program has connected it is said that it can be moved, and at once then. */
static void test_movable_once_connected(void **state)
{
	static const enum mesh_conn_state before[] = {MESH_CONN_INIT, MESH_CONN_HELD, MESH_CONN_NATIVE, MESH_CONN_MOVED};

	(void)state;
	is_well();
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		conn.state = before[i];
		conn.rts_mask = 0;
		mesh_conn_tell(&conn);
		assert_null(strstr(status, "movable"));
	}
	conn.state = MESH_CONN_HELD;
	conn.rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	mesh_conn_tell(&conn);
	assert_null(strstr(status, "movable"));

	conn.state = MESH_CONN_NATIVE;
	conn.rts_mask = 0;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_null(strstr(status, "movable"));
	n_statuses = 0;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_statuses, 0);
	conn.rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(n_statuses, 1);
	assert_non_null(strstr(status, "\"movable\":true"));
	atomic_store_explicit(&conn.refused, true, memory_order_relaxed);
	mesh_conn_run(&conn, now_ns, now_ns);
	assert_non_null(strstr(status, "\"movable\":false"));
	atomic_store_explicit(&conn.refused, false, memory_order_relaxed);
}

/* Keys that were told for a QP that is given up are for no other. */
static void test_keys_go_with_their_qp(void **state)
{
	const struct mv_move_action action = {.type = MV_DO_RELEASE};

	(void)state;
	is_well();
	conn.move_keys.ours[0] = (struct mesh_conn_move_key){.id = 5, .given = true, .key = {.rkey = 6, .path_rkey = 7}};
	assert_true(mesh_conn_live(&conn, &action, now_ns));
	assert_int_equal(conn.move_keys.ours[0].id, 0);
	assert_false(conn.move_keys.ours[0].given);
}

/* One move ends: the next is not begun before that has been carried out, and says when it may. */
static void test_one_after_the_other(void **state)
{
	uint64_t deadline;

	(void)state;
	is_well();
	view.verdict = MV_PATH_LOCAL_DOWN;
	view.drained = true;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_true(conn.move.live); /* it asks for the peer's attempt */
	now_ns += mv_move_default_times.move_ns / 2;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_non_null(conn.stayed);
	assert_false(conn.move.live);
	assert_true(deadline <= now_ns + 1000 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_waits_for_its_turn),
		T(test_no_path),
		T(test_path_that_does_not_work),
		T(test_will_never_be), T(test_poorer_next_one),
		T(test_peer_gave_up),
		T(test_peer_has_atomics),
		T(test_peer_does_not_answer),
		T(test_fails_at_once),
		T(test_unproved),
		T(test_message_of_another_host),
		T(test_unproved_beyond_a_router),
		T(test_unproved_fails),
		T(test_path_of_another_host),
		T(test_leaves_again_at_once),
		T(test_turn_is_kept),
		T(test_standby_is_passed),
		T(test_rts_behind_the_fence),
		T(test_backs_off),
		T(test_again_by_itself),
		T(test_failed_one_says_so),
		T(test_bye_at_work),
		T(test_bye_in_a_call),
		T(test_peer_does_not_say), T(test_follows), T(test_follows_for_few), T(test_leads_by_failing), T(test_leads),
		T(test_waits_anew), T(test_confirms), T(test_sync_confirms),
		T(test_look_after_message), T(test_late_bye_of_another), T(test_late_bye_of_another_host),
		T(test_bye_while_fencing),
		T(test_last_word),
		T(test_lost_meanwhile),
		T(test_stays_meanwhile),
		T(test_movable_once_connected),
		T(test_keys_go_with_their_qp),
		T(test_one_after_the_other),
		T(test_failed_one_is_not_watched), /* the last one: what it has made known stays so */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
