// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The agent has doubts about a path: connections agree on another one meanwhile, and nothing is drained before it is
 * sure.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>

#include "detect.h"
#include "move_failover.h"
#include "ports.h"
#include "move_internal.h"
#include "oneconn.h"
#include "arm.h"
#include "path_monitor.h"
#include "failover_policy.h"
#include "failover_exec.h"
#include "suspect.h"

/* What was made in advance. */
static int take_error;
static unsigned int n_taken;

int __wrap_mesh_failover_take_standby(struct mesh_vqp *h);

int __wrap_mesh_failover_take_standby(struct mesh_vqp *h)
{
	assert_ptr_equal(h, &vqp);
	n_taken++;
	return take_error;
}

static const union ibv_gid local = {.raw = {1}}, remote = {.raw = {2}}, alternate_local = {.raw = {3}},
			   alternate_remote = {.raw = {4}};

static void hear(uint8_t type, const union ibv_gid *from, const union ibv_gid *to, enum mv_probed state)
{
	const struct mv_frame frame = {.type = type, .sgid = *from, .dgid = *to, .probed = (uint8_t)state};

	mesh_path_monitor_told(&frame, now_ns);
}

static void suspected(void)
{
	hear(MV_FRAME_SUSPECT, &local, &remote, 0);
}

static void found(enum mv_probed state)
{
	hear(MV_FRAME_PATH, &local, &remote, state);
}

static void carry_out(void)
{
	struct mv_move_action action;

	while (mv_move_next(&conn.move, &action))
		if (action.type == MV_DO_SEND)
			sent = action.msg;
		else
			mesh_conn_failover(&conn, &action, now_ns);
}

static uint64_t check(void)
{
	uint64_t at = mesh_conn_check(&conn, now_ns, now_ns);

	carry_out();
	return at;
}

/* It leads, its path answers, and so does the other one. */
static int setup(void **state)
{
	oneconn_setup(state);
	mesh_root.undetected = 0;
	is_well();
	conn.ends.local_type = MV_GID_TYPE_ROCE_V2;
	decision.generation = 1;
	mesh_conn_settled(&conn);
	assert_true(conn.move.leader);
	mesh_path_monitor_agent(true);
	mesh_conn_check(&conn, now_ns, now_ns);
	found(MV_PROBED_UP);
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_UP);
	sent = (struct mv_ctl_msg){0};
	take_error = 0;
	n_taken = 0;
	return 0;
}

static int teardown(void **state)
{
	mesh_conn_unwatch(&conn);
	mesh_path_monitor_lost();
	mesh_path_monitor_run(now_ns);
	free(process.monitor.all);
	return oneconn_teardown(state);
}

/* The other end has a QP, too. */
static void both_are_ready(void)
{
	assert_true(conn.move.failover);
	conn.move.state = MV_MOVE_QUIESCING;
	conn.move.attempts.peer = 3;
	conn.move.last_offer = 1;
	conn.move.timers.phase_since = now_ns;
	conn.moving.next_path = (struct mesh_conn_path){.gid = alternate_local, .peer_gid = alternate_remote};
}

static void prepare(void)
{
	suspected();
	assert_int_equal(check(), now_ns + MESH_SUSPECT_NS);
	assert_true(conn.move.failover && conn.move.unsure);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_PATH);
	both_are_ready();
}

/* Not the drain itself. */
static void quiesce(void)
{
	const struct mv_move_action action = {.type = MV_DO_QUIESCE};

	assert_int_equal(mv_move_peek(&conn.move)->type, MV_DO_QUIESCE);
	conn.move.actions.n = conn.move.actions.next = 0;
	assert_true(mesh_conn_failover(&conn, &action, now_ns));
}

static void assert_goes(enum mv_ctl_reason why)
{
	now_ns += 7 * MS;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), UINT64_MAX);
	assert_false(conn.move.unsure);
	assert_int_equal(conn.move.reason, why);
	assert_int_equal(conn.moving.since_ns, now_ns); /* until then the program has noticed nothing */
	assert_false(conn.watched.prepares);
	assert_int_equal(n_taken, 0);
	quiesce();
	assert_int_equal(n_taken, 1);
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
}

