/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "shell_word.h"

static void test_plain(void **state)
{
	static const char *const words[] = {"eth0", "eth0.5", "enp1s0f0np0@if3", "0000:65:00.0", "/etc/libibverbs.d/mesh.conf", "AbC+/=",
					    "meshverbsd.service"};

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_string_equal(MV_SHELL(words[i]), words[i]);
}

/* What a shell makes of the quoted word is the word. */
static void test_quoted(void **state)
{
	static const char *const words[] = {"a;reboot",	 "$(reboot)", "`reboot`", "a b",   "it's",   "'",	   "''",    "a'b'c", "*",
					    "a\\",	 "\"",	      "&",	  "|cat",  "a>b",    "#",	   "~root", "=ls",  "!x",    "{a,b}",
					    "$HOME",	 "a\tb",      "\xc3\xa4", "[ab]*", "(a)",    "<x",	   "?",	    "^",     "a\nb"};

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		char command[2048], seen[64] = "";
		FILE *shell;

		assert_int_equal(MV_SHELL(words[i])[0] == '\'' || strchr(words[i], '\'') != NULL, true);
		snprintf(command, sizeof(command), "printf %%s x%s", MV_SHELL(words[i]));
		shell = popen(command, "r");
		assert_non_null(shell);
		assert_int_equal(fread(seen, 1, sizeof(seen) - 1, shell), strlen(words[i]) + 1);
		assert_int_equal(pclose(shell), 0);
		assert_string_equal(seen + 1, words[i]);
	}
}

static void test_ends(void **state)
{
	char word[2000];

	(void)state;
	assert_string_equal(MV_SHELL(""), "''");
	assert_string_equal(MV_SHELL(NULL), "''");
	for (size_t n = 1; n < sizeof(word); n++) {
		size_t len;

		memset(word, n % 2 ? 'a' : n % 4 ? ';' : '\'', n);
		word[n] = '\0';
		len = strlen(MV_SHELL(word));
		assert_true(len < sizeof(struct mv_shell_word));
		if (len < n)
			assert_string_equal(MV_SHELL(word), "'...'");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_quoted),
		cmocka_unit_test(test_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
