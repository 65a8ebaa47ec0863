/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"
#include "log.h"
#include "tmpdir.h"

/* ---- syslog, with a socket of our own in the place of /dev/log ------------------------------- */

static struct tmpdir dir;
static struct sockaddr_un fake_syslog = {.sun_family = AF_UNIX};
static int syslog_fd = -1;

ssize_t __real_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
		      socklen_t addr_len);

static ssize_t to_fake_syslog(int fd, const void *buf, size_t len, int flags,
			      const struct sockaddr *addr, socklen_t addr_len)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)addr;

	assert_int_equal(addr_len, sizeof(*un));
	assert_int_equal(un->sun_family, AF_UNIX);
	assert_string_equal(un->sun_path, "/dev/log");
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	return __real_sendto(fd, buf, len, flags, (const struct sockaddr *)&fake_syslog,
			     sizeof(fake_syslog));
}

static int setup(void **state)
{
	(void)state;
	tmpdir_make(&dir);
	snprintf(fake_syslog.sun_path, sizeof(fake_syslog.sun_path), "%s", tmpdir_at(&dir, "log"));
	syslog_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(syslog_fd >= 0);
	assert_int_equal(bind(syslog_fd, (struct sockaddr *)&fake_syslog, sizeof(fake_syslog)), 0);
	fault_sendto_divert = to_fake_syslog;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fault_sendto_divert = NULL;
	close(syslog_fd);
	tmpdir_remove(&dir);
	return 0;
}

/* The next datagram, "" when there is none. */
static const char *next_line(void)
{
	static char line[2048];
	ssize_t n = recv(syslog_fd, line, sizeof(line) - 1, 0);

	line[n < 0 ? 0 : n] = '\0';
	return line;
}

/* "<PRI>meshverbs[PID]: test_log: TEXT" */
static void assert_line(int priority, const char *text)
{
	char expected[2048];

	snprintf(expected, sizeof(expected), "<%d>meshverbs[%d]: test_log: %s", priority,
		 (int)getpid(), text);
	assert_string_equal(next_line(), expected);
}

static void test_syslog(void **state)
{
	struct mv_log log;

	(void)state;
	mv_log_init(&log, "syslog", MV_LOG_DEBUG);
	errno = EXDEV;
	mv_log(&log, MV_LOG_ERR, "index %d is empty", 3);
	assert_int_equal(errno, EXDEV);
	assert_line(8 + 3, "index 3 is empty"); /* facility user, RFC 3164 section 4.1.1 */
	mv_log(&log, MV_LOG_WARN, "w");
	assert_line(8 + 4, "w");
	mv_log(&log, MV_LOG_INFO, "i");
	assert_line(8 + 6, "i");
	mv_log(&log, MV_LOG_DEBUG, "%m");
	assert_line(8 + 7, strerror(EXDEV));
	mv_log(&log, MV_LOG_ERR, "a\nb\tc\033[31m\x7f\xc3\xa4");
	assert_line(8 + 3, "a?b?c?[31m?\xc3\xa4");
	mv_log(&log, MV_LOG_ERR, "%s", "");
	assert_line(8 + 3, "");
}

static void test_level(void **state)
{
	struct mv_log log;

	(void)state;
	mv_log_init(&log, "syslog", MV_LOG_WARN);
	mv_log(&log, MV_LOG_INFO, "no");
	mv_log_once(&log, MV_LOG_DEBUG, "no");
	assert_string_equal(next_line(), "");
	mv_log(&log, MV_LOG_WARN, "yes");
	assert_line(8 + 4, "yes");
	/* What the level keeps back is not remembered as written either. */
	log.level = MV_LOG_DEBUG;
	mv_log_once(&log, MV_LOG_DEBUG, "no");
	assert_line(8 + 7, "no");
}

static void test_long_text(void **state)
{
	char text[3000];
	struct mv_log log;
	const char *line;

	(void)state;
	mv_log_init(&log, "syslog", MV_LOG_DEBUG);
	for (size_t len = 900; len < sizeof(text); len += 7) {
		memset(text, 'x', len);
		text[len] = '\0';
		mv_log(&log, MV_LOG_ERR, "%s", text);
		line = next_line();
		assert_true(strlen(line) < 1024);
		if (len > 1024)
			assert_string_equal(line + strlen(line) - 4, " ...");
	}
}

/* A syslog that does not read must not hold up the program. */
static void test_stuck_syslog(void **state)
{
	struct mv_log log;
	unsigned int fds = fault_open_fds(), n = 0;

	(void)state;
	mv_log_init(&log, "syslog", MV_LOG_DEBUG);
	alarm(300);
	for (int i = 0; i < 5000; i++)
		mv_log(&log, MV_LOG_ERR, "line %d", i);
	alarm(0);
	assert_int_equal(fault_open_fds(), fds);
	while (*next_line())
		n++;
	assert_in_range(n, 1, 4999);
}

