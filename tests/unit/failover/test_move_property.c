/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two machines (move.h) over a simulated network that loses, repeats, delays and reorders messages,
 * with programs that start apart, reset their QPs, or have a passthrough end; seeded, so that a failure
 * can be repeated: TEST_SEED=n test_move_property.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "move.h"
#include "proof.h"
#include "random.h"

#define MS 1000000ull
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RUNS 4000 /* unoptimised and instrumented: a hundred times slower */
#else
#define RUNS 40000
#endif
#define LIMIT (120 * 1000 * MS) /* everything has been decided long before */

/* ---- the world ---------------------------------------------------------------------------------
 */

enum event_type { EV_BEGIN, EV_RTS, EV_WORK, EV_MESSAGE, EV_UNREACHABLE, EV_OUTCOME };

struct event {
	uint64_t at;
	enum event_type type;
	unsigned int end, life; /* an event of an earlier life is void, but for messages */
	bool ok, repeated;
	struct mv_ctl_msg msg;
};

/* A QP on the agreed path. */
struct path_qp {
	bool alive, can_receive;
	struct mv_ctl_end self, peer;
};

struct end {
	struct mv_move m;
	bool held; /* false: passthrough from the start (no machine) */
	bool begun, passthrough_begun, restart_wanted;
	unsigned int life;
	uint32_t attempt, psn;
	uint32_t sq_psn; /* @psn once in RTS */
	uint64_t begun_at;
	uint64_t nonce; /* of @attempt */
	struct mv_ctl_end name;
	uint8_t host, type;
	enum mv_path_verdict verdict;
	struct mv_path paths[4];
	size_t n_paths;
	bool path_fails[4]; /* PREPARE or CONNECT of it, whoever wants it */
	bool fails_by_connect;
	bool will_rts, will_work;
	bool path_is_back; /* the program's own seems to work, but is refused now and then */
	struct path_qp qp;
	unsigned int lost_in_a_row;
	/* what the caller has been told to do */
	bool active, passthrough, doubtful, passthrough_timed_out;
	uint8_t passthrough_type;
	enum mv_ctl_reason passthrough_reason;
};

#define MAX_EVENTS 512

struct world {
	uint64_t now, seed;
	struct end ends[2];
	struct event events[MAX_EVENTS];
	size_t n_events;
	uint32_t next_qpn;
	/* of the network */
	uint32_t loss, repeat, delay_max_ms, unreachable;
	uint64_t cut_from, cut_to;
	bool calm; /* nothing but loss, repetition and short delays: all that can move has to */
	bool restarts;
	bool long_cut; /* longer than anybody waits: the ends may differ */
	unsigned int n_messages;
};

static struct world w; /* large; one at a time */
/* ends that have gone passthrough by themselves, as the program's path works again; of all worlds */
static unsigned int n_tried;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("seed %llu, %llu ms: not true: %s (states %s, %s)",               \
				 (unsigned long long)w.seed, (unsigned long long)(w.now / MS),     \
				 #condition, mv_move_state_name(w.ends[0].m.state),                \
				 mv_move_state_name(w.ends[1].m.state));                           \
	} while (0)

static struct event *schedule(uint64_t in_ns, enum event_type type, unsigned int end)
{
	struct event *event = &w.events[w.n_events];

	CHECK(w.n_events < MAX_EVENTS);
	w.n_events++;
	*event = (struct event){
		.at = w.now + in_ns, .type = type, .end = end, .life = w.ends[end].life};
	return event;
}

/* ---- network -----------------------------------------------------------------------------------
 */

/* Three in a row are lost at most, so "not cut for ever" is certain and not only likely. */
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

static bool trace;

#define TRACE(...)                                                                                 \
	do {                                                                                       \
		if (trace) {                                                                       \
			print_message("%8.3f ms ", (double)w.now / MS - 1000);                     \
			print_message(__VA_ARGS__);                                                \
		}                                                                                  \
	} while (0)

static uint64_t a_nonce(void)
{
	return (uint64_t)rnd(UINT32_MAX) << 32 | rnd(UINT32_MAX);
}

