// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conn.h"
#include "fetch.h"
#include "handoff.h"
#include "helper.h"
#include "ourthreads.h"
#include "paths.h"
#include "prearm.h"
#include "probed.h"
#include "railevents.h"
#include "srq.h"
#include "survives.h"
#include "thread.h"
#include "ud.h"

/*
 * The helper thread: one per process, started with the first connection to a host that has an agent. It is the only
 * one that negotiates and the only one that reads from the agent and from the rails' completion channels. It waits for
 * nothing but its descriptors: what may take long is for workers (worker.c). None of them is ever joined.
 *
 * A command to a NIC whose firmware hangs may take seconds even so. Another thread becomes the helper thread then
 * (handoff.h), and the former one finishes that connection as a worker would.
 */

#define RECONNECT_NS 500000000ull
/* One that ends the connection before it has said what was hoped for may go on so: twice as long each time, up to that. */
#define RECONNECT_MAX_NS 16000000000ull
/* From one look whether anybody else is left to the next. */
#define ALONE_NS 1000000000ull
/*
 * After something happened, look again by oneself for a while, at growing intervals, instead of asking to be woken: a
 * wake-up costs the program system calls, and the thread would get in the way of what the program does next with the
 * same connection. What is urgent wakes it all the same. Some hundred looks, then it sleeps.
 */
#define BRISK_MIN_NS 1000000ull
#define BRISK_PART 16u /* of the time since something happened */
#define BRISK_FOR_NS 2000000000ull
/* When a queue pair that the agent has not been told of, or the end of one, is told of again. */
#define CLAIM_AGAIN_NS 20000000ull
/* When to try again to watch for changes, while somebody is looking at them. */
#define WATCH_AGAIN_NS 20000000ull
/* From a change to the next that it is woken for: hosts with many containers have hundreds a second, and who decides looks by himself meanwhile. */
#define WATCH_REST_NS 100000000ull
/* How often to look whether the rails' descriptors are ours still, while there is something to do; six system calls each. */
#define CHECK_RAILS_NS 50000000ull
/* The same of its own, while one turn follows the other: each is looked at before it is read or written, too. */
#define CHECK_OWN_NS 1000000ull
/* Frames read in one go, so that a chatty peer does not keep the timers waiting. */
#define MAX_FRAMES 256
/* What is to be sent waits for company no longer than that in a turn. */
#define FLUSH_NS 500000ull
/* What finds no room is tried again after that time, and less often each time, at least so often. */
#define FLUSH_MAX_NS 16000000ull
/* But where many move at once, it waits for that of the next turns: each packet wakes two agents and the peer. */
#define GATHER_NS 300000ull
/* How long frames that have not been read, and moves of others, may keep timers waiting; and how long each of those does. */
#define SILENCE_LATE_NS 100000000ull
#define SILENCE_EACH_NS 400000ull
#define LIVE_NS         100000000ull
/* So many former helper threads at most wait for firmwares. */
#define MAX_AWAY 32u

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
	pthread_mutex_t handoff_lock; /* by who becomes the helper thread, and who finds that it is not any more; guards the next three */
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

/* What the thread polls besides the rails. */
enum { WAKE, AGENT, NETDEVS, N_FIXED };

/* ---- sections ------------------------------------------------------------------------------------------------ */

/* What one thread knows of being the helper thread; on its stack. */
struct lead {
	struct mesh_thread *thread;
	enum section section;
	struct mesh_conn *conn;
	uint64_t turn;
	bool lost; /* it is not any more */
};

static void enter(struct lead *lead, enum section section, struct mesh_conn *conn)
{
	struct mesh_thread *thread = lead->thread;

	lead->section = thread->section = section;
	lead->conn = thread->section_conn = conn;
	lead->turn = mesh_handoff_enter(&thread->handoff);
}

/* The former helper thread is through with what kept it. */
static void come_back(struct lead *lead)
{
	struct mesh_thread *thread = lead->thread;

	pthread_mutex_lock(&thread->handoff_lock);
	atomic_store_explicit(&thread->away[lead->section], false, memory_order_release);
	thread->n_away--;
	if (lead->conn)
		atomic_store_explicit(&lead->conn->at_work, false, memory_order_release);
	pthread_mutex_unlock(&thread->handoff_lock);
	if (lead->conn) {
		mesh_conn_queue(lead->conn, true);
		mesh_conn_put(lead->conn);
	}
	mesh_thread_wake(true);
}

