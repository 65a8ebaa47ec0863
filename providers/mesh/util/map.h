/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MAP_H
#define MESH_MAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Map from a verbs object of the program to its record. Look-ups, in each call of the data path, take no lock. Callers serialise
 * changes.
 *
 * Nodes are not freed before the map. A node stays in its bucket for ever, and is reused there with another key. So a look-up
 * during a change sees valid nodes, and no key twice.
 */

#define MESH_MAP_BUCKETS 1024u

struct mesh_map_node {
	struct mesh_map_node *next; /* constant once linked */
	_Atomic(const void *) key; /* NULL: free */
	_Atomic(void *) value;
};

struct mesh_map {
	_Atomic(struct mesh_map_node *) *_Atomic buckets; /* NULL: the map was never used */
};

static inline size_t mesh_map_bucket(const void *key)
{
	return (size_t)(((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15ull >> 54) & (MESH_MAP_BUCKETS - 1);
}

/**
 * mesh_map_get - look up the record of an object
 * @key: alive; the caller excludes a concurrent put or drop of it, if it relies on the result
 *
 * Any thread; no lock. Return: the value, or NULL.
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
 * mesh_map_put - set the value of @key; replaces an earlier one
 *
 * Callers serialise. Return: 0 or -ENOMEM.
 */
int mesh_map_put(struct mesh_map *map, const void *key, void *value);

/** mesh_map_drop - remove @key. Return: its value; NULL: none. Callers serialise. */
void *mesh_map_drop(struct mesh_map *map, const void *key);

/** mesh_map_any - any value; NULL: the map is empty. Callers serialise. */
void *mesh_map_any(const struct mesh_map *map);

/** mesh_map_fini - free all nodes; no look-up may be running */
void mesh_map_fini(struct mesh_map *map);

#endif
