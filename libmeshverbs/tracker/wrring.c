/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "wrring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A place: the work request, its scatter/gather list, then its inline data. */
struct place {
	struct ibv_send_wr wr; /* num_sge: entries that follow, 0 for inline */
	uint32_t inline_bytes;
	uint32_t psns;
	struct ibv_sge sges[];
};

static struct place *place_at(const struct mv_wrring *ring, uint32_t i)
{
	return (struct place *)(void *)(ring->places +
					(size_t)(i & (ring->size - 1)) * ring->stride);
}

static char *data_of(const struct mv_wrring *ring, struct place *place)
{
	return (char *)(place->sges + ring->log.max_sge);
}

static uint64_t length_of(const struct place *place)
{
	uint64_t length = place->inline_bytes;

	for (int i = 0; i < place->wr.num_sge; i++)
		length += place->sges[i].length;
	return length;
}

/* ---- what wrlog.h takes ------------------------------------------------------------------------
 */

static const struct mv_wrring *of_log(const struct mv_wrlog *log)
{
	return (const struct mv_wrring *)(const void *)log; /* @log is its first member */
}

static size_t count(const struct mv_wrlog *log)
{
	const struct mv_wrring *ring = of_log(log);

	return ring->head - ring->tail;
}

static int get(const struct mv_wrlog *log, size_t i, struct ibv_sge *sges, void *data,
	       struct mv_wr *ret)
{
	const struct mv_wrring *ring = of_log(log);
	struct place *place = place_at(ring, ring->tail + (uint32_t)i);

	*ret = (struct mv_wr){.wr = place->wr, .length_bytes = length_of(place)};
	ret->wr.sg_list = sges;
	if (place->inline_bytes) {
		memcpy(data, data_of(ring, place), place->inline_bytes);
		sges[0] = (struct ibv_sge){.addr = (uintptr_t)data, .length = place->inline_bytes};
		ret->wr.num_sge = 1;
	} else if (place->wr.num_sge) {
		memcpy(sges, place->sges, (size_t)place->wr.num_sge * sizeof(*sges));
	}
	return 0;
}

static const struct mv_wrlog_ops ops = {.count = count, .get = get};

/* ---- life --------------------------------------------------------------------------------------
 */

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t n = 1;

	while (n < at_least)
		n *= 2;
	return n;
}

void mv_wrring_init(struct mv_wrring *ring, const struct ibv_qp_cap *cap, bool sq_sig_all)
{
	uint32_t max_sge = cap->max_send_sge ? cap->max_send_sge : 1;
	size_t align = _Alignof(struct place);

	*ring = (struct mv_wrring){
		.log = {.ops = &ops, .max_sge = max_sge, .max_inline_bytes = cap->max_inline_data},
		.size = power_of_two(cap->max_send_wr),
		.max_wr = cap->max_send_wr,
		.mtu_bytes = 256,
		.sq_sig_all = sq_sig_all};
	ring->stride =
		sizeof(struct place) + max_sge * sizeof(struct ibv_sge) + cap->max_inline_data;
	ring->stride = (ring->stride + align - 1) / align * align;
}

int mv_wrring_room(struct mv_wrring *ring)
{
	if (!ring->places)
		ring->places = calloc(ring->size, ring->stride);
	return ring->places ? 0 : -ENOMEM;
}

void mv_wrring_fini(struct mv_wrring *ring)
{
	free(ring->places);
	ring->places = NULL;
}

void mv_wrring_connect(struct mv_wrring *ring, uint32_t mtu_bytes, uint32_t sq_psn)
{
	ring->head = 0;
	ring->tail = 0;
	ring->n_sent = 0;
	ring->mtu_bytes = mtu_bytes;
	ring->first_psn = sq_psn & MV_PSN_MASK;
}

/* ---- posting -----------------------------------------------------------------------------------
 */

