/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_AGENTLINK_H
#define MESH_AGENTLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl.h"

/*
 * The socket to the host's agent. Opened and read by the helper thread alone; any thread may send. A program may
 * close every descriptor it finds and use the number for something of its own, so the socket is recognised by its
 * inode before each use, and given up, not closed, when it is not ours any more.
 */
struct mesh_agentlink {
	int fd; /* -1: not connected */
	uint64_t ino;
	bool packs; /* it takes several frames in one packet */
	size_t out_len; /* of @out: frames that go with the next mesh_agentlink_flush(); 0 without @packs */
	size_t in_len, in_at; /* of @in, by the helper thread: what was received, what of it has been given out */
	uint8_t out[MV_PACK_MAX_BYTES], in[MV_PACK_MAX_BYTES];
};

/**
 * mesh_agentlink_connect - a socket to RUN_DIR/agent, on which nothing has been said; to be closed
 *
 * Never blocks. Return: descriptor; -errno of socket(2), connect(2): -ENOENT or -ECONNREFUSED without an agent.
 */
int mesh_agentlink_connect(const char *run_dir);

/**
 * mesh_agentlink_open - connect to RUN_DIR/agent and register this process
 *
 * Never blocks. Return: 0; -errno of socket(2), connect(2), send(2): -ENOENT or -ECONNREFUSED without an agent.
 */
int mesh_agentlink_open(struct mesh_agentlink *link, const char *run_dir);
void mesh_agentlink_close(struct mesh_agentlink *link);

/** mesh_agentlink_intact - is the descriptor still our socket? One fstat(2). */
bool mesh_agentlink_intact(const struct mesh_agentlink *link);

/**
 * mesh_agentlink_packs - the agent takes packets of several frames: have it send such as well
 *
 * From here on mesh_agentlink_flush() has to follow mesh_agentlink_send(), sooner or later.
 */
void mesh_agentlink_packs(struct mesh_agentlink *link);

/**
 * mesh_agentlink_send - hand a frame to the agent, now or with others
 *
 * Never blocks: a frame that finds no room, or for which the kernel has no memory, is lost (-EAGAIN), as any message may be.
 *
 * Return: 0 or -errno.
 */
int mesh_agentlink_send(struct mesh_agentlink *link, const struct mv_frame *frame);

/** mesh_agentlink_flush - hand over what waits. Return: 0; -EAGAIN: no room yet, it goes on waiting; -errno: it is lost */
int mesh_agentlink_flush(struct mesh_agentlink *link);

/**
 * mesh_agentlink_recv - next frame
 *
 * Return: 0; -EAGAIN: none; -EBADMSG: one that is not well-formed was dropped; -ECONNRESET: the agent is gone.
 */
int mesh_agentlink_recv(struct mesh_agentlink *link, struct mv_frame *ret);

/** mesh_agentlink_has - has a frame been received that mesh_agentlink_recv() has not given out? */
static inline bool mesh_agentlink_has(const struct mesh_agentlink *link)
{
	return link->in_at < link->in_len;
}

#endif
