// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conntable.h"

#define MIN_BUCKETS 64u

/* Code under the lock passes no cancellation point. */
void mesh_conns_lock(void)
{
	mesh_lock(&mesh_root.process->conns.lock);
}

void mesh_conns_unlock(void)
{
	mesh_unlock(&mesh_root.process->conns.lock);
}

static size_t bucket_of(const struct mesh_conns *conns, uint32_t qpn)
{
	return (qpn * 2654435761u >> 8) & (conns->n_buckets - 1);
}

/* Double the table. Without memory the old table stays. */
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
			next = conn->table.next;
			b = bucket_of(conns, conn->qpn);
			conn->table.next = larger[b];
			larger[b] = conn;
		}
	}
	free(old);
}

struct mesh_conns *mesh_conns_locked(bool make)
{
	struct mesh_process *process = mesh_root.process;

	if (!process->conns.table && make) {
		process->conns.table = calloc(1, sizeof(*process->conns.table));
		if (process->conns.table) {
			TAILQ_INIT(&process->conns.table->queued);
			TAILQ_INIT(&process->conns.table->overdue);
			TAILQ_INIT(&process->conns.table->put_back);
			TAILQ_INIT(&process->conns.table->waiting[MESH_MOVER_LEADS]);
			TAILQ_INIT(&process->conns.table->waiting[MESH_MOVER_FOLLOWS]);
			grow(process->conns.table);
		}
		if (process->conns.table && !process->conns.table->buckets) {
			free(process->conns.table);
			process->conns.table = NULL;
		}
	}
	return process->conns.table;
}

static struct mesh_conn *look_up(const struct ibv_qp *qp, const char *device, uint32_t qpn)
{
	struct mesh_conns *conns = mesh_conns_locked(false);
	struct mesh_conn *conn = conns ? conns->buckets[bucket_of(conns, qpn)] : NULL;

	for (; conn; conn = conn->table.next)
		if (conn->qpn == qpn && (qp ? conn->qp == qp : !strcmp(conn->mc->device, device)))
			break;
	return conn;
}

static struct mesh_conn *find_locked(const struct ibv_qp *qp, const char *device, uint32_t qpn)
{
	struct mesh_conn *conn = look_up(qp, device, qpn);

	return conn ? mesh_conn_ref(conn) : NULL;
}

struct mesh_conn *mesh_conn_get(const struct ibv_qp *qp)
{
	struct mesh_conn *conn;

	if (!mesh_root.process->conns.table) /* set once per process; a racing first use is not of this QP */
		return NULL;
	mesh_conns_lock();
	conn = find_locked(qp, NULL, qp->qp_num);
	mesh_conns_unlock();
	return conn;
}

struct mesh_conn *mesh_conn_find(const char *device, uint32_t qpn)
{
	struct mesh_conn *conn;

	mesh_conns_lock();
	conn = find_locked(NULL, device, qpn);
	mesh_conns_unlock();
	return conn;
}

struct mesh_conn *mesh_conn_find_end(const struct mv_ctl_end *end)
{
	struct mesh_conns *conns;
	struct mesh_conn *conn = NULL;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	if (conns)
		for (conn = conns->buckets[bucket_of(conns, end->qpn)]; conn; conn = conn->table.next)
			if (conn->qpn == end->qpn && mv_gid_equal(&conn->table.end_gid, &end->gid))
				break;
	if (conn)
		mesh_conn_ref(conn);
	mesh_conns_unlock();
	return conn;
}

struct mesh_conn *mesh_conn_ref(struct mesh_conn *conn)
{
	atomic_fetch_add_explicit(&conn->refs, 1, memory_order_relaxed);
	return conn;
}

static void destroy(struct mesh_conn *conn)
{
	mesh_conn_free_keys(conn);
	mesh_move_limiter_forget(conn);
	free(conn->failures);
	mesh_lock_fini(&conn->keys.lock);
	mesh_lock_fini(&conn->lock);
	free(conn);
}

void mesh_conn_put(struct mesh_conn *conn)
{
	/* The table has a reference, so no look-up finds a connection without references. */
	if (conn && atomic_fetch_sub_explicit(&conn->refs, 1, memory_order_acq_rel) == 1)
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
	conn->schedule.due_ns = UINT64_MAX;
	mesh_lock_init(&conn->lock);
	mesh_lock_init(&conn->keys.lock);
	TAILQ_INIT(&conn->keys.list);
	return conn;
}

