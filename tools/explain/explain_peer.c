// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs explain: the decision that uses the agent's directory. */
#include <errno.h>

#include "dirview.h"
#include "entry.h"
#include "explain.h"

struct peer {
	struct mv_path_request request;
	enum mv_path_verdict verdict;
	uint32_t host, rail; /* valid if names_host() */
	bool hole; /* explain_is_hole() */
	bool foreign; /* the entry's netdev is in another network namespace, whose routes are not visible */
	struct mv_path paths[MV_PATH_FIND_MAX];
	size_t n_paths;
};

static bool names_host(const struct peer *peer)
{
	return peer->verdict != MV_PATH_UNKNOWN && peer->verdict != MV_PATH_SELF;
}

/* With this verdict, does the plugin ask the peer for another path? */
static bool needs_path(const struct peer *peer)
{
	if (peer->hole || (peer->foreign && peer->verdict != MV_PATH_LOCAL_DOWN && peer->verdict != MV_PATH_REMOTE_DOWN))
		return false;
	return names_host(peer) && peer->verdict != MV_PATH_WORKS;
}

/* The entry that the program's queue pair would use: its own, repaired if needed, or the best one. */
static void choose_entry(const struct mv_topo *topo, const struct explain *explain,
			 const struct mv_gid_entry *best, struct peer *peer)
{
	struct mv_path_request *request = &peer->request;
	const struct mv_gid_entry *entry = best;
	struct mv_decision decision;

	if (!explain->has_index && !entry && explain->port->n_gids)
		entry = &explain->port->gids[0];
	if (explain->has_index || entry) {
		decision = explain_decide(topo, explain,
					  explain->has_index ? explain->index : entry->index);
		entry = mv_port_gid(explain->port, decision.sgid_index);
		/* As in the plugin: providers/mesh/gid/paths_choose.c. */
		request->routed =
			decision.action == MV_REPAIR || decision.action == MV_REPLACE ||
			(decision.action == MV_KEEP && (decision.reason == MV_REASON_FITS ||
							decision.reason == MV_REASON_INFINIBAND));
		peer->foreign = !request->routed && decision.own_verdict == MV_VERDICT_NO_NETDEV;
	}
	if (entry) {
		request->sgid = entry->gid;
		request->sgid_type = (uint8_t)entry->type;
	}
}

static void ask_directory(const struct dirview *view, const struct mv_topo *topo,
			  const struct explain *explain, const struct mv_gid_entry *best,
			  struct peer *peer)
{
	peer->request.device = explain->device->name;
	peer->request.port_num = explain->port->num;
	peer->request.dgid = explain->dgid;
	peer->hole = explain_is_hole(explain);
	choose_entry(topo, explain, best, peer);
	peer->verdict = mv_path_decide(&view->dir, &peer->request, &peer->host, &peer->rail);
	if (needs_path(peer))
		peer->n_paths = mv_path_find(&view->dir, &peer->request, peer->host, peer->rail,
					     peer->paths, MV_PATH_FIND_MAX);
}

static void show_host(struct out *out, const struct dirview *view, const struct peer *peer)
{
	const struct mv_dir_host *host = &view->dir.hosts[peer->host];
	const struct mv_dir_rail *rail = &view->dir.rails[peer->rail];

	if (!names_host(peer)) {
		out_text(out, "host", NULL, OUT_PLAIN, NULL);
		out_text(out, "device", NULL, OUT_PLAIN, NULL);
		out_text(out, "port", NULL, OUT_PLAIN, NULL);
		out_text(out, "agent_version", NULL, OUT_PLAIN, NULL);
		return;
	}
	out_text(out, "host", NULL, OUT_PLAIN, host->name);
	out_text(out, "device", NULL, OUT_PLAIN, rail->device);
	out_uint(out, "port", NULL, rail->port);
	out_uint(out, "agent_version", NULL, host->agent_version);
	out_textf(out, NULL, "Peer", OUT_PLAIN, "%s, %s port %u", host->name, rail->device,
		  rail->port);
}

