/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two ends of a connection with work under way move (move.h) again and again. The control network loses, repeats, delays and
 * reorders messages. Paths die at one end or at both, also in the middle of a move, and heal; processes die. A work request that
 * is lost, repeated or out of order is found at once (failover_world.h). Seeded: TEST_SEED=n
 * test_move_failover_property.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "failover_plugin.h"
#include "failover_world.h"
#include "proof.h"
#include "psn.h"
#include "random.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RUNS 2500
#else
#define RUNS 12000
#endif
#define LIMIT (START + 60 * 1000 * MS)

static void outcome(unsigned int i, bool ok)
{
	struct end *e = &w.ends[i];
	struct mv_move_sync sync;

	switch (e->m.state) {
	case MV_MOVE_PREPARING:
		if (!ok && e->next)
			e->next->alive = false;
		/* It may have begun on a suspicion, and be certain by now. */
		mv_move_prepared(&e->m, ok ? e->next ? &e->next->self : &e->standby->self : NULL, 7, 4096, false,
				 w.now);
		if (!ok)
			e->next = NULL;
		break;
	case MV_MOVE_CONNECTING:
		(e->next ? e->next : e->standby)->connected = true;
		mv_move_connected(&e->m, true, w.now);
		break;
	case MV_MOVE_DRAINING:
		e->work->err = true;
		sync.next_psn = mv_psn_add(e->work->peer_psn, e->work->executed);
		sync.n_received = e->work->executed;
		mv_move_drained(&e->m, ok ? &sync : NULL, w.now);
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
	e->work = e->next = e->standby = NULL;
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
		if (e->wants_off && e->work && !e->m.failover && !e->failed)
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
	case EV_ARM:
		do_arm(i);
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
		do_passthrough(i);
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
	w.net.loss = chance(40) ? 0 : rnd(60);
	w.repeat = chance(50) ? 0 : rnd(50);
	w.delay_max_ms = chance(60) ? 1 : rnd(w.calm ? 20 : 100);
	w.net.cut_from = w.net.cut_to = 0;
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
		w.net.cut_from = w.now + rnd(2000) * MS;
		w.net.cut_to = w.net.cut_from + rnd(6000) * MS;
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
static void arm_ends(void)
{
	if (chance(30))
		return;
	for (unsigned int n = 0; n < 6; n++)
		schedule(chance(50) ? rnd(10) * MS : rnd(2500) * MS, EV_ARM, n & 1);
}

/*
 * The programs used the same QPs with the same PSNs for their last connection, and what was said in
 * that life, to nobody's attempt, comes in this one.
 */
static void echo_last_life(void)
{
	enum mv_ctl_type type = chance(50) ? MV_CTL_STANDBY : MV_CTL_HELLO;
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
	return e->dead || e->failed || e->m.state == MV_MOVE_FAILED || e->m.state == MV_MOVE_ACTIVE ||
	       e->m.state == MV_MOVE_PASSTHROUGH;
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
	arm_ends();
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
	print_message(
		"%u runs: %u moved, %u of them again, %u called off, %u failed at one end, "
		"%u at both; %u of %u times connected in advance; %u of %u moved that heard of the last life; %u suspicions, %u ends on what was agreed upon by them\n",
		RUNS, moved, several, stayed, failed, both_failed, n_standbys, n_connects, moved_on, echoes, n_expected,
		n_early);
	/* The runs are worth something only if they end in all ways. */
	assert_true(moved > RUNS / 2 && several > RUNS / 10 && stayed > RUNS / 10 &&
		    failed > RUNS / 200 && both_failed > RUNS / 200 && n_standbys > n_connects / 20);
	assert_true(echoes > RUNS / 10 && moved_on > echoes / 2);
	assert_true(n_expected > RUNS / 10 && n_early > n_expected / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
