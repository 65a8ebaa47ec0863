/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When an address is asked, how often, and whose answer counts. The clock is ours. */
#include "hosts_fixture.h"

#include <string.h>

#include "secure.h"

static void test_target_of_process(void **state)
{
	union ibv_gid gid = unit_gid("10.9.0.1");
	struct mv_host_id id = peers_id(1);
	struct md_target *target;
	uint64_t t = 100 * MD_S;

	(void)state;
	target = md_targets_use(&targets, &gid, 0, t + MD_MS);
	tick(t);
	assert_int_equal(targets.n, 1);
	md_targets_fini(&targets);
	n_asked = 0;
	target = md_targets_use(&targets, &gid, 0, t);
	assert_false(md_target_expects(target, t));
	assert_true(tick(t) == t + MD_QUERY_RETRY_NS);
	assert_int_equal(n_asked, 1);
	assert_true(md_target_expects(target, t + MD_S));
	/* In vain. */
	assert_false(md_target_silent(target, t + 999 * MD_MS));
	assert_true(md_target_silent(target, t + MD_S));
	assert_false(md_target_silent(target, t + MD_SILENT_NS));
	/* Answered at last. */
	md_targets_ask_now(&targets, target, 0, t + MD_S, ask, NULL);
	md_target_answered(target, &id, t + MD_S);
	assert_false(md_target_silent(target, t + 2 * MD_S));
	/* Nobody needs it any more. */
	for (uint64_t s = 1; s < 599; s += 5)
		tick(t + s * MD_S);
	assert_int_equal(targets.n, 1);
	tick(t + 600 * MD_S);
	assert_int_equal(targets.n, 0);
}

/* A program waits for a host that was never heard of: a lost query is repeated at once, twice, and not later on. */
static void test_first_query_lost(void **state)
{
	union ibv_gid gid = unit_gid("10.9.0.1");
	uint64_t began = 100 * MD_S, t = began;
	struct md_target *target;

	(void)state;
	target = md_targets_use(&targets, &gid, 0, t);
	for (int i = 1; i < MD_QUERY_TRIES; i++) {
		assert_true(tick(t) == t + MD_QUERY_RETRY_NS);
		assert_int_equal(n_asked, i);
		t += MD_QUERY_RETRY_NS;
	}
	assert_true(tick(t) == t + MD_QUERY_NS);
	assert_int_equal(n_asked, MD_QUERY_TRIES);
	/* The time that a program waits began with the first query. */
	assert_true(target->silent_since_ns == began);
	assert_true(md_target_silent(target, began + MD_S));
	for (int i = 1; i < 4; i++) {
		t += MD_QUERY_NS;
		assert_true(tick(t) == t + MD_QUERY_NS);
		assert_int_equal(n_asked, MD_QUERY_TRIES + i);
	}
}

/* An answer is a change once; and a query that is lost, or two, make nobody silent. */
static void test_target_answers(void **state)
{
	union ibv_gid gid = unit_gid("10.9.0.1");
	struct mv_host_id id = peers_id(1), other = peers_id(2);
	uint64_t t = 100 * MD_S, silent;
	struct md_target *target;

	(void)state;
	assert_int_equal(md_targets_add(&targets, &gid, "x"), 0);
	target = md_targets_find(&targets, &gid);
	tick(t);
	assert_true(md_target_answered(target, &id, t + MD_MS));
	for (int i = 1; i < 10; i++) {
		t += MD_QUERY_NS;
		assert_true(tick(t) == t + MD_QUERY_RETRY_NS);
		assert_int_equal(target->silent_since_ns, 0);
		assert_false(md_target_answered(target, &id, t + MD_MS));
		assert_true(tick(t + MD_QUERY_RETRY_NS) == t + MD_QUERY_NS);
	}
	assert_int_equal(n_asked, 10);
	/* Two are lost. A process that asks in between does not make it worse. */
	t += MD_QUERY_NS;
	tick(t);
	for (int i = 0; i < 5; i++)
		md_targets_ask_now(&targets, target, 0, t + MD_MS, ask, NULL);
	tick(t + MD_QUERY_RETRY_NS);
	tick(t + 2 * MD_QUERY_RETRY_NS);
	assert_int_equal(n_asked, 18);
	assert_int_equal(target->silent_since_ns, 0);
	assert_false(md_target_answered(target, &id, t + 2 * MD_QUERY_RETRY_NS + MD_MS));
	/* Somebody else has that address now. */
	t += 2 * MD_QUERY_NS;
	tick(t);
	assert_true(md_target_answered(target, &other, t + MD_MS));
	/* All are lost. */
	t += MD_QUERY_NS;
	for (int i = 0; i < MD_QUERY_TRIES; i++) {
		assert_int_equal(target->silent_since_ns, 0);
		t = tick(t);
	}
	silent = t;
	assert_true(tick(t) == t + MD_QUERY_NS);
	assert_true(target->silent_since_ns == silent);
	assert_true(md_target_silent(target, silent + MD_S));
	assert_true(md_target_answered(target, &other, silent + 2 * MD_S));
	assert_false(md_target_answered(target, &other, silent + 2 * MD_S));
}

