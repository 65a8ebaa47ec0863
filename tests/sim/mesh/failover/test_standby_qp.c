// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Queue pairs on another NIC, made in advance of a failover: their size, their memory, and faults. */
#include <errno.h>

#include "armed.h"
#include "conn.h"
#include "fault.h"

static void test_qp(void **state)
{
	struct mesh_shadow_attr other = {.port_num = 1, .qp_access_flags = 0};
	struct end e;
	struct mesh_vqp *h;
	uint32_t qpn, armed;
	struct ibv_wc wc;

	(void)state;
	end_open(&e, &world, &manner, &shape);
	assert_int_equal(mesh_failover_track(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
	assert_false(mesh_failover_armed(h));
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	assert_true(mesh_failover_armed(h));
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), -EBUSY);
	armed = h->standby.shadow.qp->qp_num;
	/* Until it is taken up, polling looks at nothing more. */
	assert_null(h->send_cq->shadows.polled);
	assert_int_equal(ibv_poll_cq(e.cq, 1, &wc), 0);
	assert_int_equal(mesh_failover_prepare(h, world.spd, &shadow_attr, &qpn), 0);
	assert_int_equal(qpn, armed);
	assert_false(mesh_failover_armed(h));
	assert_non_null(h->send_cq->shadows.polled);
	assert_null(h->send_cq->shadows.standby);
	mesh_failover_release(h);
	/* One that does not fit is left, and goes with the rest. */
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	armed = h->standby.shadow.qp->qp_num;
	assert_int_equal(mesh_failover_prepare(h, world.spd, &other, &qpn), 0);
	assert_int_not_equal(qpn, armed);
	assert_true(mesh_failover_armed(h));
	mesh_vqp_destroy(h);
	end_close(&e);
}

static const struct shape small = {.max_wr = 4, .max_inline = 16, .max_sge = 1};

static bool has_room(const struct mesh_vqp *h)
{
	return h->keys.places && h->queue.places && h->tracker->sends.places && h->tracker->receives.places &&
	       h->tracker->walker->later.places;
}

