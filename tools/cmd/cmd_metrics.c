// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs metrics: the agent's metrics, for Prometheus. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agentask.h"

#define END "# EOF\n"

static bool ends_well(const char *text, size_t len)
{
	return len >= strlen(END) && !strcmp(text + len - strlen(END), END);
}

/*
 * node_exporter reads the older text format: TYPE and HELP of a counter have the name of its sample, and UNIT and EOF
 * do not exist.
 */
static void write_line(FILE *file, char *line, bool *counter)
{
	char *name, *rest;

	if (!strncmp(line, "# UNIT ", 7) || !strcmp(line, "# EOF"))
		return;
	if (strncmp(line, "# TYPE ", 7) != 0 && strncmp(line, "# HELP ", 7) != 0) {
		fprintf(file, "%s\n", line);
		return;
	}
	name = line + 7;
	rest = strchr(name, ' ');
	if (!rest)
		return;
	*rest++ = '\0';
	if (!strncmp(line, "# TYPE", 6))
		*counter = !strcmp(rest, "counter");
	fprintf(file, "%.7s%s%s %s\n", line, name, *counter ? "_total" : "", rest);
}

static int write_lines(FILE *file, char *text)
{
	bool counter = false;
	char *line, *rest;

	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		write_line(file, line, &counter);
	return fflush(file) || ferror(file) ? -EIO : 0;
}

/* Writes another file and renames it, so that node_exporter never reads a partial file. */
static int write_textfile(const char *path, char *text)
{
	char *aside;
	FILE *file;
	int fd, rc;

	if (asprintf(&aside, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	fd = mkostemp(aside, O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		free(aside);
		return rc;
	}
	rc = fchmod(fd, 0644) ? -errno : write_lines(file, text);
	if (fclose(file) && !rc)
		rc = -errno;
	if (!rc && rename(aside, path))
		rc = -errno;
	if (rc)
		unlink(aside);
	free(aside);
	return rc;
}

static int show(const struct cli *cli, const char *textfile, char *text, size_t len)
{
	int rc;

	if (!cli->json && !ends_well(text, len)) {
		agent_ask_error(cli, -EBADMSG, "metrics");
		return CLI_ERROR;
	}
	if (textfile) {
		rc = write_textfile(textfile, text);
		if (rc)
			cli_error("cannot write %s: %s", textfile, strerror(-rc));
		return rc ? CLI_ERROR : CLI_OK;
	}
	if (fwrite(text, 1, len, stdout) == len && !fflush(stdout))
		return CLI_OK;
	cli_error("cannot write the output: %s", strerror(errno));
	return CLI_ERROR;
}

static int run(struct cli *cli, int argc, char **argv)
{
	static const struct option options[] = {
		{"textfile", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *textfile = NULL;
	char *text = NULL;
	size_t len = 0;
	int opt, rc;

	while ((opt = cli_option(cli, &cmd_metrics, argc, argv, "+:t:jh", options, &rc)) != -1) {
		if (opt == -2)
			return rc;
		textfile = optarg;
	}
	if (optind < argc)
		return cli_usage(&cmd_metrics, "'%s' is not expected", argv[optind]);
	if (textfile && cli->json)
		return cli_usage(&cmd_metrics, "--textfile and --json do not go together");
	rc = agent_ask_text(cli, cli->json ? "metrics" : "openmetrics", &text, &len);
	if (rc) {
		agent_ask_error(cli, rc, "metrics");
		return CLI_ERROR;
	}
	rc = show(cli, textfile, text, len);
	free(text);
	return rc;
}

const struct cli_command cmd_metrics = {
	.name = "metrics",
	.args = "[-t FILE] [-j]",
	.summary = "what the agent counts, for Prometheus",
	.help = "Prints what the agent counts, of itself and of the programs on this host, as "
		"OpenMetrics text.\n\n"
		"  -t, --textfile FILE   write it to FILE instead, in the form that "
		"node_exporter's textfile collector\n"
		"                        reads; FILE is replaced as a whole\n"
		"  -j, --json            print JSON\n\n"
		"Exit status: 0; 2 wrong usage, no agent, or FILE cannot be written.",
	.run = run,
};
