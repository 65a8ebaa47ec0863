/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATHS_H
#define MESH_PATHS_H

#include "context.h"
#include "decide.h"

/*
 * Between the verbs objects and the engine's decision: keeps the GID tables of each context and the
 * netdevs of the process current, and asks. Everything here takes process->paths_lock itself and may be
 * called from any thread of a process whose generation the context has.
 */

/**
 * mesh_paths_open - read a new context's GID tables for the first time
 * @why: on failure, a sentence for the operator
 *
 * These are the addresses the program will read when it looks for itself.
 *
 * Return: 0, -ENOTSUP when the library has no GID table query or the device no Ethernet or InfiniBand
 * port, -ENOMEM, or what the query returned.
 */
int mesh_paths_open(struct mesh_context *mc, struct ibv_context *verbs, char *why, size_t why_size);

/**
 * mesh_paths_close - release what mesh_paths_open() took
 */
void mesh_paths_close(struct mesh_context *mc);

/**
 * mesh_paths_refresh - read the GID tables again, remembering what was there before
 */
void mesh_paths_refresh(struct mesh_context *mc, struct ibv_context *verbs);

/**
 * mesh_paths_choose - the source GID index to use towards a destination
 * @ah: the program's address, with is_global set
 * @transport: see mv_decide()
 *
 * Return: the index to use, which is the program's own unless something else is clearly right.
 */
uint8_t mesh_paths_choose(struct mesh_context *mc, struct ibv_context *verbs,
			  const struct ibv_ah_attr *ah, enum mv_transport transport);

#endif
