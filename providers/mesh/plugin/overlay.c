// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "connect.h"
#include "keys.h"
#include "paths.h"
#include "pdstay.h"
#include "portview.h"
#include "qpmade.h"
#include "rails.h"
#include "srq.h"
#include "ud.h"
#include "vqp.h"

/*
 * One row per operation: where the lower provider's function is stored in struct mesh_context, and the plugin's
 * function, installed when the context is opened. Operations of the data path have none: they are installed with the
 * first connection of a context that waits or moves, so that others do not pay.
 */
struct row {
	size_t lower; /* offset in struct mesh_context */
	const void *ours;
};

#define BASE_TYPE(member) __typeof__(((struct mesh_context *)NULL)->lower.member)
#define KEEP(op, member)  [MESH_OP_##op] = {offsetof(struct mesh_context, lower.member), NULL}
/* The third operand only checks the type of the plugin's function. */
#define OURS(op, member, function)                                                                         \
	[MESH_OP_##op] = {offsetof(struct mesh_context, lower.member),                                     \
			  (const void *)(1 ? (function) : (BASE_TYPE(member))NULL)}

static const struct row rows[MESH_N_OPS] = {
	OURS(MODIFY_QP, qp.modify_qp, mesh_modify_qp),
	OURS(CREATE_AH, create_ah, mesh_create_ah),
	OURS(ASYNC_EVENT, async_event, mesh_async_event),
	OURS(FREE_CONTEXT, free_context, mesh_free_context),
	KEEP(ALLOC_PD, pd.alloc_pd),
	OURS(DEALLOC_PD, pd.dealloc_pd, mesh_dealloc_pd),
	OURS(ALLOC_PARENT_DOMAIN, pd.alloc_parent_domain, mesh_alloc_parent_domain),
	OURS(REG_MR, mr.reg_mr, mesh_reg_mr),
	OURS(REG_DMABUF_MR, mr.reg_dmabuf_mr, mesh_reg_dmabuf_mr),
	OURS(REG_MR_EX, mr.reg_mr_ex, mesh_reg_mr_ex),
	OURS(IMPORT_MR, mr.import_mr, mesh_import_mr),
	OURS(IMPORT_PD, pd.import_pd, mesh_import_pd),
	OURS(UNIMPORT_PD, pd.unimport_pd, mesh_unimport_pd),
	OURS(SET_ECE, qp.set_ece, mesh_set_ece),
	OURS(QUERY_ECE, qp.query_ece, mesh_query_ece),
	OURS(ALLOC_NULL_MR, mr.alloc_null_mr, mesh_alloc_null_mr),
	OURS(REG_DM_MR, mr.reg_dm_mr, mesh_reg_dm_mr),
	OURS(ALLOC_MW, mr.alloc_mw, mesh_alloc_mw),
	OURS(REREG_MR, mr.rereg_mr, mesh_rereg_mr),
	OURS(DEREG_MR, mr.dereg_mr, mesh_dereg_mr),
	KEEP(CREATE_CQ, cq.create_cq),
	OURS(CREATE_CQ_EX, cq.create_cq_ex, mesh_create_cq_ex),
	OURS(RESIZE_CQ, cq.resize_cq, mesh_resize_cq),
	OURS(DESTROY_CQ, cq.destroy_cq, mesh_destroy_cq),
	OURS(MODIFY_CQ, cq.modify_cq, mesh_modify_cq),
	KEEP(CQ_EVENT, cq.cq_event),
	KEEP(POLL_CQ, io.poll_cq),
	KEEP(REQ_NOTIFY_CQ, io.req_notify_cq),
	OURS(CREATE_SRQ, srq.create_srq, mesh_create_srq),
	OURS(CREATE_SRQ_EX, srq.create_srq_ex, mesh_create_srq_ex),
	KEEP(MODIFY_SRQ, srq.modify_srq),
	KEEP(QUERY_SRQ, srq.query_srq),
	OURS(DESTROY_SRQ, srq.destroy_srq, mesh_destroy_srq),
	KEEP(POST_SRQ_RECV, io.post_srq_recv),
	OURS(CREATE_QP, qp.create_qp, mesh_create_qp),
	OURS(CREATE_QP_EX, qp.create_qp_ex, mesh_create_qp_ex),
	KEEP(OPEN_QP, qp.open_qp),
	OURS(QUERY_QP, qp.query_qp, mesh_query_qp),
	OURS(MODIFY_QP_RATE_LIMIT, qp.modify_qp_rate_limit, mesh_modify_qp_rate_limit),
	OURS(DESTROY_QP, qp.destroy_qp, mesh_destroy_qp),
	KEEP(POST_SEND, io.post_send),
	KEEP(POST_RECV, io.post_recv),
	OURS(DESTROY_AH, destroy_ah, mesh_destroy_ah),
	OURS(BIND_MW, qp.bind_mw, mesh_bind_mw),
	OURS(QUERY_PORT, query_port, mesh_query_port),
};

/* Read the lower provider's functions from a context. Return: false: the library's two copies of one differ. */
static bool take_functions(const struct mesh_root *root, const struct ibv_context *verbs, struct mesh_context *mc,
			   enum mesh_op first, enum mesh_op end)
{
	enum mesh_op op;
	void *function;

