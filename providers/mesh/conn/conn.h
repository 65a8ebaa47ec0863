/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONN_H
#define MESH_CONN_H

#include <poll.h>
#include <sys/queue.h>

#include "attr.h"
#include "context.h"
#include "directory_client.h"
#include "helper.h"
#include "move.h"
#include "move_limiter.h"
#include "proof.h"
#include "rails.h"
#include "timer_heap.h"
#include "vqp.h"

/*
 * Connections: the record of each RC queue pair from INIT on, and the table of records.
 *
 * - PASSTHROUGH: the program's own QP works. The plugin answers the peer, and may log work for a later move (@vqp).
 * - HELD: modify_qp has returned 0 for RTR, but the path does not work. Sends wait (vqp.h) while the helper thread negotiates
 *   (move.h). HELD ends in MOVED, PASSTHROUGH or FAILED.
 * - MOVED: a queue pair on another rail does the work.
 *
 * Locks, in this order: conn->lock, process->conns.lock. conn->lock may be held over verbs calls that take long. The other guards
 * table and lists only.
 */

enum mesh_conn_state {
	MESH_CONN_INIT, /* the program's QP is in INIT; receives are recorded */
	MESH_CONN_PASSTHROUGH,
	MESH_CONN_HELD,
	MESH_CONN_MOVED,
	MESH_CONN_FAILED, /* no path works: the program has got completions in error */
};

/* A remote key that the peer was asked for (KEY_GET), or a key of ours that the peer has to forget (KEY_DROP). */
struct mesh_conn_key {
	TAILQ_ENTRY(mesh_conn_key) of_conn;
	LIST_ENTRY(mesh_conn_key) of_drops; /* if @drop; process->drops.lock */
	struct mesh_conn *conn; /* constant, as @key */
	bool drop;
	uint32_t key, request_id;
	uint64_t resend_at_ns, resend_step_ns; /* 0: not sent yet */
	uint64_t give_up_ns;
};

/* Remote keys in the messages of a move: rkey_offer.c. Those that the peer's offer asks for, and ours. id 0: none. */
struct mesh_conn_move_keys {
	struct mv_ctl_key asked[MV_CTL_KEYS];
	uint32_t offer; /* request id of the peer's offer */
	uint32_t asked_for, told_for; /* last offer in which we asked, and for which we told keys */
	struct mesh_conn_move_key {
		uint32_t id;
		bool given;
		struct mesh_failover_key key;
	} ours[MV_CTL_KEYS];
};

/* A path of this end, with its objects. */
struct mesh_conn_path {
	struct mesh_pd *pd; /* protection domain on the rail; NULL: none */
	bool connected; /* its queue pair is in RTR at least */
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port, gid_type;
	union ibv_gid gid, peer_gid;
	uint32_t sq_psn; /* first PSN; MV_CTL_PSN_NONE: the program's */
	uint32_t qpn; /* of this end, as the next two; once the queue pair is made */
	uint16_t lid, mtu_bytes;
};

/* The path of the standby. */
struct mesh_standby_path {
	union ibv_gid gid, peer_gid;
	uint8_t port, gid_type;
	uint16_t mtu_bytes, lid; /* of this end */
	unsigned int n_told; /* number of times that the peer was told */
	uint64_t tell_ns; /* when to tell the peer again */
};

/* The primary path: the path on which the connection was made. */
struct mesh_conn_primary {
	char device[IBV_SYSFS_NAME_MAX]; /* "": not made yet */
	uint8_t port, gid_type;
	bool away; /* the connection is on another path now */
	bool standby_tried; /* @standby_pd was made, or tried */
	bool renews; /* the rail of @standby_pd was lost, and there is no new @standby_pd yet */
	union ibv_gid gid, peer_gid;
	uint64_t hold_ns; /* hold-down: how long the primary path has to work before moving back; grows with each flap */
	uint64_t works_since_ns; /* 0: the primary path does not work */
	uint64_t returned_at_ns; /* when the connection moved back, or later began a move that came to nothing; 0: neither */
	bool sent_back; /* it moved back whatever @hold_ns was: its path had failed or was drained. Or @hold_ns is doubled already */
	bool refused; /* @stayed of the connection says why it did not move back */
	struct mesh_pd *standby_pd; /* PD on the rail of the next move; arm.c */
	uint64_t turn_ns; /* do not arm before */
	struct mesh_standby_path standby; /* path of the standby, if there is one */
	struct mesh_pd *old_pd; /* PD of the QP that did the work before, until mesh_conn_reap() */
};

