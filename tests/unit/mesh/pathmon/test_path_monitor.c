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
#include "ports.h"
#include "path_monitor.h"

#define NEVER UINT64_MAX

int __wrap_mesh_thread_frame(const struct mv_frame *frame);
int __wrap_mesh_thread_wake(bool urgent);
bool __wrap_mesh_directory_has_path(const union ibv_gid *local, const union ibv_gid *remote);

static bool has_path;

/* The directory. */
bool __wrap_mesh_directory_has_path(const union ibv_gid *local, const union ibv_gid *remote)
{
	(void)local;
	(void)remote;
	return has_path;
}

static struct mv_frame sent[64]; /* the first of n_sent */
static unsigned int n_sent, n_refused, n_woken;
static int send_result;
static struct mesh_process process;

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	if (send_result) {
		n_refused++;
		return send_result;
	}
	assert_int_equal(frame->type, MV_FRAME_WATCH);
	if (n_sent < sizeof(sent) / sizeof(sent[0]))
		sent[n_sent] = *frame;
	n_sent++;
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
	n_sent = n_refused = n_woken = 0;
	send_result = 0;
	has_path = true;
	return 0;
}

/* Nothing is in use: nothing is left. */
static int teardown(void **state)
{
	(void)state;
	send_result = 0;
	mesh_path_monitor_lost();
	assert_true(mesh_path_monitor_run(0) == NEVER);
	free(process.monitor.all);
	return 0;
}

/* The last one that said anything about a path: the mask; -1: nothing was. */
static int asked(const char *local, const char *remote)
{
	union ibv_gid a = gid(local), b = gid(remote);
	int watch = -1;
	unsigned int i;

	assert_true(n_sent <= sizeof(sent) / sizeof(sent[0]));
	for (i = 0; i < n_sent; i++)
		if (mv_gid_equal(&sent[i].sgid, &a) && mv_gid_equal(&sent[i].dgid, &b))
			watch = sent[i].watch;
	return watch;
}

static void use(struct mesh_path_watch **place, enum mv_watch watch, const char *local, const char *remote)
{
	union ibv_gid a = gid(local), b = gid(remote);

	mesh_path_monitor_use(place, watch, &a, &b);
}

static void drop(struct mesh_path_watch **place, enum mv_watch watch)
{
	mesh_path_monitor_use(place, watch, NULL, NULL);
	assert_null(*place);
}

static bool told(const char *local, const char *remote, enum mv_probed state)
{
	struct mv_frame frame = {.type = MV_FRAME_PATH, .sgid = gid(local), .dgid = gid(remote), .probed = (uint8_t)state};

	return mesh_path_monitor_told(&frame, 0) != MESH_MONITOR_NOTHING;
}

static enum mesh_path_monitor_change suspected(const char *local, const char *remote, uint64_t now_ns)
{
	struct mv_frame frame = {.type = MV_FRAME_SUSPECT, .sgid = gid(local), .dgid = gid(remote)};

	return mesh_path_monitor_told(&frame, now_ns);
}

#define PRIMARY_PATH "10.1.0.1", "10.1.0.2"
#define OTHER_PATH "10.2.0.1", "10.2.0.2"

/* An agent that knows nothing of paths would end the connection. */
static void test_agent_without_probes(void **state)
{
	struct mesh_path_watch *work = NULL;

	(void)state;
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	assert_true(mesh_path_monitor_run(0) == NEVER);
	mesh_path_monitor_agent(false);
	assert_true(mesh_path_monitor_run(0) == NEVER);
	assert_false(mesh_path_monitor_on());
	assert_int_equal(n_sent, 0);
	mesh_path_monitor_agent(true);
	assert_true(mesh_path_monitor_on());
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_WORK);
	/* It goes, and what it did not hear is nothing to the next. */
	mesh_path_monitor_lost();
	assert_true(mesh_path_monitor_on());
	drop(&work, MV_WATCH_WORK);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 1);
}

