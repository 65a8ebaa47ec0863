/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When beacons go out, when addresses are asked, and the hosts file. The clock is ours. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "announce.h"
#include "fault.h"
#include "hostsfile.h"
#include "peers.h"
#include "tmpdir.h"

/* ---- beacons --------------------------------------------------------------------------------- */

static struct md_announce announce;
static struct md_view *view;
static uint64_t now;

static uint32_t no_jitter(uint32_t below)
{
	assert_true(below > 0);
	return 0;
}

static uint32_t most_jitter(uint32_t below)
{
	return below - 1;
}

static int setup(void **state)
{
	(void)state;
	memset(&announce, 0, sizeof(announce));
	announce.interval_ms = 1000;
	announce.random = no_jitter;
	view = peers_view("rail mlx5_0; rail mlx5_1;");
	now = 100 * MD_S;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	md_view_free(view);
	return 0;
}

/* Lets time pass; returns how many beacons went out on a netdev, and of these how many with the
 * whole description. */
static unsigned int run(uint64_t for_ns, uint32_t ifindex, unsigned int *ret_whole)
{
	uint64_t until = now + for_ns;
	unsigned int n = 0;

	*ret_whole = 0;
	while (md_announce_next(&announce) <= until) {
		const struct md_outlet *outlet;
		bool whole;

		now = md_announce_next(&announce);
		while ((outlet = md_announce_due(&announce, now, &whole))) {
			n += outlet->ifindex == ifindex;
			*ret_whole += outlet->ifindex == ifindex && whole;
		}
	}
	now = until;
	return n;
}

static void test_burst_then_interval(void **state)
{
	unsigned int whole;

	(void)state;
	assert_true(md_announce_next(&announce) == UINT64_MAX);
	md_announce_nets(&announce, view, now);
	/* At once, after 100 ms, after another 200. */
	assert_int_equal(run(99 * MD_MS, 1, &whole), 1);
	assert_int_equal(run(2 * MD_MS, 1, &whole), 1);
	assert_int_equal(run(201 * MD_MS, 1, &whole), 1);
	assert_int_equal(whole, 1);
	/* Then one a second, without the description. */
	assert_int_equal(run(10 * MD_S, 2, &whole), 10);
	assert_int_equal(whole, 0);
	/* Jitter makes it more often, by a tenth at most. */
	announce.random = most_jitter;
	assert_in_range(run(100 * MD_S, 1, &whole), 108, 112);
}

static void test_change_is_told_at_once(void **state)
{
	unsigned int whole;

	(void)state;
	md_announce_nets(&announce, view, now);
	run(10 * MD_S, 1, &whole);
	md_announce_nets(&announce, view, now);
	assert_int_equal(run(MD_MS, 1, &whole), 1);
	assert_int_equal(whole, 1);
	/* A netdev goes. */
	view->n_nets = 1;
	md_announce_nets(&announce, view, now);
	assert_int_equal(announce.n, 1);
	assert_int_equal(run(10 * MD_S, 2, &whole), 0);
}

/* How long after a change it is told at the latest, where so many others may have seen the same. */
static uint64_t told_after(size_t n_heard)
{
	md_announce_heard(&announce, 1, n_heard);
	announce.outlets[0].next_ns = 0;
	md_announce_nets(&announce, view, now);
	return announce.outlets[0].next_ns - now;
}

static void test_few_speak_sooner(void **state)
{
	(void)state;
	md_announce_nets(&announce, view, now);
	announce.random = most_jitter;
	assert_int_equal(announce.outlets[0].ifindex, 1);
	assert_int_equal(told_after(0), 0);
	assert_int_equal(told_after(2), 2 * MD_SPEAK_EACH_NS);
	assert_int_equal(told_after(MD_SPEAK_NS / MD_SPEAK_EACH_NS - 1), MD_SPEAK_NS - MD_SPEAK_EACH_NS);
	assert_int_equal(told_after(10000), MD_SPEAK_NS);
}

