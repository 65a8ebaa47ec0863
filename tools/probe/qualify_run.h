/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_QUALIFY_RUN_H
#define TOOL_QUALIFY_RUN_H

#include "cli.h"
#include "qualified.h"

/*
 * meshverbs-qualify runs as a child, with MESHVERBS=off, so that a crash is a finding and does not end the tool. Its
 * output is described in qualify/main.c.
 */

struct qualify_order {
	const char *device;
	const char *peer; /* the other device; NULL: chosen automatically */
	const char *only; /* names of trials, comma-separated; NULL: all */
	const char *avoid; /* devices that carry others' traffic, comma-separated: none of them is the peer; NULL: none */
	bool gpu; /* memory of a GPU, too */
	bool rests; /* a program uses the device: leave it most of the time */
	/* Called when the peer is known (@trial NULL), before each trial (@verdict NULL), and after it. */
	void (*progress)(const struct qualify_order *order, const char *peer, size_t i, size_t n, const char *trial, const char *verdict);
};

/**
 * qualify_run - qualify a device; takes at most a minute
 * @ret: written on success only
 * @why: gets the text of an error
 *
 * Return: 0 or -errno.
 */
int qualify_run(const struct cli *cli, const struct qualify_order *order, struct mv_qualified *ret, char *why, size_t why_size);

/**
 * qualify_list - list the trials, one on each line: name, assumption, source, separated by tabs
 * @ret_text: for free()
 */
int qualify_list(const struct cli *cli, char **ret_text, char *why, size_t why_size);

#endif
