/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Probes of paths against a model of two agents and what is between them, with a clock of its own: what dies is found out soon, and
 * what only looks dead (an agent without a processor, at either end, one that is started again, loss) never is.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "probes.h"
#include "random.h"

#define N_PATHS  28
#define N_NAMED  4 /* of these; the others are more of path 0's kind */
#define N_FLYING 4096
#define INTERVAL (10 * MD_MS)

enum { HOST = 7, OTHER_HOST = 8 };

/* A path as it is: rail i of ours to rail j of the peer's. */
struct wire {
	struct md_probe_key key;
	uint8_t host;
	bool there_lost, back_lost, mute; /* mute: the agent there does not know probes */
	bool stuck; /* the netdev keeps what it is given */
	bool no_room; /* of its socket's family, for others' sake */
	uint64_t delay_ns; /* one way */
	unsigned int loss_ppm; /* one way */
};

/* A datagram that has arrived at an agent, or will. */
struct flying {
	uint64_t at_ns, order;
	bool back;
	unsigned int path;
	struct md_probe_wire wire;
};

static struct md_probes probes;
static struct md_probe_watch_list watches, others_watches;
static struct wire wires[N_PATHS];
static struct flying flying[N_FLYING];
static size_t n_flying;
static uint64_t now_ns, order, n_sent[N_PATHS];
static uint64_t late_ns; /* our timer, always */
static uint64_t peer_runs_ns, we_run_ns; /* not before: who has the processor is somebody else */
static uint32_t peer_dropped, we_dropped;
static size_t queue_room; /* of a socket of the peer's */
static size_t send_room, n_stuck; /* of our socket: datagrams */
static enum mv_probed told[N_PATHS];
static unsigned int n_told[N_PATHS], n_warned[N_PATHS], n_ticks, told_order[N_PATHS], n_tells;
static bool socket_full;

static unsigned int path_of(const struct md_probe_key *key)
{
	for (unsigned int i = 0; i < N_PATHS; i++)
		if (!memcmp(&wires[i].key, key, sizeof(*key)))
			return i;
	fail();
	return 0;
}

static bool is_lost(const struct wire *wire)
{
	return wire->loss_ppm && rnd(1000000) < wire->loss_ppm;
}

static void fly(unsigned int path, bool back, const struct md_probe_wire *wire)
{
	assert_true(n_flying < N_FLYING);
	flying[n_flying++] = (struct flying){
		.at_ns = now_ns + wires[path].delay_ns, .order = order++, .back = back, .path = path, .wire = *wire};
}

static int on_send(void *arg, const struct md_probe_key *key, const struct md_probe_wire *wire)
{
	unsigned int path = path_of(key);

	(void)arg;
	if (wires[path].no_room || n_stuck >= send_room)
		return -EAGAIN;
	n_sent[path]++;
	if (wires[path].stuck)
		n_stuck++;
	else if (!wires[path].there_lost && !is_lost(&wires[path]))
		fly(path, false, wire);
	return 0;
}

static unsigned int on_waiting(void *arg, const struct md_probe_key *key)
{
	(void)arg;
	(void)key;
	return (unsigned int)(100 * n_stuck / send_room);
}

static bool on_host(void *arg, const struct md_probe_key *key, struct mv_host_id *ret)
{
	(void)arg;
	*ret = (struct mv_host_id){{wires[path_of(key)].host}};
	return true;
}

static bool on_tell(void *arg, uint64_t client, const struct md_probe_key *key, enum mv_probed state)
{
	unsigned int path;

	(void)arg;
	(void)client;
	if (socket_full)
		return false;
	path = path_of(key);
	told[path] = state;
	n_told[path]++;
	told_order[path] = ++n_tells;
	return true;
}

static bool on_warn(void *arg, uint64_t client, const struct md_probe_key *key)
{
	(void)arg;
	(void)client;
	if (socket_full)
		return false;
	assert_true(md_probes_find(&probes, key)->rounds >= MD_PROBE_WARN_ROUNDS);
	n_warned[path_of(key)]++;
	return true;
}

static const struct md_probe_ops ops = {on_send, on_waiting, on_host, on_tell, on_warn};

static void begin(void)
{
	static const char *const local[N_NAMED] = {"10.1.0.1", "10.2.0.1", "10.1.0.1", "10.3.0.1"};
	static const char *const remote[N_NAMED] = {"10.1.0.2", "10.2.0.2", "10.2.0.2", "10.3.0.9"};

	memset(wires, 0, sizeof(wires));
	memset(n_sent, 0, sizeof(n_sent));
	memset(told, 0, sizeof(told));
	memset(n_told, 0, sizeof(n_told));
	memset(n_warned, 0, sizeof(n_warned));
	n_ticks = 0;
	for (unsigned int i = N_NAMED; i < N_PATHS; i++) {
		wires[i].key = (struct md_probe_key){.local = unit_gid(local[0]), .remote = unit_gid("10.1.1.0")};
		wires[i].key.remote.raw[15] = (uint8_t)i;
		wires[i].host = HOST;
		wires[i].delay_ns = 20000;
	}
	for (unsigned int i = 0; i < N_NAMED; i++) {
		wires[i].key = (struct md_probe_key){.local = unit_gid(local[i]), .remote = unit_gid(remote[i])};
		wires[i].host = i == 3 ? OTHER_HOST : HOST;
		wires[i].delay_ns = 20000 + 3000 * i;
	}
	n_flying = 0;
	n_tells = 0;
	now_ns = 100 * MD_S;
	peer_runs_ns = we_run_ns = late_ns = 0;
	peer_dropped = we_dropped = 0;
	queue_room = 200;
	send_room = 1000;
	n_stuck = 0;
	socket_full = false;
	watches = others_watches = (struct md_probe_watch_list){0};
	md_probes_init(&probes, &ops, NULL, INTERVAL, 3, 0x1234567);
}

