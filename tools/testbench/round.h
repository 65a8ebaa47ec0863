/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTBENCH_ROUND_H
#define TESTBENCH_ROUND_H

#include "bench.h"

/*
 * A round: a requester posts messages, the responder is brought to ERR in the middle, and its rq_psn is compared with
 * memory. Each packet of a WRITE or SEND has its own place in memory, whose first and last byte show whether it
 * arrived.
 */

#define ROUND_MESSAGES 512
#define ROUND_INLINE   100 /* most bytes of an inline message */
#define ROUND_SLOT     4096u /* bytes between the places of two packets */

struct round_message {
	enum ibv_wr_opcode opcode; /* WRITE, SEND, READ, FETCH_ADD */
	uint32_t length; /* for READ, WRITE and SEND */
	bool inlined;
};

struct round {
	struct q_qp req, resp; /* @req on the bench's peer, @resp on the device under test */
	struct q_mem from, to; /* bytes sent, and their destination */
	struct q_mem sink, well; /* for READs: destination at the requester, and source; after the source: the counter of atomics */
	enum ibv_mtu mtu;
	struct round_message messages[ROUND_MESSAGES];
	uint32_t n;
	uint8_t stamp; /* mark of this round, never 0 */
	uint32_t psn; /* of the first packet */
	uint32_t total; /* PSNs of all messages */
	uint32_t stall; /* message that finds no receive, so nothing from it on is executed; 0: none */
};

/* Result of a round. */
struct round_end {
	uint32_t executed; /* number of PSNs, by rq_psn */
	uint32_t executed_messages; /* complete ones */
	bool informative; /* neither none nor all were executed */
	bool cut; /* informative, and not because of @stall */
};

int round_open(struct q_bench *b, struct round *r, enum ibv_mtu mtu, uint32_t inline_bytes);
void round_close(struct round *r);

/** round_stall - let a message, not the first, find no receive: so the round is informative, however fast or busy the host is */
void round_stall(struct q_bench *b, struct round *r);

/** round_run - run a round with @messages, @psn and @stall. Return: 0; -ERANGE: rq_psn is impossible for these; another -errno */
int round_run(struct q_bench *b, struct round *r, struct round_end *ret);

/**
 * round_compare - compare memory with @executed PSNs
 * @ret_at: first packet that disagrees
 * @ret_there: is it in memory?
 *
 * Return: true: all agrees.
 */
bool round_compare(const struct round *r, uint32_t executed, uint32_t *ret_at, bool *ret_there);

/** round_counter - number of executed atomics, by memory; round_atomics - by @executed PSNs */
uint64_t round_counter(const struct round *r);
uint64_t round_atomics(const struct round *r, uint32_t executed);
/** round_read_too_much - is the response of a READ in memory that was not executed, by @executed PSNs? */
bool round_read_too_much(const struct round *r, uint32_t executed);
/** round_received - receives that succeeded; -1: not all have completed */
int round_received(struct round *r, uint32_t *ret);
/** round_receives - receives that @executed PSNs consume */
uint32_t round_receives(const struct round *r, uint32_t executed);

uint32_t round_psns(const struct round *r, uint32_t message);

/* A kind of messages, for round_repeat(). */
struct round_kind {
	const char *name;
	void (*fill)(struct q_bench *b, struct round *r);
	bool wraps; /* PSNs wrap at 2^24 */
};

/** round_repeat - run rounds of several kinds until enough were informative. Return: verdict of the trial */
enum mv_trial_verdict round_repeat(struct q_bench *b, struct mv_qualified_trial *t, const struct round_kind *kinds, size_t n_kinds);

#endif
