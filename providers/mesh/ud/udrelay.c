// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>
#include <string.h>

#include "udint.h"

/*
 * Relayed datagrams: from the program's QP through its relay to an outlet, and from an outlet through a relay to the program's
 * QP. They are copied, 4 KiB at most each, because buffers of one NIC are not registered on another.
 */

#define SEND_FLAG 0x10000u /* in wr_id, with the buffer's index */

static size_t free_buffer(const struct mesh_ud_rail *rail)
{
	size_t i;

	for (i = 0; i < UD_SENDS && rail->senders[i]; i++)
		;
	return i;
}

/* Without a free buffer the datagram is lost, as any may be. */
static void send_datagram(struct mesh_ud_port *from, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey,
			  const struct mesh_ud_datagram *d)
{
	struct mesh_ud_rail *rail = from->rail;
	size_t buffer = free_buffer(rail);
	struct ibv_sge sge = {.length = d->length, .lkey = rail->mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = buffer | SEND_FLAG,
		.sg_list = &sge,
		.num_sge = d->length ? 1 : 0,
		.opcode = d->has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
		.imm_data = d->imm,
		.wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = qkey},
	}, *bad;

	if (d->length > from->max_bytes) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "datagrams of %u bytes are too long for %s and are lost", d->length,
			    rail->rail->device);
		return;
	}
	if (buffer == UD_SENDS)
		return;
	sge.addr = (uintptr_t)mesh_ud_buffer(rail, UD_RECEIVES + buffer);
	memcpy(mesh_ud_buffer(rail, UD_RECEIVES + buffer), d->bytes, d->length);
	if (!ibv_post_send(from->qp, &wr, &bad))
		rail->senders[buffer] = from;
}

/* ---- out ----------------------------------------------------------------------------------------------------- */

static void keep(struct mesh_ud_peer *peer, const struct mesh_ud_datagram *d)
{
	struct mesh_ud_queued *queued, **at;

	if (peer->queued.n == UD_MAX_QUEUED) {
		queued = peer->queued.oldest;
		peer->queued.oldest = queued->next;
		peer->queued.n--;
		free(queued);
	}
	queued = malloc(sizeof(*queued) + d->length);
	if (!queued)
		return;
	memcpy(queued->bytes, d->bytes, d->length);
	queued->datagram = *d;
	queued->datagram.bytes = queued->bytes;
	queued->next = NULL;
	for (at = &peer->queued.oldest; *at; at = &(*at)->next)
		;
	*at = queued;
	peer->queued.n++;
}

static void to_peer(struct mesh_ud_peer *peer, const struct mesh_ud_datagram *d)
{
	send_datagram(peer->outlet, peer->path_ah, peer->path.qpn, peer->qkey, d);
}

void mesh_ud_flush_queued(struct mesh_ud_peer *peer)
{
	struct mesh_ud_queued *queued;

	while ((queued = peer->queued.oldest)) {
		peer->queued.oldest = queued->next;
		if (peer->state == MESH_UD_READY)
			to_peer(peer, &queued->datagram);
		free(queued);
	}
	peer->queued.n = 0;
}

static void relay_out(struct mesh_ud_peer *peer, uint32_t src_qpn, const struct mesh_ud_datagram *d)
{
	uint64_t now = mesh_now_ns();

	if (src_qpn != peer->owner->qpn)
		return; /* the peer could not be told the sender */
	peer->used_at_ns = now;
	if (peer->state == MESH_UD_READY) {
		to_peer(peer, d);
		return;
	}
	if (peer->state == MESH_UD_FAILED && now >= peer->asking.resend_at_ns)
		mesh_ud_peer_ask(peer, now);
	if (peer->state == MESH_UD_ASKING)
		keep(peer, d);
}

/* ---- in ------------------------------------------------------------------------------------------------------ */

/* Was the datagram sent by that NIC? An IPv4 header is in the second half of the GRH. The simulator's InfiniBand has no GRHs. */
static bool is_from(const struct mesh_ud_port *outlet, const struct ibv_wc *wc, const uint8_t *grh, const struct mesh_ud_path *path)
{
	const union ibv_gid *gid = &path->gid;

	if (outlet->infiniband)
		return wc->slid == path->lid && (!(wc->wc_flags & IBV_WC_GRH) || !memcmp(grh + 8, gid->raw, 16));
	if (mv_gid_family(gid) == MV_FAMILY_IPV4)
		return grh[20] >> 4 == 4 && !memcmp(grh + 32, gid->raw + 12, 4);
	return grh[0] >> 4 == 6 && !memcmp(grh + 8, gid->raw, 16);
}