/* What was sealed by somebody who does not know a PSN of the connection, or with none. */
static void seal_wrongly(struct mv_ctl_msg *msg)
{
	if (msg->from_psn != MV_CTL_PSN_NONE)
		msg->from_psn ^= 1 + rnd(0xffffff);
	else
		msg->to_psn ^= 1 + rnd(0xffffff);
	mv_proof_seal(msg, NULL);
	if (chance(10)) {
		msg->proof = 0;
		msg->tag = 0;
	}
}

/*
 * Somebody knows all of a message but the random numbers, or all but the PSNs, and says something in its place: nothing may come of it.
 */
static void forge(unsigned int to, const struct mv_ctl_msg *msg)
{
	static const enum mv_ctl_type types[] = {MV_CTL_OFFER, MV_CTL_ANSWER, MV_CTL_CONFIRM, MV_CTL_REFUSE, MV_CTL_BYE, MV_CTL_SYNC};
	struct event *event = schedule(rnd(50) * MS, EV_MESSAGE, to);

	event->msg = *msg;
	if (chance(50)) {
		if (chance(50))
			event->msg.type = types[rnd(sizeof(types) / sizeof(types[0]))];
		event->msg.to_attempt = w.ends[to].attempt;
		event->msg.to_nonce = w.ends[to].nonce;
		event->msg.attempt += rnd(3);
		seal_wrongly(&event->msg);
		return;
	}
	event->msg.type = types[rnd(sizeof(types) / sizeof(types[0]))];
	event->msg.flags ^= chance(50) ? MV_CTL_READY : 0;
	event->msg.to_attempt = w.ends[to].attempt;
	event->msg.to_nonce = a_nonce();
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
	TRACE("%u says %s flags %u attempt %u to %u, offer %u\n", from, mv_ctl_type_name(msg->type),
	      msg->flags, msg->attempt, msg->to_attempt, msg->request_id);
	CHECK(!mv_ctl_decode(buf, mv_ctl_encode(&sealed, buf), &copy));
	if (chance(10))
		forge(!from, msg);
	if (chance(w.unreachable)) {
		schedule(rnd(20) * MS, EV_UNREACHABLE, from);
		return;
	}
	if (is_lost(&w.ends[from]))
		return;
	for (int i = 0; i < copies; i++) {
		/* Now and then one comes seconds later: of an earlier life, perhaps. */
		uint64_t delay = w.restarts && chance(5) ? rnd(5000) : rnd(w.delay_max_ms + 1);
		struct event *event = schedule(delay * MS + rnd(1000), EV_MESSAGE, !from);

		event->msg = copy;
	}
}

/* ---- what the caller does with actions ---------------------------------------------------------
 */

static bool same(const struct mv_ctl_end *a, const struct mv_ctl_end *b)
{
	return a->qpn == b->qpn && mv_gid_equal(&a->gid, &b->gid);
}

static bool path_works(const struct end *e, const union ibv_gid *local)
{
	return !e->path_fails[local->raw[14] & 3];
}

static void do_prepare(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];

	CHECK(!e->qp.alive);
	CHECK(action->gid_type == MV_GID_TYPE_ROCE_V2);
	CHECK(action->local_gid.raw[15] == e->host); /* one of ours */
	e->qp = (struct path_qp){.self = {.gid = action->local_gid}};
	schedule(rnd(5) * MS, EV_OUTCOME, i)->ok =
		e->fails_by_connect || path_works(e, &action->local_gid);
}

static void do_connect(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i];

	CHECK(e->qp.alive && !e->qp.can_receive);
	CHECK(mv_gid_equal(&action->local_gid, &e->qp.self.gid));
	e->qp.peer = action->peer;
	schedule(rnd(5) * MS, EV_OUTCOME, i)->ok =
		!e->fails_by_connect || path_works(e, &action->local_gid);
}

static void do_activate(unsigned int i, const struct mv_move_action *action)
{
	struct end *e = &w.ends[i], *o = &w.ends[!i];

	CHECK(e->qp.alive && e->qp.can_receive && !e->active && !e->passthrough);
	e->active = true;
	e->doubtful = action->timed_out;
	/* The heart of it; a peer that has been reset since then is another matter. */
	if (action->timed_out || e->m.attempts.peer != o->attempt)
		return;
	CHECK(o->qp.alive && o->qp.can_receive);
	CHECK(same(&e->qp.peer, &o->qp.self) && same(&o->qp.peer, &e->qp.self));
}

