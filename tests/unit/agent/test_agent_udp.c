/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Whether a netdev has carrier: each datagram asks, the kernel is asked now and then. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <cmocka.h>

#include "bounds.h"
#include "udp.h"

static unsigned int n_asked;
static bool carrier;

int __wrap_ioctl(int fd, unsigned long request, struct ifreq *ifr);

int __wrap_ioctl(int fd, unsigned long request, struct ifreq *ifr)
{
	assert_int_equal(fd, 7);
	assert_int_equal(request, SIOCGIFFLAGS);
	n_asked++;
	if (!strcmp(ifr->ifr_name, "gone0")) {
		errno = ENODEV;
		return -1;
	}
	ifr->ifr_flags = carrier || !strncmp(ifr->ifr_name, "up", 2) ? IFF_UP | IFF_RUNNING : IFF_UP;
	return 0;
}

static void test_runs(void **state)
{
	struct md_udp udp = {.fd4 = -1, .fd6 = 7};
	char name[IF_NAMESIZE] = "up0";
	uint64_t now = 1000 * MD_S;
	unsigned int i;

	(void)state;
	carrier = true;
	for (i = 0; i < 100; i++) {
		assert_int_equal(md_udp_runs(&udp, "eth0", now), 1);
		assert_int_equal(md_udp_runs(&udp, "up0", now), 1);
	}
	assert_int_equal(n_asked, 2);
	/* Lost: that is not missed for longer than that. */
	carrier = false;
	assert_int_equal(md_udp_runs(&udp, "eth0", now + MD_RUNS_NS - 1), 1);
	now += MD_RUNS_NS;
	assert_int_equal(md_udp_runs(&udp, "eth0", now), 0);
	assert_int_equal(md_udp_runs(&udp, "up0", now), 1);
	assert_int_equal(n_asked, 4);
	carrier = true;
	assert_int_equal(md_udp_runs(&udp, "eth0", now + 1), 0);
	now += MD_RUNS_NS;
	assert_int_equal(md_udp_runs(&udp, "eth0", now), 1);
	assert_int_equal(n_asked, 5);
	/* More of them than are remembered, and one that is not there. */
	n_asked = 0;
	for (i = 0; i < 3 * MD_UDP_NETS; i++) {
		name[2] = (char)('a' + i);
		assert_int_equal(md_udp_runs(&udp, name, now), 1);
		assert_int_equal(md_udp_runs(&udp, name, now), 1);
		assert_int_equal(n_asked, i + 1);
	}
	assert_int_equal(md_udp_runs(&udp, "gone0", now), -ENODEV);
	assert_int_equal(md_udp_runs(&udp, "gone0", now), -ENODEV);
	assert_int_equal(n_asked, 3 * MD_UDP_NETS + 2);
	assert_int_equal(md_udp_runs(&udp, name, now), 1);
	assert_int_equal(n_asked, 3 * MD_UDP_NETS + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