#define MESH_PATH_FAILURES 4 /* with more failed paths, all paths are barred */

/* A path on which the work of the connection has used up its retries. */
struct mesh_conn_failure {
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port, gid_type;
	bool was_down; /* a port was down, when the work failed or later */
	bool was_silent; /* no answer to probes, when the work failed or later */
	union ibv_gid gid, peer_gid;
};

/* Paths that failed since any work of the connection got through; path_failures.h. */
struct mesh_conn_failures {
	struct mesh_conn_failure paths[MESH_PATH_FAILURES];
	unsigned int n;
	bool noted; /* the path of the QP that does the work is listed */
	uint64_t since_ns, generation; /* of the first failure; of the directory at the last one, 0: there was none */
};

/* A failed queue pair waits for a path for move_timeout_ms divided by this. */
#define MESH_PATHLESS_PART 4

/* When each step of the last move at work was done, ns of mesh_now_ns(). */
struct mesh_conn_steps {
	uint64_t prepared_ns, connected_ns, draining_ns, drained_ns;
};

#define MESH_KEY_BITS 10 /* bits of a hash of remote keys */

/* State of a connection in the queue of the workers. */
enum mesh_job {
	MESH_JOB_NONE,
	MESH_JOB_WAITS,
	MESH_JOB_AT_WORK,
	MESH_JOB_AGAIN, /* at work, and to be queued again */
};

/* Paths of a connection that the agent watches; path_monitor.h. Times are mesh_now_ns(). */
struct mesh_conn_watched {
	struct mesh_path_watch *work, *primary; /* NULL: not watched */
	bool primary_answers; /* the primary path has answered probes, so it has to answer again before a move back */
	bool prepares; /* the move began on suspicion of @work; cleared by mesh_conn_note_sure() */
	uint64_t dead_ns; /* a follower knows that its path is dead, since; its leader seems not to know; 0: no */
	uint64_t suspect_ns; /* last suspicion for which the connection prepared: mesh_path_monitor_suspect() */
};

/* The connection in the table: conn.c. process->conns.lock. */
struct mesh_conn_table {
	struct mesh_conn *next; /* in its hash bucket */
	LIST_ENTRY(mesh_conn) of_all;
	uint64_t serial; /* larger than those of earlier connections; constant once in the table */
	bool linked; /* in the table */
	union ibv_gid end_gid; /* of @ends.local, for look-ups; zero before mesh_conn_connected() */
	bool registered; /* the agent has got the REGISTER_QP */
	bool known; /* the agent may have, or have had, the registration, so send UNREGISTER_QP at the end */
	bool passthrough; /* PASSTHROUGH since RTR, without @vqp: only answers the peer */
	_Atomic uint32_t passthrough_sq_psn; /* the program's sq_psn; MV_CTL_PSN_NONE before RTS; read without the lock */
	/* The rail of its last move, and why; of a self-connected QP: of the connection that it follows. "": none yet */
	char went_to[IBV_SYSFS_NAME_MAX];
	uint8_t went_why; /* enum mv_ctl_reason */
	bool follows; /* self-connected, and can move */
	struct mesh_conn *next_follower;
};

/* When the helper thread looks at the connection next: connqueue.c. process->conns.lock. */
struct mesh_conn_schedule {
	TAILQ_ENTRY(mesh_conn) of_queue;
	bool queued; /* in a queue for the helper thread, for its next turns */
	bool put_back; /* also queued, left by a turn, not due yet: in @put_back of struct mesh_conns */
	/*
	 * When the helper thread looks at a connection of the table: at @due_ns; UINT64_MAX: not. The heap entry @timer
	 * may have an earlier time. A moving connection postpones @due_ns with each message, and the entry is corrected
	 * once it comes up: that is cheaper than to move the entry each time.
	 */
	struct mesh_timer timer;
	uint64_t due_ns;
	bool waits; /* in the list of those that wait to move, @mover; that list has a reference */
	enum mesh_mover mover;
	TAILQ_ENTRY(mesh_conn) of_waiting;
	struct mesh_conn *next_taken; /* in the chain of mesh_conns_take(); owned by the helper thread */
};

