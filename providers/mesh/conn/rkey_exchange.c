// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "conn.h"
#include "count.h"
#include "keys.h"
#include "vqp_failover.h"
#include "pdstay.h"
#include "proved.h"

/*
 * Remote keys. The program uses keys of its peer's own device; on another path these keys have other values. A key is asked for
 * at its first use (KEY_GET, KEY_PUT), and forgotten when the peer's program deregisters it (KEY_DROP, KEY_DROPPED). The helper
 * thread repeats each question until it is answered. The program does not wait for the answer, unless it gets the same key for
 * other memory: mesh_conns_key_given().
 */

#define RESEND_NS 10000000ull
#define RESEND_MAX_NS 200000000ull
#define RESEND_DROP_MAX_NS 2000000000ull
/* A peer that has not answered a KEY_GET within this time is gone: the key fails, as the QP would. */
#define GIVE_UP_NS 10000000000ull
/*
 * A peer that does not answer a KEY_DROP is gone, or used no key, and this end does not depend on the answer. But an agent that
 * restarts is away for seconds, and a peer that missed the KEY_DROP may use the old translation for hours: so repeat for long.
 */
#define DROP_GIVE_UP_NS 60000000000ull
/* Limit per connection of KEY_DROPs that are repeated and waited for. Further ones are sent once. */
#define MAX_DROPS 1024
/* Longest wait of a call that gets a reused key. A peer answers in about 0.1 ms. */
#define SETTLE_NS 50000000ull
#define SETTLE_STEP_US 50u
#define SETTLE_STEP_MAX_US 1000u
/* Connections per call of mesh_conns_of(). */
#define PAGE 64

static void schedule(struct mesh_conn_key *key, uint64_t now_ns)
{
	if (!key->resend_step_ns) {
		key->resend_step_ns = RESEND_NS;
		key->give_up_ns = now_ns + (key->drop ? DROP_GIVE_UP_NS : GIVE_UP_NS);
	} else if (key->resend_step_ns < (key->drop ? RESEND_DROP_MAX_NS : RESEND_MAX_NS)) {
		key->resend_step_ns *= 2;
	}
	key->resend_at_ns = now_ns + key->resend_step_ns;
}

/*
 * @drop: a key of this end; the caller sends the first KEY_DROP, and the helper thread repeats
 * @ret_id: number of the question
 *
 * Return: 0; -ENOMEM; -ENOSPC: a KEY_DROP that will not be repeated: too many, switched off, or no memory.
 */
static int add(struct mesh_conn *conn, uint32_t rkey, bool drop, uint32_t *ret_id)
{
	struct mesh_conn_key *key = calloc(1, sizeof(*key));
	bool room;

	if (!key)
		return -ENOMEM;
	key->conn = conn;
	key->key = rkey;
	key->drop = drop;
	if (drop)
		schedule(key, mesh_now_ns());
	mesh_lock(&conn->keys.lock);
	room = !drop || (conn->keys.drops_repeat && conn->keys.n_drops < MAX_DROPS && mesh_key_drop_begins(key));
	if (room) {
		*ret_id = key->request_id = ++conn->keys.next_request;
		TAILQ_INSERT_TAIL(&conn->keys.list, key, of_conn);
	}
	mesh_unlock(&conn->keys.lock);
	if (room)
		return 0;
	free(key);
	return -ENOSPC;
}

/* Called with keys.lock. @key: NULL is fine */
static struct mesh_conn_key *unlink_key(struct mesh_conn_key *key)
{
	if (!key)
		return NULL;
	TAILQ_REMOVE(&key->conn->keys.list, key, of_conn);
	if (key->drop)
		mesh_key_drop_ends(key);
	return key;
}

/* Forget KEY_GETs of @rkey; if @all, of any key. */
static void ask_no_more(struct mesh_conn *conn, uint32_t rkey, bool all)
{
	struct mesh_conn_key *key, *next;

	mesh_lock(&conn->keys.lock);
	for (key = TAILQ_FIRST(&conn->keys.list); key; key = next) {
		next = TAILQ_NEXT(key, of_conn);
		if (!key->drop && (all || key->key == rkey))
			free(unlink_key(key));
	}
	mesh_unlock(&conn->keys.lock);
}

