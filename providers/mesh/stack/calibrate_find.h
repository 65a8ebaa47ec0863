/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CALIBRATE_FIND_H
#define MESH_CALIBRATE_FIND_H

#include "scratch.h"

/* Steps of mesh_calibrate(): what all known libraries have in common, and the search for slots on a scratch context. */

/* An operation, and its public place. */
struct mesh_public_slot {
	const char *name;
	size_t place; /* byte offset in the headers' struct verbs_context, whose end is the same in every library; 0: none */
};

#define MESH_N_PUBLIC 26u

/* Operations that every known libibverbs mirrors into the public part. */
extern const struct mesh_public_slot mesh_public_slots[MESH_N_PUBLIC];
/* The operations that the plugin may replace. */
extern const struct mesh_public_slot mesh_op_info[MESH_N_OPS];

/**
 * mesh_find_public - find the slots of mesh_public_slots[]
 * @s: marked (mesh_scratch_mark())
 *
 * Two operations in one slot mean that the public part is not as in the headers. That is an error.
 *
 * Return: 0; -ENOTSUP with @why.
 */
int mesh_find_public(const struct mesh_scratch *s, unsigned int slots[MESH_N_PUBLIC], char *why, size_t why_size);

/**
 * mesh_find_private - find the private copy of the table
 * @s: marked
 * @last_slot: last slot that is known to exist; nothing is read beyond that slot
 * @ret_offset: byte offset in *verbs_context.priv
 *
 * Return: 0; -ENOTSUP with @why.
 */
int mesh_find_private(const struct mesh_scratch *s, unsigned int last_slot, size_t *ret_offset, char *why,
		      size_t why_size);

/**
 * mesh_find_slots - fill cal->slot for all operations, as far as they can be found
 * @s: marked; the markers are overwritten
 *
 * Return: 0; -ENOTSUP with @why.
 */
int mesh_find_slots(const struct mesh_library *lib, struct mesh_scratch *s, struct mesh_calibration *cal,
		    char *why, size_t why_size);

#endif
