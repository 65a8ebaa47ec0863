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
	struct q_qp req, resp;
	struct q_mem from, to;
	uint32_t mtu, passes, packets; /* mtu in bytes; passes in the round; packets in a pass */
	uint32_t psn;
};

int stream_open(struct q_bench *b, struct q_port *req, struct q_port *resp, struct stream *s);
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
 * @ret_packet: index in the pass
 *
 * Return: 0: all agrees; -1: an executed packet is missing; 1: a packet is there that was not executed.
 */
int stream_compare(const struct stream *s, uint32_t executed, uint32_t *ret_packet);

#endif
