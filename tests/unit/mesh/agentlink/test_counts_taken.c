// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Descriptors that the agent takes for counters, those that it does not take, and those that wait when they are closed. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conn.h"
#include "control.h"
#include "count.h"
#include "countagent.h"
#include "realagent.h"

static int make_memfd(size_t size, int seals, uint64_t magic)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(pwrite(fd, &magic, sizeof(magic), 0), sizeof(magic));
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static bool takes(int fd)
{
	struct md_process_counts counts = {{0}};
	const struct mv_counts_page *page = NULL;
	int err;

	assert_true(fd >= 0);
	err = md_counts_map(fd, &page);
	/* What may wait is left to the caller. */
	assert_int_equal(fcntl(fd, F_GETFD), err ? FD_CLOEXEC : -1);
	if (err) {
		assert_int_equal(err, -EBADF);
		assert_null(page);
		close(fd);
	}
	md_counts_end(&counts, page);
	return page;
}

static void test_takes_sealed_pages_only(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
	size_t size = sizeof(struct mv_counts_page);
	int pipes[2];

	(void)state;
	assert_true(takes(make_memfd(size, seals, MV_COUNTS_MAGIC)));
	assert_true(takes(make_memfd(size + 8192, seals | F_SEAL_SEAL, MV_COUNTS_MAGIC)));
	assert_false(takes(make_memfd(size, F_SEAL_GROW, MV_COUNTS_MAGIC)));
	assert_false(takes(make_memfd(size, F_SEAL_SHRINK, MV_COUNTS_MAGIC)));
	assert_false(takes(make_memfd(size, 0, MV_COUNTS_MAGIC)));
	assert_false(takes(make_memfd(size - 1, seals, MV_COUNTS_MAGIC)));
	assert_false(takes(make_memfd((1 << 20) + 4096, seals, MV_COUNTS_MAGIC)));
	assert_false(takes(make_memfd(size, seals, MV_COUNTS_MAGIC + 1)));
	assert_false(takes(open("/dev/zero", O_RDWR | O_CLOEXEC)));
	assert_false(takes(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_false(takes(pipes[0]));
	close(pipes[1]);
}

/* A hole in it may have no page left to be filled with. */
static void test_takes_no_huge_pages(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	struct mv_counts_page *page;
	struct stat st;

	(void)state;
	if (fd < 0 || fstat(fd, &st) || ftruncate(fd, st.st_blksize))
		skip();
	page = mmap(NULL, (size_t)st.st_blksize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		print_message("no huge pages here\n");
		close(fd);
		skip();
	}
	page->magic = MV_COUNTS_MAGIC;
	assert_int_equal(munmap(page, (size_t)st.st_blksize), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	if (st.st_blksize > 1 << 20) /* or the size would be enough of a reason */
		print_message("refused for its size, too\n");
	assert_false(takes(fd));
}

static int join(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	md_clients_adopt(&clients, pair[0]);
	return pair[1];
}

/* @n times the same descriptor. */
static void send_with(int fd, const void *bytes, size_t len, int passed, int n)
{
	struct iovec data = {.iov_base = (void *)bytes, .iov_len = len};
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(MD_STRAYS_MAX * sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &data,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int))};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	for (int i = 0; i < n; i++)
		memcpy(CMSG_DATA(cmsg) + (size_t)i * sizeof(int), &passed, sizeof(int));
	assert_int_equal(sendmsg(fd, &msg, MSG_NOSIGNAL), len);
}

static size_t hello(uint8_t *buf)
{
	const struct mv_frame frame = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION, .len = 1, .payload = "x"};

	return mv_frame_encode(&frame, buf);
}

static void register_with(int fd, int passed, int n)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];

	send_with(fd, buf, hello(buf), passed, n);
	realagent_run();
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Until the closer has nothing to do. */
static void settle(void)
{
	for (int i = 0; clients.closing.n && i < 100; i++) {
		sd_event_run(clients.event, 100000);
		md_clients_weigh(&clients);
	}
	assert_int_equal(clients.closing.n, 0);
	realagent_run();
}

