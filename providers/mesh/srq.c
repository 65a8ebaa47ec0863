// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "heldint.h"
#include "keys.h"
#include "peerview.h"
#include "srq.h"

/* ---- dealing out --------------------------------------------------------------------------------------------- */

static struct mesh_srq_home *poorer(struct mesh_srq_home *a, struct mesh_srq_home *b)
{
	if (!b->n_qps)
		return a;
	if (a && a->log.n_left == b->log.n_left)
		return b->had_none && !a->had_none ? b : a;
	return a && a->log.n_left < b->log.n_left ? a : b;
}

/* The home where the next receive is needed most; NULL: nobody receives. lock */
static struct mesh_srq_home *poorest(struct mesh_srq *m)
{
	struct mesh_srq_home *best = poorer(NULL, &m->base), *home;

	for (home = m->shadows; home; home = home->next)
		best = poorer(best, home);
	return best;
}

/* Return: 0 or the provider's errno. lock */
static int post_to(struct mesh_srq_home *home, uint64_t wr_id, const struct ibv_sge *sges, int num_sge)
{
	struct mesh_srq *m = home->owner;
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = m->sges, .num_sge = num_sge}, *bad;
	int i, err;

	if (num_sge < 0 || (uint32_t)num_sge > m->max_sge)
		return EINVAL;
	for (i = 0; i < num_sge; i++) {
		m->sges[i] = sges[i];
		/* If there is no such key, the device says what it says of one. */
		if (home->spd)
			mesh_key_local(home->spd, sges[i].lkey, &m->sges[i].lkey);
	}
	err = home->rail ? ibv_post_srq_recv(home->srq, &wr, &bad) : m->mc->post_srq_recv(home->srq, &wr, &bad);
	if (!err)
		mesh_srqlog_push(&home->log, wr_id, sges, num_sge);
	return err;
}

