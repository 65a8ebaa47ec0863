/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "twoends.h"

#include <string.h>

#define N_FLYING 256

/* A datagram; its rail is the path. */
struct flying {
	uint64_t at_ns;
	bool echo;
	unsigned int to, rail;
	struct md_probe_wire wire;
};

struct end ends[N_ENDS];
bool lost[N_ENDS][N_RAILS];
static struct flying flying[N_FLYING];
size_t n_flying;
uint64_t now_ns, delay_ns, jitter_ns;
uint64_t apart_ns = 3700000;
unsigned int loss_ppm;
static unsigned int n_standing;

static unsigned int rail_of(const struct end *end, const struct md_probe_key *key)
{
	for (unsigned int rail = 0; rail < N_RAILS; rail++)
		if (!memcmp(&end->keys[rail], key, sizeof(*key)))
			return rail;
	fail();
	return 0;
}

static void fly(unsigned int to, unsigned int rail, bool echo, const struct md_probe_wire *wire)
{
	if (lost[to][rail] || (loss_ppm && rnd(1000000) < loss_ppm))
		return;
	assert_true(n_flying < N_FLYING);
	flying[n_flying++] =
		(struct flying){.at_ns = now_ns + delay_ns + (jitter_ns ? rnd(jitter_ns) : 0), .echo = echo, .to = to, .rail = rail, .wire = *wire};
}

static int on_send(void *arg, const struct md_probe_key *key, const struct md_probe_wire *wire)
{
	struct end *end = arg;
	struct md_probe_wire sent = *wire;
	unsigned int rail = rail_of(end, key);

	if (end->is_old)
		sent.behind = 0;
	end->n_sent[rail]++;
	fly(end == &ends[A] ? B : A, rail, false, &sent);
	return 0;
}

static unsigned int on_waiting(void *arg, const struct md_probe_key *key)
{
	(void)arg;
	(void)key;
	return 0;
}

struct mv_host_id host_of(unsigned int end)
{
	return (struct mv_host_id){{(uint8_t)(1 + end)}};
}

static bool on_host(void *arg, const struct md_probe_key *key, struct mv_host_id *ret)
{
	(void)key;
	*ret = host_of(arg == &ends[A] ? B : A);
	return true;
}

static bool on_tell(void *arg, uint64_t client, const struct md_probe_key *key, enum mv_probed state)
{
	struct end *end = arg;

	(void)client;
	(void)key;
	(void)state;
	end->n_told += !end->cannot_tell;
	return !end->cannot_tell;
}

static bool on_warn(void *arg, uint64_t client, const struct md_probe_key *key)
{
	struct end *end = arg;

	(void)client;
	(void)key;
	end->n_warned++;
	return true;
}

static const struct md_probe_ops ops = {on_send, on_waiting, on_host, on_tell, on_warn};

struct md_probe *probe(unsigned int end, unsigned int rail)
{
	struct md_probe *p = md_probes_find(&ends[end].probes, &ends[end].keys[rail]);

	assert_non_null(p);
	return p;
}

void watch(unsigned int end, unsigned int rail, uint8_t mask)
{
	assert_int_equal(md_probes_watch(&ends[end].probes, &ends[end].keys[rail], mask, 1, 0, &ends[end].watches, now_ns), 0);
}

static void arrive(const struct flying *datagram)
{
	struct end *end = &ends[datagram->to];
	unsigned int other = datagram->to == A ? B : A;
	const struct md_probe_key *key = &end->keys[datagram->rail];
	const struct mv_host_id sender = host_of(other);
	struct md_probe_wire echo = datagram->wire;

	if (datagram->echo) {
		md_probes_echo(&end->probes, key, &datagram->wire, &sender, now_ns);
		return;
	}
	echo.dropped = 0;
	fly(other, datagram->rail, true, &echo);
	md_probes_heard(&end->probes, key, &datagram->wire, &sender, now_ns);
}

