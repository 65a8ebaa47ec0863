/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two ends of a connection with work under way that are moved (move.h), over a control network that
 * loses, repeats, delays and reorders messages, and paths that die: at one end or both at once,
 * again in the middle of a move, and heal; processes die, too. Each end is a small plugin and a
 * small NIC: what it executes is counted, so that a work request that is lost, repeated or out of
 * order is found at once. Seeded: TEST_SEED=n test_move_live_property.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "move.h"
#include "move_live.h"
#include "proof.h"
#include "psn.h"
#include "random.h"

#define MS 1000000ull
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RUNS 2500
#else
#define RUNS 12000
#endif
#define START (1000 * MS)
#define LIMIT (START + 60 * 1000 * MS)
#define SLACK (60 * MS) /* what PREPARE, CONNECT and FENCE take here */

/* ---- the world ---------------------------------------------------------------------------------
 */

#define N_PATHS 5 /* 0: the program's own */
#define MAX_QPS 400

/* Every work request takes one PSN here: how many it takes is for psn.h. */
struct qp {
	bool alive, connected, err;
	struct mv_ctl_end self, peer;
	unsigned int path;
	uint32_t my_psn, peer_psn;
	unsigned int first_wr; /* number of the work request with my_psn */
	unsigned int sent; /* work requests that have left */
	unsigned int executed; /* of the peer's */
};

struct end {
	struct mv_move m;
	struct mv_ctl_end name;
	uint8_t host;
	uint32_t psn, attempt;
	uint64_t nonce; /* of @attempt */
	bool dead, begun;
	struct qp qps[MAX_QPS];
	size_t n_qps;
	struct qp *work, *next;
	struct qp *ahead; /* made for the next move, and connected perhaps */
	bool failed; /* SURFACE: the program has been given errors */
	bool wants_off; /* its path is bad as far as it knows */
	bool quiet, lossy; /* QUIESCE; and its path is dead: what is outstanding is not waited for */
	/* of the program */
	unsigned int posted, completed, executed;
	/* */
	uint64_t live_since; /* 0: no move under way */
	unsigned int n_moves, n_stays, lost_in_a_row;
	bool stops_at_prepare; /* refuses all moves */
};

enum event_type { EV_MESSAGE, EV_OUTCOME, EV_BAD, EV_SUSPECT, EV_SURE, EV_HEAL, EV_DIE, EV_BYE, EV_ABORT, EV_RETRY, EV_AHEAD };

struct event {
	uint64_t at;
	enum event_type type;
	unsigned int end, path;
	bool ok;
	struct mv_ctl_msg msg;
};

#define MAX_EVENTS 1024

static struct world {
	uint64_t now, seed;
	struct end ends[2];
	struct event events[MAX_EVENTS];
	size_t n_events;
	uint32_t next_qpn;
	bool up[N_PATHS], makeable[2][N_PATHS];
	uint32_t loss, repeat, delay_max_ms, unreachable;
	uint64_t cut_from, cut_to;
	bool calm; /* nothing but loss, repetition, delays and paths that die: everything has to
		      survive */
	bool held; /* the first path came by a connect */
	bool echoes; /* of both QPs' last lives */
	unsigned int n_messages;
} w;

static bool trace;
static unsigned int n_connects, n_standbys; /* of all runs: CONNECTs; those with nothing left to do */
static unsigned int n_expected, n_early; /* moves that began on a suspicion; ends that went on with what was agreed upon then */

#define TRACE(...)                                                                                 \
	do {                                                                                       \
		if (trace) {                                                                       \
			print_message("%8.3f ms ", (double)(w.now - START) / MS);                  \
			print_message(__VA_ARGS__);                                                \
		}                                                                                  \
	} while (0)

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("seed %llu, %.3f ms: not true: %s (states %s, %s)",               \
				 (unsigned long long)w.seed, (double)(w.now - START) / MS,         \
				 #condition, mv_move_state_name(w.ends[0].m.state),                \
				 mv_move_state_name(w.ends[1].m.state));                           \
	} while (0)

