// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs gids: the GID tables, with the state of each entry. */
#include "cli.h"
#include "entry.h"
#include "host.h"
#include "sysfs.h"

static const char *port_state_name(uint8_t state)
{
	static const char *const names[] = {
		[IBV_PORT_NOP] = "unknown",   [IBV_PORT_DOWN] = "down",
		[IBV_PORT_INIT] = "init",     [IBV_PORT_ARMED] = "armed",
		[IBV_PORT_ACTIVE] = "active", [IBV_PORT_ACTIVE_DEFER] = "active-defer",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static void show_entry(struct out *out, const struct cli *cli, const struct mv_topo *topo,
		       const struct mv_device *device, const struct mv_port *port,
		       const struct mv_gid_entry *entry)
{
	const struct mv_netdev *netdev = mv_topo_gid_netdev(topo, entry);
	char text[160], named[64] = "";
	enum entry_state state;

	if (!netdev)
		sysfs_gid_netdev(cli->sysfs, device->name, port->num, entry->index, named,
				 sizeof(named));
	state = entry_check(topo, port, entry, named, text, sizeof(text));
	out_row(out);
	out_text(out, "device", "DEV", OUT_PLAIN, device->name);
	out_uint(out, "port", "PORT", port->num);
	out_uint(out, "index", "INDEX", entry->index);
	out_gid(out, &entry->gid);
	out_text(out, "type", "TYPE", OUT_PLAIN, mv_gid_type_name(entry->type));
	out_netdev(out, netdev);
	out_text(out, "verdict", NULL, OUT_PLAIN, entry_state_name(state));
	out_text(out, "verdict_text", "VERDICT", entry_state_tone(state), text);
}

static void show_port(struct out *out, const struct mv_device *device, const struct mv_port *port)
{
	out_row(out);
	out_text(out, "device", "DEV", OUT_PLAIN, device->name);
	out_uint(out, "port", "PORT", port->num);
	out_text(out, "link_layer", "LINK LAYER", OUT_PLAIN,
		 port->link_layer == IBV_LINK_LAYER_ETHERNET     ? "Ethernet"
		 : port->link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand"
								 : "unknown");
	out_text(out, "state", "STATE", port->state == IBV_PORT_ACTIVE ? OUT_GOOD : OUT_BAD,
		 port_state_name(port->state));
	out_uint(out, "rate_mbps", NULL, port->rate_mbps);
	out_uint(out, "n_gids", "GIDS", port->n_gids);
}

static bool wanted(const struct mv_device *device, const struct mv_device *only)
{
	return !only || only == device;
}

static int show(struct out *out, const struct cli *cli, const struct mv_topo *topo,
		const struct mv_device *only)
{
	const struct mv_device *device;
	size_t d, p, i, n_gids = 0;

	out_list(out, "gids", NULL);
	for (d = 0; d < topo->n_devices; d++) {
		device = &topo->devices[d];
		for (p = 0; wanted(device, only) && p < device->n_ports; p++) {
			for (i = 0; i < device->ports[p].n_gids; i++)
				show_entry(out, cli, topo, device, &device->ports[p],
					   &device->ports[p].gids[i]);
			n_gids += device->ports[p].n_gids;
		}
	}
	out_list_end(out);
	out_list(out, "ports", "Ports");
	for (d = 0; d < topo->n_devices; d++) {
		device = &topo->devices[d];
		for (p = 0; wanted(device, only) && p < device->n_ports; p++)
			show_port(out, device, &device->ports[p]);
	}
	out_list_end(out);
	return cli_finish(out, n_gids ? CLI_OK : CLI_ATTENTION);
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{"device", required_argument, NULL, 'd'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const struct mv_device *only = NULL;
	const char *name = NULL;
	struct host host;
	struct out *out;
	int opt, rc;

	while ((opt = cli_option(cli, &cmd_gids, argc, argv, "+:d:jh", options, &rc)) != -1) {
		if (opt == -2)
			return rc;
		name = optarg;
	}
	if (optind < argc)
		return cli_usage(&cmd_gids, "'%s' is not expected; a device is named with -d",
				 argv[optind]);

	rc = CLI_ERROR;
	if (host_open(cli, &host))
		goto out_close;
	if (name) {
		only = host_device(&host, name);
		if (!only)
			goto out_close;
	}
	out = cli_out(cli);
	if (out)
		rc = show(out, cli, &host.topo, only);
out_close:
	host_close(&host);
	return rc;
}

const struct cli_command cmd_gids = {
	.name = "gids",
	.args = "[-d DEV] [-j]",
	.summary = "the GID tables of the RDMA devices, with a verdict on each entry",
	.help = "Prints the used entries of every port's GID table and whether they can work from "
		"this\n"
		"network namespace, then the ports.\n\n"
		"  -d, --device DEV   only this RDMA device\n"
		"  -j, --json         print JSON\n\n"
		"Exit status: 0; 1 when there is no GID at all; 2 wrong usage, or nothing could be "
		"read.",
	.run = run,
};
