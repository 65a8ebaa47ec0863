// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Is the base mlx5? The loader is asked once for a context, and with no lock held for which a program's destructor may wait. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "heldint.h"

void *__real_dlopen(const char *file, int mode);
void *__wrap_dlopen(const char *file, int mode);

static struct mesh_context context;
static unsigned int n_asked, n_locked;

void *__wrap_dlopen(const char *file, int mode)
{
	n_asked++;
	if (pthread_mutex_trylock(&context.data.lock))
		n_locked++;
	else
		pthread_mutex_unlock(&context.data.lock);
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
	context = (struct mesh_context){.poll_cq = poll_cq};
	n_asked = n_locked = 0;
	return pthread_mutex_init(&context.data.lock, NULL);
}

static void test_no_is_kept(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		assert_false(mesh_mlx5_is_base(&context));
	assert_int_equal(n_asked, 1);
}

static void test_asked_without_lock(void **state)
{
	struct ibv_qp qp = {.qp_type = IBV_QPT_RC};
	struct mesh_held *held;

	(void)state;
	/* One that it has no record of. */
	assert_int_equal(mesh_held_begin(&context, &qp, NULL, NULL, MESH_HELD_GUARDED, &held), -EOPNOTSUPP);
	pthread_mutex_lock(&context.data.lock);
	assert_false(mesh_mlx5_known(&context));
	pthread_mutex_unlock(&context.data.lock);
	assert_int_equal(n_asked, 1);
	assert_int_equal(n_locked, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_no_is_kept, setup),
		cmocka_unit_test_setup(test_asked_without_lock, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