static struct event *schedule(uint64_t in_ns, enum event_type type, unsigned int end)
{
	struct event *event = &w.events[w.n_events];

	CHECK(w.n_events < MAX_EVENTS);
	w.n_events++;
	*event = (struct event){.at = w.now + in_ns, .type = type, .end = end};
	return event;
}

/* ---- the control network -----------------------------------------------------------------------
 */

static bool is_lost(struct end *sender)
{
	if (w.now >= w.cut_from && w.now < w.cut_to)
		return true;
	if (sender->lost_in_a_row >= 3 || !chance(w.loss)) {
		sender->lost_in_a_row = 0;
		return false;
	}
	sender->lost_in_a_row++;
	return true;
}

static uint64_t a_nonce(void)
{
	return (uint64_t)rnd(UINT32_MAX) << 32 | rnd(UINT32_MAX);
}

/*
 * Somebody knows all of a message but the random numbers, and says something in its place, or that a later life of its sender's has begun:
 * nothing may come of it.
 */
static void forge(unsigned int to, const struct mv_ctl_msg *msg)
{
	static const enum mv_ctl_type types[] = {MV_CTL_OFFER,  MV_CTL_ANSWER, MV_CTL_CONFIRM, MV_CTL_REFUSE,
						 MV_CTL_BYE, MV_CTL_SYNC,   MV_CTL_HELLO,   MV_CTL_AHEAD};
	struct event *event = schedule(rnd(50) * MS, EV_MESSAGE, to);

	event->msg = *msg;
	/* Who is still connecting begins anew with a later life of its peer's. */
	event->msg.type = types[rnd(sizeof(types) / sizeof(types[0]) - (w.held ? 2 : 0))];
	event->msg.flags ^= chance(50) ? MV_CTL_READY : 0;
	event->msg.to_attempt = w.ends[to].attempt;
	event->msg.to_nonce = a_nonce();
	if (event->msg.type == MV_CTL_HELLO) {
		event->msg.flags |= MV_CTL_MOVE;
		event->msg.reason = MV_CTL_REASON_NONE;
		event->msg.to_attempt = 0;
		event->msg.attempt += w.ends[to].m.peer_knows_us ? 1 + rnd(3) : 0;
	}
	if (chance(50))
		event->msg.nonce = a_nonce();
	mv_proof_seal(&event->msg, NULL);
}

static void network_send(unsigned int from, const struct mv_ctl_msg *msg)
{
	uint8_t buf[MV_CTL_MAX_BYTES];
	struct mv_ctl_msg copy, sealed = *msg;
	int copies = 1 + chance(w.repeat);

	w.n_messages++;
	mv_proof_seal(&sealed, NULL);
	TRACE("%u says %s flags %u number %u base %u reason %u\n", from,
	      mv_ctl_type_name(msg->type), msg->flags, msg->request_id, msg->base, msg->reason);
	CHECK(!mv_ctl_decode(buf, mv_ctl_encode(&sealed, buf), &copy));
	if (chance(10))
		forge(!from, msg);
	if (is_lost(&w.ends[from]))
		return;
	for (int i = 0; i < copies; i++) {
		/* Now and then one comes when the next move, or the one after it, is under way. */
		uint64_t delay = chance(5) ? rnd(3000) : rnd(w.delay_max_ms + 1);

		schedule(delay * MS + rnd(1000), EV_MESSAGE, !from)->msg = copy;
	}
}

/* ---- the NICs ----------------------------------------------------------------------------------
 */

static bool same(const struct mv_ctl_end *a, const struct mv_ctl_end *b)
{
	return a->qpn == b->qpn && mv_gid_equal(&a->gid, &b->gid);
}

static struct qp *make_qp(struct end *e, unsigned int path, const union ibv_gid *gid)
{
	struct qp *qp = &e->qps[e->n_qps];

	CHECK(e->n_qps < MAX_QPS);
	e->n_qps++;
	*qp = (struct qp){.alive = true, .path = path, .self = {.gid = *gid, .qpn = ++w.next_qpn}};
	return qp;
}