/* Give the pool to those who receive. What nobody takes stays there. lock */
static void deal_out(struct mesh_srq *m)
{
	struct mesh_srq_home *home;
	struct mesh_srq_recv *recv;

	while ((recv = mesh_srqlog_first(&m->pool))) {
		home = poorest(m);
		if (!home || post_to(home, recv->wr_id, recv->sges, recv->num_sge))
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

/* ---- collecting ---------------------------------------------------------------------------------------------- */

/*
 * A receive came out of a home. The last one of that number is meant: what was posted before under the same number had to
 * be consumed before the program could do so. (Unless all have one number; then they have one buffer, too, or the
 * program could not tell which was filled.)
 */
static void to_pool(void *arg, uint64_t wr_id)
{
	struct mesh_srq_home *home = arg;
	struct mesh_srq_recv *recv = mesh_srqlog_find(&home->log, wr_id, true);

	if (!recv)
		return;
	mesh_srqlog_push(&home->owner->pool, recv->wr_id, recv->sges, recv->num_sge);
	mesh_srqlog_drop(&home->log, recv);
}

static void to_nowhere(void *arg, uint64_t wr_id)
{
	(void)arg;
	(void)wr_id;
}

static int drain_base(struct mesh_srq *m, void (*taken)(void *arg, uint64_t wr_id))
{
	struct mesh_context *mc = m->mc;
	const struct mesh_srqloop_verbs qps = {.modify = mc->modify_qp, .destroy = mc->destroy_qp};
	struct ibv_pd *pd;

	pthread_mutex_lock(&mc->data.lock);
	pd = mesh_data_pd(mc);
	pthread_mutex_unlock(&mc->data.lock);
	if (!pd)
		return -ENOMEM;
	return mesh_srqloop_drain(atomic_load_explicit(&mc->verbs, memory_order_relaxed), pd, m->srq, &qps, taken,
				  &m->base);
}

/* lock */
static int collect_base(struct mesh_srq *m, bool was_native)
{
	struct mesh_srqlog *log = &m->base.log;
	int err;

	if (m->stale) {
		if (!m->base.n_qps)
			return 0; /* and nothing else is there */
		err = drain_base(m, to_nowhere);
		m->stale = err;
		return err;
	}
	if (m->base.n_qps || (!m->split && was_native)) {
		err = drain_base(m, to_pool);
		/* What is left of the log was consumed: before the first move nobody looked. */
		while (!err && !m->split && log->n)
			mesh_srqlog_drop(log, mesh_srqlog_first(log));
		return err;
	}
	/* Nobody consumes there, so the log is what is there; it stays there as well, until somebody is to consume. */
	m->stale = log->n_left;
	move_log(log, &m->pool);
	return 0;
}

static int collect_shadow(struct mesh_srq_home *home)
{
	const struct mesh_srqloop_verbs qps = {.modify = mesh_root.lib.verbs.modify_qp,
					       .destroy = mesh_root.lib.verbs.destroy_qp};

	if (home->n_qps)
		return mesh_srqloop_drain(home->rail->context, home->spd->pd, home->srq, &qps, to_pool, home);
	mesh_root.lib.verbs.destroy_srq(home->srq);
	home->srq = NULL;
	move_log(&home->log, &home->owner->pool);
	return 0;
}

static bool is_hungry(const struct mesh_srq_home *home)
{
	return home->n_qps && !home->log.n_left;
}

/* lock */
static bool some_hungry(const struct mesh_srq *m)
{
	const struct mesh_srq_home *home;
	bool some = is_hungry(&m->base), rich = m->base.log.n_left;

	for (home = m->shadows; home; home = home->next) {
		some |= is_hungry(home);
		rich |= home->log.n_left;
	}
	return m->split && some && rich;
}

static void remember_hungry(struct mesh_srq *m)
{
	struct mesh_srq_home *home;

	m->base.had_none = is_hungry(&m->base);
	for (home = m->shadows; home; home = home->next)
		home->had_none = is_hungry(home);
}

/*
 * Have the helper thread deal out anew. Return: whether it has to be woken, with no lock of ours held but cq->lock.
 * lock
 */
static bool call_helper(struct mesh_srq *m)
{
	struct mesh_process *process = mesh_root.process;
	bool wake = !m->is_hungry || m->feed_at_ns;

	m->feed_at_ns = m->feed_step_ns = 0;
	if (!m->is_hungry) {
		pthread_mutex_lock(&process->srqs_lock);
		m->refs++;
		m->next_hungry = process->hungry;
		process->hungry = m;
		pthread_mutex_unlock(&process->srqs_lock);
		m->is_hungry = true;
	}
	return wake;
}

/*
 * Share everything out anew.
 * @was_native: QPs of the base may have consumed what is in the base's log
 *
 * Return: 0, or why something could not be collected; what could has been dealt out. lock
 */
static int share(struct mesh_srq *m, bool was_native)
{
	struct mesh_srq_home *home;
	int err, more;

	remember_hungry(m);
	err = collect_base(m, was_native);
	for (home = m->shadows; home; home = home->next) {
		more = home->srq && (home->log.n_left || !home->n_qps) ? collect_shadow(home) : 0;
		err = err ? err : more;
	}
	m->split = true;
	deal_out(m);
	return err;
}

/* The same when QPs come or go. lock; return: see call_helper() */
static bool share_again(struct mesh_srq *m, bool was_native, int *ret_err)
{
	int err = share(m, was_native);

	if (ret_err)
		*ret_err = err;
	return some_hungry(m) && call_helper(m);
}

#define FEED_STEP_NS 20000000ull
#define FEED_STEP_MAX_NS 320000000ull

/* Return: when again; 0: it is not hungry any more. */
static uint64_t feed(struct mesh_srq *m, uint64_t now_ns)
{
	uint64_t again = 0;

	pthread_mutex_lock(&m->join_lock);
	pthread_mutex_lock(&m->lock);
	if (m->feed_at_ns > now_ns) {
		again = m->feed_at_ns;
	} else if (!m->dead && some_hungry(m)) {
		share(m, m->was_native);
		if (some_hungry(m)) {
			m->feed_step_ns = m->feed_step_ns ? m->feed_step_ns * 2 : FEED_STEP_NS;
			if (m->feed_step_ns > FEED_STEP_MAX_NS)
				m->feed_step_ns = FEED_STEP_MAX_NS;
			again = m->feed_at_ns = now_ns + m->feed_step_ns;
		}
	}
	m->is_hungry = again;
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_unlock(&m->join_lock);
	return again;
}

static void srq_put(struct mesh_srq *m);

uint64_t mesh_srqs_feed(uint64_t now_ns)
{
	struct mesh_process *process = mesh_root.process;
	uint64_t next = UINT64_MAX, again;
	struct mesh_srq *m, *rest;

	pthread_mutex_lock(&process->srqs_lock);
	m = process->hungry;
	process->hungry = NULL;
	pthread_mutex_unlock(&process->srqs_lock);
	for (; m; m = rest) {
		rest = m->next_hungry;
		again = feed(m, now_ns);
		if (!again) {
			srq_put(m);
			continue;
		}
		pthread_mutex_lock(&process->srqs_lock);
		m->next_hungry = process->hungry;
		process->hungry = m;
		pthread_mutex_unlock(&process->srqs_lock);
		if (again < next)
			next = again;
	}
	return next;
}

/* ---- QPs of the base ----------------------------------------------------------------------------------------- */

/* Count what it consumes from now on. join_lock */
static int watch(struct mesh_srq *m, struct mesh_srq_native *native)
{
	struct mesh_data *data = &m->mc->data;
	struct mesh_cq *cq;
	int err;

	if (native->cq)
		return 0;
	pthread_mutex_lock(&data->lock);
	cq = mesh_cq_get(m->mc, native->qp->recv_cq);
	if (cq)
		mesh_cq_use(cq);
	mesh_data_slots(m->mc);
	pthread_mutex_unlock(&data->lock);
	if (!cq)
		return -ENOMEM;
	err = mesh_cq_add_native(cq, native->qpn, &m->base);
	if (err) {
		pthread_mutex_lock(&data->lock);
		mesh_cq_put(cq);
		pthread_mutex_unlock(&data->lock);
		return err;
	}
	native->cq = cq;
	return 0;
}

static void unwatch(struct mesh_srq_native *native)
{
	struct mesh_data *data = &native->owner->mc->data;

	if (!native->cq)
		return;
	mesh_cq_remove_native(native->cq, native->qpn);
	pthread_mutex_lock(&data->lock);
	mesh_cq_put(native->cq);
	pthread_mutex_unlock(&data->lock);
	native->cq = NULL;
}

static struct mesh_srq_native **find_native(struct mesh_srq *m, const struct ibv_qp *qp)
{
	struct mesh_srq_native **at;

	for (at = &m->natives; *at && (*at)->qp != qp; at = &(*at)->next)
		;
	return at;
}

static int join_base(struct mesh_srq *m, struct mesh_srq_native *native)
{
	int err = m->split ? watch(m, native) : 0;
	bool wake = false;

	if (err)
		return err;
	pthread_mutex_lock(&m->lock);
	m->base.n_qps++;
	if (m->split && m->base.n_qps == 1)
		wake = share_again(m, true, NULL);
	if (m->stale) {
		m->base.n_qps--;
		err = -EBUSY;
	}
	pthread_mutex_unlock(&m->lock);
	if (wake)
		mesh_thread_wake(true);
	return err;
}

int mesh_srq_join_base(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_srq *m = mesh_srq_find(mc, qp->srq);
	struct mesh_srq_native *native;
	int err = 0;

	if (!m)
		return 0;
	pthread_mutex_lock(&m->join_lock);
	native = *find_native(m, qp);
	if (!native) {
		native = calloc(1, sizeof(*native));
		if (native) {
			native->owner = m;
			native->qp = qp;
			native->qpn = qp->qp_num;
			err = join_base(m, native);
		} else {
			err = -ENOMEM;
		}
		if (err) {
			if (native)
				unwatch(native);
			free(native);
		} else {
			native->next = m->natives;
			m->natives = native;
			m->was_native = true;
		}
	}
	pthread_mutex_unlock(&m->join_lock);
	return err;
}

struct mesh_srq_native *mesh_srq_leaving(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_srq *m = mesh_srq_find(mc, qp->srq);
	struct mesh_srq_native **at, *native;

	if (!m)
		return NULL;
	pthread_mutex_lock(&m->join_lock);
	at = find_native(m, qp);
	native = *at;
	if (native)
		*at = native->next;
	pthread_mutex_unlock(&m->join_lock);
	return native;
}

void mesh_srq_left(struct mesh_srq_native *native, bool really)
{
	bool wake = false;
	struct mesh_srq *m;

	if (!native)
		return;
	m = native->owner;
	pthread_mutex_lock(&m->join_lock);
	if (really) {
		unwatch(native);
		pthread_mutex_lock(&m->lock);
		m->base.n_qps--;
		if (m->split && !m->base.n_qps)
			wake = share_again(m, true, NULL);
		pthread_mutex_unlock(&m->lock);
		free(native);
	} else {
		native->next = m->natives;
		m->natives = native;
	}
	pthread_mutex_unlock(&m->join_lock);
	if (wake)
		mesh_thread_wake(true);
}

/* ---- moved QPs ----------------------------------------------------------------------------------------------- */

static void home_free(struct mesh_srq_home *home)
{
	if (home->srq)
		mesh_root.lib.verbs.destroy_srq(home->srq);
	mesh_pd_put(home->spd);
	mesh_srqlog_fini(&home->log);
	free(home);
}

/* join_lock; the list under lock, too */
static struct mesh_srq_home *home_get(struct mesh_srq *m, struct mesh_rail *rail)
{
	struct mesh_srq_home *home;
	char why[256];

	for (home = m->shadows; home; home = home->next)
		if (home->rail == rail)
			return home;
	home = calloc(1, sizeof(*home));
	if (!home)
		return NULL;
	home->owner = m;
	home->rail = rail; /* spd holds it */
	home->spd = mesh_pd_get(m->mc, m->pd, rail, why, sizeof(why));
	if (!home->spd || mesh_srqlog_init(&home->log, m->max_wr, m->max_sge)) {
		home_free(home);
		return NULL;
	}
	pthread_mutex_lock(&m->lock);
	home->next = m->shadows;
	m->shadows = home;
	pthread_mutex_unlock(&m->lock);
	return home;
}

static int home_open(struct mesh_srq_home *home)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = home->owner->max_wr, .max_sge = home->owner->max_sge}};

	if (home->srq)
		return 0;
	home->srq = mesh_root.lib.verbs.create_srq(home->spd->pd, &attr);
	return home->srq ? 0 : errno ? -errno : -EIO;
}

