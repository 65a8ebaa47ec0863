// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Log lines about decisions, for the operator. */
#include <stdio.h>
#include <string.h>

#include "pathsint.h"

/* List the entries and their verdicts, as far as the line has room. */
static void describe_tried(const struct mesh_paths *paths, const struct mesh_context *mc,
			   const struct mv_request *request, char *buf, size_t size)
{
	const struct mv_port *port = mv_device_port(&mc->tables.devices[0], request->port_num);
	struct mv_candidate candidate;
	char gid[MV_GID_STRLEN];
	size_t used = 0, i;
	int n;

	buf[0] = '\0';
	for (i = 0; port && i < port->n_gids; i++) {
		mv_check_entry(&paths->net, &port->gids[i], &request->dgid, &candidate);
		n = snprintf(buf + used, size - used, "%s%u %s %s", i ? ", " : "", port->gids[i].index,
			     mv_gid_format(&port->gids[i].gid, gid), mv_verdict_name(candidate.verdict));
		if (n < 0 || (size_t)n >= size - used) {
			memcpy(buf + size - 4, "...", 4);
			return;
		}
		used += (size_t)n;
	}
}

void mesh_paths_log_decision(const struct mesh_paths *paths, const struct mesh_context *mc, const struct mv_request *request,
			     const struct mv_decision *decision, struct mesh_choice *choice)
{
	char to[MV_GID_STRLEN], from[MV_GID_STRLEN], tried[320];
	const char *done = mc->logged_only ? "would use" : "using";

	/* Most decisions keep the index, and formatting the line would cost more than the decision. */
	if (decision->action == MV_KEEP && !mv_log_wants(&mesh_root.log, MV_LOG_DEBUG))
		return;
	mv_gid_format(&request->dgid, to);
	mv_gid_format(&decision->gid, from);
	switch (decision->action) {
	case MV_KEEP:
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s port %u index %u to %s: kept, %s", mc->device,
		       request->port_num, request->sgid_index, to, mv_reason_text(decision->reason));
		break;
	case MV_REPAIR:
	case MV_REPLACE:
		mv_log_once(&mesh_root.log, MV_LOG_INFO, "%s port %u to %s: index %u is %s, %s %u (%s): %s",
			    mc->device, request->port_num, to, request->sgid_index,
			    mv_verdict_name(decision->own_verdict), done, decision->sgid_index, from,
			    mv_reason_text(decision->reason));
		break;
	case MV_PASS:
		describe_tried(paths, mc, request, tried, sizeof(tried));
		snprintf(choice->why_not, sizeof(choice->why_not),
			 "%s port %u to %s: index %u is %s, left alone: %s; tried %s", mc->device, request->port_num,
			 to, request->sgid_index, mv_verdict_name(decision->own_verdict),
			 mv_reason_text(decision->reason), tried);
		break;
	}
}

void mesh_paths_why_not(const struct mesh_choice *choice)
{
	if (choice->why_not[0])
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s", choice->why_not);
}
