// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* meshverbs, the command line tool: table of commands, and options before them. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "places.h"

#define PROBE_TIMEOUT_MS 10000 /* loading takes milliseconds, a firmware reset takes seconds */

static const struct cli_command *const commands[] = {
	&cmd_status, &cmd_doctor,  &cmd_gids,    &cmd_explain, &cmd_peers,   &cmd_paths,
	&cmd_qps,    &cmd_monitor, &cmd_metrics, &cmd_drain,   &cmd_undrain,
	&cmd_keys,   &cmd_qualify,
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct cli_command *find_command(const char *name)
{
	size_t i;

	for (i = 0; i < N_COMMANDS; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	char known[256];
	size_t i, len = 0;

	for (i = 0; i < N_COMMANDS && len < sizeof(known); i++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", i ? ", " : "",
					commands[i]->name);
	return cli_usage(NULL, "unknown command '%s'; there are %s and help", name, known);
}

static void print_help(FILE *file)
{
	size_t i;

	fprintf(file, "Usage: meshverbs [OPTION...] COMMAND [ARG...]\n\nCommands:\n");
	for (i = 0; i < N_COMMANDS; i++)
		fprintf(file, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(file,
		"  help       show how a command is used: meshverbs help COMMAND\n"
		"\n"
		"Options:\n"
		"  -j, --json             print JSON\n"
		"  -h, --help             print this\n"
		"  -V, --version          print the version\n"
		"\n"
		"For debugging, and for looking at data captured on another host:\n"
		"  --root DIR             the host's files are below DIR; the options below say "
		"otherwise\n"
		"                         for some of them\n"
		"  --sysfs DIR            read DIR instead of /sys\n"
		"  --netlink FILE         read netdevs, addresses and routes from FILE, which "
		"holds rtnetlink\n"
		"                         messages, instead of asking the kernel\n"
		"  --etc DIR              look for libibverbs.d/ in DIR\n"
		"  --run-dir DIR          the agent's directory, instead of " MESHVERBS_RUN_DIR "\n"
		"  --control-dir DIR      where its control socket is, instead of that name with a d\n"
		"  --probe PROGRAM        what status runs to see the load path (meshverbs-probe)\n"
		"  --probe-timeout SEC    how long it may take (10)\n"
		"\n"
		"Exit status: 0 all is well; 1 the answer is no, or something needs attention;\n"
		"2 wrong usage, or no answer could be had; 3 (qualify) it could not be found out.\n");
}

static int cmd_help(int argc, char **argv)
{
	const struct cli_command *command;

	if (argc < 2) {
		print_help(stdout);
		return CLI_OK;
	}
	command = find_command(argv[1]);
	if (!command)
		return unknown_command(argv[1]);
	printf("Usage: meshverbs %s %s\n\n%s\n", command->name, command->args, command->help);
	return CLI_OK;
}

/* Seconds, with a fraction. */
static int parse_timeout(const char *text, unsigned int *ret_ms)
{
	char *end;
	double seconds;

	errno = 0;
	seconds = strtod(text, &end);
	if (errno || end == text || *end || !(seconds > 0 && seconds <= 3600))
		return -EINVAL;
	*ret_ms = seconds * 1000;
	return 0;
}

enum { OPT_ROOT = 256, OPT_SYSFS, OPT_NETLINK, OPT_ETC, OPT_RUN_DIR, OPT_CONTROL_DIR, OPT_PROBE, OPT_PROBE_TIMEOUT };

static const struct option options[] = {
	{"json", no_argument, NULL, 'j'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"root", required_argument, NULL, OPT_ROOT},
	{"sysfs", required_argument, NULL, OPT_SYSFS},
	{"netlink", required_argument, NULL, OPT_NETLINK},
	{"etc", required_argument, NULL, OPT_ETC},
	{"run-dir", required_argument, NULL, OPT_RUN_DIR},
	{"control-dir", required_argument, NULL, OPT_CONTROL_DIR},
	{"probe", required_argument, NULL, OPT_PROBE},
	{"probe-timeout", required_argument, NULL, OPT_PROBE_TIMEOUT},
	{NULL, 0, NULL, 0},
};

/* Return: -1: go on with the command at argv[optind]; else an exit status. */
static int parse_options(struct cli *cli, int argc, char **argv)
{
	bool run_dir_named = false, control_dir_named = false;
	int opt;

	while ((opt = getopt_long(argc, argv, "+:jhV", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			cli->json = true;
			break;
		case 'h':
			print_help(stdout);
			return CLI_OK;
		case 'V':
			printf("meshverbs %s\n", MESHVERBS_VERSION);
			return CLI_OK;
		case OPT_ROOT:
			cli->root = optarg;
			break;
		case OPT_SYSFS:
			cli->sysfs = optarg;
			break;
		case OPT_NETLINK:
			cli->netlink_file = optarg;
			break;
		case OPT_ETC:
			cli->etc_dir = optarg;
			break;
		case OPT_RUN_DIR:
			cli->run_dir = optarg;
			run_dir_named = true;
			break;
		case OPT_CONTROL_DIR:
			cli->control_dir = optarg;
			control_dir_named = true;
			break;
		case OPT_PROBE:
			cli->probe = optarg;
			break;
		case OPT_PROBE_TIMEOUT:
			if (parse_timeout(optarg, &cli->probe_timeout_ms))
				return cli_usage(NULL,
						 "--probe-timeout '%s' is not a number of seconds",
						 optarg);
			break;
		case ':':
			return cli_usage(NULL, "option '%s' needs a value", argv[optind - 1]);
		default:
			if (optopt && optopt < 128)
				return cli_usage(NULL, "unknown option '-%c'", optopt);
			return cli_usage(NULL, "unknown option '%s'", argv[optind - 1]);
		}
	}
	/* MESHVERBS_CONTROL_DIR does not belong to another RUN_DIR. */
	if (run_dir_named && !control_dir_named)
		cli->control_dir = NULL;
	return -1;
}

/* Directories that no option or variable names are below --root. */
struct places {
	char sysfs[PATH_MAX], etc[PATH_MAX], run_dir[PATH_MAX], control_dir[PATH_MAX];
};

static void use_root(struct cli *cli, struct places *places)
{
	snprintf(places->sysfs, sizeof(places->sysfs), "%s/sys", cli->root);
	snprintf(places->etc, sizeof(places->etc), "%s/etc", cli->root);
	snprintf(places->run_dir, sizeof(places->run_dir), "%s" MESHVERBS_RUN_DIR, cli->root);
	if (!cli->sysfs)
		cli->sysfs = places->sysfs;
	if (!cli->run_dir)
		cli->run_dir = places->run_dir;
	/* A path that is too long fails when connecting. */
	if (!cli->control_dir && !mv_control_dir(cli->run_dir, places->control_dir, sizeof(places->control_dir)))
		cli->control_dir = places->control_dir;
	if (!cli->control_dir)
		cli->control_dir = cli->run_dir;
	if (!cli->etc_dir && *cli->root)
		cli->etc_dir = places->etc;
}

int main(int argc, char **argv)
{
	/* A variable of libibverbs, so that the tool sees the devices that programs see. */
	const char *sysfs = secure_getenv("SYSFS_PATH");
	/* A variable of the plugin, so that the tool sees the agent that programs see. */
	const char *run_dir = secure_getenv("MESHVERBS_RUN_DIR");
	const char *control_dir = secure_getenv("MESHVERBS_CONTROL_DIR");
	struct cli cli = {
		.root = "",
		.sysfs = sysfs && *sysfs ? sysfs : NULL,
		.run_dir = run_dir && *run_dir == '/' ? run_dir : NULL,
		.control_dir = control_dir && *control_dir == '/' ? control_dir : NULL,
		.probe_timeout_ms = PROBE_TIMEOUT_MS,
	};
	const struct cli_command *command;
	struct places places;
	int rc;

	rc = parse_options(&cli, argc, argv);
	if (rc >= 0)
		return rc;
	argc -= optind;
	argv += optind;
	if (!argc) {
		print_help(stderr);
		return CLI_ERROR;
	}
	use_root(&cli, &places);
	optind = 0; /* glibc: restart with another argv */
	if (!strcmp(argv[0], "help"))
		return cmd_help(argc, argv);
	command = find_command(argv[0]);
	return command ? command->run(&cli, argc, argv) : unknown_command(argv[0]);
}
