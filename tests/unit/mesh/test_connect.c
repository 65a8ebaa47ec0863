// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Why a connection cannot be moved later, as the log says it: nobody to ask when it was made, or no memory to note what it receives. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "fault.h"
#include "heldint.h"
#include "tmpdir.h"

#define NO_AGENT "mlx5_9 QP 0x7: cannot be moved later: this host had no agent when it was made; the program gets its errors"
#define NO_MEMORY "mlx5_9 QP 0x7: cannot be moved later: there was no memory when it was made; the program gets its errors"
#define EITHER "mlx5_9 QP 0x7: cannot be moved later: this host had no agent when it was made, or there was no memory; the program gets its errors"

bool __wrap_mesh_view_agent(void);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);

static struct mesh_process process;
static struct mesh_context *context;
static struct ibv_context verbs;
static struct ibv_qp qp = {.context = &verbs, .qp_num = 7, .qp_type = IBV_QPT_RC};
static struct tmpdir tmp;
static bool agent;

bool __wrap_mesh_view_agent(void)
{
	return agent;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

static int modify_qp(struct ibv_qp *its, struct ibv_qp_attr *attr, int mask)
{
	(void)its;
	(void)attr;
	(void)mask;
	return 0;
}

static int setup(void **state)
{
	char path[300];

	(void)state;
	tmpdir_make(&tmp);
	snprintf(path, sizeof(path), "%s/log", tmp.path);
	mv_log_init(&mesh_root.log, path, MV_LOG_DEBUG);
	mesh_root.process = &process;
	mesh_root.config.survive = true;
	pthread_mutex_init(&process.conns_lock, NULL);
	context = mesh_context_claim();
	assert_non_null(context);
	context->can_move = true;
	context->modify_qp = modify_qp;
	strcpy(context->device, "mlx5_9");
	pthread_mutex_init(&context->data.lock, NULL);
	mesh_context_publish(context, &verbs);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tmpdir_remove(&tmp);
	return 0;
}

static void modify(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	assert_int_equal(mesh_modify_qp(&qp, &attr, IBV_QP_STATE | (state == IBV_QPS_RTR ? IBV_QP_AV : 0)), 0);
}

/* What the log says when it is connected. */
static void connect_says(const char *line)
{
	char text[4096] = "";
	FILE *file;

	unlink(mesh_root.log.target);
	modify(IBV_QPS_RTR);
	file = fopen(mesh_root.log.target, "r");
	if (file) {
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		fclose(file);
	}
	if (line ? !strstr(text, line) : strstr(text, "cannot be moved later") != NULL)
		fail_msg("it says '%s', not '%s'", text, line ? line : "nothing");
}

static void init_without_memory(unsigned int nth)
{
	fault_arm(FAULT_ALLOC, nth, ENOMEM);
	modify(IBV_QPS_INIT);
	assert_true(fault_fired());
	fault_disarm();
}

static void test_no_agent(void **state)
{
	(void)state;
	agent = false;
	modify(IBV_QPS_INIT);
	agent = true; /* it has come since */
	connect_says(NO_AGENT);
}

static void test_no_memory(void **state)
{
	struct mesh_conn *conn;
	unsigned int nth, n = 0;

	(void)state;
	agent = true;
	for (nth = 1; nth < 20; nth++) {
		fault_arm(FAULT_ALLOC, nth, ENOMEM);
		modify(IBV_QPS_INIT);
		if (!fault_fired())
			break;
		fault_disarm();
		conn = mesh_conn_get(&qp);
		if (!conn) {
			connect_says(NO_MEMORY);
			n++;
		}
		mesh_conn_put(conn);
		modify(IBV_QPS_RESET);
	}
	fault_disarm();
	modify(IBV_QPS_RESET);
	assert_true(n >= 2); /* its own record, and that of its receives */
	/* The next life of the same queue pair. */
	agent = false;
	modify(IBV_QPS_INIT);
	connect_says(NO_AGENT);
}

static void test_too_many_to_know(void **state)
{
	unsigned int i;

	(void)state;
	agent = true;
	for (i = 0; i < MESH_FORGOTTEN_MAX; i++)
		mesh_forgotten_note(context, 1000 + i, true);
	init_without_memory(1);
	connect_says(EITHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_agent),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_too_many_to_know),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
