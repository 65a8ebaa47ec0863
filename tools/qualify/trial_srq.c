// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "trial.h"

#define MESSAGE_BYTES (256u << 10)
#define MESSAGES      16
#define ROUNDS        12
#define WATCH_NS      200000000ull
#define EVENT_NS      5000000000ull
#define AFTER_NS      100000000ull

struct srq {
	struct q_qp req, resp;
	struct q_mem from, to;
	uint64_t err_ns; /* when ibv_modify_qp() to ERR returned */
	uint64_t last_ns, event_ns; /* time after that of the last receive completion, and of the event */
	uint32_t n; /* receive completions */
	uint32_t behind; /* of these, completions after the event */
	bool event;
};

static int collect(struct srq *s)
{
	struct ibv_wc wc;
	int n;

	while ((n = q_poll(s->resp.recv_cq, &wc)) > 0) {
		s->n++;
		s->last_ns = q_now_ns() - s->err_ns;
	}
	return n;
}

/* Return: 1: the event came; 0: not yet; -errno. */
static int look_for_event(struct srq *s)
{
	struct ibv_context *ctx = s->resp.port->ctx;
	struct pollfd fd = {.fd = ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;
	bool it;

	while (poll(&fd, 1, 0) > 0 && !ibv_get_async_event(ctx, &event)) {
		it = event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == s->resp.qp;
		ibv_ack_async_event(&event);
		if (it)
			return 1;
	}
	return 0;
}

static int wait_for_event(struct srq *s)
{
	int err = 0;

	while (!err && !s->event && q_now_ns() - s->err_ns < EVENT_NS) {
		err = collect(s);
		s->event = !err && look_for_event(s) > 0;
		if (!s->event)
			q_sleep_ns(20000);
	}
	s->event_ns = q_now_ns() - s->err_ns;
	/* The device has written all completions that precede the event. */
	return err ? err : collect(s);
}

static int begin(struct q_bench *b, struct srq *s, uint32_t *ret_posted)
{
	struct q_way way = q_way(b, b->dut.active_mtu < b->peer->active_mtu ? b->dut.active_mtu : b->peer->active_mtu);
	int err = q_connect(&s->req, &s->resp, &way);

	memset(s->to.buf, 0, s->to.bytes);
	s->n = s->behind = 0;
	s->event = false;
	s->last_ns = 0;
	while (look_for_event(s) > 0)
		; /* events of the round before */
	for (; *ret_posted < MESSAGES && !err; ++*ret_posted)
		err = q_post_recv(&s->resp, *ret_posted, &s->to, (size_t)*ret_posted * MESSAGE_BYTES, MESSAGE_BYTES);
	for (uint32_t i = 0; i < MESSAGES && !err; i++)
		err = q_post(&s->req, &(struct q_post){.wr_id = i,
						       .opcode = IBV_WR_SEND,
						       .flags = i + 1 == MESSAGES ? IBV_SEND_SIGNALED : 0,
						       .from = &s->from,
						       .length = MESSAGE_BYTES});
	return err;
}

static enum mv_trial_verdict one(struct q_bench *b, struct srq *s, uint32_t *posted, struct mv_qualified_trial *t)
{
	int err = begin(b, s, posted);

	if (err)
		return q_broken(t, "SENDs to a shared receive queue", err);
	q_mem_wait(&s->to, q_random(b, (uint32_t)s->to.bytes / 2), 1, WATCH_NS);
	err = q_to(&s->resp, IBV_QPS_ERR);
	s->err_ns = q_now_ns();
	if (!err)
		err = wait_for_event(s);
	if (err)
		return q_broken(t, "ERR", err);
	if (!s->event)
		return q_fail(t, "IBV_EVENT_QP_LAST_WQE_REACHED did not come within 5 s of ERR");
	s->behind = s->n;
	q_sleep_ns(AFTER_NS);
	err = collect(s);
	if (err)
		return q_broken(t, "ibv_poll_cq", err);
	s->behind = s->n - s->behind;
	*posted = *posted > s->n ? *posted - s->n : 0;
	if (s->behind)
		return q_fail(t, "%u completions of receives came after IBV_EVENT_QP_LAST_WQE_REACHED, the last one %.1f ms after ERR", s->behind,
			      (double)s->last_ns / 1e6);
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict rounds(struct q_bench *b, struct srq *s, struct mv_qualified_trial *t)
{
	uint64_t last_ns = 0, event_ns = 0;
	enum mv_trial_verdict verdict;
	uint32_t n, posted = 0, received = 0;

	for (n = 0; n < ROUNDS && q_has_time(b); n++) {
		verdict = one(b, s, &posted, t);
		if (verdict != MV_TRIAL_PASS)
			return verdict;
		received += s->n;
		last_ns = s->last_ns > last_ns ? s->last_ns : last_ns;
		event_ns = s->event_ns > event_ns ? s->event_ns : event_ns;
	}
	q_figure(t, "rounds", n);
	q_figure(t, "received", received);
	q_figure(t, "last_receive_us", (double)last_ns / 1e3);
	q_figure(t, "last_wqe_event_us", (double)event_ns / 1e3);
	return n ? MV_TRIAL_PASS : q_unsure(t, "no time was left");
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	const struct q_size size = {.send_wr = MESSAGES, .recv_wr = MESSAGES, .sge = 1, .with_srq = true};
	const struct q_size plain = {.send_wr = MESSAGES, .recv_wr = 1, .sge = 1};
	enum mv_trial_verdict verdict;
	struct srq s = {0};
	int err = q_qp_make(b->peer, &plain, &s.req);

	if (!err)
		err = q_qp_make(&b->dut, &size, &s.resp);
	if (!err)
		err = q_mem_make(b->peer, MESSAGE_BYTES, &s.from);
	if (!err)
		err = q_mem_make(&b->dut, (size_t)MESSAGES * MESSAGE_BYTES, &s.to);
	if (!err)
		memset(s.from.buf, 1, s.from.bytes);
	verdict = err ? q_broken(t, "queue pairs and memory", err) : rounds(b, &s, t);
	q_qp_end(&s.req);
	q_qp_end(&s.resp);
	q_mem_end(&s.from);
	q_mem_end(&s.to);
	return verdict;
}

const struct q_trial trial_srq = {
	.name = "srq",
	.assumption = "Of a queue pair with a shared receive queue that is in ERR, no receive completes after IBV_EVENT_QP_LAST_WQE_REACHED.",
	.source = "IBTA vol. 1, 11.6.3.3, 10.3.1; ibv_get_async_event(3)",
	.run = run,
};
