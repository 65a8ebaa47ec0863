// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "keys.h"
#include "srqint.h"
#include "survives.h"

/* Which receive is at which rail SRQ: collecting, and distributing to rail SRQs with QPs. */

/* A program that posts receives one by one serves all rail SRQs within this time. */
#define REBALANCE_SOON_NS 1000000ull
#define REBALANCE_STEP_NS 20000000ull
#define REBALANCE_STEP_MAX_NS 320000000ull

#define PLENTY	     16u /* receives at the lower provider before the reserve gets any */
#define RESERVE_PART 3u /* receives at the lower provider per one in the reserve */

static struct mesh_rail_srq *emptier(struct mesh_rail_srq *a, struct mesh_rail_srq *b)
{
	if (!b->n_qps)
		return a;
	if (a && a->log.n_left == b->log.n_left)
		return b->had_none && !a->had_none ? b : a;
	return a && a->log.n_left < b->log.n_left ? a : b;
}

struct mesh_rail_srq *mesh_srq_emptiest(struct mesh_srq *m)
{
	struct mesh_rail_srq *best = emptier(NULL, &m->lower), *rail_srq;

	for (rail_srq = m->shadows; rail_srq; rail_srq = rail_srq->next)
		best = emptier(best, rail_srq);
	if (best && m->reserve.n_qps && best->log.n_left >= PLENTY && m->reserve.log.n_left < best->log.n_left / RESERVE_PART)
		return &m->reserve;
	return best;
}

int mesh_srq_post_to(struct mesh_rail_srq *rail_srq, uint64_t wr_id, const struct ibv_sge *sges, int num_sge)
{
	struct mesh_srq *m = rail_srq->owner;
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = m->sges, .num_sge = num_sge}, *bad;
	int i, err;

	if (num_sge < 0 || (uint32_t)num_sge > m->max_sge)
		return EINVAL;
	if (rail_srq == &m->reserve) {
		mesh_srqlog_push(&rail_srq->log, wr_id, sges, num_sge);
		return 0;
	}
	for (i = 0; i < num_sge; i++) {
		m->sges[i] = sges[i];
		/* Without such a key, the device reports the same error as on a bare HCA. */
		if (rail_srq->spd)
			mesh_key_local(rail_srq->spd, sges[i].lkey, &m->sges[i].lkey);
	}
	err = rail_srq->rail ? ibv_post_srq_recv(rail_srq->srq, &wr, &bad) : m->mc->lower.io.post_srq_recv(rail_srq->srq, &wr, &bad);
	if (!err)
		mesh_srqlog_push(&rail_srq->log, wr_id, sges, num_sge);
	return err;
}

void mesh_srq_distribute(struct mesh_srq *m)
{
	struct mesh_rail_srq *rail_srq;
	struct mesh_srq_recv *recv;

	while ((recv = mesh_srqlog_first(&m->pool))) {
		rail_srq = mesh_srq_emptiest(m);
		if (!rail_srq || mesh_srq_post_to(rail_srq, recv->wr_id, recv->sges, recv->num_sge))
			return;
		mesh_srqlog_drop(&m->pool, recv);
	}
}

static void move_log(struct mesh_srqlog *from, struct mesh_srqlog *to)
{
	struct mesh_srq_recv *recv;

	while ((recv = mesh_srqlog_first(from))) {
		mesh_srqlog_push(to, recv->wr_id, recv->sges, recv->num_sge);
		mesh_srqlog_drop(from, recv);
	}
}

/* ---- the reserve --------------------------------------------------------------------------------------------- */

bool mesh_srq_reserve_wanted(const struct mesh_srq *m)
{
	const struct mesh_rail_srq *rail_srq;

	for (rail_srq = m->shadows; rail_srq && !rail_srq->n_qps; rail_srq = rail_srq->next)
		;
	return !rail_srq && m->n_staying && m->lower.n_qps > m->n_staying && mesh_survives(m->mc);
}

/* join_lock, lock */
static void collect_reserve(struct mesh_srq *m)
{
	bool wanted = mesh_srq_reserve_wanted(m);

	if (wanted && !m->reserve.log.places)
		wanted = !mesh_srqlog_init(&m->reserve.log, m->max_wr, m->max_sge); /* without memory: no reserve */
	move_log(&m->reserve.log, &m->pool);
	m->reserve.n_qps = wanted;
}

/* ---- collecting ---------------------------------------------------------------------------------------------- */

/*
 * A receive was consumed at a rail SRQ. The last one with that wr_id is meant: earlier ones with the same wr_id were
 * consumed before the program could reuse it. (If all have the same wr_id, they have the same buffer, too; otherwise
 * the program could not tell which buffer was filled.)
 */
