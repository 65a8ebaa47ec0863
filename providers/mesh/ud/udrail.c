// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "udint.h"

/* Objects on one NIC: a pool of buffers with an SRQ for all UD QPs of the plugin there, and one CQ. */

#define LID_NS 50000000ull /* how long a LID that was asked for is used: each question of a peer needs one */

#define MEMORY_BYTES ((size_t)(UD_RECEIVES + UD_SENDS) * UD_BYTES)

static void release(struct mesh_ud_rail *rail)
{
	bool intact = mesh_rail_intact(rail->rail);

	if (rail->mr && intact)
		ibv_dereg_mr(rail->mr);
	if (rail->memory)
		munmap(rail->memory, MEMORY_BYTES);
	if (rail->srq)
		mesh_rail_destroy_srq(rail->rail, rail->srq);
	if (rail->cq && intact)
		ibv_destroy_cq(rail->cq);
	if (rail->pd && intact)
		ibv_dealloc_pd(rail->pd);
	mesh_rail_put(rail->rail);
	free(rail);
}

static bool fill(struct mesh_ud_rail *rail)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = UD_RECEIVES, .max_sge = 1}};
	void *memory;
	size_t i;

	rail->pd = ibv_alloc_pd(rail->rail->context);
	if (!rail->pd)
		return false;
	rail->cq = ibv_create_cq(rail->rail->context, (int)(UD_RECEIVES + UD_SENDS), NULL, rail->rail->channel, 0);
	rail->srq = rail->cq ? mesh_rail_create_srq(rail->rail, rail->pd, &srq) : NULL;
	if (!rail->srq)
		return false;
	memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	rail->memory = memory;
	rail->mr = ibv_reg_mr(rail->pd, memory, MEMORY_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!rail->mr)
		return false;
	for (i = 0; i < UD_RECEIVES; i++)
		mesh_ud_receive(rail, i);
	return !ibv_req_notify_cq(rail->cq, 0);
}

bool mesh_ud_has_outlet(const struct mesh_context *mc, const struct mesh_path_decision *decision, char *why,
			size_t why_size)
{
	int cancel = mesh_ud_lock();
	struct mesh_directory_rail place;
	bool has = false;
	size_t i;

	snprintf(why, why_size, "the rails are not in the directory any more");
	if (mesh_ud_rail_get(mc->device, why, why_size))
		for (i = 0; i < decision->n_paths && !has; i++)
			has = !mesh_directory_rail(&decision->paths[i].local_gid, decision->paths[i].type, &place) &&
			      mesh_ud_rail_get(place.device, why, why_size);
	mesh_ud_unlock(cancel);
	return has;
}

struct mesh_ud_rail *mesh_ud_rail_of(const struct mesh_rail *rail)
{
	struct mesh_ud_rail *r;

	for (r = mesh_root.ud.rails; r && r->rail != rail; r = r->next)
		;
	return r;
}

struct mesh_ud_rail *mesh_ud_rail_get(const char *device, char *why, size_t why_size)
{
	struct mesh_rail *rail = mesh_rail_get(device, why, why_size);
	struct mesh_ud_rail *r;

	if (!rail)
		return NULL;
	r = mesh_ud_rail_of(rail);
	if (r) {
		mesh_rail_put(rail);
		return r;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		mesh_rail_put(rail);
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	r->rail = rail;
	if (!fill(r)) {
		snprintf(why, why_size, "%s: %s", device, strerrordesc_np(errno));
		release(r);
		return NULL;
	}
	r->next = mesh_root.ud.rails;
	mesh_root.ud.rails = r;
	return r;
}

void mesh_ud_rail_lost(const struct mesh_rail *lost)
{
	int cancel = mesh_ud_lock();
	struct mesh_ud_rail **at, *rail;
	struct mesh_ud_port *port;
	size_t i;

	for (at = &mesh_root.ud.rails; *at && (*at)->rail != lost; at = &(*at)->next)
		;
	rail = *at;
	for (i = 0; rail && i < UD_BUCKETS; i++)
		while ((port = rail->ports[i])) {
			if (port->peer)
				mesh_ud_peer_free(port->peer);
			else
				mesh_ud_outlet_free(port);
		}
	if (rail) {
		*at = rail->next;
		release(rail);
	}
	mesh_ud_unlock(cancel);
}

void mesh_ud_receive(struct mesh_ud_rail *rail, size_t buffer)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)mesh_ud_buffer(rail, buffer),
		.length = UD_BYTES,
		.lkey = rail->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = buffer, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_srq_recv(rail->srq, &wr, &bad))
		mv_log_once(&mesh_root.log, MV_LOG_ERR, "%s: a buffer for datagrams is lost", rail->rail->device);
}

