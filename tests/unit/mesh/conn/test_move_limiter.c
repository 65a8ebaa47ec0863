// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Turns: how many connections fail over at a time, and in which order. */
#include "conntable.h"

static void test_who_moves(void **state)
{
	bool which[N];
	uint64_t next;

	(void)state;
	mesh_conns_next_mover(MESH_MOVER_LEADS); /* of nobody */
	assert_false(mesh_conns_changed());
	mesh_conn_wait_to_move(conns[3], MESH_MOVER_LEADS);
	mesh_conn_wait_to_move(conns[1], MESH_MOVER_LEADS);
	mesh_conn_wait_to_move(conns[3], MESH_MOVER_LEADS);
	mesh_conn_wait_to_move(conns[2], MESH_MOVER_LEADS);
	mesh_conns_next_mover(MESH_MOVER_LEADS);
	assert_true(mesh_conns_changed());
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[3]);
	assert_false(mesh_conns_changed());
	/* Who is gone has no turn, and keeps nobody from his. */
	mesh_conn_unlink(conns[1]);
	mesh_conns_next_mover(MESH_MOVER_LEADS);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[2]);
	/* And it may wait again. */
	mesh_conn_wait_to_move(conns[3], MESH_MOVER_LEADS);
	mesh_conn_wait_to_move(conns[4], MESH_MOVER_LEADS);
	mesh_conns_next_mover(MESH_MOVER_LEADS);
	mesh_conns_next_mover(MESH_MOVER_LEADS);
	assert_int_equal(take(0, which, &next), 2);
	assert_true(which[3] && which[4]);
	mesh_conn_wait_to_move(conns[9], MESH_MOVER_LEADS); /* for teardown() */
}

/* Who waits looks at the directory when it is his turn. A new agent has to hear of him. */
static void test_changes_while_they_wait(void **state)
{
	bool which[N];
	uint64_t next;

	(void)state;
	mesh_conn_wait_to_move(conns[3], MESH_MOVER_LEADS);
	mesh_conns_queue_all(false);
	assert_int_equal(take(0, which, &next), N - 1);
	assert_false(which[3]);
	mesh_conns_queue_all(true);
	assert_int_equal(take(0, which, &next), N);
	mesh_conns_next_mover(MESH_MOVER_LEADS);
	mesh_conns_queue_all(false);
	assert_int_equal(take(0, which, &next), N);
}

/* Those that wait need not have a reason to move. Each that has none calls the next, or they would wait for one that ends. */
static void test_turn_is_passed_on(void **state)
{
	uint64_t next;
	bool which[N];

	(void)state;
	mesh_conn_wait_to_move(conns[1], MESH_MOVER_LEADS);
	mesh_conn_wait_to_move(conns[2], MESH_MOVER_LEADS);
	atomic_store(&mesh_root.process->moves.n_moving, 127);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
	/* Nobody else has it meanwhile, whoever is looked at. */
	assert_true(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	assert_false(mesh_move_limiter_allows(conns[2], MESH_MOVER_LEADS));
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 0);
	mesh_conn_run(conns[1], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[2]);
	/* Not while as many move as may. */
	mesh_conn_wait_to_move(conns[3], MESH_MOVER_LEADS);
	atomic_store(&mesh_root.process->moves.n_moving, 128);
	mesh_conn_run(conns[2], 1, 1);
	assert_int_equal(take(0, which, &next), 0);
	/* Then as many as are free. */
	mesh_conn_wait_to_move(conns[4], MESH_MOVER_LEADS);
	mesh_conn_wait_to_move(conns[5], MESH_MOVER_LEADS);
	atomic_store(&mesh_root.process->moves.n_moving, 126);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 2);
	assert_true(which[3] && which[4]);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_called), 2);
}

/* The peers of those that follow begin, unless they do not. */
static void test_those_that_follow_wait_longer(void **state)
{
	uint64_t next;
	bool which[N];

	(void)state;
	atomic_store(&mesh_root.process->moves.n_fresh, MESH_MANY_MOVING);
	assert_true(mesh_many_move());
	assert_false(mesh_move_limiter_allows(conns[1], MESH_MOVER_FOLLOWS));
	assert_true(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	mesh_conn_wait_to_move(conns[1], MESH_MOVER_FOLLOWS);
	mesh_conn_wait_to_move(conns[2], MESH_MOVER_LEADS);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[2]);
	atomic_store(&mesh_root.process->moves.n_fresh, MESH_MANY_MOVING - 2);
	assert_false(mesh_many_move());
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
	mesh_move_limiter_forget(conns[1]);
	mesh_move_limiter_forget(conns[2]);
}

/* What the peer has begun does not wait, nor is it called. */
static void test_begun_by_its_peer(void **state)
{
	uint64_t next;
	bool which[N];

	(void)state;
	mesh_conn_wait_to_move(conns[1], MESH_MOVER_FOLLOWS);
	assert_int_equal(atomic_load(&conns[1]->refs), 3);
	conns[1]->vqp = (struct mesh_vqp *)conns; /* not looked at */
	conns[1]->move.failover = true;
	assert_false(mesh_move_limiter_note(conns[1], false, 1));
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_moving), 1);
	assert_int_equal(atomic_load(&conns[1]->refs), 2);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 0);
	/* One that was called, and begins, has had its turn. */
	mesh_conn_wait_to_move(conns[2], MESH_MOVER_LEADS);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(take(0, which, &next), 1);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_called), 1);
	conns[2]->vqp = conns[1]->vqp;
	conns[2]->move.failover = true;
	mesh_move_limiter_note(conns[2], false, 1);
	mesh_move_limiter_note(conns[2], false, 2);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_called), 0);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_moving), 2);
	conns[1]->move.failover = conns[2]->move.failover = false;
	mesh_move_limiter_note(conns[1], false, 3);
	mesh_move_limiter_note(conns[2], false, 3);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_moving), 0);
	conns[1]->vqp = conns[2]->vqp = NULL;
}

