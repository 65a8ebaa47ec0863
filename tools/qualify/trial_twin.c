// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "trial.h"

/* Since rdma-core 44. */
typedef int in_order_fn(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

static int in_order(struct ibv_qp *qp)
{
	in_order_fn *fn = (in_order_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "ibv_query_qp_data_in_order");

	return fn ? fn(qp, IBV_WR_RDMA_WRITE, 0) : -1;
}

static enum mv_trial_verdict compare(struct q_qp *a, struct q_qp *z, struct mv_qualified_trial *t)
{
	struct ibv_ece x, y;
	int err = ibv_query_ece(a->qp, &x), other = ibv_query_ece(z->qp, &y);

	q_figure(t, "data_in_order", in_order(a->qp));
	if (in_order(a->qp) != in_order(z->qp))
		return q_fail(t, "ibv_query_qp_data_in_order() says %d of one queue pair, %d of another that was made alike", in_order(a->qp), in_order(z->qp));
	if (err || other)
		return err && other ? q_skip(t, "the device has no ECE: %s", strerror(err)) : q_fail(t, "one queue pair has ECE, another that was made alike has none");
	q_figure(t, "ece_vendor", x.vendor_id);
	q_figure(t, "ece_options", x.options);
	q_figure(t, "ece_comp_mask", x.comp_mask);
	if (x.vendor_id != y.vendor_id || x.options != y.options)
		return q_fail(t, "ECE options of two queue pairs that were made alike: 0x%x and 0x%x", x.options, y.options);
	return MV_TRIAL_PASS;
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	const struct q_size size = {.send_wr = 4, .recv_wr = 4, .sge = 1};
	struct q_way way = q_way(b, IBV_MTU_256);
	struct q_qp a = {0}, z = {0}, far = {0};
	enum mv_trial_verdict verdict;
	int err = q_qp_make(&b->dut, &size, &a);

	if (!err)
		err = q_qp_make(&b->dut, &size, &z);
	if (!err)
		err = q_qp_make(b->peer, &size, &far);
	if (!err)
		err = q_connect(&a, &far, &way);
	if (!err)
		err = q_connect(&z, &far, &way);
	verdict = err ? q_broken(t, "queue pairs", err) : compare(&a, &z, t);
	q_qp_end(&a);
	q_qp_end(&z);
	q_qp_end(&far);
	return verdict;
}

const struct q_trial trial_twin = {
	.name = "twin",
	.assumption = "A second queue pair that is made and connected as the first has the same ECE options and order of data.",
	.source = "ibv_query_ece(3), ibv_query_qp_data_in_order(3), mlx5dv_create_qp(3)",
	.run = run,
};