static struct qp *peer_of(unsigned int i, const struct qp *qp)
{
	struct end *o = &w.ends[!i];

	for (size_t q = 0; q < o->n_qps; q++)
		if (o->qps[q].connected && same(&o->qps[q].self, &qp->peer) &&
		    same(&o->qps[q].peer, &qp->self))
			return &o->qps[q];
	return NULL;
}

/* What was sent may arrive until the receiver is fenced, whatever the sender does. */
static void arrive(unsigned int i, struct qp *qp)
{
	struct qp *peer = peer_of(i, qp);
	struct end *o = &w.ends[!i];

	if (!peer || !peer->alive || peer->err || !w.up[qp->path] || o->dead)
		return;
	while (peer->executed < qp->sent && chance(70)) {
		CHECK(peer->peer_psn == qp->my_psn);
		/* The heart of it: each once, in order. */
		CHECK(qp->first_wr + peer->executed == o->executed);
		peer->executed++;
		o->executed++;
	}
}

static void acknowledge(unsigned int i)
{
	struct end *e = &w.ends[i];
	struct qp *peer = e->work ? peer_of(i, e->work) : NULL;
	unsigned int known;

	if (!peer || !peer->alive || peer->err || e->work->err || !w.up[e->work->path])
		return;
	known = e->work->first_wr + peer->executed;
	if (known > e->completed)
		e->completed += rnd(known - e->completed + 1);
}

static void traffic(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct end *e = &w.ends[i];

		if (!e->dead && !e->failed && e->posted - e->completed < 20)
			e->posted += rnd(3);
		if (!e->dead && e->work && !e->work->err && !e->quiet && e->posted > e->work->first_wr)
			e->work->sent = e->posted - e->work->first_wr;
		for (size_t q = 0; q < e->n_qps; q++)
			arrive(i, &e->qps[q]);
		if (!e->dead)
			acknowledge(i);
		/* No work request is completed that was not executed. */
		CHECK(e->completed <= w.ends[!i].executed);
	}
}

/* ---- what the plugin does with actions ---------------------------------------------------------
 */

static union ibv_gid path_gid(unsigned int path, uint8_t host)
{
	union ibv_gid gid = unit_gid("10.9.0.0");

	gid.raw[14] = (uint8_t)path;
	gid.raw[15] = host;
	return gid;
}

static size_t make_paths(const struct end *e, struct mv_path *ret)
{
	unsigned int first = e->ahead && chance(80) ? e->ahead->path : rnd(N_PATHS);
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

static void start(unsigned int i)
{
	static const enum mv_ctl_reason reasons[] = {MV_CTL_REASON_PORT, MV_CTL_REASON_PATH,
						     MV_CTL_REASON_DRAIN, MV_CTL_REASON_HOME};
	struct end *e = &w.ends[i];
	struct mv_path paths[N_PATHS];
	size_t n = make_paths(e, paths);
	int err = mv_move_start(&e->m, reasons[rnd(4)], paths, n, w.now);

	TRACE("%u is to start, %d\n", i, err);
	CHECK(err != -EINVAL || e->failed || e->m.state == MV_MOVE_FAILED);
	e->wants_off = true;
}

/* The agent has doubts about the path, and will say what comes of them. */
static void expect(unsigned int i)
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

static void sure(unsigned int i)
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
	return e->next ? e->next : e->m.early ? e->ahead : NULL;
}

/* What was agreed upon on a suspicion. */
static void take_early(struct end *e)
{
	if (e->next || !e->m.early)
		return;
	CHECK(e->ahead && e->ahead->connected);
	n_early++;
	e->next = e->ahead;
	e->ahead = NULL;
}

