// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>

#include "vqp_int.h"

/*
 * Receives that the program posts before it is known which QP will consume them. They are posted to the program's own QP, too,
 * which consumes none in INIT.
 */

int mesh_recvlog_begin(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_data *data = &mc->data;
	struct mesh_vqp *h = NULL;
	int err = -EBUSY;

	mesh_recvlog_end(mc, qp);
	mesh_lock(&data->lock);
	if (mesh_data_takes(mc, MESH_FOR_CONNECTIONS)) {
		h = mesh_vqp_get_free(mc, qp);
		err = h ? 0 : -ENOMEM;
	}
	if (h) {
		data->n_noted++;
		mesh_data_slots(mc);
	}
	mesh_unlock(&data->lock);
	return err;
}

void mesh_recvlog_end(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_data *data = &mc->data;
	struct mesh_vqp *h;

	mesh_lock(&data->lock);
	h = mesh_vqp_find(mc, qp);
	if (h) {
		mesh_lock(&h->lock);
		if (h->mode == MESH_VQP_RX_RECORD) {
			mesh_map_drop(&data->qps, qp);
			mesh_vqp_release(h);
			data->n_noted--;
			mesh_data_slots(mc);
		}
		mesh_unlock(&h->lock);
	}
	mesh_unlock(&data->lock);
}

/* ---- QPs without a record ------------------------------------------------------------------------------------ */

/* data->lock */
static uint32_t *find_forgotten(struct mesh_data *data, uint32_t qpn)
{
	for (unsigned int i = 0; i < data->n_forgotten; i++)
		if (data->forgotten[i] == qpn)
			return &data->forgotten[i];
	return NULL;
}

void mesh_forgotten_note(struct mesh_context *mc, uint32_t qpn, bool no_memory)
{
	struct mesh_data *data = &mc->data;
	uint32_t *place;

	if (!no_memory && !atomic_load_explicit(&data->n_forgotten, memory_order_relaxed))
		return;
	mesh_lock(&data->lock);
	place = find_forgotten(data, qpn);
	if (place && !no_memory)
		*place = data->forgotten[--data->n_forgotten];
	else if (!place && no_memory && data->n_forgotten < MESH_FORGOTTEN_MAX)
		data->forgotten[data->n_forgotten++] = qpn;
	else if (!place && no_memory)
		data->forgotten_more = true;
	mesh_unlock(&data->lock);
}

const char *mesh_forgotten_why(struct mesh_context *mc, uint32_t qpn)
{
	struct mesh_data *data = &mc->data;
	const char *why = mesh_data_why_not(mc);

	mesh_lock(&data->lock);
	if (find_forgotten(data, qpn))
		why = "there was no memory when it was made";
	else if (why)
		; /* most likely the reason at that time */
	else if (data->forgotten_more)
		why = "this host had no agent when it was made, or there was no memory";
	else
		why = "this host had no agent when it was made";
	mesh_unlock(&data->lock);
	return why;
}
