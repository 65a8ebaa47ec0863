// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "oneconn.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "failover_exec.h"
#include "failover_policy.h"
#include "path_monitor.h"
#include "proved.h"
#include "srq.h"
#include "negotiateint.h"

uint64_t __wrap_mesh_now_ns(void);
int __wrap_mesh_thread_wake(bool urgent);
int __wrap_mesh_thread_frame(const struct mv_frame *frame);

uint64_t now_ns;

uint64_t __wrap_mesh_now_ns(void)
{
	return now_ns;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	return 0;
}

char status[MV_CTL_MAX_BYTES + 1];
unsigned int n_statuses;

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	if (frame->type != MV_FRAME_STATUS)
		return 0;
	memcpy(status, frame->payload, frame->len);
	status[frame->len] = '\0';
	n_statuses++;
	return 0;
}

/* The paths that the directory has. */
struct mesh_path_decision decision;
unsigned int n_searched;

void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret);
bool __wrap_mesh_work_submit(struct mesh_conn *c, const union ibv_gid *to, bool tries);

void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	assert_true(request->made);
	assert_ptr_equal(request->host, mesh_conn_peer_host(&conn));
	n_searched++;
	*ret = decision;
}

void __wrap_mesh_directory_verdict(const struct mv_path_request *request, struct mesh_path_decision *ret);
void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg);

bool unroutable; /* but for what the kernel had a way for */

void __wrap_mesh_directory_verdict(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	assert_true(request->made);
	assert_ptr_equal(request->host, mesh_conn_peer_host(&conn));
	*ret = decision;
	if (unroutable && !request->routed)
		ret->verdict = MV_PATH_APART;
}

/* Which host has what the directory has. */
enum mesh_holder holder;
union ibv_gid of_others;
bool authenticated, routed;

enum mesh_holder __wrap_mesh_directory_holder(const struct mv_host_id *host, const union ibv_gid *gid,
					      uint32_t *ret_flags);

enum mesh_holder __wrap_mesh_directory_holder(const struct mv_host_id *host, const union ibv_gid *gid,
					      uint32_t *ret_flags)
{
	assert_memory_equal(host, &conn.ends.host_id, sizeof(*host));
	*ret_flags = (authenticated ? MV_PEER_AUTHENTICATED : 0) | (routed ? MV_PEER_ROUTED : 0);
	return mv_gid_equal(gid, &of_others) ? MESH_HOLDER_OTHER : holder;
}

struct mv_ctl_msg sent;

void __wrap_mesh_thread_send(const struct mv_ctl_msg *msg)
{
	sent = *msg;
}

void __wrap_mesh_thread_send_later(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys);

void __wrap_mesh_thread_send_later(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys)
{
	(void)keys;
	sent = *msg;
}

/* Its turn has not come. */
unsigned int n_submitted;
bool no_workers, only_tries;

bool __wrap_mesh_work_submit(struct mesh_conn *c, const union ibv_gid *to, bool tries)
{
	(void)c;
	(void)to;
	n_submitted++;
	only_tries = tries;
	return !no_workers;
}

/* What the lower provider makes of it when its QP is to be connected. */
int rtr_error, rts_error, own_error;
unsigned int n_rtr, n_rts, n_own_qps, n_err;
uint8_t chosen_index, rtr_index;
bool chosen_sure;

void __wrap_mesh_paths_choose(struct mesh_context *mc, struct ibv_context *context_of, const struct ibv_ah_attr *ah,
			      enum mv_transport transport, bool sure, struct mesh_choice *ret);

void __wrap_mesh_paths_choose(struct mesh_context *mc, struct ibv_context *context_of, const struct ibv_ah_attr *ah,
			      enum mv_transport transport, bool sure, struct mesh_choice *ret)
{
	(void)mc;
	(void)context_of;
	(void)ah;
	(void)transport;
	assert_true(sure);
	*ret = (struct mesh_choice){.index = chosen_index, .sure = chosen_sure};
}

bool entry_lacks;
unsigned int n_lacks;

bool __wrap_mesh_paths_lack(struct mesh_context *mc, struct ibv_context *context_of, uint8_t port_num, const union ibv_gid *gid,
			    enum mv_gid_type type, uint8_t index);

