/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_POLLENDS_H
#define SIM_POLLENDS_H

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tracked_fixture.h"

/* One CQ and several queue pairs on it: of the program alone, tracked, and moved. */

#define PSN	 0x123u

extern struct end hub; /* has the CQ; its own QP is not used */
extern struct end tracked; /* tracked, connected to itself */
extern struct end bare; /* of the lower driver alone, connected to itself */
extern struct end from, to; /* moved; @from uses the hub's CQ */

extern const struct manner bare_ex, moved_ex;
extern const struct manner bare_plain, moved_plain;

int setup(void **state);
void close_end(struct end *e);
int teardown(void **state);
struct mesh_cq *cq_of_hub(void);
void open_hub(const struct manner *manner, const struct shape *shape);
void open_tracked(const struct manner *manner, uint32_t max_wr);
void open_bare(const struct manner *manner);
void open_moved(void);
void write_nothing(struct end *e, const struct end *peer, uint64_t wr_id);

/** start_poll - ibv_start_poll() of the hub's CQ shows @wr_id; the poll stays open */
void start_poll(uint64_t wr_id);
void end_poll_ex(void);
int in_a_thread(void *(*fn)(void *arg));

extern struct mv_move_sync sync_of_drain;

void *drain_elsewhere(void *arg);
void *wait_elsewhere(void *arg);

#define RECEIVE 4711u /* wr_id of all receives */

extern uint64_t n_given, n_received; /* sends of @tracked flushed so far, in order; receives */

void given(uint64_t wr_id, enum ibv_wc_status status);

/**
 * open_full - @tracked's send queue is full, for nothing receives, and a poll is open whose first completion is another
 * QP's Return: number of sends in the queue
 */
uint64_t open_full(void);

#endif
