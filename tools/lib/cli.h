/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_CLI_H
#define TOOL_CLI_H

#include <getopt.h>
#include <stdbool.h>

#include "out.h"

/* Exit statuses, as documented in --help and meshverbs(1). */
enum cli_exit {
	CLI_OK = 0,
	CLI_ATTENTION = 1, /* the answer is no, or this host needs attention */
	CLI_ERROR = 2, /* wrong usage, or no answer */
	CLI_UNSURE = 3, /* qualify only: no result */
};

/* Options before the command. */
struct cli {
	bool json;
	const char *root; /* where the host's files are, "": this host; the directories below may be elsewhere */
	const char *sysfs; /* root of sysfs */
	const char *netlink_file; /* file with captured rtnetlink messages; NULL: ask the kernel */
	const char *etc_dir; /* has libibverbs.d; NULL: as installed */
	const char *run_dir; /* RUN_DIR: directory file and the processes' socket */
	const char *control_dir; /* CONTROL_DIR: control socket */
	const char *probe; /* program to run instead of meshverbs-probe; NULL: the installed one */
	unsigned int probe_timeout_ms;
};

struct cli_command {
	const char *name;
	const char *args; /* synopsis after the name */
	const char *summary; /* one line, for the list of commands */
	const char *help; /* text of `meshverbs help NAME` after the synopsis */
	/* @argv[0] is the command's name. Return: enum cli_exit. */
	int (*run)(struct cli *cli, int argc, char **argv);
};

extern const struct cli_command cmd_status, cmd_doctor, cmd_gids, cmd_explain, cmd_peers, cmd_paths,
	cmd_qps, cmd_monitor, cmd_metrics, cmd_drain, cmd_undrain, cmd_keys, cmd_qualify;

/** cli_error - print a line to stderr, after the program's name */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/**
 * cli_usage - print an error of the command line, and how to get help
 *
 * Return: CLI_ERROR.
 */
int cli_usage(const struct cli_command *command, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * cli_option - get the next option of a command
 * @options: long options; "json" (-j) and "help" (-h) are handled here
 * @shorts: short options as for getopt(3); begins with '+:', since errors are printed here
 *
 * Return: val of the option; -1: no more; -2: the command has to return @ret_exit.
 */
int cli_option(struct cli *cli, const struct cli_command *command, int argc, char **argv,
	       const char *shorts, const struct option *options, int *ret_exit);

/**
 * cli_no_arguments - the options of a command that has none but --json and --help, and no arguments
 *
 * Return: -1: go on; otherwise what the command has to return.
 */
int cli_no_arguments(struct cli *cli, const struct cli_command *command, int argc, char **argv);

/**
 * cli_program - path of another program of ours: beside this program before installation, else as installed
 * @installed: full path as installed
 * @buf: room for the path
 *
 * Return: @buf or @installed.
 */
const char *cli_program(const char *name, const char *installed, char *buf, size_t size);

/** cli_config_file - path of mesh.conf, by options and environment */
void cli_config_file(const struct cli *cli, char *buf, size_t size);

/**
 * cli_uint - parse a number without sign or blanks
 *
 * Return: 0; -EINVAL, also if larger than @max.
 */
int cli_uint(const char *text, unsigned long max, unsigned long *ret);

/**
 * cli_device - parse DEV or DEV:PORT, the value of --from
 * @text: modified; @ret_device points into it
 * @ret_port: 0: no port given
 *
 * Return: 0; CLI_ERROR, after an error message.
 */
int cli_device(const struct cli_command *command, char *text, const char **ret_device,
	       uint8_t *ret_port);

/**
 * cli_out - open the document on stdout, as text or JSON
 *
 * Return: release with cli_finish(); NULL: no memory, after an error message.
 */
struct out *cli_out(const struct cli *cli);

/**
 * cli_finish - end a document
 *
 * Return: @status; CLI_ERROR: writing failed.
 */
int cli_finish(struct out *out, int status);

#endif
