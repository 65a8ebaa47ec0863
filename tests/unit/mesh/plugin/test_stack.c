// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The whole plugin over a made-up libibverbs and lower provider provider: what programs get, from how many threads,
 * across fork, and what remains of it when anything fails. The network is made up too (--wrap of the
 * netlink collector). Each test runs in a process of its own, for hooks stay.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "keys.h"
#include "program.h"

static void repairs_moved_index(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	assert_non_null(context);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
	assert_int_equal(address_from(context, 1, "10.1.0.2"), 4);
	assert_int_equal(fake.close_device(context), 0);
	assert_int_equal(fake.state->n_freed, 1);
}

static void datagrams_take_the_right_subnet(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	assert_int_equal(address_from(context, 1, "10.5.0.2"), 2);
	assert_int_equal(connect_from(context, 1, "10.5.0.2"), 1); /* the peer knows our address */
	fake.close_device(context);
}

static void falls_back_to_the_programs_own(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	flap();
	fake.state->modify_fails_for = 4;
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	assert_int_equal(fake.state->n_modify, 2);
	fake.state->ah_fails_for = 4;
	assert_int_equal(address_from(context, 1, "10.1.0.2"), 1);
	/* Its own entry is empty, and there is no way from the right one. */
	fake.state->modify_fails_for = -1;
	fake.state->modify_errno[4] = ETIMEDOUT;
	fake.state->modify_errno[1] = ENODATA;
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), -ETIMEDOUT);
	fake.state->modify_errno[4] = EINVAL;
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), -ENODATA);
	fake.state->modify_errno[4] = fake.state->modify_errno[1] = 0;
	/* And its error is the one the program gets. */
	fake.state->modify_fails_for = 1;
	set_gid(0, 9, "10.7.0.1", 7);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), -EINVAL);
	fake.close_device(context);
}

static void remembers_what_an_event_announced(void)
{
	struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE};
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	set_gid(0, 1, "10.9.0.1", 2); /* the program reads this after the event ... */
	fake.async_event(context, &event);
	assert_int_equal(fake.state->n_async, 1);
	set_gid(0, 6, "10.9.0.1", 2); /* ... and then it moves */
	set_gid(2, 4, "10.1.0.1", 2);
	assert_int_equal(connect_from(context, 1, "10.9.0.2"), 6);
	fake.close_device(context);
}

static void other_states_and_types_pass(void)
{
	struct ibv_context *context;
	struct ibv_qp qp = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	flap();
	qp.context = context;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.sgid_index = 1;
	attr.ah_attr.grh.dgid = gid("10.1.0.2");

	qp.qp_type = IBV_QPT_RC;
	assert_int_equal(fake.modify_qp(&qp, &attr, IBV_QP_STATE | IBV_QP_AV), 0); /* not global */
	assert_int_equal(fake.state->modify_index, 1);
	attr.ah_attr.is_global = 1;
	fake.modify_qp(&qp, &attr, IBV_QP_STATE);
	assert_int_equal(fake.state->modify_index, 1);
	attr.qp_state = IBV_QPS_RTS;
	fake.modify_qp(&qp, &attr, IBV_QP_STATE | IBV_QP_AV);
	assert_int_equal(fake.state->modify_index, 1);
	attr.qp_state = IBV_QPS_RTR;
	qp.qp_type = IBV_QPT_UD;
	fake.modify_qp(&qp, &attr, IBV_QP_STATE | IBV_QP_AV);
	assert_int_equal(fake.state->modify_index, 1);
	qp.qp_type = IBV_QPT_UC;
	fake.modify_qp(&qp, &attr, IBV_QP_STATE | IBV_QP_AV);
	assert_int_equal(fake.state->modify_index, 4);
	fake.close_device(context);
}

static const struct mesh_key *noted(struct ibv_pd *pd, uint32_t lkey)
{
	int cancel = mesh_keys_lock();
	const struct mesh_key *key = mesh_mr_table_find(mesh_root.keys.mr_table, MESH_BY_LKEY, pd, lkey);

	mesh_keys_unlock(cancel);
	return key;
}

