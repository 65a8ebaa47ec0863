// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmabuf.h"
#include "keys.h"

/* Shadows of regions on other rails: made at the first use of a key, or in advance. */

#define ESSENTIAL_ACCESS                                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                       \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

static struct ibv_mr *register_with(const struct mesh_key *key, struct mesh_pd *spd, int access)
{
	const struct mesh_library *lib = &mesh_root.lib;
	int fd;

	if (!mesh_rail_intact(spd->rail)) {
		errno = EBADF;
		return NULL;
	}
	if (key->null_mr)
		return ibv_alloc_null_mr(spd->pd);
	if (!key->dmabuf)
		return lib->verbs.reg_mr_iova2(spd->pd, key->addr, key->length, key->iova, (unsigned int)access);
	fd = mesh_dmabuf_fd(key->dmabuf);
	if (!lib->reg_dmabuf_mr || fd < 0) {
		errno = EBADF;
		return NULL;
	}
	return lib->reg_dmabuf_mr(spd->pd, key->dmabuf_offset, key->length, key->iova, fd, access);
}

/* Called without the lock. @key: copied under the lock. Return: NULL with @ret_err. */
static struct ibv_mr *register_on(const struct mesh_key *key, struct mesh_pd *spd, int *ret_err)
{
	struct ibv_mr *mr = register_with(key, spd, key->access);

	/* A NIC of another vendor may lack optional access flags, which only affect performance. */
	if (!mr && key->access & ~ESSENTIAL_ACCESS)
		mr = register_with(key, spd, key->access & ESSENTIAL_ACCESS);
	*ret_err = mr ? 0 : errno ? -errno : -EIO;
	return mr;
}

static struct mesh_shadow_mr *find_shadow(const struct mesh_key *key, const struct mesh_pd *spd)
{
	struct mesh_shadow_mr *shadow;

	LIST_FOREACH(shadow, &key->shadows, of_key)
		if (shadow->spd == spd)
			return shadow;
	return NULL;
}

/* process->keys.lock. Return: a shadow without MR, for mesh_keys_make_shadow(); NULL: no memory. */
static struct mesh_shadow_mr *shadow_new(struct mesh_key *key, struct mesh_pd *spd)
{
	struct mesh_shadow_mr *shadow = calloc(1, sizeof(*shadow));

	if (!shadow)
		return NULL;
	shadow->key = key;
	shadow->spd = spd;
	LIST_INSERT_HEAD(&key->shadows, shadow, of_key);
	LIST_INSERT_HEAD(&spd->shadows, shadow, of_pd);
	key->n_makers++;
	return shadow;
}

/* process->keys.lock, released meanwhile. The region was deregistered while the shadow was made: drop the shadow. */
MV_REQUIRES(&mesh_root.process->keys.lock) static void drop_late(struct mesh_shadow_mr *shadow, struct mesh_key *key)
{
	bool last = key->gone && !key->n_makers;

	if (shadow)
		shadow->spd->refs++;
	mesh_unlock(&mesh_root.process->keys.lock);
	if (shadow)
		mesh_shadow_mr_drop(shadow);
	if (last)
		mesh_key_free(key);
	mesh_lock(&mesh_root.process->keys.lock);
}

/*
 * process->keys.lock, released meanwhile: a registration may take long, and a firmware that hangs seconds. Threads that need the
 * region on another rail, or deregister it, do not wait.
 *
 * Return: 0 or -errno. The shadow may be gone already when this returns.
 */
int mesh_keys_make_shadow(struct mesh_key *key, struct mesh_pd *spd, bool in_advance)
{
	struct mesh_shadow_mr *shadow = shadow_new(key, spd);
	const struct mesh_key with = *key; /* the program may register the region anew */
	struct ibv_mr *mr;
	int err;

	if (!shadow)
		return -ENOMEM;
	mesh_unlock(&mesh_root.process->keys.lock);
	mr = register_on(&with, spd, &err);
	if (err && !in_advance)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "a memory region of %llu bytes cannot be registered on %s: %s",
			    (unsigned long long)with.length, spd->rail->device, strerrordesc_np(-err));
	mesh_lock(&mesh_root.process->keys.lock);
	key->n_makers--;
	shadow->mr = mr;
	if (shadow->key && err) {
		LIST_REMOVE(shadow, of_key);
		LIST_REMOVE(shadow, of_pd);
		key->no_prereg |= in_advance;
	}
	pthread_cond_broadcast(&mesh_root.process->keys.cond);
	if (shadow->key && !err)
		return 0;
	if (err) {
		free(shadow);
		shadow = NULL;
	}
	drop_late(shadow, key);
	return err;
}

/* Return: 0 with @ret_mr, which is valid while the lock is held. */
MV_REQUIRES(&mesh_root.process->keys.lock)
static int translate_locked(struct mesh_pd *spd, enum mesh_key_index index, uint32_t value, bool in_advance,
			    struct ibv_mr **ret_mr)
{
	struct mesh_shadow_mr *shadow;
	struct mesh_key *key;
	int err;

	/* After the lock was released, everything is looked up again. */
	while ((key = mesh_mr_table_find(*mesh_keys_table(), index, spd->program, value))) {
		shadow = find_shadow(key, spd);
		if (shadow && !shadow->mr) {
			mesh_cond_wait(&mesh_root.process->keys.cond, &mesh_root.process->keys.lock);
			continue;
		}
		if (shadow) {
			shadow->used |= !in_advance;
			shadow->told |= index == MESH_BY_RKEY;
			*ret_mr = shadow->mr;
			return 0;
		}
		err = mesh_keys_make_shadow(key, spd, in_advance);
		if (err)
			return err;
	}
	return -ENOENT;
}

static int translate(struct mesh_pd *spd, enum mesh_key_index index, uint32_t value, uint32_t *ret)
{
	struct ibv_mr *mr = spd->dummy;
	int saved_errno = errno, cancel = mesh_keys_lock(), err;

	err = translate_locked(spd, index, value, false, &mr);
	*ret = index == MESH_BY_LKEY ? mr->lkey : mr->rkey;
	mesh_keys_unlock(cancel);
	errno = saved_errno;
	return err;
}

int mesh_key_local(struct mesh_pd *spd, uint32_t lkey, uint32_t *ret_lkey)
{
	return translate(spd, MESH_BY_LKEY, lkey, ret_lkey);
}

int mesh_key_remote(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey)
{
	return translate(spd, MESH_BY_RKEY, rkey, ret_rkey);
}

int mesh_key_remote_ready(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey)
{
	int cancel = mesh_keys_lock();
	struct mesh_key *key = mesh_mr_table_find(*mesh_keys_table(), MESH_BY_RKEY, spd->program, rkey);
	struct mesh_shadow_mr *shadow = key ? find_shadow(key, spd) : NULL;

	if (shadow && !shadow->mr)
		shadow = NULL;
	if (shadow) {
		shadow->used = shadow->told = true;
		*ret_rkey = shadow->mr->rkey;
	}
	mesh_keys_unlock(cancel);
	return shadow ? 0 : key ? -EAGAIN : -ENOENT;
}

int mesh_mr_prereg_one(struct mesh_pd *spd, uint32_t lkey)
{
	int saved_errno = errno, cancel = mesh_keys_lock(), err;
	struct ibv_mr *mr;

	err = translate_locked(spd, MESH_BY_LKEY, lkey, true, &mr);
	mesh_keys_unlock(cancel);
	errno = saved_errno;
	return err;
}
