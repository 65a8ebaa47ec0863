// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The choice of a source GID: asks the engine, and the kernel as little as possible. */
#include <errno.h>
#include <string.h>

#include "count.h"
#include "pathsint.h"

/* A table is read again after this time even without reported changes. */
#define TRUST_MAX_NS 1000000000ull

/*
 * Is the table as last read still valid? Netlink reports changes of netdevs and addresses; the kernel changes the GID table some
 * time later. A table read at T after the last change is valid for another T. So a stale entry is used for no longer than the
 * kernel needed, and a few reads with growing pauses serve any number of connections.
 */
static bool tables_believed(const struct mesh_paths *paths, const struct mesh_context *mc, uint64_t now_ns)
{
	uint64_t age = now_ns - mc->tables_read_ns;

	return mc->tables_read_ns > paths->changed_ns && age < mc->tables_read_ns - paths->changed_ns && age < TRUST_MAX_NS;
}

/*
 * Ask the kernel for a route from an entry's netdev, if prefixes do not decide.
 * @last: the netdev of the last request; entries of one netdev mostly follow one another
 */
static int add_route(struct mesh_paths *paths, const struct mv_gid_entry *entry, const union ibv_gid *dgid,
		     uint32_t *last)
{
	const struct mv_netdev *netdev = entry ? mv_topo_gid_netdev(&paths->net, entry) : NULL;
	int n;

	if (!netdev || netdev->ifindex == *last || !mv_decide_wants_route(&paths->net, netdev, dgid))
		return 0;
	*last = netdev->ifindex;
	n = mesh_paths_check_requests(paths);
	if (!n)
		n = mv_netlink_add_route(&paths->netlink, &paths->net, netdev->ifindex, dgid);
	if (n < 0)
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "routes of %s cannot be looked up: %s; GID indexes are left as they are", netdev->name,
			    strerrordesc_np(-n));
	return n < 0 ? n : 0;
}

static struct mv_decision decide_now(const struct mesh_paths *paths, const struct mesh_context *mc,
				     const struct mv_request *request)
{
	struct mv_topo view = paths->net; /* both parts as one snapshot; mv_decide() only reads */

	view.devices = mc->tables.devices;
	view.n_devices = mc->tables.n_devices;
	return mv_decide(&view, request);
}

/*
 * Decide with as few requests to the kernel as possible. The program's own entry comes first. If it fits by its prefixes, no
 * route is requested. If it fits by a route, no routes of other entries are.
 *
 * Return: 0; -errno: an answer that the decision needs is missing.
 */
static int decide(struct mesh_paths *paths, const struct mesh_context *mc, struct mv_request *request,
		  struct mv_decision *ret)
{
	const struct mv_port *port = mv_device_port(&mc->tables.devices[0], request->port_num);
	struct mv_seen seen[8];
	uint32_t last = 0;
	int err;
	size_t i;

	paths->net.n_routes = 0;
	request->n_seen = 0;
	*ret = decide_now(paths, mc, request);
	if (ret->action == MV_KEEP)
		return 0;
	err = port ? add_route(paths, mv_port_gid(port, request->sgid_index), &request->dgid, &last) : 0;
	if (err)
		return err;
	request->seen = seen;
	request->n_seen = mv_seen_get(mc->seen, request->port_num, request->sgid_index, seen, sizeof(seen) / sizeof(seen[0]));
	*ret = decide_now(paths, mc, request);
	if (ret->action == MV_KEEP)
		return 0;
	for (i = 0; i < port->n_gids && !err; i++)
		err = add_route(paths, &port->gids[i], &request->dgid, &last);
	if (!err)
		*ret = decide_now(paths, mc, request);
	return err;
}

static void count_decision(const struct mesh_context *mc, const struct mv_decision *decision)
{
	mesh_count(MV_COUNT_DECIDED + decision->action);
	if (mc->logged_only && (decision->action == MV_REPAIR || decision->action == MV_REPLACE))
		mesh_count(MV_COUNT_OBSERVED_GID);
}

static bool is_infiniband(const struct mesh_context *mc, uint8_t port_num)
{
	const struct mv_port *port = mv_device_port(&mc->tables.devices[0], port_num);

	return port && port->link_layer == IBV_LINK_LAYER_INFINIBAND;
}

/* Describe the entry that the program means: the one at the index, or else the last one that was there. */
static void describe_own(const struct mesh_context *mc, const struct mv_request *request, uint32_t index,
			 struct mesh_choice *choice)
{
	const struct mv_port *port = mv_device_port(&mc->tables.devices[0], request->port_num);
	const struct mv_gid_entry *entry = port ? mv_port_gid(port, index) : NULL;
	struct mv_seen seen;

	if (entry) {
		choice->gid = entry->gid;
		choice->type = entry->type;
	} else if (mv_seen_get(mc->seen, request->port_num, index, &seen, 1)) {
		choice->gid = seen.gid;
		choice->type = seen.type;
	}
}

/*
 * Update netdevs and tables, and decide.
 * @sure: in: read everything now; out: that was done
 * @dump: dump netdevs and addresses again if netlink has reported a change
 *
 * Return: NULL: an answer is missing.
 */
static struct mesh_paths *look(struct mesh_context *mc, struct ibv_context *verbs, struct mv_request *request, bool *sure,
			       bool dump, struct mv_decision *ret)
{
	bool looked = *sure, read_tables;
	struct mesh_paths *paths = mesh_paths_get(mc->generation, &looked);
	uint64_t now = mesh_now_ns();

	if (!paths)
		return NULL;
	if (looked)
		mesh_paths_notice(paths, now);
	if (dump && paths->told)
		paths->current = false;
	read_tables = *sure || !paths->current || !tables_believed(paths, mc, now);
	if ((read_tables && mesh_paths_refresh_tables(mc, verbs, now)) || (!paths->current && mesh_paths_read_net(paths)))
		return NULL;
	*sure = looked && read_tables;
	return decide(paths, mc, request, ret) ? NULL : paths;
}

