/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_LASTWQE_H
#define MESH_LASTWQE_H

#include "heldrecord.h"

/**
 * mesh_last_wqe_event - the program has read an event of the base's; any thread, no lock of ours
 * @event: changed if it is not for the program, or not yet
 */
void mesh_last_wqe_event(struct mesh_context *mc, struct ibv_async_event *event);

/** mesh_last_wqe_open - a context gets the overlay; mesh_last_wqe_close - it goes, and so have its QPs */
void mesh_last_wqe_open(struct mesh_context *mc);
void mesh_last_wqe_close(struct mesh_context *mc);
/**
 * mesh_last_wqe_due - what was kept of that event is to come now; any locks of ours
 *
 * For one that has ended (held->ended), when the QP that does the work is in ERR. Several system calls, if there was any.
 */
void mesh_last_wqe_due(struct mesh_held *h);
/** mesh_last_wqe_ended - the program is shown an error of a QP that is in ERR; held->lock, and any other */
void mesh_last_wqe_ended(struct mesh_held *h);
/** mesh_last_wqe_forget - the record is given up; held->lock, and any other */
void mesh_last_wqe_forget(struct mesh_held *h);

#endif
