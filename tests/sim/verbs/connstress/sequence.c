// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* One sequence from objects to no objects. */
#include "stress.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void doing(struct worker *w, const char *what)
{
	atomic_store_explicit(&w->doing, what, memory_order_relaxed);
	atomic_fetch_add_explicit(&w->heartbeat, 1, memory_order_relaxed);
}

static void send_all(struct worker *w, const void *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = send(w->fd, (const char *)buf + at, len - at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die(w, errno, "the other side is gone");
		at += (size_t)n;
	}
}

/* Completions are taken meanwhile: the other side may be waiting for what ours acknowledge, and
 * programs do so. */
static void recv_all(struct worker *w, void *buf, size_t len)
{
	for (size_t at = 0; at < len;) {
		struct pollfd ready = {.fd = w->fd, .events = POLLIN};
		ssize_t n;

		if (poll(&ready, 1, 1) == 0) {
			take_some(w);
			continue;
		}
		n = recv(w->fd, (char *)buf + at, len - at, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die(w, n ? errno : 0, "the other side is gone");
		at += (size_t)n;
	}
}

/* Both sides are here; what each has to say. */
static void exchange(struct worker *w, const char *where)
{
	uint32_t step = w->mine.step;

	doing(w, where);
	send_all(w, &w->mine, sizeof(w->mine));
	recv_all(w, &w->theirs, sizeof(w->theirs));
	if (w->theirs.step != step)
		die(w, 0, "%s: I am at step %u, the other side at %u", where, step, w->theirs.step);
	w->mine.step++;
	doing(w, where);
}

static bool never_connects(struct worker *w)
{
	return w->script.plot == PLOT_NEVER && w->side == 1;
}

static void nap(unsigned int us)
{
	if (us)
		usleep(us);
}

static void connect_qps(struct worker *w)
{
	struct side_script *me = my_side(w);

	nap(me->before_rtr_us);
	if (me->mr_time == MR_BEFORE_RTR)
		target_register(w);
	if (!me->recv_late)
		receives_post(w);
	for (unsigned int q = 0; q < w->script.n_qps; q++)
		qp_to(w, q, IBV_QPS_RTR);
	if (me->recv_late)
		receives_post(w);
	nap(me->before_rts_us);
	for (unsigned int q = 0; q < w->script.n_qps; q++)
		qp_to(w, q, IBV_QPS_RTS);
	if (me->mr_time == MR_AFTER_RTS)
		target_register(w);
}

/* Where the first half of queue pair @q's operations ends: the other side gives new keys then. */
static unsigned int half_of(struct worker *w, unsigned int q)
{
	unsigned int n = my_side(w)->qps[q].n_ops;

	return their_side(w)->reregister ? n / 2 + 1 : n;
}

static bool sent_to(struct worker *w, unsigned int q, unsigned int to)
{
	/* In order: the last is signaled, and all before it were complete. */
	for (unsigned int i = 0; i < to; i++) {
		if (my_side(w)->qps[q].ops[i].signaled && !w->eps[q].send_done[i])
			return false;
	}
	return true;
}

static bool first_half_sent(struct worker *w)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		if (!sent_to(w, q, half_of(w, q)))
			return false;
	}
	return true;
}

static bool all_done(struct worker *w)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		unsigned int due = 0;

		for (unsigned int i = 0; i < their_side(w)->qps[q].n_ops; i++)
			due += op_consumes_recv(&their_side(w)->qps[q].ops[i]);
		if (!sent_to(w, q, my_side(w)->qps[q].n_ops) || w->eps[q].n_received < due)
			return false;
	}
	return true;
}

static void post_first_halves(struct worker *w)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++)
		ops_post(w, q, 0, half_of(w, q));
}

/* Work for all queue pairs; the keys come with the other side's QPN or, where they are late,
 * afterwards. */
static void first_half(struct worker *w)
{
	bool early = their_side(w)->mr_time == MR_FIRST;

	if (early)
		post_first_halves(w);
	exchange(w, "exchange of keys");
	if (!early)
		post_first_halves(w);
	wait_for(w, first_half_sent, "the first half");
	exchange(w, "end of the first half");
	check_memory(w, 0);
}