static void test_greeting(void **state)
{
	unsigned int whole;

	(void)state;
	md_announce_nets(&announce, view, now);
	run(10 * MD_S, 1, &whole);
	now += 150 * MD_MS;
	assert_int_equal(md_announce_greet(&announce, 1, now), 0);
	assert_int_equal(run(MD_MS, 1, &whole), 1);
	assert_int_equal(whole, 1);
	/* Two hundred newcomers within 10 ms are greeted together, and not before the spacing is
	 * over. */
	for (int i = 0; i < 200; i++)
		assert_int_equal(md_announce_greet(&announce, 1, now + (uint64_t)i * 50000), 0);
	assert_int_equal(run(90 * MD_MS, 1, &whole), 0);
	assert_int_equal(run(20 * MD_MS, 1, &whole), 1);
	/* With many on the link, the newcomer alone. */
	md_announce_heard(&announce, 1, MD_ANSWER_ALL_MAX + 1);
	assert_true(md_announce_greet(&announce, 1, now) > 0);
	announce.random = most_jitter;
	assert_in_range(md_announce_greet(&announce, 1, now), 40 * MD_MS, 60 * MD_MS);
	md_announce_heard(&announce, 1, 10000);
	assert_in_range(md_announce_greet(&announce, 1, now), 1990 * MD_MS, 2010 * MD_MS);
	assert_int_equal(md_announce_greet(&announce, 99, now), 0);
}

/* All beacons of a link together stay below the rate, whatever the number of hosts. */
static void test_interval_grows(void **state)
{
	static const struct {
		size_t n;
		uint32_t interval_ms;
	} cases[] = {{0, 1000},   {200, 1000},   {249, 1000},
		     {499, 2000}, {9999, 40000}, {1000000, 60000}};

	(void)state;
	md_announce_nets(&announce, view, now);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		md_announce_heard(&announce, 1, cases[i].n);
		assert_int_equal(announce.outlets[0].interval_ms, cases[i].interval_ms);
	}
	assert_int_equal(announce.outlets[1].interval_ms, 1000);
}

/* ---- addresses that are asked ---------------------------------------------------------------- */

static struct md_targets targets;
static unsigned int n_asked;

static bool ask(void *arg, const struct md_target *target)
{
	(void)arg;
	(void)target;
	n_asked++;
	return true;
}

static uint64_t tick(uint64_t now_ns)
{
	return md_targets_tick(&targets, now_ns, ask, NULL);
}

static int reset_targets(void **state)
{
	(void)state;
	memset(&targets, 0, sizeof(targets));
	n_asked = 0;
	return 0;
}

static int free_targets(void **state)
{
	(void)state;
	md_targets_fini(&targets);
	assert_int_equal(targets.n, 0);
	return 0;
}

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
	assert_true(tick(t) == t + MD_QUERY_NS);
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

/* An answer is news once; and a query that is lost, or two, make nobody silent. */
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

/* An account, which may be a container, leaves addresses and queries to others. */
static void test_targets_of_an_account(void **state)
{
	union ibv_gid gid;
	unsigned int before;

	(void)state;
	for (uint32_t i = 0; i < MD_TARGETS_PER_ACCOUNT; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000001 + i));
		assert_non_null(md_targets_use(&targets, &gid, 1000, MD_S));
	}
	gid = unit_gid("10.200.0.1");
	assert_null(md_targets_use(&targets, &gid, 1000, MD_S));
	/* Nor does it take over one. */
	gid = unit_gid("10.200.0.3");
	assert_non_null(md_targets_use(&targets, &gid, MD_TARGETS_OF_OTHERS, MD_S));
	assert_false(md_target_is_wanted(md_targets_use(&targets, &gid, 1000, MD_S)));
	gid = unit_gid("10.200.0.1");
	/* There is room for others, and the last eighth is root's and the hosts file's. */
	for (uint32_t i = 0; targets.n < MD_TARGETS_MAX - MD_TARGETS_MAX / MD_ROOT_SHARE; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0b000001 + i));
		assert_non_null(md_targets_use(&targets, &gid, 1001, MD_S));
	}
	gid = unit_gid("10.200.0.1");
	assert_null(md_targets_use(&targets, &gid, 1001, MD_S));
	tick(MD_S); /* all that may be asked at once is */
	before = n_asked;
	md_targets_ask_now(&targets, md_targets_use(&targets, &gid, 0, MD_S), 0, MD_S, ask, NULL);
	assert_int_equal(n_asked, before + 1);
	/* One that the hosts file names is not the account's any more. */
	gid = mv_gid_from_ipv4(htonl(0x0a000001));
	assert_int_equal(md_targets_add(&targets, &gid, "x"), 0);
	gid = unit_gid("10.200.0.2");
	assert_null(md_targets_use(&targets, &gid, 1000, MD_S));
	for (uint64_t s = 600; s < 1200; s += 60)
		tick(s * MD_S);
	assert_int_equal(targets.n, 1);
	assert_null(targets.users);
}

