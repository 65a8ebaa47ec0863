/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_THREADINT_H
#define MESH_THREADINT_H

#include "connect.h"
#include "handoff.h"
#include "helper.h"

/* What the files of the helper thread share: thread.c inbound.c. */

/* Moves of others, for that long, keep timers and messages waiting. */
#define LIVE_NS 100000000ull

/* A frame that was read, and whose it is. */
struct inbound {
	struct mv_frame frame;
	struct mesh_conn *conn; /* of a DELIVER, with a reference; NULL: of none */
};

#define N_INBOUND 3 /* the last one that was read has its memory fetched, as the one before has more of it; the first one is taken */

/* Where a command may keep the helper thread. */
enum section { SECTION_CONN, SECTION_UD, SECTION_SRQS, N_SECTIONS };

/* Hangs in the process's wiped page. */
struct mesh_thread {
	struct mesh_helper helper; /* first */
	struct mesh_handoff handoff;
	MESH_LOCK(HANDOFF) handoff_lock; /* by who becomes the helper thread, and who finds that it is not any more; guards the next three */
	_Atomic bool away[N_SECTIONS]; /* a former one is there: UD, SRQs; changed under the lock, read by the helper thread without */
	unsigned int n_away;
	enum section section; /* that the helper thread is in; its own while it is in none, as the next */
	struct mesh_conn *section_conn; /* SECTION_CONN: with a reference; may be NULL */

	/* The thread's own. */
	uint64_t sent_ns; /* when it has handed over what it had to send */
	uint64_t full_ns; /* how long it waits before it tries to hand it over again; 0: there was room */
	uint64_t drained_ns; /* when it had read all that there was from the agent */
	unsigned int n_live; /* connections that moved lately, all at once */
	uint64_t live_ns; /* when they did */
	struct mesh_conn *taken; /* chain by @next_taken: to be looked at in this turn */
	struct inbound places[N_INBOUND];
	unsigned int n_read, n_taken; /* of these */
	uint64_t check_rails_at_ns, check_own_at_ns;
	uint64_t reconnect_at_ns; /* the agent is not connected to before: it may refuse each time */
	uint64_t reconnect_ns; /* from one time to the next; 0: it is ours, and RECONNECT_NS it is again */
	uint64_t watch_at_ns; /* changes of the network are not looked for before */
	uint64_t worked_at_ns; /* something happened */
	uint64_t news_at_ns; /* when all that news concern look at them; UINT64_MAX: there are none */
	uint64_t alone_at_ns; /* when to look whether anybody else is left */
};

/* What one thread knows of being the helper thread; on its stack. */
struct lead {
	struct mesh_thread *thread;
	enum section section;
	struct mesh_conn *conn;
	uint64_t turn;
	bool lost; /* it is not any more */
};

/** mesh_lead_enter - a command may keep the helper thread from here on; @conn: with a reference, or NULL */
void mesh_lead_enter(struct lead *lead, enum section section, struct mesh_conn *conn);
/** mesh_lead_leave - Return: false: another thread is the helper thread now; this one touches nothing any more that is its own */
bool mesh_lead_leave(struct lead *lead);

/** mesh_thread_read_agent - take what has come from the agent. Return: whether anything came */
bool mesh_thread_read_agent(struct lead *lead, uint64_t now_ns);
/** mesh_thread_connect_agent - if there is no connection to it, and it is time for one */
void mesh_thread_connect_agent(struct mesh_thread *thread, uint64_t now_ns);
/** mesh_thread_close_link - a new connection has no claims, so there are none to end */
void mesh_thread_close_link(struct mesh_thread *thread);
/** mesh_thread_time_of_silence - the time by which connections judge how long their peers have been silent */
uint64_t mesh_thread_time_of_silence(const struct mesh_thread *thread, uint64_t now_ns);

#endif
