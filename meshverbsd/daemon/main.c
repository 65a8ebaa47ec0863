/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The command line of meshverbsd. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "agent_log.h"
#include "places.h"

static const char usage[] =
	"usage: meshverbsd [--foreground] [--run-dir DIR] [--control-dir DIR] [--state-dir DIR] [--config FILE] [--port N]\n"
	"\n"
	"The agent of meshverbs: tells other hosts which RDMA ports and GIDs this one has, learns "
	"theirs,\n"
	"and carries messages between processes. See meshverbsd(8).\n"
	"\n"
	"  --foreground    stay in the foreground; it always does, and logs to standard error\n"
	"  --run-dir DIR   the directory of peers and the socket of processes (default: /run/meshverbs)\n"
	"  --control-dir DIR  what containers do not see (default: that name with a d, /run/meshverbsd)\n"
	"  --state-dir DIR  the identity of this host, and the keys of others (default: /var/lib/meshverbs; with another\n"
	"                  RUN_DIR: none)\n"
	"  --config FILE   default: " MESHVERBS_CONF_DIR "/mesh.conf\n"
	"  --port N        UDP port in place of the configured one\n"
	"  --make-key      print a new random fleet key\n"
	"  --version       print the version\n"
	"  --help          print this\n";

enum {
	OPT_FOREGROUND = 256,
	OPT_RUN_DIR,
	OPT_CONTROL_DIR,
	OPT_STATE_DIR,
	OPT_CONFIG,
	OPT_PORT,
	OPT_SYSFS,
	OPT_MAKE_KEY,
	OPT_VERSION,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"foreground", no_argument, NULL, OPT_FOREGROUND},
	{"run-dir", required_argument, NULL, OPT_RUN_DIR},
	{"control-dir", required_argument, NULL, OPT_CONTROL_DIR},
	{"state-dir", required_argument, NULL, OPT_STATE_DIR},
	{"config", required_argument, NULL, OPT_CONFIG},
	{"port", required_argument, NULL, OPT_PORT},
	{"sysfs", required_argument, NULL, OPT_SYSFS}, /* for tests: another directory than /sys */
	{"make-key", no_argument, NULL, OPT_MAKE_KEY},
	{"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, OPT_HELP},
	{0},
};

struct arguments {
	struct md_options options;
	unsigned long port; /* 0: the configured one */
	bool config_named; /* with --config, the file has to exist */
};

static void report_config(void *arg, const char *file, unsigned int line, const char *text)
{
	(void)arg;
	if (line)
		md_log(MD_WARNING, "%s:%u: %s", file, line, text);
	else
		md_log(MD_WARNING, "%s: %s", file, text);
}

/* Return: exit status. */
static int make_key(void)
{
	char key[MD_KEY_TEXT_SIZE];
	int err = md_key_make(key);

	if (err) {
		fprintf(stderr, "meshverbsd: no source of random numbers: %s\n", strerror(-err));
		return 1;
	}
	return puts(key) < 0 || fflush(stdout) ? 1 : 0;
}

/* Return: -1: go on; otherwise the exit status. */
static int parse(struct arguments *arguments, int argc, char **argv)
{
	char *end;
	int opt;

	while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (opt) {
		case OPT_FOREGROUND:
			break;
		case OPT_RUN_DIR:
			arguments->options.run_dir = optarg;
			break;
		case OPT_CONTROL_DIR:
			arguments->options.control_dir = optarg;
			break;
		case OPT_STATE_DIR:
			arguments->options.state_dir = optarg;
			break;
		case OPT_CONFIG:
			arguments->options.config_file = optarg;
			arguments->config_named = true;
			break;
		case OPT_SYSFS:
			arguments->options.sysfs = optarg;
			break;
		case OPT_PORT:
			errno = 0;
			arguments->port = strtoul(optarg, &end, 10);
			if (errno || *end || !arguments->port || arguments->port > UINT16_MAX) {
				fprintf(stderr, "meshverbsd: '%s' is no port: 1 to 65535\n",
					optarg);
				return 2;
			}
			break;
		case OPT_MAKE_KEY:
			return make_key();
		case OPT_VERSION:
			puts("meshverbsd " MESHVERBS_VERSION);
			return 0;
		case OPT_HELP:
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "meshverbsd: '%s' is no option\n%s", argv[optind], usage);
		return 2;
	}
	return -1;
}