/* Called with vqp->lock. */
static int want_key(void *arg, uint32_t rkey, uint32_t *ret)
{
	struct mesh_conn *conn = arg;
	uint32_t id;

	(void)ret;
	if (add(conn, rkey, false, &id)) {
		mv_log_once(&mesh_root.log, MV_LOG_ERR, "out of memory for a remote key; its work waits for ever");
		return -EAGAIN;
	}
	mesh_conn_queue(conn, true);
	mesh_thread_wake(true);
	return -EAGAIN;
}

/* Called with vqp->lock. */
static void work_waits(void *arg)
{
	struct mesh_conn *conn = arg;

	atomic_store_explicit(&conn->flags.work_waits, true, memory_order_relaxed);
	mesh_conn_queue(conn, true);
	mesh_thread_wake(true);
}

/* Called with vqp->lock. */
static void path_failed(void *arg)
{
	struct mesh_conn *conn = arg;

	atomic_store_explicit(&conn->flags.path_failed, true, memory_order_relaxed);
	mesh_conn_queue(conn, true);
	mesh_thread_wake(true);
}

const struct mesh_vqp_ops mesh_conn_vqp_ops = {
	.want_key = want_key,
	.work_waits = work_waits,
	.path_failed = path_failed,
};

const struct mesh_vqp_ops mesh_conn_self_ops = {
	.work_waits = work_waits,
	.path_failed = path_failed,
};

/* Unlink a question, which the caller frees. NULL: not asked, or answered before. */
static struct mesh_conn_key *take(struct mesh_conn *conn, bool drop, uint32_t key, uint32_t request_id)
{
	struct mesh_conn_key *found;

	mesh_lock(&conn->keys.lock);
	TAILQ_FOREACH(found, &conn->keys.list, of_conn)
		if (found->drop == drop && found->key == key && found->request_id == request_id)
			break;
	unlink_key(found);
	/* A peer that always answers late stays "unheard". */
	if (found && drop && mesh_now_ns() + DROP_GIVE_UP_NS < found->give_up_ns + SETTLE_NS)
		atomic_store_explicit(&conn->flags.drops_unheard, false, memory_order_relaxed);
	mesh_unlock(&conn->keys.lock);
	return found;
}

/* Forget a key. An answer to an earlier KEY_GET may be older than this KEY_DROP, so sends that wait for the key ask again. */
static void forget(struct mesh_conn *conn, uint32_t rkey)
{
	ask_no_more(conn, rkey, false);
	mesh_conn_keys_dropped(conn, rkey);
	mesh_vqp_drop_key(conn->vqp, rkey);
}

/* Called with keys.lock. */
static bool may_know(const struct mesh_conn *conn, uint32_t rkey)
{
	return conn->keys.told[mesh_key_hash_of(rkey) / 64] >> mesh_key_hash_of(rkey) % 64 & 1;
}

void mesh_conn_note_told(struct mesh_conn *conn, uint32_t rkey)
{
	mesh_lock(&conn->keys.lock);
	conn->keys.told[mesh_key_hash_of(rkey) / 64] |= 1ull << mesh_key_hash_of(rkey) % 64;
	mesh_unlock(&conn->keys.lock);
}

uint32_t mesh_conn_next_request(struct mesh_conn *conn)
{
	uint32_t id;

	mesh_lock(&conn->keys.lock);
	id = ++conn->keys.next_request;
	mesh_unlock(&conn->keys.lock);
	return id;
}

/* PD in which keys for the peer have to be valid; NULL: not known yet. */
static struct mesh_pd *key_pd(const struct mesh_conn *conn)
{
	/* A peer that knows that the old path is drained may be on the next one already. */
	return conn->moving.drained ? conn->moving.next_path.pd : conn->path.pd;
}

static void answer(struct mesh_conn *conn, const struct mv_ctl_msg *question)
{
	struct mesh_pd *pd = key_pd(conn);
	struct mv_ctl_msg msg;
	int err;

	if (!pd)
		return; /* not known yet; the peer asks again */
	mesh_conn_note_told(conn, question->key);
	mv_move_header(&conn->move, MV_CTL_KEY_PUT, &msg);
	msg.request_id = question->request_id;
	msg.key = question->key;
	err = mesh_key_remote(pd, question->key, &msg.rkey);
	if (err)
		msg.flags = MV_CTL_KEY_INVALID;
	if (err == -ENOENT)
		mesh_pd_key_fails(conn->qp->pd, MESH_BY_RKEY, question->key);
	mesh_thread_send(&msg);
}

