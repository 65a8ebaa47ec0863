/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The HCA's thread. It watches the doorbell records of the queue pairs and the arm records of the
 * CQs by looking at them, again and again while there is traffic, and with sleeps that grow from
 * a tenth of a millisecond to two when there is none: an arriving packet ends such a sleep, a doorbell
 * waits for its end, or until a thread of the program reads events. All signals are blocked in it.
 */
#include "hca.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "doorbell.h"

#define TURN_PACKETS 32 /* of one queue pair per round */
#define SPIN_NS      0 /* without work, before the first sleep */
#define SLEEP_MIN_NS 100000 /* waking up takes some 15 us of a processor, whether there was something or not */
#define SLEEP_SOON   4      /* of the time without work, such a part, */
#define SOON_MAX_NS  200000 /* up to that: a program that waits for a completion of a few milliseconds does not wait for us as well */
#define SLEEP_LATER  8      /* and of a longer time such a part */
#define SLEEP_MAX_NS 2000000
#define TRAFFIC_NS   2000000 /* since the last work: an HCA with many queue pairs looks at them together */
#define IDLE_SHARE   3 /* and a sleep is so many times as long as looking took: queues with nothing in them are not to */
#define IDLE_MAX_NS  200000 /* take the processor from those that fill them; but it is no longer than that */
#define DOORBELLS_MAX_NS 400000 /* from one look at all doorbells to the next */
#define DOORBELLS_FEW_NS 1000   /* a look that takes longer is one at hundreds of queues, */
#define DOORBELLS_SHARE  30     /* and then there is other work to do meanwhile */
#define MANY_QPS     128 /* with so many there is always a packet that would end a sleep; each time takes more than the packet does */
#define TICK_QP_NS   1000 /* so while there is traffic all of them are looked at together: the more there are, the less often, */
#define TICK_MIN_NS  400000 /* in these bounds */
#define TICK_MAX_NS  2000000
#define STEP_BACK_NS 50000 /* one turn of waiting for a thread that wants the lock */
#define STEP_BACK_TURNS 10

uint64_t engine_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void port_event(struct hca *h, const struct sim_event *e, uint32_t type)
{
	struct ucontext *uc;

	LIST_FOREACH(uc, &h->contexts, link)
		if (uc->dev_index == e->dev) {
			evq_push_async(uc->async, type, NULL, e->port, NULL);
			for (int i = 0; i < SIM_MAX_IMPORTS; i++)
				evq_push_async(uc->imported[i], type, NULL, e->port, NULL);
		}
}

/*
 * As in the kernel when a driver lets go of a device: the asynchronous file of each context has one
 * event more, the last one, and completion channels are over.
 */
static void reset_event(struct hca *h, const struct sim_event *e)
{
	struct ucontext *uc;
	struct evq *channel;

	LIST_FOREACH(uc, &h->contexts, link) {
		if (uc->dev_index != e->dev || uc->over ||
		    uc->resets == atomic_load_explicit(&uc->dev->resets, memory_order_relaxed))
			continue;
		uc->over = true;
		evq_push_async(uc->async, IBV_EVENT_DEVICE_FATAL, NULL, 0, NULL);
		for (int i = 0; i < SIM_MAX_IMPORTS; i++)
			evq_push_async(uc->imported[i], IBV_EVENT_DEVICE_FATAL, NULL, 0, NULL);
		LIST_FOREACH(channel, &uc->channels, link)
			evq_end(channel);
	}
}

