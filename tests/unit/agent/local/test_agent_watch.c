/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* When this host's devices are looked at; sysfs is a folder, the notices are ours. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "bounds.h"
#include "fault.h"
#include "tmpdir.h"
#include "watch.h"

#define PORT "class/infiniband/mlx5_0/ports/1/"

static struct tmpdir sysfs;
static struct mv_config config;
static struct md_drained drained;
static struct md_jobs jobs;
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
	watch = (struct md_watch){.sysfs = sysfs.path, .config = &config, .drained = &drained, .jobs = &jobs,
				  .changed = changed};
	drained = (struct md_drained){0};
	n_changed = 0;
	assert_true(sd_event_new(&event) >= 0);
	jobs = (struct md_jobs){0};
	assert_int_equal(md_jobs_start(&jobs, event), 0);
	assert_int_equal(md_watch_start(&watch, event), 0);
	sd_event_source_set_enabled(watch.notice, SD_EVENT_OFF); /* what others do to netdevs of this machine meanwhile */
	assert_int_equal(watch.view->desc->n_rails, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_true(md_jobs_stop(&jobs));
	fault_recv_divert = NULL;
	md_watch_stop(&watch);
	sd_event_unref(event);
	tmpdir_remove(&sysfs);
	return 0;
}

static bool is_up(void)
{
	return watch.view->desc->rails[0].flags & MV_RAIL_UP;
}

static uint64_t boottime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * MD_S + (uint64_t)now.tv_nsec;
}

/* Looking has taken its share for the next minutes. */
static void overspend(void)
{
	watch.whole.spent_at_ns = boottime_ns();
	watch.whole.spent_ns = 100 * MD_S;
}

static void run_until_changed(unsigned int n)
{
	unsigned int turns;

	for (turns = 0; turns < 100 && n_changed < n; turns++)
		sd_event_run(event, 20000);
}

static void run_until_looked(unsigned int n)
{
	unsigned int turns;

	for (turns = 0; turns < 100 && watch.n_looks < n; turns++)
		sd_event_run(event, 20000);
	assert_int_equal(watch.n_looks, n);
}

static void test_at_once(void **state)
{
	uint64_t begun_ns = boottime_ns();

	(void)state;
	assert_int_equal(watch.view->number, 1);
	assert_true(is_up());
	tmpdir_write(&sysfs, PORT "state", "1: DOWN\n");
	md_watch_noticed(&watch);
	run_until_changed(1);
	assert_false(is_up());
	/* Without reading the tables, which comes later, and twice. */
	assert_int_equal(watch.n_looks, 0);
	assert_true(watch.whole.at_ns >= begun_ns + MD_TABLES_NS);
	run_until_looked(2);
	assert_int_equal(n_changed, 1);
	assert_int_equal(watch.whole.n_due, 0);
}

/* What is said of the same change, during the look and after it, brings no tables before connections have moved; but other ports are looked at. */
static void test_said_twice(void **state)
{
	uint64_t begun_ns = boottime_ns();

	(void)state;
	tmpdir_write(&sysfs, PORT "state", "1: DOWN\n");
	md_watch_noticed(&watch);
	assert_in_range(watch.whole.change_ns, begun_ns, boottime_ns());
	watch.whole.change_ns = boottime_ns() + 3600 * MD_S; /* as if the clock stood still */
	md_watch_noticed(&watch);
	run_until_changed(1);
	assert_true(watch.states.due);
	assert_true(watch.whole.at_ns >= begun_ns + MD_TABLES_NS);
	md_watch_noticed(&watch);
	assert_true(watch.whole.at_ns >= begun_ns + MD_TABLES_NS);
	run_until_looked(2);
	assert_true(boottime_ns() >= begun_ns + MD_TABLES_NS);
	assert_int_equal(n_changed, 1);
	assert_int_equal(watch.whole.n_due, 0);
}

/* What is in the tables only. */
static void test_tables(void **state)
{
	(void)state;
	tmpdir_write(&sysfs, PORT "gids/1", "fe80:0000:0000:0000:0000:0000:0000:0002\n");
	md_watch_noticed(&watch);
	run_until_changed(1);
	assert_int_equal(watch.n_looks, 1);
	assert_int_equal(watch.view->desc->n_gids, 2);
}

