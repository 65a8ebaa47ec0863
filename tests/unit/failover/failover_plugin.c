/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "failover_plugin.h"

#include <errno.h>

#include "psn.h"
#include "random.h"

size_t make_paths(const struct end *e, struct mv_path *ret)
{
	unsigned int first = e->standby && chance(80) ? e->standby->path : rnd(N_PATHS);
	size_t n = 0;

	for (unsigned int i = 0; i < N_PATHS; i++) {
		unsigned int p = (first + i) % N_PATHS;

		if (w.up[p] || chance(10))
			ret[n++] =
				(struct mv_path){.local_gid = path_gid(p, e->host),
						 .remote_gid = path_gid(p, (uint8_t)(3 - e->host)),
						 .type = MV_GID_TYPE_ROCE_V2};
	}
	return n;
}

void start(unsigned int i)
{
	static const enum mv_ctl_reason reasons[] = {MV_CTL_REASON_PORT, MV_CTL_REASON_PATH, MV_CTL_REASON_DRAIN,
						     MV_CTL_REASON_PRIMARY};
	struct end *e = &w.ends[i];
	struct mv_path paths[N_PATHS];
	size_t n = make_paths(e, paths);
	int err = mv_move_start(&e->m, reasons[rnd(4)], paths, n, w.now);

	TRACE("%u is to start, %d\n", i, err);
	CHECK(err != -EINVAL || e->failed || e->m.state == MV_MOVE_FAILED);
	e->wants_off = true;
}

void expect(unsigned int i)
{
	struct end *e = &w.ends[i];
	struct mv_path paths[N_PATHS];
	size_t n = make_paths(e, paths);

	if (mv_move_expect(&e->m, paths, n, w.now))
		return;
	TRACE("%u expects to move\n", i);
	n_expected++;
	schedule(rnd(40) * MS, EV_SURE, i);
}

void sure(unsigned int i)
{
	struct end *e = &w.ends[i];

	if (!e->m.unsure)
		return;
	TRACE("%u is sure\n", i);
	e->wants_off = !w.up[e->work->path];
	if (e->wants_off)
		mv_move_sure(&e->m, chance(50) ? MV_CTL_REASON_PATH : MV_CTL_REASON_PORT, w.now);
	else
		mv_move_cancel(&e->m, w.now);
}

/* The QP that is being negotiated about. */
static struct qp *negotiated(const struct end *e)
{
	return e->next ? e->next : e->m.early ? e->standby : NULL;
}

/* What was agreed upon on a suspicion. */
static void take_early(struct end *e)
{
	if (e->next || !e->m.early)
		return;
	CHECK(e->standby && e->standby->connected);
	n_early++;
	e->next = e->standby;
	e->standby = NULL;
}

static void do_prepare(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];
	unsigned int path = action->local_gid.raw[14];

	CHECK(!e->next);
	CHECK(action->local_gid.raw[15] == e->host && path < N_PATHS);
	if (e->m.failover && e->stops_at_prepare) {
		mv_move_refuse(&e->m, MV_CTL_REASON_UNSUPPORTED, w.now);
		return;
	}
	/* Only what is there. */
	if (e->m.failover && e->m.early) {
		schedule(rnd(3) * MS, EV_OUTCOME, i)->ok = e->standby && e->standby->path == path;
		return;
	}
	if (e->standby && e->standby->path == path) {
		e->next = e->standby;
		e->standby = NULL;
	} else {
		e->next = make_qp(e, path, &action->local_gid);
	}
	schedule(rnd(5) * MS, EV_OUTCOME, i)->ok = w.makeable[i][path];
}

static void tell_standby(unsigned int i, bool ready)
{
	struct end *e = &w.ends[i];
	union ibv_gid peer_gid = path_gid(e->standby->path, (uint8_t)(3 - e->host));

	mv_move_tell_standby(&e->m, &e->standby->self, &peer_gid, MV_GID_TYPE_ROCE_V2, 7, 4096, ready);
}

