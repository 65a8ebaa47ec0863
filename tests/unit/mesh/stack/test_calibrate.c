// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Calibration against made-up libraries of many layouts, against such as must be refused, and against the
 * libibverbs that is installed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fakeverbs.h"
#include "fault.h"
#include "mesh.h"

static struct fakeverbs fake;
static struct mesh_library lib;

static int setup(void **state)
{
	char why[256];

	(void)state;
	fake = fake_open(FAKEVERBS_65);
	return mesh_library_resolve(&lib, fake.handle, fake.anchor, why, sizeof(why));
}

static int calibrate(const struct fake_config *config, struct mesh_calibration *ret)
{
	char why[256] = "";
	int err;

	fake.configure(config);
	err = mesh_calibrate(&lib, ret, why, sizeof(why));
	if (err)
		assert_true(why[0]);
	return err;
}

/* What was measured must be what the lower provider's functions are found by. */
static void check_context(const struct mesh_calibration *cal)
{
	struct ibv_device device = {.name = "fake0"};
	struct ibv_context *context;
	void *op;
	enum mesh_op i;

	fake.register_lower("mlx5");
	context = fake.open_device("mlx5", &device);
	assert_non_null(context);
	assert_string_equal(cal->no_moves, "");
	assert_int_equal(cal->n_known, MESH_N_OPS);
	assert_int_equal(mesh_calibration_confirm(&lib, cal, context), 0);
	for (i = 0; i < MESH_N_OPS; i++) {
		Dl_info info;

		op = mesh_calibration_op(cal, context, i);
		assert_non_null(op);
		assert_true(dladdr(op, &info));
	}
	/* free_context has no public place: that it was found is seen by it being called. */
	op = mesh_calibration_op(cal, context, MESH_OP_FREE_CONTEXT);
	((void (*)(struct ibv_context *))op)(context);
	assert_int_equal(fake.state->n_freed, 1);
}

static void test_layouts(void **state)
{
	static const struct fake_config configs[] = {
		{.n_ops = FAKE_MIN_OPS},
		{.n_ops = 67, .seed = 1, .priv_front = 16},
		{.n_ops = 76, .seed = 2, .priv_front = 24},
		{.n_ops = 83, .seed = 3, .priv_front = 24, .front = 48},
		{.n_ops = 83, .seed = 4, .priv_front = 248, .front = 24},
		{.n_ops = 200, .seed = 5, .priv_front = 40, .front = 512},
		{.n_ops = 500, .seed = 6, .priv_front = 8, .front = 4096},
	};
	struct mesh_calibration cal;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		assert_int_equal(calibrate(&configs[i], &cal), 0);
		assert_int_equal(cal.context_size, sizeof(struct verbs_context) + configs[i].front);
		assert_int_equal(cal.priv_ops, configs[i].priv_front);
		check_context(&cal);
	}
}

static void test_random_layouts(void **state)
{
	struct mesh_calibration cal;
	unsigned int seed;

	(void)state;
	for (seed = 1; seed <= 300; seed++) {
		struct fake_config config = {
			.n_ops = FAKE_MIN_OPS + seed % 60,
			.seed = seed,
			.front = seed % 7 * 8,
			.priv_front = seed % 20 * 8,
		};

		if (calibrate(&config, &cal))
			fail_msg("seed %u", seed);
		check_context(&cal);
	}
}

static void test_refused(void **state)
{
	enum fake_defect d;

	(void)state;
	for (d = FAKE_INIT_FAILS; d <= FAKE_CLOSE_SHARED; d++) {
		struct fake_config config = {.defect = d, .n_ops = 76, .seed = 7, .priv_front = 24};
		struct mesh_calibration cal = {.n_known = 12345};

		if (!calibrate(&config, &cal))
			fail_msg("defect %d was accepted", (int)d);
		assert_int_equal(cal.n_known, 12345); /* written on success only */
	}
}

