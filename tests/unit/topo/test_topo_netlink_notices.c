/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the kernel tells of changes, message by message. */
#include "unit.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include "fault.h"
#include "nlbuild.h"
#include "topo_netlink.h"

/* A copy of exact size, as parse() has it, applied to a snapshot. */
static unsigned int apply(struct mv_topo *topo, const struct nlbuild *nl)
{
	uint8_t *copy = malloc(nl->len);
	unsigned int seen = 0;

	assert_non_null(copy);
	memcpy(copy, nl->data, nl->len);
	assert_int_equal(mv_netlink_apply(topo, copy, nl->len, &seen), 0);
	free(copy);
	return seen;
}

/* eth0 with two addresses of a network, and one of each family; eth1 with an IPv6 address. */
static void start_host(struct mv_topo *topo)
{
	struct nlbuild nl = {0};

	nl_link(&nl, 2, "eth0", IFF_UP);
	nl_link(&nl, 3, "eth1", IFF_UP);
	nl_addr(&nl, 2, "10.1.0.1", 24);
	nl_addr(&nl, 2, "10.1.0.2", 24);
	nl_addr(&nl, 2, "2001:db8::1", 64);
	nl_addr(&nl, 2, "fe80::1", 64);
	nl_addr(&nl, 3, "2001:db8::1", 64);
	mv_topo_init(topo);
	assert_int_equal(apply(topo, &nl), MV_NETLINK_NET);
	assert_int_equal(topo->n_netdevs, 2);
	assert_int_equal(topo->n_addrs, 5);
}

static void test_link_notices(void **state)
{
	const struct ifinfomsg bridge = {.ifi_family = AF_BRIDGE, .ifi_index = 2};
	const struct ifinfomsg eth0 = {.ifi_index = 2};
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	start_host(&topo);
	nl_link(&nl, 2, "renamed", 0);
	assert_int_equal(apply(&topo, &nl), MV_NETLINK_NET);
	assert_int_equal(topo.n_netdevs, 2);
	assert_string_equal(mv_topo_netdev(&topo, 2)->name, "renamed");
	assert_false(mv_topo_netdev(&topo, 2)->up);
	assert_int_equal(topo.n_addrs, 5);

	/* It has left a bridge; its wireless part has something to say. Neither is a change of the link itself. */
	nl = (struct nlbuild){0};
	nl_message(&nl, RTM_DELLINK, &bridge, sizeof(bridge));
	nl_message(&nl, RTM_NEWLINK, &eth0, sizeof(eth0));
	nl_attr_text(&nl, IFLA_IFNAME, "renamed");
	nl_attr(&nl, IFLA_WIRELESS, "event", 5);
	assert_int_equal(apply(&topo, &nl), MV_NETLINK_NET);
	assert_string_equal(mv_topo_netdev(&topo, 2)->name, "renamed");
	assert_int_equal(topo.n_addrs, 5);

	/* What is gone has no addresses; the others keep theirs. And it may come back. */
	nl = (struct nlbuild){0};
	nl_message(&nl, RTM_DELLINK, &eth0, sizeof(eth0));
	nl_message(&nl, RTM_DELLINK, &eth0, sizeof(eth0));
	assert_int_equal(apply(&topo, &nl), MV_NETLINK_NET);
	assert_null(mv_topo_netdev(&topo, 2));
	assert_int_equal(topo.n_addrs, 1);
	assert_int_equal(topo.addrs[0].ifindex, 3);
	nl = (struct nlbuild){0};
	nl_link(&nl, 2, "eth0", IFF_UP);
	apply(&topo, &nl);
	assert_non_null(mv_topo_netdev(&topo, 2));
	mv_topo_fini(&topo);
}

static void assert_order(const struct mv_topo *topo, const char *first, const char *second)
{
	union ibv_gid gids[2] = {unit_gid(first), unit_gid(second)};
	size_t at[2] = {topo->n_addrs, topo->n_addrs};

	for (size_t i = topo->n_addrs; i-- > 0;)
		for (int k = 0; k < 2; k++)
			if (topo->addrs[i].ifindex == 2 && mv_gid_equal(&topo->addrs[i].gid, &gids[k]))
				at[k] = i;
	assert_true(at[0] < at[1] && at[1] < topo->n_addrs);
}

