// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What decisions rest on: to leave a connection as its program asked, a table that was read a moment ago is good enough; to
 * change it, only one that is read for it.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "paths.h"
#include "program.h"

#define MS 1000000ull

static struct ibv_context *open_at(uint64_t now_ns)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	assert_non_null(context);
	clock_ns = now_ns;
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	return context;
}

static int connect_at(struct ibv_context *context, uint64_t now_ns)
{
	clock_ns = now_ns;
	return connect_from(context, 1, "10.1.0.2");
}

static void quiet_table_is_read_less_and_less(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	unsigned int before = fake.state->n_queries, many, i;

	for (i = 1; i <= 2000; i++)
		assert_int_equal(connect_at(context, 1000 * MS + i * MS), 1);
	many = fake.state->n_queries - before;
	assert_in_range(many, 8, 12); /* after 1, 2, 4 ... 1024 ms, or so */
	for (i = 1; i <= 10; i++)
		connect_at(context, (3000 + 1000 * i) * MS);
	assert_in_range(fake.state->n_queries - before - many, 9, 10); /* and every second */
	fake.close_device(context);
}

/* The kernel tells of an address first and fills its table some time after. */
static void table_filled_after_the_change(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	int late;

	for (late = 1; late <= 64; late *= 4) {
		uint64_t then = clock_ns + 5000 * MS;

		set_gid(0, 1, "10.1.0.1", 2);
		announce_change();
		assert_int_equal(connect_at(context, then), 1);
		assert_int_equal(connect_at(context, then + late * MS / 2), 1);
		move_gid();
		/* Wrong for no longer than the kernel took. */
		assert_int_equal(connect_at(context, then + 2 * late * MS), 4);
	}
	fake.close_device(context);
}

static void believed_for_as_long_again(void)
{
	struct ibv_context *context = open_at(1000 * MS);

	announce_change();
	connect_at(context, 2000 * MS);
	connect_at(context, 2010 * MS);
	move_gid();
	assert_int_equal(connect_at(context, 2019 * MS), 1); /* as without us */
	assert_int_equal(connect_at(context, 2021 * MS), 4);
	fake.close_device(context);
}

static void changes_end_belief(void)
{
	struct ibv_context *context = open_at(1000 * MS);

	connect_at(context, 1500 * MS);
	flap();
	assert_int_equal(connect_at(context, 1501 * MS), 4);
	fake.close_device(context);
}

static void what_changes_something_is_read_for_it(void)
{
	struct ibv_context *context = open_at(1000 * MS);

	flap();
	assert_int_equal(connect_at(context, 2000 * MS), 4);
	assert_int_equal(connect_at(context, 2010 * MS), 4);
	set_gid(0, 6, "10.1.0.1", 2); /* nobody tells */
	assert_int_equal(connect_at(context, 2011 * MS), 6);
	fake.close_device(context);
}

static int watch(void)
{
	bool busy;
	int fd = mesh_paths_watch(&busy);

	assert_false(busy);
	return fd;
}

static void helper_watches(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	unsigned int before;

	connect_at(context, 1500 * MS);
	assert_true(watch() >= 0);
	flap(); /* its thread is about to wake */
	before = n_fills;
	assert_int_equal(connect_at(context, 1501 * MS), 1);
	assert_int_equal(n_fills, before);
	assert_int_equal(address_from(context, 2, "10.1.0.2"), 4); /* what changes something does not rely on it */
	assert_int_equal(n_fills, before + 1);
	assert_int_equal(connect_at(context, 1502 * MS), 4);
	set_gid(0, 1, "10.1.0.1", 2);
	announce_change();
	connect_at(context, 2000 * MS);
	mesh_paths_unwatch();
	assert_int_equal(connect_at(context, 2001 * MS), 1);
	flap();
	watch(); /* looks before it sleeps */
	assert_int_equal(connect_at(context, 2002 * MS), 4);
	fake.close_device(context);
}

