// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Keys where memory is short, after a fork, and under several threads. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "fault.h"
#include "keybuffers.h"
#include "pdstay.h"

/* Without memory to note that all of them stay. */
static void test_stays_no_memory(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(context);

	(void)state;
	mc->lower.mr.import_mr = import_mr;
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_non_null(ibv_import_mr(pd, 1));
	fault_disarm();
	assert_non_null(mesh_pd_stays(pd));
	assert_non_null(mesh_pd_stays(other));
	assert_int_equal(ibv_dealloc_pd(other), 0);
	atomic_store_explicit(&mesh_root.process->keys.all_stay, NULL, memory_order_relaxed);
}

/* The child of a fork has nothing of its parent's, and leaves its parent's alone. */
static void test_fork(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip(); /* it has no threads after a fork, and the simulated HCA is one */
#endif
	struct buffer b = buffer_new(pd, ACCESS);
	uint32_t key = local_key(b.mr->lkey);
	char why[256] = "";
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		struct ibv_context *other;
		struct mesh_rail *fresh;
		bool ok = !mesh_rail_current(rail) && !mesh_pd_get(mc, pd, rail, why, sizeof(why));

		mesh_pd_put(spd);
		mesh_rail_put(rail);
		other = open_named("mlx5_0"); /* from now on this process has a generation of its own */
		ok = ok && !mesh_rail_current(rail);
		mesh_pd_put(spd);
		mesh_rail_put(rail);
		fresh = mesh_rail_get("mlx5_1", why, sizeof(why));
		ok = ok && fresh && fresh != rail && mesh_rail_current(fresh);
		if (ok) {
			struct ibv_pd *own = ibv_alloc_pd(other);
			struct mesh_pd *in = mesh_pd_get(mesh_context_get(other), own, fresh, why, sizeof(why));
			struct buffer c = buffer_new(own, ACCESS);

			ok = in && !mesh_key_local(in, c.mr->lkey, &key);
			buffer_free(&c);
			mesh_pd_put(in);
			mesh_rail_put(fresh);
			ok = ok && !ibv_dealloc_pd(own) && !ibv_close_device(other);
		}
		_exit(!ok);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(local_key(b.mr->lkey), key);
	buffer_free(&b);
}

static int all_of_it(void)
{
	struct ibv_pd *fresh = ibv_alloc_pd(context);
	struct ibv_parent_domain_init_attr attr = {.pd = fresh};
	struct mesh_rail *own;
	struct mesh_pd *in = NULL;
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct ibv_mr *mr = ibv_reg_mr(fresh, spd->dummy_page, 8, ACCESS);
	char why[256];
	uint32_t key;
	int err = -ENOENT;

	own = mesh_rail_get("mlx5_0", why, sizeof(why));
	if (own)
		in = mesh_pd_get(mc, fresh, own, why, sizeof(why));
	if (in && mr)
		err = mesh_key_local(in, mr->lkey, &key);
	if (in && err)
		assert_int_equal(key, in->dummy->lkey);
	mesh_pd_put(in);
	mesh_rail_put(own);
	if (mr)
		assert_int_equal(ibv_dereg_mr(mr), 0);
	if (parent)
		assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(fresh), 0);
	assert_ptr_equal(mesh_root.rails, rail); /* the other one is closed */
	return err;
}

/* Whatever allocation fails, the program's own calls work, and nothing is left. */
static void test_no_memory(void **state)
{
	unsigned int faults = 0;
	int err;

	(void)state;
	assert_int_equal(all_of_it(), 0);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		err = all_of_it();
		if (!fault_fired())
			assert_int_equal(err, 0);
		faults += err != 0;
	})
	FAULT_EACH(FAULT_MMAP, ENOMEM, {
		err = all_of_it();
		if (!fault_fired())
			assert_int_equal(err, 0);
		faults += err != 0;
	})
	assert_true(faults > 3);
}

/*
 * Some threads register, change and deregister, others translate whatever keys there are, others take and leave PDs on
 * rails that open and close meanwhile.
 */
#define KEYS    32
#define WORKERS 3