/* As many at once as have been no trouble. */
static void test_how_many_is_learned(void **state)
{
	uint64_t move_ns = mesh_root.move_times.move_ns;
	unsigned int i;

	(void)state;
	mesh_root.move_times.move_ns = 4000;
	atomic_store(&mesh_root.process->moves.n_moving, 128);
	assert_false(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	atomic_store(&mesh_root.process->moves.n_moving, 63);
	mesh_move_limiter_took(1); /* which says nothing of many */
	atomic_store(&mesh_root.process->moves.n_moving, 128);
	assert_false(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	mesh_move_limiter_took(100); /* neither fast nor slow */
	mesh_move_limiter_took(401); /* it is the least already */
	assert_false(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	mesh_move_limiter_took(99);
	assert_true(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	mesh_move_limiter_took(400);
	assert_true(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	mesh_move_limiter_took(401);
	assert_false(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	atomic_store(&mesh_root.process->moves.n_moving, 1023);
	for (i = 0; i < 2000; i++)
		mesh_move_limiter_took(1);
	assert_true(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	atomic_store(&mesh_root.process->moves.n_moving, 1024);
	assert_false(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	mesh_move_limiter_took(UINT64_MAX); /* they have not been without trouble */
	atomic_store(&mesh_root.process->moves.n_moving, 576);
	assert_false(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	atomic_store(&mesh_root.process->moves.n_moving, 575);
	assert_true(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	mesh_root.move_times.move_ns = move_ns;
}

/* Those that wait for a peer that does not answer do not make many of the others. */
static void test_moves_for_long(void **state)
{
	(void)state;
	conns[1]->vqp = (struct mesh_vqp *)conns; /* not looked at */
	conns[1]->move.failover = true;
	mesh_move_limiter_note(conns[1], false, 1000);
	assert_int_equal(mesh_n_moving(), 1);
	mesh_move_limiter_note(conns[1], false, 1000 + 249999999);
	assert_int_equal(mesh_n_moving(), 1);
	mesh_move_limiter_note(conns[1], false, 1000 + 250000000);
	assert_int_equal(mesh_n_moving(), 0);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_moving), 1);
	conns[1]->move.failover = false;
	mesh_move_limiter_note(conns[1], false, 1000 + 250000000);
	assert_int_equal(mesh_n_moving(), 0);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_moving), 0);
	conns[1]->vqp = NULL;
}

/* It waits as one that follows, and then knows of something that its peer does not. */
static void test_waits_otherwise(void **state)
{
	uint64_t next;
	bool which[N];

	(void)state;
	mesh_conn_wait_to_move(conns[1], MESH_MOVER_FOLLOWS);
	mesh_conn_wait_to_move(conns[1], MESH_MOVER_LEADS);
	assert_int_equal(atomic_load(&conns[1]->refs), 3);
	assert_false(mesh_conns_next_mover(MESH_MOVER_FOLLOWS));
	assert_true(mesh_conns_next_mover(MESH_MOVER_LEADS));
	assert_int_equal(take(0, which, &next), 1);
	/* It is called once more before the first call is forgotten. */
	mesh_conn_wait_to_move(conns[1], MESH_MOVER_LEADS);
	assert_true(mesh_conns_next_mover(MESH_MOVER_LEADS));
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_called), 1);
	assert_int_equal(take(0, which, &next), 1);
	/* What comes for it meanwhile does not take it away. */
	mesh_move_limiter_note(conns[1], false, 1);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_called), 1);
	mesh_move_limiter_note(conns[1], true, 1);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_called), 0);
}

/* One that was called, and is destroyed before it is looked at. */
static void test_called_and_gone(void **state)
{
	struct ibv_qp qp = {.qp_num = 77};
	struct mesh_conn *conn = mesh_conn_new(&context, &qp);
	uint64_t next;
	bool which[N];

	(void)state;
	mesh_conn_wait_to_move(conn, MESH_MOVER_LEADS);
	mesh_conn_run(conns[0], 1, 1);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_called), 1);
	mesh_conn_unlink(conn);
	mesh_conn_put(conn);
	conn = mesh_conns_take(0, &next);
	mesh_conn_put(conn);
	assert_int_equal(atomic_load(&mesh_root.process->moves.n_called), 0);
	assert_int_equal(take(0, which, &next), 0);
}

/* One that the program has destroyed while it moved leaves its turn to others. */
static void test_turn_of_one_that_is_gone(void **state)
{
	bool which[N];
	uint64_t next;

	(void)state;
	conns[0]->moving.counted = true;
	mesh_root.process->moves.n_moving = 1000;
	mesh_conn_wait_to_move(conns[1], MESH_MOVER_LEADS);
	assert_false(mesh_move_limiter_allows(conns[1], MESH_MOVER_LEADS));
	conns[0]->gone = true;
	mesh_root.process->moves.n_moving = 1;
	mesh_move_limiter_end(conns[0]);
	assert_int_equal(mesh_root.process->moves.n_moving, 0);
	assert_false(conns[0]->moving.counted);
	assert_int_equal(take(0, which, &next), 1);
	assert_true(which[1]);
	mesh_move_limiter_end(conns[0]);
	assert_int_equal(mesh_root.process->moves.n_moving, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_moves, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changes_while_they_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turn_is_passed_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_those_that_follow_wait_longer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_begun_by_its_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_how_many_is_learned, setup, teardown),
		cmocka_unit_test_setup_teardown(test_called_and_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moves_for_long, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_otherwise, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turn_of_one_that_is_gone, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