/* Whoever answers says which host he is, and may say another name each time. */
static void test_one_host_at_an_address(void **state)
{
	const struct mv_host_id first = {.bytes = {1}}, second = {.bytes = {2}};
	union ibv_gid gid = unit_gid("10.0.4.2");
	struct md_target *target = md_targets_use(&targets, &gid, 1000, MD_S);
	uint64_t interval_ns = md_targets_interval_ms(&targets, 1000) * MD_MS;

	(void)state;
	assert_non_null(target);
	md_targets_ask_now(&targets, target, 1000, MD_S, ask, NULL);
	assert_true(md_targets_may_answer(&targets, target, &first, MD_S));
	md_target_answered(target, &first, MD_S);
	assert_true(md_targets_may_answer(&targets, target, &first, MD_S));
	md_targets_ask_now(&targets, target, 1000, MD_S + MD_MS, ask, NULL);
	assert_false(md_targets_may_answer(&targets, target, &second, MD_S + MD_MS));
	assert_false(md_targets_may_answer(&targets, target, &second, MD_S + interval_ns - 1));
	assert_true(md_targets_may_answer(&targets, target, &second, MD_S + interval_ns));
}

static void test_query_rate(void **state)
{
	uint64_t t = 100 * MD_S;

	(void)state;
	for (uint32_t i = 0; i < 10000; i++) {
		union ibv_gid gid = mv_gid_from_ipv4(htonl(0x0a000001 + i));

		assert_int_equal(md_targets_add(&targets, &gid, "x"), 0);
	}
	for (uint64_t end = t + 10 * MD_S; t < end;)
		t = tick(t);
	assert_in_range(n_asked, 10 * MD_QUERY_RATE - 100, 10 * MD_QUERY_RATE + 100);
	/* Each of them as often as there is room, and answers count for long enough. */
	assert_int_equal(md_targets_interval_ms(&targets, 0), 40000);
}

static bool answer(void *arg, const struct md_target *target)
{
	const struct mv_host_id id = {.bytes = {1}};

	md_target_answered(md_targets_find(&targets, &target->gid), &id, *(const uint64_t *)arg);
	return true;
}

/* A port that goes down and up again and again does not keep the last ones of thousands from being asked. */
static void test_changes_without_end(void **state)
{
	const struct md_gidmap nobody = {0};
	struct md_target *target, *next;
	uint64_t t = MD_S;

	(void)state;
	grow(0, 0x0a000001, t);
	for (unsigned int changes = 0; changes < 40; changes++) {
		md_targets_hurry(&targets, &nobody, true, t);
		for (uint64_t end = t + MD_S; t < end; t += 100 * MD_MS)
			md_targets_tick(&targets, t, answer, &t);
	}
	HASH_ITER(hh, targets.by_gid, target, next)
	assert_true(target->asked_ns && t - target->asked_ns <= 5000 / MD_QUERY_RATE * MD_S + MD_S);
}

