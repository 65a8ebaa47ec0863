/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MLX5OWN_H
#define MESH_MLX5OWN_H

#include "mlx5.h"

struct mlx5_cqe64;

/*
 * An RC queue pair of ours, of mlx5, on which it is tried out what libmlx5 does when it takes a completion. The completions are written by
 * us, into memory that is this process's, so there are just those that are wanted, of kinds and in an order that no network has to bring
 * about. They are written into a CQ that is no queue pair's: libmlx5 does not ask whose a CQ is, and the device never writes there, so it
 * finds no index that it did not expect (it would tell the program of an overrun).
 *
 * The device's own completions go to another CQ, and there is one: of a receive that is flushed, from which it is known by what number libmlx5 finds the
 * queue pair. Of what is posted after that it makes none. Since libmlx5 lets nothing be posted before RTS, the queue pair goes there, connected to one of
 * ours that is in RESET, without a timeout: the first work request, a READ, waits for ever, and all others behind it, for they are fenced.
 *
 * data->lock.
 */

#define MESH_OWN_WRS   256u /* of each kind that can be posted in its life: the device does none, so its queues only fill up */
#define MESH_OWN_KINDS 8u /* of sends */

struct mesh_own {
	struct mesh_context *mc;
	struct ibv_cq *cq; /* the one in which the completions are that we write */
	struct ibv_cq *device_cq; /* the queue pairs' */
	struct ibv_qp *qp, *sink; /* what it is connected to, and never answers */
	struct mv_mlx5_cq cqes, device_cqes;
	struct mv_mlx5_ring sq, rq;
	uint32_t uidx; /* srqn_uidx of its completions */
	uint32_t n_written; /* completions: index of the next one */
	uint32_t n_sends, n_recvs; /* posted since RESET */
};

/* A send that was posted. */
struct mesh_own_send {
	uint64_t wr_id;
	uint32_t nth; /* counted from 0 */
	uint16_t place; /* wqe_counter of its completion */
	uint8_t opcode; /* of mlx5 */
};

/** mesh_own_open - Return: 0 or -errno, -EOPNOTSUPP where it cannot be at all; then as after mesh_own_close() */
int mesh_own_open(struct mesh_context *mc, struct mesh_own *ret);
void mesh_own_close(struct mesh_own *own); /* zeroed or opened */

/**
 * mesh_own_send - post one; signaled
 * @kind: below MESH_OWN_KINDS: with and without data to come, of one or two places in the queue
 *
 * Return: false: as many as can be were posted, or the device has completed something after all.
 */
bool mesh_own_send(struct mesh_own *own, unsigned int kind, uint64_t wr_id, struct mesh_own_send *ret);
bool mesh_own_recv(struct mesh_own *own, uint64_t wr_id); /* likewise */

/** mesh_own_sent - a successful completion of that send, as the device would write it; mesh_own_received - of the @nth receive */
void mesh_own_sent(struct mesh_own *own, const struct mesh_own_send *send, uint32_t bytes);
void mesh_own_received(struct mesh_own *own, uint32_t nth, unsigned int opcode, uint32_t bytes, uint32_t imm, uint32_t flags_rqpn);

/* What libmlx5 keeps of both; the rest is zeros. */
struct mesh_own_state {
	union mesh_own_words {
		uint32_t word[MESH_MLX5_BYTES / sizeof(uint32_t)];
		uint64_t pointer[MESH_MLX5_BYTES / sizeof(uint64_t)];
		char bytes[MESH_MLX5_BYTES];
	} cq, qp;
};

/**
 * mesh_own_room - zeroed memory that does not lie behind any of that; NULL: there is none
 *
 * What is looked with changes with each look. mesh_own_room_free(): NULL is fine.
 */
void *mesh_own_room(size_t n);
void mesh_own_room_free(void *room, size_t n);

/** mesh_own_look - copy that; 0 or -errno */
int mesh_own_look(const struct mesh_own *own, struct mesh_own_state *ret);

/** mesh_own_write - @cqe: what is written for @to, another CQ too; its owner bit is what it has to be at @index */
void mesh_own_write(const struct mv_mlx5_cq *to, uint32_t index, const struct mlx5_cqe64 *cqe);
/** mesh_own_cqe - what mesh_own_sent() writes */
void mesh_own_cqe(const struct mesh_own *own, const struct mesh_own_send *send, uint32_t bytes, struct mlx5_cqe64 *ret);

#endif
