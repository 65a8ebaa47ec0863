/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TOOL_SHOW_H
#define TOOL_SHOW_H

#include "dirview.h"

struct json_object;

/* Lists that several commands show, with at most @max rows and a sentence about the rest. */

void show_hosts(struct out *out, const struct dirview *view, size_t max); /* cmd_peers.c */

/** show_rails - rails of the first @n_hosts hosts, of which the first is this host */
void show_rails(struct out *out, const struct dirview *view, size_t n_hosts); /* cmd_peers.c */

/** show_qps - @answer: the agent's answer to "qps" */
void show_qps(struct out *out, struct json_object *answer, const char *title,
	      size_t max); /* cmd_qps.c */

#endif