/* One account with thousands of addresses, also those of others: the others are asked at once, and as often as ever. */
static void test_queries_of_an_account(void **state)
{
	const uint64_t each = MD_S / MD_QUERY_RATE;
	struct md_target *theirs[2];
	unsigned int before;
	union ibv_gid gid;
	uint64_t t = MD_S;

	(void)state;
	for (uint32_t i = 0; i < MD_TARGETS_PER_ACCOUNT; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000001 + i));
		assert_non_null(md_targets_use(&targets, &gid, 1000, t));
	}
	tick(t);
	assert_true(n_asked < 100);
	for (uint32_t i = 0; i < 2; i++) {
		gid = mv_gid_from_ipv4(htonl(i ? 0x0b000001 : 0x0a000001 + 5000));
		theirs[i] = md_targets_use(&targets, &gid, 1001, t);
		assert_non_null(theirs[i]);
		before = n_asked;
		md_targets_ask_now(&targets, theirs[i], 1001, t, ask, NULL);
		assert_int_equal(n_asked, before + 1);
		/* The first one does not have it back by needing it again. */
		md_targets_use(&targets, &gid, 1000, t);
	}
	for (uint64_t end = t + 20 * MD_S; t < end; t += each) {
		tick(t);
		for (unsigned int i = 0; i < 2; i++)
			assert_true(t - theirs[i]->asked_ns <= MD_QUERY_NS);
	}
	assert_int_equal(md_targets_interval_ms(&targets, 1001), MD_QUERY_NS / MD_MS);
	assert_true(md_targets_interval_ms(&targets, 1000) > 45000);
}

static struct md_target *use(const char *text, uint64_t account, uint64_t now_ns)
{
	union ibv_gid gid = unit_gid(text);
	struct md_target *target = md_targets_use(&targets, &gid, account, now_ns);

	assert_non_null(target);
	return target;
}

static bool is_wanted_by(const struct md_target *target, uint64_t account)
{
	uint64_t wanters[MD_TARGET_WANTERS];

	for (size_t n = md_targets_wanters(&targets, target, wanters); n--;)
		if (wanters[n] == account)
			return true;
	return false;
}

/* The account comes to need thousands of addresses. */
static void grow(uint64_t account, uint32_t from, uint64_t now_ns)
{
	for (uint32_t i = 0; i < 5000; i++) {
		union ibv_gid gid = mv_gid_from_ipv4(htonl(from + i));

		assert_non_null(md_targets_use(&targets, &gid, account, now_ns));
	}
}

