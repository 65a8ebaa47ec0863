// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "conn.h"
#include "detect.h"
#include "heldint.h"
#include "ud.h"

/*
 * The program waits on its own completion channel, whose descriptor the kernel fills. So a completion on a rail is made
 * a completion of the program's CQ (kick.c).
 */
void mesh_rail_events(struct mesh_rail *rail)
{
	struct ibv_cq *cq;
	void *context;

	/* The channel does not block: the last call says EAGAIN. */
	while (!ibv_get_cq_event(rail->channel, &cq, &context)) {
		if (!mesh_ud_event(rail, cq))
			mesh_kick_cq_event(cq);
		ibv_ack_cq_events(cq, 1);
	}
}

/* QPs of srqloop.c have no record. The event is not acknowledged yet, so @qp is there. */
static void note_last_wqe(const struct ibv_qp *qp)
{
	struct mesh_leftover *record = qp->qp_context != &mesh_own_qp ? qp->qp_context : NULL;

	if (record)
		atomic_store_explicit(&record->last_wqe, true, memory_order_release);
}

/* Of the rail's own objects, of which the program knows nothing; left unread they would only pile up. */
bool mesh_rail_async_events(struct mesh_rail *rail)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(rail->context, &event)) {
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s: event %s", rail->device, ibv_event_type_str(event.event_type));
		mesh_port_event(&rail->ports_down, &event);
		if (event.event_type == IBV_EVENT_GID_CHANGE)
			mesh_rail_forget_gid(rail);
		if (event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED)
			note_last_wqe(event.element.qp);
		if (event.event_type == IBV_EVENT_DEVICE_FATAL)
			atomic_store_explicit(&rail->fatal, true, memory_order_relaxed);
		ibv_ack_async_event(&event);
	}
	return !atomic_load_explicit(&rail->fatal, memory_order_relaxed);
}
