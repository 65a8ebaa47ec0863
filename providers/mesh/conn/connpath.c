// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "connpath.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "parity.h"
#include "vqp_failover.h"

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

struct mesh_conn_path *mesh_conn_path_to(struct mesh_conn *conn)
{
	return conn->state == MESH_CONN_HELD ? &conn->path : &conn->moving.next_path;
}

void mesh_conn_put_path(struct mesh_conn_path *path)
{
	if (path->pd)
		mesh_pd_put(path->pd);
	*path = (struct mesh_conn_path){0};
}

int mesh_conn_release_path(struct mesh_conn *conn)
{
	int err = 0;

	if (conn->state == MESH_CONN_HELD) {
		err = mesh_vqp_unprepare(conn->vqp);
	} else {
		mesh_conn_keys_begin(conn);
		mesh_failover_release(conn->vqp);
	}
	if (!err)
		mesh_conn_put_path(mesh_conn_path_to(conn));
	return err;
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
	return 0;
}

static int make_qp(struct mesh_conn *conn, struct mesh_conn_path *path, const struct mesh_shadow_attr *attr)
{
	if (conn->state == MESH_CONN_HELD)
		return mesh_vqp_prepare(conn->vqp, path->pd, attr, &path->qpn);
	if (!conn->move.early)
		return mesh_failover_prepare(conn->vqp, path->pd, attr, &path->qpn);
	path->qpn = mesh_failover_could_take(conn->vqp, path->pd, attr);
	return path->qpn ? 0 : -ENOENT;
}

int mesh_conn_make_path(struct mesh_conn *conn, const struct mv_move_action *action, char *why, size_t why_size)
{
	struct mesh_conn_path *path = mesh_conn_path_to(conn);
	int err = mesh_conn_open_path(conn, action, path, why, why_size);
	struct mesh_shadow_attr attr;

	if (err)
		return err;
	err = mesh_conn_shadow_attr(conn, path->pd->rail, path->port, path->gid_type, &attr);
	if (err) {
		snprintf(why, why_size, "%s has not the P_Key of the program's port", path->device);
		return err;
	}
	err = make_qp(conn, path, &attr);
	if (!err)
		err = mesh_conn_path_limits(conn, path, &path->mtu_bytes, &path->lid);
	if (err)
		snprintf(why, why_size, "a QP on %s", path->device);
	else
		mesh_thread_rail(path->pd->rail);
	return err;
}

int mesh_conn_shadow_rts(struct mesh_conn *conn)
{
	struct ibv_qp_attr attr = conn->attr.rts;

	if (conn->path.sq_psn != MV_CTL_PSN_NONE)
		attr.sq_psn = conn->path.sq_psn;
	return mesh_failover_sends(conn->vqp) ? 0 : mesh_vqp_rts(conn->vqp, &attr, conn->attr.rts_mask);
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

int mesh_conn_connect_path(struct mesh_conn *conn, struct mesh_conn_path *path, const struct mv_move_action *action)
{
	struct ibv_qp_attr rtr, rts = conn->attr.rts;
	bool held = conn->state == MESH_CONN_HELD;
	int err = mesh_conn_path_attr(conn, path, action, &rtr);

	if (err)
		return err;
	if (held) {
		err = mesh_vqp_connect(conn->vqp, &rtr, conn->attr.rtr_mask);
	} else {
		rtr.rq_psn = action->rq_psn;
		rts.sq_psn = action->sq_psn;
		err = mesh_failover_connect(conn->vqp, &rtr, conn->attr.rtr_mask, &rts, conn->attr.rts_mask);
	}
	path->connected = !err;
	return !err && held && conn->attr.rts_mask ? mesh_conn_shadow_rts(conn) : err;
}