/* Return: false: another thread is the helper thread now; this one touches nothing any more that is the helper thread's own. */
static bool leave(struct lead *lead)
{
	if (mesh_handoff_leave(&lead->thread->handoff, lead->turn))
		return true;
	lead->lost = true;
	come_back(lead);
	return false;
}

/* Return: whether the calling thread is the helper thread now. */
static bool take_over(struct mesh_thread *thread, uint64_t turn)
{
	bool taken;

	pthread_mutex_lock(&thread->handoff_lock);
	taken = thread->n_away < MAX_AWAY && mesh_handoff_take(&thread->handoff, turn);
	if (taken) {
		thread->n_away++;
		atomic_store_explicit(&thread->away[thread->section],
				      thread->section == SECTION_UD || thread->section == SECTION_SRQS, memory_order_relaxed);
		/* As when a worker is: who asks for it does not wait. */
		if (thread->section_conn)
			atomic_store_explicit(&thread->section_conn->at_work, true, memory_order_release);
	}
	pthread_mutex_unlock(&thread->handoff_lock);
	if (taken)
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "a NIC does not answer a command: another thread goes on with connections that do not need that NIC");
	return taken;
}

/* ---- talking ------------------------------------------------------------------------------------------------- */

/* Return: when what there is to send may wait for company; @now_ns or earlier: it may not. */
static uint64_t gather_until(const struct mesh_thread *thread, uint64_t now_ns)
{
	return thread->n_live >= MESH_MANY_MOVING && now_ns - thread->live_ns < LIVE_NS ? thread->sent_ns + GATHER_NS : now_ns;
}

/* Return: when to try again, where there is no room for it yet: soon, but an agent that is stopped may stay so for hours. */
static uint64_t flush(struct mesh_thread *thread, uint64_t now_ns)
{
	int err = 0;

	thread->sent_ns = now_ns;
	pthread_mutex_lock(&thread->helper.link_lock);
	if (thread->helper.link.fd >= 0)
		err = mesh_agentlink_flush(&thread->helper.link);
	pthread_mutex_unlock(&thread->helper.link_lock);
	if (err != -EAGAIN) {
		thread->full_ns = 0;
		return UINT64_MAX;
	}
	thread->full_ns = thread->full_ns ? 2 * thread->full_ns : FLUSH_NS;
	if (thread->full_ns > FLUSH_MAX_NS)
		thread->full_ns = FLUSH_MAX_NS;
	return now_ns + thread->full_ns;
}

/*
 * Before anything is claimed in a turn. If the number is that of a queue pair that has been claimed since, the agent's claim is that
 * one's now, and ends with it. One that has not been claimed yet is claimed by this thread, so afterwards; also one that is created
 * while this looks.
 */
static void unclaim_again(struct mesh_thread *thread)
{
	struct mv_frame frame;
	bool any;

	do {
		pthread_mutex_lock(&thread->helper.link_lock);
		any = mesh_unclaims_take(&thread->helper.unclaims, &frame);
		pthread_mutex_unlock(&thread->helper.link_lock);
		if (any && !mesh_conn_has_claim(frame.device, frame.qpn) && !mesh_ud_has_claim(frame.device, frame.qpn))
			any = mesh_thread_frame(&frame) != -EAGAIN; /* else it is among them again */
	} while (any);
}

/* Return: when to come again for them, at the end of a turn: it may have added to them itself. */
static uint64_t unclaim_at(struct mesh_thread *thread, uint64_t now_ns)
{
	unsigned int n;

	pthread_mutex_lock(&thread->helper.link_lock);
	n = thread->helper.unclaims.n;
	pthread_mutex_unlock(&thread->helper.link_lock);
	return n ? now_ns + CLAIM_AGAIN_NS : UINT64_MAX;
}

/*
 * The time by which connections judge how long their peers have been silent: what has come from the agent, and has not been looked at,
 * may be their answers. And where hundreds move at once, a message waits for those of the others, at either end and at the agents. A
 * chatty peer does not keep them waiting for ever.
 */
static uint64_t time_of_silence(const struct mesh_thread *thread, uint64_t now_ns)
{
	uint64_t late_ns = thread->n_live * SILENCE_EACH_NS, behind_ns = now_ns - thread->drained_ns;

	if (thread->helper.link.fd >= 0 && behind_ns > late_ns)
		late_ns = behind_ns;
	return now_ns - (late_ns < SILENCE_LATE_NS ? late_ns : SILENCE_LATE_NS);
}