static int setup(void **state)
{
	(void)state;
	rng = 1;
	begin();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	md_probes_drop(&probes, &watches);
	md_probes_drop(&probes, &others_watches);
	assert_int_equal(probes.n, 0);
	assert_int_equal(probes.n_watches, 0);
	assert_int_equal(probes.n_scheduled, 0);
	assert_int_equal(probes.n_suspect, 0);
	assert_int_equal(probes.n_down, 0);
	assert_int_equal(probes.n_awaited, 0);
	md_probes_fini(&probes);
	return 0;
}

static void watch(unsigned int path, uint8_t mask)
{
	assert_int_equal(md_probes_watch(&probes, &wires[path].key, mask, 1, 0, &watches, now_ns), 0);
}

static enum mv_probed state_of(unsigned int path)
{
	struct md_probe *p = md_probes_find(&probes, &wires[path].key);

	assert_non_null(p);
	return p->state;
}

/* The first to have arrived at one end by now; -1: none. Sockets keep their order. */
static ssize_t arrived(bool back)
{
	ssize_t first = -1;

	for (size_t i = 0; i < n_flying; i++)
		if (flying[i].back == back && flying[i].at_ns <= now_ns &&
		    (first < 0 || flying[i].at_ns < flying[first].at_ns ||
		     (flying[i].at_ns == flying[first].at_ns && flying[i].order < flying[first].order)))
			first = (ssize_t)i;
	return first;
}

static struct flying take(ssize_t i)
{
	struct flying taken = flying[i];

	flying[i] = flying[--n_flying];
	return taken;
}

/* What does not fit into the peer's socket is lost. */
static void overflow(void)
{
	size_t waiting = 0;

	for (size_t i = 0; i < n_flying; i++)
		waiting += !flying[i].back && flying[i].at_ns <= now_ns;
	for (; waiting > queue_room; waiting--) {
		size_t last = N_FLYING;

		for (size_t i = 0; i < n_flying; i++)
			if (!flying[i].back && flying[i].at_ns <= now_ns &&
			    (last == N_FLYING || flying[i].at_ns > flying[last].at_ns))
				last = i;
		take((ssize_t)last);
		peer_dropped++;
	}
}

static void peer_runs(void)
{
	ssize_t i;

	overflow();
	while (peer_runs_ns <= now_ns && (i = arrived(false)) >= 0) {
		struct flying probe = take(i);

		if (wires[probe.path].mute)
			continue;
		probe.wire.dropped = peer_dropped;
		if (!wires[probe.path].back_lost && !is_lost(&wires[probe.path]))
			fly(probe.path, true, &probe.wire);
	}
}

static void we_read(void)
{
	ssize_t i;

	while ((i = arrived(true)) >= 0) {
		struct flying echo = take(i);
		const struct mv_host_id host = {{wires[echo.path].host}};

		md_probes_echo(&probes, &wires[echo.path].key, &echo.wire, &host, now_ns);
	}
}

/* When something happens next. */
static uint64_t next_event(uint64_t until_ns)
{
	uint64_t tick_ns = probes.next_ns == UINT64_MAX ? UINT64_MAX : probes.next_ns + late_ns;
	uint64_t next = tick_ns > we_run_ns ? tick_ns : we_run_ns;

	for (size_t i = 0; i < n_flying; i++) {
		uint64_t at = flying[i].at_ns, runs = flying[i].back ? we_run_ns : peer_runs_ns;

		at = at > runs ? at : runs;
		if (at < next)
			next = at;
	}
	return next < until_ns ? next : until_ns;
}

/* A tick may come in vain, but not late. */
static void check_next(void)
{
	const struct md_probe *p, *more;

	HASH_ITER(hh, probes.by_key, p, more) {
		assert_true(probes.next_ns <= p->next_ns);
		assert_true(!p->awaited || probes.next_ns <= p->sent_ns + probes.interval_ns / MD_PROBE_PARTS ||
			    probes.next_ns <= p->sent_ns + 2000ull * p->slow_us);
	}
	assert_true(!probes.untold || probes.next_ns <= now_ns + INTERVAL);
}

static void step(uint64_t until_ns)
{
	uint64_t next = next_event(until_ns);

	check_next();
	now_ns = next > now_ns ? next : now_ns;
	peer_runs();
	if (we_run_ns > now_ns)
		return;
	we_read();
	if (probes.next_ns <= now_ns && probes.next_ns + late_ns <= now_ns) {
		md_probes_tick(&probes, true, we_dropped, now_ns);
		n_ticks++;
	}
}

static void run(uint64_t for_ns)
{
	uint64_t until_ns = now_ns + for_ns;

	while (now_ns < until_ns)
		step(until_ns);
}

/* Return: how long it took until a path was DOWN. */
static uint64_t until_down(unsigned int path, uint64_t limit_ns)
{
	uint64_t begun_ns = now_ns, until_ns = now_ns + limit_ns;

	while (now_ns < until_ns && state_of(path) != MV_PROBED_DOWN)
		step(until_ns);
	assert_int_equal(state_of(path), MV_PROBED_DOWN);
	return now_ns - begun_ns;
}