static struct {
	_Atomic uint32_t keys[KEYS];
	_Atomic bool stop;
	_Atomic unsigned int translated, unknown, registered;
	uint8_t memory[WORKERS][4096];
} busy;

static void *register_for_ever(void *arg)
{
	unsigned int me = (unsigned int)(uintptr_t)arg, i, seed = me;
	struct ibv_mr *mrs[KEYS / WORKERS] = {NULL}, **mr;

	while (!atomic_load(&busy.stop)) {
		i = (unsigned int)rand_r(&seed) % (KEYS / WORKERS);
		mr = &mrs[i];
		if (!*mr) {
			*mr = ibv_reg_mr(pd, busy.memory[me], sizeof(busy.memory[me]), ACCESS);
			assert_non_null(*mr);
			busy.registered++;
		} else if (rand_r(&seed) % 3) {
			assert_int_equal(ibv_dereg_mr(*mr), 0);
			*mr = NULL;
		} else {
			assert_int_equal(ibv_rereg_mr(*mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
						      IBV_ACCESS_LOCAL_WRITE),
					 0);
		}
		atomic_store(&busy.keys[me * (KEYS / WORKERS) + i], *mr ? (*mr)->lkey : 0);
	}
	for (i = 0; i < KEYS / WORKERS; i++)
		if (mrs[i])
			assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
	return NULL;
}

static void *translate_for_ever(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	uint32_t key, ret;
	int err;

	while (!atomic_load(&busy.stop)) {
		key = atomic_load(&busy.keys[(unsigned int)rand_r(&seed) % KEYS]);
		err = seed & 1 ? mesh_key_local(spd, key, &ret) : mesh_key_remote(spd, key, &ret);
		if (!err) {
			assert_int_not_equal(ret, spd->dummy->lkey);
			busy.translated++;
		} else {
			assert_int_equal(err, -ENOENT);
			busy.unknown++;
		}
	}
	return NULL;
}

static void *take_rails_for_ever(void *arg)
{
	const char *device = arg;
	struct ibv_pd *mine;
	struct ibv_mr *mr;
	struct mesh_rail *r;
	struct mesh_pd *in;
	char why[256];
	uint32_t key;

	while (!atomic_load(&busy.stop)) {
		mine = ibv_alloc_pd(context);
		mr = ibv_reg_mr(mine, busy.memory, 64, 0);
		r = mesh_rail_get(device, why, sizeof(why));
		in = mesh_pd_get(mc, mine, r, why, sizeof(why));
		assert_non_null(in);
		assert_int_equal(mesh_key_local(in, mr->lkey, &key), 0);
		mesh_rail_put(r);
		mesh_pd_put(in);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		assert_int_equal(ibv_dealloc_pd(mine), 0);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[2 * WORKERS + 2];
	unsigned int i;

	(void)state;
	mesh_root.key_dropped = NULL; /* which is not for threads here */
	mesh_root.key_given = NULL;
	memset(busy.keys, 0, sizeof(busy.keys));
	for (i = 0; i < WORKERS; i++) {
		pthread_create(&threads[2 * i], NULL, register_for_ever, (void *)(uintptr_t)i);
		pthread_create(&threads[2 * i + 1], NULL, translate_for_ever, (void *)(uintptr_t)i);
	}
	pthread_create(&threads[2 * WORKERS], NULL, take_rails_for_ever, (char *)"mlx5_0");
	pthread_create(&threads[2 * WORKERS + 1], NULL, take_rails_for_ever, (char *)"mlx5_0");
	do
		sleep(3);
	while (busy.registered <= 100 || busy.translated <= 100 || !busy.unknown);
	atomic_store(&busy.stop, true);
	for (i = 0; i < sizeof(threads) / sizeof(threads[0]); i++)
		pthread_join(threads[i], NULL);
	print_message("%u registered, %u translated, %u unknown\n", busy.registered, busy.translated, busy.unknown);
	assert_null(LIST_FIRST(&spd->shadows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_stays_no_memory),
		T(test_fork),
		T(test_no_memory),
		T(test_threads),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
