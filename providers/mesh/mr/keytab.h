/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_KEYTAB_H
#define MESH_KEYTAB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <infiniband/verbs.h>

#include "devices.h"

/*
 * Memory regions of the program, found by their pointer and by (PD, key). Callers serialise; nothing here calls anything
 * but the allocator.
 */

struct mesh_pd;
struct mesh_key;
struct mesh_dmabuf;

/* A region's counterpart in a PD on a rail: one for each pair of region and PD. */
struct mesh_shadow_mr {
	struct mesh_device_job job; /* its end */
	LIST_ENTRY(mesh_shadow_mr) of_key, of_pd;
	struct mesh_key *key; /* NULL: the region has gone while it was being registered */
	struct mesh_pd *spd;
	struct ibv_mr *mr; /* NULL: some thread is registering it, without the lock */
	bool used; /* its keys were given out; else it was made ahead, and nobody would miss it */
	bool told; /* a peer was told its remote key */
};

enum mesh_key_index { MESH_BY_MR, MESH_BY_LKEY, MESH_BY_RKEY, MESH_N_INDEXES };

/* What a region was registered with. Everything but the last members is constant while it is in a table. */
struct mesh_key {
	struct mesh_key *next[MESH_N_INDEXES]; /* in its buckets */
	const struct ibv_mr *mr;
	struct ibv_pd *pd; /* never a parent domain */
	struct ibv_context *verbs;
	uint32_t lkey, rkey;
	void *addr; /* memory of the process; not for dma-buf */
	uint64_t length, iova;
	int access;
	bool null_mr; /* ibv_alloc_null_mr(): of no memory */
	struct mesh_dmabuf *dmabuf; /* NULL: not dma-buf */
	uint64_t dmabuf_offset;

	unsigned int n_makers; /* so many threads register it on rails, without the lock */
	bool gone; /* the last of these frees it */
	bool not_ahead; /* registering it failed when it was tried ahead: not again until it is needed */
	LIST_ENTRY(mesh_key) by_age;
	uint64_t nth; /* that was added to its table; anew each time */
	LIST_HEAD(, mesh_shadow_mr) shadows;
};

struct mesh_keytab;

/**
 * mesh_keytab_seen - may a region with that key have been in the table, now or earlier?
 * @index: MESH_BY_LKEY or MESH_BY_RKEY
 *
 * False is certain. @tab may be NULL.
 */
bool mesh_keytab_seen(const struct mesh_keytab *tab, enum mesh_key_index index, const struct ibv_pd *pd, uint32_t key);

/**
 * mesh_keytab_add - add a region
 * @tab: *tab NULL: none yet; allocated then
 *
 * One of the same pointer or keys may be there, left by a program that never deregistered it; the newest is found.
 *
 * Return: 0 or -ENOMEM.
 */
int mesh_keytab_add(struct mesh_keytab **tab, struct mesh_key *key);

/** mesh_keytab_del - take out one that is in there */
void mesh_keytab_del(struct mesh_keytab *tab, struct mesh_key *key);

struct mesh_key *mesh_keytab_find_mr(const struct mesh_keytab *tab, const struct ibv_mr *mr);
/** mesh_keytab_find - @index: MESH_BY_LKEY or MESH_BY_RKEY; NULL: no such key in this PD. @tab may be NULL. */
struct mesh_key *mesh_keytab_find(const struct mesh_keytab *tab, enum mesh_key_index index,
				  const struct ibv_pd *pd, uint32_t key);

/* How far a walk through a table has come; all zero before the first step. */
struct mesh_keytab_walk {
	size_t bucket, n_buckets; /* the table may have grown since */
};

/**
 * mesh_keytab_next_of - the next region of a context that has not been taken out yet
 * @walk: so that taking out all of them is one pass
 *
 * The caller takes out each one before it asks for the next. What others add meanwhile may be overlooked.
 *
 * Return: NULL: there is no more. @tab may be NULL.
 */
struct mesh_key *mesh_keytab_next_of(const struct mesh_keytab *tab, const struct ibv_context *verbs, struct mesh_keytab_walk *walk);

/**
 * mesh_keytab_look - begin to look for regions that are missing on a rail, at the newest; a table has one such walk at a time
 *
 * Return: how many were added to the table so far, 0 if there is none: @after of the next look for that rail, for what is added from now
 * on is not seen by this one.
 */
uint64_t mesh_keytab_look(struct mesh_keytab *tab);

/**
 * mesh_keytab_missing - lkeys of regions of a PD that have no counterpart in @spd and could be made ahead, among those that are next
 * @after: those that were added up to then need no look; 0: all do
 * @ret: room for @max
 * @max: how many regions, of any PD, are looked at; they may be added and taken out before the next call
 *
 * Return: are there more to be looked at? @tab may be NULL.
 */
bool mesh_keytab_missing(struct mesh_keytab *tab, const struct ibv_pd *pd, const struct mesh_pd *spd, uint64_t after, size_t max,
			 uint32_t *ret, size_t *ret_n);

/** mesh_keytab_free - the table alone, not what is in it; NULL is fine */
void mesh_keytab_free(struct mesh_keytab *tab);

#endif
