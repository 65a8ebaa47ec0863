// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "paths.h"
#include "tables.h"
#include "topo_netlink.h"

/* What the process knows of its network namespace; made with the first decision. */
struct mesh_paths {
	uint64_t generation; /* of the process that made it */
	uint64_t network_namespace; /* that the sockets belong to */
	struct mv_netlink netlink;
	bool current; /* nothing changed since the netdevs were read */
	struct mv_topo net; /* netdevs and addresses; routes only during a decision */
};

/* Not to be cancelled with the lock held: what happens under it passes cancellation points. */
static int lock_paths(void)
{
	int cancel = mesh_cancel_off();

	pthread_mutex_lock(&mesh_root.process->paths_lock);
	return cancel;
}

static void unlock_paths(int cancel)
{
	pthread_mutex_unlock(&mesh_root.process->paths_lock);
	mesh_cancel_restore(cancel);
}

int mesh_paths_open(struct mesh_context *mc, struct ibv_context *verbs, char *why, size_t why_size)
{
	int err;

	mv_topo_init(&mc->tables);
	mc->seen = mv_seen_new();
	if (!mc->seen) {
		snprintf(why, why_size, "out of memory");
		return -ENOMEM;
	}
	err = mesh_tables_read(&mesh_root.lib, verbs, mc->device, &mc->tables, mc->seen);
	if (err) {
		snprintf(why, why_size, "its GID table cannot be read: %s", strerrordesc_np(-err));
		mesh_paths_close(mc);
	}
	return err;
}

void mesh_paths_close(struct mesh_context *mc)
{
	int cancel = lock_paths();

	mv_topo_fini(&mc->tables);
	mv_seen_free(mc->seen);
	mc->seen = NULL;
	unlock_paths(cancel);
}

static int refresh_tables(struct mesh_context *mc, struct ibv_context *verbs)
{
	int err = mesh_tables_read(&mesh_root.lib, verbs, mc->device, &mc->tables, mc->seen);

	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: its GID table cannot be read again: %s",
			    mc->device, strerrordesc_np(-err));
	return err;
}

void mesh_paths_refresh(struct mesh_context *mc, struct ibv_context *verbs)
{
	int cancel = lock_paths();

	/* An event that comes late may find the device closed. */
	if (mc->seen && atomic_load_explicit(&mc->verbs, memory_order_relaxed) == verbs)
		refresh_tables(mc, verbs);
	unlock_paths(cancel);
}

/* The network namespace of this thread, as a number; 0 where /proc is not mounted. */
static uint64_t network_namespace(void)
{
	struct stat st;

	return stat("/proc/thread-self/ns/net", &st) ? 0 : st.st_ino;
}

static void drop_paths(void)
{
	struct mesh_paths *paths = mesh_root.paths;

	mesh_root.paths = NULL;
	mv_netlink_close(&paths->netlink);
	/* After a fork the rest may be in any state: what memory it holds is let go. */
	if (paths->generation == atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed)) {
		mv_topo_fini(&paths->net);
		free(paths);
	}
}

/* NULL when the network namespace cannot be looked at; the reason is logged. */
static struct mesh_paths *open_paths(uint64_t generation)
{
	struct mesh_paths *paths = mesh_root.paths;
	int err;

	if (paths && paths->generation == generation && mv_netlink_intact(&paths->netlink))
		return paths;
	if (paths)
		drop_paths();
	paths = calloc(1, sizeof(*paths));
	if (!paths)
		return NULL;
	paths->generation = generation;
	paths->network_namespace = network_namespace();
	mv_topo_init(&paths->net);
	err = mv_netlink_open(&paths->netlink);
	if (err) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "rtnetlink cannot be opened: %s; GID indexes are left as they are",
			    strerrordesc_np(-err));
		free(paths);
		return NULL;
	}
	mesh_root.paths = paths;
	return paths;
}

static int read_net(struct mesh_paths *paths)
{
	int err = mv_netlink_fill(&paths->netlink, &paths->net);

	paths->current = !err;
	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "rtnetlink cannot be read: %s; GID indexes are left as they are",
			    strerrordesc_np(-err));
	return err;
}

/*
 * Ask the kernel for a route out of an entry's netdev, if prefixes do not tell.
 * @last: netdev asked for last; entries of one netdev mostly follow one another
 */
static int add_route(struct mesh_paths *paths, const struct mv_gid_entry *entry, const union ibv_gid *dgid,
		     uint32_t *last)
{
	const struct mv_netdev *netdev = entry ? mv_topo_gid_netdev(&paths->net, entry) : NULL;
	int n;

	if (!netdev || netdev->ifindex == *last || !mv_decide_wants_route(&paths->net, netdev, dgid))
		return 0;
	*last = netdev->ifindex;
	n = mv_netlink_add_route(&paths->netlink, &paths->net, netdev->ifindex, dgid);
	if (n < 0)
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "routes of %s cannot be looked up: %s; GID indexes are left as they are", netdev->name,
			    strerrordesc_np(-n));
	return n < 0 ? n : 0;
}

static struct mv_decision decide_now(const struct mesh_paths *paths, const struct mesh_context *mc,
				     struct mv_request *request, struct mv_seen *seen, size_t max_seen)
{
	struct mv_topo view = paths->net; /* both parts as one snapshot; mv_decide() only reads */

	view.devices = mc->tables.devices;
	view.n_devices = mc->tables.n_devices;
	request->seen = seen;
	request->n_seen = mv_seen_get(mc->seen, request->port_num, request->sgid_index, seen, max_seen);
	return mv_decide(&view, request);
}

/*
 * Decide with as few questions to the kernel as possible: where the program's own entry fits, nothing is
 * asked about the others.
 *
 * Return: 0, or -errno when an answer is missing that the decision would rest on.
 */
