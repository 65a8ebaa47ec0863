// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What a program sees of a port that is down: ibv_query_port() and events, over a made-up libibverbs and provider. */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "directory_client.h"
#include "ports.h"
#include "program.h"
#include "rails.h"

int __wrap_mesh_directory_stand_in(const char *name, uint8_t port_num, struct mesh_directory_stand_in *ret);
bool __wrap_mesh_rail_may_open(const char *name);

static int view_err;
static bool openable;
static unsigned int n_looks, n_tries;
static struct mesh_directory_stand_in serving;

int __wrap_mesh_directory_stand_in(const char *name, uint8_t port_num, struct mesh_directory_stand_in *ret)
{
	assert_string_equal(name, "mlx5_0");
	assert_int_equal(port_num, 1);
	n_looks++;
	if (!view_err)
		*ret = serving;
	return view_err;
}

bool __wrap_mesh_rail_may_open(const char *name)
{
	assert_string_equal(name, "mlx5_1");
	n_tries++;
	errno = ENOENT;
	return openable;
}

/* Every byte is set, so that each change of one shows. */
static struct ibv_port_attr port(enum ibv_port_state state)
{
	struct ibv_port_attr attr;

	memset(&attr, 0x5a, sizeof(attr));
	attr.state = state;
	attr.max_mtu = IBV_MTU_4096;
	attr.active_mtu = IBV_MTU_4096;
	attr.lid = 0;
	attr.phys_state = 3;
	attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	return attr;
}

static struct ibv_context *begin(bool on)
{
	start(FAKEVERBS_34, &usual);
	mesh_root.config.stand_in = on;
	fake.state->port = port(IBV_PORT_DOWN);
	serving = (struct mesh_directory_stand_in){
		.device = "mlx5_1", .port = 1, .mtu_bytes = 1024, .rate_mbps = 200000, .host = "b"};
	view_err = 0;
	openable = true;
	n_looks = n_tries = 0;
	return fake.open_device("mlx5", &device);
}

static struct ibv_port_attr query(struct ibv_context *context)
{
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof(attr));
	errno = EXDEV;
	assert_int_equal(fake.query_port(context, 1, &attr), 0);
	assert_int_equal(errno, EXDEV);
	return attr;
}

#define assert_bare(context)                                                                               \
	do {                                                                                               \
		struct ibv_port_attr bare_attr = query(context);                                           \
		assert_memory_equal(&bare_attr, &fake.state->port, sizeof(bare_attr));                      \
	} while (0)

static enum ibv_event_type event(struct ibv_context *context, enum ibv_event_type type)
{
	struct ibv_async_event event = {.event_type = type, .element.port_num = 1};

	fake.async_event(context, &event);
	assert_int_equal(event.element.port_num, 1);
	return event.event_type;
}