static void run_event(struct hca *h, const struct sim_event *e)
{
	static const uint32_t types[] = {
		[SIM_EVENT_PORT_ERR] = IBV_EVENT_PORT_ERR,
		[SIM_EVENT_PORT_ACTIVE] = IBV_EVENT_PORT_ACTIVE,
		[SIM_EVENT_GID_CHANGE] = IBV_EVENT_GID_CHANGE,
		[SIM_EVENT_LID_CHANGE] = IBV_EVENT_LID_CHANGE,
		[SIM_EVENT_PKEY_CHANGE] = IBV_EVENT_PKEY_CHANGE,
		[SIM_EVENT_SM_CHANGE] = IBV_EVENT_SM_CHANGE,
		[SIM_EVENT_CLIENT_REREGISTER] = IBV_EVENT_CLIENT_REREGISTER,
		[SIM_EVENT_DEVICE_FATAL] = IBV_EVENT_DEVICE_FATAL,
	};
	struct qp *qp;

	if (e->type == SIM_EVENT_QP_FATAL) {
		qp = qp_find(h, e->qpn);
		if (qp && qp->dev_index == e->dev)
			qp_fatal(qp, IBV_EVENT_QP_FATAL);
	} else if (e->type == SIM_EVENT_RESET) {
		reset_event(h, e);
	} else if (e->type && e->type < sizeof(types) / sizeof(types[0])) {
		port_event(h, e, types[e->type]);
	}
}

/* Return: how many came. */
static int poll_events(struct hca *h)
{
	uint64_t n = atomic_load_explicit(&h->state->n_events, memory_order_acquire);
	int done = 0;

	if (n - h->events_seen > SIM_MAX_EVENTS)
		h->events_seen = n - SIM_MAX_EVENTS;
	for (; h->events_seen != n; h->events_seen++, done++) {
		struct sim_event *slot = &h->state->events[h->events_seen % SIM_MAX_EVENTS], e;

		if (atomic_load_explicit(&slot->seq, memory_order_acquire) < h->events_seen + 1)
			break; /* being written */
		e.type = slot->type;
		e.dev = slot->dev;
		e.port = slot->port;
		e.qpn = slot->qpn;
		run_event(h, &e);
	}
	return done;
}

/* Looking at thousands of queues after each packet would take all the time there is; a real HCA is told of those that matter. */
static void poll_doorbells(struct hca *h)
{
	uint64_t began_ns, took_ns, rest_ns;
	struct cq *cq;

	if (h->now_ns < h->doorbells.look_ns)
		return;
	began_ns = engine_clock();
	doorbells_look(h);
	LIST_FOREACH(cq, &h->cqs, link) {
		if (cq->channel)
			cq_poll_arm(cq);
		if (cq->fail_pending)
			cq_run_failures(h);
	}
	took_ns = engine_clock() - began_ns;
	rest_ns = took_ns * (took_ns < DOORBELLS_FEW_NS ? IDLE_SHARE : DOORBELLS_SHARE);
	h->doorbells.look_ns = began_ns + took_ns + (rest_ns < DOORBELLS_MAX_NS ? rest_ns : DOORBELLS_MAX_NS);
}

/* When the timer of a queue pair is due; 0: none is running. */
static uint64_t timer_of(const struct qp *qp)
{
	return qp->req.rnr_until_ns ? qp->req.rnr_until_ns : qp->req.deadline_ns;
}

/* Those whose timer is due have a turn. Acknowledgements come by the thousand, timers hardly ever. */
static void run_timers(struct hca *h)
{
	struct qp *qp, *next;

	if (!h->sending.timer_ns || h->now_ns < h->sending.timer_ns)
		return;
	h->sending.timer_ns = 0;
	for (qp = TAILQ_FIRST(&h->sending.waiting); qp; qp = next) {
		uint64_t t = timer_of(qp);

		next = TAILQ_NEXT(qp, queue_link);
		if (h->now_ns >= t)
			qp_kick(qp);
		else if (!h->sending.timer_ns || t < h->sending.timer_ns)
			h->sending.timer_ns = t;
	}
}

static void wait_for_timer(struct hca *h, struct qp *qp)
{
	uint64_t t = timer_of(qp);

	qp_enqueue(qp, &h->sending.waiting);
	if (!h->sending.timer_ns || t < h->sending.timer_ns)
		h->sending.timer_ns = t;
}

