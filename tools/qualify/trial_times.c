// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trial.h"

#define TIMES    20
#define MR_BYTES (1u << 20)

enum step { CREATE, INIT, RTR, RTS, QUERY, ERR, DESTROY, REG_MR, N_STEPS };

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double median_us(uint64_t *ns, size_t n)
{
	qsort(ns, n, sizeof(*ns), compare_ns);
	return (double)ns[n / 2] / 1e3;
}

/* Return: time since *@since, which becomes the present time. */
static uint64_t lap(uint64_t *since)
{
	uint64_t began_ns = *since;

	*since = q_now_ns();
	return *since - began_ns;
}

static int one(struct q_bench *b, struct q_qp *peer, uint64_t ns[N_STEPS])
{
	const struct q_size size = {.send_wr = 128, .recv_wr = 128, .sge = 1};
	struct q_way way = q_way(b, IBV_MTU_256);
	struct q_mem mem = {0};
	struct q_qp qp = {0};
	uint64_t at_ns = q_now_ns();
	uint32_t psn;
	int err = q_qp_make(&b->dut, &size, &qp);

	ns[CREATE] = lap(&at_ns);
	if (!err)
		err = q_to_init(&qp);
	ns[INIT] = lap(&at_ns);
	if (!err)
		err = q_to_rts(&qp, peer, &way, 0, 0);
	ns[RTR] = lap(&at_ns);
	if (!err)
		err = q_rq_psn(&qp, &psn);
	ns[QUERY] = lap(&at_ns);
	if (!err)
		err = q_to(&qp, IBV_QPS_ERR);
	ns[ERR] = lap(&at_ns);
	q_qp_end(&qp);
	ns[DESTROY] = lap(&at_ns);
	if (!err)
		err = q_mem_make(&b->dut, MR_BYTES, &mem);
	ns[REG_MR] = lap(&at_ns);
	q_mem_end(&mem);
	return err;
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	static const char *const names[N_STEPS] = {[CREATE] = "create_qp_and_cqs_us", [INIT] = "modify_init_us", [RTR] = "modify_rtr_rts_us",
						   [QUERY] = "query_us", [ERR] = "modify_err_us", [DESTROY] = "destroy_us", [REG_MR] = "reg_mr_1mib_us"};
	const struct q_size size = {.send_wr = 4, .recv_wr = 4, .sge = 1};
	uint64_t ns[N_STEPS][TIMES], once[N_STEPS] = {0};
	struct q_qp peer = {0};
	uint32_t n;
	int err = q_qp_make(b->peer, &size, &peer);

	for (n = 0; n < TIMES && !err; n++) {
		err = one(b, &peer, once);
		for (int s = 0; s < N_STEPS; s++)
			ns[s][n] = once[s];
	}
	q_qp_end(&peer);
	if (err)
		return q_broken(t, "a command", err);
	for (int s = 0; s < N_STEPS; s++)
		if (names[s])
			q_figure(t, names[s], median_us(ns[s], n));
	return MV_TRIAL_PASS;
}

const struct q_trial trial_times = {
	.name = "times",
	.assumption = "None: medians of what the commands of a move take on this device, in microseconds.",
	.source = "measured",
	.run = run,
};
