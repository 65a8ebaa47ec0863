// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "traffic.h"

#define BATCH    16
#define GAP_NS   100000000ull /* pauses from this length on are told */

static void took(struct thread *t, const struct ibv_wc *wc)
{
	struct link_qp *q;
	uint32_t index = wc->wr_id >> 32 & 0xffff;
	bool receive = wc->wr_id & RECV_WR;
	uint64_t now = now_ns();

	if (index >= t->opt->n_qps)
		violated(NULL, "a completion with wr_id 0x%lx, which was never posted", wc->wr_id);
	q = &t->qps[index];
	if (!(receive && t->srq) && (wc->wr_id >> 48 & 0x7fff) != (q->epoch & 0x7fff))
		violated(q, "a completion of a queue pair that was destroyed: wr_id 0x%lx",
			 wc->wr_id);
	if (!(receive && t->srq) && q->qp && wc->qp_num != q->qp->qp_num)
		violated(q, "a completion with QP number 0x%x, not 0x%x", wc->qp_num,
			 q->qp->qp_num);
	q->history.last[q->history.n % N_HISTORY].wr_id = wc->wr_id;
	q->history.last[q->history.n % N_HISTORY].status = wc->status;
	q->history.last[q->history.n++ % N_HISTORY].ns = now;
	if (wc->status == IBV_WC_SUCCESS) {
		if (q->success_ns && now - q->success_ns > t->totals.longest_gap_ns)
			t->totals.longest_gap_ns = now - q->success_ns;
		if (q->success_ns && now - q->success_ns >= GAP_NS)
			say(q, "pause of %.3f ms until %.3f", (double)(now - q->success_ns) / 1e6,
			    (double)now / 1e6);
		q->success_ns = now;
		atomic_fetch_add_explicit(&t->opt->progress[t->number * t->opt->n_qps + index], 1, memory_order_relaxed);
	}
	q->progress_ns = now;
	if (receive)
		recv_completed(q, wc);
	else
		send_completed(q, wc);
}

static bool poll_one(struct thread *t, struct ibv_cq *cq)
{
	struct ibv_wc wcs[BATCH];
	int n = poll_cq(t, cq, BATCH, wcs), i;

	if (n < 0)
		violated(NULL, "polling: %d", n);
	for (i = 0; i < n; i++)
		took(t, &wcs[i]);
	return n;
}

static bool poll_all(struct thread *t)
{
	bool any = false, some;

	do {
		some = poll_one(t, t->send_cq);
		if (t->send_cq != t->recv_cq)
			some |= poll_one(t, t->recv_cq);
		any |= some;
	} while (some);
	return any;
}

static void tell_state(struct thread *t, struct link_qp *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {0};

	if (q->qp)
		ibv_query_qp(q->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init);
	say(q,
	    "in state %d (QP 0x%x, of the device: %d): work requests %u posted, %u "
	    "completed; operations %u posted, %u completed, "
	    "%u acknowledged; the other end's: %u verified, %u acknowledged; receives %u posted, "
	    "%u consumed; fin %d %d; failed %d "
	    "report %d %d stopping %d done %d %d",
	    q->state, q->qp ? q->qp->qp_num : 0, attr.qp_state, q->sends.n_posted, q->sends.n_completed,
	    q->sends.script.n - q->sends.has_next, q->sends.ops_completed, q->area->acked, q->receives.script.n,
	    q->receives.acked, q->receives.n_posted, q->receives.n_consumed, q->sends.fin_posted,
	    q->receives.fin_seen, q->sends.failed, q->failure.reported, q->failure.heard, t->stopping,
	    t->told_done, t->peer_done);
}

enum ibv_qp_state thread_ask(struct link_qp *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(q->qp, &attr, IBV_QP_STATE, &init))
		violated(q, "ibv_query_qp(): %s", strerror(errno));
	if (attr.qp_state != attr.cur_qp_state || attr.qp_state != q->qp->state)
		violated(q, "in state %d, but %d, and %d in struct ibv_qp", attr.qp_state,
			 attr.cur_qp_state, q->qp->state);
	return attr.qp_state;
}

static bool is_connected(const struct link_qp *q)
{
	return q->state == QP_CONNECTED || q->state == QP_RUNNING;
}

/* A program that finds its queue pair in ERR gives it up: not before there is an error. */
static void check_state(struct link_qp *q)
{
	enum ibv_qp_state state;

	if (!is_connected(q))
		return;
	state = thread_ask(q);
	if (state == IBV_QPS_RTS)
		return;
	poll_all(q->thread); /* what was given between polling and asking */
	if (is_connected(q))
		violated(q, "in state %d without an error", state);
}

static bool is_done(const struct link_qp *q)
{
	if (q->state == QP_OVER)
		return true;
	return q->state == QP_RUNNING && q->sends.fin_posted && q->sends.n_completed == q->sends.n_posted &&
	       q->receives.fin_seen;
}

void thread_tell(struct thread *t)
{
	unsigned int i;

	for (i = 0; i < t->opt->n_qps; i++)
		if (!is_done(&t->qps[i]))
			tell_state(t, &t->qps[i]);
}

