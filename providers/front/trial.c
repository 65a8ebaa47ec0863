// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
	void *handle;

	alarm(TRIAL_SECONDS);
	/* What the plugin would do in our caller's own environment is not the question. */
	clearenv();
	handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!handle)
		complain(out, dlerror());
	if (symbol[0] && !dlvsym(handle, symbol, version))
		complain(out, dlerror());
	_exit(0);
}

static int judge(int status, const char *said, char *why, size_t why_size)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		snprintf(why, why_size, "%s", strsignal(WTERMSIG(status)));
	else
		snprintf(why, why_size, "%s", said[0] ? said : "no reason given");
	return -ELIBBAD;
}

int trial_load(const void *image, size_t size, const char *symbol, const char *version, char *why,
	       size_t why_size)
{
	int memory = memfd_create("libmlx5.so.1", MFD_CLOEXEC), out[2], status = 0, err = 0;
	char path[32], said[200] = "";
	pid_t pid;

	why[0] = '\0';
	if (memory < 0)
		return -errno;
	if (pipe(out)) {
		err = -errno;
		close(memory);
		return err;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
	if (write(memory, image, size) != (ssize_t)size)
		err = -EIO;
	pid = err ? -1 : fork();
	if (pid == 0)
		child(path, symbol, version, out[1]);
	close(out[1]);
	if (pid < 0 && !err)
		err = -errno;
	if (!err && read(out[0], said, sizeof(said) - 1) < 0)
		said[0] = '\0';
	while (!err && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			err = -errno;
	close(out[0]);
	close(memory);
	return err ? err : judge(status, said, why, why_size);
}
