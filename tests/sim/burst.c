/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "burst.h"

#include <string.h>

#include "wire.h"

#define ETH_LEN   14
#define UDP_LEN   8
#define BTH_LEN   12
#define ETH_IPV4  0x0800
#define ETH_IPV6  0x86dd
#define PROTO_UDP 17
#define OPCODE    0xe0 /* the first of the manufacturer's own */

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, size_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* Return: bytes before the BTH; 0: not RoCE v2. */
static size_t before_bth(const uint8_t *frame, size_t len)
{
	const uint8_t *ip = frame + ETH_LEN;
	size_t ip_len;

	if (len < ETH_LEN + 20 + UDP_LEN + BTH_LEN)
		return 0;
	if (get16(frame + 12) == ETH_IPV4)
		ip_len = ip[0] == 0x45 && ip[9] == PROTO_UDP ? 20 : 0;
	else
		ip_len = get16(frame + 12) == ETH_IPV6 && ip[6] == PROTO_UDP ? 40 : 0;
	if (!ip_len || len < ETH_LEN + ip_len + UDP_LEN + BTH_LEN || get16(ip + ip_len + 2) != WIRE_UDP_PORT)
		return 0;
	return ETH_LEN + ip_len + UDP_LEN;
}

size_t burst_head_len(const uint8_t *frame, size_t len)
{
	size_t n = before_bth(frame, len);

	return n ? n + BTH_LEN : 0;
}

static uint32_t qpn_of(const uint8_t *bth)
{
	return (uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7];
}

bool burst_joins(const uint8_t *first, size_t first_len, const uint8_t *frame, size_t len, unsigned int qpn_shift)
{
	size_t n = before_bth(first, first_len), addresses;

	if (!n || before_bth(frame, len) != n)
		return false;
	addresses = get16(first + 12) == ETH_IPV4 ? ETH_LEN + 12 : ETH_LEN + 8;
	return !memcmp(first, frame, ETH_LEN) && !memcmp(first + addresses, frame + addresses, n - UDP_LEN - addresses) &&
	       qpn_of(first + n) != WIRE_MCAST_QPN && qpn_of(frame + n) != WIRE_MCAST_QPN &&
	       qpn_of(first + n) >> qpn_shift == qpn_of(frame + n) >> qpn_shift;
}

static void checksum(uint8_t *ip)
{
	uint32_t sum = 0;

	put16(ip + 10, 0);
	for (int i = 0; i < 20; i += 2)
		sum += get16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + 10, (uint16_t)~(sum + (sum >> 16)));
}

void burst_head(uint8_t *ret, const uint8_t *first, size_t len, size_t bytes)
{
	size_t n = before_bth(first, len), udp_len = UDP_LEN + BTH_LEN + bytes;
	uint8_t *ip = ret + ETH_LEN;

	memcpy(ret, first, n + BTH_LEN);
	ret[n] = OPCODE;
	put16(ret + n - UDP_LEN + 4, udp_len);
	if (get16(ret + 12) == ETH_IPV6) {
		put16(ip + 4, udp_len);
		return;
	}
	put16(ip + 2, 20 + udp_len);
	checksum(ip);
}

bool burst_open(struct burst *ret, uint8_t *frame, size_t len)
{
	size_t n = before_bth(frame, len), payload;

	if (!n || frame[n] != OPCODE)
		return false;
	payload = get16(frame + n - UDP_LEN + 4); /* Ethernet may have filled it up to its shortest frame */
	if (payload < UDP_LEN + BTH_LEN || payload > len - (n - UDP_LEN))
		return false;
	*ret = (struct burst){.next = frame + n + BTH_LEN, .end = frame + n - UDP_LEN + payload};
	return true;
}

uint8_t *burst_next(struct burst *b, size_t *ret_len)
{
	uint8_t *frame = b->next + BURST_LENGTH;

	if (b->end - b->next < BURST_LENGTH)
		return NULL;
	*ret_len = get16(b->next);
	if (*ret_len > (size_t)(b->end - frame))
		return NULL;
	b->next = frame + *ret_len;
	return frame;
}