static void do_prepare(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];
	unsigned int path = action->local_gid.raw[14];

	CHECK(!e->next);
	CHECK(action->local_gid.raw[15] == e->host && path < N_PATHS);
	if (e->m.live && e->stops_at_prepare) {
		mv_move_refuse(&e->m, MV_CTL_REASON_UNSUPPORTED, w.now);
		return;
	}
	/* Only what is there. */
	if (e->m.live && e->m.early) {
		schedule(rnd(3) * MS, EV_OUTCOME, i)->ok = e->ahead && e->ahead->path == path;
		return;
	}
	if (e->ahead && e->ahead->path == path) {
		e->next = e->ahead;
		e->ahead = NULL;
	} else {
		e->next = make_qp(e, path, &action->local_gid);
	}
	schedule(rnd(5) * MS, EV_OUTCOME, i)->ok = w.makeable[i][path];
}

static void tell_ahead(unsigned int i, bool ready)
{
	struct end *e = &w.ends[i];
	union ibv_gid peer_gid = path_gid(e->ahead->path, (uint8_t)(3 - e->host));

	mv_move_ahead(&e->m, &e->ahead->self, &peer_gid, MV_GID_TYPE_ROCE_V2, 7, 4096, ready);
}

/* Both ends' choice is the same more often than not. */
static void do_ahead(unsigned int i)
{
	struct end *e = &w.ends[i];
	unsigned int path = chance(80) ? N_PATHS - 1 : rnd(N_PATHS);

	if (!e->work || e->failed || e->m.live)
		return;
	if (!e->ahead && path != e->work->path && w.makeable[i][path]) {
		union ibv_gid gid = path_gid(path, e->host);

		e->ahead = make_qp(e, path, &gid);
	}
	if (e->ahead)
		tell_ahead(i, false);
}

static void do_standby(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];

	if (!e->ahead || !mv_gid_equal(&e->ahead->self.gid, &action->local_gid))
		return;
	CHECK(action->mtu_bytes == 4096 && action->peer_lid == 7);
	e->ahead->peer = action->peer;
	e->ahead->my_psn = action->sq_psn;
	e->ahead->peer_psn = action->rq_psn;
	e->ahead->connected = true;
	if (action->answer)
		tell_ahead(i, true);
}

static void drop_ahead(struct end *e)
{
	if (e->ahead)
		e->ahead->alive = e->ahead->connected = false;
	e->ahead = NULL;
}

static void do_connect(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i], *o = &w.ends[!i];
	struct qp *next = negotiated(e);

	CHECK(next && next->alive);
	CHECK((action->sq_psn == MV_CTL_PSN_NONE) == !e->m.live);
	n_connects += e->m.live;
	if (next->connected && same(&next->peer, &action->peer) && next->my_psn == action->sq_psn &&
	    next->peer_psn == action->rq_psn) {
		n_standbys++;
		schedule(0, EV_OUTCOME, i)->ok = true;
		return;
	}
	next->connected = false;
	next->peer = action->peer;
	next->my_psn = e->m.live ? action->sq_psn : e->psn;
	next->peer_psn = e->m.live ? action->rq_psn : o->psn;
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

static void do_fence(unsigned int i)
{
	struct end *e = &w.ends[i];

	/* The leader is sure that the path is dead: nothing is waited for. */
	if (e->m.early && !e->m.leader)
		e->quiet = e->lossy = true;
	take_early(e);
	/* Nothing is fenced before both can go on. */
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

	/* Nothing is posted on the new path before both have fenced. */
	CHECK(peer && old->err && peer->err);
	CHECK(action->next_psn == mv_psn_add(old->my_psn, peer->executed));
	CHECK(action->n_received == peer->executed);
	done = old->first_wr + mv_psn_ahead(old->my_psn, action->next_psn);
	CHECK(done >= e->completed && done <= e->posted);
	/* What was waited for is through, so the peer's fence has not cut it off either. */
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
	drop_ahead(e);
	e->live_since = 0;
	e->quiet = false;
	e->wants_off = !w.up[e->work->path];
	if (e->wants_off)
		schedule(rnd(20) * MS, EV_RETRY, i);
}