/* ---- what is alive --------------------------------------------------------------------------- */

static void test_nothing_to_do(void **state)
{
	(void)state;
	assert_true(probes.next_ns == UINT64_MAX);
	watch(1, MV_WATCH_SPARE);
	assert_true(probes.next_ns == UINT64_MAX);
	watch(0, MV_WATCH_WORK);
	run(MD_S);
	watch(0, 0);
	assert_true(probes.next_ns == UINT64_MAX);
	assert_int_equal(n_sent[1], 0);
	assert_null(md_probes_find(&probes, &wires[0].key));
}

static void test_alive(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	assert_int_equal(told[0], MV_PROBED_UNKNOWN);
	assert_int_equal(n_told[0], 1);
	run(10 * MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	assert_int_equal(n_told[0], 2);
	assert_in_range(n_sent[0], 990, 1010);
	assert_int_equal(n_sent[1], 0);
	/* Nobody wakes up to see whether there is an answer that has come. */
	assert_in_range(n_ticks, 990, 1010);
}

/* Answers that begin to take longer are seen for what they are. */
static void test_slow(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	run(MD_S);
	wires[0].delay_ns = 3 * MD_MS;
	run(10 * MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	assert_int_equal(n_told[0], 2);
	assert_int_equal(n_warned[0], 0);
	assert_in_range(n_sent[1], 1, 5);
	assert_in_range(n_sent[0], 1090, 1120);
	/* Now and then. */
	n_sent[1] = 0;
	for (int i = 0; i < 200; i++) {
		wires[0].delay_ns = (i % 4 ? 1 : 3) * MD_MS;
		run(INTERVAL);
	}
	assert_in_range(n_sent[1], 0, 5);
}

/* A path that fails with it is known to be no better before anybody is warned. */
static void test_warned_of_all(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	watch(2, MV_WATCH_SPARE);
	run(MD_S);
	wires[0].there_lost = true;
	until_down(0, MD_S);
	wires[0].there_lost = false;
	run(5 * MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	assert_int_equal(told[2], MV_PROBED_UP);
	n_warned[0] = 0;
	wires[0].there_lost = wires[2].there_lost = true;
	while (!n_warned[0])
		step(now_ns + MD_S);
	assert_int_equal(told[2], MV_PROBED_SILENT);
	assert_int_equal(told[1], MV_PROBED_UP);
}

/* Two paths that queue pairs are at work on; the second to be found dead is not said to be well because of the first. */
static void test_both_die(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	run(3 * MD_MS);
	watch(2, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	for (int i = 0; i < 20; i++) {
		run(12 * MD_S + rnd(INTERVAL));
		assert_int_equal(told[0], MV_PROBED_UP);
		assert_int_equal(told[2], MV_PROBED_UP);
		n_told[0] = n_told[2] = n_warned[0] = n_warned[2] = 0;
		wires[0].there_lost = true;
		run(rnd(INTERVAL));
		wires[2].there_lost = true;
		run(60 * MD_MS);
		assert_int_equal(told[0], MV_PROBED_DOWN);
		assert_int_equal(told[2], MV_PROBED_DOWN);
		assert_int_equal(n_warned[0], 1);
		assert_int_equal(n_warned[2], 1);
		assert_int_equal(n_told[0], 1);
		assert_int_equal(n_told[2], 1);
		wires[0].there_lost = wires[2].there_lost = false;
	}
}

/* So many suspects that each is asked seldom: the warning comes when there is not much more to ask. */
static void test_warned_late(void **state)
{
	uint64_t warned_ns;

	(void)state;
	probes.interval_ns = 100 * MD_MS;
	for (unsigned int i = 0; i < 2; i++) {
		watch(0, MV_WATCH_WORK);
		watch(1, MV_WATCH_SPARE);
		run(2 * MD_S);
		wires[0].there_lost = true;
		while (!n_warned[0])
			step(now_ns + MD_S);
		warned_ns = now_ns;
		until_down(0, MD_S);
		assert_in_range(now_ns - warned_ns, 50 * MD_MS, 100 * MD_MS);
		wires[0].there_lost = false;
		run(30 * MD_S);
		n_warned[0] = 0;
	}
}

/* An agent from before there were probes, or a firewall. */
static void test_never_answered(void **state)
{
	(void)state;
	wires[0].mute = true;
	watch(0, MV_WATCH_WORK | MV_WATCH_HOME);
	watch(1, MV_WATCH_WORK);
	run(60 * MD_S);
	assert_int_equal(state_of(0), MV_PROBED_UNKNOWN);
	assert_int_equal(n_told[0], 1);
	assert_int_equal(state_of(1), MV_PROBED_UP);
	/* Soon it is hardly asked any more; but it may have been upgraded. */
	assert_true(n_sent[0] < 250);
	wires[0].mute = false;
	run(2 * MD_S);
	assert_int_equal(state_of(0), MV_PROBED_UP);
}

/* It has been silent for long, and then it is the only one and answers: it is brisk at once. */
static void test_brisk_again(void **state)
{
	uint64_t before;

	(void)state;
	wires[0].mute = true;
	watch(0, MV_WATCH_WORK);
	run(60 * MD_S);
	/* Its host knows us now. */
	before = n_sent[0];
	assert_true(probes.next_ns > now_ns);
	md_probes_challenged(&probes, &wires[0].key, now_ns);
	assert_true(probes.next_ns == now_ns);
	run(INTERVAL);
	assert_int_equal(n_sent[0], before + 1);
	run(60 * MD_S);
	wires[0].mute = false;
	while (state_of(0) != MV_PROBED_UP)
		step(now_ns + MD_S);
	before = n_sent[0];
	run(10 * INTERVAL);
	assert_in_range(n_sent[0] - before, 9, 11);
}

/* ---- what is dead ---------------------------------------------------------------------------- */

static void die_and_tell(bool there, bool back)
{
	begin();
	late_ns = rnd(1500000);
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	watch(2, MV_WATCH_SPARE);
	run(MD_S + rnd(INTERVAL));
	wires[0].there_lost = there;
	wires[0].back_lost = back;
	/* Another way out of the same port, as behind a dead port of a switch. */
	wires[2] = (struct wire){.key = wires[2].key, .host = HOST, .there_lost = true};
	assert_in_range(until_down(0, MD_S), 0, 36 * MD_MS);
	assert_int_equal(told[0], MV_PROBED_DOWN);
	assert_int_equal(told[1], MV_PROBED_UP);
	assert_int_equal(told[2], MV_PROBED_UNKNOWN);
	assert_true(told_order[1] < told_order[0]);
	assert_int_equal(n_warned[0], 1);
	assert_int_equal(n_warned[1] + n_warned[2], 0);
	teardown(NULL);
}

static void test_dies(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		die_and_tell(true, true);
		die_and_tell(true, false);
		die_and_tell(false, true);
	}
	begin();
}

/* Nothing gets through for so long. Return: whether processes were warned. */
static bool blip(uint64_t for_ns)
{
	unsigned int before = n_warned[0], told_before = n_told[0];

	wires[0].there_lost = true;
	run(for_ns);
	assert_int_equal(state_of(0), MV_PROBED_UP);
	wires[0].there_lost = false;
	run(100 * MD_MS);
	assert_int_equal(told[0], MV_PROBED_UP);
	/* Whoever was warned is told that all is well, once. */
	assert_int_equal(n_told[0] - told_before, n_warned[0] - before);
	return n_warned[0] != before;
}

static void test_warned_in_vain(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	/* Nobody works there: HOME is not warned. */
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_HOME, 2, 0, &others_watches, now_ns), 0);
	run(MD_S);
	n_told[0] = 0;
	assert_false(blip(5 * MD_MS));
	assert_true(blip(18 * MD_MS));
	assert_int_equal(n_warned[0], 1);
	/* Something is to be told of another one later. */
	n_told[0] = 0;
	socket_full = true;
	watch(1, MV_WATCH_WORK);
	socket_full = false;
	run(100 * MD_MS);
	watch(1, MV_WATCH_SPARE);
	assert_int_equal(n_told[0], 0);
	/* That it looked like that lately is no news. */
	assert_false(blip(18 * MD_MS));
	run(9 * MD_S);
	assert_false(blip(18 * MD_MS));
	run(MD_S);
	assert_true(blip(18 * MD_MS));
	assert_int_equal(probes.count.warnings, 2);
	/* Another one that is lost with it is found dead all the same. */
	wires[0].back_lost = true;
	until_down(0, MD_S);
	assert_int_equal(n_warned[0], 2);
	assert_int_equal(probes.count.down, 1);
	/* It was no false alarm: so there is a warning the next time. */
	wires[0].back_lost = false;
	run(15 * MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	wires[0].back_lost = true;
	until_down(0, MD_S);
	wires[0].back_lost = false;
	run(5 * MD_S);
	wires[0].back_lost = true;
	until_down(0, MD_S);
	assert_int_equal(n_warned[0], 4);
}

/* Some of its queue pairs leave the path for a reason of their own, while the others wait for what is to be heard of it. */
static void test_watched_otherwise_while_suspect(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	run(MD_S);
	wires[0].there_lost = true;
	while (!n_warned[0])
		step(now_ns + MD_S);
	n_told[0] = 0;
	watch(0, MV_WATCH_WORK | MV_WATCH_HOME);
	assert_int_equal(n_told[0], 0);
	/* Another process has not been warned. */
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_WORK, 2, 0, &others_watches, now_ns), 0);
	assert_int_equal(n_told[0], 1);
	assert_int_equal(told[0], MV_PROBED_UP);
	n_told[0] = 0;
	until_down(0, MD_S);
	assert_int_equal(n_told[0], 2);
	assert_int_equal(told[0], MV_PROBED_DOWN);
	/* Afterwards each question has its answer. */
	watch(0, MV_WATCH_HOME);
	assert_int_equal(n_told[0], 3);
}