static void step(struct link_qp *q, uint64_t now, double elapsed_s)
{
	struct thread *t = q->thread;

	q->sends.tokens += elapsed_s * t->opt->rate;
	if (q->sends.tokens > 8)
		q->sends.tokens = 8;
	if (q->state == QP_CONNECTING && q->heard.valid && q->heard.epoch == q->epoch) {
		q->theirs = q->heard.address;
		qp_connect(q);
	}
	if (q->state == QP_CONNECTED && q->heard_ready)
		q->state = QP_RUNNING;
	if (q->state == QP_RUNNING && q->receives.script.n - q->receives.acked >= ACK_EVERY && !q->receives.fin_seen) {
		recv_check_poison(q);
		send_ack(q);
	}
	if (q->state == QP_RUNNING)
		send_some(q, now);
	/* One that has nothing outstanding never hears that nobody is there. */
	if (q->state == QP_RUNNING && t->peer_gone && !q->failure.tried_gone)
		q->failure.tried_gone = send_ack(q);
	error_step(q);
	if (!is_done(q) && now > q->progress_ns &&
	    now - q->progress_ns > (uint64_t)(t->opt->stuck_seconds * 1e9)) {
		say(q, "STUCK");
		thread_tell(t);
		_exit(STUCK);
	}
}

static void take_events(struct thread *t)
{
	struct pollfd fd = {.fd = t->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *arg;

	while (poll(&fd, 1, 0) == 1) {
		if (ibv_get_cq_event(t->channel, &cq, &arg))
			violated(NULL, "ibv_get_cq_event(): %s", strerror(errno));
		if (arg != t || (cq != t->send_cq && cq != t->recv_cq))
			violated(NULL, "an event of an unknown CQ");
		ibv_ack_cq_events(cq, 1);
		t->armed = false;
		t->event_due_ns = 0;
	}
}

static void arm(struct thread *t)
{
	int err;

	if (t->armed)
		return;
	err = ibv_req_notify_cq(t->send_cq, 0);
	if (!err && t->recv_cq != t->send_cq)
		err = ibv_req_notify_cq(t->recv_cq, 0);
	if (err)
		violated(NULL, "ibv_req_notify_cq(): %s", strerror(err));
	t->armed = true;
}

static void rest(struct thread *t)
{
	struct pollfd fds[2] = {{.fd = t->fd, .events = POLLIN},
				{.fd = t->channel ? t->channel->fd : -1, .events = POLLIN}};

	poll(t->peer_gone ? fds + 1 : fds, t->peer_gone ? 1 : 2, t->opt->tick_ms);
}

/* On a busy machine it may take as long as anything else. */
static void check_due(const struct thread *t)
{
	if (t->event_due_ns && now_ns() > t->event_due_ns)
		violated(NULL, "thread %u: completions came after its CQs were armed, and no event",
			 t->number);
}

/* What was there after the CQs had been armed and found empty comes with an event. */
static void poll_by_events(struct thread *t)
{
	bool was_armed = t->armed;

	take_events(t);
	if (poll_all(t)) {
		if (was_armed && t->armed && !t->event_due_ns)
			t->event_due_ns = now_ns() + (uint64_t)(t->opt->stuck_seconds * 1e9);
	}
	check_due(t);
	if (!t->armed) {
		arm(t);
		poll_all(t);
	}
}

static bool all_done(const struct thread *t)
{
	unsigned int i;

	for (i = 0; i < t->opt->n_qps; i++)
		if (!is_done(&t->qps[i]))
			return false;
	return true;
}

static void finish(struct thread *t)
{
	unsigned int i;

	for (i = 0; i < t->opt->n_qps; i++)
		if (t->qps[i].state == QP_RUNNING)
			recv_check_poison(&t->qps[i]);
	poll_all(t);
	if (t->channel)
		take_events(t);
	for (; t->event_due_ns; take_events(t)) {
		check_due(t);
		usleep(1000);
	}
	thread_close(t);
}

void *thread_run(void *arg)
{
	struct thread *t = arg;
	uint64_t before, now;
	unsigned int i;

	thread_open(t);
	for (i = 0; i < t->opt->n_qps; i++)
		qp_new(&t->qps[i]);
	before = now_ns();
	while (!(t->told_done && (t->peer_done || t->peer_gone))) {
		if (t->channel)
			poll_by_events(t);
		else
			poll_all(t);
		while (wire_hear(t))
			;
		if (traffic_stop && !t->told_stop) {
			t->stopping = t->told_stop = true;
			wire_say(t, WORD_STOP, NULL, NULL);
		}
		now = now_ns();
		for (i = 0; t->opt->ask && i < t->opt->n_qps; i++)
			check_state(&t->qps[i]);
		for (i = 0; i < t->opt->n_qps; i++)
			step(&t->qps[i], now, (double)(now - before) / 1e9);
		before = now;
		if (!t->told_done && all_done(t)) {
			t->told_done = true;
			wire_say(t, WORD_DONE, NULL, NULL);
		}
		if (!(t->told_done && t->peer_gone))
			rest(t);
	}
	finish(t);
	return NULL;
}