/* @conn: whose it is; NULL: of none, or it is of datagrams. @silent_ns: as of mesh_conn_message() */
static void deliver(const struct mv_frame *frame, struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns)
{
	struct mv_ctl_keys keys;
	struct mv_ctl_msg msg;
	uint64_t at = now_ns;

	if (mv_ctl_decode_keys(frame->payload, frame->len, &msg, &keys))
		return;
	if (msg.type == MV_CTL_UD_GET || msg.type == MV_CTL_UD_PUT) {
		mesh_ud_message(frame->device, frame->qpn, &msg, now_ns);
		return;
	}
	if (!conn)
		return;
	if (msg.type >= MV_CTL_KEY_GET && msg.type <= MV_CTL_KEY_DROPPED)
		mesh_conn_key_message(conn, &msg, now_ns);
	else
		at = mesh_conn_message(conn, &msg, &keys, now_ns, silent_ns);
	if (at <= now_ns)
		mesh_conn_queue(conn, false);
	else
		mesh_conn_put_off(conn, at);
}

static void unreachable(const struct mv_frame *frame, uint64_t now_ns)
{
	struct mesh_conn *conn;
	struct mv_ctl_msg msg;

	/* The agent gives back the message that it could not carry. */
	if (mv_ctl_decode(frame->payload, frame->len, &msg))
		return;
	if (msg.type == MV_CTL_UD_GET || msg.type == MV_CTL_UD_PUT) {
		mesh_ud_unreachable(&msg, now_ns);
		return;
	}
	conn = mesh_conn_find_end(&msg.from);
	if (!conn)
		return;
	mesh_conn_unreachable(conn, &msg, now_ns);
	mesh_conn_queue(conn, false);
	mesh_conn_put(conn);
}

/* Of a queue pair for datagrams there is nothing to be done: its questions get no answer. */
static void refused(struct mesh_conn *conn)
{
	if (!conn)
		return;
	mesh_conn_refused(conn);
	mesh_conn_queue(conn, false);
}

/*
 * While many move, those that have moved can wait with that. Those that wait for their turn look at all there is then, and what moves at
 * nothing but its peer.
 */
static void note_news(struct mesh_thread *thread, bool urgent, uint64_t now_ns)
{
	uint64_t at_ns = mesh_many_move() && !urgent ? now_ns + LIVE_NS : now_ns;

	if (at_ns < thread->news_at_ns)
		thread->news_at_ns = at_ns;
}

/* Return: when to come again for them. */
static uint64_t look_at_news(struct mesh_thread *thread, uint64_t now_ns)
{
	if (thread->news_at_ns == UINT64_MAX || (now_ns < thread->news_at_ns && mesh_many_move()))
		return thread->news_at_ns;
	thread->news_at_ns = UINT64_MAX;
	mesh_conns_queue_all(false);
	return UINT64_MAX;
}

/* What concerns all connections. */
static void take_note(struct mesh_thread *thread, const struct mv_frame *frame, uint64_t now_ns)
{
	if (frame->type == MV_FRAME_CHANGED) {
		mesh_view_forget();
		mesh_probed_changed();
	} else {
		mesh_probed_agent(frame->type == MV_FRAME_PROBES);
	}
	if (frame->type != MV_FRAME_WELCOME) {
		note_news(thread, false, now_ns);
	} else if (frame->version == MV_CTL_VERSION) {
		thread->reconnect_ns = 0;
		thread->reconnect_at_ns = mesh_now_ns() + RECONNECT_NS;
	}
}

/* What concerns those on a path. */
static void take_path(struct mesh_thread *thread, const struct mv_frame *frame, uint64_t now_ns)
{
	enum mesh_probed_news news = mesh_probed_told(frame, now_ns);

	if (news != MESH_PROBED_NOTHING)
		note_news(thread, news == MESH_PROBED_URGENT && mesh_some_prepare(), now_ns);
}

static void take_packs(struct mesh_thread *thread)
{
	pthread_mutex_lock(&thread->helper.link_lock);
	mesh_agentlink_packs(&thread->helper.link);
	pthread_mutex_unlock(&thread->helper.link_lock);
}

