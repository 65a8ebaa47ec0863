// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* survives.c: which devices connections at work may leave and move to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "connectint.h"
#include "survives.h"
#include "unqualified.h"
#include "tmpdir.h"

static enum mv_dir_qualified qualified[2]; /* of mlx5_0 and mlx5_1, as the directory has it */
static uint32_t asked_library;

enum mv_dir_qualified __wrap_mesh_directory_qualified(const char *device, uint32_t library);
int __wrap_mesh_directory_rail(const union ibv_gid *gid, uint8_t type, struct mesh_directory_rail *ret);

enum mv_dir_qualified __wrap_mesh_directory_qualified(const char *device, uint32_t library)
{
	asked_library = library;
	return qualified[!strcmp(device, "mlx5_1")];
}

static unsigned int n_searches;

void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret);
void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	(void)request;
	n_searches++;
	mesh_path_decision_none(ret);
	ret->n_paths = 1;
	ret->paths[0] = (struct mv_path){.local_gid = {.raw = {[15] = 1}}, .type = MV_GID_TYPE_ROCE_V2};
}

/* The last byte of a GID is its device's number. */
int __wrap_mesh_directory_rail(const union ibv_gid *gid, uint8_t type, struct mesh_directory_rail *ret)
{
	(void)type;
	*ret = (struct mesh_directory_rail){.port = 1};
	snprintf(ret->device, sizeof(ret->device), "mlx5_%u", gid->raw[15]);
	return 0;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	return mask;
}

static struct tmpdir tmp;
static struct mesh_process process;
static struct mesh_context context;
static struct mesh_conn conn;
static const union ibv_gid to[2] = {{.raw = {[15] = 0}}, {.raw = {[15] = 1}}};

static int setup(void **state)
{
	char path[300];

	(void)state;
	tmpdir_make(&tmp);
	snprintf(path, sizeof(path), "%s/log", tmp.path);
	mv_log_init(&mesh_root.log, path, MV_LOG_DEBUG);
	memset(&process, 0, sizeof(process));
	mesh_root.process = &process;
	mesh_root.config.survive = MV_SURVIVE_AUTO;
	mesh_root.config.qualify = MV_QUALIFY_AUTO;
	memset(&context, 0, sizeof(context));
	strcpy(context.device, "mlx5_0");
	context.lower.qp.modify_qp = modify_qp;
	conn = (struct mesh_conn){.mc = &context, .state = MESH_CONN_PASSTHROUGH};
	qualified[0] = qualified[1] = MV_DIR_QUALIFIED_NO;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tmpdir_remove(&tmp);
	return 0;
}

static void test_on_and_off(void **state)
{
	(void)state;
	mesh_root.config.survive = MV_SURVIVE_OFF;
	qualified[0] = MV_DIR_QUALIFIED_YES;
	assert_false(mesh_survives(&context));
	assert_false(mesh_survives_some());
	assert_string_equal(mesh_survives_why_not(&context), "survive = off when it was made");
	mesh_root.config.survive = MV_SURVIVE_ON;
	qualified[0] = MV_DIR_QUALIFIED_NO;
	assert_true(mesh_survives(&context));
	assert_true(mesh_survives_some());
	assert_null(mesh_survives_why_not(&context));
	assert_null(mesh_conn_unqualified(&conn));
	assert_true(mesh_conn_may_go_by(&conn, &to[1], MV_GID_TYPE_ROCE_V2));
	assert_int_equal(asked_library, 0);
}

static void test_qualified(void **state)
{
	(void)state;
	assert_false(mesh_survives_some());
	qualified[0] = MV_DIR_QUALIFIED_YES;
	assert_true(mesh_survives(&context));
	assert_int_equal(asked_library, mv_directory_library_of((const void *)modify_qp));
	assert_int_not_equal(asked_library, 0);
	assert_true(mesh_survives_some());
	assert_null(mesh_survives_why_not(&context));
	assert_null(mesh_conn_unqualified(&conn));
	assert_true(mesh_conn_may_go_by(&conn, &to[0], MV_GID_TYPE_ROCE_V2));
	assert_false(mesh_conn_may_go_by(&conn, &to[1], MV_GID_TYPE_ROCE_V2));
	qualified[1] = MV_DIR_QUALIFIED_YES;
	assert_true(mesh_conn_may_go_by(&conn, &to[1], MV_GID_TYPE_ROCE_V2));
	mesh_root.config.qualify = MV_QUALIFY_NEVER;
	assert_false(mesh_survives(&context));
}