static void to_pool(void *arg, uint64_t wr_id)
{
	struct mesh_rail_srq *rail_srq = arg;
	struct mesh_srq_recv *recv = mesh_srqlog_find(&rail_srq->log, wr_id, true);

	if (!recv)
		return;
	mesh_srqlog_push(&rail_srq->owner->pool, recv->wr_id, recv->sges, recv->num_sge);
	mesh_srqlog_drop(&rail_srq->log, recv);
}

static void to_nowhere(void *arg, uint64_t wr_id)
{
	(void)arg;
	(void)wr_id;
}

static int drain_lower(struct mesh_rail_srq *rail_srq, void (*taken)(void *arg, uint64_t wr_id))
{
	struct mesh_context *mc = rail_srq->owner->mc;
	const struct mesh_srq_drain_verbs qps = {
		.modify = mc->lower.qp.modify_qp, .query = mc->lower.qp.query_qp, .destroy = mc->lower.qp.destroy_qp};
	struct ibv_pd *pd;

	mesh_lock(&mc->data.lock);
	pd = mesh_data_pd(mc);
	mesh_unlock(&mc->data.lock);
	if (!pd)
		return -ENOMEM;
	return mesh_srq_drain(atomic_load_explicit(&mc->verbs, memory_order_relaxed), pd,
			      rail_srq->srq, &qps, taken, rail_srq);
}

static int drain(struct mesh_rail_srq *rail_srq, void (*taken)(void *arg, uint64_t wr_id))
{
	const struct mesh_srq_drain_verbs qps = {.modify = mesh_root.lib.verbs.modify_qp,
						 .query = mesh_root.lib.verbs.query_qp,
						 .destroy = mesh_root.lib.verbs.destroy_qp};

	if (!rail_srq->rail)
		return drain_lower(rail_srq, taken);
	return mesh_srq_drain(rail_srq->rail->context, rail_srq->spd->pd, rail_srq->srq, &qps,
			      taken, rail_srq);
}

int mesh_rail_srq_unstale(struct mesh_rail_srq *rail_srq)
{
	int err = rail_srq->stale ? drain(rail_srq, to_nowhere) : 0;

	rail_srq->stale = err;
	return err;
}

/*
 * Without QPs that receive, the log is exact, so its receives count as nowhere. They also stay in
 * the device's SRQ, until QPs are to receive from it. lock
 */
static void forsake(struct mesh_rail_srq *rail_srq)
{
	rail_srq->stale |= rail_srq->log.n_left;
	move_log(&rail_srq->log, &rail_srq->owner->pool);
}

/*
 * Entries left in the lower provider's log after the first collection were consumed before receives were counted. lock
 */
static void set_begun_aside(struct mesh_srq *m)
{
	struct mesh_srqlog *log = &m->lower.log;

	if (log->n && !m->begun.places)
		mesh_srqlog_init(&m->begun, m->max_wr, m->max_sge); /* without memory, at most one receive is lost */
	if (m->begun.places)
		move_log(log, &m->begun);
	mesh_srqlog_clear(log);
}

/*
 * Before the first distribution: may QPs of the lower provider have consumed receives that are still in the lower
 * provider's log?
 */
static bool is_uncounted(const struct mesh_srq *m)
{
	return !m->split && m->was_own;
}

/* lock */
static int collect_lower(struct mesh_srq *m)
{
	int err;

	if (m->lower.stale)
		return 0; /* no QP receives there, and all receives there count as elsewhere */
	if (!m->lower.n_qps && !is_uncounted(m)) {
		forsake(&m->lower);
		return 0;
	}
	err = drain(&m->lower, to_pool);
	if (!err && !m->split)
		set_begun_aside(m);
	return err;
}

void mesh_rail_srq_close(struct mesh_rail_srq *rail_srq)
{
	if (rail_srq->srq)
		mesh_rail_destroy_srq(rail_srq->rail, rail_srq->srq);
	rail_srq->srq = NULL;
	rail_srq->stale = false;
}

static int collect_shadow(struct mesh_rail_srq *rail_srq)
{
	if (rail_srq->n_qps)
		return drain(rail_srq, to_pool);
	forsake(rail_srq);
	if (!rail_srq->n_attached)
		mesh_rail_srq_close(rail_srq);
	return 0;
}

/* lock */
bool mesh_srq_starved(const struct mesh_srq *m)
{
	const struct mesh_rail_srq *rail_srq;
	bool some = mesh_rail_srq_starved(&m->lower), others_have = m->lower.log.n_left || m->reserve.log.n_left;

	for (rail_srq = m->shadows; rail_srq; rail_srq = rail_srq->next) {
		some |= mesh_rail_srq_starved(rail_srq);
		others_have |= rail_srq->log.n_left;
	}
	return m->split && some && others_have;
}