static int decide(struct mesh_paths *paths, const struct mesh_context *mc, struct mv_request *request,
		  struct mv_decision *ret)
{
	const struct mv_port *port = mv_device_port(&mc->tables.devices[0], request->port_num);
	struct mv_seen seen[8];
	uint32_t last = 0;
	int err = 0;
	size_t i;

	paths->net.n_routes = 0;
	err = port ? add_route(paths, mv_port_gid(port, request->sgid_index), &request->dgid, &last) : 0;
	if (err)
		return err;
	*ret = decide_now(paths, mc, request, seen, sizeof(seen) / sizeof(seen[0]));
	if (ret->action == MV_KEEP)
		return 0;
	for (i = 0; i < port->n_gids && !err; i++)
		err = add_route(paths, &port->gids[i], &request->dgid, &last);
	if (!err)
		*ret = decide_now(paths, mc, request, seen, sizeof(seen) / sizeof(seen[0]));
	return err;
}

/* Entries tried and why not, as far as a line holds them. */
static void describe_tried(const struct mesh_paths *paths, const struct mesh_context *mc,
			   const struct mv_request *request, char *buf, size_t size)
{
	const struct mv_port *port = mv_device_port(&mc->tables.devices[0], request->port_num);
	struct mv_candidate candidate;
	char gid[MV_GID_STRLEN];
	size_t used = 0, i;
	int n;

	buf[0] = '\0';
	for (i = 0; port && i < port->n_gids; i++) {
		mv_judge(&paths->net, &port->gids[i], &request->dgid, &candidate);
		n = snprintf(buf + used, size - used, "%s%u %s %s", i ? ", " : "", port->gids[i].index,
			     mv_gid_format(&port->gids[i].gid, gid), mv_verdict_name(candidate.verdict));
		if (n < 0 || (size_t)n >= size - used) {
			memcpy(buf + size - 4, "...", 4);
			return;
		}
		used += (size_t)n;
	}
}

static void log_decision(const struct mesh_paths *paths, const struct mesh_context *mc,
			 const struct mv_request *request, const struct mv_decision *decision)
{
	char to[MV_GID_STRLEN], from[MV_GID_STRLEN], tried[320];
	const char *done = mc->logged_only ? "would use" : "using";

	mv_gid_format(&request->dgid, to);
	mv_gid_format(&decision->gid, from);
	switch (decision->action) {
	case MV_KEEP:
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s port %u index %u to %s: kept, %s", mc->device,
		       request->port_num, request->sgid_index, to, mv_reason_text(decision->reason));
		break;
	case MV_REPAIR:
	case MV_REPLACE:
		mv_log_once(&mesh_root.log, MV_LOG_INFO, "%s port %u to %s: index %u is %s, %s %u (%s): %s",
			    mc->device, request->port_num, to, request->sgid_index,
			    mv_verdict_name(decision->own_verdict), done, decision->sgid_index, from,
			    mv_reason_text(decision->reason));
		break;
	case MV_PASS:
		describe_tried(paths, mc, request, tried, sizeof(tried));
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s port %u to %s: index %u is %s, left alone: %s; tried %s",
			    mc->device, request->port_num, to, request->sgid_index,
			    mv_verdict_name(decision->own_verdict), mv_reason_text(decision->reason), tried);
		break;
	}
}

static bool is_infiniband(const struct mesh_context *mc, uint8_t port_num)
{
	const struct mv_port *port = mv_device_port(&mc->tables.devices[0], port_num);

	return port && port->link_layer == IBV_LINK_LAYER_INFINIBAND;
}

/* Called with paths_lock held. */
static uint8_t choose(struct mesh_context *mc, struct ibv_context *verbs, struct mv_request *request)
{
	uint8_t own = (uint8_t)request->sgid_index;
	struct mv_decision decision;
	struct mesh_paths *paths;
	bool fresh;

	if (is_infiniband(mc, request->port_num))
		return own;
	paths = open_paths(mc->generation);
	if (!paths)
		return own;

	/* Netdevs that changed mean GIDs that changed; the table may also have changed by itself. */
	if (mv_netlink_changed(&paths->netlink))
		paths->current = false;
	fresh = !paths->current ||
		!mesh_tables_entry_current(&mesh_root.lib, verbs, &mc->tables, request->port_num, own);
	if ((fresh && refresh_tables(mc, verbs)) || (!paths->current && read_net(paths)))
		return own;

	if (decide(paths, mc, request, &decision))
		return own;
	/* Never act on old news: the kernel fills its table some time after the netlink event. */
	if (decision.action != MV_KEEP && !fresh &&
	    (refresh_tables(mc, verbs) || decide(paths, mc, request, &decision)))
		return own;
	/* Nor on news of another namespace: a thread may have changed its own with setns(2). */
	if (decision.action != MV_KEEP && network_namespace() != paths->network_namespace)
		return own;

	log_decision(paths, mc, request, &decision);
	if (mc->logged_only || decision.sgid_index > UINT8_MAX) /* ibv_global_route has 8 bits */
		return own;
	return (uint8_t)decision.sgid_index;
}

uint8_t mesh_paths_choose(struct mesh_context *mc, struct ibv_context *verbs, const struct ibv_ah_attr *ah,
			  enum mv_transport transport)
{
	struct mv_request request = {
		.device = mc->device,
		.port_num = ah->port_num,
		.sgid_index = ah->grh.sgid_index,
		.dgid = ah->grh.dgid,
		.transport = transport,
	};
	int saved_errno = errno, cancel;
	uint8_t index;

	cancel = lock_paths();
	index = choose(mc, verbs, &request);
	unlock_paths(cancel);
	errno = saved_errno;
	return index;
}