/* rdma-core 65's own programs register by ibv_reg_buf_mr(), which is this. */
static void sees_what_newer_functions_register(void)
{
	static const struct fake_config config = {.n_ops = 90, .seed = 4, .front = 48, .priv_front = 24};
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct mesh_mr_init_attr *);
	int (*dereg_mr)(struct ibv_mr *);
	struct mesh_mr_init_attr attr = {.length = 0x5500, .comp_mask = MESH_MR_ADDR, .addr = &attr, .access = IBV_ACCESS_LOCAL_WRITE};
	struct ibv_pd pd = {0};
	struct ibv_mr *mr;
	void *function;

	start(FAKEVERBS_65, &config);
	pd.context = fake.open_device("mlx5", &device);
	assert_true(mesh_context_get(pd.context)->can_move);
	function = dlsym(fake.handle, "ibv_reg_mr_ex");
	memcpy(&reg_mr_ex, &function, sizeof(reg_mr_ex));
	mr = reg_mr_ex(&pd, &attr);
	assert_int_equal(mr->lkey, 0x5500);
	assert_non_null(noted(&pd, 0x5500));
	assert_ptr_equal(noted(&pd, 0x5500)->addr, &attr);
	assert_int_equal(noted(&pd, 0x5500)->access, IBV_ACCESS_LOCAL_WRITE);
	memcpy(&dereg_mr, &pd.context->ops._compat_dereg_mr, sizeof(dereg_mr));
	assert_int_equal(dereg_mr(mr), 0);
	assert_null(noted(&pd, 0x5500));
	fake.close_device(pd.context);
}

static void late_lower_is_hooked(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	mesh_root.config.base.n = 2;
	strcpy(mesh_root.config.base.names[1], "rxe");
	fake.register_lower("rxe");
	context = fake.open_device("rxe", &device);
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
	fake.close_device(context);
}

static void other_lowers_are_left_alone(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	fake.register_lower("rxe");
	context = fake.open_device("rxe", &device);
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	fake.close_device(context);
}

static void strange_lower_is_refused(void)
{
	struct mesh_driver_ops *ops;
	struct verbs_context *(*before)(struct ibv_device *, int, void *);

	start(FAKEVERBS_34, &usual);
	strcpy(mesh_root.config.base.names[0], "strange");
	mesh_root.lower_settled[0] = false;
	fake.register_lower("strange");
	ops = mesh_drivers_lookup(mesh_root.drivers, "strange");
	before = ops->alloc_context;
	mesh_hook_providers(&mesh_root);
	assert_ptr_equal(ops->alloc_context, before);
}

static void import_is_hooked_where_it_exists(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.import_device("mlx5", &device);
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
	fake.close_device(context);
}

static void import_is_not_touched_where_it_does_not(void)
{
	struct ibv_context *context;

	/* Before ibv_import_device() another function stood in its place. */
	start(FAKEVERBS_25, &usual);
	assert_false(mesh_root.lib.has_import);
	assert_int_equal(mesh_root.lib.abi, 25);
	context = fake.import_device("mlx5", &device);
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	fake.close_device(context);
	context = fake.open_device("mlx5", &device);
	fake.close_device(context);
}

static void excluded_and_foreign_devices_are_bare(void)
{
	struct ibv_device iwarp = {.name = "mlx5_1", .transport_type = IBV_TRANSPORT_IWARP};
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	mesh_root.config.exclude.n = 1;
	strcpy(mesh_root.config.exclude.names[0], "mlx5_[0-9]*");
	context = fake.open_device("mlx5", &device);
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	fake.close_device(context);
	mesh_root.config.exclude.n = 0;
	context = fake.open_device("mlx5", &iwarp);
	assert_null(mesh_context_get(context));
	fake.close_device(context);
}

/* Not of the made-up library, but of the plugin, which is in this program. */
static bool is_ours(const void *function)
{
	Dl_info info, own;

	assert_true(dladdr(mesh_modify_qp, &own));
	return function && dladdr(function, &info) && info.dli_fbase == own.dli_fbase;
}

