/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Two agents that probe the same paths, each from its end, with a clock of their own: the probes of one do for both, and what dies is
 * found out at both ends, about as soon as by probes of their own.
 */
#include "unit.h"

#include <string.h>

#include "probes.h"
#include "random.h"

#define N_RAILS  2
#define N_FLYING 256
#define INTERVAL (10 * MD_MS)
#define PART     (INTERVAL / MD_PROBE_PARTS)

enum { A, B, N_ENDS };

/* A datagram; its rail is the path. */
struct flying {
	uint64_t at_ns;
	bool echo;
	unsigned int to, rail;
	struct md_probe_wire wire;
};

static struct end {
	struct md_probes probes;
	struct md_probe_watch_list watches;
	struct md_probe_key keys[N_RAILS];
	bool stopped; /* has no processor */
	bool is_old; /* says nothing of answers */
	bool cannot_tell;
	unsigned int n_told;
	uint64_t n_sent[N_RAILS], n_ticks;
	unsigned int n_warned;
} ends[N_ENDS];

static bool lost[N_ENDS][N_RAILS]; /* what goes to that end */
static struct flying flying[N_FLYING];
static size_t n_flying;
static uint64_t now_ns, delay_ns, jitter_ns;
static uint64_t apart_ns = 3700000; /* when they began */
static unsigned int loss_ppm, n_standing;

static unsigned int rail_of(const struct end *end, const struct md_probe_key *key)
{
	for (unsigned int rail = 0; rail < N_RAILS; rail++)
		if (!memcmp(&end->keys[rail], key, sizeof(*key)))
			return rail;
	fail();
	return 0;
}

static void fly(unsigned int to, unsigned int rail, bool echo, const struct md_probe_wire *wire)
{
	if (lost[to][rail] || (loss_ppm && rnd(1000000) < loss_ppm))
		return;
	assert_true(n_flying < N_FLYING);
	flying[n_flying++] =
		(struct flying){.at_ns = now_ns + delay_ns + (jitter_ns ? rnd(jitter_ns) : 0), .echo = echo, .to = to, .rail = rail, .wire = *wire};
}

static int on_send(void *arg, const struct md_probe_key *key, const struct md_probe_wire *wire)
{
	struct end *end = arg;
	struct md_probe_wire sent = *wire;
	unsigned int rail = rail_of(end, key);

	if (end->is_old)
		sent.behind = 0;
	end->n_sent[rail]++;
	fly(end == &ends[A] ? B : A, rail, false, &sent);
	return 0;
}

static unsigned int on_waiting(void *arg, const struct md_probe_key *key)
{
	(void)arg;
	(void)key;
	return 0;
}

static struct mv_host_id host_of(unsigned int end)
{
	return (struct mv_host_id){{(uint8_t)(1 + end)}};
}

static bool on_host(void *arg, const struct md_probe_key *key, struct mv_host_id *ret)
{
	(void)key;
	*ret = host_of(arg == &ends[A] ? B : A);
	return true;
}

static bool on_tell(void *arg, uint64_t client, const struct md_probe_key *key, enum mv_probed state)
{
	struct end *end = arg;

	(void)client;
	(void)key;
	(void)state;
	end->n_told += !end->cannot_tell;
	return !end->cannot_tell;
}

static bool on_warn(void *arg, uint64_t client, const struct md_probe_key *key)
{
	struct end *end = arg;

	(void)client;
	(void)key;
	end->n_warned++;
	return true;
}

static const struct md_probe_ops ops = {on_send, on_waiting, on_host, on_tell, on_warn};

static struct md_probe *probe(unsigned int end, unsigned int rail)
{
	struct md_probe *p = md_probes_find(&ends[end].probes, &ends[end].keys[rail]);

	assert_non_null(p);
	return p;
}

static void watch(unsigned int end, unsigned int rail, uint8_t mask)
{
	assert_int_equal(md_probes_watch(&ends[end].probes, &ends[end].keys[rail], mask, 1, 0, &ends[end].watches, now_ns), 0);
}

static void arrive(const struct flying *datagram)
{
	struct end *end = &ends[datagram->to];
	unsigned int other = datagram->to == A ? B : A;
	const struct md_probe_key *key = &end->keys[datagram->rail];
	const struct mv_host_id sender = host_of(other);
	struct md_probe_wire echo = datagram->wire;

	if (datagram->echo) {
		md_probes_echo(&end->probes, key, &datagram->wire, &sender, now_ns);
		return;
	}
	echo.dropped = 0;
	fly(other, datagram->rail, true, &echo);
	md_probes_heard(&end->probes, key, &datagram->wire, &sender, now_ns);
}

