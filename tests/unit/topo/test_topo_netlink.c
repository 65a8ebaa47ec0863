/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Dumps of links and addresses, of the running kernel and of a scripted one. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <linux/rtnetlink.h>

#include "nlscript.h"

static bool same_names(const struct if_nameindex *a, const struct if_nameindex *b)
{
	for (; a->if_index && b->if_index; a++, b++)
		if (a->if_index != b->if_index || strcmp(a->if_name, b->if_name))
			return false;
	return a->if_index == b->if_index;
}

/*
 * Fills a snapshot between two looks at libc's list of interfaces until these agree: hosts change.
 */
static struct if_nameindex *fill_stable(struct mv_netlink *nl, struct mv_topo *topo)
{
	for (int i = 0; i < 100; i++) {
		struct if_nameindex *before = if_nameindex(), *after;
		bool same;

		assert_int_equal(mv_netlink_fill(nl, topo), 0);
		after = if_nameindex();
		assert_true(before && after);
		same = same_names(before, after);
		if_freenameindex(before);
		if (same)
			return after;
		if_freenameindex(after);
	}
	fail_msg("the interfaces of this host never stood still");
	return NULL;
}

static void test_this_host(void **state)
{
	unsigned int fds = fault_open_fds();
	struct if_nameindex *names;
	struct mv_netlink nl;
	struct mv_topo topo;
	size_t n;

	(void)state;
	mv_topo_init(&topo);
	assert_int_equal(mv_netlink_open(&nl), 0);
	assert_true(fcntl(nl.request_fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(nl.event_fd, F_GETFD) & FD_CLOEXEC);
	names = fill_stable(&nl, &topo);
	for (n = 0; names[n].if_index; n++)
		assert_string_equal(mv_topo_netdev(&topo, names[n].if_index)->name,
				    names[n].if_name);
	assert_true(n > 0);
	assert_int_equal(topo.n_netdevs, n);
	if_freenameindex(names);
	mv_netlink_close(&nl);
	mv_netlink_close(&nl);
	assert_int_equal(fault_open_fds(), fds);
	mv_topo_fini(&topo);
}

static long read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	long number = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

/* Who looks seldom finds many changes: their socket holds as many as the host allows. The kernel counts twice what it is asked for. */
static void test_room_for_notices(void **state)
{
	long max = read_number("/proc/sys/net/core/rmem_max"), usual = read_number("/proc/sys/net/core/rmem_default");
	socklen_t len = sizeof(int);
	struct mv_netlink nl;
	int bytes = 0;

	(void)state;
	if (max < 0 || usual < 0) /* in a network namespace of older kernels */
		skip();
	assert_int_equal(mv_netlink_open(&nl), 0);
	assert_int_equal(getsockopt(nl.event_fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len), 0);
	if (usual < 1 << 20)
		assert_int_equal(bytes, 2 * (max < 1 << 20 ? max : 1 << 20));
	else
		assert_int_equal(bytes, usual);
	mv_netlink_close(&nl);
}

static void assert_two_netdevs(const struct mv_topo *topo)
{
	assert_int_equal(topo->n_netdevs, 2);
	assert_int_equal(topo->n_addrs, 2);
	assert_int_equal(topo->n_routes, 0);
}

static void test_fill(void **state)
{
	struct mv_route stale = {.ifindex = 2};
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_script(&nl, &topo);
	assert_int_equal(mv_topo_add_route(&topo, &stale), 0);
	add_links();
	add_addrs();
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_two_netdevs(&topo);
	assert_int_equal(script.requests, 2);
	assert_int_equal(script.next, script.n);
	end_script(&nl, &topo);
}

static void test_foreign_messages(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;
	struct step *step;

	(void)state;
	start_script(&nl, &topo);
	/* From another process; of an older request; for another socket. */
	step = add_step();
	step->from_pid = 4711;
	nl_link(&step->nl, 66, "evil", IFF_UP);
	step = add_step();
	nl_link(&step->nl, 67, "old", IFF_UP);
	nl_header(&step->nl)->nlmsg_seq = FOREIGN_SEQ;
	nl_done(&step->nl);
	nl_header(&step->nl)->nlmsg_seq = FOREIGN_SEQ;
	nl_error(&step->nl, -EIO);
	nl_header(&step->nl)->nlmsg_pid = 1;
	add_links();
	add_addrs();
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_two_netdevs(&topo);
	end_script(&nl, &topo);
}

static void test_inconsistent_dump(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_script(&nl, &topo);
	/*
	 * The flag may be on any message of the dump; the rest of it is read, and it is taken
	 * again.
	 */
	nl_link(&add_step()->nl, 2, "gone", IFF_UP);
	nl_header(&script.steps[0].nl)->nlmsg_flags = NLM_F_DUMP_INTR;
	nl_done(&add_step()->nl);
	add_links();
	nl_addr(&add_step()->nl, 2, "10.9.0.1", 24);
	nl_done(&script.steps[script.n - 1].nl);
	nl_header(&script.steps[script.n - 1].nl)->nlmsg_flags = NLM_F_DUMP_INTR;
	add_links();
	add_addrs();
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_two_netdevs(&topo);
	assert_string_equal(mv_topo_netdev(&topo, 2)->name, "eth0");
	assert_int_equal(script.requests, 5);

	/* But not for ever. */
	script.n = script.next = 0;
	memset(script.steps, 0, sizeof(script.steps));
	for (int i = 0; i < 10; i++) {
		nl_done(&add_step()->nl);
		nl_header(&script.steps[i].nl)->nlmsg_flags = NLM_F_DUMP_INTR;
	}
	assert_int_equal(mv_netlink_fill(&nl, &topo), -EINTR);
	assert_int_equal(topo.n_netdevs + topo.n_addrs, 0);
	assert_int_equal(script.next, 5);
	end_script(&nl, &topo);
}

static void test_lost_messages(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;
	int fd;

	(void)state;
	start_script(&nl, &topo);
	fd = nl.request_fd;
	nl_link(&add_step()->nl, 9, "half", IFF_UP);
	add_step()->err = ENOBUFS;
	/* A fresh socket for the next try: the old one is in the middle of a dump. */
	assert_int_equal(mv_netlink_fill(&nl, &topo), -ETIMEDOUT);
	assert_int_equal(nl.request_fd, -1);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(topo.n_netdevs, 0);
	/* And it works again without being opened anew by the caller. */
	stop_script(NULL);
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_true(topo.n_netdevs > 0);
	end_script(&nl, &topo);
}

static void test_malformed_answers(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct step *step;

		start_script(&nl, &topo);
		step = add_step();
		nl_link(&step->nl, 2, "eth0", IFF_UP);
		if (i == 0)
			step->nl.len -= 4;
		else if (i == 1)
			nl_header(&step->nl)->nlmsg_len = 8;
		else if (i == 2)
			step->nl.len = 5;
		else
			nl_attr(&step->nl, IFLA_MTU, "x", 1);
		assert_int_equal(mv_netlink_fill(&nl, &topo), -EBADMSG);
		assert_int_equal(topo.n_netdevs + topo.n_addrs, 0);
		end_script(&nl, &topo);
	}
}