static void second_half(struct worker *w)
{
	if (my_side(w)->reregister) { /* at the same address */
		target_deregister(w);
		target_register(w);
	}
	exchange(w, "exchange of new keys");
	for (unsigned int q = 0; q < w->script.n_qps; q++)
		ops_post(w, q, half_of(w, q), my_side(w)->qps[q].n_ops);
	wait_for(w, all_done, "everything");
	exchange(w, "end of the traffic");
	check_memory(w, 1);
}

static bool bad_writes_done(struct worker *w)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		if (!w->eps[q].send_done[MAX_OPS])
			return false;
	}
	return true;
}

/* Side 0 writes where it must not: the error is bare's, and nothing is written. */
static void bad_writes(struct worker *w)
{
	bool stale = w->script.plot == PLOT_STALE_KEY;

	if (stale && w->side == 1)
		target_deregister(w); /* the other side still has the keys */
	for (unsigned int d = 0; d < 2; d++) {
		if (stale)
			w->mine.other_rkey[d] = w->mine.rkey[d];
	}
	exchange(w, "bad keys");
	if (w->side == 0) {
		for (unsigned int q = 0; q < w->script.n_qps; q++)
			bad_write_post(w, q, w->theirs.other_rkey[their_side(w)->qps[q].dev]);
		wait_for(w, bad_writes_done, "the error");
		for (unsigned int q = 0; q < w->script.n_qps; q++) {
			if (w->eps[q].status[MAX_OPS] != IBV_WC_REM_ACCESS_ERR)
				die(w, 0,
				    "QP %u: a WRITE with a key that is not valid there has status "
				    "%d (%s)",
				    q, w->eps[q].status[MAX_OPS],
				    ibv_wc_status_str(w->eps[q].status[MAX_OPS]));
		}
	}
	exchange(w, "after bad keys");
	for (unsigned int q = 0; w->side == 1 && q < w->script.n_qps; q++) {
		for (unsigned int at = 0; at < MAX_BYTES; at++) {
			if (w->target[write_at(q, MAX_OPS) + at])
				die(w, 0, "QP %u: something was written with a bad key", q);
		}
	}
}

static bool drained(struct worker *w)
{
	for (unsigned int q = 0; q < w->script.n_qps; q++) {
		const struct endpoint *ep = &w->eps[q];

		if (!ep->broken || my_side(w)->qps[q].breaking != BREAK_ERR || !ep->qp)
			continue;
		for (unsigned int i = 0; i < ep->n_posted; i++) {
			if (my_side(w)->qps[q].ops[i].signaled && !ep->send_done[i])
				return false;
		}
		if (!ep->dom->srq && ep->n_recv_comps < ep->n_recv)
			return false;
	}
	return true;
}

static void break_one(struct worker *w, unsigned int q)
{
	enum breaking breaking = my_side(w)->qps[q].breaking;

	take_some(w);
	if (breaking == BREAK_ERR)
		qp_to(w, q, IBV_QPS_ERR);
	else if (breaking == BREAK_RESET)
		qp_to(w, q, IBV_QPS_RESET);
	else
		qp_destroy(w, q);
	w->eps[q].broken = true;
	atomic_fetch_add_explicit(&w->counts->broken, 1, memory_order_relaxed);
}

/* Post what can be posted and break off, in the middle of whatever goes on below. */
static void break_off(struct worker *w)
{
	if (!never_connects(w)) {
		connect_qps(w);
		if (their_side(w)->mr_time == MR_FIRST)
			post_first_halves(w);
		nap(my_side(w)->before_break_us);
	}
	for (unsigned int q = 0; q < w->script.n_qps; q++)
		break_one(w, q);
	wait_for(w, drained, "the flush");
	exchange(w, "after breaking off");
	take_some(w); /* nothing more may come */
}

void sequence_run(struct worker *w)
{
	doing(w, "making objects");
	objects_make(w);
	exchange(w, "exchange of QPNs");
	if (w->script.plot == PLOT_BREAK || w->script.plot == PLOT_NEVER) {
		break_off(w);
	} else {
		connect_qps(w);
		first_half(w);
		second_half(w);
		if (w->script.plot != PLOT_TRAFFIC)
			bad_writes(w);
	}
	doing(w, "destroying objects");
	objects_destroy(w);
	memset(w->doms, 0, sizeof(w->doms));
	atomic_fetch_add_explicit(&w->counts->sequences, 1, memory_order_relaxed);
}
