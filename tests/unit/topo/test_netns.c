/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The netlink collector against a real kernel, in a network namespace of its own: as root, or in a
 * user namespace where the kernel allows those. Exits 77 where neither works.
 */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "decide.h"
#include "fault.h"
#include "netns.h"
#include "topo_netlink.h"

#define PATIENCE_MS 60000

static struct mv_netlink nl;
static struct mv_topo topo;

#define assert_ip(args)                                                                            \
	do {                                                                                       \
		if (netns_ip(args))                                                                      \
			fail_msg("ip %s failed", args);                                            \
	} while (0)

static int make_host(void **state)
{
	(void)state;
	assert_ip("link set lo up");
	assert_ip("link add va address 02:00:00:00:00:0a mtu 4200 type veth peer name vb");
	assert_ip("link set va addrgenmode none");
	assert_ip("link set va up");
	assert_ip("link set vb up");
	assert_ip("addr add 10.1.0.1/24 dev va");
	assert_ip("addr add 10.1.0.5/24 dev va");
	assert_ip("addr add 10.9.0.1 peer 10.9.7.1/30 dev va");
	assert_ip("addr add 2001:db8:1::1/64 dev va nodad");
	assert_ip("addr add 10.2.0.1/24 dev vb");
	assert_ip("route add 10.7.0.0/16 via 10.1.0.254 src 10.1.0.5");
	assert_ip("route add 10.8.0.0/16 nexthop via 10.1.0.254 nexthop via 10.2.0.254");
	assert_ip("route add blackhole 10.66.0.0/16");
	assert_ip("route add unreachable 10.67.0.0/16");
	assert_ip("-6 route add 2001:db8:7::/48 via 2001:db8:1::9");
	/* One table per source address, as hosts with several rails have. */
	assert_ip("rule add from 10.2.0.1 lookup 102");
	assert_ip("route add default via 10.2.0.254 table 102");
	mv_topo_init(&topo);
	return mv_netlink_open(&nl);
}

static int remove_host(void **state)
{
	(void)state;
	mv_netlink_close(&nl);
	mv_topo_fini(&topo);
	return 0;
}

static const struct mv_netdev *netdev(const char *name)
{
	const struct mv_netdev *found = mv_topo_netdev_by_name(&topo, name);

	if (!found)
		fail_msg("no netdev %s", name);
	return found;
}

/* The kernel tells of a carrier by a work queue: up to a second later, and more on a busy machine. */
static void settle(const char *name, bool running)
{
	int i;

	for (i = 0; i < 300; i++) {
		assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
		if (netdev(name)->running == running)
			return;
		usleep(100 * 1000);
	}
	fail_msg("%s is still %s", name, running ? "without a carrier" : "running");
}

static const struct mv_addr *addr(const char *text)
{
	union ibv_gid gid = unit_gid(text);

	for (size_t i = 0; i < topo.n_addrs; i++)
		if (mv_gid_equal(&topo.addrs[i].gid, &gid))
			return &topo.addrs[i];
	fail_msg("no address %s", text);
	return NULL;
}

static void test_links(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 10};

	(void)state;
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_int_equal(netdev("va")->mtu_bytes, 4200);
	assert_memory_equal(netdev("va")->mac, mac, 6);
	assert_int_equal(netdev("va")->vlan_id, MV_VLAN_NONE);
	settle("va", true);
	assert_true(netdev("va")->up);
	assert_ip("link set vb down");
	settle("va", false);
	assert_true(netdev("va")->up);
	assert_false(netdev("vb")->up);
	assert_ip("link set vb up");
	settle("va", true);
	settle("vb", true);
	assert_ip("route add default via 10.2.0.254 table 102"); /* went with the link */
	assert_ip("route replace 10.8.0.0/16 nexthop via 10.1.0.254 nexthop via 10.2.0.254");
}

static void test_addrs(void **state)
{
	(void)state;
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_int_equal(addr("10.1.0.1")->ifindex, netdev("va")->ifindex);
	assert_int_equal(addr("10.1.0.1")->prefix_len, 96 + 24);
	assert_gid(addr("10.1.0.1")->prefix, "10.1.0.0");
	assert_true(addr("10.1.0.1") < addr("10.1.0.5")); /* the primary address comes first */
	assert_gid(addr("10.9.0.1")->prefix, "10.9.7.0");
	assert_int_equal(addr("10.9.0.1")->prefix_len, 96 + 30);
	assert_int_equal(addr("2001:db8:1::1")->prefix_len, 64);
	assert_gid(addr("2001:db8:1::1")->prefix, "2001:db8:1::");
}

static void test_vlan(void **state)
{
	(void)state;
	if (netns_ip("link add link va name va.5 type vlan id 5 2>/dev/null")) {
		print_message("this kernel makes no VLAN devices\n");
		skip();
	}
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_int_equal(netdev("va.5")->vlan_id, 5);
	assert_int_equal(netdev("va.5")->lower_ifindex, netdev("va")->ifindex);
	assert_ip("link del va.5");
}

