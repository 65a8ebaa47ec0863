// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs paths: paths from this host to another one, best first. */
#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "agentask.h"
#include "dirview.h"
#include "entry.h"

#define NO_RAIL UINT32_MAX

struct question {
	const char *to; /* as given */
	const char *from; /* device; "": any */
	uint8_t from_port;
	union ibv_gid dgid; /* zero: a host was named */
	uint32_t host, rail; /* of the destination; rail NO_RAIL: a host was named */
};

/* ---- the destination ------------------------------------------------------------------------- */

static bool has_id(const struct mv_dir_host *host, const char *text)
{
	char id[2 * sizeof(host->id.bytes) + 1];
	size_t i;

	for (i = 0; i < sizeof(host->id.bytes); i++)
		sprintf(id + 2 * i, "%02x", host->id.bytes[i]);
	return !strcmp(id, text);
}

static int find_host(const struct mv_directory *dir, struct question *question)
{
	uint32_t h, n = 0;

	for (h = 0; h < dir->header->n_hosts; h++)
		if (has_id(&dir->hosts[h], question->to) ||
		    !strcmp(dir->hosts[h].name, question->to)) {
			question->host = h;
			n++;
		}
	question->rail = NO_RAIL;
	if (n == 1 && question->host)
		return 0;
	if (n > 1)
		cli_error("%u hosts are called '%s': give an id of meshverbs peers --json", n,
			  question->to);
	else if (n)
		cli_error("'%s' is this host", question->to);
	else
		cli_error("the directory has no host '%s'; meshverbs peers lists them",
			  question->to);
	return -ENOENT;
}

/* If several hosts have the address, the one whose rail is heard on ours. */
static int find_gid(const struct mv_directory *dir, struct question *question)
{
	bool own = false, found = false, linked = false, heard;
	ssize_t at = -1;
	uint32_t rail, l;

	while ((at = mv_directory_find_gid(dir, &question->dgid, (size_t)(at + 1))) >= 0) {
		rail = dir->gids[dir->order[at]].rail;
		own = own || !dir->rails[rail].host;
		for (heard = false, l = 0; l < dir->hosts[0].n_rails; l++)
			heard = heard || mv_directory_linked(dir, l, rail);
		if (!dir->rails[rail].host || (found && (linked || !heard)))
			continue;
		found = true;
		linked = heard;
		question->rail = rail;
		question->host = dir->rails[rail].host;
	}
	if (found && !own)
		return 0;
	if (own)
		cli_error("%s is an address of this host", question->to);
	else
		cli_error("the directory has no host with the address %s", question->to);
	return -ENOENT;
}

static int find_from(const struct mv_directory *dir, const struct question *question)
{
	uint32_t r;

	if (!question->from[0])
		return 0;
	for (r = 0; r < dir->hosts[0].n_rails; r++)
		if (!strcmp(dir->rails[r].device, question->from) &&
		    dir->rails[r].port == question->from_port)
			return 0;
	cli_error("the directory has no port %u of a device '%s' on this host", question->from_port,
		  question->from);
	return -ENOENT;
}

/* ---- answers -----------------------------------------------------------------------------------
 */

/* Always true for link-local addresses, whose netdev is not known here. */
static bool is_routed(const struct mv_directory *dir, const struct question *question, const struct mv_dir_gid *own)
{
	ssize_t at = -1;

	if (mv_gid_family(&own->gid) == MV_FAMILY_LINK_LOCAL)
		return true;
	while ((at = mv_directory_find_gid(dir, &question->dgid, (size_t)(at + 1))) >= 0)
		if (dir->rails[dir->gids[dir->order[at]].rail].host && mv_dir_gid_routed(own, &dir->gids[dir->order[at]]))
			return true;
	return false;
}

static void show_verdict(struct out *out, const struct mv_directory *dir,
			 const struct question *question, const struct mv_dir_gid *gid)
{
	const struct mv_dir_rail *rail = &dir->rails[gid->rail];
	struct mv_path_request request = {.device = rail->device,
					  .port_num = rail->port,
					  .sgid = gid->gid,
					  .sgid_type = gid->type,
					  .routed = is_routed(dir, question, gid),
					  .dgid = question->dgid};
	enum mv_path_verdict verdict;
	uint32_t host, remote;

	verdict = mv_path_decide(dir, &request, &host, &remote);
	out_row(out);
	out_text(out, "device", "DEV", OUT_PLAIN, rail->device);
	out_uint(out, "port", "PORT", rail->port);
	out_uint(out, "index", "INDEX", gid->index);
	out_gid(out, &gid->gid);
	out_text(out, "type", "TYPE", OUT_PLAIN, mv_gid_type_name(gid->type));
	out_text(out, "verdict", NULL, OUT_PLAIN, mv_path_verdict_name(verdict));
	out_text(out, "verdict_text", "VERDICT", dirview_verdict_tone(verdict),
		 mv_path_verdict_text(verdict));
}

static bool is_from(const struct question *question, const struct mv_dir_rail *rail)
{
	return !question->from[0] ||
	       (!strcmp(question->from, rail->device) && question->from_port == rail->port);
}