bool __wrap_mesh_paths_lack(struct mesh_context *mc, struct ibv_context *context_of, uint8_t port_num, const union ibv_gid *gid,
			    enum mv_gid_type type, uint8_t index)
{
	assert_ptr_equal(mc, &context);
	assert_ptr_equal(context_of, qp.context);
	assert_int_equal(port_num, conn.attr.rtr.ah_attr.port_num);
	assert_ptr_equal(gid, &conn.ends.local.gid);
	assert_int_equal(type, conn.ends.local_type);
	assert_int_equal(index, conn.attr.rtr.ah_attr.grh.sgid_index);
	n_lacks++;
	return entry_lacks;
}

static int modify_qp(struct ibv_qp *lower, struct ibv_qp_attr *attr, int mask)
{
	(void)lower;
	(void)mask;
	/* The kernel looks for the neighbour. */
	now_ns += rtr_error ? 1000 * MS : 0;
	n_rtr += attr->qp_state == IBV_QPS_RTR;
	if (attr->qp_state == IBV_QPS_RTR)
		rtr_index = attr->ah_attr.grh.sgid_index;
	n_rts += attr->qp_state == IBV_QPS_RTS;
	n_err += attr->qp_state == IBV_QPS_ERR;
	if (attr->qp_state == IBV_QPS_RTR && attr->ah_attr.grh.sgid_index != chosen_index && own_error)
		return own_error;
	return attr->qp_state == IBV_QPS_RTS ? rts_error : rtr_error;
}

bool in_batch;
int ah_error;
unsigned int n_ahs, n_ahs_gone;

/* As the above. */
MV_LOCKS_UNCHECKED static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	static struct ibv_ah ah;

	assert_ptr_equal(pd, qp.pd);
	assert_int_equal(attr->grh.sgid_index, chosen_index);
	/* Who posts does not wait for that. */
	if (!in_batch) {
		assert_true(mesh_trylock(&vqp.posting.lock));
		mesh_unlock(&vqp.posting.lock);
	}
	if (ah_error) {
		now_ns += 1000 * MS;
		errno = ah_error;
		return NULL;
	}
	n_ahs++;
	return &ah;
}

static int destroy_ah(struct ibv_ah *ah)
{
	assert_ptr_equal(ah->context, qp.context);
	n_ahs_gone++;
	return 0;
}

unsigned int n_joined, n_left;

int __wrap_mesh_srq_join_lower(struct mesh_context *mc, struct ibv_qp *joins, bool stays);
struct mesh_srq_own_qp *__wrap_mesh_srq_leaving(struct mesh_context *mc, struct ibv_qp *leaves);
void __wrap_mesh_srq_left(struct mesh_srq_own_qp *passthrough, bool really);

int __wrap_mesh_srq_join_lower(struct mesh_context *mc, struct ibv_qp *joins, bool stays)
{
	(void)mc;
	(void)stays;
	n_joined += !!joins->srq;
	return 0;
}

struct mesh_srq_own_qp *__wrap_mesh_srq_leaving(struct mesh_context *mc, struct ibv_qp *leaves)
{
	static struct mesh_srq_own_qp passthrough;

	(void)mc;
	return leaves->srq ? &passthrough : NULL;
}

void __wrap_mesh_srq_left(struct mesh_srq_own_qp *passthrough, bool really)
{
	n_left += passthrough && really;
}

bool __wrap_mesh_vqp_in_batch(const struct mesh_vqp *h);

bool __wrap_mesh_vqp_in_batch(const struct mesh_vqp *h)
{
	(void)h;
	return in_batch;
}

int __wrap_mesh_vqp_passthrough(struct mesh_vqp *h);

int __wrap_mesh_vqp_passthrough(struct mesh_vqp *h)
{
	(void)h;
	n_own_qps++;
	return 0;
}

static void no_path_failed(void *arg)
{
	(void)arg;
}

static const struct mesh_vqp_ops ops = {.path_failed = no_path_failed};
struct mesh_process process;
struct mesh_context context;
static struct ibv_cq ibv_cq;
static struct ibv_context verbs;
static struct ibv_pd pd = {.context = &verbs};
struct ibv_qp qp = {.context = &verbs, .pd = &pd, .qp_num = 7};
struct mesh_cq cq;
struct mesh_vqp vqp;
struct mesh_conn conn;

