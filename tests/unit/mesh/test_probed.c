// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What a process has its agent watch, and what it makes of the answers; ways of finding out that tests can switch off. */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "conn.h"
#include "detect.h"
#include "probed.h"

#define NEVER UINT64_MAX

int __wrap_mesh_thread_frame(const struct mv_frame *frame);
int __wrap_mesh_thread_wake(bool urgent);

static struct mv_frame sent[64];
static unsigned int n_sent, n_woken;
static int send_result;
static struct mesh_process process;

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	if (send_result)
		return send_result;
	assert_int_equal(frame->type, MV_FRAME_WATCH);
	assert_true(n_sent < sizeof(sent) / sizeof(sent[0]));
	sent[n_sent++] = *frame;
	return 0;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	n_woken++;
	return 0;
}

static union ibv_gid gid(const char *text)
{
	union ibv_gid ret;

	assert_int_equal(mv_gid_parse(text, &ret), 0);
	return ret;
}

static int setup(void **state)
{
	(void)state;
	memset(&process, 0, sizeof(process));
	mesh_root.process = &process;
	n_sent = n_woken = 0;
	send_result = 0;
	return 0;
}

/* Nothing is in use: nothing is left. */
static int teardown(void **state)
{
	(void)state;
	send_result = 0;
	mesh_probed_lost();
	assert_true(mesh_probed_run(0) == NEVER);
	free(process.probed);
	return 0;
}

/* The last one that said anything about a path: the mask; -1: nothing was. */
static int asked(const char *local, const char *remote)
{
	union ibv_gid a = gid(local), b = gid(remote);
	int watch = -1;
	unsigned int i;

	for (i = 0; i < n_sent; i++)
		if (mv_gid_equal(&sent[i].sgid, &a) && mv_gid_equal(&sent[i].dgid, &b))
			watch = sent[i].watch;
	return watch;
}

static void use(struct mesh_probed **place, enum mv_watch watch, const char *local, const char *remote)
{
	union ibv_gid a = gid(local), b = gid(remote);

	mesh_probed_use(place, watch, &a, &b);
}

static void drop(struct mesh_probed **place, enum mv_watch watch)
{
	mesh_probed_use(place, watch, NULL, NULL);
	assert_null(*place);
}

static bool told(const char *local, const char *remote, enum mv_probed state)
{
	struct mv_frame frame = {.type = MV_FRAME_PATH, .sgid = gid(local), .dgid = gid(remote), .probed = (uint8_t)state};

	return mesh_probed_told(&frame);
}

#define HOME_PATH  "10.1.0.1", "10.1.0.2"
#define OTHER_PATH "10.2.0.1", "10.2.0.2"

/* An agent that knows nothing of paths would end the connection. */
static void test_agent_without_probes(void **state)
{
	struct mesh_probed *work = NULL;

	(void)state;
	use(&work, MV_WATCH_WORK, HOME_PATH);
	assert_true(mesh_probed_run(0) == NEVER);
	mesh_probed_agent(false);
	assert_true(mesh_probed_run(0) == NEVER);
	assert_false(mesh_probed_on());
	assert_int_equal(n_sent, 0);
	mesh_probed_agent(true);
	assert_true(mesh_probed_on());
	mesh_probed_run(0);
	assert_int_equal(asked(HOME_PATH), MV_WATCH_WORK);
	/* It goes, and what it did not hear is nothing to the next. */
	mesh_probed_lost();
	assert_true(mesh_probed_on());
	drop(&work, MV_WATCH_WORK);
	mesh_probed_run(0);
	assert_int_equal(n_sent, 1);
}

static void test_one_for_many(void **state)
{
	struct mesh_probed *work[100] = {NULL}, *home = NULL;
	unsigned int i;

	(void)state;
	mesh_probed_agent(true);
	for (i = 0; i < 100; i++)
		use(&work[i], MV_WATCH_WORK, HOME_PATH);
	mesh_probed_run(0);
	mesh_probed_run(0);
	assert_int_equal(n_sent, 1);
	use(&home, MV_WATCH_HOME, HOME_PATH);
	mesh_probed_run(0);
	assert_int_equal(asked(HOME_PATH), MV_WATCH_WORK | MV_WATCH_HOME);
	for (i = 0; i < 100; i++)
		drop(&work[i], MV_WATCH_WORK);
	mesh_probed_run(0);
	assert_int_equal(asked(HOME_PATH), MV_WATCH_HOME);
	drop(&home, MV_WATCH_HOME);
	n_woken = 0;
	drop(&home, MV_WATCH_HOME);
	assert_int_equal(n_woken, 0);
	mesh_probed_run(0);
	assert_int_equal(asked(HOME_PATH), 0);
	assert_int_equal(n_sent, 4);
	assert_false(told(HOME_PATH, MV_PROBED_UP)); /* nobody's any more */
}

