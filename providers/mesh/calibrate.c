// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate.h"

/*
 * The scratch context. libibverbs' struct verbs_context grows at its front, so it starts in the middle of
 * a buffer that is zero elsewhere and is then found by its device pointer. 696 bytes in rdma-core 64.
 */
#define SCRATCH_SIZE  65536
#define SCRATCH_START 16384

/* Stand-in for a struct verbs_device: libibverbs writes a reference count somewhere behind the public part. */
struct scratch_device {
	struct ibv_device device;
	char private_part[4096];
};

struct scratch {
	struct scratch_device *device;
	char *buffer;
	struct verbs_context *start;	/* as libibverbs knows it */
	struct ibv_context *context;
	struct verbs_context *tail;	/* as our header knows it: only members near the end are real */
	const void *table[MESH_OPS_MAX];
};

/*
 * Values no function can have: the first page is never mapped for code. They must survive a comparison
 * only, nothing ever calls them.
 */
#define MARKER_BASE 0x100u

static const void *marker(unsigned int slot)
{
	return (const void *)(uintptr_t)(MARKER_BASE + slot);
}

static bool is_marker(const void *p, unsigned int *ret_slot)
{
	uintptr_t v = (uintptr_t)p;

	if (v < MARKER_BASE || v >= MARKER_BASE + MESH_OPS_MAX)
		return false;
	*ret_slot = (unsigned int)(v - MARKER_BASE);
	return true;
}

/* Where our header says an operation is visible in the public part. */
struct public_slot {
	const char *name;
	size_t offset; /* in struct ibv_context */
};

#define SLOT(member) {#member, offsetof(struct ibv_context, ops.member)}

/* Operations that every known libibverbs mirrors into the public part. */
static const struct public_slot public_slots[] = {
	SLOT(_compat_alloc_pd),	   SLOT(_compat_dealloc_pd), SLOT(_compat_reg_mr),
	SLOT(_compat_dereg_mr),	   SLOT(_compat_create_cq),  SLOT(poll_cq),
	SLOT(req_notify_cq),	   SLOT(_compat_cq_event),   SLOT(_compat_resize_cq),
	SLOT(_compat_destroy_cq),  SLOT(_compat_create_srq), SLOT(_compat_modify_srq),
	SLOT(_compat_query_srq),   SLOT(_compat_destroy_srq), SLOT(post_srq_recv),
	SLOT(_compat_create_qp),   SLOT(_compat_query_qp),   SLOT(_compat_modify_qp),
	SLOT(_compat_destroy_qp),  SLOT(post_send),	     SLOT(post_recv),
	SLOT(_compat_create_ah),   SLOT(_compat_destroy_ah), SLOT(_compat_attach_mcast),
	SLOT(_compat_detach_mcast), SLOT(_compat_async_event),
};

#define N_PUBLIC (sizeof(public_slots) / sizeof(public_slots[0]))

/* Public place of each operation we may replace; 0 for those that have none. */
static const size_t op_offset[MESH_N_OPS] = {
	[MESH_OP_MODIFY_QP] = offsetof(struct ibv_context, ops._compat_modify_qp),
	[MESH_OP_CREATE_AH] = offsetof(struct ibv_context, ops._compat_create_ah),
	[MESH_OP_ASYNC_EVENT] = offsetof(struct ibv_context, ops._compat_async_event),
	[MESH_OP_FREE_CONTEXT] = 0,
};

static const void *pointer_at(const void *base, size_t offset)
{
	const void *p;

	memcpy(&p, (const char *)base + offset, sizeof(p));
	return p;
}

static void set_why(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
}

static void scratch_fini(struct scratch *s)
{
	/*
	 * verbs_uninit_context() would drop the reference on our stand-in device and then call into a
	 * structure whose layout we do not know; what it frees is this much.
	 */
	if (s->tail)
		free(s->tail->priv);
	free(s->buffer);
	free(s->device);
}

