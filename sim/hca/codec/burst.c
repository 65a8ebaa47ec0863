/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "burst.h"

#include <endian.h>
#include <string.h>

#define OPCODE 0xe0 /* the first of the manufacturer's own */

static void put16(uint8_t *p, size_t v)
{
	uint16_t be = htobe16((uint16_t)v);

	memcpy(p, &be, sizeof(be));
}

/* Return: the BTH; NULL: not RoCE v2. */
static uint8_t *bth_of(uint8_t *frame, size_t *len, struct wire_packet *p)
{
	uint8_t *bth = wire_bth(frame, len, p);

	return bth && !p->v1 ? bth : NULL;
}

size_t burst_head_len(uint8_t *frame, size_t len)
{
	struct wire_packet p;
	uint8_t *bth = bth_of(frame, &len, &p);

	return bth ? (size_t)(bth - frame) + WIRE_BTH_LEN : 0;
}

static uint32_t qpn_of(const uint8_t *bth)
{
	return (uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7];
}

bool burst_joins(uint8_t *first, size_t first_len, uint8_t *frame, size_t len, unsigned int qpn_shift)
{
	struct wire_packet a, b;
	uint8_t *bth_a = bth_of(first, &first_len, &a), *bth_b = bth_of(frame, &len, &b);

	return bth_a && bth_b && !memcmp(first, frame, WIRE_ETH_LEN) && !memcmp(a.sgid, b.sgid, sizeof(a.sgid)) &&
	       !memcmp(a.dgid, b.dgid, sizeof(a.dgid)) && qpn_of(bth_a) != WIRE_MCAST_QPN && qpn_of(bth_b) != WIRE_MCAST_QPN &&
	       qpn_of(bth_a) >> qpn_shift == qpn_of(bth_b) >> qpn_shift;
}

void burst_head(uint8_t *ret, uint8_t *first, size_t len, size_t bytes)
{
	struct wire_packet p;
	size_t head_len = (size_t)(bth_of(first, &len, &p) - first) + WIRE_BTH_LEN, udp_len = WIRE_UDP_LEN + WIRE_BTH_LEN + bytes;
	uint8_t *ip = ret + WIRE_ETH_LEN, *udp = ip + p.l3_len;

	memcpy(ret, first, head_len);
	udp[WIRE_UDP_LEN] = OPCODE;
	put16(udp + 4, udp_len);
	if (p.l3_len == 40) {
		put16(ip + 4, udp_len);
		return;
	}
	put16(ip + 2, p.l3_len + udp_len);
	put16(ip + 10, 0);
	put16(ip + 10, wire_ipv4_checksum(ip));
}

void burst_length(uint8_t *ret, size_t len)
{
	put16(ret, len);
}

bool burst_open(struct burst *ret, uint8_t *frame, size_t len)
{
	struct wire_packet p;
	uint8_t *bth = bth_of(frame, &len, &p);

	if (!bth || bth[0] != OPCODE)
		return false;
	*ret = (struct burst){.next = bth + WIRE_BTH_LEN, .end = frame + len};
	return true;
}

uint8_t *burst_next(struct burst *b, size_t *ret_len)
{
	uint8_t *frame = b->next + BURST_LENGTH;

	if (b->end - b->next < BURST_LENGTH)
		return NULL;
	*ret_len = (size_t)b->next[0] << 8 | b->next[1];
	if (*ret_len > (size_t)(b->end - frame))
		return NULL;
	b->next = frame + *ret_len;
	return frame;
}
