// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Registrations on another NIC, made in advance of a failover. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "armed.h"
#include "fault.h"
#include "loop.h"
#include "mr_prereg.h"

#define SIZE       65536
#define ACCESS     (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static char memory[8][SIZE];

static struct ibv_mr *reg(unsigned int i)
{
	struct ibv_mr *mr = ibv_reg_mr(world.pd, memory[i], SIZE, ACCESS);

	assert_non_null(mr);
	return mr;
}

static unsigned int n_shadows(void)
{
	struct mesh_shadow_mr *shadow;
	unsigned int n = 0;
	int cancel = mesh_keys_lock();

	LIST_FOREACH(shadow, &world.spd->shadows, of_pd)
		n++;
	mesh_keys_unlock(cancel);
	return n;
}

/* What was registered in advance needs no registration when it is used. */
static void test_registered(void **state)
{
	struct ibv_mr *mrs[3] = {reg(0), reg(1)};
	uint32_t from, to;

	(void)state;
	mesh_mr_prereg(world.spd);
	assert_true(until(idle));
	assert_int_equal(n_shadows(), 2);
	/* One that is new later. */
	mrs[2] = reg(2);
	assert_true(until(idle));
	assert_int_equal(rail_regs.n_ok, 3);
	atomic_store(&rail_regs.fail, EIO);
	memset(memory[0], 0x17, SIZE);
	assert_int_equal(mesh_key_local(world.spd, mrs[0]->lkey, &from), 0);
	assert_int_equal(mesh_key_remote(world.spd, mrs[2]->rkey, &to), 0);
	assert_int_equal(loop_once(world.spd, memory[0], from, (uintptr_t)memory[2], to, SIZE), IBV_WC_SUCCESS);
	assert_int_equal(memcmp(memory[0], memory[2], SIZE), 0);
	assert_int_equal(rail_regs.n_failed, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
	assert_int_equal(n_shadows(), 0);
	/* The peer is told of those that it may know: not of what was only sent from. */
	assert_int_equal(n_dropped, 1);
}

/* Many, which are not looked at with one hold of the lock: some come and go between. */
#define N_REGIONS 1200

static struct ibv_mr *many[N_REGIONS + 1];

static void come_and_go(void)
{
	many[N_REGIONS] = ibv_reg_mr(world.pd, memory[0], SIZE, ACCESS);
	if (!ibv_dereg_mr(many[0])) /* the oldest one, that is looked at last */
		many[0] = NULL;
}

static void test_many(void **state)
{
	unsigned int i, n;

	(void)state;
	for (i = 0; i < N_REGIONS; i++)
		many[i] = reg(i % 8);
	atomic_store(&rail_regs.meanwhile, come_and_go);
	mesh_mr_prereg(world.spd);
	assert_true(until(idle));
	assert_null(many[0]);
	assert_non_null(many[N_REGIONS]);
	assert_int_equal(n_shadows(), N_REGIONS);
	assert_int_equal(rail_regs.n_ok, N_REGIONS);
	/* One more: it is the only one that is looked at. */
	n = atomic_load(&n_looks);
	assert_true(n > 2);
	many[0] = reg(1);
	assert_true(until(idle));
	assert_int_equal(n_looks, n + 1);
	assert_int_equal(n_shadows(), N_REGIONS + 1);
	/* One that is changed. */
	assert_int_equal(ibv_rereg_mr(many[5], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	assert_true(until(idle));
	assert_int_equal(n_looks, n + 2);
	assert_int_equal(n_shadows(), N_REGIONS + 1);
	for (i = 0; i <= N_REGIONS; i++)
		assert_int_equal(ibv_dereg_mr(many[i]), 0);
	assert_int_equal(n_shadows(), 0);
}

/* What the program takes away before anybody looks is not registered, and its PD may go first or last. */
static void test_short_lived(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(world.context);
	struct ibv_mr *mr, *stays;
	struct mesh_pd *spd;
	char why[256];

	(void)state;
	spd = mesh_pd_get(world.mc, pd, world.rail, why, sizeof(why));
	assert_non_null(spd);
	mesh_mr_prereg(spd);
	mr = ibv_reg_mr(pd, memory[0], SIZE, ACCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(until(idle));
	assert_int_equal(n_dropped, 0);
	stays = ibv_reg_mr(pd, memory[1], SIZE, ACCESS);
	assert_true(until(idle));
	assert_int_equal(rail_regs.n_ok, 2); /* that, and the PD's dummy */
	mesh_pd_put(spd);
	assert_int_not_equal(ibv_dealloc_pd(pd), 0); /* ours is gone by then; the lower provider says no */
	assert_int_equal(ibv_dereg_mr(stays), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* No memory for it: registered with the first use, as without this. */
static void test_no_room(void **state)
{
	struct ibv_mr *a, *b;
	uint32_t key;

	(void)state;
	a = reg(0);
	mesh_mr_prereg(world.spd);
	assert_true(until(idle));
	assert_int_equal(n_shadows(), 1);
	atomic_store(&rail_regs.fail, ENOMEM);
	b = reg(1);
	assert_true(until(idle));
	assert_true(rail_regs.n_failed > 0);
	assert_int_equal(n_shadows(), 0); /* given back */
	atomic_store(&rail_regs.fail, 0);
	assert_int_equal(mesh_key_local(world.spd, b->lkey, &key), 0);
	assert_int_equal(mesh_key_local(world.spd, a->lkey, &key), 0);
	assert_int_equal(ibv_dereg_mr(a), 0);
	assert_int_equal(ibv_dereg_mr(b), 0);
}

/* A region that the other NIC cannot take does not keep the others from being registered. */
static void test_refused(void **state)
{
	struct ibv_mr *a, *b;

	(void)state;
	mesh_mr_prereg(world.spd);
	atomic_store(&rail_regs.fail, EOPNOTSUPP);
	a = reg(0);
	assert_true(until(idle));
	atomic_store(&rail_regs.fail, 0);
	b = reg(1);
	assert_true(until(idle));
	assert_int_equal(n_shadows(), 1);
	assert_int_equal(ibv_dereg_mr(a), 0);
	assert_int_equal(ibv_dereg_mr(b), 0);
}

/* The program is refused memory because of what we have: it gets that. What is in use stays. */
static void test_given_back(void **state)
{
	struct ibv_mr *used, *unused, *more;
	uint32_t key, again;

	(void)state;
	used = reg(0);
	unused = reg(1);
	mesh_mr_prereg(world.spd);
	assert_true(until(idle));
	assert_int_equal(n_shadows(), 2);
	assert_int_equal(mesh_key_local(world.spd, used->lkey, &key), 0);
	lower_regs.n_fail = 1;
	more = reg(2);
	assert_int_equal(lower_regs.n_fail, 0);
	assert_int_equal(n_shadows(), 1);
	assert_int_equal(mesh_key_local(world.spd, used->lkey, &again), 0);
	assert_int_equal(again, key);
	/* With nothing to give back, the program's error is its own. */
	lower_regs.n_fail = 2;
	assert_null(ibv_reg_mr(world.pd, memory[3], SIZE, ACCESS));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(lower_regs.n_fail, 1);
	lower_regs.n_fail = 0;
	assert_true(until(idle));
	assert_int_equal(n_shadows(), 1);
	assert_int_equal(ibv_dereg_mr(used), 0);
	assert_int_equal(ibv_dereg_mr(unused), 0);
	assert_int_equal(ibv_dereg_mr(more), 0);
}

/* Whatever allocation fails. */
static void test_no_memory(void **state)
{
	struct ibv_mr *mr;

	(void)state;
	fault_one_thread(false); /* also that of the NIC's thread */
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		mesh_root.process->keys.prereg_off = false;
		world.spd->prereg = false;
		mr = ibv_reg_mr(world.pd, memory[0], SIZE, ACCESS);
		mesh_mr_prereg(world.spd);
		assert_true(until(idle));
		if (mr)
			assert_int_equal(ibv_dereg_mr(mr), 0);
		assert_int_equal(n_shadows(), 0);
	})
	fault_one_thread(true);
}

static void test_fork(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip();
#endif
	struct ibv_mr *mr = reg(0);
	int status;
	pid_t pid;

	(void)state;
	mesh_mr_prereg(world.spd);
	assert_true(until(idle));
	pid = fork();
	if (!pid) {
		/* It begins with nothing, and ends in peace. */
		mesh_mr_prereg_changed(world.pd);
		_exit(!idle() || n_shadows() != 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(n_shadows(), 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_registered),
		T(test_many),
		T(test_short_lived),
		T(test_no_room),
		T(test_refused),
		T(test_given_back),
		T(test_no_memory),
		T(test_fork),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
