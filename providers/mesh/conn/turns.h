/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TURNS_H
#define MESH_TURNS_H

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

enum mesh_turn { MESH_TURN_LEADS, MESH_TURN_FOLLOWS, MESH_TURNS };

/** mesh_has_turn - may the connection begin to move? */
bool mesh_has_turn(const struct mesh_conn *conn, enum mesh_turn turn);
/** mesh_n_moving - number of connections that move now; without slow ones, which seem to have no peer */
unsigned int mesh_n_moving(void);
/** mesh_many_move - are these MESH_MANY_MOVING or more? */
bool mesh_many_move(void);
/** mesh_may_prepare - may one more prepare a move on suspicion? Moves with a reason do not wait for those. */
bool mesh_may_prepare(void);
/** mesh_some_prepare - does any connection prepare on suspicion? */
bool mesh_some_prepare(void);
/**
 * mesh_turns_note - call before conn->lock is released: a move may have begun or ended
 * @looked: mesh_conn_check() has run since the connection was called
 *
 * Return: was another connection called (mesh_conns_next_turn())? On another thread, wake the helper thread then.
 */
bool mesh_turns_note(struct mesh_conn *conn, bool looked, uint64_t now_ns);
/** mesh_turns_took - a move at work took @ns; UINT64_MAX: it timed out */
void mesh_turns_took(uint64_t ns);
/** mesh_turns_forget - the connection does not move, and gives its turn up; conn->lock, or it has no reference any more */
void mesh_turns_forget(struct mesh_conn *conn);
/** mesh_turns_end - the program has ended the connection: call the next; conn->lock */
void mesh_turns_end(struct mesh_conn *conn);

#endif