/* Two hosts claim one IPv6 address: the loser's is marked, and must not be counted on. */
static void test_duplicate_address(void **state)
{
	union ibv_gid gid = unit_gid("2001:db8:55::1");
	bool found = true;

	(void)state;
	assert_ip("addr add 2001:db8:55::1/64 dev vb nodad");
	assert_ip("addr add 2001:db8:55::1/64 dev va");
	for (int i = 0; i < 300 && found; i++) {
		usleep(100 * 1000);
		assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
		found = false;
		for (size_t k = 0; k < topo.n_addrs; k++)
			found |= topo.addrs[k].ifindex == netdev("va")->ifindex &&
				 mv_gid_equal(&topo.addrs[k].gid, &gid);
	}
	assert_false(found);
	assert_int_equal(addr("2001:db8:55::1")->ifindex, netdev("vb")->ifindex);
	assert_ip("addr del 2001:db8:55::1/64 dev va");
	assert_ip("addr del 2001:db8:55::1/64 dev vb");
}

struct route_case {
	const char *netdev, *dgid;
	int rc;
	unsigned int fib_len;
	const char *gateway, *prefsrc, *src;
};

static void check_route(const struct route_case *c)
{
	union ibv_gid dgid = unit_gid(c->dgid);
	const struct mv_route *route;
	int rc;

	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	rc = mv_netlink_add_route(&nl, &topo, netdev(c->netdev)->ifindex, &dgid);
	if (rc != c->rc || topo.n_routes != (size_t)c->rc)
		fail_msg("%s out of %s: %d, %zu routes", c->dgid, c->netdev, rc, topo.n_routes);
	if (!rc)
		return;
	route = &topo.routes[0];
	assert_int_equal(route->ifindex, netdev(c->netdev)->ifindex);
	assert_true(mv_gid_equal(&route->dst, &dgid));
	assert_int_equal(route->dst_len, 128);
	assert_int_equal(route->fib_len, c->fib_len);
	assert_gid(route->gateway, c->gateway);
	assert_gid(route->prefsrc, c->prefsrc);
	assert_gid(route->src, c->src);
}

static void test_routes(void **state)
{
	static const struct route_case cases[] = {
		{"va", "10.1.0.77", 1, 96 + 24, "::", "10.1.0.1", "::"},
		{"va", "10.9.7.1", 1, 96 + 30, "::", "10.9.0.1", "::"},
		{"va", "10.7.3.4", 1, 96 + 16, "10.1.0.254", "10.1.0.5", "::"},
		{"vb", "10.7.3.4", 1, 96, "10.2.0.254", "::", "10.2.0.1"}, /* by policy */
		{"va", "10.8.3.4", 1, 96 + 16, "10.1.0.254", "::", "::"},
		{"vb", "10.8.3.4", 1, 96 + 16, "10.2.0.254", "::", "::"},
		{"va", "10.66.0.1", 0, 0, NULL, NULL, NULL},
		{"va", "10.67.0.1", 0, 0, NULL, NULL, NULL},
		{"va", "10.99.0.1", 0, 0, NULL, NULL,
		 NULL}, /* the kernel would guess: on the link */
		{"va", "10.2.0.1", 0, 0, NULL, NULL, NULL}, /* local, not out of va */
		{"va", "2001:db8:7::1", 1, 48, "2001:db8:1::9", "::", "::"},
		{"va", "2001:db8:1::7", 1, 64, "::", "::", "::"},
		{"vb", "2001:db8:7::1", 0, 0, NULL, NULL, NULL},
		{"va", "2001:db8:99::1", 0, 0, NULL, NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_route(&cases[i]);
}

/* Routing daemons make next hops objects of their own; by default the kernel tells what is in them as well. */
static void test_next_hop_object(void **state)
{
	union ibv_gid dgid = unit_gid("10.11.0.1");
	FILE *mode;

	(void)state;
	if (netns_ip("nexthop add id 77 via 10.1.0.254 dev va 2>/dev/null")) {
		print_message("this kernel knows no next hop objects\n");
		skip();
	}
	assert_ip("route add 10.11.0.0/16 nhid 77");
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, netdev("va")->ifindex, &dgid), 1);
	mode = fopen("/proc/sys/net/ipv4/nexthop_compat_mode", "w");
	if (!mode)
		skip();
	fputs("0", mode);
	fclose(mode);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, netdev("va")->ifindex, &dgid), -EOPNOTSUPP);
	mode = fopen("/proc/sys/net/ipv4/nexthop_compat_mode", "w");
	assert_non_null(mode);
	fputs("1", mode);
	fclose(mode);
	assert_ip("route del 10.11.0.0/16");
	assert_ip("nexthop del id 77");
}

