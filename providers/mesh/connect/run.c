// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "connstatus.h"
#include "failover_exec.h"
#include "failover_policy.h"
#include "vqp_failover.h"
#include "passthrough.h"
#include "negotiateint.h"
#include "suspect.h"

/* The helper thread's turn for one connection: does all that is due. */

/* Retry interval for a completion event that could not be made for lack of memory. */
#define WAKE_AGAIN_NS 250000000ull
#define LOCKED_NS     1000000ull /* interval to check whether a thread still posts */
#define FAIL_AGAIN_NS 10000000ull /* interval to check whether work before a failing request is done */

/*
 * Does the path of a held connection work meanwhile? Then have it connected as the program asked. Return: when to look again if
 * it goes on working.
 */
static uint64_t look_back(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns)
{
	uint64_t at = mesh_conn_passthrough_at(conn, now_ns);

	conn->own_qp.due = at <= silent_ns;
	if (!conn->own_qp.due)
		return at < UINT64_MAX - now_ns ? at + (now_ns - silent_ns) : UINT64_MAX;
	if (mesh_conn_is_in_batch(conn) || mesh_work_submit(conn, &conn->ends.peer.gid, true))
		return UINT64_MAX; /* the worker queues the connection again */
	/* No worker: connecting may take seconds, which this thread does not have. */
	conn->own_qp.due = false;
	mv_move_tried(&conn->move, false, now_ns);
	return mv_move_passthrough_at(&conn->move);
}

static void sooner(uint64_t *deadline, uint64_t at)
{
	if (at < *deadline)
		*deadline = at;
}

uint64_t mesh_conn_run(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns)
{
	uint64_t deadline = UINT64_MAX, move;
	bool ticked;

	if (!mesh_conn_enter(conn)) {
		/* The worker queues the connection again. */
		return atomic_load_explicit(&conn->flags.at_work, memory_order_acquire) ? UINT64_MAX
											: now_ns + MESH_CONN_PATIENCE_NS;
	}
	mesh_conn_take_late_bye(conn, now_ns);
	if (mesh_conn_negotiates(conn) && atomic_load_explicit(&conn->flags.refused, memory_order_relaxed))
		mv_move_unreachable(&conn->move, now_ns);
	if (mesh_conn_negotiates(conn)) {
		if (atomic_exchange_explicit(&conn->flags.work_waits, false, memory_order_relaxed))
			mv_move_work_waits(&conn->move, now_ns);
		ticked = mv_move_deadline(&conn->move) <= silent_ns;
		if (ticked) {
			mv_move_tick(&conn->move, now_ns);
			mesh_conn_act(conn, now_ns, false);
		}
		/* A move must be over before the next begins. After a worker's step the connection is queued again. */
		if (mesh_conn_negotiates(conn) && !(ticked && mv_move_peek(&conn->move)))
			deadline = mesh_conn_check(conn, now_ns, silent_ns);
		mesh_conn_drain(conn, now_ns);
		mesh_conn_act(conn, now_ns, false);
	}
	if (mesh_conn_negotiates(conn))
		sooner(&deadline, look_back(conn, now_ns, silent_ns));
	if (mesh_conn_negotiates(conn))
		sooner(&deadline, mesh_conn_await_peer(conn, now_ns));
	if (mesh_conn_negotiates(conn)) {
		move = mv_move_deadline(&conn->move);
		sooner(&deadline, move < UINT64_MAX - now_ns ? move + (now_ns - silent_ns) : move);
		sooner(&deadline, mesh_conn_drain_at(conn));
		/* A move that has just begun may have come to nothing already. */
		sooner(&deadline, mesh_conn_again_at(conn, now_ns));
		sooner(&deadline, mesh_conn_run_keys(conn, now_ns));
	}
	if (conn->state == MESH_CONN_FAILED)
		mesh_conn_unwatch(conn);
	if (!conn->gone && conn->vqp && !mesh_failover_wake(conn->vqp))
		sooner(&deadline, now_ns + WAKE_AGAIN_NS);
	if (!conn->gone && conn->vqp && mesh_failover_waits(conn->vqp))
		sooner(&deadline, now_ns + LOCKED_NS);
	if (!conn->gone && conn->vqp && deadline > now_ns + FAIL_AGAIN_NS && mesh_failover_waits_to_fail(conn->vqp))
		deadline = now_ns + FAIL_AGAIN_NS;
	if (mesh_conn_negotiates(conn) && conn->blocked.in_batch)
		sooner(&deadline, now_ns + LOCKED_NS);
	if (mesh_conn_negotiates(conn) && conn->blocked.entry_again_ns > now_ns)
		sooner(&deadline, conn->blocked.entry_again_ns);
	if (mesh_conn_negotiates(conn) && conn->blocked.device_again_ns)
		sooner(&deadline, conn->blocked.device_again_ns);
	if (!conn->gone)
		sooner(&deadline, mesh_conn_tell_changes(conn, now_ns));
	mesh_move_limiter_note(conn, true, now_ns);
	mesh_conn_exit(conn);
	return deadline;
}
