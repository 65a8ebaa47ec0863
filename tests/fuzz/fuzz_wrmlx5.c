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

static void read_all(const struct mv_mlx5_sq *sq)
{
	struct ibv_sge sges[MAX_SGE];
	uint8_t data[MAX_INLINE];
	uint64_t length;
	struct mv_wr wr;

	for (size_t i = 0; i < mv_wrlog_count(&sq->log); i++) {
		if (mv_wrlog_get(&sq->log, i, sges, data, &wr))
			continue;
		FUZZ_CHECK(wr.wr.num_sge >= 0 && wr.wr.num_sge <= MAX_SGE);
		FUZZ_CHECK(wr.wr.sg_list == sges);
		length = 0;
		for (int s = 0; s < wr.wr.num_sge; s++)
			length += sges[s].length;
		FUZZ_CHECK(length == wr.length_bytes);
		FUZZ_CHECK(mv_psn_count(wr.wr.opcode, 1, 256) == 1);
		if (wr.wr.send_flags & IBV_SEND_INLINE)
			FUZZ_CHECK(wr.wr.num_sge == 1 && sges[0].addr == (uintptr_t)data &&
				   sges[0].length <= MAX_INLINE);
	}
}

static void read_sends(const struct mv_mlx5_ring *ring, uint16_t from, uint16_t end, uint16_t other)
{
	struct mv_mlx5_done done[] = {{1, from, false}, {2, other, true}};
	uint32_t psns = 0x1000000, consumes;
	struct mv_mlx5_sq sq;

	for (size_t n = 0; n <= 2; n++) {
		if (mv_mlx5_sq_read(&sq, ring, QPN, MAX_SGE, MAX_INLINE, end, done, n))
			continue;
		FUZZ_CHECK(sq.n >= n && sq.n <= ring->n_wqes && sq.n_done <= sq.n);
		read_all(&sq);
		mv_mlx5_sq_fini(&sq);
	}
	if (!mv_mlx5_sq_psns(ring, QPN, from, end, 1024, &psns, &consumes))
		FUZZ_CHECK(psns <= 0xffffff && consumes <= ring->n_wqes);
	mv_mlx5_sq_flushed(ring, QPN, from);
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
