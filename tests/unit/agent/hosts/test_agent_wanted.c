/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Hosts that processes of this host want: each account has its share of what wanted hosts have. The clock is ours. */
#include "hosts_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bounds.h"
#include "hostsint.h"

#define N_GIDS	 900

enum { ROOT, MALLORY = 1000, VICTIM, OTHER };

static uint64_t now_ns;

static int setup(void **state)
{
	now_ns = MD_S;
	return table_setup(state);
}

static bool is_wanted(unsigned int n)
{
	return host(n) && md_host_is_wanted(host(n));
}

/* A beacon of host @n by netdev @ifindex. Return: was it taken? */
static bool hear(unsigned int n, uint32_t ifindex, const char *text)
{
	const struct peer peer = {n, 100, 1, 60000, text};
	unsigned int changed;

	now_ns += MD_S / 32;
	return !peers_hear(&hosts, &peer, ifindex, 0, now_ns, &changed);
}

static void want(unsigned int n, uint64_t account)
{
	md_hosts_want(&hosts, host(n), account);
}

/* A host that nobody knows yet has answered at a target that processes of the account need. */
static bool answer_to(unsigned int n, uint64_t account)
{
	const struct md_heard heard = {.sender = peers_id(n), .start = 100, .answer = true, .wanted = true, .account = account};
	const struct md_beacon beacon = {.agent_version = 1, .interval_ms = 60000, .generation = 1, .piece = MD_NO_PIECE};
	unsigned int changed;

	return !md_hosts_hear(&hosts, &heard, &beacon, now_ns, &changed);
}

static size_t n_wanted(void)
{
	size_t n = 0;

	for (const struct md_host *h = hosts.by_id; h; h = h->hh.next)
		n += md_host_is_wanted(h);
	return n;
}

/* Mallory's processes want all hosts of an accomplice, who has as many as there may be. Return: number of the last one */
static unsigned int flood(const char *text)
{
	unsigned int n = 100000;

	for (; hosts.n < MD_HOSTS_MAX && hear(n, 2, text); n++)
		want(n, MALLORY);
	return n;
}

static void test_places(void **state)
{
	const unsigned int few = 20;

	(void)state;
	for (unsigned int n = 1; n <= few; n++) {
		assert_true(hear(n, 1, ONE_RAIL));
		want(n, n % 2 ? VICTIM : ROOT);
	}
	flood(ONE_RAIL);
	assert_int_equal(hosts.n, MD_HOSTS_MAX);
	assert_in_range(n_wanted(), MD_HOSTS_MAX / 8 * 7 - few, MD_HOSTS_MAX / 8 * 7);
	for (unsigned int n = 1; n <= few; n++)
		assert_true(is_wanted(n));
	/* There is room for new hosts on other links, and for those that another account wants: Mallory wants fewer. */
	for (unsigned int n = few + 1; n <= 2 * few; n++) {
		assert_true(hear(n, 3, ONE_RAIL));
		want(n, OTHER);
		assert_true(answer_to(1000 + n, VICTIM));
	}
	for (unsigned int n = 200000; n < 200200; n++)
		if (hear(n, 2, ONE_RAIL))
			want(n, MALLORY);
	for (unsigned int n = 1; n <= 2 * few; n++)
		assert_true(is_wanted(n));
	for (unsigned int n = few + 1; n <= 2 * few; n++)
		assert_true(is_wanted(1000 + n));
	assert_in_range(n_wanted(), MD_HOSTS_MAX / 8 * 7 - 100, MD_HOSTS_MAX / 8 * 7);
}

/* The host that Mallory wanted first is the first one that he wants no more. */
static void test_oldest_first(void **state)
{
	unsigned int n = 100000, last = flood(ONE_RAIL) - 1;

	(void)state;
	assert_int_equal(n_wanted(), MD_HOSTS_MAX / 8 * 7);
	assert_false(is_wanted(n));
	while (!is_wanted(n))
		n++;
	assert_int_equal(n - 100000, MD_HOSTS_MAX / 8);
	assert_true(is_wanted(last));
	assert_true(answer_to(1, VICTIM));
	assert_false(is_wanted(n));
	assert_true(is_wanted(n + 1));
	/* What he wants again he gets at the cost of another one of his. */
	want(n, MALLORY);
	assert_true(is_wanted(n));
	assert_false(is_wanted(n + 1));
	assert_true(is_wanted(1));
}

