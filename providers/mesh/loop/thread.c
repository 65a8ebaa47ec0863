// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fetch.h"
#include "ourthreads.h"
#include "paths.h"
#include "arm.h"
#include "path_monitor.h"
#include "railevents.h"
#include "srq.h"
#include "survives.h"
#include "thread.h"
#include "threadint.h"
#include "ud.h"

/*
 * The helper thread: one per process, started with the first connection to a host that has an agent. No other thread negotiates, or reads
 * from the agent and the rails' completion channels. It blocks on its descriptors only: workers do slow work (worker.c). No thread of the
 * plugin is ever joined.
 *
 * Still, a command to a NIC whose firmware hangs may take seconds. Then another thread becomes the helper thread (handoff.h), and the
 * former helper thread finishes that connection as a worker would.
 */

/* Interval to check whether other threads of the process are left. */
#define ALONE_NS 1000000000ull
/*
 * After something happened, poll some hundred times at growing intervals, then sleep. A wake-up would cost the program system calls, and
 * disturb its next calls on the same connection. Urgent changes wake the thread all the same.
 */
#define BRISK_MIN_NS 1000000ull
#define BRISK_PART 16u /* interval: this part of the time since something happened */
#define BRISK_FOR_NS 2000000000ull
/* Pause before a REGISTER_QP or UNREGISTER_QP that the agent had no room for is sent again. */
#define REGISTER_AGAIN_NS 20000000ull
/* Pause before the next try to watch the network for changes, while another thread reads them. */
#define WATCH_AGAIN_NS 20000000ull
/* Shortest interval of wake-ups for network changes, of which hosts with many containers have hundreds per second. */
#define WATCH_REST_NS 100000000ull
/* Interval to check, while there is work, whether the program reused the rails' descriptors; six system calls per rail. */
#define CHECK_RAILS_NS 50000000ull
/* The same for the thread's own descriptors, while turn follows turn. Each is also checked before it is read or written. */
#define CHECK_OWN_NS 1000000ull
/* Batching: flush frames to the agent at least so often within one turn. */
#define FLUSH_NS 500000ull
/* Longest pause before frames for which the socket had no room are sent again; doubles up to this. */
#define FLUSH_MAX_NS 16000000ull
/* Where many connections move, frames of several turns are batched: each packet wakes two agents and the peer. */
#define GATHER_NS 300000ull
/* Limit of former helper threads that are blocked by firmware. */
#define MAX_AWAY 32u

/* Descriptors that the thread polls, besides those of rails. */
enum { WAKE, AGENT, NETDEVS, N_FIXED };

/* ---- sections ------------------------------------------------------------------------------------------------ */

void mesh_lead_enter(struct lead *lead, enum section section, struct mesh_conn *conn)
{
	struct mesh_thread *thread = lead->thread;

	lead->section = thread->section = section;
	lead->conn = thread->section_conn = conn;
	lead->turn = mesh_handoff_enter(&thread->handoff);
}

/* A command has returned in a former helper thread. */
static void come_back(struct lead *lead)
{
	struct mesh_thread *thread = lead->thread;

	mesh_lock(&thread->handoff_lock);
	atomic_store_explicit(&thread->away[lead->section], false, memory_order_release);
	thread->n_away--;
	if (lead->conn)
		atomic_store_explicit(&lead->conn->flags.at_work, false, memory_order_release);
	mesh_unlock(&thread->handoff_lock);
	if (lead->conn) {
		mesh_conn_queue(lead->conn, true);
		mesh_conn_put(lead->conn);
	}
	mesh_thread_wake(true);
}

bool mesh_lead_leave(struct lead *lead)
{
	if (mesh_handoff_leave(&lead->thread->handoff, lead->turn))
		return true;
	lead->lost = true;
	come_back(lead);
	return false;
}

/* Return: true: the calling thread is the helper thread now. */
static bool take_over(struct mesh_thread *thread, uint64_t turn)
{
	bool taken;

	mesh_lock(&thread->handoff_lock);
	taken = thread->n_away < MAX_AWAY && mesh_handoff_take(&thread->handoff, turn);
	if (taken) {
		thread->n_away++;
		atomic_store_explicit(&thread->away[thread->section],
				      thread->section == SECTION_UD || thread->section == SECTION_SRQS, memory_order_relaxed);
		/* As with a worker: other threads do not wait for conn->lock. */
		if (thread->section_conn)
			atomic_store_explicit(&thread->section_conn->flags.at_work, true, memory_order_release);
	}
	mesh_unlock(&thread->handoff_lock);
	if (taken)
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "a NIC does not answer a command: another thread goes on with connections that do not need that NIC");
	return taken;
}

