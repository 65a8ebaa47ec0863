// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "calibrate_find.h"

/* Does another operation have the slot of @but? @ret_by: which one; MESH_N_OPS: one that the plugin does not replace */
static bool is_taken(const struct mesh_calibration *cal, enum mesh_op but, const unsigned int *slots,
		     enum mesh_op *ret_by)
{
	enum mesh_op op;
	size_t i;

	for (op = 0; op < MESH_N_OPS; op++) {
		if (op != but && cal->slot[op] == cal->slot[but]) {
			*ret_by = op;
			return true;
		}
	}
	for (i = 0; i < MESH_N_PUBLIC; i++) {
		if (slots[i] == cal->slot[but] && mesh_op_info[but].place != mesh_public_slots[i].place) {
			*ret_by = MESH_N_OPS;
			return true;
		}
	}
	return false;
}

/* Two operations in one slot: an operation that only moves need becomes absent; one that repairs need ends the calibration. */
static int check_distinct(struct mesh_calibration *cal, const unsigned int *slots, char *why, size_t why_size)
{
	enum mesh_op op, by;

	for (op = MESH_N_OPS; op-- > 0;) {
		if (cal->slot[op] == MESH_OP_ABSENT || !is_taken(cal, op, slots, &by))
			continue;
		if (op >= MESH_OPS_MOVES) {
			cal->slot[op] = MESH_OP_ABSENT;
			continue;
		}
		snprintf(why, why_size, "%s and %s share a slot", mesh_op_info[op].name,
			 by < MESH_N_OPS ? mesh_op_info[by].name : "another operation");
		return -ENOTSUP;
	}
	return 0;
}

/*
 * Finds a public place that the plugin's headers do not know. Later libraries put new members in front of struct verbs_context,
 * and some of these are operations. The first word is skipped: no operation lies there, and offset 0 stands for no place.
 * @s: marked
 */
static void find_shown(const struct mesh_scratch *s, struct mesh_calibration *cal, enum mesh_op op)
{
	size_t at;

	cal->shown[op] = 0;
	if (mesh_op_info[op].place || cal->slot[op] == MESH_OP_ABSENT)
		return;
	for (at = sizeof(void *); at + sizeof(void *) <= cal->context_size && !cal->shown[op]; at += sizeof(void *))
		if (mesh_pointer_at(s->start, at) == mesh_marker(cal->slot[op]))
			cal->shown[op] = at;
}

/*
 * verbs_set_ops() with a table of one entry must change that operation, in all its places, and nothing else. The plugin puts
 * its overlay on contexts in this way.
 */
static int check_single(const struct mesh_library *lib, struct mesh_scratch *s,
			const struct mesh_calibration *cal, enum mesh_op op, size_t priv_bytes, char *why,
			size_t why_size)
{
	const void *fresh = mesh_marker(MESH_OPS_MAX - 1);
	size_t priv_at = cal->priv_ops + cal->slot[op] * sizeof(void *);
	char *before;
	int err = 0;

	before = malloc(cal->context_size + priv_bytes);
	if (!before) {
		snprintf(why, why_size, "out of memory");
		return -ENOMEM;
	}
	memcpy(before, s->start, cal->context_size);
	memcpy(before + cal->context_size, s->tail->priv, priv_bytes);

	memset(s->table, 0, sizeof(s->table));
	s->table[cal->slot[op]] = fresh;
	lib->set_ops(s->start, s->table);

	/* The same changes are made to the copy. Then both must be equal. */
	if (mesh_op_info[op].place)
		memcpy(before + ((char *)s->tail - (char *)s->start) + mesh_op_info[op].place, &fresh,
		       sizeof(fresh));
	if (cal->shown[op])
		memcpy(before + cal->shown[op], &fresh, sizeof(fresh));
	memcpy(before + cal->context_size + priv_at, &fresh, sizeof(fresh));
	if (memcmp(before, s->start, cal->context_size) ||
	    memcmp(before + cal->context_size, s->tail->priv, priv_bytes)) {
		snprintf(why, why_size, "replacing %s changes more or less than that", mesh_op_info[op].name);
		err = -ENOTSUP;
	}
	free(before);
	return err;
}

