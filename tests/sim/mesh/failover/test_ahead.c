// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What is made for a move before it is needed, in a host of the simulator with two NICs: memory regions registered on the
 * other NIC, a queue pair there; and that nobody is worse off when it cannot be made.
 */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "fault.h"
#include "guarded.h"
#include "heldint.h"
#include "keyahead.h"
#include "loop.h"

#define SIZE       65536
#define ACCESS     (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define PATIENCE_S 60

/* Registrations on rails. */
static struct {
	struct ibv_mr *(*real)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
	_Atomic unsigned int n_ok, n_failed;
	_Atomic int fail; /* errno; 0: none */
	void (*_Atomic meanwhile)(void); /* called once, by the thread that registers */
} rail_regs;

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

/* How often keys_lock was taken to look at regions. */
static _Atomic unsigned int n_looks;

bool __real_mesh_keytab_missing(struct mesh_keytab *tab, const struct ibv_pd *pd, const struct mesh_pd *spd, uint64_t after, size_t max,
				uint32_t *ret, size_t *ret_n);
bool __wrap_mesh_keytab_missing(struct mesh_keytab *tab, const struct ibv_pd *pd, const struct mesh_pd *spd, uint64_t after, size_t max,
				uint32_t *ret, size_t *ret_n);

bool __wrap_mesh_keytab_missing(struct mesh_keytab *tab, const struct ibv_pd *pd, const struct mesh_pd *spd, uint64_t after, size_t max,
				uint32_t *ret, size_t *ret_n)
{
	atomic_fetch_add(&n_looks, 1);
	return __real_mesh_keytab_missing(tab, pd, spd, after, max, ret, ret_n);
}

static unsigned int n_dropped;

static void note_drop(struct ibv_pd *of, uint32_t rkey)
{
	(void)of;
	(void)rkey;
	n_dropped++;
}

/* The base's own registration, for the program. */
static struct {
	struct ibv_mr *(*real)(struct ibv_pd *, void *, size_t, uint64_t, int);
	unsigned int n_fail;
} base_regs;

static struct ibv_mr *reg_on_base(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	if (base_regs.n_fail) {
		base_regs.n_fail--;
		errno = ENOMEM;
		return NULL;
	}
	return base_regs.real(pd, addr, length, iova, access);
}

static bool idle(void)
{
	int cancel = mesh_keys_lock();
	struct mesh_pd *spd;
	bool there = false;

	for (spd = mesh_root.keys.pds; spd; spd = spd->next)
		there |= spd->rail->ahead_thread;
	mesh_keys_unlock(cancel);
	return !there;
}

static bool until(bool (*condition)(void))
{
	unsigned int ms;

	for (ms = 0; ms < PATIENCE_S * 1000 && !condition(); ms++)
		usleep(1000);
	return condition();
}

static int setup(void **state)
{
	(void)state;
	world_open(&world);
	mesh_root.config.survive = true;
	mesh_root.key_dropped = note_drop;
	mesh_root.process->ahead_off = false;
	n_dropped = 0;
	rail_regs.real = mesh_root.lib.verbs.reg_mr_iova2;
	mesh_root.lib.verbs.reg_mr_iova2 = reg_on_rail;
	atomic_store(&rail_regs.n_ok, 0);
	atomic_store(&rail_regs.n_failed, 0);
	atomic_store(&rail_regs.fail, 0);
	atomic_store(&rail_regs.meanwhile, NULL);
	atomic_store(&n_looks, 0);
	base_regs.real = world.mc->reg_mr;
	base_regs.n_fail = 0;
	world.mc->reg_mr = reg_on_base;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_true(until(idle));
	mesh_root.lib.verbs.reg_mr_iova2 = rail_regs.real;
	world.mc->reg_mr = base_regs.real;
	world_close(&world);
	return 0;
}

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

