/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_LOOP_H
#define SIM_MESH_LOOP_H

#include <stdint.h>

#include "rails.h"

/*
 * Two connected queue pairs in one PD of a rail: whatever keys are given to them, the data goes out of memory and
 * into memory through that rail's HCA.
 */
struct loop {
	struct mesh_rail *rail;
	struct ibv_cq *cq;
	struct ibv_qp *a, *b; /* a asks */
};

/** loop_open - fails the running cmocka test if it cannot be had */
void loop_open(struct loop *l, struct mesh_rail *rail, struct ibv_pd *pd);
void loop_close(struct loop *l);

/** loop_write, loop_read - one RDMA of a's; returns how it completed. After an error the loop is of no more use. */
enum ibv_wc_status loop_write(struct loop *l, const void *from, uint32_t lkey, uint64_t to, uint32_t rkey,
			      uint32_t length);
enum ibv_wc_status loop_read(struct loop *l, void *to, uint32_t lkey, uint64_t from, uint32_t rkey, uint32_t length);

/** loop_once - loop_write() on a loop of its own */
enum ibv_wc_status loop_once(struct mesh_pd *spd, const void *from, uint32_t lkey, uint64_t to, uint32_t rkey,
			     uint32_t length);

/** open_named - a device of the program's, fails the test */
struct ibv_context *open_named(const char *name);

#endif
