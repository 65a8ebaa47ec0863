/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which accounts pay for an address that is asked, and how many addresses and queries each of them may have. */
#include "hosts_fixture.h"

#include <errno.h>

static bool is_wanted_by(const struct md_target *target, uint64_t account)
{
	uint64_t wanters[MD_TARGET_WANTERS];

	for (size_t n = md_targets_wanters(&targets, target, wanters); n--;)
		if (wanters[n] == account)
			return true;
	return false;
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
	const uint64_t step = 10 * MD_S / MD_QUERY_RATE;
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
	for (uint64_t end = t + 20 * MD_S; t < end; t += step) {
		tick(t);
		for (unsigned int i = 0; i < 2; i++)
			assert_true(t - theirs[i]->asked_ns <= MD_QUERY_NS);
	}
	assert_int_equal(md_targets_interval_ms(&targets, 1001), MD_QUERY_NS / MD_MS);
	assert_true(md_targets_interval_ms(&targets, 1000) > 45000);
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

/* The next query comes before an answer expires that is valid for some intervals of the new payer. */
static void test_interval_of_new_payer(void **state)
{
	const struct mv_host_id id = {.bytes = {1}};
	struct md_target *target = use("10.201.0.1", 1000, MD_S);
	uint64_t due_ns = 2 * MD_S + MD_QUERY_NS;

	(void)state;
	grow(1000, 0x0a000001, MD_S);
	tick(MD_S);
	assert_true(target->asked_ns);
	md_target_answered(target, &id, MD_S);
	assert_true(target->next_ns > due_ns);
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

/* What others had us ask is a process's from when that needs it, if it may have one more. */
static void test_taken_over(void **state)
{
	const union ibv_gid one = unit_gid("10.3.0.1");
	struct md_target *target;

	(void)state;
	target = md_targets_use(&targets, &one, MD_TARGETS_OF_OTHERS, MD_S);
	assert_false(md_target_is_wanted(target));
	assert_ptr_equal(md_targets_use(&targets, &one, 77, MD_S), target);
	assert_true(md_target_is_wanted(target));
	assert_int_equal(targets.users->account, 77);
	assert_int_equal(HASH_COUNT(targets.users), 1);
	/* Not the other way round. */
	md_targets_use(&targets, &one, MD_TARGETS_OF_OTHERS, MD_S);
	assert_int_equal(target->payer->account, 77);
	md_targets_use(&targets, &one, 0, MD_S);
	assert_int_equal(target->payer->account, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_targets_of_an_account, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_queries_of_an_account, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_account_that_grows, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_account_that_asks, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_account_that_sends, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_interval_of_new_payer, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_former_need, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_former_need_of_others, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_many_accounts, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_file_address_of_an_account, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_targets_for_others, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_target_limit, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_taken_over, reset_targets, free_targets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
