/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static void test_family(void **state)
{
	static const struct {
		const char *text;
		enum mv_gid_family family;
	} cases[] = {
		{"::", MV_FAMILY_NONE},
		{"0.0.0.0", MV_FAMILY_IPV4},
		{"10.1.0.2", MV_FAMILY_IPV4},
		{"255.255.255.255", MV_FAMILY_IPV4},
		{"223.255.255.255", MV_FAMILY_IPV4},
		{"224.0.0.1", MV_FAMILY_MULTICAST},
		{"239.255.255.255", MV_FAMILY_MULTICAST},
		{"240.0.0.1", MV_FAMILY_IPV4},
		{"::1", MV_FAMILY_IPV6},
		{"::10.1.0.2", MV_FAMILY_IPV6},
		{"::fffe:10.1.0.2", MV_FAMILY_IPV6},
		{"2001:db8::1", MV_FAMILY_IPV6},
		{"fc00::1", MV_FAMILY_IPV6},
		{"fe7f::1", MV_FAMILY_IPV6},
		{"fe80::1", MV_FAMILY_LINK_LOCAL},
		{"febf::1", MV_FAMILY_LINK_LOCAL},
		{"fec0::1", MV_FAMILY_IPV6},
		{"ff02::1", MV_FAMILY_MULTICAST},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		union ibv_gid gid = unit_gid(cases[i].text);

		if (mv_gid_family(&gid) != cases[i].family)
			fail_msg("%s: family %d, not %d", cases[i].text, mv_gid_family(&gid),
				 cases[i].family);
	}
}

static void test_text(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"10.1.0.2", "10.1.0.2"},
		{"::ffff:10.1.0.2", "10.1.0.2"},
		{"0000:0000:0000:0000:0000:ffff:0a01:0002", "10.1.0.2"},
		{"fe80:0000:0000:0000:0202:00ff:fe00:0001", "fe80::202:ff:fe00:1"},
		{"2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
		{"::", "::"},
	};
	static const char *const bad[] = {"",
					  " ",
					  "10.1.0",
					  "10.1.0.256",
					  "10.1.0.2/24",
					  "fe80::1%eth0",
					  "fe80::1\n",
					  "1:2:3:4:5:6:7",
					  "mlx5_0",
					  ":"};
	char longest[MV_GID_STRLEN];
	union ibv_gid gid;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		gid = unit_gid(cases[i].in);
		assert_gid(gid, cases[i].out);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		gid = unit_gid("10.9.9.9");
		assert_int_equal(mv_gid_parse(bad[i], &gid), -EINVAL);
		assert_gid(gid, "10.9.9.9");
	}
	memset(gid.raw, 0xff, sizeof(gid.raw));
	assert_int_equal(strlen(mv_gid_format(&gid, longest)), 39);
}

static void test_make(void **state)
{
	static const uint8_t mac[6] = {0x0c, 0x42, 0xa1, 0x03, 0x04, 0x05};
	union ibv_gid gid = mv_gid_from_mac(mac);

	(void)state;
	assert_gid(gid, "fe80::e42:a1ff:fe03:405");
	gid = mv_gid_from_ipv4(inet_addr("10.1.2.3"));
	assert_gid(gid, "10.1.2.3");
	assert_false(mv_gid_is_zero(&gid));
	gid = (union ibv_gid){0};
	assert_true(mv_gid_is_zero(&gid));
}

static void test_prefix(void **state)
{
	static const struct {
		const char *gid, *prefix;
		unsigned int len;
		bool in;
	} cases[] = {
		{"10.1.0.2", "10.1.0.0", 96 + 24, true}, {"10.1.1.2", "10.1.0.0", 96 + 24, false},
		{"10.1.1.2", "10.1.0.0", 96 + 23, true}, {"10.1.0.2", "10.1.0.2", 128, true},
		{"10.1.0.3", "10.1.0.2", 128, false},    {"10.1.0.3", "10.1.0.2", 127, true},
		{"10.1.0.3", "10.1.0.2", 1000, false},   {"10.1.0.2", "10.1.0.2", 1000, true},
		{"192.0.2.1", "0.0.0.0", 96, true},      {"2001:db8::1", "0.0.0.0", 96, false},
		{"2001:db8::1", "fe80::", 0, true},      {"fe80::1", "febf::", 10, true},
		{"fec0::1", "fe80::", 10, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		union ibv_gid gid = unit_gid(cases[i].gid), prefix = unit_gid(cases[i].prefix);

		if (mv_gid_in_prefix(&gid, &prefix, cases[i].len) != cases[i].in)
			fail_msg("%s in %s/%u", cases[i].gid, cases[i].prefix, cases[i].len);
	}
}

static void test_network(void **state)
{
	union ibv_gid gid = unit_gid("10.1.255.255"), network;

	(void)state;
	network = mv_gid_network(&gid, 96 + 20);
	assert_gid(network, "10.1.240.0");
	network = mv_gid_network(&gid, 128);
	assert_gid(network, "10.1.255.255");
	network = mv_gid_network(&gid, 4000);
	assert_gid(network, "10.1.255.255");
	network = mv_gid_network(&gid, 0);
	assert_gid(network, "::");
}

static void test_type_names(void **state)
{
	(void)state;
	assert_string_equal(mv_gid_type_name(MV_GID_TYPE_ROCE_V2), "RoCE v2");
	assert_string_equal(mv_gid_type_name(MV_GID_TYPE_ROCE_V1), "RoCE v1");
	assert_string_equal(mv_gid_type_name(MV_GID_TYPE_IB), "IB");
	assert_string_equal(mv_gid_type_name(MV_GID_TYPE_UNKNOWN), "unknown");
	assert_string_equal(mv_gid_type_name((enum mv_gid_type)77), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_family),  cmocka_unit_test(test_text),
		cmocka_unit_test(test_make),    cmocka_unit_test(test_prefix),
		cmocka_unit_test(test_network), cmocka_unit_test(test_type_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