static int scratch_init(const struct mesh_library *lib, struct scratch *s, char *why, size_t why_size)
{
	size_t off, found = 0;
	size_t sz;

	memset(s, 0, sizeof(*s));
	s->device = calloc(1, sizeof(*s->device));
	if (!s->device) {
		set_why(why, why_size, "out of memory");
		return -ENOMEM;
	}

	s->buffer = lib->init_and_alloc_context(&s->device->device, -1, SCRATCH_SIZE,
						(struct verbs_context *)(uintptr_t)SCRATCH_START, 0);
	if (!s->buffer) {
		scratch_fini(s);
		set_why(why, why_size, "out of memory");
		return -ENOMEM;
	}
	s->start = (struct verbs_context *)(s->buffer + SCRATCH_START);

	for (off = 0; off + sizeof(void *) <= SCRATCH_SIZE; off += sizeof(void *)) {
		if (pointer_at(s->buffer, off) != s->device)
			continue;
		if (found) {
			set_why(why, why_size, "its context names the device twice");
			goto refuse;
		}
		found = off;
	}
	if (found < SCRATCH_START + sizeof(sz) || found + sizeof(struct ibv_context) > SCRATCH_SIZE) {
		set_why(why, why_size, "its context does not name the device where contexts do");
		goto refuse;
	}

	s->context = (struct ibv_context *)(s->buffer + found);
	memcpy(&sz, (char *)s->context - sizeof(sz), sizeof(sz));
	if (sz != found - SCRATCH_START + sizeof(struct ibv_context)) {
		set_why(why, why_size, "its context's size does not agree with its place");
		goto refuse;
	}
	if (sz < sizeof(struct verbs_context) - offsetof(struct verbs_context, priv)) {
		set_why(why, why_size, "its context is smaller than any known one");
		goto refuse;
	}

	s->tail = (struct verbs_context *)((char *)s->context - offsetof(struct verbs_context, context));
	if (!s->tail->priv) {
		set_why(why, why_size, "its context has no private part");
		goto refuse;
	}
	return 0;

refuse:
	s->tail = NULL; /* not known well enough to free what hangs on it */
	scratch_fini(s);
	return -ENOTSUP;
}

static void set_all_markers(const struct mesh_library *lib, struct scratch *s)
{
	unsigned int k;

	for (k = 0; k < MESH_OPS_MAX; k++)
		s->table[k] = marker(k);
	lib->set_ops(s->start, s->table);
}

/*
 * Slots of everything public; they must be distinct, for two operations in one slot would mean that our
 * idea of the public part is wrong.
 */
static int read_public(const struct scratch *s, unsigned int slots[N_PUBLIC], char *why, size_t why_size)
{
	bool taken[MESH_OPS_MAX] = {false};
	size_t i;

	for (i = 0; i < N_PUBLIC; i++) {
		if (!is_marker(pointer_at(s->context, public_slots[i].offset), &slots[i]) ||
		    taken[slots[i]]) {
			snprintf(why, why_size, "operation %s is not where it should be",
				 public_slots[i].name);
			return -ENOTSUP;
		}
		taken[slots[i]] = true;
	}
	return 0;
}

/* How far to look for the private copy of the table: it starts at byte 24 in rdma-core 44. */
#define PRIV_SEARCH 256

/*
 * The private copy has the order of the table, so the markers of slots 0, 1, 2 ... follow one another.
 * Nothing is read beyond the last slot that is known to exist.
 */
static int find_private(const struct scratch *s, unsigned int last_slot, size_t *ret_offset, char *why,
			size_t why_size)
{
	const char *priv = (const char *)s->tail->priv;
	size_t off, limit = (last_slot + 1) * sizeof(void *); /* it has room for the table at least */
	unsigned int k;

	if (limit > PRIV_SEARCH)
		limit = PRIV_SEARCH;
	for (off = 0; off < limit; off += sizeof(void *))
		if (pointer_at(priv, off) == marker(0))
			break;
	if (off == limit) {
		set_why(why, why_size, "its private table of operations was not found");
		return -ENOTSUP;
	}
	for (k = 1; k <= last_slot; k++) {
		if (pointer_at(priv, off + k * sizeof(void *)) != marker(k)) {
			set_why(why, why_size, "its private table is not in the order of the public one");
			return -ENOTSUP;
		}
	}
	*ret_offset = off;
	return 0;
}

/*
 * free_context has no public place. ibv_close_device() calls it and nothing else: fill the table with two
 * functions, chosen by one bit of the slot number, and see which is called; once for each bit. The two
 * take the place of functions of any signature and must ignore what they are given.
 */
static struct {
	unsigned int calls, bit;
} closing;

static long probe_zero(void)
{
	closing.calls++;
	closing.bit = 0;
	return 0;
}

static long probe_one(void)
{
	closing.calls++;
	closing.bit = 1;
	return 0;
}

static int find_free_context(const struct mesh_library *lib, struct scratch *s, unsigned int *ret_slot,
			     char *why, size_t why_size)
{
	unsigned int k, b, slot = 0;

	for (b = 0; (1u << b) < MESH_OPS_MAX; b++) {
		for (k = 0; k < MESH_OPS_MAX; k++)
			s->table[k] = (const void *)(k >> b & 1 ? probe_one : probe_zero);
		lib->set_ops(s->start, s->table);

		closing.calls = 0;
		lib->close_device(s->context);
		if (closing.calls != 1) {
			snprintf(why, why_size, "closing a context calls %u operations, not one",
				 closing.calls);
			return -ENOTSUP;
		}
		slot |= closing.bit << b;
	}
	*ret_slot = slot;
	return 0;
}

/*
 * A table with one entry must change that operation in its places and nothing else at all: that is how
 * live contexts are overlaid.
 */
