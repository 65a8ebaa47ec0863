/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int check(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((st.st_uid && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	return 0;
}

int md_rundir_open(struct md_rundir *rundir, const char *path)
{
	int err;

	rundir->fd = rundir->lock_fd = -1;
	if (mkdir(path, 0755) && errno != EEXIST)
		return -errno;
	rundir->fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (rundir->fd < 0)
		return -errno;
	err = check(rundir->fd);
	if (err)
		return err;
	rundir->lock_fd =
		openat(rundir->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (rundir->lock_fd < 0)
		return -errno;
	if (flock(rundir->lock_fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return 0;
}

void md_rundir_close(struct md_rundir *rundir)
{
	if (rundir->lock_fd >= 0)
		close(rundir->lock_fd);
	if (rundir->fd >= 0)
		close(rundir->fd);
	rundir->fd = rundir->lock_fd = -1;
}

void md_rundir_remove(struct md_rundir *rundir, const char *name)
{
	if (rundir->fd >= 0)
		unlinkat(rundir->fd, name, 0);
}

int md_rundir_listen(struct md_rundir *rundir, const char *name, int type, int backlog)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char aside[32];
	int fd, err;

	/* Under another name first: who finds the socket finds it listening, and open to all. */
	snprintf(aside, sizeof(aside), "%.24s.new", name);
	/* By descriptor: RUN_DIR may be longer than the 107 bytes that an address has. */
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%s", rundir->fd, aside);
	unlinkat(rundir->fd, aside, 0);
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) ||
	    fchmodat(rundir->fd, aside, 0666, 0) || listen(fd, backlog) ||
	    renameat(rundir->fd, aside, rundir->fd, name)) {
		err = -errno;
		close(fd);
		unlinkat(rundir->fd, aside, 0);
		return err;
	}
	return fd;
}