static void do_action(unsigned int i, const struct mv_move_action *action)
{
	static const char *const names[] = {"nothing",  "send",   "prepare", "connect",
					    "activate", "native", "release"};
	struct end *e = &w.ends[i];

	if (action->type != MV_DO_SEND)
		TRACE("%u is to %s%s\n", i, names[action->type],
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
	case MV_DO_ACTIVATE:
		do_activate(i, action);
		break;
	case MV_DO_PASSTHROUGH:
		CHECK(!e->active && !e->passthrough && !e->qp.alive);
		e->passthrough = true;
		e->passthrough_type = action->gid_type;
		e->passthrough_timed_out = action->timed_out;
		e->passthrough_reason = action->reason;
		break;
	case MV_DO_RELEASE:
		CHECK(e->qp.alive && !e->active);
		e->qp.alive = false;
		break;
	case MV_DO_QUIESCE:
	case MV_DO_DRAIN: /* of a live QP: test_move_failover_property.c */
	case MV_DO_STAY:
	case MV_DO_FLUSH:
	case MV_DO_WANTED:
	case MV_DO_STANDBY:
	case MV_DO_NOTHING:
		CHECK(false);
	}
}

static void drain(unsigned int i, bool by_message)
{
	struct mv_move_action action;
	unsigned int sends = 0;

	while (mv_move_next(&w.ends[i].m, &action)) {
		sends += action.type == MV_DO_SEND;
		do_action(i, &action);
	}
	/* Or two ends could keep each other busy. */
	CHECK(!by_message || sends <= 1);
}

/* ---- events ------------------------------------------------------------------------------------
 */

/* As the plugin counts them: 0 is none. */
static uint32_t next_attempt(struct end *e)
{
	e->attempt = e->attempt == UINT32_MAX ? 1 : e->attempt + 1;
	e->nonce = a_nonce();
	return e->attempt;
}

static void begin(unsigned int i)
{
	struct end *e = &w.ends[i];
	struct mv_move_begin begin = {.local = e->name,
				      .peer = w.ends[!i].name,
				      .local_type = e->type,
				      .verdict = e->verdict,
				      .paths = e->paths,
				      .n_paths = e->n_paths,
				      .rq_psn = w.ends[!i].psn,
				      .attempt = next_attempt(e),
				      .nonce = e->nonce};

	e->life++;
	e->begun = true;
	e->begun_at = w.now;
	e->sq_psn = MV_CTL_PSN_NONE;
	e->restart_wanted = false;
	e->active = e->passthrough = e->doubtful = false;
	e->qp.alive = false;
	if (e->will_rts)
		schedule(rnd(2) ? 0 : rnd(200) * MS, EV_RTS, i);
	if (!e->held)
		return;
	mv_move_begin(&e->m, &begin, &mv_move_default_times, w.now);
	mv_move_patience(&e->m, UINT64_MAX);
	drain(i, false);
}

/* As the plugin does: one that stays in RTR cannot open all. */
static void passthrough_message(unsigned int i, struct mv_ctl_msg *msg)
{
	struct end *e = &w.ends[i];
	struct mv_ctl_msg answer;
	int err = e->begun ? mv_proof_open(msg, NULL, e->sq_psn, w.ends[!i].psn) : -EBADMSG;

	if (err && (err != -ENOKEY || w.now < e->begun_at + mv_move_default_times.rtr_ns))
		return;
	if (mv_move_answer_passthrough(&e->name, &w.ends[!i].name, e->type, e->sq_psn, w.ends[!i].psn, e->attempt,
				       e->nonce, msg, &answer))
		network_send(i, &answer);
}

static void message(unsigned int i, struct mv_ctl_msg *msg)
{
	struct end *e = &w.ends[i];
	int err = mv_proof_open(msg, NULL, e->m.sq_psn, e->m.rq_psn);

	if (!err)
		mv_move_message(&e->m, msg, w.now);
	else if (err == -ENOKEY)
		mv_move_unopened(&e->m, msg, w.now);
}