/* A process that does not read is not warned, and is told nothing twice. */
static void test_warning_is_lost(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	run(MD_S);
	watch(1, MV_WATCH_WORK); /* so that nothing is to be told of it later */
	run(MD_S);
	n_told[0] = 0;
	socket_full = true;
	wires[0].there_lost = true;
	run(18 * MD_MS);
	assert_int_equal(probes.count.warnings, 0);
	wires[0].there_lost = false;
	run(5 * MD_MS);
	socket_full = false;
	run(MD_S);
	assert_int_equal(n_told[0], 0);
}

/* The agent there has been started anew, and asks who we are: so the path works. */
static void test_challenge_ends_warning(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	run(MD_S);
	wires[0].there_lost = true;
	while (!n_warned[0])
		step(now_ns + MD_S);
	n_told[0] = 0;
	md_probes_challenged(&probes, &wires[0].key, now_ns);
	assert_int_equal(n_told[0], 1);
	assert_int_equal(told[0], MV_PROBED_UP);
	assert_int_equal(probes.n_suspect, 0);
	until_down(0, MD_S);
	assert_int_equal(n_warned[0], 1);
}

/* It is not watched any more while it is suspect. */
static void test_unwatched_while_suspect(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	run(MD_S);
	wires[0].there_lost = true;
	while (!n_warned[0])
		step(now_ns + MD_S);
	watch(0, MV_WATCH_SPARE);
	assert_int_equal(probes.n_suspect, 0);
	assert_true(probes.next_ns == UINT64_MAX);
	wires[0].there_lost = false;
	watch(0, MV_WATCH_WORK);
	run(MD_S);
	wires[0].there_lost = true;
	until_down(0, MD_S);
	assert_int_equal(n_warned[0], 2);
}

