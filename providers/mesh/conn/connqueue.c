// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <time.h>

#include "conntable.h"
#include "survives.h"

/* Order in which the helper thread looks at connections. */

/*
 * Connections per turn of the helper thread, some 10 us each. If earlier turns left some: limit of new ones, and minimum of those
 * that are not due.
 */
#define TAKEN_MAX  64u
#define TAKEN_NEW  32u
#define TAKEN_LAST 16u

/* Called with process->conns.lock held. */
void mesh_conns_put_locked(struct mesh_conns *conns, struct mesh_conn *conn)
{
	if (!conn->table.linked || (conn->schedule.queued && !conn->schedule.put_back))
		return;
	if (conn->schedule.put_back)
		TAILQ_REMOVE(&conns->put_back, conn, schedule.of_queue);
	else
		mesh_conn_ref(conn);
	TAILQ_INSERT_TAIL(&conns->queued, conn, schedule.of_queue);
	conn->schedule.queued = true;
	conn->schedule.put_back = false;
}

void mesh_conn_queue(struct mesh_conn *conn, bool changed)
{
	struct mesh_conns *conns;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	if (conns) {
		mesh_conns_put_locked(conns, conn);
		conns->changed |= changed;
	}
	mesh_conns_unlock();
}

/* Called with process->conns.lock held. */
static void wait_until(struct mesh_conns *conns, struct mesh_conn *conn, uint64_t due_ns)
{
	mesh_timer_remove(&conns->timers, &conn->schedule.timer);
	if (due_ns != UINT64_MAX)
		mesh_timer_add(&conns->timers, &conn->schedule.timer, due_ns);
}

/* Called with process->conns.lock held. */
static void set_due(struct mesh_conns *conns, struct mesh_conn *conn, uint64_t due_ns)
{
	conn->schedule.due_ns = due_ns;
	if (!mesh_timer_is_set(&conn->schedule.timer) || conn->schedule.timer.at_ns > due_ns)
		wait_until(conns, conn, due_ns);
}

void mesh_conn_queue_at(struct mesh_conn *conn, uint64_t due_ns)
{
	struct mesh_conns *conns;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	if (conns && conn->table.linked && (!conn->schedule.queued || conn->schedule.put_back) && due_ns < conn->schedule.due_ns)
		set_due(conns, conn, due_ns);
	mesh_conns_unlock();
}

void mesh_conn_put_off(struct mesh_conn *conn, uint64_t due_ns)
{
	struct mesh_conns *conns;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	if (conns && conn->table.linked && !conn->schedule.queued)
		set_due(conns, conn, due_ns);
	mesh_conns_unlock();
}

bool mesh_conns_changed(void)
{
	struct mesh_conns *conns;
	bool changed;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	changed = conns && conns->changed;
	mesh_conns_unlock();
	return changed;
}

void mesh_conns_queue_all(bool anew)
{
	struct mesh_conns *conns;
	struct mesh_conn *conn;
	size_t i;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	for (i = 0; conns && i < conns->n_buckets; i++) {
		for (conn = conns->buckets[i]; conn; conn = conn->table.next) {
			conn->table.registered &= !anew;
			/*
			 * Passthrough connections only care for messages. A connection that waits to move looks at all
			 * the directory when it may.
			 */
			if (!conn->schedule.queued && (anew || (!conn->table.passthrough && !conn->schedule.waits)))
				mesh_conns_put_locked(conns, conn);
		}
	}
	mesh_conns_unlock();
}

static struct mesh_conn *conn_of(struct mesh_timer *timer)
{
	return (struct mesh_conn *)((char *)timer - offsetof(struct mesh_conn, schedule.timer));
}

/* Called with process->conns.lock held. Queues connections that are due. */
static void queue_due(struct mesh_conns *conns, uint64_t now_ns, uint64_t *ret_next)
{
	struct mesh_conn *conn;

	while (conns->timers) {
		conn = conn_of(conns->timers);
		if (conns->timers->at_ns < conn->schedule.due_ns) {
			wait_until(conns, conn, conn->schedule.due_ns);
			continue;
		}
		*ret_next = conn->schedule.due_ns;
		if (conn->schedule.due_ns > now_ns)
			break;
		mesh_timer_remove(&conns->timers, &conn->schedule.timer);
		mesh_conns_put_locked(conns, conn);
		*ret_next = UINT64_MAX;
	}
}

/* Called with process->conns.lock held. Moves at most @max connections to the chain, whose end is *@end. Return: their number. */
static size_t take(struct mesh_queue *from, size_t max, struct mesh_conn ***end)
{
	struct mesh_conn *conn;
	size_t n;

	for (n = 0; n < max && (conn = TAILQ_FIRST(from)); n++) {
		TAILQ_REMOVE(from, conn, schedule.of_queue);
		conn->schedule.queued = conn->schedule.put_back = false;
		conn->schedule.due_ns = UINT64_MAX;
		**end = conn;
		*end = &conn->schedule.next_taken;
	}
	return n;
}

