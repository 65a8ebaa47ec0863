/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Notices of changes, of a scripted kernel. */
#include <errno.h>
#include <net/if.h>

#include "nlscript.h"

static const unsigned int all_seen = MV_NETLINK_NET | MV_NETLINK_ROUTES | MV_NETLINK_LOST;

/* How the socket for changes is looked at, and emptied where it is of no more use. */
static ssize_t scripted_notice(int fd, void *buf, size_t len, int flags)
{
	struct step *step = &script.steps[script.next];

	(void)fd;
	(void)buf;
	assert_int_equal(len, 1);
	assert_true(flags & MSG_DONTWAIT);
	if (script.next == script.n) {
		errno = EAGAIN;
		return -1;
	}
	if (step->err) {
		errno = step->err;
		script.next++; /* said once */
		return -1;
	}
	script.next += !(flags & MSG_PEEK);
	return 1;
}

static ssize_t scripted_notice_message(int fd, struct msghdr *msg, int flags)
{
	assert_true(flags & MSG_DONTWAIT);
	if (script.next == script.n) {
		errno = EAGAIN;
		return -1;
	}
	if (script.steps[script.next].err) {
		errno = script.steps[script.next++].err;
		return -1;
	}
	return scripted_recvmsg(fd, msg, flags);
}

static void start_notices(struct mv_netlink *nl, struct mv_topo *topo)
{
	start_script(nl, topo);
	fault_recv_divert = scripted_notice;
	fault_recvmsg_divert = scripted_notice_message;
}

static void add_notice(int ifindex)
{
	nl_link(&add_step()->nl, ifindex, "eth0", IFF_UP);
}

static void test_follow(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	start_notices(&nl, &topo);
	assert_int_equal(mv_netlink_follow(&nl, &topo), 0);
	add_notice(2);
	add_step()->err = EINTR;
	add_notice(3);
	add_notice(4); /* of another process */
	script.steps[3].from_pid = 4711;
	assert_int_equal(mv_netlink_follow(&nl, &topo), MV_NETLINK_NET);
	assert_int_equal(topo.n_netdevs, 2);
	assert_int_equal(script.next, script.n);
	/* Without a snapshot all is thrown away. */
	add_notice(5);
	assert_int_equal(mv_netlink_follow(&nl, NULL), all_seen);
	assert_int_equal(mv_netlink_follow(&nl, NULL), 0);
	assert_int_equal(script.next, script.n);
	end_script(&nl, &topo);
}

/* Whatever is wrong with one: it is said, and none is left that would come behind the dump which makes that good. */
static void test_follow_lost(void **state)
{
	struct mv_netlink nl;
	struct mv_topo topo;

	(void)state;
	for (int i = 0; i < 6; i++) {
		start_notices(&nl, &topo);
		if (i == 0)
			add_step()->err = ENOBUFS; /* said to the one who looks whether there is anything */
		add_notice(2);
		if (i == 1)
			add_step()->err = ENOBUFS;
		add_notice(3);
		if (i == 2)
			script.steps[1].truncated = true;
		else if (i == 3)
			script.steps[1].nl.len -= 4;
		else if (i == 4)
			fault_arm(FAULT_ALLOC, 1, ENOMEM);
		else if (i == 5)
			fault_arm(FAULT_ALLOC, 2, ENOMEM);
		add_notice(4);
		assert_int_equal(mv_netlink_follow(&nl, &topo), all_seen);
		fault_disarm();
		assert_int_equal(script.next, script.n);
		assert_int_equal(mv_netlink_follow(&nl, &topo), 0);
		end_script(&nl, &topo);
	}
}

static const int *change_errnos;

/* Each element one recv(): 0 a notice, else an error; EAGAIN ends. */
static ssize_t scripted_changes(int fd, void *buf, size_t len, int flags)
{
	int err = *change_errnos++;

	(void)fd;
	(void)buf;
	(void)len;
	assert_int_equal(flags, MSG_DONTWAIT);
	errno = err;
	return err ? -1 : 1;
}

static ssize_t endless_changes(int fd, void *buf, size_t len, int flags)
{
	(void)fd;
	(void)buf;
	(void)len;
	(void)flags;
	return 1;
}

static bool changed_after(struct mv_netlink *nl, const int *errnos)
{
	bool changed;

	change_errnos = errnos;
	fault_recv_divert = scripted_changes;
	changed = mv_netlink_changed(nl);
	fault_recv_divert = NULL;
	return changed;
}

static void test_changed(void **state)
{
	struct mv_netlink nl;

	(void)state;
	assert_int_equal(mv_netlink_open(&nl), 0);
	assert_false(changed_after(&nl, (int[]){EAGAIN}));
	assert_false(changed_after(&nl, (int[]){EINTR, EINTR, EAGAIN}));
	assert_true(changed_after(&nl, (int[]){0, EAGAIN}));
	assert_true(changed_after(&nl, (int[]){0, EINTR, 0, EAGAIN}));
	assert_true(changed_after(&nl, (int[]){ENOBUFS, EAGAIN}));
	/* Not even a host that never stands still holds a program up. */
	fault_recv_divert = endless_changes;
	assert_true(mv_netlink_changed(&nl));
	fault_recv_divert = NULL;
	/* A broken socket tells nothing, so everything may have changed. */
	assert_true(changed_after(&nl, (int[]){EBADF}));
	mv_netlink_close(&nl);
	assert_true(mv_netlink_changed(&nl));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_follow, stop_script),
		cmocka_unit_test_teardown(test_follow_lost, stop_script),
		cmocka_unit_test(test_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
