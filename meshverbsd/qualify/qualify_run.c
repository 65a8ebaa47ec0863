/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Runs a process and reads its output: a child, or one that systemd starts. */
#include "qualify.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

#define PART 4096

static void release(struct md_qualify_run *run)
{
	sd_event_source **sources[] = {&run->io, &run->exit, &run->limit};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		*sources[i] = sd_event_source_disable_unref(*sources[i]);
	if (run->fd >= 0)
		close(run->fd);
	run->fd = -1;
	run->child = run->closed = run->exited = false;
	run->pid = run->session = 0;
}

/* Kills the process group. A process that is blocked in the kernel ends later. */
static void kill_all(const struct md_qualify_run *run)
{
	if (run->child && !run->exited)
		kill(-run->pid, SIGKILL);
}

static void finish(struct md_qualify_run *run)
{
	char *text = run->text;
	size_t len = run->len;

	run->text = NULL;
	run->len = 0;
	kill_all(run);
	release(run);
	run->done(run, text ? text : "", len, run->status);
	free(text);
}

static int on_output(sd_event_source *source, int fd, uint32_t events, void *arg)
{
	struct md_qualify_run *run = arg;
	char *more = realloc(run->text, run->len + PART);
	ssize_t n;

	(void)events;
	if (more)
		run->text = more;
	n = more && run->len + PART <= MD_QUALIFY_BYTES_MAX ? read(fd, run->text + run->len, PART) : -1;
	if (n < 0 && more && (errno == EINTR || errno == EAGAIN) && run->len + PART <= MD_QUALIFY_BYTES_MAX)
		return 0;
	if (n > 0) {
		run->len += (size_t)n;
		return 0;
	}
	/* A verdict that was not read completely is discarded. */
	if (n < 0) {
		run->len = 0;
		kill_all(run);
	}
	sd_event_source_set_enabled(source, SD_EVENT_OFF);
	run->closed = true;
	if (!run->child || run->exited)
		finish(run);
	return 0;
}

static int on_exit_of(sd_event_source *source, const siginfo_t *info, void *arg)
{
	struct md_qualify_run *run = arg;

	(void)source;
	run->status = info->si_code == CLD_EXITED && !run->ended ? info->si_status : -1;
	run->exited = true;
	if (run->closed)
		finish(run);
	return 0;
}

static int on_limit(sd_event_source *source, uint64_t usec, void *arg)
{
	struct md_qualify_run *run = arg;

	(void)source;
	(void)usec;
	md_qualify_run_end(run);
	return 0;
}

void md_qualify_run_end(struct md_qualify_run *run)
{
	run->status = -1;
	run->len = 0;
	run->ended = true;
	kill_all(run);
	run->io = sd_event_source_disable_unref(run->io);
	/* A process that is blocked by a device's firmware ends when the firmware answers. */
	run->closed = true;
	if (!run->child || run->exited)
		finish(run);
}

static int listen_to(struct md_qualify_run *run, uint64_t limit_ns)
{
	int err = sd_event_add_io(run->event, &run->io, run->fd, EPOLLIN, on_output, run);

	if (err >= 0)
		err = sd_event_add_time_relative(run->event, &run->limit, CLOCK_BOOTTIME, limit_ns / 1000, 0, on_limit, run);
	return err < 0 ? err : 0;
}

static int spawn(const char *const argv[], int out_fd, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
	err = posix_spawn(ret, argv[0], &actions, &attr, (char *const *)(uintptr_t)argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

static void begin(struct md_qualify_run *run)
{
	run->text = NULL;
	run->len = 0;
	run->status = -1;
	run->closed = run->exited = run->ended = false;
}

int md_qualify_run_child(struct md_qualify_run *run, const char *const argv[], uint64_t limit_ns)
{
	int fds[2], err;

	begin(run);
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	fcntl(fds[1], F_SETFL, 0);
	run->fd = fds[0];
	err = spawn(argv, fds[1], &run->pid);
	close(fds[1]);
	if (err) {
		release(run);
		return err;
	}
	run->child = true;
	err = sd_event_add_child(run->event, &run->exit, run->pid, WEXITED, on_exit_of, run);
	if (err >= 0)
		err = listen_to(run, limit_ns);
	if (err < 0)
		md_qualify_run_stop(run);
	return err < 0 ? err : 0;
}

int md_qualify_run_service(struct md_qualify_run *run, const char *path, const char *device, uint64_t limit_ns)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char line[IBV_SYSFS_NAME_MAX + 2];
	int len, err = 0;

	begin(run);
	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	run->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (run->fd < 0)
		return -errno;
	len = snprintf(line, sizeof(line), "%s\n", device);
	if (connect(run->fd, (struct sockaddr *)&addr, sizeof(addr)))
		err = -errno;
	else if (send(run->fd, line, (size_t)len, MSG_NOSIGNAL) != len)
		err = -EIO;
	if (!err)
		err = listen_to(run, limit_ns);
	if (err)
		release(run);
	return err;
}

void md_qualify_run_stop(struct md_qualify_run *run)
{
	pid_t pid = run->child && !run->exited ? run->pid : 0;

	if (!md_qualify_runs(run))
		return;
	kill_all(run);
	free(run->text);
	run->text = NULL;
	release(run);
	if (pid)
		waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOHANG);
}
