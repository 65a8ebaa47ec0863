// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs on another NIC, connected in advance of a failover. */
#include <errno.h>
#include <unistd.h>

#include "armed.h"
#include "conn.h"
#include "fault.h"

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

static int stand_by(struct mesh_vqp *h, struct wanted want)
{
	modify.n = 0;
	return mesh_failover_standby(h, &want.rtr, RTR_MASK, &want.rts, RTS_MASK);
}

static int connect_next(struct mesh_vqp *h, struct wanted want)
{
	modify.n = 0;
	return mesh_failover_connect(h, &want.rtr, RTR_MASK, &want.rts, RTS_MASK);
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

static struct mesh_vqp *armed(struct end *e)
{
	struct mesh_vqp *h;

	end_open(e, &world, &manner, &shape);
	assert_int_equal(mesh_failover_track(world.mc, e->qp, &no_ops, NULL, 1024, &h), 0);
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	return h;
}

static void test_standby(void **state)
{
	struct mv_ctl_end peer = {.gid = world.rail_gid};
	struct mesh_vqp *h;
	uint32_t qpn, taken;
	struct end e;

	(void)state;
	modify.real = mesh_root.lib.verbs.modify_qp;
	mesh_root.lib.verbs.modify_qp = count_modify;
	h = armed(&e);
	qpn = mesh_failover_armed(h);
	/* It goes with the rest, whatever it is connected to. */
	assert_int_equal(stand_by(h, to_itself(qpn, 7)), 0);
	assert_int_equal(modify.n, 2);
	assert_int_equal(stand_by(h, to_itself(qpn, 7)), 0);
	assert_int_equal(modify.n, 0);
	assert_int_equal(stand_by(h, to_itself(qpn, 0xfffff0)), 0);
	assert_connected(h->standby.shadow.qp, 0xfffff0);
	mesh_failover_disarm(h);
	assert_int_equal(stand_by(h, to_itself(qpn, 7)), -ENOENT);

	/* As it was said: nothing is left to do. */
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	peer.qpn = mesh_failover_armed(h);
	assert_int_equal(stand_by(h, to_itself(peer.qpn, 9)), 0);
	assert_true(mesh_failover_on_standby(h, &peer)); /* whether it is taken or not */
	assert_int_equal(mesh_failover_prepare(h, world.spd, &shadow_attr, &taken), 0);
	assert_int_equal(taken, peer.qpn);
	assert_true(mesh_failover_on_standby(h, &peer));
	peer.qpn++;
	assert_false(mesh_failover_on_standby(h, &peer));
	assert_int_equal(connect_next(h, to_itself(taken, 9)), 0);
	assert_int_equal(modify.n, 0);
	assert_connected(h->next.shadow.qp, 9);
	mesh_failover_release(h);

	/* Not quite: it is done anew. */
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	assert_int_equal(stand_by(h, to_itself(mesh_failover_armed(h), 9)), 0);
	assert_int_equal(mesh_failover_prepare(h, world.spd, &shadow_attr, &taken), 0);
	assert_int_equal(connect_next(h, to_itself(taken, 10)), 0);
	assert_connected(h->next.shadow.qp, 10);
	mesh_vqp_destroy(h);
	end_close(&e);
	mesh_root.lib.verbs.modify_qp = modify.real;
}

/* Agreed upon when there was no need yet: until it is taken nothing is as if it were to be; then it is the next one, with nothing left to do. */
static void test_standby_taken(void **state)
{
	struct mesh_shadow_attr other = shadow_attr;
	struct mesh_vqp *h;
	uint32_t armed_qpn;
	struct end e;

	(void)state;
	modify.real = mesh_root.lib.verbs.modify_qp;
	mesh_root.lib.verbs.modify_qp = count_modify;
	h = armed(&e);
	armed_qpn = mesh_failover_armed(h);
	assert_int_equal(mesh_failover_could_take(h, world.spd, &shadow_attr), armed_qpn);
	assert_int_equal(mesh_failover_could_take(h, NULL, &shadow_attr), 0);
	other.qp_access_flags ^= IBV_ACCESS_REMOTE_READ;
	assert_int_equal(mesh_failover_could_take(h, world.spd, &other), 0);
	assert_int_equal(mesh_failover_take_standby(h), -ENOENT);
	/* There would be no room, or no way to hold anything back. */
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	if (!mesh_failover_could_take(h, world.spd, &shadow_attr))
		assert_true(fault_fired());
	fault_disarm();
	assert_int_equal(mesh_failover_could_take(h, world.spd, &shadow_attr), armed_qpn);
	h->tracker->lost = "this test says so";
	assert_int_equal(mesh_failover_could_take(h, world.spd, &shadow_attr), 0);
	h->tracker->lost = NULL;
	assert_int_equal(stand_by(h, to_itself(armed_qpn, 7)), 0);
	assert_false(mesh_failover_has_next(h));
	assert_null(h->send_cq->shadows.polled);
	assert_true(mesh_failover_on_standby(
		h, &(struct mv_ctl_end){.gid = to_itself(armed_qpn, 7).rtr.ah_attr.grh.dgid, .qpn = armed_qpn}));
	assert_false(mesh_failover_on_standby(
		h, &(struct mv_ctl_end){.gid = to_itself(armed_qpn, 7).rtr.ah_attr.grh.dgid, .qpn = armed_qpn + 1}));
	/* Called off. */
	mesh_failover_release(h);
	assert_int_equal(mesh_failover_armed(h), armed_qpn);
	/* Something cannot be moved: it stays. */
	h->tracker->lost = "this test says so";
	assert_int_equal(mesh_failover_take_standby(h), -EOPNOTSUPP);
	h->tracker->lost = NULL;
	assert_int_equal(mesh_failover_armed(h), armed_qpn);
	modify.n = 0;
	assert_int_equal(mesh_failover_take_standby(h), 0);
	assert_int_equal(modify.n, 0);
	assert_int_equal(mesh_failover_armed(h), 0);
	assert_true(mesh_failover_has_next(h));
	assert_int_equal(mesh_failover_could_take(h, world.spd, &shadow_attr), 0);
	assert_int_equal(h->next.shadow.qp->qp_num, armed_qpn);
	assert_true(h->next.shadow.rtr && h->next.shadow.rts);
	assert_int_equal(h->next.sq_psn, to_itself(armed_qpn, 7).rts.sq_psn);
	assert_int_equal(h->next.mtu_bytes, mesh_mtu_bytes(to_itself(armed_qpn, 7).rtr.path_mtu));
	assert_non_null(h->send_cq->shadows.polled);
	assert_connected(h->next.shadow.qp, 7);
	assert_int_equal(mesh_failover_take_standby(h), -ENOENT);
	/* One that could not be connected is none. */
	mesh_failover_release(h);
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	modify.fail = 1;
	assert_int_not_equal(stand_by(h, to_itself(mesh_failover_armed(h), 5)), 0);
	modify.fail = 0;
	assert_int_equal(mesh_failover_take_standby(h), -ENOENT);
	mesh_vqp_destroy(h);
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

static void change(struct mesh_vqp *h, struct wanted *want, unsigned int access, uint8_t min_rnr_timer)
{
	struct ibv_qp_attr changed = {.qp_access_flags = access, .min_rnr_timer = min_rnr_timer};

	want->rtr.min_rnr_timer = min_rnr_timer;
	modify.n = 0;
	assert_int_equal(mesh_failover_change(h, &changed, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER), 0);
}

/* What the program changes in RTS is so where it goes, however far that has come. */
static void test_changed(void **state)
{
	struct mesh_shadow_attr want_attr = shadow_attr;
	struct wanted want;
	struct mesh_vqp *h;
	uint32_t armed_qpn, taken;
	struct end e;

	(void)state;
	modify.real = mesh_root.lib.verbs.modify_qp;
	mesh_root.lib.verbs.modify_qp = count_modify;
	h = armed(&e);
	armed_qpn = mesh_failover_armed(h);
	want = to_itself(armed_qpn, 7);
	assert_allows(h->standby.shadow.qp, IBV_ACCESS_REMOTE_WRITE);
	/* Made in advance; connected in advance, and that is as good as it was; */
	change(h, &want, IBV_ACCESS_REMOTE_READ, 3);
	assert_allows(h->standby.shadow.qp, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(stand_by(h, want), 0);
	change(h, &want, 0, 4);
	assert_allows(h->standby.shadow.qp, 0);
	assert_int_equal(stand_by(h, want), 0);
	assert_int_equal(modify.n, 0);
	/* taken; */
	want_attr.qp_access_flags = 0;
	assert_int_equal(mesh_failover_prepare(h, world.spd, &want_attr, &taken), 0);
	assert_int_equal(taken, armed_qpn);
	change(h, &want, IBV_ACCESS_REMOTE_WRITE, 5);
	assert_int_equal(connect_next(h, want), 0);
	assert_int_equal(modify.n, 0);
	assert_allows(h->next.shadow.qp, IBV_ACCESS_REMOTE_WRITE);
	/* connected. */
	change(h, &want, IBV_ACCESS_REMOTE_READ, 6);
	assert_allows(h->next.shadow.qp, IBV_ACCESS_REMOTE_READ);
	mesh_failover_release(h);

	/* It was not to be changed: it begins anew, and has what was wanted. */
	assert_int_equal(mesh_failover_arm(h, world.spd, &want_attr), 0);
	want = to_itself(mesh_failover_armed(h), 9);
	assert_int_equal(stand_by(h, want), 0);
	assert_int_equal(mesh_failover_prepare(h, world.spd, &want_attr, &taken), 0);
	modify.fail = 1;
	change(h, &want, IBV_ACCESS_REMOTE_READ, 8);
	modify.fail = 0;
	assert_int_equal(connect_next(h, want), 0);
	assert_connected(h->next.shadow.qp, 9);
	assert_allows(h->next.shadow.qp, IBV_ACCESS_REMOTE_READ);
	mesh_failover_release(h);

	/* One that waits in INIT and was not to be changed goes. */
	assert_int_equal(mesh_failover_arm(h, world.spd, &want_attr), 0);
	modify.fail = 1;
	change(h, &want, IBV_ACCESS_REMOTE_READ, 8);
	modify.fail = 0;
	assert_false(mesh_failover_armed(h));
	mesh_vqp_destroy(h);
	end_close(&e);
	mesh_root.lib.verbs.modify_qp = modify.real;
}

/* Whatever fails while nothing needs it, the move has its queue pair. */
static void test_standby_fails(void **state)
{
	unsigned int n_failed = 0, nth;
	struct mesh_vqp *h;
	uint32_t taken;
	struct end e;
	int err = 0;

	(void)state;
	modify.real = mesh_root.lib.verbs.modify_qp;
	for (nth = 1; nth < 7; nth++) {
		h = armed(&e);
		mesh_root.lib.verbs.modify_qp = count_modify;
		modify.fail = nth;
		err = stand_by(h, to_itself(mesh_failover_armed(h), 5));
		if (nth > 2) {
			modify.fail = nth - 2;
			err = stand_by(h, to_itself(mesh_failover_armed(h), 6));
		}
		n_failed += err == -ETIMEDOUT;
		modify.fail = 0;
		assert_int_equal(mesh_failover_prepare(h, world.spd, &shadow_attr, &taken), 0);
		assert_int_equal(connect_next(h, to_itself(taken, 6)), 0);
		assert_connected(h->next.shadow.qp, 6);
		mesh_vqp_destroy(h);
		end_close(&e);
		mesh_root.lib.verbs.modify_qp = modify.real;
	}
	assert_int_equal(n_failed, 6); /* RTR, RTS; RESET, INIT, RTR, RTS */
	h = armed(&e);
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_int_equal(stand_by(h, to_itself(mesh_failover_armed(h), 5)), -ENOMEM);
	assert_true(fault_fired());
	fault_disarm();
	assert_int_equal(mesh_failover_prepare(h, world.spd, &shadow_attr, &taken), 0);
	assert_int_equal(connect_next(h, to_itself(taken, 6)), 0);
	mesh_vqp_destroy(h);
	end_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_standby),
		T(test_standby_taken),
		T(test_standby_fails),
		T(test_changed),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
