/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONN_H
#define MESH_CONN_H

#include <poll.h>
#include <sys/queue.h>

#include "attr.h"
#include "context.h"
#include "due.h"
#include "held.h"
#include "helper.h"
#include "move.h"
#include "peerview.h"
#include "proof.h"
#include "rails.h"
#include "turns.h"

/*
 * Connections: what is remembered of each RC queue pair from INIT on, and the table of them.
 *
 * A connection whose path works is NATIVE: the base's own, and all we do is answer its peer. One whose path does not
 * is HELD: modify_qp has told the program that it is connected, its work waits (held.h), and the helper thread
 * negotiates (move.h) until it is MOVED or falls back to NATIVE.
 *
 * Locks, in this order: conn->lock, process->conns_lock. conn->lock may be held over verbs calls that take long;
 * conns_lock guards table and lists only.
 */

enum mesh_conn_state {
	MESH_CONN_INIT, /* program's QP is in INIT, its receives are being logged */
	MESH_CONN_NATIVE,
	MESH_CONN_HELD,
	MESH_CONN_MOVED,
	MESH_CONN_FAILED, /* no way at all: completions in error have been given */
};

/* A remote key that the peer was asked for (KEY_GET), or one of ours that it has to forget (KEY_DROP). */
struct mesh_conn_key {
	TAILQ_ENTRY(mesh_conn_key) of_conn;
	LIST_ENTRY(mesh_conn_key) of_drops; /* if @drop; under process->drops_lock */
	struct mesh_conn *conn; /* constant, as is @key */
	bool drop;
	uint32_t key, request_id;
	uint64_t resend_at_ns, resend_step_ns; /* 0: not sent yet */
	uint64_t give_up_ns;
};

/*
 * Remote keys that go with the messages of a move: movekeys.c. What the peer has asked for by an offer, and what we have; id 0: nothing.
 */
struct mesh_conn_move_keys {
	struct mv_ctl_key asked[MV_CTL_KEYS];
	uint32_t offer; /* by which */
	uint32_t asked_for, told_for; /* the offer for which we have, last */
	struct mesh_conn_move_key {
		uint32_t id;
		bool given;
		struct mesh_live_key key;
	} ours[MV_CTL_KEYS];
};

/* A path of ours and what belongs to it. */
struct mesh_conn_path {
	struct mesh_pd *pd; /* protection domain on the rail; NULL: none */
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port, gid_type;
	union ibv_gid gid, peer_gid;
	uint32_t sq_psn; /* first one, or MV_CTL_PSN_NONE: as the program says */
};

/* The path of a QP that was made ahead. */
struct mesh_conn_spare {
	union ibv_gid gid, peer_gid;
	uint8_t port, gid_type;
	uint16_t mtu_bytes, lid; /* of our end */
	unsigned int n_told; /* how often the peer has been told of it */
	uint64_t tell_ns; /* when it is to be told again */
};

/* Where a connection belongs: the path that it was made on. */
struct mesh_conn_home {
	char device[IBV_SYSFS_NAME_MAX]; /* "": not made yet */
	uint8_t port, gid_type;
	bool away; /* it is on another path now */
	bool spared; /* a @spare was tried */
	bool renews; /* the rail of @spare was lost, and there is none in its place yet */
	union ibv_gid gid, peer_gid;
	uint64_t hold_ns; /* how long home has to work before it moves back; grows with each flap */
	uint64_t works_since_ns; /* 0: it does not */
	uint64_t returned_at_ns; /* 0: it has not */
	struct mesh_pd *spare; /* on the rail that would be next; prearm.c */
	uint64_t turn_ns; /* not before */
	struct mesh_conn_spare ahead; /* the path with @spare at this end, if a QP waits there */
	struct mesh_pd *old_pd; /* of the QP that did the work before, until mesh_conn_reap() */
};

#define MESH_PATH_FAILURES 4 /* so many paths are tried with work that gets through nowhere */

/* A path on which the work of the connection has used up its retries. */
struct mesh_conn_failure {
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port, gid_type;
	bool was_down; /* a port of it was, then or since */
	bool was_silent; /* it did not answer probes, then or since */
	union ibv_gid gid, peer_gid;
};

/* Those on which it did since any of its work got through; path_failures.h. */
struct mesh_conn_failures {
	struct mesh_conn_failure paths[MESH_PATH_FAILURES];
	unsigned int n;
	bool noted; /* that of the queue pair that does the work is among them */
	uint64_t since_ns; /* the first one */
};

