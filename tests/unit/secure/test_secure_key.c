/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Key files and start numbers. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "secure_key.h"
#include "start.h"
#include "tmpdir.h"

#define HEX32  "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define BASE32 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define OTHER  "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

static struct tmpdir dir;
static char why[128];

static int make_dir(void **state)
{
	(void)state;
	umask(022);
	tmpdir_make(&dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	tmpdir_remove(&dir);
	return 0;
}

static int parse(const char *text, struct md_keys *keys)
{
	memset(keys, 0xee, sizeof(*keys));
	why[0] = '\0';
	return md_keys_parse(text, strlen(text), keys, why, sizeof(why));
}

static void test_good_files(void **state)
{
	static const struct {
		const char *text;
		size_t n;
	} cases[] = {
		{HEX32 "\n", 1},
		{HEX32, 1},
		{BASE32 "\r\n", 1},
		{"# comment\n\n  \t" HEX32 "  \n\n", 1},
		{"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n", 1},
		{HEX32 "\n" OTHER "\n", 2},
		{BASE32 "\n# the next one\n" OTHER "\n#end", 2},
	};
	struct md_keys keys, first, other;

	(void)state;
	assert_int_equal(parse(HEX32, &first), 0);
	assert_int_equal(parse(OTHER, &other), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].text, &keys), 0);
		assert_int_equal(keys.n, cases[i].n);
		assert_memory_equal(keys.keys[0], first.keys[0], MD_KEY_BYTES);
		if (keys.n == 2)
			assert_memory_equal(keys.keys[1], other.keys[0], MD_KEY_BYTES);
	}
	/* Capital letters are the same digits; one more byte is another key. */
	assert_int_equal(
		parse("FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", &keys),
		0);
	assert_memory_equal(keys.keys[0], other.keys[0], MD_KEY_BYTES);
	assert_int_equal(parse(HEX32 "20", &keys), 0);
	assert_memory_not_equal(keys.keys[0], first.keys[0], MD_KEY_BYTES);
}

static void test_bad_files(void **state)
{
	static const char *const cases[] = {
		"",
		"\n",
		"# only a comment\n",
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e\n", /* 31 bytes */
		"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==\n",
		HEX32 "\n" HEX32 "\n",
		HEX32 "\n" BASE32 "\n", /* the same in other words */
		HEX32 "\n" OTHER "\n" HEX32 "55\n",
		HEX32 "\nshort\n",
		HEX32 " trailing\n",
		"key = " HEX32 "\n",
		"a passphrase that is quite long but not a key at all\n",
	};
	struct md_keys keys, untouched;

	(void)state;
	memset(&untouched, 0xee, sizeof(untouched));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (parse(cases[i], &keys) != -EINVAL)
			fail_msg("taken: %s", cases[i]);
		assert_memory_equal(&keys, &untouched, sizeof(keys));
		assert_true(strlen(why) > 5);
		assert_null(strstr(why, "0001")); /* the file is never quoted */
		assert_null(strstr(why, "pass"));
	}
	/* A NUL is no end. */
	assert_int_equal(md_keys_parse(HEX32 "\0x", sizeof(HEX32) + 1, &keys, why, sizeof(why)),
			 -EINVAL);
}

static void test_long_line(void **state)
{
	char text[4000];
	struct md_keys keys;

	(void)state;
	memset(text, 'a', sizeof(text));
	assert_int_equal(md_keys_parse(text, sizeof(text), &keys, why, sizeof(why)), -EINVAL);
	assert_int_equal(md_keys_parse(text, 2048, &keys, why, sizeof(why)), 0);
}

static int load(const char *name)
{
	struct md_keys keys;
	unsigned int fds = fault_open_fds();
	int rc;

	why[0] = '\0';
	rc = md_keys_load(tmpdir_at(&dir, name), &keys, why, sizeof(why));
	assert_int_equal(fault_open_fds(), fds);
	assert_int_equal(rc == 0, why[0] == '\0');
	return rc;
}

static void test_modes(void **state)
{
	static const struct {
		mode_t mode;
		int rc;
	} cases[] = {
		{0600, 0},      {0400, 0},      {0440, 0},      {0640, 0},
		{0604, -EPERM}, {0644, -EPERM}, {0620, -EPERM}, {0610, -EPERM},
		{0602, -EPERM}, {0601, -EPERM}, {0660, -EPERM}, {0777, -EPERM},
	};
	const char *path = tmpdir_at(&dir, "key");

	(void)state;
	tmpdir_write(&dir, "key", BASE32 "\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(chmod(path, cases[i].mode), 0);
		if (load("key") != cases[i].rc)
			fail_msg("mode %o: %s", cases[i].mode, why);
	}
}

static void test_owners(void **state)
{
	const char *path = tmpdir_at(&dir, "owned");

	(void)state;
	tmpdir_write(&dir, "owned", BASE32 "\n");
	assert_int_equal(chmod(path, 0600), 0);
	if (geteuid()) {
		print_message("only root can give files away\n");
		skip();
	}
	assert_int_equal(chown(path, 12345, 0), 0);
	assert_int_equal(load("owned"), -EPERM);
	assert_int_equal(chown(path, 0, 12345), 0);
	assert_int_equal(load("owned"), 0);
	assert_int_equal(chmod(path, 0640), 0); /* group 12345 is not ours */
	assert_int_equal(load("owned"), -EPERM);
}

