/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_THREADINT_H
#define MESH_THREADINT_H

#include "connect.h"
#include "handoff.h"
#include "helper.h"

/* Shared by thread.c and inbound.c. */

/* Timers and messages are delayed for so long after other connections began to move. */
#define LIVE_NS 100000000ull

/* A frame that was read, and its connection. */
struct inbound {
	struct mv_frame frame;
	struct mesh_conn *conn; /* of a DELIVER or REFUSED, with a reference; NULL: none */
};

#define N_INBOUND 3 /* pipeline: prefetch the connection of the last, the QP of the one before; process the first */

/* Where a command may block the helper thread. */
enum section { SECTION_CONN, SECTION_UD, SECTION_SRQS, N_SECTIONS };

/* Referred to by the process page that fork() clears. */
struct mesh_thread {
	struct mesh_helper helper; /* first */
	struct mesh_handoff handoff;
	MESH_LOCK(HANDOFF) handoff_lock; /* taken when the helper thread changes; guards the next three */
	_Atomic bool away[N_SECTIONS]; /* a former helper thread is in UD, SRQs; written under the lock, read without */
	unsigned int n_away;
	enum section section; /* section of the helper thread; outside of sections owned by the helper thread, as the next */
	struct mesh_conn *section_conn; /* SECTION_CONN: with a reference; may be NULL */

	/* Owned by the helper thread. Times are mesh_now_ns(). */
	uint64_t sent_ns; /* when the last frames were flushed to the agent */
	uint64_t full_ns; /* pause before the next try to flush; 0: there was room */
	uint64_t drained_ns; /* when all frames of the agent had been read */
	unsigned int n_live; /* largest number of connections that moved at once, lately */
	uint64_t live_ns; /* when that was */
	struct mesh_conn *taken; /* connections of this turn, by @schedule.next_taken */
	struct inbound places[N_INBOUND];
	unsigned int n_read, n_taken; /* frames read, and processed */
	uint64_t check_rails_at_ns, check_own_at_ns;
	uint64_t reconnect_at_ns; /* earliest next connect to the agent, which may refuse each time */
	uint64_t reconnect_ns; /* interval of connects; 0: connected, so RECONNECT_NS */
	uint64_t watch_at_ns; /* do not watch the network for changes before */
	uint64_t worked_at_ns; /* last time that anything happened */
	uint64_t directory_at_ns; /* when all connections look at the new directory; UINT64_MAX: not */
	uint64_t alone_at_ns; /* when to check whether other threads are left */
};

/* State of a thread as the helper thread; on its stack. */
struct lead {
	struct mesh_thread *thread;
	enum section section;
	struct mesh_conn *conn;
	uint64_t turn;
	bool lost; /* another thread is the helper thread now */
};

/** mesh_lead_enter - a command may block from here on; @conn: with a reference, or NULL */
void mesh_lead_enter(struct lead *lead, enum section section, struct mesh_conn *conn);
/**
 * mesh_lead_leave - Return: false: another thread is the helper thread now, so the caller must not touch the helper thread's
 * state
 */
bool mesh_lead_leave(struct lead *lead);

/** mesh_thread_read_agent - process frames of the agent. Return: did any come? */
bool mesh_thread_read_agent(struct lead *lead, uint64_t now_ns);
/** mesh_thread_connect_agent - connect to the agent, if there is no connection, and it is time for a try */
void mesh_thread_connect_agent(struct mesh_thread *thread, uint64_t now_ns);
/**
 * mesh_thread_close_link - close the connection to the agent, and drop queued UNREGISTER_QPs: a new connection has no
 * registrations
 */
void mesh_thread_close_link(struct mesh_thread *thread);
/** mesh_thread_time_of_silence - time against which connections measure their peers' silence */
uint64_t mesh_thread_time_of_silence(const struct mesh_thread *thread, uint64_t now_ns);

#endif