/* Who sends something else, or more, is not wanted; nothing of it stays open. */
static void test_many_descriptors(void **state)
{
	int page = make_memfd(sizeof(struct mv_counts_page), F_SEAL_SHRINK | F_SEAL_GROW, MV_COUNTS_MAGIC), fd;
	static const int numbers[] = {1, 2, MD_STRAYS_MAX};
	const uint64_t value = 7;
	unsigned int before = open_files();

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		fd = join();
		register_with(fd, i ? page : STDERR_FILENO, numbers[i]);
		assert_int_equal(clients.n, 0);
		close(fd);
		settle();
		assert_int_equal(open_files(), before);
	}
	fd = join();
	register_with(fd, page, 1);
	assert_int_equal(pwrite(page, &value, sizeof(value), offsetof(struct mv_counts_page, values)), sizeof(value));
	assert_int_equal(seen(0), 7);
	assert_int_equal(clients.n, 1);
	register_with(fd, page, 1);
	assert_int_equal(clients.n, 0);
	close(fd);
	settle();
	assert_int_equal(open_files(), before);
	assert_int_equal(seen(0), 7);
	close(page);
}

/* A TCP socket whose last close waits until @ret_peer is closed, or a day, or a signal comes. */
static int lingering(int *ret_peer)
{
	const struct linger linger = {.l_onoff = 1, .l_linger = 86400};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(address);
	char buf[65536] = {0};

	assert_true(listener >= 0 && fd >= 0);
	if (bind(listener, (struct sockaddr *)&address, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &len) || connect(fd, (struct sockaddr *)&address, len)) {
		print_message("no IPv4 on the loopback device\n");
		skip();
	}
	*ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(*ret_peer >= 0);
	close(listener);
	while (send(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

enum waiting_case {
	WITH_REGISTER,
	WITH_PAGE, /* in one packet */
	UNREAD_AFTER_EMPTY,
	UNREAD_AFTER_GARBAGE,
	UNREAD_WHEN_REFUSED,
	N_WAITING_CASES
};

static void send_what_waits(int fd, enum waiting_case what, int passed)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = hello(buf);

	if (what == UNREAD_AFTER_EMPTY)
		assert_int_equal(send(fd, buf, 0, 0), 0);
	if (what == UNREAD_AFTER_GARBAGE)
		assert_int_equal(send(fd, "garbage", 7, 0), 7);
	send_with(fd, buf, len, passed, what == WITH_PAGE ? 2 : 1);
	close(passed);
}

/* Neither what has been taken nor what has been left unread makes the event loop wait. */
static void test_descriptors_that_wait(void **state)
{
	(void)state;
	for (int what = 0; what < N_WAITING_CASES; what++) {
		int peer, passed = lingering(&peer), other = join(), pair[2], on = 1;
		uint8_t buf[MV_FRAME_MAX_BYTES];

		atomic_store(&held, HELD_ALL);
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0); /* as the listening one has it */
		clients.max = what == UNREAD_WHEN_REFUSED ? 1 : 8;
		send_what_waits(pair[1], what, passed);
		close(pair[1]);
		assert_int_equal(md_clients_adopt(&clients, pair[0]), what == UNREAD_WHEN_REFUSED ? -EUSERS : 0);
		realagent_run();
		assert_int_equal(clients.n, 1);
		/* This user can have one such packet wait, not one of each process. */
		assert_int_equal(send(other, buf, hello(buf), 0), (ssize_t)hello(buf));
		realagent_run();
		assert_int_equal(clients.by_number->registered, what > WITH_PAGE);
		assert_int_equal(clients.closing.n, 1);
		/* The thread that closes it does not wait for the peer. */
		atomic_store(&held, HELD_NOT);
		settle();
		assert_true(clients.by_number->registered);
		close(peer);
		close(other);
		realagent_run();
		assert_int_equal(clients.n, 0);
		assert_null(clients.qps.accounts);
	}
}

/* Those who wait to be closed count; a refusal that waits stops accepting at some time, and not for ever. */
static void test_leaving_are_bounded(void **state)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	int fd = join(), fds[MD_REFUSED_MAX];

	(void)state;
	atomic_store(&held, HELD_ALL);
	clients.max = 1;
	send_with(fd, "x", 1, STDERR_FILENO, 1);
	realagent_run();
	close(fd);
	assert_int_equal(clients.n, 0);
	for (int i = 0; i < MD_REFUSED_MAX; i++) {
		assert_false(clients.closing.full);
		fds[i] = join();
	}
	assert_int_equal(clients.count.refused, MD_REFUSED_MAX);
	assert_true(clients.closing.full);
	assert_int_equal(recv(fds[0], buf, sizeof(buf), MSG_DONTWAIT), 0); /* told at once */
	atomic_store(&held, HELD_NOT);
	settle();
	assert_false(clients.closing.full);
	for (int i = 0; i < MD_REFUSED_MAX; i++)
		close(fds[i]);
	fd = join();
	assert_int_equal(clients.n, 1);
	close(fd);
	realagent_run();
}