static int watch_all(struct mesh_srq *m)
{
	struct mesh_srq_native *native;
	int err = 0;

	for (native = m->natives; native && !err; native = native->next)
		err = watch(m, native);
	return err;
}

int mesh_srq_join_shadow(struct mesh_srq *m, struct mesh_rail *rail, struct mesh_srq_home **ret)
{
	struct mesh_srq_home *home;
	bool wake = false;
	int err;

	pthread_mutex_lock(&m->join_lock);
	home = home_get(m, rail);
	err = home ? watch_all(m) : -ENOMEM;
	if (!err) {
		pthread_mutex_lock(&m->lock);
		err = home_open(home);
		if (!err && !home->n_qps++)
			wake = share_again(m, m->was_native, &err);
		if (err && home->n_qps == 1) {
			home->n_qps = 0;
			wake = share_again(m, m->was_native, NULL);
		}
		pthread_mutex_unlock(&m->lock);
	}
	pthread_mutex_unlock(&m->join_lock);
	if (wake)
		mesh_thread_wake(true);
	if (!err)
		*ret = home;
	return err;
}

void mesh_srq_leave_shadow(struct mesh_srq_home *home)
{
	struct mesh_srq *m = home->owner;
	bool wake = false;

	pthread_mutex_lock(&m->join_lock);
	pthread_mutex_lock(&m->lock);
	if (!--home->n_qps)
		wake = share_again(m, m->was_native, NULL);
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_unlock(&m->join_lock);
	if (wake)
		mesh_thread_wake(true);
}