static void test_dead(void **state)
{
	(void)state;
	prepare();
	check();
	assert_int_equal(conn.move.state, MV_MOVE_QUIESCING);
	assert_int_equal(n_taken, 0);
	found(MV_PROBED_DOWN);
	assert_goes(MV_CTL_REASON_PATH);
}

/* What has been agreed upon answers, so no other path is looked for: hundreds would, in that moment. */
static void test_dead_and_agreed(void **state)
{
	(void)state;
	prepare();
	conn.move.next.mine.gid = alternate_local;
	conn.move.next.peer.gid = alternate_remote;
	n_searched = 0;
	found(MV_PROBED_DOWN);
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_false(conn.move.unsure);
	assert_int_equal(n_searched, 0);
}

/* It does not answer any more: is there another? */
static void test_dead_but_agreed(void **state)
{
	(void)state;
	prepare();
	conn.move.next.mine.gid = alternate_local;
	conn.move.next.peer.gid = alternate_remote;
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_DOWN);
	n_searched = 0;
	found(MV_PROBED_DOWN);
	mesh_conn_check(&conn, now_ns, now_ns);
	assert_int_not_equal(n_searched, 0);
}

/* That is known before both are ready. */
static void test_dead_soon(void **state)
{
	(void)state;
	prepare();
	conn.move.state = MV_MOVE_CONNECTING;
	found(MV_PROBED_DOWN);
	check();
	assert_int_equal(conn.move.state, MV_MOVE_CONNECTING);
	assert_false(conn.move.unsure);
	mv_move_connected(&conn.move, true, now_ns);
	quiesce();
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
}

/*
 * Where another path is better by now, or what was made in advance is gone, it begins anew; not where a batch is in the
 * way.
 */
static void sure_but(int error, enum mv_probed alternate)
{
	prepare();
	take_error = error;
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, alternate);
	found(MV_PROBED_DOWN);
	mesh_conn_check(&conn, now_ns, now_ns);
	conn.move.attempts.peer = 0; /* there is no rail that could be prepared */
	quiesce();
}

static void test_gone_meanwhile(void **state)
{
	(void)state;
	sure_but(-ENOENT, MV_PROBED_UP);
	assert_int_equal(conn.move.state, MV_MOVE_ASKING);
	assert_true(conn.move.failover);
	assert_false(conn.move.early);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_PATH);
}

static void test_in_a_batch(void **state)
{
	(void)state;
	sure_but(-EBUSY, MV_PROBED_UP);
	assert_int_equal(conn.move.state, MV_MOVE_QUIESCING);
	assert_true(conn.move.early);
	take_error = 0;
	mv_move_tick(&conn.move, now_ns + 10 * MS);
	quiesce();
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
}

static void test_better_path(void **state)
{
	(void)state;
	decision.n_paths = 2;
	decision.paths[1] = decision.paths[0];
	decision.paths[1].local_gid.raw[0] = 5;
	decision.paths[1].local_rail = 2;
	sure_but(0, MV_PROBED_SILENT);
	assert_int_equal(n_taken, 0);
	assert_int_equal(conn.move.state, MV_MOVE_ASKING);
	assert_false(conn.move.early);
	assert_memory_equal(&conn.move.paths.list[0].local_gid, &decision.paths[1].local_gid, 16);
}

static void test_no_path_any_more(void **state)
{
	(void)state;
	prepare();
	found(MV_PROBED_DOWN);
	mesh_conn_check(&conn, now_ns, now_ns);
	decision.n_paths = 0;
	quiesce();
	carry_out();
	assert_false(conn.move.failover);
	assert_int_equal(n_taken, 0);
	assert_int_equal(sent.type, MV_CTL_REFUSE);
}

static void assert_is_off(void)
{
	assert_false(conn.move.failover);
	assert_false(conn.watched.prepares);
	assert_int_equal(conn.move.state, MV_MOVE_PASSTHROUGH);
	assert_int_equal(conn.moving.since_ns, 0);
	assert_null(conn.retry.stayed);
	assert_int_equal(conn.retry.again_ns, 0);
	conn.move.attempts.peer = 0; /* the next one begins by asking for it, as there is no rail that it could prepare */
}

