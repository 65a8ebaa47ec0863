/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "mad.h"

#include <errno.h>
#include <string.h>

#define HEADER_BYTES  24
#define BASE_VERSION  1
#define CLASS_CM      0x07
#define CLASS_VERSION 2
#define METHOD_SEND   0x03

/* Where the private data of each message begins, behind the header, and how long it is. */
static const struct layout {
	uint8_t at, len;
} private[] = {
	[MAD_REQ] = {140, 92}, [MAD_MRA] = {10, 222},      [MAD_REJ] = {84, 148},
	[MAD_REP] = {36, 196}, [MAD_RTU] = {8, 224},       [MAD_DREQ] = {12, 220},
	[MAD_DREP] = {8, 224}, [MAD_SIDR_REQ] = {16, 216}, [MAD_SIDR_REP] = {96, 136},
};

static uint64_t get(const uint8_t *p, int n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

static void put(uint8_t *p, int n, uint64_t v)
{
	for (; n--; v >>= 8)
		p[n] = (uint8_t)v;
}

uint8_t mad_private_size(uint16_t attr)
{
	return attr < sizeof(private) / sizeof(private[0]) ? private[attr].len : 0;
}

static void put_req(const struct mad *m, uint8_t *b)
{
	const struct mad_path *p = &m->req.path;

	put(b, 4, m->local_id);
	put(b + 8, 8, m->service_id);
	put(b + 16, 8, m->ca_guid);
	put(b + 32, 3, m->qpn);
	b[35] = m->responder_resources;
	b[39] = m->initiator_depth;
	b[43] = (uint8_t)(m->req.remote_timeout << 3 | (m->req.transport & 3) << 1 | m->flow_control);
	put(b + 44, 3, m->starting_psn);
	b[47] = (uint8_t)(m->req.local_timeout << 3 | (m->retry_count & 7));
	put(b + 48, 2, m->pkey);
	b[50] = (uint8_t)(m->req.mtu << 4 | (m->rnr_retry_count & 7));
	b[51] = (uint8_t)(m->req.max_cm_retries << 4 | m->srq << 3);
	put(b + 52, 2, p->local_lid);
	put(b + 54, 2, p->remote_lid);
	memcpy(b + 56, p->local_gid, 16);
	memcpy(b + 72, p->remote_gid, 16);
	put(b + 88, 4, (uint64_t)(p->flow_label & 0xfffff) << 12 | (p->rate & 0x3f));
	b[92] = p->traffic_class;
	b[93] = p->hop_limit;
	b[94] = (uint8_t)(p->sl << 4 | p->subnet_local << 3);
	b[95] = (uint8_t)(p->ack_timeout << 3);
}

static void get_req(struct mad *m, const uint8_t *b)
{
	struct mad_path *p = &m->req.path;

	m->local_id = (uint32_t)get(b, 4);
	m->service_id = get(b + 8, 8);
	m->ca_guid = get(b + 16, 8);
	m->qpn = (uint32_t)get(b + 32, 3);
	m->responder_resources = b[35];
	m->initiator_depth = b[39];
	m->req.remote_timeout = b[43] >> 3;
	m->req.transport = b[43] >> 1 & 3;
	m->flow_control = b[43] & 1;
	m->starting_psn = (uint32_t)get(b + 44, 3);
	m->req.local_timeout = b[47] >> 3;
	m->retry_count = b[47] & 7;
	m->pkey = (uint16_t)get(b + 48, 2);
	m->req.mtu = b[50] >> 4;
	m->rnr_retry_count = b[50] & 7;
	m->req.max_cm_retries = b[51] >> 4;
	m->srq = b[51] >> 3 & 1;
	p->local_lid = (uint16_t)get(b + 52, 2);
	p->remote_lid = (uint16_t)get(b + 54, 2);
	memcpy(p->local_gid, b + 56, 16);
	memcpy(p->remote_gid, b + 72, 16);
	p->flow_label = (uint32_t)get(b + 88, 4) >> 12;
	p->rate = b[91] & 0x3f;
	p->traffic_class = b[92];
	p->hop_limit = b[93];
	p->sl = b[94] >> 4;
	p->subnet_local = b[94] >> 3 & 1;
	p->ack_timeout = b[95] >> 3;
}

static void put_rep(const struct mad *m, uint8_t *b)
{
	put(b + 12, 3, m->qpn);
	put(b + 20, 3, m->starting_psn);
	b[24] = m->responder_resources;
	b[25] = m->initiator_depth;
	b[26] = (uint8_t)(m->ack_delay << 3 | (m->failover & 3) << 1 | m->flow_control);
	b[27] = (uint8_t)(m->rnr_retry_count << 5 | m->srq << 4);
	put(b + 28, 8, m->ca_guid);
}

static void get_rep(struct mad *m, const uint8_t *b)
{
	m->qpn = (uint32_t)get(b + 12, 3);
	m->starting_psn = (uint32_t)get(b + 20, 3);
	m->responder_resources = b[24];
	m->initiator_depth = b[25];
	m->ack_delay = b[26] >> 3;
	m->failover = b[26] >> 1 & 3;
	m->flow_control = b[26] & 1;
	m->rnr_retry_count = b[27] >> 5;
	m->srq = b[27] >> 4 & 1;
	m->ca_guid = get(b + 28, 8);
}

static void put_rej(const struct mad *m, uint8_t *b)
{
	b[8] = (uint8_t)(m->about << 6);
	b[9] = (uint8_t)(m->rej.ari_len << 1);
	put(b + 10, 2, m->rej.reason);
	memcpy(b + 12, m->rej.ari, m->rej.ari_len);
}

static void get_rej(struct mad *m, const uint8_t *b)
{
	m->about = b[8] >> 6;
	m->rej.ari_len = b[9] >> 1 < MAD_ARI_BYTES ? b[9] >> 1 : MAD_ARI_BYTES;
	m->rej.reason = (uint16_t)get(b + 10, 2);
	memcpy(m->rej.ari, b + 12, m->rej.ari_len);
}

static void put_sidr_rep(const struct mad *m, uint8_t *b)
{
	b[4] = m->status;
	put(b + 8, 3, m->qpn);
	put(b + 12, 8, m->service_id);
	put(b + 20, 4, m->qkey);
}

static void get_sidr_rep(struct mad *m, const uint8_t *b)
{
	m->status = b[4];
	m->qpn = (uint32_t)get(b + 8, 3);
	m->service_id = get(b + 12, 8);
	m->qkey = (uint32_t)get(b + 20, 4);
}

void mad_encode(const struct mad *m, uint8_t *bytes)
{
	uint8_t *b = bytes + HEADER_BYTES;

	memset(bytes, 0, MAD_BYTES);
	bytes[0] = BASE_VERSION;
	bytes[1] = CLASS_CM;
	bytes[2] = CLASS_VERSION;
	bytes[3] = METHOD_SEND;
	put(bytes + 8, 8, m->tid);
	put(bytes + 16, 2, m->attr);
	put(b, 4, m->local_id);
	if (m->attr != MAD_REQ && m->attr != MAD_SIDR_REQ && m->attr != MAD_SIDR_REP)
		put(b + 4, 4, m->remote_id);
	switch (m->attr) {
	case MAD_REQ:
		put_req(m, b);
		break;
	case MAD_REP:
		put_rep(m, b);
		break;
	case MAD_REJ:
		put_rej(m, b);
		break;
	case MAD_MRA:
		b[8] = (uint8_t)(m->about << 6);
		b[9] = (uint8_t)(m->service_timeout << 3);
		break;
	case MAD_DREQ:
		put(b + 8, 3, m->qpn);
		break;
	case MAD_SIDR_REQ:
		put(b + 4, 2, m->pkey);
		put(b + 8, 8, m->service_id);
		break;
	case MAD_SIDR_REP:
		put_sidr_rep(m, b);
		break;
	}
	memcpy(b + private[m->attr].at, m->private_data, m->private_len);
}

int mad_decode(const uint8_t *bytes, size_t len, struct mad *ret)
{
	const uint8_t *b = bytes + HEADER_BYTES;

	if (len != MAD_BYTES || bytes[0] != BASE_VERSION || bytes[1] != CLASS_CM ||
	    bytes[2] != CLASS_VERSION || bytes[3] != METHOD_SEND)
		return -EPROTO;
	memset(ret, 0, sizeof(*ret));
	ret->tid = get(bytes + 8, 8);
	ret->attr = (uint16_t)get(bytes + 16, 2);
	ret->private_len = mad_private_size(ret->attr);
	if (!ret->private_len)
		return -EPROTO;
	ret->local_id = (uint32_t)get(b, 4);
	if (ret->attr != MAD_REQ && ret->attr != MAD_SIDR_REQ && ret->attr != MAD_SIDR_REP)
		ret->remote_id = (uint32_t)get(b + 4, 4);
	switch (ret->attr) {
	case MAD_REQ:
		get_req(ret, b);
		break;
	case MAD_REP:
		get_rep(ret, b);
		break;
	case MAD_REJ:
		get_rej(ret, b);
		break;
	case MAD_MRA:
		ret->about = b[8] >> 6;
		ret->service_timeout = b[9] >> 3;
		break;
	case MAD_DREQ:
		ret->qpn = (uint32_t)get(b + 8, 3);
		break;
	case MAD_SIDR_REQ:
		ret->pkey = (uint16_t)get(b + 4, 2);
		ret->service_id = get(b + 8, 8);
		break;
	case MAD_SIDR_REP:
		get_sidr_rep(ret, b);
		break;
	}
	memcpy(ret->private_data, b + private[ret->attr].at, ret->private_len);
	return 0;
}