/* Both at work: the other one is found alive as it goes. */
static void test_dies_beside_work(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	watch(3, MV_WATCH_WORK);
	run(MD_S);
	wires[0].there_lost = true;
	assert_in_range(until_down(0, MD_S), 0, 36 * MD_MS);
	run(10 * MD_S);
	assert_int_equal(state_of(1), MV_PROBED_UP);
	assert_int_equal(state_of(3), MV_PROBED_UP);
	assert_int_equal(probes.count.down, 1);
}

/* All paths of one port: those that are dead already are no witnesses against the rest, nor do suspects take them from each other. */
static void test_many_die(void **state)
{
	(void)state;
	for (unsigned int i = N_NAMED; i < N_PATHS; i++)
		watch(i, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	run(MD_S);
	for (unsigned int i = N_NAMED; i < N_PATHS - 1; i++)
		wires[i].there_lost = true;
	run(400 * MD_MS);
	assert_int_equal(probes.count.down, N_PATHS - N_NAMED - 1);
	wires[N_PATHS - 1].there_lost = true;
	assert_in_range(until_down(N_PATHS - 1, MD_S), 0, 36 * MD_MS);
}

/* Of all that could speak against it a few are asked in each round. */
static void test_few_witnesses(void **state)
{
	uint64_t before, asked = 0;

	(void)state;
	watch(0, MV_WATCH_WORK);
	for (unsigned int i = N_NAMED; i < N_PATHS; i++)
		watch(i, MV_WATCH_SPARE);
	run(MD_S);
	before = n_sent[0];
	wires[0].there_lost = true;
	until_down(0, MD_S);
	for (unsigned int i = N_NAMED; i < N_PATHS; i++)
		asked += n_sent[i];
	assert_true(asked >= MD_WITNESSES_MAX * MD_PROBE_PARTS);
	assert_true(asked <= MD_WITNESSES_MAX * (n_sent[0] - before));
}

/* Nowhere to go: nobody is told, but for those who wait for it to work steadily. */
static void test_no_witness(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(3, MV_WATCH_WORK); /* of another host */
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_HOME, 2, 0, &others_watches, now_ns), 0);
	run(MD_S);
	wires[0].there_lost = true;
	run(5 * MD_S);
	assert_int_equal(state_of(0), MV_PROBED_SILENT);
	assert_int_equal(probes.count.down, 0);
	assert_int_equal(told[0], MV_PROBED_SILENT);
	wires[0].there_lost = false;
	run(2 * MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
}

/* All was silent, and then one path is not any more. */
static void test_dies_while_peer_is_gone(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	peer_runs_ns = now_ns + 100 * MD_S;
	run(60 * MD_S);
	assert_int_equal(probes.count.down, 0);
	n_flying = 0; /* the agent that these were for has ended */
	peer_runs_ns = 0;
	wires[0].there_lost = true;
	assert_in_range(until_down(0, 5 * MD_S), 0, 1200 * MD_MS);
}

static void test_recovers(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_SPARE);
	run(MD_S);
	wires[0].there_lost = true;
	until_down(0, MD_S);
	watch(0, MV_WATCH_HOME);
	watch(1, MV_WATCH_WORK);
	assert_int_equal(told[0], MV_PROBED_DOWN);
	run(30 * MD_S);
	assert_true(n_sent[0] < 500);
	wires[0].there_lost = false;
	/* One answer does not prove much. */
	while (md_probes_find(&probes, &wires[0].key)->n_answered < 2)
		step(now_ns + MD_S);
	assert_int_equal(state_of(0), MV_PROBED_DOWN);
	run(50 * MD_MS);
	assert_int_equal(told[0], MV_PROBED_UP);
	assert_int_equal(probes.count.recovered, 1);
	/* Dies again. */
	wires[0].back_lost = true;
	assert_in_range(until_down(0, MD_S), 0, 36 * MD_MS);
	assert_int_equal(told[0], MV_PROBED_DOWN);
}

/* ---- what only looks dead -------------------------------------------------------------------- */

