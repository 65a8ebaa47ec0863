// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>

#include "map.h"

static struct mesh_map_node *find(_Atomic(struct mesh_map_node *) *bucket, const void *key)
{
	struct mesh_map_node *node;

	for (node = atomic_load_explicit(bucket, memory_order_relaxed); node; node = node->next)
		if (atomic_load_explicit(&node->key, memory_order_relaxed) == key)
			return node;
	return NULL;
}

int mesh_map_put(struct mesh_map *map, const void *key, void *value)
{
	_Atomic(struct mesh_map_node *) *buckets = atomic_load_explicit(&map->buckets, memory_order_relaxed), *bucket;
	struct mesh_map_node *node;

	if (!buckets) {
		buckets = calloc(MESH_MAP_BUCKETS, sizeof(*buckets));
		if (!buckets)
			return -ENOMEM;
		atomic_store_explicit(&map->buckets, buckets, memory_order_release);
	}
	bucket = &buckets[mesh_map_bucket(key)];
	node = find(bucket, key);
	if (node) {
		atomic_store_explicit(&node->value, value, memory_order_release);
		return 0;
	}
	node = find(bucket, NULL);
	if (node) {
		atomic_store_explicit(&node->value, value, memory_order_relaxed);
		atomic_store_explicit(&node->key, key, memory_order_release);
		return 0;
	}
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	atomic_init(&node->key, key);
	atomic_init(&node->value, value);
	node->next = atomic_load_explicit(bucket, memory_order_relaxed);
	atomic_store_explicit(bucket, node, memory_order_release);
	return 0;
}

void *mesh_map_drop(struct mesh_map *map, const void *key)
{
	_Atomic(struct mesh_map_node *) *buckets = atomic_load_explicit(&map->buckets, memory_order_relaxed);
	struct mesh_map_node *node = buckets ? find(&buckets[mesh_map_bucket(key)], key) : NULL;

	if (!node)
		return NULL;
	atomic_store_explicit(&node->key, NULL, memory_order_release);
	return atomic_load_explicit(&node->value, memory_order_relaxed);
}

void *mesh_map_any(const struct mesh_map *map)
{
	_Atomic(struct mesh_map_node *) *buckets = atomic_load_explicit(&map->buckets, memory_order_relaxed);
	struct mesh_map_node *node;
	size_t i;

	for (i = 0; buckets && i < MESH_MAP_BUCKETS; i++)
		for (node = atomic_load_explicit(&buckets[i], memory_order_relaxed); node; node = node->next)
			if (atomic_load_explicit(&node->key, memory_order_relaxed))
				return atomic_load_explicit(&node->value, memory_order_relaxed);
	return NULL;
}

void mesh_map_fini(struct mesh_map *map)
{
	_Atomic(struct mesh_map_node *) *buckets = atomic_load_explicit(&map->buckets, memory_order_relaxed);
	struct mesh_map_node *node, *next;
	size_t i;

	for (i = 0; buckets && i < MESH_MAP_BUCKETS; i++) {
		for (node = atomic_load_explicit(&buckets[i], memory_order_relaxed); node; node = next) {
			next = node->next;
			free(node);
		}
	}
	free(buckets);
	atomic_store_explicit(&map->buckets, NULL, memory_order_relaxed);
}
