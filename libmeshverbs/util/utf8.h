/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_UTF8_H
#define MV_UTF8_H

#include <stddef.h>
#include <stdint.h>

/**
 * mv_utf8_len - length of the UTF-8 sequence (RFC 3629) that begins at @s
 * @n: bytes at @s, at least one
 *
 * Return: 1 to 4; 0: invalid, or a control character, so unfit for terminals and JSON. Pure, any thread.
 */
static inline size_t mv_utf8_len(const uint8_t *s, size_t n)
{
	size_t len, i;

	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f;
	len = s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : 0;
	if (len > n)
		return 0;
	for (i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* overlong forms, surrogates, beyond the last code point, C1 controls */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] >= 0x90) || (s[0] == 0xc2 && s[1] < 0xa0))
		return 0;
	return len;
}

#endif