/* Of an end that runs; in the order of the calls, which is that of times. -1: none. */
static ssize_t arrived(void)
{
	for (size_t i = 0; i < n_flying; i++)
		if (flying[i].at_ns <= now_ns && !ends[flying[i].to].stopped)
			return (ssize_t)i;
	return -1;
}

static uint64_t next_event(uint64_t until_ns)
{
	for (size_t i = 0; i < n_flying; i++)
		if (!ends[flying[i].to].stopped && flying[i].at_ns < until_ns)
			until_ns = flying[i].at_ns;
	for (struct end *end = ends; end < ends + N_ENDS; end++)
		if (!end->stopped && end->probes.next_ns < until_ns)
			until_ns = end->probes.next_ns;
	return until_ns > now_ns ? until_ns : now_ns;
}

static void step(uint64_t until_ns)
{
	uint64_t before_ns = now_ns;
	ssize_t i;

	now_ns = next_event(until_ns);
	/* A tick that is due and changes nothing would be due for ever. */
	n_standing = now_ns > before_ns ? 0 : n_standing + 1;
	assert_true(n_standing < 1000);
	while ((i = arrived()) >= 0) {
		struct flying datagram = flying[i];

		memmove(&flying[i], &flying[i + 1], (--n_flying - (size_t)i) * sizeof(*flying));
		arrive(&datagram);
	}
	for (struct end *end = ends; end < ends + N_ENDS; end++) {
		if (end->stopped || end->probes.next_ns > now_ns)
			continue;
		md_probes_tick(&end->probes, true, 0, now_ns);
		end->n_ticks++;
	}
}

static void run(uint64_t for_ns)
{
	for (uint64_t until_ns = now_ns + for_ns; now_ns < until_ns;)
		step(until_ns);
}

/* How long it took; the test fails if it takes longer than @limit_ns. */
static uint64_t until_both_down(uint64_t limit_ns)
{
	uint64_t begun_ns = now_ns;

	while (probe(A, 0)->state != MV_PROBED_DOWN || probe(B, 0)->state != MV_PROBED_DOWN) {
		assert_true(now_ns < begun_ns + limit_ns);
		step(begun_ns + limit_ns);
	}
	return now_ns - begun_ns;
}

static void count_anew(void)
{
	for (struct end *end = ends; end < ends + N_ENDS; end++) {
		memset(end->n_sent, 0, sizeof(end->n_sent));
		end->n_ticks = 0;
	}
}

/* Both rails work, and both ends have one that they work on. */
static int setup(void **state)
{
	static const char *const gids[N_ENDS][N_RAILS] = {{"10.1.0.1", "10.2.0.1"}, {"10.1.0.2", "10.2.0.2"}};

	(void)state;
	if (!rng)
		rng = 1;
	memset(ends, 0, sizeof(ends));
	memset(lost, 0, sizeof(lost));
	n_flying = 0;
	loss_ppm = 0;
	jitter_ns = 0;
	delay_ns = 20000;
	now_ns = 100 * MD_S;
	for (unsigned int i = 0; i < N_ENDS; i++) {
		for (unsigned int rail = 0; rail < N_RAILS; rail++)
			ends[i].keys[rail] = (struct md_probe_key){.local = unit_gid(gids[i][rail]),
								   .remote = unit_gid(gids[i == A ? B : A][rail])};
		md_probes_init(&ends[i].probes, &ops, &ends[i], INTERVAL, 3, 77 + i);
		watch(i, 0, MV_WATCH_WORK);
		watch(i, 1, MV_WATCH_ALTERNATE);
		run(apart_ns);
	}
	run(MD_S / 2);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (struct end *end = ends; end < ends + N_ENDS; end++) {
		md_probes_drop(&end->probes, &end->watches);
		assert_int_equal(end->probes.n, 0);
		assert_int_equal(end->probes.n_awaited, 0);
		md_probes_fini(&end->probes);
	}
	return 0;
}

static void put_back(void)
{
	assert_int_equal(teardown(NULL), 0);
	assert_int_equal(setup(NULL), 0);
}

/* ---- as long as all is well ------------------------------------------------------------------ */