/* On a host that changes all the time its thread has something else to do. */
static void helper_rests_between_changes(void)
{
	struct ibv_context *context;
	uint64_t begun, passed, follows;
	struct stat st;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	assert_int_equal(fstat(pair[0], &st), 0);
	notice_fd = pair[0];
	notice_ino = st.st_ino;
	assert_int_equal(write(pair[1], "x", 1), 1); /* there is always another one */
	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	assert_non_null(context);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	begun = mesh_now_ns();
	n_follows = 0;
	assert_int_equal(mesh_thread_wake(true), 0);
	do
		usleep(500 * 1000);
	while (n_follows < 2);
	follows = n_follows; /* before the clock: this thread may lose the processor in between */
	passed = mesh_now_ns() - begun;
	assert_in_range(follows, 2, 2 + passed / (100 * MS));
	fake.close_device(context);
}

static void *watch_beside(void *arg)
{
	bool *busy = arg;

	assert_int_equal(mesh_paths_watch(busy), -1);
	mesh_paths_unwatch();
	return NULL;
}

/* Connections that move do not wait with those that are made, whom the kernel may have wait for its locks. */
static void helper_never_waits(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	bool busy = false;
	pthread_t helper;

	connect_at(context, 1500 * MS);
	mesh_lock(&mesh_root.process->paths.lock);
	assert_int_equal(pthread_create(&helper, NULL, watch_beside, &busy), 0);
	assert_int_equal(pthread_join(helper, NULL), 0);
	mesh_unlock(&mesh_root.process->paths.lock);
	assert_true(busy);
	assert_true(watch() >= 0);
	fake.close_device(context);
}

/* Sure or not is told to those who do more than to choose an index. */
static void tells_whether_it_is_sure(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .dgid = gid("10.1.0.2")}};
	struct mesh_context *mc = mesh_context_get(context);
	struct mesh_choice choice;

	connect_at(context, 1500 * MS);
	mesh_paths_choose(mc, context, &ah, MV_CONNECTED, false, &choice);
	assert_false(choice.sure);
	assert_true(choice.fits);
	move_gid();
	mesh_paths_choose(mc, context, &ah, MV_CONNECTED, false, &choice);
	assert_int_equal(choice.index, 1);
	mesh_paths_choose(mc, context, &ah, MV_CONNECTED, true, &choice);
	assert_true(choice.sure);
	assert_int_equal(choice.index, 4);
	watch();
	mesh_paths_choose(mc, context, &ah, MV_CONNECTED, true, &choice);
	assert_true(choice.sure);
	fake.close_device(context);
}

/* After a port was down its table may be without what the program chose: to be looked at, for nobody may have told of it. */
static void tells_what_is_lacking(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	struct mesh_context *mc = mesh_context_get(context);
	const union ibv_gid own = gid("10.1.0.1");

	assert_false(mesh_paths_lack(mc, context, 1, &own, MV_GID_TYPE_ROCE_V2, 1));
	move_gid(); /* to index 4 */
	assert_false(mesh_paths_lack(mc, context, 1, &own, MV_GID_TYPE_ROCE_V2, 1));
	set_gid(0, 4, "10.1.0.9", 2);
	assert_true(mesh_paths_lack(mc, context, 1, &own, MV_GID_TYPE_ROCE_V2, 1));
	assert_false(mesh_paths_lack(mc, context, 1, &own, MV_GID_TYPE_ROCE_V2, 4)); /* it is another's */
	assert_false(mesh_paths_lack(mc, context, 3, &own, MV_GID_TYPE_ROCE_V2, 1)); /* no such port */
	set_gid(0, 1, "10.1.0.1", 2);
	assert_false(mesh_paths_lack(mc, context, 1, &own, MV_GID_TYPE_ROCE_V2, 1));
	assert_true(mesh_paths_lack(mc, context, 1, &own, MV_GID_TYPE_ROCE_V1, 7));
	fake.close_device(context);
}