/* An account that paid for a shared address, because it had the fewest, comes to need thousands: the others do not wait. */
static void test_account_that_grows(void **state)
{
	static const uint64_t accounts[] = {1000, 0};
	const uint64_t step = 10 * MD_S / MD_QUERY_RATE;
	struct md_target *shared, *learned;
	union ibv_gid gid = unit_gid("10.201.0.2");
	uint64_t t = MD_S;

	for (unsigned int i = 0; i < 2; i++) {
		shared = use("10.201.0.1", accounts[i], t);
		use("10.202.0.1", 1001, t);
		assert_ptr_equal(use("10.201.0.1", 1001, t), shared);
		assert_int_equal(shared->payer->account, accounts[i]);
		assert_true(md_targets_learn(&targets, &gid, shared));
		learned = md_targets_find(&targets, &gid);
		tick(t);
		grow(accounts[i], 0x0a000001, t);
		for (uint64_t end = t + 11 * MD_S; t < end; t += step) {
			tick(t);
			assert_true(t - shared->asked_ns <= MD_QUERY_NS);
			assert_true(t - learned->asked_ns <= MD_QUERY_NS);
		}
		assert_int_equal(shared->payer->account, 1001);
		assert_int_equal(md_targets_interval_ms(&targets, 1001), MD_QUERY_NS / MD_MS);
		/* Both want the host, whoever pays. */
		assert_true(is_wanted_by(shared, accounts[i]) && is_wanted_by(shared, 1001));
		assert_true(is_wanted_by(learned, accounts[i]) && is_wanted_by(learned, 1001));
		free_targets(state);
		reset_targets(state);
	}
}

/* Nor do they if an account with few addresses asks all the time. It asks with its own room only. */
static void test_account_that_asks(void **state)
{
	const uint64_t step = 10 * MD_S / MD_QUERY_RATE;
	struct md_target *shared, *its, *others;
	uint64_t t = MD_S;

	(void)state;
	shared = use("10.201.0.1", 1000, t);
	its = use("10.201.0.2", 1000, t);
	others = use("10.202.0.1", 1001, t);
	use("10.202.0.2", 1001, t);
	use("10.202.0.3", 1001, t);
	use("10.201.0.1", 1001, t);
	assert_int_equal(shared->payer->account, 1000);
	for (uint64_t end = t + 11 * MD_S; t < end; t += step) {
		for (unsigned int i = 0; i < 100; i++)
			md_targets_ask_now(&targets, its, 1000, t, ask, NULL);
		tick(t);
		assert_true(t - shared->asked_ns <= MD_QUERY_NS);
	}
	/* It asks for the address that the other account now pays for. */
	for (unsigned int i = 0; i < 100; i++)
		md_targets_ask_now(&targets, shared, 1000, t, ask, NULL);
	n_asked = 0;
	md_targets_ask_now(&targets, others, 1001, t, ask, NULL);
	assert_int_equal(n_asked, 1);
}

/*
 * An account that sends to addresses another one has asked for pays for as many as are queried in time, so its own are asked
 * for as often as ever: the others may be strangers that its programs answer.
 */
static void test_account_that_sends(void **state)
{
	const uint64_t step = 10 * MD_S / MD_QUERY_RATE;
	struct md_target *own = use("10.202.0.1", 1001, MD_S), *shared = use("10.201.0.1", 1000, MD_S);
	union ibv_gid gid = unit_gid("10.201.0.1");
	uint64_t t = MD_S;

	(void)state;
	md_targets_share(&targets, &gid, 1001, t);
	assert_true(is_wanted_by(shared, 1000) && !is_wanted_by(shared, 1001));
	grow(1000, 0x0a000001, t);
	for (uint64_t end = t + 11 * MD_S; t < end; t += step) {
		tick(t);
		assert_true(t - shared->asked_ns <= MD_QUERY_NS);
	}
	for (uint32_t i = 0; i < 5000; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000001 + i));
		md_targets_share(&targets, &gid, 1001, t);
	}
	for (uint64_t end = t + 60 * MD_S; t < end; t += 5 * step) {
		tick(t);
		assert_true(t - own->asked_ns <= MD_QUERY_NS + 5 * step);
	}
	assert_int_equal(own->payer->n, 1250);
	assert_int_equal(md_targets_interval_ms(&targets, 1001), MD_QUERY_NS / MD_MS);
	/* Of its own it may have more, and then pays for no others. */
	grow(1001, 0x0b000001, t);
	for (uint64_t end = t + 60 * MD_S; t < end; t += 5 * step)
		tick(t);
	assert_int_equal(own->payer->n, 5001);
	/* Who only sends prolongs nothing, and takes nothing from the account of other hosts. */
	gid = unit_gid("10.203.0.1");
	assert_non_null(md_targets_use(&targets, &gid, MD_TARGETS_OF_OTHERS, t));
	md_targets_share(&targets, &gid, 1002, t);
	tick(t);
	assert_false(md_target_is_wanted(md_targets_find(&targets, &gid)));
	assert_true(is_wanted_by(md_targets_find(&targets, &gid), MD_TARGETS_OF_OTHERS));
	for (uint64_t end = t + MD_TARGET_IDLE_NS; t <= end; t += 30 * MD_S) {
		gid = unit_gid("10.201.0.1");
		md_targets_share(&targets, &gid, 1001, t);
		tick(t);
	}
	assert_int_equal(targets.n, 0);
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

