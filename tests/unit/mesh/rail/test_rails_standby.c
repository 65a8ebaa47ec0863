// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* NICs that the plugin opens in advance of a failover, and the GID tables that it remembers of them. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conn.h"
#include "connpath.h"
#include "fault.h"
#include "onedevice.h"
#include "arm.h"

#define SECOND_NS 1000000000ull

static struct ibv_qp qp = {.pd = &program_pd};
static struct mesh_conn conn;

static struct mesh_rail *standby(void)
{
	uint64_t now_ns = mesh_now_ns();

	has_path = true;
	conn = (struct mesh_conn){.qp = &qp, .mc = &mc, .state = MESH_CONN_PASSTHROUGH};
	assert_true(mesh_conn_arm(&conn, now_ns) == UINT64_MAX);
	assert_non_null(conn.primary.standby_pd);
	return conn.primary.standby_pd->rail;
}

/* What waits there for the next move is found dead, and made anew on the new one. */
static void test_standby(void **state)
{
	struct mesh_rail *rail = standby();
	uint64_t now_ns;

	(void)state;
	mesh_rail_ref(rail);
	shutdown(opened[0].events[1], SHUT_RDWR); /* nothing was ever moved there, and still we hear of it */
	assert_true(gets_lost(rail));
	sleeps();
	/* Not at once: one that is lost again and again is not opened all the time. */
	now_ns = mesh_now_ns();
	assert_in_range(mesh_conn_arm(&conn, now_ns), now_ns, now_ns + SECOND_NS);
	assert_null(conn.primary.standby_pd);
	/* The driver takes its time. */
	refuses = true;
	now_ns += SECOND_NS;
	assert_int_equal(mesh_conn_arm(&conn, now_ns), now_ns + 2 * SECOND_NS);
	assert_int_equal(mesh_conn_arm(&conn, now_ns + 1), now_ns + 2 * SECOND_NS);
	/* Nobody announces it. */
	has_path = false;
	now_ns += 2 * SECOND_NS;
	assert_true(mesh_conn_arm(&conn, now_ns) == UINT64_MAX);
	has_path = true;
	assert_int_equal(mesh_conn_arm(&conn, now_ns), now_ns + 4 * SECOND_NS);
	refuses = false;
	assert_true(mesh_conn_arm(&conn, now_ns + 4 * SECOND_NS) == UINT64_MAX);
	assert_non_null(conn.primary.standby_pd);
	assert_ptr_not_equal(conn.primary.standby_pd->rail, rail);
	assert_int_equal(n_opened, 2);
	put_rail(rail);
	assert_true(opened[0].closed);
	mesh_conn_disarm(&conn);
	mesh_pds_close(&program);
	gets_closed(&opened[1]);
}

static int open_path(struct mesh_conn_path *ret)
{
	const struct mv_move_action action = {.local_gid = {.raw = {1}}};
	char why[256];

	return mesh_conn_open_path(&conn, &action, ret, why, sizeof(why));
}

/* What waits there is used without a look at its descriptors: the helper thread does that. Once it is known to be another's, it is not. */
static void test_open_path(void **state)
{
	struct mesh_conn_path path = {0};
	struct mesh_rail *rail = standby();
	int ends[2], number = number_of(&opened[0], MESH_RAIL_CMD);

	(void)state;
	fault_disarm();
	assert_int_equal(open_path(&path), 0);
	assert_int_equal(fault_count(FAULT_FSTAT), 0); /* no look */
	assert_ptr_equal(path.pd, conn.primary.standby_pd);
	assert_string_equal(path.device, DEVICE);
	put_pd(path.pd);
	mesh_rail_ref(rail);
	take_number(number, ends);
	assert_false(mesh_rail_intact(rail));
	assert_int_equal(open_path(&path), 0);
	assert_ptr_not_equal(path.pd, conn.primary.standby_pd);
	assert_int_equal(n_opened, 2);
	put_pd(path.pd);
	assert_untouched(number, ends);
	put_rail(rail);
	mesh_conn_disarm(&conn);
	mesh_pds_close(&program);
	close(number);
	close(ends[1]);
	gets_closed(&opened[1]);
}