void do_arm(unsigned int i)
{
	struct end *e = &w.ends[i];
	unsigned int path = chance(80) ? N_PATHS - 1 : rnd(N_PATHS);

	if (!e->work || e->failed || e->m.failover)
		return;
	if (!e->standby && path != e->work->path && w.makeable[i][path]) {
		union ibv_gid gid = path_gid(path, e->host);

		e->standby = make_qp(e, path, &gid);
	}
	if (e->standby)
		tell_standby(i, false);
}

static void do_standby(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];

	if (!e->standby || !mv_gid_equal(&e->standby->self.gid, &action->local_gid))
		return;
	CHECK(action->mtu_bytes == 4096 && action->peer_lid == 7);
	e->standby->peer = action->peer;
	e->standby->my_psn = action->sq_psn;
	e->standby->peer_psn = action->rq_psn;
	e->standby->connected = true;
	if (action->answer)
		tell_standby(i, true);
}

static void drop_standby(struct end *e)
{
	if (e->standby)
		e->standby->alive = e->standby->connected = false;
	e->standby = NULL;
}

static void do_connect(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i], *o = &w.ends[!i];
	struct qp *next = negotiated(e);

	CHECK(next && next->alive);
	CHECK((action->sq_psn == MV_CTL_PSN_NONE) == !e->m.failover);
	n_connects += e->m.failover;
	if (next->connected && same(&next->peer, &action->peer) && next->my_psn == action->sq_psn &&
	    next->peer_psn == action->rq_psn) {
		n_standbys++;
		schedule(0, EV_OUTCOME, i)->ok = true;
		return;
	}
	next->connected = false;
	next->peer = action->peer;
	next->my_psn = e->m.failover ? action->sq_psn : e->psn;
	next->peer_psn = e->m.failover ? action->rq_psn : o->psn;
	schedule(rnd(5) * MS, EV_OUTCOME, i)->ok = true;
}

/* All work requests here are atomics, as it were. */
static void do_quiesce(unsigned int i)
{
	struct end *e = &w.ends[i];

	CHECK(!e->m.unsure);
	/* Another path is better by now, or the QP is gone. */
	if (e->m.early && !e->next && chance(15)) {
		start(i);
		return;
	}
	take_early(e);
	CHECK(e->next && e->next->connected && e->work && !e->work->err);
	e->quiet = true;
	e->lossy = !w.up[e->work->path];
	if (e->lossy || e->completed >= e->work->first_wr + e->work->sent)
		mv_move_quiesced(&e->m, chance(50), w.now);
}

static void do_drain(unsigned int i)
{
	struct end *e = &w.ends[i];

	/* The leader is sure that the path is dead: nothing is waited for. */
	if (e->m.early && !e->m.leader)
		e->quiet = e->lossy = true;
	take_early(e);
	/* Nothing is drained before both can go on. */
	CHECK(e->next && e->next->connected && e->work && !e->work->err);
	/* (The follower may have given up since it answered, by time or because its program did.) */
	CHECK(!w.calm || peer_of(i, e->next));
	CHECK(e->quiet && (e->lossy || e->completed >= e->work->first_wr + e->work->sent));
	schedule(rnd(chance(10) ? 40 : 8) * MS, EV_OUTCOME, i)->ok = w.calm || !chance(3);
}

static void replay(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];
	struct qp *old = e->work, *peer = peer_of(i, old);
	unsigned int done;

	/* Nothing is posted on the new path before both have drained. */
	CHECK(peer && old->err && peer->err);
	CHECK(action->next_psn == mv_psn_add(old->my_psn, peer->executed));
	CHECK(action->n_received == peer->executed);
	done = old->first_wr + mv_psn_ahead(old->my_psn, action->next_psn);
	CHECK(done >= e->completed && done <= e->posted);
	/* What was waited for is through, so the peer's drain has not cut it off either. */
	CHECK(e->lossy || done == e->completed);
	e->completed = done;
	e->next->first_wr = done;
	old->alive = false;
	e->n_moves++;
}

