/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTBENCH_STREAM_H
#define TESTBENCH_STREAM_H

#include "bench.h"

/*
 * Large WRITEs, again and again over the same memory, each pass with its own value. So each packet's place shows which
 * pass wrote it last. The passes make the stream long enough to be cut in the middle, also on a busy machine.
 */

#define STREAM_MESSAGE (256u << 10)
#define STREAM_SLOTS   16 /* messages in a pass */
#define STREAM_BYTES   ((size_t)STREAM_SLOTS * STREAM_MESSAGE)
#define STREAM_PASSES  16
#define STREAM_SHORT   10 /* rounds of one pass; if none of them was cut, all others have all passes */

struct stream {
	const struct q_kind *kind; /* of @to */
	struct q_qp req, resp;
	struct q_mem from, to;
	uint32_t mtu, passes, packets; /* mtu in bytes; passes in the round; packets in a pass */
	uint32_t psn;
};

/** stream_open - queue pairs and memory, for stream_close(); @kind: of the memory that is written. Return: 0 or -errno */
int stream_open(struct q_port *req, struct q_port *resp, const struct q_kind *kind, struct stream *s);
void stream_close(struct stream *s);

/**
 * stream_cut - a round: connect, post, wait for a packet in the middle, bring the responder to ERR, read its rq_psn.
 * Return: 0 or -errno
 */
int stream_cut(struct q_bench *b, struct stream *s, uint32_t *ret_executed);
bool stream_is_beyond(const struct stream *s, uint32_t executed);
bool stream_was_cut(const struct stream *s, uint32_t executed);

/**
 * stream_compare - compare memory with what was executed, beginning with the packet that should land last
 * @ret_differs: 0: all agrees; -1: an executed packet is missing; 1: a packet is there that was not executed
 * @ret_packet: index in the pass, if something differs
 *
 * Return: 0 or -errno of reading the memory.
 */
int stream_compare(struct stream *s, uint32_t executed, int *ret_differs, uint32_t *ret_packet);

/**
 * stream_rounds - rounds of a trial with one kind of memory, until some were cut
 * @round: one round: stream_cut(), and what is to be so then; @arg is for it
 *
 * Adds the kind's figures. Return: PASS; UNSURE: no round was cut, and the kind is not optional; else what @round says.
 */
enum mv_trial_verdict stream_rounds(struct q_bench *b, struct stream *s, struct mv_qualified_trial *t,
				    enum mv_trial_verdict (*round)(struct q_bench *b, struct stream *s, uint32_t n, void *arg,
								   struct mv_qualified_trial *t, uint32_t *ret_executed),
				    void *arg);

/**
 * stream_kinds - a trial with each kind of memory that is there, until one does not pass
 * @trial: makes memory of the kind, and calls stream_rounds()
 *
 * Figures of a kind that was not tried say 0 rounds.
 */
enum mv_trial_verdict stream_kinds(struct q_bench *b, struct mv_qualified_trial *t,
				   enum mv_trial_verdict (*trial)(struct q_bench *b, const struct q_kind *kind,
								  struct mv_qualified_trial *t));

#endif
