/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes of thousands of paths. */
#include "probes_internal.h"

#include "unit.h"
#include "random.h"

#define INTERVAL (10 * MD_MS)
#define RTT_NS	 (50 * MD_MS / 1000)
#define N_MANY	 MD_PATHS_PER_ACCOUNT

/* Each account has a host that it talks to; its paths go to addresses of that host. */
enum { USER = 1000, OTHER_USER };

static struct md_probes probes;
static struct md_probe_watch_list lists[N_MANY / MD_WATCHES_PER_CLIENT], others;
static uint64_t now_ns, n_sent;
static bool dead[2]; /* of an account, all paths but the last one */
static unsigned int answers_pct; /* of probes on dead paths */
static unsigned int n_of[2]; /* paths of an account */
static unsigned int waiting_pct; /* of the send buffer, in use */
static struct {
	struct md_probe_key key;
	struct md_probe_wire wire;
} flying[2 * N_MANY];
static size_t n_flying;

static struct md_probe_key key_of(unsigned int account, unsigned int path)
{
	struct md_probe_key key = {.local = unit_gid("10.1.0.1"), .remote = unit_gid("10.1.0.0")};

	key.remote.raw[13] = (uint8_t)account;
	key.remote.raw[14] = (uint8_t)(path >> 8);
	key.remote.raw[15] = (uint8_t)path;
	return key;
}

static int on_send(void *arg, const struct md_probe_key *key, const struct md_probe_wire *wire)
{
	unsigned int account = key->remote.raw[13], path = key->remote.raw[14] * 256u + key->remote.raw[15];

	(void)arg;
	n_sent++;
	if (dead[account] && path + 1 < n_of[account] && rnd(100) >= answers_pct)
		return 0;
	assert_true(n_flying < sizeof(flying) / sizeof(flying[0]));
	flying[n_flying].key = *key;
	flying[n_flying++].wire = *wire;
	return 0;
}

static unsigned int on_waiting(void *arg, const struct md_probe_key *key)
{
	(void)arg;
	(void)key;
	return waiting_pct;
}

static struct mv_host_id host_id(const struct md_probe_key *key)
{
	return (struct mv_host_id){{7, key->remote.raw[13]}};
}

static bool on_host(void *arg, const struct md_probe_key *key, struct mv_host_id *ret)
{
	(void)arg;
	*ret = host_id(key);
	return true;
}

static bool on_tell(void *arg, uint64_t client, const struct md_probe_key *key, enum mv_probed state)
{
	(void)arg;
	(void)client;
	(void)key;
	(void)state;
	return true;
}

static bool on_warn(void *arg, uint64_t client, const struct md_probe_key *key)
{
	(void)arg;
	(void)client;
	(void)key;
	return true;
}

static const struct md_probe_ops ops = {on_send, on_waiting, on_host, on_tell, on_warn};

static int setup(void **state)
{
	(void)state;
	now_ns = 100 * MD_S;
	n_flying = n_sent = 0;
	dead[0] = dead[1] = false;
	n_of[0] = n_of[1] = answers_pct = waiting_pct = 0;
	rng = 1;
	md_probes_init(&probes, &ops, NULL, INTERVAL, 3, 0x1234567);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		md_probes_drop(&probes, &lists[i]);
	md_probes_drop(&probes, &others);
	assert_int_equal(probes.n, 0);
	assert_int_equal(probes.n_users, 0);
	assert_int_equal(probes.root.n_scheduled, 0);
	assert_null(probes.users);
	return 0;
}

static void watch(unsigned int account, unsigned int path, uint8_t mask, struct md_probe_watch_list *list)
{
	const struct md_probe_key key = key_of(account, path);

	assert_int_equal(md_probes_watch(&probes, &key, mask, 1 + (uint64_t)account, USER + account, list, now_ns), 0);
	if (path >= n_of[account])
		n_of[account] = path + 1;
}

static void watch_many(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		watch(0, i, MV_WATCH_WORK, &lists[i / MD_WATCHES_PER_CLIENT]);
}

static enum mv_probed state_of(unsigned int account, unsigned int path)
{
	const struct md_probe_key key = key_of(account, path);

	return md_probes_find(&probes, &key)->state;
}

static void land(void)
{
	now_ns += RTT_NS;
	for (size_t i = 0; i < n_flying; i++) {
		const struct mv_host_id host = host_id(&flying[i].key);

		md_probes_echo(&probes, &flying[i].key, &flying[i].wire, &host, now_ns);
	}
	n_flying = 0;
}

