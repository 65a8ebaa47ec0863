/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes of paths: what dies is found out soon. */
#include "probeworld.h"

static void die_and_tell(bool there, bool back)
{
	begin();
	late_ns = rnd(1500000);
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
	watch(2, MV_WATCH_ALTERNATE);
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
	watch(1, MV_WATCH_ALTERNATE);
	/* Nobody works there: PRIMARY is not warned. */
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_PRIMARY, 2, 0, &others_watches, now_ns), 0);
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
	watch(1, MV_WATCH_ALTERNATE);
	assert_int_equal(n_told[0], 0);
	/* That it looked like that lately is nothing new. */
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
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].there_lost = true;
	while (!n_warned[0])
		step(now_ns + MD_S);
	n_told[0] = 0;
	watch(0, MV_WATCH_WORK | MV_WATCH_PRIMARY);
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
	watch(0, MV_WATCH_PRIMARY);
	assert_int_equal(n_told[0], 3);
}

/* A process that does not read is not warned, and is told nothing twice. */
static void test_warning_is_lost(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
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
	watch(1, MV_WATCH_ALTERNATE);
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
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].there_lost = true;
	while (!n_warned[0])
		step(now_ns + MD_S);
	watch(0, MV_WATCH_ALTERNATE);
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
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	for (unsigned int i = N_NAMED; i < N_PATHS - 1; i++)
		wires[i].there_lost = true;
	run(400 * MD_MS);
	assert_int_equal(probes.count.down, N_PATHS - N_NAMED - 1);
	wires[N_PATHS - 1].there_lost = true;
	assert_in_range(until_down(N_PATHS - 1, MD_S), 0, 36 * MD_MS);
}

/* Who is asked as a witness and is dead itself is under suspicion as soon as the other one. */
static void test_two_die(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		begin();
		late_ns = rnd(1500000);
		watch(0, MV_WATCH_WORK);
		run(rnd(INTERVAL));
		watch(2, MV_WATCH_WORK);
		watch(1, MV_WATCH_ALTERNATE);
		run(MD_S + rnd(INTERVAL));
		wires[0].there_lost = wires[2].back_lost = true;
		assert_in_range(until_down(0, MD_S) + until_down(2, MD_S), 0, 36 * MD_MS);
		teardown(NULL);
	}
	begin();
}

/* Echoes may take longer than from one round to the next: an agent there that is busy does not keep a dead path. */
static void test_dies_far_away(void **state)
{
	(void)state;
	for (uint64_t delay_ns = MD_MS / 2; delay_ns < 12 * MD_MS; delay_ns += MD_MS / 2) {
		for (int i = 0; i < 20; i++) {
			begin();
			late_ns = rnd(1500000);
			watch(0, MV_WATCH_WORK);
			watch(1, MV_WATCH_ALTERNATE);
			for (unsigned int path = N_NAMED; path < N_PATHS; path++)
				watch(path, MV_WATCH_WORK);
			for (unsigned int path = 0; path < N_PATHS; path++)
				wires[path].delay_ns = delay_ns;
			run(MD_S + rnd(INTERVAL));
			wires[0].there_lost = true;
			assert_in_range(until_down(0, MD_S), 0, 45 * MD_MS + 4 * delay_ns);
			assert_int_equal(told[1], MV_PROBED_UP);
			for (unsigned int path = N_NAMED; path < N_PATHS; path++)
				assert_int_equal(state_of(path), MV_PROBED_UP);
			teardown(NULL);
		}
	}
	begin();
}

/* So late that it is not known any more with what they were sent: they prove nothing. */
static void test_too_far_away(void **state)
{
	(void)state;
	wires[0].delay_ns = wires[1].delay_ns = 60 * MD_MS;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].there_lost = true;
	run(400 * MD_MS);
	assert_in_range(probes.n_suspect, 1, 1);
	assert_int_equal(probes.count.rounds, 0);
}

static unsigned int rounds_of(unsigned int path)
{
	return md_probes_find(&probes, &wires[path].key)->suspicion.rounds;
}

/*
 * The peer stands still, answers all that has come, of one witness less than of others, and stands still again. @we_drop: some of that did
 * not fit into our socket.
 */
static void burst(bool we_drop)
{
	peer_runs_ns = now_ns + 50 * MD_MS;
	run(25 * MD_MS);
	wires[N_NAMED].there_lost = true;
	run(25 * MD_MS);
	assert_int_equal(rounds_of(0), 0);
	peer_runs();
	peer_runs_ns = now_ns + MD_S;
	we_dropped += we_drop;
	run(50 * MD_MS);
}

/* Echoes that come all at once speak against it once, however many witnesses they are of. */
static void test_burst_of_echoes(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	for (unsigned int path = N_NAMED; path < N_PATHS; path++)
		watch(path, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].there_lost = wires[0].back_lost = true;
	burst(false);
	assert_int_equal(rounds_of(0), 1);
	peer_runs_ns = 0;
	until_down(0, MD_S);
}

static void test_burst_of_which_we_drop(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].back_lost = true;
	burst(true);
	assert_int_equal(rounds_of(0), 0);
	peer_runs_ns = 0;
	until_down(0, MD_S);
}