/* A new connection has no claims, so there are none to end. */
static void close_link(struct mesh_thread *thread)
{
	pthread_mutex_lock(&thread->helper.link_lock);
	mesh_agentlink_close(&thread->helper.link);
	mesh_unclaims_drop(&thread->helper.unclaims);
	pthread_mutex_unlock(&thread->helper.link_lock);
	mesh_probed_lost();
}

static void look_up_inbound(struct inbound *in)
{
	in->conn = in->frame.type == MV_FRAME_DELIVER || in->frame.type == MV_FRAME_REFUSED ? mesh_conn_find(in->frame.device, in->frame.qpn) : NULL;
	mesh_fetch_conn(in->conn);
}

/* What concerns one connection. Return: as take_inbound(). */
static bool take_message(struct lead *lead, const struct inbound *in, uint64_t now_ns)
{
	uint64_t silent_ns = time_of_silence(lead->thread, now_ns);

	enter(lead, SECTION_CONN, in->conn);
	if (in->frame.type == MV_FRAME_DELIVER)
		deliver(&in->frame, in->conn, now_ns, silent_ns);
	else if (in->frame.type == MV_FRAME_UNREACHABLE)
		unreachable(&in->frame, now_ns);
	else
		refused(in->conn);
	return leave(lead);
}

/* Return: false: it is not the helper thread any more. */
static bool take_inbound(struct lead *lead, uint64_t now_ns)
{
	struct mesh_thread *thread = lead->thread;
	/* The next helper thread has that place. */
	const struct inbound in = thread->places[thread->n_taken++ % N_INBOUND];
	const struct mv_frame *frame = &in.frame;

	if (frame->type == MV_FRAME_DELIVER || frame->type == MV_FRAME_UNREACHABLE || frame->type == MV_FRAME_REFUSED) {
		if (!take_message(lead, &in, now_ns))
			return false;
	} else if (frame->type == MV_FRAME_CHANGED || frame->type == MV_FRAME_WELCOME || frame->type == MV_FRAME_PROBES) {
		take_note(thread, frame, now_ns);
	} else if (frame->type == MV_FRAME_PATH || frame->type == MV_FRAME_SUSPECT) {
		take_path(thread, frame, now_ns);
	} else if (frame->type == MV_FRAME_PACKS && frame->version == MV_CTL_VERSION) {
		take_packs(thread);
	}
	mesh_conn_put(in.conn);
	return true;
}

/* Return: whether anything came. */
static bool read_agent(struct lead *lead, uint64_t now_ns)
{
	struct mesh_thread *thread = lead->thread;
	struct inbound *places = thread->places;
	unsigned int n;
	int err = 0;

	for (n = 0; n < MAX_FRAMES || mesh_agentlink_has(&thread->helper.link); n++) {
		/* Else what the former helper thread has read comes first. */
		if (thread->n_read - thread->n_taken == N_INBOUND && !take_inbound(lead, now_ns))
			return true;
		err = mesh_agentlink_recv(&thread->helper.link, &places[thread->n_read % N_INBOUND].frame);
		if (err == -EBADMSG)
			continue;
		if (err)
			break;
		look_up_inbound(&places[thread->n_read++ % N_INBOUND]);
		if (thread->n_read - thread->n_taken >= N_INBOUND - 1)
			mesh_fetch_held(places[(thread->n_read - 2) % N_INBOUND].conn);
		if (thread->n_read - thread->n_taken == N_INBOUND && !take_inbound(lead, now_ns))
			return true;
	}
	while (thread->n_taken != thread->n_read)
		if (!take_inbound(lead, now_ns))
			return true;
	if (err)
		thread->drained_ns = now_ns;
	if (err == -ECONNRESET) {
		close_link(thread);
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "the agent is gone; connections stay as they are");
	}
	return n;
}

static void connect_agent(struct mesh_thread *thread, uint64_t now_ns)
{
	struct mesh_agentlink link;

	if (thread->helper.link.fd >= 0 || now_ns < thread->reconnect_at_ns)
		return;
	if (!thread->reconnect_ns)
		thread->reconnect_ns = RECONNECT_NS;
	thread->reconnect_at_ns = now_ns + thread->reconnect_ns;
	if (mesh_agentlink_open(&link, mesh_root.run_dir))
		return;
	/* Until it says WELCOME; where there is nobody, nobody is bothered. */
	if (thread->reconnect_ns < RECONNECT_MAX_NS)
		thread->reconnect_ns *= 2;
	pthread_mutex_lock(&thread->helper.link_lock);
	thread->helper.link = link;
	pthread_mutex_unlock(&thread->helper.link_lock);
	mesh_view_renew();
	mesh_conns_queue_all(true);
	mesh_ud_claim_all();
}

