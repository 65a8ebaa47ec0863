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

void mesh_report_open(struct mesh_root *root)
{
	const char *path = secure_getenv("MESHVERBS_REPORT");

	root->report_fd = -1;
	if (path && path[0] == '/')
		root->report_fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
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

	if (root->report_fd >= 0) {
		len = snprintf(line, sizeof(line), "stage %s %s %s\n", name, state_names[state], text);
		if (len >= (int)sizeof(line)) {
			len = sizeof(line) - 1;
			line[len - 1] = '\n';
		}
		/* A reader that went away is its own problem. */
		if (write(root->report_fd, line, (size_t)len) < 0)
			root->report_fd = -1;
	}
	errno = saved_errno;
}