/* The directory is not asked twice for the same. */
static void test_asked_once(void **state)
{
	struct ibv_context verbs;

	(void)state;
	atomic_store(&process.directory.number, 1);
	assert_false(mesh_survives(&context));
	qualified[0] = MV_DIR_QUALIFIED_YES;
	assert_false(mesh_survives(&context));
	assert_true(mesh_survives_on(&context, context.device)); /* who has not looked into the directory before */
	assert_null(mesh_conn_unqualified(&conn));
	assert_false(mesh_survives(&context));
	assert_false(mesh_conn_may_go_by(&conn, &to[1], MV_GID_TYPE_ROCE_V2));
	qualified[1] = MV_DIR_QUALIFIED_YES;
	assert_true(mesh_conn_may_go_by(&conn, &to[1], MV_GID_TYPE_ROCE_V2));
	atomic_store(&process.directory.number, 2);
	assert_true(mesh_survives(&context));
	qualified[0] = MV_DIR_QUALIFIED_NO;
	assert_true(mesh_survives(&context));
	atomic_store(&process.directory.number, 3);
	assert_false(mesh_survives(&context));
	/* Nor is an answer of the record's former context. */
	qualified[0] = MV_DIR_QUALIFIED_YES;
	mesh_context_publish(&context, &verbs);
	assert_true(mesh_survives(&context));
}

/* It is the device on which it is at work that counts. */
static void test_moved(void **state)
{
	(void)state;
	qualified[0] = MV_DIR_QUALIFIED_YES;
	conn.state = MESH_CONN_MOVED;
	strcpy(conn.path.device, "mlx5_1");
	assert_string_equal(mesh_conn_unqualified(&conn), "its NIC has not qualified");
	qualified[1] = MV_DIR_QUALIFIED_YES;
	assert_null(mesh_conn_unqualified(&conn));
}

static size_t lines(char *ret, size_t size)
{
	FILE *file = fopen(mesh_root.log.target, "r");
	size_t len = 0, n = 0;

	if (file) {
		len = fread(ret, 1, size - 1, file);
		fclose(file);
	}
	ret[len] = '\0';
	for (char *at = ret; *at; at++)
		n += *at == '\n';
	return n;
}

static void test_says_once(void **state)
{
	char text[4096];

	(void)state;
	assert_string_equal(mesh_survives_why_not(&context), "its NIC had not qualified when it was made");
	qualified[0] = MV_DIR_QUALIFIED_OTHER;
	assert_string_equal(mesh_survives_why_not(&context), "its NIC had qualified with another library when it was made");
	assert_int_equal(lines(text, sizeof(text)), 1);
	assert_non_null(strstr(text, "`meshverbs qualify mlx5_0`"));
}

/* Why a connection stays is known before other paths are searched, where that is possible. */
static void test_bound_by(void **state)
{
	const struct mesh_path_decision decision = {
		.verdict = MV_PATH_WORKS, .agent_version = MV_CTL_VERSION, .n_own_rails = 2};
	const struct mesh_choice choice = {.fits = true};
	const struct ibv_qp_attr attr = {.ah_attr.port_num = 1};
	struct mesh_path_decision alone = decision;
	struct ibv_qp qp = {0};
	char text[4096];

	(void)state;
	n_searches = 0;
	conn.qp = &qp;
	alone.n_own_rails = 1;
	assert_string_equal(mesh_decide_bound_by(&conn, &choice, &attr, &alone), "no other rail reached one of the peer's when it was made");
	assert_int_equal(lines(text, sizeof(text)), 0); /* nobody is told to qualify a NIC that has no other beside it */
	assert_string_equal(mesh_decide_bound_by(&conn, &choice, &attr, &decision),
			    "its NIC had not qualified when it was made");
	assert_int_equal(n_searches, 0);
	qualified[0] = MV_DIR_QUALIFIED_YES;
	assert_string_equal(mesh_decide_bound_by(&conn, &choice, &attr, &decision),
			    "no other NIC that reached the peer had qualified when it was made");
	assert_int_equal(n_searches, 1);
	qualified[1] = MV_DIR_QUALIFIED_YES;
	assert_null(mesh_decide_bound_by(&conn, &choice, &attr, &decision));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_on_and_off, setup, teardown),
		cmocka_unit_test_setup_teardown(test_qualified, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asked_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_says_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bound_by, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
