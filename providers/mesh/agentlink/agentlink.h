/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_AGENTLINK_H
#define MESH_AGENTLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl.h"

/*
 * The socket to the host's agent. Only the helper thread opens and reads it; any thread may send, with link_lock held. The
 * program may close any descriptor, and reuse its number. So the socket is recognised by its inode before each use. If the inode
 * differs, the number is the program's: it is not closed.
 */
struct mesh_agentlink {
	int fd; /* -1: not connected */
	uint64_t ino;
	bool packs; /* the agent accepts several frames per packet */
	bool names_senders; /* the agent has sent SENDERS; helper thread only */
	bool asks_senders; /* our SENDERS has still to be sent */
	size_t out_len; /* bytes of @out: frames for the next mesh_agentlink_flush(); 0 without @packs */
	size_t in_len, in_at; /* of @in: received bytes, and bytes given out; helper thread only */
	uint8_t out[MV_PACK_MAX_BYTES], in[MV_PACK_MAX_BYTES];
};

/**
 * mesh_agentlink_connect - connect to RUN_DIR/agent, and send nothing
 *
 * Never blocks. Return: descriptor, to be closed by the caller; -errno of socket(2), connect(2): -ENOENT or -ECONNREFUSED without
 * an agent.
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
 * mesh_agentlink_packs - the agent accepts several frames per packet: ask it to send such packets, too
 *
 * From now on each mesh_agentlink_send() needs a later mesh_agentlink_flush().
 */
void mesh_agentlink_packs(struct mesh_agentlink *link);

/**
 * mesh_agentlink_senders - ask an agent that has sent SENDERS to name the host of each sender
 *
 * If the socket has no room, mesh_agentlink_flush() asks. Does nothing before mesh_agentlink_recv() has returned SENDERS of this
 * connection: older agents disconnect a process that sends SENDERS.
 */
void mesh_agentlink_senders(struct mesh_agentlink *link);

/**
 * mesh_agentlink_send - send a frame to the agent, or queue it for mesh_agentlink_flush()
 *
 * Never blocks. If the socket has no room, or the kernel no memory, the frame is lost (-EAGAIN).
 *
 * Return: 0 or -errno.
 */
int mesh_agentlink_send(struct mesh_agentlink *link, const struct mv_frame *frame);

/**
 * mesh_agentlink_flush - send the queued frames, and SENDERS if that had no room before
 *
 * Return: 0; -EAGAIN: no room, try again later; -errno: the queued frames are lost.
 */
int mesh_agentlink_flush(struct mesh_agentlink *link);

/**
 * mesh_agentlink_recv - next frame
 *
 * Drops each DELIVER that names no host, once the agent has sent SENDERS. The agent sends such a DELIVER before it has read our
 * SENDERS. The peer repeats the message.
 *
 * Return: 0; -EAGAIN: none; -EBADMSG: a malformed frame, or such a DELIVER, was dropped; -ECONNRESET: the agent is gone.
 */
int mesh_agentlink_recv(struct mesh_agentlink *link, struct mv_frame *ret);

/** mesh_agentlink_has - does the last packet have a further frame for mesh_agentlink_recv()? */
static inline bool mesh_agentlink_has(const struct mesh_agentlink *link)
{
	return link->in_at < link->in_len;
}

#endif