/* A port that comes up has tables worth reading: at once. @change_ns: when the kernel told that it was down */
static void comes_up(uint64_t change_ns)
{
	tmpdir_write(&sysfs, PORT "state", "1: DOWN\n");
	md_watch_noticed(&watch);
	run_until_changed(1);
	watch.states.paid_ns = 0; /* as after a while, so that they are looked at first again */
	/* On a slow machine the look at the tables that waits now would be first. */
	watch.whole.at_ns = boottime_ns() + 3600 * MD_S;
	sd_event_source_set_enabled(watch.timer, SD_EVENT_OFF);
	watch.whole.change_ns = change_ns;
	tmpdir_write(&sysfs, PORT "state", "4: ACTIVE\n");
	md_watch_noticed(&watch);
	run_until_changed(2);
	assert_true(is_up());
	assert_int_equal(watch.n_looks, 0);
	assert_true(watch.whole.n_due > 1); /* as after a notice, not as after a port that went down */
	run_until_looked(1);
}

static void test_comes_up(void **state)
{
	(void)state;
	comes_up(0);
}

static void test_comes_up_soon(void **state)
{
	(void)state;
	comes_up(boottime_ns() + 3600 * MD_S); /* as if the clock stood still */
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
	assert_true(watch.whole.at_ns > boottime_ns() + MD_S);
	/* What it has is still known. */
	assert_int_equal(watch.view->desc->n_gids, 1);
}

/* Two looks are free, of which one is at once; from then on each waits until those before are paid for. */
static void test_states_are_paid_for(void **state)
{
	uint64_t at_us, noticed_ns, paid_ns;

	(void)state;
	overspend();
	tmpdir_write(&sysfs, PORT "state", "1: DOWN\n");
	md_watch_noticed(&watch);
	assert_true(watch.look.out);
	run_until_changed(1);
	/* As if it had taken so long. */
	paid_ns = boottime_ns() + 10 * MD_S;
	watch.states.cost_ns = 10 * MD_S;
	watch.states.paid_ns = paid_ns;
	tmpdir_write(&sysfs, PORT "state", "4: ACTIVE\n");
	noticed_ns = boottime_ns();
	md_watch_noticed(&watch);
	assert_false(watch.look.out);
	assert_true(watch.states.due);
	assert_false(sd_event_source_get_time(watch.timer, &at_us));
	assert_true(at_us * 1000 <= noticed_ns + MD_AT_ONCE_NS + MD_MS);
	run_until_changed(2);
	assert_true(watch.states.paid_ns > paid_ns);
	paid_ns = boottime_ns() + 20 * MD_S;
	watch.states.cost_ns = 10 * MD_S;
	watch.states.paid_ns = paid_ns;
	watch.whole.at_ns = paid_ns + MD_S;
	md_watch_noticed(&watch);
	assert_true(watch.states.due);
	assert_false(sd_event_source_get_time(watch.timer, &at_us));
	assert_true(at_us * 1000 >= paid_ns - 11 * MD_S); /* the event loop reckons from when it last looked at the clock */
}

/* The kernel's lock, which others have for long. */
static pthread_mutex_t rtnl = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned int n_waited;
static _Atomic bool broken; /* then the next answer does not come */

ssize_t __real_recv(int fd, void *buf, size_t len, int flags);

static ssize_t recv_behind_rtnl(int fd, void *buf, size_t len, int flags)
{
	if (!(flags & MSG_DONTWAIT)) {
		n_waited++;
		pthread_mutex_lock(&rtnl);
		pthread_mutex_unlock(&rtnl);
		if (broken) {
			broken = false;
			errno = EIO;
			return -1;
		}
	}
	return __real_recv(fd, buf, len, flags);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *arg)
{
	unsigned int *n = arg;

	(void)source;
	(void)usec;
	++*n;
	return 0;
}

static void others_have_the_lock(void)
{
	fault_recv_divert = recv_behind_rtnl;
	pthread_mutex_lock(&rtnl);
	n_waited = 0;
	md_watch_noticed(&watch);
	for (int i = 0; i < 100 && !n_waited; i++)
		sd_event_run(event, 20000);
	assert_true(n_waited && watch.look.out);
}

