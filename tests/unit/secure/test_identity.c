/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Identities: their file, their rotation, and what they sign. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "statement.h"
#include "tmpdir.h"

static struct tmpdir dir;
static int dir_fd;
static struct md_identity identity;
static char why[128];

static int setup(void **state)
{
	(void)state;
	umask(022);
	tmpdir_make(&dir);
	dir_fd = open(dir.path, O_RDONLY | O_DIRECTORY);
	assert_true(dir_fd >= 0);
	assert_int_equal(md_identity_make(&identity), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(dir_fd);
	tmpdir_remove(&dir);
	return 0;
}

static int load(const char *machine_id, struct md_identity *ret)
{
	memset(ret, 0xee, sizeof(*ret));
	why[0] = '\0';
	return md_identity_load(dir_fd, machine_id, ret, why, sizeof(why));
}

static mode_t mode_of(const char *name)
{
	struct stat st;

	assert_int_equal(stat(tmpdir_at(&dir, name), &st), 0);
	return st.st_mode & 07777;
}

static void test_saved_and_loaded(void **state)
{
	struct md_identity loaded, other;

	(void)state;
	assert_int_equal(load("m1", &loaded), -ENOENT);
	assert_false(identity.lasting);
	assert_int_equal(md_identity_save(dir_fd, "m1", &identity), 0);
	assert_true(identity.lasting);
	assert_int_equal(mode_of("identity"), 0600);
	assert_int_equal(load("m1", &loaded), 0);
	assert_memory_equal(&loaded, &identity, sizeof(loaded));
	/* Not on another machine; where nobody knows which one it is, on any. */
	assert_int_equal(load("m2", &loaded), -EXDEV);
	assert_int_equal(load("", &loaded), 0);
	assert_int_equal(md_identity_make(&other), 0);
	assert_memory_not_equal(&other.sign, &identity.sign, sizeof(other.sign));
	assert_memory_not_equal(&identity.box, &identity.sign, sizeof(identity.box));
	/* Made where no machine id was known: good everywhere. */
	assert_int_equal(md_identity_save(dir_fd, "", &other), 0);
	assert_int_equal(load("m2", &loaded), 0);
	assert_memory_equal(&loaded, &other, sizeof(loaded));
}

static void test_rotated(void **state)
{
	struct md_identity new, loaded;

	(void)state;
	assert_int_equal(md_identity_rotate(&identity, &new), 0);
	assert_memory_not_equal(&new.sign, &identity.sign, sizeof(new.sign));
	assert_memory_equal(&new.former, &identity.sign, sizeof(new.former));
	assert_true(md_identity_endorsed(&new.former, &new.sign, new.endorsement));
	assert_false(md_identity_endorsed(&new.sign, &new.former, new.endorsement));
	assert_false(md_identity_endorsed(&new.former, &new.box, new.endorsement));
	assert_int_equal(md_identity_save(dir_fd, "m1", &new), 0);
	assert_int_equal(load("m1", &loaded), 0);
	assert_memory_equal(&loaded, &new, sizeof(loaded));
}

/* Every change and every cut of a file is refused, or makes no difference; nothing of another identity is mixed in. */
static void test_broken_files(void **state)
{
	char text[MD_IDENTITY_FILE_SIZE], changed[MD_IDENTITY_FILE_SIZE];
	struct md_identity new, parsed;
	size_t len;

	(void)state;
	assert_int_equal(md_identity_rotate(&identity, &new), 0);
	md_identity_format(&new, "m1", text);
	len = strlen(text);
	assert_true(len + 1 < sizeof(text));
	for (size_t n = 0; n < len; n++) {
		int err = md_identity_parse(text, n, "m1", &parsed, why, sizeof(why));

		assert_true(err == -EINVAL || (!err && md_public_is(&parsed.sign, &new.sign)));
	}
	for (size_t at = 0; at < len; at++) {
		memcpy(changed, text, len);
		changed[at] ^= 1;
		if (at && text[at - 1] == '#')
			continue;
		if (!md_identity_parse(changed, len, "m1", &parsed, why, sizeof(why)))
			assert_true(at < 80 || md_public_is(&parsed.sign, &new.sign));
	}
	assert_int_equal(md_identity_parse("", 0, "m1", &parsed, why, sizeof(why)), -EINVAL);
	assert_int_equal(md_identity_parse("secret a\0", 9, "m1", &parsed, why, sizeof(why)), -EINVAL);
	memset(changed, ' ', sizeof(changed));
	assert_int_equal(md_identity_parse(changed, sizeof(changed), "m1", &parsed, why, sizeof(why)), -EINVAL);
}

static void test_rights(void **state)
{
	static const mode_t bad[] = {0640, 0604, 0620, 0602, 0660, 0644};
	struct md_identity loaded;

	(void)state;
	assert_int_equal(md_identity_save(dir_fd, "m1", &identity), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(chmod(tmpdir_at(&dir, "identity"), bad[i]), 0);
		assert_int_equal(load("m1", &loaded), -EPERM);
		assert_non_null(strstr(why, "chmod 0600"));
	}
	assert_int_equal(chmod(tmpdir_at(&dir, "identity"), 0400), 0);
	assert_int_equal(load("m1", &loaded), 0);
	assert_int_equal(unlink(tmpdir_at(&dir, "identity")), 0);
	tmpdir_link(&dir, "identity", "/dev/null");
	assert_int_equal(load("m1", &loaded), -ELOOP);
	assert_int_equal(unlink(tmpdir_at(&dir, "identity")), 0);
	assert_int_equal(mkfifo(tmpdir_at(&dir, "identity"), 0600), 0);
	assert_int_equal(load("m1", &loaded), -EINVAL);
}

/* Whatever fails while it is written: the former one stays, whole. */
static void test_write_faults(void **state)
{
	struct md_identity new, loaded;

	(void)state;
	assert_int_equal(md_identity_save(dir_fd, "m1", &identity), 0);
	assert_int_equal(md_identity_rotate(&identity, &new), 0);
	fault_arm(FAULT_OPEN, 1, EROFS);
	assert_int_equal(md_identity_save(dir_fd, "m1", &new), -EROFS);
	fault_arm(FAULT_WRITE, 1, ENOSPC);
	assert_int_equal(md_identity_save(dir_fd, "m1", &new), -ENOSPC);
	fault_disarm();
	assert_false(new.lasting);
	assert_int_equal(load("m1", &loaded), 0);
	assert_memory_equal(&loaded, &identity, sizeof(loaded));
	assert_int_equal(access(tmpdir_at(&dir, "identity.new"), F_OK), -1);
}

static void test_public_text(void **state)
{
	static const char *const bad[] = {"", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "not base64 at all, of a length of 44 letters"};
	char text[MD_PUBLIC_TEXT_SIZE];
	struct md_public key;

	(void)state;
	md_public_format(&identity.sign, text);
	assert_int_equal(md_public_parse(text, &key), 0);
	assert_true(md_public_is(&key, &identity.sign));
	text[43] = 'A';
	assert_int_equal(md_public_parse(text, &key), -EINVAL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(md_public_parse(bad[i], &key), -EINVAL);
}

/* ---- statements ------------------------------------------------------------------------------ */

static struct md_statement made;
static uint8_t bytes[MD_STATEMENT_MAX];

static size_t sign(const struct md_identity *by)
{
	made = (struct md_statement){.host = {{1, 2, 3}}, .start = 77, .generation = 5, .name = "node7"};
	md_statement_content(made.name, 2, (const uint8_t *)"desc", 4, made.content);
	return md_statement_sign(&made, by, bytes);
}

static bool is_good(const uint8_t *buf, size_t len, const struct mv_host_id *host, uint64_t start)
{
	struct md_statement got;

	return !md_statement_decode(buf, len, host, start, &got) && md_statement_verify(buf, len, &got);
}

static void test_statement(void **state)
{
	struct md_statement got;
	struct md_identity new;
	size_t len;

	(void)state;
	for (int i = 0; i < 2; i++) {
		len = sign(i ? &new : &identity);
		assert_true(len > 0 && len <= sizeof(bytes));
		assert_int_equal(md_statement_decode(bytes, len, &made.host, made.start, &got), 0);
		assert_memory_equal(&got, &made, sizeof(got));
		assert_true(md_statement_verify(bytes, len, &got));
		assert_int_equal(md_identity_rotate(&identity, &new), 0);
	}
}

/* Nothing of it can be changed, nor the header that it belongs to; but for the question, which is nobody's secret. */
static void test_statement_changed(void **state)
{
	struct mv_host_id other = {{9}};
	uint8_t changed[MD_STATEMENT_MAX], digest[2][MD_CONTENT_BYTES];
	struct md_identity new;
	size_t len;

	(void)state;
	assert_int_equal(md_identity_rotate(&identity, &new), 0);
	len = sign(&new);
	for (size_t at = 0; at < len; at++)
		for (unsigned int bit = 0; bit < 8; bit++) {
			memcpy(changed, bytes, len);
			changed[at] ^= 1u << bit;
			if (at != 2 || bit)
				assert_false(is_good(changed, len, &made.host, made.start));
		}
	for (size_t n = 0; n < len; n++)
		assert_false(is_good(bytes, n, &made.host, made.start));
	assert_false(is_good(bytes, len, &other, made.start));
	assert_false(is_good(bytes, len, &made.host, made.start + 1));
	md_statement_digest(bytes, len, &made, digest[0]);
	md_statement_ask(bytes, true);
	assert_true(is_good(bytes, len, &made.host, made.start));
	md_statement_digest(bytes, len, &made, digest[1]);
	assert_memory_equal(digest[0], digest[1], sizeof(digest[0]));
	made.start++;
	md_statement_digest(bytes, len, &made, digest[1]);
	assert_memory_not_equal(digest[0], digest[1], sizeof(digest[0]));
}

/* Somebody who has a key of his own, and says that it follows another's. */
static void test_statement_usurped(void **state)
{
	struct md_identity thief;
	size_t len;

	(void)state;
	assert_int_equal(md_identity_make(&thief), 0);
	thief.former = identity.sign;
	len = sign(&thief);
	assert_false(is_good(bytes, len, &made.host, made.start));
}

static void test_names(void **state)
{
	static const char *const bad[] = {"", "two words", "a#b", "tab\t", "\xc3\xa4", "$(id)", "`id`", "a;id", "a|id", "a&id", "a>f", "a\\b", "'a'", "\"a\"", "-a",
					   "{a,b}", "a*", "~a", "!a"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(md_statement_is_name(bad[i]));
	assert_true(md_statement_is_name("node7.example"));
}

static void test_content(void **state)
{
	uint8_t hash[5][MD_CONTENT_BYTES];

	(void)state;
	md_statement_content("a", 2, (const uint8_t *)"xy", 2, hash[0]);
	md_statement_content("a", 2, (const uint8_t *)"xyz", 3, hash[1]);
	md_statement_content("b", 2, (const uint8_t *)"xy", 2, hash[2]);
	md_statement_content("a", 3, (const uint8_t *)"xy", 2, hash[3]);
	md_statement_content("ax", 2, (const uint8_t *)"y", 1, hash[4]);
	for (size_t i = 0; i < 5; i++)
		for (size_t j = i + 1; j < 5; j++)
			assert_memory_not_equal(hash[i], hash[j], MD_CONTENT_BYTES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_saved_and_loaded), TEST(test_rotated),	   TEST(test_broken_files),	 TEST(test_rights),
		TEST(test_write_faults),     TEST(test_public_text),	   TEST(test_statement),	 TEST(test_statement_changed),
		TEST(test_statement_usurped), TEST(test_names),		   TEST(test_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