/* The next query comes before an answer expires that is valid for some intervals of the new payer. */
static void test_interval_of_new_payer(void **state)
{
	const struct mv_host_id id = {.bytes = {1}};
	struct md_target *target = use("10.201.0.1", 1000, MD_S);
	uint64_t due_ns = 2 * MD_S + MD_QUERY_NS;

	(void)state;
	grow(1000, 0x0a000001, MD_S);
	tick(MD_S);
	assert_true(target->asked_ns && target->next_ns > due_ns);
	assert_ptr_equal(use("10.201.0.1", 1001, 2 * MD_S), target);
	assert_int_equal(target->payer->account, 1001);
	assert_true(target->next_ns <= due_ns);
	md_target_answered(target, &id, 2 * MD_S);
	assert_true(target->next_ns <= due_ns);
}

/* An account whose processes no longer need an address does not go on to pay for it. */
static void test_former_need(void **state)
{
	struct md_target *target = use("10.201.0.1", 1001, MD_S);

	(void)state;
	grow(1000, 0x0a000001, MD_S);
	use("10.201.0.1", 1000, 300 * MD_S);
	assert_int_equal(target->payer->account, 1001);
	for (uint64_t s = 301; s < 700; s++)
		tick(s * MD_S);
	assert_int_equal(targets.n, 1);
	assert_int_equal(target->payer->account, 1000);
	assert_int_equal(HASH_COUNT(targets.users), 1);
}

/* Who speaks to us from an address does not have an account, or root, pay for it when nobody here needs it any more. */
static void test_former_need_of_others(void **state)
{
	union ibv_gid gid = unit_gid("10.202.0.1");
	struct md_target *target;

	(void)state;
	use("10.201.0.1", 1000, MD_S);
	assert_int_equal(md_targets_add(&targets, &gid, "b"), 0);
	md_targets_forget_file(&targets);
	for (uint64_t s = 1; s < 1000; s++) {
		target = use("10.201.0.1", MD_TARGETS_OF_OTHERS, s * MD_S);
		assert_int_equal(target->payer->account, s <= 601 ? 1000 : MD_TARGETS_OF_OTHERS);
		target = use("10.202.0.1", MD_TARGETS_OF_OTHERS, s * MD_S);
		assert_int_equal(target->payer->account, s == 1 ? 0 : MD_TARGETS_OF_OTHERS);
		tick(s * MD_S);
	}
	assert_int_equal(targets.n, 2);
}

/* A host that lists the further address of another does not take it along when it goes. */
static void test_learned_by_another(void **state)
{
	const struct mv_host_id thief = {.bytes = {1}}, owner = {.bytes = {2}};
	const union ibv_gid further = unit_gid("10.202.0.2");
	struct md_target *of_thief = use("10.201.0.1", 1000, MD_S), *of_owner = use("10.202.0.1", 1001, MD_S);
	const struct md_desc empty = {0};

	(void)state;
	tick(MD_S);
	md_target_answered(of_thief, &thief, MD_S);
	md_target_answered(of_owner, &owner, MD_S);
	assert_true(md_targets_learn(&targets, &further, of_thief));
	/* Whose it is nobody knows before one has answered there. */
	assert_false(md_targets_learn(&targets, &further, of_owner));
	tick(2 * MD_S);
	md_target_answered(md_targets_find(&targets, &further), &owner, 2 * MD_S);
	assert_false(md_targets_learn(&targets, &further, of_thief));
	assert_true(md_targets_learn(&targets, &further, of_owner));
	assert_false(md_targets_learn(&targets, &further, of_owner));
	assert_int_equal(of_owner->n_learned, 1);
	md_targets_unlearn(&targets, of_thief, &empty);
	assert_int_equal(of_thief->n_learned, 0);
	assert_non_null(md_targets_find(&targets, &further));
	use("10.202.0.1", 1001, 500 * MD_S);
	tick(700 * MD_S);
	assert_int_equal(targets.n, 2);
	assert_int_equal(md_targets_find(&targets, &further)->payer->account, 1001);
	md_targets_unlearn(&targets, of_owner, &empty);
	assert_null(md_targets_find(&targets, &further));
}