/* A description as long as there may be. */
static const char *long_text(void)
{
	static char text[64 + N_GIDS * 32];
	int len = snprintf(text, sizeof(text), "rail mlx5_0;");

	for (unsigned int g = 0; g < N_GIDS; g++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, "gid 2001:db8::%x v2;", 1 + g);
	return text;
}

/* A sixth of the hosts take all memory. */
static void test_memory(void **state)
{
	const char *text = long_text();

	(void)state;
	for (unsigned int n = 1; n <= 10; n++) {
		assert_true(hear(n, 1, text));
		want(n, VICTIM);
	}
	flood(text);
	assert_true(hosts.n < MD_HOSTS_MAX);
	for (unsigned int n = 1; n <= 20; n++) {
		assert_true(n <= 10 ? is_wanted(n) : hear(n, 3, text));
		want(n, VICTIM);
		assert_non_null(host(n)->desc);
	}
	/* Those whose descriptions grow after they have become wanted. */
	for (unsigned int n = 30000; n < 31000; n++) {
		size_t charge = 0;

		if (answer_to(n, MALLORY))
			hear(n, 2, text);
		for (unsigned int w = 0; w < MD_WANTERS; w++)
			charge += hosts.wanters[w].list.charge;
		assert_true(charge <= MD_WANTED_BYTES);
	}
	for (unsigned int n = 1; n <= 20; n++)
		assert_true(is_wanted(n) && host(n)->desc);
	assert_true(hear(21, 3, text));
	assert_non_null(host(21)->desc);
}

/* Mallory's processes want all hosts that an accomplice invents: these count for their link, and take no places on others. */
static void test_wanted_hosts_of_a_link(void **state)
{
	const unsigned int few = 3000;
	unsigned int n;

	(void)state;
	for (n = 1; n <= few; n++)
		assert_true(hear(n, 1, ONE_RAIL));
	for (n = 100000; n < 100000 + MD_HOSTS_MAX; n++)
		if (hear(n, 2, ONE_RAIL))
			want(n, MALLORY);
	assert_int_equal(hosts.n, MD_HOSTS_MAX);
	assert_int_equal(hosts.n_forgotten, 0);
	for (n = 1; n <= few; n++)
		assert_non_null(host(n));
	/* New hosts on a third link take the places of those on the second one, and then of those on the first one. */
	while (hosts.shares[md_link_share(2)].of[0].n || hosts.shares[md_link_share(2)].of[1].n)
		md_hosts_forget(&hosts, &hosts.shares[md_link_share(2)].of[0].hosts->id);
	for (n = 200000; hosts.n < MD_HOSTS_MAX; n++)
		assert_true(hear(n, 3, ONE_RAIL));
	for (n = 1; n <= few; n++)
		assert_non_null(host(n));
}

/* A host that several accounts want is no less wanted because one of them wants too much. */
static void test_of_several(void **state)
{
	(void)state;
	for (unsigned int n = 1; n <= 4; n++) {
		assert_true(hear(n, 1, ONE_RAIL));
		want(n, n <= 2 ? MALLORY : VICTIM);
		want(n, n <= 2 ? VICTIM : MALLORY);
	}
	flood(ONE_RAIL);
	for (unsigned int n = 1; n <= 4; n++)
		assert_true(is_wanted(n));
}

/* What was not needed for a while is not wanted any more, and accounts that want nothing leave their places to others. */
static void test_idle(void **state)
{
	const unsigned int n_accounts = MD_WANTERS - 2;

	(void)state;
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int n = 1; n <= n_accounts; n++) {
			assert_true(hear(n, 1, ONE_RAIL));
			want(n, 1000 * round + n);
		}
		assert_int_equal(hosts.wanters[MD_WANTERS - 1].n, 0);
		assert_int_equal(n_wanted(), n_accounts);
		for (unsigned int look = 0; look < 3; look++) {
			assert_int_equal(n_wanted(), look < 2 ? n_accounts : 1);
			want(1, 1000 * round + 1);
			md_hosts_excuse(&hosts, 0, now_ns += MD_TARGET_IDLE_NS);
			for (unsigned int n = 1; n <= n_accounts; n++)
				assert_true(hear(n, 1, ONE_RAIL));
			md_hosts_expire(&hosts, now_ns);
		}
		md_hosts_forget(&hosts, &host(1)->id);
		assert_int_equal(n_wanted(), 0);
	}
	/* More accounts than there are places: the last ones share one. */
	for (unsigned int n = 1; n <= 3 * n_accounts; n++) {
		assert_true(hear(n, 1, ONE_RAIL));
		want(n, 10000 + n);
		assert_true(is_wanted(n));
	}
	assert_int_equal(hosts.wanters[MD_WANTERS - 1].n, 3 * n_accounts - (MD_WANTERS - 2));
}

