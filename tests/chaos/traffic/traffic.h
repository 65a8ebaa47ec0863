/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef CHAOS_TRAFFIC_H
#define CHAOS_TRAFFIC_H

#include <infiniband/verbs.h>

#include "script.h"

/*
 * What a program in plain verbs may rely on, demanded of every single work request at both ends.
 * The program knows nothing of meshverbs.
 *
 *   script.c  what is done; both ends compute it
 *   qp.c      objects and connecting
 *   send.c    posting, send completions
 *   build.c   posting by ibv_wr_*()
 *   recv.c    receive completions, memory, acknowledgements
 *   poll.c    polling of either kind of CQ
 *   error.c   a queue pair that failed: what may have been executed and what not; then it is replaced
 *   wire.c    what the ends tell each other beside the queue pairs
 *   loop.c    one thread: its CQs, its queue pairs
 */

#define WINDOW    24u /* operations that the other end has not verified yet */
#define N_RECVS   40u /* receives posted; more than WINDOW */
#define N_RECORDS 64u /* send queue; with -b as few as the provider gives for BRIM_WRS */
#define BRIM_WRS  16u /* more than can be unsignaled in a row */
#define FEW_RECVS 2u /* -N: so few that the other end has to wait */
#define SIGNALED  12u /* -C: completions of each send queue that its CQ has room for */
#define N_SOURCES 64u /* source or destination of operation n is n % N_SOURCES */
#define STRIDE    5120u /* of all places for data; more than MAX_BYTES */
#define ACK_EVERY 6u
#define N_HISTORY 24u
#define POISON    0xa5
#define FIN_IMM   0xf1f1f1f1u
#define RECV_WR                                                                                    \
	(1ull << 63) /* in wr_ids: this, number of the replacement, queue pair, number of the work \
			request */

/* Exit statuses of the program. */
enum { CLEAN = 0, VIOLATION = 1, USAGE = 2, STUCK = 3, SURFACED = 5 };

struct options {
	const char *device, *host; /* host NULL: server */
	unsigned int port, n_threads, n_qps, rate; /* rate: operations per second and queue pair */
	uint64_t seed;
	unsigned int kinds;
	double seconds, stuck_seconds;
	bool events, srq, one_cq, replace, peer_may_die, ask;
	bool own_gids, builders, extended, small_cq, few_recvs, brim, pollers, dmabuf;
	unsigned int timeout, retry_cnt;
	int tick_ms;
	enum ibv_mtu mtu;
	/*
	 * For a watcher: completions without an error of each queue pair (thread 0's first), then work requests that each
	 * queue pair has posted since it was made.
	 */
	_Atomic uint64_t *progress, *posted;
};

/* Memory of a queue pair; one MR. */
struct area {
	uint8_t recvs[N_RECVS][STRIDE];
	uint8_t sources[N_SOURCES][STRIDE];
	uint8_t slots[N_SLOTS][STRIDE]; /* written by the other end, as are all that follow */
	uint8_t privates[N_PRIVATE][STRIDE];
	uint64_t counter, word;
	uint32_t acked; /* how many operations it has verified */
	uint32_t ack_out; /* ours for it, as it is written */
};

struct address {
	union ibv_gid gid;
	uint16_t lid; /* InfiniBand: connects by it, without a GRH; else 0 */
	uint32_t qpn, rkey, psn;
	uint64_t area;
};

/* A work request in the send queue. */
struct record {
	enum { REC_OP, REC_ACK, REC_FIN } type;
	struct op op;
	bool signaled;
};

enum qp_state {
	QP_CONNECTING, /* peer's address is awaited */
	QP_CONNECTED, /* the word that the peer is, too */
	QP_RUNNING,
	QP_BROKEN, /* in ERR; until all is flushed and the peer has reported */
	QP_OVER, /* failed, and not replaced */
};

struct report {
	uint32_t n_verified; /* operations of the other end, up to the last one that consumed a
				receive */
	uint32_t fin_seen;
	uint64_t counter, word;
};

/* What we do. Owner: send.c. */
struct sends {
	struct script script;
	struct op next;
	bool has_next, fin_posted;
	struct record records[N_RECORDS];
	uint32_t n_posted, n_completed; /* work requests */
	uint32_t depth; /* of the send queue; at most N_RECORDS */
	uint32_t n_signaled; /* outstanding */
	uint32_t ops_completed; /* all before this number are known to be done */
	bool failed; /* a completion in error came: each further one has to come */
	double tokens;
	uint32_t since_signal;
	uint32_t their_acked; /* as last seen in the area */
};

/* What the other end does. Owner: recv.c. */
struct receives {
	struct script script;
	bool fin_seen;
	uint32_t n_posted, n_consumed;
	uint32_t acked; /* last one sent */
};

/* When the queue pair failed. Owner: error.c. */
struct failure {
	bool told, reported; /* to the other end */
	bool heard; /* @report is here */
	bool tried_gone;
	struct report report; /* theirs */
};

/* The last completions, for people. */
struct history {
	struct {
		uint64_t wr_id, ns;
		enum ibv_wc_status status;
	} last[N_HISTORY];
	uint32_t n;
};

/* A queue pair. Only its thread uses it. */
struct link_qp {
	struct thread *thread;
	unsigned int index, epoch;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct area *area;
	uint64_t iova; /* of the area in its MR */
	struct address mine, theirs;
	enum qp_state state;
	bool heard_ready;
	struct {
		struct address address;
		unsigned int epoch; /* may be ahead of ours */
		bool valid;
	} heard;
	struct sends sends;
	struct receives receives;
	struct failure failure;
	uint64_t progress_ns, success_ns;
	struct history history;
};

