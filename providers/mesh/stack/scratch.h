/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SCRATCH_H
#define MESH_SCRATCH_H

#include <string.h>

#include "calibrate.h"

/*
 * A context without a device, made by the library's own function, on which its ways are measured. Whatever
 * the library does to it, nothing of it remains.
 */

/* Stand-in for a struct verbs_device: libibverbs writes a reference count somewhere behind the public part. */
struct mesh_scratch_device {
	struct ibv_device device;
	char private_part[4096];
};

struct mesh_scratch {
	struct mesh_scratch_device *device;
	char *buffer;
	struct verbs_context *start; /* as libibverbs knows it */
	struct ibv_context *context;
	struct verbs_context *tail; /* as our header knows it: only members near the end are real */
	const void *table[MESH_OPS_MAX]; /* what goes to verbs_set_ops() next */
};

/**
 * mesh_scratch_init - make a scratch context
 * @s: large; not for a stack that is not ours
 * @why: on failure, a sentence for the operator
 *
 * Return: 0; -ENOMEM; -ENOTSUP when the library's contexts are not laid out as all known ones are. On failure
 * there is nothing to release.
 */
int mesh_scratch_init(const struct mesh_library *lib, struct mesh_scratch *s, char *why, size_t why_size);
void mesh_scratch_fini(struct mesh_scratch *s);

/**
 * mesh_scratch_mark - put a marker of its own into every slot of the context's table
 */
void mesh_scratch_mark(const struct mesh_library *lib, struct mesh_scratch *s);

/**
 * mesh_scratch_holds - is a member of the public tail inside this library's context?
 * @place: offset in struct verbs_context as our header has it
 *
 * An older library's contexts begin later than our header's.
 */
bool mesh_scratch_holds(const struct mesh_scratch *s, size_t place);

/**
 * mesh_scratch_probe - find the slot of the one operation that a library function calls
 * @call: calls that function on the scratch context; what it returns is not looked at
 * @ret_slot: written on success
 *
 * The table is filled with two functions, chosen by one bit of the slot number, to see which is called; once for
 * each bit. The two take the place of functions of any signature, ignore what they are given and return 0.
 * Leaves them in the table. Not thread-safe against itself.
 *
 * Return: how many operations the function called: 1 is success.
 */
unsigned int mesh_scratch_probe(const struct mesh_library *lib, struct mesh_scratch *s,
				void (*call)(const struct mesh_library *lib, struct mesh_scratch *s, void *arg),
				void *arg, unsigned int *ret_slot);

/*
 * Markers: values no function can have, for the first page is never mapped for code. They must survive a
 * comparison only, nothing ever calls them.
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

static inline const void *mesh_pointer_at(const void *base, size_t offset)
{
	const void *p;

	memcpy(&p, (const char *)base + offset, sizeof(p));
	return p;
}

#endif