static void outcome(unsigned int i, bool ok)
{
	struct end *e = &w.ends[i];

	if (e->m.state == MV_MOVE_CONNECTING) {
		e->qp.can_receive = ok;
		mv_move_connected(&e->m, ok, w.now);
		return;
	}
	CHECK(e->m.state == MV_MOVE_PREPARING);
	e->qp.alive = ok;
	e->qp.self.qpn = ++w.next_qpn;
	mv_move_prepared(&e->m, ok ? &e->qp.self : NULL, 7, 4096, false, w.now);
}

static void happen(struct event event)
{
	static const char *const names[] = {"begin",   "rts",         "work",
					    "message", "unreachable", "outcome"};
	struct end *e = &w.ends[event.end];

	TRACE("%u: %s %s%s\n", event.end, names[event.type],
	      event.type == EV_MESSAGE ? mv_ctl_type_name(event.msg.type) : "",
	      event.type == EV_OUTCOME && !event.ok ? "bad" : "");
	if (event.type == EV_BEGIN) {
		begin(event.end);
		return;
	}
	if (event.type == EV_MESSAGE && !e->held) {
		passthrough_message(event.end, &event.msg);
		return;
	}
	if (event.type == EV_RTS && event.life == e->life)
		e->sq_psn = e->psn;
	if (!e->begun || !e->held || (event.type != EV_MESSAGE && event.life != e->life))
		return;
	if (event.type == EV_MESSAGE)
		message(event.end, &event.msg);
	else if (event.type == EV_UNREACHABLE)
		mv_move_unreachable(&e->m, w.now);
	else if (event.type == EV_RTS)
		mv_move_rts(&e->m, e->psn, w.now);
	else if (event.type == EV_WORK)
		mv_move_work_waits(&e->m, w.now);
	else
		outcome(event.end, event.ok);
	if (event.type == EV_RTS && e->will_work)
		schedule(rnd(3) ? 0 : rnd(1000) * MS, EV_WORK, event.end);
	drain(event.end, event.type == EV_MESSAGE);
}

/*
 * A program whose connection is up, or has failed, while the other one has reset its QP, resets its
 * own: verbs ask for that.
 */
static void follow_restart(unsigned int i)
{
	struct end *e = &w.ends[i], *o = &w.ends[!i];

	if (!e->held || e->restart_wanted || !e->begun || (!e->active && !e->passthrough))
		return;
	if (!e->m.attempts.peer || e->m.attempts.peer == o->attempt || !o->held)
		return;
	e->restart_wanted = true;
	schedule(rnd(300) * MS, EV_BEGIN, i);
}

static uint64_t next_event(size_t *ret_index)
{
	uint64_t at = UINT64_MAX;

	for (size_t i = 0; i < w.n_events; i++)
		if (w.events[i].at < at) {
			at = w.events[i].at;
			*ret_index = i;
		}
	return at;
}

static uint64_t try_at(const struct end *e)
{
	return e->path_is_back ? mv_move_passthrough_at(&e->m) : UINT64_MAX;
}

static uint64_t deadline_of(const struct end *e)
{
	uint64_t at = e->begun && e->held ? mv_move_deadline(&e->m) : UINT64_MAX;

	return e->begun && e->held && try_at(e) < at ? try_at(e) : at;
}

/* The caller connects the program's own QP, or finds that it cannot. */
static void try_passthrough(unsigned int i)
{
	struct end *e = &w.ends[i];
	bool ok = chance(50);

	TRACE("%u tries the path that its program asked for%s\n", i, ok ? "" : ", which is refused");
	CHECK(!e->active && !e->passthrough && !e->qp.alive);
	mv_move_tried(&e->m, ok, w.now);
	e->passthrough = ok;
	n_tried += ok;
}

static bool step(void)
{
	uint64_t timers[2] = {deadline_of(&w.ends[0]), deadline_of(&w.ends[1])};
	unsigned int sooner = timers[1] < timers[0];
	size_t index = 0;
	uint64_t at = next_event(&index);

	if (at == UINT64_MAX && timers[sooner] == UINT64_MAX)
		return false;
	if (timers[sooner] < at) {
		w.now = timers[sooner] > w.now ? timers[sooner] : w.now;
		mv_move_tick(&w.ends[sooner].m, w.now);
		drain(sooner, false);
		if (try_at(&w.ends[sooner]) <= w.now)
			try_passthrough(sooner);
		CHECK(deadline_of(&w.ends[sooner]) > w.now);
	} else {
		struct event event = w.events[index];

		w.events[index] = w.events[--w.n_events];
		w.now = at;
		happen(event);
	}
	follow_restart(0);
	follow_restart(1);
	return true;
}

