/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The objects that verbs programs make: contexts, PDs, MRs, AHs, CQs, SRQs, QPs. All guarded by
 * hca->lock, see hca.h, unless the member says otherwise.
 */
#ifndef SIM_OBJECTS_H
#define SIM_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "state.h"
#include "wire.h"
#include "wqe.h"

#define MAX_RD_ATOMIC     16
#define MAX_RECV_SEGS     32
#define SIM_RD_RESPONSES  64
#define SIM_MAX_UAR_PAGES 1024
#define SIM_MAX_IMPORTS   8

enum obj_type {
	OBJ_NONE,
	OBJ_PD,
	OBJ_MR,
	OBJ_AH,
	OBJ_CQ,
	OBJ_SRQ,
	OBJ_QP,
};

struct hca;
struct ucontext;

/* Head of everything that has a uverbs handle. */
struct obj {
	enum obj_type type;
	uint32_t handle; /* in uc->objs */
	uint32_t users; /* other objects that hold this one; destroying it is EBUSY while there are
			   any */
	struct ucontext *uc;
	uint64_t user_handle; /* libibverbs' own cookie, handed back with events */
};

/* A file of events: the asynchronous one of a context, or a completion channel. See evq.c. */
struct event {
	STAILQ_ENTRY(event) link;
	const void *owner; /* object whose destruction drops it */
	uint32_t *reported; /* counted when the program reads it */
	uint32_t len;
	union {
		uint64_t comp;
		struct {
			uint64_t element;
			uint32_t type, reserved;
		} async;
	} data;
};

struct evq {
	int fd; /* the program's end, as numbered when it was made; -1 once the program closed it */
	int token_fd; /* our end */
	bool token; /* a byte is on its way to the program's end */
	bool over; /* nothing comes any more: evq_end() */
	uint32_t refs;
	STAILQ_HEAD(, event) events;
	struct ucontext *uc; /* of a completion channel; NULL once that is closed */
	LIST_ENTRY(evq) link; /* uc->channels */
};

struct pd {
	struct obj obj;
};

struct mr {
	struct obj obj;
	struct pd *pd;
	uint32_t key;
	uint64_t iova; /* address that work requests use */
	uint8_t *addr;
	uint64_t len;
	uint32_t access; /* IBV_ACCESS_* */
	void *mapping; /* of a dma-buf, ours; NULL: the memory is the program's */
	size_t mapping_len;
};

struct ah {
	struct obj obj;
	struct pd *pd;
	uint32_t port, sgid_index; /* entry it holds a reference on */
	bool has_gid;
};

struct cq {
	struct obj obj;
	uint32_t cqn;
	uint8_t *buf;
	uint32_t n_cqe; /* power of two */
	uint32_t cqe_size; /* 64 or 128 */
	volatile uint32_t *db; /* [0] consumer index, [1] arm; big-endian */
	uint32_t pi; /* producer index, not wrapped */
	bool overrun; /* nothing is written any more */
	bool ignore_overrun;
	struct evq *channel; /* NULL without */
	bool armed, armed_solicited;
	uint8_t arm_sn; /* sequence number of the arm that stands */
	int8_t fired_sn; /* of the arm that made the last event, -1 before */
	bool fail_pending; /* overrun: the engine still has to take the queue pairs down */
	uint32_t notified_pi; /* producer index at the last event: what lay there before makes no
				 second one */
	uint32_t solicited_pi; /* producer index after the last solicited completion */
	uint32_t comp_events, async_events; /* read by the program */
	LIST_ENTRY(cq) link; /* hca->cqs */
};

struct srq {
	struct obj obj;
	struct pd *pd;
	uint32_t srqn;
	uint8_t *buf;
	uint32_t n_wqe, shift;
	volatile uint32_t *db; /* posted, counted in 16 bits */
	uint16_t head; /* index of the next WQE to take */
	uint16_t taken; /* consumed, counted in 16 bits */
	uint32_t max_wr, max_sge, limit;
	uint32_t async_events;
};

