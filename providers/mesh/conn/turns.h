/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TURNS_H
#define MESH_TURNS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Which connections begin to move, where a port that goes down has hundreds of them want to.
 *
 * All that move at once wait for each other, each as long as all of them take; and the time they have is limited. So some wait
 * before they begin, where nothing runs out. How many, is learned from how long moves take: the more there are at once, the less each
 * takes in all. What the peer has begun is not asked.
 *
 * Where many move, those whose peers lead wait longer: the peers have heard of the port as well, and to tell each that it is to begin
 * would take a message more, and have them begin in another order, more than they may. If that is not so, they begin when few are left,
 * or after a while.
 */

struct mesh_conn;

#define MESH_MANY_MOVING 16 /* from here on, what takes least in all is better than what is soonest for one */

enum mesh_turn { MESH_TURN_LEADS, MESH_TURN_FOLLOWS, MESH_TURNS };

/** mesh_has_turn - may it begin to move? */
bool mesh_has_turn(const struct mesh_conn *conn, enum mesh_turn turn);
/** mesh_n_moving - how many move now, but for those that have for so long that they seem to have no peer */
unsigned int mesh_n_moving(void);
/** mesh_many_move - do so many move at once? */
bool mesh_many_move(void);
/** mesh_may_prepare - may one more prepare to move, on a suspicion? That keeps nobody waiting who has a reason to move. */
bool mesh_may_prepare(void);
/** mesh_some_prepare - does any? */
bool mesh_some_prepare(void);
/**
 * mesh_turns_note - before conn->lock is given back: what was done with it may have begun a move or ended one
 * @looked: it has been looked at whether it is to begin one
 *
 * Return: has another one been called (mesh_conns_next_turn())? The helper thread need not be woken by itself.
 */
bool mesh_turns_note(struct mesh_conn *conn, bool looked, uint64_t now_ns);
/** mesh_turns_took - a move of a live queue pair has taken that long, ns; UINT64_MAX: longer than it may, and came to nothing */
void mesh_turns_took(uint64_t ns);
/** mesh_turns_forget - it neither moves nor is it its turn any more; conn->lock, or nobody refers to it */
void mesh_turns_forget(struct mesh_conn *conn);
/** mesh_turns_end - the program has ended it: its turn is the next one's. conn->lock */
void mesh_turns_end(struct mesh_conn *conn);

#endif