/* ---- a run -------------------------------------------------------------------------------------
 */

static union ibv_gid path_gid(unsigned int number, uint8_t host)
{
	union ibv_gid gid = unit_gid("10.9.0.0");

	gid.raw[14] = (uint8_t)number;
	gid.raw[15] = host;
	return gid;
}

static void make_end(unsigned int i, bool first)
{
	struct end *e = &w.ends[i];
	uint8_t host = (uint8_t)(1 + (first ? i : !i));

	*e = (struct end){.host = host,
			  .held = chance(85),
			  .type = chance(50) ? MV_GID_TYPE_ROCE_V1 : MV_GID_TYPE_ROCE_V2,
			  .attempt = chance(10) ? 0xfffffffe : rnd(1000) + 1,
			  .psn = rnd(0x1000000),
			  .verdict = MV_PATH_APART,
			  .n_paths = rnd(10) ? 1 + rnd(4) : 0,
			  .fails_by_connect = chance(50),
			  .will_rts = chance(80)};
	e->will_work = e->will_rts && chance(70);
	e->path_is_back = chance(50);
	e->name.gid = unit_gid("10.1.0.0");
	e->name.gid.raw[15] = host;
	e->name.qpn = rnd(100);
	if (e->type == MV_GID_TYPE_ROCE_V1 && chance(70))
		e->verdict = MV_PATH_ASK;
	for (unsigned int p = 0; p < e->n_paths; p++)
		e->paths[p] = (struct mv_path){.local_gid = path_gid(p, host),
					       .remote_gid = path_gid(p, (uint8_t)(3 - host)),
					       .type = MV_GID_TYPE_ROCE_V2};
	/* Its own address as RoCE v2: for an end that only asks. */
	if (e->verdict == MV_PATH_ASK && e->n_paths && chance(50)) {
		e->paths[0].local_gid = e->name.gid;
		e->paths[0].stays = 1;
	}
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
	w.now = 1000 * MS;
	w.calm = chance(40);
	w.loss = chance(30) ? 0 : rnd(70);
	w.repeat = rnd(50);
	w.delay_max_ms = chance(50) ? 1 : rnd(100);
	w.unreachable = 0;
	w.cut_from = w.cut_to = 0;
	w.long_cut = false;
	w.restarts = !w.calm && chance(40);
	make_end(0, first);
	make_end(1, first);
	if (chance(3))
		w.ends[1].name.gid = w.ends[0].name.gid, w.ends[1].name.qpn += 100;
}

static void disturb(void)
{
	if (w.calm)
		return;
	w.unreachable = chance(20) ? rnd(10) : 0;
	w.long_cut = chance(15);
	if (w.long_cut) {
		w.cut_from = w.now + rnd(200) * MS;
		w.cut_to = w.cut_from + rnd(40000) * MS;
	} else if (chance(30)) {
		w.cut_from = w.now + rnd(3000) * MS;
		w.cut_to = w.cut_from + rnd(1500) * MS;
	}
	for (int i = 0; i < 2; i++)
		for (int p = 0; p < 4; p++)
			w.ends[i].path_fails[p] = chance(30);
	for (int i = 0; w.restarts && i < 2; i++)
		if (chance(60))
			schedule(2000 * MS + rnd(4000) * MS, EV_BEGIN, (unsigned int)i);
}

static bool decided(const struct end *e)
{
	return !e->held || e->active || e->passthrough;
}

/* Somebody's QP is in RTS: a PSN is known by both, so work can be proved and could be waiting. */
static bool somebody_in_rts(void)
{
	return w.ends[0].will_rts || w.ends[1].will_rts;
}

