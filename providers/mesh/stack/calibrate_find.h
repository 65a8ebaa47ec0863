/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CALIBRATE_FIND_H
#define MESH_CALIBRATE_FIND_H

#include "scratch.h"

/* Where the operations are: what is known of all libraries, and looking at a scratch context for it. (calibrate.c) */

/* Where our header says an operation is visible in the public part. */
struct mesh_public_slot {
	const char *name;
	size_t place; /* in our header's struct verbs_context, whose end is the same in every library; 0: nowhere */
};

#define MESH_N_PUBLIC 26u

/* Operations that every known libibverbs mirrors into the public part. */
extern const struct mesh_public_slot mesh_public_slots[MESH_N_PUBLIC];
/* The operations we may replace. */
extern const struct mesh_public_slot mesh_op_info[MESH_N_OPS];

/**
 * mesh_find_public - slots of everything that has to be public
 * @s: marked (mesh_scratch_mark())
 *
 * They must be distinct, for two operations in one slot would mean that our idea of the public part is wrong.
 *
 * Return: 0 or -ENOTSUP with @why.
 */
int mesh_find_public(const struct mesh_scratch *s, unsigned int slots[MESH_N_PUBLIC], char *why, size_t why_size);

/**
 * mesh_find_private - byte offset of the private copy of the table
 * @last_slot: the last one that is known to exist: nothing is read beyond it
 *
 * Return: 0 or -ENOTSUP with @why.
 */
int mesh_find_private(const struct mesh_scratch *s, unsigned int last_slot, size_t *ret_offset, char *why,
		      size_t why_size);

/**
 * mesh_find_slots - fill cal->slot for all operations as far as they can be found
 *
 * Leaves no markers. Return: 0 or -ENOTSUP with @why.
 */
int mesh_find_slots(const struct mesh_library *lib, struct mesh_scratch *s, struct mesh_calibration *cal,
		    char *why, size_t why_size);

#endif
