// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "agreed.h"
#include "rkey_fixture.h"

void __wrap_mesh_conn_queue(struct mesh_conn *conn, bool changed);
int __wrap_mesh_thread_wake(bool urgent);
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);
uint64_t __wrap_mesh_now_ns(void);
void __wrap_mesh_vqp_drop_key(struct mesh_vqp *h, uint32_t rkey);
void __wrap_mesh_vqp_put_key(struct mesh_vqp *h, uint32_t rkey, uint32_t path_rkey);
int __wrap_mesh_key_remote(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey);
int __wrap_usleep(useconds_t us);
size_t __real_mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, const struct mesh_conn *after);
size_t __wrap_mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, const struct mesh_conn *after);

struct mv_ctl_msg sent[2048];
unsigned int n_sent, n_queued, n_slept, n_walks;
uint64_t now_ns;
void (*on_send)(void), (*on_sleep)(void), (*on_translate)(void);
struct mesh_conn *asking;
uint32_t path_key;

void __wrap_mesh_conn_queue(struct mesh_conn *conn, bool changed)
{
	(void)conn;
	(void)changed;
	n_queued++;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	assert_true(n_sent < sizeof(sent) / sizeof(sent[0]));
	sent[n_sent++] = *msg;
	if (on_send)
		on_send();
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	(void)frame;
	return 0;
}

/* What waits for it asks again, as it does there. */
void __wrap_mesh_vqp_drop_key(struct mesh_vqp *h, uint32_t rkey)
{
	uint32_t unused;

	(void)h;
	if (asking)
		mesh_conn_vqp_ops.want_key(asking, rkey, &unused);
}

void __wrap_mesh_vqp_put_key(struct mesh_vqp *h, uint32_t rkey, uint32_t path_rkey)
{
	(void)h;
	(void)rkey;
	path_key = path_rkey;
}

int __wrap_mesh_key_remote(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey)
{
	(void)spd;
	if (on_translate)
		on_translate();
	*ret_rkey = rkey + 1;
	return 0;
}

/* Time passes only here. */
int __wrap_usleep(useconds_t us)
{
	now_ns += us * 1000ull;
	n_slept++;
	if (on_sleep)
		on_sleep();
	return 0;
}

size_t __wrap_mesh_conns_of(const struct mesh_context *mc, struct mesh_conn **ret, size_t max, const struct mesh_conn *after)
{
	n_walks++;
	return __real_mesh_conns_of(mc, ret, max, after);
}

uint64_t __wrap_mesh_now_ns(void)
{
	return now_ns;
}

struct ibv_context verbs;
struct ibv_pd pd = {.context = &verbs};
struct mesh_vqp vqp = {.mode = MESH_VQP_RX_RECORD};
struct mesh_process process;
static struct ibv_qp qp = {.context = &verbs, .qp_num = 7};

struct mesh_conn *moved(void)
{
	struct mesh_conn *conn = agreed_conn(&process, &qp, &vqp);

	conn->state = MESH_CONN_MOVED;
	memset(conn->keys.told, 0xff, sizeof(conn->keys.told));
	mesh_conn_key_peer(conn);
	n_sent = n_queued = n_slept = 0;
	on_send = on_sleep = NULL;
	now_ns = 1000 * MS;
	return conn;
}

struct mv_ctl_msg from_peer(enum mv_ctl_type type, const struct mv_ctl_msg *to)
{
	struct mv_ctl_msg msg = *to;

	msg.type = (uint8_t)type;
	msg.from = to->to;
	msg.to = to->from;
	msg.attempt = to->to_attempt;
	msg.to_attempt = to->attempt;
	msg.from_psn = to->to_psn;
	msg.to_psn = to->from_psn;
	return msg;
}

void end(struct mesh_conn *conn)
{
	conn->vqp = NULL;
	mesh_conn_unlink(conn);
	mesh_conn_put(conn);
	mesh_context_release(mesh_context_get(&verbs));
}
