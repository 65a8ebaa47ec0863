/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_FAILOVER_POLICY_H
#define MESH_FAILOVER_POLICY_H

#include "conn.h"

/*
 * Failover policy: when a connection at work moves. failover_exec.h carries the move out.
 *
 * Thread, unless a function says otherwise: helper thread, with conn->lock held. Times are mesh_now_ns().
 */

/* Longest hold-down: a primary path that keeps failing has to work for this long before a connection moves back. */
#define MESH_HOLD_MAX_NS (600 * 1000000000ull)

/* Pause before a connection that did not leave a drained NIC, or a path that is dead by probes, tries again. */
#define MESH_LEAVE_AGAIN_NS 1000000000ull

/**
 * mesh_conn_settled - the connection has been made: its path now is the primary path
 *
 * With stand_in = on, if a port of the path that the program asked for was down: that path is.
 */
void mesh_conn_settled(struct mesh_conn *conn);

/** mesh_conn_adopt - the path of the work becomes the primary path */
void mesh_conn_adopt(struct mesh_conn *conn);

/**
 * mesh_conn_check - begin a move if there is a reason for one
 * @silent_ns: time against which the peer's silence is measured: @now_ns or earlier
 *
 * Return: when to call again; UINT64_MAX: when something changes.
 */
uint64_t mesh_conn_check(struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns);
/**
 * mesh_conn_again_at - when to check a connection again that has failed and waits for a path, or whose move came to nothing
 * @now_ns: when the current turn of the helper thread began; only moves that ended since then count
 *
 * Return: UINT64_MAX: none of both.
 */
uint64_t mesh_conn_again_at(const struct mesh_conn *conn, uint64_t now_ns);

/**
 * mesh_conn_back_off - a move came to nothing: double the pause before the connection tries to leave a port that is down
 *
 * The pause is 10 ms to 1 s.
 */
void mesh_conn_back_off(struct mesh_conn *conn);

/** mesh_conn_begin - begin a move to one of @paths, which are those of mesh_conn_paths_for(); @n is at least 1 */
void mesh_conn_begin(struct mesh_conn *conn, enum mv_ctl_reason reason, const struct mv_path *paths, size_t n, uint64_t now_ns);

/**
 * mesh_conn_note_flap - the connection is about to leave its primary path: double the hold-down, if the path failed soon after the
 * connection's return (flap damping)
 *
 * A return for which the hold-down was not asked leaves it as it is: if the ports of both paths flap, each flap sends the
 * connection back. So does a move that begins again soon after it came to nothing: that is one failure. Also on a worker.
 */
void mesh_conn_note_flap(struct mesh_conn *conn, uint64_t now_ns);

/**
 * mesh_conn_waits_for_path - may a failed connection that has no path now wait for one?
 *
 * The wait begins with the first call, and lasts move_timeout / MESH_PATHLESS_PART.
 *
 * Return: false when the time is over.
 */
bool mesh_conn_waits_for_path(struct mesh_conn *conn, uint64_t now_ns);

/** mesh_conn_path_works - does the path that the current move is to leave still work, as far as is known? Also on a worker. */
bool mesh_conn_path_works(const struct mesh_conn *conn);

#endif