/* What is known of a path outlives the reason for which it is watched. */
static void test_moves_away(void **state)
{
	struct mesh_probed *work = NULL, *home = NULL;
	union ibv_gid a = gid("10.1.0.1"), b = gid("10.1.0.2");

	(void)state;
	mesh_probed_agent(true);
	use(&work, MV_WATCH_WORK, HOME_PATH);
	mesh_probed_run(0);
	assert_int_equal(mesh_probed_of(work), MV_PROBED_UNKNOWN);
	assert_false(told(HOME_PATH, MV_PROBED_UNKNOWN));
	assert_true(told(HOME_PATH, MV_PROBED_DOWN));
	assert_false(told(HOME_PATH, MV_PROBED_DOWN));
	use(&home, MV_WATCH_HOME, HOME_PATH);
	use(&work, MV_WATCH_WORK, OTHER_PATH);
	mesh_probed_run(0);
	assert_int_equal(mesh_probed_of(work), MV_PROBED_UNKNOWN);
	assert_int_equal(mesh_probed_of(home), MV_PROBED_DOWN);
	assert_int_equal(mesh_probed_find(&a, &b), MV_PROBED_DOWN);
	assert_int_equal(mesh_probed_of(NULL), MV_PROBED_UNKNOWN);
	assert_int_equal(asked(HOME_PATH), MV_WATCH_HOME);
	assert_int_equal(asked(OTHER_PATH), MV_WATCH_WORK);
	/* Another agent has to find out for itself. */
	mesh_probed_lost();
	assert_int_equal(mesh_probed_of(home), MV_PROBED_UNKNOWN);
	n_sent = 0;
	mesh_probed_agent(true);
	mesh_probed_run(0);
	assert_int_equal(n_sent, 2);
	drop(&work, MV_WATCH_WORK);
	drop(&home, MV_WATCH_HOME);
}

static void test_spares(void **state)
{
	struct mesh_probed *work = NULL;
	struct mv_path paths[6];
	unsigned int i;

	(void)state;
	mesh_probed_agent(true);
	assert_false(mesh_probed_wants_spares(NULL, 1));
	use(&work, MV_WATCH_WORK, HOME_PATH);
	assert_true(mesh_probed_wants_spares(work, 1));
	assert_false(mesh_probed_wants_spares(work, 1));
	memset(paths, 0, sizeof(paths));
	for (i = 0; i < 6; i++) {
		paths[i].local_gid = gid("10.2.0.1");
		paths[i].remote_gid = gid("10.2.0.2");
		paths[i].remote_gid.raw[15] = (uint8_t)(2 + i);
	}
	mesh_probed_spares(work, paths, 6);
	mesh_probed_run(0);
	assert_int_equal(n_sent, 1 + MESH_SPARES);
	assert_int_equal(asked(OTHER_PATH), MV_WATCH_SPARE);
	/* Another directory: one stays, the others go. */
	assert_true(mesh_probed_wants_spares(work, 2));
	n_sent = 0;
	mesh_probed_spares(work, paths, 1);
	mesh_probed_run(0);
	assert_int_equal(n_sent, MESH_SPARES - 1);
	assert_int_equal(asked(OTHER_PATH), -1);
	/* The work goes there: it stays watched, and has no use for spares of the former one. */
	use(&work, MV_WATCH_WORK, OTHER_PATH);
	mesh_probed_run(0);
	assert_int_equal(asked(OTHER_PATH), MV_WATCH_WORK);
	assert_int_equal(asked(HOME_PATH), 0);
	drop(&work, MV_WATCH_WORK);
}

/* The agent's socket is full; it had no such host yet. */
static void test_again(void **state)
{
	struct mesh_probed *work = NULL;

	(void)state;
	mesh_probed_agent(true);
	use(&work, MV_WATCH_WORK, HOME_PATH);
	send_result = -EAGAIN;
	assert_true(mesh_probed_run(1000) < 1000000000);
	send_result = 0;
	assert_true(mesh_probed_run(1000) == NEVER);
	assert_int_equal(n_sent, 1);
	mesh_probed_changed();
	mesh_probed_run(0);
	assert_int_equal(n_sent, 2);
	told(HOME_PATH, MV_PROBED_UP);
	mesh_probed_changed();
	mesh_probed_run(0);
	assert_int_equal(n_sent, 2);
	drop(&work, MV_WATCH_WORK);
	send_result = -EAGAIN;
	assert_true(mesh_probed_run(0) != NEVER);
	use(&work, MV_WATCH_WORK, HOME_PATH); /* wanted again before that was said */
	send_result = 0;
	mesh_probed_run(0);
	assert_int_equal(asked(HOME_PATH), MV_WATCH_WORK);
	drop(&work, MV_WATCH_WORK);
}

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
	mesh_port_event(&down, &event);
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
	mesh_port_event(&down, &event);
	assert_false(mesh_port_is_down(&down, context, 2));
	/* No port that there could be, and no event of a port. */
	event = (struct ibv_async_event){.event_type = IBV_EVENT_PORT_ERR, .element.port_num = 77};
	mesh_port_event(&down, &event);
	event = (struct ibv_async_event){.event_type = IBV_EVENT_GID_CHANGE, .element.port_num = 2};
	mesh_port_event(&down, &event);
	assert_int_equal(down, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_agent_without_probes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_for_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moves_away, setup, teardown),
		cmocka_unit_test_setup_teardown(test_spares, setup, teardown),
		cmocka_unit_test_setup_teardown(test_again, setup, teardown),
		cmocka_unit_test(test_detect),
		cmocka_unit_test_setup(test_port_event, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
