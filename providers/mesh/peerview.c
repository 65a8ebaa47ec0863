// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "peerview.h"

/* How long to believe that there is no agent before looking again. */
#define RETRY_NS 1000000000ull

struct mesh_view_state {
	struct mv_directory dir; /* header NULL: none mapped */
	uint64_t retry_at_ns;
};

static uint64_t boottime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static int lock_view(void)
{
	int cancel = mesh_cancel_off();

	pthread_mutex_lock(&mesh_root.process->view_lock);
	return cancel;
}

static void unlock_view(int cancel)
{
	pthread_mutex_unlock(&mesh_root.process->view_lock);
	mesh_cancel_restore(cancel);
}

/* The current directory of a live agent, or NULL. Called with view_lock held. */
static const struct mv_directory *current_directory(void)
{
	struct mesh_view_state *view = mesh_root.process->view;
	uint64_t now = boottime_ns();
	int err;

	if (!view) {
		view = mesh_root.process->view = calloc(1, sizeof(*view));
		if (!view)
			return NULL;
	}
	if (view->dir.header && !mv_directory_superseded(&view->dir) && mv_directory_alive(&view->dir, now))
		return &view->dir;
	/* An agent that stopped may come back with a file of its own. */
	if (now < view->retry_at_ns && !(view->dir.header && mv_directory_superseded(&view->dir)))
		return NULL;
	mv_directory_close(&view->dir);
	memset(&view->dir, 0, sizeof(view->dir));
	err = mv_directory_open(mesh_root.run_dir, &view->dir);
	if (err && err != -ENOENT)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s/" MV_DIRECTORY_FILE ": %s; running as without an agent",
			    mesh_root.run_dir, strerrordesc_np(-err));
	if (!err && mv_directory_alive(&view->dir, now)) {
		view->retry_at_ns = 0;
		return &view->dir;
	}
	view->retry_at_ns = now + RETRY_NS;
	return NULL;
}

static void look(const struct mv_path_request *request, bool find, struct mesh_view *ret)
{
	const struct mv_directory *dir;
	uint32_t host = 0, rail = 0;
	int saved_errno = errno, cancel;

	ret->verdict = MV_PATH_UNKNOWN;
	ret->host[0] = '\0';
	ret->agent_version = 0;
	ret->n_paths = 0;
	cancel = lock_view();
	dir = current_directory();
	if (dir)
		ret->verdict = mv_path_judge(dir, request, &host, &rail);
	if (ret->verdict != MV_PATH_UNKNOWN && ret->verdict != MV_PATH_SELF) {
		snprintf(ret->host, sizeof(ret->host), "%s", dir->hosts[host].name);
		ret->agent_version = dir->hosts[host].agent_version;
		if (find || ret->verdict != MV_PATH_WORKS)
			ret->n_paths = mv_path_find(dir, request, host, rail, ret->paths, MV_MOVE_MAX_PATHS);
	}
	unlock_view(cancel);
	errno = saved_errno;
}

void mesh_view_judge(const struct mv_path_request *request, struct mesh_view *ret)
{
	look(request, false, ret);
}

void mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret)
{
	look(request, true, ret);
}

int mesh_view_rail(const union ibv_gid *gid, uint8_t type, struct mesh_view_rail *ret)
{
	const struct mv_directory *dir;
	const struct mv_dir_gid *entry;
	const struct mv_dir_rail *rail;
	int cancel, err = -ENOENT;
	ssize_t at = -1;

	cancel = lock_view();
	dir = current_directory();
	while (dir && err && (at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0) {
		entry = &dir->gids[dir->order[at]];
		rail = &dir->rails[entry->rail];
		/* The peer may ask for any of our rails. */
		if (rail->host || entry->type != type || (rail->flags & MV_RAIL_EXCLUDED) ||
		    mv_config_list_match(&mesh_root.config.exclude, rail->device))
			continue;
		snprintf(ret->device, sizeof(ret->device), "%s", rail->device);
		ret->port = rail->port;
		ret->link_layer = rail->link_layer;
		err = 0;
	}
	unlock_view(cancel);
	return err;
}

bool mesh_view_agent(void)
{
	int cancel = lock_view();
	bool there = current_directory();

	unlock_view(cancel);
	return there;
}