/* Neither end gets a processor but now and then, for as short as it may be. */
static void test_starved(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		rng = seed * 7919;
		begin();
		wires[1].delay_ns = 1000 * (1 + rnd(300));
		watch(0, MV_WATCH_WORK | MV_WATCH_HOME);
		watch(1, chance(50) ? MV_WATCH_WORK : MV_WATCH_SPARE);
		run(MD_S / 10);
		for (int i = 0; i < 400; i++) {
			uint64_t for_ns = 1000ull * (1 + rnd(chance(20) ? 900000 : 30000));

			if (chance(60))
				peer_runs_ns = now_ns + for_ns;
			if (chance(40))
				we_run_ns = now_ns + 1000ull * (1 + rnd(chance(20) ? 900000 : 30000));
			run(for_ns / 2 + 1000ull * rnd(20000));
		}
		if (probes.count.down)
			fail_msg("seed %llu: a path that works is down", (unsigned long long)seed);
		peer_runs_ns = we_run_ns = 0;
		run(3 * MD_S);
		assert_int_equal(state_of(0), MV_PROBED_UP);
		/* And it still sees what is dead. */
		wires[0].back_lost = true;
		until_down(0, MD_S);
		teardown(NULL);
	}
	begin();
}

/* The peer's socket overflows as long as it does not run: what is lost there is lost on all paths, if not evenly. */
static void test_peer_overflows(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	queue_room = 1;
	for (int i = 0; i < 2000; i++) {
		peer_runs_ns = now_ns + 1000ull * rnd(30000);
		run(1000ull * (1 + rnd(40000)));
	}
	assert_int_equal(probes.count.down, 0);
	assert_true(peer_dropped > 100);
	/* And if it hits one of them alone, it is told. */
	queue_room = 200;
	peer_runs_ns = 0;
	run(MD_S);
	wires[0].there_lost = true;
	for (int i = 0; i < 400; i++) {
		peer_dropped++;
		run(2 * MD_MS);
	}
	assert_int_equal(probes.count.down, 0);
	until_down(0, MD_S);
}

/* What we lose ourselves says nothing, either. */
static void test_we_overflow(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	for (int i = 0; i < 400; i++) {
		wires[0].back_lost = true;
		we_dropped++;
		run(2 * MD_MS);
	}
	assert_int_equal(probes.count.down, 0);
}

/* Echoes of the path are lost here, all the time; beside it another one comes and goes @stays ns later. */
static void overflow_beside(uint64_t stays)
{
	const uint64_t part = INTERVAL / MD_PROBE_PARTS;

	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S + part / 10);
	wires[0].back_lost = true;
	for (int i = 0; i < 400; i++) {
		we_dropped++;
		watch(2, MV_WATCH_WORK);
		if (stays)
			run(stays);
		watch(2, 0);
		run(part - stays);
	}
	assert_int_equal(probes.count.down, 0);
	assert_true(probes.count.void_rounds > 150);
}

/* Nor does it when the tick that sees it has nothing to judge; */
static void test_we_overflow_between(void **state)
{
	(void)state;
	overflow_beside(0);
}

/* nor when that tick has other paths to probe, and the one whose echo was lost is due later. */
static void test_we_overflow_beside(void **state)
{
	(void)state;
	overflow_beside(INTERVAL / MD_PROBE_PARTS / 5);
	/* A loss now and then does not keep one from being found. */
	wires[0].back_lost = false;
	run(MD_S);
	wires[0].there_lost = true;
	for (int i = 0; i < 10; i++) {
		we_dropped++;
		run(INTERVAL);
	}
	assert_int_equal(probes.count.down, 1);
}

/* Others have taken all the room to send: what does not leave us cannot be missed. */
static void test_no_room(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	for (int i = 0; i < 400; i++) {
		wires[0].no_room = rnd(2);
		run(1000ull * (1 + rnd(40000)));
	}
	wires[0].no_room = true;
	run(5 * MD_S);
	assert_int_equal(probes.count.down, 0);
	assert_int_equal(told[0], MV_PROBED_UP);
	assert_true(probes.count.held > 100);
	wires[0].no_room = false;
	wires[0].there_lost = true;
	until_down(0, 2 * MD_S);
}

static void stick(size_t room)
{
	uint64_t echoes;

	begin();
	send_room = room;
	watch(0, MV_WATCH_WORK | MV_WATCH_HOME);
	watch(1, MV_WATCH_WORK);
	watch(2, MV_WATCH_WORK | MV_WATCH_HOME);
	run(MD_S);
	wires[0].stuck = wires[2].stuck = true;
	run(100 * MD_MS);
	assert_int_equal(state_of(0), MV_PROBED_DOWN);
	assert_int_equal(state_of(2), MV_PROBED_DOWN);
	echoes = probes.count.echoes;
	run(60 * MD_S);
	assert_int_equal(state_of(1), MV_PROBED_UP);
	assert_true(probes.count.echoes - echoes > 5900);
	assert_true(n_stuck <= room / 2);
	assert_int_equal(probes.count.down, 2);
	/* The queue goes on. */
	wires[0].stuck = wires[2].stuck = false;
	n_stuck = 0;
	run(3 * MD_S);
	assert_int_equal(state_of(0), MV_PROBED_UP);
	assert_int_equal(state_of(2), MV_PROBED_UP);
	teardown(NULL);
}

/* Two paths out of a port whose queue stands still: they are found dead, and leave the rest of the room to others. */
static void test_stuck_port(void **state)
{
	(void)state;
	for (size_t room = 60; room <= 300; room += 40)
		stick(room);
	begin();
}