static int check_singles(const struct mesh_library *lib, struct mesh_scratch *s, struct mesh_calibration *cal,
			 unsigned int last, char *why, size_t why_size)
{
	size_t priv_bytes = cal->priv_ops + (last + 1) * sizeof(void *);
	enum mesh_op op;
	int err;

	mesh_scratch_mark(lib, s);
	for (op = 0; op < MESH_N_OPS; op++)
		find_shown(s, cal, op);
	for (op = 0; op < MESH_N_OPS; op++) {
		if (cal->slot[op] == MESH_OP_ABSENT)
			continue;
		err = check_single(lib, s, cal, op, priv_bytes, why, why_size);
		if (err == -ENOTSUP && op >= MESH_OPS_MOVES)
			cal->slot[op] = MESH_OP_ABSENT;
		else if (err)
			return err;
	}
	return 0;
}

static unsigned int highest(const unsigned int *slots, size_t n, unsigned int at_least)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (slots[i] != MESH_OP_ABSENT && slots[i] > at_least)
			at_least = slots[i];
	return at_least;
}

static void tell_moves(const struct mesh_library *lib, struct mesh_calibration *cal)
{
	enum mesh_op op;

	for (op = MESH_OPS_MOVES; op < MESH_OPS_STAND_IN; op++) {
		if (cal->slot[op] == MESH_OP_ABSENT && !mesh_calibration_lacks(lib, op)) {
			snprintf(cal->no_moves, sizeof(cal->no_moves), "operation %s was not found",
				 mesh_op_info[op].name);
			return;
		}
	}
	if (lib->missing_verb)
		snprintf(cal->no_moves, sizeof(cal->no_moves), "it does not export ibv_%s",
			 lib->missing_verb);
}

static int measure(const struct mesh_library *lib, struct mesh_scratch *s, struct mesh_calibration *cal,
		   char *why, size_t why_size)
{
	unsigned int slots[MESH_N_PUBLIC], last;
	enum mesh_op op;
	int err;

	cal->context_size = (size_t)((char *)(s->context + 1) - (char *)s->start);
	mesh_scratch_mark(lib, s);
	err = mesh_find_public(s, slots, why, why_size);
	if (err)
		return err;
	last = highest(slots, MESH_N_PUBLIC, 0);
	err = mesh_find_private(s, last, &cal->priv_ops, why, why_size);
	if (!err)
		err = mesh_find_slots(lib, s, cal, why, why_size);
	if (!err)
		err = check_distinct(cal, slots, why, why_size);
	if (err)
		return err;

	last = highest(cal->slot, MESH_N_OPS, last);
	err = check_singles(lib, s, cal, last, why, why_size);
	if (err)
		return err;
	cal->n_known = 0;
	for (op = 0; op < MESH_N_OPS; op++)
		cal->n_known += cal->slot[op] != MESH_OP_ABSENT;
	tell_moves(lib, cal);
	return 0;
}

int mesh_calibrate(const struct mesh_library *lib, struct mesh_calibration *ret, char *why, size_t why_size)
{
	struct mesh_calibration cal = {0};
	struct mesh_scratch *s;
	int err;

	s = malloc(sizeof(*s)); /* too large for the stack of a program's thread */
	if (!s) {
		snprintf(why, why_size, "out of memory");
		return -ENOMEM;
	}
	err = mesh_scratch_init(lib, s, why, why_size);
	if (!err) {
		err = measure(lib, s, &cal, why, why_size);
		mesh_scratch_fini(s);
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
	const char *start = (const char *)(context + 1) - cal->context_size;
	const void *private_ptr;

	if (!tail->priv || cal->slot[op] == MESH_OP_ABSENT)
		return NULL;
	private_ptr = mesh_pointer_at(tail->priv, cal->priv_ops + cal->slot[op] * sizeof(void *));
	if (mesh_op_info[op].place && mesh_pointer_at(tail, mesh_op_info[op].place) != private_ptr)
		return NULL;
	if (cal->shown[op] && mesh_pointer_at(start, cal->shown[op]) != private_ptr)
		return NULL;
	return (void *)(uintptr_t)private_ptr;
}
