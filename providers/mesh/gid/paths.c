// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The network namespace of the process: opened, and followed by netlink. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pathsint.h"

int mesh_paths_lock(void)
{
	int cancel = mesh_cancel_off();

	mesh_lock(&mesh_root.process->paths.lock);
	return cancel;
}

void mesh_paths_unlock(int cancel)
{
	mesh_unlock(&mesh_root.process->paths.lock);
	mesh_cancel_restore(cancel);
}

uint64_t mesh_paths_namespace(void)
{
	struct stat st;

	return stat("/proc/thread-self/ns/net", &st) ? 0 : st.st_ino;
}

static void drop_paths(void)
{
	struct mesh_paths *paths = mesh_root.paths;

	mesh_root.paths = NULL;
	mv_netlink_close(&paths->netlink);
	/* In a child of fork() the rest may be in any state: its memory is not freed. */
	if (paths->generation == atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed)) {
		mv_topo_fini(&paths->net);
		free(paths);
	}
}

bool mesh_paths_is_watched(const struct mesh_paths *paths)
{
	return atomic_load_explicit(&mesh_root.process->paths.watched, memory_order_acquire) == paths->number;
}

struct mesh_paths *mesh_paths_get(uint64_t generation, bool *look)
{
	struct mesh_paths *paths = mesh_root.paths;
	int err;

	*look = *look || !paths || !mesh_paths_is_watched(paths);
	if (paths && paths->generation == generation && !paths->broken &&
	    (!*look || mv_netlink_events_intact(&paths->netlink)))
		return paths;
	if (paths)
		drop_paths();
	paths = calloc(1, sizeof(*paths));
	if (!paths)
		return NULL;
	paths->generation = generation;
	paths->network_namespace = mesh_paths_namespace();
	mv_topo_init(&paths->net);
	err = mv_netlink_open(&paths->netlink);
	if (err) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "rtnetlink cannot be opened: %s; GID indexes are left as they are",
			    strerrordesc_np(-err));
		free(paths);
		return NULL;
	}
	paths->changed_ns = mesh_now_ns();
	paths->n_routes = 1;
	paths->number = ++mesh_root.process->paths.last;
	mesh_root.paths = paths;
	*look = true;
	return paths;
}

int mesh_paths_check_requests(struct mesh_paths *paths)
{
	if (mv_netlink_requests_intact(&paths->netlink))
		return 0;
	paths->broken = true; /* opened anew with the next decision */
	return -EBADF;
}

void mesh_paths_notice(struct mesh_paths *paths, uint64_t now_ns)
{
	unsigned int seen = mv_netlink_follow(&paths->netlink, paths->current ? &paths->net : NULL);

	if (seen & MV_NETLINK_NET)
		paths->changed_ns = now_ns;
	if (seen & MV_NETLINK_ROUTES)
		paths->n_routes++;
	if (seen & MV_NETLINK_LOST)
		paths->current = false;
	paths->told |= seen != 0;
}

int mesh_paths_read_net(struct mesh_paths *paths)
{
	int err = mesh_paths_check_requests(paths);

	if (!err)
		err = mv_netlink_fill(&paths->netlink, &paths->net);

	paths->current = !err;
	paths->told = false;
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "rtnetlink cannot be read: %s; GID indexes are left as they are",
			    strerrordesc_np(-err));
	return err;
}

struct mesh_paths *mesh_paths_own(void)
{
	struct mesh_paths *paths = mesh_root.paths;

	return paths && paths->generation == atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed) ?
		       paths :
		       NULL;
}

int mesh_paths_watch(bool *ret_busy)
{
	int cancel = mesh_cancel_off(), fd = -1;

	*ret_busy = true;
	if (mesh_trylock(&mesh_root.process->paths.lock)) {
		struct mesh_paths *paths = mesh_paths_own();

		*ret_busy = false;
		if (paths && mv_netlink_events_intact(&paths->netlink)) {
			mesh_paths_notice(paths, mesh_now_ns());
			fd = paths->netlink.event_fd;
			atomic_store_explicit(&mesh_root.process->paths.watched, paths->number, memory_order_release);
		}
		mesh_unlock(&mesh_root.process->paths.lock);
	}
	mesh_cancel_restore(cancel);
	return fd;
}

void mesh_paths_unwatch(void)
{
	atomic_store_explicit(&mesh_root.process->paths.watched, 0, memory_order_release);
}