/* Called with process->conns.lock held. */
static void put_back(struct mesh_conns *conns, uint64_t now_ns)
{
	struct mesh_conn *conn;

	while ((conn = TAILQ_FIRST(&conns->queued))) {
		TAILQ_REMOVE(&conns->queued, conn, schedule.of_queue);
		conn->schedule.put_back = conn->schedule.due_ns > now_ns;
		TAILQ_INSERT_TAIL(conn->schedule.put_back ? &conns->put_back : &conns->overdue, conn, schedule.of_queue);
	}
}

/* Called with process->conns.lock held. Takes the oldest of each queue, so that none waits for ever. */
static void take_some(struct mesh_conns *conns, struct mesh_conn ***end)
{
	size_t n = take(&conns->queued, TAKEN_NEW, end);

	n += take(&conns->overdue, TAKEN_MAX - TAKEN_LAST - n, end);
	n += take(&conns->put_back, TAKEN_MAX - n, end);
	n += take(&conns->overdue, TAKEN_MAX - n, end);
	take(&conns->queued, TAKEN_MAX - n, end);
}

struct mesh_conn *mesh_conns_take_all_locked(void)
{
	struct mesh_conns *conns = mesh_conns_locked(false);
	struct mesh_conn *first = NULL, **end = &first;

	if (!conns)
		return NULL;
	conns->changed = false;
	take(&conns->overdue, SIZE_MAX, &end);
	take(&conns->put_back, SIZE_MAX, &end);
	take(&conns->queued, SIZE_MAX, &end);
	*end = NULL;
	return first;
}

struct mesh_conn *mesh_conns_take(uint64_t now_ns, uint64_t *ret_next)
{
	struct mesh_conn *first = NULL, **end = &first;
	struct mesh_conns *conns;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	*ret_next = UINT64_MAX;
	if (conns) {
		conns->changed = false;
		queue_due(conns, now_ns, ret_next);
		take_some(conns, &end);
		put_back(conns, now_ns);
		if (!TAILQ_EMPTY(&conns->overdue) || !TAILQ_EMPTY(&conns->put_back))
			*ret_next = now_ns;
	}
	*end = NULL;
	mesh_conns_unlock();
	return first;
}

/* Called with process->conns.lock held. */
static void take_from_waiting(struct mesh_conns *conns, struct mesh_conn *conn)
{
	TAILQ_REMOVE(&conns->waiting[conn->schedule.mover], conn, schedule.of_waiting);
	conn->schedule.waits = false;
}

void mesh_conn_wait_to_move(struct mesh_conn *conn, enum mesh_mover mover)
{
	struct mesh_conns *conns;

	mesh_conns_lock();
	conns = mesh_conns_locked(false);
	if (conns && conn->table.linked && (!conn->schedule.waits || conn->schedule.mover != mover)) {
		if (conn->schedule.waits)
			take_from_waiting(conns, conn);
		else
			mesh_conn_ref(conn);
		conn->schedule.waits = true;
		conn->schedule.mover = mover;
		TAILQ_INSERT_TAIL(&conns->waiting[mover], conn, schedule.of_waiting);
	}
	mesh_conns_unlock();
}

void mesh_conn_waits_no_more(struct mesh_conn *conn)
{
	bool waited;

	mesh_conns_lock();
	waited = conn->schedule.waits;
	if (waited)
		take_from_waiting(mesh_conns_locked(false), conn);
	mesh_conns_unlock();
	if (waited)
		mesh_conn_put(conn);
}

bool mesh_conns_next_mover(enum mesh_mover mover)
{
	struct mesh_conns *conns;
	struct mesh_conn *conn;
	bool called, gone;

	do {
		mesh_conns_lock();
		conns = mesh_conns_locked(false);
		conn = conns ? TAILQ_FIRST(&conns->waiting[mover]) : NULL;
		if (conn)
			take_from_waiting(conns, conn);
		gone = conn && !conn->table.linked;
		called = conn && !gone;
		if (called) {
			/* It may have been called before, and wait again. */
			if (!atomic_exchange_explicit(&conn->flags.called, true, memory_order_relaxed))
				atomic_fetch_add_explicit(&mesh_root.process->moves.n_called, 1, memory_order_relaxed);
			mesh_conns_put_locked(conns, conn);
			conns->changed = true;
		}
		mesh_conns_unlock();
		mesh_conn_put(conn);
	} while (gone);
	return called;
}

void mesh_conns_port_down(void)
{
	/* Without a helper thread there are no connections. */
	if (!mesh_survives_some() || !atomic_load_explicit(&mesh_root.process->thread, memory_order_acquire))
		return;
	mesh_conns_queue_all(false);
	mesh_thread_wake(true);
}

MV_LOCKS_UNCHECKED bool mesh_conn_enter(struct mesh_conn *conn)
{
	struct timespec until;

	if (atomic_load_explicit(&conn->flags.at_work, memory_order_acquire))
		return false;
	if (mesh_trylock(&conn->lock))
		return true;
	/* Most likely the program is in modify_qp. */
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += MESH_CONN_PATIENCE_NS;
	if (until.tv_nsec >= 1000000000l) {
		until.tv_nsec -= 1000000000l;
		until.tv_sec++;
	}
	return mesh_lock_until(&conn->lock, &until);
}

void mesh_conn_exit(struct mesh_conn *conn)
{
	mesh_conn_key_peer(conn);
	mesh_unlock(&conn->lock);
}
