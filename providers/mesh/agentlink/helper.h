/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_HELPER_H
#define MESH_HELPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "agentlink.h"
#include "mesh.h"
#include "pending_unregister.h"
#include "waker.h"

/* Requests of any thread to the helper thread (thread.c): look, and send to the agent. */

struct mesh_helper {
	/* guards link and pending_unregister: senders against the helper thread's open and close */
	MESH_LOCK(LINK) link_lock;
	struct mesh_agentlink link;
	struct mesh_pending_unregister pending_unregister; /* those for which @link had no room */
	struct mesh_waker waker;
	_Atomic bool asleep; /* the helper thread sleeps until mesh_waker_wake() */
	pthread_t self; /* read by other threads, too; link_lock */
	bool runs; /* @self is valid; link_lock */
};

/* Starts the helper thread: mesh_thread_begin(); set by callbacks.c. */
extern int (*mesh_helper_begin)(bool at_once);

/** mesh_thread_wake - have the helper thread take a turn; starts it if needed. Return: 0 or -errno. */
int mesh_thread_wake(bool urgent);
/**
 * mesh_thread_tell - start the helper thread, if needed, and connect to the agent before this returns: the process may end soon
 */
void mesh_thread_tell(void);
/** mesh_thread_has_agent - is there a connection to the agent? Takes link_lock. */
bool mesh_thread_has_agent(void);
/** mesh_thread_send - send a message for the peer to the agent; any thread; the message may get lost */
void mesh_thread_send(const struct mv_ctl_msg *msg);
/** mesh_thread_send_later - the same at the end of the helper thread's turn, batched; the caller wakes the helper thread */
void mesh_thread_send_later(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys);
/**
 * mesh_thread_frame - send another frame: REGISTER_QP (helper thread only), UNREGISTER_QP, STATUS
 *
 * Takes link_lock, and the lock of the wake-up.
 *
 * Return: 0; -ENOTCONN: no agent; -errno of send(2): the frame is lost. Exception: after -EAGAIN the helper thread sends an
 * UNREGISTER_QP again.
 */
int mesh_thread_frame(const struct mv_frame *frame);

#endif
