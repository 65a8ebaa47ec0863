// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ldcache.h"

/* ldconfig -p prints text for people: it must not be translated. */
static char path_setting[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", locale_setting[] = "LC_ALL=C";
static char *const environment[] = {path_setting, locale_setting, NULL};

static int run(char *const argv[], int out_fd)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int err, status;

	err = -posix_spawn_file_actions_init(&actions);
	if (err)
		return err;
	if (out_fd >= 0)
		err = -posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
	if (!err)
		err = -posix_spawn(&pid, argv[0], &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	if (err)
		return err;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

/* "\tlibmlx5.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libmlx5.so.1" */
static void take_line(char *line, const char *name, struct ldcache_paths *out)
{
	size_t n = strlen(name);
	char *arrow, *kind;

	line[strcspn(line, "\n")] = '\0';
	while (*line == '\t' || *line == ' ')
		line++;
	if (strncmp(line, name, n) || strncmp(line + n, " (", 2))
		return;
	kind = line + n + 2;
	arrow = strstr(kind, ") => ");
	if (!arrow || out->n == LDCACHE_MAX || strlen(arrow + 5) >= PATH_MAX)
		return;
	*arrow = '\0';
	/* "libc6,x86-64", "libc6,AArch64", perhaps followed by ", hwcap: ..."; 32-bit ones say just
	 * "libc6" */
	if (!strstr(kind, "x86-64") && !strstr(kind, "AArch64"))
		return;
	strcpy(out->paths[out->n++], arrow + 5);
}

int ldcache_find(const char *program, const char *root, const char *name, struct ldcache_paths *out)
{
	char *const plain[] = {(char *)program, (char *)"-p", NULL};
	char *const rooted[] = {(char *)program, (char *)"-p", (char *)"-r", (char *)root, NULL};
	char line[2 * PATH_MAX];
	FILE *f = tmpfile();
	int err;

	out->n = 0;
	if (!f)
		return -errno;
	err = run(root[0] ? rooted : plain, fileno(f));
	rewind(f);
	while (!err && fgets(line, sizeof(line), f))
		take_line(line, name, out);
	fclose(f);
	return err;
}

int ldcache_rebuild(const char *program, const char *root)
{
	char *const plain[] = {(char *)program, NULL};
	char *const rooted[] = {(char *)program, (char *)"-r", (char *)root, NULL};

	return run(root[0] ? rooted : plain, -1);
}
