/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <linux/if_addr.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "fault.h"
#include "nlbuild.h"
#include "topo_netlink.h"

/* Parses a copy of exact size, so that the address sanitizer sees one byte too far. */
static int parse(struct mv_topo *topo, const void *data, size_t len, bool *ret_done)
{
	uint8_t *copy = calloc(1, len ? len : 1);
	int err;

	assert_non_null(copy);
	memcpy(copy, data, len);
	err = mv_netlink_parse(topo, copy, len, ret_done);
	free(copy);
	return err;
}

static int parse_all(struct mv_topo *topo, const struct nlbuild *nl)
{
	bool done = false;

	mv_topo_init(topo);
	return parse(topo, nl->data, nl->len, &done);
}

static void test_link(void **state)
{
	static const uint8_t mac[6] = {2, 3, 4, 5, 6, 7};
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	nl_link(&nl, 7, "eth0", IFF_UP | IFF_RUNNING);
	nl_attr(&nl, IFLA_ADDRESS, mac, 6);
	nl_attr_u32(&nl, IFLA_MTU, 4200);
	nl_attr_u32(&nl, IFLA_LINK, 3);
	nl_attr_u32(&nl, 9999, 1);
	nl_link(&nl, 8, "eth1", IFF_UP);
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.n_netdevs, 2);
	assert_string_equal(topo.netdevs[0].name, "eth0");
	assert_int_equal(topo.netdevs[0].ifindex, 7);
	assert_int_equal(topo.netdevs[0].lower_ifindex, 3);
	assert_int_equal(topo.netdevs[0].mtu_bytes, 4200);
	assert_int_equal(topo.netdevs[0].vlan_id, MV_VLAN_NONE);
	assert_memory_equal(topo.netdevs[0].mac, mac, 6);
	assert_true(topo.netdevs[0].up && topo.netdevs[0].running);
	assert_true(topo.netdevs[1].up && !topo.netdevs[1].running);
	mv_topo_fini(&topo);
}

static void add_kind(struct nlbuild *nl, const char *kind, uint16_t id)
{
	size_t info = nl_nest_begin(nl, IFLA_LINKINFO), data;

	nl_attr_text(nl, IFLA_INFO_KIND, kind);
	data = nl_nest_begin(nl, IFLA_INFO_DATA);
	nl_attr(nl, IFLA_VLAN_ID, &id, sizeof(id));
	nl_nest_end(nl, data);
	nl_nest_end(nl, info);
}

static void test_vlan(void **state)
{
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	nl_link(&nl, 7, "eth0.100", IFF_UP);
	add_kind(&nl, "vlan", 100);
	/* The same attribute number of another kind is something else. */
	nl_link(&nl, 8, "vxlan0", IFF_UP);
	add_kind(&nl, "vxlan", 200);
	nl_link(&nl, 9, "eth1.5", IFF_UP);
	nl_attr_u32(&nl, IFLA_LINK, 4);
	nl_attr_u32(&nl, IFLA_LINK_NETNSID, 1);
	add_kind(&nl, "vlan", 5);
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.netdevs[0].vlan_id, 100);
	assert_int_equal(topo.netdevs[1].vlan_id, MV_VLAN_NONE);
	assert_int_equal(topo.netdevs[2].vlan_id, 5);
	/* Its lower device's number is one of another namespace. */
	assert_int_equal(topo.netdevs[2].lower_ifindex, 0);
	mv_topo_fini(&topo);
}

static void test_odd_links(void **state)
{
	struct ifinfomsg bridge = {.ifi_family = AF_BRIDGE, .ifi_index = 5};
	struct ifinfomsg infiniband = {.ifi_type = ARPHRD_INFINIBAND, .ifi_index = 6};
	uint8_t long_mac[20] = {1};
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	nl_message(&nl, RTM_NEWLINK, &bridge, sizeof(bridge));
	nl_message(&nl, RTM_NEWLINK, &infiniband, sizeof(infiniband));
	nl_attr(&nl, IFLA_ADDRESS, long_mac, sizeof(long_mac));
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.n_netdevs, 1);
	assert_int_equal(topo.netdevs[0].mac[0], 0);
	mv_topo_fini(&topo);
}

