/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_DIRVIEW_H
#define TOOL_DIRVIEW_H

#include "cli.h"
#include "pathfind.h"

struct json_object;

/* The agent's directory, mapped. */
struct dirview {
	struct mv_directory dir;
	uint64_t now_ns; /* CLOCK_BOOTTIME of the opening */
	bool alive; /* the agent is alive */
	/* States of paths from the agent's probes, an array of objects; NULL: not asked for, or no answer. */
	struct json_object *probes;
};

/**
 * dirview_open - map the directory in cli->run_dir
 * @view: release with mv_directory_close(&view->dir)
 *
 * Return: 0; -ENOENT: no agent, without a message; another -errno, after an error message.
 */
int dirview_open(const struct cli *cli, struct dirview *view);
/** dirview_read - the same without error messages */
int dirview_read(const struct cli *cli, struct dirview *view);

/** dirview_missing - print that there is no directory, and what to do */
void dirview_missing(const struct cli *cli);

/** dirview_agent - section "agent": is the directory up to date? */
void dirview_agent(struct out *out, const struct dirview *view);

/** dirview_heard_ms - time since a host's agent was last heard; UINT64_MAX: never */
uint64_t dirview_heard_ms(const struct dirview *view, uint32_t host);

/** dirview_paths - list "paths", with their states if view->probes is set */
void dirview_paths(struct out *out, const struct dirview *view, const struct mv_path *paths,
		   size_t n, const char *title);

/** dirview_verdict_tone - colour of a verdict */
enum out_tone dirview_verdict_tone(enum mv_path_verdict verdict);

#endif