static void do_stay(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];

	CHECK(!e->next && e->work && !e->work->err && !e->quiet);
	CHECK(!e->ahead || !e->ahead->sent);
	CHECK(action->reason < MV_CTL_REASON_END && action->reason != MV_CTL_REASON_NONE);
	e->live_since = 0;
	e->n_stays++;
	if (e->wants_off && e->n_stays < 20)
		schedule((10 + rnd(100)) * MS, EV_RETRY, i);
}

static void do_surface(unsigned int i)
{
	struct end *e = &w.ends[i];

	CHECK(e->work && e->work->err && e->next && !w.calm);
	e->next->alive = e->work->alive = false;
	e->work = e->next = NULL;
	e->failed = true;
	e->live_since = 0;
}

static void do_native(unsigned int i)
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
	static const char *const names[] = {"nothing",  "send",    "prepare", "connect",
					    "activate", "native",  "release",
					    "quiesce",  "fence",   "stay",    "surface",
					    "decide",   "stand by"};
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
	case MV_DO_FENCE:
		do_fence(i);
		break;
	case MV_DO_ACTIVATE:
		do_activate(i, action);
		break;
	case MV_DO_RELEASE:
		/* Of what was made ahead nothing has been taken. */
		if (!e->next && e->ahead)
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
	case MV_DO_SURFACE:
		do_surface(i);
		break;
	case MV_DO_WANTED:
		if (e->stops_at_prepare)
			mv_move_refuse(&e->m, MV_CTL_REASON_OFF, w.now);
		else if (!chance(10))
			start(i);
		break;
	case MV_DO_NATIVE:
		do_native(i);
		break;
	case MV_DO_STANDBY:
		do_standby(i, action);
		break;
	case MV_DO_NOTHING:
		CHECK(false);
	}
}

static void drain(unsigned int i, bool by_message)
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
	if (e->m.live && !e->live_since)
		e->live_since = w.now;
	/* A follower may have asked for half of the time before. */
	CHECK(!e->m.live || w.now - e->live_since <= e->m.times->move_ns / 2 * 3 + SLACK);
}

/* ---- events ------------------------------------------------------------------------------------
 */

static void outcome(unsigned int i, bool ok)
{
	struct end *e = &w.ends[i];
	struct mv_move_sync sync;

	switch (e->m.state) {
	case MV_MOVE_PREPARING:
		if (!ok && e->next)
			e->next->alive = false;
		/* It may have begun on a suspicion, and be certain by now. */
		mv_move_prepared(&e->m, ok ? e->next ? &e->next->self : &e->ahead->self : NULL, 7, 4096, false, w.now);
		if (!ok)
			e->next = NULL;
		break;
	case MV_MOVE_CONNECTING:
		(e->next ? e->next : e->ahead)->connected = true;
		mv_move_connected(&e->m, true, w.now);
		break;
	case MV_MOVE_FENCING:
		e->work->err = true;
		sync.next_psn = mv_psn_add(e->work->peer_psn, e->work->executed);
		sync.n_received = e->work->executed;
		mv_move_fenced(&e->m, ok ? &sync : NULL, w.now);
		break;
	default:
		CHECK(false);
	}
}

static void die(unsigned int i)
{
	struct end *e = &w.ends[i];

	TRACE("%u dies\n", i);
	e->dead = true;
	for (size_t q = 0; q < e->n_qps; q++)
		e->qps[q].alive = false;
	e->work = e->next = e->ahead = NULL;
}

static void message(unsigned int i, struct mv_ctl_msg msg)
{
	struct end *e = &w.ends[i];
	int err = mv_proof_open(&msg, NULL, e->m.sq_psn, e->m.rq_psn);

	if (!err)
		mv_move_message(&e->m, &msg, w.now);
	else if (err == -ENOKEY)
		mv_move_unopened(&e->m, &msg, w.now);
}