static void test_addrs(void **state)
{
	struct ifaddrmsg ipv4 = {.ifa_family = AF_INET, .ifa_prefixlen = 30, .ifa_index = 2};
	struct ifaddrmsg ipv6 = {.ifa_family = AF_INET6, .ifa_prefixlen = 64, .ifa_index = 2};
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	nl_addr(&nl, 2, "10.1.0.2", 24);
	nl_addr(&nl, 2, "2001:db8::5", 48);
	/* Point-to-point: the prefix is the peer's. */
	nl_message(&nl, RTM_NEWADDR, &ipv4, sizeof(ipv4));
	nl_attr_addr(&nl, IFA_ADDRESS, "10.9.7.5");
	nl_attr_addr(&nl, IFA_LOCAL, "10.8.0.1");
	nl_message(&nl, RTM_NEWADDR, &ipv6, sizeof(ipv6));
	nl_attr_addr(&nl, IFA_LOCAL, "2001:db8:1::1");
	nl_attr_addr(&nl, IFA_ADDRESS, "2001:db8:2::2");
	nl_message(&nl, RTM_NEWADDR, &ipv4, sizeof(ipv4));
	nl_attr_addr(&nl, IFA_LOCAL, "10.7.0.1");
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.n_addrs, 5);
	assert_gid(topo.addrs[0].gid, "10.1.0.2");
	assert_gid(topo.addrs[0].prefix, "10.1.0.0");
	assert_int_equal(topo.addrs[0].prefix_len, 96 + 24);
	assert_int_equal(topo.addrs[0].ifindex, 2);
	assert_gid(topo.addrs[1].prefix, "2001:db8::");
	assert_int_equal(topo.addrs[1].prefix_len, 48);
	assert_gid(topo.addrs[2].gid, "10.8.0.1");
	assert_gid(topo.addrs[2].prefix, "10.9.7.4");
	assert_gid(topo.addrs[3].gid, "2001:db8:1::1");
	assert_gid(topo.addrs[3].prefix, "2001:db8:2::");
	assert_gid(topo.addrs[4].prefix, "10.7.0.0");
	mv_topo_fini(&topo);
}

/* Another host has the address: it is no use, while one still being checked is. */
static void test_duplicate_addr(void **state)
{
	struct nlbuild nl = {0};
	struct ifaddrmsg info = {.ifa_family = AF_INET6, .ifa_prefixlen = 64, .ifa_index = 2};
	struct mv_topo topo;

	(void)state;
	info.ifa_flags = IFA_F_DADFAILED | IFA_F_TENTATIVE;
	nl_message(&nl, RTM_NEWADDR, &info, sizeof(info));
	nl_attr_addr(&nl, IFA_ADDRESS, "2001:db8::1");
	info.ifa_flags = 0;
	nl_message(&nl, RTM_NEWADDR, &info, sizeof(info));
	nl_attr_addr(&nl, IFA_ADDRESS, "2001:db8::2");
	nl_attr_u32(&nl, IFA_FLAGS, IFA_F_DADFAILED);
	info.ifa_flags = IFA_F_TENTATIVE;
	nl_message(&nl, RTM_NEWADDR, &info, sizeof(info));
	nl_attr_addr(&nl, IFA_ADDRESS, "2001:db8::3");
	info.ifa_family = AF_PACKET;
	nl_message(&nl, RTM_NEWADDR, &info, sizeof(info));
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.n_addrs, 1);
	assert_gid(topo.addrs[0].gid, "2001:db8::3");
	mv_topo_fini(&topo);
}

static struct rtmsg route_header(uint8_t family, uint8_t dst_len)
{
	return (struct rtmsg){.rtm_family = family,
			      .rtm_dst_len = dst_len,
			      .rtm_table = RT_TABLE_MAIN,
			      .rtm_type = RTN_UNICAST};
}