static void log_with_fault(struct mv_log *log, int err)
{
	unsigned int fds = fault_open_fds();

	errno = EXDEV;
	mv_log(log, MV_LOG_ERR, "hello");
	assert_int_equal(errno, EXDEV);
	assert_int_equal(fault_open_fds(), fds);
	if (!fault_fired() || err == EINTR)
		assert_line(8 + 3, "hello");
	else
		assert_string_equal(next_line(), "");
}

static void test_syslog_faults(void **state)
{
	struct mv_log log;

	(void)state;
	mv_log_init(&log, "syslog", MV_LOG_DEBUG);
	FAULT_EACH(FAULT_SOCKET, EMFILE, log_with_fault(&log, EMFILE));
	FAULT_EACH(FAULT_SENDTO, EAGAIN, log_with_fault(&log, EAGAIN));
	FAULT_EACH(FAULT_SENDTO, ENOENT, log_with_fault(&log, ENOENT));
	FAULT_EACH(FAULT_SENDTO, EINTR, log_with_fault(&log, EINTR));
	/* Logging never asks for memory, so it works when there is none. */
	FAULT_EACH(FAULT_ALLOC, ENOMEM, log_with_fault(&log, 0));
}

/* ---- once ------------------------------------------------------------------------------------ */

static void test_once(void **state)
{
	static const char full[] =
		"too many different messages in this process: further ones are dropped";
	struct mv_log log;

	(void)state;
	mv_log_init(&log, "syslog", MV_LOG_DEBUG);
	mv_log_once(&log, MV_LOG_WARN, "text %d", 0);
	mv_log_once(&log, MV_LOG_WARN, "text %d", 0);
	mv_log_once(&log, MV_LOG_WARN, "text %s", "0");
	assert_line(8 + 4, "text 0");
	assert_string_equal(next_line(), "");

	for (int i = 1; i < MV_LOG_ONCE_SLOTS; i++) {
		mv_log_once(&log, MV_LOG_WARN, "text %d", i);
		assert_true(*next_line());
	}
	errno = EXDEV;
	for (int i = 0; i < 10; i++)
		mv_log_once(&log, MV_LOG_WARN, "more %d", i);
	assert_int_equal(errno, EXDEV);
	assert_line(8 + 4, full);
	assert_string_equal(next_line(), "");
	mv_log_once(&log, MV_LOG_WARN, "text %d", 255);
	assert_string_equal(next_line(), "");
	/* The others are not affected. */
	mv_log(&log, MV_LOG_WARN, "text 0");
	assert_line(8 + 4, "text 0");
}

static void *log_the_same(void *arg)
{
	for (int round = 0; round < 20; round++)
		for (int i = 0; i < 100; i++)
			mv_log_once(arg, MV_LOG_ERR, "thread text %d", i);
	return NULL;
}

static void test_once_from_many_threads(void **state)
{
	struct mv_log log;
	pthread_t threads[4];
	char text[8192];
	unsigned int lines = 0;
	struct stat st;
	FILE *file;

	(void)state;
	/* A file: datagrams of a full socket would be lost. */
	mv_log_init(&log, tmpdir_at(&dir, "threads.log"), MV_LOG_ERR);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, log_the_same, &log), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(stat(tmpdir_at(&dir, "threads.log"), &st), 0);
	file = fopen(tmpdir_at(&dir, "threads.log"), "re");
	assert_non_null(file);
	while (fgets(text, sizeof(text), file)) {
		assert_non_null(strstr(text, "]: test_log: thread text "));
		lines++;
	}
	fclose(file);
	assert_int_equal(lines, 100);
}

/* ---- file ------------------------------------------------------------------------------------ */

static char *read_text(const char *path)
{
	static char text[4096];
	FILE *file = fopen(path, "re");

	text[0] = '\0';
	if (file) {
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		fclose(file);
	}
	return text;
}

static void test_file(void **state)
{
	const char *path = tmpdir_at(&dir, "mesh.log");
	char expected[256], stamp[32];
	struct mv_log log;
	struct stat st;
	time_t before = time(NULL);
	struct tm tm;
	char *text;

	(void)state;
	mv_log_init(&log, path, MV_LOG_INFO);
	errno = EXDEV;
	mv_log(&log, MV_LOG_INFO, "one\ntwo");
	mv_log(&log, MV_LOG_ERR, "three");
	assert_int_equal(errno, EXDEV);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);

	text = read_text(path);
	assert_int_equal(strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm) - text, 20);
	/* time() may lag the clock that the log reads by a tick. */
	assert_in_range(timegm(&tm), before, time(NULL) + 1);
	memcpy(stamp, text, 20);
	stamp[20] = '\0';
	snprintf(expected, sizeof(expected), "%s meshverbs[%d]: test_log: one?two\n", stamp,
		 (int)getpid());
	assert_memory_equal(text, expected, strlen(expected));
	assert_non_null(strstr(text + strlen(expected), ": three\n"));
}