static int check_single(const struct mesh_library *lib, struct scratch *s,
			const struct mesh_calibration *cal, enum mesh_op op, size_t priv_bytes, char *why,
			size_t why_size)
{
	const void *fresh = marker(MESH_OPS_MAX - 1);
	size_t priv_at = cal->priv_ops + cal->slot[op] * sizeof(void *);
	char *before;
	int err = 0;

	before = malloc(cal->context_size + priv_bytes);
	if (!before) {
		set_why(why, why_size, "out of memory");
		return -ENOMEM;
	}
	memcpy(before, s->start, cal->context_size);
	memcpy(before + cal->context_size, s->tail->priv, priv_bytes);

	memset(s->table, 0, sizeof(s->table));
	s->table[cal->slot[op]] = fresh;
	lib->set_ops(s->start, s->table);

	/* Make the same change to the copy, then the two must be equal. */
	if (op_offset[op])
		memcpy(before + ((char *)s->context - (char *)s->start) + op_offset[op], &fresh,
		       sizeof(fresh));
	memcpy(before + cal->context_size + priv_at, &fresh, sizeof(fresh));
	if (memcmp(before, s->start, cal->context_size) ||
	    memcmp(before + cal->context_size, s->tail->priv, priv_bytes)) {
		set_why(why, why_size, "replacing one operation changes more or less than that one");
		err = -ENOTSUP;
	}
	free(before);
	return err;
}

static int measure(const struct mesh_library *lib, struct scratch *s, struct mesh_calibration *cal,
		   char *why, size_t why_size)
{
	unsigned int slots[N_PUBLIC], last = 0, i;
	enum mesh_op op;
	int err;

	set_all_markers(lib, s);
	err = read_public(s, slots, why, why_size);
	if (err)
		return err;
	for (i = 0; i < N_PUBLIC; i++)
		if (slots[i] > last)
			last = slots[i];

	cal->context_size = (size_t)((char *)(s->context + 1) - (char *)s->start);
	cal->n_known = N_PUBLIC + 1;
	for (op = 0; op < MESH_N_OPS; op++)
		if (op_offset[op])
			is_marker(pointer_at(s->context, op_offset[op]), &cal->slot[op]);

	err = find_private(s, last, &cal->priv_ops, why, why_size);
	if (!err)
		err = find_free_context(lib, s, &cal->slot[MESH_OP_FREE_CONTEXT], why, why_size);
	if (err)
		return err;
	for (i = 0; i < N_PUBLIC; i++) {
		if (slots[i] == cal->slot[MESH_OP_FREE_CONTEXT]) {
			snprintf(why, why_size, "free_context and %s share a slot", public_slots[i].name);
			return -ENOTSUP;
		}
	}
	if (cal->slot[MESH_OP_FREE_CONTEXT] > last)
		last = cal->slot[MESH_OP_FREE_CONTEXT];

	set_all_markers(lib, s);
	for (op = 0; op < MESH_N_OPS && !err; op++)
		err = check_single(lib, s, cal, op, cal->priv_ops + (last + 1) * sizeof(void *), why,
				   why_size);
	return err;
}

int mesh_calibrate(const struct mesh_library *lib, struct mesh_calibration *ret, char *why, size_t why_size)
{
	struct mesh_calibration cal = {0};
	struct scratch *s;
	int err;

	s = malloc(sizeof(*s)); /* its table is too large for a stack that is not ours */
	if (!s) {
		set_why(why, why_size, "out of memory");
		return -ENOMEM;
	}
	err = scratch_init(lib, s, why, why_size);
	if (!err) {
		err = measure(lib, s, &cal, why, why_size);
		scratch_fini(s);
	}
	free(s);
	if (!err)
		*ret = cal;
	return err;
}

struct ibv_context *mesh_calibration_context(const struct mesh_calibration *cal, struct verbs_context *start,
					     const struct ibv_device *device)
{
	struct ibv_context *context =
		(struct ibv_context *)((char *)start + cal->context_size - sizeof(*context));
	size_t sz;

	memcpy(&sz, (char *)context - sizeof(sz), sizeof(sz));
	if (sz != cal->context_size || context->device != device)
		return NULL;
	return context;
}

void *mesh_calibration_op(const struct mesh_calibration *cal, const struct ibv_context *context,
			  enum mesh_op op)
{
	const struct verbs_context *tail =
		(const struct verbs_context *)((const char *)context - offsetof(struct verbs_context, context));
	const void *private_ptr, *public_ptr;

	if (!tail->priv)
		return NULL;
	private_ptr = pointer_at(tail->priv, cal->priv_ops + cal->slot[op] * sizeof(void *));
	if (op_offset[op]) {
		public_ptr = pointer_at(context, op_offset[op]);
		if (public_ptr != private_ptr)
			return NULL;
	}
	return (void *)(uintptr_t)private_ptr;
}
