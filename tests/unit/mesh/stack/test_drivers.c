// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Finding libibverbs' list of drivers, in made-up libraries and in the installed one. */
#include <errno.h>
#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "fakeverbs.h"
#include "fault.h"
#include "mesh.h"

static struct fakeverbs fake;
static struct mesh_library lib;

static const struct mesh_match_ent no_match[] = {{.kind = MESH_MATCH_SENTINEL}};
static const struct mesh_driver_ops own = {.name = "mesh", .match_table = no_match};
static const struct mesh_driver_ops other_own = {.name = "mesh", .match_table = no_match};

static int setup(void **state)
{
	char why[256];

	(void)state;
	fake = fake_open(FAKEVERBS_34);
	return mesh_library_resolve(&lib, fake.handle, fake.anchor, why, sizeof(why));
}

static int find(enum fake_defect defect, const char *lower, struct mesh_driver_node **head)
{
	struct fake_config config = {.defect = defect, .n_ops = 76};
	char why[256] = "";
	int err;

	fake.configure(&config);
	if (lower)
		fake.register_lower(lower);
	err = mesh_drivers_find(&lib, &own, head, why, sizeof(why));
	if (err)
		assert_true(why[0]);
	return err;
}

static void test_finds_lower_before_and_after(void **state)
{
	struct mesh_driver_node *head;

	(void)state;
	assert_int_equal(find(FAKE_SANE, "mlx5", &head), 0);
	assert_non_null(mesh_drivers_lookup(head, "mlx5"));
	assert_null(mesh_drivers_lookup(head, "rxe"));
	fake.register_lower("rxe");
	assert_string_equal(mesh_drivers_lookup(head, "rxe")->name, "rxe");
}

static void test_empty_list(void **state)
{
	struct mesh_driver_node *head;

	(void)state;
	assert_int_equal(find(FAKE_SANE, NULL, &head), 0);
	assert_null(mesh_drivers_lookup(head, "mlx5"));
	assert_ptr_equal(mesh_drivers_lookup(head, "mesh"), &own);
}

static void test_refused(void **state)
{
	struct mesh_driver_node *head = NULL;
	enum fake_defect d;

	(void)state;
	for (d = FAKE_LIST_HEAP; d < FAKE_N_DEFECTS; d++) {
		if (!find(d, "mlx5", &head))
			fail_msg("defect %d was accepted", (int)d);
		assert_null(head);
	}
}

static void test_only_the_head_passes(void **state)
{
	struct mesh_driver_node *head;

	(void)state;
	assert_int_equal(find(FAKE_LIST_MIRROR, "mlx5", &head), 0);
	assert_non_null(mesh_drivers_lookup(head, "mlx5"));
}

static void test_second_copy_steps_aside(void **state)
{
	struct mesh_driver_node *head;
	char why[256];

	(void)state;
	assert_int_equal(find(FAKE_SANE, "mlx5", &head), 0);
	assert_int_equal(mesh_drivers_find(&lib, &other_own, &head, why, sizeof(why)), -EEXIST);
}

static void test_faults(void **state)
{
	static const enum fault_call calls[] = {FAULT_ALLOC, FAULT_PIPE2, FAULT_READ, FAULT_WRITE};
	struct mesh_driver_node *head;
	unsigned int faults;
	size_t i;
	int err;

	(void)state;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		faults = 0;
		FAULT_EACH(calls[i], EIO, {
			head = NULL;
			err = find(FAKE_SANE, "mlx5", &head);
			assert_true(err ? fault_fired() && !head : !!head);
			faults += fault_fired();
		})
		assert_true(faults);
	}
}

static void test_installed(void **state)
{
	struct mesh_driver_node *head;
	struct mesh_library real;
	char why[640] = "";

	(void)state;
	assert_int_equal(mesh_library_find(&real, why, sizeof(why)), 0);
	if (mesh_drivers_find(&real, &own, &head, why, sizeof(why)))
		fail_msg("%s", why);
	assert_ptr_equal(mesh_drivers_lookup(head, "mesh"), &own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_lower_before_and_after),
		cmocka_unit_test(test_empty_list),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_only_the_head_passes),
		cmocka_unit_test(test_second_copy_steps_aside),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_installed),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