/* A timer that always comes late costs queries. Those left are shared by all targets: none is never asked. */
static void test_late_timer(void **state)
{
	struct md_target *target, *next;
	union ibv_gid gid;
	uint64_t t = MD_S;

	(void)state;
	for (uint32_t i = 0; i < 2000; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000001 + i));
		assert_int_equal(md_targets_add(&targets, &gid, "x"), 0);
	}
	for (uint64_t end = t + 60 * MD_S; t < end;)
		t = md_targets_tick(&targets, t, answer, &t) + 100 * MD_MS;
	HASH_ITER(hh, targets.by_gid, target, next)
	assert_true(target->asked_ns && t - target->asked_ns <= 2 * 2000 / MD_QUERY_RATE * MD_S);
}

/* Hosts that say without end that they have changed do not keep other hosts of their payer from being asked. */
static void test_hints_without_end(void **state)
{
	enum { N_OWN = 900, N_OTHERS = 340 };
	struct md_target *own[N_OWN], *others[N_OTHERS];
	uint64_t t = MD_S, next_ns = 0, generation = 0, queries = 0;

	(void)state;
	for (uint32_t i = 0; i < N_OWN + N_OTHERS; i++) {
		union ibv_gid gid = mv_gid_from_ipv4(htonl(0x0a000001 + i));

		*(i < N_OWN ? &own[i] : &others[i - N_OWN]) = md_targets_use(&targets, &gid, 1001, t);
	}
	for (uint64_t end = t + 60 * MD_S; t < end; t += 2 * MD_MS) {
		struct md_target *target = others[generation++ % N_OTHERS];

		if (md_target_hinted(target, NULL, 1, generation)) {
			uint64_t before_ns = target->asked_ns;

			md_targets_ask_hinted(&targets, target, t, answer, &t);
			queries += target->asked_ns != before_ns;
		}
		if (next_ns <= t)
			next_ns = md_targets_tick(&targets, t, answer, &t);
		for (unsigned int i = 0; t > end - MD_S && i < N_OWN; i++)
			assert_true(t - own[i]->asked_ns <= MD_QUERY_NS + MD_S);
	}
	assert_true(queries > N_OTHERS * MD_HINTS * 4);
}

static unsigned int n_told;

static bool count_told(void *arg, const struct md_target *target)
{
	(void)arg;
	n_told += target->tells;
	return true;
}

/* Our description goes with each query until one is answered; also to an address that is silent, since that may be our own port's fault. */
static void test_told(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1"), never = unit_gid("10.3.0.2");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target = md_targets_use(&targets, &one, 0, MD_S);
	uint64_t now_ns = MD_S;

	(void)state;
	md_targets_use(&targets, &never, 0, MD_S);
	md_targets_tick(&targets, now_ns, count_told, NULL);
	md_target_answered(target, &id, now_ns);
	/* Only a route has changed. */
	md_targets_hurry(&targets, &map, false, ++now_ns);
	md_targets_tick(&targets, now_ns, count_told, NULL);
	md_target_answered(target, &id, now_ns);
	assert_int_equal(n_told, 0);
	/* The answer to the query before comes late, in the turn of the event loop that sends the next query. */
	md_targets_hurry(&targets, &map, true, ++now_ns);
	md_target_answered(target, &id, now_ns + MD_MS);
	for (int i = 0; i <= MD_QUERY_TRIES; i++, now_ns += MD_QUERY_RETRY_NS)
		md_targets_tick(&targets, now_ns, count_told, NULL);
	assert_int_not_equal(target->silent_since_ns, 0);
	assert_int_equal(n_told, MD_QUERY_TRIES + 1);
	/* The next change does not wait for the interval. */
	md_targets_hurry(&targets, &map, true, now_ns);
	md_targets_tick(&targets, now_ns, count_told, NULL);
	assert_int_equal(n_told, MD_QUERY_TRIES + 2);
	md_target_answered(target, &id, now_ns);
	now_ns += MD_QUERY_NS;
	md_targets_tick(&targets, now_ns, count_told, NULL);
	assert_int_equal(n_told, MD_QUERY_TRIES + 2);
	/* By then the address may be another host's. */
	now_ns += MD_COOKIE_EPOCH_NS;
	md_targets_hurry(&targets, &map, true, now_ns);
	md_targets_tick(&targets, now_ns, count_told, NULL);
	assert_int_equal(n_told, MD_QUERY_TRIES + 2);
}

