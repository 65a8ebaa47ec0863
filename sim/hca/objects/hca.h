/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The simulated HCA of one process, and what its parts offer each other.
 *
 * One `struct hca` per process serves all its open devices. Threads of the program enter through
 * the system calls that preload.c answers; one engine thread moves packets. Everything in this
 * header and in objects.h is guarded by hca->lock unless the member says otherwise; functions
 * expect it held unless their comment says otherwise. The lock is held for microseconds: nobody
 * sleeps, resolves a neighbour or waits for a packet with it.
 *
 * Memory of the program (queues, doorbell records, buffers) is read and written without its locks,
 * as a real HCA's DMA does; see dma.h.
 */
#ifndef SIM_HCA_H
#define SIM_HCA_H

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "neigh.h"
#include "objects.h"
#include "psn.h"
#include "state.h"
#include "wire.h"
#include "wqe.h"

struct net;
struct faults;

/* Of every null MR, as on cards: below all others. */
#define NULL_MR_KEY   0x4d00u
#define NULL_MR_BYTES (16u << 20)

/* Memory regions. Guarded by hca->lock. */
struct hca_regions {
	struct mr **by_key; /* by key >> 8, less @base */
	uint32_t n, base, next;
	uint8_t variant;
	uint8_t *null_region[2]; /* of null MRs: what is read, what is written; NULL: not needed yet */
};

/* Doorbell records of all queue pairs: doorbell.h. Guarded by hca->lock. */
struct hca_doorbells {
	struct doorbell *list;
	uint32_t n, n_watched, room;
	uint64_t look_ns; /* not to be looked at before: with thousands of queues that takes long */
};

/* Queue pairs that send. Guarded by hca->lock. */
struct hca_sending {
	TAILQ_HEAD(qp_queue, qp) busy; /* queue pairs with something to send */
	struct qp_queue waiting; /* those that have no more than a timer running */
	uint64_t timer_ns; /* none of @waiting is due before; 0: none is waiting */
	uint32_t in_flight; /* PSNs sent and not acknowledged, of all queue pairs that make progress */
};

/* The engine thread. Atomic, or constant while the thread runs, unless the member says otherwise. */
struct hca_engine {
	pthread_t thread;
	bool runs;
	_Atomic bool stop;
	int wake_fd; /* eventfd: a command changed something the engine must look at */
	_Atomic bool dozes; /* the engine sleeps longer than a command may wait; set with hca->lock, cleared by who wakes it */
};

struct hca {
	pthread_mutex_t lock;
	_Atomic int waiters; /* threads of the program that want the lock: the engine steps back; a futex */
	_Atomic int stepped_back; /* the engine sleeps on waiters */

	struct sim_state *state; /* immutable pointer; see state.h for who writes what */
	int state_fd;
	uint32_t slot;
	uint32_t n_qps;
	struct qp **qps; /* by number within the slot */
	struct hca_regions regions;
	uint32_t next_cqn, next_srqn;
	LIST_HEAD(, ucontext) contexts;
	LIST_HEAD(, qp) all_qps;
	uint32_t many_qps; /* with so many it has one round a tick, and sends bursts: constant */
	LIST_HEAD(, cq) cqs;
	struct hca_doorbells doorbells;
	struct hca_sending sending;
	uint64_t events_seen; /* of state->n_events */

	struct {
		uint8_t mac[6];
		bool known;
		bool in_vain; /* somebody has waited for it in vain; from then on only packets ask */
		uint64_t asked_ns;
	} lids[SIM_MAX_LIDS]; /* as state->lids */

	struct net *net;
	struct faults *faults;
	TAILQ_HEAD(late_queue, late) late; /* late.c, by time */
	struct hca_engine engine;
	uint64_t now_ns; /* CLOCK_MONOTONIC, once per round of the engine */
};