/* A queue pair that has failed waits for a path for so large a part of move_timeout_ms. */
#define MESH_PATHLESS_PART 4

/* When the steps of the last live move were through; ns of mesh_now_ns(). */
struct mesh_conn_steps {
	uint64_t prepared_ns, connected_ns, fencing_ns, fenced_ns;
};

#define MESH_KEY_BITS 10 /* of a hash of remote keys */

/* What a worker has to do with a connection. */
enum mesh_job {
	MESH_JOB_NONE,
	MESH_JOB_WAITS,
	MESH_JOB_AT_WORK,
	MESH_JOB_AGAIN, /* at work, and there is more since */
};

/* Paths of a connection that the agent watches; probed.h. */
struct mesh_conn_probed {
	struct mesh_probed *work, *home; /* NULL: not watched */
	bool home_answers; /* home has answered probes, so it is to do so again before the connection returns */
	bool prepares; /* the move under way began on suspicion of @work, and it is not noted yet that it is sure */
	uint64_t dead_ns; /* since when a follower is sure whose leader is not, as far as is known; 0: it is not */
	uint64_t suspect_ns; /* the suspicion that it last prepared for: mesh_probed_suspect() */
};

struct mesh_conn {
	/* Constant. */
	struct ibv_qp *qp;
	struct mesh_context *mc;
	uint32_t qpn;

	_Atomic unsigned int refs;

	/* Under process->conns_lock. */
	struct mesh_conn *next; /* in its bucket */
	LIST_ENTRY(mesh_conn) of_all;
	uint64_t serial; /* larger than that of any that came earlier; constant once it is in the table */
	TAILQ_ENTRY(mesh_conn) of_queue;
	bool linked; /* in the table */
	bool queued; /* for the thread to look at, at once */
	bool put_back; /* likewise, and has been left, without being due: in @put_back of struct mesh_conns */
	/*
	 * Or when it is to, if it is in the table: at @due_ns, UINT64_MAX: not. @due may wait for an earlier time, which has been overtaken: what
	 * moves is put off with each message, and to take it out and in again each time would take longer than to put it off once when it comes.
	 */
	struct mesh_due due;
	uint64_t due_ns;
	bool claimed; /* the agent has been told of it */
	bool known; /* the agent may have it, now or earlier: it is to be told when it goes */
	bool waits; /* for its turn to move, @turn; the list of those has a reference */
	enum mesh_turn turn;
	bool native; /* went that way at RTR: all there is to do is to answer */
	uint32_t native_sq_psn; /* its program's, MV_CTL_PSN_NONE before RTS */
	TAILQ_ENTRY(mesh_conn) of_waiting;
	union ibv_gid end_gid; /* of @local, for look-ups; zero before mesh_conn_connected() */
	/* Where its work went last, and why; of one that is connected to itself: that of the one that it goes with. "": nowhere else yet */
	char went_to[IBV_SYSFS_NAME_MAX];
	uint8_t went_why; /* enum mv_ctl_reason */
	bool follows; /* it is connected to itself, and may move */
	struct mesh_conn *next_follower;
	/* The helper thread's own. */
	struct mesh_conn *next_taken;
	struct mv_host_id late_bye_from;
	struct mv_ctl_msg late_bye; /* came when the thread could not have the lock; type 0: none */
	struct mv_proof_limit proof_limit; /* of messages in the peer's name that did not open */

