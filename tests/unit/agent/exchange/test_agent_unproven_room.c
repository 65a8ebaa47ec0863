/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What goes to addresses that have shown no cookie, while the send buffer has little room. */
#include "forged.h"

#include <string.h>

#include "peers.h"

/* Datagrams of all kinds in the names of hosts that are not there, each from an address of its own, by a link. */
static size_t n_sent_to_forged(uint32_t ifindex, uint32_t first)
{
	size_t before = sent.n;

	arrives_on = ifindex;
	for (uint32_t i = first; i < first + 300; i++) {
		arrive(MD_KIND_QUERY, i, i, false, NULL, 0);
		arrive(MD_KIND_PROBE, i, i, false, NULL, 0);
		beacon(i, i, NULL);
		beacon(i, i, DESC);
		statement(2, i, true, false);
	}
	arrives_on = NET;
	return sent.n - before;
}

static bool is_asked(struct md_target_user *by, uint64_t answered_ns)
{
	const struct md_target target = {.gid = unit_gid("10.9.0.1"), .answered_ns = answered_ns, .payer = by};
	size_t before = sent.n;

	md_tx_ask(&agent, &target);
	return sent.n > before;
}

/*
 * Where nobody has an address, the kernel keeps what is sent there for seconds. Whoever forges such addresses does not fill
 * the send buffer, which beacons need, and takes nothing from other links.
 */
static void test_little_room(void **state)
{
	struct md_target_user mallory = {.account = 1}, victim = {.account = 2};

	(void)state;
	begin("h", 1);
	use_two_links();
	beacon(2, 2, DESC);
	assert_true(n_sent_to_forged(NET, 1000) > 10 * MD_SCARCE_UNPROVEN);
	assert_true(is_asked(&mallory, 0));
	waiting_pct = MD_SCARCE_PERCENT;
	assert_int_equal(n_sent_to_forged(NET, 2000), MD_SCARCE_UNPROVEN);
	assert_int_equal(n_sent_to_forged(NET + 1, 3000), MD_SCARCE_UNPROVEN);
	/* Nor do questions of one account take anything from those of another. */
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(is_asked(&mallory, 0), i < MD_SCARCE_UNPROVEN);
	assert_true(is_asked(&victim, 0));
	waiting_pct = MD_SCARCEST_PERCENT;
	clock_ns += MD_S;
	assert_int_equal(n_sent_to_forged(NET, 4000), 0);
	assert_false(is_asked(&mallory, 0));
	assert_true(is_asked(&mallory, clock_ns));
	end();
}

static bool is_challenged(unsigned int n, uint32_t at)
{
	size_t before = sent.of_kind[MD_KIND_CHALLENGE];

	arrive(MD_KIND_QUERY, n, at, false, NULL, 0);
	return sent.of_kind[MD_KIND_CHALLENGE] > before;
}

/* While a netdev is stuck, hosts that processes work with move to other links: forged addresses there keep none out. */
static void test_little_room_for_wanted_hosts(void **state)
{
	const struct mv_host_id id = peers_id(2);
	unsigned int n = 0;

	(void)state;
	begin("h", 1);
	beacon(2, 2, DESC);
	beacon(3, 3, DESC);
	md_hosts_want(&agent.hosts, md_hosts_find(&agent.hosts, &id), 1);
	waiting_pct = MD_SCARCE_PERCENT;
	n_sent_to_forged(NET, 1000);
	assert_false(is_challenged(3, 3));
	assert_false(is_challenged(2, 5));
	for (unsigned int i = 0; i < 2 * MD_SCARCE_UNPROVEN; i++)
		n += is_challenged(2, 2);
	/* It was asked for its key, too. */
	assert_in_range(n, MD_SCARCE_UNPROVEN / 2, MD_SCARCE_UNPROVEN);
	end();
}

/* Greetings that the link's own limit refuses take nothing. */
static void test_little_room_for_refused(void **state)
{
	(void)state;
	begin("h", 300);
	for (uint32_t i = 0; i < MD_GREETINGS_BURST + 100; i++) {
		const struct in6_addr ip = address(i);

		if (i == MD_GREETINGS_BURST)
			waiting_pct = MD_SCARCE_PERCENT;
		md_tx_greet(&agent, &ip, NET, 1000, clock_ns);
	}
	assert_true(is_challenged(2, 2));
	end();
}

/* With a fleet key, who challenges us has shown our cookie. The proof never waits. */
static void test_little_room_for_proofs(void **state)
{
	const struct md_keys keys = {.n = 1};
	const struct in6_addr them = address(7), us = address(0xffff);
	const struct md_addr from = md_tx_addr(&us, 0, NET);
	struct md_opened opened;

	(void)state;
	begin("h", 1);
	md_secure_reload(agent.secure, &keys);
	md_secure_reload(forger, &keys);
	md_tx_query(&agent, &them, NET);
	assert_int_equal(md_open(forger, sent.last, sent.last_len, &from, 255, clock_ns, &opened), MD_OPEN_UNPROVEN);
	next = (struct md_received){.ip = them, .to = us, .ifindex = NET, .hop_limit = 255, .len = opened.reply_len};
	memcpy(next.bytes, opened.reply, opened.reply_len);
	waiting_pct = MD_SCARCEST_PERCENT;
	is_next = true;
	md_rx_drain(&agent);
	assert_int_equal(sent.of_kind[MD_KIND_PROOF], 1);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_little_room),
		cmocka_unit_test(test_little_room_for_wanted_hosts),
		cmocka_unit_test(test_little_room_for_refused),
		cmocka_unit_test(test_little_room_for_proofs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
