// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>

#include "conn.h"
#include "count.h"
#include "keys.h"
#include "live.h"
#include "relocate.h"

/*
 * Remote keys. The program uses keys of its peer's own device; on the path they are others. They are asked for when
 * they are first used (KEY_GET, KEY_PUT), and forgotten when the peer's program takes the memory away (KEY_DROP,
 * KEY_DROPPED). Each is repeated by the helper thread until it is answered; the program does not wait for that.
 */

#define RESEND_NS 10000000ull
#define RESEND_MAX_NS 200000000ull
/* An answer that does not come within this time means a peer that is gone: a key fails, as its QP would. */
#define GIVE_UP_NS 10000000000ull
/* One that does not say that it has forgotten is gone as well, or used no key: nothing depends on it here. */
#define DROP_GIVE_UP_NS 2000000000ull
/* Of one connection, that are repeated: a program that takes down thousands of regions tells of the rest once. */
#define MAX_DROPS 64

static void schedule(struct mesh_conn_key *key, uint64_t now_ns)
{
	if (!key->resend_step_ns) {
		key->resend_step_ns = RESEND_NS;
		key->give_up_ns = now_ns + (key->drop ? DROP_GIVE_UP_NS : GIVE_UP_NS);
	} else if (key->resend_step_ns < RESEND_MAX_NS) {
		key->resend_step_ns *= 2;
	}
	key->resend_at_ns = now_ns + key->resend_step_ns;
}

/*
 * @drop: of ours, the caller tells the peer right away: only repetitions are left for the helper thread
 * @ret_id: what to tell it under
 *
 * Return: 0; -ENOMEM; -ENOSPC: enough keys to be dropped are waiting.
 */
static int add(struct mesh_conn *conn, uint32_t rkey, bool drop, uint32_t *ret_id)
{
	struct mesh_conn_key *key = calloc(1, sizeof(*key));
	bool room;

	if (!key)
		return -ENOMEM;
	key->key = rkey;
	key->drop = drop;
	if (drop)
		schedule(key, mesh_now_ns());
	pthread_mutex_lock(&conn->key_lock);
	room = !drop || conn->n_drops < MAX_DROPS;
	if (room) {
		conn->n_drops += drop;
		*ret_id = key->request_id = ++conn->next_request;
		key->next = conn->keys;
		conn->keys = key;
	}
	pthread_mutex_unlock(&conn->key_lock);
	if (room)
		return 0;
	free(key);
	return -ENOSPC;
}

/* Called with key_lock. */
static struct mesh_conn_key *unlink_key(struct mesh_conn *conn, struct mesh_conn_key **at)
{
	struct mesh_conn_key *key = *at;

	if (key) {
		*at = key->next;
		conn->n_drops -= key->drop;
	}
	return key;
}

/* Called with held->lock. */
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

/* Called with held->lock. */
static void work_waits(void *arg)
{
	struct mesh_conn *conn = arg;

	atomic_store_explicit(&conn->work_waits, true, memory_order_relaxed);
	mesh_conn_queue(conn, true);
	mesh_thread_wake(true);
}

/* Called with held->lock. */
static void path_failed(void *arg)
{
	struct mesh_conn *conn = arg;

	atomic_store_explicit(&conn->path_failed, true, memory_order_relaxed);
	mesh_conn_queue(conn, true);
	mesh_thread_wake(true);
}

const struct mesh_held_ops mesh_conn_held_ops = {
	.want_key = want_key,
	.work_waits = work_waits,
	.path_failed = path_failed,
};

const struct mesh_held_ops mesh_conn_self_ops = {
	.work_waits = work_waits,
	.path_failed = path_failed,
};

/* Take one off the list; the caller frees it. NULL: not asked, or answered before. */
static struct mesh_conn_key *take(struct mesh_conn *conn, bool drop, uint32_t key, uint32_t request_id)
{
	struct mesh_conn_key **at, *found;

	pthread_mutex_lock(&conn->key_lock);
	for (at = &conn->keys; *at; at = &(*at)->next)
		if ((*at)->drop == drop && (*at)->key == key && (*at)->request_id == request_id)
			break;
	found = unlink_key(conn, at);
	pthread_mutex_unlock(&conn->key_lock);
	return found;
}

static void answer(struct mesh_conn *conn, const struct mv_ctl_msg *question)
{
	struct mesh_pd *pd = mesh_conn_key_pd(conn);
	struct mv_ctl_msg msg;

	if (!pd)
		return; /* ours is not up yet; it will be asked again */
	mv_move_header(&conn->move, MV_CTL_KEY_PUT, &msg);
	msg.request_id = question->request_id;
	msg.key = question->key;
	if (mesh_key_remote(pd, question->key, &msg.rkey))
		msg.flags = MV_CTL_KEY_INVALID;
	mesh_thread_send(&msg);
}