/* What another account does not want any more is as new as any host that Mallory wanted lately. */
static void test_order_after_others(void **state)
{
	(void)state;
	for (unsigned int n = 1; n <= 2; n++)
		assert_true(hear(n, 1, ONE_RAIL));
	want(2, OTHER);
	md_hosts_expire(&hosts, now_ns);
	want(1, MALLORY);
	want(2, MALLORY);
	md_hosts_excuse(&hosts, 0, now_ns += MD_TARGET_IDLE_NS);
	for (unsigned int n = 1; n <= 2; n++)
		assert_true(hear(n, 1, ONE_RAIL));
	md_hosts_expire(&hosts, now_ns);
	assert_int_equal(__builtin_popcount(md_host_wanters(host(2))), 1);
	for (unsigned int n = 100000; is_wanted(1) && is_wanted(2); n++) {
		assert_true(hear(n, 2, ONE_RAIL));
		want(n, MALLORY);
	}
	assert_false(is_wanted(1));
	assert_true(is_wanted(2));
}

/* Pieces of descriptions of hosts that Mallory wants: those of other accounts' hosts are put together all the same. */
static void test_pieces(void **state)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_beacon beacon = {.agent_version = 1, .interval_ms = 60000, .generation = 1};
	struct md_heard heard = {.start = 100, .answer = true, .wanted = true};
	char text[8192] = "rail mlx5_0;";
	struct md_desc *desc;
	unsigned int changed;

	(void)state;
	for (int i = 0; i < 240; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "gid 10.0.0.%d/24 v2;", i + 1);
	desc = peers_desc(text);
	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	free(desc);
	for (uint8_t piece = 0; piece < md_beacon_pieces(beacon.desc_bytes); piece++) {
		md_beacon_cut(&beacon, bytes, piece);
		heard.sender = peers_id(1);
		heard.account = VICTIM;
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, now_ns, &changed), 0);
		md_beacon_cut(&beacon, bytes, 0);
		/* Many accounts have not more than so much together. */
		for (unsigned int i = 0; i < 2000; i++) {
			heard.sender = peers_id(1000 + i);
			heard.account = MALLORY + (piece ? 2 + i % 8 : 0);
			assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, now_ns, &changed), 0);
		}
		now_ns += MD_S;
	}
	assert_non_null(host(1)->desc);
	for (unsigned int w = 0, bytes_of_all = 0; w < MD_WANTERS; w++) {
		unsigned int bytes_of_one = 0;

		for (unsigned int share = 0; share < MD_HOSTS_SHARES; share++)
			bytes_of_one += hosts.wanters[w].partials[share].bytes;
		assert_true(bytes_of_one <= MD_PARTIAL_BYTES);
		bytes_of_all += bytes_of_one;
		assert_true(bytes_of_all <= MD_PARTIAL_BYTES_WANTED);
	}
}

/* Somebody on netdev 2 sends first pieces in the names of hosts that the victim wants, too: those on netdev 1 are learnt. */
static void test_pieces_on_another_link(void **state)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_beacon beacon = {.agent_version = 1, .interval_ms = 60000, .generation = 2};
	struct md_heard heard = {.start = 100};
	char text[8192] = "rail mlx5_0;";
	struct md_desc *desc;
	unsigned int changed;

	(void)state;
	for (unsigned int n = 1; n <= 1000; n++) {
		assert_true(hear(n, 1, ONE_RAIL));
		want(n, VICTIM);
	}
	for (int i = 0; i < 240; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "gid 10.0.0.%d/24 v2;", i + 1);
	desc = peers_desc(text);
	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	free(desc);
	for (uint8_t piece = 0; piece < md_beacon_pieces(beacon.desc_bytes); piece++) {
		md_beacon_cut(&beacon, bytes, piece);
		heard.sender = peers_id(1);
		heard.ifindex = 1;
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, now_ns, &changed), 0);
		md_beacon_cut(&beacon, bytes, 0);
		heard.ifindex = 2;
		for (unsigned int n = 2; n <= 1000; n++) {
			heard.sender = peers_id(n);
			md_hosts_hear(&hosts, &heard, &beacon, now_ns, &changed);
		}
	}
	assert_int_equal(host(1)->generation, 2);
}