static void remember_starved(struct mesh_srq *m)
{
	struct mesh_rail_srq *rail_srq;

	m->lower.had_none = mesh_rail_srq_starved(&m->lower);
	for (rail_srq = m->shadows; rail_srq; rail_srq = rail_srq->next)
		rail_srq->had_none = mesh_rail_srq_starved(rail_srq);
}

bool mesh_srq_call_helper(struct mesh_srq *m)
{
	struct mesh_process *process = mesh_root.process;
	bool wake = !m->is_starved || m->rebalance_at_ns;

	m->rebalance_at_ns = m->rebalance_step_ns = 0;
	if (!m->is_starved) {
		mesh_lock(&process->srqs.lock);
		m->refs++;
		m->next_starved = process->srqs.starved;
		process->srqs.starved = m;
		mesh_unlock(&process->srqs.lock);
		m->is_starved = true;
	}
	return wake;
}

/* For a shortage that may end in a moment. lock */
bool mesh_srq_call_helper_soon(struct mesh_srq *m)
{
	if (m->is_starved)
		return false;
	mesh_srq_call_helper(m);
	m->rebalance_at_ns = mesh_now_ns() + REBALANCE_SOON_NS;
	return true;
}

/* Post the pool to the lower provider, which had these receives a moment ago. */
static void give_back(struct mesh_srq *m)
{
	struct mesh_srq_recv *recv;

	while ((recv = mesh_srqlog_first(&m->pool))) {
		mesh_srq_post_to(&m->lower, recv->wr_id, recv->sges, recv->num_sge);
		mesh_srqlog_drop(&m->pool, recv);
	}
}

/* Return: 0, or why some receives could not be collected. join_lock, lock */
static int rebalance(struct mesh_srq *m)
{
	struct mesh_rail_srq *rail_srq;
	int err, more;

	remember_starved(m);
	collect_reserve(m);
	err = collect_lower(m);
	/*
	 * Which entries of the lower provider's log are consumed is known only once its SRQ is empty. Until then all
	 * receives stay there.
	 */
	if (err && is_uncounted(m)) {
		m->reserve.n_qps = 0;
		give_back(m);
		return err;
	}
	for (rail_srq = m->shadows; rail_srq; rail_srq = rail_srq->next) {
		more = rail_srq->srq && (rail_srq->log.n_left || !rail_srq->n_qps) ? collect_shadow(rail_srq) : 0;
		err = err ? err : more;
	}
	m->split = true;
	mesh_srq_distribute(m);
	return err;
}

bool mesh_srq_rebalance(struct mesh_srq *m, int *ret_err)
{
	int err = rebalance(m);

	if (ret_err)
		*ret_err = err;
	return mesh_srq_starved(m) && mesh_srq_call_helper(m);
}

/* Return: when to come again; 0: the SRQ is not starved any more. */
static uint64_t rebalance_one(struct mesh_srq *m, uint64_t now_ns)
{
	uint64_t again = 0;

	mesh_lock(&m->join_lock);
	mesh_lock(&m->lock);
	if (m->rebalance_at_ns > now_ns) {
		again = m->rebalance_at_ns;
	} else if (!m->dead && mesh_srq_starved(m)) {
		rebalance(m);
		if (mesh_srq_starved(m)) {
			m->rebalance_step_ns = m->rebalance_step_ns ? m->rebalance_step_ns * 2 : REBALANCE_STEP_NS;
			if (m->rebalance_step_ns > REBALANCE_STEP_MAX_NS)
				m->rebalance_step_ns = REBALANCE_STEP_MAX_NS;
			again = m->rebalance_at_ns = now_ns + m->rebalance_step_ns;
		}
	}
	m->is_starved = again;
	mesh_unlock(&m->lock);
	mesh_unlock(&m->join_lock);
	return again;
}

uint64_t mesh_srqs_rebalance(uint64_t now_ns)
{
	struct mesh_process *process = mesh_root.process;
	uint64_t next = UINT64_MAX, again;
	struct mesh_srq *m, *rest;

	mesh_lock(&process->srqs.lock);
	m = process->srqs.starved;
	process->srqs.starved = NULL;
	mesh_unlock(&process->srqs.lock);
	for (; m; m = rest) {
		rest = m->next_starved;
		again = rebalance_one(m, now_ns);
		if (!again) {
			mesh_srq_put(m);
			continue;
		}
		mesh_lock(&process->srqs.lock);
		m->next_starved = process->srqs.starved;
		process->srqs.starved = m;
		mesh_unlock(&process->srqs.lock);
		if (again < next)
			next = again;
	}
	return next;
}
