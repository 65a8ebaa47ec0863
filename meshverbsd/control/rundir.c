/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#define CONTROL_SOCKET "control"
#define LOCK_FILE      "lock"

/* Files of older agents in RUN_DIR. kept_names are moved to CONTROL_DIR, if smaller than KEPT_MAX. */
static const char *const kept_names[] = {"start", "drained"};
static const char *const old_names[] = {"start", "start.new", "drained", "drained.new", CONTROL_SOCKET, CONTROL_SOCKET ".new", LOCK_FILE};
#define KEPT_MAX 65536

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static int check(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((st.st_uid && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	return 0;
}

/* Return: descriptor or -errno. */
static int open_dir(const char *path)
{
	int fd, err;

	if (mkdir(path, 0755) && errno != EEXIST)
		return -errno;
	fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = check(fd);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* Return: 1: the same directory; 0: not; -errno. */
static int is_same(int a, int b)
{
	struct stat one, two;

	if (fstat(a, &one) || fstat(b, &two))
		return -errno;
	return one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

/* Return: 0; -EINVAL: @inner is @outer or below it; -errno. */
static int check_apart(int inner, int outer)
{
	int at = dup(inner), up, same;

	while (at >= 0) {
		same = is_same(at, outer);
		if (same) {
			close(at);
			return same < 0 ? same : -EINVAL;
		}
		up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		same = up < 0 ? -errno : is_same(at, up);
		close(at);
		if (same < 0 || same) {
			if (up >= 0)
				close(up);
			return same < 0 ? same : 0;
		}
		at = up;
	}
	return -errno;
}

/* A line of /proc/locks, e.g. "1: FLOCK  ADVISORY  WRITE 123 fe:01:4711 0 EOF", or LEASE. Return: PID; 0: another file. */
static pid_t lock_of(const char *line, const struct stat *st)
{
	unsigned int dev_major, dev_minor;
	unsigned long long ino;
	int pid;

	if (sscanf(line, "%*u: %*s %*s %*s %d %x:%x:%llu", &pid, &dev_major, &dev_minor, &ino) != 4)
		return 0;
	return dev_major == major(st->st_dev) && dev_minor == minor(st->st_dev) && ino == st->st_ino && pid > 0 ? pid : 0;
}

/* PID of the process that has a lock or lease of the file. Return: 0: none that the agent sees. */
static pid_t holder_of(int dir_fd, const char *name)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256];
	struct stat st;
	pid_t pid = 0;

	if (!locks)
		return 0;
	if (!fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		while (!pid && fgets(line, sizeof(line), locks))
			pid = lock_of(line, &st);
	fclose(locks);
	return pid;
}

static void address_of(int dir_fd, const char *name, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	/* Through the descriptor, because the path may be longer than the 107 bytes of an address. */
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
}

/* Does an agent listen at that socket? No process in a container can, because it cannot write to the directory. */
static bool is_listening(int dir_fd, const char *name)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr;
	bool listens;

	if (fd < 0)
		return false;
	address_of(dir_fd, name, &addr);
	listens = !connect(fd, (struct sockaddr *)&addr, sizeof(addr)) || errno == EAGAIN; /* backlog is full */
	close(fd);
	return listens;
}

static int lock(struct md_rundir *rundir)
{
	/* O_NONBLOCK: do not wait for a process that has a lease. */
	rundir->lock_fd = openat(rundir->control_fd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (rundir->lock_fd >= 0 && !flock(rundir->lock_fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK)
		return -errno;
	rundir->holder = holder_of(rundir->control_fd, LOCK_FILE);
	return -EBUSY;
}

int md_rundir_open(struct md_rundir *rundir, const char *run_dir, const char *control_dir)
{
	int err;

	*rundir = (struct md_rundir){.fd = -1, .control_fd = -1, .lock_fd = -1};
	rundir->fd = open_dir(run_dir);
	if (rundir->fd < 0)
		return rundir->fd;
	rundir->control_fd = open_dir(control_dir);
	if (rundir->control_fd < 0)
		return rundir->control_fd;
	err = check_apart(rundir->control_fd, rundir->fd);
	if (!err)
		err = lock(rundir);
	if (!err && is_listening(rundir->fd, CONTROL_SOCKET)) {
		rundir->old_agent = true;
		err = -EBUSY;
	}
	return err;
}

void md_rundir_close(struct md_rundir *rundir)
{
	int *fds[] = {&rundir->lock_fd, &rundir->control_fd, &rundir->fd};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

/* Copied, since the directories may be on different file systems. */
static void bring_along(const struct md_rundir *rundir, const char *name)
{
	int from = openat(rundir->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), to;
	char *text = from >= 0 ? malloc(KEPT_MAX) : NULL;
	ssize_t len = text ? read(from, text, KEPT_MAX) : -1;

	if (len >= 0 && len < KEPT_MAX) {
		to = openat(rundir->control_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
		if (to >= 0 && write(to, text, (size_t)len) != len)
			unlinkat(rundir->control_fd, name, 0);
		if (to >= 0)
			close(to);
	}
	free(text);
	if (from >= 0)
		close(from);
}

void md_rundir_tidy(struct md_rundir *rundir, pid_t *ret_holder)
{
	*ret_holder = holder_of(rundir->fd, LOCK_FILE);
	for (size_t i = 0; i < ARRAY_SIZE(kept_names); i++)
		bring_along(rundir, kept_names[i]);
	for (size_t i = 0; i < ARRAY_SIZE(old_names); i++)
		unlinkat(rundir->fd, old_names[i], 0);
}

void md_rundir_remove(int dir_fd, const char *name)
{
	if (dir_fd >= 0)
		unlinkat(dir_fd, name, 0);
}

int md_rundir_listen(int dir_fd, const char *name, int type, int backlog)
{
	struct sockaddr_un addr;
	char aside[32];
	int fd, err;

	/* Renamed when ready: a process that finds the socket finds it listening and open to all. */
	snprintf(aside, sizeof(aside), "%.24s.new", name);
	address_of(dir_fd, aside, &addr);
	unlinkat(dir_fd, aside, 0);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || fchmodat(dir_fd, aside, 0666, 0) || listen(fd, backlog) ||
	    renameat(dir_fd, aside, dir_fd, name)) {
		err = -errno;
		close(fd);
		unlinkat(dir_fd, aside, 0);
		return err;
	}
	return fd;
}
