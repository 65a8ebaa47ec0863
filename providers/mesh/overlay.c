// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "paths.h"

/* Take the base's functions out of a context; false when the library's two copies disagree. */
static bool take_functions(const struct mesh_calibration *cal, const struct ibv_context *verbs,
			   struct mesh_context *mc)
{
	void *functions[MESH_N_OPS];
	enum mesh_op op;

	for (op = 0; op < MESH_N_OPS; op++) {
		functions[op] = mesh_calibration_op(cal, verbs, op);
		if (!functions[op])
			return false;
	}
	memcpy(&mc->modify_qp, &functions[MESH_OP_MODIFY_QP], sizeof(void *));
	memcpy(&mc->create_ah, &functions[MESH_OP_CREATE_AH], sizeof(void *));
	memcpy(&mc->async_event, &functions[MESH_OP_ASYNC_EVENT], sizeof(void *));
	memcpy(&mc->free_context, &functions[MESH_OP_FREE_CONTEXT], sizeof(void *));
	return true;
}

static void put_functions(const struct mesh_root *root, struct verbs_context *start)
{
	const struct mesh_calibration *cal = &root->calibration;
	const void *table[MESH_OPS_MAX] = {NULL};

	table[cal->slot[MESH_OP_MODIFY_QP]] = (const void *)mesh_modify_qp;
	table[cal->slot[MESH_OP_CREATE_AH]] = (const void *)mesh_create_ah;
	table[cal->slot[MESH_OP_ASYNC_EVENT]] = (const void *)mesh_async_event;
	table[cal->slot[MESH_OP_FREE_CONTEXT]] = (const void *)mesh_free_context;
	root->lib.set_ops(start, table);
}

/*
 * The generation of this process. A fork's child starts without one and gets a new one with the first
 * context it opens itself.
 */
static uint64_t current_generation(struct mesh_root *root)
{
	struct mesh_process *process = root->process;
	uint64_t generation;

	pthread_mutex_lock(&process->hook_lock);
	generation = atomic_load_explicit(&process->generation, memory_order_relaxed);
	if (!generation) {
		generation = ++root->last_generation;
		atomic_store_explicit(&process->generation, generation, memory_order_relaxed);
	}
	pthread_mutex_unlock(&process->hook_lock);
	return generation;
}

void mesh_overlay_install(struct mesh_root *root, const struct mesh_base *base, struct ibv_device *device,
			  struct verbs_context *start)
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
	mc = mesh_context_claim();
	if (!mc) {
		mesh_stage(root, stage, MESH_STAGE_FAILED, "%s: out of memory", device->name);
		return;
	}
	snprintf(mc->device, sizeof(mc->device), "%s", device->name);
	mc->logged_only = root->config.mode == MV_MODE_OBSERVE;
	mc->generation = current_generation(root);
	if (!take_functions(&root->calibration, verbs, mc)) {
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
	mesh_context_publish(mc, verbs);
	put_functions(root, start);
	mesh_stage(root, stage, MESH_STAGE_OK, "overlaid, provider %s%s", base->name,
		   mc->logged_only ? ", observing only" : "");
}

void mesh_free_context(struct ibv_context *context)
{
	struct mesh_context *mc = mesh_context_get(context);
	void (*base_free)(struct ibv_context *) = mc->free_context;

	if (mesh_context_active(mc))
		mesh_paths_close(mc);
	/* Else it is the parent's copy, in a state no lock protected; the little it holds is let go. */
	mesh_context_release(mc);
	base_free(context);
}
