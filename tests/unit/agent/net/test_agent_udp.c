/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The agents' sockets: which of the datagrams that the kernel drops count as lost for want of room. What the kernel says of
 * the sockets is made up.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>

#include "udp.h"

#define ROOM 400000
#define OF_DATAGRAM 4096 /* room that the kernel counts for one */

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len);

/* A socket that datagrams of one byte wait in, and where they come from. */
static struct kernel {
	int fd, from;
	uint32_t drops;
	bool fails;
} kernel6, kernel4;
static struct md_udp udp;

static uint32_t waiting(const struct kernel *kernel)
{
	int n;

	assert_int_equal(ioctl(kernel->fd, SIOCINQ, &n), 0);
	return (uint32_t)n;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	const struct kernel *kernel = fd == kernel6.fd ? &kernel6 : &kernel4;
	uint32_t info[SK_MEMINFO_VARS] = {
		[SK_MEMINFO_RMEM_ALLOC] = waiting(kernel) * OF_DATAGRAM, [SK_MEMINFO_RCVBUF] = ROOM, [SK_MEMINFO_DROPS] = kernel->drops};

	assert_int_equal(fd, kernel->fd);
	assert_int_equal(level, SOL_SOCKET);
	assert_int_equal(option, SO_MEMINFO);
	if (kernel->fails) {
		errno = ENOMEM;
		return -1;
	}
	assert_int_equal(*len, sizeof(info));
	memcpy(value, info, sizeof(info));
	return 0;
}

/* So many datagrams come. */
static void arrive(const struct kernel *kernel, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(send(kernel->from, "", 1, MSG_DONTWAIT), 1);
}

/* The socket fills, and @dropped further ones find no room. */
static void overflow(struct kernel *kernel, uint32_t dropped)
{
	arrive(kernel, ROOM / OF_DATAGRAM - waiting(kernel));
	kernel->drops += dropped;
}

static void read_all(int fd)
{
	static struct md_received received;
	int err;

	do
		err = md_udp_receive(&udp, fd, &received);
	while (!err);
	assert_int_equal(err, -EAGAIN);
}

static struct kernel begin(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	return (struct kernel){.fd = fds[0], .from = fds[1]};
}

static int setup(void **state)
{
	(void)state;
	kernel6 = begin();
	kernel4 = begin();
	udp = (struct md_udp){.fd6 = kernel6.fd, .fd4 = kernel4.fd};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(kernel6.fd);
	close(kernel6.from);
	close(kernel4.fd);
	close(kernel4.from);
	return 0;
}

/* What did not fit is counted, wherever in a round of reading the socket was full. */
static void test_full(void **state)
{
	static struct md_received received;
	uint32_t lost = 0;

	(void)state;
	for (uint32_t before = 0; before < 40; before++) {
		arrive(&kernel6, before);
		read_all(kernel6.fd);
		overflow(&kernel6, 1 + before);
		lost += 1 + before;
		read_all(kernel6.fd);
		assert_int_equal(md_udp_dropped(&udp), lost);
		arrive(&kernel4, before);
		for (uint32_t i = 0; i < before; i++)
			assert_int_equal(md_udp_receive(&udp, kernel4.fd, &received), 0);
		overflow(&kernel4, 2);
		lost += 2;
		read_all(kernel4.fd);
		assert_int_equal(md_udp_dropped(&udp), lost);
	}
	/* It is counted while the datagrams wait. */
	overflow(&kernel4, 5);
	assert_int_equal(md_udp_dropped(&udp), lost + 5);
	assert_int_equal(md_udp_dropped(&udp), lost + 5);
}

/* Datagrams that the kernel drops for another reason, beside what the agents say, are not counted. */
static void test_wrong_checksums(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		kernel6.drops += i;
		kernel4.drops++;
		arrive(&kernel6, i % 17);
		arrive(&kernel4, i % 7);
		if (i % 3)
			read_all(kernel6.fd);
		read_all(kernel4.fd);
		assert_int_equal(md_udp_dropped(&udp), 0);
	}
	/* Nor are they later, with those that find no room. */
	overflow(&kernel6, 3);
	read_all(kernel6.fd);
	assert_int_equal(md_udp_dropped(&udp), 3);
}

static void test_counts_wrap(void **state)
{
	(void)state;
	kernel6.drops = UINT32_MAX - 2;
	assert_int_equal(md_udp_dropped(&udp), 0);
	overflow(&kernel6, 10);
	assert_int_equal(md_udp_dropped(&udp), 10);
}

/* A kernel that cannot say it for once, and a host without IPv4. */
static void test_not_known(void **state)
{
	(void)state;
	kernel6.drops = 7;
	assert_int_equal(md_udp_dropped(&udp), 0);
	kernel6.fails = true;
	assert_int_equal(md_udp_dropped(&udp), 0);
	kernel6.fails = false;
	udp.fd4 = -1;
	overflow(&kernel6, 1);
	assert_int_equal(md_udp_dropped(&udp), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_full, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wrong_checksums, setup, teardown),
		cmocka_unit_test_setup_teardown(test_counts_wrap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_known, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