/* ---- posting and polling: hot, but for what wakes the helper thread -------------------------------------------------------------------------------- */

void mesh_srq_consumed(struct mesh_srq_home *home, uint64_t wr_id)
{
	struct mesh_srq *m = home->owner;
	struct mesh_srq_recv *recv;
	bool wake;

	pthread_mutex_lock(&m->lock);
	recv = mesh_srqlog_find(&home->log, wr_id, false);
	if (recv)
		mesh_srqlog_drop(&home->log, recv);
	wake = is_hungry(home) && some_hungry(m) && call_helper(m);
	pthread_mutex_unlock(&m->lock);
	if (wake)
		mesh_thread_wake(true);
}

static uint32_t outstanding(const struct mesh_srq *m)
{
	const struct mesh_srq_home *home;
	uint32_t n = m->base.log.n_left + m->pool.n_left;

	for (home = m->shadows; home; home = home->next)
		n += home->log.n_left;
	return n;
}

static int post_split(struct mesh_srq *m, const struct ibv_recv_wr *wr)
{
	struct mesh_srq_home *home = poorest(m);

	if (outstanding(m) >= m->max_wr)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > m->max_sge)
		return EINVAL;
	if (home)
		return post_to(home, wr->wr_id, wr->sg_list, wr->num_sge);
	mesh_srqlog_push(&m->pool, wr->wr_id, wr->sg_list, wr->num_sge);
	return 0;
}