/* Programs name a destination by its GID: shows the verdict for each own entry. */
static void show_verdicts(struct out *out, const struct mv_directory *dir,
			  const struct question *question)
{
	uint32_t g;

	out_list(out, "programs", "Programs that use");
	for (g = 0; question->rail != NO_RAIL && g < dir->header->n_gids; g++) {
		const struct mv_dir_rail *rail = &dir->rails[dir->gids[g].rail];

		if (rail->host)
			break;
		if (is_from(question, rail) && !mv_dir_gid_in_grace(&dir->gids[g]))
			show_verdict(out, dir, question, &dir->gids[g]);
	}
	out_list_end(out);
}

static int show(struct out *out, const struct dirview *view, const struct question *question)
{
	struct mv_path_request request = {
		.device = question->from, .port_num = question->from_port, .dgid = question->dgid};
	const struct mv_dir_host *host = &view->dir.hosts[question->host];
	struct mv_path paths[MV_PATH_FIND_MAX];
	char gid[MV_GID_STRLEN];
	size_t n;

	dirview_agent(out, view);
	out_text(out, "host", "Host", OUT_PLAIN, host->name);
	out_uint(out, "agent_version", NULL, host->agent_version);
	out_text(out, "to", question->rail == NO_RAIL ? NULL : "To", OUT_PLAIN,
		 question->rail == NO_RAIL ? NULL : mv_gid_format(&question->dgid, gid));
	if (!host->agent_version)
		out_text(out, NULL, "Note", OUT_WARN,
			 "its agent has not been heard, so no connection can be moved");
	show_verdicts(out, &view->dir, question);
	n = mv_path_find(&view->dir, &request, question->host, question->rail, paths,
			 MV_PATH_FIND_MAX);
	dirview_paths(out, view, paths, n, "Paths, best first");
	if (!n)
		out_text(out, NULL, "Paths", OUT_BAD, "none: no rail of this host reaches it");
	return cli_finish(out, n ? CLI_OK : CLI_ATTENTION);
}

/* ---- the command line --------------------------------------------------------------------------
 */

/* Return: -1: go on; else an exit status. */
static int parse_args(struct cli *cli, struct question *question, int argc, char **argv)
{
	static const struct option options[] = {
		{"from", required_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int opt, rc;

	/* Options may also follow the host. */
	while ((opt = cli_option(cli, &cmd_paths, argc, argv, ":jh", options, &rc)) != -1) {
		if (opt == -2)
			return rc;
		rc = cli_device(&cmd_paths, optarg, &question->from, &question->from_port);
		if (rc)
			return rc;
	}
	if (optind == argc)
		return cli_usage(&cmd_paths, "a host or one of its addresses is missing");
	if (optind + 1 < argc)
		return cli_usage(&cmd_paths, "'%s' is not expected", argv[optind + 1]);
	question->to = argv[optind];
	if (!question->from_port)
		question->from_port = 1;
	return -1;
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct question question = {.from = ""};
	struct json_object *answer = NULL;
	struct dirview view;
	struct out *out;
	int rc;

	rc = parse_args(cli, &question, argc, argv);
	if (rc >= 0)
		return rc;
	rc = dirview_open(cli, &view);
	if (rc == -ENOENT)
		dirview_missing(cli);
	if (rc)
		return CLI_ERROR;
	if (!mv_gid_parse(question.to, &question.dgid))
		rc = find_gid(&view.dir, &question);
	else
		rc = find_host(&view.dir, &question);
	if (!rc)
		rc = find_from(&view.dir, &question);
	out = rc ? NULL : cli_out(cli);
	/* Without an answer, or if the agent does not probe, states of paths are left out. */
	if (out && !agent_ask(cli, "probes", "probes", json_type_array, &answer))
		view.probes = agent_member(answer, "probes", json_type_array);
	rc = out ? show(out, &view, &question) : CLI_ERROR;
	json_object_put(answer);
	mv_directory_close(&view.dir);
	return rc;
}

const struct cli_command cmd_paths = {
	.name = "paths",
	.args = "HOST|GID|IP [--from DEV[:PORT]] [-j]",
	.summary = "the paths between this host and another, best first",
	.help = "Prints the pairs of rails and addresses over which a connection with that host "
		"can "
		"be led, as far\n"
		"as the agent's directory knows, in the order in which they are tried. With an "
		"address instead of\n"
		"a name also what becomes of programs that connect to it, by the GID they use "
		"(routes are left\n"
		"out of account; meshverbs explain looks them up). PROBE is what the agent's probes "
		"say of paths that\n"
		"connections with survive = on use, or could: up, silent, down, unknown (never "
		"answered), none.\n\n"
		"      --from DEV[:PORT]   the program's RDMA device and port (1): paths that "
		"keep it come first\n"
		"  -j, --json              print JSON\n\n"
		"Exit status: 0; 1 when there is no path; 2 wrong usage, no such host, or no "
		"agent.",
	.run = run,
};
