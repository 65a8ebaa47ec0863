/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Handles of one open uverbs file. */
#include "hca.h"

#include <errno.h>
#include <stdlib.h>

/**
 * obj_add() - give @o the lowest free handle of @uc. Owns nothing: obj_del() before freeing @o.
 *
 * Return: 0 or -ENOMEM.
 */
int obj_add(struct ucontext *uc, struct obj *o, enum obj_type type)
{
	uint32_t i;

	for (i = 0; i < uc->n_objs && uc->objs[i]; i++)
		;
	if (i == uc->n_objs) {
		uint32_t n = uc->n_objs ? uc->n_objs * 2 : 64;
		struct obj **objs = realloc(uc->objs, n * sizeof(*objs));

		if (!objs)
			return -ENOMEM;
		for (uint32_t k = uc->n_objs; k < n; k++)
			objs[k] = NULL;
		uc->objs = objs;
		uc->n_objs = n;
	}
	uc->objs[i] = o;
	o->type = type;
	o->handle = i;
	o->uc = uc;
	return 0;
}

/** obj_get() - the object of that type behind a handle, or NULL. */
struct obj *obj_get(struct ucontext *uc, uint32_t handle, enum obj_type type)
{
	struct obj *o = handle < uc->n_objs ? uc->objs[handle] : NULL;

	return o && o->type == type ? o : NULL;
}

/** obj_del() - the handle becomes free; NULL is allowed for an object that never got one. */
void obj_del(struct obj *o)
{
	if (o && o->uc)
		o->uc->objs[o->handle] = NULL;
}
