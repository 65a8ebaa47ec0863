// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "count.h"
#include "paths.h"
#include "tables.h"
#include "topo_netlink.h"

/* What the process knows of its network namespace; made with the first decision. */
struct mesh_paths {
	uint64_t generation; /* of the process that made it */
	uint64_t number; /* of all there have been, from 1; see process->paths_watched */
	uint64_t network_namespace; /* that the sockets belong to */
	struct mv_netlink netlink;
	bool current; /* @net is what the kernel has told of */
	bool told; /* and something was told since it was dumped */
	bool broken; /* a descriptor has become somebody else's */
	uint64_t changed_ns; /* when the last change of netdevs or addresses was noticed; before the first, when the socket was opened */
	uint64_t n_routes; /* changes of routes and rules; from 1 */
	struct mv_topo net; /* netdevs and addresses; routes only during a decision */
};

/* A table is read again after this long even if nothing tells of a change: it costs nothing that seldom. */
#define TRUST_MAX_NS 1000000000ull

/* Not to be cancelled with the lock held: what happens under it passes cancellation points. */
MV_ACQUIRES(&mesh_root.process->paths_lock) static int lock_paths(void)
{
	int cancel = mesh_cancel_off();

	mesh_lock(&mesh_root.process->paths_lock);
	return cancel;
}

MV_RELEASES(&mesh_root.process->paths_lock) static void unlock_paths(int cancel)
{
	mesh_unlock(&mesh_root.process->paths_lock);
	mesh_cancel_restore(cancel);
}