static void expect_one_to_probe(void)
{
	count_anew();
	run(10 * MD_S);
	/* Which of them it is, nobody cares. */
	const unsigned int does = ends[A].n_sent[0] > ends[B].n_sent[0] ? A : B, rests = does == A ? B : A;

	assert_in_range(ends[does].n_sent[0], 985, 1001);
	assert_in_range(ends[rests].n_sent[0], 9, 12);
	assert_true(ends[rests].n_ticks < 40);
	assert_true(ends[rests].probes.count.spared > 900);
	for (unsigned int i = 0; i < N_ENDS; i++) {
		assert_int_equal(probe(i, 0)->state, MV_PROBED_UP);
		assert_int_equal(ends[i].probes.count.rounds + ends[i].probes.count.void_rounds, 0);
		assert_true(now_ns - probe(i, 0)->answered_ns < 3 * INTERVAL);
	}
}

static void test_one_probes_for_both(void **state)
{
	(void)state;
	expect_one_to_probe();
	jitter_ns = MD_MS;
	expect_one_to_probe();
}

/* Their probes cross: somebody has to be who rests. */
static void test_in_step(void **state)
{
	(void)state;
	apart_ns = 0;
	put_back();
	apart_ns = 3700000;
	assert_int_equal(probe(A, 0)->begun_ns, probe(B, 0)->begun_ns);
	expect_one_to_probe();
}

static void test_both_probe_where_one_is_old(void **state)
{
	(void)state;
	for (unsigned int old = A; old < N_ENDS; old++) {
		ends[old].is_old = true;
		run(MD_S);
		count_anew();
		run(10 * MD_S);
		/* An old one does not rely on anybody, either. */
		assert_in_range(ends[old == A ? B : A].n_sent[0], 985, 1001);
		put_back();
	}
}

/* Who has no work there says nothing of his own. */
static void test_alone(void **state)
{
	(void)state;
	watch(B, 0, MV_WATCH_ALTERNATE);
	run(MD_S / 2);
	count_anew();
	run(10 * MD_S);
	assert_in_range(ends[A].n_sent[0], 985, 1001);
	assert_int_equal(ends[B].n_sent[0], 0);
	watch(B, 0, 0);
	run(MD_S);
	assert_int_equal(probe(A, 0)->state, MV_PROBED_UP);
}

/* With so many that nobody looks which is due next, ticks come in vain, and probes go as before. */
static void test_many_paths(void **state)
{
	static struct md_probe_key others[100];

	(void)state;
	for (unsigned int i = 0; i < 100; i++) {
		for (unsigned int end = 0; end < N_ENDS; end++) {
			others[i] = ends[end].keys[1];
			others[i].remote.raw[14] = (uint8_t)(100 + i);
			assert_int_equal(md_probes_watch(&ends[end].probes, &others[i], MV_WATCH_ALTERNATE, 1, 0,
							 &ends[end].watches, now_ns),
					 0);
		}
	}
	run(MD_S);
	count_anew();
	run(10 * MD_S);
	assert_in_range(ends[A].n_sent[0] + ends[B].n_sent[0], 985, 1015);
}

/* ---- what dies ------------------------------------------------------------------------------- */

/* From when it happens until both ends know, at any moment of an interval. */
static void dies(bool to_a, bool to_b)
{
	uint64_t longest_ns = 0;

	for (unsigned int i = 0; i < 60; i++) {
		uint64_t took_ns;

		run(MD_S / 10 + rnd(INTERVAL));
		lost[A][0] = to_a;
		lost[B][0] = to_b;
		took_ns = until_both_down(MD_S);
		longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
		assert_true(ends[A].n_warned && ends[B].n_warned);
		put_back();
	}
	/*
	 * Of an end that probes itself: an interval until its next probe, a part of one for the answer, eight rounds. The other end misses that
	 * probe half a part later; and each may be a part late, by the grid.
	 */
	assert_true(longest_ns <= INTERVAL + PART / 2 + PART + 8 * PART + PART);
}

static void test_both_ways(void **state)
{
	(void)state;
	dies(true, true);
}

static void test_one_way(void **state)
{
	(void)state;
	dies(true, false);
	dies(false, true);
}

/* Echoes were slow for a time: an end that rests has forgotten it a second later, too. */
static void test_slow_echoes(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 20; i++) {
		jitter_ns = 4 * MD_MS;
		run(2 * MD_S);
		jitter_ns = 0;
		run(MD_S + MD_S / 5 + rnd(INTERVAL));
		lost[A][0] = lost[B][0] = true;
		assert_true(until_both_down(MD_S) <= INTERVAL + PART / 2 + PART + 8 * PART + PART);
		put_back();
	}
}

