/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connections of identifiers. The addresses of both ends travel in the private data of a request,
 * as annex A11 of the specification says.
 */
#include "cm.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#define IP_HEADER_BYTES 36

static void put_ip_header(const struct cm_id *id, uint8_t *h)
{
	uint16_t port = addr_port(&id->src);

	memset(h, 0, IP_HEADER_BYTES);
	h[1] = id->src.sa.sa_family == AF_INET6 ? 6 << 4 : 4 << 4;
	h[2] = (uint8_t)(port >> 8);
	h[3] = (uint8_t)port;
	addr_to_gid(&id->src, h + 4);
	addr_to_gid(&id->dst, h + 20);
	if (id->src.sa.sa_family == AF_INET) { /* in the last four bytes, the rest is zero */
		memset(h + 4, 0, 12);
		memset(h + 20, 0, 12);
	}
}

/* Return: 0, or -EPROTO for a header that says neither IPv4 nor IPv6. */
static int get_ip_header(const uint8_t *h, uint16_t port, union cm_addr *ret_src,
			 union cm_addr *ret_dst)
{
	uint16_t src_port = (uint16_t)(h[2] << 8 | h[3]);
	uint8_t src[16], dst[16];

	memcpy(src, h + 4, 16);
	memcpy(dst, h + 20, 16);
	if (h[1] >> 4 == 4) {
		memset(src + 10, 0xff, 2);
		memset(dst + 10, 0xff, 2);
		memset(src, 0, 10);
		memset(dst, 0, 10);
	} else if (h[1] >> 4 != 6) {
		return -EPROTO;
	}
	addr_from_gid(src, src_port, ret_src);
	addr_from_gid(dst, port, ret_dst);
	return 0;
}

/* id_send() - what the state machine wants to be sent. */
void id_send(struct cm *cm, struct cm_id *id, const struct conn_out *out)
{
	uint8_t bytes[MAD_BYTES];

	if (!out->send)
		return;
	mad_encode(&out->mad, bytes);
	cm->ops->send(cm->arg, &id->conn.path, bytes);
}

static void tell_ud(struct cm *cm, struct cm_id *id, uint32_t event, int status,
		    const struct mad *m)
{
	struct rdma_ucm_ud_param *p;
	struct cm_event *e;

	if (!id->uid || event_new(cm, id, event, status, &e))
		return;
	p = &e->resp.param.ud;
	if (event == EVENT_ESTABLISHED) {
		p->qp_num = m->qpn;
		p->qkey = m->qkey;
		id_ah_attr(id, &p->ah_attr);
	}
	p->private_data_len = m->private_len;
	memcpy(p->private_data, m->private_data, m->private_len);
	event_queue(cm, e);
}

static void tell_conn(struct cm *cm, struct cm_id *id, uint32_t event, int status,
		      const struct mad *m)
{
	struct cm_event *e;

	if (!id->uid || event_new(cm, id, event, status, &e))
		return;
	event_conn(e, m);
	event_queue(cm, e);
}

/* id_conn_event() - what the state machine has to tell; @m: the message that made it so, or NULL.
 */
void id_conn_event(struct cm *cm, struct cm_id *id, const struct conn_out *out, const struct mad *m)
{
	switch (out->event) {
	case CONN_NOTHING:
		break;
	case CONN_REP:
		tell_conn(cm, id, EVENT_CONNECT_RESPONSE, 0, m);
		break;
	case CONN_UP:
		id_event(cm, id, EVENT_ESTABLISHED,
			 0); /* private data of RTU, DREQ, DREP is not told */
		break;
	case CONN_REJECTED:
		tell_conn(cm, id, EVENT_REJECTED, out->status, m);
		break;
	case CONN_UNREACHABLE:
		if (m)
			tell_ud(cm, id, EVENT_UNREACHABLE, out->status, m);
		else
			id_event(cm, id, EVENT_UNREACHABLE, out->status);
		break;
	case CONN_DOWN:
		id_event(cm, id, EVENT_DISCONNECTED, out->status);
		break;
	case CONN_SIDR_REP:
		tell_ud(cm, id, EVENT_ESTABLISHED, 0, m);
		break;
	case CONN_TIMEWAIT_EXIT:
		id_event(cm, id, EVENT_TIMEWAIT_EXIT, 0);
		break;
	}
}