/* Of an end that runs; in the order of the calls, which is that of times. -1: none. */
static ssize_t arrived(void)
{
	for (size_t i = 0; i < n_flying; i++)
		if (flying[i].at_ns <= now_ns && !ends[flying[i].to].stopped)
			return (ssize_t)i;
	return -1;
}

static uint64_t next_event(uint64_t until_ns)
{
	for (size_t i = 0; i < n_flying; i++)
		if (!ends[flying[i].to].stopped && flying[i].at_ns < until_ns)
			until_ns = flying[i].at_ns;
	for (struct end *end = ends; end < ends + N_ENDS; end++)
		if (!end->stopped && end->probes.next_ns < until_ns)
			until_ns = end->probes.next_ns;
	return until_ns > now_ns ? until_ns : now_ns;
}

void step(uint64_t until_ns)
{
	uint64_t before_ns = now_ns;
	ssize_t i;

	now_ns = next_event(until_ns);
	/* A tick that is due and changes nothing would be due for ever. */
	n_standing = now_ns > before_ns ? 0 : n_standing + 1;
	assert_true(n_standing < 1000);
	while ((i = arrived()) >= 0) {
		struct flying datagram = flying[i];

		memmove(&flying[i], &flying[i + 1], (--n_flying - (size_t)i) * sizeof(*flying));
		arrive(&datagram);
	}
	for (struct end *end = ends; end < ends + N_ENDS; end++) {
		if (end->stopped || end->probes.next_ns > now_ns)
			continue;
		md_probes_tick(&end->probes, true, 0, now_ns);
		end->n_ticks++;
	}
}

void run(uint64_t for_ns)
{
	for (uint64_t until_ns = now_ns + for_ns; now_ns < until_ns;)
		step(until_ns);
}

uint64_t until_both_down(uint64_t limit_ns)
{
	uint64_t begun_ns = now_ns;

	while (probe(A, 0)->state != MV_PROBED_DOWN || probe(B, 0)->state != MV_PROBED_DOWN) {
		assert_true(now_ns < begun_ns + limit_ns);
		step(begun_ns + limit_ns);
	}
	return now_ns - begun_ns;
}

void count_anew(void)
{
	for (struct end *end = ends; end < ends + N_ENDS; end++) {
		memset(end->n_sent, 0, sizeof(end->n_sent));
		end->n_ticks = 0;
	}
}

int two_setup(void **state)
{
	static const char *const gids[N_ENDS][N_RAILS] = {{"10.1.0.1", "10.2.0.1"}, {"10.1.0.2", "10.2.0.2"}};

	(void)state;
	if (!rng)
		rng = 1;
	memset(ends, 0, sizeof(ends));
	memset(lost, 0, sizeof(lost));
	n_flying = 0;
	loss_ppm = 0;
	jitter_ns = 0;
	delay_ns = 20000;
	now_ns = 100 * MD_S;
	for (unsigned int i = 0; i < N_ENDS; i++) {
		for (unsigned int rail = 0; rail < N_RAILS; rail++)
			ends[i].keys[rail] = (struct md_probe_key){.local = unit_gid(gids[i][rail]),
								   .remote = unit_gid(gids[i == A ? B : A][rail])};
		md_probes_init(&ends[i].probes, &ops, &ends[i], INTERVAL, 3, 77 + i);
		watch(i, 0, MV_WATCH_WORK);
		watch(i, 1, MV_WATCH_ALTERNATE);
		run(apart_ns);
	}
	run(MD_S / 2);
	return 0;
}

int two_teardown(void **state)
{
	(void)state;
	for (struct end *end = ends; end < ends + N_ENDS; end++) {
		md_probes_drop(&end->probes, &end->watches);
		assert_int_equal(end->probes.n, 0);
		assert_int_equal(end->probes.n_awaited, 0);
		md_probes_fini(&end->probes);
	}
	return 0;
}

void put_back(void)
{
	assert_int_equal(two_teardown(NULL), 0);
	assert_int_equal(two_setup(NULL), 0);
}
