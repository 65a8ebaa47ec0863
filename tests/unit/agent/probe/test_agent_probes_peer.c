/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What an agent makes of the probes of its peer: when they do for its own, and when they do not. */
#include "twoends.h"


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
		cmocka_unit_test_setup_teardown(test_no_evidence, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_recovers_by_itself, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_untold, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_stale, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_own_probe_first, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_answer_did_not_arrive, two_setup, two_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
