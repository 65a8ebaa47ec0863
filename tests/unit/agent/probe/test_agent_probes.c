/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes of paths: paths that work, what processes are told of them, and what others send. */
#include "probes_internal.h"

#include "probeworld.h"
#include "fault.h"

/* ---- what is alive --------------------------------------------------------------------------- */

static void test_nothing_to_do(void **state)
{
	(void)state;
	assert_true(probes.next_ns == UINT64_MAX);
	watch(1, MV_WATCH_ALTERNATE);
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
	watch(1, MV_WATCH_ALTERNATE);
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
	watch(1, MV_WATCH_ALTERNATE);
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
	watch(1, MV_WATCH_ALTERNATE);
	watch(2, MV_WATCH_ALTERNATE);
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
	watch(1, MV_WATCH_ALTERNATE);
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
		watch(1, MV_WATCH_ALTERNATE);
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
	watch(0, MV_WATCH_WORK | MV_WATCH_PRIMARY);
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
	watch(0, MV_WATCH_ALTERNATE);
	due_ns = probes.next_ns;
	assert_true(due_ns == now_ns + INTERVAL);
	now_ns += INTERVAL / 2;
	watch(1, MV_WATCH_ALTERNATE);
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

/* The echo of one that is an alternate path by now. */
static void test_told_of_alternate(void **state)
{
	(void)state;
	wires[0].delay_ns = INTERVAL;
	watch(0, MV_WATCH_WORK);
	run(INTERVAL);
	watch(0, MV_WATCH_ALTERNATE);
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
	while (!(err = md_probes_watch(&probes, &key, MV_WATCH_ALTERNATE, 1, 0, &watches, now_ns)) && n < 100000) {
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
	assert_int_equal(md_probes_watch(&probes, &key, MV_WATCH_ALTERNATE, 1, 0, &watches, now_ns), 0);
	assert_int_equal(md_probes_watch(&probes, &key, MV_WATCH_WORK, 1, 0, &watches, now_ns), 0);
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_ALTERNATE, 1, 0, &watches, now_ns), -ENOSPC);
	/* Switched off. */
	md_probes_drop(&probes, &watches);
	probes.interval_ns = 0;
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_WORK, 1, 0, &watches, now_ns), -EOPNOTSUPP);
	assert_int_equal(probes.n, 0);
}

/* No two are the same. */
static int watch_one(unsigned int path, uint64_t client, uint64_t account, struct md_probe_watch_list *list)
{
	struct md_probe_key key = wires[0].key;

	key.remote.raw[13] = 77;
	key.remote.raw[14] = (uint8_t)(path >> 8);
	key.remote.raw[15] = (uint8_t)path;
	socket_full = true; /* as above */
	return md_probes_watch(&probes, &key, MV_WATCH_ALTERNATE, client, account, list, now_ns);
}

