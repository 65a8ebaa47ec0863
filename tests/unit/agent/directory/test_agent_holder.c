/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The holder of a GID, where several hosts announce the GID. */
#include <stdio.h>
#include <string.h>

#include "heardhosts.h"
#include "peers.h"

static void test_first_comes_first(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	hear(2, 1, "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.3/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	assert_int_equal(holder("10.1.0.3"), 2);
	/* Host 1 drops the address: host 2 holds it. */
	hear(1, 2, "rail mlx5_0; gid 10.1.0.4/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
	assert_int_equal(holder("10.1.0.4"), 1);
}

static void test_better_evidence(void **state)
{
	(void)state;
	/* From weak to strong: an answer from afar, a beacon on another link, a beacon on the GID's own link. */
	tell(1, "rail mlx5_0; gid 10.1.0.2/24 v2;", "10.7.0.1", MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	hear(2, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
	hear(3, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 3);
	hear(4, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 3);
	/* Host 3, the holder, falls silent. */
	hear(2, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, 4 * MD_S);
	assert_true(md_hosts_expire(&hosts, MD_S + 3500 * MD_MS));
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_null(host(3));
	assert_int_equal(holder("10.1.0.2"), 2);
}

/* A host only keeps a GID while the GID's port is down: a host that has the GID, with evidence as good, becomes the holder. */
static void test_gid_in_grace(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	hear(2, 1, "rail mlx5_0; gid 10.1.0.3/24 v2;", 1, 0, MD_S);
	hear(1, 2, "rail mlx5_0 down; gid 10.1.0.2/24 grace;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	/* A host that keeps the GID, too, does not become the holder; nor does one whose beacons are not heard. */
	hear(3, 1, "rail mlx5_0; gid 10.1.0.2/24 grace;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	tell(4, "rail mlx5_0; gid 10.1.0.2/24 v2;", "10.7.0.1", MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	hear(2, 2, "rail mlx5_0; gid 10.1.0.3/24 v2; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
	/* A host that keeps the GID does not take it back from the holder. */
	hear(1, 3, "rail mlx5_0 down; gid 10.1.0.2/24 grace; gid 10.1.0.4/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
	assert_int_equal(holder("10.1.0.4"), 1);
	hear(2, 3, "rail mlx5_0; gid 10.1.0.3/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
}

static void test_own_in_grace(void **state)
{
	uint64_t until_ns[] = {MD_S};
	struct md_view *old = view;

	(void)state;
	view = peers_view("rail mlx5_0 down; gid 10.1.0.8/24 grace;");
	view->grace_until_ns = until_ns;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.8/24 grace;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.8"), -1);
	hear(2, 1, "rail mlx5_0; gid 10.1.0.8/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.8"), 2);
	md_gidmap_own(&map, view);
	assert_int_equal(holder("10.1.0.8"), 2);
	/* The address is on our port again. */
	view->grace_until_ns = NULL;
	md_gidmap_own(&map, view);
	assert_int_equal(holder("10.1.0.8"), -1);
	md_view_free(old);
}

static void test_own_are_ours(void **state)
{
	struct md_view *old = view;

	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.1/24 v2; gid fe80::1/64 v2; gid 10.1.0.9/24 v2;", 1, 0,
	     MD_S);
	assert_int_equal(holder("10.1.0.1"), -1);
	assert_int_equal(holder("fe80::1"), 1); /* each link has its own fe80::1 */
	/* We get the address that host 1 holds, and lose the address that host 1 claims. */
	view = peers_view("rail mlx5_0; gid 10.1.0.9/24 v2;");
	md_gidmap_own(&map, view);
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_int_equal(holder("10.1.0.9"), -1);
	assert_int_equal(holder("10.1.0.1"), 1);
	md_view_free(old);
}

static void test_hosts_file_decides(void **state)
{
	union ibv_gid gid = unit_gid("10.1.0.2");

	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(md_targets_add(&targets, &gid, "two"), 0);
	md_target_answered(md_targets_find(&targets, &gid), &(struct mv_host_id){0}, MD_S);
	tell(2, "rail mlx5_0; gid 10.1.0.2/24 v2;", "10.1.0.2", MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
	md_target_answered(md_targets_find(&targets, &gid), &host(2)->id, MD_S);
	tell(2, "rail mlx5_0; gid 10.1.0.2/24 v2;", "10.1.0.2", MD_S);
	assert_int_equal(holder("10.1.0.2"), 2);
}

static void test_link_local_are_shared(void **state)
{
	union ibv_gid gid = unit_gid("fe80::2");
	struct mv_host_id id = peers_id(3);

	(void)state;
	for (unsigned int n = 1; n <= MD_GID_HOSTS_MAX + 2; n++)
		hear(n, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	assert_int_equal(md_gidmap_find(&map, &gid)->n, MD_GID_HOSTS_MAX);
	assert_true(md_gidmap_holds(&map, &id, &gid));
	md_gidmap_release(&map, &id, host(3)->desc);
	assert_false(md_gidmap_holds(&map, &id, &gid));
	assert_int_equal(md_gidmap_find(&map, &gid)->n, MD_GID_HOSTS_MAX - 1);
}

/* Hosts that somebody makes up on a link do not keep the GID from a host on another link, nor for longer than they are there. */
static void test_link_local_on_other_links(void **state)
{
	union ibv_gid gid = unit_gid("fe80::2");
	unsigned int n;

	(void)state;
	for (n = 10; n < 10 + 2 * MD_GID_HOSTS_MAX; n++)
		hear(n, 1, "rail mlx5_0; gid fe80::2/64 v2;", 2, 0, MD_S);
	hear(1, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	assert_true(md_gidmap_holds(&map, &host(1)->id, &gid));
	for (n = 10; n < 10 + 3 * MD_GID_HOSTS_MAX; n++)
		hear(n, 2, "rail mlx5_0; gid fe80::2/64 v2; gid fe80::3/64 v2;", 2, 0, MD_S);
	assert_true(md_gidmap_holds(&map, &host(1)->id, &gid));
	assert_int_equal(md_gidmap_find(&map, &gid)->n, MD_GID_HOSTS_MAX);
	/* On his link one that has it comes when they go. */
	hear(2, 1, "rail mlx5_0; gid fe80::2/64 v2;", 2, 0, 4 * MD_S);
	hear(1, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, 4 * MD_S);
	assert_false(md_gidmap_holds(&map, &host(2)->id, &gid));
	md_hosts_expire(&hosts, 5 * MD_S);
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_true(md_gidmap_holds(&map, &host(2)->id, &gid));
	/* It is heard on that link, too. */
	for (n = 10; n < 10 + 2 * MD_GID_HOSTS_MAX; n++)
		hear(n, 1, "rail mlx5_0; gid fe80::5/64 v2;", 2, 0, 5 * MD_S);
	hear(3, 1, "rail mlx5_0; gid fe80::4/64 v2;", 2, 0, 5 * MD_S);
	hear(3, 1, "rail mlx5_0; gid fe80::4/64 v2;", 1, 0, 5 * MD_S);
	hear(3, 2, "rail mlx5_0; gid fe80::5/64 v2;", 2, 0, 5 * MD_S);
	gid = unit_gid("fe80::5");
	assert_true(md_gidmap_holds(&map, &host(3)->id, &gid));
}

/* The holder whose place a host on another link has taken comes back when that host goes. */
static void test_link_local_displaced(void **state)
{
	union ibv_gid gid = unit_gid("fe80::2");
	unsigned int n;

	(void)state;
	for (n = 10; n < 10 + MD_GID_HOSTS_MAX; n++)
		hear(n, 1, "rail mlx5_0; gid fe80::2/64 v2;", 2, 0, 4 * MD_S);
	md_gidmap_settle(&map, &hosts, view, &targets);
	hear(1, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	assert_true(md_gidmap_holds(&map, &host(1)->id, &gid));
	assert_false(md_gidmap_holds(&map, &host(n - 1)->id, &gid));
	md_hosts_expire(&hosts, 5 * MD_S);
	assert_null(host(1));
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_true(md_gidmap_holds(&map, &host(n - 1)->id, &gid));
}

/* Host @n signs its description from now on. */
static void vouch(unsigned int n)
{
	struct md_statement said = {.host = peers_id(n), .start = host(n)->start, .generation = host(n)->generation};
	uint8_t digest[MD_CONTENT_BYTES] = {0};
	unsigned int changed;

	memcpy(said.name, host(n)->name, sizeof(said.name));
	memcpy(said.content, host(n)->content.hash, sizeof(said.content));
	assert_int_equal(md_hosts_vouch(&hosts, host(n), &said, digest, MD_TRUST_PINNED, &changed), 0);
	md_gidmap_claim(&map, host(n), view, &targets);
}

/* Hosts that sign nothing, which may be invented, lose a link-local GID to a host that signs. */
static void test_link_local_of_one_that_signs(void **state)
{
	union ibv_gid gid = unit_gid("fe80::2");
	struct mv_host_id id = peers_id(5);
	unsigned int n;

	(void)state;
	for (n = 1; n <= MD_GID_HOSTS_MAX; n++)
		hear(n, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	hear(5, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	assert_false(md_gidmap_holds(&map, &id, &gid));
	vouch(5);
	assert_int_equal(md_gidmap_find(&map, &gid)->n, 1);
	assert_true(md_gidmap_holds(&map, &id, &gid));
	hear(6, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	assert_int_equal(md_gidmap_find(&map, &gid)->n, 1);
	/* The order of the claims does not matter. */
	md_gidmap_release(&map, &id, host(5)->desc);
	assert_null(md_gidmap_find(&map, &gid));
	md_gidmap_settle(&map, &hosts, view, &targets);
	assert_int_equal(md_gidmap_find(&map, &gid)->n, 1);
	assert_true(md_gidmap_holds(&map, &id, &gid));
}

/* A host whose key is revoked shares a link-local GID again, or leaves it to those that sign. */
static void test_link_local_of_one_that_signs_no_more(void **state)
{
	union ibv_gid gid = unit_gid("fe80::2");

	(void)state;
	for (unsigned int n = 1; n <= 3; n++)
		hear(n, 1, "rail mlx5_0; gid fe80::2/64 v2;", 1, 0, MD_S);
	vouch(1);
	vouch(2);
	assert_int_equal(md_gidmap_find(&map, &gid)->n, 2);
	for (unsigned int n = 1; n <= 2; n++) {
		md_hosts_unvouch(&hosts, host(n));
		md_gidmap_claim(&map, host(n), view, &targets);
		md_gidmap_settle(&map, &hosts, view, &targets);
		assert_int_equal(md_gidmap_find(&map, &gid)->n, n == 1 ? 1 : 3);
	}
}

/* A host that signs may be invented, and be the first to claim another host's GID. The other host takes the GID when it is heard on the GID's link
 * and signs, and keeps it. */
static void test_thief(void **state)
{
	(void)state;
	hear(6, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	vouch(6);
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 6);
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 6); /* host 1 does not sign yet: anybody on that link could claim the GID */
	vouch(1);
	assert_int_equal(holder("10.1.0.2"), 1);
	/* Host 1 keeps the GID when it is heard on another link only, and when host 6 is heard on the GID's link. */
	md_hosts_forget_net(&hosts, 1);
	hear(1, 1, "rail mlx5_0; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	hear(6, 2, "rail mlx5_0; gid 10.1.0.2/24 v2; gid 10.1.0.3/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.1.0.2"), 1);
}

/* A GID that a signing host keeps goes only to a signing host that is heard on the GID's link. */
static void test_thief_of_gid_in_grace(void **state)
{
	(void)state;
	hear(1, 1, "rail mlx5_0; gid 10.8.0.2/24 grace; gid 10.1.0.2/24 grace;", 2, 0, MD_S);
	vouch(1);
	hear(7, 1, "rail mlx5_0; gid 10.8.0.2/24 v2; gid 10.1.0.2/24 v2;", 2, 0, MD_S);
	assert_int_equal(holder("10.8.0.2"), 1);
	assert_int_equal(holder("10.1.0.2"), 1);
	hear(7, 1, "rail mlx5_0; gid 10.8.0.2/24 v2; gid 10.1.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.8.0.2"), 1);
	assert_int_equal(holder("10.1.0.2"), 1);
	vouch(7);
	assert_int_equal(holder("10.8.0.2"), 1);
	assert_int_equal(holder("10.1.0.2"), 7); /* heard where it belongs */
}

/* A host that has answered at an address beyond a router holds it, whichever other host claims it in a beacon. */
static void test_answered_is_no_hearsay(void **state)
{
	const struct mv_host_id id = peers_id(1);
	union ibv_gid gid = unit_gid("10.9.0.2");
	struct md_target *target = md_targets_use(&targets, &gid, 0, MD_S);

	(void)state;
	assert_non_null(target);
	assert_true(md_target_answered(target, &id, MD_S));
	tell(1, "rail mlx5_0; gid 10.9.0.2/24 v2;", "10.9.0.2", MD_S);
	hear(6, 1, "rail mlx5_0; gid 10.9.0.2/24 v2;", 1, 0, MD_S);
	assert_int_equal(holder("10.9.0.2"), 1);
}

/* All claims are checked anew when this host has one more link (other_ground), not when it loses one. */
static void test_ground(void **state)
{
	(void)state;
	md_gidmap_own(&map, view);
	assert_true(map.other_ground);
	map.other_ground = false;
	md_gidmap_own(&map, view);
	assert_false(map.other_ground);
	view->nets[1].running = false;
	md_gidmap_own(&map, view);
	assert_false(map.other_ground);
	view->nets[1].running = true;
	md_gidmap_own(&map, view);
	assert_true(map.other_ground);
	map.other_ground = false;
	view->onlinks[1].prefix_len++;
	md_gidmap_own(&map, view);
	assert_true(map.other_ground);
}

/* Returns whether the host's claims were worked out anew. */
static bool claims_anew(struct md_host *heard, uint64_t now_ns)
{
	const struct md_netset before = heard->claimed.on;

	md_gidmap_hear(&map, &hosts, heard, view, &targets, md_link_share(2), now_ns);
	return memcmp(&heard->claimed.on, &before, sizeof(before));
}

/* The host is heard on both links, and then on the first one again. Returns how often its claims were worked out anew. */
static unsigned int toggle(struct peer *peer, unsigned int n_times, uint64_t now_ns)
{
	unsigned int n = 0, changed;

	for (unsigned int i = 0; i < n_times; i++) {
		assert_int_equal(peers_hear(&hosts, peer, 2, 0, now_ns, &changed), 0);
		n += claims_anew(host(peer->n), now_ns);
		md_hosts_forget_net(&hosts, 2);
		n += claims_anew(host(peer->n), now_ns);
	}
	return n;
}

/* Somebody forges beacons of hosts with many GIDs on another link, now and then: rationed by that link. */
static void test_links_are_rationed(void **state)
{
	struct peer peer = {1, 1, 1, 1000, NULL}, other = {2, 1, 1, 1000, "rail mlx5_0; gid 10.1.0.7/24 v2;"};
	char *text = malloc(64 * 1024);
	const unsigned int n_gids = 1000, most = MD_NEW_GIDS_BURST / n_gids + 1;
	size_t len = (size_t)sprintf(text, "rail mlx5_0;");
	unsigned int changed;

	(void)state;
	assert_non_null(text);
	for (unsigned int g = 0; g < n_gids; g++)
		len += (size_t)sprintf(text + len, "gid 10.1.%u.%u/16 v2;", 1 + g / 250, 1 + g % 250);
	peer.text = text;
	view->number = 1;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 0, MD_S, &changed), 0);
	assert_true(md_gidmap_hear(&map, &hosts, host(1), view, &targets, md_link_share(1), MD_S));
	assert_int_equal(holder("10.1.1.1"), 1);
	assert_int_equal(toggle(&peer, 1000, MD_S), most);
	assert_int_equal(holder("10.1.4.250"), 1);
	/* Late until there is room again. */
	assert_true(host(1)->claimed.late);
	assert_true(md_gidmap_hear(&map, &hosts, host(1), view, &targets, md_link_share(2), 2 * MD_S));
	assert_false(host(1)->claimed.late);
	/* Hosts on other links are not rationed with it, nor new descriptions, nor what a change of ours requires. */
	toggle(&peer, 1000, 2 * MD_S);
	assert_int_equal(peers_hear(&hosts, &other, 2, 0, 2 * MD_S, &changed), 0);
	assert_true(md_gidmap_hear(&map, &hosts, host(2), view, &targets, md_link_share(2), 2 * MD_S));
	assert_int_equal(peers_hear(&hosts, &other, 1, 0, 2 * MD_S, &changed), 0);
	assert_true(md_gidmap_hear(&map, &hosts, host(2), view, &targets, md_link_share(1), 2 * MD_S));
	assert_false(md_gidmap_hear(&map, &hosts, host(1), view, &targets, md_link_share(2), 2 * MD_S));
	view->number++;
	assert_true(md_gidmap_hear(&map, &hosts, host(1), view, &targets, md_link_share(2), 2 * MD_S));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first_comes_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_better_evidence, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gid_in_grace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_in_grace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_own_are_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hosts_file_decides, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link_local_are_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link_local_on_other_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link_local_displaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link_local_of_one_that_signs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link_local_of_one_that_signs_no_more, setup, teardown),
		cmocka_unit_test_setup_teardown(test_thief, setup, teardown),
		cmocka_unit_test_setup_teardown(test_thief_of_gid_in_grace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answered_is_no_hearsay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_are_rationed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ground, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
