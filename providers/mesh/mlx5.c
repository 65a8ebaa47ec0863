// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mlx5.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

#include "context.h"

#define LOOK_WORDS 256u /* of a CQ's structure; mlx5's has some 500 bytes in rdma-core 28 to 64 */
#define LOOK_CQS   2u

/* ---- the function -------------------------------------------------------------------------------------------- */

static int find_init_obj(struct mesh_context *mc, struct mesh_mlx5 *m)
{
	Dl_info base, found;
	void *handle, *sym;

	if (!dladdr((const void *)mc->poll_cq, &base))
		return -ENOENT;
	handle = dlopen(base.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
	if (!handle)
		return -ENOENT;
	sym = dlsym(handle, "mlx5dv_init_obj");
	dlclose(handle); /* it is loaded as long as the context lives */
	if (!sym || !dladdr(sym, &found) || found.dli_fbase != base.dli_fbase)
		return -ENOENT;
	memcpy(&m->init_obj, &sym, sizeof(sym));
	return 0;
}

bool mesh_mlx5_is_base(struct mesh_context *mc)
{
	struct mesh_mlx5 *m = &mc->data.mlx5;

	return m->init_obj || !find_init_obj(mc, m);
}

/* ---- the mark ------------------------------------------------------------------------------------------------ */

struct look {
	size_t n;
	uint32_t words[LOOK_WORDS];
};

/*
 * How large the structure is only its library knows, so what is behind it may be looked at, too, but no page that is not there: a
 * pipe says EFAULT of such. What lies behind may change at any time.
 */
__attribute__((no_sanitize("address", "thread"), noinline)) static void look_at(const struct ibv_cq *cq, struct look *ret)
{
	const volatile uint32_t *from = (const volatile uint32_t *)(const volatile void *)cq;
	size_t i;

	for (i = 0; i < ret->n; i++)
		ret->words[i] = from[i];
}

static size_t readable_words(const struct ibv_cq *cq)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = ((uintptr_t)cq / page + 1) * page;
	size_t words = (end - (uintptr_t)cq) / sizeof(uint32_t);
	int fds[2];

	if (words >= LOOK_WORDS)
		return LOOK_WORDS;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return words;
	/* Not write(): what a sanitizer of the program knows of that memory is none of our business. */
	if (syscall(SYS_write, fds[1], end, 1) == 1)
		words = LOOK_WORDS;
	close(fds[0]);
	close(fds[1]);
	return words;
}

static int init_cq(const struct mesh_mlx5 *m, struct ibv_cq *cq, struct mlx5dv_cq *ret)
{
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = ret}};

	memset(ret, 0, sizeof(*ret));
	return -abs(m->init_obj(&obj, MLX5DV_OBJ_CQ));
}

static bool is_bit(uint32_t word)
{
	return word && !(word & (word - 1));
}

/*
 * Asking for the first time sets it, asking again changes nothing. All places where one bit was set the first time.
 * Return: 0 or -errno.
 */
static int changes(const struct mesh_mlx5 *m, struct ibv_cq *cq, uint32_t set[LOOK_WORDS])
{
	struct look before, after, again;
	struct mlx5dv_cq dv;
	size_t i;

	before.n = after.n = again.n = readable_words(cq);
	look_at(cq, &before);
	if (init_cq(m, cq, &dv))
		return -EIO;
	look_at(cq, &after);
	if (init_cq(m, cq, &dv))
		return -EIO;
	look_at(cq, &again);
	memset(set, 0, LOOK_WORDS * sizeof(*set));
	for (i = 0; i < before.n; i++)
		if (after.words[i] == again.words[i] && (after.words[i] & before.words[i]) == before.words[i])
			set[i] = after.words[i] ^ before.words[i];
	return 0;
}

static int changes_of_new(struct mesh_context *mc, const struct mesh_mlx5 *m, uint32_t set[LOOK_WORDS])
{
	struct ibv_context *verbs = atomic_load_explicit(&mc->verbs, memory_order_relaxed);
	struct ibv_cq *cq = mesh_root.lib.verbs.create_cq(verbs, 1, NULL, NULL, 0);
	int err;

	if (!cq)
		return -errno;
	err = changes(m, cq, set);
	mc->destroy_cq(cq); /* ours would want data->lock */
	return err;
}

