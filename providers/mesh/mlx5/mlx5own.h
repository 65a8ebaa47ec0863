/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5OWN_H
#define MESH_MLX5OWN_H

#include "mlx5.h"

struct mlx5_cqe64;

/*
 * An RC queue pair of the plugin on mlx5, to see what libmlx5 does when it consumes a CQE. The plugin writes the CQEs itself,
 * into the memory of a CQ. So it chooses the kinds and the order of the CQEs, and needs no network.
 *
 * The plugin writes them into a CQ that no queue pair has (@cq). libmlx5 does not check to which CQ a queue pair belongs. The
 * device never writes to @cq, so it does not notice an unexpected consumer index, and reports no CQ overrun to the program.
 *
 * The device's own CQEs go to another CQ (@device_cq). There is only one: of a receive that is flushed. This CQE tells the
 * number by which libmlx5 finds the queue pair (srqn_uidx). All later work requests stay outstanding. libmlx5 refuses sends
 * before RTS, so the queue pair is in RTS, without a timeout. Its peer, @sink, is another queue pair of the plugin, stays in
 * RESET, and never answers. So the first send, a READ, waits for ever. The later sends are fenced, and wait for the READ.
 *
 * The caller of these functions holds data->lock.
 */

#define MESH_OWN_WRS   256u /* sends, and receives, that can be posted: the device completes none, so the queues only fill up */
#define MESH_OWN_KINDS 8u /* kinds of sends */

struct mesh_own {
	struct mesh_context *mc;
	struct ibv_cq *cq; /* of the CQEs that the plugin writes */
	struct ibv_cq *device_cq; /* of both queue pairs */
	struct ibv_qp *qp, *sink; /* @sink: peer of @qp */
	struct mv_mlx5_cq cqes, device_cqes;
	struct mv_mlx5_ring sq, rq;
	uint32_t uidx; /* srqn_uidx in CQEs of @qp */
	uint32_t n_written; /* CQEs written to @cq: index of the next one */
	uint32_t n_sends, n_recvs; /* posted since RESET */
};

/* A send that was posted. */
struct mesh_own_send {
	uint64_t wr_id;
	uint32_t nth; /* serial number since RESET, from 0 */
	uint16_t place; /* wqe_counter of its CQE */
	uint8_t opcode; /* of mlx5 */
};

/**
 * mesh_own_open - make and connect the queue pair
 *
 * Return: 0; -EOPNOTSUPP: impossible with this device or libmlx5; other -errno: not now. On failure, @ret is as after
 * mesh_own_close().
 */
int mesh_own_open(struct mesh_context *mc, struct mesh_own *ret);
/** mesh_own_close - destroy it; also if @own is all zeros */
void mesh_own_close(struct mesh_own *own);

/**
 * mesh_own_send - post a signaled send
 * @kind: below MESH_OWN_KINDS. Selects the opcode; READs and atomics are among them. Kind 0 takes two basic blocks of the send
 * queue, other kinds take one.
 *
 * Return: false: not posted: the send queue is full, the device has written an unexpected CQE, or libmlx5 refuses.
 */
bool mesh_own_send(struct mesh_own *own, unsigned int kind, uint64_t wr_id, struct mesh_own_send *ret);
/** mesh_own_recv - post a receive; Return: as mesh_own_send() */
bool mesh_own_recv(struct mesh_own *own, uint64_t wr_id);

/**
 * mesh_own_sent, mesh_own_received - write the CQE of a successful send, or receive, to @own->cq, as the device would
 * @nth: serial number of the receive, from 0
 * @opcode: MLX5_CQE_RESP_*
 * @bytes, @imm, @flags_rqpn: byte_cnt, imm_inval_pkey, flags_rqpn of the CQE
 */
void mesh_own_sent(struct mesh_own *own, const struct mesh_own_send *send, uint32_t bytes);
void mesh_own_received(struct mesh_own *own, uint32_t nth, unsigned int opcode, uint32_t bytes, uint32_t imm, uint32_t flags_rqpn);

/* Copies of libmlx5's structs of @cq and @qp: mesh_mlx5_copy(). */
struct mesh_own_state {
	union mesh_own_words {
		uint32_t word[MESH_MLX5_BYTES / sizeof(uint32_t)];
		uint64_t pointer[MESH_MLX5_BYTES / sizeof(uint64_t)];
		char bytes[MESH_MLX5_BYTES];
	} cq, qp;
};

/**
 * mesh_own_room, mesh_own_room_free - @n bytes of zeroed memory for a search
 *
 * The memory of a search changes with each look. The memory comes from mmap(), not from malloc(), so that it does not lie
 * behind libmlx5's structs, where copies may show the changes (mesh_mlx5_copy()). Return: NULL: no memory.
 * mesh_own_room_free(): NULL is fine.
 */
void *mesh_own_room(size_t n);
void mesh_own_room_free(void *room, size_t n);

/** mesh_own_look - copy libmlx5's structs of @own->cq and @own->qp. Return: 0 or -errno. */
int mesh_own_look(const struct mesh_own *own, struct mesh_own_state *ret);

/**
 * mesh_own_write - write a CQE to any CQ
 * @index: of the CQE, free-running
 * @cqe: its owner bit does not matter; @index decides the bit that is written
 */
void mesh_own_write(const struct mv_mlx5_cq *to, uint32_t index, const struct mlx5_cqe64 *cqe);
/** mesh_own_cqe - make the CQE that mesh_own_sent() writes */
void mesh_own_cqe(const struct mesh_own *own, const struct mesh_own_send *send, uint32_t bytes, struct mlx5_cqe64 *ret);

#endif