	MESH_LOCK(CONN) lock; /* guards the rest */
	enum mesh_conn_state state;
	bool gone; /* the program destroyed or reset it */
	struct ibv_qp_attr init, rtr, rts; /* as the program gave them, with what it has changed since */
	int init_mask, rtr_mask, rts_mask; /* 0: not yet */
	struct mv_ctl_end local, peer; /* as the programs know them */
	uint8_t local_type; /* enum mv_gid_type */
	bool own_host; /* its peer is on this host */
	bool fits; /* the kernel had a way to the peer from the entry that it was connected with */
	bool self; /* it is its own peer: @peer is @local */
	uint32_t attempt;
	uint64_t nonce; /* at random, of that attempt */
	uint64_t rtr_ns; /* when the program asked for RTR */
	uint64_t held_ns; /* since when, as it was made */
	uint64_t moving_ns; /* since when, at work; 0: it is not moving */
	struct mesh_conn_steps steps;
	char peer_host[64];
	struct mv_host_id host_id; /* of the peer's, which is held to that; zero: not known */
	enum mv_path_verdict verdict;
	struct mesh_conn_move_keys move_keys;
	struct mv_move move; /* when there is @held */
	struct mesh_held *held; /* HELD, MOVED, FAILED; NATIVE, if it can be moved later */
	struct mesh_conn_path path, next_path; /* of the QP in the program's place; of the one that comes next */
	bool counted, fresh, prepared; /* in process->n_moving; in n_fresh; in n_prepared */
	uint64_t counted_ns; /* since when */
	uint64_t turn_ns; /* since when it waits for its turn; 0: it does not */
	bool in_batch; /* a thread of the program's is, or polls an extended CQ, and NATIVE or PREPARE waits for the end of that */
	uint64_t entry_ns, entry_again_ns; /* NATIVE waits for an empty entry of the GID table: since when, and when to look again; 0: it does not */
	uint64_t works_since_ns; /* held: since when the path that the program asked for seems to work; 0: it does not */
	bool works_known; /* by an agent that knows the peer; false: since none does */
	bool native_due; /* and that may be tried */
	/* Held: the base's QP is in RTR already, with that index, and receives; mesh_conn_listen() */
	bool listens;
	uint8_t listen_index, listen_type; /* enum mv_gid_type */
	/*
	 * Held, and NATIVE for the transaction: the base's QP is where it stays, and sends wait until the peer's, which was held as well, is
	 * known to receive; mesh_conn_await_peer()
	 */
	bool awaits_peer, peer_receives;
	uint8_t native_type; /* enum mv_gid_type, of that */
	uint64_t await_until_ns, ask_peer_ns, ask_step_ns;
	uint64_t device_again_ns; /* the next action waits for a device that does not answer: when to look again; 0: it does not */
	bool fencing; /* FENCE is under way */
	bool fence_waits; /* and has to begin yet */
	bool fenced; /* from its end to ACTIVATE */
	bool peer_gone; /* the peer has said that its program's QP is */
	struct mesh_conn_home home;
	struct mesh_conn_probed probed;
	struct mesh_conn_failures *failures; /* NULL: none so far */
	bool shadow_connected, shadow_rts;
	int rtr_error; /* FAILED: what the base said when its own QP was to be connected: errno; 0: that receives */
	const char *unlogged; /* NATIVE without @held: why; a constant, as is the next */
	const char *stayed; /* why the last move came to nothing; NULL: it did not */
	uint8_t untold_move; /* it has moved, and the log does not have it yet: enum mv_ctl_reason, why; NONE: it has */
	uint64_t stayed_ns; /* when that was */
	uint64_t again_ns; /* how long after that it leaves a port that is down, should nothing be heard; doubles each time */
	uint64_t again_generation; /* of the directory, at that time */
	uint64_t pathless_ns; /* since when it has failed and there is no path for it; 0: there is, or it has not */
	/* What the agent was told last; see mesh_conn_run(). */
	bool told;
	uint64_t tell_at_ns; /* not before: 0: at once */
	enum mesh_conn_state told_state;
	const char *told_bound, *told_stayed, *told_movable;

	/* Under the lock of worker.c. */
	enum mesh_job job;
	struct mesh_conn *next_job;
	uint64_t job_since_ns;
	union ibv_gid job_to;
	bool job_tries;
	_Atomic bool at_work; /* a worker, or the program in RTR, has the lock, or is about to take it, perhaps for seconds */

	_Atomic bool work_waits; /* the program posted a send that has to wait; set by any thread, as is the next */
	_Atomic bool tell; /* a new agent, which knows nothing of it */
	_Atomic bool refused; /* the agent does not accept that the queue pair is this process's: no message comes or goes */
	_Atomic bool called; /* it is its turn to move, and it has not been looked at since */
	_Atomic bool path_failed; /* the QP that does the work went to ERR because of its path */

	_Atomic bool drops_unheard; /* the program waited for an answer to a KEY_DROP in vain, and none has come since */