/* Who rests hears nothing more of an agent that is stopped, asks itself, and finds nothing dead. */
static void test_the_other_stops(void **state)
{
	unsigned int does;

	(void)state;
	count_anew();
	run(MD_S / 2);
	does = ends[A].n_sent[0] > ends[B].n_sent[0] ? A : B;
	ends[does].stopped = true;
	count_anew();
	run(MD_S / 4);
	assert_true(ends[does == A ? B : A].n_sent[0] > 20);
	ends[does].stopped = false;
	run(MD_S);
	assert_int_equal(ends[A].probes.count.down + ends[B].probes.count.down, 0);
	assert_int_equal(probe(A, 0)->state, MV_PROBED_UP);
	assert_int_equal(probe(B, 0)->state, MV_PROBED_UP);
}

static void test_loss_is_no_death(void **state)
{
	(void)state;
	loss_ppm = 100000;
	run(20 * MD_S);
	assert_int_equal(ends[A].probes.count.down + ends[B].probes.count.down, 0);
	loss_ppm = 0;
	count_anew();
	run(MD_S);
	assert_in_range(ends[A].n_sent[0] + ends[B].n_sent[0], 97, 106);
}

/* ---- what tells nothing ---------------------------------------------------------------------- */

/* What the end that rests makes of a probe that it hears now. Return: by how much its own next one is later. */
static int64_t put_off_by(unsigned int end, const struct md_probe_wire *wire, struct mv_host_id sender)
{
	uint64_t before_ns = probe(end, 0)->next_ns;

	md_probes_heard(&ends[end].probes, &ends[end].keys[0], wire, &sender, now_ns);
	return (int64_t)(probe(end, 0)->next_ns - before_ns);
}

static void test_no_evidence(void **state)
{
	const struct mv_host_id peer = host_of(B), stranger = {{99}};
	struct md_probe_wire next = {.nonce = 1, .number = 11, .behind = 1};
	struct md_probe_key unknown;

	(void)state;
	/* B has nothing to say; its words are made up. */
	watch(B, 0, MV_WATCH_ALTERNATE);
	run(MD_S / 2 + 1);
	ends[B].stopped = true;
	n_flying = 0;
	for (uint64_t i = 0; i < 4; i++) {
		put_off_by(A, &(struct md_probe_wire){.nonce = 1, .number = 10, .behind = 1}, peer);
		next.nonce = i == 0 ? 2 : 1; /* of another life */
		next.behind = i == 1 ? 0 : i == 2 ? 2 : 1; /* old; an answer before that */
		next.number = i == 3 ? 12 : 11; /* one of its probes was lost */
		assert_true(put_off_by(A, &next, peer) <= 0);
	}
	next = (struct md_probe_wire){.nonce = 1, .number = 11, .behind = 1};
	put_off_by(A, &(struct md_probe_wire){.nonce = 1, .number = 10}, peer);
	assert_int_equal(put_off_by(A, &next, stranger), 0);
	/* Neither is it repeated by repeating it, whoever says so. */
	assert_true(put_off_by(A, &next, peer) > 0);
	assert_int_equal(put_off_by(A, &next, peer), 0);
	next.behind = 0;
	run(INTERVAL / 2);
	assert_int_equal(put_off_by(A, &next, peer), 0);
	unknown = ends[A].keys[0];
	unknown.remote.raw[15]++;
	md_probes_heard(&ends[A].probes, &unknown, &next, &peer, now_ns);
	assert_null(md_probes_find(&ends[A].probes, &unknown));
}

/* Only answers to its own probes make a dead path work again. */
static void test_recovers_by_itself(void **state)
{
	const struct mv_host_id peer = host_of(B);
	struct md_probe_wire wire = {.nonce = 1, .number = 10};
	uint64_t n_before;

	(void)state;
	watch(B, 0, MV_WATCH_ALTERNATE);
	lost[A][0] = true;
	while (probe(A, 0)->state != MV_PROBED_DOWN)
		step(now_ns + MD_S);
	lost[A][0] = false;
	n_before = probe(A, 0)->number;
	while (probe(A, 0)->answered < n_before)
		step(now_ns + MD_S);
	assert_int_equal(probe(A, 0)->state, MV_PROBED_DOWN);
	for (unsigned int i = 0; i < 4; i++, wire.number++, wire.behind = 1) {
		assert_true(put_off_by(A, &wire, peer) <= 0);
		now_ns += 1000;
	}
}

