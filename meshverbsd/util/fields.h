/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_FIELDS_H
#define MD_FIELDS_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Writer and reader of big-endian fields in a buffer. After running over the end, @bad is set, writes have no effect,
 * and reads give zero. So codecs check once, at the end.
 */
struct md_writer {
	uint8_t *buf;
	size_t size, len;
	bool bad;
};

struct md_reader {
	const uint8_t *buf;
	size_t len, at;
	bool bad;
};

static inline void md_put(struct md_writer *w, const void *bytes, size_t len)
{
	if (w->bad || len > w->size - w->len) {
		w->bad = true;
		return;
	}
	memcpy(w->buf + w->len, bytes, len);
	w->len += len;
}

static inline void md_put8(struct md_writer *w, uint8_t value)
{
	md_put(w, &value, 1);
}

static inline void md_put16(struct md_writer *w, uint16_t value)
{
	value = htobe16(value);
	md_put(w, &value, 2);
}

static inline void md_put32(struct md_writer *w, uint32_t value)
{
	value = htobe32(value);
	md_put(w, &value, 4);
}

static inline void md_put64(struct md_writer *w, uint64_t value)
{
	value = htobe64(value);
	md_put(w, &value, 8);
}

/* One byte of length, then the text without NUL; @text: at most 255 bytes. */
static inline void md_put_text(struct md_writer *w, const char *text)
{
	size_t len = strlen(text);

	md_put8(w, (uint8_t)len);
	md_put(w, text, len);
}

/* Return: pointer to @len bytes in the buffer; NULL: beyond its end. */
static inline const uint8_t *md_get(struct md_reader *r, size_t len)
{
	const uint8_t *bytes = r->buf + r->at;

	if (r->bad || len > r->len - r->at) {
		r->bad = true;
		return NULL;
	}
	r->at += len;
	return bytes;
}

static inline void md_get_bytes(struct md_reader *r, void *ret, size_t len)
{
	const uint8_t *bytes = md_get(r, len);

	if (bytes)
		memcpy(ret, bytes, len);
	else
		memset(ret, 0, len);
}

static inline uint8_t md_get8(struct md_reader *r)
{
	uint8_t value;

	md_get_bytes(r, &value, 1);
	return value;
}

static inline uint16_t md_get16(struct md_reader *r)
{
	uint16_t value;

	md_get_bytes(r, &value, 2);
	return be16toh(value);
}

static inline uint32_t md_get32(struct md_reader *r)
{
	uint32_t value;

	md_get_bytes(r, &value, 4);
	return be32toh(value);
}

static inline uint64_t md_get64(struct md_reader *r)
{
	uint64_t value;

	md_get_bytes(r, &value, 8);
	return be64toh(value);
}

/* Allowed in names for people: printable ASCII, but no character with a meaning in a JSON string, into which processes print names. */
static inline bool md_is_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\')
			return false;
	return true;
}

/* Replaces all other characters by '?': of names of this host, which other hosts would refuse. */
static inline void md_make_text(char *text)
{
	for (; *text; text++)
		if (!md_is_text(text, 1))
			*text = '?';
}

/* Reads a text of md_put_text(). @ret: padded with zeros. A text that does not fit, or is not md_is_text(), sets @bad. */
static inline void md_get_text(struct md_reader *r, char *ret, size_t size)
{
	size_t len = md_get8(r);
	const uint8_t *bytes;

	memset(ret, 0, size);
	if (len >= size)
		r->bad = true;
	bytes = md_get(r, len);
	if (!bytes)
		return;
	memcpy(ret, bytes, len);
	if (!md_is_text(ret, len))
		r->bad = true;
}

#endif
