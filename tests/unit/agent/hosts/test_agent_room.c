/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How many hosts, changes and GIDs, and how much memory, the table takes of which link. The clock is ours. */
#include "hosts_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Without a key anybody may say what he likes of a host: not as often as he likes. The last word is taken in the end. */
static void test_changes_are_rationed(void **state)
{
	struct peer peer = {1, 100, 1, 1000, ONE_RAIL};
	unsigned int changed, n_taken = 0;

	(void)state;
	for (unsigned int i = 0; i < 1000; i++) {
		peer.generation++;
		peer.text = i % 2 ? ONE_RAIL : "rail mlx5_0 down; gid 10.1.0.2/24 v2;";
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S + i * MD_MS, &changed), 0);
		n_taken += (changed & MD_CHANGED_DESC) != 0;
	}
	/* The first one is no change. */
	assert_in_range(n_taken, MD_CHANGES_BURST + 1, MD_CHANGES_BURST + 1 + MD_CHANGES_RATE);
	assert_int_equal(hosts.n_held_back, 1000 - n_taken);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S + MD_S / MD_CHANGES_RATE, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_DESC);
	assert_int_equal(host(1)->generation, peer.generation);
}

static void count_leaving(void *arg, const struct md_host *host)
{
	(void)arg;
	(void)host;
	n_left++;
}

#define N_GIDS 1000

/* One rail with that many GIDs, all of them this host's. */
static char *many_gids(unsigned int n, bool up)
{
	static char text[64 + N_GIDS * 32];
	int len = snprintf(text, sizeof(text), "rail mlx5_0%s;", up ? "" : " down");

	for (unsigned int g = 0; g < N_GIDS; g++)
		len += snprintf(text + len, sizeof(text) - (size_t)len, "gid 2001:db8:%x::%x v2;", n, 1 + g);
	return text;
}

/* Whoever lists a thousand GIDs in each beacon takes no more time than that: hosts made up, or one that changes. Ports are not in their way. */
static void test_gids_are_rationed(void **state)
{
	struct peer peer = {1, 100, 1, 60000, NULL};
	const unsigned int most = MD_NEW_GIDS_BURST / N_GIDS + 1;
	unsigned int changed, n_taken = 0;
	uint64_t held_back;

	(void)state;
	hosts.leaving = count_leaving;
	n_left = 0;
	for (peer.n = 1; peer.n < most + 20; peer.n++) {
		peer.text = many_gids(peer.n, true);
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
		n_taken += (changed & MD_CHANGED_DESC) != 0;
	}
	assert_int_equal(n_taken, most);
	held_back = hosts.n_held_back;
	assert_int_not_equal(held_back, 0);
	/* A port of one of them goes: nobody has to look who holds its GIDs. */
	peer.n = 1;
	peer.generation = 2;
	peer.text = many_gids(1, false);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_int_equal(changed, MD_CHANGED_DESC | MD_CHANGED_DOWN);
	assert_int_equal(n_left, 0);
	assert_int_equal(hosts.n_held_back, held_back);
	peer.generation = 3;
	peer.text = many_gids(200, false);
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_int_equal(changed & MD_CHANGED_DESC, 0);
	assert_int_equal(n_left, 0);
	/* Nor is who is heard on another link kept waiting. */
	peer.n = most + 20;
	assert_int_equal(peers_hear(&hosts, &peer, 2, 0, MD_S, &changed), 0);
	assert_int_equal(changed & MD_CHANGED_DESC, MD_CHANGED_DESC);
	peer.n = 1;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	assert_int_equal(changed & MD_CHANGED_DESC, MD_CHANGED_DESC);
	assert_int_equal(n_left, 1);
}