static void happen(const struct event *event)
{
	unsigned int i = event->end;
	struct end *e = &w.ends[i];
	struct mv_ctl_msg bye;

	if (e->dead)
		return;
	switch (event->type) {
	case EV_MESSAGE:
		TRACE("%u hears %s %u\n", i, mv_ctl_type_name(event->msg.type),
		      event->msg.request_id);
		message(i, event->msg);
		break;
	case EV_OUTCOME:
		outcome(i, event->ok);
		break;
	case EV_BAD:
		if (!e->work)
			break;
		/* A drained one is up. One is always left. */
		if (e->work->path != N_PATHS - 1 && chance(70))
			w.up[e->work->path] = false;
		start(i);
		break;
	case EV_SUSPECT:
		if (e->work && e->work->path != N_PATHS - 1 && chance(60))
			w.up[e->work->path] = false;
		if (e->work)
			expect(i);
		break;
	case EV_SURE:
		sure(i);
		break;
	case EV_RETRY:
		if (e->wants_off && e->work && !e->m.live && !e->failed)
			start(i);
		break;
	case EV_HEAL:
		TRACE("%u: healed\n", i);
		e->wants_off = false;
		for (unsigned int p = 0; p < N_PATHS; p++)
			w.up[p] = true;
		mv_move_cancel(&e->m, w.now);
		break;
	case EV_DIE:
		die(i);
		return;
	case EV_BYE:
		if (mv_move_bye(&e->m, &bye))
			network_send(i, &bye);
		die(i);
		return;
	case EV_AHEAD:
		do_ahead(i);
		break;
	case EV_ABORT:
		TRACE("%u: abort\n", i);
		mv_move_abort(&e->m, w.now);
		e->wants_off = false;
		break;
	}
	drain(i, event->type == EV_MESSAGE);
}

static uint64_t deadline_of(const struct end *e)
{
	return e->dead ? UINT64_MAX : mv_move_deadline(&e->m);
}

static bool step(void)
{
	uint64_t timers[2] = {deadline_of(&w.ends[0]), deadline_of(&w.ends[1])}, at = UINT64_MAX;
	unsigned int sooner = timers[1] < timers[0];
	struct event event;
	size_t index = 0;

	for (size_t i = 0; i < w.n_events; i++)
		if (w.events[i].at < at) {
			at = w.events[i].at;
			index = i;
		}
	if (at == UINT64_MAX && timers[sooner] == UINT64_MAX)
		return false;
	traffic();
	if (timers[sooner] < at) {
		w.now = timers[sooner] > w.now ? timers[sooner] : w.now;
		mv_move_tick(&w.ends[sooner].m, w.now);
		drain(sooner, false);
		CHECK(deadline_of(&w.ends[sooner]) > w.now);
	} else {
		event = w.events[index];
		w.events[index] = w.events[--w.n_events];
		w.now = event.at;
		happen(&event);
	}
	traffic();
	return true;
}

/* ---- a run -------------------------------------------------------------------------------------
 */

static void make_end(unsigned int i, bool first)
{
	struct end *e = &w.ends[i];
	uint8_t host = (uint8_t)(1 + (first ? i : !i));

	*e = (struct end){.host = host,
			  .attempt = chance(10) ? 0xfffffffe : rnd(1000) + 1,
			  .nonce = a_nonce(),
			  .psn = chance(50) ? rnd(0x1000000) : 0xffffff - rnd(20)};
	e->name.gid = path_gid(0, host);
	e->name.qpn = 1000 + i;
	e->stops_at_prepare = !w.calm && chance(5);
}

static void begin(unsigned int i)
{
	struct end *e = &w.ends[i], *o = &w.ends[!i];
	struct mv_path paths[N_PATHS];
	struct mv_move_begin begin = {.local = e->name,
				      .peer = o->name,
				      .local_type = MV_GID_TYPE_ROCE_V2,
				      .verdict = MV_PATH_APART,
				      .paths = paths,
				      .rq_psn = o->psn,
				      .attempt = e->attempt,
				      .nonce = e->nonce};

	begin.n_paths = make_paths(e, paths);
	if (w.held) {
		mv_move_begin(&e->m, &begin, &mv_move_default_times, w.now);
		mv_move_rts(&e->m, e->psn, w.now);
	} else {
		mv_move_adopt(&e->m, &begin, e->psn, &mv_move_default_times, w.now);
		do_native(i);
	}
	drain(i, false);
}