/* One turn for every queue pair with work. Return: whether one of them got on, or could; *ret_more: one had no time for all. */
static bool run_queues(struct hca *h, bool *ret_more)
{
	struct qp *qp, *last = TAILQ_LAST(&h->sending.busy, qp_queue), *next;
	bool work = false;

	for (qp = TAILQ_FIRST(&h->sending.busy); qp; qp = next) {
		uint32_t cur = qp->req.cur;
		bool was_last = qp == last, again = true;

		next = was_last ? NULL : TAILQ_NEXT(qp, queue_link);
		qp_fetch(next);
		/* A dead HCA sends nothing and completes nothing. */
		if (!qp_dead(qp)) {
			qp_enqueue(qp, NULL);
			again = qp_transmit(qp, TURN_PACKETS);
			if (again)
				qp_kick(qp);
			else if (!qp->queue && timer_of(qp))
				wait_for_timer(h, qp);
			work |= qp->req.cur != cur || (qp->queue == &h->sending.busy && !timer_of(qp));
			*ret_more |= again;
		}
	}
	return work;
}

/* Return: whether there was anything to do; *ret_more: whether there is more already. */
static bool round_once(struct hca *h, bool *ret_more)
{
	bool work;
	int got;

	h->now_ns = engine_clock();
	got = net_receive(h);
	*ret_more = got >= NET_RX_BATCH;
	work = got > 0;
	/* What is to be answered comes before the turns of the queue pairs: the next may be a sleep away. */
	work |= faults_run(h);
	work |= late_run(h);
	work |= poll_events(h) > 0;
	poll_doorbells(h);
	run_timers(h);
	work |= run_queues(h, ret_more);
	net_flush(h);
	return work;
}

/* Until when nothing of our own happens: the nearest timer. */
static uint64_t nearest_timer(struct hca *h)
{
	uint64_t t = faults_due(h), late = late_due(h);
	struct qp *qp;

	if (late && (!t || late < t))
		t = late;

	if (h->sending.timer_ns && (!t || h->sending.timer_ns < t))
		t = h->sending.timer_ns;
	TAILQ_FOREACH(qp, &h->sending.busy, queue_link) {
		uint64_t q = timer_of(qp);

		if (!qp_dead(qp) && q && (!t || q < t))
			t = q;
	}
	return t;
}

/* Does it sleep through what arrives? */
static bool ticks(const struct hca *h, uint64_t idle_ns)
{
	return h->n_qps >= h->many_qps && idle_ns < TRAFFIC_NS;
}

static uint64_t tick_of(const struct hca *h)
{
	uint64_t ns = (uint64_t)h->n_qps * TICK_QP_NS;

	return ns < TICK_MIN_NS ? TICK_MIN_NS : ns > TICK_MAX_NS ? TICK_MAX_NS : ns;
}

static uint64_t sleep_after(uint64_t idle_ns)
{
	uint64_t soon_ns = idle_ns / SLEEP_SOON, later_ns = idle_ns / SLEEP_LATER;

	if (soon_ns > SOON_MAX_NS)
		soon_ns = SOON_MAX_NS;
	if (soon_ns < SLEEP_MIN_NS)
		soon_ns = SLEEP_MIN_NS;
	return later_ns > soon_ns ? later_ns : soon_ns;
}

static uint64_t sleep_for(struct hca *h, uint64_t idle_ns)
{
	uint64_t t = nearest_timer(h), ns = sleep_after(idle_ns);
	uint64_t share_ns = IDLE_SHARE * (engine_clock() - h->now_ns);

	if (share_ns > ns)
		ns = share_ns < IDLE_MAX_NS ? share_ns : ns < IDLE_MAX_NS ? IDLE_MAX_NS : ns;
	/* Packets end it, and before that no doorbell is looked at. */
	if (h->doorbells.look_ns > h->now_ns + ns)
		ns = h->doorbells.look_ns - h->now_ns;
	if (ns > SLEEP_MAX_NS)
		ns = SLEEP_MAX_NS;
	if (ticks(h, idle_ns))
		ns = tick_of(h);
	if (t && t < h->now_ns + ns)
		ns = t > h->now_ns ? t - h->now_ns : 0;
	return ns;
}