struct totals {
	uint64_t ops, received, errors[32], replaced, broken;
	uint64_t longest_gap_ns;
};

struct thread {
	const struct options *opt;
	unsigned int number, side;
	int fd; /* to the other end's thread */
	bool peer_gone;
	uint64_t peer_gone_ns;
	struct ibv_context *ctx;
	union ibv_gid gid;
	uint8_t gid_index;
	uint16_t lid; /* of the port; 0: RoCE */
	unsigned int n_lids; /* of the port, from @lid on: queue pairs take turns */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct poller *send_poller, *recv_poller; /* NULL: the thread polls alone */
	struct ibv_srq *srq;
	bool armed;
	uint64_t event_due_ns; /* completions came after arming: an event has to come, too; 0: not
				  so */
	unsigned int n_events;
	struct link_qp *qps;
	bool stopping, told_stop, told_done, peer_done;
	struct totals totals;
};

static inline uint64_t wr_id_of(const struct link_qp *q, uint32_t number)
{
	return (uint64_t)(q->epoch & 0x7fff) << 48 | (uint64_t)q->index << 32 | number;
}

/** addr_of() - what work requests call a place in the area of a queue pair, if it is not inline */
static inline uint64_t addr_of(const struct link_qp *q, const void *place)
{
	return q->iova + (uint64_t)((const uint8_t *)place - (const uint8_t *)q->area);
}

/* main.c */
extern _Atomic bool traffic_stop;
uint64_t now_ns(void);
__attribute__((format(printf, 2, 3))) void say(const struct link_qp *q, const char *format, ...);
/** violated() - say what, and end the process with status VIOLATION */
_Noreturn __attribute__((format(printf, 2, 3))) void violated(const struct link_qp *q,
							      const char *format, ...);
_Noreturn __attribute__((format(printf, 1, 2))) void cannot(const char *format, ...);

/* qp.c */
void thread_open(struct thread *t);
void thread_close(struct thread *t);
/** qp_new() - fresh, in INIT, with receives; its address is sent */
void qp_new(struct link_qp *q);
/** qp_connect() - the peer's address is there */
void qp_connect(struct link_qp *q);
void qp_to_err(struct link_qp *q);
void qp_free(struct link_qp *q);
uint64_t qp_id(const struct link_qp *q, unsigned int side);

/** thread_recvs - receives that each queue pair has posted */
static inline uint32_t thread_recvs(const struct thread *t)
{
	return t->opt->few_recvs ? FEW_RECVS : N_RECVS;
}

/* send.c */
void send_some(struct link_qp *q, uint64_t now);
void send_completed(struct link_qp *q, const struct ibv_wc *wc);
bool send_ack(struct link_qp *q);
/** send_last() - of a queue pair in ERR: one more, which is flushed after all others */
void send_last(struct link_qp *q);

/* recv.c */
void recv_post(struct link_qp *q, uint32_t number);
void recv_completed(struct link_qp *q, const struct ibv_wc *wc);
void recv_check_poison(struct link_qp *q);
uint32_t recv_acked(struct link_qp *q);

/* error.c */
void error_seen(struct link_qp *q, const struct ibv_wc *wc, const char *what);
/** error_told() - the other end's queue pair failed */
void error_told(struct link_qp *q);
void error_step(struct link_qp *q);

/* wire.c */
enum word { WORD_ADDRESS, WORD_READY, WORD_STOP, WORD_BROKEN, WORD_REPORT, WORD_DONE };
struct message {
	uint32_t word, index, epoch;
	union {
		struct address address;
		struct report report;
	};
};
void wire_say(struct thread *t, enum word word, const struct link_qp *q,
	      const struct message *more);
/** wire_hear() - take what there is; whether there was something */
bool wire_hear(struct thread *t);

/* poll.c */
/** poll_by_itself - as ibv_poll_cq(), by the functions of extended CQs if it is one */
int poll_by_itself(const struct thread *t, struct ibv_cq *cq, int max, struct ibv_wc *wcs);
/** poll_cq - the same, or what a thread has found that polls it as well */
int poll_cq(const struct thread *t, struct ibv_cq *cq, int max, struct ibv_wc *wcs);

/* poller.c */
/** poller_start - a thread that polls @cq, too */
struct poller *poller_start(const struct thread *t, struct ibv_cq *cq);
/** poller_stop - end it, and forget what it found; NULL: nothing */
void poller_stop(struct poller *p);
/** poller_take - as ibv_poll_cq(): what it has found, or what polling gives now */
int poller_take(struct poller *p, int max, struct ibv_wc *wcs);
/** poller_forget - a queue pair has been destroyed, and its completions with it; NULL: nothing */
void poller_forget(struct poller *p, uint32_t qpn);

/* build.c */
/** build_send - as ibv_post_send() of one work request, by the functions of struct ibv_qp_ex. Return: 0 or errno */
int build_send(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr);

/* loop.c */
void *thread_run(void *arg);
/** thread_ask() - the state of a queue pair */
enum ibv_qp_state thread_ask(struct link_qp *q);
/** thread_tell() - how far the queue pairs are that are not done */
void thread_tell(struct thread *t);

#endif