static void outcome_text(const struct dirview *view, const struct peer *peer, char *buf,
			 size_t size)
{
	const struct mv_dir_rail *rails = view->dir.rails;
	char local[MV_GID_STRLEN], remote[MV_GID_STRLEN];
	const struct mv_path *path = &peer->paths[0];

	if (peer->hole)
		snprintf(buf, size, "as the program asks: it has no GID to give to the peer, so the hosts agree on nothing");
	else if (!view->alive)
		snprintf(buf, size, "the agent of this host does not run: as the program asks");
	else if (peer->foreign && !needs_path(peer))
		snprintf(buf, size, "as the program asks: the GID's netdev, and the routes from there, are in another network namespace");
	else if (!needs_path(peer))
		snprintf(buf, size, "as the program asks");
	else if (!view->dir.hosts[peer->host].agent_version)
		snprintf(buf, size, "the peer's agent has not been heard: as the program asks");
	else if (peer->verdict == MV_PATH_ASK)
		snprintf(buf, size, "as the program asks, or as RoCE v2 if the peer uses that");
	else if (!peer->n_paths)
		snprintf(buf, size, "no rail of this host reaches the peer: as the program asks");
	else
		snprintf(buf, size,
			 "the two hosts agree on a path, at best %s %s to %s %s; UD, UC and XRC as "
			 "the program asks",
			 rails[path->local_rail].device, mv_gid_format(&path->local_gid, local),
			 rails[path->remote_rail].device, mv_gid_format(&path->remote_gid, remote));
}

/* If the directory knows both ends, it decides; else the decision without it stands. */
static bool is_reached(const struct dirview *view, const struct peer *peer, bool reached)
{
	if (peer->hole)
		return false;
	if (!view->alive || !needs_path(peer) || peer->verdict == MV_PATH_ASK)
		return reached;
	return peer->n_paths && view->dir.hosts[peer->host].agent_version;
}

/* As in the plugin: providers/mesh/conn/proved.c. */
static bool is_stranger(const struct dirview *view, const struct peer *peer)
{
	const struct mv_dir_host *host = &view->dir.hosts[peer->host];

	return view->alive && names_host(peer) && peer->host && host->agent_version && (host->flags & MV_PEER_ROUTED) &&
	       !(host->flags & MV_PEER_AUTHENTICATED);
}

/* The host that announces the destination, if the address is in doubt; NULL: not in doubt. */
static const char *doubted_host(const struct dirview *view, const struct peer *peer)
{
	const struct mv_directory *dir = &view->dir;
	ssize_t at = -1;

	while (view->alive && (at = mv_directory_find_gid(dir, &peer->request.dgid, (size_t)(at + 1))) >= 0) {
		const struct mv_dir_gid *gid = &dir->gids[dir->order[at]];

		if (mv_dir_gid_is_in_doubt(gid, peer->request.routed))
			return dir->hosts[dir->rails[gid->rail].host].name;
	}
	return NULL;
}

static void show_at_work(struct out *out, const struct dirview *view, const struct peer *peer)
{
	const char *doubted = doubted_host(view, peer);
	bool stranger = is_stranger(view, peer);

	out_text(out, "stays", NULL, OUT_PLAIN, stranger ? "not authenticated" : doubted ? "not met" : NULL);
	if (doubted)
		out_textf(out, NULL, "At work", OUT_BAD,
			  "stays on its path: %s announces the address, but was never heard on the link that the address belongs to, nor has "
			  "answered there, so it may be the address of a host without an agent; name it in the hosts file, or have a fleet key",
			  doubted);
	if (stranger)
		out_textf(out, NULL, "At work", OUT_BAD,
			  "stays on its path: %s is beyond a router and not authenticated; name its key in the hosts file (key=), or have a "
			  "fleet key",
			  view->dir.hosts[peer->host].name);
}

static void show(struct out *out, const struct dirview *view, const struct peer *peer,
		 bool *reached)
{
	char text[512];

	out_text(out, "verdict", NULL, OUT_PLAIN, mv_path_verdict_name(peer->verdict));
	show_host(out, view, peer);
	out_text(out, "verdict_text", "Verdict", dirview_verdict_tone(peer->verdict),
		 mv_path_verdict_text(peer->verdict));
	*reached = is_reached(view, peer, *reached);
	outcome_text(view, peer, text, sizeof(text));
	out_bool(out, "reaches", NULL, *reached);
	out_text(out, "text", "Outcome", *reached ? OUT_GOOD : OUT_BAD, text);
	show_at_work(out, view, peer);
	dirview_paths(out, view, peer->paths, peer->n_paths, "Paths, best first");
}

int explain_peer(struct out *out, const struct cli *cli, const struct mv_topo *topo,
		 const struct explain *explain, const struct mv_gid_entry *best, bool *reached)
{
	struct peer peer = {.verdict = MV_PATH_UNKNOWN};
	struct dirview view;
	int rc;

	/* For an address handle, no peer is asked. */
	rc = explain->transport == MV_DATAGRAM ? -ENOENT : dirview_open(cli, &view);
	if (rc == -ENOENT) {
		out_text(out, "directory", NULL, OUT_PLAIN, NULL);
		return 0;
	}
	if (rc)
		return rc;
	ask_directory(&view, topo, explain, best, &peer);
	out_section(out, "directory", "Directory");
	show(out, &view, &peer, reached);
	out_section_end(out);
	mv_directory_close(&view.dir);
	return 0;
}
