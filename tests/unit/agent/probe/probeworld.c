/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "probeworld.h"

#define N_FLYING 4096

/* A datagram that has arrived at an agent, or will. */
struct flying {
	uint64_t at_ns, order;
	bool back;
	unsigned int path;
	struct md_probe_wire wire;
};

struct md_probes probes;
struct md_probe_watch_list watches, others_watches;
struct wire wires[N_PATHS];
size_t n_flying;
uint64_t now_ns, n_sent[N_PATHS];
uint64_t late_ns, peer_runs_ns, we_run_ns;
uint32_t peer_dropped, we_dropped;
size_t queue_room, send_room, n_stuck;
enum mv_probed told[N_PATHS];
unsigned int n_told[N_PATHS], n_warned[N_PATHS], n_ticks, told_order[N_PATHS];
bool socket_full;
unsigned int n_tried;

static struct flying flying[N_FLYING];
static uint64_t order;
static unsigned int n_tells;

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
	for (unsigned int i = 0; i < N_PATHS; i++)
		if (!memcmp(&wires[i].key, key, sizeof(*key))) {
			*ret = (struct mv_host_id){{wires[i].host}};
			return true;
		}
	return false;
}

static bool on_tell(void *arg, uint64_t client, const struct md_probe_key *key, enum mv_probed state)
{
	unsigned int path;

	(void)arg;
	(void)client;
	n_tried++;
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
	assert_true(md_probes_find(&probes, key)->suspicion.rounds >= MD_PROBE_WARN_ROUNDS);
	n_warned[path_of(key)]++;
	return true;
}

static const struct md_probe_ops ops = {on_send, on_waiting, on_host, on_tell, on_warn};

void begin(void)
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

int setup(void **state)
{
	(void)state;
	rng = 1;
	begin();
	return 0;
}

int teardown(void **state)
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

void watch(unsigned int path, uint8_t mask)
{
	assert_int_equal(md_probes_watch(&probes, &wires[path].key, mask, 1, 0, &watches, now_ns), 0);
}

int watch_one(unsigned int path, uint64_t client, uint64_t account, struct md_probe_watch_list *list)
{
	struct md_probe_key key = wires[0].key;

	key.remote.raw[13] = 77;
	key.remote.raw[14] = (uint8_t)(path >> 8);
	key.remote.raw[15] = (uint8_t)path;
	socket_full = true; /* so that nobody looks for these paths in the model */
	return md_probes_watch(&probes, &key, MV_WATCH_ALTERNATE, client, account, list, now_ns);
}

enum mv_probed state_of(unsigned int path)
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

void peer_runs(void)
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

void we_read(void)
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
	uint64_t tick_ns = probes.n_hurry	       ? now_ns + late_ns :
			   probes.next_ns == UINT64_MAX ? UINT64_MAX :
							  probes.next_ns + late_ns;
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
			    probes.next_ns <= p->sent_ns + 2000ull * p->rtt.slow_us);
	}
	assert_true(!probes.untold || probes.next_ns <= now_ns + INTERVAL);
}

void step(uint64_t until_ns)
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
	} else if (md_probes_hurries(&probes)) {
		md_probes_tell_the_rest(&probes);
	}
}

void run(uint64_t for_ns)
{
	uint64_t until_ns = now_ns + for_ns;

	while (now_ns < until_ns)
		step(until_ns);
}

uint64_t until_down(unsigned int path, uint64_t limit_ns)
{
	uint64_t begun_ns = now_ns, until_ns = now_ns + limit_ns;

	while (now_ns < until_ns && state_of(path) != MV_PROBED_DOWN)
		step(until_ns);
	assert_int_equal(state_of(path), MV_PROBED_DOWN);
	return now_ns - begun_ns;
}
