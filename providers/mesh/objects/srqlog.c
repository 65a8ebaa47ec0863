// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "srqlog.h"

int mesh_srqlog_init(struct mesh_srqlog *log, uint32_t size, uint32_t max_sge)
{
	memset(log, 0, sizeof(*log));
	log->size = size;
	log->max_sge = max_sge;
	log->stride = sizeof(struct mesh_srq_recv) + max_sge * sizeof(struct ibv_sge);
	log->places = calloc(size ? size : 1, log->stride);
	return log->places ? 0 : -ENOMEM;
}

void mesh_srqlog_fini(struct mesh_srqlog *log)
{
	free(log->places);
	memset(log, 0, sizeof(*log));
}

static struct mesh_srq_recv *place(const struct mesh_srqlog *log, uint32_t at)
{
	uint32_t i = log->head + at;

	return (struct mesh_srq_recv *)(void *)(log->places + (size_t)(i >= log->size ? i - log->size : i) * log->stride);
}

static void pop(struct mesh_srqlog *log)
{
	log->n_left -= !place(log, 0)->gone;
	log->head = log->head + 1 == log->size ? 0 : log->head + 1;
	log->n--;
}

static void pop_gone(struct mesh_srqlog *log)
{
	while (log->n && place(log, 0)->gone)
		pop(log);
}

/* Close the gaps of out-of-order consumption. Each gap was made by one call, so this is cheap on average. */
static void compact(struct mesh_srqlog *log)
{
	uint32_t from, to = 0;

	for (from = 0; from < log->n; from++) {
		if (place(log, from)->gone)
			continue;
		if (from != to)
			memcpy(place(log, to), place(log, from), log->stride);
		to++;
	}
	log->n = to;
}

void mesh_srqlog_push(struct mesh_srqlog *log, uint64_t wr_id, const struct ibv_sge *sges, int num_sge)
{
	struct mesh_srq_recv *to;

	if (log->n == log->size && log->n_left < log->n)
		compact(log);
	if (log->n == log->size)
		pop(log);
	to = place(log, log->n++);
	log->n_left++;
	to->wr_id = wr_id;
	to->gone = false;
	to->num_sge = num_sge > 0 ? num_sge : 0;
	if (to->num_sge)
		memcpy(to->sges, sges, (size_t)num_sge * sizeof(*sges));
}

void mesh_srqlog_clear(struct mesh_srqlog *log)
{
	log->head = log->n = log->n_left = 0;
}

struct mesh_srq_recv *mesh_srqlog_first(struct mesh_srqlog *log)
{
	return log->n ? place(log, 0) : NULL;
}

struct mesh_srq_recv *mesh_srqlog_at(struct mesh_srqlog *log, uint32_t i)
{
	return place(log, i);
}

struct mesh_srq_recv *mesh_srqlog_find(struct mesh_srqlog *log, uint64_t wr_id, bool last)
{
	struct mesh_srq_recv *recv;
	uint32_t i;

	for (i = 0; i < log->n; i++) {
		recv = place(log, last ? log->n - 1 - i : i);
		if (!recv->gone && recv->wr_id == wr_id)
			return recv;
	}
	return NULL;
}

void mesh_srqlog_drop(struct mesh_srqlog *log, struct mesh_srq_recv *recv)
{
	recv->gone = true;
	log->n_left--;
	pop_gone(log);
}