static void check_same_outcome(void)
{
	struct end *a = &w.ends[0], *b = &w.ends[1];

	CHECK(decided(a) && decided(b));
	CHECK(a->active == b->active);
	CHECK(!a->active || (same(&a->qp.peer, &b->qp.self) && same(&b->qp.peer, &a->qp.self)));
	CHECK(!a->active || (a->qp.alive && b->qp.alive));
	CHECK(a->active || !a->qp.alive);
	CHECK(b->active || !b->qp.alive);
	CHECK(!a->doubtful && !b->doubtful);
}

static bool has_v2_twin(const struct end *e)
{
	/* Not if its address has been made the other's since. */
	return e->n_paths && e->paths[0].stays && mv_gid_equal(&e->paths[0].local_gid, &e->name.gid);
}

/* It does not ask for long, and a message more has to come through. */
static bool asks_in_rtr(const struct end *e)
{
	return e->verdict == MV_PATH_ASK && !e->will_rts;
}

/* With nothing but a lossy network in between, what can be done is done. */
static void check_best_outcome(void)
{
	struct end *a = &w.ends[0], *b = &w.ends[1];
	struct end *leader = a->held && a->m.leader ? a : b;
	bool both_ask = a->verdict == MV_PATH_ASK && b->verdict == MV_PATH_ASK;

	if (a->held && b->held && !both_ask && leader->n_paths && !(w.loss && (asks_in_rtr(a) || asks_in_rtr(b))))
		CHECK(a->active && b->active);
	/* Who only asks does not wait long: here the answers have to come through. */
	if (w.loss)
		return;
	if (a->held && b->held && both_ask)
		CHECK(!a->active && a->passthrough_reason == MV_CTL_REASON_NONE &&
		      a->passthrough_type == b->passthrough_type);
	for (int i = 0; i < 2; i++) {
		struct end *e = &w.ends[i], *o = &w.ends[!i];

		if (!e->held || o->held)
			continue;
		CHECK(e->passthrough);
		if (e->verdict == MV_PATH_ASK) {
			CHECK(!e->passthrough_timed_out);
			CHECK(e->passthrough_type == (has_v2_twin(e) ? o->type : MV_GID_TYPE_ROCE_V1));
		}
	}
}

/* From either end, in the first seconds and later. */
static void check_no_storm(void)
{
	/* 9 messages until the step is at its largest, then 2 a second, for each wait and each
	 * life. */
	unsigned int lives = w.ends[0].life + w.ends[1].life;
	unsigned int spoken = 0;

	for (int i = 0; i < 2; i++)
		spoken += (unsigned int)((w.now - 1000 * MS) / (500 * MS)) + 60 * lives;
	CHECK(w.n_messages <= 4 * spoken);
}

static void run(uint64_t seed)
{
	uint64_t apart_ms;

	make_world(seed);
	apart_ms = chance(30) ? 0 : w.calm ? rnd(1500) : rnd(9000);
	schedule(0, EV_BEGIN, seed % 3 == 0);
	schedule(apart_ms * MS, EV_BEGIN, seed % 3 != 0);
	disturb();
	while (w.now < LIMIT && step())
		;
	check_no_storm();
	if (!somebody_in_rts())
		return;
	if (!w.long_cut)
		check_same_outcome();
	for (int i = 0; i < 2; i++)
		CHECK(decided(&w.ends[i]) || (w.long_cut && !w.ends[i].will_work));
	if (w.calm)
		check_best_outcome();
}

static void test_runs(void **state)
{
	const char *seed = getenv("TEST_SEED");
	unsigned int active = 0, passthrough = 0, mixed = 0;

	(void)state;
	if (seed) {
		trace = true;
		run(strtoull(seed, NULL, 0));
		return;
	}
	for (uint64_t i = 1; i <= RUNS; i++) {
		run(i);
		active += w.ends[0].active && w.ends[1].active;
		passthrough += w.ends[0].passthrough && w.ends[1].passthrough;
		mixed += w.ends[0].held != w.ends[1].held;
	}
	/* The runs are worth something only if they end in all ways. */
	print_message(
		"%u runs: %u moved, %u passthrough by both, %u with one passthrough end, %u ends on a path that was back\n",
		RUNS, active, passthrough, mixed, n_tried);
	assert_true(active > RUNS / 4 && passthrough > RUNS / 10 && mixed > RUNS / 10 && n_tried > RUNS / 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