static void test_well(void **state)
{
	uint64_t hold_ns = conn.primary.hold_ns;

	(void)state;
	conn.primary.returned_at_ns = now_ns;
	prepare();
	found(MV_PROBED_UP);
	/* There may be another reason. */
	assert_int_equal(check(), now_ns);
	assert_is_off();
	assert_int_equal(sent.type, MV_CTL_REFUSE);
	assert_int_equal(sent.reason, MV_CTL_REASON_HEALED);
	check();
	assert_false(conn.move.failover);
	/* It was no flap. */
	assert_int_equal(conn.primary.hold_ns, hold_ns);
	assert_true(conn.primary.returned_at_ns);
	/* The next one. */
	now_ns += 20 * MS;
	prepare();
	found(MV_PROBED_DOWN);
	assert_goes(MV_CTL_REASON_PATH);
	assert_true(conn.primary.hold_ns > hold_ns);
}

/* The agent is stopped; what its doubts have held back at the peer goes on. Once for each. */
static void test_nothing_comes_of_it(void **state)
{
	(void)state;
	prepare();
	now_ns += MESH_SUSPECT_NS;
	check();
	assert_is_off();
	assert_int_equal(sent.reason, MV_CTL_REASON_HEALED);
	check();
	assert_false(conn.move.failover);
	found(MV_PROBED_DOWN);
	check();
	assert_true(conn.move.failover);
	assert_false(conn.watched.prepares);
}

/* It is over before what is under way can be called off; and then it is sure. */
static void test_called_off_late(void **state)
{
	uint64_t hold_ns = conn.primary.hold_ns;

	(void)state;
	conn.primary.returned_at_ns = now_ns;
	prepare();
	conn.move.state = MV_MOVE_CONNECTING;
	found(MV_PROBED_UP);
	assert_int_equal(check(), UINT64_MAX); /* whoever is at it has it looked at */
	assert_true(conn.move.failover);
	found(MV_PROBED_DOWN);
	check();
	assert_true(conn.move.failover);
	assert_int_equal(conn.move.state, MV_MOVE_CONNECTING);
	mv_move_connected(&conn.move, true, now_ns);
	carry_out();
	assert_false(conn.move.failover);
	assert_int_equal(conn.primary.hold_ns, 2 * hold_ns); /* one flap */
}

static void test_peers_word(void **state)
{
	(void)state;
	prepare();
	mv_move_sure(&conn.move, MV_CTL_REASON_PORT, now_ns); /* so the transaction has heard */
	now_ns += 5 * MS;
	assert_true(conn.watched.prepares);
	quiesce();
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
	assert_int_equal(conn.moving.since_ns, now_ns);
	assert_false(conn.watched.prepares);
}

/* A follower that is sure lets its leader find out itself; but not for long. */
static void follower_is_sure(bool wished)
{
	conn.move.leader = false;
	conn.move.call_off.settled = conn.move.state;
	conn.move.failover = conn.move.early = conn.move.unsure = true;
	conn.move.wish.own = wished;
	conn.move.state = MV_MOVE_ANSWERED;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), UINT64_MAX);
	decision.verdict = MV_PATH_LOCAL_DOWN;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), now_ns + 20 * MS);
	decision.verdict = MV_PATH_WORKS;
	now_ns += 19 * MS;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), UINT64_MAX);
	decision.verdict = MV_PATH_LOCAL_DOWN;
	assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), now_ns + 20 * MS);
	assert_null(mv_move_peek(&conn.move));
	/* Among hundreds what the leader has said may not have been looked at. */
	assert_int_equal(mesh_conn_check(&conn, now_ns + 25 * MS, now_ns + 15 * MS), now_ns + 30 * MS);
	assert_null(mv_move_peek(&conn.move));
	/* And again, for it may be lost. */
	for (unsigned int i = 0; i < 2; i++) {
		now_ns += 20 * MS;
		assert_int_equal(mesh_conn_check(&conn, now_ns, now_ns), now_ns + 20 * MS);
		carry_out();
		assert_int_equal(sent.type, MV_CTL_HELLO);
		assert_int_equal(sent.reason, MV_CTL_REASON_PORT);
		sent = (struct mv_ctl_msg){0};
		mesh_conn_check(&conn, now_ns, now_ns);
		assert_null(mv_move_peek(&conn.move));
	}
	conn.move.failover = conn.move.unsure = false;
}

