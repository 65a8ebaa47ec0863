/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "conn.h"

#include <errno.h>
#include <string.h>

static uint64_t after_ms(uint64_t now_ns, uint32_t ms)
{
	return now_ns + (uint64_t)ms * 1000000;
}

uint32_t conn_ms(uint8_t n)
{
	return 1u << (n > 8 ? n - 8 : 0);
}

/* The local ACK timeout that follows from an HCA's delay and the life of a packet, both 2^n: as
 * ib_cm adds them. */
static uint8_t ack_timeout(uint8_t delay, uint8_t lifetime)
{
	int t = lifetime + 1;

	if (t >= delay)
		t += delay >= t - 1;
	else
		t = delay + (t >= delay - 1);
	return (uint8_t)(t < 31 ? t : 31);
}

static void begin(const struct conn *c, uint16_t attr, struct conn_out *out)
{
	out->send = true;
	out->mad = (struct mad){
		.attr = attr, .tid = c->tid, .local_id = c->local_id, .remote_id = c->remote_id};
}

static void add_private(struct mad *m, const uint8_t *data, uint8_t len)
{
	if (len > mad_private_size(m->attr))
		len = mad_private_size(m->attr);
	if (len)
		memcpy(m->private_data, data, len);
	m->private_len = len;
}

/* Repeat what is in @out until an answer comes. */
static void expect(struct conn *c, uint32_t timeout_ms, uint64_t now_ns, const struct conn_out *out)
{
	c->unanswered = out->mad;
	c->timeout_ms = timeout_ms;
	c->retries_left = c->max_retries;
	c->deadline_ns = after_ms(now_ns, timeout_ms);
}

static void enter_timewait(struct conn *c, uint64_t now_ns)
{
	c->state = CONN_TIMEWAIT;
	c->deadline_ns = after_ms(now_ns, conn_ms(c->ack_timeout));
}

static void enter(struct conn *c, enum conn_state state)
{
	c->state = state;
	c->deadline_ns = 0;
}

static void tell(struct conn_out *out, enum conn_event event, int status)
{
	out->event = event;
	out->status = status;
}

static void fill_path(const struct conn *c, struct mad_path *p)
{
	memcpy(p->local_gid, c->path.sgid, 16);
	memcpy(p->remote_gid, c->path.dgid, 16);
	p->subnet_local = c->path.slid;
	p->local_lid = c->path.slid ? c->path.slid : MAD_LID_PERMISSIVE;
	p->remote_lid = c->path.slid ? c->path.dlid : MAD_LID_PERMISSIVE;
	p->flow_label = c->path.flow_label;
	p->rate = c->path.rate;
	p->traffic_class = c->path.traffic_class;
	p->hop_limit = c->path.hop_limit;
	p->ack_timeout = c->ack_timeout;
}

int conn_connect(struct conn *c, const struct conn_param *p, uint64_t now_ns, struct conn_out *out)
{
	struct mad *m = &out->mad;

	memset(out, 0, sizeof(*out));
	if (c->state != CONN_IDLE)
		return -EINVAL;
	c->active = true;
	c->local_qpn = p->qpn;
	c->retry_count = p->retry_count < 7 ? p->retry_count : 7;
	c->rnr_retry_count = p->rnr_retry_count < 7 ? p->rnr_retry_count : 7;
	c->responder_resources = p->responder_resources;
	c->initiator_depth = p->initiator_depth;
	c->ack_timeout = ack_timeout(CM_ACK_DELAY, c->path.lifetime);
	c->max_retries = CM_MAX_RETRIES;
	begin(c, MAD_REQ, out);
	m->service_id = c->service_id;
	m->ca_guid = c->local_guid;
	m->qpn = p->qpn;
	m->responder_resources = p->responder_resources;
	m->initiator_depth = p->initiator_depth;
	m->req.remote_timeout = m->req.local_timeout = CM_RESPONSE_TIMEOUT;
	m->req.transport = c->transport;
	m->flow_control = p->flow_control;
	m->starting_psn = c->rq_psn;
	m->retry_count = c->retry_count;
	m->rnr_retry_count = c->rnr_retry_count;
	m->pkey = CM_PKEY;
	m->req.mtu = c->path.mtu;
	m->req.max_cm_retries = CM_MAX_RETRIES;
	m->srq = p->srq;
	fill_path(c, &m->req.path);
	add_private(m, p->private_data, p->private_len);
	c->state = CONN_REQ_SENT;
	expect(c, conn_ms(CM_RESPONSE_TIMEOUT) * 2 + conn_ms(c->path.lifetime), now_ns, out);
	return 0;
}

