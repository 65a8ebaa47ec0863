/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The mlx5 reader on rings of any content: it never leaves them, and what it reads is what its
 * caller has room for. The first bytes say where the queue begins and ends; the rest is the ring.
 */
#include "fuzz.h"

#include <endian.h>
#include <string.h>

#include "wrmlx5.h"

#define QPN        0x000007
#define MAX_SGE    5
#define MAX_INLINE 100
#define HEADER     8

static void read_one(const struct mv_mlx5_ring *ring, uint16_t at)
{
	struct ibv_sge sges[MAX_SGE];
	uint8_t data[MAX_INLINE];
	uint64_t length = 0;
	struct mv_wr wr;
	uint16_t next;

	if (mv_mlx5_sq_get(ring, QPN, at, MAX_SGE, MAX_INLINE, sges, data, &wr, &next))
		return;
	FUZZ_CHECK((uint16_t)(next - at) >= 1 && (uint16_t)(next - at) <= ring->n_wqes);
	FUZZ_CHECK(wr.wr.num_sge >= 0 && wr.wr.num_sge <= MAX_SGE);
	FUZZ_CHECK(wr.wr.sg_list == sges);
	for (int s = 0; s < wr.wr.num_sge; s++)
		length += sges[s].length;
	FUZZ_CHECK(length == wr.length_bytes);
	FUZZ_CHECK(mv_psn_count(wr.wr.opcode, 1, 256) == 1);
	if (wr.wr.send_flags & IBV_SEND_INLINE)
		FUZZ_CHECK(wr.wr.num_sge == 1 && sges[0].addr == (uintptr_t)data && sges[0].length <= MAX_INLINE);
}

/* Both ways of adding up say the same. */
static void read_sends(const struct mv_mlx5_ring *ring, uint16_t from, uint16_t end, uint16_t other)
{
	uint32_t psns = 0x1000000, consumes;
	struct mv_mlx5_run run;

	read_one(ring, from);
	read_one(ring, other);
	if (!mv_mlx5_sq_psns(ring, QPN, from, end, 1024, &psns, &consumes))
		FUZZ_CHECK(psns <= 0xffffff && consumes <= ring->n_wqes);
	if (mv_mlx5_sq_pass(ring, QPN, from, other, 1024, &run))
		return;
	FUZZ_CHECK((uint16_t)(run.next - from) <= 2 * ring->n_wqes && run.psns <= 0xffffff);
	if ((uint16_t)(run.next - from) > ring->n_wqes)
		return; /* the last one comes round to the first */
	FUZZ_CHECK(!mv_mlx5_sq_psns(ring, QPN, from, run.next, 1024, &psns, &consumes));
	FUZZ_CHECK(psns == run.psns && consumes == run.consumes);
}

static void read_receives(struct mv_mlx5_ring ring, uint16_t end, uint32_t n)
{
	struct ibv_sge sges[MAX_SGE];

	ring.stride = 64;
	for (uint32_t i = 0; i <= n; i++) {
		int n_sges = mv_mlx5_rq_read(&ring, end, n, i, MAX_SGE, sges);

		FUZZ_CHECK(n_sges < 0 ? i >= n || n > ring.n_wqes : n_sges <= 4);
	}
}

static void peek(const uint8_t *buf, uint32_t n_cqes)
{
	__be32 index;
	struct mv_mlx5_cq cq = {buf, n_cqes, 64, &index};
	struct mv_mlx5_cqe cqe;

	for (uint32_t i = 0; i < 4 * n_cqes; i++) {
		index = htobe32(i / 2);
		if (!mv_mlx5_cqe_peek(&cq, i / 2, &cqe))
			FUZZ_CHECK(cqe.qpn <= 0xffffff);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint16_t from, end, other;
	uint32_t n_blocks = 1;
	__be32 dbrec[2];
	uint8_t *buf;
	struct mv_mlx5_ring ring;

	if (size < HEADER + 64)
		return 0;
	while ((n_blocks * 2 + 1) * 64 <= size - HEADER + 64 && n_blocks < 64)
		n_blocks *= 2;
	while (n_blocks * 64 > size - HEADER)
		n_blocks /= 2;
	/* A copy of just that size: a sanitizer sees what is beyond it. */
	buf = aligned_alloc(64, n_blocks * 64);
	if (!buf)
		return 0;
	memcpy(buf, data + HEADER, n_blocks * 64);
	memcpy(&from, data, 2);
	memcpy(&end, data + 2, 2);
	memcpy(&other, data + 4, 2);
	dbrec[0] = dbrec[1] = htobe32(end);
	ring = (struct mv_mlx5_ring){buf, n_blocks, 64, dbrec};
	read_sends(&ring, from, end, other);
	read_receives(ring, from, data[6]);
	peek(buf, n_blocks);
	free(buf);
	return 0;
}