/* As the agent's own user. */
static void test_owners_unprivileged(void **state)
{
	const char *path = tmpdir_at(&dir, "owned2");

	(void)state;
	if (geteuid()) {
		print_message("only root can become somebody else\n");
		skip();
	}
	tmpdir_write(&dir, "owned2", BASE32 "\n");
	assert_int_equal(chmod(dir.path, 0755) || chmod(path, 0640) || chown(path, 0, 12345), 0);
	assert_int_equal(setegid(12345) || seteuid(12345), 0);
	assert_int_equal(load("owned2"), 0);
	assert_int_equal(seteuid(0) || chown(path, 54321, 12345) || seteuid(12345), 0);
	assert_int_equal(load("owned2"), -EPERM);
	assert_int_equal(seteuid(0) || chown(path, 12345, 12345) || seteuid(12345), 0);
	assert_int_equal(load("owned2"), 0);
	assert_int_equal(seteuid(0) || chown(path, 12345, 0) || seteuid(12345), 0);
	assert_int_equal(load("owned2"), 0); /* root's group */
	assert_int_equal(seteuid(0) || chown(path, 12345, 777) || seteuid(12345), 0);
	assert_int_equal(load("owned2"), -EPERM);
	assert_int_equal(seteuid(0) || setegid(0), 0);
}

static void test_other_files(void **state)
{
	char text[5000];

	(void)state;
	assert_int_equal(load("missing"), -ENOENT);
	assert_int_equal(mkdir(tmpdir_at(&dir, "directory"), 0700), 0);
	assert_int_equal(load("directory"), -EINVAL);
	assert_int_equal(mkfifo(tmpdir_at(&dir, "fifo"), 0600), 0);
	assert_int_equal(load("fifo"), -EINVAL);
	memset(text, '#', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	tmpdir_write(&dir, "long", text);
	assert_int_equal(chmod(tmpdir_at(&dir, "long"), 0600), 0);
	assert_int_equal(load("long"), -EINVAL);
	/* As secrets are mounted into containers. */
	tmpdir_write(&dir, "target", BASE32);
	assert_int_equal(chmod(tmpdir_at(&dir, "target"), 0400), 0);
	tmpdir_link(&dir, "link", "target");
	assert_int_equal(load("link"), 0);
}

static void test_faults(void **state)
{
	static const enum fault_call calls[] = {FAULT_OPEN, FAULT_FSTAT, FAULT_READ};
	struct md_keys keys;

	(void)state;
	tmpdir_write(&dir, "faulty", BASE32 "\n");
	assert_int_equal(chmod(tmpdir_at(&dir, "faulty"), 0600), 0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		FAULT_EACH(calls[i], EIO, {
			int rc = md_keys_load(tmpdir_at(&dir, "faulty"), &keys, why, sizeof(why));

			assert_int_equal(rc, fault_fired() ? -EIO : 0);
		})
	fault_arm(FAULT_READ, 1, EINTR);
	assert_int_equal(load("faulty"), 0);
	fault_disarm();
}

static void test_make(void **state)
{
	char one[MD_KEY_TEXT_SIZE], two[MD_KEY_TEXT_SIZE];
	struct md_keys keys;

	(void)state;
	assert_int_equal(md_key_make(one), 0);
	assert_int_equal(md_key_make(two), 0);
	assert_string_not_equal(one, two);
	assert_int_equal(strlen(one), MD_KEY_TEXT_SIZE - 1);
	assert_int_equal(parse(one, &keys), 0);
	md_keys_wipe(&keys);
	assert_int_equal(keys.n, 0);
	assert_int_equal(keys.keys[0][5], 0);
}

static void test_start_numbers(void **state)
{
	int fd = open(dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t year_ns = 365ull * 86400 * 1000000000;
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(md_start_number(fd, 1000), 1000);
	assert_int_equal(md_start_number(fd, 2000), 2000);
	assert_int_equal(md_start_number(fd, 2000), 2001);
	assert_int_equal(md_start_number(fd, 5), 2002); /* set back */
	assert_int_equal(md_start_number(fd, 0), 2003);
	assert_int_equal(md_start_number(fd, 3000), 3000);
	assert_int_equal(stat(tmpdir_at(&dir, "start"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	/* A number from beyond all starts is not believed: there would be no way back from it. */
	tmpdir_write(&dir, "start", "18446744073709551615\n");
	assert_int_equal(md_start_number(fd, 50 * year_ns), 50 * year_ns);
	tmpdir_write(&dir, "start", "nonsense\n");
	assert_int_equal(md_start_number(fd, 7000), 7000);
	tmpdir_write(&dir, "start", "8000"); /* torn */
	assert_int_equal(md_start_number(fd, 7000), 7000);
	assert_int_equal(md_start_number(-1, 0), 1);
	close(fd);
}

static void test_start_faults(void **state)
{
	static const enum fault_call calls[] = {FAULT_OPEN, FAULT_READ, FAULT_WRITE};
	int fd = open(dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned int fds = fault_open_fds();

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		FAULT_EACH(calls[i], EIO, assert_true(md_start_number(fd, 9000) >= 9000))
	assert_int_equal(fault_open_fds(), fds);
	assert_true(md_start_number(fd, 9000) > 9000);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_files),   cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_long_line),    cmocka_unit_test(test_modes),
		cmocka_unit_test(test_owners),       cmocka_unit_test(test_owners_unprivileged),
		cmocka_unit_test(test_other_files),  cmocka_unit_test(test_faults),
		cmocka_unit_test(test_make),         cmocka_unit_test(test_start_numbers),
		cmocka_unit_test(test_start_faults),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