void conn_requested(struct conn *c, const struct mad *req)
{
	c->state = CONN_REQ_RCVD;
	c->tid = req->tid;
	c->remote_id = req->local_id;
	c->remote_guid = req->ca_guid;
	c->remote_qpn = req->qpn;
	c->service_id = req->service_id;
	c->transport = req->req.transport;
	c->sq_psn = req->starting_psn;
	/* What the one may start the other must be able to serve. */
	c->responder_resources = req->initiator_depth;
	c->initiator_depth = req->responder_resources;
	c->retry_count = req->retry_count;
	c->rnr_retry_count = req->rnr_retry_count;
	c->ack_timeout = req->req.path.ack_timeout;
	c->path.mtu = req->req.mtu;
	c->timeout_ms = conn_ms(req->req.local_timeout);
	c->max_retries = req->req.max_cm_retries;
}

int conn_accept(struct conn *c, const struct conn_param *p, uint64_t now_ns, struct conn_out *out)
{
	struct mad *m = &out->mad;

	memset(out, 0, sizeof(*out));
	if (c->state != CONN_REQ_RCVD)
		return -EINVAL;
	c->local_qpn = p->qpn;
	c->responder_resources = p->responder_resources;
	c->initiator_depth = p->initiator_depth;
	begin(c, MAD_REP, out);
	m->qpn = p->qpn;
	m->starting_psn = c->rq_psn;
	m->responder_resources = p->responder_resources;
	m->initiator_depth = p->initiator_depth;
	m->ack_delay = CM_ACK_DELAY;
	m->flow_control = p->flow_control;
	m->rnr_retry_count = p->rnr_retry_count < 7 ? p->rnr_retry_count : 7;
	m->srq = p->srq;
	m->ca_guid = c->local_guid;
	add_private(m, p->private_data, p->private_len);
	c->state = CONN_REP_SENT;
	expect(c, c->timeout_ms, now_ns, out);
	return 0;
}

int conn_ready(struct conn *c, struct conn_out *out)
{
	memset(out, 0, sizeof(*out));
	if (c->state != CONN_REP_RCVD)
		return -EINVAL;
	begin(c, MAD_RTU, out);
	enter(c, CONN_ESTABLISHED);
	return 0;
}

int conn_reject(struct conn *c, uint16_t reason, const uint8_t *data, uint8_t len,
		struct conn_out *out)
{
	bool request = c->state == CONN_REQ_RCVD || c->state == CONN_REP_SENT;

	memset(out, 0, sizeof(*out));
	if (!request && c->state != CONN_REP_RCVD)
		return -EINVAL;
	begin(c, MAD_REJ, out);
	out->mad.about = request ? MAD_ABOUT_REQ : MAD_ABOUT_REP;
	out->mad.rej.reason = reason;
	add_private(&out->mad, data, len);
	enter(c, CONN_IDLE);
	return 0;
}

int conn_disconnect(struct conn *c, uint64_t now_ns, struct conn_out *out)
{
	memset(out, 0, sizeof(*out));
	if (c->state == CONN_ESTABLISHED) {
		begin(c, MAD_DREQ, out);
		out->mad.qpn = c->remote_qpn;
		c->state = CONN_DREQ_SENT;
		expect(c, c->active ? conn_ms(CM_RESPONSE_TIMEOUT) : c->timeout_ms, now_ns, out);
		return 0;
	}
	if (c->state != CONN_DREQ_RCVD)
		return -EINVAL;
	begin(c, MAD_DREP, out);
	enter_timewait(c, now_ns);
	return 0;
}

int conn_notify(struct conn *c, struct conn_out *out)
{
	memset(out, 0, sizeof(*out));
	if (c->state != CONN_REP_SENT)
		return -EINVAL;
	enter(c, CONN_ESTABLISHED);
	tell(out, CONN_UP, 0);
	return 0;
}

