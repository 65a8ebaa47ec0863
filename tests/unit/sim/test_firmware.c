// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* How many commands a device's firmware executes at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "firmware.h"
#include "firmware_rule.h"

#define N_THREADS 6u
#define MS	  50u

static struct sim_dev dev;

static void set(const char *text)
{
	char copy[128], why[128];

	strcpy(copy, text);
	assert_int_equal(firmware_set(&dev, copy, why, sizeof(why)), 0);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void *command(void *arg)
{
	firmware_wait(&dev, SIM_FW_MODIFY);
	return arg;
}

/* Return: how long all of them together take, ms. */
static uint64_t all_commands(void)
{
	uint64_t begun_ms = now_ms();
	pthread_t threads[N_THREADS];

	for (unsigned int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, command, NULL), 0);
	for (unsigned int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	return now_ms() - begun_ms;
}

static void test_at_once(void **state)
{
	(void)state;
	set("us=50000 at-once=1");
	assert_in_range(all_commands(), N_THREADS * MS, UINT32_MAX);
	set("us=50000 command=modify at-once=3");
	assert_in_range(all_commands(), N_THREADS / 3 * MS, UINT32_MAX);
	/* Those of other kinds have their part in it. */
	set("us=0");
	set("us=50000 at-once=1");
	firmware_wait(&dev, SIM_FW_QUERY);
	assert_in_range(all_commands(), N_THREADS * MS, UINT32_MAX);
}

static void test_text(void **state)
{
	char text[256];

	(void)state;
	set("us=7 at-once=4 command=modify,query");
	assert_true(firmware_format(&dev, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, "query=7"));
	assert_non_null(strstr(text, "modify=7"));
	assert_non_null(strstr(text, " at-once=4"));
	assert_non_null(strstr(text, " commands=0"));
	firmware_wait(&dev, SIM_FW_QUERY);
	firmware_wait(&dev, SIM_FW_CREATE);
	assert_true(firmware_format(&dev, text, sizeof(text)) > 0);
	assert_non_null(strstr(text, " commands=1"));
	/* Without it any number of commands is executed at a time again. */
	set("us=7 command=modify");
	firmware_format(&dev, text, sizeof(text));
	assert_null(strstr(text, "at-once"));
}

static int setup(void **state)
{
	(void)state;
	memset(&dev, 0, sizeof(dev));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_at_once, setup),
		cmocka_unit_test_setup(test_text, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