struct mesh_conn *mesh_conn_new(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_conn *conn = make(mc, qp), *old;
	struct mesh_conns *conns;
	size_t b;

	if (!conn)
		return NULL;
	old = mesh_conn_get(qp);
	if (old)
		mesh_conn_unlink(old); /* before the new one, with the same QPN, can be registered */
	mesh_conn_put(old);

	mesh_conns_lock();
	conns = mesh_conns_locked(true);
	if (conns) {
		grow(conns);
		b = bucket_of(conns, conn->qpn);
		conn->table.next = conns->buckets[b];
		conns->buckets[b] = conn;
		LIST_INSERT_HEAD(&conns->all, conn, table.of_all);
		conn->table.serial = ++conns->last_serial;
		conns->n++;
		conn->table.linked = true;
		atomic_store_explicit(&conn->refs, 2, memory_order_relaxed); /* of the table and of the caller */
	}
	mesh_conns_unlock();
	if (!conns) {
		destroy(conn);
		return NULL;
	}
	return conn;
}

/* Called with process->conns.lock held. */
static void take_from_followers(struct mesh_conns *conns, struct mesh_conn *conn)
{
	struct mesh_conn **at;

	for (at = &conns->followers; *at != conn; at = &(*at)->table.next_follower)
		;
	*at = conn->table.next_follower;
	conn->table.follows = false;
}

/* The REGISTER_QP of a connection; made while it is in the table, because its context may be closed afterwards. */
static struct mv_frame registration_of(const struct mesh_conn *conn)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qpn = conn->qpn, .qp_type = IBV_QPT_RC};

	memcpy(frame.device, conn->mc->device, sizeof(frame.device));
	return frame;
}

static void unregister_qp(const struct mv_frame *registration)
{
	struct mv_frame frame = {.type = MV_FRAME_UNREGISTER_QP, .qpn = registration->qpn};

	memcpy(frame.device, registration->device, sizeof(frame.device));
	mesh_thread_frame(&frame);
}

void mesh_conn_unlink(struct mesh_conn *conn)
{
	struct mv_frame registration = {.type = 0};
	struct mesh_conns *conns;
	struct mesh_conn **at;
	bool was = false, known = false;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	if (conns && conn->table.linked) {
		for (at = &conns->buckets[bucket_of(conns, conn->qpn)]; *at != conn; at = &(*at)->table.next)
			;
		*at = conn->table.next;
		LIST_REMOVE(conn, table.of_all);
		conn->table.linked = false;
		mesh_timer_remove(&conns->timers, &conn->schedule.timer);
		conns->n--;
		if (conn->table.follows)
			take_from_followers(conns, conn);
		was = true;
		known = conn->table.known;
		if (known)
			registration = registration_of(conn);
	}
	mesh_conns_unlock();
	if (known)
		unregister_qp(&registration);
	if (was)
		mesh_conn_put(conn);
}

void mesh_conn_connected(struct mesh_conn *conn, const union ibv_gid *gid, bool passthrough)
{
	struct mesh_conns *conns;

	mesh_conns_lock();
	conn->table.end_gid = *gid;
	conn->table.passthrough = passthrough;
	atomic_store_explicit(&conn->table.passthrough_sq_psn, MV_CTL_PSN_NONE, memory_order_relaxed);
	conns = mesh_conns_locked(false);
	if (conns) {
		mesh_conns_put_locked(conns, conn);
		conns->changed = true;
	}
	mesh_conns_unlock();
}

bool mesh_conn_untouched(const struct ibv_qp *qp)
{
	struct mesh_conn *conn;
	bool untouched;

	if (!mesh_root.process->conns.table)
		return true;
	mesh_conns_lock();
	conn = look_up(qp, NULL, qp->qp_num);
	untouched = !conn || conn->table.passthrough;
	mesh_conns_unlock();
	return untouched;
}

void mesh_conn_note_sq_psn(const struct ibv_qp *qp, uint32_t sq_psn)
{
	struct mesh_conn *conn;

	if (!mesh_root.process->conns.table)
		return;
	mesh_conns_lock();
	conn = look_up(qp, NULL, qp->qp_num);
	if (conn && conn->table.passthrough)
		atomic_store_explicit(&conn->table.passthrough_sq_psn, sq_psn, memory_order_relaxed);
	mesh_conns_unlock();
}

/* Called with process->conns.lock held, which keeps the QPs of connections in the table alive. */
static bool goes_with(const struct mesh_conn *self, const struct mesh_conn *conn)
{
	const struct ibv_cq *cq = self->qp->send_cq;

	return self->qp->context == conn->qp->context && (cq == conn->qp->recv_cq || cq == conn->qp->send_cq);
}

static void lead(struct mesh_conn *self, const struct mesh_conn *conn)
{
	memcpy(self->table.went_to, conn->table.went_to, sizeof(self->table.went_to));
	self->table.went_why = conn->table.went_why;
}

