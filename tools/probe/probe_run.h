/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_PROBE_RUN_H
#define TOOL_PROBE_RUN_H

#include <stddef.h>

#include "cli.h"

/*
 * meshverbs-probe is a verbs program like any other: it lists the RDMA devices, opens and closes
 * each. It is run as a child, so that whatever happens to it is a finding and not our end, and with
 * MESHVERBS_REPORT set, so that the plugin tells what it does. See probe/meshverbs-probe.c for what
 * it prints.
 */

enum probe_end {
	PROBE_DONE, /* went through to its end */
	PROBE_NOT_RUN, /* could not be started: @error says why */
	PROBE_EXITED, /* ended too early, with exit status @code */
	PROBE_CRASHED, /* killed by signal @code */
	PROBE_HUNG, /* was killed after the time limit */
};

/* A line of the plugin: "stage NAME STATE TEXT". */
struct probe_stage {
	const char *name;
	const char *state; /* "ok", "off", "failed", "refused", or what a newer plugin says */
	const char *text;
};

/* What the program saw of a device. */
struct probe_device {
	const char *name;
	const char *error; /* NULL: it was opened */
};

/* All strings lie in the three buffers. */
struct probe_report {
	enum probe_end end;
	int code;
	const char *error; /* why not run, or why the devices could not be listed; else NULL */
	const char *missing_library; /* why @library could not be loaded, else NULL */
	struct probe_stage *stages;
	size_t n_stages;
	struct probe_device *devices;
	size_t n_devices;
	const char **messages; /* stderr: libibverbs' and the dynamic linker's warnings */
	size_t n_messages;

	char *output; /* stdout */
	char *warnings; /* stderr */
	char *lines; /* MESHVERBS_REPORT */
};

/**
 * probe_run - run meshverbs-probe and gather what it and the plugin say
 * @library: shared library that the program loads before it uses verbs, as one that links it does;
 *           NULL for none
 * @ret: filled in on success; release it with probe_report_fini()
 *
 * Return: 0, also when the child failed in any way, or -errno when the means for running it could
 * not be had (pipes, processes, memory).
 */
int probe_run(const struct cli *cli, const char *library, struct probe_report *ret);
void probe_report_fini(struct probe_report *report);

/**
 * probe_report_parse - find the lines in the three buffers
 * @report: buffers set, each ends in NUL; they are cut into lines
 *
 * Lines of no known form are skipped, an unfinished last line counts.
 *
 * Return: 0 or -ENOMEM.
 */
int probe_report_parse(struct probe_report *report);

/**
 * probe_report_stage - the last line about a stage
 * @name: beginning of the name
 * @suffix: end of the name, "" for none
 *
 * Return: NULL when there is none.
 */
const struct probe_stage *probe_report_stage(const struct probe_report *report, const char *name,
					     const char *suffix);

#endif
