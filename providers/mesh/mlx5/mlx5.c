// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mlx5.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

#include "context.h"
#include "wrmlx5_hot.h"

/* ---- functions of libmlx5 ------------------------------------------------------------------------------------ */

/* Takes the place of mlx5dv_init_obj() if the lower provider is not mlx5. */
static int is_not_mlx5(void *obj, uint64_t obj_type)
{
	(void)obj;
	(void)obj_type;
	return EOPNOTSUPP;
}

/* Looks up a symbol. Return: NULL: not found, or found in another object than @lower. */
static void *find_beside(void *handle, const Dl_info *lower, const char *name)
{
	void *sym = dlsym(handle, name);
	Dl_info found;

	return sym && dladdr(sym, &found) && found.dli_fbase == lower->dli_fbase ? sym : NULL;
}

/* The segment that has the address @of; @from and @to are 0 if there is none. */
struct code {
	uintptr_t of, from, to;
};

static int find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct code *code = arg;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		code->from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		code->to = code->from + info->dlpi_phdr[i].p_memsz;
		if (info->dlpi_phdr[i].p_type == PT_LOAD && code->of >= code->from && code->of < code->to)
			return 1;
	}
	code->from = code->to = 0;
	return 0;
}

/* Not write() and read(): a sanitizer in the program intercepts these and checks the memory, which is not the plugin's. */
static bool copy_through(const int pipe[2], char *to, const char *from, size_t n)
{
	return syscall(SYS_write, pipe[1], from, n) == (long)n && syscall(SYS_read, pipe[0], to, n) == (long)n;
}

/*
 * Copy memory that may not be mapped: write() to a pipe fails with EFAULT then. @n: at most PIPE_BUF. Preserves errno. Return: 0;
 * -EFAULT: not mapped; other -errno: no descriptors for a pipe.
 */
static int peek(const void *from, void *ret, size_t n)
{
	int fds[2], saved = errno, err = 0;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK)) {
		err = -errno;
	} else {
		if (!copy_through(fds, ret, from, n))
			err = -EFAULT;
		close(fds[0]);
		close(fds[1]);
	}
	errno = saved;
	return err;
}

/*
 * Does @usable_size() work with the malloc() that the plugin and libmlx5 call? It is tried on blocks. It may read the words
 * before a block, so these have to be mapped.
 */
static bool knows_blocks(mesh_usable_size_fn *usable_size)
{
	static const size_t sizes[] = {40, 1000, 5000};
	char before[2 * sizeof(size_t)];
	size_t i, usable;
	void *block;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		block = malloc(sizes[i]);
		usable = 0;
		if (block && !peek((char *)block - sizeof(before), before, sizeof(before)))
			usable = usable_size(block);
		free(block);
		if (usable < sizes[i] || usable - sizes[i] >= 64)
			return false;
	}
	return true;
}

/*
 * Return: malloc_usable_size() of the allocator that libmlx5 uses; NULL: a program brought an allocator without that function.
 * Both functions belong to one allocator if they lie in the same object. In a program that is no PIE (Debian's python3),
 * dlsym() may return the program's own PLT entry for malloc(). Then malloc_usable_size() is tried on blocks.
 */
static mesh_usable_size_fn *find_usable_size(void)
{
	void *allocates = dlsym(RTLD_DEFAULT, "malloc"), *tells = dlsym(RTLD_DEFAULT, "malloc_usable_size");
	mesh_usable_size_fn *ret = NULL;
	Dl_info one, other;

	if (!allocates || !tells)
		return NULL;
	memcpy(&ret, &tells, sizeof(ret));
	if (dladdr(allocates, &one) && dladdr(tells, &other) && one.dli_fbase == other.dli_fbase)
		return ret;
	return knows_blocks(ret) ? ret : NULL;
}

