/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_RUN_H
#define SIM_MESH_RUN_H

#include "moved.h"

#define SIGNALED IBV_SEND_SIGNALED

/* Two ends, of which @a sends. */
struct run {
	struct end a, b;
};

void run_open(struct run *r, const struct manner *manner, const struct shape *shape);
void run_close(struct run *r);
/** run_early_rts - the program has both in RTS before there are shadows that could be */
void run_early_rts(struct run *r);

struct sending {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

/**
 * sending - fill @s with a work request of @a's; returns @s
 *
 * @offset: of what is sent in @a's buffer, and of where it goes in @b's
 */
struct sending *sending(struct sending *s, struct run *r, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length,
			unsigned int flags);
/** run_send - post that, and answer for keys that are late; returns the errno */
int run_send(struct run *r, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length, unsigned int flags);
/** must_send - likewise, and it is taken */
void must_send(struct run *r, uint64_t wr_id, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t length, unsigned int flags);
/** must_come - an event of the end's CQ, within five seconds */
void must_come(struct end *e);

#endif
