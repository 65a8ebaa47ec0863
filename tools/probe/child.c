// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "child.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Do both set the same variable? */
static bool is_same(const char *setting, const char *other)
{
	size_t n = strcspn(other, "=");

	return !strncmp(setting, other, n) && setting[n] == '=';
}

char **child_env(const char *sysfs, char *setting)
{
	static char sysfs_path[PATH_MAX + sizeof("SYSFS_PATH=")];
	size_t n = 0, i, used = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + 3, sizeof(*env));
	if (!env)
		return NULL;
	for (i = 0; i < n; i++)
		if (!is_same(environ[i], "MESHVERBS_REPORT=") && !is_same(environ[i], "SYSFS_PATH=") && !is_same(environ[i], setting))
			env[used++] = environ[i];
	env[used++] = setting;
	if (strcmp(sysfs, "/sys") != 0) {
		snprintf(sysfs_path, sizeof(sysfs_path), "SYSFS_PATH=%s", sysfs);
		env[used++] = sysfs_path;
	}
	return env;
}

void child_begin(void)
{
	struct rlimit no_core = {0, 0};
	int null_fd;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	null_fd = open("/dev/null", O_RDONLY);
	if (null_fd > 0) {
		dup2(null_fd, STDIN_FILENO);
		close(null_fd);
	}
}