/** hca_lock() / hca_unlock() - for threads of the program; the engine lets them go first. */
static inline void hca_lock(struct hca *h)
{
	atomic_fetch_add_explicit(&h->waiters, 1, memory_order_relaxed);
	pthread_mutex_lock(&h->lock);
	if (atomic_fetch_sub(&h->waiters, 1) == 1 && atomic_load(&h->stepped_back))
		syscall(SYS_futex, &h->waiters, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline void hca_unlock(struct hca *h)
{
	pthread_mutex_unlock(&h->lock);
}

/* root.c: the one HCA of the process. Called without the lock. */
struct hca *hca_get(void);
void hca_put(struct hca *h);

/* obj.c: handles */
int obj_add(struct ucontext *uc, struct obj *o, enum obj_type type);
struct obj *obj_get(struct ucontext *uc, uint32_t handle, enum obj_type type);
void obj_del(struct obj *o);

/* ucontext.c */
struct ucontext *ucontext_open(struct hca *h, uint32_t dev_index);
void ucontext_hold(struct ucontext *uc);
bool ucontext_close(struct ucontext *uc);
struct sim_port *ucontext_port(struct ucontext *uc, uint32_t port);

/* evq.c: events to the program */
struct evq *evq_new(void);
void evq_put(struct evq *q);
void evq_end(struct evq *q);
void evq_drop(struct evq *q, const void *owner);
void evq_push_comp(struct evq *q, struct cq *cq);
void evq_push_async(struct evq *q, uint32_t type, const void *owner, uint64_t element,
		    uint32_t *reported);
struct evq *evq_of_fd(int fd);
long evq_read(struct hca *h, struct evq *q, int fd, void *buf, unsigned long len);

/* mr.c: memory regions */
struct mr *mr_find(struct hca *h, uint32_t key);
int mr_create(struct pd *pd, uint64_t start, uint64_t len, uint64_t iova, uint32_t access,
	      struct mr **ret);
int mr_create_dmabuf(struct pd *pd, int fd, uint64_t offset, uint64_t len, uint64_t iova, uint32_t access,
		     struct mr **ret);
int mr_change(struct mr *mr, uint32_t flags, struct pd *pd, uint64_t start, uint64_t len,
	      uint64_t iova, uint32_t access);
void mr_destroy(struct mr *mr);
const struct mr *mr_dmabuf(const struct hca *h, const uint8_t *at);
uint8_t *mr_local(struct hca *h, struct pd *pd, uint32_t lkey, uint64_t addr, uint64_t len,
		  bool write);
uint8_t *mr_remote(struct qp *qp, uint32_t rkey, uint64_t addr, uint64_t len, uint32_t access);
int data_gather(struct qp *qp, const struct send_wqe *w, uint64_t off, uint32_t len, uint8_t *dst);
int data_scatter_send(struct qp *qp, const struct send_wqe *w, uint64_t off, const uint8_t *src,
		      uint32_t len);
int data_scatter_recv(struct qp *qp, const struct recv_wqe *r, uint64_t off, const uint8_t *src,
		      uint32_t len);

/* cq.c: completion queues */
void cq_send_done(struct qp *qp, const struct send_wqe *w, uint8_t syndrome, uint8_t vendor);
struct recv_done {
	uint8_t cqe_op; /* MLX5_CQE_RESP_* */
	uint8_t syndrome; /* with MLX5_CQE_RESP_ERR */
	bool solicited;
	bool grh;
	uint32_t byte_len;
	uint32_t imm; /* as on the wire */
	uint32_t src_qpn;
	uint16_t slid;
	uint8_t sl;
	uint8_t l3_type;
	uint32_t index; /* struct recv_wqe */
};
void cq_init_db(struct cq *cq);
void cq_recv_done(struct qp *qp, const struct recv_done *d);
void cq_recv_done_now(struct qp *qp, const struct recv_done *d);
void cq_poll_arm(struct cq *cq);
void cq_run_failures(struct hca *h);
int cq_resize(struct cq *cq, uint8_t *buf, uint32_t cqe_size, uint32_t n_cqe);

/* rq.c: taking receive work requests */
int rq_take(struct qp *qp, struct recv_wqe *ret);
void rq_flush(struct qp *qp);

/* qp.c: queue pairs */
struct qp *qp_find(struct hca *h, uint32_t qpn);
void qp_fetch(const struct qp *qp);
void qp_kick(struct qp *qp);
void qp_enqueue(struct qp *qp, struct qp_queue *queue);
void qp_poll_send(struct qp *qp);
void qp_reset(struct qp *qp);
void qp_enter_err(struct qp *qp);
void qp_fatal(struct qp *qp, uint32_t event);
void qp_async(struct qp *qp, uint32_t event);
void qp_destroy(struct qp *qp);
bool qp_transmit(struct qp *qp, int budget);

/* path.c, lid.c: from address vector to headers */
bool lid_path(struct hca *h, const struct sim_port *port, uint32_t port_index, struct path *p);
void lid_learn(struct hca *h, uint16_t lid, const uint8_t *mac);
uint16_t qp_pkey(const struct qp *qp);
bool lid_is_worth_waiting(const struct hca *h, uint16_t lid);
const uint8_t *lid_address(const struct sim_state *st, uint16_t lid);
uint16_t lid_of_address(const struct sim_state *st, const uint8_t *addr);
bool path_refresh(struct hca *h, struct sim_dev *dev, uint32_t port, struct path *p);
void path_hold_gid(struct hca *h, uint32_t dev, uint32_t port, uint32_t index, int n);

/* rc_*.c, uc.c, ud.c: transports. *_transmit() send up to @budget packets; true if
 * there is more. */
bool rc_req_transmit(struct qp *qp, int budget);
void rc_req_response(struct qp *qp, const struct wire_packet *p);
void rc_req_timer(struct qp *qp);
void rc_req_account(struct qp *qp);
void rc_req_fail(struct qp *qp, uint8_t syndrome, uint8_t vendor);
bool rc_resp_transmit(struct qp *qp, int budget);
void rc_resp_request(struct qp *qp, const struct wire_packet *p);
bool uc_transmit(struct qp *qp, int budget);
void uc_receive(struct qp *qp, const struct wire_packet *p);
bool ud_transmit(struct qp *qp, int budget);
void ud_receive(struct qp *qp, const struct wire_packet *p);
void send_flush(struct qp *qp);
void send_complete_head(struct qp *qp);
void send_fail_head(struct qp *qp, uint8_t syndrome, uint8_t vendor);

/* net.c, net_out.c: frames */
#define NET_RX_BATCH 64 /* taken from a socket at once */
struct net *net_new(struct hca *h);
void net_free(struct net *n);
uint8_t *net_frame(struct hca *h);
void net_send(struct hca *h, struct qp *qp, const struct path *path, struct wire_packet *p,
	      uint8_t *frame);
void net_flush(struct hca *h);
int net_receive(struct hca *h);
void net_update(struct hca *h);
int net_wait(struct hca *h, uint64_t timeout_ns, bool deaf);
void net_emit(struct hca *h, uint32_t ifindex, const uint8_t *frame, size_t len);
void net_deliver(struct hca *h, uint8_t *frame, size_t len, uint32_t ifindex);

/* faults.c */
struct faults *faults_new(struct hca *h);
void faults_free(struct faults *f);
enum sim_fault_action fault_check(struct hca *h, uint8_t dir, uint32_t dev, uint32_t port,
				  uint32_t qpn, uint8_t opcode, uint8_t syndrome,
				  uint32_t *delay_us);
void fault_delay(struct hca *h, bool rx, uint32_t ifindex, const uint8_t *frame, size_t len,
		 uint32_t delay_us);
bool faults_run(struct hca *h);
uint64_t faults_due(struct hca *h);

/* late.c */
bool late_recv_done(struct qp *qp, const struct recv_done *d);
bool late_last_wqe(struct qp *qp);
/* What pushes late bytes to memory before their time: nothing; late_push() for any place; late_push() for a byte of their region. */
enum late_push { LATE_BY_NONE, LATE_BY_ALL, LATE_BY_REGION };
bool late_dma(struct qp *qp, uint8_t *dst, const uint8_t *src, uint32_t len, uint64_t delay_ns, enum late_push by);
void late_push(struct hca *h, const struct sim_dev *dev, const uint8_t *at);
void late_forget(struct hca *h, const uint8_t *from, uint64_t len);
void late_flush(struct qp *qp);
bool late_run(struct hca *h);
uint64_t late_due(struct hca *h);

/* engine.c */
int engine_start(struct hca *h);
void engine_stop(struct hca *h);
void engine_hurry(struct hca *h);

/* cmd.c, cmd_ioctl.c: the uverbs file's write() and ioctl(). Called without the lock. */
long cmd_write(struct ucontext *uc, const void *buf, unsigned long len);
int cmd_ioctl(struct ucontext *uc, unsigned long req, void *arg);

#endif