/* An account with many processes leaves paths to others, and has none of theirs counted. */
static void test_bounds_of_users(void **state)
{
	struct md_probe_watch_list lists[MD_PATHS_PER_ACCOUNT / MD_WATCHES_PER_CLIENT] = {0}, more = {0};
	const unsigned int n = MD_PATHS_PER_ACCOUNT, n_lists = sizeof(lists) / sizeof(lists[0]);

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

/* So many processes each watch all of so many paths of their account. */
static void watch_all(unsigned int n_accounts, unsigned int n_clients, unsigned int n_paths)
{
	struct md_probe_watch_list *lists = calloc(n_accounts * n_clients, sizeof(*lists));

	for (unsigned int i = 0; i < n_accounts * n_clients; i++)
		for (unsigned int path = 0; path < n_paths; path++)
			assert_int_equal(watch_one(i / n_clients * n_paths + path, 1 + i, 1000 + i / n_clients,
						   &lists[i]), 0);
	for (unsigned int i = 0; i < n_accounts * n_clients; i++)
		md_probes_drop(&probes, &lists[i]);
	free(lists);
	assert_int_equal(probes.n_watches, 0);
}

/* Hosts full of ranks: all of them are told of their paths, not only those that have come first. */
static void test_hosts_full_of_ranks(void **state)
{
	const unsigned int n_paths = MD_PROBES_MAX - MD_PROBES_MAX / MD_ROOT_SHARE;

	(void)state;
	watch_all(1, 256, MD_WATCHES_PER_CLIENT); /* of one user */
	watch_all(8, 128, n_paths / 8); /* of containers */
}

/* However many processes an account has: the paths are few, but each process watches all. */
static void test_bounds_of_watches(void **state)
{
	const size_t most = MD_WATCHES_MAX - MD_WATCHES_MAX / MD_ROOT_SHARE;
	struct md_probe_watch_list lists[3] = {0};

	(void)state;
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(watch_one(0, 1 + i, 1000, &lists[i]), 0);
	assert_int_equal(probes.users->n_watches, 2);
	assert_int_equal(probes.users->n_paths, 1);
	/* As if there were more, which takes long. */
	probes.users->n_watches += MD_WATCHES_PER_ACCOUNT - 3;
	assert_int_equal(watch_one(1, 1, 1000, &lists[0]), 0);
	assert_int_equal(watch_one(1, 2, 1000, &lists[1]), -EDQUOT);
	assert_int_equal(watch_one(1, 3, 1001, &lists[2]), 0);
	md_probes_drop(&probes, &lists[0]);
	assert_int_equal(watch_one(1, 2, 1000, &lists[1]), 0);
	probes.users->n_watches -= MD_WATCHES_PER_ACCOUNT - 3;
	/* All together leave some to root. */
	probes.n_watches += most - 3;
	assert_int_equal(watch_one(2, 2, 1000, &lists[1]), -ENOSPC);
	assert_int_equal(watch_one(2, 9, 0, &others_watches), 0);
	probes.n_watches -= most - 3;
	assert_int_equal(watch_one(2, 2, 1000, &lists[1]), 0);
	for (unsigned int i = 0; i < 3; i++)
		md_probes_drop(&probes, &lists[i]);
	assert_null(probes.users);
}

static unsigned int n_news, n_warnings;

static bool count_news(void *arg, uint64_t client, const struct md_probe_key *key, enum mv_probed state)
{
	(void)arg;
	(void)client;
	(void)key;
	(void)state;
	n_news++;
	return true;
}

static bool count_warnings(void *arg, uint64_t client, const struct md_probe_key *key)
{
	(void)arg;
	(void)client;
	(void)key;
	n_warnings++;
	return true;
}

/* Hundreds of paths fail together that thousands of processes watch: the event loop does other things in between. */
static void test_many_told(void **state)
{
	enum { N_LISTS = 20, N_EACH = MD_WATCHES_PER_CLIENT, N = N_LISTS * N_EACH };
	struct md_probe_watch_list *lists = calloc(N_LISTS, sizeof(*lists));
	struct md_probe_ops ops = *probes.ops;
	struct md_probe *p, *next;
	unsigned int before, turns;

	(void)state;
	ops.tell = count_news;
	probes.ops = &ops;
	for (unsigned int i = 0; i < N; i++)
		assert_int_equal(watch_one(i / N_LISTS, 1 + i % N_LISTS, 1000, &lists[i % N_LISTS]), 0);
	n_news = 0;
	HASH_ITER(hh, probes.by_key, p, next)
	md_probe_set_state(&probes, p, MV_PROBED_UP);
	assert_int_equal(n_news, MD_TELLS_AT_ONCE);
	/* The others are told in turns that follow at once. */
	md_probes_tell_soon(&probes, now_ns);
	for (turns = 0; n_news < N; turns++) {
		assert_true(md_probes_next(&probes) <= now_ns);
		before = n_news;
		md_probes_tell_the_rest(&probes);
		assert_in_range(n_news - before, 1, MD_TELLS_AT_ONCE);
	}
	assert_in_range(turns, 1, N / MD_TELLS_AT_ONCE + 1);
	assert_null(probes.untold);
	assert_true(md_probes_next(&probes) > now_ns);
	HASH_ITER(hh, probes.by_key, p, next)
	for (struct md_probe_watch *w = LIST_FIRST(&p->watches); w; w = LIST_NEXT(w, of_path))
		assert_int_equal(w->told_probed, MV_PROBED_UP);
	for (unsigned int i = 0; i < N_LISTS; i++)
		md_probes_drop(&probes, &lists[i]);
	free(lists);
	begin();
}

static bool host_of_named(void *arg, const struct md_probe_key *key, struct mv_host_id *ret)
{
	(void)arg;
	for (unsigned int i = 0; i < N_NAMED; i++)
		if (!memcmp(&wires[i].key, key, sizeof(*key))) {
			*ret = (struct mv_host_id){{wires[i].host}};
			return true;
		}
	return false;
}

/* Turns in which thousands are told make no rounds: a path that is silent for a moment does not fail. */
static void test_many_told_make_no_rounds(void **state)
{
	enum { N_LISTS = 250, N = N_LISTS * MD_WATCHES_PER_CLIENT };
	struct md_probe_watch_list *lists = calloc(N_LISTS, sizeof(*lists));
	struct md_probe_ops ops = *probes.ops;
	struct md_probe *p, *next;
	uint64_t until_ns;

	(void)state;
	ops.tell = count_news;
	ops.host = host_of_named;
	probes.ops = &ops;
	for (unsigned int i = 0; i < N; i++)
		assert_int_equal(watch_one(i / N_LISTS, 1 + i % N_LISTS, 1000, &lists[i % N_LISTS]), 0);
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	wires[0].there_lost = true;
	while (!md_probes_find(&probes, &wires[0].key)->suspect)
		step(now_ns + MD_S);
	HASH_ITER(hh, probes.by_key, p, next)
	if (!p->n_scheduled)
		md_probe_set_state(&probes, p, MV_PROBED_UP);
	md_probes_tell_soon(&probes, now_ns);
	/* More turns than there are rounds until DOWN, in less than the time of these. */
	late_ns = INTERVAL / 200;
	until_ns = now_ns + INTERVAL;
	while (now_ns < until_ns)
		step(until_ns);
	assert_null(probes.untold);
	assert_int_not_equal(state_of(0), MV_PROBED_DOWN);
	late_ns = 0;
	assert_in_range(until_down(0, MD_S), INTERVAL / 2, 2 * INTERVAL);
	for (unsigned int i = 0; i < N_LISTS; i++)
		md_probes_drop(&probes, &lists[i]);
	free(lists);
	watch(0, 0);
	watch(1, 0);
	begin();
}

/* A path comes and goes faster than all processes that watch the path can be told. All have their turn. */
static void test_news_without_end(void **state)
{
	enum { N = MD_TELLS_AT_ONCE + 2 * MD_TELLS_PER_TURN };
	struct md_probe_watch_list *lists = calloc(N, sizeof(*lists));
	struct md_probe_ops ops = *probes.ops;
	struct md_probe *p;

	(void)state;
	ops.tell = count_news;
	probes.ops = &ops;
	for (unsigned int i = 0; i < N; i++)
		assert_int_equal(watch_one(0, 1 + i, 0, &lists[i]), 0);
	p = probes.by_key;
	for (unsigned int i = 0; i < 2; i++) {
		md_probe_set_state(&probes, p, i % 2 ? MV_PROBED_SILENT : MV_PROBED_UP);
		md_probes_tell_the_rest(&probes);
	}
	for (struct md_probe_watch *w = LIST_FIRST(&p->watches); w; w = LIST_NEXT(w, of_path))
		assert_int_not_equal(w->told_probed, MV_PROBED_UNKNOWN);
	for (unsigned int i = 0; i < N; i++)
		md_probes_drop(&probes, &lists[i]);
	free(lists);
	begin();
}

/* A warning is a packet for each process: of thousands that work on a path, some are warned. */
static void test_many_warned(void **state)
{
	const unsigned int most = MD_TELLS_AT_ONCE / MD_TELLS_OF_WARNING, n = 2 * most;
	struct md_probe_watch_list *lists = calloc(n, sizeof(*lists));
	struct md_probe_ops ops = *probes.ops;

	(void)state;
	ops.warn = count_warnings;
	probes.ops = &ops;
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_WORK, 1 + i, 0, &lists[i], now_ns), 0);
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	assert_int_equal(told[0], MV_PROBED_UP);
	wires[0].there_lost = true;
	n_warnings = n_told[0] = 0;
	run(MD_S);
	assert_int_equal(n_warnings, most);
	assert_int_equal(n_told[0], n);
	assert_int_equal(told[0], MV_PROBED_DOWN);
	for (unsigned int i = 0; i < n; i++)
		md_probes_drop(&probes, &lists[i]);
	free(lists);
	watch(1, 0);
	begin();
}