/* What could not be told is told soon, however often a tick is not needed for probes. */
static void test_what_is_untold(void **state)
{
	(void)state;
	/* The same end probes the other rail, in between. */
	while (probe(A, 0)->sent_ns + INTERVAL / 2 > now_ns || probe(A, 0)->sent_ns + INTERVAL < now_ns + PART)
		step(now_ns + PART / 10);
	watch(A, 1, MV_WATCH_WORK);
	run(PART / 2);
	watch(B, 1, MV_WATCH_WORK);
	run(MD_S);
	for (struct end *end = ends; end < ends + N_ENDS; end++) {
		end->cannot_tell = true;
		watch((unsigned int)(end - ends), 0, MV_WATCH_WORK | MV_WATCH_PRIMARY);
		end->n_told = 0;
	}
	run(MD_S / 10);
	for (struct end *end = ends; end < ends + N_ENDS; end++)
		end->cannot_tell = false;
	run(3 * INTERVAL);
	for (struct end *end = ends; end < ends + N_ENDS; end++)
		assert_true(end->n_told);
}

/* An answer that went long ago says nothing of now. */
static void test_stale(void **state)
{
	const struct mv_host_id peer = host_of(B);
	struct md_probe_wire wire = {.nonce = 1, .number = 10};

	(void)state;
	watch(B, 0, MV_WATCH_ALTERNATE);
	run(MD_S / 2 + 1);
	put_off_by(A, &wire, peer);
	run(3 * INTERVAL + 1000000);
	wire = (struct md_probe_wire){.nonce = 1, .number = 11, .behind = 1};
	assert_int_equal(put_off_by(A, &wire, peer), 0);
	run(INTERVAL);
	wire.number++;
	assert_true(put_off_by(A, &wire, peer) > 0);
}

/* @end alone probes, and gets no answer any more. */
static void asks_in_vain(unsigned int end)
{
	const unsigned int other = end == A ? B : A;
	const struct mv_host_id peer = host_of(other);
	struct md_probe_wire wire = {.nonce = 1, .number = 10};

	watch(other, 0, MV_WATCH_ALTERNATE);
	run(MD_S / 2 + 1);
	lost[other][0] = true;
	while (!probe(end, 0)->awaited)
		step(now_ns + MD_S);
	put_off_by(end, &wire, peer);
	wire.number++;
	wire.behind = 1;
	/* It waits for the answer, but of two that ask at the same time one is to rest. */
	assert_int_equal(put_off_by(end, &wire, peer) > 0, end == B);
	while (!probe(end, 0)->suspect)
		step(now_ns + MD_S);
	assert_true(now_ns - probe(end, 0)->sent_ns < PART);
	put_off_by(end, &wire, peer);
	wire.number++;
	assert_int_equal(put_off_by(end, &wire, peer), 0);
}

static void test_own_probe_first(void **state)
{
	(void)state;
	asks_in_vain(A);
	put_back();
	asks_in_vain(B);
}

/* The answer to the last probe did not arrive there: it is time to see for oneself. */
static void test_answer_did_not_arrive(void **state)
{
	const struct mv_host_id peer = host_of(B);
	struct md_probe_wire wire = {.nonce = 1, .number = 10, .behind = 1};

	(void)state;
	watch(B, 0, MV_WATCH_ALTERNATE);
	run(MD_S / 2 + 1);
	while (now_ns - probe(A, 0)->sent_ns >= PART / 2 || probe(A, 0)->answered != probe(A, 0)->number)
		step(now_ns + 50000);
	put_off_by(A, &wire, peer);
	wire.number++;
	assert_true(put_off_by(A, &wire, peer) > 0);
	/* Not before a part of an interval is over. */
	wire = (struct md_probe_wire){.nonce = 1, .number = 12, .behind = 2};
	assert_int_equal(put_off_by(A, &wire, peer), 0);
	run(PART);
	wire = (struct md_probe_wire){.nonce = 1, .number = 13, .behind = 3};
	put_off_by(A, &wire, peer);
	assert_int_equal(probe(A, 0)->next_ns, now_ns);
	assert_true(ends[A].probes.next_ns <= now_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_probes_for_both, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_step, setup, teardown),
		cmocka_unit_test_setup_teardown(test_both_probe_where_one_is_old, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(test_both_ways, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_way, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_echoes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_other_stops, setup, teardown),
		cmocka_unit_test_setup_teardown(test_loss_is_no_death, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_evidence, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recovers_by_itself, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_untold, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_probe_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answer_did_not_arrive, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
