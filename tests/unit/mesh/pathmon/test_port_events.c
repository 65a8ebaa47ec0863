// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Ports that are down by their events, and ways of finding out that tests can switch off. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

#include "detect.h"
#include "monitor_fixture.h"
#include "ports.h"

static void test_detect(void **state)
{
	static const char *const bad[] = {"carier", "carrier ,probe", ",", "carrier,,probe", "all", "carrierprobe", "probe,carrie"};
	unsigned int mask = 99;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(mesh_detect_parse(bad[i], &mask));
	assert_int_equal(mask, 99);
	assert_true(mesh_detect_parse(NULL, &mask));
	assert_int_equal(mask, 0);
	assert_true(mesh_detect_parse("", &mask));
	assert_int_equal(mask, MESH_DETECT_ALL);
	assert_true(mesh_detect_parse("probe,carrier,event,retry,peer", &mask));
	assert_int_equal(mask, 0);
	assert_true(mesh_detect_parse("retry", &mask));
	mesh_root.undetected = mask;
	assert_true(mesh_detects(MESH_DETECT_RETRY));
	assert_false(mesh_detects(MESH_DETECT_PROBE));
	mesh_root.undetected = 0;
	assert_true(mesh_detects(MESH_DETECT_PROBE));
}

/* A port that is down by its events is asked, and believed when it is up. */
static enum ibv_port_state port_state;

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	(void)context;
	(void)size;
	assert_int_equal(port, 2);
	attr->state = port_state;
	return port_state == IBV_PORT_NOP ? EIO : 0;
}

static void test_port_event(void **state)
{
	struct verbs_context verbs = {.sz = sizeof(verbs), .query_port = query_port, .context.abi_compat = __VERBS_ABI_IS_EXTENDED};
	struct ibv_context *context = &verbs.context;
	struct ibv_async_event event = {.event_type = IBV_EVENT_PORT_ERR, .element.port_num = 2};
	_Atomic uint32_t down = 0;

	(void)state;
	port_state = IBV_PORT_DOWN;
	assert_false(mesh_port_is_down(&down, context, 2));
	assert_true(mesh_port_event(&down, &event));
	mesh_conns_port_down();
	assert_int_equal(n_woken, 0); /* no helper thread: no connections */
	assert_true(mesh_port_is_down(&down, context, 2));
	assert_false(mesh_port_is_down(&down, context, 1));
	mesh_root.undetected = MESH_DETECT_EVENT;
	assert_false(mesh_port_is_down(&down, context, 2));
	mesh_root.undetected = 0;
	port_state = IBV_PORT_NOP; /* that cannot be asked */
	assert_true(mesh_port_is_down(&down, context, 2));
	port_state = IBV_PORT_ACTIVE;
	assert_false(mesh_port_is_down(&down, context, 2));
	port_state = IBV_PORT_DOWN;
	assert_false(mesh_port_is_down(&down, context, 2)); /* until it says so again */
	mesh_port_event(&down, &event);
	event.event_type = IBV_EVENT_PORT_ACTIVE;
	assert_false(mesh_port_event(&down, &event));
	assert_false(mesh_port_is_down(&down, context, 2));
	/* No port that there could be, and no event of a port. */
	event = (struct ibv_async_event){.event_type = IBV_EVENT_PORT_ERR, .element.port_num = 77};
	mesh_port_event(&down, &event);
	event = (struct ibv_async_event){.event_type = IBV_EVENT_GID_CHANGE, .element.port_num = 2};
	assert_false(mesh_port_event(&down, &event));
	assert_int_equal(down, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_detect),
		cmocka_unit_test_setup(test_port_event, monitor_setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