	for (op = first; op < end; op++) {
		function = mesh_calibration_op(&root->calibration, verbs, op);
		if (!function && !mesh_calibration_lacks(&root->lib, op))
			return false;
		memcpy((char *)mc + rows[op].lower, &function, sizeof(function));
	}
	return true;
}

static void put_functions(const struct mesh_root *root, const struct mesh_context *mc,
			  struct verbs_context *start)
{
	const struct mesh_calibration *cal = &root->calibration;
	const void *table[MESH_OPS_MAX] = {NULL}, *lower;
	enum mesh_op op, end = mc->can_move ? MESH_N_OPS : MESH_OPS_MOVES;

	for (op = 0; op < end; op++) {
		memcpy(&lower, (const char *)mc + rows[op].lower, sizeof(lower));
		if (lower && rows[op].ours)
			table[cal->slot[op]] = rows[op].ours;
	}
	root->lib.set_ops(start, table);
}

/*
 * stand_in = on, and the program will post by libibverbs. Connections of queue pairs that it drives by mlx5dv cannot move, so to
 * such a program a port that is down stays down.
 */
static void take_port(const struct mesh_root *root, const struct ibv_context *verbs, struct mesh_context *mc, bool direct)
{
	mc->lower.query_port = NULL; /* of the record's former context */
	if (root->config.stand_in && mc->can_move && !direct && !take_functions(root, verbs, mc, MESH_OPS_STAND_IN, MESH_N_OPS))
		mc->lower.query_port = NULL;
}

/* Generation of this process. A child of fork() has none, until it opens its first context. */
static uint64_t current_generation(struct mesh_root *root)
{
	struct mesh_process *process = root->process;
	uint64_t generation;

	mesh_lock(&process->hook_lock);
	generation = atomic_load_explicit(&process->generation, memory_order_relaxed);
	if (!generation) {
		generation = ++root->last_generation;
		atomic_store_explicit(&process->generation, generation, memory_order_relaxed);
	}
	mesh_unlock(&process->hook_lock);
	return generation;
}

void mesh_overlay_install(struct mesh_root *root, const struct mesh_lower_provider *lower, struct ibv_device *device,
			  struct verbs_context *start, bool direct)
{
	char stage[IBV_SYSFS_NAME_MAX + 16], why[256];
	struct mesh_context *mc;
	struct ibv_context *verbs;
	int err;

	snprintf(stage, sizeof(stage), "context:%s", device->name);
	if (device->transport_type != IBV_TRANSPORT_IB) {
		mesh_stage(root, stage, MESH_STAGE_OFF, "not RoCE or InfiniBand");
		return;
	}
	if (mv_config_list_match(&root->config.exclude, device->name)) {
		mesh_stage(root, stage, MESH_STAGE_OFF, "excluded in %s", root->config_file);
		return;
	}
	if (!mesh_calibrated(root))
		return;

	verbs = mesh_calibration_context(&root->calibration, start, device);
	if (!verbs) {
		mesh_stage(root, stage, MESH_STAGE_REFUSED, "%s: its context is not laid out as measured",
			   device->name);
		return;
	}
	mc = mesh_context_get_free();
	if (!mc) {
		mesh_stage(root, stage, MESH_STAGE_FAILED, "%s: out of memory", device->name);
		return;
	}
	snprintf(mc->device, sizeof(mc->device), "%s", device->name);
	mc->logged_only = root->config.mode == MV_MODE_OBSERVE;
	mc->generation = current_generation(root);
	if (!take_functions(root, verbs, mc, 0, MESH_OPS_MOVES)) {
		mesh_stage(root, stage, MESH_STAGE_REFUSED, "%s: its operations are not where measured",
			   device->name);
		mesh_context_release(mc);
		return;
	}
	err = mesh_paths_open(mc, verbs, why, sizeof(why));
	if (err) {
		mesh_stage(root, stage, MESH_STAGE_FAILED, "%s: %s", device->name, why);
		mesh_context_release(mc);
		return;
	}
	mc->can_move = root->config.moves && !mc->logged_only && !root->calibration.no_moves[0] &&
		       take_functions(root, verbs, mc, MESH_OPS_MOVES, MESH_OPS_STAND_IN);
	take_port(root, verbs, mc, direct);
	mc->sees_peers = mc->can_move || (mc->logged_only && root->config.moves);
	mesh_data_open(mc);
	mesh_ud_open(mc);
	mesh_context_publish(mc, verbs);
	put_functions(root, mc, start);
	mesh_stage(root, stage, MESH_STAGE_OK, "overlaid, provider %s%s%s%s", lower->name,
		   mc->logged_only ? ", observing only" : "", mc->can_move || mc->logged_only ? "" : ", no moves",
		   mc->lower.query_port ? ", ports that are down may be served by others" : "");
}

void mesh_free_context(struct ibv_context *context)
{
	struct mesh_context *mc = mesh_context_get(context);
	void (*lower_free)(struct ibv_context *) = mc->lower.free_context;
	int cancel = mesh_cancel_off();

	if (mesh_context_active(mc)) {
		mesh_conns_close(mc);
		mesh_ud_close(mc);
		mesh_data_close(mc);
		mesh_keys_close(context);
		mesh_pds_close(context);
		mesh_paths_close(mc);
	}
	/* Otherwise this is the parent's copy, in an undefined state: its memory is not freed. */
	mesh_context_release(mc);
	mesh_cancel_restore(cancel);
	lower_free(context);
}
