// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "move_limiter.h"

#include "conn.h"

/*
 * AIMD limit on concurrent moves. +1 if a move took less than move_ns / FAST_PART while at least half of the limit moved. -1 if a
 * move took more than move_ns / SLOW_PART. After a timeout the part above LEAST_MOVING is halved.
 */
#define LEAST_MOVING 128u
#define MOST_MOVING  1024u
#define FAST_PART    40
#define SLOW_PART    10
/* A connection that moves for longer waits for a silent peer, most likely, and does not count for mesh_n_moving(). */
#define FRESH_NS 250000000ull

static unsigned int get(const _Atomic unsigned int *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

static void add(_Atomic unsigned int *n, int change)
{
	atomic_fetch_add_explicit(n, (unsigned int)change, memory_order_relaxed);
}

unsigned int mesh_n_moving(void)
{
	return get(&mesh_root.process->moves.n_fresh);
}

bool mesh_many_move(void)
{
	return mesh_n_moving() >= MESH_MANY_MOVING;
}

bool mesh_may_prepare(void)
{
	return get(&mesh_root.process->moves.n_prepared) < MOST_MOVING;
}

bool mesh_some_prepare(void)
{
	return get(&mesh_root.process->moves.n_prepared);
}

static unsigned int may_lead(void)
{
	return LEAST_MOVING + get(&mesh_root.process->moves.n_more);
}

/* @n_called: number of other connections that were called */
static bool is_free(unsigned int n_called, enum mesh_mover mover)
{
	if (mover == MESH_MOVER_FOLLOWS)
		return mesh_n_moving() + n_called < MESH_MANY_MOVING;
	return get(&mesh_root.process->moves.n_moving) + n_called < may_lead();
}

bool mesh_move_limiter_allows(const struct mesh_conn *conn, enum mesh_mover mover)
{
	bool called = atomic_load_explicit(&conn->flags.called, memory_order_relaxed);
	unsigned int n_called = get(&mesh_root.process->moves.n_called);

	return is_free(called && n_called ? n_called - 1 : n_called, mover);
}

/* Return: was a connection called? */
static bool call_next(enum mesh_mover mover)
{
	return is_free(get(&mesh_root.process->moves.n_called), mover) && mesh_conns_next_mover(mover);
}

static void forget_call(struct mesh_conn *conn)
{
	if (atomic_exchange_explicit(&conn->flags.called, false, memory_order_relaxed))
		add(&mesh_root.process->moves.n_called, -1);
}

static void set_fresh(struct mesh_conn *conn, bool fresh)
{
	if (conn->moving.fresh != fresh)
		add(&mesh_root.process->moves.n_fresh, fresh ? 1 : -1);
	conn->moving.fresh = fresh;
}

static void set_prepared(struct mesh_conn *conn, bool prepared)
{
	if (conn->moving.prepared != prepared)
		add(&mesh_root.process->moves.n_prepared, prepared ? 1 : -1);
	conn->moving.prepared = prepared;
}

void mesh_move_limiter_forget(struct mesh_conn *conn)
{
	forget_call(conn);
	set_fresh(conn, false);
	set_prepared(conn, false);
	if (conn->moving.counted)
		add(&mesh_root.process->moves.n_moving, -1);
	conn->moving.counted = false;
}

static void note_moving(struct mesh_conn *conn, uint64_t now_ns)
{
	if (!conn->moving.counted) {
		add(&mesh_root.process->moves.n_moving, 1);
		conn->moving.counted = true;
		conn->moving.counted_ns = now_ns;
		mesh_conn_waits_no_more(conn);
	}
	forget_call(conn);
	set_prepared(conn, false);
	set_fresh(conn, now_ns - conn->moving.counted_ns < FRESH_NS);
	atomic_store_explicit(&mesh_root.process->moves.last_ns, now_ns, memory_order_relaxed);
}

bool mesh_move_limiter_note(struct mesh_conn *conn, bool looked, uint64_t now_ns)
{
	bool called = false, moves = mesh_conn_negotiates(conn) && conn->move.failover;

	if (moves && !conn->move.unsure) {
		note_moving(conn, now_ns);
		return false;
	}
	/* A called connection keeps its place until mesh_conn_check(), whatever messages come before. */
	if (looked || conn->moving.counted)
		mesh_move_limiter_forget(conn);
	set_prepared(conn, moves);
	while (call_next(MESH_MOVER_LEADS) || call_next(MESH_MOVER_FOLLOWS))
		called = true;
	return called;
}

void mesh_move_limiter_took(uint64_t ns)
{
	uint64_t limit_ns = mesh_root.move_times.move_ns;
	_Atomic unsigned int *n_more = &mesh_root.process->moves.n_more;
	unsigned int n = get(n_more);

	/* Two threads at once are rare; one of their updates may be lost. */
	if (ns == UINT64_MAX)
		n /= 2;
	else if (ns > limit_ns / SLOW_PART)
		n -= n > 0;
	else if (ns < limit_ns / FAST_PART && get(&mesh_root.process->moves.n_moving) >= may_lead() / 2)
		n += n < MOST_MOVING - LEAST_MOVING;
	atomic_store_explicit(n_more, n, memory_order_relaxed);
}

void mesh_move_limiter_end(struct mesh_conn *conn)
{
	if (mesh_move_limiter_note(conn, true, mesh_now_ns()))
		mesh_thread_wake(true); /* otherwise waiting connections would look much later */
}
