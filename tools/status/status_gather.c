// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "status.h"
#include "sysfs.h"

void status_add(struct status *status, struct status_lines *lines, const char *fmt, ...)
{
	char *line, **grown;
	va_list args;
	size_t i;
	int len;

	va_start(args, fmt);
	len = vasprintf(&line, fmt, args);
	va_end(args);
	if (len < 0) {
		status->out_of_memory = true;
		return;
	}
	for (i = 0; i < lines->n; i++)
		if (!strcmp(lines->lines[i], line))
			goto out_free;
	grown = reallocarray(lines->lines, lines->n + 1, sizeof(*grown));
	if (!grown) {
		status->out_of_memory = true;
		goto out_free;
	}
	lines->lines = grown;
	lines->lines[lines->n++] = line;
	return;
out_free:
	free(line);
}

static void add_config_error(void *arg, const char *file, unsigned int line, const char *text)
{
	struct status *status = arg;

	if (line)
		status_add(status, &status->config_errors, "%s:%u: %s", file, line, text);
	else
		status_add(status, &status->config_errors, "%s: %s", file, text);
}

/* The environment overrides the file, as in the plugin. */
static void apply_environment(struct status *status)
{
	const char *mode = getenv("MESHVERBS"), *target = getenv("MESHVERBS_LOG");

	status->mode_by_env = true;
	if (mode && !strcmp(mode, "off"))
		status->config.mode = MV_MODE_OFF;
	else if (mode && !strcmp(mode, "observe"))
		status->config.mode = MV_MODE_OBSERVE;
	else if (mode && !strcmp(mode, "on"))
		status->config.mode = MV_MODE_ON;
	else
		status->mode_by_env = false;
	if (target && *target) {
		snprintf(status->config.log_target, sizeof(status->config.log_target), "%s",
			 target);
		status->log_by_env = true;
	}
}

static void gather_config(struct status *status)
{
	cli_config_file(status->cli, status->config_file, sizeof(status->config_file));
	status->have_config = !access(status->config_file, F_OK);
	mv_config_defaults(&status->config);
	mv_config_load(&status->config, status->config_file, add_config_error, status);
	apply_environment(status);
}

/* Is a line of a libibverbs driver file ours: "driver mesh", or a path that ends in /mesh? */
static bool names_plugin(char *line)
{
	const char *word, *name, *slash;
	char *rest;

	word = strtok_r(line, " \t\n", &rest);
	name = word ? strtok_r(NULL, " \t\n", &rest) : NULL;
	if (!name || strcmp(word, "driver") != 0)
		return false;
	slash = strrchr(name, '/');
	return !strcmp(slash ? slash + 1 : name, "mesh");
}

static void gather_driver_file(struct status *status)
{
	const char *etc = status->cli->etc_dir;
	char line[1024];
	FILE *file;

	if (etc)
		snprintf(status->driver_file, sizeof(status->driver_file),
			 "%s/libibverbs.d/mesh.driver", etc);
	else
		snprintf(status->driver_file, sizeof(status->driver_file), "%s/mesh.driver",
			 MESHVERBS_DRIVER_DIR);
	file = fopen(status->driver_file, "re");
	if (!file) {
		status->driver_error = errno == ENOENT ? "missing" : strerror(errno);
		return;
	}
	status->driver_error = "has no line 'driver mesh'";
	while (fgets(line, sizeof(line), file))
		if (names_plugin(line))
			status->driver_error = NULL;
	fclose(file);
}

static int gather_devices(struct status *status)
{
	struct status_device *device;
	char **names;
	int i, n;

	n = sysfs_devices(status->cli->sysfs, &names);
	if (n == -ENOENT)
		return 0;
	if (n < 0) {
		cli_error("cannot read %s/class/infiniband: %s", status->cli->sysfs, strerror(-n));
		return n;
	}
	status->have_class = true;
	status->devices = calloc((size_t)n + 1, sizeof(*status->devices));
	for (i = 0; i < n; i++) {
		if (status->devices) {
			device = &status->devices[status->n_devices++];
			snprintf(device->name, sizeof(device->name), "%s", names[i]);
			sysfs_provider(status->cli->sysfs, device->name, device->provider,
				       sizeof(device->provider));
		}
		free(names[i]);
	}
	free(names);
	if (status->devices)
		return 0;
	cli_error("out of memory");
	return -ENOMEM;
}

static bool has_provider(const struct status *status, const char *provider)
{
	size_t i;

	for (i = 0; i < status->n_devices; i++)
		if (!strcmp(status->devices[i].provider, provider))
			return true;
	return false;
}

static int gather_way(struct status *status, struct status_way *way)
{
	int rc = probe_run(status->cli, way->library, &way->report);

	if (rc) {
		cli_error("cannot run meshverbs-probe: %s",
			  rc == -ENOTSUP ? "/proc is not mounted here" : strerror(-rc));
		return rc;
	}
	if (way->report.end == PROBE_NOT_RUN) {
		cli_error("cannot run meshverbs-probe: %s; it belongs to meshverbs, reinstall it",
			  way->report.error);
		return -ENOEXEC;
	}
	way->run = !way->report.missing_library;
	return 0;
}

int status_gather(const struct cli *cli, struct status *status)
{
	int rc;

	memset(status, 0, sizeof(*status));
	status->cli = cli;
	status->ways[STATUS_PLAIN].key = "libibverbs";
	status->ways[STATUS_PLAIN].title = "Programs that use libibverbs alone";
	status->ways[STATUS_MLX5].key = "libmlx5";
	status->ways[STATUS_MLX5].title =
		"Programs that link or load libmlx5 (perftest, UCX, NCCL)";
	status->ways[STATUS_MLX5].library = "libmlx5.so.1";
	gather_config(status);
	gather_driver_file(status);
	rc = gather_devices(status);
	if (!rc)
		rc = gather_way(status, &status->ways[STATUS_PLAIN]);
	/* libmlx5 registers its driver itself, so libibverbs may not search for more. */
	if (!rc && has_provider(status, "mlx5"))
		rc = gather_way(status, &status->ways[STATUS_MLX5]);
	return rc;
}

static void lines_fini(struct status_lines *lines)
{
	while (lines->n)
		free(lines->lines[--lines->n]);
	free(lines->lines);
	lines->lines = NULL;
}

void status_fini(struct status *status)
{
	size_t i;

	for (i = 0; i < STATUS_N_WAYS; i++)
		probe_report_fini(&status->ways[i].report);
	lines_fini(&status->config_errors);
	lines_fini(&status->attention);
	free(status->devices);
	status->devices = NULL;
}
