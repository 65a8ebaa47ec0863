/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTBENCH_BENCH_H
#define TESTBENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "config.h"
#include "qualified.h"

/*
 * Bench of a trial: the device under test, the port that talks to it, queue pairs, memory. One thread. Functions return
 * 0 or -errno. A function that returns a verdict ends the trial.
 */

struct mlx5dv_obj;
struct q_gpu;

/* A kind of memory that packets go to. */
struct q_kind {
	bool is_there; /* this host has it, and it is to be tried */
	bool is_optional; /* no trial is unsure for lack of it */
	int node; /* NUMA node that the memory is to be on; -1: where the process gets it */
	struct q_gpu *gpu; /* the memory is this GPU's; NULL: host memory */
	const char *figure, *figure_cut; /* names of figures: rounds with this kind, and those that were cut */
	char name[96]; /* for people */
};

enum { Q_HOST, Q_OTHER_NODE, Q_GPU, Q_KINDS };

struct q_port {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	const char *device;
	uint8_t num;
	struct ibv_ah_attr own; /* address vector from this port to itself */
	enum ibv_mtu active_mtu;
	int (*init_obj)(struct mlx5dv_obj *obj, uint64_t type); /* mlx5dv_init_obj(); NULL: not an mlx5 device */
};

struct q_bench {
	struct q_port dut; /* device under test: responder, or owner of the queue that is examined */
	struct q_port away; /* port of another device of this host that reaches @dut; ctx NULL: none */
	struct q_port second; /* port of another device that reaches itself; ctx NULL: none */
	struct q_port *peer; /* @away, or @dut */
	const struct mv_config_list *exclude; /* devices that are opened only if the caller names them */
	const char *avoid; /* so are these: devices that carry others' traffic, comma-separated; NULL: none */
	bool avoided; /* a device was left out because of @avoid */
	bool reaches_itself; /* @dut reaches itself */
	uint64_t random; /* state of the random numbers */
	uint64_t until_ns; /* deadline of the trial; after it, the trial is unsure */
	struct q_kind kinds[Q_KINDS]; /* of memory: q_kinds() */
	bool rests; /* a program uses the device */
	uint64_t rest_until_ns; /* from then on the trial needs the time that is left */
	uint64_t rested_ns; /* end of the last rest; 0: none yet */
};

/* ---- time, random numbers ---- */
uint64_t q_now_ns(void);
void q_sleep_ns(uint64_t ns);
/** q_pause_after - in a loop that has polled since @began_ns: yields the CPU after a while */
void q_pause_after(uint64_t began_ns);
/** q_random - a random number, 0 .. @n - 1 */
uint32_t q_random(struct q_bench *b, uint32_t n);
/** q_begin - a trial begins, which has @trial_ns; all trials have @all_ns, until @end_ns. Rests are in the first half of both */
void q_begin(struct q_bench *b, uint64_t trial_ns, uint64_t end_ns, uint64_t all_ns);
bool q_has_time(const struct q_bench *b);
/**
 * q_rest - between two rounds of a trial, leave the port and the processor to the program that uses the device
 *
 * Sleeps twice as long as the round before took, and 40 ms at most. Does not sleep unless @rests, nor after @rest_until_ns.
 */
void q_rest(struct q_bench *b);