/* Messages in the peer's name: messages.c, proved.c. Owned by the helper thread. */
struct mesh_conn_inbound {
	struct mv_host_id late_bye_from;
	struct mv_ctl_msg late_bye; /* came while another thread had the lock; type 0: none */
	struct mv_proof_limit proof_limit; /* rate limit of forged messages */
};

/* Attributes as the program gave them, with its later changes: connect.c, modify.c, query.c. conn->lock. */
struct mesh_conn_attr {
	struct ibv_qp_attr init, rtr, rts;
	int init_mask, rtr_mask, rts_mask; /* 0: not yet */
};

/* The two ends of the connection: connect.c. conn->lock; set at RTR, @peer_gone and @local_type also later. */
struct mesh_conn_ends {
	struct mv_ctl_end local, peer; /* as the programs know them */
	uint8_t local_type; /* enum mv_gid_type */
	bool own_host; /* the peer is on this host */
	bool self; /* self-connected: @peer is @local */
	bool peer_gone; /* the peer said that its program's QP is gone */
	char peer_host[64];
	struct mv_host_id host_id; /* of the peer's host at RTR, checked later; zero: not known */
};

/* The program's last attempt to connect, and how it ended: connect.c, passthrough.c. conn->lock. */
struct mesh_conn_attempt {
	uint32_t number;
	uint64_t nonce; /* random number of this attempt; 0: none was needed yet (mesh_conn_draw_nonce()) */
	uint64_t rtr_ns; /* when the program asked for RTR */
	uint64_t held_ns; /* when the connection became HELD */
	int rtr_error; /* FAILED: errno of RTR of the program's own QP; 0: that QP receives */
	const char *unlogged; /* PASSTHROUGH without @vqp: why, a constant string */
};

/* The program's own QP on the path that the program asked for, before MOVED: passthrough.c. conn->lock. */
struct mesh_conn_own_qp {
	enum mv_path_verdict verdict; /* of that path at RTR */
	bool fits; /* at RTR, the kernel had a route to the peer for the GID entry */
	uint64_t works_since_ns; /* HELD: that path seems to work since; 0: it does not */
	bool works_known; /* true: by an agent that knows the peer; false: because no agent does */
	bool due; /* a worker may try that path now */
	/* HELD: the QP is in RTR with this GID index, and receives; mesh_conn_listen() */
	bool listens;
	uint8_t listen_index, listen_type; /* enum mv_gid_type */
	/* HELD, after MV_DO_PASSTHROUGH: the QP is connected; sends wait for the peer's QP; mesh_conn_await_peer() */
	bool awaits_peer, peer_receives;
	uint8_t type; /* enum mv_gid_type for that */
	uint64_t await_until_ns, ask_peer_ns, ask_step_ns;
};

/* What the next action of @move waits for: passthrough.c, execute.c, run.c. conn->lock. */
struct mesh_conn_blocked {
	/* PASSTHROUGH or PREPARE waits for a thread of the program that is in a batch, or polls an extended CQ */
	bool in_batch;
	/* PASSTHROUGH waits for its GID in the table: since, and next look; 0: does not */
	uint64_t entry_ns, entry_again_ns;
	uint64_t device_again_ns; /* the next action waits for a device that does not answer: next look; 0: no */
};

/* The move at work: room failover, rkey_offer.c, move_limiter.c. conn->lock. */
struct mesh_conn_moving {
	uint64_t since_ns; /* begin of the move; 0: none */
	struct mesh_conn_steps steps;
	struct mesh_conn_path next_path; /* of the next QP */
	struct mesh_conn_move_keys keys;
	bool draining; /* MV_DO_DRAIN is under way */
	bool drain_waits; /* the drain has not begun yet, because a thread is in a batch */
	bool drained; /* from the end of the drain to ACTIVATE */
	bool counted, fresh, prepared; /* counts in n_moving; n_fresh; n_prepared of struct mesh_process */
	uint64_t counted_ns; /* since when */
};