static void do_activate(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i], *o = &w.ends[!i];
	struct qp *peer = e->next ? peer_of(i, e->next) : NULL;

	CHECK(e->next && e->next->connected && !e->failed);
	CHECK(action->replay == (e->work != NULL));
	CHECK(!action->timed_out || !w.calm);
	if (action->replay)
		replay(i, action);
	CHECK(o->dead || o->failed || peer);
	e->work = e->next;
	e->next = NULL;
	drop_standby(e);
	e->failover_since = 0;
	e->quiet = false;
	e->wants_off = !w.up[e->work->path];
	if (e->wants_off)
		schedule(rnd(20) * MS, EV_RETRY, i);
}

static void do_stay(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];

	CHECK(!e->next && e->work && !e->work->err && !e->quiet);
	CHECK(!e->standby || !e->standby->sent);
	CHECK(action->reason < MV_CTL_REASON_END && action->reason != MV_CTL_REASON_NONE);
	e->failover_since = 0;
	e->n_stays++;
	if (e->wants_off && e->n_stays < 20)
		schedule((10 + rnd(100)) * MS, EV_RETRY, i);
}

static void do_flush(unsigned int i)
{
	struct end *e = &w.ends[i];

	CHECK(e->work && e->work->err && e->next && !w.calm);
	e->next->alive = e->work->alive = false;
	e->work = e->next = NULL;
	e->failed = true;
	e->failover_since = 0;
}

void do_passthrough(unsigned int i)
{
	struct end *e = &w.ends[i], *o = &w.ends[!i];

	CHECK(!e->work && !e->next);
	e->work = make_qp(e, 0, &e->name.gid);
	e->work->self = e->name;
	e->work->peer = o->name;
	e->work->my_psn = e->psn;
	e->work->peer_psn = o->psn;
	e->work->connected = true;
}

static void do_action(unsigned int i, const struct mv_move_action *action)
{
	static const char *const names[] = {"nothing", "send",  "prepare", "connect", "activate", "passthrough",  "release",
					    "quiesce", "drain", "stay",    "flush",   "decide",   "stand by"};
	struct end *e = &w.ends[i];

	if (action->type != MV_DO_SEND)
		TRACE("%u is to %s, reason %u%s\n", i, names[action->type], action->reason,
		      action->timed_out ? ", time is up" : "");
	switch (action->type) {
	case MV_DO_SEND:
		network_send(i, &action->msg);
		break;
	case MV_DO_PREPARE:
		do_prepare(i, action);
		break;
	case MV_DO_CONNECT:
		do_connect(i, action);
		break;
	case MV_DO_QUIESCE:
		do_quiesce(i);
		break;
	case MV_DO_DRAIN:
		do_drain(i);
		break;
	case MV_DO_ACTIVATE:
		do_activate(i, action);
		break;
	case MV_DO_RELEASE:
		/* Of what was made in advance nothing has been taken. */
		if (!e->next && e->standby)
			break;
		CHECK(e->next && !e->next->sent);
		/* Nobody can have used it. */
		CHECK(!e->next->executed);
		e->next->alive = e->next->connected = false;
		e->next = NULL;
		e->quiet = false;
		break;
	case MV_DO_STAY:
		do_stay(i, action);
		break;
	case MV_DO_FLUSH:
		do_flush(i);
		break;
	case MV_DO_WANTED:
		if (e->stops_at_prepare)
			mv_move_refuse(&e->m, MV_CTL_REASON_OFF, w.now);
		else if (!chance(10))
			start(i);
		break;
	case MV_DO_PASSTHROUGH:
		do_passthrough(i);
		break;
	case MV_DO_STANDBY:
		do_standby(i, action);
		break;
	case MV_DO_NOTHING:
		CHECK(false);
	}
}

void drain(unsigned int i, bool by_message)
{
	struct end *e = &w.ends[i];
	struct mv_move_action action;
	unsigned int sends = 0;

	while (mv_move_next(&e->m, &action)) {
		sends += action.type == MV_DO_SEND;
		do_action(i, &action);
	}
	/* Or two ends could keep each other busy. (A refusal by our caller is one more.) */
	CHECK(!by_message || sends <= 1 || e->stops_at_prepare);
	if (e->m.failover && !e->failover_since)
		e->failover_since = w.now;
	/* A follower may have asked for half of the time before. */
	CHECK(!e->m.failover || w.now - e->failover_since <= e->m.times->move_ns / 2 * 3 + SLACK);
}
