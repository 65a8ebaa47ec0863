// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs peers: known hosts and their rails. */
#include <errno.h>
#include <string.h>

#include "ctl.h"
#include "dirview.h"
#include "entry.h"
#include "show.h"
#include "topo.h"

enum peer_state {
	PEER_SELF,
	PEER_TALKS, /* its agent is heard, and has our version */
	PEER_VERSION, /* its agent has another version */
	PEER_SILENT, /* from the hosts file only */
};

static enum peer_state state_of(const struct mv_directory *dir, uint32_t host)
{
	if (!host)
		return PEER_SELF;
	if (!dir->hosts[host].agent_version)
		return PEER_SILENT;
	return dir->hosts[host].agent_version == MV_CTL_VERSION ? PEER_TALKS : PEER_VERSION;
}

static const char *const state_names[] = {
	[PEER_SELF] = "self",
	[PEER_TALKS] = "talks",
	[PEER_VERSION] = "other-version",
	[PEER_SILENT] = "silent",
};

static void state_text(enum peer_state state, const struct mv_dir_host *host, char *buf,
		       size_t size)
{
	switch (state) {
	case PEER_SELF:
		snprintf(buf, size, "this host");
		break;
	case PEER_TALKS:
		snprintf(buf, size, "its agent is heard");
		break;
	case PEER_VERSION:
		snprintf(buf, size, "its agent speaks version %u, this one %u: upgrade the older",
			 host->agent_version, MV_CTL_VERSION);
		break;
	case PEER_SILENT:
		snprintf(buf, size, "its agent has not been heard");
		break;
	}
}

static void id_text(const struct mv_host_id *id, char *buf)
{
	size_t i;

	for (i = 0; i < sizeof(id->bytes); i++)
		sprintf(buf + 2 * i, "%02x", id->bytes[i]);
}

static unsigned int rails_up(const struct mv_directory *dir, const struct mv_dir_host *host)
{
	unsigned int n = 0;
	uint32_t r;

	for (r = 0; r < host->n_rails; r++)
		n += !!(dir->rails[host->first_rail + r].flags & MV_RAIL_UP);
	return n;
}

static void show_host(struct out *out, const struct dirview *view, uint32_t h)
{
	const struct mv_dir_host *host = &view->dir.hosts[h];
	enum peer_state state = state_of(&view->dir, h);
	uint64_t heard_ms = dirview_heard_ms(view, h);
	char id[2 * sizeof(host->id.bytes) + 1], text[128];

	id_text(&host->id, id);
	out_row(out);
	out_text(out, "host", "HOST", OUT_PLAIN, host->name);
	out_text(out, "id", NULL, OUT_PLAIN, id);
	out_uint(out, "agent_version", NULL, host->agent_version);
	out_uint(out, "n_rails", "RAILS", host->n_rails);
	out_uint(out, "n_up", "UP", rails_up(&view->dir, host));
	if (heard_ms == UINT64_MAX)
		out_text(out, "heard_ms", NULL, OUT_PLAIN, NULL);
	else
		out_uint(out, "heard_ms", NULL, heard_ms);
	if (!h || heard_ms == UINT64_MAX)
		out_text(out, NULL, "LAST HEARD", OUT_PLAIN, NULL);
	else
		out_textf(out, NULL, "LAST HEARD", OUT_PLAIN, "%.1f s ago",
			  (double)heard_ms / 1000);
	out_text(out, "state", NULL, OUT_PLAIN, state_names[state]);
	state_text(state, host, text, sizeof(text));
	out_text(out, "state_text", "STATE",
		 state == PEER_TALKS  ? OUT_GOOD
		 : state == PEER_SELF ? OUT_PLAIN
				      : OUT_WARN,
		 text);
}

/* Own devices on whose links the rail's beacons are heard, e.g. "mlx5_0, mlx5_2". */
static void heard_on(const struct mv_directory *dir, uint32_t rail, char *buf, size_t size)
{
	size_t len = 0;
	uint32_t l;

	buf[0] = '\0';
	for (l = 0; l < dir->hosts[0].n_rails && len < size; l++)
		if (mv_directory_linked(dir, l, rail))
			len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "",
						dir->rails[l].device);
}

/* Addresses with prefixes. An address with RoCE v1 and v2 is listed once. */
static void addresses(const struct mv_directory *dir, const struct mv_dir_rail *rail, char *buf,
		      size_t size)
{
	const struct mv_dir_gid *gids = &dir->gids[rail->first_gid];
	char gid[MV_GID_STRLEN];
	size_t len = 0;
	uint32_t g, h;

	buf[0] = '\0';
	for (g = 0; g < rail->n_gids && len < size; g++) {
		for (h = 0; h < g && !mv_gid_equal(&gids[h].gid, &gids[g].gid); h++)
			;
		if (h < g)
			continue;
		len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "",
					mv_gid_format(&gids[g].gid, gid));
	}
}

static const char *rail_state(const struct mv_dir_rail *rail)
{
	if (rail->flags & MV_RAIL_DRAINED)
		return "drained";
	if (rail->flags & MV_RAIL_EXCLUDED)
		return "excluded";
	return rail->flags & MV_RAIL_UP ? "up" : "down";
}

