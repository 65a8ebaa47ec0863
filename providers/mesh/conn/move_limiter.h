/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MOVE_LIMITER_H
#define MESH_MOVE_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Limits how many connections move at once, where a port that goes down makes hundreds want to.
 *
 * Connections that move at once wait for each other, each as long as all of them take, and the time of a move is limited. So some
 * wait before they begin, where no time limit runs. The limit is learned from how long moves take: more at once take less time in
 * all. Moves that the peer has begun are not limited.
 *
 * Where many move, connections whose peers lead wait longer. The leaders have heard of the port as well. To ask each leader to
 * begin would cost a message more, and make them begin in another order, and more than they may. Otherwise they begin when few
 * moves are left, or after a while.
 */

struct mesh_conn;

#define MESH_MANY_MOVING 16 /* from here on, total throughput counts more than the latency of one move */

/* Who begins the move: this end, or the peer. Each has a queue of its own. */
enum mesh_mover { MESH_MOVER_LEADS, MESH_MOVER_FOLLOWS, MESH_MOVERS };

/** mesh_move_limiter_allows - may the connection begin to move? */
bool mesh_move_limiter_allows(const struct mesh_conn *conn, enum mesh_mover mover);
/** mesh_n_moving - number of connections that move now; without slow ones, which seem to have no peer */
unsigned int mesh_n_moving(void);
/** mesh_many_move - are these MESH_MANY_MOVING or more? */
bool mesh_many_move(void);
/** mesh_may_prepare - may one more prepare a move on suspicion? Moves with a reason do not wait for those. */
bool mesh_may_prepare(void);
/** mesh_some_prepare - does any connection prepare on suspicion? */
bool mesh_some_prepare(void);
/**
 * mesh_move_limiter_note - call before conn->lock is released: a move may have begun or ended
 * @looked: mesh_conn_check() has run since the connection was called
 *
 * Return: was another connection called (mesh_conns_next_mover())? On another thread, wake the helper thread then.
 */
bool mesh_move_limiter_note(struct mesh_conn *conn, bool looked, uint64_t now_ns);
/** mesh_move_limiter_took - a move at work took @ns; UINT64_MAX: it timed out */
void mesh_move_limiter_took(uint64_t ns);
/**
 * mesh_move_limiter_forget - the connection does not move, and gives its place up; conn->lock, or it has no reference
 * any more
 */
void mesh_move_limiter_forget(struct mesh_conn *conn);
/** mesh_move_limiter_end - the program has ended the connection: call the next; conn->lock */
void mesh_move_limiter_end(struct mesh_conn *conn);

#endif
