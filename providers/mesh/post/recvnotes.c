// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>
#include <string.h>

#include "postint.h"

/* Return: the array, perhaps moved, with room for @want; NULL: no memory, @array is unchanged. */
static void *grow(void *array, size_t *size, size_t want, size_t element)
{
	size_t larger = *size ? *size : 16;

	if (want <= *size)
		return array;
	while (larger < want)
		larger *= 2;
	array = reallocarray(array, larger, element);
	if (array)
		*size = larger;
	return array;
}

void mesh_recvlog_add(struct mesh_recvlog *log, const struct ibv_recv_wr *wr)
{
	size_t num_sge = wr->num_sge > 0 ? (size_t)wr->num_sge : 0;
	struct mesh_recv_note *notes;
	struct ibv_sge *sges;

	if (log->incomplete)
		return;
	notes = grow(log->notes, &log->size, log->n + 1, sizeof(*notes));
	if (notes)
		log->notes = notes;
	sges = grow(log->sges, &log->sges_size, log->n_sges + num_sge + 1, sizeof(*sges));
	if (sges)
		log->sges = sges;
	if (!notes || !sges) {
		log->incomplete = true;
		return;
	}
	log->notes[log->n++] = (struct mesh_recv_note){.wr_id = wr->wr_id, .num_sge = (int)num_sge};
	if (num_sge)
		memcpy(&log->sges[log->n_sges], wr->sg_list, num_sge * sizeof(*wr->sg_list));
	log->n_sges += num_sge;
}

void mesh_recvlog_fini(struct mesh_recvlog *log)
{
	free(log->notes);
	free(log->sges);
	memset(log, 0, sizeof(*log));
}
