// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "probe_run.h"

#define STREAM_BYTES_MAX (256U << 10) /* further output is dropped */
#define TICK_MS          50

enum { STREAM_OUTPUT, STREAM_WARNINGS, STREAM_LINES, N_STREAMS };

/* File descriptors of the child: stdout, stderr, and the one in MESHVERBS_REPORT. */
static const int child_fds[N_STREAMS] = {STDOUT_FILENO, STDERR_FILENO, 3};

struct stream {
	int read_fd; /* -1: closed */
	int write_fd;
	char *buf; /* NUL-terminated after streams_read() */
	size_t len;
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void stream_fini(struct stream *stream)
{
	close_fd(&stream->read_fd);
	close_fd(&stream->write_fd);
	free(stream->buf);
	stream->buf = NULL;
}

/* Keeps both ends off the descriptors that the child's ends will get. */
static int stream_init(struct stream *stream)
{
	int fds[2], i, rc = 0;

	stream->buf = calloc(1, STREAM_BYTES_MAX + 1);
	if (!stream->buf)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	stream->read_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 10);
	stream->write_fd = fcntl(fds[1], F_DUPFD_CLOEXEC, 10);
	if (stream->read_fd < 0 || stream->write_fd < 0 ||
	    fcntl(stream->read_fd, F_SETFL, O_NONBLOCK))
		rc = -errno;
	for (i = 0; i < 2; i++)
		close(fds[i]);
	return rc;
}

/* Reads available data. Reads a full stream as well, so that the child does not block. */
static void stream_read(struct stream *stream)
{
	char rest[4096];
	ssize_t len;

	while (stream->read_fd >= 0) {
		if (stream->len < STREAM_BYTES_MAX)
			len = read(stream->read_fd, stream->buf + stream->len,
				   STREAM_BYTES_MAX - stream->len);
		else
			len = read(stream->read_fd, rest, sizeof(rest));
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0 && errno == EAGAIN)
			return;
		if (len <= 0)
			close_fd(&stream->read_fd);
		else if (stream->len < STREAM_BYTES_MAX)
			stream->len += (size_t)len;
	}
}

/* Runs in the child after fork(): async-signal-safe calls only. */
__attribute__((noreturn)) static void child_exec(const struct stream *streams, const char *program,
						 const char *library, char **env)
{
	char *const argv[] = {(char *)program, (char *)library, NULL};
	int i;

	child_begin();
	for (i = 0; i < N_STREAMS; i++)
		dup2(streams[i].write_fd, child_fds[i]);
	execve(program, argv, env);
	dprintf(STDOUT_FILENO, "norun %s\n", strerror(errno));
	_exit(127);
}

/* Reads until the child has ended or was killed. Return: its wait status. */
static int streams_read(struct stream *streams, pid_t pid, uint64_t deadline_ms, bool *ret_hung)
{
	struct pollfd fds[N_STREAMS];
	bool ended = false;
	int i, status = 0;

	*ret_hung = false;
	while (!ended) {
		for (i = 0; i < N_STREAMS; i++)
			fds[i] = (struct pollfd){.fd = streams[i].read_fd, .events = POLLIN};
		poll(fds, N_STREAMS, TICK_MS);
		if (now_ms() >= deadline_ms && !*ret_hung) {
			*ret_hung = true;
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL); /* in case it has no process group yet */
		}
		ended = waitpid(pid, &status, WNOHANG) == pid;
		/* Once more after the end: all that it wrote is in the pipes, even if other processes hold them open. */
		for (i = 0; i < N_STREAMS; i++)
			stream_read(&streams[i]);
	}
	kill(-pid, SIGKILL); /* processes that it left */
	return status;
}

static void set_end(struct probe_report *report, int status, bool hung)
{
	if (hung) {
		report->end = PROBE_HUNG;
	} else if (WIFSIGNALED(status)) {
		report->end = PROBE_CRASHED;
		report->code = WTERMSIG(status);
	} else {
		report->end = PROBE_EXITED; /* unless its last line is found */
		report->code = WEXITSTATUS(status);
	}
}

int probe_run(const struct cli *cli, const char *library, struct probe_report *ret)
{
	struct stream streams[N_STREAMS];
	struct probe_report report = {0};
	char path[PATH_MAX];
	const char *program = cli->probe ? cli->probe : cli_program("meshverbs-probe", MESHVERBS_PROBE, path, sizeof(path));
	/* Not /dev/fd/3, which a minimal /dev does not have. */
	static char here[] = "MESHVERBS_REPORT=/proc/self/fd/3";
	char **env = child_env(cli->sysfs, here);
	bool hung;
	pid_t pid;
	int i, rc = 0, status;

	for (i = 0; i < N_STREAMS; i++)
		streams[i] = (struct stream){.read_fd = -1, .write_fd = -1};
	/* Without it the plugin cannot report, and would seem to be missing. */
	if (access("/proc/self/fd", X_OK))
		rc = -ENOTSUP;
	for (i = 0; !rc && i < N_STREAMS; i++)
		rc = stream_init(&streams[i]);
	if (!rc && !env)
		rc = -ENOMEM;
	if (rc)
		goto out;

	pid = fork();
	if (pid < 0) {
		rc = -errno;
		goto out;
	}
	if (!pid)
		child_exec(streams, program, library, env);
	setpgid(pid, pid); /* in parent and child, whichever runs first */
	for (i = 0; i < N_STREAMS; i++)
		close_fd(&streams[i].write_fd);
	status = streams_read(streams, pid, now_ms() + cli->probe_timeout_ms, &hung);

	set_end(&report, status, hung);
	report.output = streams[STREAM_OUTPUT].buf;
	report.warnings = streams[STREAM_WARNINGS].buf;
	report.lines = streams[STREAM_LINES].buf;
	for (i = 0; i < N_STREAMS; i++)
		streams[i].buf = NULL;
	rc = probe_report_parse(&report);
	if (rc)
		probe_report_fini(&report);
	else
		*ret = report;
out:
	for (i = 0; i < N_STREAMS; i++)
		stream_fini(&streams[i]);
	free(env);
	return rc;
}