static enum md_level level_of(enum mv_log_level level)
{
	static const enum md_level levels[] = {
		[MV_LOG_ERR] = MD_ERROR,
		[MV_LOG_WARN] = MD_WARNING,
		[MV_LOG_INFO] = MD_INFO,
		[MV_LOG_DEBUG] = MD_DEBUG,
	};

	return levels[level];
}

/* Precedence: option, environment, default for RUN_DIR. MESHVERBS_CONTROL_DIR is ignored if --run-dir is given. */
static int choose_dirs(struct md_options *options, char *control_dir, size_t size)
{
	const char *run_dir = secure_getenv("MESHVERBS_RUN_DIR");

	if (!options->run_dir && !options->control_dir)
		options->control_dir = secure_getenv("MESHVERBS_CONTROL_DIR");
	if (!options->run_dir)
		options->run_dir = run_dir ? run_dir : "/run/meshverbs";
	if (!options->state_dir && !strcmp(options->run_dir, "/run/meshverbs"))
		options->state_dir = "/var/lib/meshverbs";
	if (options->control_dir)
		return 0;
	options->control_dir = control_dir;
	return mv_control_dir(options->run_dir, control_dir, size);
}

int main(int argc, char **argv)
{
	static struct md_agent agent; /* too large for a stack: half a megabyte */
	static char control_dir[PATH_MAX];
	struct arguments arguments = {
		.options = {.sysfs = "/sys",
			    .tool = MESHVERBS_TOOL,
			    .config_file = MESHVERBS_CONF_DIR "/mesh.conf",
			    .conf_dir = MESHVERBS_CONF_DIR},
	};
	int rc;

	if (argc > 2 && !strcmp(argv[1], "--qualify-helper"))
		return md_qualify_main(argc - 2, argv + 2);
	rc = parse(&arguments, argc, argv);

	/* For tests: the kernel does not know simulated devices, and cannot tell who owns their queue pairs. */
	arguments.options.trusts = secure_getenv("MESHVERBS_TEST_TRUST_REGISTRATIONS");
	if (rc >= 0)
		return rc;
	md_log_init(MD_INFO);
	if (arguments.options.trusts)
		md_log(MD_WARNING, "believes processes which queue pairs are theirs: this is for tests only");
	if (choose_dirs(&arguments.options, control_dir, sizeof(control_dir))) {
		md_log(MD_ERROR, "cannot start: %s cannot be a directory of the agent's", arguments.options.run_dir);
		return 1;
	}
	if (arguments.config_named && access(arguments.options.config_file, F_OK)) {
		md_log(MD_ERROR, "cannot start: %s: %s", arguments.options.config_file, md_strerror(-errno));
		return 1;
	}
	mv_config_defaults(&arguments.options.config);
	mv_config_load(&arguments.options.config, arguments.options.config_file, report_config,
		       NULL);
	md_log_init(level_of(arguments.options.config.log_level));
	if (arguments.port)
		arguments.options.config.agent_port = (uint32_t)arguments.port;
	rc = md_agent_start(&agent, &arguments.options);
	if (!rc) {
		md_log(MD_INFO, "runs in %s, UDP port %u, with%s a key", arguments.options.run_dir,
		       arguments.options.config.agent_port,
		       md_secure_has_key(agent.secure) ? "" : "out");
		rc = md_agent_run(&agent);
	} else {
		md_log(MD_ERROR, "cannot start: %s", md_strerror(rc));
	}
	rc = rc < 0 ? 1 : 0;
	if (!md_agent_stop(&agent))
		_exit(rc);
	return rc;
}
