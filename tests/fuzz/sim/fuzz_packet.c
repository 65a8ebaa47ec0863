/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Frames: as they come, those in a burst, and with an ICRC that fits, so that what lies behind it is reached. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "burst.h"
#include "icrc.h"
#include "wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Touch every byte the packet says it has. */
static void read_all(const struct wire_packet *p)
{
	uint8_t sum = 0;

	for (uint32_t i = 0; i < p->payload_len; i++)
		sum ^= p->payload[i];
	for (uint32_t i = 0; i < p->l3_len; i++)
		sum ^= p->l3[i];
	__asm__ volatile("" : : "r"(sum));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *frame = malloc(size ? size : 1);
	struct wire_packet p;
	struct burst b;
	uint8_t *one;
	size_t len;

	memcpy(frame, data, size);
	if (burst_open(&b, frame, size))
		while ((one = burst_next(&b, &len)))
			if (!wire_decode(one, len, &p))
				read_all(&p);
	if (!wire_decode(frame, size, &p))
		read_all(&p);
	if (size > 14 + 40 + 12 + 4) {
		bool v4 = frame[12] == 8, v1 = frame[12] == 0x89;
		uint32_t n = v4 ? (uint32_t)(frame[16] << 8 | frame[17])
				: 40u + (uint32_t)(frame[18] << 8 | frame[19]);

		frame[14] = v4 ? 0x45 : (uint8_t)(0x60 | (frame[14] & 0xf));
		if (n >= 40 + 8 + 12 + 4 && 14 + n <= size) {
			uint32_t crc = htole32(v1 ? icrc_roce_v1(frame + 14, n - 4)
						  : icrc_roce_v2(frame + 14, n - 4));

			memcpy(frame + 14 + n - 4, &crc, 4);
			if (!wire_decode(frame, size, &p))
				read_all(&p);
		}
	}
	free(frame);
	return 0;
}
