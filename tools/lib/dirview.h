/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_DIRVIEW_H
#define TOOL_DIRVIEW_H

#include "cli.h"
#include "pathfind.h"

struct json_object;

/* What the agent of this host has written about the others. */
struct dirview {
	struct mv_directory dir;
	uint64_t now_ns; /* CLOCK_BOOTTIME when it was opened */
	bool alive; /* its agent is */
	/* What the agent's probes say of paths, an array of objects; NULL: nobody asked, or there is no answer. */
	struct json_object *probes;
};

/**
 * dirview_open - map the directory in cli->run_dir
 * @view: release it with mv_directory_close(&view->dir)
 *
 * Return: 0; -ENOENT without an agent, which is not said; -errno, which has been said.
 */
int dirview_open(const struct cli *cli, struct dirview *view);
/** dirview_read - the same without a word on stderr */
int dirview_read(const struct cli *cli, struct dirview *view);

/** dirview_missing - say that there is no directory, and what to do */
void dirview_missing(const struct cli *cli);

/** dirview_agent - section "agent": whether the directory is kept current */
void dirview_agent(struct out *out, const struct dirview *view);

/** dirview_heard_ms - how long ago a host's agent was heard; UINT64_MAX: never */
uint64_t dirview_heard_ms(const struct dirview *view, uint32_t host);

/** dirview_paths - list "paths"; with view->probes also what those say */
void dirview_paths(struct out *out, const struct dirview *view, const struct mv_path *paths,
		   size_t n, const char *title);

/** dirview_verdict_tone - the colour of a verdict */
enum out_tone dirview_verdict_tone(enum mv_path_verdict verdict);

#endif
