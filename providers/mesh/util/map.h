/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MAP_H
#define MESH_MAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * From a verbs object of the program to what we keep of it. Looked up by every call of the data path, so without a lock;
 * changed under one of the caller's.
 *
 * Nodes are never freed before the map is, and a node stays in its bucket for ever: it is used again there with another
 * key. So whoever walks a chain while it changes sees nodes that are there, and no key twice.
 */

#define MESH_MAP_BUCKETS 1024u

struct mesh_map_node {
	struct mesh_map_node *next; /* constant once linked */
	_Atomic(const void *) key; /* NULL: free */
	_Atomic(void *) value;
};

struct mesh_map {
	_Atomic(struct mesh_map_node *) *_Atomic buckets; /* NULL: nothing was ever put here */
};

static inline size_t mesh_map_bucket(const void *key)
{
	return (size_t)(((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15ull >> 54) & (MESH_MAP_BUCKETS - 1);
}

/**
 * mesh_map_get - what is kept of an object
 * @key: alive, and not being put or dropped at this moment if the caller expects it there
 *
 * Return: the value or NULL. Any thread, no lock.
 */
static inline void *mesh_map_get(const struct mesh_map *map, const void *key)
{
	_Atomic(struct mesh_map_node *) *buckets = atomic_load_explicit(&map->buckets, memory_order_acquire);
	struct mesh_map_node *node;

	if (!buckets)
		return NULL;
	for (node = atomic_load_explicit(&buckets[mesh_map_bucket(key)], memory_order_acquire); node; node = node->next)
		if (atomic_load_explicit(&node->key, memory_order_acquire) == key)
			return atomic_load_explicit(&node->value, memory_order_acquire);
	return NULL;
}

/**
 * mesh_map_put - keep @value of @key, in place of what was kept before
 *
 * Callers serialise. Return: 0 or -ENOMEM.
 */
int mesh_map_put(struct mesh_map *map, const void *key, void *value);

/** mesh_map_drop - keep nothing of @key any more; returns what was there. Callers serialise. */
void *mesh_map_drop(struct mesh_map *map, const void *key);

/** mesh_map_any - any value that is there, NULL: empty; callers serialise */
void *mesh_map_any(const struct mesh_map *map);

/** mesh_map_fini - free all nodes; nobody looks any more */
void mesh_map_fini(struct mesh_map *map);

#endif
