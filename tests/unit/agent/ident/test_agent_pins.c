/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The table of keys of hosts, and its file. */
#include "knownhosts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"

static void test_precedence(void **state)
{
	enum md_pin_how how;

	(void)state;
	assert_null(md_pins_find(&pins, "a", NULL, NULL));
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_FIRST_CONTACT, 5), 0);
	assert_true(is_pinned("a", &one));
	assert_int_equal(md_pins_set_file(&pins, "a", &two), 0);
	assert_non_null(md_pins_find(&pins, "a", &how, NULL));
	assert_int_equal(how, MD_PIN_HOSTS_FILE);
	assert_true(is_pinned("a", &two));
	assert_int_equal(md_pins_set_file(&pins, "a", &one), -EEXIST);
	assert_int_equal(md_pins_forget(&pins, "a"), 0);
	assert_int_equal(md_pins_forget(&pins, "a"), -EPERM);
	md_pins_forget_file(&pins);
	assert_null(md_pins_find(&pins, "a", NULL, NULL));
	assert_int_equal(pins.n, 0);
	assert_int_equal(md_pins_forget(&pins, "a"), -ENOENT);
	assert_int_equal(md_pins_set(&pins, "two words", &one, MD_PIN_OPERATOR, 5), -EINVAL);
}

static void test_revoked(void **state)
{
	(void)state;
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_FIRST_CONTACT, 5), 0);
	assert_int_equal(md_pins_revoke(&pins, "a", &one, 6), 0);
	assert_null(md_pins_find(&pins, "a", NULL, NULL));
	assert_true(md_pins_is_revoked(&pins, &one));
	assert_false(md_pins_is_revoked(&pins, &two));
	assert_int_equal(md_pins_revoke(&pins, "a", &one, 7), 0);
	assert_int_equal(pins.n_revoked, 1);
	assert_int_equal(md_pins_restore(&pins, &one), 0);
	assert_int_equal(md_pins_restore(&pins, &one), -ENOENT);
}

static void test_file(void **state)
{
	unsigned int n_bad, line;
	uint64_t since_s;
	size_t len;
	char *text;

	(void)state;
	assert_int_equal(md_pins_load(dir_fd, &pins, &n_bad, &line), 0);
	assert_int_equal(md_pins_set(&pins, "a", &one, MD_PIN_ROTATED, 1234), 0);
	assert_int_equal(md_pins_set_file(&pins, "only-in-the-hosts-file", &two), 0);
	assert_int_equal(md_pins_revoke(&pins, "old", &two, 5), 0);
	assert_true(pins.dirty);
	text = md_pins_format(&pins, &len);
	assert_non_null(text);
	assert_null(strstr(text, "only-in"));
	assert_int_equal(md_pins_save(dir_fd, text, len), 0);
	md_pins_fini(&pins);
	assert_int_equal(md_pins_load(dir_fd, &pins, &n_bad, &line), 0);
	assert_int_equal(n_bad, 0);
	assert_false(pins.dirty);
	assert_true(is_pinned("a", &one));
	md_pins_find(&pins, "a", NULL, &since_s);
	assert_int_equal(since_s, 1234);
	assert_true(md_pins_is_revoked(&pins, &two));
	/* Not if others may have written it; one that fails to be written stays as it was. */
	assert_int_equal(chmod(tmpdir_at(&dir, "known_hosts"), 0620), 0);
	assert_int_equal(md_pins_load(dir_fd, &pins, &n_bad, &line), -EPERM);
	assert_int_equal(chmod(tmpdir_at(&dir, "known_hosts"), 0600), 0);
	fault_arm(FAULT_WRITE, 1, ENOSPC);
	assert_int_equal(md_pins_save(dir_fd, "", 0), 0); /* nothing to write: an empty file */
	fault_disarm();
	fault_arm(FAULT_WRITE, 1, ENOSPC);
	assert_int_equal(md_pins_save(dir_fd, text, len), -ENOSPC);
	fault_disarm();
	assert_int_equal(access(tmpdir_at(&dir, "known_hosts.new"), F_OK), -1);
	free(text);
}

/* What is not understood is left out and counted; the rest counts, also where the file was cut. */
static void test_bad_lines(void **state)
{
	static const char *const bad[] = {
		"a", "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "a AQ== operator 5",
		"a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= hosts-file 5", "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator -5",
		"a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator 5 6", "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator",
	};
	static const char good[] = "b AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator 5\n";
	char text[512];
	unsigned int line = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "# c\n%s%s", good, bad[i]);
		assert_int_equal(md_pins_parse(&pins, text, strlen(text), &line), 1);
		assert_int_equal(line, 3);
		assert_true(is_pinned("b", &one));
		assert_null(md_pins_find(&pins, "a", NULL, NULL));
		md_pins_fini(&pins);
	}
	for (size_t n = 0; n < sizeof(good); n++) {
		md_pins_parse(&pins, good, n, &line);
		assert_true(!pins.n || is_pinned("b", &one));
		md_pins_fini(&pins);
	}
}

/* A host has not to have a key that nobody believes, whichever line comes first. */
static void test_revoked_and_pinned(void **state)
{
	static const char pinned[] = "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= operator 5\n",
			  revoked[] = "a AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= revoked 6\n";
	unsigned int line;
	char text[256];

	(void)state;
	for (int first = 0; first < 2; first++) {
		snprintf(text, sizeof(text), "%s%s", first ? pinned : revoked, first ? revoked : pinned);
		assert_int_equal(md_pins_parse(&pins, text, strlen(text), &line), 0);
		assert_null(md_pins_find(&pins, "a", NULL, NULL));
		assert_true(md_pins_is_revoked(&pins, &one));
		md_pins_fini(&pins);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, pins_setup, pins_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_precedence),
		TEST(test_revoked),
		TEST(test_file),
		TEST(test_bad_lines),
		TEST(test_revoked_and_pinned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