/* After a move that came to nothing, or without a path: when to move again; failover_policy.c. conn->lock. */
struct mesh_conn_retry {
	const char *stayed; /* why the last move came to nothing, a constant string; NULL: it did not */
	uint64_t stayed_ns; /* when the last move came to nothing */
	uint64_t again_ns; /* pause until it tries again to leave a port that is down; doubles each time */
	uint64_t again_generation; /* generation of the directory at that time */
	uint64_t pathless_ns; /* failed, and without a path, since; 0: no */
	uint64_t limited_ns; /* waits to move since; 0: does not */
};

/* What the agent and the log were told last: connstatus.c, mesh_conn_tell_changes(). conn->lock. */
struct mesh_conn_status {
	bool told;
	uint64_t tell_at_ns; /* not before; 0: at once */
	enum mesh_conn_state state;
	const char *bound, *stayed, *movable;
	uint8_t untold_move; /* enum mv_ctl_reason of a move that is not logged yet; NONE: all are */
};

/* Work of the connection in the queue of the workers: worker.c. workers->lock. */
struct mesh_conn_job {
	enum mesh_job state;
	struct mesh_conn *next;
	uint64_t since_ns;
	union ibv_gid to;
	bool tries;
};

/* Flags that threads set for each other: connqueue.c, rkey_exchange.c, worker.c. Any thread, without a lock. */
struct mesh_conn_flags {
	_Atomic bool at_work; /* a worker, or the program in RTR, has conn->lock, or is about to take it, perhaps for seconds */
	_Atomic bool work_waits; /* the program posted a send that has to wait */
	_Atomic bool tell; /* there is a new agent, which has to be told */
	_Atomic bool refused; /* the agent refused the registration: no messages in either direction */
	_Atomic bool called; /* it may move now, and was not looked at since */
	_Atomic bool path_failed; /* the QP that does the work went to ERR because of its path */
	_Atomic bool drops_unheard; /* the program waited for a KEY_DROPPED in vain, and none has come since */
};

/* Remote keys that the ends exchange: rkey_exchange.c, rkey_drops.c. @lock guards the rest. */
struct mesh_conn_keys {
	MESH_LOCK(KEY) lock; /* process->drops.lock and the helper's link_lock are taken with it */
	TAILQ_HEAD(, mesh_conn_key) list; /* unanswered, oldest first: so answers find theirs at the front */
	uint32_t next_request;
	unsigned int n_drops; /* those of @list with @drop */
	struct mv_ctl_msg drop; /* template of a KEY_DROP; type 0: the peer has no key of ours */
	uint64_t told[(1 << MESH_KEY_BITS) / 64]; /* hash filter of keys that the peer has asked for; never cleared */
	bool drops_repeat; /* mesh_conn_run_keys() repeats KEY_DROPs */
};

/* Answer to a peer that asks while the own QP is being connected, or later: messages.c. @keys.lock; written with conn->lock, too */
struct mesh_conn_refusal {
	bool on;
	uint8_t local_type;
	struct mv_ctl_end local, peer;
	uint32_t rq_psn, attempt;
	uint64_t nonce, rtr_ns;
};

struct mesh_conn {
	/* Constant. */
	struct ibv_qp *qp;
	struct mesh_context *mc;
	uint32_t qpn;

	_Atomic unsigned int refs;
	struct mesh_conn_flags flags;
	struct mesh_conn_table table;
	struct mesh_conn_schedule schedule;
	struct mesh_conn_inbound inbound;

	MESH_LOCK(CONN) lock; /* guards the rest, except @job, @keys and @refusal */
	enum mesh_conn_state state;
	bool gone; /* the program destroyed or reset the QP */
	struct mesh_conn_attr attr;
	struct mesh_conn_ends ends;
	struct mesh_conn_attempt attempt;
	struct mesh_conn_own_qp own_qp;
	struct mv_move move; /* valid with @vqp */
	struct mesh_vqp *vqp; /* HELD, MOVED, FAILED; PASSTHROUGH if it can move later */
	struct mesh_conn_path path; /* of the QP in the program's place */
	struct mesh_conn_blocked blocked;
	struct mesh_conn_moving moving;
	struct mesh_conn_retry retry;
	struct mesh_conn_primary primary;
	struct mesh_conn_watched watched;
	struct mesh_conn_failures *failures; /* NULL: none so far */
	struct mesh_conn_status status;