/* What it has answered with is gone, or its program has posted what cannot be moved. */
static void follower_has_lost(const char *lost, uint32_t qpn)
{
	conn.move.leader = false;
	conn.move.call_off.settled = conn.move.state;
	conn.move.failover = conn.move.early = conn.move.unsure = true;
	conn.move.state = MV_MOVE_ANSWERED;
	conn.move.attempts.peer = 3;
	conn.move.last_offer = 1;
	conn.move.next.mine.qpn = qpn;
	vqp.tracker->lost = lost;
	assert_int_equal(check(), now_ns);
	assert_false(conn.move.failover);
	assert_int_equal(sent.type, MV_CTL_REFUSE);
	assert_null(conn.retry.stayed);
	vqp.tracker->lost = NULL;
}

static void test_follower_has_lost_it(void **state)
{
	(void)state;
	follower_has_lost(NULL, 77);
}

static void test_follower_cannot_move(void **state)
{
	(void)state;
	follower_has_lost("of something", 0);
}

/* What the suspicion connected otherwise is told of again; by the leader. */
static void test_stands_by_again(void **state)
{
	(void)state;
	conn.primary.standby.n_told = 99;
	prepare();
	found(MV_PROBED_UP);
	check();
	assert_int_equal(conn.primary.standby.n_told, 0);
	assert_true(conn.primary.standby.tell_ns > now_ns);
	conn.primary.standby.n_told = 99;
	conn.move.leader = false;
	mesh_conn_stands_by_again(&conn, now_ns);
	assert_int_equal(conn.primary.standby.n_told, 99);
}

/* The peer wants to leave for a reason of its own, which is none to note twice. */
static void test_flap_is_noted_once(void **state)
{
	const struct mv_move_action wanted = {.type = MV_DO_WANTED, .reason = MV_CTL_REASON_DRAIN};
	uint64_t hold_ns = conn.primary.hold_ns;

	(void)state;
	conn.primary.returned_at_ns = now_ns;
	prepare();
	conn.move.attempts.peer = 0;
	assert_true(mesh_conn_failover(&conn, &wanted, now_ns));
	assert_false(conn.watched.prepares || conn.move.unsure);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_DRAIN);
	assert_int_equal(conn.primary.hold_ns, 2 * hold_ns);
	mesh_conn_note_sure(&conn, now_ns);
	assert_int_equal(conn.primary.hold_ns, 2 * hold_ns);
}

static void test_follower_is_sure(void **state)
{
	(void)state;
	follower_is_sure(false);
}

static void test_follower_has_said_so(void **state)
{
	(void)state;
	follower_is_sure(true);
}

/* It has moved, and is to find out anew the next time. */
static void test_follower_forgets(void **state)
{
	(void)state;
	conn.watched.dead_ns = 1;
	check();
	assert_int_equal(conn.watched.dead_ns, 0);
}

/* The follower's QP comes into its place with the drain. */
static void follower_drains(int error)
{
	const struct mv_move_action drain = {.type = MV_DO_DRAIN};

	conn.move.leader = false;
	conn.move.call_off.settled = conn.move.state;
	conn.move.failover = conn.move.early = true;
	conn.move.state = MV_MOVE_DRAINING;
	conn.moving.since_ns = now_ns;
	now_ns += 15 * MS;
	take_error = error;
	/* The turn began somewhat earlier. */
	assert_true(mesh_conn_failover(&conn, &drain, now_ns - 5 * MS));
	assert_int_equal(n_taken, 1);
}