static void test_limits(void **state)
{
	struct peer peer = {0, 100, 1, 60000, ONE_RAIL};
	unsigned int changed, refused = 0;

	(void)state;
	/* A flood of new hosts is cut at the burst, ... */
	for (unsigned int i = 1; i <= MD_NEW_HOSTS_BURST + 100; i++) {
		peer.n = i;
		refused += peers_hear(&hosts, &peer, 1, 0, MD_S, &changed) == -ENOSPC;
	}
	assert_int_equal(refused, 100);
	assert_int_equal(hosts.n, MD_NEW_HOSTS_BURST);
	/* ... known ones go on being heard, ... */
	peer.n = 1;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	/* ... and a second later there is room for some. */
	peer.n = MD_NEW_HOSTS_BURST + 200;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2 * MD_S, &changed), 0);
	for (unsigned int i = 0; hosts.n < MD_HOSTS_MAX; i++) {
		peer.n = 100000 + i;
		peers_hear(&hosts, &peer, 1, 0, (2 + i) * MD_S / 100, &changed);
	}
	peer.n = 99999;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 1000 * MD_S, &changed), -ENOSPC);
	assert_int_equal(hosts.n, MD_HOSTS_MAX);
}

/* Somebody makes up hosts on netdev 2, as many as there may be: new ones on netdev 1 take their places, and keep them. */
static void test_room_on_other_links(void **state)
{
	struct peer peer = {0, 100, 1, 60000, ONE_RAIL};
	struct peer invented = {0, 100, 1, 60000, ONE_RAIL}, wanted = {2, 100, 1, 60000, ONE_RAIL};
	unsigned int changed;

	(void)state;
	for (invented.n = 100000; invented.n < 100000 + MD_NEW_HOSTS_BURST + 1; invented.n++)
		peers_hear(&hosts, &invented, 2, 0, MD_S, &changed);
	/* No tokens for him, but for others. */
	peer.n = 1;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	for (; hosts.n < MD_HOSTS_MAX - 1; invented.n++)
		peers_hear(&hosts, &invented, 2, 0, invented.n * MD_S / 100, &changed);
	assert_int_equal(peers_hear(&hosts, &wanted, 2, 0, 2000 * MD_S, &changed), 0);
	md_hosts_want(&hosts, md_hosts_find(&hosts, &host(2)->id), 0);
	assert_int_equal(peers_hear(&hosts, &invented, 2, 0, 2000 * MD_S, &changed), -ENOSPC);
	n_left = 0;
	for (peer.n = 10; peer.n < 110; peer.n++)
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, 2000 * MD_S, &changed), 0);
	assert_int_equal(hosts.n, MD_HOSTS_MAX);
	assert_int_equal(n_left, 100);
	assert_int_equal(hosts.n_forgotten, 100);
	assert_non_null(host(1));
	assert_non_null(host(2)); /* although it was the newest */
	for (unsigned int i = 0; i < 1000; i++, invented.n++)
		assert_int_equal(peers_hear(&hosts, &invented, 2, 0, (2000 + i) * MD_S, &changed), -ENOSPC);
	for (peer.n = 10; peer.n < 110; peer.n++)
		assert_non_null(host(peer.n));
	/* Two links with as many hosts push nobody out. */
	for (; peer.n < 2 * MD_HOSTS_MAX; peer.n++)
		if (peers_hear(&hosts, &peer, 1, 0, (3000 + peer.n) * MD_S, &changed))
			break;
	assert_in_range(peer.n, MD_HOSTS_MAX / 2, MD_HOSTS_MAX / 2 + 10);
	assert_int_equal(hosts.n, MD_HOSTS_MAX);
}

/* The host signs from now on. */
static void sign(unsigned int n)
{
	const uint8_t digest[MD_CONTENT_BYTES] = {0};
	struct md_host *known = md_hosts_find(&hosts, &host(n)->id);
	struct md_statement said = {.host = known->id, .start = 100, .generation = 1};
	unsigned int changed;

	memcpy(said.name, known->name, sizeof(said.name));
	memcpy(said.content, known->content.hash, sizeof(said.content));
	assert_int_equal(md_hosts_vouch(&hosts, known, &said, digest, MD_TRUST_PINNED, &changed), 0);
}

/* Hosts that sign keep their places, though there are more of them on netdev 1 than hosts that somebody makes up on netdev 2. */
static void test_signed_keep_their_places(void **state)
{
	struct peer peer = {1, 100, 1, 60000, ONE_RAIL}, invented = {100000, 100, 1, 60000, ONE_RAIL};
	const unsigned int n_signed = MD_HOSTS_MAX / 8 * 5;
	unsigned int changed;

	(void)state;
	for (; peer.n <= n_signed; peer.n++) {
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, peer.n * MD_S / 100, &changed), 0);
		sign(peer.n);
	}
	for (; hosts.n < MD_HOSTS_MAX; invented.n++)
		peers_hear(&hosts, &invented, 2, 0, invented.n * MD_S / 100, &changed);
	n_left = 0;
	for (unsigned int i = 0; i < 1000; i++, invented.n++)
		assert_int_equal(peers_hear(&hosts, &invented, 2, 0, (2000 + i) * MD_S, &changed), -ENOSPC);
	assert_int_equal(n_left, 0);
	assert_int_equal(hosts.n_forgotten, 0);
}