static void test_leads(void **state)
{
	static const struct {
		const char *netdev, *src, *dst;
		int leads;
	} cases[] = {
		{"va", "10.1.0.1", "10.7.0.1", 1},
		{"vb", "10.1.0.1", "10.7.0.1", 0},
		{"va", "10.1.0.1", "10.8.0.1", 1}, /* several next hops */
		{"vb", "10.2.0.1", "10.8.0.1", 1},
		{"vb", "10.2.0.1", "10.99.0.1", 1}, /* by a rule for the source */
		{"va", "10.1.0.1", "10.99.0.1", 0}, /* the kernel would guess that it is on the link */
		{"va", "10.1.0.1", "10.66.0.1", 0},
		{"va", "10.1.0.1", "10.67.0.1", 0},
		{"va", "2001:db8:1::1", "2001:db8:7::1", 1},
		{"vb", "2001:db8:1::1", "2001:db8:8::1", 0},
		{"va", "10.1.0.1", "2001:db8:7::1", -EINVAL},
		{"va", "10.1.0.1", "224.0.0.1", -EINVAL},
	};
	struct mv_netlink requests = {.request_fd = -1, .event_fd = -1};

	(void)state;
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		union ibv_gid src = unit_gid(cases[i].src), dst = unit_gid(cases[i].dst);
		int rc = mv_netlink_leads(&requests, netdev(cases[i].netdev)->ifindex, &src, &dst);

		if (rc != cases[i].leads)
			fail_msg("out of %s from %s to %s: %d", cases[i].netdev, cases[i].src, cases[i].dst, rc);
	}
	assert_true(requests.event_fd < 0);
	mv_netlink_close(&requests);
}

static void test_route_out_of_nowhere(void **state)
{
	union ibv_gid dgid = unit_gid("10.7.3.4");

	(void)state;
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 99999, &dgid), 0);
}

/* Notices come a moment after the change; one that never comes fails. */
static bool changed_soon(void)
{
	struct pollfd pollfd = {.fd = nl.event_fd, .events = POLLIN};

	return poll(&pollfd, 1, PATIENCE_MS) == 1 && mv_netlink_changed(&nl);
}

/* IPv6 is busy for a while after links came up. */
static void wait_until_nothing_changes(void)
{
	int ms;

	for (ms = 0; ms < PATIENCE_MS && (usleep(200 * 1000), mv_netlink_changed(&nl)); ms += 200)
		;
	assert_false(mv_netlink_changed(&nl));
}

static void test_changes(void **state)
{
	static const char *const commands[] = {
		"link set va mtu 4000",
		"addr add 10.55.0.1/24 dev va",
		"addr del 10.55.0.1/24 dev va",
		"-6 addr add 2001:db8:56::1/64 dev va nodad",
		"route add 10.56.0.0/16 via 10.1.0.254",
		"-6 route add 2001:db8:57::/48 via 2001:db8:1::9",
		"rule add from 10.1.0.5 lookup 103",
		"-6 rule add from 2001:db8:1::1 lookup 103",
	};

	(void)state;
	wait_until_nothing_changes();
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		assert_ip(commands[i]);
		if (!changed_soon())
			fail_msg("ip %s went unnoticed", commands[i]);
		wait_until_nothing_changes();
	}
}

/* More addresses than one datagram of a dump holds. */
static void test_many(void **state)
{
	FILE *batch = popen("ip -batch -", "w");
	size_t n = 0;

	(void)state;
	assert_non_null(batch);
	for (int i = 0; i < 2000; i++)
		fprintf(batch, "addr add 10.200.%d.%d/32 dev vb\n", i / 250, i % 250 + 1);
	assert_int_equal(pclose(batch), 0);
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	for (size_t i = 0; i < topo.n_addrs; i++)
		n += topo.addrs[i].prefix_len == 128 && topo.addrs[i].gid.raw[13] == 200;
	assert_int_equal(n, 2000);
	assert_ip("addr flush dev vb to 10.200.0.0/16");
}

/*
 * From the kernel's answer to the decision: policy routing by source must not look like no route.
 */
static void test_decision(void **state)
{
	union ibv_gid dgid = unit_gid("10.77.0.1");
	struct mv_gid_entry entry = {.type = MV_GID_TYPE_ROCE_V2, .gid = unit_gid("10.2.0.1")};
	struct mv_candidate candidate;

	(void)state;
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	entry.ifindex = netdev("vb")->ifindex;
	mv_check_entry(&topo, &entry, &dgid, &candidate);
	assert_int_equal(candidate.verdict, MV_VERDICT_UNROUTABLE);
	assert_true(mv_decide_wants_route(&topo, netdev("vb"), &dgid));
	assert_int_equal(mv_netlink_add_route(&nl, &topo, entry.ifindex, &dgid), 1);
	assert_false(mv_decide_wants_route(&topo, netdev("vb"), &dgid));
	mv_check_entry(&topo, &entry, &dgid, &candidate);
	assert_int_equal(candidate.verdict, MV_VERDICT_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links),    cmocka_unit_test(test_addrs),
		cmocka_unit_test(test_vlan),     cmocka_unit_test(test_duplicate_address),
		cmocka_unit_test(test_routes),   cmocka_unit_test(test_route_out_of_nowhere),
		cmocka_unit_test(test_leads),
		cmocka_unit_test(test_next_hop_object),
		cmocka_unit_test(test_decision), cmocka_unit_test(test_many),
		cmocka_unit_test(test_changes),
	};

	if (!netns_enter())
		return 77;
	return cmocka_run_group_tests(tests, make_host, remove_host);
}
