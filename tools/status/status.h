/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_STATUS_H
#define TOOL_STATUS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli.h"
#include "config.h"
#include "probe_run.h"

/* Ways in which programs use libibverbs; they determine which drivers it loads. */
enum { STATUS_PLAIN, STATUS_MLX5, STATUS_N_WAYS };

/* A run of one load path. */
struct status_way {
	const char *key; /* for JSON */
	const char *title; /* "programs that ..." */
	const char *library; /* library that such a program links besides libibverbs; NULL: none */
	bool run; /* relevant on this host, so it was tried */
	struct probe_report report;
};

enum status_serve {
	SERVE_YES,
	SERVE_NO,
	SERVE_UNKNOWN, /* unknown provider, so only the plugin can tell */
};

struct status_device {
	char name[64];
	char provider[32]; /* "": unknown */
	enum status_serve serve;
	bool active;
	char text[512]; /* reason for either */
};

/* Lines for people, without duplicates. */
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
	const char *driver_error; /* NULL: libibverbs finds the plugin's name there */
	bool have_class; /* sysfs has class/infiniband */
	struct status_device *devices;
	size_t n_devices;
	struct status_way ways[STATUS_N_WAYS];
	struct status_lines attention;
	size_t n_serve, n_active; /* devices that should be served; devices that are */
	bool out_of_memory;
};

/**
 * status_gather - read files and devices, and try the load paths
 * @status: filled in; release with status_fini(), also after an error
 *
 * Return: 0; -errno: the state cannot be determined, after an error message.
 */
int status_gather(const struct cli *cli, struct status *status);
void status_fini(struct status *status);

/** status_decide - derive the devices' states, and what needs attention */
void status_decide(struct status *status);

/** status_load_warning - libibverbs' warning that it cannot load our driver; in @report; NULL: none */
const char *status_load_warning(const struct probe_report *report);

/** status_add - add a line, unless it exists */
void status_add(struct status *status, struct status_lines *lines, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