/* ---- the loop ------------------------------------------------------------------------------------------------ */

/* Of this turn, or of an earlier one with more, if that is not long ago. */
static void note_live(struct mesh_thread *thread, unsigned int n_live, uint64_t now_ns)
{
	if (n_live < thread->n_live && now_ns - thread->live_ns < LIVE_NS)
		return;
	thread->n_live = n_live;
	thread->live_ns = now_ns;
}

/* Return: when to come again. */
static uint64_t run_conns(struct lead *lead, uint64_t now_ns, bool *ret_worked)
{
	struct mesh_thread *thread = lead->thread;
	uint64_t next = now_ns, deadline, silent_ns = time_of_silence(thread, now_ns);
	struct mesh_conn *conn, *rest;
	int claimed;

	/* Else the former helper thread has left some. */
	if (!thread->taken)
		thread->taken = mesh_conns_take(now_ns, &next);
	while ((conn = thread->taken)) {
		rest = thread->taken = conn->next_taken;
		mesh_fetch_conn(rest ? rest->next_taken : NULL);
		mesh_fetch_held(rest);
		claimed = mesh_conn_claim(conn);
		if (claimed != -EALREADY)
			atomic_store_explicit(&conn->tell, true, memory_order_relaxed);
		*ret_worked |= !claimed; /* an agent that does not read may go on so for hours */
		enter(lead, SECTION_CONN, conn);
		deadline = mesh_conn_run(conn, now_ns, silent_ns);
		if (!leave(lead))
			return now_ns;
		if (claimed == -EAGAIN && deadline > now_ns + CLAIM_AGAIN_NS)
			deadline = now_ns + CLAIM_AGAIN_NS;
		if (deadline != UINT64_MAX)
			mesh_conn_queue_at(conn, deadline);
		if (deadline < next)
			next = deadline;
		mesh_conn_put(conn);
		/* The peers can begin with what there is. */
		if (rest && mesh_now_ns() > thread->sent_ns + FLUSH_NS)
			flush(thread, mesh_now_ns());
	}
	note_live(thread, mesh_n_moving(), now_ns);
	return next;
}

/* When to look again without having been woken; UINT64_MAX: not any more. */
static uint64_t brisk_at(const struct mesh_thread *thread, uint64_t now_ns)
{
	uint64_t ago = now_ns - thread->worked_at_ns, step = ago / BRISK_PART;

	if (ago >= BRISK_FOR_NS)
		return UINT64_MAX;
	return now_ns + (step < BRISK_MIN_NS ? BRISK_MIN_NS : step);
}

static void sleep_until(struct mesh_thread *thread, uint64_t until_ns, bool brisk)
{
	bool busy = false;
	uint64_t now = mesh_now_ns();
	bool watches = now >= thread->watch_at_ns;
	struct pollfd fds[N_FIXED + 2 * MESH_READ_RAILS] = {
		[WAKE] = {.fd = thread->helper.wake.fd[0], .events = POLLIN},
		[AGENT] = {.fd = thread->helper.link.fd, .events = POLLIN},
		[NETDEVS] = {.fd = watches ? mesh_paths_watch(&busy) : -1, .events = POLLIN},
	};
	size_t i, n_rails;
	int n;

	if (busy && until_ns > now + WATCH_AGAIN_NS)
		until_ns = now + WATCH_AGAIN_NS;
	if (!watches && until_ns > thread->watch_at_ns)
		until_ns = thread->watch_at_ns;
	pthread_mutex_lock(&mesh_root.process->read_rails_lock);
	n_rails = mesh_root.process->n_read_rails;
	for (i = 0; i < n_rails; i++) {
		/* Not struck off, as those of the channel and the context are: mesh_read_rail_events() is to hear of it. */
		const struct mesh_file *files = mesh_root.process->read_rails[i]->files;

		fds[N_FIXED + 2 * i] = (struct pollfd){.fd = files[MESH_RAIL_COMP].fd, .events = POLLIN};
		fds[N_FIXED + 2 * i + 1] = (struct pollfd){.fd = files[MESH_RAIL_ASYNC].fd, .events = POLLIN};
	}
	pthread_mutex_unlock(&mesh_root.process->read_rails_lock);
	if (!brisk)
		atomic_store_explicit(&thread->helper.asleep, true, memory_order_seq_cst);
	/* What was queued before the flag could be seen is found by the next round. */
	if (!brisk && mesh_conns_news())
		until_ns = 0;
	n = mesh_rails_poll(fds, N_FIXED, mesh_root.process->read_rails, n_rails, until_ns, now + CHECK_RAILS_NS);
	atomic_store_explicit(&thread->helper.asleep, false, memory_order_relaxed);
	mesh_paths_unwatch();
	if (n <= 0)
		return;
	if (fds[NETDEVS].revents)
		thread->watch_at_ns = mesh_now_ns() + WATCH_REST_NS;
	if (fds[WAKE].revents)
		mesh_wake_heard(&thread->helper.wake);
	/* The last one takes the place of one that is lost. */
	for (i = n_rails; i-- > 0;)
		if (fds[N_FIXED + 2 * i].revents || fds[N_FIXED + 2 * i + 1].revents)
			mesh_read_rail_events(i, &fds[N_FIXED + 2 * i]);
}

