/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MR_TABLE_H
#define MESH_MR_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <infiniband/verbs.h>

#include "devices.h"

/* Memory regions of the program, found by their pointer, and by (PD, key). Callers serialise. Calls nothing but the allocator. */

struct mesh_pd;
struct mesh_key;
struct mesh_dmabuf;

/* Shadow: counterpart of a region in a PD on a rail, one per pair of region and PD. */
struct mesh_shadow_mr {
	struct mesh_device_job job; /* deregisters it */
	LIST_ENTRY(mesh_shadow_mr) of_key, of_pd;
	struct mesh_key *key; /* NULL: the region was deregistered meanwhile */
	struct mesh_pd *spd;
	struct ibv_mr *mr; /* NULL: a thread is registering it, without the lock */
	bool used; /* its keys were given out; otherwise it may be dropped */
	bool told; /* a peer was told its remote key */
};

enum mesh_key_index { MESH_BY_MR, MESH_BY_LKEY, MESH_BY_RKEY, MESH_N_INDEXES };

/* The arguments of a registration. Constant while in a table, except for the last members. */
struct mesh_key {
	struct mesh_key *next[MESH_N_INDEXES]; /* in hash buckets */
	const struct ibv_mr *mr;
	struct ibv_pd *pd; /* never a parent domain */
	struct ibv_context *verbs;
	uint32_t lkey, rkey;
	void *addr; /* not for dma-buf */
	uint64_t length, iova;
	int access;
	bool null_mr; /* ibv_alloc_null_mr() */
	struct mesh_dmabuf *dmabuf; /* NULL: no dma-buf */
	uint64_t dmabuf_offset;

	unsigned int n_makers; /* number of threads that register it on rails, without the lock */
	bool gone; /* the last of these threads frees it */
	bool no_prereg; /* registration in advance failed: not again before its first use */
	LIST_ENTRY(mesh_key) by_age;
	uint64_t nth; /* serial number in its table; new with each add */
	LIST_HEAD(, mesh_shadow_mr) shadows;
};

struct mesh_mr_table;

/**
 * mesh_mr_table_seen - may the table have, or have had, a region with that key?
 * @index: MESH_BY_LKEY or MESH_BY_RKEY
 *
 * False is certain; true may be a hash collision. @tab may be NULL.
 */
bool mesh_mr_table_seen(const struct mesh_mr_table *tab, enum mesh_key_index index, const struct ibv_pd *pd,
			uint32_t key);

/**
 * mesh_mr_table_add - add a region
 * @tab: *tab NULL: is allocated
 *
 * The table may already have a region with the same pointer or keys, which the program never deregistered: look-ups find the
 * newest.
 *
 * Return: 0 or -ENOMEM.
 */
int mesh_mr_table_add(struct mesh_mr_table **tab, struct mesh_key *key);

/** mesh_mr_table_del - take out a region that is in the table */
void mesh_mr_table_del(struct mesh_mr_table *tab, struct mesh_key *key);

struct mesh_key *mesh_mr_table_find_mr(const struct mesh_mr_table *tab, const struct ibv_mr *mr);
/**
 * mesh_mr_table_find - @index: MESH_BY_LKEY or MESH_BY_RKEY. @tab may be NULL. Return: NULL: no such key in this PD.
 */
struct mesh_key *mesh_mr_table_find(const struct mesh_mr_table *tab, enum mesh_key_index index,
				    const struct ibv_pd *pd, uint32_t key);

/* Position of a walk through a table; zero before the first step. */
struct mesh_mr_table_walk {
	size_t bucket, n_buckets; /* n_buckets tells whether the table has grown */
};

/**
 * mesh_mr_table_next_of - next region of a context
 * @walk: makes taking out all regions one pass
 *
 * The caller takes out each region before the next call. Regions that are added meanwhile may be missed.
 *
 * Return: NULL: there are no more. @tab may be NULL.
 */
struct mesh_key *mesh_mr_table_next_of(const struct mesh_mr_table *tab, const struct ibv_context *verbs,
				       struct mesh_mr_table_walk *walk);

/**
 * mesh_mr_table_look - begin a walk for regions that are missing on a rail, from the newest on; one walk per table at a
 * time
 *
 * Regions that are added during the walk are not seen. Return: last serial number so far, 0 without a table; @after of the next
 * walk for that rail.
 */
uint64_t mesh_mr_table_look(struct mesh_mr_table *tab);

/**
 * mesh_mr_table_missing - continue the walk: lkeys of regions of a PD that have no shadow in @spd, and can be
 * registered in advance
 * @after: regions with serial numbers up to this need no look; 0: all do
 * @ret: array of @max
 * @max: number of regions, of any PD, to look at; the table may change between calls
 *
 * Return: true: the walk is not over. @tab may be NULL.
 */
bool mesh_mr_table_missing(struct mesh_mr_table *tab, const struct ibv_pd *pd, const struct mesh_pd *spd,
			   uint64_t after, size_t max, uint32_t *ret, size_t *ret_n);

/** mesh_mr_table_free - free the table, without its regions; NULL is fine */
void mesh_mr_table_free(struct mesh_mr_table *tab);

#endif
