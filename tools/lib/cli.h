/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_CLI_H
#define TOOL_CLI_H

#include <getopt.h>
#include <stdbool.h>

#include "out.h"

/* Exit statuses, as documented in --help and meshverbs(1). */
enum cli_exit {
	CLI_OK = 0,
	CLI_ATTENTION = 1, /* the answer is no, or something is wrong on this host */
	CLI_ERROR = 2, /* wrong usage, or no answer could be had */
	CLI_UNSURE = 3, /* of qualify: it could not be found out */
};

/* What the options before the command say. */
struct cli {
	bool json;
	const char *root; /* where the host's files are, "" for this one; what follows may lie
			     elsewhere */
	const char *sysfs; /* root of sysfs */
	const char *netlink_file; /* captured rtnetlink messages instead of the kernel's; NULL: the
				     kernel */
	const char *etc_dir; /* holds libibverbs.d; NULL: as installed */
	const char *run_dir; /* of the agent: its directory of peers, and the socket of processes */
	const char *control_dir; /* and its control socket */
	const char *probe; /* program to run instead of meshverbs-probe; NULL: the installed one */
	unsigned int probe_timeout_ms;
};

struct cli_command {
	const char *name;
	const char *args; /* synopsis behind the name */
	const char *summary; /* one line for the list of commands */
	const char *help; /* the rest of `meshverbs help NAME` */
	/* @argv[0] is the command's name. Returns an enum cli_exit. */
	int (*run)(struct cli *cli, int argc, char **argv);
};

extern const struct cli_command cmd_status, cmd_doctor, cmd_gids, cmd_explain, cmd_peers, cmd_paths,
	cmd_qps, cmd_monitor, cmd_metrics, cmd_drain, cmd_undrain, cmd_keys, cmd_qualify;

/**
 * cli_error - a line on stderr that starts with the program's name
 */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * cli_usage - say what is wrong with the command line, and where help is
 *
 * Return: CLI_ERROR.
 */
int cli_usage(const struct cli_command *command, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * cli_option - next option of a command
 * @options: long options; "json" (-j) and "help" (-h) are handled here and need not be in it
 * @shorts: short options in getopt's form, begins with '+:' for errors to be told here
 *
 * Return: the option's val, -1 at the end, -2 when the command is to return @ret_exit.
 */
int cli_option(struct cli *cli, const struct cli_command *command, int argc, char **argv,
	       const char *shorts, const struct option *options, int *ret_exit);

/**
 * cli_program - a program of ours that this one runs: beside it before installation, else as installed
 * @installed: its full path then
 * @buf: for the path
 *
 * Return: @buf or @installed.
 */
const char *cli_program(const char *name, const char *installed, char *buf, size_t size);

/** cli_config_file - the path of mesh.conf, as the options and the environment say */
void cli_config_file(const struct cli *cli, char *buf, size_t size);

/**
 * cli_uint - a number without sign or blanks before it
 *
 * Return: 0 or -EINVAL, also when it is larger than @max.
 */
int cli_uint(const char *text, unsigned long max, unsigned long *ret);

/**
 * cli_device - DEV or DEV:PORT, the value of --from
 * @text: is cut; @ret_device points into it
 * @ret_port: 0 when none is named
 *
 * Return: 0, or CLI_ERROR after having said what is wrong.
 */
int cli_device(const struct cli_command *command, char *text, const char **ret_device,
	       uint8_t *ret_port);

/**
 * cli_out - the document on stdout, in the form asked for
 *
 * Return: NULL when out of memory, which has been said.
 */
struct out *cli_out(const struct cli *cli);

/**
 * cli_finish - end a document and turn failures of writing into CLI_ERROR
 *
 * Return: @status, or CLI_ERROR.
 */
int cli_finish(struct out *out, int status);

#endif
