/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* An arrived frame: to which queue pair, and may it. */
#include "hca.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

static void count(_Atomic uint64_t *c)
{
	atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
}

static uint32_t port_of(const struct qp *qp)
{
	return qp->type == IBV_QPT_UD ? qp->attr.port : qp->attr.av_port;
}

/** qp_pkey() - what its packets carry; 0: its place of the table is empty. A port of which nothing is said has the default partition. */
uint16_t qp_pkey(const struct qp *qp)
{
	const struct sim_port *port = &qp->dev->ports[port_of(qp) - 1];

	if (!port->pkeys[0])
		return 0xffff;
	return qp->attr.pkey_index < SIM_MAX_PKEYS ? port->pkeys[qp->attr.pkey_index] : 0;
}

/* The same partition, and not limited members both (IBTA 10.9.3). */
static bool pkey_matches(const struct qp *qp, uint16_t pkey)
{
	uint16_t own = qp_pkey(qp);

	return (own & 0x7fff) && !((own ^ pkey) & 0x7fff) && ((own | pkey) & 0x8000);
}

static bool transport_matches(const struct qp *qp, uint8_t opcode)
{
	switch (opcode & OP_TRANSPORT) {
	case 0:
		return qp->type == IBV_QPT_RC;
	case OP_UC:
		return qp->type == IBV_QPT_UC;
	case OP_UD:
		return qp->type == IBV_QPT_UD;
	default:
		return false;
	}
}

static bool receives(const struct qp *qp)
{
	switch (qp->state) {
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
	case IBV_QPS_SQE:
		return true;
	default:
		return false;
	}
}

static bool port_has_gid(struct sim_port *port, const struct wire_packet *p)
{
	uint8_t type = p->v1 ? SIM_GID_ROCE_V1 : SIM_GID_ROCE_V2;
	bool found;
	uint32_t s;

	do {
		s = sim_port_read_begin(port);
		found = false;
		for (uint32_t i = 0; i < port->n_gids && i < SIM_MAX_GIDS && !found; i++)
			found = port->gids[i].type == type &&
				!memcmp(port->gids[i].raw, p->dgid, 16);
	} while (sim_port_read_retry(port, s));
	return found;
}

/* A connected queue pair takes packets of its one peer only, both addresses checked. */
static bool addresses_match(struct hca *h, struct qp *qp, const struct wire_packet *p)
{
	if (qp->type == IBV_QPT_UD) {
		struct sim_port *port = &qp->dev->ports[qp->attr.port - 1];

		if (port->link_layer == SIM_LINK_INFINIBAND)
			return lid_of_address(h->state, p->dgid) == port->lid;
		return port_has_gid(port, p);
	}
	return path_refresh(h, qp->dev, qp->attr.av_port, &qp->path) && p->v1 == qp->path.wire.v1 &&
	       !memcmp(p->dgid, qp->path.wire.sgid, 16) && !memcmp(p->sgid, qp->path.wire.dgid, 16);
}

static void to_qp(struct qp *qp, const struct wire_packet *p)
{
	switch (qp->type) {
	case IBV_QPT_RC:
		if (wire_op_flags(p->opcode) & WIRE_RESPONSE)
			rc_req_response(qp, p);
		else
			rc_resp_request(qp, p);
		break;
	case IBV_QPT_UC:
		uc_receive(qp, p);
		break;
	case IBV_QPT_UD:
		ud_receive(qp, p);
		break;
	}
}

/* The first request before RTS: a server that waits for nothing else learns that its peer is there. */
static void deliver(struct qp *qp, const struct wire_packet *p)
{
	if (qp->state == IBV_QPS_RTR && qp->type != IBV_QPT_UD && !qp->resp.established) {
		qp->resp.established = true;
		qp_async(qp, IBV_EVENT_COMM_EST);
	}
	to_qp(qp, p);
}

static bool port_up(const struct qp *qp)
{
	return qp->dev->ports[port_of(qp) - 1].state == SIM_PORT_ACTIVE && !qp_dead(qp);
}

static void multicast(struct hca *h, const struct wire_packet *p)
{
	struct qp *qp;

	LIST_FOREACH(qp, &h->all_qps, link) {
		if (qp->type != IBV_QPT_UD || !receives(qp) || !qp->attr.port || !port_up(qp))
			continue;
		for (uint32_t i = 0; i < qp->mcast.n; i++)
			if (!memcmp(qp->mcast.groups[i].gid, p->dgid, 16)) {
				ud_receive(qp, p);
				break;
			}
	}
}

/** net_deliver() - one frame. @ifindex: 0 for one from the wire, not 0 for one that a fault had
 * held back. */
void net_deliver(struct hca *h, uint8_t *frame, size_t len, uint32_t held_back)
{
	struct wire_packet p;
	struct sim_counters *c;
	uint32_t delay_us = 0;
	struct qp *qp;
	int err = wire_decode(frame, len, &p);

	if (err == -EPROTO)
		return;
	if (!err && p.dest_qpn == WIRE_MCAST_QPN) {
		multicast(h, &p);
		return;
	}
	if (err) {
		/* Which port is not known for sure; count it where the process' first device is. */
		if (!LIST_EMPTY(&h->contexts))
			count(&LIST_FIRST(&h->contexts)->dev->ports[0].counters.rx_icrc_errors);
		return;
	}
	qp = qp_find(h, p.dest_qpn);
	if (!qp || !receives(qp) || !port_of(qp) || !port_up(qp))
		return;
	c = &qp->dev->ports[port_of(qp) - 1].counters;
	if (!transport_matches(qp, p.opcode) || !pkey_matches(qp, p.pkey) || !addresses_match(h, qp, &p)) {
		count(&c->rx_no_qp);
		return;
	}
	count(&c->rx_packets);
	atomic_fetch_add_explicit(&c->rx_bytes, len, memory_order_relaxed);
	switch (held_back ? SIM_FAULT_OFF
			  : fault_check(h, SIM_FAULT_RX, qp->dev_index, port_of(qp), qp->qpn,
					p.opcode, p.syndrome, &delay_us)) {
	case SIM_FAULT_DROP:
		return;
	case SIM_FAULT_CORRUPT:
		count(&c->rx_icrc_errors);
		return;
	case SIM_FAULT_DELAY:
		fault_delay(h, true, 1, frame, len, delay_us);
		return;
	case SIM_FAULT_DUPLICATE:
		deliver(qp, &p);
		break;
	default:
		break;
	}
	deliver(qp, &p);
}
