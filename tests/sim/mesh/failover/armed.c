// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "armed.h"
#include "survive.h"

#include <errno.h>
#include <unistd.h>

struct rail_regs rail_regs;

static struct ibv_mr *reg_on_rail(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	void (*meanwhile)(void) = atomic_exchange(&rail_regs.meanwhile, NULL);
	int fail = atomic_load(&rail_regs.fail);

	if (meanwhile)
		meanwhile();
	if (fail) {
		atomic_fetch_add(&rail_regs.n_failed, 1);
		errno = fail;
		return NULL;
	}
	atomic_fetch_add(&rail_regs.n_ok, 1);
	return rail_regs.real(pd, addr, length, iova, access);
}

_Atomic unsigned int n_looks;

bool __real_mesh_mr_table_missing(struct mesh_mr_table *tab, const struct ibv_pd *pd, const struct mesh_pd *spd,
				  uint64_t after, size_t max, uint32_t *ret, size_t *ret_n);
bool __wrap_mesh_mr_table_missing(struct mesh_mr_table *tab, const struct ibv_pd *pd, const struct mesh_pd *spd,
				  uint64_t after, size_t max, uint32_t *ret, size_t *ret_n);

bool __wrap_mesh_mr_table_missing(struct mesh_mr_table *tab, const struct ibv_pd *pd, const struct mesh_pd *spd,
				  uint64_t after, size_t max, uint32_t *ret, size_t *ret_n)
{
	atomic_fetch_add(&n_looks, 1);
	return __real_mesh_mr_table_missing(tab, pd, spd, after, max, ret, ret_n);
}

unsigned int n_dropped;

static void note_drop(struct ibv_pd *of, uint32_t rkey)
{
	(void)of;
	(void)rkey;
	n_dropped++;
}

struct lower_regs lower_regs;

static struct ibv_mr *reg_on_lower(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	if (lower_regs.n_fail) {
		lower_regs.n_fail--;
		errno = ENOMEM;
		return NULL;
	}
	return lower_regs.real(pd, addr, length, iova, access);
}

bool idle(void)
{
	int cancel = mesh_keys_lock();
	struct mesh_pd *spd;
	bool there = false;

	for (spd = mesh_root.keys.pds; spd; spd = spd->next)
		there |= spd->rail->prereg_thread;
	mesh_keys_unlock(cancel);
	return !there;
}

bool until(bool (*condition)(void))
{
	unsigned int ms;

	for (ms = 0; ms < PATIENCE_MS && !condition(); ms++)
		usleep(1000);
	return condition();
}

int setup(void **state)
{
	(void)state;
	world_open(&world);
	set_survive(true);
	mesh_root.key_dropped = note_drop;
	mesh_root.process->keys.prereg_off = false;
	n_dropped = 0;
	rail_regs.real = mesh_root.lib.verbs.reg_mr_iova2;
	mesh_root.lib.verbs.reg_mr_iova2 = reg_on_rail;
	atomic_store(&rail_regs.n_ok, 0);
	atomic_store(&rail_regs.n_failed, 0);
	atomic_store(&rail_regs.fail, 0);
	atomic_store(&rail_regs.meanwhile, NULL);
	atomic_store(&n_looks, 0);
	lower_regs.real = world.mc->lower.mr.reg_mr;
	lower_regs.n_fail = 0;
	world.mc->lower.mr.reg_mr = reg_on_lower;
	return 0;
}

int teardown(void **state)
{
	(void)state;
	assert_true(until(idle));
	mesh_root.lib.verbs.reg_mr_iova2 = rail_regs.real;
	world.mc->lower.mr.reg_mr = lower_regs.real;
	world_close(&world);
	return 0;
}

const struct manner manner = {.how = MOVED};
const struct shape shape = {0};
const struct mesh_vqp_ops no_ops = {0};

void track(struct tracked *p)
{
	assert_int_equal(mesh_recvlog_begin(world.mc, p->qp), 0);
	assert_int_equal(mesh_failover_track(world.mc, p->qp, &no_ops, NULL, 1024, &p->h), 0);
	assert_non_null(p->h->tracker->walker);
}
