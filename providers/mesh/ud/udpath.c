// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "udint.h"

/* The path to a peer: an outlet here, the peer's outlet, and an address handle from one to the other. */

/* Index of the program's P_Key on a port of a NIC; without InfiniBand the default one. Return: 0; -ENOENT: there is none. */
static int pkey_index(const struct mesh_ud_qp *owner, struct mesh_rail *rail, const struct mesh_directory_rail *place,
		      uint16_t *ret_index)
{
	*ret_index = 0;
	if (place->link_layer != IBV_LINK_LAYER_INFINIBAND)
		return 0;
	return mesh_rail_find_pkey(rail, place->port, owner->qp->context, owner->port_num, owner->pkey_index, ret_index);
}

static bool has_same_partition(const struct ibv_pd *pd, uint8_t port_num, const struct mv_path *path)
{
	struct mesh_directory_rail place;
	struct mesh_rail *rail;
	char why[256];
	bool same;

	if (mesh_directory_rail(&path->local_gid, path->type, &place))
		return false;
	rail = mesh_rail_get(place.device, why, sizeof(why));
	same = rail && mesh_rail_has_one_partition(rail, place.port, pd->context, port_num);
	mesh_rail_put(rail);
	return same;
}

bool mesh_ud_is_heard_alike(const struct ibv_pd *pd, const struct ibv_ah_attr *attr, const struct mesh_path_decision *decision)
{
	size_t i;

	for (i = 0; i < decision->n_paths; i++)
		if (decision->paths[i].linked && mv_gid_equal(&decision->paths[i].remote_gid, &attr->grh.dgid) &&
		    has_same_partition(pd, attr->port_num, &decision->paths[i]))
			return true;
	return false;
}

struct mesh_ud_port *mesh_ud_outlet_on(struct mesh_ud_qp *owner, const union ibv_gid *gid, uint8_t type, char *why,
				       size_t why_size)
{
	struct mesh_directory_rail place;
	struct mesh_ud_port *outlet;
	struct mesh_ud_rail *rail;
	uint16_t pkey;

	if (mesh_directory_rail(gid, type, &place)) {
		snprintf(why, why_size, "the rail is not in the directory any more");
		return NULL;
	}
	rail = mesh_ud_rail_get(place.device, why, why_size);
	if (!rail)
		return NULL;
	for (outlet = owner->outlets; outlet; outlet = outlet->next_outlet)
		if (outlet->rail == rail && outlet->port_num == place.port)
			return outlet;
	if (pkey_index(owner, rail->rail, &place, &pkey)) {
		snprintf(why, why_size, "%s has not the P_Key of the program's port", place.device);
		return NULL;
	}
	outlet = mesh_ud_port_new(rail, owner, place.port, pkey, owner->qkey);
	if (!outlet) {
		snprintf(why, why_size, "no queue pair on %s: %s", place.device, strerrordesc_np(errno));
		return NULL;
	}
	outlet->next_outlet = owner->outlets;
	owner->outlets = outlet;
	return outlet;
}

/* The peer has no path any more. */
static void drop_path(struct mesh_ud_peer *peer)
{
	mesh_ud_free_ah(peer->outlet, peer->path_ah);
	peer->path_ah = NULL;
	peer->outlet = NULL;
	if (peer->state == MESH_UD_READY)
		mesh_ud_peer_ask(peer, mesh_now_ns());
}

void mesh_ud_outlet_free(struct mesh_ud_port *outlet)
{
	struct mesh_ud_qp *owner = outlet->owner;
	struct mesh_ud_port **at;
	struct mesh_ud_peer *peer;

	for (peer = owner->peers; peer; peer = peer->next) {
		peer->asking.request_id = 0; /* the last question may name this outlet */
		if (peer->old.outlet == outlet)
			peer->old.outlet = NULL;
		if (peer->outlet == outlet)
			drop_path(peer);
	}
	for (at = &owner->outlets; *at != outlet; at = &(*at)->next_outlet)
		;
	*at = outlet->next_outlet;
	mesh_ud_port_free(outlet);
}

bool mesh_ud_has_path(const struct mesh_ud_peer *peer, const union ibv_gid *gid, const struct mesh_ud_path *path)
{
	return peer->state == MESH_UD_READY && mv_gid_equal(&peer->outlet_gid, gid) && peer->path.qpn == path->qpn &&
	       peer->path.lid == path->lid && mv_gid_equal(&peer->path.gid, &path->gid);
}

/* Make an address handle for an outlet, with the program's attributes that are not of the path. Blocks the helper thread. */
static struct ibv_ah *handle_for(const struct mesh_ud_peer *peer, struct mesh_ud_port *outlet, uint8_t sgid_index,
				 const struct mesh_ud_path *path)
{
	struct ibv_ah_attr attr = peer->attr;
	uint64_t began_ns = mesh_now_ns();
	struct ibv_ah *ah;

	attr.port_num = outlet->port_num;
	attr.is_global = 1; /* on InfiniBand, ports of virtual functions share LIDs, and a port takes no GID that it has not */
	if (outlet->infiniband) {
		attr.dlid = path->lid;
		attr.src_path_bits = 0; /* the outlet is known by the base LID: is_from() in udrelay.c */
	}
	attr.grh.dgid = path->gid;
	attr.grh.sgid_index = sgid_index;
	if (attr.grh.hop_limit < 64)
		attr.grh.hop_limit = 64;
	if (mesh_ud_is_silent(outlet, &path->gid)) {
		errno = EHOSTUNREACH;
		return NULL;
	}
	ah = ibv_create_ah(outlet->rail->pd, &attr);
	if (!ah)
		mesh_ud_refused(outlet, &path->gid, errno, began_ns);
	return ah;
}

int mesh_ud_set_path(struct mesh_ud_peer *peer, struct mesh_ud_port *outlet, const union ibv_gid *gid, uint8_t type,
		     const struct mesh_ud_path *path)
{
	uint8_t sgid_index = 0;
	struct ibv_ah *ah;
	int err;

	if (mesh_ud_has_path(peer, gid, path) && peer->outlet == outlet)
		return 0;
	if (outlet->infiniband && !mv_lid_is_unicast(path->lid))
		err = -EADDRNOTAVAIL; /* the peer's plugin is an older one, which names no LID */
	else
		err = mesh_rail_find_gid(outlet->rail->rail, outlet->port_num, gid, type, &path->gid, &sgid_index);
	if (err)
		return err;
	ah = handle_for(peer, outlet, sgid_index, path);
	if (!ah)
		return mesh_failure();
	mesh_ud_free_ah(peer->outlet, peer->path_ah);
	peer->old.outlet = peer->outlet;
	peer->old.path = peer->path;
	peer->path_ah = ah;
	peer->outlet = outlet;
	peer->outlet_gid = *gid;
	peer->path = *path;
	return 0;
}
