/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_STATUS_H
#define TOOL_STATUS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli.h"
#include "config.h"
#include "probe_run.h"

/* The ways in which programs come to libibverbs; which drivers it loads depends on that. */
enum { STATUS_PLAIN, STATUS_MLX5, STATUS_N_WAYS };

/* One run of the load path. */
struct status_way {
	const char *key; /* for JSON */
	const char *title; /* "programs that ..." */
	const char *library; /* what such a program links besides libibverbs, or NULL */
	bool run; /* it matters on this host, so it was tried */
	struct probe_report report;
};

enum status_serve {
	SERVE_YES,
	SERVE_NO,
	SERVE_UNKNOWN, /* its provider is not known to us, so the plugin has the word */
};

struct status_device {
	char name[64];
	char provider[32]; /* "" when unknown */
	enum status_serve serve;
	bool active;
	char text[512]; /* why, or why not */
};

/* Lines for people, each once. */
struct status_lines {
	char **lines;
	size_t n;
};

struct status {
	const struct cli *cli;
	struct mv_config config;
	char config_file[PATH_MAX];
	bool have_config;
	bool mode_by_env, log_by_env; /* the environment overrides the file */
	struct status_lines config_errors; /* file:line: text */
	char driver_file[PATH_MAX];
	const char *driver_error; /* NULL: libibverbs will find the plugin's name there */
	bool have_class; /* sysfs has class/infiniband */
	struct status_device *devices;
	size_t n_devices;
	struct status_way ways[STATUS_N_WAYS];
	struct status_lines attention;
	size_t n_serve, n_active; /* devices that should be served, and those that are */
	bool out_of_memory;
};

/**
 * status_gather - files, devices and the load path
 * @status: filled in; release it with status_fini(), also after an error
 *
 * Return: 0, or -errno when the state cannot be determined, which has been said.
 */
int status_gather(const struct cli *cli, struct status *status);
void status_fini(struct status *status);

/**
 * status_judge - from what was gathered to devices' states and what needs attention
 */
void status_judge(struct status *status);

/**
 * status_load_warning - libibverbs warns of every driver that it cannot load: the warning about
 * ours, or NULL
 */
const char *status_load_warning(const struct probe_report *report);

/**
 * status_add - add a line unless it is there
 */
void status_add(struct status *status, struct status_lines *lines, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