static struct conn_param param_of(const struct rdma_ucm_conn_param *p)
{
	return (struct conn_param){.qpn = p->qp_num & 0xffffff,
				   .qkey = p->qkey,
				   .responder_resources = p->responder_resources,
				   .initiator_depth = p->initiator_depth,
				   .retry_count = p->retry_count,
				   .rnr_retry_count = p->rnr_retry_count,
				   .flow_control = p->flow_control,
				   .srq = p->srq,
				   .private_data = p->private_data,
				   .private_len = p->private_data_len};
}

int id_connect(struct cm *cm, struct cm_id *id, const struct rdma_ucm_conn_param *p)
{
	bool ud = id->qp_type == IBV_QPT_UD;
	uint8_t room = mad_private_size(ud ? MAD_SIDR_REQ : MAD_REQ) - IP_HEADER_BYTES;
	uint8_t data[IP_HEADER_BYTES + RDMA_MAX_PRIVATE_DATA];
	struct conn_param param = param_of(p);
	struct conn_out out;
	int err;

	if (!p->valid || id->state != ID_ROUTE_RESOLVED || p->private_data_len > room)
		return -EINVAL;
	put_ip_header(id, data);
	memcpy(data + IP_HEADER_BYTES, p->private_data, p->private_data_len);
	param.private_data = data;
	param.private_len = (uint8_t)(IP_HEADER_BYTES + p->private_data_len);
	id->conn.service_id = (uint64_t)id->ps << 16 | addr_port(&id->dst);
	err = ud ? conn_ask(&id->conn, data, param.private_len, cm->now_ns, &out)
		 : conn_connect(&id->conn, &param, cm->now_ns, &out);
	if (err)
		return err;
	id->state = ID_CONNECT;
	id_send(cm, id, &out);
	return 0;
}

/* A side that got the answer to its own request passes no parameters: it is ready. */
int id_accept(struct cm *cm, struct cm_id *id, const struct rdma_ucm_conn_param *p)
{
	struct conn_param param = param_of(p);
	struct conn_out out;
	int err;

	if (id->state != ID_CONNECT)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD) {
		param.qkey = id->qkey = CM_UDP_QKEY;
		err = p->valid ? conn_tell(&id->conn, MAD_SIDR_OK, &param, &out) : -EINVAL;
	} else {
		err = p->valid ? conn_accept(&id->conn, &param, cm->now_ns, &out)
			       : conn_ready(&id->conn, &out);
	}
	if (err)
		id_reject(cm, id, NULL, 0, 0); /* rdma_cm lets the peer know */
	else
		id_send(cm, id, &out);
	return err;
}

int id_reject(struct cm *cm, struct cm_id *id, const uint8_t *data, uint8_t len, uint8_t reason)
{
	struct conn_param param = {.private_data = data, .private_len = len};
	struct conn_out out;
	int err;

	if (!reason)
		reason = MAD_REJ_CONSUMER;
	if (reason != MAD_REJ_CONSUMER && reason != MAD_REJ_UNSUPPORTED)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD)
		err = conn_tell(&id->conn, MAD_SIDR_REJECT, &param, &out);
	else
		err = conn_reject(&id->conn, reason, data, len, &out);
	if (!err)
		id_send(cm, id, &out);
	return err;
}

int id_disconnect(struct cm *cm, struct cm_id *id)
{
	struct conn_out out;

	if (!id->has_dev || id->state != ID_CONNECT)
		return -EINVAL;
	/* A connection that is down already is no error; nor are datagrams, which have none. */
	if (!conn_disconnect(&id->conn, cm->now_ns, &out))
		id_send(cm, id, &out);
	return 0;
}