static void run(uint64_t for_ns)
{
	uint64_t until_ns = now_ns + for_ns, next_ns;

	while (now_ns < until_ns && (next_ns = md_probes_hurries(&probes) ? 0 : probes.next_ns) < until_ns) {
		now_ns = next_ns > now_ns ? next_ns : now_ns;
		if (probes.next_ns <= now_ns)
			md_probes_tick(&probes, true, 0, now_ns);
		else
			md_probes_tell_the_rest(&probes);
		land();
	}
	now_ns = until_ns > now_ns ? until_ns : now_ns;
}

static uint64_t until_down(unsigned int account, unsigned int path, uint64_t limit_ns)
{
	uint64_t begun_ns = now_ns;

	while (state_of(account, path) != MV_PROBED_DOWN && now_ns - begun_ns < limit_ns)
		run(MD_MS);
	return now_ns - begun_ns;
}

/* An account with thousands of paths: those of another account are found dead as soon as without. */
static void test_paths_of_another(void **state)
{
	(void)state;
	watch_many(N_MANY);
	watch(1, 0, MV_WATCH_WORK, &others);
	watch(1, 1, MV_WATCH_WORK, &others);
	run(5 * MD_S);
	dead[1] = true;
	assert_in_range(until_down(1, 0, MD_S), 0, 5 * INTERVAL);
	n_sent = 0;
	run(10 * MD_S);
	assert_in_range(n_sent, 1, 10 * (MD_PROBES_PER_S + MD_PROBES_PER_S / 2));
}

/* The same while thousands are suspect. */
static void test_suspects_of_another(void **state)
{
	(void)state;
	watch_many(N_MANY);
	watch(1, 0, MV_WATCH_WORK, &others);
	watch(1, 1, MV_WATCH_WORK, &others);
	run(5 * MD_S);
	dead[0] = true;
	run(2 * MD_S);
	assert_true(probes.n_suspect > N_MANY / 2);
	dead[1] = true;
	assert_in_range(until_down(1, 0, MD_S), 0, 6 * INTERVAL);
	assert_true(probes.n_suspect > N_MANY / 2);
}

/* An account that watches the others' paths, too, does not slow these down. */
static void test_shared_paths(void **state)
{
	struct md_probe_watch_list list = {0};
	const struct md_probe_key key = key_of(1, 0);

	(void)state;
	watch(1, 0, MV_WATCH_WORK, &others);
	watch(1, 1, MV_WATCH_WORK, &others);
	assert_int_equal(md_probes_watch(&probes, &key, MV_WATCH_WORK, 9, USER, &list, now_ns), 0);
	assert_int_equal(probes.n_users, 2);
	watch_many(N_MANY - 1);
	run(5 * MD_S);
	dead[1] = true;
	assert_in_range(until_down(1, 0, MD_S), 0, 5 * INTERVAL);
	/* Alternate paths are not probed, so nobody shares a rate for them. */
	watch(1, 0, MV_WATCH_ALTERNATE, &others);
	assert_int_equal(probes.n_users, 2);
	watch(1, 1, MV_WATCH_ALTERNATE, &others);
	assert_int_equal(probes.n_users, 1);
	md_probes_drop(&probes, &list);
}

/* Hundreds of paths that fail together are all found dead, though their rounds take longer. */
static void test_many_die(void **state)
{
	const unsigned int n = 600;

	(void)state;
	watch_many(n);
	run(2 * MD_S);
	dead[0] = true;
	run(5 * MD_S);
	assert_int_equal(probes.n_down, n - 1);
	assert_int_equal(probes.n_suspect, 0);
}

/*
 * Whoever answers some probes does not have the others' suspects probed without end, nor witnesses whose echo is missing
 * suspected in turn.
 */
static void test_some_answer(void **state)
{
	static const unsigned int ns[] = {64, 256, MD_WATCHES_PER_CLIENT, N_MANY};
	const uint64_t most = 5 * 5 / 2 * MD_PROBES_BURST_PER_S;
	uint64_t until_ns;

	(void)state;
	for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
		watch_many(ns[i]);
		dead[0] = false;
		run(5 * MD_S);
		dead[0] = true;
		for (answers_pct = 5; answers_pct < 100; answers_pct += 15) {
			n_sent = 0;
			/* Not to the end, if it takes that long. */
			for (until_ns = now_ns + 5 * MD_S; now_ns < until_ns && n_sent < most;)
				run(MD_MS);
			assert_in_range(n_sent, 1, most - 1);
		}
	}
}