static int post_noted(struct mesh_srq *m, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	int err = m->mc->post_srq_recv(m->srq, wr, bad_wr);

	for (; wr && (!err || wr != *bad_wr); wr = wr->next)
		mesh_srqlog_push(&m->base.log, wr->wr_id, wr->sg_list, wr->num_sge);
	return err;
}

int mesh_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct mesh_context *mc = mesh_context_get(srq->context);
	struct mesh_srq *m = mesh_context_active(mc) ? mesh_srq_find(mc, srq) : NULL;
	int err = 0;

	if (!m)
		return mc->post_srq_recv(srq, wr, bad_wr);
	pthread_mutex_lock(&m->lock);
	if (!m->split)
		err = post_noted(m, wr, bad_wr);
	for (; m->split && wr && !err; wr = wr->next) {
		err = post_split(m, wr);
		if (err)
			*bad_wr = wr;
	}
	pthread_mutex_unlock(&m->lock);
	return err;
}

/* ---- begin and end ------------------------------------------------------------------------------------------- */

/* The base's is gone: no more dealing out, and nothing of ours on other rails. */
static void srq_kill(struct mesh_srq *m)
{
	struct mesh_srq_home *home;

	pthread_mutex_lock(&m->lock);
	m->dead = true;
	m->feed_at_ns = 0;
	while ((home = m->shadows)) {
		m->shadows = home->next;
		home_free(home);
	}
	pthread_mutex_unlock(&m->lock);
}

static void srq_free(struct mesh_srq *m)
{
	struct mesh_srq_native *native;

	while ((native = m->natives)) {
		m->natives = native->next;
		free(native);
	}
	mesh_srqlog_fini(&m->base.log);
	mesh_srqlog_fini(&m->pool);
	free(m->sges);
	pthread_mutex_destroy(&m->lock);
	pthread_mutex_destroy(&m->join_lock);
	free(m);
}

static void srq_put(struct mesh_srq *m)
{
	bool last;

	pthread_mutex_lock(&mesh_root.process->srqs_lock);
	last = !--m->refs;
	pthread_mutex_unlock(&mesh_root.process->srqs_lock);
	if (last)
		srq_free(m);
}

