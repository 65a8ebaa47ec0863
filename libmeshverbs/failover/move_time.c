// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <assert.h>

#include "move_internal.h"

/* Timers: when to repeat a message, and when to give up. */

static uint64_t earlier_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The leader gives up first, so that the follower still waits when CONFIRM arrives. */
static uint64_t failover_limit(const struct mv_move *m)
{
	bool agreeing = m->state != MV_MOVE_DRAINING && m->state != MV_MOVE_DRAINED;

	return agreeing && m->leader && !m->self ? m->times->move_ns / 16 * 7 : m->times->move_ns / 2;
}

static uint64_t ask_ns(const struct mv_move *m)
{
	return later_of(earlier_of(m->timers.patience_ns / 4 * 3, m->times->ask_ns), m->times->ask_min_ns);
}

void mv_move_patience(struct mv_move *m, uint64_t ns)
{
	m->timers.patience_ns = ns;
}

uint64_t mv_move_give_up_at(const struct mv_move *m)
{
	uint64_t at = UINT64_MAX;

	if (m->pending.what != MV_PENDING_NONE && m->pending.what != MV_PENDING_RESTART)
		return UINT64_MAX;
	if (m->failover)
		return m->timers.phase_since + failover_limit(m);
	if (m->state == MV_MOVE_IDLE || mv_move_settled(m) || m->state == MV_MOVE_FAILED)
		return UINT64_MAX;
	if (m->timers.work_since)
		at = m->times->give_up_ns + (m->state == MV_MOVE_ANSWERED
						     ? later_of(m->timers.work_since, m->timers.answered_at)
						     : m->timers.work_since);
	if (m->state == MV_MOVE_ASKING && m->verdict == MV_PATH_ASK)
		at = earlier_of(at, later_of(m->timers.begun_at, m->timers.heard_at) + ask_ns(m));
	return at;
}

uint64_t mv_move_passthrough_at(const struct mv_move *m)
{
	if (m->state != MV_MOVE_ASKING || m->failover || m->attempts.peer)
		return UINT64_MAX;
	return later_of(m->timers.begun_at + ask_ns(m), m->timers.try_at);
}

void mv_move_tried(struct mv_move *m, bool ok, uint64_t now_ns)
{
	assert(mv_move_passthrough_at(m) != UINT64_MAX);
	if (ok) {
		mv_move_set_passthrough(m);
		return;
	}
	/*
	 * A port may need a moment. Neighbour resolution on another subnet's link does not change soon, so wait longest
	 * then.
	 */
	if (m->verdict == MV_PATH_OTHER_SUBNET)
		m->timers.try_step = m->times->try_max_ns;
	else
		m->timers.try_step =
			m->timers.try_step ? earlier_of(2 * m->timers.try_step, m->times->try_max_ns) : m->times->try_ns;
	m->timers.try_at = now_ns + m->timers.try_step;
}

uint64_t mv_move_deadline(const struct mv_move *m)
{
	uint64_t at = mv_move_give_up_at(m);

	return m->timers.resend_at ? earlier_of(at, m->timers.resend_at) : at;
}

static void give_up(struct mv_move *m)
{
	if (m->failover && m->state == MV_MOVE_QUIESCING)
		mv_move_call_off(m, MV_CTL_REASON_BUSY, MV_CTL_REASON_BUSY, false);
	else if (m->failover)
		mv_move_call_off(m, MV_CTL_REASON_TIMEOUT, MV_CTL_REASON_TIMEOUT, true);
	else if (m->state == MV_MOVE_ANSWERED)
		mv_move_activate(m, true);
	else
		mv_move_go_passthrough(m, m->undelivered ? MV_CTL_REASON_UNREACHABLE : MV_CTL_REASON_NONE,
				       MV_CTL_REASON_PASSTHROUGH, true);
}

void mv_move_tick(struct mv_move *m, uint64_t now_ns)
{
	if (now_ns >= mv_move_give_up_at(m))
		give_up(m);
	/* While DRAIN is under way, the end of the move waits for its outcome, and the message is still repeated. */
	if (!m->timers.resend_at || now_ns < m->timers.resend_at)
		return;
	m->timers.resend_step = earlier_of(2 * m->timers.resend_step,
					   m->failover ? m->times->failover_resend_max_ns : m->times->resend_max_ns);
	m->timers.resend_at = now_ns + m->timers.resend_step;
	mv_move_say(m);
	/* The peer may not answer because @attempts.peer is a former life. */
	if (m->failover && m->state == MV_MOVE_OFFERED && !m->attempts.peer_knows_us)
		mv_move_ask_failover(m);
}
