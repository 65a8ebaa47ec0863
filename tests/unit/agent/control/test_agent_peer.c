/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Who is at the other end of a local socket. */
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

static void test_depth(void **state)
{
	(void)state;
	assert_int_equal(md_peer_depth("Name:\tx\nNStgid:\t5\t1\nNSpid:\t5\nNSpgid:\t5\t1\n"), 1);
	assert_int_equal(md_peer_depth("Name:\tx\nNSpid:\t815\t12\t1\n"), 3);
	assert_int_equal(md_peer_depth("Name:\tNSpid:\\t1\n"), 0);
	assert_int_equal(md_peer_depth(""), 0);
}

static void test_root(void **state)
{
	static const char host[] = "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
				   "27 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
				   "30 27 8:1 /srv /srv rw - ext4 /dev/sda1 rw\n";
	static const char twice[] = "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
				    "99 27 0:55 /image / rw - overlay overlay rw\n";
	char root[64], small[4];

	(void)state;
	assert_int_equal(md_peer_root(host, root, sizeof(root)), 0);
	assert_string_equal(root, "8:1 /");
	assert_int_equal(md_peer_root(twice, root, sizeof(root)), 0);
	assert_string_equal(root, "0:55 /image");
	assert_int_equal(md_peer_root(host, small, sizeof(small)), -ENOSPC);
	assert_int_equal(md_peer_root("22 27 0:21 / /proc rw - proc proc rw\n", root, sizeof(root)), -ENOENT);
	/* A line that was cut off does not count. */
	assert_int_equal(md_peer_root("27 1 8:1 / / rw", root, sizeof(root)), -ENOENT);
	assert_int_equal(md_peer_root("\n\n", root, sizeof(root)), -ENOENT);
}

static void test_cgroup(void **state)
{
	char path[32];

	(void)state;
	assert_int_equal(md_peer_cgroup("0::/kubepods.slice/pod1/a\n", path, sizeof(path)), 0);
	assert_string_equal(path, "/kubepods.slice/pod1/a");
	assert_int_equal(md_peer_cgroup("8:pids:/docker/1\n1:name=systemd:/docker/12\n0::/\n", path, sizeof(path)), 0);
	assert_string_equal(path, "/docker/12");
	assert_int_equal(md_peer_cgroup("9:name=systemd:/\n0::/\n", path, sizeof(path)), -ENOENT);
	assert_int_equal(md_peer_cgroup("nonsense\n\n:\n::\n", path, sizeof(path)), -ENOENT);
	assert_int_equal(md_peer_cgroup("0::/a/path/that/is/too/long/for/it/too\n", path, sizeof(path)), -ENOSPC);
}

/* A user has as many sessions as he begins, each with a cgroup of its own, and one account. */
static void test_sessions(void **state)
{
	(void)state;
	assert_int_equal(md_peer_slice_user("/user.slice/user-1000.slice/session-3.scope"), 1000);
	assert_int_equal(md_peer_slice_user("/user.slice/user-1000.slice/user@1000.service/app.slice/x"), 1000);
	assert_int_equal(md_peer_slice_user("/user.slice/user-1000.slice"), 1000);
	assert_int_equal(md_peer_slice_user("/user.slice/user-0.slice/session-3.scope"), 0);
	assert_int_equal(md_peer_slice_user("/user.slice/user-1000.slices/x"), 0);
	assert_int_equal(md_peer_slice_user("/user.slice/user-1000"), 0);
	assert_int_equal(md_peer_slice_user("/lxc/1/user.slice/user-1000.slice/session-3.scope"), 0);
	assert_int_equal(md_peer_slice_user("/system.slice/x.service"), 0);
}

/* This process is where the agent is, whatever that is. */
/* The root of a chroot is no mount: packages are built in such ones. Processes there count as those of a container. */
static bool in_chroot(void)
{
	char text[65536], root[1100];
	FILE *file = fopen("/proc/self/mountinfo", "re");
	size_t len;

	assert_non_null(file);
	len = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[len] = '\0';
	return md_peer_root(text, root, sizeof(root)) == -ENOENT;
}

