/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SRQLOG_H
#define MESH_SRQLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* Receives in the order they were posted. */
struct mesh_srqlog {
	char *places; /* a ring of struct mesh_srq_recv, stride bytes apart */
	size_t stride;
	uint32_t size, head, n; /* n counts entries that are gone from the middle, too */
	uint32_t n_left; /* without those */
	uint32_t max_sge;
};

struct mesh_srq_recv {
	uint64_t wr_id;
	int num_sge;
	bool gone;
	struct ibv_sge sges[];
};

int mesh_srqlog_init(struct mesh_srqlog *log, uint32_t size, uint32_t max_sge); /* 0 or -ENOMEM */
void mesh_srqlog_fini(struct mesh_srqlog *log);
/** mesh_srqlog_push - append a receive; without room, drops the first */
void mesh_srqlog_push(struct mesh_srqlog *log, uint64_t wr_id, const struct ibv_sge *sges, int num_sge);
/** mesh_srqlog_clear - drop all entries */
void mesh_srqlog_clear(struct mesh_srqlog *log);
/** mesh_srqlog_first - the oldest entry; NULL: none */
struct mesh_srq_recv *mesh_srqlog_first(struct mesh_srqlog *log);
/** mesh_srqlog_at - the @i-th entry, 0 .. n - 1; may be gone */
struct mesh_srq_recv *mesh_srqlog_at(struct mesh_srqlog *log, uint32_t i);
/** mesh_srqlog_find - the first or the last entry with that wr_id; NULL: none */
struct mesh_srq_recv *mesh_srqlog_find(struct mesh_srqlog *log, uint64_t wr_id, bool last);
/** mesh_srqlog_drop - drop an entry that was consumed, or moved */
void mesh_srqlog_drop(struct mesh_srqlog *log, struct mesh_srq_recv *recv);

#endif
