/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A snapshot that follows what a real kernel tells of changes, against a dump: after each of many random changes both say the
 * same. In a network namespace of its own; exits with 77 where none can be made.
 *
 *     test_netns_follow [seed [rounds]]
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netns.h"
#include "random.h"
#include "topo_netlink.h"

#define N_PAIRS 3
/* A carrier is told of up to a second late (net/core/link_watch.c), and an IPv6 address is checked for as long or two. */
#define PATIENCE_MS 60000

static struct mv_netlink following, dumping;
static struct mv_topo followed, dumped;
static unsigned int rounds = 40;

static const char *const addrs[] = {
	"10.1.0.1/24", "10.1.0.2/24", "10.1.0.3/24", "10.1.0.1/16", "10.2.0.1/24", "10.9.0.1 peer 10.9.7.1/30", "10.9.0.1 peer 10.9.8.1/30",
	"10.9.0.1/32", "2001:db8:1::1/64", "2001:db8:1::2/64 nodad", "2001:db8:1::3/64 nodad", "2001:db8:2::1/48 nodad",
	"fe80::77/64 nodad", "2001:db8:1::1/64 nodad", "2001:db8:9::1 peer 2001:db8:9::2/128 nodad",
};

/* One end of a pair. */
static const char *end(void)
{
	static char name[8];

	snprintf(name, sizeof(name), "%c%u", chance(50) ? 'v' : 'w', rnd(N_PAIRS));
	return name;
}

static void random_change(FILE *to)
{
	unsigned int pair = rnd(N_PAIRS);

	switch (rnd(18)) {
	case 0:
		fprintf(to, "link del %s\n", end());
		break;
	case 1:
	case 2:
		fprintf(to, "link add v%u type veth peer name w%u\n", pair, pair);
		break;
	case 3:
	case 4:
		fprintf(to, "link set %s up\n", end());
		break;
	case 5:
		fprintf(to, "link set %s down\n", end());
		break;
	case 6:
		fprintf(to, "link set %s mtu %u\n", end(), 1500 + rnd(100));
		break;
	case 7:
		fprintf(to, "link set %s address 02:00:00:00:00:%02x\n", end(), rnd(256));
		break;
	case 8:
		fprintf(to, "addr flush dev %s\n", end());
		break;
	/* These are not everywhere. Of its ports a bridge tells as if they were links that come and go. */
	case 14:
		fprintf(to, "link add br%u type bridge\n", rnd(2));
		fprintf(to, "link set %s master br%u\n", end(), rnd(2));
		break;
	case 15:
		fprintf(to, "link set %s nomaster\n", end());
		break;
	case 16:
		fprintf(to, "link del %s%u\n", chance(50) ? "br" : "vlan", rnd(2));
		break;
	case 17:
		fprintf(to, "link add link %s name vlan%u type vlan id %u\n", end(), rnd(2), 5 + rnd(2));
		fprintf(to, "link set vlan%u up\n", rnd(2));
		break;
	case 9:
	case 10:
		fprintf(to, "addr del %s dev %s\n", addrs[rnd(sizeof(addrs) / sizeof(addrs[0]))], end());
		break;
	default:
		fprintf(to, "addr replace %s dev %s\n", addrs[rnd(sizeof(addrs) / sizeof(addrs[0]))], end());
	}
}

/* ---- the same? ------------------------------------------------------------------------------- */

/* But for @lower_ifindex, of which the first end of a veth pair is not told. */
static bool same_netdev(const struct mv_netdev *a, const struct mv_netdev *b)
{
	return b && !strcmp(a->name, b->name) && !memcmp(a->mac, b->mac, sizeof(a->mac)) &&
	       a->vlan_id == b->vlan_id && a->mtu_bytes == b->mtu_bytes && a->up == b->up && a->running == b->running;
}

static bool same_addr(const struct mv_addr *a, const struct mv_addr *b)
{
	return a->ifindex == b->ifindex && a->prefix_len == b->prefix_len && mv_gid_equal(&a->gid, &b->gid) &&
	       mv_gid_equal(&a->prefix, &b->prefix);
}

/* The place of an address among those of its netdev and network; -1: it is not there. */
static int place(const struct mv_topo *topo, const struct mv_addr *addr)
{
	int before = 0;

	for (size_t i = 0; i < topo->n_addrs; i++) {
		const struct mv_addr *other = &topo->addrs[i];

		if (same_addr(other, addr))
			return before;
		before += other->ifindex == addr->ifindex && other->prefix_len == addr->prefix_len &&
			  mv_gid_equal(&other->prefix, &addr->prefix);
	}
	return -1;
}

static bool same(const struct mv_topo *a, const struct mv_topo *b)
{
	if (a->n_netdevs != b->n_netdevs || a->n_addrs != b->n_addrs)
		return false;
	for (size_t i = 0; i < a->n_netdevs; i++)
		if (!same_netdev(&a->netdevs[i], mv_topo_netdev(b, a->netdevs[i].ifindex)))
			return false;
	for (size_t i = 0; i < a->n_addrs; i++)
		if (place(b, &a->addrs[i]) != place(a, &a->addrs[i]))
			return false;
	return true;
}

static void print(const char *what, const struct mv_topo *topo)
{
	char gid[MV_GID_STRLEN], prefix[MV_GID_STRLEN];

	for (size_t i = 0; i < topo->n_netdevs; i++)
		print_message("%s: %u %s up %d running %d mtu %u\n", what, topo->netdevs[i].ifindex,
			      topo->netdevs[i].name, topo->netdevs[i].up, topo->netdevs[i].running,
			      topo->netdevs[i].mtu_bytes);
	for (size_t i = 0; i < topo->n_addrs; i++)
		print_message("%s: %u %s of %s/%u\n", what, topo->addrs[i].ifindex, mv_gid_format(&topo->addrs[i].gid, gid),
			      mv_gid_format(&topo->addrs[i].prefix, prefix), topo->addrs[i].prefix_len);
}