static void off_is_the_lower_alone(void)
{
	struct ibv_context *context = begin(false);
	unsigned int before = fake.state->n_query_port;

	assert_true(mesh_context_get(context)->can_move);
	assert_null(mesh_context_get(context)->lower.query_port);
	assert_int_equal(mesh_root.calibration.slot[MESH_OP_QUERY_PORT], MESH_OP_ABSENT);
	assert_int_equal(before, 0);
	assert_bare(context);
	assert_int_equal(event(context, IBV_EVENT_PORT_ERR), IBV_EVENT_PORT_ERR);
	assert_int_equal(event(context, IBV_EVENT_PORT_ACTIVE), IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(n_looks, 0);
	assert_int_equal(fake.state->n_query_port, 1);
	fake.close_device(context);
}

static void excluded_device_is_left_alone(void)
{
	struct ibv_context *context = begin(true);

	fake.close_device(context);
	strcpy(mesh_root.config.exclude.names[0], "mlx5_0");
	mesh_root.config.exclude.n = 1;
	context = fake.open_device("mlx5", &device);
	assert_null(mesh_context_get(context));
	assert_bare(context);
	assert_int_equal(event(context, IBV_EVENT_PORT_ERR), IBV_EVENT_PORT_ERR);
	fake.close_device(context);
}

static void active_port_is_left_alone(void)
{
	struct ibv_context *context = begin(true);
	unsigned int before;

	fake.state->port = port(IBV_PORT_ACTIVE);
	before = fake.state->n_query_port;
	assert_bare(context);
	assert_int_equal(fake.state->n_query_port, before + 1);
	assert_int_equal(event(context, IBV_EVENT_PORT_ACTIVE), IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(event(context, IBV_EVENT_GID_CHANGE), IBV_EVENT_GID_CHANGE);
	/* An old event, of a port that is active again. */
	assert_int_equal(event(context, IBV_EVENT_PORT_ERR), IBV_EVENT_PORT_ERR);
	assert_int_equal(n_looks, 0);
	fake.close_device(context);
}

static void another_port_stands_in(void)
{
	struct ibv_context *context = begin(true);
	struct ibv_port_attr shown = query(context), like = fake.state->port;

	like.state = IBV_PORT_ACTIVE;
	like.phys_state = 5;
	like.active_mtu = IBV_MTU_1024;
	like.active_width = 2;
	like.active_speed = 64;
	assert_memory_equal(&shown, &like, sizeof(shown));
	/* For the plugin itself it is down. */
	assert_int_equal(mesh_real_port(context, 1, &shown), 0);
	assert_memory_equal(&shown, &fake.state->port, sizeof(shown));
	fake.close_device(context);
}

static void mtu_fits_both_ports(void)
{
	struct ibv_context *context = begin(true);

	fake.state->port.active_mtu = IBV_MTU_512;
	assert_int_equal(query(context).active_mtu, IBV_MTU_512);
	fake.state->port.active_mtu = IBV_MTU_4096;
	serving.mtu_bytes = 0;
	serving.rate_mbps = 0;
	assert_int_equal(query(context).active_mtu, IBV_MTU_4096);
	assert_int_equal(query(context).active_speed, 0x5a);
	fake.close_device(context);
}

static void bare_where_nothing_serves(void)
{
	struct ibv_context *context = begin(true);

	view_err = -EHOSTUNREACH;
	assert_bare(context);
	assert_int_equal(n_looks, 1);
	assert_int_equal(n_tries, 0);
	view_err = 0;
	openable = false;
	assert_bare(context);
	assert_int_equal(n_tries, 1);
	openable = true;
	fake.state->port.state = IBV_PORT_NOP;
	assert_bare(context);
	fake.state->port = port(IBV_PORT_DOWN);
	fake.state->port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	assert_bare(context); /* no LID */
	assert_int_equal(n_looks, 2);
	fake.state->port.lid = 3;
	assert_int_equal(query(context).state, IBV_PORT_ACTIVE);
	assert_int_equal(query(context).lid, 3);
	fake.close_device(context);
}

static void errors_are_the_lower_providers(void)
{
	struct ibv_context *context = begin(true);
	struct ibv_port_attr attr;

	assert_int_equal(fake.query_port(context, 2, &attr), EINVAL);
	assert_int_equal(mesh_real_port(context, 2, &attr), EINVAL);
	assert_int_equal(n_looks, 0);
	fake.close_device(context);
}

static void not_for_those_that_drive_queue_pairs(void)
{
	struct ibv_context *context = begin(true), *direct = fake.open_direct("mlx5", &device);

	assert_non_null(mesh_context_get(direct));
	assert_bare(direct);
	assert_int_equal(event(direct, IBV_EVENT_PORT_ERR), IBV_EVENT_PORT_ERR);
	assert_int_equal(n_looks, 0);
	assert_int_equal(query(context).state, IBV_PORT_ACTIVE);
	fake.close_device(direct);
	fake.close_device(context);
	/* The same records, for contexts that are not to be shown anything. */
	mesh_root.config.stand_in = false;
	context = fake.open_device("mlx5", &device);
	direct = fake.open_direct("mlx5", &device);
	assert_bare(context);
	assert_bare(direct);
	assert_null(mesh_context_get(context)->lower.query_port);
	assert_null(mesh_context_get(direct)->lower.query_port);
	fake.close_device(direct);
	fake.close_device(context);
}

static void needs_moves(void)
{
	struct ibv_context *context = begin(true);

	fake.close_device(context);
	mesh_root.config.moves = false;
	context = fake.open_device("mlx5", &device);
	assert_bare(context);
	fake.close_device(context);
	mesh_root.config.moves = true;
	mesh_root.config.mode = MV_MODE_OBSERVE;
	context = fake.open_device("mlx5", &device);
	assert_bare(context);
	fake.close_device(context);
}

static void events_agree(void)
{
	struct ibv_context *context = begin(true);
	struct mesh_context *mc = mesh_context_get(context);

	/* Down while the program runs: it never sees that, nor that it is over. */
	assert_int_equal(event(context, IBV_EVENT_PORT_ERR), IBV_EVENT_GID_CHANGE);
	assert_true(mesh_port_is_down(&mc->ports_down, context, 1));
	assert_int_equal(query(context).state, IBV_PORT_ACTIVE);
	fake.state->port.state = IBV_PORT_ACTIVE;
	assert_int_equal(event(context, IBV_EVENT_PORT_ACTIVE), IBV_EVENT_GID_CHANGE);
	assert_false(mesh_port_is_down(&mc->ports_down, context, 1));
	assert_int_equal(event(context, IBV_EVENT_PORT_ACTIVE), IBV_EVENT_PORT_ACTIVE);

	/* Down from the start, and shown as active. */
	fake.state->port.state = IBV_PORT_DOWN;
	assert_int_equal(query(context).state, IBV_PORT_ACTIVE);
	assert_int_equal(event(context, IBV_EVENT_PORT_ACTIVE), IBV_EVENT_GID_CHANGE);

	/* The one that served goes as well, and the program has seen that: it hears when its port is back. */
	assert_int_equal(query(context).state, IBV_PORT_ACTIVE);
	view_err = -ENETDOWN;
	assert_int_equal(query(context).state, IBV_PORT_DOWN);
	assert_int_equal(event(context, IBV_EVENT_PORT_ACTIVE), IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(event(context, IBV_EVENT_PORT_ERR), IBV_EVENT_PORT_ERR);
	fake.close_device(context);
}

/* libibverbs asks for the port where the kernel cannot be asked for the GID table; a lock is held then. */
static void table_queries_see_the_port(void)
{
	struct ibv_context *context = begin(true);
	_Atomic unsigned long *looking = mesh_looking_begin();

	assert_bare(context);
	assert_int_equal(n_looks, 0);
	mesh_looking_end(looking);
	assert_int_equal(query(context).state, IBV_PORT_ACTIVE);
	fake.close_device(context);
}

TEST(off_is_the_lower_alone)
TEST(excluded_device_is_left_alone)
TEST(active_port_is_left_alone)
TEST(another_port_stands_in)
TEST(mtu_fits_both_ports)
TEST(bare_where_nothing_serves)
TEST(errors_are_the_lower_providers)
TEST(not_for_those_that_drive_queue_pairs)
TEST(needs_moves)
TEST(events_agree)
TEST(table_queries_see_the_port)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_off_is_the_lower_alone),
		cmocka_unit_test(test_excluded_device_is_left_alone),
		cmocka_unit_test(test_active_port_is_left_alone),
		cmocka_unit_test(test_another_port_stands_in),
		cmocka_unit_test(test_mtu_fits_both_ports),
		cmocka_unit_test(test_bare_where_nothing_serves),
		cmocka_unit_test(test_errors_are_the_lower_providers),
		cmocka_unit_test(test_not_for_those_that_drive_queue_pairs),
		cmocka_unit_test(test_needs_moves),
		cmocka_unit_test(test_events_agree),
		cmocka_unit_test(test_table_queries_see_the_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
