/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which hosts are asked for their keys when there are many of them, and which statements are looked at. */
#include "oneagent.h"

#include <string.h>

#include "hostsint.h"

/* Invented hosts on one link all have to be asked for their keys. Those on another one, or that a process wants, are asked meanwhile. */
static void test_questions_for_keys_on_another_link(void **state)
{
	struct md_host *other, *wanted;

	(void)state;
	agent.trust.on = true;
	for (unsigned int n = 10; n < 1000; n++)
		add_host(n);
	other = add_host(1);
	other->sightings.list[0].ifindex = 2;
	wanted = add_host(2);
	md_hosts_want(&agent.hosts, wanted, 0);
	for (uint64_t now_ns = MD_S; now_ns < 3 * MD_S; now_ns += MD_S / 4)
		md_trust_look_hosts(&agent, now_ns);
	assert_true(other->asking.n_asked);
	assert_true(wanted->asking.n_asked);
	/* Of him no more than so many. */
	{
		const struct md_host *host;
		unsigned int n_asked = 0;

		for (host = agent.hosts.by_id; host; host = host->hh.next)
			n_asked += host->asking.n_asked;
		assert_in_range(n_asked, 4 * 24, 2 * 4 * 32);
	}
}

/* Many hosts on one link that never answer: a newer one is asked all the same; and one that keeps silent, among many newer ones. */
static void check_silent(bool many)
{
	struct md_host *last;

	begin_agent();
	agent.trust.on = true;
	for (unsigned int n = 10; n < 10010; n++) {
		struct md_host *host = add_host(n);

		agent.hosts.shares[md_link_share(1)].room_at_ns = 0;
		host->asking.n_asked = many ? 6 : 0;
		host->asking.not_before_ns = 1;
	}
	last = add_host(1);
	last->asking.n_asked = many ? 0 : 6;
	for (uint64_t now_ns = MD_S; now_ns < 100 * MD_S; now_ns += MD_S / 4)
		md_trust_look_hosts(&agent, now_ns);
	assert_true(last->asking.not_before_ns > MD_S + MD_S);
	end_agent();
}

static void test_silent_hosts_delay_none(void **state)
{
	(void)state;
	check_silent(true);
	check_silent(false);
}

/* A host that answers nothing for minutes, for its clock was set back, is still asked then: seldom, and not less. */
static void test_questions_for_keys_do_not_end(void **state)
{
	uint64_t asked_ns = 0, now_ns = MD_S;
	unsigned int n = 0;
	struct md_host *host;

	(void)state;
	agent.trust.on = true;
	host = add_host(1);
	for (; now_ns < 600 * MD_S; now_ns += MD_S / 4) {
		uint64_t before = host->asking.not_before_ns;

		md_unproven_came(host, 20); /* a beacon */
		md_trust_look_hosts(&agent, now_ns);
		if (host->asking.not_before_ns == before)
			continue;
		n++;
		asked_ns = now_ns;
	}
	assert_in_range(n, 10, 20);
	assert_true(now_ns - asked_ns <= 64 * MD_S);
}

/* Statements that nobody has signed, from everywhere on one link. */
static void test_statements_of_another_link(void **state)
{
	struct md_statement said = {.start = 1, .generation = 1, .name = "host1"};
	struct md_opened opened = {.kind = MD_KIND_IDENTITY, .start = 1, .on_link = true};
	struct md_received received = {.ifindex = 1};
	struct md_identity identity;

	(void)state;
	agent.trust.on = true;
	said.host = opened.sender = add_host(1)->id;
	assert_int_equal(md_identity_make(&identity), 0);
	opened.payload_len = md_statement_sign(&said, &identity, opened.payload);
	received.ip.s6_addr[10] = received.ip.s6_addr[11] = 0xff;
	opened.payload[opened.payload_len - 1] ^= 1;
	for (uint32_t i = 0; !agent.trust.count.throttled || i < 64 * 1024; i++) {
		memcpy(&received.ip.s6_addr[12], &i, sizeof(i));
		opened.payload[opened.payload_len - 2]++;
		md_trust_statement(&agent, &received, &opened, MD_S);
	}
	opened.payload[opened.payload_len - 1] ^= 2;
	for (uint32_t ifindex = 2; ifindex < 2 + 16; ifindex++) {
		uint64_t rejected = agent.trust.count.rejected;

		received.ifindex = ifindex;
		md_trust_statement(&agent, &received, &opened, MD_S);
		assert_int_equal(agent.trust.count.rejected, rejected + 1);
	}
	/* Beyond a router. */
	received.ifindex = 1;
	opened.on_link = false;
	said.start = agent.trust.count.rejected;
	md_trust_statement(&agent, &received, &opened, MD_S);
	assert_int_equal(agent.trust.count.rejected, said.start + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_questions_for_keys_on_another_link, setup_agent, teardown_agent),
		cmocka_unit_test(test_silent_hosts_delay_none),
		cmocka_unit_test_setup_teardown(test_questions_for_keys_do_not_end, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_statements_of_another_link, setup_agent, teardown_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