static void find_functions(const struct mesh_context *mc, mesh_init_obj_fn **ret_init_obj, mesh_qp_ex_fn **ret_qp_ex, struct code *ret_code)
{
	void *handle, *init_obj, *qp_ex;
	Dl_info lower;

	*ret_init_obj = is_not_mlx5;
	*ret_qp_ex = NULL;
	*ret_code = (struct code){.of = (uintptr_t)mc->lower.io.poll_cq};
	dl_iterate_phdr(find_code, ret_code);
	if (!dladdr((const void *)mc->lower.io.poll_cq, &lower))
		return;
	handle = dlopen(lower.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
	if (!handle)
		return;
	init_obj = find_beside(handle, &lower, "mlx5dv_init_obj");
	qp_ex = find_beside(handle, &lower, "mlx5dv_qp_ex_from_ibv_qp_ex");
	dlclose(handle); /* the context keeps the object loaded */
	if (init_obj)
		memcpy(ret_init_obj, &init_obj, sizeof(init_obj));
	memcpy(ret_qp_ex, &qp_ex, sizeof(qp_ex));
}

bool mesh_mlx5_is_lower(struct mesh_context *mc)
{
	struct mesh_mlx5 *m = &mc->data.mlx5;
	mesh_init_obj_fn *init_obj = atomic_load_explicit(&m->init_obj, memory_order_acquire);
	mesh_qp_ex_fn *qp_ex;
	struct code code;

	if (!init_obj) {
		find_functions(mc, &init_obj, &qp_ex, &code);
		atomic_store_explicit(&m->qp_ex, qp_ex, memory_order_relaxed);
		atomic_store_explicit(&m->usable_size, find_usable_size(), memory_order_relaxed);
		atomic_store_explicit(&m->code_from, code.from, memory_order_relaxed);
		atomic_store_explicit(&m->code_to, code.to, memory_order_relaxed);
		atomic_store_explicit(&m->init_obj, init_obj, memory_order_release);
	}
	return init_obj != is_not_mlx5;
}

static int call_init_obj(const struct mesh_mlx5 *m, struct mlx5dv_obj *obj, uint64_t obj_type)
{
	return atomic_load_explicit(&m->init_obj, memory_order_relaxed)(obj, obj_type);
}

/* ---- mlx5dv_init_obj() on a copy of a CQ ---------------------------------------------------------------------- */

/* A copy of libmlx5's struct of a CQ. */
union cq_copy {
	struct ibv_cq cq;
	max_align_t align;
	char bytes[MESH_MLX5_BYTES];
};

/*
 * Size of the block of memory that has libmlx5's struct, counted from @obj. malloc() aligns blocks to max_align_t, 16 bytes. At
 * most 8 bytes of the block lie before @obj: libmlx5's struct of a queue pair begins with a struct mlx5_resource, by which
 * libmlx5 finds the queue pair. So the address of @obj tells where the block begins. Return: 0: not known.
 */
static size_t bytes_of(const struct mesh_mlx5 *m, const void *obj)
{
	mesh_usable_size_fn *usable_size = atomic_load_explicit(&m->usable_size, memory_order_relaxed);
	size_t before = (uintptr_t)obj % _Alignof(max_align_t), block;

	if (!usable_size)
		return 0;
	block = usable_size((void *)((uintptr_t)obj - before));
	return block >= before + sizeof(struct ibv_cq) && block - before < MESH_MLX5_BYTES ? block - before : 0;
}

int mesh_mlx5_copy(const struct mesh_mlx5 *m, const void *obj, char ret[MESH_MLX5_BYTES])
{
	size_t n = bytes_of(m, obj);

	memset(ret, 0, MESH_MLX5_BYTES);
	return n ? peek(obj, ret, n) : -EOPNOTSUPP;
}

static int init_cq(const struct mesh_mlx5 *m, struct ibv_cq *cq, struct mlx5dv_cq *ret)
{
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = ret}};

	memset(ret, 0, sizeof(*ret));
	return call_init_obj(m, &obj, MLX5DV_OBJ_CQ) ? -EIO : 0;
}

/*
 * mlx5dv_init_obj() on a copy of the CQ, so that libmlx5 marks the copy. Return: 0; -EBUSY: the copy did not change, so the CQ
 * was marked before; other -errno.
 */
static int ask(const struct mesh_mlx5 *m, const struct ibv_cq *cq, struct mlx5dv_cq *ret)
{
	union cq_copy before, copy;
	int err;

	err = mesh_mlx5_copy(m, cq, before.bytes);
	if (err)
		return err;
	copy = before;
	err = init_cq(m, &copy.cq, ret);
	if (err)
		return err;
	return memcmp(&before, &copy, sizeof(copy)) ? 0 : -EBUSY;
}