static void test_addr_notices(void **state)
{
	const struct ifaddrmsg ipv4 = {.ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = 2};
	const struct ifaddrmsg wide = {.ifa_family = AF_INET, .ifa_prefixlen = 16, .ifa_index = 2};
	const struct ifaddrmsg ipv6 = {.ifa_family = AF_INET6, .ifa_prefixlen = 64, .ifa_index = 2};
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	start_host(&topo);
	/* Announced again: once, and where it was. New ones: behind; of IPv6 before those of no wider scope. */
	nl_addr(&nl, 2, "10.1.0.1", 24);
	nl_addr(&nl, 2, "2001:db8::1", 64);
	assert_int_equal(apply(&topo, &nl), MV_NETLINK_NET);
	assert_int_equal(topo.n_addrs, 5);
	assert_order(&topo, "10.1.0.1", "10.1.0.2");
	nl = (struct nlbuild){0};
	nl_addr(&nl, 2, "10.1.0.3", 24);
	nl_addr(&nl, 2, "10.1.0.1", 16);
	nl_addr(&nl, 2, "2001:db8::2", 64);
	nl_addr(&nl, 2, "fe80::2", 64);
	apply(&topo, &nl);
	assert_int_equal(topo.n_addrs, 9);
	assert_order(&topo, "10.1.0.2", "10.1.0.3");
	assert_order(&topo, "2001:db8::2", "2001:db8::1");
	assert_order(&topo, "fe80::2", "fe80::1");
	assert_order(&topo, "2001:db8::1", "fe80::2");

	/* One of an address that it has in two networks; one of an address that another netdev has, too; one that is not there. */
	nl = (struct nlbuild){0};
	nl_message(&nl, RTM_DELADDR, &wide, sizeof(wide));
	nl_attr_addr(&nl, IFA_LOCAL, "10.1.0.1");
	nl_message(&nl, RTM_DELADDR, &ipv6, sizeof(ipv6));
	nl_attr_addr(&nl, IFA_ADDRESS, "2001:db8::1");
	nl_message(&nl, RTM_DELADDR, &ipv4, sizeof(ipv4));
	nl_attr_addr(&nl, IFA_LOCAL, "10.1.0.9");
	assert_int_equal(apply(&topo, &nl), MV_NETLINK_NET);
	assert_int_equal(topo.n_addrs, 7);
	assert_order(&topo, "10.1.0.1", "10.1.0.2");
	for (size_t i = 0; i < topo.n_addrs; i++)
		assert_false(topo.addrs[i].ifindex == 2 && topo.addrs[i].gid.raw[0] == 0x20 && topo.addrs[i].gid.raw[15] == 1);

	/* Somebody else turns out to have it. */
	nl = (struct nlbuild){0};
	nl_message(&nl, RTM_NEWADDR, &ipv6, sizeof(ipv6));
	nl_attr_addr(&nl, IFA_ADDRESS, "2001:db8::2");
	nl_attr_u32(&nl, IFA_FLAGS, IFA_F_DADFAILED | IFA_F_TENTATIVE);
	apply(&topo, &nl);
	assert_int_equal(topo.n_addrs, 6);
	mv_topo_fini(&topo);
}

/* Routes and rules are changes, but of nothing that a snapshot has. */
static void test_route_notices(void **state)
{
	static const uint16_t types[] = {RTM_NEWROUTE, RTM_DELROUTE, RTM_NEWRULE, RTM_DELRULE};
	const struct rtmsg info = {.rtm_family = AF_INET, .rtm_type = RTN_UNICAST, .rtm_table = RT_TABLE_MAIN};
	struct mv_topo topo;

	(void)state;
	start_host(&topo);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct nlbuild nl = {0};

		nl_message(&nl, types[i], &info, sizeof(info));
		nl_attr_u32(&nl, RTA_OIF, 2);
		assert_int_equal(apply(&topo, &nl), MV_NETLINK_ROUTES);
	}
	assert_int_equal(topo.n_routes, 0);
	mv_topo_fini(&topo);
}

static void check_no_memory_for_notices(const struct nlbuild *nl)
{
	unsigned int seen = 0;
	struct mv_topo topo;
	int err;

	mv_topo_init(&topo);
	err = mv_netlink_apply(&topo, nl->data, nl->len, &seen);
	assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
	mv_topo_fini(&topo);
}

static void test_bad_notices(void **state)
{
	struct nlbuild nl = {0};
	unsigned int seen = 0;
	struct mv_topo topo;
	size_t first;

	(void)state;
	nl_link(&nl, 7, "eth0.100", IFF_UP);
	first = nl.len;
	nl_addr(&nl, 7, "10.1.0.1", 24);
	mv_topo_init(&topo);
	for (size_t len = 0; len < nl.len; len++)
		assert_int_equal(mv_netlink_apply(&topo, nl.data, len, &seen), !len || len == first ? 0 : -EBADMSG);
	mv_topo_fini(&topo);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, check_no_memory_for_notices(&nl));
	nl = (struct nlbuild){0};
	nl_message(&nl, NLMSG_OVERRUN, "", 0);
	mv_topo_init(&topo);
	assert_int_equal(mv_netlink_apply(&topo, nl.data, nl.len, &seen), -EBADMSG);
	mv_topo_fini(&topo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link_notices),
		cmocka_unit_test(test_addr_notices),
		cmocka_unit_test(test_route_notices),
		cmocka_unit_test(test_bad_notices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