/* ---- hosts that sign -------------------------------------------------------------------------- */

static void sign(unsigned int n)
{
	const uint8_t digest[MD_CONTENT_BYTES] = {0};
	struct md_statement said = {.host = host(n)->id, .start = 100, .generation = 1};
	unsigned int changed;

	memcpy(said.name, host(n)->name, sizeof(said.name));
	memcpy(said.content, host(n)->content.hash, sizeof(said.content));
	assert_int_equal(md_hosts_vouch(&hosts, host(n), &said, digest, MD_TRUST_PINNED, &changed), 0);
}

/* Somebody invents hosts on netdev 2. The newest ones sign: hosts on other links take the places of the others. */
static void test_signed_shield_nobody(void **state)
{
	unsigned int n = 100000;

	(void)state;
	for (; hosts.n < MD_HOSTS_MAX; n++) {
		assert_true(hear(n, 2, ONE_RAIL));
		if (hosts.n > MD_HOSTS_MAX - 1000)
			sign(n);
	}
	for (unsigned int i = 1; i <= 100; i++)
		assert_true(hear(i, 1, ONE_RAIL));
	assert_int_equal(hosts.n_forgotten, 100);
	assert_non_null(host(n - 1));
	assert_null(host(n - 1001));
	/* One whose key is not taken for his any more. */
	md_hosts_unvouch(&hosts, host(n - 1));
	assert_true(hear(101, 1, ONE_RAIL));
	assert_null(host(n - 1));
}

/* A host that nobody wants any more is as old as before: of those invented since, the newest makes room. */
static void test_wanted_no_more(void **state)
{
	unsigned int n;

	(void)state;
	assert_true(hear(1, 2, ONE_RAIL));
	assert_true(hear(2, 2, ONE_RAIL));
	want(1, VICTIM);
	for (n = 100000; hosts.n < MD_HOSTS_MAX; n++)
		assert_true(hear(n, 2, ONE_RAIL));
	for (unsigned int i = 0; i < 3; i++) {
		now_ns += MD_TARGET_IDLE_NS;
		md_hosts_forget_wants(&hosts, now_ns);
	}
	assert_false(is_wanted(1));
	for (unsigned int i = 0; i < 10; i++)
		assert_true(hear(1000 + i, 1, ONE_RAIL));
	assert_non_null(host(1));
	assert_non_null(host(2));
	assert_null(host(n - 1));
}

/* Hosts that somebody invents, and that all sign: an eighth of the table is left to others. */
static void test_signed_leave_room(void **state)
{
	unsigned int n, n_taken = 0;

	(void)state;
	for (n = 100000; hosts.n < MD_HOSTS_MAX; n++) {
		assert_true(hear(n, 2, ONE_RAIL));
		sign(n);
	}
	for (n = 1; n <= MD_HOSTS_MAX / 4; n++)
		n_taken += hear(n, 1, ONE_RAIL);
	assert_int_equal(n_taken, MD_HOSTS_MAX / 8);
	assert_true(answer_to(n, VICTIM));
}

/* Of hosts that somebody invents on netdev 2, half sign: both halves count. */
static void test_half_signed(void **state)
{
	const unsigned int few = MD_HOSTS_MAX / 3;
	unsigned int n, n_taken = 0;

	(void)state;
	for (n = 1; n <= few; n++)
		assert_true(hear(n, 1, ONE_RAIL));
	for (n = 100000; hosts.n < MD_HOSTS_MAX; n++) {
		assert_true(hear(n, 2, ONE_RAIL));
		if (n % 2)
			sign(n);
	}
	for (n = few + 1; n <= MD_HOSTS_MAX; n++)
		n_taken += hear(n, 1, ONE_RAIL);
	assert_in_range(few + n_taken, MD_HOSTS_MAX / 2 - 1, MD_HOSTS_MAX / 2);
}