/* Very many of them, with too little room for the case against each: it is completed against some. */
static void test_stuck_port_of_many(void **state)
{
	(void)state;
	watch(1, MV_WATCH_WORK);
	for (unsigned int i = N_NAMED; i < N_PATHS; i++)
		watch(i, MV_WATCH_WORK);
	run(MD_S);
	assert_int_equal(n_stuck, 0);
	for (unsigned int i = N_NAMED; i < N_PATHS; i++)
		wires[i].stuck = true;
	send_room = (N_PATHS - N_NAMED) * 12;
	run(2 * MD_S);
	assert_true(probes.count.down >= 6);
	assert_true(n_stuck <= send_room / 2);
	assert_int_equal(state_of(1), MV_PROBED_UP);
}

/* Answers to the probes of others: those that would take room from others without hope are left out. */
static void test_answers_need_room(void **state)
{
	const struct md_probe_key *known = &wires[0].key, *unknown = &wires[2].key;

	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	send_room = 100;
	n_stuck = 99;
	assert_int_equal(md_probes_answer(&probes, known), MD_PROBES_ANSWER);
	assert_int_equal(md_probes_answer(&probes, unknown), MD_PROBES_REFUSE);
	n_stuck = 50;
	assert_int_equal(md_probes_answer(&probes, unknown), MD_PROBES_ANSWER);
	n_stuck = 0;
	wires[0].there_lost = true;
	run(25 * MD_MS);
	assert_int_equal(state_of(0), MV_PROBED_UP);
	assert_int_equal(md_probes_answer(&probes, known), MD_PROBES_ANSWER);
	n_stuck = 50;
	assert_int_equal(md_probes_answer(&probes, known), MD_PROBES_REFUSE);
	n_stuck = 0;
	until_down(0, MD_S);
	assert_int_equal(md_probes_answer(&probes, known), MD_PROBES_ANSWER);
	n_stuck = 50;
	assert_int_equal(md_probes_answer(&probes, known), MD_PROBES_LEAVE);
}

/* Two of a hundred datagrams each way, for an hour; a path that loses three of ten is none. */
static void test_loss(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	for (int i = 0; i < 2; i++)
		wires[i].loss_ppm = 20000;
	run(3600 * MD_S);
	assert_int_equal(probes.count.down, 0);
	assert_true(probes.count.rounds > 100);
}

/* Started again: cookies have to be learnt first, on each path. */
static void test_challenged(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	wires[0].mute = true;
	for (int i = 0; i < 200; i++) {
		run(8 * MD_MS);
		md_probes_challenged(&probes, &wires[0].key, now_ns);
	}
	assert_int_equal(probes.count.down, 0);
}

static void test_not_drained(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	wires[0].there_lost = true;
	for (int i = 0; i < 100; i++) {
		now_ns += INTERVAL;
		peer_runs();
		we_read();
		md_probes_tick(&probes, false, 0, now_ns);
		assert_true(probes.next_ns > now_ns);
	}
	assert_int_equal(state_of(0), MV_PROBED_UP);
}

/* ---- what others send ------------------------------------------------------------------------ */

static void test_stray(void **state)
{
	const struct mv_host_id host = {{HOST}};
	struct md_probe_wire echo = {0};
	struct md_probe *p;

	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	p = md_probes_find(&probes, &wires[0].key);
	assert_true(p->nonce != md_probes_find(&probes, &wires[1].key)->nonce);
	wires[0].there_lost = true;
	run(20 * MD_MS);
	for (int i = 0; i < 100; i++) {
		run(2 * MD_MS);
		echo = (struct md_probe_wire){.nonce = p->nonce + 1, .number = p->number};
		md_probes_echo(&probes, &wires[0].key, &echo, &host, now_ns);
		echo = (struct md_probe_wire){.nonce = p->nonce, .number = p->number + 1};
		md_probes_echo(&probes, &wires[0].key, &echo, &host, now_ns);
		echo = (struct md_probe_wire){.nonce = p->nonce, .number = p->answered}; /* once more */
		md_probes_echo(&probes, &wires[0].key, &echo, &host, now_ns);
		md_probes_echo(&probes, &wires[3].key, &echo, &host, now_ns);
	}
	assert_int_equal(state_of(0), MV_PROBED_DOWN);
	assert_int_equal(probes.count.stray, 300);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void test_told_later(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	socket_full = true;
	wires[0].there_lost = true;
	until_down(0, MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	socket_full = false;
	run(50 * MD_MS);
	assert_int_equal(told[0], MV_PROBED_DOWN);
	assert_int_equal(n_told[0], 3);
}

/* Who watches more and more meanwhile does not put it off; and nothing is left to do afterwards. */
static void test_told_soon(void **state)
{
	uint64_t due_ns;

	(void)state;
	socket_full = true;
	watch(0, MV_WATCH_SPARE);
	due_ns = probes.next_ns;
	assert_true(due_ns == now_ns + INTERVAL);
	now_ns += INTERVAL / 2;
	watch(1, MV_WATCH_SPARE);
	assert_true(probes.next_ns == due_ns);
	/* Nor does the last one that was probed. */
	watch(2, MV_WATCH_WORK);
	watch(2, 0);
	assert_true(probes.next_ns <= due_ns);
	socket_full = false;
	run(INTERVAL);
	assert_int_equal(n_told[0], 1);
	assert_int_equal(n_told[1], 1);
	assert_true(probes.next_ns == UINT64_MAX);
}

/* The echo of one that is a spare by now. */
static void test_told_of_spare(void **state)
{
	(void)state;
	wires[0].delay_ns = INTERVAL;
	watch(0, MV_WATCH_WORK);
	run(INTERVAL);
	watch(0, MV_WATCH_SPARE);
	assert_true(probes.next_ns == UINT64_MAX);
	socket_full = true;
	run(3 * INTERVAL);
	assert_int_equal(state_of(0), MV_PROBED_UP);
	assert_int_equal(told[0], MV_PROBED_UNKNOWN);
	socket_full = false;
	run(2 * INTERVAL);
	assert_int_equal(told[0], MV_PROBED_UP);
}

static void test_bounds(void **state)
{
	struct md_probe_key key = wires[0].key;
	unsigned int n = 0;
	int err;

	(void)state;
	while (!(err = md_probes_watch(&probes, &key, MV_WATCH_SPARE, 1, 0, &watches, now_ns)) && n < 100000) {
		key.remote.raw[13] = 77;
		key.remote.raw[14] = (uint8_t)(++n >> 8);
		key.remote.raw[15] = (uint8_t)n;
		/* Whose sockets are full, so that nobody looks for these paths in the model. */
		socket_full = true;
	}
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(probes.n, MD_WATCHES_PER_CLIENT);
	assert_int_equal(n, MD_WATCHES_PER_CLIENT);
	/* One goes, one comes. */
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, 0, 1, 0, &watches, now_ns), 0);
	assert_int_equal(md_probes_watch(&probes, &key, MV_WATCH_SPARE, 1, 0, &watches, now_ns), 0);
	assert_int_equal(md_probes_watch(&probes, &key, MV_WATCH_WORK, 1, 0, &watches, now_ns), 0);
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_SPARE, 1, 0, &watches, now_ns), -ENOSPC);
	/* Switched off. */
	md_probes_drop(&probes, &watches);
	probes.interval_ns = 0;
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_WORK, 1, 0, &watches, now_ns), -EOPNOTSUPP);
	assert_int_equal(probes.n, 0);
}