static void observing_changes_nothing(void)
{
	struct ibv_context *context;
	unsigned int op;

	start(FAKEVERBS_34, &usual);
	mesh_root.config.mode = MV_MODE_OBSERVE;
	context = fake.open_device("mlx5", &device);
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	assert_int_equal(address_from(context, 1, "10.5.0.2"), 1);
	/* The decision is asked for, and everything that moves need is the lower provider's. */
	assert_ptr_equal(mesh_calibration_op(&mesh_root.calibration, context, MESH_OP_MODIFY_QP), mesh_modify_qp);
	for (op = MESH_OPS_MOVES; op < MESH_N_OPS; op++)
		assert_false(is_ours(mesh_calibration_op(&mesh_root.calibration, context, op)));
	fake.close_device(context);
	mesh_root.config.mode = MV_MODE_ON;
	context = fake.open_device("mlx5", &device);
	assert_true(is_ours(mesh_calibration_op(&mesh_root.calibration, context, MESH_OP_DESTROY_QP)));
	fake.close_device(context);
}

static void refused_library_is_bare(void)
{
	struct fake_config config = usual;
	struct ibv_context *context;

	config.defect = FAKE_SET_EXTRA;
	start(FAKEVERBS_34, &config);
	context = fake.open_device("mlx5", &device);
	assert_non_null(context);
	assert_null(mesh_context_get(context));
	flap();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	fake.close_device(context);
}

static void without_netlink_indexes_stay(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	flap();
	fault_arm(FAULT_SOCKET, 1, EPERM);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	assert_true(fault_fired());
	fault_disarm();
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4);
	fake.close_device(context);
}

static void unreadable_table_is_bare(void)
{
	struct ibv_context *context;

	start(FAKEVERBS_34, &usual);
	fake.state->query_error = -EIO;
	context = fake.open_device("mlx5", &device);
	assert_non_null(context);
	assert_null(mesh_context_get(context));
	fake.close_device(context);
}

static void large_table_is_read_whole(void)
{
	struct ibv_context *context;
	char text[32];
	size_t i;

	start(FAKEVERBS_34, &usual);
	for (i = 2; i < 300; i++) {
		snprintf(text, sizeof(text), "10.20.%zu.%zu", i / 100, i % 100 + 1);
		set_gid(i, (uint32_t)i + 3, text, 2);
	}
	context = fake.open_device("mlx5", &device);
	assert_non_null(mesh_context_get(context));
	assert_int_equal(mesh_context_get(context)->tables.devices[0].ports[0].n_gids, 300);
	fake.close_device(context);
}

static void child_of_fork_is_bare_until_it_opens(void)
{
	struct ibv_context *context, *second;
	int status;
	pid_t pid;

	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 1);
	flap();
	pid = fork();
	if (!pid) {
		bool ok = connect_from(context, 1, "10.1.0.2") == 1; /* inherited: bare */

		set_gid(0, 1, "10.1.0.1", 2);
		second = fake.open_device("mlx5", &device);
		flap();
		ok = ok && connect_from(second, 1, "10.1.0.2") == 4; /* its own: overlaid */
		ok = ok && connect_from(context, 1, "10.1.0.2") == 1;
		fake.close_device(second);
		fake.close_device(context);
		_exit(!ok);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(connect_from(context, 1, "10.1.0.2"), 4); /* the parent goes on */
	fake.close_device(context);
}

#define THREADS	   8
#define ROUNDS	   200

static void *open_and_close(void *arg)
{
	struct ibv_context *context;
	bool *ok = arg;
	int i;

	*ok = true;
	for (i = 0; i < ROUNDS; i++) {
		struct ibv_async_event event = {.event_type = IBV_EVENT_GID_CHANGE};
		struct ibv_pd pd;
		struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

		context = fake.open_device("mlx5", &device);
		if (!context || !mesh_context_get(context)) {
			*ok = false;
			break;
		}
		pd.context = context;
		attr.grh.sgid_index = 1;
		attr.grh.dgid = gid("10.5.0.2");
		*ok = *ok && fake.create_ah(&pd, &attr);
		fake.async_event(context, &event);
		fake.close_device(context);
	}
	return NULL;
}

static void many_threads_open_and_close(void)
{
	pthread_t threads[THREADS];
	bool ok[THREADS];
	int i;

	start(FAKEVERBS_34, &usual);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, &ok[i]), 0);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_true(ok[i]);
	}
	assert_int_equal(fake.state->n_freed, THREADS * ROUNDS);
}