/* Return: until when frames may wait for others; at most @now_ns: flush now. */
static uint64_t gather_until(const struct mesh_thread *thread, uint64_t now_ns)
{
	return thread->n_live >= MESH_MANY_MOVING && now_ns - thread->live_ns < LIVE_NS ? thread->sent_ns + GATHER_NS : now_ns;
}

/* Return: when to flush again if the socket had no room: soon at first, but an agent may be stopped for hours. */
static uint64_t flush(struct mesh_thread *thread, uint64_t now_ns)
{
	int err = 0;

	thread->sent_ns = now_ns;
	mesh_lock(&thread->helper.link_lock);
	if (thread->helper.link.fd >= 0)
		err = mesh_agentlink_flush(&thread->helper.link);
	mesh_unlock(&thread->helper.link_lock);
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
 * Send queued UNREGISTER_QPs, before any REGISTER_QP of this turn. Skip a QPN that was registered again since: the
 * agent's registration is for the new queue pair, and ends with that. A new queue pair with the QPN that is not
 * registered yet will be registered by this thread, so later.
 */
static void send_pending_unregister(struct mesh_thread *thread)
{
	struct mv_frame frame;
	bool any;

	do {
		mesh_lock(&thread->helper.link_lock);
		any = mesh_pending_unregister_take(&thread->helper.pending_unregister, &frame);
		mesh_unlock(&thread->helper.link_lock);
		if (any && !mesh_conn_is_registered(frame.device, frame.qpn) && !mesh_ud_is_registered(frame.device, frame.qpn))
			any = mesh_thread_frame(&frame) != -EAGAIN; /* on -EAGAIN the frame is queued again */
	} while (any);
}

/* Return: when to call send_pending_unregister() again. At the end of a turn, which may have queued UNREGISTER_QPs. */
static uint64_t pending_unregister_at(struct mesh_thread *thread, uint64_t now_ns)
{
	unsigned int n;

	mesh_lock(&thread->helper.link_lock);
	n = thread->helper.pending_unregister.n;
	mesh_unlock(&thread->helper.link_lock);
	return n ? now_ns + REGISTER_AGAIN_NS : UINT64_MAX;
}

/* Return: when to look at the new directory. */
static uint64_t look_at_directory(struct mesh_thread *thread, uint64_t now_ns)
{
	if (thread->directory_at_ns == UINT64_MAX || (now_ns < thread->directory_at_ns && mesh_many_move()))
		return thread->directory_at_ns;
	thread->directory_at_ns = UINT64_MAX;
	mesh_conns_queue_all(false);
	return UINT64_MAX;
}

/* ---- the loop ------------------------------------------------------------------------------------------------ */

/* Note the number of moving connections, unless a recent turn had more. */
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
	uint64_t next = now_ns, deadline, silent_ns = mesh_thread_time_of_silence(thread, now_ns);
	struct mesh_conn *conn, *rest;
	int registered;

	/* Otherwise a former helper thread has left some. */
	if (!thread->taken)
		thread->taken = mesh_conns_take(now_ns, &next);
	while ((conn = thread->taken)) {
		rest = thread->taken = conn->schedule.next_taken;
		mesh_fetch_conn(rest ? rest->schedule.next_taken : NULL);
		mesh_fetch_vqp(rest);
		registered = mesh_conn_register(conn);
		if (registered != -EALREADY)
			atomic_store_explicit(&conn->flags.tell, true, memory_order_relaxed);
		*ret_worked |= !registered; /* an unsent registration does not count as work: an agent may not read for hours */
		mesh_lead_enter(lead, SECTION_CONN, conn);
		deadline = mesh_conn_run(conn, now_ns, silent_ns);
		if (!mesh_lead_leave(lead))
			return now_ns;
		if (registered == -EAGAIN && deadline > now_ns + REGISTER_AGAIN_NS)
			deadline = now_ns + REGISTER_AGAIN_NS;
		if (deadline != UINT64_MAX)
			mesh_conn_queue_at(conn, deadline);
		if (deadline < next)
			next = deadline;
		mesh_conn_put(conn);
		/* The peers can begin with the frames so far. */
		if (rest && mesh_now_ns() > thread->sent_ns + FLUSH_NS)
			flush(thread, mesh_now_ns());
	}
	note_live(thread, mesh_n_moving(), now_ns);
	return next;
}

