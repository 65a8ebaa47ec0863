// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs qps: connections that the agent knows. */
#include <string.h>

#include <json-c/json.h>

#include "agentask.h"
#include "cli.h"
#include "show.h"

static void show_text(struct out *out, const char *key, const char *label,
		      struct json_object *object)
{
	out_text(out, key, label, OUT_PLAIN, agent_text(object, key));
}

static void show_number(struct out *out, const char *key, const char *label,
			struct json_object *object)
{
	long long number = agent_number(object, key, -1);

	if (number >= 0)
		out_uint(out, key, label, (uint64_t)number);
	else
		out_text(out, key, label, OUT_PLAIN, NULL);
}

static enum out_tone state_tone(const char *state)
{
	return state && !strcmp(state, "moved") ? OUT_GOOD : OUT_PLAIN;
}

/* null: not reported, e.g. for datagrams */
static void show_movable(struct out *out, struct json_object *status)
{
	const char *why = agent_text(status, "why");

	if (!agent_member(status, "movable", json_type_boolean)) {
		out_text(out, "movable", "MOVABLE", OUT_PLAIN, NULL);
	} else {
		out_bool(out, "movable", NULL, agent_flag(status, "movable"));
		out_textf(out, NULL, "MOVABLE", OUT_PLAIN, "%s%s%s",
			  agent_flag(status, "movable") ? "yes" : "no", why ? ": " : "",
			  why ? why : "");
	}
	out_text(out, "why", NULL, OUT_PLAIN, why);
}

/* Key "ahead": the former name, of processes that loaded an earlier plugin, and for readers until the next release. */
static void show_standby(struct out *out, struct json_object *status)
{
	const char *standby = agent_text(status, "standby");

	standby = standby ? standby : agent_text(status, "ahead");
	out_text(out, "standby", NULL, OUT_PLAIN, standby);
	out_text(out, "ahead", NULL, OUT_PLAIN, standby);
}

static void show_qp(struct out *out, struct json_object *qp)
{
	struct json_object *status = agent_member(qp, "status", json_type_object);
	const char *state = agent_text(status, "state");

	out_row(out);
	show_number(out, "pid", "PID", qp);
	show_text(out, "comm", "PROGRAM", qp);
	show_number(out, "uid", NULL, qp);
	show_text(out, "device", NULL, qp);
	out_bool(out, "drained", NULL, agent_flag(qp, "drained"));
	out_textf(out, NULL, "DEV", agent_flag(qp, "drained") ? OUT_WARN : OUT_PLAIN, "%s%s",
		  agent_text(qp, "device") ? agent_text(qp, "device") : "-",
		  agent_flag(qp, "drained") ? " (drained)" : "");
	show_number(out, "qpn", "QPN", qp);
	show_text(out, "gid", "GID", status);
	show_text(out, "peer_host", "PEER", status);
	show_text(out, "peer_gid", "PEER GID", status);
	show_number(out, "peer_qpn", "PEER QPN", status);
	out_text(out, "state", "STATE", state_tone(state), state);
	show_text(out, "negotiation", NULL, status);
	show_text(out, "rail", "USES", status);
	show_text(out, "rail_gid", "FROM", status);
	show_text(out, "rail_peer_gid", "TO", status);
	show_standby(out, status);
	show_text(out, "reason", "BECAUSE", status);
	show_movable(out, status);
}

void show_qps(struct out *out, struct json_object *answer, const char *title, size_t max)
{
	struct json_object *qps = agent_member(answer, "qps", json_type_array);
	size_t i, n = qps ? json_object_array_length(qps) : 0;

	out_list(out, "qps", title);
	for (i = 0; i < n && i < max; i++)
		show_qp(out, json_object_array_get_idx(qps, i));
	out_list_end(out);
	if (n > max)
		out_textf(out, NULL, "More", OUT_PLAIN, "%zu, see meshverbs qps", n - max);
}

static int run(struct cli *cli, int argc, char **argv)
{
	struct json_object *answer = NULL;
	struct out *out;
	int rc = cli_no_arguments(cli, &cmd_qps, argc, argv);

	if (rc >= 0)
		return rc;
	rc = agent_ask(cli, "qps", "qps", json_type_array, &answer);
	if (rc) {
		agent_ask_error(cli, rc, "queue pairs");
		return CLI_ERROR;
	}
	out = cli_out(cli);
	if (out)
		show_qps(out, answer, NULL, SIZE_MAX);
	rc = out ? cli_finish(out, CLI_OK) : CLI_ERROR;
	json_object_put(answer);
	return rc;
}

const struct cli_command cmd_qps = {
	.name = "qps",
	.args = "[-j]",
	.summary = "connections to hosts with an agent, the way they go, and why",
	.help = "Asks the agent for the queue pairs that programs have told it about: connections "
		"to\n"
		"hosts that have an agent, with the way they go, and whether they can be moved. One "
		"sees one's\n"
		"own; root and the agent's user see all.\n\n"
		"  -j, --json   print JSON\n\n"
		"Exit status: 0; 2 wrong usage, or no agent.",
	.run = run,
};