/* A receive work request while a message is being written into it. */
struct recv_wqe {
	uint16_t index; /* as in the completion: counter of the RQ, or place in the SRQ */
	uint32_t n_segs;
	uint64_t length;
	struct wqe_seg segs[MAX_RECV_SEGS];
};

/* Where the packets of a queue pair or of an address handle go. */
struct path {
	struct wire_path wire; /* smac, sgid, v1 are refreshed from the GID table */
	uint32_t sgid_index;
	uint32_t ifindex;
	uint32_t gid_generation; /* of the port, when it was refreshed last */
	bool usable; /* the entry holds a GID */
	bool loopback; /* the destination is the port itself */
	bool fresh;
	uint16_t dlid; /* InfiniBand link layer: instead of the GIDs */
};

/* Values of a queue pair as the program gave them, for query_qp. */
struct qp_attr {
	uint8_t qp_state, path_mtu, path_mig_state, max_rd_atomic, max_dest_rd_atomic,
		min_rnr_timer;
	uint8_t port, timeout, retry_cnt, rnr_retry;
	uint16_t pkey_index;
	uint32_t qkey, rq_psn, sq_psn, dest_qpn, access;
	/* address vector */
	uint8_t dgid[16], dmac[6];
	uint32_t flow_label;
	uint16_t dlid;
	uint8_t sgid_index, hop_limit, traffic_class, sl, src_path_bits, static_rate, is_global,
		av_port;
	/* DEVX */
	uint8_t lag_port; /* from 1 on; 0: none */
};

/* A READ to be answered, or the saved answer of an atomic. */
struct rd_response {
	bool atomic;
	uint32_t psn; /* next packet to send */
	uint32_t last_psn;
	uint32_t first_psn;
	uint32_t msn;
	uint64_t va;
	uint32_t rkey, len;
	uint64_t orig;
};

struct responder {
	uint32_t epsn; /* next expected: query_qp's rq_psn */
	uint32_t msn;
	bool established; /* a packet came while in RTR, and the program was told */
	bool in_message, message_write;
	bool have_recv;
	struct recv_wqe recv;
	uint64_t offset; /* bytes of the message so far */
	uint64_t write_va;
	uint32_t write_rkey, write_len;
	bool nak_sent; /* a sequence NAK is out; no more until the expected PSN comes */
	bool ack_due;
	uint8_t ack_syndrome;
	uint32_t ack_psn;
	bool uc_drop; /* UC: the rest of a broken message is thrown away */
	struct rd_response queue[SIM_RD_RESPONSES]; /* ring: to send */
	uint32_t q_head, q_tail;
	struct rd_response saved[MAX_RD_ATOMIC]; /* ring: atomics answered, for replay */
	uint32_t n_saved;
	/* for quirk.c */
	bool beyond; /* a packet came behind a hole; the last of them: */
	uint32_t beyond_psn; /* one behind it */
	uint32_t n_queries; /* in ERR */
	uint32_t read_psns; /* more than one, of the READs that were executed */
	bool last_atomic; /* what was executed last is one */
};

struct requester {
	struct send_wqe *ring; /* sq_bbs entries; indices below count up without wrapping */
	uint32_t head; /* oldest not completed */
	uint32_t cur; /* being sent */
	uint32_t tail; /* after the last one posted */
	uint32_t next_psn; /* for the next work request */
	uint32_t cur_psn; /* next packet of `cur` */
	uint32_t una_psn; /* oldest not acknowledged */
	uint32_t max_psn; /* one after the highest PSN ever sent */
	uint32_t rd_out; /* READs and atomics between head and cur */
	uint8_t retries, rnr_retries; /* left */
	bool stalled; /* the timer ran out since the last progress */
	uint32_t counted; /* share in hca->sending.in_flight */
	bool repeating; /* a go-back was made for a lost response; no other until there is progress
			 */
	uint32_t since_ack_request; /* packets */
	uint64_t deadline_ns; /* of the acknowledge timer; 0 = not running */
	uint64_t rnr_until_ns; /* 0 = not waiting */
};

