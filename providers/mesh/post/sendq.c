// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "postint.h"

/*
 * Queue of waiting sends: before the connection is agreed, while a remote key is asked for, and during a drain. All
 * memory is allocated in advance, so that no post fails for lack of memory.
 */

int mesh_sendq_init(struct mesh_sendq *q, const struct ibv_qp_cap *cap)
{
	size_t align = _Alignof(struct mesh_send);

	q->size = cap->max_send_wr;
	q->max_sge = cap->max_send_sge ? cap->max_send_sge : 1;
	q->max_inline = cap->max_inline_data;
	q->stride = sizeof(struct mesh_send) + q->max_sge * sizeof(struct ibv_sge) + q->max_inline;
	q->stride = (q->stride + align - 1) / align * align;
	q->head = q->n = 0;
	q->places = malloc(q->size ? q->size * q->stride : 1); /* not zeroed: mostly unused, and hundreds are allocated at once */
	if (!q->places)
		mesh_sendq_fini(q); /* frees nothing */
	return q->places ? 0 : -ENOMEM;
}

void mesh_sendq_fini(struct mesh_sendq *q)
{
	free(q->places);
	memset(q, 0, sizeof(*q));
}

/* The program may reuse inline data after the post. */
static int copy_inline(const struct mesh_sendq *q, struct mesh_send *to, const struct ibv_send_wr *wr)
{
	char *data = (char *)&to->sges[q->max_sge];
	uint32_t used = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > q->max_inline - used)
			return ENOMEM;
		memcpy(data + used, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		used += wr->sg_list[i].length;
	}
	to->sges[0] = (struct ibv_sge){.addr = (uintptr_t)data, .length = used};
	to->wr.num_sge = used ? 1 : 0;
	return 0;
}

int mesh_sendq_push(struct mesh_sendq *q, const struct ibv_send_wr *wr)
{
	struct mesh_send *to;
	int err;

	if (wr->opcode > IBV_WR_ATOMIC_FETCH_AND_ADD)
		return EINVAL;
	if (q->n == q->size || wr->num_sge < 0 || (uint32_t)wr->num_sge > q->max_sge)
		return ENOMEM;
	to = mesh_sendq_place(q, q->n);
	to->wr = *wr;
	to->wr.next = NULL;
	to->wr.sg_list = to->sges;
	if (wr->send_flags & IBV_SEND_INLINE) {
		err = copy_inline(q, to, wr);
		if (err)
			return err;
	} else if (wr->num_sge) {
		memcpy(to->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
	}
	q->n++;
	return 0;
}
