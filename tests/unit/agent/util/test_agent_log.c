/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The agent's log: what others can have said without end is said now and then. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent_log.h"
#include "tmpdir.h"

static struct tmpdir tmp;
static int own_stderr;

static int setup(void **state)
{
	char path[256];
	int fd;

	(void)state;
	tmpdir_make(&tmp);
	snprintf(path, sizeof(path), "%s/log", tmp.path);
	fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	own_stderr = dup(2);
	dup2(fd, 2);
	close(fd);
	md_log_init(MD_INFO);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	dup2(own_stderr, 2);
	close(own_stderr);
	tmpdir_remove(&tmp);
	return 0;
}

/* Lines with a text; @ret: the last one, with room for 1100 bytes. */
static unsigned int count_lines(const char *text, char *ret)
{
	char path[256], line[1100];
	unsigned int n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/log", tmp.path);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (strstr(line, text)) {
			n++;
			strcpy(ret, line);
		}
	fclose(file);
	return n;
}

static void log_one(unsigned int number)
{
	md_log(MD_WARNING, "one of %u", number);
}

static void test_floods(void **state)
{
	char last[1100];
	time_t begun = time(NULL);
	unsigned int n, more;

	(void)state;
	for (unsigned int i = 0; i < 10000; i++)
		log_one(i);
	n = count_lines("one of ", last);
	assert_in_range(n, MD_LOG_BURST, MD_LOG_BURST + (uint64_t)(time(NULL) - begun) + 1);
	/* That is of one place alone. */
	md_log(MD_WARNING, "another");
	assert_int_equal(count_lines("another", last), 1);
	/* And when there is room again, the log tells what it lacks. */
	for (more = n; more == n; more = count_lines("one of ", last)) {
		log_one(20000);
		usleep(10000);
	}
	assert_non_null(strstr(last, "one of 20000 ("));
	assert_non_null(strstr(last, " more like it)"));
	assert_int_equal(sscanf(strchr(last, '('), "(%u more", &more), 1);
	assert_true(more > 0);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"

/* Wherever the text of a line is in memory. */
static void test_many_places(void **state)
{
	static char texts[1000][8];
	char last[1100];

	(void)state;
	for (unsigned int i = 0; i < 10000; i++)
		md_log(MD_INFO, "flood");
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(texts[i], sizeof(texts[i]), "at %u", i);
		md_log(MD_INFO, texts[i]);
	}
	assert_int_equal(count_lines("at ", last), 1000);
}

#pragma GCC diagnostic pop

static void test_long_lines(void **state)
{
	char text[2000], last[1100];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (unsigned int i = 0; i < 3 * MD_LOG_BURST; i++)
		md_log(MD_INFO, "long %s", text);
	for (unsigned int n = count_lines("long", last); count_lines("long", last) == n; usleep(10000))
		md_log(MD_INFO, "long %s", text);
	assert_in_range(strlen(last), 1000, 1024);
}

static void test_debug_is_not_limited(void **state)
{
	char last[1100];

	(void)state;
	md_log_init(MD_DEBUG);
	for (unsigned int i = 0; i < 1000; i++)
		md_log(MD_DEBUG, "all of %u", i);
	assert_int_equal(count_lines("all of ", last), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_floods, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_places, setup, teardown),
		cmocka_unit_test_setup_teardown(test_debug_is_not_limited, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