void mesh_conn_key_message(struct mesh_conn *conn, const struct mv_ctl_msg *msg)
{
	struct mesh_conn_key *key;
	struct mv_ctl_msg reply;

	if (!mesh_conn_enter(conn))
		return; /* it comes again */
	if (conn->gone || !conn->held || !mv_move_is_from_peer(&conn->move, msg))
		goto out;
	switch (msg->type) {
	case MV_CTL_KEY_GET:
		answer(conn, msg);
		break;
	case MV_CTL_KEY_PUT:
		key = take(conn, false, msg->key, msg->request_id);
		if (key)
			mesh_held_put_key(conn->held, msg->key, msg->rkey);
		free(key);
		break;
	case MV_CTL_KEY_DROP:
		mesh_held_drop_key(conn->held, msg->key);
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
	pthread_mutex_unlock(&conn->lock);
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

/* Take one that was never answered off the list, of those that the peer was asked for or was to forget. */
static struct mesh_conn_key *take_overdue(struct mesh_conn *conn, bool drop, uint64_t now_ns)
{
	struct mesh_conn_key **at, *found;

	pthread_mutex_lock(&conn->key_lock);
	for (at = &conn->keys; *at && ((*at)->drop != drop || !is_overdue(*at, now_ns)); at = &(*at)->next)
		;
	found = unlink_key(conn, at);
	pthread_mutex_unlock(&conn->key_lock);
	return found;
}

uint64_t mesh_conn_run_keys(struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t deadline = UINT64_MAX;
	struct mesh_conn_key *key;

	pthread_mutex_lock(&conn->key_lock);
	for (key = conn->keys; key; key = key->next) {
		if (now_ns >= key->resend_at_ns) {
			ask(conn, key);
			schedule(key, now_ns);
		}
		if (key->resend_at_ns < deadline)
			deadline = key->resend_at_ns;
	}
	pthread_mutex_unlock(&conn->key_lock);
	/* Nobody there who could use it. */
	while ((key = take_overdue(conn, true, now_ns)))
		free(key);
	/*
	 * One at a time is enough: what waits behind it waits anyway. A move asks anew when it is through, and if it fails, or the path has,
	 * the program gets its errors for that.
	 */
	key = conn->move.live || mesh_live_broken(conn->held) ? NULL : take_overdue(conn, false, now_ns);
	if (key) {
		free(key);
		mv_log_once(&mesh_root.log, MV_LOG_ERR,
			    "%s QP 0x%x: the peer does not answer for a remote key; the program gets its errors", conn->mc->device,
			    conn->qpn);
		mesh_count(MV_COUNT_SURFACED);
		mesh_held_fail(conn->held, IBV_WC_RETRY_EXC_ERR);
		conn->state = MESH_CONN_FAILED;
	}
	return deadline;
}

void mesh_conn_peer_left(struct mesh_conn *conn)
{
	struct mesh_conn_key *key;

	while ((key = take_overdue(conn, true, UINT64_MAX)))
		free(key);
}

void mesh_conn_free_keys(struct mesh_conn *conn)
{
	struct mesh_conn_key *key;

	while ((key = conn->keys)) {
		conn->keys = key->next;
		free(key);
	}
}

void mesh_conn_ask_no_more(struct mesh_conn *conn)
{
	struct mesh_conn_key **at;

	pthread_mutex_lock(&conn->key_lock);
	for (at = &conn->keys; *at;) {
		if ((*at)->drop)
			at = &(*at)->next;
		else
			free(unlink_key(conn, at));
	}
	pthread_mutex_unlock(&conn->key_lock);
}

void mesh_conn_key_peer(struct mesh_conn *conn)
{
	struct mv_ctl_msg drop = {0};

	if (conn->held && !conn->gone && conn->move.peer_attempt)
		mv_move_header(&conn->move, MV_CTL_KEY_DROP, &drop);
	pthread_mutex_lock(&conn->key_lock);
	conn->key_drop = drop;
	pthread_mutex_unlock(&conn->key_lock);
}

/* The program waits for this: not for conn->lock, which a worker may have while the kernel looks for a neighbour. */
static void tell_dropped(struct mesh_conn *conn, uint32_t rkey, bool *ret_queued)
{
	struct mv_ctl_msg msg;

	pthread_mutex_lock(&conn->key_lock);
	msg = conn->key_drop;
	pthread_mutex_unlock(&conn->key_lock);
	if (msg.type != MV_CTL_KEY_DROP)
		return;
	if (!add(conn, rkey, true, &msg.request_id)) {
		mesh_conn_queue(conn, true);
		*ret_queued = true;
	}
	msg.key = rkey;
	mesh_thread_send(&msg);
}

void mesh_conns_key_dropped(struct ibv_pd *pd, uint32_t rkey)
{
	const struct mesh_context *mc = mesh_context_get(pd->context);
	struct mesh_conn *some[64];
	bool any = false;
	size_t n, i, skip = 0;

	do {
		n = mesh_conns_of(mc, some, sizeof(some) / sizeof(some[0]), skip);
		skip += n;
		for (i = 0; i < n; i++) {
			tell_dropped(some[i], rkey, &any);
			mesh_conn_put(some[i]);
		}
	} while (n == sizeof(some) / sizeof(some[0]));
	if (any)
		mesh_thread_wake(false);
}
