/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_KEYS_H
#define MESH_KEYS_H

#include "mr_table.h"
#include "rails.h"

/*
 * Keys of the program's memory regions, and their counterparts ("shadows") on other rails.
 *
 * While root.moves is set, the arguments of each registration are recorded. A region is registered on a rail at the first use of
 * its key there. The shadow lives until the program deregisters or changes the region, or deallocates its PD. A key that cannot
 * be had on other rails keeps the connections of its PD from moving: pdstay.h. mrsources.h lists which keys those are.
 *
 * Thread: any. Locks: not with process->keys.lock, or a lock that root.key_dropped takes.
 */

/**
 * mesh_key_local - translate an lkey
 * @spd: PD of the queue pair that will use the key
 * @ret_lkey: always written; on failure a key whose use fails with a local protection error, as on a bare HCA
 *
 * The caller may cache the result while mesh_keys_epoch() has the value from before the call, but not failures. Costs a lock and
 * a look-up; the first use on a rail registers memory. Not for work requests with inline data, whose lkeys have no meaning.
 *
 * Return: 0; -ENOENT: no such key in the PD; -ENOMEM; -errno of the registration on the rail.
 */
int mesh_key_local(struct mesh_pd *spd, uint32_t lkey, uint32_t *ret_lkey);

/**
 * mesh_key_remote - translate an rkey of this process for its peer
 * @ret_rkey: always written, as @ret_lkey above
 *
 * After this call, root.key_dropped is called when the region is deregistered. Return: as mesh_key_local().
 */
int mesh_key_remote(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey);

/**
 * mesh_key_remote_ready - mesh_key_remote() that does not register, and does not wait
 *
 * Return: 0 with @ret_rkey; -EAGAIN: the region is not registered on the rail yet; -ENOENT: no such key.
 */
int mesh_key_remote_ready(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey);

/**
 * mesh_mr_prereg_one - register a region on a rail in advance; mr_prereg.c
 *
 * Logs nothing. Return: as mesh_key_local(). A region that failed is not tried in advance again.
 */
int mesh_mr_prereg_one(struct mesh_pd *spd, uint32_t lkey);

/** mesh_keys_drop_unused - deregister regions that were registered in advance, and not used since. Return: were there any? */
bool mesh_keys_drop_unused(void);

/** mesh_keys_epoch - changes whenever a translation that was given out becomes invalid, before the shadow is deregistered */
static inline uint64_t mesh_keys_epoch(void)
{
	return atomic_load_explicit(&mesh_root.process->keys.epoch, memory_order_acquire);
}

/** mesh_keys_leave_pd - a PD on a rail is going to be freed: no look-up finds its shadows any more; process->keys.lock (pds.c) */
void mesh_keys_leave_pd(struct mesh_pd *spd);
/** mesh_keys_drop_pd - deregister its shadows, after that. Nothing may use the PD any more; no lock (pds.c) */
void mesh_keys_drop_pd(struct mesh_pd *spd);

/** mesh_keys_close - a context is being closed: forget its regions */
void mesh_keys_close(struct ibv_context *verbs);

/* Verbs entry points. Contracts, errors and thread-safety as in libibverbs. */
struct ibv_mr *mesh_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
struct ibv_mr *mesh_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				  int access);
struct ibv_mr *mesh_reg_mr_ex(struct ibv_pd *pd, struct mesh_mr_init_attr *attr);
struct ibv_mr *mesh_alloc_null_mr(struct ibv_pd *pd);
int mesh_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access);
int mesh_dereg_mr(struct ibv_mr *mr);

/* keys.c keyshadow.c */

/** mesh_keys_make_shadow - register a region on a rail; process->keys.lock, released meanwhile. Return: 0 or -errno. */
int mesh_keys_make_shadow(struct mesh_key *key, struct mesh_pd *spd,
			  bool in_advance) MV_REQUIRES(&mesh_root.process->keys.lock);
/** mesh_shadow_mr_drop - deregister an unlinked shadow on its device's thread; without process->keys.lock */
void mesh_shadow_mr_drop(struct mesh_shadow_mr *shadow);
/** mesh_keys_table - the table of regions; process->keys.lock */
struct mesh_mr_table **mesh_keys_table(void);
/** mesh_key_free - free a record that was taken out of the table, once no thread registers it any more */
void mesh_key_free(struct mesh_key *key);

#endif