static void test_one_for_many(void **state)
{
	struct mesh_path_watch *work[100] = {NULL}, *primary = NULL;
	unsigned int i;

	(void)state;
	mesh_path_monitor_agent(true);
	for (i = 0; i < 100; i++)
		use(&work[i], MV_WATCH_WORK, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 1);
	use(&primary, MV_WATCH_PRIMARY, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_WORK | MV_WATCH_PRIMARY);
	for (i = 0; i < 100; i++)
		drop(&work[i], MV_WATCH_WORK);
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_PRIMARY);
	drop(&primary, MV_WATCH_PRIMARY);
	n_woken = 0;
	drop(&primary, MV_WATCH_PRIMARY);
	assert_int_equal(n_woken, 0);
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), 0);
	assert_int_equal(n_sent, 4);
	assert_false(told(PRIMARY_PATH, MV_PROBED_UP)); /* nobody's any more */
}

/* What is known of a path outlives the reason for which it is watched. */
static void test_moves_away(void **state)
{
	struct mesh_path_watch *work = NULL, *primary = NULL;
	union ibv_gid a = gid("10.1.0.1"), b = gid("10.1.0.2");

	(void)state;
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	assert_int_equal(mesh_path_monitor_state(work), MV_PROBED_UNKNOWN);
	assert_false(told(PRIMARY_PATH, MV_PROBED_UNKNOWN));
	assert_true(told(PRIMARY_PATH, MV_PROBED_DOWN));
	assert_false(told(PRIMARY_PATH, MV_PROBED_DOWN));
	use(&primary, MV_WATCH_PRIMARY, PRIMARY_PATH);
	use(&work, MV_WATCH_WORK, OTHER_PATH);
	mesh_path_monitor_run(0);
	assert_int_equal(mesh_path_monitor_state(work), MV_PROBED_UNKNOWN);
	assert_int_equal(mesh_path_monitor_state(primary), MV_PROBED_DOWN);
	assert_int_equal(mesh_path_monitor_find(&a, &b), MV_PROBED_DOWN);
	assert_int_equal(mesh_path_monitor_state(NULL), MV_PROBED_UNKNOWN);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_PRIMARY);
	assert_int_equal(asked(OTHER_PATH), MV_WATCH_WORK);
	/* Another agent has to find out for itself. */
	mesh_path_monitor_lost();
	assert_int_equal(mesh_path_monitor_state(primary), MV_PROBED_UNKNOWN);
	n_sent = 0;
	mesh_path_monitor_agent(true);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 2);
	drop(&work, MV_WATCH_WORK);
	drop(&primary, MV_WATCH_PRIMARY);
}

static void test_alternates(void **state)
{
	struct mesh_path_watch *work = NULL;
	struct mv_path paths[6];
	unsigned int i;

	(void)state;
	mesh_path_monitor_agent(true);
	assert_false(mesh_path_monitor_wants_alternates(NULL, 1));
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	assert_true(mesh_path_monitor_wants_alternates(work, 1));
	assert_false(mesh_path_monitor_wants_alternates(work, 1));
	memset(paths, 0, sizeof(paths));
	for (i = 0; i < 6; i++) {
		paths[i].local_gid = gid("10.2.0.1");
		paths[i].remote_gid = gid("10.2.0.2");
		paths[i].remote_gid.raw[15] = (uint8_t)(2 + i);
	}
	mesh_path_monitor_alternates(work, paths, 6);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 1 + MESH_ALTERNATES);
	assert_int_equal(asked(OTHER_PATH), MV_WATCH_ALTERNATE);
	assert_false(told(PRIMARY_PATH, MV_PROBED_UNKNOWN)); /* it has taken them */
	assert_false(told(OTHER_PATH, MV_PROBED_UNKNOWN));
	/* Another directory: one stays, the others go. */
	assert_true(mesh_path_monitor_wants_alternates(work, 2));
	n_sent = 0;
	mesh_path_monitor_alternates(work, paths, 1);
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, MESH_ALTERNATES - 1);
	assert_int_equal(asked(OTHER_PATH), -1);
	/* The work goes there: it stays watched, and has no use for alternates of the former one. */
	use(&work, MV_WATCH_WORK, OTHER_PATH);
	mesh_path_monitor_run(0);
	assert_int_equal(asked(OTHER_PATH), MV_WATCH_WORK);
	assert_int_equal(asked(PRIMARY_PATH), 0);
	drop(&work, MV_WATCH_WORK);
}

