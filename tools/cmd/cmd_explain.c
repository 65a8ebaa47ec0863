// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs explain: the path decision for one destination, with its reasons. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"
#include "explain.h"
#include "topo_sysfs.h"

static int parse_to(struct explain *explain, const char *text)
{
	uint32_t lid;

	explain->dlid = 0;
	if (!mv_sysfs_parse_number(text, UINT16_MAX, &lid) && lid) {
		explain->dlid = (uint16_t)lid;
		return 0;
	}
	if (mv_gid_parse(text, &explain->dgid))
		return cli_usage(&cmd_explain,
				 "--to '%s' is neither a GID nor an IPv4 or IPv6 address, nor a LID", text);
	if (mv_gid_is_zero(&explain->dgid))
		return cli_usage(&cmd_explain, "--to '%s' is the zero GID, which no peer has",
				 text);
	return 0;
}

/* GID, GID,v1 or GID,v2; modifies the text. */
static int parse_seen(struct explain *explain, char *text)
{
	struct mv_seen *seen = &explain->seen[explain->n_seen];
	char *comma = strchr(text, ',');

	if (explain->n_seen == EXPLAIN_SEEN_MAX)
		return cli_usage(&cmd_explain, "--seen can be given %d times", EXPLAIN_SEEN_MAX);
	seen->type = MV_GID_TYPE_ROCE_V2;
	if (comma) {
		if (!strcmp(comma, ",v1"))
			seen->type = MV_GID_TYPE_ROCE_V1;
		else if (strcmp(comma, ",v2") != 0)
			return cli_usage(&cmd_explain,
					 "--seen '%s': after the comma comes v1 or v2", text);
		*comma = '\0';
	}
	if (mv_gid_parse(text, &seen->gid))
		return cli_usage(&cmd_explain,
				 "--seen '%s' is neither a GID nor an IPv4 or IPv6 address", text);
	explain->n_seen++;
	return 0;
}

enum { OPT_FROM = 256, OPT_TO, OPT_INDEX, OPT_UD, OPT_SEEN };