int mesh_paths_open(struct mesh_context *mc, struct ibv_context *verbs, char *why, size_t why_size)
{
	int err;

	mv_topo_init(&mc->tables);
	mc->tables_read_ns = 0; /* netdevs have not been looked at yet */
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

static int refresh_tables(struct mesh_context *mc, struct ibv_context *verbs, uint64_t now_ns)
{
	int err = mesh_tables_read(&mesh_root.lib, verbs, mc->device, &mc->tables, mc->seen);

	mc->tables_read_ns = err ? 0 : now_ns;
	memset(mc->fits, 0, sizeof(mc->fits));
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
		refresh_tables(mc, verbs, mesh_now_ns());
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

/* Does the helper thread sleep until something changes? It may wake up, and say so, at any time. */
static bool is_watched(const struct mesh_paths *paths)
{
	return atomic_load_explicit(&mesh_root.process->paths_watched, memory_order_acquire) == paths->number;
}

/*
 * @look: changes will be looked for, so the descriptor has to be ours; set when they have to be
 *
 * NULL when the network namespace cannot be looked at; the reason is logged.
 */
static struct mesh_paths *open_paths(uint64_t generation, bool *look)
{
	struct mesh_paths *paths = mesh_root.paths;
	int err;

	*look = *look || !paths || !is_watched(paths);
	if (paths && paths->generation == generation && !paths->broken &&
	    (!*look || mv_netlink_events_intact(&paths->netlink)))
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
	paths->changed_ns = mesh_now_ns();
	paths->n_routes = 1;
	paths->number = ++mesh_root.process->last_paths;
	mesh_root.paths = paths;
	*look = true;
	return paths;
}

/* Before each request. */
static int check_requests(struct mesh_paths *paths)
{
	if (mv_netlink_requests_intact(&paths->netlink))
		return 0;
	paths->broken = true; /* opened anew with the next decision */
	return -EBADF;
}

/* The descriptor for changes has been found to be ours. */
static void notice_changes(struct mesh_paths *paths, uint64_t now_ns)
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

/*
 * May a table that was read earlier still be believed? GIDs follow netdevs and addresses, of whose changes netlink tells, but
 * the kernel fills the table some time after. One that was found unchanged some time after the last change is
 * believed for as long again: so it is wrong for no longer than the kernel took to fill it, and it is
 * read a handful of times, with growing pauses, however many connections are made.
 */
static bool tables_believed(const struct mesh_paths *paths, const struct mesh_context *mc, uint64_t now_ns)
{
	uint64_t age = now_ns - mc->tables_read_ns;

	return mc->tables_read_ns > paths->changed_ns && age < mc->tables_read_ns - paths->changed_ns && age < TRUST_MAX_NS;
}

static int read_net(struct mesh_paths *paths)
{
	int err = check_requests(paths);

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
	n = check_requests(paths);
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
 * Decide with as few questions to the kernel as possible: where the program's own entry fits by its prefixes, none is
 * asked; where it does by a route, nothing about the others.
 *
 * Return: 0, or -errno when an answer is missing that the decision would rest on.
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
			 const struct mv_request *request, const struct mv_decision *decision,
			 struct mesh_choice *choice)
{
	char to[MV_GID_STRLEN], from[MV_GID_STRLEN], tried[320];
	const char *done = mc->logged_only ? "would use" : "using";

	/* Most connections are fine, and their words cost more than the rest. */
	if (decision->action == MV_KEEP && !mv_log_wants(&mesh_root.log, MV_LOG_DEBUG))
		return;
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
		snprintf(choice->why_not, sizeof(choice->why_not),
			 "%s port %u to %s: index %u is %s, left alone: %s; tried %s", mc->device, request->port_num,
			 to, request->sgid_index, mv_verdict_name(decision->own_verdict),
			 mv_reason_text(decision->reason), tried);
		break;
	}
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

/* The entry that the program means: what stands at the index, else the last that stood there. */
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
 * Bring what is known up to date and decide.
 * @sure: read it all now; set when that was done
 * @dump: what the kernel has told of is not enough
 *
 * Return: the paths, or NULL when an answer is missing.
 */
static struct mesh_paths *look(struct mesh_context *mc, struct ibv_context *verbs, struct mv_request *request, bool *sure,
			       bool dump, struct mv_decision *ret)
{
	bool looked = *sure, read_tables;
	struct mesh_paths *paths = open_paths(mc->generation, &looked);
	uint64_t now = mesh_now_ns();

	if (!paths)
		return NULL;
	if (looked)
		notice_changes(paths, now);
	if (dump && paths->told)
		paths->current = false;
	read_tables = *sure || !paths->current || !tables_believed(paths, mc, now);
	if ((read_tables && refresh_tables(mc, verbs, now)) || (!paths->current && read_net(paths)))
		return NULL;
	*sure = looked && read_tables;
	return decide(paths, mc, request, ret) ? NULL : paths;
}

/*
 * Ranks of queue pairs go to the same few peers, and the answer does not change before the question's ground does.
 *
 * Return: the place of that question.
 */
static struct mesh_fit *fit_of(struct mesh_context *mc, const struct mv_request *request)
{
	const uint8_t *raw = request->dgid.raw;

	return &mc->fits[(raw[15] ^ raw[14] ^ raw[7] ^ request->sgid_index) & (MESH_FITS - 1)];
}

/* Called with paths_lock held. Return: false when nothing is known, or not surely enough. */
static bool choose_again(struct mesh_context *mc, const struct mv_request *request, struct mesh_choice *ret)
{
	const struct mesh_paths *paths = mesh_root.paths;
	const struct mesh_fit *fit = fit_of(mc, request);

	if (fit->port_num != request->port_num || fit->index != request->sgid_index || !mv_gid_equal(&fit->dgid, &request->dgid))
		return false;
	/* Only while somebody else looks for changes. */
	if (!paths || paths->generation != mc->generation || !is_watched(paths) || !paths->current || paths->broken ||
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
	if (mv_log_wants(&mesh_root.log, MV_LOG_DEBUG)) /* every decision is to be told */
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

/* May something else than what the program asks for come of it? Of "there is no way" does, from whoever wants to be @sure. */
static bool acts(const struct mv_decision *decision, bool sure)
{
	return decision->action != MV_KEEP || (sure && !finds_way(decision));
}

/* To keep an index needs none, but where the netdev is down, of which something may come. */
static bool wants_dump(const struct mv_decision *decision, bool sure)
{
	return decision->action != MV_KEEP || (sure && decision->reason == MV_REASON_PORT_DOWN);
}

/* Called with paths_lock held. */
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
	 * Never act on old news, nor on what was told only: IPv6 addresses are told of when nobody else turns out to have them, and their
	 * GIDs are there long before. To keep the program's own index is not to act.
	 */
	if (paths && wants_dump(&decision, sure) && (!sure || paths->told)) {
		sure = true;
		paths = look(mc, verbs, request, &sure, true, &decision);
	}
	/* Nor on news of another namespace: a thread may have changed its own with setns(2). */
	if (!paths || (acts(&decision, sure) && network_namespace() != paths->network_namespace)) {
		describe_own(mc, request, ret->index, ret);
		return;
	}

	log_decision(paths, mc, request, &decision, ret);
	count_decision(mc, &decision);
	ret->differs = decision.action != MV_KEEP;
	ret->fits = finds_way(&decision);
	ret->down = decision.reason == MV_REASON_PORT_DOWN;
	/* The kernel would look for a way in the namespace that the netdev is in, and that may have one. */
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
	mesh_lock(&mesh_root.process->paths_lock);
	choose(mc, verbs, &request, sure, ret);
	mesh_unlock(&mesh_root.process->paths_lock);
	errno = saved_errno;
}

void mesh_paths_why_not(const struct mesh_choice *choice)
{
	if (choice->why_not[0])
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s", choice->why_not);
}

/* Called with paths_lock held. NULL: none, or not this process's. */
static struct mesh_paths *own_paths(void)
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
	if (mesh_trylock(&mesh_root.process->paths_lock)) {
		struct mesh_paths *paths = own_paths();

		*ret_busy = false;
		if (paths && mv_netlink_events_intact(&paths->netlink)) {
			notice_changes(paths, mesh_now_ns());
			fd = paths->netlink.event_fd;
			atomic_store_explicit(&mesh_root.process->paths_watched, paths->number, memory_order_release);
		}
		mesh_unlock(&mesh_root.process->paths_lock);
	}
	mesh_cancel_restore(cancel);
	return fd;
}

void mesh_paths_unwatch(void)
{
	atomic_store_explicit(&mesh_root.process->paths_watched, 0, memory_order_release);
}

/* Called with paths_lock held. */
static const struct mv_gid_entry *towards(const struct mv_gid_entry *entries, size_t n, const union ibv_gid *dgid)
{
	const struct mesh_paths *paths = own_paths();
	struct mv_topo view;

	if (!paths || !paths->current)
		return entries;
	view = paths->net;
	view.n_routes = 0; /* of another decision */
	return mv_decide_towards(&view, entries, n, dgid);
}

const struct mv_gid_entry *mesh_paths_towards(const struct mv_gid_entry *entries, size_t n, const union ibv_gid *dgid)
{
	const struct mv_gid_entry *found = entries;
	int cancel = mesh_cancel_off();

	/* Who has it may wait for the kernel's rtnl lock. */
	if (mesh_trylock(&mesh_root.process->paths_lock)) {
		found = towards(entries, n, dgid);
		mesh_unlock(&mesh_root.process->paths_lock);
	}
	mesh_cancel_restore(cancel);
	return found;
}

static bool is_of(const struct mv_gid_entry *entry, const union ibv_gid *gid, enum mv_gid_type type)
{
	return entry->type == type && entry->index <= UINT8_MAX && mv_gid_equal(&entry->gid, gid);
}

/* Called with paths_lock held. @ret: array of @max. Return: how many */
static size_t find_gid(const struct mesh_context *mc, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		       struct mv_gid_entry *ret, size_t max)
{
	const struct mv_port *port = mc->tables.n_devices ? mv_device_port(&mc->tables.devices[0], port_num) : NULL;
	size_t i, n = 0;

	for (i = 0; port && i < port->n_gids && n < max; i++)
		if (is_of(&port->gids[i], gid, type))
			ret[n++] = port->gids[i];
	return n;
}

int mesh_paths_find(struct mesh_context *mc, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		    const union ibv_gid *dgid, uint8_t *ret_index)
{
	struct mv_gid_entry entries[MESH_PATHS_TWINS];
	int cancel = lock_paths();
	size_t n = find_gid(mc, port_num, gid, type, entries, MESH_PATHS_TWINS);
	const struct mv_port *port = n ? mv_device_port(&mc->tables.devices[0], port_num) : NULL;
	const struct mv_gid_entry *there = port ? mv_port_gid(port, *ret_index) : NULL;

	if (n && !(there && is_of(there, gid, type)))
		*ret_index = (uint8_t)towards(entries, n, dgid)->index;
	unlock_paths(cancel);
	return n ? 0 : -ENOENT;
}

bool mesh_paths_lack(struct mesh_context *mc, struct ibv_context *verbs, uint8_t port_num, const union ibv_gid *gid, enum mv_gid_type type,
		     uint8_t index)
{
	int cancel = lock_paths();
	const struct mv_port *port;
	struct mv_gid_entry entry;
	bool lack;

	lack = mc->seen && !refresh_tables(mc, verbs, mesh_now_ns()) && !find_gid(mc, port_num, gid, type, &entry, 1);
	port = lack ? mv_device_port(&mc->tables.devices[0], port_num) : NULL;
	lack = port && !mv_port_gid(port, index);
	unlock_paths(cancel);
	return lack;
}