/* What the program asked for when it made the queue pair, for query_qp. Constant. */
struct qp_init {
	uint32_t uidx;
	uint8_t sq_sig_all;
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
};

/* The receive queue; cnt 0: an SRQ instead. Guarded by hca->lock. */
struct qp_rq {
	uint8_t *buf;
	uint32_t cnt, shift;
	uint16_t taken;
};

/* Send queue drained, in SQD. Guarded by hca->lock. */
struct qp_sqd {
	bool notify, drained;
};

/* Entries of the queue pair in hca->late. Guarded by hca->lock. */
struct qp_late {
	uint32_t n;
	uint64_t due_ns; /* of the last of them */
};

/* Asynchronous events. Guarded by hca->lock. */
struct qp_events {
	bool last_wqe; /* LAST_WQE_REACHED: already told */
	uint32_t n_read; /* by the program */
};

struct mcast_group {
	uint8_t gid[16];
};

/* Multicast groups that the queue pair is attached to. Guarded by hca->lock. */
struct qp_mcast {
	struct mcast_group *groups;
	uint32_t n;
};

struct qp {
	struct obj obj;
	uint32_t qpn;
	uint8_t type; /* IBV_QPT_* */
	uint8_t state; /* IBV_QPS_* */
	struct sim_dev *dev;
	uint32_t dev_index;
	struct pd *pd;
	struct cq *scq, *rcq;
	struct srq *srq;
	struct qp_init init;

	struct wqe_ring sq;
	struct qp_rq rq;
	volatile uint32_t
		*db; /* [0] receives posted, [1] send basic blocks posted; 16 bits, big-endian */
	uint16_t sq_parsed; /* basic blocks decoded into req.ring */

	struct qp_attr attr;
	struct path path;
	bool holds_gid; /* counted in gid_refs */
	uint32_t mtu; /* bytes */
	struct requester req;
	struct responder resp;
	struct qp_sqd sqd;
	struct qp_late late;
	struct qp_events events;

	uint32_t doorbell; /* place in hca->doorbells */
	struct qp_queue *queue; /* that it is on: busy or waiting of hca->sending; NULL: none */
	TAILQ_ENTRY(qp) queue_link;
	LIST_ENTRY(qp) link; /* hca->all_qps */
	struct qp_mcast mcast;
};

/* One open uverbs file. */
struct ucontext {
	LIST_ENTRY(ucontext) link;
	uint32_t fds; /* descriptors that the program has of it */
	struct hca *hca;
	struct sim_dev *dev;
	uint32_t dev_index;
	uint32_t resets; /* of the device, when this was opened */
	bool over; /* the program has been told that the device was taken away */
	bool has_context; /* GET_CONTEXT was done */
	bool devx; /* it asked for DEVX; constant from then on */
	uint32_t lag_turn; /* queue pairs that were given a LAG port */
	struct evq *async; /* of all events */
	struct evq *imported[SIM_MAX_IMPORTS]; /* files of contexts that were imported: of events of
						  device and ports */
	LIST_HEAD(, evq) channels;
	struct obj **objs;
	uint32_t n_objs;
	uint32_t n_bfregs; /* of the kind that GET_CONTEXT hands out, 0 if the library allocates UAR
			      pages itself */
	uint32_t next_bfreg, next_uar;
	uint32_t port_gid_gen[SIM_MAX_PORTS];
};

/** ucontext_dead() - does the device behind this file answer nothing, or was it taken away from
 * under it? Any lock. */
static inline bool ucontext_dead(const struct ucontext *uc)
{
	return atomic_load_explicit(&uc->dev->dead, memory_order_relaxed) ||
	       atomic_load_explicit(&uc->dev->resets, memory_order_acquire) != uc->resets;
}

static inline bool qp_dead(const struct qp *qp)
{
	return ucontext_dead(qp->obj.uc);
}

#endif