static const struct option options[] = {
	{"from", required_argument, NULL, OPT_FROM},
	{"to", required_argument, NULL, OPT_TO},
	{"index", required_argument, NULL, OPT_INDEX},
	{"ud", no_argument, NULL, OPT_UD},
	{"seen", required_argument, NULL, OPT_SEEN},
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* Return: -1: go on; else an exit status. */
static int parse_args(struct cli *cli, struct explain *explain, int argc, char **argv)
{
	unsigned long number;
	bool has_to = false;
	int opt, rc;

	while ((opt = cli_option(cli, &cmd_explain, argc, argv, "+:jh", options, &rc)) != -1) {
		switch (opt) {
		case -2:
			return rc;
		case OPT_FROM:
			rc = cli_device(&cmd_explain, optarg, &explain->device_name,
					&explain->port_num);
			break;
		case OPT_TO:
			rc = parse_to(explain, optarg);
			has_to = true;
			break;
		case OPT_SEEN:
			rc = parse_seen(explain, optarg);
			break;
		case OPT_UD:
			explain->transport = MV_DATAGRAM;
			break;
		case OPT_INDEX:
			if (cli_uint(optarg, UINT32_MAX, &number))
				return cli_usage(&cmd_explain, "--index '%s' is not a GID index",
						 optarg);
			explain->index = (uint32_t)number;
			explain->has_index = true;
			break;
		}
		if (rc)
			return rc;
	}
	if (optind < argc)
		return cli_usage(&cmd_explain, "'%s' is not expected", argv[optind]);
	if (!explain->device_name)
		return cli_usage(&cmd_explain,
				 "--from DEV is missing: the RDMA device that the program uses");
	if (!has_to)
		return cli_usage(&cmd_explain, "--to GID|IP|LID is missing: the peer's GID or address, or its LID");
	if (explain->dlid && (explain->has_index || explain->transport == MV_DATAGRAM))
		return cli_usage(&cmd_explain, "--to LID is for connections without a GRH: neither --index nor --ud goes with it");
	if (explain->n_seen && !explain->has_index)
		return cli_usage(&cmd_explain,
				 "--seen says what was read under an index: add --index");
	return -1;
}

static int find_port(const struct host *host, struct explain *explain)
{
	const struct mv_device *device = host_device(host, explain->device_name);

	if (!device)
		return -ENODEV;
	if (!device->n_ports) {
		cli_error("%s has no ports", device->name);
		return -ENODEV;
	}
	explain->device = device;
	explain->port =
		explain->port_num ? mv_device_port(device, explain->port_num) : &device->ports[0];
	if (explain->port)
		return 0;
	cli_error("%s has no port %u; its last one is %u", device->name, explain->port_num,
		  device->ports[device->n_ports - 1].num);
	return -ENODEV;
}

static void show_question(struct out *out, const struct explain *explain)
{
	char gid[MV_GID_STRLEN], index[32] = "";
	size_t i;

	if (explain->has_index)
		snprintf(index, sizeof(index), ", index %u", explain->index);
	out_textf(out, NULL, "From", OUT_PLAIN, "%s port %u%s", explain->device->name,
		  explain->port->num, index);
	out_section(out, "from", NULL);
	out_text(out, "device", NULL, OUT_PLAIN, explain->device->name);
	out_uint(out, "port", NULL, explain->port->num);
	if (explain->has_index)
		out_uint(out, "index", NULL, explain->index);
	else
		out_text(out, "index", NULL, OUT_PLAIN, NULL);
	out_list(out, "seen", NULL);
	for (i = 0; i < explain->n_seen; i++) {
		out_row(out);
		out_text(out, "gid", NULL, OUT_PLAIN, gid_text(&explain->seen[i].gid, gid));
		out_text(out, "type", NULL, OUT_PLAIN, mv_gid_type_name(explain->seen[i].type));
	}
	out_list_end(out);
	out_section_end(out);
	for (i = 0; i < explain->n_seen; i++)
		out_textf(out, NULL, "Seen there", OUT_PLAIN, "%s (%s)",
			  mv_gid_format(&explain->seen[i].gid, gid),
			  mv_gid_type_name(explain->seen[i].type));
	if (explain->dlid)
		snprintf(gid, sizeof(gid), "LID %u", explain->dlid);
	else
		mv_gid_format(&explain->dgid, gid);
	out_text(out, "to", "To", OUT_PLAIN, gid);
	out_text(out, "transport", "Transport", OUT_PLAIN,
		 explain->transport == MV_DATAGRAM ? "datagram" : "connected");
}

static int answer(struct out *out, const struct cli *cli, struct host *host, struct explain *explain)
{
	const struct mv_gid_entry *best;
	bool reached;
	int rc;

	show_question(out, explain);
	rc = explain->dlid ? explain_lid(out, cli, explain) : 0;
	if (rc < 0) {
		out_cancel(out);
		return CLI_ERROR;
	}
	if (rc)
		return cli_finish(out, CLI_ATTENTION);
	if (explain_routes(out, host, explain)) {
		out_cancel(out);
		return CLI_ERROR;
	}
	best = explain_candidates(out, &host->topo, explain);
	reached = explain_result(out, &host->topo, explain, best);
	if (!reached && !best && explain_elsewhere(out, host, explain)) {
		out_cancel(out);
		return CLI_ERROR;
	}
	if (explain_peer(out, cli, &host->topo, explain, best, &reached)) {
		out_cancel(out);
		return CLI_ERROR;
	}
	return cli_finish(out, reached ? CLI_OK : CLI_ATTENTION);
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct explain explain = {.transport = MV_CONNECTED};
	struct host host;
	struct out *out;
	int rc;

	rc = parse_args(cli, &explain, argc, argv);
	if (rc >= 0)
		return rc;
	rc = CLI_ERROR;
	if (!host_open(cli, &host) && !find_port(&host, &explain)) {
		out = cli_out(cli);
		if (out)
			rc = answer(out, cli, &host, &explain);
	}
	host_close(&host);
	return rc;
}

const struct cli_command cmd_explain = {
	.name = "explain",
	.args = "--from DEV[:PORT] --to GID|IP|LID [--index N [--seen GID[,v1|v2]]...] [--ud] [-j]",
	.summary = "which GID and which path serve a destination, and why",
	.help = "Takes the decision that the plugin takes when a queue pair or an address handle "
		"is given its\n"
		"destination, and prints the routes looked up, the verdict on every GID of the "
		"port, and the\n"
		"result. Without --index: what a program gets for each index it may use, and the "
		"best one. With an\n"
		"agent on this host also what its directory says of the destination, and the "
		"paths that the two\n"
		"hosts can agree upon.\n\n"
		"      --from DEV[:PORT]   RDMA device and port (the first) of the program\n"
		"      --to GID|IP|LID     the peer's GID or address; InfiniBand without a GRH: its LID, such as 0x1f\n"
		"      --index N           GID index that the program uses\n"
		"      --seen GID[,v1|v2]  an address that the program has read under that index "
		"before, if the\n"
		"                          table has changed since; RoCE v2 unless said; the "
		"newest first\n"
		"      --ud                an address handle (UD); else a connected queue pair "
		"(RC, UC, XRC)\n"
		"  -j, --json              print JSON\n\n"
		"Exit status: 0 the destination is reached; 1 it is not; 2 wrong usage, or nothing "
		"could be read.",
	.run = run,
};