/*
 * This agent was started while a port of ours was down: one address of a host has answered, the other never. The other
 * one is asked at each change, since it may be the only one by which the host can hear of the next.
 */
static void test_never_answered(void **state)
{
	const union ibv_gid up = unit_gid("10.3.0.1"), down = unit_gid("10.4.0.1"), nobodys = unit_gid("10.9.0.1");
	const struct mv_host_id id = peers_id(1);

	(void)state;
	md_targets_add(&targets, &up, "b");
	md_targets_add(&targets, &down, "b");
	md_targets_add(&targets, &nobodys, "c");
	md_targets_tick(&targets, MD_S, ask, NULL);
	first_tries(MD_S);
	tell(1, 1, PEER);
	md_target_answered(md_targets_find(&targets, &up), &id, 2 * MD_S - 1);
	n_asked = n_told = 0;
	md_targets_hurry(&targets, &map, true, 2 * MD_S);
	md_targets_tick(&targets, 2 * MD_S, ask, NULL);
	assert_int_equal(n_asked, 2);
	assert_int_equal(md_targets_find(&targets, &nobodys)->asked_ns, MD_S + (MD_QUERY_TRIES - 1) * MD_QUERY_RETRY_NS);
	/* Whoever is there has not shown yet that our description is for him. */
	md_targets_hurry(&targets, &map, true, 3 * MD_S);
	md_targets_tick(&targets, 3 * MD_S, count_told, NULL);
	assert_int_equal(n_told, 1);
}

static bool all_down(void *arg, const struct md_target *target)
{
	ask(arg, target);
	return false;
}

/* All ports were down since this agent was started. Nobody has been asked, so everybody is when a port comes up, once. */
static void test_unsent(void **state)
{
	const union ibv_gid gid = unit_gid("10.9.0.1");

	(void)state;
	md_targets_add(&targets, &gid, "c");
	md_targets_tick(&targets, MD_S, all_down, NULL);
	n_asked = 0;
	for (uint64_t now_ns = 2 * MD_S; now_ns < 2 * MD_S + 3; now_ns++) {
		md_targets_hurry(&targets, &map, true, now_ns);
		md_targets_tick(&targets, now_ns, ask, NULL);
		assert_int_equal(n_asked, 1);
	}
}

static union ibv_gid asked[4];
static size_t n_noted;

static bool note_asked(void *arg, const struct md_target *target)
{
	(void)arg;
	assert_in_range(n_noted, 0, 3);
	asked[n_noted++] = target->gid;
	return true;
}

