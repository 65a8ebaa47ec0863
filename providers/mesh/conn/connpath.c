// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "connpath.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "parity.h"

/* A port query is reused for this long. */
#define PORT_NS 50000000ull

/* P_Key index of the program's QP. */

static uint16_t own_pkey_index(const struct mesh_conn *conn)
{
	return conn->attr.rtr_mask & IBV_QP_PKEY_INDEX ? conn->attr.rtr.pkey_index : conn->attr.init.pkey_index;
}

/* Index of the program's P_Key on a port of a NIC. Return: 0; -ENOENT: that port lacks the P_Key. */
static int pkey_index(const struct mesh_conn *conn, struct mesh_rail *rail, uint8_t port, uint8_t gid_type, uint16_t *ret_index)
{
	*ret_index = own_pkey_index(conn);
	if (gid_type != MV_GID_TYPE_IB)
		return 0;
	return mesh_rail_find_pkey(rail, port, conn->qp->context, conn->attr.rtr.ah_attr.port_num, *ret_index, ret_index);
}

int mesh_conn_shadow_attr(const struct mesh_conn *conn, struct mesh_rail *rail, uint8_t port, uint8_t gid_type, struct mesh_shadow_attr *ret)
{
	*ret = (struct mesh_shadow_attr){.port_num = port, .qp_access_flags = conn->attr.init.qp_access_flags};
	return pkey_index(conn, rail, port, gid_type, &ret->pkey_index);
}

static enum ibv_mtu mtu_of(unsigned int bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && mesh_mtu_bytes(mtu) > bytes)
		mtu--;
	return mtu;
}

int mesh_conn_release_path(struct mesh_conn *conn)
{
	int err = conn->vqp ? mesh_vqp_unprepare(conn->vqp) : 0;

	if (err)
		return err;
	if (conn->path.pd)
		mesh_pd_put(conn->path.pd);
	conn->path.pd = NULL;
	conn->shadow.connected = false;
	conn->shadow.rts = false;
	return 0;
}

/* Query the port, once for hundreds of connections that move together. */
static int ask_port(struct mesh_rail *rail, uint8_t port_num)
{
	uint64_t now_ns = mesh_now_ns(), old_ns = 0;
	struct ibv_port_attr port;
	int command, err;

	mesh_lock(&rail->gid_lock);
	if (rail->asked_port == port_num)
		old_ns = rail->asked_ns;
	mesh_unlock(&rail->gid_lock);
	/* For a NIC whose firmware hangs, an old answer is used. */
	if (old_ns && (now_ns < old_ns + PORT_NS || mesh_device_stuck(rail->commands)))
		return 0;
	command = mesh_command_begin(rail->commands);
	err = ibv_query_port(rail->context, port_num, &port);
	mesh_command_end(rail->commands, command);
	if (err)
		return -EIO;
	mesh_lock(&rail->gid_lock);
	rail->asked_ns = now_ns;
	rail->asked_port = port_num;
	rail->active_mtu = (uint8_t)port.active_mtu;
	rail->lid = port.lid;
	mesh_unlock(&rail->gid_lock);
	return 0;
}

int mesh_conn_path_limits(const struct mesh_conn *conn, const struct mesh_conn_path *path, uint16_t *ret_mtu_bytes,
			  uint16_t *ret_lid)
{
	struct mesh_rail *rail = path->pd->rail;
	unsigned int mtu;

	if (ask_port(rail, path->port))
		return -EIO;
	mesh_lock(&rail->gid_lock);
	mtu = mesh_mtu_bytes(rail->active_mtu);
	*ret_lid = rail->lid;
	mesh_unlock(&rail->gid_lock);
	if ((conn->attr.rtr_mask & IBV_QP_PATH_MTU) && mesh_mtu_bytes(conn->attr.rtr.path_mtu) < mtu)
		mtu = mesh_mtu_bytes(conn->attr.rtr.path_mtu);
	*ret_mtu_bytes = (uint16_t)mtu;
	/* The subnet manager has not assigned a LID. */
	return path->gid_type == MV_GID_TYPE_IB && !mv_lid_is_unicast(*ret_lid) ? -EIO : 0;
}

