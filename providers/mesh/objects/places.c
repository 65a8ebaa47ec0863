// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "places.h"

#include <string.h>

struct mesh_places_ops mesh_places_ops;

#define PLACES(X) X(poll_cq) X(req_notify_cq) X(post_send) X(post_recv) X(post_srq_recv)

/*
 * The program's threads read these pointers without ordering, in inline functions of libibverbs' headers. An aligned pointer is
 * written as a whole, and a sanitizer of the program must not report a race.
 *
 * A pointer that is neither the lower provider's nor the plugin's stays: another library (a tracer, a fault injector)
 * has put it there, and would not be called any more. If it replaced the plugin's, it calls the plugin's, which call
 * the lower provider where nothing is to be done.
 */
__attribute__((no_sanitize("thread"), noinline)) static void put(struct ibv_context_ops *ops, const struct mesh_context *mc,
								  unsigned int ours)
{
#define X(op)                                                                                                       \
	{                                                                                                           \
		__typeof__(ops->op) from = ours & MESH_AT_##op ? mc->lower.io.op : mesh_places_ops.op;              \
		__typeof__(ops->op) to = ours & MESH_AT_##op ? mesh_places_ops.op : mc->lower.io.op;                \
                                                                                                                    \
		__atomic_compare_exchange_n(&ops->op, &from, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);        \
	}
	PLACES(X)
#undef X
}

/* Return: places that have neither the lower provider's nor the plugin's function. */
__attribute__((no_sanitize("thread"), noinline)) static unsigned int intercepted(const struct mesh_context *mc)
{
	const struct ibv_context_ops *ops = &atomic_load_explicit(&mc->verbs, memory_order_relaxed)->ops;
	unsigned int places = 0;

#define X(op)                                                                                                       \
	{                                                                                                           \
		__typeof__(ops->op) now = __atomic_load_n(&ops->op, __ATOMIC_RELAXED);                              \
                                                                                                                    \
		if (now != mc->lower.io.op && now != mesh_places_ops.op)                                            \
			places |= MESH_AT_##op;                                                                     \
	}
	PLACES(X)
#undef X
	return places;
}

static void log_intercepted(const struct mesh_context *mc, unsigned int places)
{
	char names[80] = "";

#define X(op)                         \
	if (places & MESH_AT_##op)    \
		strcat(names, " " #op);
	PLACES(X)
#undef X
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "%s: posts or polls of this context are intercepted by something else in this process (%s): that stays, and what "
		    "would need ours in its place is left as the program asked",
		    mc->device, names + 1);
}

bool mesh_data_takes(const struct mesh_context *mc, unsigned int places)
{
	unsigned int others = intercepted(mc) & places;

	if (others)
		log_intercepted(mc, others);
	return !others;
}

const char *mesh_data_why_not(const struct mesh_context *mc)
{
	return intercepted(mc) & MESH_FOR_CONNECTIONS ? "posts or polls of its context are intercepted by something else" : NULL;
}

void mesh_data_slots(struct mesh_context *mc)
{
	struct ibv_context *verbs = atomic_load_explicit(&mc->verbs, memory_order_relaxed);
	const struct mesh_data *data = &mc->data;
	unsigned int ours = 0;

	/* A used CQ may have completions that only the plugin's functions show, or hide. */
	if (data->n_vqps || data->n_used_cqs || mesh_ud_active(mc))
		ours |= MESH_POLLING;
	if (data->n_vqps > data->n_read || mesh_ud_active(mc))
		ours |= MESH_AT_post_send;
	if (data->n_vqps > data->n_read || data->n_noted)
		ours |= MESH_AT_post_recv;
	if (data->n_srqs)
		ours |= MESH_AT_post_srq_recv;
	put(&verbs->ops, mc, ours);
}