/* A descriptor that no signal helps to close makes those wait that have sent such as well, and nobody else. */
static void test_file_that_waits(void **state)
{
	int file = memfd_create("held", MFD_CLOEXEC), fd = join(), other = join(), refused;
	uint8_t buf[MV_FRAME_MAX_BYTES];
	struct stat st;

	(void)state;
	assert_int_equal(fstat(file, &st), 0);
	held_ino = st.st_ino;
	atomic_store(&held, HELD_FILE);
	clients.max = 2;
	send_with(fd, "x", 1, file, 1);
	realagent_run();
	assert_int_equal(clients.closing.n, 1);
	for (int i = 0; i < 2 * MD_REFUSED_MAX; i++) {
		refused = join();
		assert_int_equal(recv(refused, buf, sizeof(buf), 0), 0);
		close(refused);
		for (int turns = 0; clients.closing.n_refused && turns < 100; turns++)
			sd_event_run(clients.event, 100000);
		assert_int_equal(clients.closing.n_refused, 0);
		assert_false(clients.closing.full);
	}
	/* Of this user nothing is read meanwhile. */
	assert_int_equal(send(other, buf, hello(buf), 0), (ssize_t)hello(buf));
	realagent_run();
	assert_int_equal(clients.closing.n, 1);
	assert_false(clients.by_number->registered);
	atomic_store(&held, HELD_NOT);
	settle();
	assert_true(clients.by_number->registered);
	close(fd);
	close(other);
	close(file);
	realagent_run();
}

static char *make_answer(void *arg, const char *name, const struct md_peer *peer, size_t *ret_len)
{
	(void)arg;
	(void)peer;
	assert_string_equal(name, "peers");
	*ret_len = 3;
	return strdup("{}\n");
}

static void start_controls(struct md_controls *controls, struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "%s/control", dir);
	assert_int_equal(bind(fd, (struct sockaddr *)address, sizeof(*address)), 0);
	assert_int_equal(listen(fd, 64), 0);
	*controls = (struct md_controls){.event = clients.event, .answer = make_answer, .closer = &clients.closing.closer,
					.strays_closer = &clients.closing.strays_closer};
	assert_int_equal(md_controls_start(controls, fd), 0);
}

static int connect_control(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)address, sizeof(*address)), 0);
	return fd;
}

static void settle_controls(const struct md_controls *controls)
{
	for (int i = 0; !LIST_EMPTY(&controls->leaving) && i < 100; i++)
		sd_event_run(clients.event, 100000);
	assert_true(LIST_EMPTY(&controls->leaving));
	assert_int_equal(controls->n_refused, 0);
	realagent_run();
}