static void make_world(uint64_t seed)
{
	bool first = seed & 1;

	memset(&w, 0, offsetof(struct world, events));
	w.n_events = 0;
	w.next_qpn = 0;
	w.n_messages = 0;
	w.seed = seed;
	rng = seed * 0x9e3779b97f4a7c15ull + 1;
	rnd(2);
	w.now = START;
	w.calm = chance(50);
	w.held = chance(30);
	w.echoes = false;
	w.loss = chance(40) ? 0 : rnd(60);
	w.repeat = chance(50) ? 0 : rnd(50);
	w.delay_max_ms = chance(60) ? 1 : rnd(w.calm ? 20 : 100);
	w.cut_from = w.cut_to = 0;
	for (unsigned int p = 0; p < N_PATHS; p++) {
		w.up[p] = true;
		w.makeable[0][p] = chance(80);
		w.makeable[1][p] = chance(80);
	}
	/* One is left that can be made, so there is always a way. */
	w.makeable[0][4] = w.makeable[1][4] = true;
	make_end(0, first);
	make_end(1, first);
}

static void disturb(void)
{
	unsigned int end = rnd(2);
	uint64_t when = rnd(3000) * MS;

	if (w.calm)
		return;
	if (chance(30)) {
		w.cut_from = w.now + rnd(2000) * MS;
		w.cut_to = w.cut_from + rnd(6000) * MS;
	}
	if (chance(25))
		schedule(chance(50) ? rnd(40) * MS : when, EV_DIE, end);
	else if (chance(15))
		schedule(chance(50) ? rnd(40) * MS : when, EV_BYE, end);
	else if (chance(15))
		schedule(chance(50) ? rnd(40) * MS : when, EV_ABORT, end);
}

/* Both notice, or one of them, at some distance; it may heal before anything has happened, and
 * others may die, too. */
static void break_paths(void)
{
	unsigned int n = 1 + rnd(4);
	uint64_t at = chance(50) ? 0 : 100 * MS;

	for (unsigned int i = 0; i < n; i++) {
		unsigned int who = rnd(3);
		uint64_t apart = chance(50) ? rnd(4) * MS : rnd(40) * MS;

		if (chance(40)) {
			schedule(at, EV_SUSPECT, 0);
			schedule(at + rnd(4) * MS, EV_SUSPECT, 1);
			at += rnd(40) * MS;
			if (chance(50))
				continue;
		}
		if (who != 1)
			schedule(at, EV_BAD, 0);
		if (who != 0)
			schedule(at + apart, EV_BAD, 1);
		if (chance(25)) {
			schedule(at + rnd(12) * MS, EV_HEAL, 0);
			schedule(at + rnd(12) * MS, EV_HEAL, 1);
		}
		at += chance(50) ? rnd(30) * MS : rnd(2000) * MS;
	}
}

/* While nothing moves, and in the middle of it. */
static void make_ahead(void)
{
	if (chance(30))
		return;
	for (unsigned int n = 0; n < 6; n++)
		schedule(chance(50) ? rnd(10) * MS : rnd(2500) * MS, EV_AHEAD, n & 1);
}

/*
 * The programs used the same QPs with the same PSNs for their last connection, and what was said in
 * that life, to nobody's attempt, comes in this one.
 */