/* How often in a second a path is probed whose watches end, or become those of an alternate path, and begin anew. */
static uint64_t probed_again(uint8_t between)
{
	uint64_t until_ns = now_ns + MD_S;

	n_sent = 0;
	while (now_ns < until_ns) {
		for (unsigned int i = 0; i < MD_PROBES_PER_TURN; i++) {
			watch(0, i, between, &lists[0]);
			watch(0, i, MV_WATCH_WORK, &lists[0]);
		}
		run(MD_MS);
	}
	return n_sent;
}

/* Whoever watches paths anew without end does not have them probed each time; a new path of another is. */
static void test_watched_anew(void **state)
{
	(void)state;
	watch_many(N_MANY);
	run(5 * MD_S);
	assert_in_range(probed_again(0), 1, 2 * MD_PROBES_BURST_PER_S);
	assert_in_range(probed_again(MV_WATCH_ALTERNATE), 1, 2 * MD_PROBES_BURST_PER_S);
	watch(1, 0, MV_WATCH_WORK, &others);
	probed_again(0);
	assert_int_equal(state_of(1, 0), MV_PROBED_UP);
}

/*
 * Probes to addresses where nobody is stay in the send buffer for seconds. Whoever watches ever new paths to such addresses
 * leaves half of the buffer to others: to beacons, and to paths that answer.
 */
static void test_new_paths_leave_room(void **state)
{
	(void)state;
	watch(1, 0, MV_WATCH_WORK, &others);
	watch(1, 1, MV_WATCH_WORK, &others);
	run(MD_S);
	dead[0] = true;
	waiting_pct = MD_SCARCER_PERCENT;
	watch_many(N_MANY);
	n_sent = 0;
	probed_again(0);
	assert_int_equal(state_of(1, 0), MV_PROBED_UP);
	/* Two paths answer. */
	assert_in_range(n_sent, 1, 2 * MD_S / INTERVAL + 2);
}

/* A new path on which somebody asks for a cookie is probed again at once: somebody is there. */
static void test_challenged_path_has_room(void **state)
{
	const struct md_probe_key key = key_of(0, 0);

	(void)state;
	waiting_pct = MD_SCARCE_PERCENT;
	watch(0, 0, MV_WATCH_WORK, &others);
	watch(0, 1, MV_WATCH_WORK, &others);
	dead[0] = true;
	run(MD_MS);
	assert_int_equal(n_sent, 2);
	dead[0] = false;
	md_probes_challenged(&probes, &key, now_ns);
	run(MD_MS);
	assert_int_equal(state_of(0, 0), MV_PROBED_UP);
}

/* As many ticks as all paths need twice; in each, @max paths are looked at, at most. */
static void tick_comparing(size_t max)
{
	for (unsigned int i = 0; i < 2 * N_MANY / MD_PROBES_PER_TURN; i++) {
		probes.count.compared = 0;
		now_ns = probes.next_ns;
		md_probes_tick(&probes, true, 0, now_ns);
		assert_in_range(probes.count.compared, 0, max);
		n_flying = 0;
	}
}

/* Where the send buffer has little room, paths that are not among the first suspects do not look at all others. */
static void test_little_room(void **state)
{
	(void)state;
	waiting_pct = MD_SCARCE_PERCENT;
	dead[0] = true;
	watch_many(N_MANY);
	run(5 * MD_S);
	assert_true(probes.count.held > 0);
	assert_int_equal(probes.count.compared, 0);
	/* Thousands of suspects: the first ones are found soon. */
	waiting_pct = 0;
	dead[0] = false;
	run(5 * MD_S);
	dead[0] = true;
	run(2 * MD_S);
	waiting_pct = MD_SCARCE_PERCENT;
	tick_comparing(4 * N_MANY);
}

/* Suspects of one turn look for their witness together, and probe others together: else each looks at thousands. */
static void test_suspects_look_together(void **state)
{
	(void)state;
	watch_many(N_MANY);
	run(5 * MD_S);
	dead[0] = true;
	run(2 * MD_S);
	assert_true(probes.n_suspect > N_MANY / 2);
	/* Once each: for the witness, and to be one. */
	tick_comparing(3 * N_MANY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_paths_of_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_suspects_of_another, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shared_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_some_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_watched_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(test_new_paths_leave_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_challenged_path_has_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_little_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_suspects_look_together, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
