// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Is the lower provider mlx5? The loader is asked once for a context, and with no lock held for which a program's
 * destructor may wait. And where is its lock of a queue pair's sends? That is tried out, a few times where it comes to
 * nothing for now, and then no more.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fault.h"
#include "vqp_int.h"

void *__real_dlopen(const char *file, int mode);
void *__wrap_dlopen(const char *file, int mode);

static struct mesh_context context;
static unsigned int n_asked, n_locked;

void *__wrap_dlopen(const char *file, int mode)
{
	n_asked++;
	if (!mesh_trylock(&context.data.lock))
		n_locked++;
	else
		mesh_unlock(&context.data.lock);
	return __real_dlopen(file, mode);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	(void)n;
	(void)wc;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	context = (struct mesh_context){.lower.io.poll_cq = poll_cq};
	n_asked = n_locked = 0;
	return mesh_lock_init(&context.data.lock);
}

static void test_no_is_kept(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		assert_false(mesh_mlx5_is_lower(&context));
	assert_int_equal(n_asked, 1);
}

static void test_asked_without_lock(void **state)
{
	struct ibv_qp qp = {.qp_type = IBV_QPT_RC};
	struct mesh_vqp *vqp;

	(void)state;
	/* One that it has no record of. */
	assert_int_equal(mesh_vqp_begin(&context, &qp, NULL, NULL, MESH_VQP_TRACKED, &vqp), -EOPNOTSUPP);
	mesh_lock(&context.data.lock);
	assert_false(mesh_mlx5_known(&context));
	mesh_unlock(&context.data.lock);
	assert_int_equal(n_asked, 1);
	assert_int_equal(n_locked, 0);
}

static int init_obj(void *obj, uint64_t obj_type)
{
	(void)obj;
	(void)obj_type;
	return 0;
}

enum { CQ_BYTES = 600, ROUNDED = 32 /* up by the allocator, at most */ };

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector);
static int destroy_cq(struct ibv_cq *cq);

/* Without descriptors it cannot be told who polls a CQ, or what is outstanding, for now. */
static void test_no_descriptors(void **state)
{
	struct mesh_mlx5 before = context.data.mlx5, *m = &context.data.mlx5;
	struct ibv_cq *cq = calloc(1, CQ_BYTES);

	(void)state;
	memset(m, 0, sizeof(*m));
	m->init_obj = init_obj;
	m->usable_size = malloc_usable_size;
	mesh_root.lib.verbs.create_cq = create_cq;
	context.lower.cq.destroy_cq = destroy_cq;
	mesh_lock(&context.data.lock);
	fault_arm(FAULT_PIPE2, 1, EMFILE);
	assert_true(mesh_mlx5_is_taken(&context, cq));
	assert_true(fault_fired());
	fault_arm(FAULT_PIPE2, 1, EMFILE);
	assert_false(mesh_mlx5_known(&context));
	fault_disarm();
	assert_int_equal(m->state, MESH_MLX5_UNKNOWN);
	assert_int_equal(m->copies, MESH_MLX5_NOT_TRIED);
	/* Of one that does not mark what it is asked for, nothing can be told. */
	assert_false(mesh_mlx5_is_taken(&context, cq));
	assert_int_equal(m->copies, MESH_MLX5_SILENT);
	/* Of one that is known to, the same. */
	m->copies = MESH_MLX5_ANSWERS;
	fault_arm(FAULT_PIPE2, 1, ENFILE);
	assert_true(mesh_mlx5_is_taken(&context, cq));
	fault_disarm();
	mesh_unlock(&context.data.lock);
	*m = before;
	free(cq);
}

/* How large a structure is the allocator says: what lies behind it is somebody else's. */
static void test_copy_ends_with_block(void **state)
{
	enum { N = 64, BEFORE = 8 /* of what libmlx5 has in front of a queue pair's */ };
	const struct mesh_mlx5 m = {.usable_size = malloc_usable_size}, nobody = {0};
	char *blocks[N], copy[MESH_MLX5_BYTES];
	size_t i, n;

	(void)state;
	for (i = 0; i < N; i++) {
		blocks[i] = malloc(CQ_BYTES);
		memset(blocks[i], 0xff, CQ_BYTES);
	}
	for (i = 0; i < 2 * N; i++) {
		n = i % 2 ? CQ_BYTES - BEFORE : CQ_BYTES;
		assert_int_equal(mesh_mlx5_copy(&m, blocks[i / 2] + (CQ_BYTES - n), copy), 0);
		assert_int_equal((unsigned char)copy[n - 1], 0xff);
		for (n += ROUNDED; n < MESH_MLX5_BYTES; n++)
			assert_int_equal(copy[n], 0);
	}
	/* An allocator that does not say. */
	assert_int_equal(mesh_mlx5_copy(&nobody, blocks[0], copy), -EOPNOTSUPP);
	for (i = 0; i < N; i++)
		free(blocks[i]);
}

/* ---- the lock of sends ----------------------------------------------------------------------------------------- */

/* As libmlx5 keeps one: words of its own behind what is libibverbs'. */
enum { LOCK = 300, COUNT, LATCH, SECOND, N_WORDS = 320 };

static struct its {
	uint64_t number; /* by which libmlx5 finds it */
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
		uint32_t word[N_WORDS];
	};
} *its; /* the program's, and ours that is tried */
static unsigned int n_made, n_gone;
static bool locks, locks_two;