/* The same question again, on the same ground, is not thought about again. */
static void answers_are_remembered(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	struct mesh_context *mc = mesh_context_get(context);
	unsigned int before;
	size_t n;

	mesh_root.log.level = MV_LOG_INFO; /* debugging wants to see each decision */
	connect_at(context, 1500 * MS);
	watch();
	before = fake.state->n_queries;
	n = mc->tables.devices[0].ports[0].n_gids;
	mc->tables.devices[0].ports[0].n_gids = 0; /* who looks there finds nothing, and reads it anew */
	assert_int_equal(connect_at(context, 1501 * MS), 1);
	assert_int_equal(fake.state->n_queries, before);
	mc->tables.devices[0].ports[0].n_gids = n;
	mesh_paths_unwatch();
	flap();
	assert_int_equal(connect_at(context, 2000 * MS), 4);
	connect_at(context, 2500 * MS);
	watch();
	assert_int_equal(connect_at(context, 2501 * MS), 4); /* and nothing is remembered of the ground before */
	fake.close_device(context);
}

/* What is told of a change is enough: a dump waits for a lock of the kernel's, which others may have for long. */
static void changes_are_followed(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	unsigned int before, tables;

	connect_at(context, 1500 * MS);
	before = n_fills;
	tables = fake.state->n_queries;
	announce_addr(3, "10.7.0.1");
	set_gid(2, 7, "10.7.0.1", 3);
	clock_ns = 2000 * MS;
	assert_int_equal(address_from(context, 7, "10.7.0.2"), 7);
	assert_true(fake.state->n_queries > tables);
	assert_int_equal(n_fills, before);
	/* Also by who watches. */
	announce_addr(3, "10.8.0.1");
	set_gid(3, 8, "10.8.0.1", 3);
	assert_true(watch() >= 0);
	clock_ns = 3000 * MS;
	assert_int_equal(address_from(context, 8, "10.8.0.2"), 8);
	assert_int_equal(n_fills, before);
	mesh_paths_unwatch();
	/* What was lost is read anew. */
	announce_change();
	assert_int_equal(connect_at(context, 4000 * MS), 1);
	assert_int_equal(n_fills, before + 1);
	fake.close_device(context);
}

/* The kernel tells of some addresses long after their GIDs are there: what changes something is dumped for it. */
static void changes_nothing_by_what_is_told(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	unsigned int before;

	connect_at(context, 1500 * MS);
	before = n_fills;
	set_gid(2, 7, "10.7.0.1", 3);
	set_gid(3, 9, "10.7.0.9", 2); /* would be chosen instead */
	announce_addr(2, "10.7.0.9");
	add_untold_addr(3, "10.7.0.1");
	clock_ns = 2000 * MS;
	assert_int_equal(address_from(context, 7, "10.7.0.2"), 7);
	assert_int_equal(n_fills, before + 1);
	/* Once. */
	assert_int_equal(address_from(context, 1, "10.5.0.2"), 2);
	assert_int_equal(address_from(context, 1, "10.5.0.2"), 2);
	assert_int_equal(n_fills, before + 1);
	/* Nor is it by who looks a second time for another reason: what is told comes with that look. */
	mesh_paths_unwatch();
	connect_at(context, 3000 * MS);
	connect_at(context, 4000 * MS);
	assert_true(watch() >= 0);
	before = n_fills;
	announce_addr(2, "10.7.0.9");
	assert_int_equal(connect_from(context, 3, "10.7.0.2"), 3);
	assert_int_equal(n_fills, before + 1);
	mesh_paths_unwatch();
	/* To keep an index because nothing depends on it needs none. */
	announce_route();
	assert_int_equal(address_from(context, 1, "10.1.0.1"), 1);
	assert_int_equal(n_fills, before + 1);
	connect_from(context, 3, "10.7.0.2");
	before = n_fills - 1;
	/* A connection that something is to be done about, too. */
	announce_route();
	assert_int_equal(address_from(context, 7, "10.7.0.2"), 7);
	assert_int_equal(n_fills, before + 1);
	assert_int_equal(connect_from(context, 3, "10.7.0.2"), 3);
	assert_int_equal(n_fills, before + 2);
	fake.close_device(context);
}

