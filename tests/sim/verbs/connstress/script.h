/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What two threads on two hosts do together in one sequence: both compute it from (seed, thread,
 * number), so each knows what the other will do and nothing has to be said but QPNs and keys. Pure.
 */
#ifndef CONNSTRESS_SCRIPT_H
#define CONNSTRESS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_QPS      3
#define MAX_OPS      12 /* of one queue pair's side */
#define MAX_BYTES    4096 /* of one operation */
#define INLINE_BYTES 64

enum op_type { OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE_IMM, OP_READ, OP_ADD, OP_TYPES };

struct op {
	enum op_type type;
	uint32_t bytes;
	bool signaled, in_line;
};

/* How a sequence ends. */
enum plot {
	PLOT_TRAFFIC, /* all work is done, on both sides */
	PLOT_STALE_KEY, /* then one WRITE with a key that was deregistered */
	PLOT_OTHER_PD, /* then one WRITE with a key of another protection domain */
	PLOT_BREAK, /* each side breaks off in its own way, as soon as its work is posted */
	PLOT_NEVER, /* side 1 never connects; side 0 posts and breaks off */
	PLOTS,
};

enum breaking { BREAK_ERR, BREAK_DESTROY, BREAK_RESET, BREAKINGS };

/* When the memory that the other side reads and writes is registered. */
enum mr_time { MR_FIRST, MR_BEFORE_RTR, MR_AFTER_RTS, MR_TIMES };

struct qp_script {
	unsigned int dev; /* which of the two */
	bool wr_api; /* ibv_wr_*, not ibv_post_send() */
	uint32_t psn;
	unsigned int n_ops;
	struct op ops[MAX_OPS];
	enum breaking breaking;
};

struct side_script {
	bool srq, events, cq_ex, recv_late, reregister;
	enum mr_time mr_time;
	unsigned int before_rtr_us, before_rts_us, before_break_us, teardown;
	struct qp_script qps[MAX_QPS];
};

struct script {
	uint64_t id; /* of which all patterns are made */
	enum plot plot;
	unsigned int n_qps;
	struct side_script sides[2];
};

/* What a run can do without, to find out what matters. */
enum without {
	WITHOUT_SRQ = 1,
	WITHOUT_EVENTS = 2,
	WITHOUT_CQ_EX = 4,
	WITHOUT_WR = 8, /* ibv_wr_* */
	WITHOUT_BREAKS = 16,
	WITHOUT_BAD_KEYS = 32,
	WITHOUT_REREG = 64,
};

struct script_limits {
	int rails[2]; /* of each side: its only device, -1: any */
	unsigned int without; /* enum without */
};

void script_make(struct script *s, uint64_t seed, uint64_t thread, uint64_t number,
		 const struct script_limits *limits);

/** script_without() - the flag of a word (srq, events, cq_ex, wr, breaks, bad-keys, rereg); 0: no
 * such word */
unsigned int script_without(const char *word);

/** script_text() - one line for people; returns @buf */
const char *script_text(const struct script *s, char *buf, size_t len);

/** script_byte() - what stands at offset @at of the data of an operation (or of READ's source: op
 * MAX_OPS) */
uint8_t script_byte(const struct script *s, unsigned int side, unsigned int qp, unsigned int op,
		    size_t at);
uint32_t script_imm(const struct script *s, unsigned int side, unsigned int qp, unsigned int op);

static inline bool op_consumes_recv(const struct op *op)
{
	return op->type == OP_SEND || op->type == OP_SEND_IMM || op->type == OP_WRITE_IMM;
}

#endif