/* No two are the same. */
static int watch_one(unsigned int path, uint64_t client, uid_t uid, struct md_probe_watch_list *list)
{
	struct md_probe_key key = wires[0].key;

	key.remote.raw[13] = 77;
	key.remote.raw[14] = (uint8_t)(path >> 8);
	key.remote.raw[15] = (uint8_t)path;
	socket_full = true; /* as above */
	return md_probes_watch(&probes, &key, MV_WATCH_SPARE, client, uid, list, now_ns);
}

/* A user with many processes leaves paths to others, and has none of theirs counted. */
static void test_bounds_of_users(void **state)
{
	struct md_probe_watch_list lists[MD_PATHS_PER_UID / MD_WATCHES_PER_CLIENT] = {0}, more = {0};
	const unsigned int n = MD_PATHS_PER_UID, n_lists = sizeof(lists) / sizeof(lists[0]);

	(void)state;
	for (unsigned int path = 0; path < n; path++)
		assert_int_equal(watch_one(path, 1 + path % n_lists, 1000, &lists[path % n_lists]), 0);
	assert_int_equal(watch_one(n, 9, 1000, &more), -EDQUOT);
	/* What is his already costs nothing more, nor does what ends while another process of his has it. */
	for (unsigned int path = 0; path < 3; path++)
		assert_int_equal(watch_one(path, 9, 1000, &more), 0);
	md_probes_drop(&probes, &more);
	assert_int_equal(watch_one(n, 9, 1000, &more), -EDQUOT);
	/* Others, the same paths and new ones; root, until there are no more. */
	assert_int_equal(watch_one(0, 10, 1001, &watches), 0);
	assert_int_equal(watch_one(n, 10, 1001, &watches), 0);
	assert_int_equal(watch_one(n + 1, 11, 0, &others_watches), 0);
	/* Also the others' paths count. */
	assert_int_equal(watch_one(n + 1, 9, 1000, &more), -EDQUOT);
	assert_int_equal(probes.n, n + 2);
	/* One goes, one comes. */
	md_probes_drop(&probes, &lists[0]);
	assert_int_equal(watch_one(n + 1, 9, 1000, &more), 0);
	assert_int_equal(probes.n, n + 3 - MD_WATCHES_PER_CLIENT); /* the first is the other user's, too */
	for (unsigned int i = 1; i < n_lists; i++)
		md_probes_drop(&probes, &lists[i]);
	md_probes_drop(&probes, &more);
	md_probes_drop(&probes, &watches);
	assert_null(probes.users);
	for (unsigned int path = 0; path < MD_WATCHES_PER_CLIENT - 1; path++)
		assert_int_equal(watch_one(path, 11, 0, &others_watches), 0);
	assert_null(probes.users);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_to_do, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alive, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_brisk_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warned_in_vain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_watched_otherwise_while_suspect, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warned_of_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_both_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warned_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warning_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_challenge_ends_warning, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unwatched_while_suspect, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_beside_work, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_witnesses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_witness, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_while_peer_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recovers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_starved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer_overflows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_we_overflow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_we_overflow_between, setup, teardown),
		cmocka_unit_test_setup_teardown(test_we_overflow_beside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stuck_port, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stuck_port_of_many, setup, teardown),
		cmocka_unit_test_setup_teardown(test_answers_need_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_loss, setup, teardown),
		cmocka_unit_test_setup_teardown(test_challenged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_drained, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stray, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told_soon, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told_of_spare, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds_of_users, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
