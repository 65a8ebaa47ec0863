/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_POLLENDS_H
#define SIM_POLLENDS_H

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "guarded.h"

/* One CQ and several queue pairs on it: of the program alone, tracked, and moved. */

#define PSN	 0x123u
#define PATIENCE 60 /* seconds, then something waits for ever */

extern struct end hub; /* has the CQ; its own QP is not used */
extern struct end guarded; /* connected to itself, may be moved */
extern struct end bare; /* connected to itself, not ours */
extern struct end from, to; /* moved; @from on the hub's CQ */

extern const struct manner bare_ex, moved_ex;
extern const struct manner bare_plain, moved_plain;

int setup(void **state);
void close_end(struct end *e);
int teardown(void **state);
struct mesh_cq *cq_of_hub(void);
void open_hub(const struct manner *manner, const struct shape *shape);
void open_guarded(const struct manner *manner, uint32_t max_wr);
void open_bare(const struct manner *manner);
void open_moved(void);
void write_nothing(struct end *e, const struct end *peer, uint64_t wr_id);

/* The session stays open. */
void start_poll(uint64_t wr_id);
void end_poll_ex(void);
int in_a_thread(void *(*fn)(void *arg));

extern struct mv_move_sync sync_of_fence;

void *fence_elsewhere(void *arg);
void *wait_elsewhere(void *arg);

#define RECEIVE 4711u /* wr_id of all of them */

extern uint64_t n_given, n_received; /* so many of @guarded's sends have been flushed, in order; and of its receives */

void given(uint64_t wr_id, enum ibv_wc_status status);

/* Nobody receives, so @guarded's queue is full, and a poll is open of which another's completion is the first. Return: how many it took */
uint64_t open_full(void);

#endif