/* The path of a connection at work is gone: a send has used up its retries. */
int oneconn_setup(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct ibv_send_wr wr = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};
	struct mesh_completion c = {.wr_id = 1, .cq = &cq, .status = IBV_WC_RETRY_EXC_ERR};

	(void)state;
	memset(&process, 0, sizeof(process));
	memset(&decision, 0, sizeof(decision));
	holder = MESH_HOLDER_UNKNOWN;
	memset(&of_others, 0, sizeof(of_others));
	authenticated = routed = mesh_root.config.survive_unauthenticated = false;
	unroutable = no_workers = in_batch = entry_lacks = false;
	chosen_index = 0;
	chosen_sure = false;
	n_submitted = n_rtr = n_rts = n_own_qps = n_err = n_lacks = 0;
	n_ahs = n_ahs_gone = n_joined = n_left = 0;
	qp.srq = NULL;
	rtr_error = rts_error = own_error = ah_error = 0;
	context.lower.qp.modify_qp = modify_qp;
	context.lower.create_ah = create_ah;
	context.lower.destroy_ah = destroy_ah;
	mesh_root.process = &process;
	mesh_root.config.survive = MV_SURVIVE_ON;
	mesh_root.config.move_timeout_ms = 2000;
	mesh_root.config.hold_down_ms = 5000;
	cq = (struct mesh_cq){.cq = &ibv_cq};
	vqp = (struct mesh_vqp){.mc = &context,
				.qp = &qp,
				.mode = MESH_VQP_TRACKED,
				.client.ops = &ops,
				.made.cap = cap,
				.send_cq = &cq,
				.recv_cq = &cq,
				.tracker = mesh_tracker_new(&cap, false, false)};
	conn = (struct mesh_conn){.qp = &qp, .mc = &context, .qpn = 7, .state = MESH_CONN_PASSTHROUGH, .vqp = &vqp};
	assert_int_equal(mesh_tracker_room(vqp.tracker, &cap), 0);
	mesh_tracker_rtr(vqp.tracker, 1024);
	mesh_tracker_rts(vqp.tracker, 0);
	assert_int_equal(mesh_tracker_send(vqp.tracker, &wr), 0);
	assert_false(mesh_tracker_completed(&vqp, &c));
	now_ns = 1000 * MS;
	return 0;
}

int oneconn_teardown(void **state)
{
	(void)state;
	mesh_tracker_free(vqp.tracker);
	free(conn.failures);
	conn.failures = NULL;
	free(cq.sw_cq.wcs);
	free(process.directory.state);
	free(process.devices.all); /* one at most */
	process.devices.all = NULL;
	return 0;
}

void stay(enum mv_ctl_reason reason)
{
	const struct mv_move_action action = {.type = MV_DO_STAY, .reason = (uint8_t)reason};

	mesh_conn_carry_out(&conn, &action, now_ns);
}

/* It leads, and there is a path, on a rail that does not exist. */
void is_to_move(void)
{
	const struct mv_move_begin begin = {.local = {.gid = {.raw = {1}}, .qpn = 7},
					    .peer = {.gid = {.raw = {2}}, .qpn = 8},
					    .local_type = MV_GID_TYPE_ROCE_V2,
					    .attempt = 1};

	mesh_lock_init(&conn.lock);
	mesh_lock_init(&conn.keys.lock);
	conn.ends.local = begin.local;
	conn.ends.peer = begin.peer;
	conn.attr.rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	mv_move_adopt(&conn.move, &begin, 0, &mv_move_default_times, now_ns);
	conn.flags.path_failed = true;
	decision.n_paths = 1;
	decision.paths[0] = (struct mv_path){.local_rail = 1,
					 .remote_rail = 1,
					 .local_gid = {.raw = {3}},
					 .remote_gid = {.raw = {4}},
					 .type = MV_GID_TYPE_ROCE_V2};
}

/* Nothing has failed. */
void is_well(void)
{
	is_to_move();
	conn.flags.path_failed = false;
	vqp.tracker->broken = false;
	vqp.tracker->n_withheld = 0;
}
