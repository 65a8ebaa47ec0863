// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "vqp_failover.h"
#include "vqp_int.h"

/* Remote keys that a queue pair knows for its current rail, or for its next. */

/* Number of work requests of each log that are searched for keys: most programs use one or two keys. */
#define LOOKED_AT 8u

/* NULL: no key was ever translated. */
static struct mesh_rkey *place_of(struct mesh_vqp_keys *keys, uint32_t rkey)
{
	return keys->places ? &keys->places->rkeys[rkey >> 8 & (MESH_KEYS - 1)] : NULL;
}

/* vqp->lock */
static void know(struct mesh_vqp_keys *keys, uint32_t rkey, uint32_t path_rkey)
{
	struct mesh_rkey *known = place_of(keys, rkey);

	if (known)
		*known = (struct mesh_rkey){.key = rkey, .path_key = path_rkey, .state = MESH_RKEY_KNOWN};
}

void mesh_vqp_put_key(struct mesh_vqp *h, uint32_t rkey, uint32_t path_rkey)
{
	mesh_lock(&h->lock);
	know(&h->keys, rkey, path_rkey);
	mesh_post_drain(h);
	mesh_unlock(&h->lock);
}

void mesh_vqp_drop_key(struct mesh_vqp *h, uint32_t rkey)
{
	struct mesh_rkey *known;
	bool asked = false;

	mesh_lock(&h->lock);
	known = place_of(&h->keys, rkey);
	if (known && known->key == rkey) {
		asked = known->state == MESH_RKEY_ASKED;
		known->state = MESH_RKEY_NONE;
	}
	if (asked)
		mesh_post_drain(h); /* sends that wait for the key ask again */
	mesh_unlock(&h->lock);
}

void mesh_vqp_drop_keys(struct mesh_vqp *h)
{
	mesh_lock(&h->lock);
	if (h->keys.places)
		memset(h->keys.places->rkeys, 0, sizeof(h->keys.places->rkeys));
	mesh_unlock(&h->lock);
}

void mesh_vqp_forget_keys(struct mesh_vqp_keys *keys)
{
	if (keys->places)
		memset(keys->places, 0, sizeof(*keys->places));
}

/* ---- keys that will be needed -------------------------------------------------------------------------------- */

bool mesh_vqp_awaits_key(struct mesh_vqp *h)
{
	const struct mesh_rkey *known;
	uint32_t key;

	if (!h->queue.n || !mesh_wr_remote_key(&mesh_sendq_place(&h->queue, 0)->wr, &key))
		return false;
	known = place_of(&h->keys, key);
	return known && known->key == key && known->state == MESH_RKEY_ASKED;
}

size_t mesh_failover_remote_keys(struct mesh_vqp *h, uint32_t ret[MESH_FAILOVER_KEYS])
{
	const struct ibv_send_wr *logged;
	struct ibv_send_wr wr;
	uint32_t i;
	size_t n = 0;
	uint16_t at;

	/* Takes the CQ's CQE lock without stopping posts: the move may only be a suspicion. */
	mesh_cqe_lock(h->send_cq);
	mesh_lock(&h->lock);
	for (i = 0; h->tracker && i < LOOKED_AT && (logged = mv_wrring_at(&h->tracker->sends, i)); i++)
		n = mesh_vqp_note_key(logged, ret, n);
	if (h->tracker && mesh_tracker_reads(h->tracker))
		for (i = 0, at = h->tracker->walker->sq_at; i < LOOKED_AT && mesh_walker_send(h, &at, &wr); i++)
			n = mesh_vqp_note_key(&wr, ret, n);
	mesh_unlock(&h->lock);
	mesh_cqe_unlock(h->send_cq);
	return n;
}

void mesh_vqp_take_keys(struct mesh_vqp_keys *keys, const struct mesh_failover_keys *more)
{
	size_t i;

	for (i = 0; more && i < more->n; i++)
		know(keys, more->keys[i].rkey, more->keys[i].path_rkey);
}
