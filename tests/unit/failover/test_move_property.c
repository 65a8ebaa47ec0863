/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two machines (move.h) over a simulated network that loses, repeats, delays and reorders messages,
 * with programs that start apart, reset their QPs, or have a passthrough end; seeded, so that a failure
 * can be repeated: TEST_SEED=n test_move_property.
 */
#include "move_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proof.h"
#include "random.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RUNS 4000 /* unoptimised and instrumented: a hundred times slower */
#else
#define RUNS 40000
#endif
#define LIMIT (120 * 1000 * MS) /* everything has been decided long before */

/* ends that have gone passthrough by themselves, as the program's path works again; of all worlds */
static unsigned int n_tried;

/* ---- events ------------------------------------------------------------------------------------ */

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

/* ---- a run ------------------------------------------------------------------------------------- */

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
	w.net.loss = chance(30) ? 0 : rnd(70);
	w.repeat = rnd(50);
	w.delay_max_ms = chance(50) ? 1 : rnd(100);
	w.unreachable = 0;
	w.net.cut_from = w.net.cut_to = 0;
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
		w.net.cut_from = w.now + rnd(200) * MS;
		w.net.cut_to = w.net.cut_from + rnd(40000) * MS;
	} else if (chance(30)) {
		w.net.cut_from = w.now + rnd(3000) * MS;
		w.net.cut_to = w.net.cut_from + rnd(1500) * MS;
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

	if (a->held && b->held && !both_ask && leader->n_paths && !(w.net.loss && (asks_in_rtr(a) || asks_in_rtr(b))))
		CHECK(a->active && b->active);
	/* Who only asks does not wait long: here the answers have to come through. */
	if (w.net.loss)
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