static bool same(const struct mlx5dv_cq *a, const struct mlx5dv_cq *b)
{
	return a->buf == b->buf && a->dbrec == b->dbrec && a->cqe_cnt == b->cqe_cnt && a->cqe_size == b->cqe_size && a->cqn == b->cqn;
}

static bool is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

/*
 * Tries three things on a CQ of the plugin: a copy gives the same answer as the CQ, ask() leaves no mark in the CQ, and ask()
 * sees a mark. @ret: are all three so? Return: a value that is_shortage() names: not now; other values have no meaning.
 */
static int try_copies(struct mesh_context *mc, const struct mesh_mlx5 *m, bool *ret)
{
	struct ibv_context *verbs = atomic_load_explicit(&mc->verbs, memory_order_relaxed);
	struct ibv_cq *cq = mesh_root.lib.verbs.create_cq(verbs, 1, NULL, NULL, 0);
	struct mlx5dv_cq copied, again, own;
	int err;

	*ret = false;
	if (!cq)
		return mesh_failure();
	err = ask(m, cq, &copied);
	if (!err)
		err = ask(m, cq, &again);
	if (!err)
		err = init_cq(m, cq, &own);
	if (!err && same(&copied, &own) && same(&again, &own)) {
		err = ask(m, cq, &again);
		*ret = err == -EBUSY;
	}
	mc->lower.cq.destroy_cq(cq); /* mesh_destroy_cq() would take data->lock */
	return err;
}

/* May ask() be called? After a shortage of descriptors or memory, the next call tries again. */
static bool can_ask(struct mesh_context *mc)
{
	struct mesh_mlx5 *m = &mc->data.mlx5;
	bool answers = false;

	if (m->copies == MESH_MLX5_NOT_TRIED && (!mesh_mlx5_is_lower(mc) || !is_shortage(try_copies(mc, m, &answers))))
		m->copies = answers ? MESH_MLX5_ANSWERS : MESH_MLX5_SILENT;
	return m->copies == MESH_MLX5_ANSWERS;
}

bool mesh_mlx5_is_taken(struct mesh_context *mc, const struct ibv_cq *cq)
{
	struct mlx5dv_cq dv;
	int err;

	if (!can_ask(mc))
		return mc->data.mlx5.copies == MESH_MLX5_NOT_TRIED;
	err = ask(&mc->data.mlx5, cq, &dv);
	return err == -EBUSY || is_shortage(err);
}

bool mesh_mlx5_known(struct mesh_context *mc)
{
	struct mesh_mlx5 *m = &mc->data.mlx5;

	if (m->state != MESH_MLX5_UNKNOWN)
		return m->state == MESH_MLX5_YES;
	m->state = MESH_MLX5_NO;
	/*
	 * MLX5_SINGLE_THREADED: libmlx5 takes no locks, so the plugin's threads must not use its queues. MLX5_QP_SIGNATURE:
	 * work requests have another layout.
	 */
	if (getauxval(AT_SECURE) || secure_getenv("MLX5_SINGLE_THREADED") || secure_getenv("MLX5_QP_SIGNATURE"))
		m->why = "MLX5_SINGLE_THREADED or MLX5_QP_SIGNATURE is in the environment, or that cannot be read";
	else if (!mesh_mlx5_is_lower(mc))
		m->why = "it is not mlx5";
	else if (can_ask(mc))
		m->state = MESH_MLX5_YES;
	else if (m->copies == MESH_MLX5_SILENT)
		m->why = "it cannot be told what mlx5dv_init_obj() does to a CQ";
	else
		m->state = MESH_MLX5_UNKNOWN;
	if (m->state == MESH_MLX5_YES)
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s: what queue pairs have outstanding is read from their queues", mc->device);
	else if (m->state == MESH_MLX5_NO)
		mv_log(&mesh_root.log, MV_LOG_INFO, "%s: what queue pairs have outstanding is noted down when it is posted: %s", mc->device,
		       m->why);
	return m->state == MESH_MLX5_YES;
}

/* ---- objects ------------------------------------------------------------------------------------------------- */

static bool power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