/* What was registered ahead needs no registration when it is used. */
static void test_registered(void **state)
{
	struct ibv_mr *mrs[3] = {reg(0), reg(1)};
	uint32_t from, to;

	(void)state;
	mesh_keys_ahead(world.spd);
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
	mesh_keys_ahead(world.spd);
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
	mesh_keys_ahead(spd);
	mr = ibv_reg_mr(pd, memory[0], SIZE, ACCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(until(idle));
	assert_int_equal(n_dropped, 0);
	stays = ibv_reg_mr(pd, memory[1], SIZE, ACCESS);
	assert_true(until(idle));
	assert_int_equal(rail_regs.n_ok, 2); /* that, and the PD's dummy */
	mesh_pd_put(spd);
	assert_int_not_equal(ibv_dealloc_pd(pd), 0); /* ours is gone by then; the base says no */
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
	mesh_keys_ahead(world.spd);
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
	mesh_keys_ahead(world.spd);
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
	mesh_keys_ahead(world.spd);
	assert_true(until(idle));
	assert_int_equal(n_shadows(), 2);
	assert_int_equal(mesh_key_local(world.spd, used->lkey, &key), 0);
	base_regs.n_fail = 1;
	more = reg(2);
	assert_int_equal(base_regs.n_fail, 0);
	assert_int_equal(n_shadows(), 1);
	assert_int_equal(mesh_key_local(world.spd, used->lkey, &again), 0);
	assert_int_equal(again, key);
	/* With nothing to give back, the program's error is its own. */
	base_regs.n_fail = 2;
	assert_null(ibv_reg_mr(world.pd, memory[3], SIZE, ACCESS));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(base_regs.n_fail, 1);
	base_regs.n_fail = 0;
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
		mesh_root.process->ahead_off = false;
		world.spd->ahead = false;
		mr = ibv_reg_mr(world.pd, memory[0], SIZE, ACCESS);
		mesh_keys_ahead(world.spd);
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
	mesh_keys_ahead(world.spd);
	assert_true(until(idle));
	pid = fork();
	if (!pid) {
		/* It begins with nothing, and ends in peace. */
		mesh_keys_ahead_news(world.pd);
		_exit(!idle() || n_shadows() != 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(n_shadows(), 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* ---- queue pairs ---------------------------------------------------------------------------------------------- */

static const struct manner manner = {.how = MOVED};
static const struct shape shape = {0};
static const struct mesh_held_ops no_ops = {0};

static void test_qp(void **state)
{
	struct mesh_shadow_attr other = {.port_num = 1, .qp_access_flags = 0};
	struct end e;
	struct mesh_held *h;
	uint32_t qpn, ahead;
	struct ibv_wc wc;

	(void)state;
	end_open(&e, &world, &manner, &shape);
	assert_int_equal(mesh_live_guard(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
	assert_false(mesh_live_armed(h));
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	assert_true(mesh_live_armed(h));
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), -EBUSY);
	ahead = h->ahead.qp->qp_num;
	/* Until it is taken up, polling looks at nothing more. */
	assert_null(h->send_cq->shadows);
	assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 0);
	assert_int_equal(mesh_live_prepare(h, world.spd, &shadow_attr, &qpn), 0);
	assert_int_equal(qpn, ahead);
	assert_false(mesh_live_armed(h));
	assert_non_null(h->send_cq->shadows);
	assert_null(h->send_cq->ahead);
	mesh_live_release(h);
	/* One that does not fit is left, and goes with the rest. */
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	ahead = h->ahead.qp->qp_num;
	assert_int_equal(mesh_live_prepare(h, world.spd, &other, &qpn), 0);
	assert_int_not_equal(qpn, ahead);
	assert_true(mesh_live_armed(h));
	mesh_held_destroy(h);
	end_close(&e);
}

static const struct shape small = {.max_wr = 4, .max_inline = 16, .max_sge = 1};

static bool has_room(const struct mesh_held *h)
{
	return h->keys && h->queue.places && h->guard->sends.places && h->guard->receives.places && h->guard->reader->later.places;
}

/* Of one that is read from its queues: what the move needs to note things down, if that is little. */
static void test_qp_room(void **state)
{
	struct mesh_held *h;
	struct end e;

	(void)state;
	for (int i = 0; i < 2; i++) {
		end_open(&e, &world, &manner, i ? &shape : &small);
		assert_int_equal(mesh_live_guard(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
		assert_non_null(h->guard->reader);
		assert_null(h->keys);
		assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
		assert_int_equal(has_room(h), !i);
		assert_int_equal(h->keys != NULL, !i);
		mesh_held_destroy(h);
		end_close(&e);
	}
}

static void test_qp_disarm(void **state)
{
	struct end e;
	struct mesh_held *h;

	(void)state;
	end_open(&e, &world, &manner, &shape);
	assert_int_equal(mesh_live_guard(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	mesh_live_disarm(h);
	assert_false(mesh_live_armed(h));
	mesh_live_disarm(h);
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	mesh_held_destroy(h);
	end_close(&e);
}

/* Receives: with a reader the log has none, but they are noted until the QP is connected. */
static size_t n_known(const struct mesh_held *h)
{
	return h->guard->reader ? h->log.n : h->guard->receives.n_left;
}

/* RTR may fail, and be tried again: what was posted is known then, too. */
static void test_qp_not_connected(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct mesh_held *h, *again;
	struct end e;

	(void)state;
	end_open(&e, &world, &manner, &shape);
	assert_int_equal(ibv_post_recv(e.qp, &wr, &bad), 0);
	assert_int_equal(mesh_live_guard(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
	wr.wr_id = 2;
	assert_int_equal(ibv_post_recv(e.qp, &wr, &bad), 0);
	assert_int_equal(n_known(h), 2);
	mesh_live_unguard(h);
	assert_int_equal(h->mode, MESH_HELD_NOTING);
	assert_int_equal(h->log.n, 2);
	wr.wr_id = 3;
	assert_int_equal(ibv_post_recv(e.qp, &wr, &bad), 0);
	assert_int_equal(mesh_live_guard(world.mc, e.qp, &no_ops, NULL, 1024, &again), 0);
	assert_ptr_equal(again, h);
	assert_int_equal(n_known(h), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(h->guard->reader ? h->log.notes[i].wr_id : mesh_srqlog_at(&h->guard->receives, i)->wr_id, i + 1);
	mesh_live_unguard(h);
	/* And it may be held then. */
	assert_int_equal(mesh_held_new(world.mc, e.qp, &no_ops, NULL, &again), 0);
	assert_int_equal(again->log.n, 3);
	mesh_held_destroy(again);
	end_close(&e);
}

/* Each allocation fails once. @ret_failed: so often there was none; @ret_later: so often it had no room, and the move asked again */
static void arm_without_memory(const struct shape *of, unsigned int *ret_failed, unsigned int *ret_later)
{
	struct mesh_held *h;
	struct end e;
	int err;

	*ret_failed = *ret_later = 0;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		fault_disarm();
		end_open(&e, &world, &manner, of);
		assert_int_equal(mesh_live_guard(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
		fault_arm(FAULT_ALLOC, fault_nth, ENOMEM);
		err = mesh_live_arm(h, world.spd, &shadow_attr);
		assert_true(!err || fault_fired());
		assert_int_equal(mesh_live_armed(h) != 0, !err);
		assert_null(h->send_cq->shadows);
		*ret_failed += !!err;
		if (!err && of == &small && !has_room(h)) {
			assert_true(fault_fired());
			assert_int_equal(mesh_reader_engage(h), 0);
			assert_true(has_room(h));
			++*ret_later;
		}
		mesh_held_destroy(h);
		end_close(&e);
	})
}

/* Whatever fails, there is none, and the next try may succeed; but for the room, without which there is a QP all the same. */
static void test_qp_faults(void **state)
{
	unsigned int failed, later;

	(void)state;
	arm_without_memory(&shape, &failed, &later);
	assert_true(failed > 0);
	arm_without_memory(&small, &failed, &later);
	assert_true(failed > 0);
	assert_int_equal(later, 5); /* each part of it */
}

/* ---- connected ahead
 * ------------------------------------------------------------------------------------------- */

/* What is done to queue pairs of rails. */
static struct {
	int (*real)(struct ibv_qp *, struct ibv_qp_attr *, int);
	unsigned int n, fail; /* calls; the one that fails, 0: none does */
} modify;

static int count_modify(struct ibv_qp *qp, struct ibv_qp_attr *qp_attr, int mask)
{
	return ++modify.n == modify.fail ? ETIMEDOUT : modify.real(qp, qp_attr, mask);
}

struct wanted {
	struct ibv_qp_attr rtr, rts;
};

/* To itself. */
static struct wanted to_itself(uint32_t qpn, uint32_t psn)
{
	struct wanted w = {
		.rtr = {.qp_state = IBV_QPS_RTR,
			.path_mtu = IBV_MTU_1024,
			.dest_qp_num = qpn,
			.rq_psn = psn,
			.ah_attr = {.is_global = 1,
				    .port_num = 1,
				    .grh = {.dgid = world.rail_gid,
					    .sgid_index = world.rail_gid_index,
					    .hop_limit = 64}}},
		.rts = {.qp_state = IBV_QPS_RTS,
			.timeout = 14,
			.retry_cnt = 7,
			.rnr_retry = 7,
			.sq_psn = psn},
	};

	return w;
}

static int stand_by(struct mesh_held *h, struct wanted want)
{
	modify.n = 0;
	return mesh_live_standby(h, &want.rtr, RTR_MASK, &want.rts, RTS_MASK);
}

static int connect_next(struct mesh_held *h, struct wanted want)
{
	modify.n = 0;
	return mesh_live_connect(h, &want.rtr, RTR_MASK, &want.rts, RTS_MASK);
}

static void assert_connected(struct ibv_qp *qp, uint32_t psn)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr is;

	assert_int_equal(
		ibv_query_qp(qp, &is,
			     IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_DEST_QPN, &init),
		0);
	assert_int_equal(is.qp_state, IBV_QPS_RTS);
	assert_int_equal(is.rq_psn, psn);
	assert_int_equal(is.sq_psn, psn);
	assert_int_equal(is.dest_qp_num, qp->qp_num);
}

static struct mesh_held *armed(struct end *e)
{
	struct mesh_held *h;

	end_open(e, &world, &manner, &shape);
	assert_int_equal(mesh_live_guard(world.mc, e->qp, &no_ops, NULL, 1024, &h), 0);
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	return h;
}

static void test_standby(void **state)
{
	struct mv_ctl_end peer = {.gid = world.rail_gid};
	struct mesh_held *h;
	uint32_t qpn, taken;
	struct end e;

	(void)state;
	modify.real = mesh_root.lib.verbs.modify_qp;
	mesh_root.lib.verbs.modify_qp = count_modify;
	h = armed(&e);
	qpn = mesh_live_armed(h);
	/* It goes with the rest, whatever it is connected to. */
	assert_int_equal(stand_by(h, to_itself(qpn, 7)), 0);
	assert_int_equal(modify.n, 2);
	assert_int_equal(stand_by(h, to_itself(qpn, 7)), 0);
	assert_int_equal(modify.n, 0);
	assert_int_equal(stand_by(h, to_itself(qpn, 0xfffff0)), 0);
	assert_connected(h->ahead.qp, 0xfffff0);
	mesh_live_disarm(h);
	assert_int_equal(stand_by(h, to_itself(qpn, 7)), -ENOENT);

	/* As it was said: nothing is left to do. */
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	peer.qpn = mesh_live_armed(h);
	assert_int_equal(stand_by(h, to_itself(peer.qpn, 9)), 0);
	assert_true(mesh_live_on_standby(h, &peer)); /* whether it is taken or not */
	assert_int_equal(mesh_live_prepare(h, world.spd, &shadow_attr, &taken), 0);
	assert_int_equal(taken, peer.qpn);
	assert_true(mesh_live_on_standby(h, &peer));
	peer.qpn++;
	assert_false(mesh_live_on_standby(h, &peer));
	assert_int_equal(connect_next(h, to_itself(taken, 9)), 0);
	assert_int_equal(modify.n, 0);
	assert_connected(h->next.qp, 9);
	mesh_live_release(h);

	/* Not quite: it is done anew. */
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	assert_int_equal(stand_by(h, to_itself(mesh_live_armed(h), 9)), 0);
	assert_int_equal(mesh_live_prepare(h, world.spd, &shadow_attr, &taken), 0);
	assert_int_equal(connect_next(h, to_itself(taken, 10)), 0);
	assert_connected(h->next.qp, 10);
	mesh_held_destroy(h);
	end_close(&e);
	mesh_root.lib.verbs.modify_qp = modify.real;
}

/* Agreed upon when there was no need yet: until it is taken nothing is as if it were to be; then it is the next one, with nothing left to do. */
static void test_standby_taken(void **state)
{
	struct mesh_shadow_attr other = shadow_attr;
	struct mesh_held *h;
	uint32_t ahead;
	struct end e;

	(void)state;
	modify.real = mesh_root.lib.verbs.modify_qp;
	mesh_root.lib.verbs.modify_qp = count_modify;
	h = armed(&e);
	ahead = mesh_live_armed(h);
	assert_int_equal(mesh_live_could_take(h, world.spd, &shadow_attr), ahead);
	assert_int_equal(mesh_live_could_take(h, NULL, &shadow_attr), 0);
	other.qp_access_flags ^= IBV_ACCESS_REMOTE_READ;
	assert_int_equal(mesh_live_could_take(h, world.spd, &other), 0);
	assert_int_equal(mesh_live_take_standby(h), -ENOENT);
	/* There would be no room, or no way to hold anything back. */
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	if (!mesh_live_could_take(h, world.spd, &shadow_attr))
		assert_true(fault_fired());
	fault_disarm();
	assert_int_equal(mesh_live_could_take(h, world.spd, &shadow_attr), ahead);
	h->guard->lost = "this test says so";
	assert_int_equal(mesh_live_could_take(h, world.spd, &shadow_attr), 0);
	h->guard->lost = NULL;
	assert_int_equal(stand_by(h, to_itself(ahead, 7)), 0);
	assert_false(mesh_live_has_next(h));
	assert_null(h->send_cq->shadows);
	assert_true(mesh_live_on_standby(h, &(struct mv_ctl_end){.gid = to_itself(ahead, 7).rtr.ah_attr.grh.dgid, .qpn = ahead}));
	assert_false(mesh_live_on_standby(h, &(struct mv_ctl_end){.gid = to_itself(ahead, 7).rtr.ah_attr.grh.dgid, .qpn = ahead + 1}));
	/* Called off. */
	mesh_live_release(h);
	assert_int_equal(mesh_live_armed(h), ahead);
	/* Something cannot be moved: it stays. */
	h->guard->lost = "this test says so";
	assert_int_equal(mesh_live_take_standby(h), -EOPNOTSUPP);
	h->guard->lost = NULL;
	assert_int_equal(mesh_live_armed(h), ahead);
	modify.n = 0;
	assert_int_equal(mesh_live_take_standby(h), 0);
	assert_int_equal(modify.n, 0);
	assert_int_equal(mesh_live_armed(h), 0);
	assert_true(mesh_live_has_next(h));
	assert_int_equal(mesh_live_could_take(h, world.spd, &shadow_attr), 0);
	assert_int_equal(h->next.qp->qp_num, ahead);
	assert_true(h->next.rtr && h->next.rts);
	assert_int_equal(h->next_sq_psn, to_itself(ahead, 7).rts.sq_psn);
	assert_int_equal(h->next_mtu_bytes, mesh_mtu_bytes(to_itself(ahead, 7).rtr.path_mtu));
	assert_non_null(h->send_cq->shadows);
	assert_connected(h->next.qp, 7);
	assert_int_equal(mesh_live_take_standby(h), -ENOENT);
	/* One that could not be connected is none. */
	mesh_live_release(h);
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	modify.fail = 1;
	assert_int_not_equal(stand_by(h, to_itself(mesh_live_armed(h), 5)), 0);
	modify.fail = 0;
	assert_int_equal(mesh_live_take_standby(h), -ENOENT);
	mesh_held_destroy(h);
	end_close(&e);
	mesh_root.lib.verbs.modify_qp = modify.real;
}

static void assert_allows(struct ibv_qp *qp, unsigned int access)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr is;

	assert_int_equal(ibv_query_qp(qp, &is, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, &init), 0);
	assert_int_equal(is.qp_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ), access);
}

static void change(struct mesh_held *h, struct wanted *want, unsigned int access, uint8_t min_rnr_timer)
{
	struct ibv_qp_attr changed = {.qp_access_flags = access, .min_rnr_timer = min_rnr_timer};

	want->rtr.min_rnr_timer = min_rnr_timer;
	modify.n = 0;
	assert_int_equal(mesh_live_change(h, &changed, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER), 0);
}

/* What the program changes in RTS is so where it goes, however far that has come. */
static void test_changed(void **state)
{
	struct mesh_shadow_attr want_attr = shadow_attr;
	struct wanted want;
	struct mesh_held *h;
	uint32_t ahead, taken;
	struct end e;

	(void)state;
	modify.real = mesh_root.lib.verbs.modify_qp;
	mesh_root.lib.verbs.modify_qp = count_modify;
	h = armed(&e);
	ahead = mesh_live_armed(h);
	want = to_itself(ahead, 7);
	assert_allows(h->ahead.qp, IBV_ACCESS_REMOTE_WRITE);
	/* Made ahead; connected ahead, and that is as good as it was; */
	change(h, &want, IBV_ACCESS_REMOTE_READ, 3);
	assert_allows(h->ahead.qp, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(stand_by(h, want), 0);
	change(h, &want, 0, 4);
	assert_allows(h->ahead.qp, 0);
	assert_int_equal(stand_by(h, want), 0);
	assert_int_equal(modify.n, 0);
	/* taken; */
	want_attr.qp_access_flags = 0;
	assert_int_equal(mesh_live_prepare(h, world.spd, &want_attr, &taken), 0);
	assert_int_equal(taken, ahead);
	change(h, &want, IBV_ACCESS_REMOTE_WRITE, 5);
	assert_int_equal(connect_next(h, want), 0);
	assert_int_equal(modify.n, 0);
	assert_allows(h->next.qp, IBV_ACCESS_REMOTE_WRITE);
	/* connected. */
	change(h, &want, IBV_ACCESS_REMOTE_READ, 6);
	assert_allows(h->next.qp, IBV_ACCESS_REMOTE_READ);
	mesh_live_release(h);

	/* It was not to be changed: it begins anew, and has what was wanted. */
	assert_int_equal(mesh_live_arm(h, world.spd, &want_attr), 0);
	want = to_itself(mesh_live_armed(h), 9);
	assert_int_equal(stand_by(h, want), 0);
	assert_int_equal(mesh_live_prepare(h, world.spd, &want_attr, &taken), 0);
	modify.fail = 1;
	change(h, &want, IBV_ACCESS_REMOTE_READ, 8);
	modify.fail = 0;
	assert_int_equal(connect_next(h, want), 0);
	assert_connected(h->next.qp, 9);
	assert_allows(h->next.qp, IBV_ACCESS_REMOTE_READ);
	mesh_live_release(h);

	/* One that waits in INIT and was not to be changed goes. */
	assert_int_equal(mesh_live_arm(h, world.spd, &want_attr), 0);
	modify.fail = 1;
	change(h, &want, IBV_ACCESS_REMOTE_READ, 8);
	modify.fail = 0;
	assert_false(mesh_live_armed(h));
	mesh_held_destroy(h);
	end_close(&e);
	mesh_root.lib.verbs.modify_qp = modify.real;
}

/* Whatever fails while nothing needs it, the move has its queue pair. */
static void test_standby_fails(void **state)
{
	unsigned int n_failed = 0, nth;
	struct mesh_held *h;
	uint32_t taken;
	struct end e;
	int err = 0;

	(void)state;
	modify.real = mesh_root.lib.verbs.modify_qp;
	for (nth = 1; nth < 7; nth++) {
		h = armed(&e);
		mesh_root.lib.verbs.modify_qp = count_modify;
		modify.fail = nth;
		err = stand_by(h, to_itself(mesh_live_armed(h), 5));
		if (nth > 2) {
			modify.fail = nth - 2;
			err = stand_by(h, to_itself(mesh_live_armed(h), 6));
		}
		n_failed += err == -ETIMEDOUT;
		modify.fail = 0;
		assert_int_equal(mesh_live_prepare(h, world.spd, &shadow_attr, &taken), 0);
		assert_int_equal(connect_next(h, to_itself(taken, 6)), 0);
		assert_connected(h->next.qp, 6);
		mesh_held_destroy(h);
		end_close(&e);
		mesh_root.lib.verbs.modify_qp = modify.real;
	}
	assert_int_equal(n_failed, 6); /* RTR, RTS; RESET, INIT, RTR, RTS */
	h = armed(&e);
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_int_equal(stand_by(h, to_itself(mesh_live_armed(h), 5)), -ENOMEM);
	assert_true(fault_fired());
	fault_disarm();
	assert_int_equal(mesh_live_prepare(h, world.spd, &shadow_attr, &taken), 0);
	assert_int_equal(connect_next(h, to_itself(taken, 6)), 0);
	mesh_held_destroy(h);
	end_close(&e);
}

#define MANY      16
#define OUR_BYTES 8192
#define LITTLE_BYTES 12288

struct guarded {
	uint32_t depth;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct mesh_held *h;
};

/* Of the whole process: the plugin, libmlx5 and the simulated HCAs. */
static size_t allocated(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void make_bare(struct guarded *p)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = p->depth, .max_recv_wr = p->depth, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr to_init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	p->cq = ibv_create_cq(world.context, 4 * (int)p->depth, NULL, NULL, 0);
	assert_non_null(p->cq);
	init.send_cq = init.recv_cq = p->cq;
	p->qp = ibv_create_qp(world.pd, &init);
	assert_non_null(p->qp);
	assert_int_equal(
		world.mc->modify_qp(p->qp, &to_init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
	p->qp->state = IBV_QPS_INIT;
}

static void guard(struct guarded *p)
{
	assert_int_equal(mesh_recvlog_begin(world.mc, p->qp), 0);
	assert_int_equal(mesh_live_guard(world.mc, p->qp, &no_ops, NULL, 1024, &p->h), 0);
	assert_non_null(p->h->guard->reader);
}

/* As mesh_live_arm() does. */
static void give_room(struct guarded *p)
{
	mesh_reader_room_ahead(p->h);
}

static void arm(struct guarded *p)
{
	assert_int_equal(mesh_live_arm(p->h, world.spd, &shadow_attr), 0);
}

/* Return: bytes that each takes. */
static size_t for_each(struct guarded *all, void (*make)(struct guarded *))
{
	size_t before = allocated();
	unsigned int i;

	for (i = 0; i < MANY; i++)
		make(&all[i]);
	return (allocated() - before) / MANY;
}

/*
 * A protected queue pair that has not moved takes this much of ours, however deep its queues are: what only a move needs is not
 * there yet, unless it is little. The one that waits for it, with its CQ, takes less than the program's.
 */
static void check_memory(uint32_t depth)
{
	struct guarded all[MANY], first = {.depth = depth};
	size_t bare, ours, room, ahead;
	unsigned int i;

	for (i = 0; i < MANY; i++)
		all[i].depth = depth;
	/* What the first one of a process or a device takes is not for each. */
	make_bare(&first);
	guard(&first);
	bare = for_each(all, make_bare);
	ours = for_each(all, guard) + sizeof(struct mesh_conn);
	room = for_each(all, give_room);
	ahead = for_each(all, arm);
	print_message("%u work requests: queue pair and CQ %zu bytes, the ones made ahead %zu, of ours %zu, room for a move %zu\n", depth, bare,
		      ahead, ours, room);
	for (i = 0; i < MANY; i++) {
		mesh_held_destroy(all[i].h);
		assert_int_equal(ibv_destroy_qp(all[i].qp), 0);
		assert_int_equal(ibv_destroy_cq(all[i].cq), 0);
	}
	mesh_held_destroy(first.h);
	assert_int_equal(ibv_destroy_qp(first.qp), 0);
	assert_int_equal(ibv_destroy_cq(first.cq), 0);
	assert_true(ours <= OUR_BYTES);
	assert_true(room <= LITTLE_BYTES);
	assert_int_equal(room > 0, depth == 16);
	assert_true(ahead < bare);
}

static void test_qp_memory(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* they have allocators of their own, which do not count so */
#endif
	check_memory(16);
	check_memory(512);
}

static struct ibv_qp *refuse_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
	(void)context;
	(void)init;
	errno = EOPNOTSUPP;
	return NULL;
}

/* A NIC whose library does not want to be told what will be posted. */
static void test_qp_of_any_kind(void **state)
{
	struct verbs_context *rail = verbs_get_ctx(world.rail->context);
	struct ibv_qp *(*real)(struct ibv_context *, struct ibv_qp_init_attr_ex *) = rail->create_qp_ex;
	struct mesh_held *h;
	struct end e;

	(void)state;
	end_open(&e, &world, &manner, &shape);
	assert_int_equal(mesh_live_guard(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
	rail->create_qp_ex = refuse_ex;
	assert_int_equal(mesh_live_arm(h, world.spd, &shadow_attr), 0);
	rail->create_qp_ex = real;
	assert_true(mesh_live_armed(h));
	mesh_held_destroy(h);
	end_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_registered), T(test_many), T(test_short_lived), T(test_no_room), T(test_refused), T(test_given_back),
		T(test_no_memory),  T(test_fork),	 T(test_qp),	  T(test_qp_room),   T(test_qp_disarm),	 T(test_qp_faults),
		T(test_qp_not_connected),
		T(test_qp_memory),  T(test_qp_of_any_kind), T(test_standby), T(test_standby_taken), T(test_standby_fails), T(test_changed),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