/* Datagrams beyond the usual 32 KiB get a larger buffer, within reason. */
static void test_long_datagrams(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_script(&nl, &topo);
	add_links();
	script.steps[0].claimed_len = 200000;
	add_addrs();
	assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	assert_two_netdevs(&topo);
	end_script(&nl, &topo);

	start_script(&nl, &topo);
	add_links();
	script.steps[0].claimed_len = 2000000;
	assert_int_equal(mv_netlink_fill(&nl, &topo), -EBADMSG);
	end_script(&nl, &topo);

	start_script(&nl, &topo);
	add_links();
	script.steps[0].truncated = true;
	assert_int_equal(mv_netlink_fill(&nl, &topo), -EBADMSG);
	assert_int_equal(topo.n_netdevs, 0);
	end_script(&nl, &topo);
}

static void test_kernel_says_no(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_script(&nl, &topo);
	add_links();
	nl_error(&add_step()->nl, -EPERM);
	assert_int_equal(mv_netlink_fill(&nl, &topo), -EPERM);
	assert_int_equal(topo.n_netdevs + topo.n_addrs, 0);
	/* The answer was complete, so the socket is still good. */
	assert_true(nl.request_fd >= 0);
	end_script(&nl, &topo);
}

static void check_faulty_open(void)
{
	unsigned int fds = fault_open_fds();
	struct mv_netlink nl;
	int err = mv_netlink_open(&nl);

	assert_int_equal(err, fault_fired() ? -EMFILE : 0);
	mv_netlink_close(&nl);
	assert_int_equal(fault_open_fds(), fds);
}