/* Somebody may have closed all descriptors, and nothing happens at those that have the numbers now. */
static void check_rails(struct mesh_thread *thread, uint64_t now_ns)
{
	if (now_ns < thread->check_rails_at_ns)
		return;
	thread->check_rails_at_ns = now_ns + CHECK_RAILS_NS;
	mesh_check_read_rails();
}

/* What the last thread of a process does that ends by pthread_exit(), and would have done without ours. */
static void end_with_program(struct mesh_thread *thread, uint64_t now_ns)
{
	if (now_ns < thread->alone_at_ns)
		return;
	thread->alone_at_ns = now_ns + ALONE_NS;
	if (mesh_threads_alone())
		exit(0);
}

/* Somebody may have closed all descriptors and use the numbers. Before it sleeps for good in any case: nobody could wake it. */
static void check_own(struct mesh_thread *thread, uint64_t now_ns)
{
	if (now_ns < thread->check_own_at_ns && brisk_at(thread, now_ns) != UINT64_MAX)
		return;
	thread->check_own_at_ns = now_ns + CHECK_OWN_NS;
	mesh_wake_check(&thread->helper.wake);
	if (thread->helper.link.fd >= 0 && !mesh_agentlink_intact(&thread->helper.link))
		close_link(thread);
}

static void watch_leader(struct mesh_thread *thread);

/* Return: when there is something to do; UINT64_MAX also while a former helper thread does it. */
static uint64_t run_section(struct lead *lead, enum section section, uint64_t (*run)(uint64_t now_ns), uint64_t now_ns)
{
	uint64_t next;

	if (lead->lost || atomic_load_explicit(&lead->thread->away[section], memory_order_acquire))
		return UINT64_MAX; /* who comes from there wakes this one */
	enter(lead, section, NULL);
	next = run(now_ns);
	leave(lead);
	return next;
}

/* Until another thread is the helper thread. */
static void run(struct mesh_thread *thread)
{
	struct lead lead = {.thread = thread};
	uint64_t now, next, news, probed, ud, srqs, work, unclaim, brisk, gather;
	bool worked;

	pthread_setname_np(pthread_self(), "meshverbs");
	pthread_mutex_lock(&thread->helper.link_lock);
	thread->helper.self = pthread_self();
	thread->helper.runs = true;
	pthread_mutex_unlock(&thread->helper.link_lock);
	while (!lead.lost) {
		/* Where nothing moves that is at work, no command is given here before there is a NIC of ours. */
		if (mesh_survives_some() || mesh_root.process->n_read_rails)
			watch_leader(thread);
		atomic_fetch_add_explicit(&mesh_root.process->turns, 1, memory_order_relaxed);
		now = mesh_now_ns();
		check_own(thread, now);
		check_rails(thread, now);
		connect_agent(thread, now);
		worked = thread->helper.link.fd >= 0 && read_agent(&lead, now);
		if (lead.lost)
			break;
		unclaim_again(thread);
		news = look_at_news(thread, now);
		next = run_conns(&lead, now, &worked);
		if (lead.lost)
			break;
		if (news < next)
			next = news;
		probed = mesh_probed_run(now);
		if (probed < next)
			next = probed;
		ud = run_section(&lead, SECTION_UD, mesh_ud_run, now);
		if (ud < next)
			next = ud;
		srqs = run_section(&lead, SECTION_SRQS, mesh_srqs_feed, now);
		if (lead.lost)
			break;
		if (srqs < next)
			next = srqs;
		work = mesh_work_run(now);
		if (work < next)
			next = work;
		if (mesh_conns_news())
			next = now;
		if (worked)
			thread->worked_at_ns = now;
		if (thread->helper.link.fd < 0 && thread->reconnect_at_ns < next)
			next = thread->reconnect_at_ns;
		unclaim = unclaim_at(thread, now);
		if (unclaim < next)
			next = unclaim;
		gather = gather_until(thread, now);
		if (gather <= now)
			gather = flush(thread, now);
		if (gather < next)
			next = gather;
		end_with_program(thread, now);
		if (thread->alone_at_ns < next)
			next = thread->alone_at_ns;
		brisk = brisk_at(thread, now);
		if (brisk == UINT64_MAX)
			mesh_view_rest();
		sleep_until(thread, brisk < next ? brisk : next, brisk != UINT64_MAX);
	}
}

