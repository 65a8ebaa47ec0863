/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_HUB_H
#define SIM_MESH_HUB_H

#include "tracked_fixture.h"

/*
 * One SRQ of the program's, the hub's, and queue pairs that take receives from it: pairs, which are at the lower
 * provider or moved from the beginning, and live ones, which are moved while they are at work. Each receive is a slot
 * of the hub's buffer, and it is checked, wherever one is taken, that it was there. What is not said to return fails
 * the test.
 */

#define SLOTS	   48u
#define SLOT_BYTES 256u
#define MAX_PAIRS  6u

/* What a message says, at its start. */
struct message {
	uint32_t pair, seq;
};

/* A sender, and a receiver that takes from the hub's SRQ. */
struct pair {
	bool open;
	struct end from, to;
	uint32_t sent, received;
};

struct hub {
	struct end end; /* has SRQ, CQ and buffers; its own QP is not used */
	bool posted[SLOTS]; /* slot is in the SRQ */
	uint32_t lower; /* wr_id of slot 0 */
	struct pair pairs[MAX_PAIRS];
};

void hub_open(struct hub *h, const struct manner *manner);
/** hub_close - with its pairs, once they have received all that was sent to them */
void hub_close(struct hub *h);

/** post_slot - which is not in the SRQ */
void post_slot(struct hub *h, uint32_t slot);
/** post_missing - up to @n slots that are not there */
void post_missing(struct hub *h, uint32_t n);
/** take_slot - @wc is of a receive; returns its slot, which is not in the SRQ any more */
uint32_t take_slot(struct hub *h, const struct ibv_wc *wc);

/** pair_open - connected; @manner: of the receiver, and of the sender, but that it is not extended */
void pair_open(struct hub *h, uint32_t i, const struct manner *manner);
/** pair_close - once it has received all */
void pair_close(struct hub *h, uint32_t i);
/** pair_send - the next message */
void pair_send(struct hub *h, uint32_t i);
/** take_one - a message of any pair's, that pair's next; returns whether there was one */
bool take_one(struct hub *h);
/** take_all - until @p has received all */
void take_all(struct hub *h, struct pair *p);

/** hub_cable - pull or plug the cable of mlx5_0, or of the rail mlx5_1, and wait until that port
 * says so */
void hub_cable(bool rail, bool plugged);

/* ---- queue pairs that are moved while they are at work ------------------------------------------------------------ */

#define PSN	 0x123u
#define MAX_LIVE 3u

/* Connected to themselves, with the hub's SRQ. */
struct at_work {
	struct hub hub;
	uint32_t n; /* that at_work_close() closes */
	struct end ends[MAX_LIVE];
};

/** at_work_open - the first @n, at the lower provider, and 20 receives; the caller has it closed */
struct at_work *at_work_open(uint32_t n);
/** at_work_close - if an event was not acknowledged, or once too often, this does not return */
void at_work_close(struct at_work *l);
/** failover_connect - one in INIT */
void failover_connect(struct end *e);
/** at_work_works - what it sends arrives, and takes one of the SRQ's receives */
void at_work_works(struct at_work *l, struct end *e);
/** failover_drain - nothing of it is done at the lower provider any more; failover_move - and it goes on at the rail */
void failover_drain(struct end *e, struct mv_move_sync *sync);
void failover_move(struct end *e);
/** half_open - @from sends to @to, and its message ends in the middle: @to has begun to fill a receive */
void half_open(struct end *from, struct end *to);
/** n_counted - receives that are noted to be in @srq, wherever */
uint32_t n_counted(const struct mesh_srq *srq);

#endif
