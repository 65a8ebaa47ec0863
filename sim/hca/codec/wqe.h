/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Work queue elements of mlx5, read from the program's ring. Layouts: <infiniband/mlx5dv.h>. Pure
 * functions over the ring; the ring may change under them (it is the program's memory), so every
 * field is read once and checked after.
 */
#ifndef SIM_WQE_H
#define SIM_WQE_H

#include <stdbool.h>
#include <stdint.h>

#define WQE_BB           64 /* basic block, bytes */
#define WQE_UNIT         16 /* what the "ds" of a control segment counts */
#define WQE_MAX_DS       63
#define WQE_INVALID_LKEY 0x100 /* ends the list of a receive WQE */

struct wqe_ring {
	const uint8_t *buf;
	uint32_t n_bbs; /* power of two */
};

struct wqe_seg {
	uint64_t addr;
	uint32_t len;
	uint32_t lkey;
	const uint8_t *inl; /* inline data: where it starts in the ring (it may wrap at the ring's
			       end); else NULL */
};

/* Address vector of a datagram, from struct mlx5_wqe_av. */
struct wqe_av {
	uint32_t qkey;
	uint32_t dest_qpn;
	uint8_t sl;
	uint16_t udp_sport; /* RoCE v2; shares its place with the LID */
	uint16_t rlid;
	uint8_t dmac[6];
	uint8_t traffic_class, hop_limit;
	bool grh;
	uint8_t sgid_index;
	uint32_t flow_label;
	uint8_t dgid[16];
};

struct send_wqe {
	uint8_t opcode; /* MLX5_OPCODE_* */
	uint8_t fence; /* 0 none ... 4 wait for all READs and atomics */
	bool signaled, solicited;
	uint8_t ds;
	uint8_t data; /* first data segment, in units of WQE_UNIT from the start */
	uint16_t index; /* basic block counter where it starts, as in its completion */
	uint16_t n_bbs;
	uint32_t imm;
	uint64_t raddr;
	uint32_t rkey;
	uint64_t swap_add, compare;
	uint64_t length; /* of all data segments */
	struct wqe_av av;
	uint8_t error; /* MLX5_CQE_SYNDROME_* found while decoding, 0 if well-formed */

	/* filled by the transport */
	uint32_t first_psn, last_psn;
	bool started; /* PSNs are assigned */
};

enum wqe_transport { WQE_CONNECTED, WQE_DATAGRAM };

/**
 * wqe_decode() - decode the work request that starts at basic block @index.
 * @avail: basic blocks posted from there on, at least 1.
 * @qpn: number that the control segment must carry.
 *
 * What is wrong with it is put into @ret->error, and it counts as one basic block if its size is
 * not believable.
 */
void wqe_decode(const struct wqe_ring *ring, uint16_t index, uint16_t avail, uint32_t qpn,
		enum wqe_transport t, struct send_wqe *ret);

/**
 * wqe_next_seg() - walk the data segments.
 * @unit: in: @w->data or the last result; out: where the next one starts.
 *
 * Return: true and *@ret, or false at the end or at something malformed.
 */
bool wqe_next_seg(const struct wqe_ring *ring, const struct send_wqe *w, uint8_t *unit,
		  struct wqe_seg *ret);

/** wqe_copy_inline() - copy @len bytes at @off of inline segment @s; the ring's end wraps to its
 * start. */
void wqe_copy_inline(const struct wqe_ring *ring, const struct wqe_seg *s, uint32_t off,
		     uint32_t len, uint8_t *dst);

/**
 * wqe_recv_segs() - read the scatter list of a receive WQE.
 * @wqe: its first data segment. @max: data segments that fit.
 * @segs: room for @max.
 *
 * Return: number of segments before the terminator (an entry with the invalid lkey).
 */
uint32_t wqe_recv_segs(const uint8_t *wqe, uint32_t max, struct wqe_seg *segs);

#endif
