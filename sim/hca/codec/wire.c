/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RoCE packets to and from bytes. */
#include "wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "icrc.h"

#define ICRC_LEN  4
#define ETH_IPV4  0x0800
#define ETH_IPV6  0x86dd
#define PROTO_UDP 17
#define NEXT_IBA  27 /* "next header" of a GRH */

static const uint32_t op_flags[0x18] = {
	[OP_SEND_FIRST] = WIRE_SEND | WIRE_START | WIRE_PAYLOAD,
	[OP_SEND_MIDDLE] = WIRE_SEND | WIRE_PAYLOAD,
	[OP_SEND_LAST] = WIRE_SEND | WIRE_END | WIRE_PAYLOAD,
	[OP_SEND_LAST_IMM] = WIRE_SEND | WIRE_END | WIRE_PAYLOAD | WIRE_IMM,
	[OP_SEND_ONLY] = WIRE_SEND | WIRE_START | WIRE_END | WIRE_PAYLOAD,
	[OP_SEND_ONLY_IMM] = WIRE_SEND | WIRE_START | WIRE_END | WIRE_PAYLOAD | WIRE_IMM,
	[OP_WRITE_FIRST] = WIRE_WRITE | WIRE_START | WIRE_PAYLOAD | WIRE_RETH,
	[OP_WRITE_MIDDLE] = WIRE_WRITE | WIRE_PAYLOAD,
	[OP_WRITE_LAST] = WIRE_WRITE | WIRE_END | WIRE_PAYLOAD,
	[OP_WRITE_LAST_IMM] = WIRE_WRITE | WIRE_END | WIRE_PAYLOAD | WIRE_IMM,
	[OP_WRITE_ONLY] = WIRE_WRITE | WIRE_START | WIRE_END | WIRE_PAYLOAD | WIRE_RETH,
	[OP_WRITE_ONLY_IMM] =
		WIRE_WRITE | WIRE_START | WIRE_END | WIRE_PAYLOAD | WIRE_RETH | WIRE_IMM,
	[OP_READ_REQUEST] = WIRE_START | WIRE_END | WIRE_RETH,
	[OP_READ_RESP_FIRST] =
		WIRE_RESPONSE | WIRE_READ_RESP | WIRE_START | WIRE_PAYLOAD | WIRE_AETH,
	[OP_READ_RESP_MIDDLE] = WIRE_RESPONSE | WIRE_READ_RESP | WIRE_PAYLOAD,
	[OP_READ_RESP_LAST] = WIRE_RESPONSE | WIRE_READ_RESP | WIRE_END | WIRE_PAYLOAD | WIRE_AETH,
	[OP_READ_RESP_ONLY] =
		WIRE_RESPONSE | WIRE_READ_RESP | WIRE_START | WIRE_END | WIRE_PAYLOAD | WIRE_AETH,
	[OP_ACK] = WIRE_RESPONSE | WIRE_AETH,
	[OP_ATOMIC_ACK] = WIRE_RESPONSE | WIRE_AETH | WIRE_ATOMIC_ACK,
	[OP_CMP_SWAP] = WIRE_START | WIRE_END | WIRE_ATOMIC,
	[OP_FETCH_ADD] = WIRE_START | WIRE_END | WIRE_ATOMIC,
	[OP_SEND_LAST_INV] = WIRE_SEND | WIRE_END | WIRE_PAYLOAD | WIRE_IETH,
	[OP_SEND_ONLY_INV] = WIRE_SEND | WIRE_START | WIRE_END | WIRE_PAYLOAD | WIRE_IETH,
};

uint32_t wire_op_flags(uint8_t opcode)
{
	uint8_t op = opcode & OP_MASK;
	uint32_t flags = op < sizeof(op_flags) / sizeof(op_flags[0]) ? op_flags[op] : 0;

	if (!flags)
		return 0;
	switch (opcode & OP_TRANSPORT) {
	case 0:
		return flags | WIRE_VALID;
	case OP_UC:
		return flags & (WIRE_SEND | WIRE_WRITE) && !(flags & WIRE_IETH) ? flags | WIRE_VALID
										: 0;
	case OP_UD:
		return op == OP_SEND_ONLY || op == OP_SEND_ONLY_IMM ? flags | WIRE_VALID | WIRE_DETH
								    : 0;
	default:
		return 0;
	}
}

static void put16(uint8_t *p, uint16_t v)
{
	v = htobe16(v);
	memcpy(p, &v, 2);
}

static void put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, 4);
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, 8);
}

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | p[1] << 8 | p[2];
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | get24(p + 1);
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

static bool is_v4(const uint8_t *gid)
{
	return !memcmp(gid, v4_prefix, sizeof(v4_prefix));
}

static size_t ext_len(uint32_t f)
{
	return (f & WIRE_DETH ? 8 : 0) + (f & WIRE_RETH ? 16 : 0) + (f & WIRE_ATOMIC ? 28 : 0) +
	       (f & WIRE_AETH ? 4 : 0) + (f & WIRE_ATOMIC_ACK ? 8 : 0) + (f & WIRE_IMM ? 4 : 0) +
	       (f & WIRE_IETH ? 4 : 0);
}

