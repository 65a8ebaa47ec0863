// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "cqint.h"

/* Event moderation of CQs (count, period): shadow CQs on other rails get that of the program's CQ. */

/* Value for data->moderated, packed into a pointer; never NULL. */
static void *pack(const struct ibv_moderate_cq *moderate)
{
	return (void *)((uintptr_t)1 << 32 | (uintptr_t)moderate->cq_count << 16 | moderate->cq_period);
}

int mesh_cq_moderate(const struct mesh_cq *cq, struct ibv_cq *shadow)
{
	uintptr_t packed = (uintptr_t)mesh_map_get(&cq->mc->data.moderated, cq->cq);
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = (uint16_t)(packed >> 16), .cq_period = (uint16_t)packed},
	};

	return packed ? ibv_modify_cq(shadow, &attr) : 0;
}

static void moderate(struct mesh_cq *cq, struct mesh_shadow_cq *list)
{
	int err;

	for (; list; list = list->next) {
		err = mesh_cq_moderate(cq, list->cq);
		if (err)
			mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: a CQ there is not moderated as the program's is: %s", list->rail->device,
				    strerrordesc_np(err < 0 ? -err : err));
	}
}

static void note(struct mesh_context *mc, struct ibv_cq *cq, const struct ibv_moderate_cq *wanted)
{
	struct mesh_data *data = &mc->data;
	struct mesh_cq *mcq;

	mesh_lock(&data->lock);
	/* If the value cannot be stored, no QP is held from now on. */
	if (mesh_map_put(&data->moderated, cq, pack(wanted)))
		data->extended_unknown = true;
	mcq = mesh_map_get(&data->cqs, cq);
	mesh_unlock(&data->lock);
	if (!mcq)
		return;
	/* A shadow CQ that is made meanwhile has the moderation already. */
	mesh_lock(&mcq->lock);
	moderate(mcq, mcq->shadows.polled);
	moderate(mcq, mcq->shadows.standby);
	mesh_unlock(&mcq->lock);
}

int mesh_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct mesh_context *mc = mesh_context_get(cq->context);
	int err = mc->lower.cq.modify_cq(cq, attr), saved_errno = errno, cancel;

	if (err || !(attr->attr_mask & IBV_CQ_ATTR_MODERATE) || !mesh_context_active(mc))
		return err;
	cancel = mesh_cancel_off();
	note(mc, cq, &attr->moderate);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return 0;
}