void mesh_conn_key_message(struct mesh_conn *conn, const struct mv_host_id *from, const struct mv_ctl_msg *sealed, uint64_t now_ns)
{
	struct mv_ctl_msg opened = *sealed, reply;
	const struct mv_ctl_msg *msg = &opened;
	struct mesh_conn_key *key;

	if (!mesh_conn_enter(conn))
		return; /* the peer repeats it */
	if (conn->gone || !conn->vqp || mesh_conn_open(conn, from, &opened, NULL, now_ns) ||
	    !mv_move_is_from_peer(&conn->move, msg))
		goto out;
	switch (msg->type) {
	case MV_CTL_KEY_GET:
		answer(conn, msg);
		break;
	case MV_CTL_KEY_PUT:
		key = take(conn, false, msg->key, msg->request_id);
		if (key)
			mesh_vqp_put_key(conn->vqp, msg->key, msg->rkey);
		free(key);
		break;
	case MV_CTL_KEY_DROP:
		forget(conn, msg->key);
		mv_move_header(&conn->move, MV_CTL_KEY_DROPPED, &reply);
		reply.request_id = msg->request_id;
		reply.key = msg->key;
		mesh_thread_send(&reply);
		break;
	case MV_CTL_KEY_DROPPED:
		free(take(conn, true, msg->key, msg->request_id));
		break;
	default:
		break;
	}
out:
	mesh_unlock(&conn->lock);
}

static void ask(struct mesh_conn *conn, const struct mesh_conn_key *key)
{
	struct mv_ctl_msg msg;

	mv_move_header(&conn->move, key->drop ? MV_CTL_KEY_DROP : MV_CTL_KEY_GET, &msg);
	msg.request_id = key->request_id;
	msg.key = key->key;
	mesh_thread_send(&msg);
}

static bool is_overdue(const struct mesh_conn_key *key, uint64_t now_ns)
{
	return key->give_up_ns && now_ns >= key->give_up_ns;
}

/* Unlink a question that was never answered; @drop: KEY_DROP, else KEY_GET. */
static struct mesh_conn_key *take_overdue(struct mesh_conn *conn, bool drop, uint64_t now_ns)
{
	struct mesh_conn_key *found;

	mesh_lock(&conn->keys.lock);
	TAILQ_FOREACH(found, &conn->keys.list, of_conn)
		if (found->drop == drop && is_overdue(found, now_ns))
			break;
	unlink_key(found);
	mesh_unlock(&conn->keys.lock);
	return found;
}

bool mesh_conn_asks(struct mesh_conn *conn)
{
	bool asks;

	mesh_lock(&conn->keys.lock);
	asks = !TAILQ_EMPTY(&conn->keys.list);
	mesh_unlock(&conn->keys.lock);
	return asks;
}

uint64_t mesh_conn_run_keys(struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t deadline = UINT64_MAX;
	struct mesh_conn_key *key;
	bool overdue, never;

	mesh_lock(&conn->keys.lock);
	TAILQ_FOREACH(key, &conn->keys.list, of_conn) {
		if (now_ns >= key->resend_at_ns) {
			ask(conn, key);
			schedule(key, now_ns);
		}
		if (key->resend_at_ns < deadline)
			deadline = key->resend_at_ns;
	}
	mesh_unlock(&conn->keys.lock);
	/* No peer is left that could use these keys. */
	while ((key = take_overdue(conn, true, now_ns)))
		free(key);
	/*
	 * Fail for one overdue KEY_GET: later sends wait behind the first anyway. Not during a move, which asks again, nor after
	 * a failure of the path, for which the program gets errors. A peer that is gone does not answer, but outstanding work
	 * fails first.
	 */
	never = conn->ends.peer_gone && mesh_failover_has_done_all(conn->vqp);
	key = conn->move.failover || mesh_failover_broken(conn->vqp)
		      ? NULL
		      : take_overdue(conn, false, never ? UINT64_MAX : now_ns);
	overdue = key;
	free(key);
	/* If it has failed meanwhile, the move asks again, or gives the errors. */
	if (overdue && mesh_vqp_fail(conn->vqp, IBV_WC_RETRY_EXC_ERR)) {
		mv_log_once(&mesh_root.log, MV_LOG_ERR,
			    "%s QP 0x%x: the peer does not answer for a remote key; the program gets its errors", conn->mc->device,
			    conn->qpn);
		mesh_count(MV_COUNT_SURFACED);
		conn->state = MESH_CONN_FAILED;
	}
	return deadline;
}