/* One that has died since is not where to go; who waits for it is told first. */
static void test_another_one_dies_meanwhile(void **state)
{
	(void)state;
	watch(0, MV_WATCH_WORK);
	watch(2, MV_WATCH_WORK | MV_WATCH_PRIMARY);
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].there_lost = true;
	run(INTERVAL);
	wires[2].there_lost = true;
	until_down(0, MD_S);
	assert_int_equal(told[2], MV_PROBED_SILENT);
	assert_true(told_order[2] < told_order[0]);
	until_down(2, MD_S);
	assert_int_equal(told[1], MV_PROBED_UP);
}

/* The agent there stands still: each of them is found silent, however many are asked as witnesses of others. */
static void test_all_fall_silent(void **state)
{
	(void)state;
	for (int i = 0; i < 50; i++) {
		uint64_t delay_ns = 20000 + rnd(2 * MD_MS);

		begin();
		late_ns = rnd(1500000);
		for (unsigned int path = N_NAMED; path < N_NAMED + 1 + MD_WITNESSES_MAX; path++) {
			watch(path, MV_WATCH_WORK | MV_WATCH_PRIMARY);
			wires[path].delay_ns = delay_ns;
			run(rnd(INTERVAL));
		}
		run(MD_S + rnd(INTERVAL));
		peer_runs_ns = now_ns + MD_S;
		run(100 * MD_MS);
		for (unsigned int path = N_NAMED; path < N_NAMED + 1 + MD_WITNESSES_MAX; path++)
			assert_int_equal(told[path], MV_PROBED_SILENT);
		run(2 * MD_S);
		for (unsigned int path = N_NAMED; path < N_NAMED + 1 + MD_WITNESSES_MAX; path++)
			assert_int_equal(told[path], MV_PROBED_UP);
		assert_int_equal(probes.count.down, 0);
		teardown(NULL);
	}
	begin();
}

/* Of all that could speak against it a few are asked in each round. */
static void test_few_witnesses(void **state)
{
	uint64_t before, asked = 0;

	(void)state;
	watch(0, MV_WATCH_WORK);
	for (unsigned int i = N_NAMED; i < N_PATHS; i++)
		watch(i, MV_WATCH_ALTERNATE);
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
	assert_int_equal(md_probes_watch(&probes, &wires[0].key, MV_WATCH_PRIMARY, 2, 0, &others_watches, now_ns), 0);
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
	watch(1, MV_WATCH_ALTERNATE);
	run(MD_S);
	wires[0].there_lost = true;
	until_down(0, MD_S);
	watch(0, MV_WATCH_PRIMARY);
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

/* Others have datagrams dropped at one end, 500 times a second for good: this end, or the peer's. */
static void dies_under_drops(uint32_t *dropped)
{
	begin();
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	wires[0].there_lost = true;
	for (int i = 0; i < 1000 && state_of(0) != MV_PROBED_DOWN; i++) {
		++*dropped;
		run(2 * MD_MS);
	}
	assert_int_equal(state_of(0), MV_PROBED_DOWN);
	assert_int_equal(state_of(1), MV_PROBED_UP);
	assert_int_equal(probes.count.down, 1);
	teardown(NULL);
}

/* Losses are an excuse for a while, not for good. */
static void test_dies_under_drops(void **state)
{
	(void)state;
	dies_under_drops(&we_dropped);
	dies_under_drops(&peer_dropped);
	begin();
}

/* More datagrams come than we read, but for one tick in @one_in. */
static void dies_undrained(unsigned int one_in)
{
	begin();
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	wires[0].there_lost = true;
	for (unsigned int i = 0; i < 2000 && state_of(0) != MV_PROBED_DOWN; i++) {
		now_ns += INTERVAL / MD_PROBE_PARTS;
		peer_runs();
		we_read();
		md_probes_tick(&probes, i % one_in == 0, 0, now_ns);
	}
	assert_int_equal(state_of(0), MV_PROBED_DOWN);
	assert_int_equal(state_of(1), MV_PROBED_UP);
	teardown(NULL);
}

static void test_dies_undrained(void **state)
{
	(void)state;
	dies_undrained(2000);
	/* Bursts, between which all is read once. */
	dies_undrained(390);
	begin();
}

/* The peer's agent is away for long, and comes back with a full socket, which drops the probes of one path. */
static void test_flooded_after_absence(void **state)
{
	(void)state;
	begin();
	watch(0, MV_WATCH_WORK);
	watch(1, MV_WATCH_WORK);
	run(MD_S);
	peer_runs_ns = now_ns + 100 * MD_S;
	run(3 * MD_S);
	n_flying = 0;
	peer_runs_ns = 0;
	wires[0].there_lost = true;
	for (int i = 0; i < 100; i++) {
		peer_dropped++;
		run(2 * MD_MS);
	}
	wires[0].there_lost = false;
	assert_int_not_equal(state_of(0), MV_PROBED_DOWN);
	assert_int_equal(probes.count.down, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_dies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flooded_after_absence, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warned_in_vain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_watched_otherwise_while_suspect, setup, teardown),
		cmocka_unit_test_setup_teardown(test_warning_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_challenge_ends_warning, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unwatched_while_suspect, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_beside_work, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_two_die, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_far_away, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_far_away, setup, teardown),
		cmocka_unit_test_setup_teardown(test_burst_of_echoes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_burst_of_which_we_drop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_under_drops, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_undrained, setup, teardown),
		cmocka_unit_test_setup_teardown(test_another_one_dies_meanwhile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_all_fall_silent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_witnesses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_witness, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dies_while_peer_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recovers, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