static struct mesh_ud_port **bucket(struct mesh_ud_rail *rail, uint32_t qpn)
{
	return &rail->ports[qpn % UD_BUCKETS];
}

struct mesh_ud_port *mesh_ud_port_find(struct mesh_ud_rail *rail, uint32_t qpn)
{
	struct mesh_ud_port *port = *bucket(rail, qpn);

	while (port && port->qp->qp_num != qpn)
		port = port->next;
	return port;
}

static int to_rts(struct ibv_qp *qp, uint8_t port_num, uint16_t pkey_index, uint32_t qkey)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = port_num,
		.pkey_index = pkey_index,
		.qkey = qkey,
	};
	int err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	attr.qp_state = IBV_QPS_RTR;
	if (!err)
		err = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (!err)
		err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return err;
}

static void ask_port(struct mesh_ud_port *port)
{
	struct ibv_port_attr attr = {0};

	if (ibv_query_port(port->rail->rail->context, port->port_num, &attr))
		return;
	port->max_bytes = 128u << attr.active_mtu; /* IBV_MTU_256 is 1 */
	port->infiniband = attr.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

uint16_t mesh_ud_port_lid(struct mesh_ud_port *port)
{
	uint64_t now_ns = mesh_now_ns();
	struct ibv_port_attr attr = {0};

	if (!port->infiniband || (port->lid_at_ns && now_ns < port->lid_at_ns + LID_NS))
		return port->lid;
	port->lid_at_ns = now_ns;
	port->lid = ibv_query_port(port->rail->rail->context, port->port_num, &attr) || !mv_lid_is_unicast(attr.lid) ? 0 : attr.lid;
	return port->lid;
}

struct mesh_ud_port *mesh_ud_port_new(struct mesh_ud_rail *rail, struct mesh_ud_qp *owner, uint8_t port_num,
				      uint16_t pkey_index, uint32_t qkey)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.srq = rail->srq,
		.cap = {.max_send_wr = UD_SENDS, .max_send_sge = 1},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};
	struct mesh_ud_port *port = calloc(1, sizeof(*port));
	int err;

	if (!port)
		return NULL;
	port->qp = ibv_create_qp(rail->pd, &init);
	if (!port->qp) {
		free(port);
		return NULL;
	}
	err = to_rts(port->qp, port_num, pkey_index, qkey);
	if (err) {
		ibv_destroy_qp(port->qp);
		free(port);
		errno = err < 0 ? errno : err;
		return NULL;
	}
	port->rail = rail;
	port->owner = owner;
	port->port_num = port_num;
	ask_port(port);
	port->next = *bucket(rail, port->qp->qp_num);
	*bucket(rail, port->qp->qp_num) = port;
	return port;
}

void mesh_ud_port_free(struct mesh_ud_port *port)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct mesh_ud_rail *rail;
	struct mesh_ud_port **at;
	bool intact;
	size_t i;

	if (!port)
		return;
	rail = port->rail;
	intact = mesh_rail_intact(rail->rail);
	/* Stop receiving, and poll all completions: destroying the QP would drop completions, and so lose buffers. */
	if (intact)
		ibv_modify_qp(port->qp, &err, IBV_QP_STATE);
	mesh_ud_poll(rail);
	for (at = bucket(rail, port->qp->qp_num); *at != port; at = &(*at)->next)
		;
	*at = port->next;
	if (intact)
		ibv_destroy_qp(port->qp);
	for (i = 0; i < UD_SENDS; i++)
		if (rail->senders[i] == port)
			rail->senders[i] = NULL;
	free(port);
}