/* The peer that sends from there to this outlet; NULL: no path was agreed with the sender. */
static struct mesh_ud_peer *sender(const struct mesh_ud_port *outlet, const struct ibv_wc *wc, const uint8_t *grh)
{
	struct mesh_ud_peer *peer, *old = NULL;

	for (peer = outlet->owner->peers; peer; peer = peer->next) {
		if (peer->outlet == outlet && peer->path.qpn == wc->src_qp && is_from(outlet, wc, grh, &peer->path))
			return peer;
		if (!old && peer->old.outlet == outlet && peer->old.path.qpn == wc->src_qp &&
		    is_from(outlet, wc, grh, &peer->old.path))
			old = peer;
	}
	return old;
}

static void relay_in(struct mesh_ud_port *outlet, const struct ibv_wc *wc, const uint8_t *grh,
		     const struct mesh_ud_datagram *d)
{
	struct mesh_ud_qp *owner = outlet->owner;
	struct mesh_ud_peer *peer = sender(outlet, wc, grh);

	if (!peer)
		return;
	peer->used_at_ns = mesh_now_ns();
	send_datagram(peer->relay, peer->relay_ah, owner->qpn, owner->qkey, d);
}

/* ---- completions --------------------------------------------------------------------------------------------- */

static void received(struct mesh_ud_rail *rail, const struct ibv_wc *wc)
{
	const uint8_t *bytes = mesh_ud_buffer(rail, wc->wr_id);
	struct mesh_ud_port *port = mesh_ud_port_find(rail, wc->qp_num);
	struct mesh_ud_datagram d = {
		.bytes = bytes + UD_GRH_BYTES,
		.length = wc->byte_len - UD_GRH_BYTES,
		.has_imm = wc->wc_flags & IBV_WC_WITH_IMM,
		.imm = wc->imm_data,
	};

	if (wc->status == IBV_WC_SUCCESS && port && wc->byte_len >= UD_GRH_BYTES &&
	    (port->infiniband || wc->wc_flags & IBV_WC_GRH)) {
		if (port->peer)
			relay_out(port->peer, wc->src_qp, &d);
		else
			relay_in(port, wc, bytes, &d);
	}
	mesh_ud_receive(rail, wc->wr_id);
}

bool mesh_ud_sending(const struct mesh_ud_qp *u)
{
	const struct mesh_ud_rail *rail;
	size_t i;

	for (rail = mesh_root.ud.rails; rail; rail = rail->next)
		for (i = 0; i < UD_SENDS; i++)
			if (rail->senders[i] && !rail->senders[i]->peer && rail->senders[i]->owner == u)
				return true;
	return false;
}

/*
 * A NIC may receive faster than this thread copies. So a call ends after as many completions as the CQ can have had when the call
 * began. A caller that has armed the CQ before the call gets an event for later ones.
 */
bool mesh_ud_poll(struct mesh_ud_rail *rail)
{
	unsigned int n_polled = 0;
	struct ibv_wc wc[16];
	int n, i;

	while (n_polled < UD_RECEIVES + UD_SENDS && (n = ibv_poll_cq(rail->cq, 16, wc)) > 0) {
		n_polled += (unsigned int)n;
		for (i = 0; i < n; i++) {
			if (wc[i].wr_id & SEND_FLAG)
				rail->senders[wc[i].wr_id & ~SEND_FLAG] = NULL;
			else
				received(rail, &wc[i]);
		}
	}
	return n_polled;
}

bool mesh_ud_event(struct mesh_rail *rail, struct ibv_cq *cq)
{
	int cancel = mesh_ud_lock();
	struct mesh_ud_rail *r = mesh_ud_rail_of(rail);
	bool ours = r && r->cq == cq;

	if (ours) {
		ibv_req_notify_cq(cq, 0);
		mesh_ud_poll(r);
	}
	mesh_ud_unlock(cancel);
	return ours;
}