static void refuse(struct cm *cm, const struct cm_path *back, const struct mad *m, bool nobody)
{
	struct mad answer = {.tid = m->tid, .service_id = m->service_id};
	uint8_t bytes[MAD_BYTES];

	if (m->attr == MAD_REQ) {
		answer.attr = MAD_REJ;
		answer.remote_id = m->local_id;
		answer.about = MAD_ABOUT_REQ;
		answer.rej.reason = nobody ? MAD_REJ_INVALID_SERVICE_ID : MAD_REJ_CONSUMER;
	} else {
		answer.attr = MAD_SIDR_REP;
		answer.local_id = m->local_id;
		answer.status = nobody ? MAD_SIDR_UNSUPPORTED : MAD_SIDR_REJECT;
	}
	mad_encode(&answer, bytes);
	cm->ops->send(cm->arg, back, bytes);
}

/* The path of a connection whose request came in over @back. */
static void set_path(struct cm *cm, struct cm_id *id, const struct cm_path *back,
		     const struct mad *m)
{
	struct cm_path *path = &id->conn.path;

	*path = *back;
	path->lifetime = CM_PACKET_LIFETIME;
	path->mtu = cm->state->devs[back->dev].ports[back->port - 1].active_mtu;
	if (m->attr == MAD_REQ) {
		path->flow_label = m->req.path.flow_label;
		path->traffic_class = m->req.path.traffic_class;
		path->hop_limit = m->req.path.hop_limit;
		path->rate = m->req.path.rate;
		if (path->slid) { /* believed, as ib_cm does */
			path->dlid = m->req.path.local_lid;
			memcpy(path->dgid, m->req.path.local_gid, 16);
		}
	}
	for (int i = 0; i < 8; i++)
		id->conn.local_guid =
			id->conn.local_guid << 8 | cm->state->devs[back->dev].node_guid[i];
	id->has_dev = id->has_route = true;
}

static int tell_request(struct cm *cm, struct cm_id *listener, struct cm_id *id,
			const struct mad *m)
{
	uint8_t len = (uint8_t)(m->private_len - IP_HEADER_BYTES);
	struct mad shown = *m;
	struct cm_event *e;

	if (event_new(cm, listener, EVENT_CONNECT_REQUEST, 0, &e))
		return -ENOMEM;
	shown.private_len = len;
	memmove(shown.private_data, m->private_data + IP_HEADER_BYTES, len);
	if (m->attr == MAD_REQ) {
		event_conn(e, &shown);
	} else {
		e->resp.param.ud.private_data_len = len;
		memcpy(e->resp.param.ud.private_data, shown.private_data, len);
	}
	e->request = id;
	listener->backlog--;
	event_queue(cm, e);
	return 0;
}

/* cm_requested() - a REQ or SIDR_REQ that belongs to nothing that is known. */
void cm_requested(struct cm *cm, const struct cm_path *back, const struct mad *m)
{
	uint16_t ps = (uint16_t)(m->service_id >> 16);
	struct cm_id *listener = NULL, *id;
	union cm_addr src, dst;

	if (!(m->service_id >> 32) &&
	    !get_ip_header(m->private_data, (uint16_t)m->service_id, &src, &dst))
		listener = port_listener(cm, ps, &dst);
	if (!listener || (listener->qp_type == IBV_QPT_UD) != (m->attr == MAD_SIDR_REQ)) {
		refuse(cm, back, m, true);
		return;
	}
	id = listener->backlog ? id_new(cm, listener->file, ps, listener->qp_type) : NULL;
	if (!id) {
		refuse(cm, back, m, false);
		return;
	}
	id->passive = true;
	id->state = ID_CONNECT;
	id->src = dst;
	id->dst = src;
	id->tos = listener->tos;
	set_path(cm, id, back, m);
	if (m->attr == MAD_REQ)
		conn_requested(&id->conn, m);
	else
		conn_asked(&id->conn, m);
	if (tell_request(cm, listener, id, m))
		id_destroy(cm, id);
}
