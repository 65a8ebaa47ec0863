/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTBENCH_ROUND_H
#define TESTBENCH_ROUND_H

#include "bench.h"

/*
 * A round: a requester posts messages, the responder is brought to ERR somewhere in the middle, and its rq_psn is compared with what
 * is in memory. Each packet of a WRITE or SEND has a place of its own there, whose first and last byte show whether it arrived.
 */

#define ROUND_MESSAGES 512
#define ROUND_INLINE   100 /* bytes at most that are inline */
#define ROUND_SLOT     4096u /* bytes from one packet's place to the next */

struct round_message {
	enum ibv_wr_opcode opcode; /* WRITE, SEND, READ, FETCH_ADD */
	uint32_t length; /* of READs and WRITEs and SENDs */
	bool inlined;
};

struct round {
	struct q_qp req, resp; /* @req at the bench's peer, @resp at the device under test */
	struct q_mem from, to; /* bytes that are sent, and where they go */
	struct q_mem sink, well; /* of READs: at the requester, and what is read; bytes after it: the counter of atomics */
	enum ibv_mtu mtu;
	struct round_message messages[ROUND_MESSAGES];
	uint32_t n;
	uint8_t stamp; /* of this round, never 0 */
	uint32_t psn; /* of the first packet */
	uint32_t total; /* PSNs of all messages */
	uint32_t stall; /* message that finds no receive, so nothing from it on is executed; 0: none */
};

/* What a round showed. */
struct round_end {
	uint32_t executed; /* PSNs, by rq_psn */
	uint32_t executed_messages; /* whole ones */
	bool informative; /* neither none nor all */
	bool cut; /* and not because it stalled */
};

int round_open(struct q_bench *b, struct round *r, enum ibv_mtu mtu, uint32_t inline_bytes);
void round_close(struct round *r);

/** round_stall - make a message, not the first, one that finds no receive: so a round tells something however fast or busy the host is */
void round_stall(struct q_bench *b, struct round *r);

/** round_run - one; @messages are set, and @psn, @stall. 0, -ERANGE: rq_psn is none that they could have led to, -errno */
int round_run(struct q_bench *b, struct round *r, struct round_end *ret);

/**
 * round_compare - what is in memory now against @executed PSNs
 * @ret_at: packet that does not agree
 * @ret_there: is it in memory?
 *
 * Return: whether all agrees.
 */
bool round_compare(const struct round *r, uint32_t executed, uint32_t *ret_at, bool *ret_there);

/** round_counter - atomics that were executed, by memory; round_atomics - by @executed PSNs */
uint64_t round_counter(const struct round *r);
uint64_t round_atomics(const struct round *r, uint32_t executed);
/** round_read - is the response of any READ in memory that was not executed by @executed PSNs? */
bool round_read_too_much(const struct round *r, uint32_t executed);
/** round_received - receives that were completed successfully; -1: not all have completed in some way */
int round_received(struct round *r, uint32_t *ret);
/** round_receives - those that @executed PSNs consume */
uint32_t round_receives(const struct round *r, uint32_t executed);

uint32_t round_psns(const struct round *r, uint32_t message);

/* A kind of messages, for round_repeat(). */
struct round_kind {
	const char *name;
	void (*fill)(struct q_bench *b, struct round *r);
	bool wraps; /* PSNs pass 2^24 */
};

/** round_repeat - rounds of several kinds until enough of them told something; the verdict of a trial */
enum mv_trial_verdict round_repeat(struct q_bench *b, struct mv_qualified_trial *t, const struct round_kind *kinds, size_t n_kinds);

#endif