/* Return: was the description of host @n, which signs, taken? */
static bool hear_signed(unsigned int n, const char *text)
{
	const struct peer peer = {n, 100, 2, 60000, text};
	const uint8_t digest[MD_CONTENT_BYTES] = {0};
	struct md_statement said = {.start = 100, .generation = 2};
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(text);
	size_t len = md_desc_encode(desc, bytes);
	unsigned int changed;

	free(desc);
	if (!hear(n, 2, ONE_RAIL))
		return false;
	said.host = host(n)->id;
	memcpy(said.name, host(n)->name, sizeof(said.name));
	md_statement_content(host(n)->name, host(n)->agent_version, bytes, len, said.content);
	assert_int_equal(md_hosts_vouch(&hosts, host(n), &said, digest, MD_TRUST_PINNED, &changed), 0);
	return !peers_hear(&hosts, &peer, 2, 0, now_ns, &changed);
}

/* Hosts that sign use memory that others may not have, too: others take none of it until an eighth of all is left. */
static void test_signed_memory(void **state)
{
	const char *text = long_text();
	unsigned int n = 100000, last;
	size_t each;

	(void)state;
	while (hosts.bytes < MD_HOSTS_BYTES_UNSIGNED / 4 * 5)
		assert_true(hear_signed(n++, text));
	assert_true(hear(1, 1, text));
	each = md_desc_bytes(host(1)->desc);
	while (hear_signed(n, text))
		n++;
	assert_int_equal(hosts.n_forgotten, 0);
	assert_int_equal(hosts.n_refused, 1);
	for (last = 2; hear(last, 1, text); last++)
		assert_true(hosts.bytes <= MD_HOSTS_BYTES_MAX);
	assert_in_range(last * each, MD_HOSTS_BYTES_MAX / 8 - 2 * each, MD_HOSTS_BYTES_MAX / 8 + 2 * each);
	assert_in_range(hosts.n_forgotten, last - 5, last);
	/* One that a process wants. */
	n = (unsigned int)hosts.n_forgotten;
	assert_true(answer_to(20000, VICTIM));
	assert_true(hear(20000, 3, text));
	assert_non_null(host(20000)->desc);
	assert_in_range(hosts.n_forgotten, n, n + 2);
	/* Nor does one take more than it needs where all those sign no more. */
	for (struct md_host *h = hosts.by_id; h; h = h->hh.next)
		if (md_host_is_vouched(h))
			md_hosts_unvouch(&hosts, h);
	n = (unsigned int)hosts.n_forgotten;
	assert_true(answer_to(20001, VICTIM));
	assert_true(hear(20001, 3, text));
	assert_non_null(host(20001)->desc);
	assert_in_range(hosts.n_forgotten, n, n + 2);
}

/* A long description takes the places of many short ones. */
static void test_long_for_short(void **state)
{
	const char *text = long_text();
	unsigned int n = 100000;

	(void)state;
	while (hear(n, 2, text))
		n++;
	for (unsigned int i = 0; i < 2; i++)
		md_hosts_forget(&hosts, &host(100000 + i)->id);
	while (hear(++n, 2, ONE_RAIL))
		;
	assert_int_equal(hosts.n_forgotten, 0);
	assert_true(hear(1, 1, text));
	assert_non_null(host(1)->desc);
	assert_in_range(hosts.n_forgotten, 65, 1000);
}

/* ... or of none, where those that could give way are too few: of a signed host the memory is no use to an unsigned one. */
static void test_too_few_give_way(void **state)
{
	struct md_hosts_total *filled = &hosts.shares[0].all[0];
	const char *text = long_text();

	(void)state;
	assert_true(hear(100, 2, text));
	for (unsigned int n = 101; n <= 110; n++)
		assert_true(hear(n, 2, ONE_RAIL));
	for (unsigned int round = 0; round < 2; round++) {
		filled->bytes = MD_HOSTS_BYTES_UNSIGNED - hosts.shares[md_link_share(2)].all[0].bytes;
		hosts.bytes += filled->bytes;
		assert_false(hear(1, 1, text));
		assert_int_equal(hosts.n_forgotten, 0);
		hosts.bytes -= filled->bytes;
		filled->bytes = 0;
		sign(100);
		want(1, VICTIM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_places, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_oldest_first, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_memory, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_of_several, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_idle, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_pieces, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_pieces_on_another_link, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_signed_shield_nobody, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_wanted_no_more, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_signed_leave_room, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_wanted_hosts_of_a_link, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_half_signed, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_signed_memory, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_long_for_short, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_too_few_give_way, setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_order_after_others, setup, table_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