uint16_t wire_ipv4_checksum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += get16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

/* IPv6 header or GRH: they differ in the next header only. */
static void put_ipv6(uint8_t *h, const struct wire_path *path, uint8_t next, size_t len)
{
	put32(h, 6u << 28 | (uint32_t)path->traffic_class << 20 | (path->flow_label & 0xfffff));
	put16(h + 4, (uint16_t)len);
	h[6] = next;
	h[7] = path->hop_limit;
	memcpy(h + 8, path->sgid, 16);
	memcpy(h + 24, path->dgid, 16);
}

static void put_ipv4(uint8_t *h, const struct wire_path *path, uint16_t id, size_t len)
{
	memset(h, 0, 20);
	h[0] = 0x45;
	h[1] = path->traffic_class;
	put16(h + 2, (uint16_t)(20 + len));
	put16(h + 4, id);
	h[6] = 0x40; /* don't fragment */
	h[8] = path->hop_limit;
	h[9] = PROTO_UDP;
	memcpy(h + 12, path->sgid + 12, 4);
	memcpy(h + 16, path->dgid + 12, 4);
	put16(h + 10, wire_ipv4_checksum(h));
}

static uint8_t *put_l3(uint8_t *h, const struct wire_path *path, const struct wire_packet *p,
		       size_t ib_len)
{
	if (path->v1) {
		put_ipv6(h, path, NEXT_IBA, ib_len);
		return h + 40;
	}
	if (is_v4(path->dgid)) {
		/* A router may set an id of zero anew, which the ICRC covers; the PSN makes a good
		 * one. */
		put_ipv4(h, path, (uint16_t)(p->psn | 0x8000), WIRE_UDP_LEN + ib_len);
		h += 20;
	} else {
		put_ipv6(h, path, PROTO_UDP, WIRE_UDP_LEN + ib_len);
		h += 40;
	}
	put16(h, path->udp_sport);
	put16(h + 2, WIRE_UDP_PORT);
	put16(h + 4, (uint16_t)(WIRE_UDP_LEN + ib_len));
	put16(h + 6, 0);
	return h + WIRE_UDP_LEN;
}

static uint8_t *put_ext(uint8_t *h, uint32_t f, const struct wire_packet *p)
{
	if (f & WIRE_DETH) {
		put32(h, p->qkey);
		put32(h + 4, p->src_qpn);
		h += 8;
	}
	if (f & (WIRE_RETH | WIRE_ATOMIC)) {
		put64(h, p->va);
		put32(h + 8, p->rkey);
		h += 12;
	}
	if (f & WIRE_RETH) {
		put32(h, p->dma_len);
		h += 4;
	}
	if (f & WIRE_ATOMIC) {
		put64(h, p->swap_add);
		put64(h + 8, p->compare);
		h += 16;
	}
	if (f & WIRE_AETH) {
		put32(h, (uint32_t)p->syndrome << 24 | (p->msn & 0xffffff));
		h += 4;
	}
	if (f & WIRE_ATOMIC_ACK) {
		put64(h, p->atomic_orig);
		h += 8;
	}
	if (f & WIRE_IMM) {
		memcpy(h, &p->imm, 4);
		h += 4;
	}
	if (f & WIRE_IETH) {
		put32(h, p->rkey);
		h += 4;
	}
	return h;
}

void wire_begin(uint8_t *frame, const struct wire_path *path, struct wire_packet *p)
{
	uint32_t f = wire_op_flags(p->opcode);
	uint8_t pad = -p->payload_len & 3;
	size_t ib_len = WIRE_BTH_LEN + ext_len(f) + p->payload_len + pad + ICRC_LEN;
	uint8_t *h;

	memcpy(frame, path->dmac, 6);
	memcpy(frame + 6, path->smac, 6);
	put16(frame + 12, path->v1 ? WIRE_ETHERTYPE_V1 : is_v4(path->dgid) ? ETH_IPV4 : ETH_IPV6);
	h = put_l3(frame + WIRE_ETH_LEN, path, p, ib_len);
	h[0] = p->opcode;
	h[1] = (uint8_t)((p->solicited ? 0x80 : 0) | 0x40 /* path migration state: migrated */ |
			 pad << 4);
	put16(h + 2, p->pkey);
	put32(h + 4, p->dest_qpn);
	put32(h + 8, (p->ack_request ? 1u << 31 : 0) | p->psn);
	p->payload = put_ext(h + WIRE_BTH_LEN, f, p);
}

size_t wire_finish(uint8_t *frame, const struct wire_path *path, const struct wire_packet *p)
{
	uint8_t *end = p->payload + p->payload_len, *l3 = frame + WIRE_ETH_LEN;
	uint32_t crc;

	while ((end - p->payload) & 3)
		*end++ = 0;
	crc = htole32(path->v1 ? icrc_roce_v1(l3, (size_t)(end - l3))
			       : icrc_roce_v2(l3, (size_t)(end - l3)));
	memcpy(end, &crc, 4);
	return (size_t)(end + 4 - frame);
}