void conn_close(struct conn *c, struct conn_out *out)
{
	memset(out, 0, sizeof(*out));
	switch (c->state) {
	case CONN_REQ_SENT:
		begin(c, MAD_REJ, out);
		out->mad.about = MAD_ABOUT_OTHER;
		out->mad.rej.reason = MAD_REJ_TIMEOUT;
		for (int i = 0; i < 8; i++)
			out->mad.rej.ari[i] = (uint8_t)(c->local_guid >> (56 - 8 * i));
		out->mad.rej.ari_len = 8;
		break;
	case CONN_REQ_RCVD:
	case CONN_REP_SENT:
	case CONN_REP_RCVD:
		conn_reject(c, MAD_REJ_CONSUMER, NULL, 0, out);
		break;
	case CONN_ESTABLISHED:
		begin(c, MAD_DREQ, out);
		out->mad.qpn = c->remote_qpn;
		break;
	case CONN_DREQ_RCVD:
		begin(c, MAD_DREP, out);
		break;
	case CONN_SIDR_REQ_RCVD:
		conn_tell(c, MAD_SIDR_REJECT, NULL, out);
		break;
	default:
		break;
	}
	enter(c, CONN_IDLE);
}

static void got_rep(struct conn *c, const struct mad *m, struct conn_out *out)
{
	switch (c->state) {
	case CONN_REQ_SENT:
		c->remote_id = m->local_id;
		c->remote_guid = m->ca_guid;
		c->remote_qpn = m->qpn;
		c->sq_psn = m->starting_psn;
		c->initiator_depth = m->responder_resources;
		c->responder_resources = m->initiator_depth;
		c->rnr_retry_count = m->rnr_retry_count;
		c->ack_timeout = ack_timeout(m->ack_delay, (uint8_t)(c->ack_timeout - 1));
		enter(c, CONN_REP_RCVD);
		tell(out, CONN_REP, 0);
		break;
	case CONN_REP_RCVD:
		begin(c, MAD_MRA, out);
		out->mad.about = MAD_ABOUT_REP;
		out->mad.service_timeout = CM_MRA_TIMEOUT;
		break;
	case CONN_ESTABLISHED:
		begin(c, MAD_RTU, out);
		break;
	default:
		break;
	}
}

static void got_req(struct conn *c, struct conn_out *out)
{
	if (c->state == CONN_REQ_RCVD) {
		begin(c, MAD_MRA, out);
		out->mad.about = MAD_ABOUT_REQ;
		out->mad.service_timeout = CM_MRA_TIMEOUT;
	} else if (c->state == CONN_TIMEWAIT) {
		begin(c, MAD_REJ, out);
		out->mad.about = MAD_ABOUT_REQ;
		out->mad.rej.reason = MAD_REJ_STALE_CONN;
	}
}

static void got_rej(struct conn *c, const struct mad *m, uint64_t now_ns, struct conn_out *out)
{
	switch (c->state) {
	case CONN_REQ_SENT:
	case CONN_REQ_RCVD:
	case CONN_REP_SENT:
	case CONN_REP_RCVD:
		enter(c, CONN_IDLE);
		break;
	case CONN_DREQ_SENT:
		enter_timewait(c, now_ns);
		break;
	default: /* a late one: the connection is up, or down */
		return;
	}
	tell(out, CONN_REJECTED, m->rej.reason);
}

static void got_dreq(struct conn *c, const struct mad *m, uint64_t now_ns, struct conn_out *out)
{
	switch (c->state) {
	case CONN_REP_SENT:
	case CONN_ESTABLISHED:
		c->tid = m->tid;
		enter(c, CONN_DREQ_RCVD);
		tell(out, CONN_DOWN, 0);
		break;
	case CONN_DREQ_SENT: /* both at once */
		c->tid = m->tid;
		begin(c, MAD_DREP, out);
		enter_timewait(c, now_ns);
		tell(out, CONN_DOWN, 0);
		break;
	case CONN_TIMEWAIT:
		c->tid = m->tid;
		begin(c, MAD_DREP, out);
		break;
	default:
		break;
	}
}

