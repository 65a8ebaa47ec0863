// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdio.h>
#include <string.h>

#include "connectint.h"
#include "lookup.h"
#include "pdstay.h"
#include "proved.h"
#include "survives.h"
#include "unqualified.h"

/* At RTR: does the path that the program asks for work, and if not now, or not later, can the connection move? */

bool mesh_decide_needs_agreement(const struct mesh_path_decision *decision)
{
	return decision->verdict != MV_PATH_UNKNOWN && decision->verdict != MV_PATH_SELF &&
	       decision->verdict != MV_PATH_WORKS;
}

const char *mesh_decide_cannot_move(struct mesh_context *mc, const struct mesh_conn *conn, uint32_t qpn,
				    const struct mesh_path_decision *decision)
{
	const char *stays = conn ? mesh_pd_stays(conn->qp->pd) : NULL;

	if (!conn && !mc->logged_only)
		return mesh_forgotten_why(mc, qpn);
	if (stays)
		return stays;
	if (!decision->agent_version)
		return "the peer's host has no agent";
	if (decision->agent_version != MV_CTL_VERSION)
		return "the peer's agent speaks another version";
	if (!decision->n_paths)
		return "no rail of this host reaches one of the peer's";
	return NULL;
}

const char *mesh_decide_why_no_rail(struct mesh_context *mc, struct ibv_qp *qp,
				    const struct mesh_path_decision *decision, char *why, size_t why_size)
{
	struct mesh_directory_rail place;
	struct mesh_rail *rail;
	struct mesh_pd *pd;
	size_t i;

	if (decision->verdict == MV_PATH_ASK)
		return NULL;
	snprintf(why, why_size, "the rails are not in the directory any more");
	for (i = 0; i < decision->n_paths; i++) {
		if (mesh_directory_rail(&decision->paths[i].local_gid, decision->paths[i].type, &place))
			continue;
		rail = mesh_rail_get(place.device, why, why_size);
		pd = rail ? mesh_pd_get(mc, qp->pd, rail, why, why_size) : NULL;
		mesh_rail_put(rail); /* @pd has a reference to the rail, and lives as long as the program's PD */
		if (!pd)
			continue;
		mesh_pd_put(pd);
		return NULL;
	}
	return why;
}

/* Logs one line per host with another version, which says what to do. */
static void say_version(struct mesh_context *mc, const struct mesh_path_decision *decision)
{
	if (decision->agent_version && decision->agent_version != MV_CTL_VERSION &&
	    (mesh_decide_needs_agreement(decision) || mesh_survives(mc)))
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "host %s: its agent speaks version %u of the messages between processes, meshverbs here "
			    "version %u: connections "
			    "stay as their programs ask; upgrade %s",
			    decision->host, decision->agent_version, MV_CTL_VERSION,
			    decision->agent_version < MV_CTL_VERSION ? "that host" : "this one");
}

static bool port_has_lid(const struct ibv_qp *qp, const struct ibv_ah_attr *ah)
{
	struct ibv_port_attr port;

	return !mesh_real_port(qp->context, ah->port_num, &port) && mv_lid_is_of(port.lid, port.lmc, ah->dlid);
}

/*
 * Fill @choice for an InfiniBand connection without GRH. There is no choice, but the peer's host has to be known by its LID.
 * Return: is it known?
 */
static bool name_lids(struct mesh_context *mc, const struct ibv_qp *qp, const struct ibv_qp_attr *attr, struct mesh_choice *choice)
{
	const struct ibv_ah_attr *ah = &attr->ah_attr;
	struct mv_lid_ends ends;

	if (mesh_directory_lid(mc->device, ah->port_num, ah->dlid, &ends))
		return false;
	/*
	 * A subnet manager may have given the port's LID to another host since the agent last looked. There a QP may have the
	 * number of this one. A move would connect this QP to itself, and its data would go to the wrong memory.
	 */
	if (attr->dest_qp_num == qp->qp_num && mv_gid_equal(&ends.local, &ends.remote) && !port_has_lid(qp, ah))
		return false;
	choice->gid = ends.local;
	choice->dgid = ends.remote;
	choice->type = MV_GID_TYPE_IB;
	choice->fits = choice->sure = true;
	return true;
}

/* @refused: the lower provider has refused RTR, so there is no working host without an agent to be cut off */
static void check_by(struct mesh_context *mc, struct ibv_qp *qp, const struct ibv_qp_attr *attr, bool refused,
		     bool sure, struct mesh_choice *choice, struct mesh_path_decision *decision)
{
	struct mv_path_request request = {.device = mc->device,
					  .port_num = attr->ah_attr.port_num,
					  .made = refused,
					  .by_links = refused,
					  .proved = (attr->rq_psn & 0xffffff) != 0};
	bool connected = mc->sees_peers && qp->qp_type == IBV_QPT_RC;

	mesh_choice_none(choice, attr->ah_attr.grh.sgid_index);
	mesh_path_decision_none(decision);
	if (attr->ah_attr.is_global) {
		mesh_paths_choose(mc, qp->context, &attr->ah_attr, MV_CONNECTED, sure, choice);
		choice->dgid = attr->ah_attr.grh.dgid;
	} else if (!connected || !name_lids(mc, qp, attr, choice)) {
		return;
	}
	if (!connected)
		return;
	request.dgid = choice->dgid;
	request.sgid = choice->gid;
	request.sgid_type = choice->type;
	request.routed = choice->fits;
	mesh_directory_decide(&request, decision);
}

/*
 * No host announces the destination. Would an answer of the agent make a difference? Not where the route could not be looked up:
 * the path may work.
 */
