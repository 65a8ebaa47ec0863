/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_LASTWQE_H
#define MESH_LASTWQE_H

#include "vqp_record.h"

/**
 * mesh_last_wqe_event - the program has read an event of its device; any thread, no lock of the plugin is held
 * @event: changed if the event is not for the program, or not yet
 */
void mesh_last_wqe_event(struct mesh_context *mc, struct ibv_async_event *event);

/** mesh_last_wqe_open - initialise a new context; mesh_last_wqe_close - free it, after its QPs */
void mesh_last_wqe_open(struct mesh_context *mc);
void mesh_last_wqe_close(struct mesh_context *mc);
/**
 * mesh_last_wqe_due - a withheld event has to come now; with any locks held
 *
 * For a QP of which the program knows that it is in ERR (vqp->failure.ended), when the QP that does the work is in ERR.
 * Several system calls, if an event was withheld.
 */
void mesh_last_wqe_due(struct mesh_vqp *h);
/** mesh_last_wqe_ended - the program sees an error of a QP that is in ERR; vqp->lock, and any other */
void mesh_last_wqe_ended(struct mesh_vqp *h);
/** mesh_last_wqe_forget - the record is freed; vqp->lock, and any other */
void mesh_last_wqe_forget(struct mesh_vqp *h);

#endif