static void wr_start(struct ibv_qp_ex *qp)
{
	(void)qp;
	its->word[LOCK] = locks ? 1 : 7;
	its->word[SECOND] = locks_two;
	its->word[COUNT]++;
	its->word[LATCH] = 1; /* once and for all */
}

static void wr_abort(struct ibv_qp_ex *qp)
{
	(void)qp;
	its->word[LOCK] = 7;
	its->word[SECOND] = 0;
	its->word[COUNT]++;
}

static struct ibv_qp_ex *qp_to_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return &its->ex;
}

static struct ibv_pd *alloc_pd(struct ibv_context *verbs)
{
	static struct ibv_pd pd;

	(void)verbs;
	return &pd;
}

static struct ibv_cq *create_cq(struct ibv_context *verbs, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector)
{
	(void)verbs;
	(void)cqe;
	(void)cq_context;
	(void)channel;
	(void)vector;
	n_made++;
	return calloc(1, CQ_BYTES);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *verbs, struct ibv_qp_init_attr_ex *attr)
{
	(void)verbs;
	(void)attr;
	n_made++;
	return &its->qp;
}

static int destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	n_gone++;
	return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
	(void)qp;
	n_gone++;
	return 0;
}

static int setup_lock(void **state)
{
	(void)state;
	memset(its, 0, sizeof(*its));
	its->ex.wr_start = wr_start;
	its->ex.wr_abort = wr_abort;
	its->word[LOCK] = 7;
	n_made = n_gone = 0;
	locks = true;
	locks_two = false;
	mesh_root.lib.verbs.qp_to_qp_ex = qp_to_qp_ex;
	mesh_root.lib.verbs.alloc_pd = alloc_pd;
	mesh_root.lib.verbs.create_cq = create_cq;
	context = (struct mesh_context){
		.lower.qp.create_qp_ex = create_qp_ex, .lower.qp.destroy_qp = destroy_qp, .lower.cq.destroy_cq = destroy_cq};
	context.data.mlx5.usable_size = malloc_usable_size;
	return 0;
}

/* Return: what it says; @tries: whether it is tried to find it, or was known before */
static int find_lock(struct mesh_mlx5_lock *ret, bool tries)
{
	int err;

	n_made = n_gone = 0;
	err = mesh_mlx5_sq_lock(&context, &its->qp, ret);
	assert_int_equal(n_made, tries ? 2 : 0);
	assert_int_equal(n_gone, n_made);
	return err;
}

static void assert_found(const struct mesh_mlx5_lock *lock)
{
	assert_ptr_equal(lock->word, &its->word[LOCK]);
	assert_int_equal(lock->free, 7);
	assert_false(mesh_mlx5_is_locked(lock));
	wr_start(&its->ex);
	assert_true(mesh_mlx5_is_locked(lock));
	wr_abort(&its->ex);
	assert_false(mesh_mlx5_is_locked(lock));
}

static void test_lock_found(void **state)
{
	struct mesh_mlx5_lock lock;

	(void)state;
	assert_int_equal(find_lock(&lock, true), 0);
	assert_found(&lock);
	assert_int_equal(find_lock(&lock, false), 0);
	assert_found(&lock);
}

static void test_lock_nowhere(void **state)
{
	struct mesh_mlx5_lock lock;

	(void)state;
	locks = false;
	assert_int_equal(find_lock(&lock, true), -EOPNOTSUPP);
	locks = true;
	assert_int_equal(find_lock(&lock, false), -EOPNOTSUPP);
	assert_null(lock.word);
}

/* Which of them it is cannot be told. */
static void test_lock_in_two_places(void **state)
{
	struct mesh_mlx5_lock lock;

	(void)state;
	locks_two = true;
	assert_int_equal(find_lock(&lock, true), -EOPNOTSUPP);
	assert_int_equal(find_lock(&lock, false), -EOPNOTSUPP);
}

static int find_without_pipes(struct mesh_mlx5_lock *ret)
{
	int err;

	fault_arm(FAULT_PIPE2, 1, EMFILE);
	err = find_lock(ret, true);
	assert_true(fault_fired());
	fault_disarm();
	return err;
}

/* What there is no descriptor for now may be had for the next queue pair; */
static void test_lock_found_later(void **state)
{
	struct mesh_mlx5_lock lock;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(find_without_pipes(&lock), -EMFILE);
		assert_null(lock.word);
	}
	assert_int_equal(find_lock(&lock, true), 0);
	assert_found(&lock);
	assert_int_equal(find_lock(&lock, false), 0);
}

/* but not for ever. */
static void test_lock_given_up(void **state)
{
	struct mesh_mlx5_lock lock;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(find_without_pipes(&lock), -EMFILE);
	assert_int_equal(find_without_pipes(&lock), -EOPNOTSUPP);
	assert_int_equal(find_lock(&lock, false), -EOPNOTSUPP);
	assert_null(lock.word);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_descriptors),
		cmocka_unit_test(test_copy_ends_with_block),
		cmocka_unit_test_setup(test_no_is_kept, setup),
		cmocka_unit_test_setup(test_asked_without_lock, setup),
		cmocka_unit_test_setup(test_lock_found, setup_lock),
		cmocka_unit_test_setup(test_lock_nowhere, setup_lock),
		cmocka_unit_test_setup(test_lock_in_two_places, setup_lock),
		cmocka_unit_test_setup(test_lock_found_later, setup_lock),
		cmocka_unit_test_setup(test_lock_given_up, setup_lock),
	};

	int failed;

	its = calloc(1, sizeof(*its));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(its);
	return failed;
}