/* The agent's socket is full; it had no such host yet. */
static void test_again(void **state)
{
	struct mesh_path_watch *work = NULL;

	(void)state;
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	send_result = -EAGAIN;
	assert_true(mesh_path_monitor_run(1000) < 1000000000);
	send_result = 0;
	assert_true(mesh_path_monitor_run(1000) == NEVER);
	assert_int_equal(n_sent, 1);
	mesh_path_monitor_changed();
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 2);
	told(PRIMARY_PATH, MV_PROBED_UP);
	mesh_path_monitor_changed();
	mesh_path_monitor_run(0);
	assert_int_equal(n_sent, 2);
	drop(&work, MV_WATCH_WORK);
	send_result = -EAGAIN;
	assert_true(mesh_path_monitor_run(0) != NEVER);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH); /* wanted again before that was said */
	send_result = 0;
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), MV_WATCH_WORK);
	drop(&work, MV_WATCH_WORK);
}

/* ---- an agent that has nothing to say ---------------------------------------------------------------------------- */

#define SECOND 1000000000ull
#define N_MANY 2000 /* beyond what an agent watches for one process */

static struct mesh_path_watch *many[N_MANY];

static void use_many(void)
{
	union ibv_gid a = gid("10.1.0.1"), b = gid("10.1.0.2");
	unsigned int i;

	for (i = 0; i < N_MANY; i++) {
		b.raw[14] = (uint8_t)(i >> 8);
		b.raw[15] = (uint8_t)i;
		mesh_path_monitor_use(&many[i], MV_WATCH_WORK, &a, &b);
	}
}

static void drop_many(void)
{
	unsigned int i;

	for (i = 0; i < N_MANY; i++)
		drop(&many[i], MV_WATCH_WORK);
}

/* What it refuses is not asked with each change, nor forgotten. */
static void test_many_refused(void **state)
{
	uint64_t now = 5 * SECOND, next = NEVER;
	unsigned int i;

	(void)state;
	mesh_path_monitor_agent(true);
	use_many();
	assert_true(mesh_path_monitor_run(now) == NEVER);
	assert_int_equal(n_sent, N_MANY);
	/* A hundred changes in less than a second; the first may be what it waited for. */
	for (i = 0; i < 100; i++) {
		mesh_path_monitor_changed();
		next = mesh_path_monitor_run(now + i * SECOND / 101);
		assert_int_equal(n_sent, 2 * N_MANY);
		assert_true(!i || (next >= now + SECOND && next <= now + 2 * SECOND));
	}
	/* Nothing changes any more; the others have not been in vain. */
	assert_true(mesh_path_monitor_run(next - 1) == next);
	assert_int_equal(n_sent, 2 * N_MANY);
	assert_true(mesh_path_monitor_run(next) == NEVER);
	assert_int_equal(n_sent, 3 * N_MANY);
	assert_true(mesh_path_monitor_run(next + 1000 * SECOND) == NEVER);
	assert_int_equal(n_sent, 3 * N_MANY);
	drop_many();
}