/* Return: when to poll without a wake-up; UINT64_MAX: sleep. */
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
		[WAKE] = {.fd = thread->helper.waker.fd[0], .events = POLLIN},
		[AGENT] = {.fd = thread->helper.link.fd, .events = POLLIN},
		[NETDEVS] = {.fd = watches ? mesh_paths_watch(&busy) : -1, .events = POLLIN},
	};
	size_t i, n_rails;
	int n;

	if (busy && until_ns > now + WATCH_AGAIN_NS)
		until_ns = now + WATCH_AGAIN_NS;
	if (!watches && until_ns > thread->watch_at_ns)
		until_ns = thread->watch_at_ns;
	mesh_lock(&mesh_root.process->read_rails.lock);
	n_rails = mesh_root.process->read_rails.n;
	for (i = 0; i < n_rails; i++) {
		/* Not removed if closed: mesh_read_rail_events() has to see POLLNVAL. */
		const struct mesh_file *files = mesh_root.process->read_rails.rails[i]->files;

		fds[N_FIXED + 2 * i] = (struct pollfd){.fd = files[MESH_RAIL_COMP].fd, .events = POLLIN};
		fds[N_FIXED + 2 * i + 1] = (struct pollfd){.fd = files[MESH_RAIL_ASYNC].fd, .events = POLLIN};
	}
	mesh_unlock(&mesh_root.process->read_rails.lock);
	if (!brisk)
		atomic_store_explicit(&thread->helper.asleep, true, memory_order_seq_cst);
	/* Connections that were queued before the flag was visible: do not sleep. */
	if (!brisk && mesh_conns_changed())
		until_ns = 0;
	n = mesh_rails_poll(fds, N_FIXED, mesh_root.process->read_rails.rails, n_rails, until_ns, now + CHECK_RAILS_NS);
	atomic_store_explicit(&thread->helper.asleep, false, memory_order_relaxed);
	mesh_paths_unwatch();
	if (n <= 0)
		return;
	if (fds[NETDEVS].revents)
		thread->watch_at_ns = mesh_now_ns() + WATCH_REST_NS;
	if (fds[WAKE].revents)
		mesh_waker_heard(&thread->helper.waker);
	/* Backwards: a lost rail is replaced by the last one. */
	for (i = n_rails; i-- > 0;)
		if (fds[N_FIXED + 2 * i].revents || fds[N_FIXED + 2 * i + 1].revents)
			mesh_read_rail_events(i, &fds[N_FIXED + 2 * i]);
}

/* The program may have closed all descriptors: then the rails' events never come. */
static void check_rails(struct mesh_thread *thread, uint64_t now_ns)
{
	if (now_ns < thread->check_rails_at_ns)
		return;
	thread->check_rails_at_ns = now_ns + CHECK_RAILS_NS;
	mesh_check_read_rails();
}

/* When the last thread of the program has ended by pthread_exit(), end the process, as would have happened without this thread. */
static void end_with_program(struct mesh_thread *thread, uint64_t now_ns)
{
	if (now_ns < thread->alone_at_ns)
		return;
	thread->alone_at_ns = now_ns + ALONE_NS;
	if (mesh_threads_alone())
		exit(0);
}

/*
 * The program may have closed all descriptors, and reused the numbers. Always checked before a long sleep, from which nothing could wake
 * the thread.
 */
static void check_own(struct mesh_thread *thread, uint64_t now_ns)
{
	if (now_ns < thread->check_own_at_ns && brisk_at(thread, now_ns) != UINT64_MAX)
		return;
	thread->check_own_at_ns = now_ns + CHECK_OWN_NS;
	mesh_waker_check(&thread->helper.waker);
	if (thread->helper.link.fd >= 0 && !mesh_agentlink_intact(&thread->helper.link))
		mesh_thread_close_link(thread);
}

static void watch_leader(struct mesh_thread *thread);

/* Return: when to come again; UINT64_MAX also while a former helper thread is in the section. */
static uint64_t run_section(struct lead *lead, enum section section, uint64_t (*run)(uint64_t now_ns), uint64_t now_ns)
{
	uint64_t next;

	if (lead->lost || atomic_load_explicit(&lead->thread->away[section], memory_order_acquire))
		return UINT64_MAX; /* that thread wakes this one */
	mesh_lead_enter(lead, section, NULL);
	next = run(now_ns);
	mesh_lead_leave(lead);
	return next;
}

