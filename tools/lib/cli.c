// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

void cli_error(const char *fmt, ...)
{
	va_list args;

	fputs("meshverbs: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

int cli_usage(const struct cli_command *command, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "meshverbs%s%s: ", command ? " " : "", command ? command->name : "");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\nTry: meshverbs help%s%s\n", command ? " " : "",
		command ? command->name : "");
	return CLI_ERROR;
}

int cli_option(struct cli *cli, const struct cli_command *command, int argc, char **argv,
	       const char *shorts, const struct option *options, int *ret_exit)
{
	int opt = getopt_long(argc, argv, shorts, options, NULL);

	*ret_exit = CLI_OK;
	switch (opt) {
	case 'j':
		cli->json = true;
		return cli_option(cli, command, argc, argv, shorts, options, ret_exit);
	case 'h':
		printf("Usage: meshverbs %s %s\n\n%s\n", command->name, command->args,
		       command->help);
		return -2;
	case ':':
		*ret_exit = cli_usage(command, "option '%s' needs a value", argv[optind - 1]);
		return -2;
	case '?':
		/* optopt is set for a short option; optind still points to its word then. */
		if (optopt && optopt < 128)
			*ret_exit = cli_usage(command, "unknown option '-%c'", optopt);
		else
			*ret_exit = cli_usage(command, "unknown option '%s'", argv[optind - 1]);
		return -2;
	default:
		return opt;
	}
}

int cli_no_arguments(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int rc;

	if (cli_option(cli, command, argc, argv, "+:jh", options, &rc) == -2)
		return rc;
	return optind < argc ? cli_usage(command, "'%s' is not expected", argv[optind]) : -1;
}

const char *cli_program(const char *name, const char *installed, char *buf, size_t size)
{
	ssize_t len = readlink("/proc/self/exe", buf, size - 1);
	char *slash;

	if (len <= 0)
		return installed;
	buf[len] = '\0';
	slash = strrchr(buf, '/');
	if (!slash || (size_t)(slash + 1 - buf) + strlen(name) + 1 > size)
		return installed;
	strcpy(slash + 1, name);
	return access(buf, X_OK) ? installed : buf;
}

void cli_config_file(const struct cli *cli, char *buf, size_t size)
{
	const char *file = getenv("MESHVERBS_CONF");

	if (cli->etc_dir)
		snprintf(buf, size, "%s/libibverbs.d/mesh/mesh.conf", cli->etc_dir);
	else
		snprintf(buf, size, "%s", file && *file ? file : MESHVERBS_CONF_DIR "/mesh.conf");
}

int cli_uint(const char *text, unsigned long max, unsigned long *ret)
{
	unsigned long value;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value > max)
		return -EINVAL;
	*ret = value;
	return 0;
}

int cli_device(const struct cli_command *command, char *text, const char **ret_device,
	       uint8_t *ret_port)
{
	char *colon = strrchr(text, ':');
	unsigned long port_num = 0;

	if (colon) {
		if (cli_uint(colon + 1, UINT8_MAX, &port_num) || !port_num)
			return cli_usage(command, "--from '%s': the port is a number from 1 to 255",
					 text);
		*colon = '\0';
	}
	if (!*text)
		return cli_usage(command, "--from: the name of the RDMA device is missing");
	*ret_device = text;
	*ret_port = (uint8_t)port_num;
	return 0;
}

struct out *cli_out(const struct cli *cli)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	struct out *out;

	out = out_new(stdout, cli->json,
		      isatty(STDOUT_FILENO) && !(no_color && *no_color) && term &&
			      strcmp(term, "dumb") != 0);
	if (!out)
		cli_error("out of memory");
	return out;
}

int cli_finish(struct out *out, int status)
{
	int rc = out_finish(out);

	if (!rc)
		return status;
	cli_error("cannot write the output: %s", strerror(-rc));
	return CLI_ERROR;
}