/* A host has two addresses that were asked for. Its further address does not go with the one that is needed no more. */
static void test_learned_at_two_addresses(void **state)
{
	const struct mv_host_id owner = {.bytes = {2}};
	const union ibv_gid in_file = unit_gid("10.202.0.1"), further = unit_gid("10.202.0.3");
	struct md_target *of_file, *of_process;

	(void)state;
	assert_int_equal(md_targets_add(&targets, &in_file, "b"), 0);
	of_file = md_targets_find(&targets, &in_file);
	of_process = use("10.202.0.2", 1001, MD_S);
	tick(MD_S);
	md_target_answered(of_file, &owner, MD_S);
	md_target_answered(of_process, &owner, MD_S);
	assert_true(md_targets_learn(&targets, &further, of_file));
	tick(2 * MD_S);
	md_target_answered(md_targets_find(&targets, &further), &owner, 2 * MD_S);
	/* The host has not answered at the address of the file for a while. */
	assert_false(md_targets_learn(&targets, &further, of_process));
	tick(700 * MD_S);
	assert_int_equal(targets.n, 2);
	assert_non_null(md_targets_find(&targets, &further));
}

/* More accounts need an address than are noted: those with the fewest addresses pay, in whatever order they come. */
static void test_many_accounts(void **state)
{
	struct md_target *target;

	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < 3 * MD_TARGET_ACCOUNTS; i++) {
			unsigned int account = round ? 3 * MD_TARGET_ACCOUNTS - i : 1 + i;

			for (unsigned int j = 0; j < account; j++) {
				union ibv_gid gid = mv_gid_from_ipv4(htonl(0x0a000000 + 256 * account + j));

				assert_non_null(md_targets_use(&targets, &gid, account, MD_S));
			}
			target = use("10.201.0.1", account, MD_S);
		}
		assert_int_equal(target->n_needs, MD_TARGET_ACCOUNTS);
		for (unsigned int i = 0; i < MD_TARGET_ACCOUNTS; i++)
			assert_true(target->needs[i].user->account <= MD_TARGET_ACCOUNTS);
		assert_true(target->payer->account <= 2);
		free_targets(state);
		reset_targets(state);
	}
}

/* An address of the hosts file is root's and the file's, also when an account pays for it. */
static void test_file_address_of_an_account(void **state)
{
	union ibv_gid gid = unit_gid("10.201.0.1"), other = unit_gid("10.201.0.2");
	struct md_target *target;

	(void)state;
	assert_int_equal(md_targets_add(&targets, &other, "y"), 0);
	assert_int_equal(md_targets_add(&targets, &gid, "x"), 0);
	target = use("10.201.0.1", 1000, MD_S);
	assert_true(is_wanted_by(target, 0) && is_wanted_by(target, 1000));
	use("10.202.0.1", 0, MD_S);
	assert_ptr_equal(use("10.201.0.1", 1000, MD_S), target);
	assert_int_equal(target->payer->account, 1000);
	assert_true(is_wanted_by(target, 0) && is_wanted_by(target, 1000));
	for (uint64_t s = 1; s < 700; s++)
		tick(s * MD_S);
	assert_int_equal(target->payer->account, 0);
	assert_null(targets.users);
}

