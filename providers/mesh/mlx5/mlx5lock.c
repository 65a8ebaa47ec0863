// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "mlx5.h"

/*
 * Finds libmlx5's lock of a send queue. ibv_wr_start() takes the lock, and the end of the batch releases it. In between the
 * thread may call any function, so nobody may wait for the lock, and libmlx5 offers no trylock. But the lock is a word in
 * libmlx5's struct of the queue pair, and its value tells whether it is held. The word is found on a queue pair of the plugin,
 * by batches that are begun and aborted.
 */

#define ROUNDS	4 /* enough that no other word changes in step with the batches */
#define LOCK_FAILURES 4u /* shortages of memory or descriptors, then the search is given up */
#define N_WORDS (MESH_MLX5_BYTES / sizeof(uint32_t))

struct search {
	union words {
		uint32_t word[N_WORDS];
		char bytes[MESH_MLX5_BYTES];
	} free, taken, now;
	bool other[N_WORDS]; /* not the lock: differed from one batch to another, or outside batches */
};

static void compare(struct search *s, const union words *first)
{
	size_t i;

	for (i = 0; i < N_WORDS; i++)
		s->other[i] |= s->now.word[i] != first->word[i];
}

/* Return: 0 or -errno. */
static int copy_round(struct search *s, const struct mesh_mlx5 *m, struct ibv_qp_ex *qp, bool first)
{
	int err = mesh_mlx5_copy(m, qp, first ? s->free.bytes : s->now.bytes);

	if (err)
		return err;
	if (!first)
		compare(s, &s->free);
	qp->wr_start(qp);
	err = mesh_mlx5_copy(m, qp, first ? s->taken.bytes : s->now.bytes);
	qp->wr_abort(qp);
	if (!err && !first)
		compare(s, &s->taken);
	return err;
}

/* The lock has one value in every batch, and another one outside. Return: 0; -EOPNOTSUPP: no such word, or several; -errno. */
static int find_word(struct search *s, struct ibv_qp_ex *qp, struct mesh_mlx5 *m)
{
	unsigned int n = 0;
	uint32_t i;
	int err = 0;

	/* The first batch changes words that later batches leave alone. */
	qp->wr_start(qp);
	qp->wr_abort(qp);
	for (i = 0; i < ROUNDS && !err; i++)
		err = copy_round(s, m, qp, !i);
	for (i = 0; i < N_WORDS && !err; i++) {
		if (s->other[i] || s->free.word[i] == s->taken.word[i])
			continue;
		m->lock_at = i;
		m->lock_free = s->free.word[i];
		n++;
	}
	return err || n == 1 ? err : -EOPNOTSUPP;
}

static struct ibv_qp *make_qp(struct mesh_context *mc, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = (void *)&mesh_own_qp,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = mesh_data_pd(mc),
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	errno = ENOMEM;
	return attr.pd ? mc->lower.qp.create_qp_ex(atomic_load_explicit(&mc->verbs, memory_order_relaxed), &attr) : NULL;
}

static int find_on(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct search *s = calloc(1, sizeof(*s)); /* too large for the stack of a program's thread */
	struct ibv_qp_ex *qp_ex = mesh_root.lib.verbs.qp_to_qp_ex(qp);
	int err = s ? -EOPNOTSUPP : -ENOMEM;

	if (s && qp_ex)
		err = find_word(s, qp_ex, &mc->data.mlx5);
	free(s);
	return err;
}

static int find(struct mesh_context *mc)
{
	struct ibv_cq *cq = mesh_root.lib.verbs.create_cq(atomic_load_explicit(&mc->verbs, memory_order_relaxed), 1, NULL, NULL, 0);
	struct ibv_qp *qp = cq ? make_qp(mc, cq) : NULL;
	int err = qp ? find_on(mc, qp) : errno == EOPNOTSUPP ? -EOPNOTSUPP : -ENOMEM;

	/* mesh_destroy_qp() and mesh_destroy_cq() would take data->lock. */
	if (qp)
		mc->lower.qp.destroy_qp(qp);
	if (cq)
		mc->lower.cq.destroy_cq(cq);
	return err;
}

int mesh_mlx5_sq_lock(struct mesh_context *mc, struct ibv_qp *qp, struct mesh_mlx5_lock *ret)
{
	const struct ibv_qp_ex *qp_ex = mesh_root.lib.verbs.qp_to_qp_ex(qp);
	struct mesh_mlx5 *m = &mc->data.mlx5;
	int err;

	*ret = (struct mesh_mlx5_lock){0};
	if (!qp_ex)
		return 0;
	if (m->lock == MESH_MLX5_LOCK_UNKNOWN) {
		err = find(mc);
		/* A shortage of memory or descriptors may be over at the next queue pair. */
		if (err && err != -EOPNOTSUPP && ++m->n_lock_failures < LOCK_FAILURES)
			return err;
		m->lock = err ? MESH_MLX5_LOCK_NOWHERE : MESH_MLX5_LOCK_FOUND;
		if (m->lock == MESH_MLX5_LOCK_NOWHERE)
			mv_log(&mesh_root.log, MV_LOG_INFO,
			       "%s: what queue pairs with ibv_wr_*() have outstanding is noted down when it is posted: whether they are in a batch cannot be told",
			       mc->device);
	}
	if (m->lock == MESH_MLX5_LOCK_NOWHERE)
		return -EOPNOTSUPP;
	*ret = (struct mesh_mlx5_lock){(const uint32_t *)(const void *)qp_ex + m->lock_at, m->lock_free};
	return 0;
}

/* ThreadSanitizer does not see the instructions by which libmlx5 writes the word. */
__attribute__((no_sanitize("thread"), noinline)) bool mesh_mlx5_is_locked(const struct mesh_mlx5_lock *lock)
{
	return lock->word && __atomic_load_n(lock->word, __ATOMIC_ACQUIRE) != lock->free;
}