static struct mesh_srq *srq_new(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_srq *srq,
				const struct ibv_srq_attr *attr)
{
	struct mesh_srq *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->refs = 1;
	m->mc = mc;
	m->srq = srq;
	m->pd = pd;
	m->max_wr = attr->max_wr;
	m->max_sge = attr->max_sge;
	pthread_mutex_init(&m->join_lock, NULL);
	pthread_mutex_init(&m->lock, NULL);
	m->base.owner = m;
	m->base.srq = srq;
	m->sges = calloc(m->max_sge ? m->max_sge : 1, sizeof(*m->sges));
	if (!m->sges || mesh_srqlog_init(&m->base.log, m->max_wr, m->max_sge) ||
	    mesh_srqlog_init(&m->pool, m->max_wr, m->max_sge)) {
		srq_free(m);
		return NULL;
	}
	return m;
}

void mesh_srq_note(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_srq *srq, const struct ibv_srq_attr *attr)
{
	struct mesh_data *data = &mc->data;
	struct mesh_srq *m = srq_new(mc, pd, srq, attr);

	if (!m)
		return; /* its QPs stay where they are */
	pthread_mutex_lock(&data->lock);
	if (mesh_map_put(&data->srqs, srq, m)) {
		srq_free(m);
	} else {
		data->n_srqs++;
		mesh_data_slots(mc);
	}
	pthread_mutex_unlock(&data->lock);
}

static bool is_noted(const struct mesh_context *mc)
{
	return mc->can_move && mesh_context_active(mc) && mesh_view_agent();
}

struct ibv_srq *mesh_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	struct ibv_srq *srq = mc->create_srq(pd, attr);
	int saved_errno = errno, cancel = mesh_cancel_off();

	if (srq && is_noted(mc))
		mesh_srq_note(mc, pd, srq, &attr->attr);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return srq;
}

struct ibv_srq *mesh_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_srq *srq = mc->create_srq_ex(context, attr);
	int saved_errno = errno, cancel = mesh_cancel_off();
	bool basic = !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || attr->srq_type == IBV_SRQT_BASIC;

	if (srq && basic && attr->comp_mask & IBV_SRQ_INIT_ATTR_PD && is_noted(mc))
		mesh_srq_note(mc, attr->pd, srq, &attr->attr);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return srq;
}

int mesh_destroy_srq(struct ibv_srq *srq)
{
	struct mesh_context *mc = mesh_context_get(srq->context);
	struct mesh_data *data = &mc->data;
	struct mesh_srq *m;
	int err, cancel;

	if (!mesh_context_active(mc))
		return mc->destroy_srq(srq);
	cancel = mesh_cancel_off();
	pthread_mutex_lock(&data->lock);
	m = mesh_map_drop(&data->srqs, srq);
	pthread_mutex_unlock(&data->lock);
	if (m)
		pthread_mutex_lock(&m->join_lock); /* the helper thread may be dealing out */
	err = mc->destroy_srq(srq);
	if (m && !err)
		srq_kill(m);
	if (m)
		pthread_mutex_unlock(&m->join_lock);
	pthread_mutex_lock(&data->lock);
	if (m && err) {
		mesh_map_put(&data->srqs, srq, m); /* into the place it was in: takes no memory */
	} else if (m) {
		data->n_srqs--;
		mesh_data_slots(mc);
	}
	pthread_mutex_unlock(&data->lock);
	if (m && !err)
		srq_put(m);
	mesh_cancel_restore(cancel);
	return err;
}

void mesh_srqs_close(struct mesh_context *mc)
{
	struct mesh_srq *m;

	while ((m = mesh_map_any(&mc->data.srqs))) {
		mesh_map_drop(&mc->data.srqs, m->srq);
		pthread_mutex_lock(&m->join_lock);
		srq_kill(m);
		pthread_mutex_unlock(&m->join_lock);
		srq_put(m);
	}
}
