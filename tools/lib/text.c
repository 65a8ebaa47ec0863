// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stddef.h>

#include "text.h"

/* Length of the UTF-8 sequence at @s; 0: invalid, or unfit for terminals and JSON. */
static size_t utf8_len(const unsigned char *s)
{
	size_t len, i;

	if (s[0] < 0x80)
		return s[0] >= 0x20 && s[0] != 0x7f;
	len = s[0] >= 0xf0 && s[0] < 0xf5   ? 4
	      : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
	      : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
					    : 0;
	for (i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* overlong forms, surrogates, beyond the last code point, C1 controls */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90) ||
	    (s[0] == 0xc2 && s[1] < 0xa0))
		return 0;
	return len;
}

char *text_clean(char *text)
{
	unsigned char *s = (unsigned char *)text;
	size_t len;

	while (s && *s) {
		len = utf8_len(s);
		if (!len) {
			*s = '?';
			len = 1;
		}
		s += len;
	}
	return text;
}
