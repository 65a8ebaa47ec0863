/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Questions for routes, to a scripted kernel. */
#include <errno.h>
#include <linux/rtnetlink.h>

#include "nlscript.h"

static void add_route_answer(const char *dst, uint8_t dst_len, uint32_t oif, unsigned int flags)
{
	struct nlbuild *nl = &add_step()->nl;
	struct rtmsg info = {.rtm_family = AF_INET,
			     .rtm_dst_len = dst_len,
			     .rtm_type = RTN_UNICAST,
			     .rtm_flags = flags};

	nl_message(nl, RTM_NEWROUTE, &info, sizeof(info));
	nl_attr_addr(nl, RTA_DST, dst);
	nl_attr_u32(nl, RTA_OIF, oif);
	nl_attr_addr(nl, RTA_GATEWAY, "10.1.0.254");
	nl_error(nl, 0);
}

static void start_routes(struct mv_netlink *nl, struct mv_topo *topo)
{
	start_script(nl, topo);
	add_links();
	add_addrs();
	assert_int_equal(mv_netlink_fill(nl, topo), 0);
}

static void test_route(void **state)
{
	union ibv_gid dgid = unit_gid("10.7.3.4");
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_routes(&nl, &topo);
	for (int round = 0; round < 2; round++) {
		add_route_answer("10.7.0.0", 16, 2, 0);
		assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 1);
		/* The second answer takes the place of the first. */
		assert_int_equal(topo.n_routes, 1);
	}
	assert_gid(topo.routes[0].dst, "10.7.3.4");
	assert_int_equal(topo.routes[0].dst_len, 128);
	assert_int_equal(topo.routes[0].fib_len, 96 + 16);
	assert_int_equal(topo.routes[0].ifindex, 2);
	assert_gid(topo.routes[0].gateway, "10.1.0.254");
	assert_gid(topo.routes[0].src, "::");

	/* What is known of other destinations stays. */
	dgid = unit_gid("10.7.3.5");
	add_route_answer("10.7.0.0", 16, 2, 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 1);
	assert_int_equal(topo.n_routes, 2);
	assert_gid(topo.routes[0].dst, "10.7.3.4");
	assert_gid(topo.routes[1].dst, "10.7.3.5");

	/* Not out of the netdev that was asked for, from any of its addresses. */
	add_route_answer("10.7.0.0", 16, 3, 0);
	add_route_answer("10.7.0.0", 16, 3, 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 0);
	assert_int_equal(topo.n_routes, 1);
	assert_gid(topo.routes[0].dst, "10.7.3.4");
	assert_int_equal(script.next, script.n);
	end_script(&nl, &topo);
}

static void test_route_of_one_source(void **state)
{
	const struct nlmsghdr *request = (const struct nlmsghdr *)(const void *)script.request;
	union ibv_gid dgid = unit_gid("10.7.3.4");
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_routes(&nl, &topo);
	nl_error(&add_step()->nl, -ENETUNREACH);
	add_route_answer("0.0.0.0", 0, 2, 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 1);
	assert_int_equal(topo.n_routes, 1);
	assert_gid(topo.routes[0].src, "10.1.0.1");
	assert_int_equal(topo.routes[0].fib_len, 96);
	assert_int_equal(request->nlmsg_type, RTM_GETROUTE);
	assert_int_equal(script.request[NLMSG_HDRLEN + offsetof(struct rtmsg, rtm_src_len)], 32);
	end_script(&nl, &topo);
}

static void test_route_errors(void **state)
{
	static const int unreachable[] = {ENETUNREACH, EHOSTUNREACH, EACCES,
					  EINVAL,      EAGAIN,       ENODEV};
	union ibv_gid dgid = unit_gid("10.7.3.4"), zero = unit_gid("::"),
		      group = unit_gid("224.0.0.1");
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_routes(&nl, &topo);
	for (size_t i = 0; i < sizeof(unreachable) / sizeof(unreachable[0]); i++) {
		nl_error(&add_step()->nl, -unreachable[i]);
		nl_error(&add_step()->nl, -unreachable[i]);
		assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), 0);
	}
	nl_error(&add_step()->nl, -EPERM);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), -EPERM);
	/* Nor is half an answer one: other sources may or may not lead there. */
	nl_error(&add_step()->nl, -ENETUNREACH);
	nl_error(&add_step()->nl, -EPERM);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), -EPERM);
	/* The same number from our own socket is not the kernel's word on the route. */
	add_step()->err = EACCES;
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), -EACCES);
	/* A cache entry means that the kernel did not look at its tables alone. */
	add_route_answer("10.7.3.4", 32, 2, RTM_F_CLONED);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &dgid), -EOPNOTSUPP);
	assert_int_equal(topo.n_routes, 0);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &zero), -EINVAL);
	assert_int_equal(mv_netlink_add_route(&nl, &topo, 2, &group), -EINVAL);
	end_script(&nl, &topo);
}

static void check_faulty_route(void)
{
	union ibv_gid dgid = unit_gid("10.7.3.4");
	struct mv_netlink nl;
	struct mv_topo topo;
	int rc;

	start_script(&nl, &topo);
	add_route_answer("10.7.0.0", 16, 2, 0);
	rc = mv_netlink_add_route(&nl, &topo, 2, &dgid);
	assert_int_equal(rc, fault_fired() ? -ENOMEM : 1);
	assert_int_equal(topo.n_routes, fault_fired() ? 0 : 1);
	end_script(&nl, &topo);
}

static void test_route_no_memory(void **state)
{
	(void)state;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, check_faulty_route());
	FAULT_EACH(FAULT_GETSOCKNAME, ENOBUFS, {
		union ibv_gid dgid = unit_gid("10.7.3.4");
		struct mv_netlink nl;
		struct mv_topo topo;

		mv_topo_init(&topo);
		assert_int_equal(mv_netlink_open(&nl), 0);
		if (mv_netlink_add_route(&nl, &topo, 1, &dgid) < 0)
			assert_true(fault_fired());
		mv_netlink_close(&nl);
		mv_topo_fini(&topo);
	});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_route, stop_script),
		cmocka_unit_test_teardown(test_route_of_one_source, stop_script),
		cmocka_unit_test_teardown(test_route_errors, stop_script),
		cmocka_unit_test_teardown(test_route_no_memory, stop_script),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