	struct mesh_conn_job job;
	struct mesh_conn_keys keys;
	struct mesh_conn_refusal refusal;
};

/** mesh_conn_negotiates - has the connection a virtual QP that may move? conn->lock */
static inline bool mesh_conn_negotiates(const struct mesh_conn *conn)
{
	return !conn->gone && conn->vqp && conn->state != MESH_CONN_FAILED;
}

/**
 * mesh_conn_get - the connection of a queue pair, with a reference. Any thread; takes process->conns.lock.
 *
 * Return: the connection, to be given to mesh_conn_put(); NULL: none.
 */
struct mesh_conn *mesh_conn_get(const struct ibv_qp *qp);
/** mesh_conn_find - the same by the names in messages */
struct mesh_conn *mesh_conn_find(const char *device, uint32_t qpn);
/** mesh_conn_find_end - the same by the end that the peer's program knows */
struct mesh_conn *mesh_conn_find_end(const struct mv_ctl_end *end);
void mesh_conn_put(struct mesh_conn *conn); /* NULL is fine */
struct mesh_conn *mesh_conn_ref(struct mesh_conn *conn);

/**
 * mesh_conn_new - make a connection in INIT, in the table, with a reference for the caller
 *
 * Drops an earlier connection of the same QP. Return: NULL: no memory.
 */
struct mesh_conn *mesh_conn_new(struct mesh_context *mc, struct ibv_qp *qp);

/** mesh_conn_unlink - take a connection out of the table, and send UNREGISTER_QP to the agent; references stay valid */
void mesh_conn_unlink(struct mesh_conn *conn);

/**
 * mesh_conn_queue - have the helper thread look at a connection in its next turn
 * @changed: mesh_thread_wake() follows; false on the helper thread itself
 */
void mesh_conn_queue(struct mesh_conn *conn, bool changed);
/** mesh_conn_queue_at - have the connection looked at by @due_ns, or earlier if that was asked before; helper thread */
void mesh_conn_queue_at(struct mesh_conn *conn, uint64_t due_ns);
/** mesh_conn_put_off - have the connection looked at at @due_ns and not earlier, unless it is queued; helper thread */
void mesh_conn_put_off(struct mesh_conn *conn, uint64_t due_ns);
/** mesh_conn_connected - queue, as changed, a connection whose own GID is known now; @passthrough: it never moves */
void mesh_conn_connected(struct mesh_conn *conn, const union ibv_gid *gid, bool passthrough);
/**
 * mesh_conn_untouched - may the lower provider alone handle a modify_qp after RTR?
 *
 * True if the QP has no connection, or a passthrough one without @vqp. Passes no cancellation point.
 *
 * Return: true: call the lower provider's function, then mesh_conn_note_sq_psn(); false: see mesh_conn_get().
 */
bool mesh_conn_untouched(const struct ibv_qp *qp);
/** mesh_conn_note_sq_psn - note the first PSN of such a modify_qp, for mesh_conn_sq_psn(); passes no cancellation point */
void mesh_conn_note_sq_psn(const struct ibv_qp *qp, uint32_t sq_psn);
/**
 * mesh_conn_goes - a connection moves to another rail: have the self-connected QPs that belong to it follow
 *
 * A self-connected QP belongs to the connections that complete in its CQ. NCCL makes one per receiving connection, and READs over
 * it what came last. The READ flushes data on its way to GPU memory, so the same NIC has to do it that received the data.
 */
void mesh_conn_goes(struct mesh_conn *conn, const char device[static IBV_SYSFS_NAME_MAX], enum mv_ctl_reason why);
/** mesh_conn_follows - a self-connected QP begins to follow others, also those that have moved already */
void mesh_conn_follows(struct mesh_conn *conn);
/** mesh_conn_led - the rail to follow to. @ret_device: IBV_SYSFS_NAME_MAX bytes. Return: false: none, it may use any rail */
bool mesh_conn_led(const struct mesh_conn *conn, char *ret_device, enum mv_ctl_reason *ret_why);
/**
 * mesh_conn_leaves - a self-connected QP leaves @device for a reason of its own: it follows no connection there, until the next
 * moves
 */