/* Read, left unread behind what is too long, left unread when refused: nothing of it makes the event loop wait. */
static void test_control_descriptors_that_wait(void **state)
{
	static const char request[] = "{\"get\": \"peers\"}\n";
	static const char long_request[MD_REQUEST_MAX] = "";
	struct md_controls controls;
	struct sockaddr_un address;
	unsigned int before;
	char buf[8];

	(void)state;
	start_controls(&controls, &address);
	before = open_files();
	for (int what = 0; what < 3; what++) {
		int peer, passed = lingering(&peer), fd = connect_control(&address);

		atomic_store(&held, HELD_ALL);
		if (what == 1)
			assert_int_equal(send(fd, long_request, sizeof(long_request), 0), sizeof(long_request));
		if (what == 2)
			controls.n = MD_CONTROLS_MAX;
		send_with(fd, "x", 1, passed, what ? 1 : MD_STRAYS_MAX);
		close(passed);
		realagent_run();
		assert_false(LIST_EMPTY(&controls.leaving));
		assert_true(recv(fd, buf, sizeof(buf), 0) <= 0); /* ECONNRESET, where the closer has begun */
		close(fd);
		atomic_store(&held, HELD_NOT);
		settle_controls(&controls);
		close(peer);
		assert_int_equal(open_files(), before);
		if (what == 2)
			controls.n = 0;
		/* Others, afterwards. */
		fd = connect_control(&address);
		assert_int_equal(send(fd, request, strlen(request), 0), strlen(request));
		realagent_run();
		assert_int_equal(recv(fd, buf, sizeof(buf), 0), 3);
		assert_int_equal(recv(fd, buf, sizeof(buf), 0), 0);
		assert_true(LIST_EMPTY(&controls.leaving)); /* nothing was in it: closed at once */
		assert_int_equal(controls.n, 0);
		close(fd);
	}
	md_controls_stop(&controls);
	md_controls_fini(&controls);
}

/* Refusals that wait stop accepting at some time, and not for ever. */
static void test_control_leaving_are_bounded(void **state)
{
	struct md_controls controls;
	int fds[MD_REFUSED_MAX + 1];
	struct sockaddr_un address;
	char buf[8];

	(void)state;
	if (geteuid())
		skip(); /* while one connection of a user is being closed, a further one is refused */
	start_controls(&controls, &address);
	atomic_store(&held, HELD_ALL);
	fds[0] = connect_control(&address);
	send_with(fds[0], "x", 1, STDERR_FILENO, 1);
	realagent_run();
	close(fds[0]);
	assert_int_equal(controls.n, 1);
	controls.n += MD_CONTROLS_MAX;
	for (int i = 0; i < MD_REFUSED_MAX; i++) {
		assert_false(controls.full);
		fds[i] = connect_control(&address);
		assert_int_equal(send(fds[i], "x", 1, 0), 1);
		realagent_run();
	}
	assert_true(controls.full);
	fds[MD_REFUSED_MAX] = connect_control(&address);
	realagent_run();
	assert_int_equal(recv(fds[MD_REFUSED_MAX], buf, sizeof(buf), MSG_DONTWAIT), -1);
	controls.n -= MD_CONTROLS_MAX;
	atomic_store(&held, HELD_NOT);
	settle_controls(&controls);
	assert_false(controls.full);
	assert_int_equal(controls.n, 1);
	for (int i = 0; i <= MD_REFUSED_MAX; i++)
		close(fds[i]);
	realagent_run();
	assert_int_equal(controls.n, 0);
	md_controls_stop(&controls);
	md_controls_fini(&controls);
}

/* The program's limit is not meant for it, but a file beyond it would end the program. */
static void test_file_limit(void **state)
{
	const struct rlimit small = {100, 100};
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		static struct mesh_process fresh;

		mesh_root.process = &fresh;
		setrlimit(RLIMIT_FSIZE, &small);
		_exit(mesh_counts_share() == -1 ? 7 : 8);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_limit),
		cmocka_unit_test_setup_teardown(test_takes_sealed_pages_only, setup, teardown),
		cmocka_unit_test(test_takes_no_huge_pages),
		cmocka_unit_test_setup_teardown(test_many_descriptors, setup, teardown),
		cmocka_unit_test_setup_teardown(test_descriptors_that_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(test_leaving_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_file_that_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_control_descriptors_that_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(test_control_leaving_are_bounded, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