	MESH_LOCK(KEY) key_lock; /* guards the rest; process->drops_lock and the helper thread's link_lock are taken with it */
	TAILQ_HEAD(, mesh_conn_key) keys; /* not answered yet, oldest first: so answers find theirs in front */
	uint32_t next_request;
	unsigned int n_drops; /* of @keys */
	struct mv_ctl_msg key_drop; /* what a KEY_DROP is made from; type 0: nobody has a key of ours */
	uint64_t told_keys[(1 << MESH_KEY_BITS) / 64]; /* a bit for those of a hash that the peer has asked for; never cleared */
	bool drops_repeat; /* mesh_conn_run_keys() repeats it until the peer answers */
	/* What a peer is told that asks while the program's own QP is being connected, and when that was refused. */
	struct mesh_conn_refusal {
		bool on;
		uint8_t local_type;
		struct mv_ctl_end local, peer;
		uint32_t rq_psn, attempt;
		uint64_t nonce, rtr_ns;
	} refusal;
};

/** mesh_conn_negotiates - it has something of ours that may move; conn->lock */
static inline bool mesh_conn_negotiates(const struct mesh_conn *conn)
{
	return !conn->gone && conn->held && conn->state != MESH_CONN_FAILED;
}

/**
 * mesh_conn_get - the connection of a queue pair, with a reference
 *
 * Return: the connection, to be given back with mesh_conn_put(); NULL.
 */
struct mesh_conn *mesh_conn_get(const struct ibv_qp *qp);
/** mesh_conn_find - the same by what messages name */
struct mesh_conn *mesh_conn_find(const char *device, uint32_t qpn);
/** mesh_conn_find_end - the same by the end the peer's program knows */
struct mesh_conn *mesh_conn_find_end(const struct mv_ctl_end *end);
void mesh_conn_put(struct mesh_conn *conn); /* NULL is fine */
struct mesh_conn *mesh_conn_ref(struct mesh_conn *conn);

/**
 * mesh_conn_new - a connection in INIT, in the table, with a reference
 *
 * One that the same QP left behind is dropped. Return: it, or NULL without memory.
 */
struct mesh_conn *mesh_conn_new(struct mesh_context *mc, struct ibv_qp *qp);

/** mesh_conn_unlink - take it out of the table, and have the agent let go of it; references stay good */
void mesh_conn_unlink(struct mesh_conn *conn);

/**
 * mesh_conn_queue - have the helper thread look at it when it wakes next
 * @news: mesh_thread_wake() follows; not so when it is the thread itself
 */
void mesh_conn_queue(struct mesh_conn *conn, bool news);
/** mesh_conn_queue_at - have it looked at then, or earlier; helper thread */
void mesh_conn_queue_at(struct mesh_conn *conn, uint64_t due_ns);
/** mesh_conn_put_off - have it looked at then and not earlier, unless it is queued; helper thread */
void mesh_conn_put_off(struct mesh_conn *conn, uint64_t due_ns);
/** mesh_conn_connected - the same as mesh_conn_queue(), with news, for one whose own end is known now; @native: and which stays */
void mesh_conn_connected(struct mesh_conn *conn, const union ibv_gid *gid, bool native);
/**
 * mesh_conn_untouched - a modify_qp after RTR of a queue pair that is none of ours, or native
 *
 * Passes no cancellation point.
 *
 * Return: true: the base's own function does all there is to do, but for mesh_conn_note_sq_psn(); false: see mesh_conn_get().
 */
bool mesh_conn_untouched(const struct ibv_qp *qp);
/** mesh_conn_note_sq_psn - the base has done such a modify_qp, with that: for mesh_conn_sq_psn(); passes no cancellation point */
void mesh_conn_note_sq_psn(const struct ibv_qp *qp, uint32_t sq_psn);
/**
 * mesh_conn_goes - a connection goes to another rail: those that are connected to themselves and go with it are to follow
 *
 * Those go with it whose completions are in the same CQ. NCCL has one for each connection that receives, and reads over it what
 * came last: that read has to be the NIC's that brought it, or it does not wait for what is on its way to a GPU's memory.
 */
