/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_TURNS_H
#define MESH_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "conn.h"

/*
 * What the helper thread does with one connection after the other. One that a message has come for has its turn with that: a
 * connection takes some kilobytes that are looked at, and of hundreds that move at once none is in the processor's cache when all
 * others have had their messages. For the same reason the memory of the next one is asked for while one is at work.
 */

/* What is the same for all in one turn of the thread, and what comes of them. */
struct mesh_turn {
	uint64_t now_ns;
	uint64_t silent_ns; /* as of mesh_conn_run() */
	unsigned int n_live; /* how many moved */
	bool worked; /* the agent was told of one */
	uint64_t next_ns; /* when one of them is to come again; UINT64_MAX: none */
};

/** mesh_turn_run - have a look at it, and note when the next one is due */
void mesh_turn_run(struct mesh_turn *turn, struct mesh_conn *conn);

/** mesh_turn_fetch - ask for the memory of one that is next; does not wait for it; NULL is fine */
void mesh_turn_fetch(const struct mesh_conn *conn);

/** mesh_turn_whose - the connection that a DELIVER frame is for, with a reference; its memory is asked for. Return: NULL for none */
struct mesh_conn *mesh_turn_whose(const struct mv_frame *frame);

/** mesh_turn_deliver - a DELIVER frame; @conn: mesh_turn_whose() it is, NULL: nobody's, or it is of datagrams */
void mesh_turn_deliver(struct mesh_turn *turn, const struct mv_frame *frame, struct mesh_conn *conn);

/** mesh_turn_unreachable - an UNREACHABLE frame: the agent gives back the message that it could not carry */
void mesh_turn_unreachable(struct mesh_turn *turn, const struct mv_frame *frame);

#endif
