// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mesh.h"

static const char *const state_names[] = {
	[MESH_STAGE_OK] = "ok",
	[MESH_STAGE_OFF] = "off",
	[MESH_STAGE_FAILED] = "failed",
	[MESH_STAGE_REFUSED] = "refused",
};

void mesh_report_init(struct mesh_root *root)
{
	const char *path = secure_getenv("MESHVERBS_REPORT");

	root->report_file[0] = '\0';
	if (path && path[0] == '/')
		snprintf(root->report_file, sizeof(root->report_file), "%s", path);
}

/*
 * Opens the file for each line: the program may close any descriptor, and reuse its number. A pipe without reader fails to open
 * (ENXIO), so there is no SIGPIPE.
 */
static void report(const struct mesh_root *root, const char *line, size_t len)
{
	int fd = open(root->report_file, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, line, len) < 0)
		len = 0; /* the reader will miss the line */
	close(fd);
}

void mesh_stage(struct mesh_root *root, const char *name, enum mesh_stage_state state, const char *fmt, ...)
{
	int saved_errno = errno;
	char text[512], line[640];
	va_list args;
	int len;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);

	if (state == MESH_STAGE_FAILED || state == MESH_STAGE_REFUSED)
		mv_log_once(&root->log, MV_LOG_WARN, "%s: %s; running as without meshverbs", name, text);
	else
		mv_log(&root->log, MV_LOG_DEBUG, "%s: %s", name, text);

	if (root->report_file[0]) {
		len = snprintf(line, sizeof(line), "stage %s %s %s\n", name, state_names[state], text);
		if (len >= (int)sizeof(line)) {
			len = sizeof(line) - 1;
			line[len - 1] = '\n';
		}
		report(root, line, (size_t)len);
	}
	errno = saved_errno;
}
