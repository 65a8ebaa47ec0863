// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "neighbour.h"

bool mesh_neighbour_is_meant(struct mesh_context *mc, uint8_t port_num, const struct mesh_choice *choice, const union ibv_gid *dgid,
			     const struct mesh_view *view)
{
	char to[MV_GID_STRLEN];

	/* A port that is down reaches no host. In the other cases the connection would stay anyway. */
	if (!view->hearsay || view->verdict == MV_PATH_LOCAL_DOWN || !view->n_paths || !mc->can_move || mc->logged_only)
		return false;
	if (mesh_view_is_absent(&choice->gid, dgid, mesh_now_ns()))
		return false;
	if (mesh_neighbour_is_missing(mc, port_num, choice->index, dgid)) {
		mesh_view_note_absent(&choice->gid, dgid, mesh_now_ns());
		return false;
	}
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "%s port %u to %s: host %s on another link announces the address, and a host on this link may have it: left as the program "
		    "asked; to have the hosts tell who has it, give them a fleet key",
		    mc->device, port_num, mv_gid_format(dgid, to), view->host);
	return true;
}
