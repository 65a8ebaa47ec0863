/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HELPER_H
#define MESH_HELPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "agentlink.h"
#include "mesh.h"
#include "unclaims.h"
#include "wake.h"

/* What any thread asks of the helper thread (thread.c): to look, and to send something to the agent. */

struct mesh_helper {
	MESH_LOCK(LINK) link_lock; /* guards link and unclaims: senders of all threads against the thread's opening and closing */
	struct mesh_agentlink link;
	struct mesh_unclaims unclaims; /* that @link had no room for */
	struct mesh_wake wake;
	_Atomic bool asleep; /* nobody looks until it is woken */
	pthread_t self; /* other threads read it, too: under link_lock */
	bool runs; /* @self is known; likewise */
};

/* Starts it: mesh_thread_begin(); callbacks.c writes it. */
extern int (*mesh_helper_begin)(bool at_once);

/** mesh_thread_wake - make the helper thread look; starts it if there is none. Return: 0 or -errno. */
int mesh_thread_wake(bool urgent);
/** mesh_thread_tell - start it, if there is none, with the agent connected already: what is to be told may be all there is */
void mesh_thread_tell(void);
/** mesh_thread_send - hand a message for the peer to the agent; any thread; may be lost */
void mesh_thread_send(const struct mv_ctl_msg *msg);
/** mesh_thread_send_later - the same, at the end of the helper thread's turn, which is to be woken; with what others send */
void mesh_thread_send_later(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys);
/**
 * mesh_thread_frame - another frame: CLAIM, by the helper thread only; UNCLAIM; STATUS
 *
 * An UNCLAIM for which there is no room, -EAGAIN, is sent again by the helper thread. Takes the thread's link_lock, and that of its wake.
 *
 * Return: 0; -ENOTCONN: no agent; -errno of send(2): it is lost, but for an UNCLAIM with -EAGAIN.
 */
int mesh_thread_frame(const struct mv_frame *frame);

#endif
