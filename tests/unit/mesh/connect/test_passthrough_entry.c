// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A connection waits for an entry of the GID table that its peer's version needs; and why a connection fails. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "negotiateint.h"
#include "passthrough_fixture.h"

static void test_entry_is_awaited(void **state)
{
	(void)state;
	has_no_path();
	assert_true(looks_after(0));
	assert_false(looks_after(9));
	assert_true(looks_after(1));
	assert_true(looks_after(300));
	assert_int_equal(n_rtr, 0);
	entry_lacks = false;
	assert_true(looks_after(10));
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(n_own_qps, 1);
}

static void test_entry_does_not_come(void **state)
{
	(void)state;
	has_no_path();
	cq.mc = &context;
	rtr_error = ENODATA;
	assert_true(looks_after(0));
	assert_true(looks_after(1990));
	assert_int_equal(n_rtr, 0);
	assert_true(looks_after(10));
	assert_int_equal(n_rtr, 1);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_int_equal(vqp.mode, MESH_VQP_FAILING);
}

/* All that there is is the helper thread, which connects it then as well. */
static void test_entry_without_workers(void **state)
{
	uint64_t deadline;

	(void)state;
	has_no_path();
	no_workers = true;
	deadline = mesh_conn_run(&conn, now_ns, now_ns);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	assert_true(deadline == now_ns + 10 * MS);
	entry_lacks = false;
	deadline = mesh_conn_run(&conn, now_ns + 9 * MS, now_ns + 9 * MS);
	assert_int_equal(conn.state, MESH_CONN_HELD);
	deadline = mesh_conn_run(&conn, now_ns + 10 * MS, now_ns + 10 * MS);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
}

/* It does not go by the path that both ends were agreeing on, and is not shown with it. */
static void test_shown_without_rail(void **state)
{
	(void)state;
	has_no_path();
	entry_lacks = false;
	strcpy(conn.path.device, "mlx5_1");
	looks_after(0);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_non_null(strstr(status, "\"rail\":\"\""));
}

/* Where the right one is known, and nobody answers there, that is why, not that the program's own is empty. */
static void test_why_it_fails(void **state)
{
	char path[] = "/tmp/test_passthrough-XXXXXX", line[512] = "";
	int fd = mkstemp(path);

	(void)state;
	has_no_path();
	entry_lacks = false;
	cq.mc = &context;
	conn.attr.rtr.ah_attr.grh.sgid_index = 3;
	chosen_index = 5;
	rtr_error = ETIMEDOUT;
	own_error = ENODATA;
	mv_log_init(&mesh_root.log, path, MV_LOG_WARN);
	mesh_conn_work(&conn);
	mv_log_init(&mesh_root.log, "/dev/null", MV_LOG_ERR);
	assert_int_equal(n_rtr, 2);
	assert_int_equal(conn.state, MESH_CONN_FAILED);
	assert_true(pread(fd, line, sizeof(line) - 1, 0) > 0);
	assert_non_null(strstr(line, "the program's own path fails: Connection timed out"));
	close(fd);
	unlink(path);
}

/* Its port is down, so no entry reaches the peer. What its table has, of which its program has index 3, and what is known: */
struct table {
	uint32_t own, other; /* indexes of its address, and of another one's */
	bool same; /* which is the same address */
	bool old; /* it may be otherwise by now */
	bool type; /* its address is there as another RoCE type, by which the peer has connected */
};

/* Return: by which index it is connected. */
static uint8_t index_in(struct table table)
{
	struct mv_gid_entry entry = {.ifindex = 2};
	struct mv_device *device;
	struct mv_port *port;

	has_no_path();
	entry_lacks = false;
	conn.attr.rtr.ah_attr.grh.sgid_index = chosen_index = 3;
	conn.attr.rtr.ah_attr.port_num = 1;
	chosen_sure = !table.old;
	entry.type = conn.ends.local_type;
	if (table.type)
		conn.ends.local_type = MV_GID_TYPE_ROCE_V2;
	mv_topo_init(&context.tables);
	assert_int_equal(mv_topo_add_device(&context.tables, "mlx5_0", &device), 0);
	assert_int_equal(mv_topo_add_port(device, 1, &port), 0);
	for (int k = 0; k < 2; k++) {
		entry.gid = k && !table.same ? conn.ends.peer.gid : conn.ends.local.gid;
		entry.index = k ? table.other : table.own;
		assert_int_equal(mv_port_add_gid(port, &entry), 0);
	}
	mesh_conn_work(&conn);
	assert_int_equal(n_rtr, 1);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	mv_topo_fini(&context.tables);
	memset(&context.tables, 0, sizeof(context.tables));
	return rtr_index;
}

static void test_address_is_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 5, .other = 7}), 5);
}

static void test_address_of_others(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 5, .other = 3}), 5);
}

/* There may be several with it. */
static void test_address_is_there(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 3, .other = 2, .same = true}), 3);
}

static void test_address_not_sure(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 5, .other = 7, .old = true}), 3);
}

/* That has been agreed upon. */
static void test_address_of_type(void **state)
{
	(void)state;
	assert_int_equal(index_in((struct table){.own = 5, .other = 7, .old = true, .type = true}), 5);
}

/* It has no address of its own, and nothing to wait for. */
static void test_no_entry_needed(void **state)
{
	(void)state;
	has_no_path();
	conn.attr.rtr.ah_attr.is_global = 0;
	mesh_conn_work(&conn);
	assert_int_equal(conn.state, MESH_CONN_PASSTHROUGH);
	assert_int_equal(n_lacks, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_entry_is_awaited),
		T(test_entry_does_not_come),
		T(test_entry_without_workers),
		T(test_shown_without_rail),
		T(test_why_it_fails),
		T(test_address_is_elsewhere),
		T(test_address_of_others),
		T(test_address_is_there),
		T(test_address_not_sure),
		T(test_address_of_type),
		T(test_no_entry_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
