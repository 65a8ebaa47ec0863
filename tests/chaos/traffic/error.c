// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "traffic.h"

/*
 * A queue pair that fails: both ends bring it to ERR, take all that it flushes, and tell each other
 * how far they came. What completed must have been executed, what was executed must be a prefix of
 * what was posted, and nothing twice.
 */

static void breaks(struct link_qp *q)
{
	if (q->state == QP_BROKEN || q->state == QP_OVER)
		return;
	q->state = QP_BROKEN;
	qp_to_err(q);
}

void error_told(struct link_qp *q)
{
	q->failure.told = true;
	breaks(q);
}

/* Those may have been executed with their result lost; nobody can help that. */
static unsigned int atomics_outstanding(const struct link_qp *q)
{
	const struct record *record;
	unsigned int n = 0;
	uint32_t i;

	for (i = q->sends.n_completed; i != q->sends.n_posted; i++) {
		record = &q->sends.records[i % N_RECORDS];
		n += record->type == REC_OP &&
		     (record->op.kind == OP_ADD || record->op.kind == OP_SWAP);
	}
	return n;
}

void error_seen(struct link_qp *q, const struct ibv_wc *wc, const char *what)
{
	struct thread *t = q->thread;

	if (q->state == QP_BROKEN || q->state == QP_OVER) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			say(q, "then failed: %s, %s, %u atomics outstanding", what,
			    ibv_wc_status_str(wc->status), atomics_outstanding(q));
		return;
	}
	say(q,
	    "failed: %s, %s, %u atomics outstanding; vendor 0x%x, work request %u, %.3f ms after "
	    "the last success",
	    what, ibv_wc_status_str(wc->status), atomics_outstanding(q), wc->vendor_err,
	    (uint32_t)wc->wr_id, (double)(now_ns() - q->success_ns) / 1e6);
	t->totals.errors[wc->status < 32 ? wc->status : 31]++;
	t->totals.broken++;
	if (t->opt->ask && thread_ask(q) != IBV_QPS_ERR)
		violated(q, "an error, but not in ERR");
	breaks(q);
	wire_say(t, WORD_BROKEN, q, NULL);
}

/* Is what the other end has of counter and word what the first so many operations make? */
static bool is_prefix(const struct link_qp *q, uint32_t from, uint32_t to)
{
	struct script s;
	struct op op;

	script_begin(&s, q->sends.script.id, q->sends.script.kinds);
	for (;; script_next(&s, &op)) {
		if (s.n >= from && s.sum == q->failure.report.counter && s.word == q->failure.report.word)
			return true;
		if (s.n >= to)
			return false;
	}
}

/* The last operation below @n that consumes a receive, plus one. */
static uint32_t last_message(const struct link_qp *q, uint32_t n)
{
	struct script s;
	struct op op;
	uint32_t last = 0;

	script_begin(&s, q->sends.script.id, q->sends.script.kinds);
	while (s.n < n) {
		script_next(&s, &op);
		if (op_consumes_receive(op.kind))
			last = op.number + 1;
	}
	return last;
}

static void check_report(struct link_qp *q)
{
	uint32_t done = q->sends.ops_completed, executed = q->failure.report.n_verified,
		 posted = q->sends.script.n - q->sends.has_next;

	if (executed > posted)
		violated(q,
			 "failed, and the other end has executed %u operations, but %u were posted",
			 executed, posted);
	if (last_message(q, done) > executed)
		violated(q,
			 "failed, and operations before %u had completed, but the other end has "
			 "got messages only before %u: one was lost",
			 done, executed);
	if (!is_prefix(q, done > executed ? done : executed, posted))
		violated(q,
			 "failed, and the other end's counter 0x%lx and word 0x%lx are not what "
			 "operations before any of %u to %u make",
			 q->failure.report.counter, q->failure.report.word, done > executed ? done : executed,
			 posted);
	say(q, "failed consistently: %u posted, %u completed, %u seen by the other end", posted,
	    done, executed);
}

static bool is_drained(const struct link_qp *q)
{
	return q->sends.fin_posted && q->sends.n_completed == q->sends.n_posted &&
	       (q->thread->srq || q->receives.n_consumed == q->receives.n_posted);
}

void error_step(struct link_qp *q)
{
	struct thread *t = q->thread;
	struct message m = {.report = {.n_verified = q->receives.script.n,
				       .fin_seen = q->receives.fin_seen,
				       .counter = q->area->counter,
				       .word = q->area->word}};

	if (q->state != QP_BROKEN)
		return;
	send_last(q);
	if (!is_drained(q))
		return;
	if (t->peer_gone) {
		q->state = QP_OVER;
		return;
	}
	if (!q->failure.reported)
		wire_say(t, WORD_REPORT, q, &m);
	q->failure.reported = true;
	if (!q->failure.heard)
		return;
	check_report(q);
	q->progress_ns = now_ns();
	if (!t->opt->replace || t->stopping) {
		q->state = QP_OVER;
		return;
	}
	qp_free(q);
	q->epoch++;
	t->totals.replaced++;
	qp_new(q);
}
