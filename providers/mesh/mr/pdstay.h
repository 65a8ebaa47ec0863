/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PDSTAY_H
#define MESH_PDSTAY_H

#include "keytab.h"
#include "mesh.h"
#include "mrsources.h"

/*
 * Protection domains of the program whose connections stay where they are.
 *
 * A moved connection needs each key of its protection domain on another NIC. mrsources.h says which keys can be had there. A protection
 * domain with any other key is noted here, when the key is made or, if nobody sees that, when work with that key is found. From then on no
 * connection of that protection domain begins to move. Those that have moved before stay as they are.
 *
 * Any thread; keys_lock and the logger's lock are taken.
 */

/**
 * mesh_pd_stay - connections of a protection domain stay from now on
 * @pd: may be a parent domain; alive
 * @why: a constant, for the operator: "it has ..."
 *
 * Logs once for each device and reason. Without memory that holds for all protection domains of the process. Preserves errno.
 */
void mesh_pd_stay(struct ibv_pd *pd, const char *why);

/** mesh_pd_stays - why connections of a protection domain stay; NULL: they may move. Two loads where there is none that does */
const char *mesh_pd_stays(struct ibv_pd *pd);

/** mesh_pd_stay_no_more - a protection domain goes, or all of a context: @pd or @verbs may be NULL */
void mesh_pd_stay_no_more(const struct ibv_pd *pd, const struct ibv_context *verbs);

/**
 * mesh_pd_check_key - if that key was never registered by a way that is seen here, mesh_pd_stay()
 * @index: MESH_BY_LKEY or MESH_BY_RKEY
 *
 * Return: false: it was not.
 */
bool mesh_pd_check_key(struct ibv_pd *pd, enum mesh_key_index index, uint32_t key);

/** mesh_pd_key_fails - the same, and a connection that has moved already needs it: its work fails, which is logged, once for each device */
void mesh_pd_key_fails(struct ibv_pd *pd, enum mesh_key_index index, uint32_t key);

/* Verbs entry points: what makes keys that no other NIC can have. Contracts are those of libibverbs. */
struct ibv_mr *mesh_import_mr(struct ibv_pd *pd, uint32_t handle);
struct ibv_pd *mesh_import_pd(struct ibv_context *context, uint32_t handle);
void mesh_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *mesh_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access);
struct ibv_mw *mesh_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);

#endif