/* Runs until another thread is the helper thread. */
static void run(struct mesh_thread *thread)
{
	struct lead lead = {.thread = thread};
	uint64_t now, next, changed, watches, ud, srqs, work, unregister, brisk, gather;
	bool worked;

	pthread_setname_np(pthread_self(), "meshverbs");
	mesh_lock(&thread->helper.link_lock);
	thread->helper.self = pthread_self();
	thread->helper.runs = true;
	mesh_unlock(&thread->helper.link_lock);
	while (!lead.lost) {
		/* Without protected connections and NICs of the plugin, this thread gives no commands. */
		if (mesh_survives_some() || mesh_root.process->read_rails.n)
			watch_leader(thread);
		atomic_fetch_add_explicit(&mesh_root.process->turns, 1, memory_order_relaxed);
		now = mesh_now_ns();
		check_own(thread, now);
		check_rails(thread, now);
		mesh_thread_connect_agent(thread, now);
		worked = thread->helper.link.fd >= 0 && mesh_thread_read_agent(&lead, now);
		if (lead.lost)
			break;
		send_pending_unregister(thread);
		changed = look_at_directory(thread, now);
		next = run_conns(&lead, now, &worked);
		if (lead.lost)
			break;
		if (changed < next)
			next = changed;
		watches = mesh_path_monitor_run(now);
		if (watches < next)
			next = watches;
		ud = run_section(&lead, SECTION_UD, mesh_ud_run, now);
		if (ud < next)
			next = ud;
		srqs = run_section(&lead, SECTION_SRQS, mesh_srqs_rebalance, now);
		if (lead.lost)
			break;
		if (srqs < next)
			next = srqs;
		work = mesh_work_run(now);
		if (work < next)
			next = work;
		if (mesh_conns_changed())
			next = now;
		if (worked)
			thread->worked_at_ns = now;
		if (thread->helper.link.fd < 0 && thread->reconnect_at_ns < next)
			next = thread->reconnect_at_ns;
		unregister = pending_unregister_at(thread, now);
		if (unregister < next)
			next = unregister;
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
			mesh_directory_rest();
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
		/* If there is another watcher, this thread ends. */
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
	thread->directory_at_ns = UINT64_MAX;
	mesh_conns_queue_all(true); /* connections that were queued when no thread could be started */
	run(thread);
	return NULL;
}

/* Called with process->conns.lock held. @at_once: connect to the agent before this returns, if there is an agent. */
static struct mesh_thread *make_thread(bool at_once, int *ret_err)
{
	struct mesh_thread *thread = calloc(1, sizeof(*thread));

	*ret_err = -ENOMEM;
	if (!thread)
		return NULL;
	thread->helper.link.fd = -1;
	*ret_err = mesh_waker_init(&thread->helper.waker);
	if (*ret_err) {
		free(thread);
		return NULL;
	}
	mesh_lock_init(&thread->helper.link_lock);
	mesh_lock_init(&thread->handoff_lock);
	mesh_handoff_init(&thread->handoff);
	if (at_once)
		mesh_agentlink_open(&thread->helper.link, mesh_root.run_dir); /* on failure the thread tries again */
	*ret_err = mesh_thread_start(helper, thread);
	if (*ret_err) {
		mesh_agentlink_close(&thread->helper.link);
		mesh_waker_fini(&thread->helper.waker);
		mesh_lock_fini(&thread->helper.link_lock);
		free(thread);
		return NULL;
	}
	return thread;
}

int mesh_thread_begin(bool at_once)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_conn *conn = NULL, *rest;
	struct mesh_thread *thread;
	int err = 0, cancel = mesh_cancel_off();

	mesh_lock(&process->conns.lock);
	if (!atomic_load_explicit(&process->thread, memory_order_relaxed)) {
		thread = make_thread(at_once, &err);
		atomic_store_explicit(&process->thread, thread ? &thread->helper : NULL, memory_order_release);
	}
	/* No thread looks at queued connections. A later thread looks at all connections. */
	if (err)
		conn = mesh_conns_take_all_locked();
	mesh_unlock(&process->conns.lock);
	for (; conn; conn = rest) {
		rest = conn->schedule.next_taken;
		mesh_conn_put(conn);
	}
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "no helper thread: %s; connections stay on the program's own NICs", strerrordesc_np(-err));
	mesh_cancel_restore(cancel);
	return err;
}