static void assert_same(unsigned int round)
{
	unsigned int waited;

	for (waited = 0; waited < PATIENCE_MS; waited += 20) {
		/* Nothing was lost: it is what was told, and no other dump, that this is about. */
		assert_false(mv_netlink_follow(&following, &followed) & MV_NETLINK_LOST);
		assert_int_equal(mv_netlink_fill(&dumping, &dumped), 0);
		if (same(&followed, &dumped))
			return;
		usleep(20 * 1000);
	}
	print("followed", &followed);
	print("dumped", &dumped);
	fail_msg("round %u: not the same", round);
}

static void test_random_changes(void **state)
{
	(void)state;
	assert_int_equal(mv_netlink_fill(&following, &followed), 0);
	for (unsigned int round = 0; round < rounds; round++) {
		FILE *batch = popen("ip -force -batch - >/dev/null 2>&1", "w");

		assert_non_null(batch);
		/* The next primary address of a network is one of those that it had besides, or all are gone. */
		if (chance(10))
			assert_int_equal(system(chance(50) ? "sysctl -qw net.ipv4.conf.all.promote_secondaries=1" :
							     "sysctl -qw net.ipv4.conf.all.promote_secondaries=0"),
					 0);
		for (unsigned int n = 1 + rnd(12); n; n--)
			random_change(batch);
		pclose(batch); /* many of them cannot be made */
		if (chance(70))
			assert_same(round);
	}
	assert_same(rounds);
	assert_true(followed.n_netdevs > 1);
}

/* Two hosts claim one address: the loser is told of it after a while. */
static void test_duplicate_address(void **state)
{
	(void)state;
	netns_ip("link del v0 2>/dev/null");
	netns_ip("link del w0 2>/dev/null");
	assert_int_equal(netns_ip("link add v0 type veth peer name w0"), 0);
	assert_int_equal(netns_ip("link set v0 up; ip link set w0 up"), 0);
	assert_int_equal(netns_ip("addr add 2001:db8:55::1/64 dev w0 nodad"), 0);
	assert_int_equal(netns_ip("addr add 2001:db8:55::1/64 dev v0"), 0);
	for (int i = 0; i < 30; i++) {
		usleep(100 * 1000);
		mv_netlink_follow(&following, &followed);
	}
	assert_same(0);
}

/* Who does not read for long finds that notices were lost, reads all anew, and goes on from there. */
static void test_lost(void **state)
{
	static const int small = 1, large = 1 << 20;
	unsigned int seen = 0;

	(void)state;
	assert_int_equal(setsockopt(following.event_fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	for (int i = 0; i < 40 && !(seen & MV_NETLINK_LOST); i++) {
		FILE *batch = popen("ip -force -batch - >/dev/null 2>&1", "w");

		assert_non_null(batch);
		for (int k = 0; k < 400; k++)
			fprintf(batch, "link set lo mtu %d\n", 60000 + k % 2);
		pclose(batch);
		seen |= mv_netlink_follow(&following, &followed);
	}
	assert_true(seen & MV_NETLINK_LOST);
	assert_int_equal(setsockopt(following.event_fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof(large)), 0);
	assert_int_equal(mv_netlink_follow(&following, NULL), 0); /* all thrown away */
	assert_int_equal(mv_netlink_fill(&following, &followed), 0);
	assert_int_equal(netns_ip("link set lo mtu 50000"), 0);
	assert_same(0);
}

/* IPv6 is busy for a while after links came up. */
static void wait_until_nothing_changes(void)
{
	int ms;

	for (ms = 0; ms < PATIENCE_MS && (usleep(200 * 1000), mv_netlink_follow(&following, &followed)); ms += 200)
		;
	assert_int_equal(mv_netlink_follow(&following, &followed), 0);
}

static void test_what_is_seen(void **state)
{
	(void)state;
	wait_until_nothing_changes();
	assert_int_equal(netns_ip("link set lo up mtu 50001"), 0);
	assert_true(mv_netlink_follow(&following, &followed) & MV_NETLINK_NET);
	wait_until_nothing_changes();
	assert_int_equal(netns_ip("rule add from 10.1.0.5 lookup 103"), 0);
	assert_int_equal(mv_netlink_follow(&following, &followed), MV_NETLINK_ROUTES);
	assert_int_equal(netns_ip("rule del from 10.1.0.5 lookup 103"), 0);
	assert_int_equal(mv_netlink_follow(&following, &followed), MV_NETLINK_ROUTES);
	assert_int_equal(netns_ip("route add 10.56.0.0/16 dev lo"), 0);
	assert_int_equal(mv_netlink_follow(&following, &followed), MV_NETLINK_ROUTES);
	assert_int_equal(mv_netlink_follow(&following, &followed), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_changes),
		cmocka_unit_test(test_duplicate_address),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_what_is_seen),
	};

	rng = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	if (argc > 2)
		rounds = (unsigned int)strtoul(argv[2], NULL, 0);
	if (!rng) {
		fprintf(stderr, "usage: %s [seed [rounds]]; the seed is not 0\n", argv[0]);
		return 2;
	}
	if (!netns_enter())
		return 77;
	mv_topo_init(&followed);
	mv_topo_init(&dumped);
	if (mv_netlink_open(&following) || mv_netlink_open(&dumping))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