static bool is_to_look_up(struct mesh_context *mc, const struct ibv_qp *qp, const struct ibv_qp_attr *attr,
			  const struct mesh_choice *choice, const struct mesh_path_decision *decision)
{
	return decision->verdict == MV_PATH_UNKNOWN && mc->sees_peers && !mc->logged_only &&
	       qp->qp_type == IBV_QPT_RC && attr->ah_attr.is_global && choice->type != MV_GID_TYPE_IB &&
	       (choice->fits ? mesh_survives(mc) : choice->sure || choice->down) &&
	       mesh_directory_is_stranger(&choice->dgid, choice->fits);
}

static bool is_down(const struct mesh_path_decision *decision)
{
	return decision->verdict == MV_PATH_LOCAL_DOWN || decision->verdict == MV_PATH_REMOTE_DOWN;
}

void mesh_decide_rtr(struct mesh_context *mc, struct ibv_qp *qp, const struct ibv_qp_attr *attr, bool refused,
		     struct mesh_choice *choice, struct mesh_path_decision *decision)
{
	check_by(mc, qp, attr, refused, false, choice, decision);
	if (!refused && (decision->verdict == MV_PATH_UNKNOWN || decision->verdict == MV_PATH_WORKS) &&
	    mesh_directory_is_absent(&choice->gid, &choice->dgid)) {
		refused = true;
		check_by(mc, qp, attr, refused, false, choice, decision);
	}
	if (is_to_look_up(mc, qp, attr, choice, decision) &&
	    mesh_lookup(&choice->dgid, choice->fits ? MESH_LOOKUP_WORKS : MESH_LOOKUP_BROKEN))
		check_by(mc, qp, attr, refused, false, choice, decision);
	say_version(mc, decision);
	/* A cached look-up (not sure) may only leave a connection as it is: look up again. */
	if (mesh_decide_needs_agreement(decision) && !choice->sure)
		check_by(mc, qp, attr, refused, true, choice, decision);
	/* Without a fresh look-up there may be a route. Port states come from the agent, so they count all the same. */
	if (mesh_decide_needs_agreement(decision) && !choice->sure && !is_down(decision))
		decision->verdict = MV_PATH_UNKNOWN;
}

enum other_way {
	WAY_NONE,
	WAY_UNQUALIFIED,
	WAY_QUALIFIED,
};

/* Is there a path between another pair of rails? A path that is down now counts, because it may be the only one later. */
static enum other_way other_way(const struct mesh_conn *conn, const struct mesh_choice *choice, const struct ibv_qp_attr *attr)
{
	struct mv_path_request request = {.device = conn->mc->device,
					  .port_num = attr->ah_attr.port_num,
					  .sgid = choice->gid,
					  .sgid_type = choice->type,
					  .dgid = choice->dgid,
					  .routed = choice->fits,
					  .own_host = conn->ends.own_host,
					  .down_too = true,
					  .made = 1,
					  .host = mesh_conn_peer_host(conn)};
	enum other_way found = WAY_NONE;
	struct mesh_path_decision decision;
	size_t i;

	mesh_directory_paths(&request, &decision);
	for (i = 0; i < decision.n_paths && found != WAY_QUALIFIED; i++) {
		if (decision.paths[i].stays == 3)
			continue;
		found = mesh_conn_may_go_by(conn, &decision.paths[i].local_gid, decision.paths[i].type)
				? WAY_QUALIFIED
				: WAY_UNQUALIFIED;
	}
	return found;
}

/* The caller asks for another path afterwards. */
static const char *bound_by(const struct mesh_conn *conn, const struct mesh_path_decision *decision)
{
	const char *stays = mesh_pd_stays(conn->qp->pd);

	if (conn->mc->logged_only)
		return "mode = observe";
	if (stays)
		return stays;
	if (conn->ends.own_host)
		return NULL;
	if (!decision->agent_version && conn->ends.local_type == MV_GID_TYPE_IB)
		return "the peer's host had no agent when it was made, or was in another subnet of InfiniBand";
	if (!decision->agent_version)
		return "the peer's host had no agent when it was made";
	if (decision->agent_version != MV_CTL_VERSION)
		return "the peer's agent spoke another version when it was made";
	if (decision->verdict == MV_PATH_UNKNOWN)
		return "its route could not be looked up when it was made";
	/* A port that is down may come back, or the other path may: then the connection can move. */
	return decision->verdict == MV_PATH_WORKS || is_down(decision) ? NULL : "its path did not fit when it was made";
}

static const char *no_other_way(const struct mesh_conn *conn)
{
	return conn->ends.own_host ? "its peer is on this host, which had no other rail when it was made" :
				     "no other rail reached one of the peer's when it was made";
}

const char *mesh_decide_bound_by(const struct mesh_conn *conn, const struct mesh_choice *choice,
				 const struct ibv_qp_attr *attr, const struct mesh_path_decision *decision)
{
	enum other_way way;
	const char *why;

	if (mesh_root.config.survive == MV_SURVIVE_OFF)
		return mesh_survives_why_not(conn->mc);
	why = bound_by(conn, decision);
	if (why)
		return why;
	/* What takes least comes first. A NIC that has no other beside it is told nothing of qualification. */
	if (decision->n_own_rails == 1)
		return no_other_way(conn);
	why = mesh_survives_why_not(conn->mc);
	if (why)
		return why;
	way = other_way(conn, choice, attr);
	if (way == WAY_NONE)
		return no_other_way(conn);
	return way == WAY_UNQUALIFIED ? "no other NIC that reached the peer had qualified when it was made" : NULL;
}