/* Return: number of bytes; -EINVAL. */
static int copy_inline(const struct mv_wrring *ring, struct place *place,
		       const struct ibv_send_wr *wr)
{
	char *data = data_of(ring, place);
	uint32_t n = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > ring->log.max_inline_bytes - n)
			return -EINVAL;
		memcpy(data + n, (const void *)(uintptr_t)sge->addr, sge->length);
		n += sge->length;
	}
	return (int)n;
}

int mv_wrring_add(struct mv_wrring *ring, const struct ibv_send_wr *wr)
{
	struct place *place = place_at(ring, ring->head);
	int n = 0;

	if (ring->head - ring->tail >= ring->max_wr)
		return -ENOSPC;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > ring->log.max_sge)
		return -EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE) {
		n = copy_inline(ring, place, wr);
		if (n < 0)
			return n;
	} else if (wr->num_sge) {
		memcpy(place->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*wr->sg_list));
	}
	place->wr = *wr;
	place->wr.next = NULL;
	place->wr.sg_list = NULL;
	if (wr->send_flags & IBV_SEND_INLINE)
		place->wr.num_sge = 0;
	if (ring->sq_sig_all)
		place->wr.send_flags |= IBV_SEND_SIGNALED;
	place->inline_bytes = (uint32_t)n;
	place->psns = mv_psn_count(wr->opcode, length_of(place), ring->mtu_bytes);
	if (!place->psns)
		return -EINVAL;
	ring->head++;
	ring->n_sent += mv_psn_consumes(wr->opcode);
	return 0;
}

void mv_wrring_undo(struct mv_wrring *ring, uint32_t n)
{
	while (n--) {
		ring->head--;
		ring->n_sent -= mv_psn_consumes(place_at(ring, ring->head)->wr.opcode);
	}
}

void mv_wrring_retire_n(struct mv_wrring *ring, uint32_t n)
{
	while (n--) {
		ring->first_psn = mv_psn_add(ring->first_psn, place_at(ring, ring->tail)->psns);
		ring->tail++;
	}
}

const struct ibv_send_wr *mv_wrring_at(const struct mv_wrring *ring, uint32_t i)
{
	return i < ring->head - ring->tail ? &place_at(ring, ring->tail + i)->wr : NULL;
}

const struct ibv_send_wr *mv_wrring_first_signaled(const struct mv_wrring *ring)
{
	for (uint32_t i = ring->tail; i != ring->head; i++)
		if (place_at(ring, i)->wr.send_flags & IBV_SEND_SIGNALED)
			return &place_at(ring, i)->wr;
	return NULL;
}

bool mv_wrring_has(const struct mv_wrring *ring, uint64_t wr_id, uint32_t *at)
{
	uint32_t n = ring->head - ring->tail, first = *at - ring->tail;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t of = ring->tail + (i + (first < n ? first : 0)) % n;

		if (place_at(ring, of)->wr.wr_id == wr_id) {
			*at = of + 1;
			return true;
		}
	}
	return false;
}

enum mv_atomics mv_wrring_atomics(const struct mv_wrring *ring)
{
	enum mv_atomics found = MV_ATOMICS_SILENT;

	for (uint32_t i = ring->head; i-- != ring->tail;) {
		const struct ibv_send_wr *wr = &place_at(ring, i)->wr;

		if (wr->send_flags & IBV_SEND_SIGNALED)
			found = MV_ATOMICS_TOLD;
		if (mv_wr_is_atomic(wr))
			return found;
	}
	return MV_ATOMICS_NONE;
}

int mv_wrring_retire(struct mv_wrring *ring, uint64_t wr_id)
{
	for (uint32_t i = ring->tail; i != ring->head; i++) {
		const struct place *place = place_at(ring, i);

		if (!(place->wr.send_flags & IBV_SEND_SIGNALED))
			continue;
		if (place->wr.wr_id != wr_id)
			return -EILSEQ;
		i = i + 1 - ring->tail;
		mv_wrring_retire_n(ring, i);
		return (int)i;
	}
	return -ENOENT;
}
