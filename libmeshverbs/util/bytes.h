/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_BYTES_H
#define MV_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Writer of big-endian fields at any alignment. The caller has checked the room. */
struct mv_put {
	uint8_t *at;
};

static inline void mv_put_bytes(struct mv_put *put, const void *bytes, size_t n)
{
	memcpy(put->at, bytes, n);
	put->at += n;
}

static inline void mv_put_u8(struct mv_put *put, uint8_t value)
{
	*put->at++ = value;
}

static inline void mv_put_u16(struct mv_put *put, uint16_t value)
{
	uint16_t be = htobe16(value);

	mv_put_bytes(put, &be, sizeof(be));
}

static inline void mv_put_u32(struct mv_put *put, uint32_t value)
{
	uint32_t be = htobe32(value);

	mv_put_bytes(put, &be, sizeof(be));
}

static inline void mv_put_u64(struct mv_put *put, uint64_t value)
{
	uint64_t be = htobe64(value);

	mv_put_bytes(put, &be, sizeof(be));
}

/* Reader of big-endian fields. Beyond the end it returns zeros and sets @short_read. */
struct mv_get {
	const uint8_t *at;
	size_t left;
	bool short_read;
};

static inline void mv_get_bytes(struct mv_get *get, void *ret, size_t n)
{
	if (n > get->left) {
		get->short_read = true;
		get->left = 0;
		memset(ret, 0, n);
		return;
	}
	memcpy(ret, get->at, n);
	get->at += n;
	get->left -= n;
}

static inline uint8_t mv_get_u8(struct mv_get *get)
{
	uint8_t value;

	mv_get_bytes(get, &value, sizeof(value));
	return value;
}

static inline uint16_t mv_get_u16(struct mv_get *get)
{
	uint16_t be;

	mv_get_bytes(get, &be, sizeof(be));
	return be16toh(be);
}

static inline uint32_t mv_get_u32(struct mv_get *get)
{
	uint32_t be;

	mv_get_bytes(get, &be, sizeof(be));
	return be32toh(be);
}

static inline uint64_t mv_get_u64(struct mv_get *get)
{
	uint64_t be;

	mv_get_bytes(get, &be, sizeof(be));
	return be64toh(be);
}

#endif
