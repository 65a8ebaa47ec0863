// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>
#include <string.h>

#include "conn.h"

#define MIN_BUCKETS 64u

/* In the process's wiped page hangs one of these; under process->conns_lock. */
struct mesh_conns {
	struct mesh_conn **buckets;
	size_t n_buckets, n; /* n_buckets: a power of two */
	struct mesh_conn *queued; /* for the helper thread; each holds a reference */
	bool news; /* queued by somebody else than the thread since it took the queue last */
};

static int lock_conns(void)
{
	int cancel = mesh_cancel_off();

	pthread_mutex_lock(&mesh_root.process->conns_lock);
	return cancel;
}

static void unlock_conns(int cancel)
{
	pthread_mutex_unlock(&mesh_root.process->conns_lock);
	mesh_cancel_restore(cancel);
}

static size_t bucket_of(const struct mesh_conns *conns, uint32_t qpn)
{
	return (qpn * 2654435761u >> 8) & (conns->n_buckets - 1);
}

/* Keeps the old table when there is no memory for a larger one. */
static void grow(struct mesh_conns *conns)
{
	struct mesh_conn **old = conns->buckets, **larger, *conn, *next;
	size_t n_old = conns->n_buckets, i, b;

	if (conns->n < n_old)
		return;
	larger = calloc(n_old ? n_old * 2 : MIN_BUCKETS, sizeof(*larger));
	if (!larger)
		return;
	conns->buckets = larger;
	conns->n_buckets = n_old ? n_old * 2 : MIN_BUCKETS;
	for (i = 0; i < n_old; i++) {
		for (conn = old[i]; conn; conn = next) {
			next = conn->next;
			b = bucket_of(conns, conn->qpn);
			conn->next = larger[b];
			larger[b] = conn;
		}
	}
	free(old);
}

static struct mesh_conns *conns_locked(bool make)
{
	struct mesh_process *process = mesh_root.process;

	if (!process->conns && make) {
		process->conns = calloc(1, sizeof(*process->conns));
		if (process->conns)
			grow(process->conns);
		if (process->conns && !process->conns->buckets) {
			free(process->conns);
			process->conns = NULL;
		}
	}
	return process->conns;
}

static struct mesh_conn *find_locked(const struct ibv_qp *qp, const char *device, uint32_t qpn)
{
	struct mesh_conns *conns = conns_locked(false);
	struct mesh_conn *conn = conns ? conns->buckets[bucket_of(conns, qpn)] : NULL;

	for (; conn; conn = conn->next)
		if (conn->qpn == qpn && (qp ? conn->qp == qp : !strcmp(conn->mc->device, device)))
			break;
	if (conn)
		conn->refs++;
	return conn;
}

struct mesh_conn *mesh_conn_get(const struct ibv_qp *qp)
{
	struct mesh_conn *conn;
	int cancel;

	if (!mesh_root.process->conns) /* set once in a process; a racing first use is not of this QP */
		return NULL;
	cancel = lock_conns();
	conn = find_locked(qp, NULL, qp->qp_num);
	unlock_conns(cancel);
	return conn;
}

struct mesh_conn *mesh_conn_find(const char *device, uint32_t qpn)
{
	int cancel = lock_conns();
	struct mesh_conn *conn = find_locked(NULL, device, qpn);

	unlock_conns(cancel);
	return conn;
}

struct mesh_conn *mesh_conn_find_end(const struct mv_ctl_end *end)
{
	struct mesh_conns *conns;
	struct mesh_conn *conn = NULL;
	int cancel = lock_conns();

	conns = conns_locked(false);
	if (conns)
		for (conn = conns->buckets[bucket_of(conns, end->qpn)]; conn; conn = conn->next)
			if (conn->qpn == end->qpn && mv_gid_equal(&conn->end_gid, &end->gid))
				break;
	if (conn)
		conn->refs++;
	unlock_conns(cancel);
	return conn;
}

void mesh_conn_set_end(struct mesh_conn *conn, const union ibv_gid *gid)
{
	int cancel = lock_conns();

	conn->end_gid = *gid;
	unlock_conns(cancel);
}

static void destroy(struct mesh_conn *conn)
{
	mesh_conn_free_keys(conn);
	pthread_mutex_destroy(&conn->key_lock);
	pthread_mutex_destroy(&conn->lock);
	free(conn);
}