/* Other things go on while the kernel has it wait, and it catches up with all that happened meanwhile. */
static void test_nobody_waits(void **state)
{
	unsigned int n_ticks = 0;

	(void)state;
	others_have_the_lock();
	assert_true(sd_event_add_time_relative(event, NULL, CLOCK_BOOTTIME, 1000, 0, on_tick, &n_ticks) >= 0);
	for (int i = 0; i < 10 && !n_ticks; i++)
		sd_event_run(event, 20000);
	assert_int_equal(n_ticks, 1);
	assert_true(watch.look.out);
	assert_int_equal(n_changed, 0);
	assert_true(is_up());

	/* Drained meanwhile: as soon as it can be told. */
	assert_int_equal(md_drained_add(&drained, "mlx5_0"), 0);
	md_watch_drained(&watch);
	assert_true(watch.again && watch.again_whole);
	assert_int_equal(n_changed, 0);
	pthread_mutex_unlock(&rtnl);
	run_until_changed(1);
	assert_true(watch.view->desc->rails[0].flags & MV_RAIL_DRAINED);
	for (int i = 0; i < 100 && watch.n_looks < 2; i++)
		sd_event_run(event, 20000);
	assert_true(watch.n_looks >= 2 && !watch.again);
}

/* Another port may have gone down after it had been looked at. */
static void test_noticed_meanwhile(void **state)
{
	(void)state;
	others_have_the_lock();
	watch.whole.change_ns = 0; /* long ago */
	md_watch_noticed(&watch);
	tmpdir_write(&sysfs, PORT "state", "1: DOWN\n");
	pthread_mutex_unlock(&rtnl);
	run_until_changed(1);
	assert_int_equal(watch.n_looks, 0);
	run_until_looked(1);
	assert_true(watch.whole.n_due > 1); /* as after a notice, not as after a port that went down */
}

/* Of what a look that failed has left, no states can be read. */
static void test_states_after_a_failure(void **state)
{
	(void)state;
	others_have_the_lock();
	watch.again = true; /* states: as md_watch_noticed() asks, when looking has taken its share */
	watch.again_whole = false;
	broken = true;
	pthread_mutex_unlock(&rtnl);
	for (int i = 0; i < 100 && (!watch.n_failed || watch.look.out); i++)
		sd_event_run(event, 20000);
	assert_int_equal(watch.n_failed, 1);
	assert_int_equal(watch.last_err, 0);
	assert_int_equal(watch.view->desc->n_rails, 1);
	assert_int_equal(n_changed, 0);
}

/* The end does not wait for it for ever. */
static void test_end(void **state)
{
	(void)state;
	others_have_the_lock();
	assert_false(md_jobs_stop(&jobs));
	pthread_mutex_unlock(&rtnl);
	/* Here it has come back, so all can be released: teardown(). */
}

/* Nothing is read for it, if what was read last is good. */
static void test_drained_at_once(void **state)
{
	(void)state;
	assert_int_equal(md_drained_add(&drained, "mlx5_0"), 0);
	md_watch_drained(&watch);
	assert_int_equal(n_changed, 1);
	assert_int_equal(watch.view->number, 2);
	md_watch_drained(&watch);
	assert_int_equal(watch.view->number, 2);
	assert_false(watch.look.out);
	assert_int_equal(watch.view->desc->rails[0].flags & (MV_RAIL_UP | MV_RAIL_DRAINED), MV_RAIL_DRAINED);
	assert_int_equal(md_drained_remove(&drained, "mlx5_0"), 0);
	md_watch_drained(&watch);
	assert_int_equal(n_changed, 2);
	assert_int_equal(watch.view->number, 3); /* though it says the same as the first one */
	assert_true(is_up());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_said_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tables, setup, teardown),
		cmocka_unit_test_setup_teardown(test_comes_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_comes_up_soon, setup, teardown),
		cmocka_unit_test_setup_teardown(test_states_do_not_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(test_states_are_paid_for, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nobody_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_noticed_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_states_after_a_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_drained_at_once, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