void mesh_conn_goes(struct mesh_conn *conn, const char device[static IBV_SYSFS_NAME_MAX], enum mv_ctl_reason why)
{
	struct mesh_conns *conns;
	struct mesh_conn *other;

	mesh_conns_lock();
	memcpy(conn->table.went_to, device, sizeof(conn->table.went_to));
	conn->table.went_why = (uint8_t)why;
	conns = mesh_conns_locked(false);
	for (other = conns && conn->table.linked ? conns->followers : NULL; other; other = other->table.next_follower) {
		if (!goes_with(other, conn))
			continue;
		lead(other, conn);
		mesh_conns_put_locked(conns, other);
		conns->changed = true;
	}
	mesh_conns_unlock();
}

void mesh_conn_follows(struct mesh_conn *conn)
{
	struct mesh_conns *conns;
	struct mesh_conn *other;
	size_t i;

	mesh_conns_lock();
	atomic_store_explicit(&mesh_root.process->conns.followed, true, memory_order_relaxed);
	conns = mesh_conns_locked(false);
	if (conns && conn->table.linked && !conn->table.follows) {
		conn->table.follows = true;
		conn->table.next_follower = conns->followers;
		conns->followers = conn;
	}
	for (i = 0; conns && i < conns->n_buckets; i++)
		for (other = conns->buckets[i]; other; other = other->table.next)
			if (!other->table.follows && other->table.went_to[0] && goes_with(conn, other))
				lead(conn, other);
	mesh_conns_unlock();
}

void mesh_conn_leaves(struct mesh_conn *conn, const char *device)
{
	mesh_conns_lock();
	if (!strcmp(conn->table.went_to, device))
		conn->table.went_to[0] = '\0';
	mesh_conns_unlock();
}

bool mesh_conn_led(const struct mesh_conn *conn, char *ret_device, enum mv_ctl_reason *ret_why)
{
	mesh_conns_lock();
	memcpy(ret_device, conn->table.went_to, sizeof(conn->table.went_to));
	*ret_why = conn->table.went_why;
	mesh_conns_unlock();
	return ret_device[0];
}

/* Note whether the REGISTER_QP was sent. Return: true: the program has ended the connection meanwhile. */
static bool note_registered(struct mesh_conn *conn, bool taken)
{
	bool linked;

	mesh_conns_lock();
	if (!taken)
		conn->table.registered = false;
	linked = conn->table.linked;
	mesh_conns_unlock();
	return !linked;
}

int mesh_conn_register(struct mesh_conn *conn)
{
	struct mv_frame registration = {.type = 0};
	bool due;
	int err;

	mesh_conns_lock();
	due = conn->table.linked && !conn->table.registered;
	if (due) {
		atomic_store_explicit(&conn->flags.refused, false, memory_order_relaxed);
		conn->table.registered = conn->table.known = true;
		registration = registration_of(conn);
	}
	mesh_conns_unlock();
	if (!due)
		return -EALREADY;
	err = mesh_thread_frame(&registration);
	/*
	 * If the connection was unlinked meanwhile, its UNREGISTER_QP may have overtaken the REGISTER_QP: send another.
	 * A new queue pair with that QPN is not registered yet, because only this thread registers queue pairs.
	 */
	if (note_registered(conn, err != -EAGAIN))
		unregister_qp(&registration);
	return err == -EAGAIN ? err : 0;
}

bool mesh_conn_is_registered(const char *device, uint32_t qpn)
{
	const struct mesh_conn *conn;
	bool known;

	mesh_conns_lock();
	conn = look_up(NULL, device, qpn);
	known = conn && conn->table.known;
	mesh_conns_unlock();
	return known;
}

void mesh_conn_refused(struct mesh_conn *conn)
{
	if (atomic_exchange_explicit(&conn->flags.refused, true, memory_order_relaxed))
		return;
	mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x: the agent refuses to register it", conn->mc->device, conn->qpn);
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "%s: the agent refuses to register a queue pair of this process, which its log tells more of: connections that it "
		    "refuses go on as without meshverbs",
		    conn->mc->device);
}

void mesh_conn_unregistered(struct mesh_conn *conn)
{
	mesh_conns_lock();
	conn->table.registered = false;
	mesh_conns_unlock();
}

/* Called with process->conns.lock held. */
static struct mesh_conn *next_of_all(struct mesh_conns *conns, const struct mesh_conn *after)
{
	struct mesh_conn *conn;

	if (after && after->table.linked)
		return LIST_NEXT(after, table.of_all);
	for (conn = LIST_FIRST(&conns->all); conn && after && conn->table.serial > after->table.serial;
	     conn = LIST_NEXT(conn, table.of_all))
		;
	return conn;
}

size_t mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, const struct mesh_conn *after)
{
	struct mesh_conns *conns;
	struct mesh_conn *conn;
	size_t n = 0;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	for (conn = conns ? next_of_all(conns, after) : NULL; conn && n < max; conn = LIST_NEXT(conn, table.of_all)) {
		if (conn->mc != mc)
			continue;
		mesh_conn_ref(conn);
		ret[n++] = conn;
	}
	mesh_conns_unlock();
	return n;
}