static void show_rail(struct out *out, const struct mv_directory *dir, uint32_t r)
{
	const struct mv_dir_rail *rail = &dir->rails[r];
	char heard[256], gids[256];

	heard_on(dir, r, heard, sizeof(heard));
	addresses(dir, rail, gids, sizeof(gids));
	out_row(out);
	out_text(out, "host", "HOST", OUT_PLAIN, dir->hosts[rail->host].name);
	out_text(out, "device", "DEV", OUT_PLAIN, rail->device);
	out_uint(out, "port", "PORT", rail->port);
	out_text(out, "netdev", "NETDEV", OUT_PLAIN, rail->netdev[0] ? rail->netdev : NULL);
	out_text(out, "link_layer", NULL, OUT_PLAIN,
		 rail->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand" : "Ethernet");
	out_text(out, "state", "STATE", rail->flags & MV_RAIL_UP ? OUT_PLAIN : OUT_BAD,
		 rail_state(rail));
	out_bool(out, "up", NULL, rail->flags & MV_RAIL_UP);
	out_bool(out, "drained", NULL, rail->flags & MV_RAIL_DRAINED);
	out_bool(out, "excluded", NULL, rail->flags & MV_RAIL_EXCLUDED);
	out_uint(out, "rate_mbps", NULL, rail->rate_mbps);
	out_uint(out, "mtu_bytes", NULL, rail->mtu_bytes);
	out_uint(out, "lid", NULL, rail->lid);
	out_text(out, "heard_on", "HEARD ON", OUT_PLAIN, heard[0] ? heard : NULL);
	out_text(out, NULL, "ADDRESSES", OUT_PLAIN, gids[0] ? gids : NULL);
}

static void show_gid(struct out *out, const struct mv_directory *dir, uint32_t g)
{
	const struct mv_dir_gid *gid = &dir->gids[g];
	const struct mv_dir_rail *rail = &dir->rails[gid->rail];

	out_row(out);
	out_text(out, "host", NULL, OUT_PLAIN, dir->hosts[rail->host].name);
	out_text(out, "device", NULL, OUT_PLAIN, rail->device);
	out_uint(out, "port", NULL, rail->port);
	out_uint(out, "index", NULL, mv_dir_gid_index(gid));
	out_gid(out, &gid->gid);
	out_text(out, "type", NULL, OUT_PLAIN, mv_gid_type_name(gid->type));
	if (gid->vlan_id == MV_VLAN_NONE)
		out_text(out, "vlan", NULL, OUT_PLAIN, NULL);
	else
		out_uint(out, "vlan", NULL, gid->vlan_id);
	out_uint(out, "prefix_len", NULL, gid->prefix_len);
}

void show_hosts(struct out *out, const struct dirview *view, size_t max)
{
	uint32_t i, n = view->dir.header->n_hosts;

	out_list(out, "hosts", "Hosts");
	for (i = 0; i < n && i < max; i++)
		show_host(out, view, i);
	out_list_end(out);
	if (n > max)
		out_textf(out, NULL, "More hosts", OUT_PLAIN, "%zu, see meshverbs peers", n - max);
}

void show_rails(struct out *out, const struct dirview *view, size_t n_hosts)
{
	const struct mv_directory *dir = &view->dir;
	uint32_t i;

	out_list(out, "rails", "Rails");
	for (i = 0; i < dir->header->n_rails; i++)
		if (dir->rails[i].host < n_hosts)
			show_rail(out, dir, i);
	out_list_end(out);
}

static int show(struct out *out, const struct dirview *view)
{
	const struct mv_directory *dir = &view->dir;
	uint32_t i;

	dirview_agent(out, view);
	show_hosts(out, view, SIZE_MAX);
	show_rails(out, view, SIZE_MAX);
	if (out_is_json(out)) {
		out_list(out, "gids", NULL);
		for (i = 0; i < dir->header->n_gids; i++)
			show_gid(out, dir, i);
		out_list_end(out);
	}
	return cli_finish(out, view->alive && dir->header->n_hosts > 1 ? CLI_OK : CLI_ATTENTION);
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct dirview view;
	struct out *out;
	int rc = cli_no_arguments(cli, &cmd_peers, argc, argv);

	if (rc >= 0)
		return rc;
	rc = dirview_open(cli, &view);
	if (rc == -ENOENT)
		dirview_missing(cli);
	if (rc)
		return CLI_ERROR;
	out = cli_out(cli);
	rc = out ? show(out, &view) : CLI_ERROR;
	mv_directory_close(&view.dir);
	return rc;
}

const struct cli_command cmd_peers = {
	.name = "peers",
	.args = "[-j]",
	.summary = "the hosts that this host's agent knows, and their rails",
	.help = "Prints the directory that the agent, meshverbsd, keeps: hosts with their state, "
		"and "
		"their rails\n"
		"(RDMA ports), with the devices of this host on whose link each rail is heard.\n\n"
		"  -j, --json   print JSON\n\n"
		"Exit status: 0; 1 when there is no other host, or the agent is gone; 2 wrong "
		"usage, or no agent.",
	.run = run,
};
