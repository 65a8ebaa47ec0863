/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registrations of queue pairs: which process has which, and the limits of clients, registrations and messages under
 * way.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clientpairs.h"
#include "fault.h"

static void test_registrations(void **state)
{
	int a = registered(), b = registered();

	(void)state;
	register_qp(a, "mlx5_0", 1);
	register_qp(b, "mlx5_0", 1);
	register_qp(b, "mlx5_1", 1);
	assert_int_equal(clients.count.registrations_refused, 1);
	assert_int_equal(clients.qps.n, 2);
	/* Only the owner can give up a registration. */
	unregister_qp(b, "mlx5_0", 1);
	assert_int_equal(clients.qps.n, 2);
	unregister_qp(a, "mlx5_0", 1);
	register_qp(b, "mlx5_0", 1);
	assert_int_equal(clients.count.registrations_refused, 1);
	/* The registrations of a process end with it. */
	close(b);
	run_events();
	assert_int_equal(clients.n, 1);
	assert_int_equal(clients.qps.n, 0);
	register_qp(a, "mlx5_0", 1);
	assert_int_equal(clients.qps.n, 1);
	close(a);
}

/* Without a kernel to ask, a process that was refused gets the queue pair when it is free. Nothing tells the process so. */
static void test_refused_one_is_next(void **state)
{
	int a = registered(), b = registered(), c = registered();
	struct mv_frame frame;

	(void)state;
	register_qp(a, "mlx5_0", 1);
	register_qp(b, "mlx5_0", 1);
	register_qp(c, "mlx5_0", 1);
	assert_int_equal(clients.count.registrations_refused, 2);
	send_message(b, "10.1.0.1", 1);
	assert_int_equal(n_sent, 0);
	unregister_qp(a, "mlx5_0", 1);
	assert_int_equal(clients.qps.n, 1);
	send_message(b, "10.1.0.1", 1);
	assert_int_equal(n_sent, 1);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(b, &frame), MV_FRAME_DELIVER);
	/* The owner ends: the process that was refused gets the queue pair, */
	register_qp(c, "mlx5_0", 1);
	close(b);
	run_events();
	send_message(c, "10.1.0.1", 1);
	assert_int_equal(n_sent, 2);
	/* but not a process that has given up its registration, */
	register_qp(a, "mlx5_0", 1);
	unregister_qp(a, "mlx5_0", 1);
	unregister_qp(c, "mlx5_0", 1);
	assert_int_equal(clients.qps.n, 0);
	/* or has ended: then the next one gets it. */
	b = registered();
	register_qp(a, "mlx5_0", 1);
	register_qp(b, "mlx5_0", 1);
	close(b);
	run_events();
	register_qp(c, "mlx5_0", 1);
	close(a);
	run_events();
	send_message(c, "10.1.0.1", 1);
	assert_int_equal(n_sent, 3);
	close(c);
	run_events();
	assert_int_equal(clients.qps.n, 0);
}

/* Messages under way are counted for all processes of an account together; the host's root has no limit. */
static void test_messages_of_an_account(void **state)
{
	int a = registered();
	struct md_account *account = md_clients_find(&clients, 1)->account;
	const uint64_t id = account->id;

	(void)state;
	register_qp(a, "mlx5_1", 5);
	for (int root = 0; root < 2; root++) {
		account->id = root ? 0 : 1000;
		account->n_msgs = MD_MSGS_PER_ACCOUNT;
		send_message(a, "10.2.0.1", 5);
		assert_int_equal(n_sent, root);
	}
	account->id = 1000;
	account->n_msgs--;
	send_message(a, "10.2.0.1", 5);
	assert_int_equal(n_sent, 2);
	account->id = id;
	account->n_msgs = 0;
	close(a);
}

static void test_limits(void **state)
{
	int pair[2], fds[8];

	(void)state;
	/* The last eighth is kept for root. */
	clients.max = geteuid() ? 9 : 8; /* 9 - 9 / 8 */
	for (int i = 0; i < 8; i++)
		fds[i] = join();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(md_clients_adopt(&clients, pair[0]), -EUSERS);
	assert_int_equal(clients.count.refused, 1);
	close(pair[1]);
	close(fds[0]);
	run_events();
	fds[0] = join();
	for (int i = 0; i < 8; i++)
		close(fds[i]);
}

/* The host's root finds room, however many users and containers there are. */
static void test_root_share(void **state)
{
	(void)state;
	assert_true(md_has_room(6, 8, 1000));
	assert_false(md_has_room(7, 8, 1000));
	assert_true(md_has_room(7, 8, 0));
	assert_false(md_has_room(8, 8, 0));
}

/* One account cannot take everything. */
static void test_account_limits(void **state)
{
	struct md_qps qps = {0};
	struct md_qp_list list, others;
	struct md_qp_key key;

	(void)state;
	LIST_INIT(&list);
	LIST_INIT(&others);
	for (uint32_t i = 0; i < MD_QPS_PER_ACCOUNT; i++) {
		key = md_qp_key_make("mlx5_0", i);
		assert_int_equal(md_qps_register(&qps, &key, IBV_QPT_RC, 1, 1000, &list), 0);
	}
	key = md_qp_key_make("mlx5_1", 0);
	assert_int_equal(md_qps_register(&qps, &key, IBV_QPT_RC, 1, 1000, &list), -ENOSPC);
	assert_int_equal(md_qps_register(&qps, &key, IBV_QPT_RC, 2, 1001, &others), 0);
	key = md_qp_key_make("mlx5_0", 0);
	assert_int_equal(md_qps_register(&qps, &key, IBV_QPT_RC, 2, 1001, &others), -EBUSY);
	while (!LIST_EMPTY(&list))
		assert_int_equal(md_qps_unregister(&qps, &LIST_FIRST(&list)->key, 1), 0);
	assert_int_equal(qps.n, 1);
	md_qps_fini(&qps);
	assert_int_equal(qps.n, 0);
}

static void test_registration_faults(void **state)
{
	(void)state;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		struct md_qps qps = {0};
		struct md_qp_list list = LIST_HEAD_INITIALIZER(list);
		struct md_qp_key key = md_qp_key_make("mlx5_0", 1);
		int err = md_qps_register(&qps, &key, IBV_QPT_RC, 1, 1000, &list);
		bool fired = fault_fired();

		assert_int_equal(err, fired ? -ENOMEM : 0);
		md_qps_fini(&qps);
		assert_int_equal(qps.n, 0);
	});
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		int pair[2];
		int err;

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		err = md_clients_adopt(&clients, pair[0]);
		assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
		assert_int_equal(clients.n, fault_fired() ? 0 : 1);
		close(pair[1]);
	});
	run_events();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_registrations, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_one_is_next, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_messages_of_an_account, setup, teardown),
		cmocka_unit_test(test_root_share),
		cmocka_unit_test(test_account_limits),
		cmocka_unit_test_setup_teardown(test_registration_faults, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
