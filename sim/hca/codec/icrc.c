/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Invariant CRC of RoCE packets. */
#include "icrc.h"

#include <pthread.h>
#include <string.h>

#define SLICES 16

/* table[k][b]: CRC of byte b followed by k zero bytes. */
static uint32_t table[SLICES][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_fill(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
		table[0][b] = crc;
	}
	for (int k = 1; k < SLICES; k++)
		for (int b = 0; b < 256; b++)
			table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

static inline uint32_t load32(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint32_t word(uint32_t w, int k)
{
	return table[k + 3][w & 0xff] ^ table[k + 2][w >> 8 & 0xff] ^ table[k + 1][w >> 16 & 0xff] ^
	       table[k][w >> 24];
}

uint32_t icrc_update(uint32_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;

	pthread_once(&table_once, table_fill);
	for (; len >= SLICES; len -= SLICES, p += SLICES)
		crc = word(load32(p) ^ crc, 12) ^ word(load32(p + 4), 8) ^ word(load32(p + 8), 4) ^
		      word(load32(p + 12), 0);
	while (len--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return crc;
}

static uint32_t masked(const uint8_t *head, size_t head_len, const uint8_t *packet, size_t len)
{
	static const uint8_t ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	uint32_t crc = icrc_update(0xffffffffu, ones, sizeof(ones));

	crc = icrc_update(crc, head, head_len);
	return ~icrc_update(crc, packet + head_len, len - head_len);
}

uint32_t icrc_roce_v2(const void *ip, size_t len)
{
	const uint8_t *p = ip;
	size_t ip_len = p[0] >> 4 == 4 ? 20 : 40;
	uint8_t head[40 + 8 + 12];

	memcpy(head, p, ip_len + 8 + 12);
	if (ip_len == 20) {
		head[1] = 0xff;
		head[8] = 0xff;
		head[10] = head[11] = 0xff;
	} else {
		head[0] |= 0x0f;
		head[1] = head[2] = head[3] = 0xff;
		head[7] = 0xff;
	}
	head[ip_len + 6] = head[ip_len + 7] = 0xff;
	head[ip_len + 8 + 4] = 0xff;
	return masked(head, ip_len + 8 + 12, p, len);
}

uint32_t icrc_roce_v1(const void *grh, size_t len)
{
	uint8_t head[40 + 12];

	memcpy(head, grh, sizeof(head));
	head[0] |= 0x0f;
	head[1] = head[2] = head[3] = 0xff;
	head[7] = 0xff;
	head[40 + 4] = 0xff;
	return masked(head, sizeof(head), grh, len);
}
