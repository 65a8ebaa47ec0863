/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The hosts file: what is read, what is complained of, and what is forgotten. */
#include "hosts_fixture.h"

#include <stdio.h>
#include <string.h>

#include "fault.h"
#include "hostsfile.h"
#include "tmpdir.h"

static char complaints[2048];
static struct md_pins pins;

static void report(void *arg, unsigned int line, const char *text)
{
	size_t used = strlen(complaints);

	(void)arg;
	snprintf(complaints + used, sizeof(complaints) - used, "%u: %.20s\n", line, text);
}

static unsigned int parse(const char *text)
{
	complaints[0] = '\0';
	return md_hostsfile_parse(&targets, &pins, text, strlen(text), report, NULL);
}

static void test_hosts_file(void **state)
{
	union ibv_gid gid = unit_gid("10.9.0.2");

	(void)state;
	assert_int_equal(
		parse("# comment\n\n  node1 10.9.0.1 2001:db8::1 # two\r\n\tnode2\t10.9.0.2"), 0);
	assert_string_equal(complaints, "");
	assert_int_equal(targets.n, 3);
	assert_string_equal(md_targets_find(&targets, &gid)->name, "node2");
	assert_int_equal(parse("node3\nnode4 10.9.0.4 ten\nnode5 fe80::1\nnode6 10.9.0.1\n"
			       "n\303\266de 10.9.0.7\nnode8 0.0.0.0 224.0.0.1 ::\n"),
			 8);
	assert_string_equal(
		complaints,
		"1: a name without an ad\n2: write a name, then I\n3: only addresses that \n"
		"4: this address stands \n5: the name has to be A\n6: only addresses that \n"
		"6: only addresses that \n6: only addresses that \n");
	assert_int_equal(targets.n, 4);
	assert_int_equal(parse("no\"de 10.9.0.8\nno\\de 10.9.0.8\n"), 2);
	assert_int_equal(targets.n, 4);
	/* Read again: what is no longer in it is forgotten, unless a process needs it. */
	md_targets_use(&targets, &gid, 0, 10 * MD_S);
	md_targets_forget_file(&targets);
	assert_int_equal(parse("other 10.9.0.1\n"), 0);
	tick(11 * MD_S);
	assert_int_equal(targets.n, 2);
	gid = unit_gid("10.9.0.1");
	assert_string_equal(md_targets_find(&targets, &gid)->name, "other");
}

static void test_hosts_file_odd(void **state)
{
	char line[5000];

	(void)state;
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	assert_int_equal(parse(line), 1);
	line[100] = '\0';
	assert_int_equal(parse(line), 1);
	complaints[0] = '\0';
	assert_int_equal(md_hostsfile_parse(&targets, &pins, "a\0b 10.9.0.1", 12, report, NULL), 1);
	assert_int_equal(targets.n, 0);
}

/* What a file says that cannot be read now is not known: addresses and keys of its last state stay. */
static void test_hosts_file_reload(void **state)
{
	const struct md_public key = {.bytes = {7}};
	char line[128] = "a 10.9.0.1 key=";
	union ibv_gid gid = unit_gid("10.9.0.1");
	struct tmpdir dir;

	(void)state;
	tmpdir_make(&dir);
	md_public_format(&key, line + strlen(line));
	tmpdir_write(&dir, "hosts", line);
	assert_int_equal(md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "hosts"), report, NULL), 0);
	assert_int_equal(md_hostsfile_load(&targets, &pins, dir.path, report, NULL), 1);
	assert_true(md_public_is(md_pins_find(&pins, "a", NULL, NULL), &key));
	assert_string_equal(md_targets_find(&targets, &gid)->name, "a");
	/* A file that was removed says nothing. */
	assert_int_equal(md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "none"), report, NULL), 0);
	assert_null(md_pins_find(&pins, "a", NULL, NULL));
	assert_string_equal(md_targets_find(&targets, &gid)->name, "");
	tmpdir_remove(&dir);
}

static void test_hosts_file_load(void **state)
{
	struct tmpdir dir;
	char *big = malloc(2 << 20);

	(void)state;
	tmpdir_make(&dir);
	complaints[0] = '\0';
	assert_int_equal(md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "none"), report, NULL), 0);
	tmpdir_write(&dir, "hosts", "a 10.9.0.1\n");
	assert_int_equal(md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "hosts"), report, NULL), 0);
	assert_int_equal(targets.n, 1);
	assert_int_equal(md_hostsfile_load(&targets, &pins, dir.path, report, NULL), 1);
	memset(big, '\n', 2 << 20);
	big[(2 << 20) - 1] = '\0';
	tmpdir_write(&dir, "big", big);
	assert_int_equal(md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "big"), report, NULL), 1);
	assert_non_null(strstr(complaints, "0: is longer than 1 MiB"));
	free(big);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		unsigned int n;

		md_targets_fini(&targets);
		n = md_hostsfile_load(&targets, &pins, tmpdir_at(&dir, "hosts"), report, NULL);
		assert_int_equal(n, fault_fired() ? 1 : 0);
		assert_int_equal(targets.n, fault_fired() ? 0 : 1);
	});
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hosts_file, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_hosts_file_odd, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_hosts_file_load, reset_targets, free_targets),
		cmocka_unit_test_setup_teardown(test_hosts_file_reload, reset_targets, free_targets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
