// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdlib.h>

#include "conn.h"

/* KEY_DROPs of all connections by key, for mesh_conns_key_given(): process->drops.all, under process->drops.lock. */
struct mesh_drops {
	LIST_HEAD(mesh_drop_bucket, mesh_conn_key) buckets[1 << MESH_KEY_BITS];
};

uint32_t mesh_key_hash_of(uint32_t rkey)
{
	return rkey * 2654435761u >> (32 - MESH_KEY_BITS);
}

static struct mesh_drop_bucket *bucket_of(struct mesh_drops *drops, uint32_t rkey)
{
	return &drops->buckets[mesh_key_hash_of(rkey)];
}

/* Called with keys.lock. Return: false: no memory. */
bool mesh_key_drop_begins(struct mesh_conn_key *key)
{
	struct mesh_process *process = mesh_root.process;
	bool done;

	mesh_lock(&process->drops.lock);
	if (!process->drops.all)
		process->drops.all = calloc(1, sizeof(*process->drops.all));
	done = process->drops.all;
	if (done) {
		LIST_INSERT_HEAD(bucket_of(process->drops.all, key->key), key, of_drops);
		key->conn->keys.n_drops++;
		atomic_fetch_add_explicit(&process->drops.n, 1, memory_order_release);
	}
	mesh_unlock(&process->drops.lock);
	return done;
}

/* Called with keys.lock. */
void mesh_key_drop_ends(struct mesh_conn_key *key)
{
	struct mesh_process *process = mesh_root.process;

	mesh_lock(&process->drops.lock);
	LIST_REMOVE(key, of_drops);
	key->conn->keys.n_drops--;
	atomic_fetch_sub_explicit(&process->drops.n, 1, memory_order_relaxed);
	mesh_unlock(&process->drops.lock);
}

/*
 * Does a peer of the context possibly use the old translation of the key, and is that peer likely to answer?
 * @unheard: the caller waited in vain: ignore these peers until they answer anything
 */
bool mesh_key_drop_waits(const struct mesh_context *mc, uint32_t rkey, bool unheard)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_conn_key *key;
	bool used = false;

	if (!atomic_load_explicit(&process->drops.n, memory_order_acquire))
		return false;
	mesh_lock(&process->drops.lock);
	key = process->drops.all ? LIST_FIRST(bucket_of(process->drops.all, rkey)) : NULL;
	for (; key; key = LIST_NEXT(key, of_drops)) {
		if (key->key != rkey || key->conn->mc != mc ||
		    atomic_load_explicit(&key->conn->flags.drops_unheard, memory_order_relaxed))
			continue;
		used = true;
		if (!unheard)
			break;
		atomic_store_explicit(&key->conn->flags.drops_unheard, true, memory_order_relaxed);
	}
	mesh_unlock(&process->drops.lock);
	return used;
}
