/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_QUALIFY_RUN_H
#define TOOL_QUALIFY_RUN_H

#include "cli.h"
#include "qualified.h"

/*
 * meshverbs-qualify is run as a child, with MESHVERBS=off: whatever happens to it is a finding and not our end. See qualify/main.c for what
 * it prints.
 */

struct qualify_order {
	const char *device;
	const char *peer; /* another device that takes part; NULL: what is found */
	const char *only; /* names of trials with commas between; NULL: all */
	/* Called when it is known who takes part (@trial NULL), before each trial (@verdict NULL), and behind it. */
	void (*progress)(const struct qualify_order *order, const char *peer, size_t i, size_t n, const char *trial, const char *verdict);
};

/**
 * qualify_run - try out a device; takes a minute at most
 * @ret: written on success only
 * @why: of an error, in words
 *
 * Return: 0 or -errno.
 */
int qualify_run(const struct cli *cli, const struct qualify_order *order, struct mv_qualified *ret, char *why, size_t why_size);

/**
 * qualify_list - the trials, one a line: name, assumption, source, with tabs between
 * @ret_text: to be freed
 */
int qualify_list(const struct cli *cli, char **ret_text, char *why, size_t why_size);

#endif
