// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "scratch.h"

/*
 * New releases put new members in front of libibverbs' struct verbs_context, so its size is not known (rdma-core 64: 696
 * bytes). The struct begins in the middle of a buffer of zeros. The device pointer in it shows where its end, struct
 * ibv_context, is.
 */
#define SCRATCH_SIZE  65536
#define SCRATCH_START 16384

static void set_why(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
}

void mesh_scratch_fini(struct mesh_scratch *s)
{
	/*
	 * Not verbs_uninit_context(): it would drop the reference to the stand-in device, and then use a struct of the device
	 * whose layout is not known. Apart from that, it frees only *priv.
	 */
	if (s->tail)
		free(s->tail->priv);
	free(s->buffer);
	free(s->device);
}

/* Finds struct ibv_context in the buffer, by its first member: no other word is the address of the device. */
static int find_context(struct mesh_scratch *s, char *why, size_t why_size)
{
	size_t off, found = 0, sz;

	for (off = 0; off + sizeof(void *) <= SCRATCH_SIZE; off += sizeof(void *)) {
		if (mesh_pointer_at(s->buffer, off) != s->device)
			continue;
		if (found) {
			set_why(why, why_size, "its context names the device twice");
			return -ENOTSUP;
		}
		found = off;
	}
	if (found < SCRATCH_START + sizeof(sz) || found + sizeof(struct ibv_context) > SCRATCH_SIZE) {
		set_why(why, why_size, "its context does not name the device where contexts do");
		return -ENOTSUP;
	}

	s->context = (struct ibv_context *)(s->buffer + found);
	memcpy(&sz, (char *)s->context - sizeof(sz), sizeof(sz));
	if (sz != found - SCRATCH_START + sizeof(struct ibv_context)) {
		set_why(why, why_size, "its context's size does not agree with its place");
		return -ENOTSUP;
	}
	if (sz < sizeof(struct verbs_context) - offsetof(struct verbs_context, priv)) {
		set_why(why, why_size, "its context is smaller than any known one");
		return -ENOTSUP;
	}
	return 0;
}

int mesh_scratch_init(const struct mesh_library *lib, struct mesh_scratch *s, char *why, size_t why_size)
{
	int err;

	memset(s, 0, sizeof(*s));
	s->device = calloc(1, sizeof(*s->device));
	if (s->device)
		s->buffer = lib->init_and_alloc_context(&s->device->device, -1, SCRATCH_SIZE,
							(struct verbs_context *)(uintptr_t)SCRATCH_START, 0);
	if (!s->buffer) {
		mesh_scratch_fini(s);
		set_why(why, why_size, "out of memory");
		return -ENOMEM;
	}
	s->start = (struct verbs_context *)(s->buffer + SCRATCH_START);

	err = find_context(s, why, why_size);
	if (err) {
		/* The layout is not known, so *priv is not freed. */
		mesh_scratch_fini(s);
		return err;
	}
	s->tail = (struct verbs_context *)((char *)s->context - offsetof(struct verbs_context, context));
	if (!s->tail->priv) {
		set_why(why, why_size, "its context has no private part");
		mesh_scratch_fini(s);
		return -ENOTSUP;
	}
	return 0;
}

void mesh_scratch_mark(const struct mesh_library *lib, struct mesh_scratch *s)
{
	unsigned int k;

	for (k = 0; k < MESH_OPS_MAX; k++)
		s->table[k] = mesh_marker(k);
	lib->set_ops(s->start, s->table);
}

bool mesh_scratch_holds(const struct mesh_scratch *s, size_t place)
{
	return (char *)s->tail + place >= (char *)s->start;
}

/* Results of probe_zero() and probe_one(). There is one probe at a time. */
static struct {
	unsigned int calls, bit;
} probed;

static long probe_zero(void)
{
	probed.calls++;
	probed.bit = 0;
	return 0;
}

static long probe_one(void)
{
	probed.calls++;
	probed.bit = 1;
	return 0;
}

unsigned int mesh_scratch_probe(const struct mesh_library *lib, struct mesh_scratch *s,
				void (*call)(const struct mesh_library *lib, struct mesh_scratch *s, void *arg),
				void *arg, unsigned int *ret_slot)
{
	unsigned int k, b, slot = 0;

	for (b = 0; (1u << b) < MESH_OPS_MAX; b++) {
		for (k = 0; k < MESH_OPS_MAX; k++)
			s->table[k] = (const void *)(k >> b & 1 ? probe_one : probe_zero);
		lib->set_ops(s->start, s->table);

		probed.calls = 0;
		call(lib, s, arg);
		if (probed.calls != 1)
			return probed.calls;
		slot |= probed.bit << b;
	}
	*ret_slot = slot;
	return 1;
}