/* What is beyond the limit of the program is not written, and it lives. */
static void test_file_limit(void **state)
{
	const char *path = tmpdir_at(&dir, "limit.log");
	const struct rlimit large = {1000000, 1000000}, small = {100000, 100000};
	struct mv_log log;
	struct stat st;
	int status, i;
	pid_t pid;

	(void)state;
	mv_log_init(&log, path, MV_LOG_INFO);
	pid = fork();
	if (!pid) {
		signal(SIGXFSZ, SIG_DFL);
		setrlimit(RLIMIT_FSIZE, &large);
		for (i = 0; i < 1000; i++)
			mv_log(&log, MV_LOG_INFO, "%0100d", i);
		setrlimit(RLIMIT_FSIZE, &small);
		mv_log(&log, MV_LOG_INFO, "one too many");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 1000 * snprintf(NULL, 0, "1970-01-01T00:00:00Z meshverbs[%d]: test_log: %0100d\n", (int)pid, 0));
}

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
static int64_t fake_seconds = -1;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (fake_seconds < 0)
		return __real_clock_gettime(clock, ret);
	*ret = (struct timespec){.tv_sec = fake_seconds};
	return 0;
}

/* Our own calendar agrees with libc's on every kind of day. */
static void test_dates(void **state)
{
	const char *path = tmpdir_at(&dir, "dates.log");
	struct mv_log log;

	(void)state;
	mv_log_init(&log, path, MV_LOG_ERR);
	for (int64_t t = 0; t < 9000000000; t += 86399 * 37 + 11) {
		char expected[64];
		struct tm tm;
		time_t now = t;

		unlink(path);
		fake_seconds = t;
		mv_log(&log, MV_LOG_ERR, "x");
		fake_seconds = -1;
		strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%SZ ", gmtime_r(&now, &tm));
		assert_memory_equal(read_text(path), expected, 21);
	}
}

/* Nothing but a plain file of one name is written to. */
static void test_file_of_another_kind(void **state)
{
	struct mv_log log;
	struct stat st;

	(void)state;
	tmpdir_write(&dir, "victim", "");
	tmpdir_link(&dir, "link.log", tmpdir_at(&dir, "victim"));
	mv_log_init(&log, tmpdir_at(&dir, "link.log"), MV_LOG_ERR);
	mv_log(&log, MV_LOG_ERR, "x");
	tmpdir_link(&dir, "dangling.log", tmpdir_at(&dir, "new"));
	mv_log_init(&log, tmpdir_at(&dir, "dangling.log"), MV_LOG_ERR);
	mv_log(&log, MV_LOG_ERR, "x");
	assert_int_equal(stat(tmpdir_at(&dir, "new"), &st), -1);
	assert_int_equal(link(tmpdir_at(&dir, "victim"), tmpdir_at(&dir, "hard.log")), 0);
	mv_log_init(&log, tmpdir_at(&dir, "hard.log"), MV_LOG_ERR);
	mv_log(&log, MV_LOG_ERR, "x");
	assert_int_equal(stat(tmpdir_at(&dir, "victim"), &st), 0);
	assert_int_equal(st.st_size, 0);

	alarm(300);
	assert_int_equal(mkfifo(tmpdir_at(&dir, "fifo.log"), 0600), 0);
	mv_log_init(&log, tmpdir_at(&dir, "fifo.log"), MV_LOG_ERR);
	mv_log(&log, MV_LOG_ERR, "x");
	alarm(0);
	mv_log_init(&log, dir.path, MV_LOG_ERR);
	mv_log(&log, MV_LOG_ERR, "x");
	/* A target that config would have refused goes nowhere. */
	mv_log_init(&log, "relative.log", MV_LOG_ERR);
	mv_log(&log, MV_LOG_ERR, "x");
	assert_int_equal(stat("relative.log", &st), -1);
}

static void append_with_fault(struct mv_log *log, int err)
{
	unsigned int fds = fault_open_fds();

	unlink(log->target);
	errno = EXDEV;
	mv_log(log, MV_LOG_ERR, "hello");
	assert_int_equal(errno, EXDEV);
	assert_int_equal(fault_open_fds(), fds);
	if (!fault_fired() || err == EINTR)
		assert_non_null(strstr(read_text(log->target), ": hello\n"));
	else
		assert_string_equal(read_text(log->target), "");
}

static void test_file_faults(void **state)
{
	struct mv_log log;

	(void)state;
	mv_log_init(&log, tmpdir_at(&dir, "faults.log"), MV_LOG_ERR);
	FAULT_EACH(FAULT_OPEN, EACCES, append_with_fault(&log, EACCES));
	FAULT_EACH(FAULT_OPEN, EINTR, append_with_fault(&log, EINTR));
	FAULT_EACH(FAULT_FSTAT, EIO, append_with_fault(&log, EIO));
	FAULT_EACH(FAULT_WRITE, ENOSPC, append_with_fault(&log, ENOSPC));
	FAULT_EACH(FAULT_WRITE, EINTR, append_with_fault(&log, EINTR));
	FAULT_EACH(FAULT_ALLOC, ENOMEM, append_with_fault(&log, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_syslog),
		cmocka_unit_test(test_level),
		cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_stuck_syslog),
		cmocka_unit_test(test_syslog_faults),
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_once_from_many_threads),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_file_limit),
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_file_of_another_kind),
		cmocka_unit_test(test_file_faults),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
