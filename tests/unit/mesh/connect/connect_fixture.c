// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "connect_fixture.h"
#include "tmpdir.h"

bool __wrap_mesh_directory_agent(void);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
int __wrap_mesh_thread_wake(bool urgent);

static struct mesh_process process;
static struct tmpdir tmp;
struct mesh_context *context;
struct ibv_context verbs;
struct ibv_qp qp = {.context = &verbs, .qp_num = 7, .qp_type = IBV_QPT_RC};
bool agent;
struct modified at_lower, at_next;

bool __wrap_mesh_directory_agent(void)
{
	return agent;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

static int note_modify(struct modified *modified, const struct ibv_qp_attr *attr, int mask)
{
	modified->n++;
	modified->mask = mask;
	modified->access = attr->qp_access_flags;
	return modified->err;
}

int modify_qp(struct ibv_qp *its, struct ibv_qp_attr *attr, int mask)
{
	(void)its;
	return note_modify(&at_lower, attr, mask);
}

int modify_next(struct ibv_qp *its, struct ibv_qp_attr *attr, int mask)
{
	(void)its;
	return note_modify(&at_next, attr, mask);
}

int connect_setup(void **state)
{
	char path[300];

	(void)state;
	tmpdir_make(&tmp);
	snprintf(path, sizeof(path), "%s/log", tmp.path);
	mv_log_init(&mesh_root.log, path, MV_LOG_DEBUG);
	mesh_root.process = &process;
	mesh_root.config.survive = true;
	mesh_lock_init(&process.conns.lock);
	context = mesh_context_get_free();
	assert_non_null(context);
	context->can_move = true;
	context->lower.qp.modify_qp = modify_qp;
	strcpy(context->device, "mlx5_9");
	mesh_lock_init(&context->data.lock);
	mesh_context_publish(context, &verbs);
	return 0;
}

int connect_teardown(void **state)
{
	(void)state;
	tmpdir_remove(&tmp);
	return 0;
}

void modify(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	assert_int_equal(mesh_modify_qp(&qp, &attr, IBV_QP_STATE | (state == IBV_QPS_RTR ? IBV_QP_AV : 0)), 0);
}

struct mesh_conn *connection(enum mesh_conn_state state, struct mesh_vqp *vqp)
{
	struct mesh_conn *conn;

	agent = true;
	modify(IBV_QPS_INIT);
	conn = mesh_conn_get(&qp);
	assert_non_null(conn);
	conn->state = state;
	conn->vqp = vqp;
	conn->attempt.number = 5;
	conn->attr.rtr_mask = conn->attr.rts_mask = IBV_QP_STATE;
	conn->ends.peer.qpn = 9;
	return conn;
}

void end(struct mesh_conn *conn)
{
	conn->vqp = NULL;
	mesh_conn_put(conn);
	modify(IBV_QPS_RESET);
}

int to(enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = state, .sq_psn = 77};

	at_lower.n = at_next.n = 0;
	return mesh_modify_qp(&qp, &attr, IBV_QP_STATE | mask);
}