static unsigned int n_remembered(const struct mesh_context *mc)
{
	unsigned int n = 0;

	for (size_t i = 0; i < MESH_FITS; i++)
		n += mc->fits[i].port_num != 0;
	return n;
}

/* Routes are asked for with each decision. GID tables do not depend on them. */
static void routes_end_what_is_remembered(void)
{
	struct ibv_context *context = open_at(1000 * MS);
	struct mesh_context *mc = mesh_context_get(context);
	unsigned int before, tables;
	size_t n;

	mesh_root.log.level = MV_LOG_INFO; /* debugging wants to see each decision */
	connect_at(context, 1500 * MS);
	connect_at(context, 2100 * MS);
	watch();
	n = mc->tables.devices[0].ports[0].n_gids;
	mc->tables.devices[0].ports[0].n_gids = 0; /* who looks there finds nothing, and reads it anew */
	tables = fake.state->n_queries;
	before = n_fills;
	assert_int_equal(connect_at(context, 2101 * MS), 1);
	assert_int_equal(fake.state->n_queries, tables);
	announce_route();
	watch();
	connect_at(context, 2102 * MS);
	assert_true(fake.state->n_queries > tables);
	assert_true(mc->tables.devices[0].ports[0].n_gids >= n);
	assert_int_equal(n_fills, before + 1); /* there seemed to be something to change */
	/* And what is found then is remembered again. */
	connect_at(context, 3000 * MS);
	connect_at(context, 3900 * MS);
	tables = fake.state->n_queries;
	announce_route();
	watch();
	connect_at(context, 3901 * MS);
	connect_at(context, 3902 * MS);
	assert_int_equal(fake.state->n_queries, tables);
	/* Nothing is left of what was remembered of others before. */
	assert_int_equal(connect_from(context, 1, "10.1.0.3"), 1);
	assert_int_equal(n_remembered(mc), 2);
	announce_route();
	watch();
	connect_at(context, 3903 * MS);
	assert_int_equal(n_remembered(mc), 1);
	fake.close_device(context);
}

TEST(changes_are_followed)
TEST(changes_nothing_by_what_is_told)
TEST(routes_end_what_is_remembered)
TEST(quiet_table_is_read_less_and_less)
TEST(table_filled_after_the_change)
TEST(believed_for_as_long_again)
TEST(changes_end_belief)
TEST(what_changes_something_is_read_for_it)
TEST(helper_watches)
TEST(helper_rests_between_changes)
TEST(helper_never_waits)
TEST(tells_whether_it_is_sure)
TEST(tells_what_is_lacking)
TEST(answers_are_remembered)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes_are_followed),
		cmocka_unit_test(test_changes_nothing_by_what_is_told),
		cmocka_unit_test(test_routes_end_what_is_remembered),
		cmocka_unit_test(test_quiet_table_is_read_less_and_less),
		cmocka_unit_test(test_table_filled_after_the_change),
		cmocka_unit_test(test_believed_for_as_long_again),
		cmocka_unit_test(test_changes_end_belief),
		cmocka_unit_test(test_what_changes_something_is_read_for_it),
		cmocka_unit_test(test_helper_watches),
		cmocka_unit_test(test_helper_rests_between_changes),
		cmocka_unit_test(test_helper_never_waits),
		cmocka_unit_test(test_tells_whether_it_is_sure),
		cmocka_unit_test(test_tells_what_is_lacking),
		cmocka_unit_test(test_answers_are_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