/* Place in the cache for this destination and index. A process has many queue pairs, and few peers. */
static struct mesh_fit *fit_of(struct mesh_context *mc, const struct mv_request *request)
{
	const uint8_t *raw = request->dgid.raw;

	return &mc->fits[(raw[15] ^ raw[14] ^ raw[7] ^ request->sgid_index) & (MESH_FITS - 1)];
}

/* Called with process->paths.lock held. Return: false: no cached answer, or it may be outdated. */
static bool choose_again(struct mesh_context *mc, const struct mv_request *request, struct mesh_choice *ret)
{
	const struct mesh_paths *paths = mesh_root.paths;
	const struct mesh_fit *fit = fit_of(mc, request);

	if (fit->port_num != request->port_num || fit->index != request->sgid_index || !mv_gid_equal(&fit->dgid, &request->dgid))
		return false;
	/* Valid only while the helper thread watches for changes. */
	if (!paths || paths->generation != mc->generation || !mesh_paths_is_watched(paths) || !paths->current || paths->broken ||
	    mc->fits_routes != paths->n_routes || !tables_believed(paths, mc, mesh_now_ns()))
		return false;
	mesh_count(MV_COUNT_DECIDED + MV_KEEP);
	ret->fits = true;
	ret->gid = fit->gid;
	ret->type = fit->type;
	return true;
}

static void remember_fit(struct mesh_context *mc, const struct mesh_paths *paths, const struct mv_request *request,
			 const struct mesh_choice *choice)
{
	if (mv_log_wants(&mesh_root.log, MV_LOG_DEBUG)) /* every decision is logged */
		return;
	if (mc->fits_routes != paths->n_routes)
		memset(mc->fits, 0, sizeof(mc->fits));
	mc->fits_routes = paths->n_routes;
	*fit_of(mc, request) = (struct mesh_fit){.port_num = request->port_num,
						 .index = (uint8_t)request->sgid_index,
						 .type = choice->type,
						 .dgid = request->dgid,
						 .gid = choice->gid};
}

static bool finds_way(const struct mv_decision *decision)
{
	return decision->action == MV_REPAIR || decision->action == MV_REPLACE ||
	       (decision->action == MV_KEEP && decision->reason == MV_REASON_FITS);
}

/* May the caller change what the program asked for? A caller that wants to be @sure may also if no path leads there. */
static bool acts(const struct mv_decision *decision, bool sure)
{
	return decision->action != MV_KEEP || (sure && !finds_way(decision));
}

/* Does the decision need a new dump of netdevs and addresses? Keeping an index does not, unless its netdev is down. */
static bool wants_dump(const struct mv_decision *decision, bool sure)
{
	return decision->action != MV_KEEP || (sure && decision->reason == MV_REASON_PORT_DOWN);
}

/* Called with process->paths.lock held. */
static void choose(struct mesh_context *mc, struct ibv_context *verbs, struct mv_request *request, bool sure,
		   struct mesh_choice *ret)
{
	struct mv_decision decision;
	struct mesh_paths *paths;

	if (!sure && choose_again(mc, request, ret))
		return;
	if (is_infiniband(mc, request->port_num)) {
		describe_own(mc, request, ret->index, ret);
		ret->fits = true;
		ret->sure = true;
		return;
	}
	paths = look(mc, verbs, request, &sure, false, &decision);
	/*
	 * Before any change, read everything again, and dump netdevs and addresses: netlink reports an IPv6 address only after
	 * duplicate address detection, long after its GID exists. Keeping the program's index needs neither.
	 */
	if (paths && wants_dump(&decision, sure) && (!sure || paths->told)) {
		sure = true;
		paths = look(mc, verbs, request, &sure, true, &decision);
	}
	/* Change nothing either if the thread has left the namespace by setns(2). */
	if (!paths || (acts(&decision, sure) && mesh_paths_namespace() != paths->network_namespace)) {
		describe_own(mc, request, ret->index, ret);
		return;
	}

	mesh_paths_log_decision(paths, mc, request, &decision, ret);
	count_decision(mc, &decision);
	ret->differs = decision.action != MV_KEEP;
	ret->fits = finds_way(&decision);
	ret->down = decision.reason == MV_REASON_PORT_DOWN;
	/* An unknown netdev may be in another namespace, in which the kernel may find a route. */
	ret->sure = sure && (ret->fits || decision.own_verdict != MV_VERDICT_NO_NETDEV);
	describe_own(mc, request, decision.sgid_index, ret);
	if (decision.action == MV_KEEP && ret->fits)
		remember_fit(mc, paths, request, ret);
	if (!mc->logged_only && decision.sgid_index <= UINT8_MAX) /* ibv_global_route has 8 bits */
		ret->index = (uint8_t)decision.sgid_index;
}

void mesh_paths_choose(struct mesh_context *mc, struct ibv_context *verbs, const struct ibv_ah_attr *ah,
		       enum mv_transport transport, bool sure, struct mesh_choice *ret)
{
	struct mv_request request = {
		.device = mc->device,
		.port_num = ah->port_num,
		.sgid_index = ah->grh.sgid_index,
		.dgid = ah->grh.dgid,
		.transport = transport,
	};
	int saved_errno = errno;

	mesh_choice_none(ret, ah->grh.sgid_index);
	mesh_lock(&mesh_root.process->paths.lock);
	choose(mc, verbs, &request, sure, ret);
	mesh_unlock(&mesh_root.process->paths.lock);
	errno = saved_errno;
}