/*
 * The armed PD on @device, which saves a look-up. The helper thread checks from time to time that the rail's descriptors are
 * still its own: six system calls for each of hundreds of moves would take longer than all else here.
 */
static struct mesh_pd *standby_pd_on(const struct mesh_conn *conn, const char *device)
{
	struct mesh_pd *standby_pd = conn->primary.standby_pd;

	if (!standby_pd || mesh_rail_lost(standby_pd->rail) || mesh_rail_taken(standby_pd->rail) ||
	    strcmp(standby_pd->rail->device, device))
		return NULL;
	return mesh_pd_ref(standby_pd);
}

static struct mesh_pd *pd_on(struct mesh_conn *conn, const char *device, char *why, size_t why_size)
{
	struct mesh_pd *pd = standby_pd_on(conn, device);
	struct mesh_rail *rail = pd ? NULL : mesh_rail_get(device, why, why_size);

	if (rail)
		pd = mesh_pd_get(conn->mc, conn->qp->pd, rail, why, why_size);
	mesh_rail_put(rail); /* the PD has a reference */
	return pd;
}

int mesh_conn_open_path(struct mesh_conn *conn, const struct mv_move_action *action, struct mesh_conn_path *ret,
			char *why, size_t why_size)
{
	struct mesh_directory_rail place;
	int err;

	err = mesh_directory_rail(&action->local_gid, action->gid_type, &place);
	if (err) {
		snprintf(why, why_size, "the rail is not in the directory any more");
		return err;
	}
	/* The peer says that its routes lead here; routes of this host have to lead there, too. */
	if (!mesh_directory_may_join(&action->local_gid, &action->remote_gid)) {
		snprintf(why, why_size, "no route of this host leads there");
		return -EHOSTUNREACH;
	}
	ret->pd = pd_on(conn, place.device, why, why_size);
	if (!ret->pd)
		return -EIO;
	memcpy(ret->device, place.device, sizeof(ret->device));
	ret->port = place.port;
	ret->gid = action->local_gid;
	ret->gid_type = action->gid_type;
	ret->sq_psn = MV_CTL_PSN_NONE;
	return 0;
}

int mesh_conn_shadow_rts(struct mesh_conn *conn)
{
	struct ibv_qp_attr attr = conn->attr.rts;
	int err;

	if (conn->shadow.rts)
		return 0;
	if (conn->path.sq_psn != MV_CTL_PSN_NONE)
		attr.sq_psn = conn->path.sq_psn;
	err = mesh_vqp_rts(conn->vqp, &attr, conn->attr.rts_mask);
	if (!err)
		conn->shadow.rts = true;
	return err;
}

const char *mesh_conn_why_not_connected(const struct mesh_conn *conn, int err)
{
	const char *poorer = mesh_parity_why(conn->vqp);

	return err == -EOPNOTSUPP && poorer ? poorer : strerrordesc_np(-err);
}

int mesh_conn_path_attr(const struct mesh_conn *conn, const struct mesh_conn_path *path,
			const struct mv_move_action *action, struct ibv_qp_attr *ret)
{
	*ret = conn->attr.rtr;
	ret->dest_qp_num = action->peer.qpn;
	ret->path_mtu = mtu_of(action->mtu_bytes);
	ret->ah_attr.port_num = path->port;
	ret->ah_attr.dlid = action->peer_lid;
	ret->ah_attr.grh.dgid = action->peer.gid;
	if (path->gid_type == MV_GID_TYPE_IB) {
		int err = pkey_index(conn, path->pd->rail, path->port, path->gid_type, &ret->pkey_index);

		ret->ah_attr.src_path_bits = 0; /* the peer knows the base LID */
		if (err || !ret->ah_attr.is_global)
			return err;
	}
	ret->ah_attr.is_global = 1;
	/* A small hop limit was meant for the program's own path. */
	if (path->gid_type != MV_GID_TYPE_IB && ret->ah_attr.grh.hop_limit < 64)
		ret->ah_attr.grh.hop_limit = 64;
	return mesh_rail_recall_gid(path->pd->rail, path->port, &path->gid, path->gid_type, &action->peer.gid,
				    &ret->ah_attr.grh.sgid_index);
}