/* What only moves need is not there or not for sure: GIDs are repaired all the same. */
static void test_no_moves(void **state)
{
	enum fake_defect d;
	unsigned int seed;

	(void)state;
	for (d = FAKE_NO_CQ_EX; d <= FAKE_NO_MOVES_LAST; d++) {
		for (seed = 0; seed < 100; seed++) {
			struct fake_config config = {.defect = d, .n_ops = FAKE_MIN_OPS + seed, .seed = seed};
			struct mesh_calibration cal;
			enum mesh_op missing = d == FAKE_NO_QP_EX ? MESH_OP_CREATE_QP_EX : MESH_OP_CREATE_CQ_EX, op;

			assert_int_equal(calibrate(&config, &cal), 0);
			assert_non_null(strstr(cal.no_moves, mesh_op_name(missing)));
			for (op = 0; op < MESH_N_OPS; op++)
				assert_int_equal(cal.slot[op] == MESH_OP_ABSENT, op == missing);
		}
	}
}

/* What registers memory and is there, but cannot be found, makes keys that nobody could follow. */
static void test_unseen_registrations(void **state)
{
	static const struct {
		enum fake_defect defect;
		enum mesh_op op;
	} cases[] = {{FAKE_DMABUF_TWO, MESH_OP_REG_DMABUF_MR}, {FAKE_REG_EX_TWO, MESH_OP_REG_MR_EX}};
	struct fake_config config = {.n_ops = 83, .seed = 12};
	struct mesh_calibration cal;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		config.defect = cases[i].defect;
		assert_int_equal(calibrate(&config, &cal), 0);
		assert_int_equal(cal.slot[cases[i].op], MESH_OP_ABSENT);
		assert_false(mesh_calibration_lacks(&lib, cases[i].op));
		assert_non_null(strstr(cal.no_moves, mesh_op_name(cases[i].op)));
	}
}

/* Connections move all the same, but no port can stand in for another. */
static void test_unseen_port(void **state)
{
	struct fake_config config = {.defect = FAKE_PORT_TWO, .n_ops = 83, .seed = 12};
	struct mesh_calibration cal;
	enum mesh_op op;

	(void)state;
	assert_int_equal(calibrate(&config, &cal), 0);
	assert_string_equal(cal.no_moves, "");
	for (op = 0; op < MESH_N_OPS; op++)
		assert_int_equal(cal.slot[op] == MESH_OP_ABSENT, op == MESH_OP_QUERY_PORT);
}

/* Older libraries do not have them. */
static void test_fewer_ways(void **state)
{
	struct fakeverbs fake34 = fake_open(FAKEVERBS_34);
	struct fake_config config = {.n_ops = 76, .seed = 12};
	struct mesh_calibration cal;
	struct mesh_library old;
	char why[256];
	enum mesh_op op;

	(void)state;
	fake34.configure(&config);
	assert_int_equal(mesh_library_resolve(&old, fake34.handle, fake34.anchor, why, sizeof(why)), 0);
	assert_int_equal(mesh_calibrate(&old, &cal, why, sizeof(why)), 0);
	assert_string_equal(cal.no_moves, "");
	for (op = 0; op < MESH_N_OPS; op++) {
		assert_int_equal(cal.slot[op] == MESH_OP_ABSENT, op == MESH_OP_REG_MR_EX);
		assert_int_equal(mesh_calibration_lacks(&old, op), op == MESH_OP_REG_MR_EX);
	}
}

static void test_no_dmabuf(void **state)
{
	struct fake_config config = {.n_ops = 76, .seed = 12};
	struct mesh_calibration cal;
	struct mesh_library old;
	struct fakeverbs fake25 = fake_open(FAKEVERBS_25);
	char why[256];

	(void)state;
	/* Two operations in one slot: neither is believed. */
	config.defect = FAKE_DMABUF_SHARED;
	assert_int_equal(calibrate(&config, &cal), 0);
	assert_string_not_equal(cal.no_moves, "");

	config.defect = FAKE_SANE;
	fake25.configure(&config);
	assert_int_equal(mesh_library_resolve(&old, fake25.handle, fake25.anchor, why, sizeof(why)), 0);
	assert_null(old.reg_dmabuf_mr);
	assert_int_equal(mesh_calibrate(&old, &cal, why, sizeof(why)), 0);
	assert_int_equal(cal.slot[MESH_OP_REG_DMABUF_MR], MESH_OP_ABSENT);
	assert_int_equal(cal.n_known, MESH_N_OPS - 7);
	assert_string_equal(cal.no_moves, "");
}