static void *watcher(void *arg)
{
	struct mesh_thread *thread = arg;
	uint64_t turn;

	do {
		pthread_setname_np(pthread_self(), "meshverbs-watch");
		do
			turn = mesh_handoff_watch(&thread->handoff);
		while (!take_over(thread, turn));
		atomic_store_explicit(&thread->handoff.watched, false, memory_order_relaxed);
		run(thread);
		/* Where there is another one, this one ends. */
	} while (!atomic_exchange_explicit(&thread->handoff.watched, true, memory_order_relaxed));
	return NULL;
}

static void watch_leader(struct mesh_thread *thread)
{
	if (!atomic_exchange_explicit(&thread->handoff.watched, true, memory_order_relaxed) && mesh_thread_start(watcher, thread))
		atomic_store_explicit(&thread->handoff.watched, false, memory_order_relaxed);
}

static void *helper(void *arg)
{
	struct mesh_thread *thread = arg;

	thread->alone_at_ns = mesh_now_ns() + ALONE_NS;
	thread->news_at_ns = UINT64_MAX;
	mesh_conns_queue_all(true); /* those that were queued when there was no thread to be had */
	run(thread);
	return NULL;
}

/* Called with conns_lock held. @at_once: with the agent before this returns, if there is one */
static struct mesh_thread *make_thread(bool at_once, int *ret_err)
{
	struct mesh_thread *thread = calloc(1, sizeof(*thread));

	*ret_err = -ENOMEM;
	if (!thread)
		return NULL;
	thread->helper.link.fd = -1;
	*ret_err = mesh_wake_init(&thread->helper.wake);
	if (*ret_err) {
		free(thread);
		return NULL;
	}
	pthread_mutex_init(&thread->helper.link_lock, NULL);
	pthread_mutex_init(&thread->handoff_lock, NULL);
	mesh_handoff_init(&thread->handoff);
	if (at_once)
		mesh_agentlink_open(&thread->helper.link, mesh_root.run_dir); /* else the thread tries again */
	*ret_err = mesh_thread_start(helper, thread);
	if (*ret_err) {
		mesh_agentlink_close(&thread->helper.link);
		mesh_wake_fini(&thread->helper.wake);
		pthread_mutex_destroy(&thread->helper.link_lock);
		free(thread);
		return NULL;
	}
	return thread;
}

/* The first one who needs it. Return: 0 or -errno. */
int mesh_thread_begin(bool at_once)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_conn *conn = NULL, *rest;
	struct mesh_thread *thread;
	int err = 0, cancel = mesh_cancel_off();

	pthread_mutex_lock(&process->conns_lock);
	if (!atomic_load_explicit(&process->thread, memory_order_relaxed)) {
		thread = make_thread(at_once, &err);
		atomic_store_explicit(&process->thread, thread ? &thread->helper : NULL, memory_order_release);
	}
	/* There is nobody to look at those that were queued for it. Should there be a thread later, it looks at all. */
	if (err)
		conn = mesh_conns_take_all_locked();
	pthread_mutex_unlock(&process->conns_lock);
	for (; conn; conn = rest) {
		rest = conn->next_taken;
		mesh_conn_put(conn);
	}
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "no helper thread: %s; connections stay on the program's own NICs", strerrordesc_np(-err));
	mesh_cancel_restore(cancel);
	return err;
}