/* What waits on another NIC than the one that was agreed upon, or on one that was reset, is of no use. */
static void test_open_path_elsewhere(void **state)
{
	struct mesh_conn_path path = {0};
	struct mesh_rail *rail = standby();

	(void)state;
	mesh_rail_ref(rail);
	strcpy(rail->device, "other");
	assert_int_equal(open_path(&path), 0);
	assert_ptr_not_equal(path.pd, conn.primary.standby_pd);
	assert_string_equal(path.pd->rail->device, DEVICE);
	assert_int_equal(n_opened, 2);
	put_pd(path.pd);
	strcpy(rail->device, DEVICE);
	mesh_rail_lose(rail);
	assert_int_equal(open_path(&path), 0);
	assert_ptr_not_equal(path.pd, conn.primary.standby_pd);
	assert_int_equal(n_opened, 2);
	put_pd(path.pd);
	put_rail(rail);
	mesh_conn_disarm(&conn);
	mesh_pds_close(&program);
	gets_closed(&opened[0]);
	gets_closed(&opened[1]);
}

static unsigned int n_tables; /* that were asked for */
static uint32_t gid_index;

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t size)
{
	(void)context;
	(void)max;
	(void)flags;
	(void)size;
	n_tables++;
	entries[0] = (struct ibv_gid_entry){.gid = {.raw = {1}}, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2, .gid_index = gid_index};
	entries[1] = (struct ibv_gid_entry){.gid = {.raw = {1}}, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V1, .gid_index = 50};
	entries[2] = (struct ibv_gid_entry){.gid = {.raw = {1}}, .port_num = 2, .gid_type = IBV_GID_TYPE_ROCE_V2, .gid_index = 60};
	return 3;
}

static uint8_t recall_at(struct mesh_rail *rail, uint8_t port, uint8_t type, uint8_t address, int expected)
{
	const union ibv_gid gid = {.raw = {address}};
	uint8_t index = 99;

	assert_int_equal(mesh_rail_recall_gid(rail, port, &gid, type, &gid, &index), expected);
	return index;
}

static uint8_t recall(struct mesh_rail *rail, uint8_t address, int expected)
{
	return recall_at(rail, 1, MV_GID_TYPE_ROCE_V2, address, expected);
}

static void gets_forgotten(struct mesh_rail *rail)
{
	bool known = true;
	unsigned int ms;

	for (ms = 0; ms < LIMIT_MS && known; ms++) {
		usleep(100);
		mesh_lock(&rail->gid_lock);
		known = rail->known_gid.asked_ns;
		mesh_unlock(&rail->gid_lock);
	}
	assert_false(known);
}

/* Hundreds ask for the place of an address at once: so the device is not asked each time, but for another address, or when that has changed. */
static void test_recall(void **state)
{
	struct mesh_rail *rail = get_rail();
	unsigned int i;

	(void)state;
	mesh_root.lib.query_gid_table = query_gid_table;
	n_tables = 0;
	gid_index = 3;
	for (i = 0; i < 1000; i++)
		assert_int_equal(recall(rail, 1, 0), 3);
	assert_in_range(n_tables, 1, 500); /* one for every 5 ms */
	/* Another version of RoCE, or another port: another place. */
	for (i = 0; i < 20; i++) {
		assert_int_equal(recall_at(rail, 1, MV_GID_TYPE_ROCE_V1, 1, 0), 50);
		assert_int_equal(recall(rail, 1, 0), 3);
		assert_int_equal(recall_at(rail, 2, MV_GID_TYPE_ROCE_V2, 1, 0), 60);
		assert_int_equal(recall(rail, 1, 0), 3);
	}
	/* The device says that it has changed. */
	mesh_thread_rail(rail);
	for (gid_index = 4; gid_index < 20; gid_index++) {
		assert_int_equal(write(opened[0].async[1], "", 1), 1);
		gets_forgotten(rail);
		assert_int_equal(recall(rail, 1, 0), gid_index);
	}
	gid_index = 21;
	assert_int_equal(recall(rail, 2, -ENOENT), 99);
	assert_int_equal(recall(rail, 1, 0), 21);
	gid_index = 22;
	usleep(6000);
	assert_int_equal(recall(rail, 1, 0), 22);
	put_rail(rail);
	gets_closed(&opened[0]);
}

/* A NIC that was never there is asked for once. */
static void test_never_there(void **state)
{
	uint64_t now_ns = mesh_now_ns();

	(void)state;
	has_path = refuses = true;
	conn = (struct mesh_conn){.qp = &qp, .mc = &mc, .state = MESH_CONN_PASSTHROUGH};
	assert_true(mesh_conn_arm(&conn, now_ns) == UINT64_MAX);
	refuses = false;
	assert_true(mesh_conn_arm(&conn, now_ns + 3600 * SECOND_NS) == UINT64_MAX);
	assert_null(conn.primary.standby_pd);
	assert_int_equal(n_opened, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_standby, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_path, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_path_elsewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recall, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_there, setup, teardown),
	};

	return cmocka_run_group_tests(tests, setup_all, NULL);
}
