/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When this host's devices are looked at; sysfs is a folder, the notices are ours. */
#include "unit.h"

#include <time.h>

#include "bounds.h"
#include "tmpdir.h"
#include "watch.h"

#define PORT "class/infiniband/mlx5_0/ports/1/"

static struct tmpdir sysfs;
static struct mv_config config;
static struct md_watch watch;
static sd_event *event;
static unsigned int n_changed;

static void changed(void *arg, const struct md_view *old)
{
	(void)arg;
	(void)old;
	n_changed++;
}

static int setup(void **state)
{
	(void)state;
	tmpdir_make(&sysfs);
	/* A port without a netdev is up if it is ACTIVE. */
	tmpdir_write(&sysfs, PORT "link_layer", "InfiniBand\n");
	tmpdir_write(&sysfs, PORT "state", "4: ACTIVE\n");
	tmpdir_write(&sysfs, PORT "gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
	mv_config_defaults(&config);
	watch = (struct md_watch){.sysfs = sysfs.path, .config = &config, .changed = changed};
	n_changed = 0;
	assert_true(sd_event_new(&event) >= 0);
	assert_int_equal(md_watch_start(&watch, event), 0);
	assert_int_equal(watch.view->desc->n_rails, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	md_watch_stop(&watch);
	sd_event_unref(event);
	tmpdir_remove(&sysfs);
	return 0;
}

static bool is_up(void)
{
	return watch.view->desc->rails[0].flags & MV_RAIL_UP;
}

/* Looking has taken its share for the next minutes. */
static void overspend(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	watch.spent_at_ns = (uint64_t)now.tv_sec * MD_S + (uint64_t)now.tv_nsec;
	watch.spent_ns = 100 * MD_S;
}

static void run_until_changed(unsigned int n)
{
	unsigned int turns;

	for (turns = 0; turns < 100 && n_changed < n; turns++)
		sd_event_run(event, 20000);
}

static void test_at_once(void **state)
{
	(void)state;
	assert_true(is_up());
	tmpdir_write(&sysfs, PORT "state", "1: DOWN\n");
	md_watch_noticed(&watch);
	run_until_changed(1);
	assert_false(is_up());
	assert_true(watch.n_looks > 0);
}

/* Ports that have gone up and down so often that tables may not be read are believed to be what they are all the same. */
static void test_states_do_not_wait(void **state)
{
	(void)state;
	overspend();
	tmpdir_write(&sysfs, PORT "state", "1: DOWN\n");
	md_watch_noticed(&watch);
	run_until_changed(1);
	assert_false(is_up());
	tmpdir_write(&sysfs, PORT "state", "4: ACTIVE\n");
	md_watch_noticed(&watch);
	run_until_changed(2);
	assert_true(is_up());
	assert_int_equal(watch.n_looks, 0);
	/* What it has is still known. */
	assert_int_equal(watch.view->desc->n_gids, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_states_do_not_wait, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
