// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "udint.h"

/*
 * Which hosts may ask for paths of datagrams, and answer for them. A message of a peer names GIDs, and the agent says which host
 * sent the message. The QKey proves little, because many programs use the same one. So the directory decides, and all hosts that
 * ask share what the process spends on them.
 */

/*
 * To make an address handle takes a second where the neighbour is silent, and the host that asks or answers chooses the
 * neighbour. So the messages of all peers to which the program has sent nothing take a quarter of the time, and at first five
 * seconds in a row: asked_until_ns grows by PART times the time spent, and may be AHEAD_NS ahead of the clock. The messages of
 * all other peers have the same limit of their own (spoken_until_ns): strangers do not use up their time.
 */
#define PART	 4u
#define AHEAD_NS 12000000000ull

const struct mv_host_id *mesh_ud_host_of(const struct mesh_ud_peer *peer)
{
	uint32_t flags;

	if (mv_host_id_is_zero(&peer->host_id) ||
	    mesh_directory_holder(&peer->host_id, &peer->end.gid, &flags) == MESH_HOLDER_OTHER)
		return NULL;
	return &peer->host_id;
}

bool mesh_ud_may_speak(const struct mesh_ud_peer *peer, const struct mv_host_id *from, const union ibv_gid *gid)
{
	uint32_t flags;

	if (mv_host_id_is_zero(from))
		return true;
	if (mesh_directory_holder(from, gid, &flags) != MESH_HOLDER_SAME)
		return false;
	if (!peer || mv_host_id_is_zero(&peer->host_id) || !memcmp(&peer->host_id, from, sizeof(*from)))
		return true;
	return !mesh_ud_host_of(peer) && !mesh_directory_is_doubted(gid, false);
}

bool mesh_ud_may_lead_to(const struct mv_host_id *from, const union ibv_gid *gid)
{
	uint32_t flags;

	return mv_host_id_is_zero(from) ||
	       (mesh_directory_holder(from, gid, &flags) == MESH_HOLDER_SAME && !mesh_directory_is_doubted(gid, false));
}

bool mesh_ud_is_ambiguous(const struct mesh_ud_peer *peer, const union ibv_gid *gid)
{
	return (!peer || !mesh_ud_host_of(peer)) && mesh_directory_n_holders(gid) > 1;
}

bool mesh_ud_has_room_for(const struct mv_host_id *from, uint64_t now_ns)
{
	unsigned int n = 0, n_of_host = 0;
	const struct mesh_ud_peer *peer;
	const struct mesh_ud_qp *u;

	for (u = mesh_root.ud.qps; u; u = u->next)
		for (peer = u->peers; peer; peer = peer->next) {
			if (peer->spoken || now_ns - peer->used_at_ns >= UD_IDLE_NS)
				continue;
			n++;
			n_of_host += !memcmp(&peer->host_id, from, sizeof(*from));
		}
	if (n < UD_MAX_STRANGERS && (n_of_host < UD_MAX_OF_A_HOST || mv_host_id_is_zero(from)))
		return true;
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "datagrams of more peers behind other rails are lost: the program has sent nothing to %u, or %u of one host", UD_MAX_STRANGERS,
		    UD_MAX_OF_A_HOST);
	return false;
}

static uint64_t *until_of(bool spoken)
{
	return spoken ? &mesh_root.ud.spoken_until_ns : &mesh_root.ud.asked_until_ns;
}

bool mesh_ud_has_time(bool spoken, uint64_t now_ns)
{
	return *until_of(spoken) <= now_ns + AHEAD_NS;
}

void mesh_ud_spent_time(bool spoken, uint64_t began_ns)
{
	uint64_t *until_ns = until_of(spoken);

	*until_ns = (*until_ns > began_ns ? *until_ns : began_ns) + PART * (mesh_now_ns() - began_ns);
}