/* The same bit of the same word, and no other, on each CQ. */
static int find_mark(struct mesh_context *mc, struct mesh_mlx5 *m)
{
	uint32_t set[LOOK_WORDS], both[LOOK_WORDS];
	size_t i, n = 0;
	unsigned int c;
	int err;

	memset(both, 0xff, sizeof(both));
	for (c = 0; c < LOOK_CQS; c++) {
		err = changes_of_new(mc, m, set);
		if (err)
			return err;
		for (i = 0; i < LOOK_WORDS; i++)
			both[i] &= set[i];
	}
	for (i = 0; i < LOOK_WORDS; i++) {
		if (!both[i])
			continue;
		if (n++ || !is_bit(both[i]))
			return -ENOTUNIQ;
		m->mark_at = i * sizeof(uint32_t);
		m->mark = both[i];
	}
	return n ? 0 : -ENOENT;
}

bool mesh_mlx5_known(struct mesh_context *mc)
{
	struct mesh_mlx5 *m = &mc->data.mlx5;

	if (m->state != MESH_MLX5_UNKNOWN)
		return m->state == MESH_MLX5_YES;
	m->state = MESH_MLX5_NO;
	/* Without locks in libmlx5, its queues are nobody's but the program's threads'. Signed work requests look otherwise. */
	if (getauxval(AT_SECURE) || secure_getenv("MLX5_SINGLE_THREADED") || secure_getenv("MLX5_QP_SIGNATURE"))
		m->why = "MLX5_SINGLE_THREADED or MLX5_QP_SIGNATURE is in the environment, or that cannot be read";
	else if (!mesh_mlx5_is_base(mc))
		m->why = "it is not mlx5";
	else if (find_mark(mc, m))
		m->why = "it cannot be told what mlx5dv_init_obj() does to a CQ";
	else
		m->state = MESH_MLX5_YES;
	if (m->state == MESH_MLX5_YES)
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s: what queue pairs have outstanding is read from their queues", mc->device);
	else
		mv_log(&mesh_root.log, MV_LOG_INFO, "%s: what queue pairs have outstanding is noted down when it is posted: %s", mc->device,
		       m->why);
	return m->state == MESH_MLX5_YES;
}

/* ---- objects ------------------------------------------------------------------------------------------------- */

static bool power_of_two(uint32_t n)
{
	return is_bit(n);
}

int mesh_mlx5_cq(struct mesh_context *mc, struct ibv_cq *cq, struct mv_mlx5_cq *ret)
{
	const struct mesh_mlx5 *m = &mc->data.mlx5;
	uint32_t *word = (uint32_t *)(void *)((char *)cq + m->mark_at);
	struct mlx5dv_cq dv;
	bool marked = *word & m->mark;
	int err;

	err = init_cq(m, cq, &dv);
	if (marked)
		return -EBUSY; /* the program asked for it before: it may poll by itself */
	*word &= ~m->mark;
	if (err)
		return err;
	if (!dv.buf || !dv.dbrec || !power_of_two(dv.cqe_cnt) || (dv.cqe_size != 64 && dv.cqe_size != 128))
		return -EOPNOTSUPP;
	*ret = (struct mv_mlx5_cq){.buf = dv.buf, .n_cqes = dv.cqe_cnt, .cqe_bytes = dv.cqe_size, .dbrec = dv.dbrec};
	return 0;
}

int mesh_mlx5_qp(struct mesh_context *mc, struct ibv_qp *qp, struct mv_mlx5_ring *ret_sq, struct mv_mlx5_ring *ret_rq)
{
	struct mlx5dv_qp dv;
	struct mlx5dv_obj obj = {.qp = {.in = qp, .out = &dv}};

	memset(&dv, 0, sizeof(dv));
	if (mc->data.mlx5.init_obj(&obj, MLX5DV_OBJ_QP))
		return -EOPNOTSUPP;
	if (!dv.dbrec || !dv.sq.buf || dv.sq.stride != 64 || !power_of_two(dv.sq.wqe_cnt) || dv.sq.wqe_cnt > 32768)
		return -EOPNOTSUPP;
	/* One with an SRQ has none. */
	if (!qp->srq && dv.rq.wqe_cnt && (!dv.rq.buf || !power_of_two(dv.rq.wqe_cnt) || dv.rq.wqe_cnt > 32768 || dv.rq.stride < 16))
		return -EOPNOTSUPP;
	*ret_sq = (struct mv_mlx5_ring){dv.sq.buf, dv.sq.wqe_cnt, dv.sq.stride, dv.dbrec};
	*ret_rq = (struct mv_mlx5_ring){dv.rq.buf, dv.rq.wqe_cnt, dv.rq.stride, dv.dbrec};
	return 0;
}
