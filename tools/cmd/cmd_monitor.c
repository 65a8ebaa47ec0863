// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs monitor: rails, peers and moves, refreshed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include "agentask.h"
#include "counts.h"
#include "show.h"

#define ROWS_MAX     20 /* rows of a list, to fit on a screen */
#define INTERVAL_S   2
#define INTERVAL_MAX 3600
#define CLEAR        "\033[H\033[2J"

struct monitor {
	struct cli *cli;
	unsigned long interval_s, n; /* 0: until interrupted */
	bool terminal;
	long long before[MV_N_COUNTS]; /* last values; -1: not known */
};

static long long figure(struct json_object *counters, const struct mv_count_row *row)
{
	if (row->label)
		return agent_number(agent_member(counters, row->name, json_type_object),
				    row->label_value, 0);
	return agent_number(counters, row->name, 0);
}

/* Shows counters above zero, with their growth since the last time. */
static void show_counts(struct out *out, struct monitor *monitor, struct json_object *counters)
{
	size_t i;

	out_list(out, "counts", "Counted");
	for (i = 0; i < MV_N_COUNTS; i++) {
		const struct mv_count_row *row = mv_count_row(i);
		long long now = row->name ? figure(counters, row) : 0;

		if (now <= 0)
			continue;
		out_row(out);
		out_text(out, "name", NULL, OUT_PLAIN, row->name);
		out_text(out, "label", NULL, OUT_PLAIN, row->label_value);
		out_textf(out, NULL, "COUNTER", OUT_PLAIN, "%s%s%s", row->name,
			  row->label ? " " : "", row->label ? row->label_value : "");
		out_uint(out, "value", "VALUE", (uint64_t)now);
		if (monitor->before[i] < 0 || now < monitor->before[i])
			out_text(out, "grown", "SINCE LAST", OUT_PLAIN, NULL);
		else
			out_uint(out, "grown", "SINCE LAST", (uint64_t)(now - monitor->before[i]));
		out_text(out, NULL, "WHAT", OUT_PLAIN, row->help);
	}
	out_list_end(out);
	for (i = 0; i < MV_N_COUNTS; i++)
		monitor->before[i] =
			counters && mv_count_row(i)->name ? figure(counters, mv_count_row(i)) : -1;
}

static void show_agent(struct out *out, struct json_object *status)
{
	long long up_s = agent_number(status, "uptime_ms", 0) / 1000;
	time_t now = time(NULL);
	struct tm tm;
	char text[32];

	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", localtime_r(&now, &tm));
	out_text(out, "time", "Time", OUT_PLAIN, text);
	out_text(out, "host", "Host", OUT_PLAIN, agent_text(status, "name"));
	out_text(out, "version", NULL, OUT_PLAIN, agent_text(status, "version"));
	out_uint(out, "uptime_s", NULL, (uint64_t)up_s);
	out_textf(out, NULL, "Agent", OUT_PLAIN, "version %s, up for %lld h %02lld min %02lld s",
		  agent_text(status, "version"), up_s / 3600, up_s / 60 % 60, up_s % 60);
	out_uint(out, "processes", "Processes", (uint64_t)agent_number(status, "processes", 0));
}

/* Return: 0; CLI_ERROR, after an error message. */
static int show_once(struct monitor *monitor)
{
	const struct cli *cli = monitor->cli;
	struct json_object *status = NULL, *counters = NULL, *qps = NULL;
	struct dirview view;
	struct out *out = NULL;
	int rc, dir_rc;

	rc = agent_ask(cli, "status", "agent", json_type_string, &status);
	if (rc) {
		agent_ask_error(cli, rc, "an agent's state");
		return CLI_ERROR;
	}
	/* Either answer may be missing for a moment; then its list is left out. */
	agent_ask(cli, "metrics", "uptime_seconds", json_type_int, &counters);
	agent_ask(cli, "qps", "qps", json_type_array, &qps);
	dir_rc = dirview_read(monitor->cli, &view);
	rc = CLI_ERROR;
	if (monitor->terminal && fputs(CLEAR, stdout) < 0)
		goto out_put;
	out = cli_out(monitor->cli);
	if (!out)
		goto out_put;
	show_agent(out, status);
	if (!dir_rc) {
		show_rails(out, &view, 1);
		show_hosts(out, &view, ROWS_MAX);
	}
	show_qps(out, qps, "Connections", ROWS_MAX);
	show_counts(out, monitor, counters);
	rc = cli_finish(out, CLI_OK);
out_put:
	if (!dir_rc)
		mv_directory_close(&view.dir);
	json_object_put(qps);
	json_object_put(counters);
	json_object_put(status);
	return rc;
}

static int repeat(struct monitor *monitor)
{
	struct timespec pause = {.tv_sec = (time_t)monitor->interval_s};
	unsigned long i;
	int rc;

	for (i = 0;; i++) {
		rc = show_once(monitor);
		if (rc || (monitor->n && i + 1 == monitor->n))
			return rc;
		if (!monitor->terminal && !monitor->cli->json && fputs("\n", stdout) < 0)
			return CLI_ERROR;
		nanosleep(&pause, NULL);
	}
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{"interval", required_argument, NULL, 'i'},
		{"count", required_argument, NULL, 'n'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct monitor monitor = {.cli = cli, .interval_s = INTERVAL_S};
	int opt, rc;

	while ((opt = cli_option(cli, &cmd_monitor, argc, argv, "+:i:n:jh", options, &rc)) != -1) {
		if (opt == -2)
			return rc;
		if (opt == 'i' &&
		    (cli_uint(optarg, INTERVAL_MAX, &monitor.interval_s) || !monitor.interval_s))
			return cli_usage(&cmd_monitor,
					 "--interval '%s' is not a number of seconds from 1 to %d",
					 optarg, INTERVAL_MAX);
		if (opt == 'n' && (cli_uint(optarg, 1000000, &monitor.n) || !monitor.n))
			return cli_usage(&cmd_monitor,
					 "--count '%s' is not a number from 1 to 1000000", optarg);
	}
	if (optind < argc)
		return cli_usage(&cmd_monitor, "'%s' is not expected", argv[optind]);
	monitor.terminal = isatty(STDOUT_FILENO) && !cli->json;
	memset(monitor.before, -1, sizeof(monitor.before));
	return repeat(&monitor);
}

const struct cli_command cmd_monitor = {
	.name = "monitor",
	.args = "[-i SECONDS] [-n COUNT] [-j]",
	.summary = "rails, peers and moves as they change",
	.help = "Shows, again and again, the rails of this host, the hosts that its agent knows, "
		"connections that ask\n"
		"for another path or use one, and what has been counted, with what came since the "
		"last time.\n\n"
		"  -i, --interval SECONDS   time between two looks (2)\n"
		"  -n, --count COUNT        end after so many\n"
		"  -j, --json               print JSON, one document for each look\n\n"
		"Exit status: 0; 2 wrong usage, or no agent.",
	.run = run,
};