static void test_routes(void **state)
{
	struct rtmsg ipv4 = route_header(AF_INET, 16), ipv6 = route_header(AF_INET6, 0);
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	nl_message(&nl, RTM_NEWROUTE, &ipv4, sizeof(ipv4));
	nl_attr_addr(&nl, RTA_DST, "10.7.0.0");
	nl_attr_u32(&nl, RTA_OIF, 2);
	nl_attr_addr(&nl, RTA_GATEWAY, "10.1.0.254");
	nl_attr_addr(&nl, RTA_PREFSRC, "10.1.0.1");
	nl_attr_u32(&nl, RTA_PRIORITY, 100);
	nl_attr_u32(&nl, RTA_TABLE, 1000);
	nl_message(&nl, RTM_NEWROUTE, &ipv6, sizeof(ipv6));
	nl_attr_addr(&nl, RTA_GATEWAY, "fe80::1");
	nl_attr_u32(&nl, RTA_OIF, 3);
	/* An IPv4 default route through an IPv6 router. */
	ipv4.rtm_dst_len = 0;
	nl_message(&nl, RTM_NEWROUTE, &ipv4, sizeof(ipv4));
	nl_attr(&nl, RTA_VIA, "\x0a\x00\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\x09", 18);
	nl_attr_u32(&nl, RTA_OIF, 4);
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.n_routes, 3);
	assert_gid(topo.routes[0].dst, "10.7.0.0");
	assert_int_equal(topo.routes[0].dst_len, 96 + 16);
	assert_int_equal(topo.routes[0].fib_len, 96 + 16);
	assert_int_equal(topo.routes[0].ifindex, 2);
	assert_gid(topo.routes[0].gateway, "10.1.0.254");
	assert_gid(topo.routes[0].prefsrc, "10.1.0.1");
	assert_gid(topo.routes[0].src, "::");
	assert_int_equal(topo.routes[0].metric, 100);
	assert_int_equal(topo.routes[0].table, 1000);
	assert_gid(topo.routes[1].dst, "::");
	assert_int_equal(topo.routes[1].dst_len, 0);
	assert_int_equal(topo.routes[1].table, RT_TABLE_MAIN);
	assert_gid(topo.routes[1].gateway, "fe80::1");
	assert_gid(topo.routes[2].dst, "0.0.0.0");
	assert_int_equal(topo.routes[2].dst_len, 96);
	assert_gid(topo.routes[2].gateway, "fe80::9");
	mv_topo_fini(&topo);
}