/* ... with descriptions as long as there may be. */
static void test_memory_on_other_links(void **state)
{
	struct peer peer = {1, 100, 1, 60000, NULL}, invented = {1000, 100, 1, 60000, NULL};
	uint64_t now_ns = MD_S;
	unsigned int changed;

	(void)state;
	do {
		invented.text = many_gids(++invented.n, true);
		now_ns += MD_S / 32;
	} while (!peers_hear(&hosts, &invented, 2, 0, now_ns, &changed));
	assert_true(hosts.bytes <= MD_HOSTS_BYTES_UNSIGNED);
	assert_int_equal(hosts.n_refused, 1);
	for (; peer.n <= 10; peer.n++) {
		peer.text = many_gids(peer.n, true);
		assert_int_equal(peers_hear(&hosts, &peer, 1, 0, now_ns, &changed), 0);
		assert_non_null(host(peer.n)->desc);
		assert_true(hosts.bytes <= MD_HOSTS_BYTES_UNSIGNED);
	}
	assert_int_equal(peers_hear(&hosts, &invented, 2, 0, now_ns, &changed), -ENOSPC);
	for (peer.n = 1; peer.n <= 10; peer.n++)
		assert_non_null(host(peer.n)->desc);
	/* One that a process wants is taken there as well. */
	md_hosts_want(&hosts, md_hosts_find(&hosts, &host(invented.n)->id), 0);
	assert_int_equal(peers_hear(&hosts, &invented, 2, 0, now_ns, &changed), 0);
	assert_non_null(host(invented.n)->desc);
}

/* Hosts that somebody makes up leave memory for those that sign, and for changes of those that are known. */
static void test_memory(void **state)
{
	struct peer known = {1, 100, 1, 1000, ONE_RAIL}, new = {2, 100, 1, 1000, ONE_RAIL};
	const uint8_t digest[MD_CONTENT_BYTES] = {0};
	struct md_statement said = {.start = 100, .generation = 1};
	const size_t filled = MD_HOSTS_BYTES_UNSIGNED - 8;
	size_t bytes;
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &new, 1, 0, MD_S, &changed), 0);
	said.host = host(2)->id;
	memcpy(said.name, host(2)->name, sizeof(said.name));
	memcpy(said.content, host(2)->content.hash, sizeof(said.content));
	md_hosts_fini(&hosts);
	assert_int_equal(peers_hear(&hosts, &known, 1, 0, MD_S, &changed), 0);
	bytes = hosts.bytes;
	hosts.bytes += filled - bytes;
	hosts.shares[0].all[0].bytes += filled - bytes;
	assert_int_equal(peers_hear(&hosts, &new, 1, 0, MD_S, &changed), -ENOSPC);
	assert_int_equal(hosts.n_refused, 1);
	assert_null(host(2)->desc);
	known.generation++;
	known.text = "rail mlx5_0 down; gid 10.1.0.2/24 v2;";
	assert_int_equal(peers_hear(&hosts, &known, 1, 0, MD_S, &changed), 0);
	assert_int_equal(md_desc_n_up(host(1)->desc), 0);
	assert_int_equal(hosts.bytes, filled);
	assert_int_equal(md_hosts_vouch(&hosts, md_hosts_find(&hosts, &said.host), &said, digest, MD_TRUST_PINNED, &changed), 0);
	assert_int_equal(peers_hear(&hosts, &new, 1, 0, MD_S, &changed), 0);
	assert_non_null(host(2)->desc);
	hosts.bytes -= filled - bytes;
	hosts.shares[0].all[0].bytes -= filled - bytes;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_changes_are_rationed, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_gids_are_rationed, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_limits, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_room_on_other_links, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_signed_keep_their_places, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_memory_on_other_links, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_memory, table_setup, table_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
