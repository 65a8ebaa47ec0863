// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "trial.h"

#define RECEIVES  1024
#define ROUNDS    8
#define DEPTH     64 /* outstanding SENDs */
#define ANSWER_NS 10000000000ull

/* Sends until a SEND finds no receive. *ret_status: status of that SEND. */
static int send_all(struct q_qp *req, struct q_mem *from, uint32_t *ret_sent, enum ibv_wc_status *ret_status)
{
	uint32_t posted = 0, sent = 0;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	int err = 0;

	while (!err && wc.status == IBV_WC_SUCCESS) {
		for (; posted - sent < DEPTH && !err; posted++)
			err = q_post(req, &(struct q_post){.wr_id = posted, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .from = from, .length = 1});
		if (!err)
			err = q_wait(req->send_cq, ANSWER_NS, &wc);
		sent += !err && wc.status == IBV_WC_SUCCESS;
		if (sent > RECEIVES)
			break;
	}
	*ret_sent = sent;
	*ret_status = wc.status;
	return err;
}

static enum mv_trial_verdict one(struct q_bench *b, struct q_qp *req, struct q_qp *resp, struct q_mem *from, struct q_mem *to, struct mv_qualified_trial *t)
{
	struct q_way way = q_way(b, IBV_MTU_256);
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	uint32_t received = 0, sent = 0;
	struct ibv_wc wc;
	int err;

	way.rnr_retry = 0;
	err = q_connect(req, resp, &way);
	for (uint32_t i = 0; i < RECEIVES && !err; i++)
		err = q_post_recv(resp, i, to, 0, 16);
	if (!err)
		err = send_all(req, from, &sent, &status);
	if (err)
		return q_broken(t, "SENDs to a shared receive queue", err);
	if (sent > RECEIVES)
		return q_fail(t, "%u SENDs were acknowledged, though only %u receives were posted", sent, RECEIVES);
	if (status != IBV_WC_RNR_RETRY_EXC_ERR)
		return q_unsure(t, "a SEND ended with: %s", ibv_wc_status_str(status));
	while (received < sent && !q_wait(resp->recv_cq, ANSWER_NS, &wc))
		received += wc.status == IBV_WC_SUCCESS;
	if (sent != RECEIVES)
		return q_fail(t, "%u receives were posted, but after %u SENDs the queue was said to be empty", RECEIVES, sent);
	return received == sent ? MV_TRIAL_PASS : q_fail(t, "%u SENDs were acknowledged, %u receives completed", sent, received);
}

static enum mv_trial_verdict run(struct q_bench *b, struct mv_qualified_trial *t)
{
	const struct q_size size = {.send_wr = DEPTH, .recv_wr = RECEIVES, .sge = 1, .with_srq = true};
	const struct q_size plain = {.send_wr = DEPTH, .recv_wr = 1, .sge = 1};
	enum mv_trial_verdict verdict = MV_TRIAL_PASS;
	struct q_qp req = {0}, resp = {0};
	struct q_mem from = {0}, to = {0};
	uint32_t n;
	int err = q_qp_make(b->peer, &plain, &req);

	if (!err)
		err = q_qp_make(&b->dut, &size, &resp);
	if (!err)
		err = q_mem_make(b->peer, 4096, &from);
	if (!err)
		err = q_mem_make(&b->dut, 4096, &to);
	if (err)
		verdict = q_broken(t, "queue pairs and memory", err);
	for (n = 0; n < ROUNDS && verdict == MV_TRIAL_PASS && q_has_time(b); n++)
		verdict = one(b, &req, &resp, &from, &to, t);
	q_figure(t, "rounds", n);
	q_figure(t, "receives", RECEIVES);
	q_qp_end(&req);
	q_qp_end(&resp);
	q_mem_end(&from);
	q_mem_end(&to);
	return verdict == MV_TRIAL_PASS && !n ? q_unsure(t, "no time was left") : verdict;
}

const struct q_trial trial_srq_drain = {
	.name = "srq-drain",
	.assumption = "A SEND that finds no receive (RNR) means that a shared receive queue is empty: all receives posted before can be taken out.",
	.source = "IBTA vol. 1, 9.7.5.2.8; whether a device reads receives ahead is not documented",
	.run = run,
};
