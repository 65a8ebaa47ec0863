/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SCRATCH_H
#define MESH_SCRATCH_H

#include <string.h>

#include "calibrate.h"

/*
 * A context without a device, to measure what the library does to contexts. The library's own function makes it. What the
 * library does to it has no effect on other contexts.
 */

/* Stands for a struct verbs_device. libibverbs writes a reference count somewhere behind the public part. */
struct mesh_scratch_device {
	struct ibv_device device;
	char private_part[4096];
};

struct mesh_scratch {
	struct mesh_scratch_device *device;
	char *buffer;
	struct verbs_context *start; /* the context as the library knows it */
	struct ibv_context *context;
	/* The context as the plugin's headers know it. Both end at the same address: mesh_scratch_holds(). */
	struct verbs_context *tail;
	const void *table[MESH_OPS_MAX]; /* for verbs_set_ops() */
};

/**
 * mesh_scratch_init - make a scratch context
 * @s: too large for the stack of a program's thread
 * @why: on failure, a sentence for the operator
 *
 * Return: 0; -ENOMEM; -ENOTSUP: the library's contexts are laid out unlike all known ones. On failure the caller has nothing to
 * release.
 */
int mesh_scratch_init(const struct mesh_library *lib, struct mesh_scratch *s, char *why, size_t why_size);
/** mesh_scratch_fini - destroy a scratch context */
void mesh_scratch_fini(struct mesh_scratch *s);

/** mesh_scratch_mark - put mesh_marker(slot) into every slot of the context's table */
void mesh_scratch_mark(const struct mesh_library *lib, struct mesh_scratch *s);

/**
 * mesh_scratch_holds - does the library's struct verbs_context have that member?
 * @place: byte offset in struct verbs_context of the plugin's headers
 *
 * The struct of an older library lacks the first members.
 */
bool mesh_scratch_holds(const struct mesh_scratch *s, size_t place);

/**
 * mesh_scratch_probe - find the slot of the operation that a function of the library calls
 * @call: calls that function on the scratch context
 * @ret_slot: written on success
 *
 * There is one round for each bit of the slot's number. A round fills the table with two functions: slots whose number has the
 * bit get one, the other slots the other. The function that is called tells the bit. Both functions stand for operations of any
 * signature, ignore their arguments, and return 0. They stay in the table. Not thread-safe against itself.
 *
 * Return: number of operations that the function called; 1 is success.
 */
unsigned int mesh_scratch_probe(const struct mesh_library *lib, struct mesh_scratch *s,
				void (*call)(const struct mesh_library *lib, struct mesh_scratch *s, void *arg),
				void *arg, unsigned int *ret_slot);

/*
 * Markers are values that no function pointer can have, because no code is ever mapped in the first page. They are compared,
 * and never called.
 */
#define MESH_MARKER_BASE 0x100u

static inline const void *mesh_marker(unsigned int slot)
{
	return (const void *)(uintptr_t)(MESH_MARKER_BASE + slot);
}

static inline bool mesh_is_marker(const void *p, unsigned int *ret_slot)
{
	uintptr_t v = (uintptr_t)p;

	if (v < MESH_MARKER_BASE || v >= MESH_MARKER_BASE + MESH_OPS_MAX)
		return false;
	*ret_slot = (unsigned int)(v - MESH_MARKER_BASE);
	return true;
}

static inline const void *mesh_pointer_at(const void *lower, size_t offset)
{
	const void *p;

	memcpy(&p, (const char *)lower + offset, sizeof(p));
	return p;
}

#endif