static void test_self(void **state)
{
	char text[MD_PEER_TEXT_SIZE], expected[MD_PEER_TEXT_SIZE];
	struct md_peer peer;
	int fds[2];

	(void)state;
	assert_int_equal(md_peer_of(-1, &peer), -EBADF);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	assert_int_equal(md_peer_of(fds[0], &peer), 0);
	assert_int_equal(peer.pid, getpid());
	assert_int_equal(peer.uid, geteuid());
	if (in_chroot()) {
		assert_int_equal(peer.place, MD_PLACE_CONTAINER);
		assert_false(md_peer_is_admin(&peer));
		assert_false(md_peer_unbounded(&peer));
	} else {
		assert_int_equal(peer.account, geteuid());
		assert_int_equal(peer.place, MD_PLACE_HOST);
		assert_true(md_peer_is_admin(&peer));
		assert_int_equal(md_peer_unbounded(&peer), !geteuid());
	}
	snprintf(expected, sizeof(expected), "user %u, process %d%s", geteuid(), getpid(), in_chroot() ? " in a container" : "");
	assert_string_equal(md_peer_text(&peer, text, sizeof(text)), expected);
	assert_int_equal(md_peer_uid(getpid()), geteuid());
	assert_int_equal(md_peer_uid(INT_MAX), (uid_t)-1);
	close(fds[0]);
	close(fds[1]);
}

static void test_rights(void **state)
{
	static const struct {
		struct md_peer peer;
		bool admin;
	} cases[] = {
		{{.pid = 5, .uid = 0, .place = MD_PLACE_HOST}, true},
		{{.pid = 5, .uid = 0, .place = MD_PLACE_UNSEEN}, true},
		{{.pid = 5, .uid = 0, .place = MD_PLACE_CONTAINER}, false},
		{{.pid = 0, .uid = 0, .place = MD_PLACE_HIDDEN}, false},
	};
	struct md_peer peer;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(md_peer_is_admin(&cases[i].peer), cases[i].admin);
		peer = cases[i].peer;
		peer.uid = geteuid();
		assert_int_equal(md_peer_is_admin(&peer), cases[i].admin);
		peer.uid = geteuid() + 1;
		assert_false(md_peer_is_admin(&peer));
	}
}

/* Whoever connects, and ends at once or later, is not taken for who has the number next. */
static void test_has_ended(void **state)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), live[2], fd, process, status;
	socklen_t len = offsetof(struct sockaddr_un, sun_path) + 1;
	struct md_peer peer;
	pid_t child;

	(void)state;
	len += (socklen_t)sprintf(addr.sun_path + 1, "meshverbs-test-%d", (int)getpid());
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(listener, 4), 0);
	for (int early = 0; early < 2; early++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, live), 0);
		child = fork();
		assert_true(child >= 0);
		if (!child) {
			fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
			close(live[0]);
			_exit(connect(fd, (struct sockaddr *)&addr, len) || (!early && read(live[1], &status, 1)));
		}
		close(live[1]);
		fd = accept(listener, NULL, NULL);
		assert_true(fd >= 0);
		if (early)
			assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(md_peer_of(fd, &peer), 0);
		process = md_peer_open(fd, child);
		assert_int_equal(md_peer_has_ended(process), early);
		assert_int_equal(peer.place == MD_PLACE_HIDDEN, early);
		close(live[0]);
		if (!early)
			assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		assert_true(md_peer_has_ended(process));
		if (process >= 0)
			close(process);
		close(fd);
	}
	assert_true(md_peer_open(listener, 0) < 0);
	assert_false(md_peer_has_ended(md_peer_open(listener, 0)));
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_depth), cmocka_unit_test(test_root),   cmocka_unit_test(test_cgroup), cmocka_unit_test(test_sessions),
		cmocka_unit_test(test_self),  cmocka_unit_test(test_rights), cmocka_unit_test(test_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
