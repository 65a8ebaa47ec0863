// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trial.h"

#define TRIAL_SECONDS 10

static void complain(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) < 0)
		_exit(2);
	_exit(1);
}

/* As a program does it that was linked with the library: everything bound at once, for everybody.
 */
static void child(const char *path, const char *symbol, const char *version, int out)
{
	void *handle, *function;
	Dl_info info;

	alarm(TRIAL_SECONDS);
	dup2(out, STDERR_FILENO); /* where ld.so complains before it ends the process */
	/* What the plugin would do in our caller's own environment is not the question. */
	clearenv();
	handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!handle)
		complain(out, dlerror());
	function = dlvsym(handle, symbol, version);
	if (!function)
		complain(out, dlerror());
	/* Else the process would have the library twice, at work. */
	if (!dladdr(function, &info) || !strcmp(info.dli_fname, path))
		complain(out, "its functions do not come from the library behind it");
	_exit(0);
}

/* Its first line; all is read, so that a child that says a lot does not wait for us. */
static void read_said(int fd, char *said, size_t size)
{
	char rest[256];
	size_t have = 0;
	ssize_t n;

	while (have < size - 1 && (n = read(fd, said + have, size - 1 - have)) > 0)
		have += (size_t)n;
	said[have] = '\0';
	said[strcspn(said, "\n")] = '\0';
	while (read(fd, rest, sizeof(rest)) > 0)
		;
}

static int decide(int status, const char *said, char *why, size_t why_size)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	/* The child is not to blame for that: out of memory, or the operator; a host or a file system that is too slow. */
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGALRM))
		return -ECANCELED;
	if (WIFSIGNALED(status))
		snprintf(why, why_size, "%s", strsignal(WTERMSIG(status)));
	else
		snprintf(why, why_size, "%s", said[0] ? said : "no reason given");
	return -ELIBBAD;
}

/* A library that is nowhere in the file system yet. An installer's root may lack /proc, by which
 * ld.so gets at it: there it has a name for a moment, and *ret_named says so. */
static int make_file(char *path, size_t path_size, bool *ret_named)
{
	int fd = memfd_create("libmlx5.so.1", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	snprintf(path, path_size, "/proc/self/fd/%d", fd);
	*ret_named = access(path, R_OK) != 0;
	if (!*ret_named)
		return fd;
	close(fd);
	snprintf(path, path_size, "/tmp/meshverbs-front-XXXXXX");
	fd = mkostemp(path, O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int trial_load(const void *image, size_t size, const char *symbol, const char *version, char *why,
	       size_t why_size)
{
	int memory, out[2], status = 0, err = 0;
	char path[48], said[200] = "";
	struct statvfs fs;
	bool named;
	pid_t pid;

	why[0] = '\0';
	memory = make_file(path, sizeof(path), &named);
	if (memory < 0)
		return memory;
	/* Nothing could be loaded from there. */
	if (named && (statvfs(path, &fs) || fs.f_flag & ST_NOEXEC)) {
		unlink(path);
		close(memory);
		return -ECANCELED;
	}
	if (pipe(out)) {
		err = -errno;
		if (named)
			unlink(path);
		close(memory);
		return err;
	}
	if (write(memory, image, size) != (ssize_t)size)
		err = -EIO;
	pid = err ? -1 : fork();
	if (pid == 0)
		child(path, symbol, version, out[1]);
	close(out[1]);
	if (pid < 0 && !err)
		err = -errno;
	if (!err)
		read_said(out[0], said, sizeof(said));
	while (!err && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			err = -errno;
	close(out[0]);
	if (named)
		unlink(path);
	close(memory);
	return err ? err : decide(status, said, why, why_size);
}