/* MD_QUERY_RATE delays the last ones. These are addresses that have never answered, until their interval is over. */
static void test_never_answered_last(void **state)
{
	const union ibv_gid answers = unit_gid("10.3.0.1"), never = unit_gid("10.4.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target;

	(void)state;
	md_targets_add(&targets, &never, "b");
	md_targets_tick(&targets, MD_S, ask, NULL);
	md_targets_add(&targets, &answers, "b");
	md_targets_tick(&targets, 2 * MD_S, ask, NULL);
	tell(1, 1, PEER);
	target = md_targets_find(&targets, &answers);
	md_target_answered(target, &id, 2 * MD_S);
	n_noted = 0;
	md_targets_hurry(&targets, &map, true, 3 * MD_S);
	md_targets_tick(&targets, 3 * MD_S, note_asked, NULL);
	assert_int_equal(n_noted, 2);
	assert_true(mv_gid_equal(&asked[0], &answers));
	md_target_answered(target, &id, 3 * MD_S);
	/* The other one's interval is over, and this one has been asked since. */
	md_targets_ask_now(&targets, target, 0, 4 * MD_S + MD_QUERY_NS, ask, NULL);
	md_targets_hurry(&targets, &map, true, 5 * MD_S + MD_QUERY_NS);
	md_targets_tick(&targets, 5 * MD_S + MD_QUERY_NS, note_asked, NULL);
	assert_int_equal(n_noted, 4);
	assert_true(mv_gid_equal(&asked[2], &never));
}

/* A port that goes down and up within a round trip uses up no tries. */
static void test_tries_since_change(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target = md_targets_use(&targets, &one, 0, MD_S);
	uint64_t now_ns = 2 * MD_S;

	(void)state;
	md_targets_tick(&targets, MD_S, ask, NULL);
	md_target_answered(target, &id, MD_S);
	n_told = 0;
	for (int i = 0; i < 2 * MD_QUERY_TRIES; i++, now_ns += MD_MS) {
		md_targets_hurry(&targets, &map, true, now_ns);
		md_targets_tick(&targets, now_ns, count_told, NULL);
	}
	for (int i = 1; i < MD_QUERY_TRIES; i++)
		md_targets_tick(&targets, now_ns += MD_QUERY_RETRY_NS, count_told, NULL);
	assert_int_equal(target->silent_since_ns, 0);
	assert_int_equal(n_told, 2 * MD_QUERY_TRIES + MD_QUERY_TRIES - 1);
	/* Silent it is when all tries after the last change are used up. */
	md_targets_tick(&targets, now_ns += MD_QUERY_RETRY_NS, count_told, NULL);
	assert_true(target->silent_since_ns == now_ns);
}

/* Two hosts that ask each other because the other asks do not do so for ever. */
static void test_hints(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target = md_targets_use(&targets, &one, 0, MD_S);
	unsigned int n = 0;

	(void)state;
	assert_false(md_target_hinted(target, NULL, 1, 1));
	md_targets_tick(&targets, MD_S, ask, NULL);
	md_target_answered(target, &id, MD_S);
	for (uint64_t i = 0; i < 100; i++) {
		if (!md_target_hinted(target, NULL, 1, 1))
			continue;
		md_targets_ask_hinted(&targets, target, MD_S + i * MD_MS, ask, NULL);
		n++;
	}
	assert_int_equal(n, MD_HINTS);
	/* They count anew when it was asked in its turn. */
	md_target_answered(target, &id, 2 * MD_S);
	md_targets_tick(&targets, 8 * MD_S, ask, NULL);
	md_target_answered(target, &id, 8 * MD_S);
	assert_true(md_target_hinted(target, NULL, 1, 1));
	/* Also if a process has it asked so often that its turn never comes. */
	for (uint64_t t = 9 * MD_S; t < 60 * MD_S; t += 4 * MD_S) {
		md_targets_ask_now(&targets, target, 0, t, ask, NULL);
		md_target_answered(target, &id, t);
		assert_true(md_target_hinted(target, NULL, 1, 1));
	}
}

/* Whose description is known as it is now is not asked because it asks: of two that ask each other regularly neither uses its hints up. */
static void test_no_hint(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1");
	const struct mv_host_id id = peers_id(1);
	struct md_target *target = md_targets_use(&targets, &one, 0, MD_S);
	struct md_desc desc = {0};
	struct md_host host = {.id = id, .start = 5, .generation = 7};

	(void)state;
	md_targets_tick(&targets, MD_S, ask, NULL);
	md_target_answered(target, &id, MD_S);
	assert_true(md_target_hinted(target, &host, 5, 7)); /* nothing is known of it */
	host.desc = &desc;
	for (int i = 0; i < 100; i++)
		assert_false(md_target_hinted(target, &host, 5, 7));
	assert_true(md_target_hinted(target, &host, 5, 8));
	assert_true(md_target_hinted(target, &host, 6, 7)); /* another life of its agent */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_target_of_process, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_first_query_lost, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_target_answers, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_one_host_at_an_address, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_query_rate, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_changes_without_end, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_late_timer, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_hints_without_end, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_told, hosts_setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_never_answered, hosts_setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_unsent, hosts_setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_never_answered_last, hosts_setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_tries_since_change, hosts_setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_hints, hosts_setup, hosts_teardown),
		cmocka_unit_test_setup_teardown(test_no_hint, hosts_setup, hosts_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