void mesh_conn_put(struct mesh_conn *conn)
{
	bool last;
	int cancel;

	if (!conn)
		return;
	cancel = lock_conns();
	last = !--conn->refs;
	unlock_conns(cancel);
	if (last)
		destroy(conn);
}

static struct mesh_conn *make(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->qp = qp;
	conn->mc = mc;
	conn->qpn = qp->qp_num;
	pthread_mutex_init(&conn->lock, NULL);
	pthread_mutex_init(&conn->key_lock, NULL);
	return conn;
}

struct mesh_conn *mesh_conn_new(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_conn *conn = make(mc, qp), *old;
	struct mesh_conns *conns;
	size_t b;
	int cancel;

	if (!conn)
		return NULL;
	old = mesh_conn_get(qp);
	if (old)
		mesh_conn_unlink(old);
	mesh_conn_put(old);

	cancel = lock_conns();
	conns = conns_locked(true);
	if (conns) {
		grow(conns);
		b = bucket_of(conns, conn->qpn);
		conn->next = conns->buckets[b];
		conns->buckets[b] = conn;
		conns->n++;
		conn->linked = true;
		conn->refs = 2; /* the table's and the caller's */
	}
	unlock_conns(cancel);
	if (!conns) {
		destroy(conn);
		return NULL;
	}
	return conn;
}

void mesh_conn_unlink(struct mesh_conn *conn)
{
	struct mesh_conns *conns;
	struct mesh_conn **at;
	bool was = false;
	int cancel = lock_conns();

	conns = conns_locked(false);
	if (conns && conn->linked) {
		for (at = &conns->buckets[bucket_of(conns, conn->qpn)]; *at != conn; at = &(*at)->next)
			;
		*at = conn->next;
		conn->linked = false;
		conns->n--;
		was = true;
	}
	unlock_conns(cancel);
	if (was)
		mesh_conn_put(conn);
}

/* Called with conns_lock held. */
static void queue(struct mesh_conns *conns, struct mesh_conn *conn)
{
	if (conn->queued || !conn->linked)
		return;
	conn->next_queued = conns->queued;
	conns->queued = conn;
	conn->queued = true;
	conn->refs++;
}

void mesh_conn_queue(struct mesh_conn *conn, bool news)
{
	struct mesh_conns *conns;
	int cancel = lock_conns();

	conns = conns_locked(false);
	if (conns) {
		queue(conns, conn);
		conns->news |= news;
	}
	unlock_conns(cancel);
}

bool mesh_conns_news(void)
{
	struct mesh_conns *conns;
	bool news;
	int cancel = lock_conns();

	conns = conns_locked(false);
	news = conns && conns->news;
	unlock_conns(cancel);
	return news;
}

void mesh_conns_queue_all(bool claim)
{
	struct mesh_conns *conns;
	struct mesh_conn *conn;
	size_t i;
	int cancel = lock_conns();

	conns = conns_locked(false);
	for (i = 0; conns && i < conns->n_buckets; i++) {
		for (conn = conns->buckets[i]; conn; conn = conn->next) {
			conn->claimed &= !claim;
			queue(conns, conn);
		}
	}
	unlock_conns(cancel);
}

struct mesh_conn *mesh_conns_take(void)
{
	struct mesh_conn *first = NULL, *conn;
	struct mesh_conns *conns;
	int cancel = lock_conns();

	conns = conns_locked(false);
	if (conns) {
		first = conns->queued;
		conns->queued = NULL;
		conns->news = false;
		for (conn = first; conn; conn = conn->next_queued) {
			conn->queued = false;
			conn->next_taken = conn->next_queued;
		}
	}
	unlock_conns(cancel);
	return first;
}

bool mesh_conn_claim(struct mesh_conn *conn)
{
	int cancel = lock_conns();
	bool claim = conn->linked && !conn->claimed;

	conn->claimed = true;
	unlock_conns(cancel);
	return claim;
}

size_t mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, size_t skip)
{
	struct mesh_conns *conns;
	struct mesh_conn *conn;
	size_t i, n = 0;
	int cancel = lock_conns();

	conns = conns_locked(false);
	for (i = 0; conns && i < conns->n_buckets; i++) {
		for (conn = conns->buckets[i]; conn && n < max; conn = conn->next) {
			if (conn->mc != mc || (skip && skip--))
				continue;
			conn->refs++;
			ret[n++] = conn;
		}
	}
	unlock_conns(cancel);
	return n;
}