static void test_routes_left_out(void **state)
{
	struct rtmsg info = route_header(AF_INET, 24);
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	info.rtm_type = RTN_BLACKHOLE;
	nl_message(&nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_u32(&nl, RTA_OIF, 2);
	info.rtm_type = RTN_LOCAL;
	nl_message(&nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_u32(&nl, RTA_OIF, 2);
	info.rtm_type = RTN_UNICAST;
	info.rtm_flags = RTM_F_CLONED;
	nl_message(&nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_u32(&nl, RTA_OIF, 2);
	info.rtm_flags = 0;
	info.rtm_family = AF_MPLS;
	nl_message(&nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_u32(&nl, RTA_OIF, 2);
	/* Without an interface it leads nowhere. */
	info.rtm_family = AF_INET;
	nl_message(&nl, RTM_NEWROUTE, &info, sizeof(info));
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.n_routes, 0);
	/* Or where another message would have to say; that it says so, too, is the default (net.ipv4.nexthop_compat_mode). */
	nl_message(&nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_u32(&nl, RTA_NH_ID, 7);
	nl_attr_u32(&nl, RTA_OIF, 2);
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.n_routes, 1);
	mv_topo_fini(&topo);
	nl_message(&nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_u32(&nl, RTA_NH_ID, 7);
	assert_int_equal(parse_all(&topo, &nl), -EOPNOTSUPP);
	mv_topo_fini(&topo);
}

/* Two next hops of one route. @len2: length that the second claims to have */
static void build_multipath(struct nlbuild *nl, uint16_t len2)
{
	struct rtmsg info = route_header(AF_INET, 16);
	struct {
		struct rtnexthop hop;
		struct nlattr attr;
		uint8_t gateway[4];
	} hops[2] = {
		{{.rtnh_len = 16, .rtnh_ifindex = 2}, {8, RTA_GATEWAY}, {10, 1, 0, 254}},
		{{.rtnh_len = len2, .rtnh_ifindex = 3}, {8, RTA_GATEWAY}, {10, 2, 0, 254}},
	};

	nl_message(nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_addr(nl, RTA_DST, "10.7.0.0");
	nl_attr(nl, RTA_MULTIPATH, hops, sizeof(hops));
}

static void test_multipath(void **state)
{
	static const uint16_t bad_lengths[] = {0, 7, 17, 65535};
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	build_multipath(&nl, 16);
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.n_routes, 2);
	assert_int_equal(topo.routes[0].ifindex, 2);
	assert_gid(topo.routes[0].gateway, "10.1.0.254");
	assert_int_equal(topo.routes[1].ifindex, 3);
	assert_gid(topo.routes[1].gateway, "10.2.0.254");
	assert_gid(topo.routes[1].dst, "10.7.0.0");
	mv_topo_fini(&topo);
	for (size_t i = 0; i < sizeof(bad_lengths) / sizeof(bad_lengths[0]); i++) {
		nl.len = 0;
		build_multipath(&nl, bad_lengths[i]);
		assert_int_equal(parse_all(&topo, &nl), -EBADMSG);
		mv_topo_fini(&topo);
	}
}

static int status_of(uint16_t type, const void *payload, size_t len, bool *ret_done)
{
	struct nlbuild nl = {0};
	struct mv_topo topo;
	int err;

	*ret_done = false;
	mv_topo_init(&topo);
	nl_message(&nl, type, payload, len);
	err = parse(&topo, nl.data, nl.len, ret_done);
	mv_topo_fini(&topo);
	return err;
}

static void test_status(void **state)
{
	int32_t err = -ENODEV;
	bool done;

	(void)state;
	assert_int_equal(status_of(NLMSG_ERROR, &err, 4, &done), -ENODEV);
	assert_true(done);
	assert_int_equal(status_of(NLMSG_DONE, &err, 4, &done), -ENODEV);
	assert_true(done);
	assert_int_equal(status_of(NLMSG_DONE, NULL, 0, &done), 0);
	assert_true(done);
	assert_int_equal(status_of(NLMSG_ERROR, NULL, 0, &done), -EBADMSG);
	err = 0;
	assert_int_equal(status_of(NLMSG_ERROR, &err, 4, &done), 0);
	assert_true(done);
	/* What is no errno is no success either. */
	err = 5;
	assert_int_equal(status_of(NLMSG_ERROR, &err, 4, &done), -EBADMSG);
	err = -100000;
	assert_int_equal(status_of(NLMSG_ERROR, &err, 4, &done), -EBADMSG);
	assert_int_equal(status_of(NLMSG_OVERRUN, &err, 4, &done), -EBADMSG);
	assert_int_equal(status_of(NLMSG_NOOP, NULL, 0, &done), 0);
	assert_false(done);
	assert_int_equal(status_of(RTM_NEWNEIGH, "garbage", 7, &done), 0);
	assert_false(done);
}

static void test_bad_messages(void **state)
{
	struct ifinfomsg no_index = {.ifi_index = 0};
	struct rtmsg route = route_header(AF_INET, 33);
	struct nlbuild nl = {0};
	struct mv_topo topo;

#define ASSERT_BAD()                                                                               \
	do {                                                                                       \
		assert_int_equal(parse_all(&topo, &nl), -EBADMSG);                                 \
		mv_topo_fini(&topo);                                                               \
		nl.len = 0;                                                                        \
	} while (0)

	(void)state;
	nl_link(&nl, 7, "a_name_of_16_chr", IFF_UP);
	ASSERT_BAD();
	nl_link(&nl, -7, "eth0", IFF_UP);
	ASSERT_BAD();
	nl_message(&nl, RTM_NEWLINK, &no_index, sizeof(no_index));
	ASSERT_BAD();
	nl_message(&nl, RTM_NEWLINK, &no_index, 4);
	ASSERT_BAD();
	nl_message(&nl, RTM_NEWADDR, &no_index, 4);
	ASSERT_BAD();
	nl_message(&nl, RTM_NEWROUTE, &no_index, 4);
	ASSERT_BAD();
	nl_link(&nl, 7, "eth0", IFF_UP);
	nl_attr(&nl, IFLA_MTU, "xy", 2);
	ASSERT_BAD();
	nl_addr(&nl, 2, "10.1.0.1", 33);
	ASSERT_BAD();
	nl_addr(&nl, 2, "2001:db8::1", 129);
	ASSERT_BAD();
	nl_addr(&nl, 2, "10.1.0.1", 24);
	nl_attr(&nl, IFA_LOCAL, "12345", 5);
	ASSERT_BAD();
	nl_message(&nl, RTM_NEWROUTE, &route, sizeof(route));
	ASSERT_BAD();
	route.rtm_dst_len = 24;
	nl_message(&nl, RTM_NEWROUTE, &route, sizeof(route));
	nl_attr(&nl, RTA_VIA, "x", 1);
	ASSERT_BAD();
	nl_addr(&nl, 2, "10.1.0.1", 24);
	nl.len -= 8;
	nl_header(&nl)->nlmsg_len -= 8; /* no address at all */
	ASSERT_BAD();
	nl_link(&nl, 7, "eth0", IFF_UP);
	add_kind(&nl, "vlan", 5);
	nl.data[nl.len - 4 - 4] = 7; /* IFLA_VLAN_ID: three bytes instead of two */
	ASSERT_BAD();
	/* An attribute that claims more than there is, and one shorter than its own header. */
	nl_link(&nl, 7, "eth0", IFF_UP);
	nl.data[nl.message + NLMSG_HDRLEN + sizeof(struct ifinfomsg)] = 200;
	ASSERT_BAD();
	nl_link(&nl, 7, "eth0", IFF_UP);
	nl.data[nl.message + NLMSG_HDRLEN + sizeof(struct ifinfomsg)] = 3;
	ASSERT_BAD();
	/* A message likewise. */
	nl_link(&nl, 7, "eth0", IFF_UP);
	nl_header(&nl)->nlmsg_len++;
	ASSERT_BAD();
	nl_link(&nl, 7, "eth0", IFF_UP);
	nl_header(&nl)->nlmsg_len = 15;
	ASSERT_BAD();
	nl_link(&nl, 7, "eth0", IFF_UP);
	nl_header(&nl)->nlmsg_len = UINT32_MAX;
	ASSERT_BAD();
}

/* The padding behind the last attribute, next hop or message may be missing. */
static void test_no_padding(void **state)
{
	struct rtmsg info = route_header(AF_INET, 16);
	static const uint8_t hop[9] = {9, 0, 0, 0, 2};
	struct nlbuild nl = {0};
	struct mv_topo topo;

	(void)state;
	nl_link(&nl, 7, "abcde", IFF_UP); /* 6 bytes with the NUL, 2 of padding */
	nl.len -= 2;
	nl_header(&nl)->nlmsg_len -= 2;
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_string_equal(topo.netdevs[0].name, "abcde");
	mv_topo_fini(&topo);

	nl.len = 0;
	nl_message(&nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_addr(&nl, RTA_DST, "10.7.0.0");
	nl_attr(&nl, RTA_MULTIPATH, hop, sizeof(hop));
	nl.len -= 3;
	nl_header(&nl)->nlmsg_len -= 3;
	assert_int_equal(parse_all(&topo, &nl), 0);
	assert_int_equal(topo.n_routes, 1);
	assert_int_equal(topo.routes[0].ifindex, 2);
	mv_topo_fini(&topo);

	/* A header of its own may end a message too, before its padding. */
	nl.len = 0;
	nl_message(&nl, NLMSG_NOOP, "x", 1);
	nl.len -= 3;
	nl_header(&nl)->nlmsg_len -= 3;
	assert_int_equal(parse_all(&topo, &nl), 0);
	mv_topo_fini(&topo);
}

/* A datagram cut anywhere gives an error or the messages before the cut, never anything else. */
static void test_every_cut(void **state)
{
	struct nlbuild nl = {0};
	size_t first;

	(void)state;
	nl_link(&nl, 7, "eth0.100", IFF_UP);
	add_kind(&nl, "vlan", 100);
	first = nl.len;
	nl_addr(&nl, 7, "10.1.0.1", 24);
	for (size_t len = 0; len < nl.len; len++) {
		struct mv_topo topo;
		bool done = false;
		int err;

		mv_topo_init(&topo);
		err = parse(&topo, nl.data, len, &done);
		assert_int_equal(err, !len || len == first ? 0 : -EBADMSG);
		assert_int_equal(topo.n_netdevs, len >= first);
		assert_int_equal(topo.n_addrs, 0);
		assert_false(done);
		mv_topo_fini(&topo);
	}
}

static void check_no_memory(const struct nlbuild *nl)
{
	struct mv_topo topo;
	bool done = false;
	int err;

	mv_topo_init(&topo);
	err = mv_netlink_parse(&topo, nl->data, nl->len, &done);
	assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
	mv_topo_fini(&topo);
}

static void test_no_memory(void **state)
{
	struct nlbuild nl = {0};

	(void)state;
	for (int i = 1; i < 12; i++) {
		nl_link(&nl, i, "eth0", IFF_UP);
		nl_addr(&nl, (uint32_t)i, "10.1.0.1", 24);
		build_multipath(&nl, 16);
	}
	FAULT_EACH(FAULT_ALLOC, ENOMEM, check_no_memory(&nl));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link),
		cmocka_unit_test(test_vlan),
		cmocka_unit_test(test_odd_links),
		cmocka_unit_test(test_addrs),
		cmocka_unit_test(test_duplicate_addr),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_routes_left_out),
		cmocka_unit_test(test_multipath),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_bad_messages),
		cmocka_unit_test(test_no_padding),
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
