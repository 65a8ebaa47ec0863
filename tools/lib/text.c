// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "text.h"
#include "utf8.h"

char *text_clean(char *text)
{
	uint8_t *s = (uint8_t *)text, *end = text ? s + strlen(text) : s;
	size_t len;

	while (s < end) {
		len = mv_utf8_len(s, (size_t)(end - s));
		if (!len) {
			*s = '?';
			len = 1;
		}
		s += len;
	}
	return text;
}