/* ---- verdicts ---- */
enum mv_trial_verdict q_fail(struct mv_qualified_trial *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
enum mv_trial_verdict q_unsure(struct mv_qualified_trial *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
enum mv_trial_verdict q_skip(struct mv_qualified_trial *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** q_broken - a step of the trial itself has failed; @err: negative errno */
enum mv_trial_verdict q_broken(struct mv_qualified_trial *t, const char *step, int err);
void q_figure(struct mv_qualified_trial *t, const char *name, double value);

/* ---- memory ---- */
struct q_mem {
	uint8_t *buf; /* page-aligned, zeroed. A GPU's: a copy, of what q_mem_get() has read */
	size_t bytes;
	uint64_t addr; /* of the memory, in work requests */
	struct ibv_mr *mr;
	struct q_gpu *gpu; /* NULL: host memory */
};
/**
 * q_kinds - say which kinds of memory are tried
 * @node: another NUMA node than that of this process; -1: none
 * @gpu: owned by the caller, outlives the memory; NULL: none
 */
void q_kinds(struct q_bench *b, int node, struct q_gpu *gpu);
/** q_kind_broken - as q_broken(), of a step with that memory */
enum mv_trial_verdict q_kind_broken(struct mv_qualified_trial *t, const struct q_kind *kind, const char *step, int err);
/** q_mem_make_of - memory of a kind; -ENOMEM: also if the node has not enough */
int q_mem_make_of(struct q_port *port, const struct q_kind *kind, size_t bytes, struct q_mem *ret);
/** q_mem_make - host memory, where the process gets it */
int q_mem_make(struct q_port *port, size_t bytes, struct q_mem *ret);
void q_mem_end(struct q_mem *mem);
/** q_mem_clear - all bytes become 0, before the function returns */
int q_mem_clear(const struct q_mem *mem);
/** q_mem_get - have @buf show what is in memory now; host memory needs no copy, and does not fail */
int q_mem_get(const struct q_mem *mem, size_t at, size_t bytes);
/** q_mem_wait - poll a byte for a value. Return: 0: it came; -ETIMEDOUT; another -errno */
int q_mem_wait(const struct q_mem *mem, size_t at, uint8_t value, uint64_t ns);

/* ---- queue pairs ---- */
struct q_size {
	uint32_t send_wr, recv_wr, sge, inline_bytes;
	bool with_srq;
};
struct q_qp {
	struct q_port *port;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex; /* NULL: the device does not have ibv_wr_*() */
};
int q_qp_make(struct q_port *port, const struct q_size *size, struct q_qp *ret);
void q_qp_end(struct q_qp *qp);

struct q_way {
	uint32_t psn; /* first PSN from @a to @b */
	uint32_t back_psn; /* first PSN from @b to @a */
	enum ibv_mtu mtu;
	uint8_t rd_atomic, timeout, retry_cnt, rnr_retry; /* of both ends */
};
/** q_way - default attributes of the queue pairs in one round of a trial; rests before that round: q_rest() */
struct q_way q_way(struct q_bench *b, enum ibv_mtu mtu);
/** q_connect - bring both QPs through RESET to RTS, and discard old completions */
int q_connect(struct q_qp *a, struct q_qp *b, const struct q_way *way);
int q_to_rts(struct q_qp *qp, const struct q_qp *to, const struct q_way *way, uint32_t send_psn, uint32_t recv_psn);
int q_to_init(struct q_qp *qp);
int q_to(struct q_qp *qp, enum ibv_qp_state state);
int q_rq_psn(struct q_qp *qp, uint32_t *ret);

/* A work request. */
struct q_post {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	const struct q_mem *from;
	size_t from_at;
	uint32_t length;
	const struct q_mem *to; /* unused by SEND */
	size_t to_at;
	uint64_t operand; /* for FETCH_ADD */
};
int q_post(struct q_qp *qp, const struct q_post *p);
int q_post_recv(struct q_qp *qp, uint64_t wr_id, const struct q_mem *mem, size_t at, uint32_t length);

/** q_poll - poll one completion. Return: 1: got one; 0: none; -errno */
int q_poll(struct ibv_cq *cq, struct ibv_wc *ret);
/** q_wait - as q_poll(), but waits. Return: 0; -ETIMEDOUT; another -errno */
int q_wait(struct ibv_cq *cq, uint64_t ns, struct ibv_wc *ret);
/** q_drain - discard all completions that are there */
int q_drain(struct ibv_cq *cq);
uint32_t q_mtu_bytes(enum ibv_mtu mtu);

/* ---- the bench ---- */
/**
 * q_bench_open - open a device and its peer
 * @peer: another device; NULL: a device that reaches it, else itself
 * @why: gets the text of an error
 *
 * Return: 0; -ENODEV: no such device; -EHOSTUNREACH: no active port that reaches itself or another one; another -errno.
 */
int q_bench_open(struct q_bench *b, const char *device, const char *peer, char *why, size_t why_size);
void q_bench_close(struct q_bench *b);
/** q_is_listed - is the name in the comma-separated list? */
bool q_is_listed(const char *list, const char *name);

#endif
