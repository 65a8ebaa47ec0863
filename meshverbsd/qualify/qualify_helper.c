/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* `meshverbsd --qualify-helper ...`: short processes whose output the agent reads. */
#include "qualify.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define DATA_BYTES (1ull << 30)
#define STEP_MS	   50
#define CANNOT	   127

/* Build id of the libmlx5 that programs get. */
static int print_library(void)
{
	char build_id[MV_BUILD_ID_TEXT];
	void *library = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_LOCAL);
	void *function = library ? dlsym(library, "mlx5dv_init_obj") : NULL;

	if (!function || mv_build_id(function, build_id))
		return 1;
	return puts(build_id) < 0 || fflush(stdout) ? 1 : 0;
}

/* With low priority and little memory; killed when its parent ends. */
static _Noreturn void execute(const char *program, const char *device, const char *file)
{
	const struct rlimit data = {DATA_BYTES, DATA_BYTES}, core = {0, 0};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpriority(PRIO_PROCESS, 0, 19);
	setrlimit(RLIMIT_DATA, &data);
	setrlimit(RLIMIT_CORE, &core);
	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
	}
	execl(program, program, "qualify", device, "--output", file, (char *)NULL);
	_exit(CANNOT);
}

/* Return: wait status; -1: the asker has gone, or the status is not known. */
static int wait_for(pid_t pid, int asker_fd)
{
	struct pollfd asker = {.fd = asker_fd, .events = POLLRDHUP};
	int status;
	pid_t rc;

	while (!(rc = waitpid(pid, &status, WNOHANG))) {
		asker.revents = 0;
		if (poll(&asker, 1, STEP_MS) < 0 && errno != EINTR)
			return -1;
		if (asker.revents) {
			kill(pid, SIGKILL);
			return -1;
		}
	}
	return rc == pid ? status : -1;
}

static int copy_out(const char *file)
{
	char part[4096];
	ssize_t n = 0;
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	while ((n = read(fd, part, sizeof(part))) > 0)
		if (fwrite(part, 1, (size_t)n, stdout) != (size_t)n)
			break;
	close(fd);
	return n || fflush(stdout) ? -EIO : 0;
}

/* @asker_fd: the run ends when the other end closes it; -1: none */
static int find_out(const char *program, const char *device, int asker_fd)
{
	char dir[] = "/tmp/meshverbs-qualify.XXXXXX", file[64];
	int status;
	pid_t pid;

	if (!mkdtemp(dir))
		return CANNOT;
	snprintf(file, sizeof(file), "%s/verdict", dir);
	pid = fork();
	if (!pid)
		execute(program, device, file);
	if (pid > 0) {
		printf("session %d\n", (int)getsid(0));
		fflush(stdout);
	}
	status = pid < 0 ? -1 : wait_for(pid, asker_fd);
	if (status >= 0 && WIFEXITED(status))
		copy_out(file);
	unlink(file);
	rmdir(dir);
	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : CANNOT;
}

/* Names that sysfs allows. */
static bool is_device(const char *name)
{
	if (!*name || *name == '.' || *name == '-')
		return false;
	for (; *name; name++)
		if (*name <= ' ' || *name > '~' || *name == '/')
			return false;
	return true;
}

/* Standard input and output are a connection from the agent, which names a device. */
static int serve(const char *program)
{
	char line[IBV_SYSFS_NAME_MAX + 1];
	size_t len = 0;
	ssize_t n = 1;

	while (len < sizeof(line) - 1 && (!len || line[len - 1] != '\n') && (n = read(0, line + len, 1)) > 0)
		len++;
	if (!len || line[len - 1] != '\n')
		return 2;
	line[len - 1] = '\0';
	return is_device(line) ? find_out(program, line, 0) : 2;
}

int md_qualify_main(int argc, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("MESHVERBS", "off", 1);
	if (argc == 1 && !strcmp(argv[0], "library"))
		return print_library();
	if (argc == 3 && !strcmp(argv[0], "run") && is_device(argv[2]))
		return find_out(argv[1], argv[2], -1);
	if (argc == 2 && !strcmp(argv[0], "serve"))
		return serve(argv[1]);
	return 2;
}