/*
 * Whatever call fails on the way from loading to a decision, the program has an open device, its QP is
 * modified and its device closes; the index is the repaired one or its own.
 */
static int survive(enum fault_call call, unsigned int nth)
{
	struct ibv_context *context;
	int index;

	fake = fake_open(FAKEVERBS_34);
	fault_arm(call, nth, EPERM);
	start(FAKEVERBS_34, &usual);
	context = fake.open_device("mlx5", &device);
	if (!context)
		return 2;
	flap();
	index = connect_from(context, 1, "10.1.0.2");
	fake.close_device(context);
	if (index != 1 && index != 4)
		return 3;
	if (!fault_fired() && index != 4)
		return 4;
	return fake.state->n_freed == 1 ? !fault_fired() : 5;
}

static void every_fault_leaves_a_working_device(void)
{
	static const enum fault_call calls[] = {
		FAULT_ALLOC, FAULT_MMAP, FAULT_MADVISE, FAULT_MPROTECT, FAULT_PIPE2,
		FAULT_READ,  FAULT_WRITE, FAULT_SOCKET, FAULT_BIND,	FAULT_FSTAT,
	};
	unsigned int n, total = 0;
	int status;
	size_t i;
	pid_t pid;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (n = 1, status = 0; !status; n++, total++) {
			pid = fork(); /* hooks stay: one process for each fault */
			if (!pid)
				_exit(survive(calls[i], n));
			assert_int_equal(waitpid(pid, &status, 0), pid);
			if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
				fail_msg("fault %u of call %d: wait status 0x%x", n, (int)calls[i], status);
		}
		if (n < 3)
			fail_msg("call %d is never made", (int)calls[i]);
	}
	print_message("%u runs, %zu of them without a fault\n", total, i);
}

TEST(repairs_moved_index)
TEST(datagrams_take_the_right_subnet)
TEST(falls_back_to_the_programs_own)
TEST(remembers_what_an_event_announced)
TEST(other_states_and_types_pass)
TEST(sees_what_newer_functions_register)
TEST(late_lower_is_hooked)
TEST(other_lowers_are_left_alone)
TEST(strange_lower_is_refused)
TEST(import_is_hooked_where_it_exists)
TEST(import_is_not_touched_where_it_does_not)
TEST(excluded_and_foreign_devices_are_bare)
TEST(observing_changes_nothing)
TEST(refused_library_is_bare)
TEST(without_netlink_indexes_stay)
TEST(unreadable_table_is_bare)
TEST(large_table_is_read_whole)
TEST(child_of_fork_is_bare_until_it_opens)
TEST(many_threads_open_and_close)
TEST(every_fault_leaves_a_working_device)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repairs_moved_index),
		cmocka_unit_test(test_datagrams_take_the_right_subnet),
		cmocka_unit_test(test_falls_back_to_the_programs_own),
		cmocka_unit_test(test_remembers_what_an_event_announced),
		cmocka_unit_test(test_other_states_and_types_pass),
		cmocka_unit_test(test_sees_what_newer_functions_register),
		cmocka_unit_test(test_late_lower_is_hooked),
		cmocka_unit_test(test_other_lowers_are_left_alone),
		cmocka_unit_test(test_strange_lower_is_refused),
		cmocka_unit_test(test_import_is_hooked_where_it_exists),
		cmocka_unit_test(test_import_is_not_touched_where_it_does_not),
		cmocka_unit_test(test_excluded_and_foreign_devices_are_bare),
		cmocka_unit_test(test_observing_changes_nothing),
		cmocka_unit_test(test_refused_library_is_bare),
		cmocka_unit_test(test_without_netlink_indexes_stay),
		cmocka_unit_test(test_unreadable_table_is_bare),
		cmocka_unit_test(test_large_table_is_read_whole),
		cmocka_unit_test(test_child_of_fork_is_bare_until_it_opens),
		cmocka_unit_test(test_many_threads_open_and_close),
		cmocka_unit_test(test_every_fault_leaves_a_working_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
