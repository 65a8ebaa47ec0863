// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "status.h"

/* Why a device is not served, in one load path. */
enum cause {
	CAUSE_NONE, /* it is served */
	CAUSE_DEVICE, /* something about the device or its provider */
	CAUSE_COMMON, /* something about the whole load path, reported once */
};

static bool is_ok(const struct probe_stage *stage)
{
	return !strcmp(stage->state, "ok");
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Is the stage about the whole process, and not about one lower provider or context? */
static bool is_common(const struct probe_stage *stage)
{
	return !begins(stage->name, "base:") && !begins(stage->name, "context:");
}

static bool is_obstacle(const struct probe_stage *stage)
{
	return is_common(stage) && !is_ok(stage);
}

static const struct probe_stage *common_obstacle(const struct probe_report *report)
{
	size_t i;

	for (i = 0; i < report->n_stages; i++)
		if (is_obstacle(&report->stages[i]))
			return &report->stages[i];
	return NULL;
}

static const struct probe_device *find_device(const struct probe_report *report, const char *name)
{
	size_t i = report->n_devices;

	while (i--)
		if (!strcmp(report->devices[i].name, name))
			return &report->devices[i];
	return NULL;
}

static void put_stage(const struct probe_stage *stage, char *buf, size_t size)
{
	snprintf(buf, size, "%s %s%s%s", stage->name, stage->state, *stage->text ? ": " : "",
		 stage->text);
}

static const char *end_text(const struct probe_report *report, char *buf, size_t size)
{
	switch (report->end) {
	case PROBE_CRASHED:
		snprintf(buf, size, "the program crashed (signal %d, %s)", report->code,
			 strsignal(report->code));
		break;
	case PROBE_HUNG:
		snprintf(buf, size, "the program hung and was killed");
		break;
	case PROBE_EXITED:
		snprintf(buf, size, "the program ended too early, with exit status %d",
			 report->code);
		break;
	default:
		buf[0] = '\0';
	}
	return buf;
}

static enum cause check_in_way(const struct probe_report *report, const struct status_device *device, char *buf,
			       size_t size)
{
	const struct probe_stage *stage = probe_report_stage(report, "context:", device->name);
	const struct probe_device *seen = find_device(report, device->name);

	if (stage && is_ok(stage)) {
		snprintf(buf, size, "%s", stage->text);
		return CAUSE_NONE;
	}
	if (stage) {
		put_stage(stage, buf, size);
		return CAUSE_DEVICE;
	}
	if (report->end != PROBE_DONE) {
		end_text(report, buf, size);
		return CAUSE_COMMON;
	}
	if (!report->n_stages) {
		snprintf(buf, size, "the plugin is not loaded");
		return CAUSE_COMMON;
	}
	stage = common_obstacle(report);
	if (stage) {
		put_stage(stage, buf, size);
		return CAUSE_COMMON;
	}
	stage = *device->provider ? probe_report_stage(report, "base:", device->provider) : NULL;
	if (stage && !is_ok(stage)) {
		put_stage(stage, buf, size);
		return CAUSE_DEVICE;
	}
	if (!seen)
		snprintf(buf, size,
			 "libibverbs does not list it: are its /dev/infiniband/uverbs* here, and "
			 "its provider library "
			 "(ibverbs-providers)?");
	else if (seen->error)
		snprintf(buf, size, "it cannot be opened: %s", seen->error);
	else
		snprintf(buf, size, "the plugin said nothing about it");
	return CAUSE_DEVICE;
}

static enum status_serve should_serve(const struct mv_config *config,
				      const struct status_device *device, char *buf, size_t size)
{
	char base[sizeof(config->base.names)] = "";
	size_t i, used = 0;

	if (config->mode == MV_MODE_OFF) {
		snprintf(buf, size, "mode is off");
		return SERVE_NO;
	}
	if (mv_config_list_match(&config->exclude, device->name)) {
		snprintf(buf, size, "left alone: matches exclude");
		return SERVE_NO;
	}
	if (!*device->provider) {
		snprintf(buf, size, "left alone: its provider is not known here");
		return SERVE_UNKNOWN;
	}
	if (mv_config_list_match(&config->base, device->provider))
		return SERVE_YES;
	for (i = 0; i < config->base.n; i++)
		used += (size_t)snprintf(base + used, sizeof(base) - used, "%s%s", i ? " " : "",
					 config->base.names[i]);
	snprintf(buf, size, "left alone: its provider %s is not in base (%s)", device->provider,
		 base);
	return SERVE_NO;
}

/* Writes the reason into the device's text. */
static void put_obstacle(struct status_device *device, const struct status_way *way, bool partly,
			 const char *text)
{
	if (partly && way->library)
		snprintf(device->text, sizeof(device->text), "not in programs with libmlx5: %s",
			 text);
	else
		snprintf(device->text, sizeof(device->text), "%s", text);
}

static void check_device(struct status *status, struct status_device *device)
{
	char text[sizeof(device->text) - 64], served_text[sizeof(text)] = "";
	unsigned int n_runs = 0, n_served = 0;
	enum cause cause;
	size_t i;

	device->serve = should_serve(&status->config, device, device->text, sizeof(device->text));
	if (device->serve == SERVE_NO)
		return;
	for (i = 0; i < STATUS_N_WAYS; i++) {
		if (!status->ways[i].run)
			continue;
		n_runs++;
		cause = check_in_way(&status->ways[i].report, device, text, sizeof(text));
		if (cause == CAUSE_NONE) {
			n_served++;
			memcpy(served_text, text, sizeof(text));
			continue;
		}
		if (device->serve == SERVE_UNKNOWN)
			continue;
		/* The first obstacle is the most relevant one. */
		if (n_served == n_runs - 1)
			put_obstacle(device, &status->ways[i], n_served, text);
		if (cause == CAUSE_DEVICE)
			status_add(status, &status->attention, "%s is not served: %s", device->name,
				   text);
	}
	device->active = n_runs && n_served == n_runs;
	if (device->active) {
		device->serve = SERVE_YES;
		snprintf(device->text, sizeof(device->text), "%s", served_text);
	}
	if (device->serve == SERVE_YES) {
		status->n_serve++;
		status->n_active += device->active;
	}
}

const char *status_load_warning(const struct probe_report *report)
{
	size_t i;

	for (i = 0; i < report->n_messages; i++)
		if (strstr(report->messages[i], "mesh"))
			return report->messages[i];
	return NULL;
}

static void check_not_loaded(struct status *status, const struct status_way *way)
{
	if (way->library && status->ways[STATUS_PLAIN].report.n_stages)
		status_add(status, &status->attention,
			   "the plugin is not loaded in programs that link or load libmlx5: "
			   "libmlx5 registers its "
			   "own driver, so libibverbs does not look for others; install the front "
			   "(libmlx5.so.1) of "
			   "meshverbs");
	else if (status->driver_error)
		status_add(status, &status->attention,
			   "the plugin is not loaded: %s: %s; libibverbs loads the drivers that "
			   "are named in that "
			   "directory, so install meshverbs there, or write 'driver mesh' into it",
			   status->driver_file, status->driver_error);
	else if (status_load_warning(&way->report))
		status_add(status, &status->attention, "the plugin is not loaded: %s",
			   status_load_warning(&way->report));
	else
		status_add(status, &status->attention,
			   "the plugin is not loaded, though %s names it: is its library in "
			   "libibverbs' provider "
			   "directory, and does this libibverbs read that file?",
			   status->driver_file);
}

static void check_stage(struct status *status, const struct probe_stage *stage)
{
	char text[512];

	/* Already reported, with the reason. */
	if (status->config.mode == MV_MODE_OFF && !strcmp(stage->state, "off"))
		return;
	if (!strcmp(stage->name, "config"))
		snprintf(text, sizeof(text), "%s",
			 stage->text); /* the same words as ours for the file's errors */
	else
		put_stage(stage, text, sizeof(text));
	status_add(status, &status->attention, "%s", text);
}

static void check_way(struct status *status, const struct status_way *way)
{
	const struct probe_report *report = &way->report;
	char text[512];
	size_t i;

	if (report->end != PROBE_DONE) {
		if (report->n_stages)
			status_add(status, &status->attention,
				   "%s: %s; the plugin's last word was: %s %s %s. MESHVERBS=off "
				   "starts programs without it",
				   way->title, end_text(report, text, sizeof(text)),
				   report->stages[report->n_stages - 1].name,
				   report->stages[report->n_stages - 1].state,
				   report->stages[report->n_stages - 1].text);
		else
			status_add(status, &status->attention,
				   "%s: %s, before the plugin said anything", way->title,
				   end_text(report, text, sizeof(text)));
		return;
	}
	/* Without class/infiniband libibverbs returns ENOSYS, which was reported better. */
	if (report->error && status->have_class)
		status_add(status, &status->attention,
			   "libibverbs cannot list the RDMA devices: %s", report->error);
	/* Without devices libibverbs loads no drivers. */
	if (!report->n_stages && status->n_devices)
		check_not_loaded(status, way);
	for (i = 0; i < report->n_stages; i++)
		if (is_common(&report->stages[i]) && !is_ok(&report->stages[i]))
			check_stage(status, &report->stages[i]);
}

/* Return: number of devices that the probe opened: libibverbs also asks the kernel by netlink. */
static size_t n_opened(const struct status *status)
{
	size_t i, d, n, most = 0;

	for (i = 0; i < STATUS_N_WAYS; i++) {
		const struct probe_report *report = &status->ways[i].report;

		for (n = 0, d = 0; status->ways[i].run && d < report->n_devices; d++)
			n += !report->devices[d].error;
		if (n > most)
			most = n;
	}
	return most;
}

void status_decide(struct status *status)
{
	char text[512];
	size_t i;

	for (i = 0; i < status->config_errors.n; i++)
		status_add(status, &status->attention, "%s", status->config_errors.lines[i]);
	if (status->config.doubtful)
		status_add(status, &status->attention,
			   "%s cannot be used as it is, so the plugin does nothing", status->config_file);
	if (status->config.mode == MV_MODE_OFF && status->mode_by_env)
		status_add(status, &status->attention,
			   "MESHVERBS=off is in the environment, so the plugin does nothing");
	else if (status->config.mode == MV_MODE_OFF)
		status_add(status, &status->attention,
			   "%s: mode is off, so the plugin does nothing", status->config_file);
	if (!status->n_devices && n_opened(status)) {
		status_add(status, &status->attention,
			   "libibverbs opens %zu RDMA devices that %s/class/infiniband does not show: is /sys "
			   "mounted here?",
			   n_opened(status), status->cli->sysfs);
	} else if (!status->n_devices) {
		host_no_devices(status->cli->sysfs, status->have_class, text, sizeof(text));
		status_add(status, &status->attention, "%s", text);
	}
	for (i = 0; i < STATUS_N_WAYS; i++)
		if (status->ways[i].run)
			check_way(status, &status->ways[i]);
	for (i = 0; i < status->n_devices; i++)
		check_device(status, &status->devices[i]);
	if (status->n_devices && !status->n_serve && status->config.mode != MV_MODE_OFF)
		status_add(status, &status->attention,
			   "no RDMA device here is to be served: see base and exclude in %s",
			   status->config_file);
}