/*
 * Threads of the program that wait for the lock have no real-time priority: they get a processor
 * only while this thread sleeps, not when it yields.
 */
static void let_others_in(struct hca *h)
{
	const struct timespec turn = {.tv_nsec = STEP_BACK_NS};
	int n;

	atomic_store(&h->stepped_back, 1);
	for (int i = 0; i < STEP_BACK_TURNS && (n = atomic_load(&h->waiters)); i++)
		syscall(SYS_futex, &h->waiters, FUTEX_WAIT_PRIVATE, n, &turn, NULL, 0);
	atomic_store(&h->stepped_back, 0);
}

/*
 * A real HCA does not wait for a processor: on a busy machine, acknowledgements that come late
 * would look like loss. The thread sleeps whenever it has nothing to do. Where the right to is
 * missing it works too, only slower.
 */
static void run_first(void)
{
	const struct sched_param rr = {.sched_priority = 1};

	if (pthread_setschedparam(pthread_self(), SCHED_RR, &rr))
		setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -15);
}

/* For tests of it with fewer: SIM_MANY_QPS=n in the environment. */
static uint32_t many_qps(void)
{
	const char *text = getenv("SIM_MANY_QPS");

	return text ? (uint32_t)strtoul(text, NULL, 10) : MANY_QPS;
}

static void *engine_main(void *arg)
{
	struct hca *h = arg;
	uint64_t last_work = engine_clock();
	bool tick, more;

	prctl(PR_SET_NAME, "simhca");
	prctl(PR_SET_TIMERSLACK, 1000);
	run_first();
	while (!atomic_load_explicit(&h->engine.stop, memory_order_acquire)) {
		uint64_t ns = 0;

		pthread_mutex_lock(&h->lock);
		net_update(h);
		if (round_once(h, &more))
			last_work = h->now_ns;
		tick = ticks(h, h->now_ns - last_work);
		if (tick ? !more : h->now_ns - last_work > SPIN_NS)
			ns = sleep_for(h, h->now_ns - last_work);
		atomic_store_explicit(&h->engine.dozes, ns > IDLE_MAX_NS && !tick, memory_order_relaxed);
		pthread_mutex_unlock(&h->lock);
		if (atomic_load_explicit(&h->waiters, memory_order_relaxed))
			let_others_in(h);
		else if (ns)
			net_wait(h, ns, tick);
	}
	return NULL;
}

int engine_start(struct hca *h)
{
	sigset_t all, old;
	int err;

	h->many_qps = many_qps();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&h->engine.thread, NULL, engine_main, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	h->engine.runs = !err;
	return -err;
}

/** engine_stop() - returns when the thread has ended. Called without the lock. */
void engine_stop(struct hca *h)
{
	uint64_t one = 1;

	atomic_store_explicit(&h->engine.stop, true, memory_order_release);
	(void)!write(h->engine.wake_fd, &one, sizeof(one));
	pthread_join(h->engine.thread, NULL);
}

/**
 * engine_hurry() - a thread of the program is about to wait for events: take what it has posted before.
 *
 * A card hears of a doorbell at once. What is flushed is complete when this returns; for what is to be sent the engine is woken.
 * Called without the lock.
 */
void engine_hurry(struct hca *h)
{
	uint64_t one = 1;
	bool sends = false;

	hca_lock(h);
	/* Where it has many queue pairs, the engine looks at all of them together. */
	if (h->n_qps < h->many_qps) {
		h->now_ns = engine_clock();
		doorbells_look(h);
		sends = !TAILQ_EMPTY(&h->sending.busy);
	}
	hca_unlock(h);
	if (sends)
		(void)!write(h->engine.wake_fd, &one, sizeof(one));
}
