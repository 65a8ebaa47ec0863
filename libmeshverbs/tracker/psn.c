/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "psn.h"

#include <errno.h>

#define MAX_MESSAGE_BYTES (UINT64_C(1) << 31) /* IBTA 9.7.2 */

/*
 * A requester has at most 2^23 - 1 packets outstanding (IBTA 9.7.3). Its first outstanding work request may be
 * acknowledged in part.
 */
#define MAX_OUTSTANDING 0x7fffffu

uint32_t mv_psn_count(enum ibv_wr_opcode opcode, uint64_t length_bytes, uint32_t mtu_bytes)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_READ:
		if (length_bytes > MAX_MESSAGE_BYTES)
			return 0;
		return length_bytes ? (uint32_t)((length_bytes - 1) / mtu_bytes) + 1 : 1;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return 1;
	default:
		return 0;
	}
}

static bool is_atomic(uint8_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* It returns a result to the requester, so it is complete when the result has arrived, not when it was executed. */
static bool has_result(uint8_t opcode)
{
	return is_atomic(opcode) || opcode == IBV_WR_RDMA_READ;
}

static bool replayable(uint8_t opcode)
{
	/* SEND_WITH_INV: the peer's key has been invalidated, and perhaps allocated again. */
	return opcode != IBV_WR_SEND_WITH_INV && mv_psn_count(opcode, 0, 256);
}

static bool mtu_exists(uint32_t bytes)
{
	return bytes >= 256 && bytes <= 4096 && !(bytes & (bytes - 1));
}

/* How far the responder has come. */
struct reach {
	size_t executed; /* number of work requests that were executed completely */
	uint32_t packets; /* executed packets of the next one */
};

/* Return: number of PSNs; 0: cannot be accounted for. */
static uint32_t psns_of(const struct mv_psn_wr *wr, uint32_t mtu_bytes)
{
	return replayable(wr->opcode) ? mv_psn_count(wr->opcode, wr->length_bytes, mtu_bytes) : 0;
}

/*
 * Completed work requests are not outstanding, and may have taken any number of PSNs, even more than 2^24. So rq_psn is
 * searched behind them only.
 *
 * Return: 0; -EOPNOTSUPP; -ERANGE.
 */
static int find_reach(const struct mv_psn_wr *wrs, size_t n, const struct mv_psn_view *view,
		      struct reach *ret)
{
	struct reach reach = {.executed = view->n_done};
	uint32_t from = view->first_psn, ahead, psns;
	bool found = false;

	for (size_t i = 0; i < view->n_done; i++) {
		psns = psns_of(&wrs[i], view->mtu_bytes);
		if (!psns)
			return -EOPNOTSUPP;
		from = mv_psn_add(from, psns);
	}
	ahead = mv_psn_ahead(from, view->rq_psn);
	for (size_t i = view->n_done; i < n; i++) {
		psns = psns_of(&wrs[i], view->mtu_bytes);
		if (!psns)
			return -EOPNOTSUPP;
		if (i == view->n_done && ahead > psns && ahead - psns > MAX_OUTSTANDING)
			return -ERANGE;
		if (found)
			continue;
		if (ahead < psns) {
			reach.packets = ahead;
			found = true;
			continue;
		}
		reach.executed++;
		ahead -= psns;
	}
	if (!found && ahead)
		return -ERANGE;
	*ret = reach;
	return 0;
}

/*
 * Return: number of executed work requests, from the first, whose results must have arrived before the last one was
 * sent.
 */
static size_t find_answered(const struct mv_psn_wr *wrs, const struct reach *reach,
			    const struct mv_psn_view *view)
{
	size_t sent = reach->executed + (reach->packets != 0), answered = view->n_done;
	uint32_t open = 0;

	/* A fenced one was sent after all before it were complete. */
	for (size_t i = sent; i-- > answered;) {
		if (wrs[i].fence)
			answered = i;
	}
	if (!view->max_rd_atomic)
		return answered;
	for (size_t i = sent; i-- > answered;) {
		if (has_result(wrs[i].opcode) && ++open > view->max_rd_atomic)
			answered = i + 1;
	}
	return answered;
}

int mv_psn_decide(const struct mv_psn_wr *wrs, size_t n, const struct mv_psn_view *view, enum mv_fate *ret_fates,
		  uint32_t *ret_packets)
{
	struct reach reach;
	size_t answered;
	int err;

	if (view->n_done > n || !mtu_exists(view->mtu_bytes))
		return -EINVAL;
	err = find_reach(wrs, n, view, &reach);
	if (err)
		return err;
	answered = find_answered(wrs, &reach, view);
	for (size_t i = 0; i < n; i++) {
		if (i >= reach.executed)
			ret_fates[i] = MV_FATE_REPLAY;
		else if (i < answered || !has_result(wrs[i].opcode))
			ret_fates[i] = MV_FATE_DONE;
		else
			ret_fates[i] = is_atomic(wrs[i].opcode) ? MV_FATE_LOST : MV_FATE_REPLAY;
	}
	if (ret_packets)
		*ret_packets = reach.packets;
	return 0;
}