/* An hour of changes: at once, and then after 1, 2, 4, ... 64, 64 s. */
static void test_ever_more_seldom(void **state)
{
	uint64_t now, asked_at = 0, wait = 0;
	struct mesh_path_watch *work = NULL, *primary = NULL;
	unsigned int n = 1;

	(void)state;
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	for (now = SECOND / 10; now < 3600 * SECOND; now += SECOND / 10) {
		mesh_path_monitor_changed();
		mesh_path_monitor_run(now);
		if (n_sent == n)
			continue;
		assert_int_equal(n_sent, ++n);
		assert_true(now - asked_at >= wait && now - asked_at <= wait + SECOND);
		asked_at = now;
		wait = !wait ? SECOND : wait < 64 * SECOND ? 2 * wait : wait;
	}
	assert_in_range(n, 55, 65);
	/* What is new goes out at once all the same. */
	use(&primary, MV_WATCH_PRIMARY, PRIMARY_PATH);
	mesh_path_monitor_run(asked_at + 1);
	assert_int_equal(n_sent, n + 1);
	drop(&primary, MV_WATCH_PRIMARY);
	mesh_path_monitor_run(asked_at + 2);
	assert_int_equal(n_sent, n + 2);
	/* Another agent is another matter. */
	mesh_path_monitor_agent(true);
	mesh_path_monitor_run(asked_at + 3);
	mesh_path_monitor_changed();
	mesh_path_monitor_run(asked_at + 4);
	assert_int_equal(n_sent, n + 4);
	mesh_path_monitor_changed();
	assert_true(mesh_path_monitor_run(asked_at + 5) <= asked_at + 2 * SECOND);
	/* It has said something. */
	told(PRIMARY_PATH, MV_PROBED_UNKNOWN);
	assert_true(mesh_path_monitor_run(asked_at + 100 * SECOND) == NEVER);
	assert_int_equal(n_sent, n + 4);
	drop(&work, MV_WATCH_WORK);
}

/* Whatever it has not said, it hears that a path need not be watched any more. */
static void test_refused_or_not(void **state)
{
	struct mesh_path_watch *work = NULL;

	(void)state;
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	mesh_path_monitor_run(0);
	drop(&work, MV_WATCH_WORK);
	mesh_path_monitor_changed();
	mesh_path_monitor_run(0);
	assert_int_equal(asked(PRIMARY_PATH), 0);
}

/* Times that lie close together are one. */
static void test_one_turn_for_many(void **state)
{
	uint64_t now = 5 * SECOND, end = now + 2 * SECOND, next;
	unsigned int i, n_turns = 0;

	(void)state;
	mesh_path_monitor_agent(true);
	use_many();
	mesh_path_monitor_run(now);
	/* They are asked one after another, each at another time. */
	for (i = 0; i < N_MANY; i++) {
		union ibv_gid a = gid("10.1.0.1"), b = gid("10.1.0.2");

		mesh_path_monitor_use(&many[i], MV_WATCH_WORK, NULL, NULL);
		mesh_path_monitor_run(now);
		b.raw[14] = (uint8_t)(i >> 8);
		b.raw[15] = (uint8_t)i;
		mesh_path_monitor_use(&many[i], MV_WATCH_WORK, &a, &b);
		mesh_path_monitor_run(now);
		mesh_path_monitor_changed();
		mesh_path_monitor_run(now += SECOND / N_MANY);
	}
	for (next = now; next < end; n_turns++) {
		now = next;
		next = mesh_path_monitor_run(now);
	}
	assert_true(n_turns <= 4);
	drop_many();
}

/* Where there is no room for one there is none for the rest, either. */
static void test_no_room_for_many(void **state)
{
	(void)state;
	mesh_path_monitor_agent(true);
	use_many();
	send_result = -EAGAIN;
	assert_true(mesh_path_monitor_run(SECOND) != NEVER);
	assert_int_equal(n_refused, 1);
	send_result = 0;
	assert_true(mesh_path_monitor_run(SECOND) == NEVER);
	assert_int_equal(n_sent, N_MANY);
	drop_many();
}

/* The host at the other end comes when much else has changed: it is asked for with the first directory that has it. */
static void test_host_comes_late(void **state)
{
	struct mesh_path_watch *work = NULL;
	uint64_t now = 5 * SECOND;
	unsigned int i;

	(void)state;
	mesh_path_monitor_agent(true);
	has_path = false;
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	assert_true(mesh_path_monitor_run(now) == NEVER);
	assert_int_equal(n_sent, 1);
	for (i = 0; i < 100; i++) {
		mesh_path_monitor_changed();
		assert_true(mesh_path_monitor_run(now += SECOND) == NEVER);
	}
	assert_int_equal(n_sent, 1);
	has_path = true;
	mesh_path_monitor_changed();
	mesh_path_monitor_run(now);
	assert_int_equal(n_sent, 2);
	assert_false(told(PRIMARY_PATH, MV_PROBED_UNKNOWN));
	drop(&work, MV_WATCH_WORK);
	mesh_path_monitor_run(now);
}