static void test_no_verbs(void **state)
{
	struct fake_config config = {.n_ops = 76, .seed = 13};
	struct fakeverbs fake33 = fake_open(FAKEVERBS_33);
	struct mesh_calibration cal;
	struct mesh_library old;
	char why[256];

	(void)state;
	fake33.configure(&config);
	assert_null(lib.missing_verb);
	assert_int_equal(mesh_library_resolve(&old, fake33.handle, fake33.anchor, why, sizeof(why)), 0);
	assert_non_null(old.missing_verb);
	assert_int_equal(mesh_calibrate(&old, &cal, why, sizeof(why)), 0);
	assert_non_null(strstr(cal.no_moves, old.missing_verb));
}

/* A library whose create_cq_ex was inferred wrongly is found out by the first open context. */
static void test_unconfirmed(void **state)
{
	struct fake_config config = {.defect = FAKE_CQ_EX_OTHER, .n_ops = 76, .seed = 14};
	struct ibv_device device = {.name = "fake0"};
	struct mesh_calibration cal;
	struct ibv_context *context;

	(void)state;
	assert_int_equal(calibrate(&config, &cal), 0);
	assert_string_equal(cal.no_moves, "");
	fake.register_lower("mlx5");
	context = fake.open_device("mlx5", &device);
	assert_int_equal(mesh_calibration_confirm(&lib, &cal, context), -ENOTSUP);
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_int_equal(mesh_calibration_confirm(&lib, &cal, context), -ENOMEM);
	fault_disarm();
	fake.close_device(context);
}

static void test_out_of_memory(void **state)
{
	struct fake_config config = {.n_ops = 76, .seed = 8, .priv_front = 24};
	struct mesh_calibration cal;
	unsigned int faults = 0;
	int err;

	(void)state;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		err = calibrate(&config, &cal);
		assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
		faults += fault_fired();
	})
	assert_true(faults > 2);
}

static void test_foreign_context(void **state)
{
	struct fake_config config = {.n_ops = 76, .seed = 9, .priv_front = 24, .front = 16};
	struct ibv_device device = {.name = "fake0"}, other = {.name = "fake1"};
	struct mesh_calibration cal;
	struct ibv_context *context;
	struct verbs_context *start;

	(void)state;
	assert_int_equal(calibrate(&config, &cal), 0);
	fake.register_lower("mlx5");
	context = fake.open_device("mlx5", &device);
	start = (struct verbs_context *)((char *)context - offsetof(struct verbs_context, context) - 16);
	assert_ptr_equal(mesh_calibration_context(&cal, start, &device), context);
	assert_null(mesh_calibration_context(&cal, start, &other));
	start = (struct verbs_context *)((char *)start + 8);
	cal.context_size -= 8;
	assert_null(mesh_calibration_context(&cal, start, &device)); /* the size field disagrees */
	fake.close_device(context);
}

/* The libibverbs of this machine must calibrate, whatever its release. */
static void test_installed(void **state)
{
	struct mesh_calibration cal;
	struct mesh_library real;
	char why[512] = "";
	enum mesh_op op;

	(void)state;
	if (mesh_library_find(&real, why, sizeof(why)))
		fail_msg("%s", why);
	if (mesh_calibrate(&real, &cal, why, sizeof(why)))
		fail_msg("%s", why);
	print_message("%s: private ABI %u, context %zu bytes, operations at byte %zu%s%s\n", real.path,
		      real.abi, cal.context_size, cal.priv_ops, cal.no_moves[0] ? "; no moves: " : "", cal.no_moves);
	for (op = 0; op < MESH_N_OPS; op++)
		print_message("  %-20s %d\n", mesh_op_name(op), (int)cal.slot[op]);
	assert_string_equal(cal.no_moves, "");
	assert_int_not_equal(cal.slot[MESH_OP_QUERY_PORT], MESH_OP_ABSENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),	      cmocka_unit_test(test_random_layouts),
		cmocka_unit_test(test_refused),	      cmocka_unit_test(test_no_moves),
		cmocka_unit_test(test_unseen_registrations),
		cmocka_unit_test(test_unseen_port),
		cmocka_unit_test(test_fewer_ways),
		cmocka_unit_test(test_no_dmabuf),     cmocka_unit_test(test_no_verbs),
		cmocka_unit_test(test_unconfirmed),   cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_foreign_context), cmocka_unit_test(test_installed),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