void mesh_conn_goes(struct mesh_conn *conn, const char device[static IBV_SYSFS_NAME_MAX], enum mv_ctl_reason why);
/** mesh_conn_follows - one that is connected to itself: go where those are that have gone already */
void mesh_conn_follows(struct mesh_conn *conn);
/** mesh_conn_led - where it is to go with another. @ret_device: IBV_SYSFS_NAME_MAX bytes. Return: false: wherever it likes */
bool mesh_conn_led(const struct mesh_conn *conn, char *ret_device, enum mv_ctl_reason *ret_why);
/** mesh_conn_leaves - it leaves a rail for a reason of its own, and goes where it likes until it is led again */
void mesh_conn_leaves(struct mesh_conn *conn, const char *device);
/** mesh_conn_sq_psn - what a native one has told the peer's program, MV_CTL_PSN_NONE: nothing yet */
uint32_t mesh_conn_sq_psn(struct mesh_conn *conn);
/** mesh_conns_news - was anything queued with @news since the thread took the queue? */
bool mesh_conns_news(void);

/** mesh_conns_queue_all - have the helper thread look at all that news concern; @claim: at all, for a new agent is to be told of them */
void mesh_conns_queue_all(bool claim);
/** mesh_conns_port_down - a port is down (mesh_port_event()): the helper thread looks after all connections, if there is one; any thread */
void mesh_conns_port_down(void);

/**
 * mesh_conns_take - take what is queued and due, or where that is much, some; helper thread only
 * @ret_next: when to come for the first of the others; UINT64_MAX: there are none
 *
 * First what is new since the last call, or due by now: where hundreds are to be looked at, and to be looked at again soon, each step of one of them
 * has its peer go on, and what has begun is not to wait until all have. Those that are left come in turn, too.
 *
 * Return: chain by @next_taken, the oldest one first; the caller puts each one.
 */
struct mesh_conn *mesh_conns_take(uint64_t now_ns, uint64_t *ret_next);
/** mesh_conns_take_all_locked - all that is queued, with conns_lock held; there is no helper thread, nor does one begin meanwhile */
struct mesh_conn *mesh_conns_take_all_locked(void);

/**
 * mesh_conn_claim - tell the agent of it, if it has not been told; helper thread only
 *
 * Return: 0: it has been told now, or will be when there is one; -EALREADY: it had been before; -EAGAIN: it has not read what was there
 * before, and is to be told later.
 */
int mesh_conn_claim(struct mesh_conn *conn);
/**
 * mesh_conn_has_claim - is there a connection of that number that has been claimed?
 *
 * Also if the agent did not take that, or has lost it: it is told when the connection ends, and needs a claim of that number until then.
 */
bool mesh_conn_has_claim(const char *device, uint32_t qpn);
/** mesh_conn_refused - the agent does not take the claim: the connection goes on as without us; then it is to be queued */
void mesh_conn_refused(struct mesh_conn *conn);
/** mesh_conn_unclaimed - the agent may not have it any more: mesh_conn_claim() tells it again */
void mesh_conn_unclaimed(struct mesh_conn *conn);

/** mesh_conn_wait_turn - it would begin to move: see turns.h; first come, first served */
void mesh_conn_wait_turn(struct mesh_conn *conn, enum mesh_turn turn);
/** mesh_conn_waits_no_more - it moves, or whatever: it does not wait for its turn any more, if it did */
void mesh_conn_waits_no_more(struct mesh_conn *conn);
/** mesh_conns_next_turn - call the first of those that wait. Return: is there one? The helper thread has to look. */
bool mesh_conns_next_turn(enum mesh_turn turn);

/**
 * mesh_conns_of - connections of a context, newest first
 * @ret: array of @max; each with a reference
 * @after: NULL: from the newest one on; the last one of @ret, still with its reference: those that come next
 *
 * Whoever goes on like that misses none that was there from the beginning, whatever else comes and goes meanwhile, and comes
 * to an end: what is new is newer.
 */
size_t mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, const struct mesh_conn *after);

/* How long the helper thread waits for a connection that somebody else is at, and before it looks again. */
#define MESH_CONN_PATIENCE_NS 1000000l

/** mesh_conn_enter - take conn->lock for the helper thread. Return: false when somebody else has it for longer. */
bool mesh_conn_enter(struct mesh_conn *conn) MV_TRY_ACQUIRES(&conn->lock);
/** mesh_conn_exit - give it back, and note whom to tell of keys: mesh_conn_key_peer(); a worker, too */
void mesh_conn_exit(struct mesh_conn *conn) MV_RELEASES(&conn->lock);

/** mesh_conns_are_driven - does the program post to one of the newest of that PD, or poll its CQs, by itself? driven.c */
bool mesh_conns_are_driven(struct mesh_context *mc, const struct ibv_pd *pd);

#include "connkeys.h"

#endif
