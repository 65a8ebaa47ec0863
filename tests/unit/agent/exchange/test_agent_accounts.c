/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Hosts that processes of several accounts want: no account uses up what the hosts of another one may have. */
#include "oneagent.h"

#include "hostsint.h"

/* Hosts of an accomplice of Mallory use up all that hosts may have that Mallory wants. Each of @granted() is to be false once. */
static void exhaust(bool (*granted)(struct md_host *host), unsigned int n_hosts)
{
	for (unsigned int n = 100; n < 100 + n_hosts; n++) {
		struct md_host *host = add_holder(n);

		md_hosts_want(&agent.hosts, host, MALLORY);
		for (unsigned int i = 0; granted(host); i++)
			assert_true(i < 1000000);
	}
}

static void check_accounts(bool (*granted)(struct md_host *host), unsigned int n_hosts)
{
	const struct md_qp_key key = md_qp_key_make("mlx5_0", 5);
	struct md_qp_list list = LIST_HEAD_INITIALIZER(list);
	struct md_host *theirs[2], *shared;

	begin_agent();
	assert_int_equal(md_qps_register(&agent.clients.qps, &key, IBV_QPT_RC, 1, 0, &list), 0);
	agent.clients.questions.resqp.fd = 0; /* nothing is asked: the QP's owner is gone */
	shared = add_holder(3);
	md_hosts_want(&agent.hosts, shared, MALLORY);
	for (unsigned int i = 0; i < 2; i++) {
		theirs[i] = add_holder(1 + i);
		md_hosts_want(&agent.hosts, theirs[i], i ? 0 : VICTIM);
	}
	exhaust(granted, n_hosts);
	assert_false(granted(shared));
	assert_true(granted(theirs[0]));
	assert_true(granted(theirs[1]));
	/* Mallory takes nothing from hosts by wanting them as well. */
	md_hosts_want(&agent.hosts, shared, VICTIM);
	assert_true(granted(shared));
	md_hosts_want(&agent.hosts, theirs[0], MALLORY);
	assert_true(granted(theirs[0]));
	agent.clients.questions.resqp.fd = -1;
	md_qps_fini(&agent.clients.qps);
	end_agent();
}

static bool takes_bundle(struct md_host *host)
{
	struct md_opened opened = {.kind = MD_KIND_BUNDLE, .sealed = true};
	struct md_received received;

	opened.payload_len = make_bundle(opened.payload, 100);
	from_host(host, &received, &opened);
	return is_taken(&received, &opened);
}

static bool takes_question(struct md_host *host)
{
	return takes_message(host, 1, 5, 0);
}

static bool takes_query(struct md_host *host)
{
	return is_answered(host, 1);
}

static bool asks_for_key(struct md_host *host)
{
	host->asking = (struct md_host_asking){0};
	md_unproven_came(host, MD_PAYLOAD_MAX_BYTES);
	return md_trust_ask(&agent, host, md_now());
}

static void test_accounts(void **state)
{
	(void)state;
	check_accounts(takes_bundle, 20); /* they use up the share of their link, too */
	check_accounts(takes_question, 2);
	check_accounts(takes_query, 5);
	check_accounts(asks_for_key, 10); /* few at one address */
}

/* All users together have some times as much as one, and root and the hosts file theirs. */
static void test_all_accounts(void **state)
{
	const struct md_rate rate = {.per_second = 1, .burst = 100};
	struct md_wanted_limits limits = {0};
	unsigned int n_taken = 0, n_root = 0;
	struct md_host *host = NULL;

	(void)state;
	for (unsigned int n = 1; n <= 10; n++) {
		host = add_holder(n);
		assert_false(md_host_take(host, &limits, &rate, 1, md_now()));
		md_hosts_want(&agent.hosts, host, n);
		for (unsigned int i = 0; i < 200; i++)
			n_taken += md_host_take(host, &limits, &rate, 1, md_now());
	}
	assert_int_equal(n_taken, MD_LINKS_TOGETHER * 100);
	/* Who got nothing has spent nothing: 100 are there as soon as all have some. */
	limits.all = (struct md_limit){0};
	assert_true(md_host_take(host, &limits, &rate, 100, md_now()));
	while (md_limit_take(&limits.all, &rate, md_now()))
		;
	md_hosts_want(&agent.hosts, host, 0);
	for (unsigned int i = 0; i < 200; i++)
		n_root += md_host_take(host, &limits, &rate, 1, md_now());
	assert_in_range(n_root, 100, 101);
}

/* @per_second, @burst: of one account */
static void use_up(struct md_limit *all, uint32_t per_second, uint32_t burst)
{
	const struct md_rate rate = {.per_second = MD_LINKS_TOGETHER * per_second, .burst = MD_LINKS_TOGETHER * burst};

	assert_true(md_limit_take_some(all, &rate, rate.burst, md_now()));
}

/* Where users have used up all that wanted hosts have, a wanted host has no less than others on its link. */
static void test_wanted_hosts_have_share_of_link(void **state)
{
	struct md_host *host;

	(void)state;
	host = add_holder(1);
	md_hosts_want(&agent.hosts, host, VICTIM);
	use_up(&agent.msg_router.limits.wanted.all, MD_MESSAGES_ALL_RATE, MD_MESSAGES_ALL_BURST);
	use_up(&agent.tx.answers.wanted.all, MD_ANSWERS_RATE, MD_ANSWERS_BURST);
	assert_true(takes_bundle(host));
	assert_true(takes_query(host));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accounts),
		cmocka_unit_test_setup_teardown(test_all_accounts, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_wanted_hosts_have_share_of_link, setup_agent, teardown_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