/* The agent takes no more of this process, which then gives some up: whatever the order, what was refused is asked for again. */
static void test_room_is_made(void **state)
{
	struct mesh_path_watch *works[2] = {NULL};
	unsigned int which;

	(void)state;
	for (which = 0; which < 2; which++) {
		mesh_path_monitor_agent(true);
		use(&works[0], MV_WATCH_WORK, PRIMARY_PATH);
		use(&works[1], MV_WATCH_WORK, OTHER_PATH);
		mesh_path_monitor_run(SECOND);
		n_sent = 0;
		drop(&works[which], MV_WATCH_WORK);
		mesh_path_monitor_run(SECOND);
		assert_int_equal(n_sent, 2);
		assert_int_equal(sent[0].watch, 0);
		assert_int_equal(sent[1].watch, MV_WATCH_WORK);
		drop(&works[!which], MV_WATCH_WORK);
		mesh_path_monitor_run(SECOND);
	}
}

/* The agent has doubts, and says in a moment what comes of them; or ends before that. */
static void test_suspect(void **state)
{
	struct mesh_path_watch *work = NULL;
	struct mv_frame frame = {.type = MV_FRAME_PATH, .sgid = gid("10.1.0.1"), .dgid = gid("10.1.0.2"), .probed = MV_PROBED_UP};

	(void)state;
	assert_int_equal(mesh_path_monitor_suspect(NULL, SECOND), 0);
	assert_int_equal(suspected(PRIMARY_PATH, SECOND), MESH_MONITOR_NOTHING);
	mesh_path_monitor_agent(true);
	use(&work, MV_WATCH_WORK, PRIMARY_PATH);
	assert_int_equal(mesh_path_monitor_told(&frame, SECOND), MESH_MONITOR_CHANGED);
	assert_int_equal(mesh_path_monitor_told(&frame, SECOND), MESH_MONITOR_NOTHING);
	assert_int_equal(mesh_path_monitor_suspect(work, SECOND), 0);
	assert_int_equal(suspected(PRIMARY_PATH, SECOND), MESH_MONITOR_CHANGED);
	assert_int_equal(mesh_path_monitor_state(work), MV_PROBED_UP);
	assert_int_equal(mesh_path_monitor_suspect(work, SECOND + 1), SECOND);
	/* All is well. */
	assert_int_equal(mesh_path_monitor_told(&frame, SECOND + 2), MESH_MONITOR_URGENT);
	assert_int_equal(mesh_path_monitor_suspect(work, SECOND + 2), 0);
	assert_int_equal(mesh_path_monitor_told(&frame, SECOND + 2), MESH_MONITOR_NOTHING);
	/* It is not. */
	suspected(PRIMARY_PATH, 2 * SECOND);
	frame.probed = MV_PROBED_DOWN;
	assert_int_equal(mesh_path_monitor_told(&frame, 2 * SECOND), MESH_MONITOR_URGENT);
	assert_int_equal(mesh_path_monitor_suspect(work, 2 * SECOND), 0);
	/* Nothing is heard any more. */
	suspected(PRIMARY_PATH, 3 * SECOND);
	assert_int_equal(mesh_path_monitor_suspect(work, 3 * SECOND + MESH_SUSPECT_NS - 1), 3 * SECOND);
	assert_int_equal(mesh_path_monitor_suspect(work, 3 * SECOND + MESH_SUSPECT_NS), 0);
	mesh_path_monitor_lost();
	assert_int_equal(mesh_path_monitor_suspect(work, 3 * SECOND), 0);
	drop(&work, MV_WATCH_WORK);
	mesh_path_monitor_run(4 * SECOND);
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
		cmocka_unit_test_setup_teardown(test_agent_without_probes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_for_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moves_away, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alternates, setup, teardown),
		cmocka_unit_test_setup_teardown(test_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ever_more_seldom, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_or_not, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_turn_for_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_room_for_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_host_comes_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_room_is_made, setup, teardown),
		cmocka_unit_test_setup_teardown(test_suspect, setup, teardown),
		cmocka_unit_test(test_detect),
		cmocka_unit_test_setup(test_port_event, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
