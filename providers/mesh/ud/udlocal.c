// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "udint.h"


/* Relays: the part of a path to a peer that is on the program's own NIC. */

struct mesh_ud_peer *mesh_ud_peer_find(struct mesh_ud_qp *owner, const union ibv_gid *gid, uint32_t qpn)
{
	struct mesh_ud_peer *peer;

	for (peer = owner->peers; peer; peer = peer->next)
		if (peer->end.qpn == qpn && mv_gid_equal(&peer->end.gid, gid))
			return peer;
	return NULL;
}

void mesh_ud_free_ah(const struct mesh_ud_port *from, struct ibv_ah *ah)
{
	if (ah && mesh_rail_intact(from->rail->rail))
		ibv_destroy_ah(ah);
}

void mesh_ud_peer_free(struct mesh_ud_peer *peer)
{
	struct mesh_ud_peer **at;

	for (at = &peer->owner->peers; *at && *at != peer; at = &(*at)->next)
		;
	if (*at) {
		*at = peer->next;
		mesh_root.ud.n_peers--;
	}
	peer->state = MESH_UD_FAILED;
	peer->asking.resend_at_ns = UINT64_MAX;
	mesh_ud_free_ah(peer->relay, peer->relay_ah);
	mesh_ud_free_ah(peer->outlet, peer->path_ah);
	mesh_ud_port_free(peer->relay);
	mesh_ud_flush_queued(peer);
	free(peer);
}

bool mesh_ud_make_room(uint64_t now_ns)
{
	struct mesh_ud_peer *peer, *oldest = NULL;
	struct mesh_ud_qp *u;

	if (mesh_root.ud.n_peers < UD_MAX_PEERS)
		return true;
	for (u = mesh_root.ud.qps; u; u = u->next)
		for (peer = u->peers; peer; peer = peer->next)
			if (!oldest || peer->used_at_ns < oldest->used_at_ns)
				oldest = peer;
	if (!oldest || now_ns - oldest->used_at_ns < UD_IDLE_NS)
		return false;
	mesh_ud_peer_free(oldest);
	return true;
}

/*
 * Handle from the relay to the program's own QP, by the GID that the peer's program knows. The GID table may have that GID
 * several times.
 */
static struct ibv_ah *loopback(struct mesh_ud_port *relay, const union ibv_gid *gid, uint8_t type)
{
	const uint8_t types[] = {type, MV_GID_TYPE_ROCE_V2, MV_GID_TYPE_ROCE_V1};
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = relay->port_num,
		.dlid = mesh_ud_port_lid(relay),
		.grh = {.dgid = *gid, .hop_limit = 64},
	};
	int err = -ENOENT;
	size_t i;

	for (i = 0; i < sizeof(types) && err; i++)
		err = mesh_rail_find_gid(relay->rail->rail, relay->port_num, gid, types[i], gid,
					 &attr.grh.sgid_index);
	if (err) {
		errno = -err;
		return NULL;
	}
	return ibv_create_ah(relay->rail->pd, &attr);
}

int mesh_ud_make_relay(struct mesh_ud_peer *peer, char *why, size_t why_size)
{
	struct mesh_ud_qp *owner = peer->owner;
	struct mesh_context *mc = owner->mc;
	struct mesh_ud_rail *rail = mesh_ud_rail_get(mc->device, why, why_size);

	if (!rail)
		return -EIO;
	snprintf(why, why_size, "no relay on %s", mc->device);
	peer->relay = mesh_ud_port_new(rail, owner, owner->port_num, owner->pkey_index, peer->qkey);
	if (!peer->relay)
		return mesh_failure();
	peer->relay->peer = peer;
	if (peer->relay->infiniband)
		peer->local_type = MV_GID_TYPE_IB;
	peer->relay_ah = loopback(peer->relay, &peer->local_gid, peer->local_type);
	return peer->relay_ah ? 0 : mesh_failure();
}

void mesh_ud_set_qkey(struct mesh_ud_peer *peer, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	attr.qkey = qkey = mesh_ud_relay_qkey(peer->owner, qkey);
	if (qkey != peer->qkey && !ibv_modify_qp(peer->relay->qp, &attr, IBV_QP_STATE | IBV_QP_QKEY))
		peer->qkey = qkey;
}