static void echo_last_life(void)
{
	enum mv_ctl_type type = chance(50) ? MV_CTL_AHEAD : MV_CTL_HELLO;
	uint32_t attempts[2];

	if (w.held || chance(70))
		return;
	w.echoes = true;
	for (unsigned int i = 0; i < 2; i++)
		attempts[i] = w.ends[i].attempt - 1 - rnd(3);
	for (unsigned int n = 0; n < 4; n++) {
		const struct end *from = &w.ends[n & 1];
		struct mv_ctl_msg *msg;

		if (!attempts[n & 1] || chance(30))
			continue;
		msg = &schedule(n < 2 ? 0 : rnd(1000) * MS, EV_MESSAGE, !(n & 1))->msg;
		mv_move_header(&from->m, type, msg);
		msg->flags = MV_CTL_MOVE;
		msg->attempt = attempts[n & 1];
		msg->nonce = a_nonce();
		msg->to_attempt = 0;
		msg->to_nonce = 0;
		if (type == MV_CTL_HELLO)
			continue;
		msg->request_id = 1;
		msg->mtu_bytes = 4096;
		msg->path_lid = 7;
		msg->path = (struct mv_ctl_end){.gid = path_gid(N_PATHS - 1, from->host), .qpn = 1};
		msg->path_peer_gid = path_gid(N_PATHS - 1, (uint8_t)(3 - from->host));
	}
}

static bool is_done(const struct end *e)
{
	return e->dead || e->failed || e->m.state == MV_MOVE_FAILED ||
	       e->m.state == MV_MOVE_ACTIVE || e->m.state == MV_MOVE_NATIVE;
}

static void check_outcome(void)
{
	struct end *a = &w.ends[0], *b = &w.ends[1];

	CHECK(is_done(a) && is_done(b));
	CHECK(!w.calm || (a->work && b->work));
	if (!a->work || !b->work)
		return;
	/* An end that is at work where the other is not would never know. */
	CHECK(same(&a->work->peer, &b->work->self) && same(&b->work->peer, &a->work->self));
	if (a->m.state == MV_MOVE_FAILED || b->m.state == MV_MOVE_FAILED)
		return; /* aborted */
	for (int i = 0; i < 400; i++)
		traffic();
	if (!w.up[a->work->path])
		return;
	CHECK(a->executed >= 20 && b->executed >= 20);
}

static void run(uint64_t seed)
{
	make_world(seed);
	begin(0);
	begin(1);
	while (w.held && !(w.ends[0].work && w.ends[1].work) && w.now < LIMIT && step())
		;
	CHECK(w.ends[0].work && w.ends[1].work);
	make_ahead();
	echo_last_life();
	break_paths();
	disturb();
	while (w.now < LIMIT && step())
		;
	check_outcome();
	/* At most 12 messages until the step is at its largest, then 2 a second, for each move at
	 * each end. */
	CHECK(w.n_messages < 3000);
}

static void test_runs(void **state)
{
	const char *seed = getenv("TEST_SEED");
	unsigned int moved = 0, stayed = 0, failed = 0, both_failed = 0, several = 0;
	unsigned int echoes = 0, moved_on = 0;

	(void)state;
	if (seed) {
		trace = true;
		run(strtoull(seed, NULL, 0));
		return;
	}
	for (uint64_t i = 1; i <= RUNS; i++) {
		const struct end *a = &w.ends[0], *b = &w.ends[1];

		run(i);
		moved += a->n_moves && b->n_moves;
		echoes += w.echoes;
		moved_on += w.echoes && a->n_moves && b->n_moves;
		several += a->n_moves > 1 && b->n_moves > 1;
		stayed += a->n_stays || b->n_stays;
		failed += a->failed != b->failed;
		both_failed += a->failed && b->failed;
	}
	print_message("%u runs: %u moved, %u of them again, %u called off, %u failed at one end, "
		      "%u at both; %u of %u times connected ahead; %u of %u moved that heard of the last life; %u suspicions, %u ends on what was agreed upon by them\n",
		      RUNS, moved, several, stayed, failed, both_failed, n_standbys, n_connects, moved_on, echoes, n_expected, n_early);
	/* The runs are worth something only if they end in all ways. */
	assert_true(moved > RUNS / 2 && several > RUNS / 10 && stayed > RUNS / 10 &&
		    failed > RUNS / 200 && both_failed > RUNS / 200 && n_standbys > n_connects / 20);
	assert_true(echoes > RUNS / 10 && moved_on > echoes / 2);
	assert_true(n_expected > RUNS / 10 && n_early > n_expected / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
