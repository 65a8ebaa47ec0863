// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completions that are withheld while the program polls. */
#include <unistd.h>

#include "pollends.h"
#include "vqp_int.h"

#define OURS 77u /* wr_id of what was put into the software CQ */

#define NAMED (IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM)

static int (*real_start_poll)(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr);
static int (*real_poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static bool append_it;

/* As a move does that comes to its end. */
static void append(uint64_t wr_id)
{
	const struct ibv_wc wc = {.wr_id = wr_id, .qp_num = tracked.qp->qp_num};
	struct mesh_cq *cq = cq_of_hub();

	mesh_lock(&cq->lock);
	assert_int_equal(mesh_sw_cq_reserve(&cq->sw_cq, 8), 0);
	mesh_sw_cq_append(cq, &wc);
	mesh_unlock(&cq->lock);
}

static int start_poll_meanwhile(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	int err = real_start_poll(ex, attr);

	if (!err && append_it)
		append(OURS);
	append_it = err && append_it;
	return err;
}

static int poll_cq_meanwhile(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = real_poll_cq(cq, n, wc);

	if (got > 0 && append_it)
		append(OURS);
	append_it = got <= 0 && append_it;
	return got;
}

static void open_for_append(uint64_t wc_flags)
{
	struct mesh_cq *cq;

	open_hub(&bare_ex, &(struct shape){.wc_flags = wc_flags});
	open_tracked(&moved_ex, 0);
	open_bare(&bare_ex);
	cq = cq_of_hub();
	real_start_poll = cq->ex.lower.start_poll;
	cq->ex.lower.start_poll = start_poll_meanwhile;
}

static void append_at_next(void)
{
	append_it = true;
}

/*
 * What the software CQ says of queue pairs that are not ours is less than what their CQ says, and they have nothing
 * there.
 */
static void test_others_stay(void **state)
{
	(void)state;
	open_for_append(0);
	write_nothing(&bare, &bare, 1);
	append_at_next();
	start_poll(1);
	assert_int_equal(cq_of_hub()->walk.source, MESH_FROM_BASE);
	assert_int_equal(ibv_next_poll(hub.cq_ex), 0);
	assert_int_equal(hub.cq_ex->wr_id, OURS);
	end_poll_ex();
}

static uint32_t src_qp(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0x1234;
}

static uint32_t slid(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0x56;
}

static uint8_t sl(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 7;
}

static uint8_t dlid_path_bits(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 8;
}

/* What goes behind it says the same there, of all that can be kept. */
static void test_goes_behind(void **state)
{
	struct mesh_cq *cq;

	(void)state;
	open_for_append(NAMED | IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
			IBV_WC_EX_WITH_DLID_PATH_BITS);
	cq = cq_of_hub();
	cq->ex.lower.read_src_qp = src_qp;
	cq->ex.lower.read_slid = slid;
	cq->ex.lower.read_sl = sl;
	cq->ex.lower.read_dlid_path_bits = dlid_path_bits;
	write_nothing(&tracked, &tracked, 1);
	append_at_next();
	start_poll(OURS);
	assert_int_equal(ibv_next_poll(hub.cq_ex), 0);
	assert_int_equal(hub.cq_ex->wr_id, 1);
	assert_int_equal(cq->walk.source, MESH_FROM_SW_CQ);
	assert_int_equal(ibv_wc_read_opcode(hub.cq_ex), IBV_WC_RDMA_WRITE);
	assert_int_equal(ibv_wc_read_qp_num(hub.cq_ex), tracked.qp->qp_num);
	assert_int_equal(ibv_wc_read_src_qp(hub.cq_ex), 0x1234);
	assert_int_equal(ibv_wc_read_slid(hub.cq_ex), 0x56);
	assert_int_equal(ibv_wc_read_sl(hub.cq_ex), 7);
	assert_int_equal(ibv_wc_read_dlid_path_bits(hub.cq_ex), 8);
	end_poll_ex();
}

/* A poll is not over before what is in the CQ has been shown, too. */
static void shows_the_rest(struct end *e, const struct end *peer, enum mesh_cq_source source)
{
	write_nothing(e, peer, 1);
	write_nothing(e, peer, 2);
	cq_wait_arrived(source == MESH_FROM_SHADOW ? cq_of_hub()->shadows.polled->cq : hub.cq, 2);
	start_poll(1);
	assert_int_equal(cq_of_hub()->walk.source, source);
	append(OURS);
	assert_int_equal(ibv_next_poll(hub.cq_ex), 0);
	assert_int_equal(hub.cq_ex->wr_id, OURS);
	assert_int_equal(ibv_next_poll(hub.cq_ex), 0);
	assert_int_equal(hub.cq_ex->wr_id, 2);
	end_poll_ex();
}

static void test_shows_the_rest(void **state)
{
	(void)state;
	open_hub(&bare_ex, &(struct shape){.cqe = 1000});
	open_tracked(&moved_ex, 0);
	open_bare(&bare_ex);
	shows_the_rest(&bare, &bare, MESH_FROM_BASE);
	shows_the_rest(&bare, &bare, MESH_FROM_BASE); /* whoever comes first */
	open_moved();
	shows_the_rest(&from, &to, MESH_FROM_SHADOW);
	shows_the_rest(&from, &to, MESH_FROM_SHADOW);
}

static int poll_plain(int n, struct ibv_wc *wc)
{
	int got = 0;
	unsigned int i;

	for (i = 0; !got && i < PATIENCE_S * 1000; i++) {
		got = mesh_poll_properly(hub.cq, n, wc);
		if (!got)
			usleep(1000);
	}
	return got;
}

static void poll_behind(struct end *e, uint64_t first, uint64_t second)
{
	struct ibv_wc wc;

	write_nothing(e, e, 1);
	append_at_next();
	assert_int_equal(poll_plain(1, &wc), 1);
	assert_int_equal(wc.wr_id, first);
	assert_int_equal(poll_plain(1, &wc), 1);
	assert_int_equal(wc.wr_id, second);
}

static void test_plain_behind(void **state)
{
	(void)state;
	open_hub(&bare_plain, &(struct shape){0});
	open_tracked(&moved_plain, 0);
	open_bare(&bare_plain);
	/* From now on our functions poll it. */
	mesh_lock(&world.mc->data.lock);
	mesh_cq_use(cq_of_hub());
	mesh_data_slots(world.mc);
	mesh_unlock(&world.mc->data.lock);
	real_poll_cq = world.mc->lower.io.poll_cq;
	world.mc->lower.io.poll_cq = poll_cq_meanwhile;
	poll_behind(&tracked, OURS, 1);
	poll_behind(&bare, 1, OURS);
	world.mc->lower.io.poll_cq = real_poll_cq;
}

/* Of a queue pair that fails with more waiting than there is room for, all that was asked for is given. */
static void test_all_that_was_asked_for(void **state)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct mesh_cq *cq;
	struct ibv_wc wc[8];
	unsigned int i;

	(void)state;
	open_hub(&moved_plain, &(struct shape){0});
	end_open(&from, &world, &moved_plain, &(struct shape){.hub = &hub});
	end_rtr(&from, &hub, &(struct shape){0});
	from.qp->state = IBV_QPS_RTS;
	mesh_vqp_fail(from.vqp, IBV_WC_RETRY_EXC_ERR);
	cq = cq_of_hub();
	mesh_lock(&cq->lock);
	cq->sw_cq.reserved = cq->sw_cq.size - 1; /* others have the rest */
	mesh_unlock(&cq->lock);
	for (i = 0; i < 4; i++) {
		wr.wr_id = i;
		assert_int_equal(ibv_post_send(from.qp, &wr, &bad), 0);
	}
	assert_int_equal(cq->sw_cq.n, 1);
	assert_int_equal(poll_plain(8, wc), 4);
	for (i = 0; i < 4; i++) {
		assert_int_equal(wc[i].wr_id, i);
		assert_int_equal(wc[i].status, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
	}
	cq->sw_cq.reserved = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_others_stay),
		T(test_goes_behind),
		T(test_shows_the_rest),
		T(test_plain_behind),
		T(test_all_that_was_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