/* What others have said something from leaves room for what our processes need, who take it over one by one. */
static void test_targets_for_others(void **state)
{
	union ibv_gid gid;
	unsigned int before;

	(void)state;
	for (uint32_t i = 0; i < MD_TARGETS_FOR_OTHERS; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000001 + i));
		assert_non_null(md_targets_use(&targets, &gid, MD_TARGETS_OF_OTHERS, MD_S));
	}
	gid = unit_gid("10.200.0.1");
	assert_null(md_targets_use(&targets, &gid, MD_TARGETS_OF_OTHERS, MD_S));
	/* Asked at once, however many of the others are due. */
	tick(MD_S);
	before = n_asked;
	md_targets_ask_now(&targets, md_targets_use(&targets, &gid, 1000, MD_S), 1000, MD_S, ask, NULL);
	assert_int_equal(n_asked, before + 1);
	gid = mv_gid_from_ipv4(htonl(0x0a000001));
	assert_non_null(md_targets_use(&targets, &gid, 1000, MD_S));
	gid = unit_gid("10.200.0.2");
	assert_non_null(md_targets_use(&targets, &gid, MD_TARGETS_OF_OTHERS, MD_S));
	gid = unit_gid("10.200.0.3");
	assert_null(md_targets_use(&targets, &gid, MD_TARGETS_OF_OTHERS, MD_S));
}

static void learn_all(uint32_t first)
{
	union ibv_gid one = mv_gid_from_ipv4(htonl(first)), further;

	for (uint32_t j = 1; j <= MD_LEARNED_TARGETS; j++) {
		further = mv_gid_from_ipv4(htonl(first + j));
		md_targets_learn(&targets, &further, md_targets_find(&targets, &one));
	}
}

/* Thousands of hosts of the hosts file, or of an account, with eight further addresses each: a process finds others. */
static void test_learned_of_thousands(void **state)
{
	union ibv_gid gid;
	size_t n;

	(void)state;
	for (uint32_t i = 0; i < MD_FILE_ADDRS_MAX; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000000 + 16 * i));
		assert_int_equal(md_targets_add(&targets, &gid, "x"), 0);
	}
	for (uint32_t i = 0; i < MD_FILE_ADDRS_MAX; i++)
		learn_all(0x0a000000 + 16 * i);
	assert_int_equal(targets.n, MD_TARGETS_PER_ACCOUNT);
	use("10.201.0.1", 1000, MD_S);
	free_targets(state);
	reset_targets(state);
	for (uint32_t i = 0; i < 3000; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000000 + 16 * i));
		assert_non_null(md_targets_use(&targets, &gid, 1000, MD_S));
		learn_all(0x0a000000 + 16 * i);
	}
	/* So many hosts got further addresses: the last one not all of them. */
	n = (MD_TARGETS_PER_ACCOUNT / 2 + MD_LEARNED_TARGETS) / (MD_LEARNED_TARGETS + 1);
	assert_int_equal(targets.n, MD_TARGETS_PER_ACCOUNT / 2 + 3000 - n);
}

static void test_target_limit(void **state)
{
	union ibv_gid gid;

	(void)state;
	for (uint32_t i = 0; i < MD_TARGETS_MAX; i++) {
		gid = mv_gid_from_ipv4(htonl(0x0a000001 + i));
		assert_non_null(md_targets_use(&targets, &gid, 0, MD_S));
	}
	gid = unit_gid("10.200.0.1");
	assert_null(md_targets_use(&targets, &gid, 0, MD_S));
	assert_int_equal(md_targets_add(&targets, &gid, "x"), -ENOSPC);
}

/* ---- hosts file ------------------------------------------------------------------------------ */

static char complaints[2048];
static struct md_pins pins;

static void report(void *arg, unsigned int line, const char *text)
{
	size_t used = strlen(complaints);

	(void)arg;
	snprintf(complaints + used, sizeof(complaints) - used, "%u: %.20s\n", line, text);
}

static unsigned int parse(const char *text)
{
	complaints[0] = '\0';
	return md_hostsfile_parse(&targets, &pins, text, strlen(text), report, NULL);
}

