/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "shell_word.h"

#include <string.h>

/* Characters that mean themselves in every shell; `=` does not at the beginning of a word, where zsh puts a path for `=ls`. */
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";

struct mv_shell_word mv_shell_word(const char *word)
{
	struct mv_shell_word quoted = {.text = "'"};
	size_t len = 1;

	if (word && *word && *word != '=' && strlen(word) < sizeof(quoted.text) && word[strspn(word, plain)] == '\0') {
		strcpy(quoted.text, word);
		return quoted;
	}
	for (; word && *word; word++) {
		const char one[] = {*word, '\0'}, *as = *word == '\'' ? "'\\''" : one;

		/* A quote and a NUL follow. */
		if (len + strlen(as) + 2 > sizeof(quoted.text)) {
			strcpy(quoted.text, "'...'");
			return quoted;
		}
		strcpy(quoted.text + len, as);
		len += strlen(as);
	}
	strcpy(quoted.text + len, "'");
	return quoted;
}