static void test_follower_in_a_batch(void **state)
{
	(void)state;
	follower_drains(-EBUSY);
	assert_int_equal(conn.moving.since_ns, now_ns);
	assert_true(conn.moving.draining);
	assert_true(mesh_conn_drain_at(&conn) < now_ns + MS);
	now_ns += 1700 * MS;
	mesh_conn_drain(&conn, now_ns);
	assert_int_equal(n_taken, 2);
	assert_int_equal(conn.move.state, MV_MOVE_DRAINING);
	/* Whoever is in it does not end it. */
	now_ns += 101 * MS;
	mesh_conn_drain(&conn, now_ns);
	assert_false(conn.moving.draining);
	assert_int_equal(conn.move.state, MV_MOVE_FAILED);
}

static void test_follower_has_none(void **state)
{
	(void)state;
	follower_drains(-ENOENT);
	assert_false(conn.moving.draining);
	assert_int_equal(conn.move.state, MV_MOVE_FAILED);
}

static void test_port(void **state)
{
	(void)state;
	prepare();
	decision.verdict = MV_PATH_REMOTE_DOWN;
	assert_goes(MV_CTL_REASON_PORT);
}

/* A drained one works; it leaves when nothing else is under way. */
static void test_drained(void **state)
{
	(void)state;
	prepare();
	decision.verdict = MV_PATH_LOCAL_DOWN;
	decision.drained = true;
	check();
	assert_true(conn.move.unsure);
	found(MV_PROBED_UP);
	assert_int_equal(check(), now_ns);
	assert_is_off();
	check();
	assert_true(conn.move.failover);
	assert_int_equal(conn.move.reason, MV_CTL_REASON_DRAIN);
}

static int query_port(struct ibv_context *of, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	(void)of;
	(void)port;
	(void)size;
	attr->state = IBV_PORT_DOWN;
	return 0;
}

/* By its event, before the directory has it. */
static void test_own_port(void **state)
{
	struct verbs_context verbs = {.sz = sizeof(verbs), .query_port = query_port, .context.abi_compat = __VERBS_ABI_IS_EXTENDED};
	const struct ibv_async_event event = {.event_type = IBV_EVENT_PORT_ERR, .element.port_num = 1};
	struct ibv_context *before = qp.context;

	(void)state;
	prepare();
	qp.context = &verbs.context;
	conn.attr.rtr.ah_attr.port_num = 1;
	mesh_port_event(&context.ports_down, &event);
	assert_goes(MV_CTL_REASON_PORT);
	context.ports_down = 0;
	qp.context = before;
}

static void test_retries(void **state)
{
	(void)state;
	prepare();
	vqp.tracker->broken = true;
	assert_goes(MV_CTL_REASON_PATH);
}

/* All others are as dead: nothing to go to. */
static void test_all_dead(void **state)
{
	(void)state;
	prepare();
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_SILENT);
	found(MV_PROBED_DOWN);
	assert_int_equal(check(), now_ns);
	assert_is_off();
}

static void test_enough_prepare(void **state)
{
	(void)state;
	process.moves.n_prepared = 1024;
	suspected();
	check();
	assert_false(conn.move.failover);
	process.moves.n_prepared = 1023;
	check();
	assert_true(conn.move.failover);
}

static void assert_does_not_prepare(void)
{
	suspected();
	check();
	assert_false(conn.move.failover);
	assert_null(conn.retry.stayed);
}

static void test_follower(void **state)
{
	(void)state;
	conn.move.leader = false;
	assert_does_not_prepare();
}

static void test_switched_off(void **state)
{
	(void)state;
	mesh_root.undetected = MESH_DETECT_PROBE;
	assert_does_not_prepare();
	mesh_root.undetected = 0;
}

/* Whether another one is any better is not known yet; when it is, there is time still. */
static void test_no_better_path(void **state)
{
	(void)state;
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_UNKNOWN);
	assert_does_not_prepare();
	decision.n_paths = 0;
	check();
	assert_false(conn.move.failover);
	decision.n_paths = 1;
	hear(MV_FRAME_PATH, &alternate_local, &alternate_remote, MV_PROBED_UP);
	check();
	assert_true(conn.move.failover);
}

/* The peer has refused lately. */
static void test_refused_lately(void **state)
{
	(void)state;
	conn.retry.stayed = "of something";
	conn.retry.stayed_ns = now_ns;
	suspected();
	check();
	assert_false(conn.move.failover);
	now_ns += 1000 * MS;
	suspected();
	check();
	assert_true(conn.move.failover);
}