void mesh_conn_leaves(struct mesh_conn *conn, const char *device);
/** mesh_conn_sq_psn - first PSN that a passthrough connection sends; MV_CTL_PSN_NONE: before RTS */
static inline uint32_t mesh_conn_sq_psn(const struct mesh_conn *conn)
{
	return atomic_load_explicit(&conn->table.passthrough_sq_psn, memory_order_relaxed);
}
/** mesh_conns_changed - was any connection queued with @changed since the helper thread took the queue? */
bool mesh_conns_changed(void);

/**
 * mesh_conns_queue_all - queue all connections that a new directory concerns; @anew: all connections, because a new
 * agent has to be told
 */
void mesh_conns_queue_all(bool anew);
/**
 * mesh_conns_port_down - a port is down (mesh_port_event()): have the helper thread, if there is one, look at all connections;
 * any thread
 */
void mesh_conns_port_down(void);

/**
 * mesh_conns_take - take connections that are queued or due, at most one turn's worth; helper thread only
 * @ret_next: when to take the others; UINT64_MAX: there are none
 *
 * New and due connections come first. With hundreds of connections, each step of one lets its peer go on, so moves that have
 * begun must not wait for all others. Connections that are left have their turn later.
 *
 * Return: chain by @schedule.next_taken, the oldest first; the caller puts each.
 */
struct mesh_conn *mesh_conns_take(uint64_t now_ns, uint64_t *ret_next);
/** mesh_conns_take_all_locked - take all queued connections; only while there is no helper thread; process->conns.lock */
struct mesh_conn *mesh_conns_take_all_locked(void);

/**
 * mesh_conn_register - send the agent a REGISTER_QP for the connection, if not sent yet; helper thread only
 *
 * Return: 0: sent now, or to be sent once there is an agent; -EALREADY: sent before; -EAGAIN: the socket has no room, try later.
 */
int mesh_conn_register(struct mesh_conn *conn);
/**
 * mesh_conn_is_registered - has a connection with this QPN been registered?
 *
 * True also if the agent refused or lost the QP. The agent is told when the connection ends, and keeps the QP until
 * then.
 */
bool mesh_conn_is_registered(const char *device, uint32_t qpn);
/** mesh_conn_refused - the agent refused the QP: the connection goes on as without meshverbs; the caller queues it */
void mesh_conn_refused(struct mesh_conn *conn);
/** mesh_conn_unregistered - the agent may have lost the registration: mesh_conn_register() sends it again */
void mesh_conn_unregistered(struct mesh_conn *conn);

/** mesh_conn_wait_to_move - wait until it may move, see move_limiter.h; first come, first served */
void mesh_conn_wait_to_move(struct mesh_conn *conn, enum mesh_mover mover);
/** mesh_conn_waits_no_more - stop waiting to move, if it did */
void mesh_conn_waits_no_more(struct mesh_conn *conn);
/**
 * mesh_conns_next_mover - call the first waiting connection. Return: is there one? Then the helper thread has to look
 * at it.
 */
bool mesh_conns_next_mover(enum mesh_mover mover);

/**
 * mesh_conns_of - connections of a context, newest first
 * @ret: array of @max; each with a reference
 * @after: NULL: from the newest on; else the last one of the previous call, still with its reference: those that follow
 *
 * A walk misses no connection that existed at its begin, and ends, because new connections come in front.
 *
 * Return: the number of connections in @ret.
 */
size_t mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, const struct mesh_conn *after);

/* How long the helper thread waits for conn->lock, and then until its next try. ns */
#define MESH_CONN_PATIENCE_NS 1000000l

/** mesh_conn_enter - take conn->lock for the helper thread. Return: false: another thread holds it for longer. */
bool mesh_conn_enter(struct mesh_conn *conn) MV_TRY_ACQUIRES(&conn->lock);
/** mesh_conn_exit - release conn->lock, after mesh_conn_key_peer(); also on a worker */
void mesh_conn_exit(struct mesh_conn *conn) MV_RELEASES(&conn->lock);

/** mesh_conns_are_driven - does the program post to a recent QP of that PD, or poll its CQs, without libibverbs? driven.c */
bool mesh_conns_are_driven(struct mesh_context *mc, const struct ibv_pd *pd);

#include "rkey_exchange.h"

#endif