void mesh_conn_peer_left(struct mesh_conn *conn)
{
	struct mesh_conn_key *key;

	while ((key = take_overdue(conn, true, UINT64_MAX)))
		free(key);
	atomic_store_explicit(&conn->flags.drops_unheard, true, memory_order_relaxed);
}

void mesh_conn_free_keys(struct mesh_conn *conn)
{
	struct mesh_conn_key *key;

	while ((key = unlink_key(TAILQ_FIRST(&conn->keys.list))))
		free(key);
}

void mesh_conn_ask_no_more(struct mesh_conn *conn)
{
	ask_no_more(conn, 0, true);
}

void mesh_conn_key_peer(struct mesh_conn *conn)
{
	bool over = !conn->vqp || conn->gone, repeats = !over && conn->state != MESH_CONN_FAILED, left;
	struct mv_ctl_msg drop = {0};

	if (!over && conn->move.attempts.peer)
		mv_move_header(&conn->move, MV_CTL_KEY_DROP, &drop);
	mesh_lock(&conn->keys.lock);
	conn->keys.drop = drop;
	if (!conn->keys.drops_repeat) /* an earlier silence was of another peer */
		atomic_store_explicit(&conn->flags.drops_unheard, false, memory_order_relaxed);
	conn->keys.drops_repeat = repeats;
	left = !repeats && conn->keys.n_drops;
	mesh_unlock(&conn->keys.lock);
	if (left)
		mesh_conn_peer_left(conn);
}

/* The program waits for this call. Without conn->lock, which a worker may hold while the kernel looks for a neighbour. */
static bool tell_dropped(struct mesh_conn *conn, uint32_t rkey)
{
	struct mv_ctl_msg msg;
	bool queued, told;

	mesh_lock(&conn->keys.lock);
	told = conn->keys.drop.type == MV_CTL_KEY_DROP && may_know(conn, rkey);
	if (told)
		msg = conn->keys.drop;
	mesh_unlock(&conn->keys.lock);
	if (!told)
		return false;
	queued = !add(conn, rkey, true, &msg.request_id);
	if (queued)
		mesh_conn_queue(conn, true);
	msg.key = rkey;
	mesh_thread_send(&msg);
	return queued;
}

/* Tells the peers that have asked for the key, of all connections that existed at the call. */
void mesh_conns_key_dropped(struct ibv_pd *pd, uint32_t rkey)
{
	const struct mesh_context *mc = mesh_context_get(pd->context);
	struct mesh_conn *some[PAGE], *last = NULL;
	bool any = false;
	size_t n, i;

	do {
		n = mesh_conns_of(mc, some, PAGE, last);
		mesh_conn_put(last);
		last = n ? mesh_conn_ref(some[n - 1]) : NULL;
		for (i = 0; i < n; i++) {
			any |= tell_dropped(some[i], rkey);
			mesh_conn_put(some[i]);
		}
	} while (n == PAGE);
	mesh_conn_put(last);
	if (any)
		mesh_thread_wake(false);
}

void mesh_conns_key_given(struct ibv_pd *pd, uint32_t rkey)
{
	const struct mesh_context *mc = mesh_context_get(pd->context);
	unsigned int step_us = SETTLE_STEP_US;
	uint64_t until_ns = 0, now_ns;

	while (mesh_key_drop_waits(mc, rkey, false)) {
		now_ns = mesh_now_ns();
		if (!until_ns)
			until_ns = now_ns + SETTLE_NS;
		if (now_ns >= until_ns) {
			mesh_key_drop_waits(mc, rkey, true);
			mv_log_once(&mesh_root.log, MV_LOG_WARN,
				    "%s: a peer does not say in time that it has forgotten a remote key that is used again; what it posts "
				    "may fail with an access error",
				    mc->device);
			break;
		}
		usleep(step_us);
		step_us = step_us * 2 < SETTLE_STEP_MAX_US ? step_us * 2 : SETTLE_STEP_MAX_US;
	}
}