int mesh_mlx5_cq(struct mesh_context *mc, struct ibv_cq *cq, struct mv_mlx5_cq *ret)
{
	struct mlx5dv_cq dv;
	int err;

	err = ask(&mc->data.mlx5, cq, &dv);
	if (err)
		return err;
	if (!dv.buf || !dv.dbrec || !power_of_two(dv.cqe_cnt) || (dv.cqe_size != 64 && dv.cqe_size != 128))
		return -EOPNOTSUPP;
	*ret = (struct mv_mlx5_cq){.buf = dv.buf, .n_cqes = dv.cqe_cnt, .cqe_bytes = dv.cqe_size, .dbrec = dv.dbrec};
	return 0;
}

/* libmlx5 sets all CQEs of a new CQ to MLX5_CQE_INVALID, and the device writes CQE 0 first. */
bool mesh_mlx5_cq_is_unused(struct mesh_context *mc, struct ibv_cq *cq)
{
	struct mv_mlx5_cq ring;

	if (!can_ask(mc) || mesh_mlx5_cq(mc, cq, &ring))
		return false;
	return !mv_mlx5_consumer(&ring) && mv_mlx5_is_invalid(&ring, 0);
}

int mesh_mlx5_qp(struct mesh_context *mc, struct ibv_qp *qp, struct mv_mlx5_ring *ret_sq, struct mv_mlx5_ring *ret_rq)
{
	struct mlx5dv_qp dv;
	struct mlx5dv_obj obj = {.qp = {.in = qp, .out = &dv}};

	memset(&dv, 0, sizeof(dv));
	if (call_init_obj(&mc->data.mlx5, &obj, MLX5DV_OBJ_QP))
		return -EOPNOTSUPP;
	/* wqe_cnt is 0 if the program asked for 0 work requests. A queue pair with an SRQ has no receive queue. */
	if (!dv.dbrec || (dv.sq.wqe_cnt && (!dv.sq.buf || dv.sq.stride != 64 || !power_of_two(dv.sq.wqe_cnt) || dv.sq.wqe_cnt > 32768)))
		return -EOPNOTSUPP;
	if (!qp->srq && dv.rq.wqe_cnt && (!dv.rq.buf || !power_of_two(dv.rq.wqe_cnt) || dv.rq.wqe_cnt > 32768 || dv.rq.stride < 16))
		return -EOPNOTSUPP;
	*ret_sq = (struct mv_mlx5_ring){dv.sq.buf, dv.sq.wqe_cnt, dv.sq.stride, dv.dbrec};
	*ret_rq = (struct mv_mlx5_ring){dv.rq.buf, dv.rq.wqe_cnt, dv.rq.stride, dv.dbrec};
	return 0;
}

/* Is one of these words an address in the lower provider's code? */
static bool has_function(struct mesh_mlx5 *m, const char *words, size_t bytes)
{
	uintptr_t from = atomic_load_explicit(&m->code_from, memory_order_relaxed), to = atomic_load_explicit(&m->code_to, memory_order_relaxed);
	uintptr_t word;
	size_t at;

	for (at = 0; at < bytes; at += sizeof(word)) {
		memcpy(&word, words + at, sizeof(word));
		if (word >= from && word < to)
			return true;
	}
	return false;
}

/*
 * A queue pair has pointers to the functions that it was made for. A library that is older than the plugin's headers has fewer
 * pointers. Other members of its struct lie in the place of the newer ones, and these are no addresses of its code.
 */
bool mesh_mlx5_builds(struct mesh_context *mc, struct ibv_qp *qp)
{
	enum {
		/* wr_atomic_write (rdma-core 44) and wr_flush (45) */
		VERBS = offsetof(struct ibv_qp_ex, wr_abort) + sizeof(uintptr_t),
		VERBS_BYTES = 2 * sizeof(uintptr_t),
		DV = offsetof(struct mlx5dv_qp_ex, wr_set_dc_addr),
		DV_BYTES = sizeof(struct mlx5dv_qp_ex) - DV,
	};
	struct mesh_mlx5 *m = &mc->data.mlx5;
	mesh_qp_ex_fn *dv = atomic_load_explicit(&m->qp_ex, memory_order_relaxed);
	struct ibv_qp_ex *qp_ex = mesh_root.lib.verbs.qp_to_qp_ex(qp);

	if (!qp_ex)
		return false;
	return has_function(m, (const char *)qp_ex + VERBS, VERBS_BYTES) || (dv && has_function(m, (const char *)dv(qp_ex) + DV, DV_BYTES));
}
