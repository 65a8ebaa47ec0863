// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paths.h"
#include "tables.h"
#include "topo_netlink.h"

/* What the process knows of its network namespace; made with the first decision. */
struct mesh_paths {
	uint64_t generation; /* of the process that made it */
	struct mv_netlink netlink;
	bool current; /* nothing changed since the netdevs were read */
	struct mv_topo net; /* netdevs and addresses; routes only during a decision */
};

static void lock_paths(void)
{
	pthread_mutex_lock(&mesh_root.process->paths_lock);
}

static void unlock_paths(void)
{
	pthread_mutex_unlock(&mesh_root.process->paths_lock);
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
	lock_paths();
	mv_topo_fini(&mc->tables);
	mv_seen_free(mc->seen);
	mc->seen = NULL;
	unlock_paths();
}

static void refresh_tables(struct mesh_context *mc, struct ibv_context *verbs)
{
	int err = mesh_tables_read(&mesh_root.lib, verbs, mc->device, &mc->tables, mc->seen);

	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: its GID table cannot be read again: %s",
			    mc->device, strerrordesc_np(-err));
}

void mesh_paths_refresh(struct mesh_context *mc, struct ibv_context *verbs)
{
	lock_paths();
	refresh_tables(mc, verbs);
	unlock_paths();
}

/* NULL when the network namespace cannot be looked at; the reason is logged. */
static struct mesh_paths *open_paths(uint64_t generation)
{
	struct mesh_paths *paths = mesh_root.paths;
	int err;

	if (paths && paths->generation == generation)
		return paths;
	if (paths) {
		/*
		 * Made by the process that forked us, in whatever state it was then: drop it, but for its
		 * descriptors, which would answer both of us.
		 */
		mv_netlink_close(&paths->netlink);
		mesh_root.paths = NULL;
	}
	paths = calloc(1, sizeof(*paths));
	if (!paths)
		return NULL;
	paths->generation = generation;
	mv_topo_init(&paths->net);
	err = mv_netlink_open(&paths->netlink);
	if (err) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "rtnetlink cannot be opened: %s; GID indexes are left as they are",
			    strerrordesc_np(-err));
		mv_netlink_close(&paths->netlink);
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

/* Ask the kernel for the routes that the decision cannot know from prefixes. */
static void add_routes(struct mesh_paths *paths, const struct mesh_context *mc, uint8_t port_num,
		       const union ibv_gid *dgid)
{
	const struct mv_port *port = mv_device_port(&mc->tables.devices[0], port_num);
	const struct mv_netdev *netdev;
	uint32_t asked = 0;
	size_t i;

	paths->net.n_routes = 0;
	for (i = 0; port && i < port->n_gids; i++) {
		netdev = mv_topo_gid_netdev(&paths->net, &port->gids[i]);
		/* Entries of one netdev mostly follow one another; a question twice does no harm. */
		if (!netdev || netdev->ifindex == asked ||
		    !mv_decide_wants_route(&paths->net, netdev, dgid))
			continue;
		asked = netdev->ifindex;
		mv_netlink_add_route(&paths->netlink, &paths->net, asked, dgid);
	}
}

static struct mv_decision decide(struct mesh_paths *paths, const struct mesh_context *mc,
				 struct mv_request *request)
{
	struct mv_seen seen[8];
	struct mv_topo view;

	add_routes(paths, mc, request->port_num, &request->dgid);
	/* One snapshot of both parts; mv_decide() only reads. */
	view = paths->net;
	view.devices = mc->tables.devices;
	view.n_devices = mc->tables.n_devices;

	request->seen = seen;
	request->n_seen = mv_seen_get(mc->seen, request->port_num, request->sgid_index, seen,
				      sizeof(seen) / sizeof(seen[0]));
	return mv_decide(&view, request);
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

/* Called with paths_lock held. */
static uint8_t choose(struct mesh_context *mc, struct ibv_context *verbs, struct mv_request *request)
{
	uint8_t own = (uint8_t)request->sgid_index;
	struct mesh_paths *paths = open_paths(mc->generation);
	struct mv_decision decision;
	bool fresh;

	if (!paths)
		return own;

	/* Netdevs that changed mean GIDs that changed; the table may also have changed by itself. */
	if (mv_netlink_changed(&paths->netlink))
		paths->current = false;
	fresh = !paths->current ||
		!mesh_tables_entry_current(&mesh_root.lib, verbs, &mc->tables, request->port_num, own);
	if (fresh)
		refresh_tables(mc, verbs);
	if (!paths->current && read_net(paths))
		return own;

	decision = decide(paths, mc, request);
	if (decision.action != MV_KEEP && !fresh) {
		/* Never act on old news: the kernel fills its table some time after the netlink event. */
		refresh_tables(mc, verbs);
		if (read_net(paths))
			return own;
		decision = decide(paths, mc, request);
	}
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
	int saved_errno = errno;
	uint8_t index;

	lock_paths();
	index = choose(mc, verbs, &request);
	unlock_paths();
	errno = saved_errno;
	return index;
}
