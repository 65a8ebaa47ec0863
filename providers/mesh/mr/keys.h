/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_KEYS_H
#define MESH_KEYS_H

#include "keytab.h"
#include "rails.h"

/*
 * Keys of the program's memory regions and what they are on other rails.
 *
 * While root.moves is set, what each region is registered with is noted down. On a rail a region is registered with
 * the first use of its key there, and stays until the program deregisters or changes it, or deallocates its PD. Keys
 * that cannot be had there keep the connections of their PD where they are: pdstay.h. mrsources.h says which are which.
 *
 * Any thread. Nobody calls these functions with a lock that is taken in root.key_dropped or with keys_lock.
 */

/**
 * mesh_key_local - translate an lkey
 * @spd: the PD of the queue pair that is to use it
 * @ret_lkey: always written: a key that fails every access, with a local protection error as bare, unless 0 is returned
 *
 * To be kept by callers as long as mesh_keys_epoch() stays what it was before the call; failures are not to be
 * kept. Found ones take a lock and a look-up; the first use on a rail registers memory there. The key of a work
 * request with inline data means nothing and is not to be asked for.
 *
 * Return: 0; -ENOENT: no such key in the PD; -ENOMEM; -errno of the registration on the rail.
 */
int mesh_key_local(struct mesh_pd *spd, uint32_t lkey, uint32_t *ret_lkey);

/**
 * mesh_key_remote - translate an rkey that the program gave to its peer
 * @ret_rkey: always written, as above
 *
 * When the region goes, root.key_dropped is called if this was ever asked of it.
 */
int mesh_key_remote(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey);

/**
 * mesh_key_remote_ready - the same, if nothing has to be registered for it, nor waited for
 *
 * Return: 0 with @ret_rkey; -EAGAIN: something would have; -ENOENT.
 */
int mesh_key_remote_ready(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey);

/**
 * mesh_key_ahead - register a region on a rail before its key is used there; keyahead.c
 *
 * Nothing is logged. Return: as mesh_key_local(); after a failure it is not tried ahead again.
 */
int mesh_key_ahead(struct mesh_pd *spd, uint32_t lkey);

/** mesh_keys_drop_unused - what was registered ahead and not used since goes. Return: was there any? */
bool mesh_keys_drop_unused(void);

/**
 * mesh_keys_epoch - changes whenever a translation that was given out becomes wrong
 *
 * It changes before the region on the rail goes.
 */
static inline uint64_t mesh_keys_epoch(void)
{
	return atomic_load_explicit(&mesh_root.process->keys_epoch, memory_order_acquire);
}

/** mesh_keys_leave_pd - a PD on a rail goes: nobody finds its regions any more; keys_lock (pds.c) */
void mesh_keys_leave_pd(struct mesh_pd *spd);
/** mesh_keys_drop_pd - and they go, after that. Nobody may use the PD any more; no lock (pds.c) */
void mesh_keys_drop_pd(struct mesh_pd *spd);

/** mesh_keys_close - a context is being closed: forget its regions */
void mesh_keys_close(struct ibv_context *verbs);

/* Verbs entry points; contracts are those of libibverbs. */
struct ibv_mr *mesh_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
struct ibv_mr *mesh_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				  int access);
struct ibv_mr *mesh_reg_mr_ex(struct ibv_pd *pd, struct mesh_mr_init_attr *attr);
struct ibv_mr *mesh_alloc_null_mr(struct ibv_pd *pd);
int mesh_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access);
int mesh_dereg_mr(struct ibv_mr *mr);

/* keys.c keyshadow.c */

/** mesh_keys_make_shadow - register it on that rail; keys_lock, which is let go meanwhile. Return: 0; -errno */
int mesh_keys_make_shadow(struct mesh_key *key, struct mesh_pd *spd, bool ahead) MV_REQUIRES(&mesh_root.process->keys_lock);
/** mesh_shadow_mr_drop - nothing refers to it any more: its device's thread takes it away */
void mesh_shadow_mr_drop(struct mesh_shadow_mr *shadow);
/** mesh_keys_table - where the table is; keys_lock */
struct mesh_keytab **mesh_keys_table(void);
/** mesh_key_free - the last one who refers to it has let go */
void mesh_key_free(struct mesh_key *key);

#endif
