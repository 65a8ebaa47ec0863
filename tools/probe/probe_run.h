/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_PROBE_RUN_H
#define TOOL_PROBE_RUN_H

#include <stddef.h>

#include "cli.h"

/*
 * meshverbs-probe is an ordinary verbs program: it lists the RDMA devices, and opens and closes each. It runs as a
 * child, so that a crash is a finding and does not end the tool; with MESHVERBS_REPORT set, the plugin reports what it
 * does. Its output is described in probe/meshverbs-probe.c.
 */

enum probe_end {
	PROBE_DONE, /* ran to its end */
	PROBE_NOT_RUN, /* could not be started: @error has the reason */
	PROBE_EXITED, /* ended early, with exit status @code */
	PROBE_CRASHED, /* killed by signal @code */
	PROBE_HUNG, /* killed after the time limit */
};

/* A line of the plugin: "stage NAME STATE TEXT". */
struct probe_stage {
	const char *name;
	const char *state; /* "ok", "off", "failed", "refused", or a word of a newer plugin */
	const char *text;
};

/* Result for a device. */
struct probe_device {
	const char *name;
	const char *error; /* NULL: the device was opened */
};

/* All strings are in the three buffers. */
struct probe_report {
	enum probe_end end;
	int code;
	const char *error; /* why not run, or why devices could not be listed; NULL: neither */
	const char *missing_library; /* why @library could not be loaded; NULL: loaded */
	struct probe_stage *stages;
	size_t n_stages;
	struct probe_device *devices;
	size_t n_devices;
	const char **messages; /* lines of stderr: warnings of libibverbs and of the dynamic linker */
	size_t n_messages;

	char *output; /* stdout */
	char *warnings; /* stderr */
	char *lines; /* MESHVERBS_REPORT */
};

/**
 * probe_run - run meshverbs-probe and gather its output and the plugin's
 * @library: shared library that the program loads before it uses verbs, like a program linked with it; NULL: none
 * @ret: written on success; release with probe_report_fini()
 *
 * Return: 0, also if the child fails in any way; -errno: it could not be run (pipes, processes, memory).
 */
int probe_run(const struct cli *cli, const char *library, struct probe_report *ret);
void probe_report_fini(struct probe_report *report);

/**
 * probe_report_parse - parse the three buffers
 * @report: with its buffers, each NUL-terminated; they are cut into lines
 *
 * Skips unknown lines. An unfinished last line counts.
 *
 * Return: 0 or -ENOMEM.
 */
int probe_report_parse(struct probe_report *report);

/**
 * probe_report_stage - the last line about a stage
 * @name: beginning of its name
 * @suffix: end of its name; "": none
 *
 * Return: in @report; NULL: none.
 */
const struct probe_stage *probe_report_stage(const struct probe_report *report, const char *name,
					     const char *suffix);

#endif
