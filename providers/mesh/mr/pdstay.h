/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PDSTAY_H
#define MESH_PDSTAY_H

#include "mesh.h"
#include "mr_table.h"
#include "mrsources.h"

/*
 * Protection domains of the program whose connections cannot move.
 *
 * A moved connection needs each key of its protection domain on another NIC. mrsources.h lists which keys can be had there. A
 * protection domain with any other key is noted here, when the key is made, or, if the plugin does not see that, when the key is
 * seen in use. From then on no connection of that protection domain begins to move. Connections that have moved before stay
 * moved.
 *
 * Thread: any. Takes process->keys.lock and the logger's lock.
 */

/**
 * mesh_pd_stay - connections of a protection domain cannot move from now on
 * @pd: may be a parent domain; alive
 * @why: a constant, for the operator: "it has ..."
 *
 * Logs once per device and reason. Without memory, no connection of the process can move any more. Preserves errno.
 */
void mesh_pd_stay(struct ibv_pd *pd, const char *why);

/**
 * mesh_pd_stays - why connections of a protection domain cannot move, a constant; NULL: they can. Two loads if there is no such
 * PD.
 */
const char *mesh_pd_stays(struct ibv_pd *pd);

/** mesh_pd_stay_no_more - a protection domain, or all of a context, are deallocated: @pd or @verbs may be NULL */
void mesh_pd_stay_no_more(const struct ibv_pd *pd, const struct ibv_context *verbs);

/**
 * mesh_pd_check_key - mesh_pd_stay(), if that key was never registered in a way that the plugin sees
 * @index: MESH_BY_LKEY or MESH_BY_RKEY
 *
 * Return: false: it was not.
 */
bool mesh_pd_check_key(struct ibv_pd *pd, enum mesh_key_index index, uint32_t key);

/** mesh_pd_key_fails - mesh_pd_check_key() for a connection that has moved already: its work fails; logged once per device */
void mesh_pd_key_fails(struct ibv_pd *pd, enum mesh_key_index index, uint32_t key);

/* Verbs entry points that make keys which no other NIC can have. Contracts as in libibverbs. */
struct ibv_mr *mesh_import_mr(struct ibv_pd *pd, uint32_t handle);
struct ibv_pd *mesh_import_pd(struct ibv_context *context, uint32_t handle);
void mesh_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *mesh_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access);
struct ibv_mw *mesh_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);

#endif