static void check_faulty_fill(int err, int expected)
{
	unsigned int fds = fault_open_fds();
	struct mv_netlink nl;
	struct mv_topo topo;
	bool again;
	int rc;

	mv_topo_init(&topo);
	assert_int_equal(mv_netlink_open(&nl), 0);
	rc = mv_netlink_fill(&nl, &topo);
	again = err == EINTR || err == ENOBUFS;
	assert_int_equal(rc, fault_fired() && !again ? expected : 0);
	assert_int_equal(topo.n_netdevs > 0, !rc);
	if (rc) {
		assert_int_equal(topo.n_addrs, 0);
		/* A failure is no reason to fail for ever. */
		assert_int_equal(mv_netlink_fill(&nl, &topo), 0);
	}
	mv_netlink_close(&nl);
	mv_topo_fini(&topo);
	assert_int_equal(fault_open_fds(), fds);
}

static void test_faults(void **state)
{
	(void)state;
	FAULT_EACH(FAULT_SOCKET, EMFILE, check_faulty_open());
	FAULT_EACH(FAULT_BIND, EMFILE, check_faulty_open());
	FAULT_EACH(FAULT_SENDTO, ECONNREFUSED, check_faulty_fill(ECONNREFUSED, -ECONNREFUSED));
	FAULT_EACH(FAULT_SENDTO, EINTR, check_faulty_fill(EINTR, 0));
	FAULT_EACH(FAULT_RECV, EINTR, check_faulty_fill(EINTR, 0));
	FAULT_EACH(FAULT_RECV, ENOBUFS, check_faulty_fill(ENOBUFS, 0));
	FAULT_EACH(FAULT_RECV, EAGAIN, check_faulty_fill(EAGAIN, -ETIMEDOUT));
	FAULT_EACH(FAULT_RECVMSG, EINTR, check_faulty_fill(EINTR, 0));
	FAULT_EACH(FAULT_RECVMSG, ENOBUFS, check_faulty_fill(ENOBUFS, 0));
	FAULT_EACH(FAULT_RECVMSG, EIO, check_faulty_fill(EIO, -EIO));
	FAULT_EACH(FAULT_ALLOC, ENOMEM, check_faulty_fill(ENOMEM, -ENOMEM));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_this_host),
		cmocka_unit_test(test_room_for_notices),
		cmocka_unit_test_teardown(test_fill, stop_script),
		cmocka_unit_test_teardown(test_foreign_messages, stop_script),
		cmocka_unit_test_teardown(test_inconsistent_dump, stop_script),
		cmocka_unit_test_teardown(test_lost_messages, stop_script),
		cmocka_unit_test_teardown(test_malformed_answers, stop_script),
		cmocka_unit_test_teardown(test_long_datagrams, stop_script),
		cmocka_unit_test_teardown(test_kernel_says_no, stop_script),
		cmocka_unit_test(test_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