uint8_t *wire_bth(uint8_t *frame, size_t *len, struct wire_packet *ret)
{
	uint8_t *h = frame + WIRE_ETH_LEN;
	size_t l3_payload, n = *len;
	uint16_t type;

	if (n < WIRE_ETH_LEN + 20 + WIRE_UDP_LEN + WIRE_BTH_LEN + ICRC_LEN)
		return NULL;
	memcpy(ret->smac, frame + 6, 6);
	type = get16(frame + 12);
	n -= WIRE_ETH_LEN;
	ret->l3 = h;
	ret->v1 = type == WIRE_ETHERTYPE_V1;
	if (type == ETH_IPV4) {
		if (h[0] != 0x45 || h[9] != PROTO_UDP || get16(h + 6) & 0x3fff || get16(h + 2) < 20)
			return NULL;
		ret->l3_len = 20;
		l3_payload = get16(h + 2) - 20u;
		memcpy(ret->sgid, v4_prefix, 12);
		memcpy(ret->sgid + 12, h + 12, 4);
		memcpy(ret->dgid, v4_prefix, 12);
		memcpy(ret->dgid + 12, h + 16, 4);
	} else if (type == ETH_IPV6 || ret->v1) {
		if (n < 40 || h[0] >> 4 != 6 || h[6] != (ret->v1 ? NEXT_IBA : PROTO_UDP))
			return NULL;
		ret->l3_len = 40;
		l3_payload = get16(h + 4);
		memcpy(ret->sgid, h + 8, 16);
		memcpy(ret->dgid, h + 24, 16);
	} else {
		return NULL;
	}
	if (l3_payload > n - ret->l3_len)
		return NULL;
	*len = WIRE_ETH_LEN + ret->l3_len + l3_payload;
	h += ret->l3_len;
	if (ret->v1)
		return l3_payload >= WIRE_BTH_LEN + ICRC_LEN ? h : NULL;
	if (l3_payload < WIRE_UDP_LEN + WIRE_BTH_LEN + ICRC_LEN || get16(h + 2) != WIRE_UDP_PORT ||
	    get16(h + 4) != l3_payload)
		return NULL;
	return h + WIRE_UDP_LEN;
}

uint32_t wire_peek_qpn(uint8_t *frame, size_t len)
{
	struct wire_packet p;
	const uint8_t *bth = wire_bth(frame, &len, &p);

	return bth ? get24(bth + 5) : 0;
}

static uint8_t *get_ext(uint8_t *h, uint32_t f, struct wire_packet *p)
{
	if (f & WIRE_DETH) {
		p->qkey = get32(h);
		p->src_qpn = get24(h + 5);
		h += 8;
	}
	if (f & (WIRE_RETH | WIRE_ATOMIC)) {
		p->va = get64(h);
		p->rkey = get32(h + 8);
		h += 12;
	}
	if (f & WIRE_RETH) {
		p->dma_len = get32(h);
		h += 4;
	}
	if (f & WIRE_ATOMIC) {
		p->swap_add = get64(h);
		p->compare = get64(h + 8);
		h += 16;
	}
	if (f & WIRE_AETH) {
		p->syndrome = h[0];
		p->msn = get24(h + 1);
		h += 4;
	}
	if (f & WIRE_ATOMIC_ACK) {
		p->atomic_orig = get64(h);
		h += 8;
	}
	if (f & WIRE_IMM) {
		memcpy(&p->imm, h, 4);
		h += 4;
	}
	if (f & WIRE_IETH) {
		p->rkey = get32(h);
		h += 4;
	}
	return h;
}

int wire_decode(uint8_t *frame, size_t len, struct wire_packet *ret)
{
	uint8_t *bth, *end;
	uint32_t f, crc;
	unsigned int pad;

	bth = wire_bth(frame, &len, ret);
	if (!bth || bth[1] & 0x0f /* transport header version */)
		return -EPROTO;
	end = frame + len - ICRC_LEN;
	memcpy(&crc, end, 4);
	if (le32toh(crc) != (ret->v1 ? icrc_roce_v1(ret->l3, (size_t)(end - ret->l3))
				     : icrc_roce_v2(ret->l3, (size_t)(end - ret->l3))))
		return -EBADMSG;
	ret->opcode = bth[0];
	ret->solicited = bth[1] & 0x80;
	ret->pkey = get16(bth + 2);
	ret->dest_qpn = get24(bth + 5);
	ret->ack_request = bth[8] & 0x80;
	ret->psn = get24(bth + 9);
	pad = bth[1] >> 4 & 3;
	f = wire_op_flags(ret->opcode);
	if (!f || (size_t)(end - bth) < WIRE_BTH_LEN + ext_len(f) + pad)
		return -EPROTO;
	ret->payload = get_ext(bth + WIRE_BTH_LEN, f, ret);
	ret->payload_len = (uint32_t)(end - ret->payload) - pad;
	if ((ret->payload_len && !(f & WIRE_PAYLOAD)) || ret->payload_len > WIRE_MAX_MTU)
		return -EPROTO;
	return 0;
}
