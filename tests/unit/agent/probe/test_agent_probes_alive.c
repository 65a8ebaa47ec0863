/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Probes of paths: what only looks dead (an agent without a processor, at either end, one that is started again, loss) is never taken for it. */
#include "probeworld.h"

/* Neither end gets a processor but now and then, for as short as it may be. */
static void test_starved(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		rng = seed * 7919;
		begin();
		wires[1].delay_ns = 1000 * (1 + rnd(300));
		watch(0, MV_WATCH_WORK | MV_WATCH_PRIMARY);
		watch(1, chance(50) ? MV_WATCH_WORK : MV_WATCH_ALTERNATE);
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

/* Nor does it when the tick that sees it has nothing to check; */
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
	watch(0, MV_WATCH_WORK | MV_WATCH_PRIMARY);
	watch(1, MV_WATCH_WORK);
	watch(2, MV_WATCH_WORK | MV_WATCH_PRIMARY);
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
	assert_int_equal(state_of(1), MV_PROBED_UP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