static void test_hosts_file(void **state)
{
	union ibv_gid gid = unit_gid("10.9.0.2");

	(void)state;
	assert_int_equal(
		parse("# comment\n\n  node1 10.9.0.1 2001:db8::1 # two\r\n\tnode2\t10.9.0.2"), 0);
	assert_string_equal(complaints, "");
	assert_int_equal(targets.n, 3);
	assert_string_equal(md_targets_find(&targets, &gid)->name, "node2");
	assert_int_equal(parse("node3\nnode4 10.9.0.4 ten\nnode5 fe80::1\nnode6 10.9.0.1\n"
			       "n\303\266de 10.9.0.7\nnode8 0.0.0.0 224.0.0.1 ::\n"),
			 8);
	assert_string_equal(
		complaints,
		"1: a name without an ad\n2: write a name, then I\n3: only addresses that \n"
		"4: this address stands \n5: the name has to be A\n6: only addresses that \n"
		"6: only addresses that \n6: only addresses that \n");
	assert_int_equal(targets.n, 4);
	assert_int_equal(parse("no\"de 10.9.0.8\nno\\de 10.9.0.8\n"), 2);
	assert_int_equal(targets.n, 4);
	/* Read again: what is no longer in it is forgotten, unless a process needs it. */
	md_targets_use(&targets, &gid, 0, 10 * MD_S);
	md_targets_forget_file(&targets);
	assert_int_equal(parse("other 10.9.0.1\n"), 0);
	tick(11 * MD_S);
	assert_int_equal(targets.n, 2);
	gid = unit_gid("10.9.0.1");
	assert_string_equal(md_targets_find(&targets, &gid)->name, "other");
}

static void test_hosts_file_odd(void **state)
{
	char line[5000];

	(void)state;
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	assert_int_equal(parse(line), 1);
	line[100] = '\0';
	assert_int_equal(parse(line), 1);
	complaints[0] = '\0';
	assert_int_equal(md_hostsfile_parse(&targets, &pins, "a\0b 10.9.0.1", 12, report, NULL), 1);
	assert_int_equal(targets.n, 0);
}

static void test_hosts_file_load(void **state)
{
	struct tmpdir dir;
	char *big = malloc(2 << 20);

	(void)state;
	tmpdir_make(&dir);
	complaints[0] = '\0';
	assert_int_equal(md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "none"), report, NULL), 0);
	tmpdir_write(&dir, "hosts", "a 10.9.0.1\n");
	assert_int_equal(md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "hosts"), report, NULL), 0);
	assert_int_equal(targets.n, 1);
	assert_int_equal(md_hostsfile_load(&targets, &pins, dir.path, report, NULL), 1);
	memset(big, '\n', 2 << 20);
	big[(2 << 20) - 1] = '\0';
	tmpdir_write(&dir, "big", big);
	assert_int_equal(md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "big"), report, NULL), 1);
	assert_non_null(strstr(complaints, "0: is longer than 1 MiB"));
	free(big);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		unsigned int n;

		md_targets_fini(&targets);
		n = md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "hosts"), report, NULL);
		assert_int_equal(n, fault_fired() ? 1 : 0);
		assert_int_equal(targets.n, fault_fired() ? 0 : 1);
	});
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_burst_then_interval, setup, teardown),
		cmocka_unit_test_setup_teardown(test_change_is_told_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_speak_sooner, setup, teardown),
		cmocka_unit_test_setup_teardown(test_greeting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_interval_grows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_target_of_process, reset_targets,
						free_targets),
		cmocka_unit_test_setup_teardown(test_target_answers, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_query_rate, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_one_host_at_an_address, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_targets_of_an_account, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_queries_of_an_account, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_account_that_grows, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_account_that_asks, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_account_that_sends, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_late_timer, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_changes_without_end, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_hints_without_end, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_interval_of_new_payer, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_former_need, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_former_need_of_others, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_learned_by_another, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_learned_at_two_addresses, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_many_accounts, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_file_address_of_an_account, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_target_limit, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_learned_of_thousands, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_targets_for_others, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_hosts_file, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_hosts_file_odd, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_hosts_file_load, reset_targets, free_targets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