/* Of one that is read from its queues: what the move needs to note things down, if that is little. */
static void test_qp_room(void **state)
{
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	for (int i = 0; i < 2; i++) {
		end_open(&e, &world, &manner, i ? &shape : &small);
		assert_int_equal(mesh_failover_track(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
		assert_non_null(h->tracker->walker);
		assert_null(h->keys.places);
		assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
		assert_int_equal(has_room(h), !i);
		assert_int_equal(h->keys.places != NULL, !i);
		mesh_vqp_destroy(h);
		end_close(&e);
	}
}

static void test_qp_disarm(void **state)
{
	struct end e;
	struct mesh_vqp *h;

	(void)state;
	end_open(&e, &world, &manner, &shape);
	assert_int_equal(mesh_failover_track(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	mesh_failover_disarm(h);
	assert_false(mesh_failover_armed(h));
	mesh_failover_disarm(h);
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	mesh_vqp_destroy(h);
	end_close(&e);
}

/* Receives: with a walker the log has none, but they are noted until the QP is connected. */
static size_t n_known(const struct mesh_vqp *h)
{
	return h->tracker->walker ? h->early.log.n : h->tracker->receives.n_left;
}

/* RTR may fail, and be tried again: what was posted is known then, too. */
static void test_qp_not_connected(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad;
	struct mesh_vqp *h, *again;
	struct end e;

	(void)state;
	end_open(&e, &world, &manner, &shape);
	assert_int_equal(ibv_post_recv(e.qp, &wr, &bad), 0);
	assert_int_equal(mesh_failover_track(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
	wr.wr_id = 2;
	assert_int_equal(ibv_post_recv(e.qp, &wr, &bad), 0);
	assert_int_equal(n_known(h), 2);
	mesh_failover_untrack(h);
	assert_int_equal(h->mode, MESH_VQP_RX_RECORD);
	assert_int_equal(h->early.log.n, 2);
	wr.wr_id = 3;
	assert_int_equal(ibv_post_recv(e.qp, &wr, &bad), 0);
	assert_int_equal(mesh_failover_track(world.mc, e.qp, &no_ops, NULL, 1024, &again), 0);
	assert_ptr_equal(again, h);
	assert_int_equal(n_known(h), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(h->tracker->walker ? h->early.log.notes[i].wr_id : mesh_srqlog_at(&h->tracker->receives,
												   i)->wr_id, i + 1);
	mesh_failover_untrack(h);
	/* And it may be held then. */
	assert_int_equal(mesh_vqp_new(world.mc, e.qp, &no_ops, NULL, &again), 0);
	assert_int_equal(again->early.log.n, 3);
	mesh_vqp_destroy(again);
	end_close(&e);
}

/* Each allocation fails once. @ret_failed: so often there was none; @ret_later: so often it had no room, and the move asked again */
static void arm_without_memory(const struct shape *of, unsigned int *ret_failed, unsigned int *ret_later)
{
	struct mesh_vqp *h;
	struct end e;
	int err;

	*ret_failed = *ret_later = 0;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		fault_disarm();
		end_open(&e, &world, &manner, of);
		assert_int_equal(mesh_failover_track(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
		fault_arm(FAULT_ALLOC, fault_nth, ENOMEM);
		err = mesh_failover_arm(h, world.spd, &shadow_attr);
		assert_true(!err || fault_fired());
		assert_int_equal(mesh_failover_armed(h) != 0, !err);
		assert_null(h->send_cq->shadows.polled);
		*ret_failed += !!err;
		if (!err && of == &small && !has_room(h)) {
			assert_true(fault_fired());
			assert_int_equal(mesh_walker_engage(h), 0);
			assert_true(has_room(h));
			++*ret_later;
		}
		mesh_vqp_destroy(h);
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

#define MANY      16
#define OUR_BYTES 8192
#define LITTLE_BYTES 12288

/* Of the whole process: the plugin, libmlx5 and the simulated HCAs. */
static size_t allocated(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void make_bare(struct tracked *p)
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
	assert_int_equal(world.mc->lower.qp.modify_qp(p->qp, &to_init,
						      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			 0);
	p->qp->state = IBV_QPS_INIT;
}

/* As mesh_failover_arm() does. */
static void give_room(struct tracked *p)
{
	mesh_walker_reserve(p->h);
}

static void arm(struct tracked *p)
{
	assert_int_equal(mesh_failover_arm(p->h, world.spd, &shadow_attr), 0);
}

/* Return: bytes that each takes. */
static size_t for_each(struct tracked *all, void (*make)(struct tracked *))
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
	struct tracked all[MANY], first = {.depth = depth};
	size_t bare, ours, room, armed;
	unsigned int i;

	for (i = 0; i < MANY; i++)
		all[i].depth = depth;
	/* What the first one of a process or a device takes is not for each. */
	make_bare(&first);
	track(&first);
	bare = for_each(all, make_bare);
	ours = for_each(all, track) + sizeof(struct mesh_conn);
	room = for_each(all, give_room);
	armed = for_each(all, arm);
	print_message(
		"%u work requests: queue pair and CQ %zu bytes, the ones made in advance %zu, of ours %zu, room for a move %zu\n",
		depth, bare, armed, ours, room);
	for (i = 0; i < MANY; i++) {
		mesh_vqp_destroy(all[i].h);
		assert_int_equal(ibv_destroy_qp(all[i].qp), 0);
		assert_int_equal(ibv_destroy_cq(all[i].cq), 0);
	}
	mesh_vqp_destroy(first.h);
	assert_int_equal(ibv_destroy_qp(first.qp), 0);
	assert_int_equal(ibv_destroy_cq(first.cq), 0);
	assert_true(ours <= OUR_BYTES);
	assert_true(room <= LITTLE_BYTES);
	assert_int_equal(room > 0, depth == 16);
	assert_true(armed < bare);
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
	struct mesh_vqp *h;
	struct end e;

	(void)state;
	end_open(&e, &world, &manner, &shape);
	assert_int_equal(mesh_failover_track(world.mc, e.qp, &no_ops, NULL, 1024, &h), 0);
	rail->create_qp_ex = refuse_ex;
	assert_int_equal(mesh_failover_arm(h, world.spd, &shadow_attr), 0);
	rail->create_qp_ex = real;
	assert_true(mesh_failover_armed(h));
	mesh_vqp_destroy(h);
	end_close(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_qp),
		T(test_qp_room),
		T(test_qp_disarm),
		T(test_qp_faults),
		T(test_qp_not_connected),
		T(test_qp_memory),
		T(test_qp_of_any_kind),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