/* Without memory there is no watch, no path, and nothing is counted. */
static void test_no_memory(void **state)
{
	struct md_probe_watch_list list = {0};
	unsigned int nth = 0;
	int err;

	(void)state;
	do {
		fault_arm(FAULT_ALLOC, ++nth, ENOMEM);
		err = watch_one(0, 1, 1000, &list);
		assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
		fault_disarm();
		assert_int_equal(probes.n, !err);
		assert_int_equal(probes.n_watches, !err);
		assert_int_equal(list.n, !err);
		assert_int_equal(HASH_COUNT(list.by_path), !err);
	} while (err);
	assert_true(nth > 4);
	md_probes_drop(&probes, &list);
	assert_int_equal(probes.n, 0);
	assert_null(probes.users);
}

/* Processes that read nothing do not keep the agent at work: all of them are tried, but a few at a time. */
static void test_many_untold(void **state)
{
	enum { N_LISTS = 3, N = N_LISTS * MD_WATCHES_PER_CLIENT };
	struct md_probe_watch_list lists[N_LISTS] = {0};

	(void)state;
	n_tried = 0;
	for (unsigned int i = 0; i < N; i++)
		assert_int_equal(watch_one(i / N_LISTS, 1 + i % N_LISTS, 1000, &lists[i % N_LISTS]), 0);
	/* Who watches a path has the others' processes told nothing. */
	assert_int_equal(n_tried, N);
	for (unsigned int turn = 0; turn < 2 * N / MD_TELLS_PER_TURN; turn++) {
		n_tried = 0;
		assert_true(probes.next_ns <= now_ns + INTERVAL);
		now_ns = probes.next_ns;
		md_probes_tick(&probes, true, 0, now_ns);
		assert_int_equal(n_tried, MD_TELLS_PER_TURN);
		/* Who begins later has a turn, too. */
		if (turn == 0)
			assert_int_equal(watch_one(0, 9, 1001, &watches), 0);
	}
	for (unsigned int i = 0; i < N_LISTS; i++)
		md_probes_drop(&probes, &lists[i]);
	n_tried = 0;
	now_ns = probes.next_ns;
	md_probes_tick(&probes, true, 0, now_ns);
	assert_int_equal(n_tried, 1);
	md_probes_drop(&probes, &watches);
	assert_null(probes.untold);
}

/* Who is told one nonce cannot compute the next one: no counter, and no linear congruence. */
static void test_nonces_cannot_be_computed(void **state)
{
	uint64_t first, second, third;

	(void)state;
	for (unsigned int path = 0; path < 3; path++)
		watch(path, MV_WATCH_WORK);
	first = md_probes_find(&probes, &wires[0].key)->nonce;
	second = md_probes_find(&probes, &wires[1].key)->nonce;
	third = md_probes_find(&probes, &wires[2].key)->nonce;
	assert_true(second - first != third - second);
	/* Constants of the generator that Knuth and others publish. */
	assert_true(second != first * 6364136223846793005ull + 1442695040888963407ull);
	assert_true(third != second * 6364136223846793005ull + 1442695040888963407ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_to_do, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alive, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_brisk_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warned_of_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_both_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warned_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stray, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told_soon, setup, teardown),
		cmocka_unit_test_setup_teardown(test_told_of_alternate, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nonces_cannot_be_computed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds_of_users, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hosts_full_of_ranks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds_of_watches, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_untold, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_told_make_no_rounds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_news_without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_warned, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