/* It refuses now: that is no reason to wait when the path is dead. */
static void test_refused(void **state)
{
	(void)state;
	prepare();
	mv_move_refuse(&conn.move, MV_CTL_REASON_UNSUPPORTED, now_ns);
	carry_out();
	assert_is_off();
	check();
	assert_false(conn.move.failover);
	found(MV_PROBED_DOWN);
	check();
	assert_true(conn.move.failover);
}

/* It counts as one that prepares, and keeps nobody waiting who moves. */
static void test_counts(void **state)
{
	(void)state;
	conn.move.failover = conn.move.unsure = true;
	mesh_move_limiter_note(&conn, false, now_ns);
	mesh_move_limiter_note(&conn, true, now_ns);
	assert_int_equal(process.moves.n_prepared, 1);
	assert_int_equal(process.moves.n_moving, 0);
	assert_int_equal(process.moves.n_fresh, 0);
	assert_true(mesh_some_prepare());
	conn.move.unsure = false;
	mesh_move_limiter_note(&conn, false, now_ns);
	assert_int_equal(process.moves.n_prepared, 0);
	assert_int_equal(process.moves.n_moving, 1);
	assert_int_equal(process.moves.n_fresh, 1);
	conn.move.failover = false;
	mesh_move_limiter_note(&conn, false, now_ns);
	assert_int_equal(process.moves.n_moving + process.moves.n_fresh + process.moves.n_prepared, 0);
	conn.move.failover = conn.move.unsure = true;
	mesh_move_limiter_note(&conn, false, now_ns);
	conn.move.failover = conn.move.unsure = false;
	mesh_move_limiter_note(&conn, false, now_ns);
	assert_int_equal(process.moves.n_prepared, 0);
	conn.move.failover = conn.move.unsure = true;
	mesh_move_limiter_note(&conn, false, now_ns);
	mesh_move_limiter_forget(&conn);
	assert_int_equal(process.moves.n_prepared, 0);
	assert_false(mesh_some_prepare());
	conn.move.failover = conn.move.unsure = false;
}

/* @unsure: it has heard of no more than a suspicion */
static void peer_takes_it_back(bool unsure)
{
	conn.move.leader = false;
	conn.move.call_off.settled = conn.move.state;
	conn.move.failover = true;
	conn.move.unsure = unsure;
	conn.move.state = MV_MOVE_ANSWERED;
	conn.moving.since_ns = now_ns;
	mv_move_call_off(&conn.move, MV_CTL_REASON_HEALED, MV_CTL_REASON_NONE, false);
	carry_out();
	assert_false(conn.move.failover);
	assert_int_equal(conn.retry.stayed != NULL, !unsure || vqp.tracker->broken);
	assert_int_equal(conn.moving.since_ns, 0);
}

static void test_peer_takes_it_back(void **state)
{
	(void)state;
	peer_takes_it_back(true);
	peer_takes_it_back(false);
}

/* One that has failed meanwhile waits for a path, or has its errors. */
static void test_failed_meanwhile(void **state)
{
	(void)state;
	vqp.tracker->broken = true;
	peer_takes_it_back(true);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_true(conn.retry.pathless_ns);
}

#define S(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		S(test_dead), S(test_dead_and_agreed), S(test_dead_but_agreed), S(test_dead_soon), S(test_well), S(test_nothing_comes_of_it), S(test_called_off_late),
		S(test_peers_word), S(test_port), S(test_own_port), S(test_drained), S(test_gone_meanwhile), S(test_in_a_batch),
		S(test_better_path), S(test_no_path_any_more), S(test_all_dead), S(test_enough_prepare), S(test_counts),
		S(test_follower_is_sure), S(test_follower_has_said_so), S(test_follower_forgets),
		S(test_follower_has_lost_it), S(test_follower_cannot_move), S(test_stands_by_again), S(test_flap_is_noted_once),
		S(test_follower_in_a_batch), S(test_follower_has_none), S(test_retries), S(test_follower), S(test_switched_off), S(test_no_better_path),
		S(test_refused_lately), S(test_refused), S(test_peer_takes_it_back), S(test_failed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