void conn_receive(struct conn *c, const struct mad *m, uint64_t now_ns, struct conn_out *out)
{
	memset(out, 0, sizeof(*out));
	switch (m->attr) {
	case MAD_REQ:
		got_req(c, out);
		break;
	case MAD_REP:
		got_rep(c, m, out);
		break;
	case MAD_RTU:
		if (c->state == CONN_REP_SENT)
			conn_notify(c, out);
		break;
	case MAD_MRA:
		if (c->state == CONN_REQ_SENT || c->state == CONN_REP_SENT)
			c->deadline_ns = after_ms(now_ns, conn_ms(m->service_timeout) +
								  conn_ms(c->path.lifetime));
		break;
	case MAD_REJ:
		got_rej(c, m, now_ns, out);
		break;
	case MAD_DREQ:
		got_dreq(c, m, now_ns, out);
		break;
	case MAD_DREP:
		if (c->state == CONN_DREQ_SENT) {
			enter_timewait(c, now_ns);
			tell(out, CONN_DOWN, 0);
		}
		break;
	case MAD_SIDR_REP:
		if (c->state == CONN_SIDR_REQ_SENT) {
			enter(c, CONN_IDLE);
			c->remote_qpn = m->qpn;
			tell(out, m->status ? CONN_UNREACHABLE : CONN_SIDR_REP, m->status);
		}
		break;
	default:
		break;
	}
}

/* Nobody answered, however often we asked. */
static void give_up(struct conn *c, uint64_t now_ns, struct conn_out *out)
{
	switch (c->state) {
	case CONN_REQ_SENT:
	case CONN_REP_SENT:
	case CONN_SIDR_REQ_SENT:
		enter(c, CONN_IDLE);
		tell(out, CONN_UNREACHABLE, -ETIMEDOUT);
		break;
	case CONN_DREQ_SENT:
		enter_timewait(c, now_ns);
		tell(out, CONN_DOWN, -ETIMEDOUT);
		break;
	default:
		c->deadline_ns = 0;
		break;
	}
}

void conn_timer(struct conn *c, uint64_t now_ns, struct conn_out *out)
{
	memset(out, 0, sizeof(*out));
	if (!c->deadline_ns || now_ns < c->deadline_ns)
		return;
	if (c->state == CONN_TIMEWAIT) {
		enter(c, CONN_IDLE);
		tell(out, CONN_TIMEWAIT_EXIT, 0);
	} else if (c->retries_left) {
		c->retries_left--;
		c->deadline_ns = after_ms(now_ns, c->timeout_ms);
		out->send = true;
		out->mad = c->unanswered;
	} else {
		give_up(c, now_ns, out);
	}
}

int conn_ask(struct conn *c, const uint8_t *data, uint8_t len, uint64_t now_ns,
	     struct conn_out *out)
{
	memset(out, 0, sizeof(*out));
	if (c->state != CONN_IDLE)
		return -EINVAL;
	c->active = true;
	c->max_retries = CM_MAX_RETRIES;
	begin(c, MAD_SIDR_REQ, out);
	out->mad.pkey = CM_PKEY;
	out->mad.service_id = c->service_id;
	add_private(&out->mad, data, len);
	c->state = CONN_SIDR_REQ_SENT;
	expect(c, conn_ms(CM_RESPONSE_TIMEOUT), now_ns, out);
	return 0;
}

void conn_asked(struct conn *c, const struct mad *req)
{
	c->state = CONN_SIDR_REQ_RCVD;
	c->tid = req->tid;
	c->remote_id = req->local_id;
	c->service_id = req->service_id;
}

int conn_tell(struct conn *c, uint8_t status, const struct conn_param *p, struct conn_out *out)
{
	memset(out, 0, sizeof(*out));
	if (c->state != CONN_SIDR_REQ_RCVD)
		return -EINVAL;
	begin(c, MAD_SIDR_REP, out);
	out->mad.local_id = c->remote_id; /* the request's */
	out->mad.service_id = c->service_id;
	out->mad.status = status;
	if (p) {
		out->mad.qpn = p->qpn;
		out->mad.qkey = p->qkey;
		add_private(&out->mad, p->private_data, p->private_len);
	}
	enter(c, CONN_IDLE);
	return 0;
}
