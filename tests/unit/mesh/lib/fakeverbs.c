// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The made-up libibverbs itself: its list of drivers, and its contexts. Built once for each private ABI number the
 * tests want: FAKE_ABI, FAKE_IMPORT when it is to know ibv_import_device() and dma-buf, FAKE_REG_EX when
 * ibv_reg_mr_ex(), too, FAKE_OLD when it is older than GID table queries, FAKE_NO_VERBS when it lacks the functions of
 * programs.
 */
#include <stdlib.h>
#include <string.h>

#include "fakeverbs_internal.h"

/* Operations that show in public, in the order of struct ibv_context_ops, then in struct verbs_context, then others. */
#define MIRRORED(member)  {offsetof(struct verbs_context, context.ops.member)}
#define EXTENDED(member)  {offsetof(struct verbs_context, member)}
static const struct {
	size_t place; /* in struct verbs_context */
} ops[] = {
	MIRRORED(_compat_alloc_pd),	   MIRRORED(_compat_dealloc_pd), MIRRORED(_compat_reg_mr),
	MIRRORED(_compat_rereg_mr),	   MIRRORED(_compat_dereg_mr),   MIRRORED(alloc_mw),
	MIRRORED(bind_mw),		   MIRRORED(dealloc_mw),	    MIRRORED(_compat_create_cq),
	MIRRORED(poll_cq),		   MIRRORED(req_notify_cq),	    MIRRORED(_compat_cq_event),
	MIRRORED(_compat_resize_cq),   MIRRORED(_compat_destroy_cq), MIRRORED(_compat_create_srq),
	MIRRORED(_compat_modify_srq),  MIRRORED(_compat_query_srq), MIRRORED(_compat_destroy_srq),
	MIRRORED(post_srq_recv),	   MIRRORED(_compat_create_qp), MIRRORED(_compat_query_qp),
	MIRRORED(_compat_modify_qp),   MIRRORED(_compat_destroy_qp), MIRRORED(post_send),
	MIRRORED(post_recv),	   MIRRORED(_compat_create_ah), MIRRORED(_compat_destroy_ah),
	MIRRORED(_compat_attach_mcast), MIRRORED(_compat_detach_mcast),
	MIRRORED(_compat_async_event), EXTENDED(create_qp_ex), EXTENDED(create_srq_ex),
	EXTENDED(open_qp),	   EXTENDED(alloc_parent_domain), EXTENDED(ibv_create_flow),
	EXTENDED(alloc_null_mr),   EXTENDED(reg_dm_mr),	EXTENDED(modify_cq),
	EXTENDED(modify_qp_rate_limit),
};

#define N_MIRRORED (sizeof(ops) / sizeof(ops[0]))
_Static_assert(N_MIRRORED == OP_FREE_CONTEXT, "operations that show come first");

struct fake_config config;
unsigned int slot_of[OPS_LIMIT];

EXPORT struct fake_state fake_state;

/* The list of drivers: same shape as libibverbs'. */
static struct mesh_driver_node list = {&list, &list, NULL};
static struct mesh_driver_node second_list = {&second_list, &second_list, NULL};
static struct mesh_driver_node *heap_list;

static struct mesh_driver_node *head(void)
{
	return config.defect == FAKE_LIST_HEAP ? heap_list : &list;
}

EXPORT void CAT(verbs_register_driver_, FAKE_ABI)(const struct mesh_driver_ops *driver)
{
	struct mesh_driver_node *node, *h = head();

	if (config.defect == FAKE_LIST_NONE)
		return;
	node = malloc(sizeof(*node));
	if (!node)
		return;
	node->ops = driver;
	if (config.defect == FAKE_LIST_FRONT) {
		node->next = h->next;
		node->prev = h;
	} else {
		node->next = h;
		node->prev = config.defect == FAKE_LIST_SINGLE ? NULL : h->prev;
	}
	if (config.defect == FAKE_LIST_FRONT) {
		h->next->prev = node;
		h->next = node;
	} else {
		h->prev->next = node;
		h->prev = node;
	}
	if (config.defect == FAKE_LIST_MIRROR) {
		second_list.prev = node;
		second_list.next = node;
	}
}

static void free_nodes(struct mesh_driver_node *h)
{
	struct mesh_driver_node *node = h->next, *next;

	for (; node && node != h; node = next) {
		next = node->next;
		free(node);
	}
}

/* Give an operation a slot; the one that had it gets the other's. */
static void move_op(unsigned int op, unsigned int slot)
{
	unsigned int i;

	for (i = 0; i < config.n_ops; i++)
		if (slot_of[i] == slot)
			slot_of[i] = slot_of[op];
	slot_of[op] = slot;
}

/* In every real library the slots of create_cq, create_cq_ex and create_flow follow one another. */
static void place_cq_ex(void)
{
	unsigned int first = slot_of[OP_CREATE_CQ];

	if (first > config.n_ops - 4)
		move_op(OP_CREATE_CQ, first = config.n_ops - 4);
	move_op(OP_CREATE_CQ_EX, first + (config.defect == FAKE_NO_CQ_EX ? 3 : 1));
	move_op(OP_CREATE_FLOW, first + (config.defect == FAKE_NO_CQ_EX ? 1 : config.defect == FAKE_CQ_EX_FAR ? 3 : 2));
}

EXPORT void fake_configure(const struct fake_config *c);

EXPORT void fake_configure(const struct fake_config *c)
{
	unsigned int rnd = c->seed, i, j, tmp;

	if (config.defect != FAKE_LIST_HEAP)
		free_nodes(&list);
	config = *c;
	list.next = list.prev = &list;
	second_list.next = second_list.prev = &second_list;
	if (!heap_list)
		heap_list = malloc(sizeof(*heap_list));
	else
		free_nodes(heap_list);
	heap_list->next = heap_list->prev = heap_list;
	memset(&fake_state, 0, sizeof(fake_state));
	fake_state.modify_fails_for = fake_state.ah_fails_for = -1;

	for (i = 0; i < c->n_ops; i++)
		slot_of[i] = i;
	for (i = c->n_ops - 1; c->seed && i > 0; i--) {
		rnd = rnd * 1664525u + 1013904223u;
		j = (rnd >> 8) % (i + 1);
		tmp = slot_of[i];
		slot_of[i] = slot_of[j];
		slot_of[j] = tmp;
	}
	place_cq_ex();
	if (c->defect == FAKE_MIRROR_SHARED)
		slot_of[OP_QUERY_QP] = slot_of[OP_MODIFY_QP];
	if (c->defect == FAKE_CLOSE_SHARED)
		slot_of[OP_FREE_CONTEXT] = slot_of[OP_MODIFY_QP];
}

const void **priv_ops(struct verbs_context *tail)
{
	size_t front = config.defect == FAKE_PRIV_FAR ? 512 : config.priv_front;

	return (const void **)((char *)tail->priv + front);
}

struct verbs_context *tail_of(struct ibv_context *context)
{
	return (struct verbs_context *)((char *)context - offsetof(struct verbs_context, context));
}

struct ibv_context *context_of(struct verbs_context *start)
{
	return (struct ibv_context *)((char *)start + config.front + offsetof(struct verbs_context, context));
}

EXPORT void verbs_set_ops(struct verbs_context *start, const void *const *table)
{
	struct ibv_context *context = context_of(start);
	struct verbs_context *tail = tail_of(context);
	const void **priv = priv_ops(tail), *op;
	unsigned int i, slot;

	for (i = 0; i < config.n_ops; i++) {
		slot = slot_of[i];
		op = table[slot];
		if (!op && config.defect != FAKE_SET_CLEARS)
			continue;
		priv[config.defect == FAKE_PRIV_SHUFFLED ? config.n_ops - 1 - slot : slot] = op;
		if (config.defect == FAKE_NO_QP_EX && i == OP_CREATE_QP_EX)
			continue;
		if (i < N_MIRRORED && config.defect != FAKE_NO_MIRROR)
			memcpy((char *)tail + ops[i].place, &op, sizeof(op));
		/* As rdma-core 59 and later: in front of what older headers know. */
		if (i == OP_REG_MR_EX && config.front >= 16)
			memcpy((char *)tail - sizeof(op), &op, sizeof(op));
	}
	if (config.defect == FAKE_SET_EXTRA)
		context->num_comp_vectors++;
}

static void *private_part(void)
{
	/* Exactly as large as it has to be, so that reading past it is seen by AddressSanitizer. */
	return calloc(1, (config.defect == FAKE_PRIV_FAR ? 512 : config.priv_front) +
				 config.n_ops * sizeof(void *));
}

/*
 * A context whose layout was not understood is not freed whole. The name sets what is lost then apart from
 * what must not be lost.
 */
__attribute__((noinline)) static void *private_part_of_refused(void)
{
	void *p = private_part();

	__asm__ volatile("" : : "r"(p)); /* no tail call: the name has to stay on the stack */
	return p;
}

EXPORT void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t alloc_size,
					   struct verbs_context *context_offset, uint32_t driver_id)
{
	struct verbs_context *start, *tail;
	struct ibv_context *context;
	char *buffer;

	(void)driver_id;
	if (config.defect == FAKE_INIT_FAILS)
		return NULL;
	buffer = calloc(1, alloc_size);
	if (!buffer)
		return NULL;
	start = (struct verbs_context *)(buffer + (uintptr_t)context_offset);
	context = context_of(start);
	tail = tail_of(context);

	if (config.defect != FAKE_NO_DEVICE)
		context->device = device;
	if (config.defect == FAKE_DEVICE_TWICE)
		context->abi_compat = device;
	context->cmd_fd = cmd_fd;
	tail->sz = config.front + sizeof(struct verbs_context) + (config.defect == FAKE_SIZE_WRONG ? 8 : 0);
	if (config.defect != FAKE_NO_PRIV)
		tail->priv = config.defect == FAKE_SANE || config.defect >= FAKE_NO_CQ_EX ?
				     private_part() :
				     private_part_of_refused();
	return buffer;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	const void **priv = priv_ops(tail_of(context));
	void (*op)(struct ibv_context *);

	if (config.defect == FAKE_CLOSE_NONE)
		return 0;
	memcpy(&op, &priv[slot_of[OP_FREE_CONTEXT]], sizeof(op));
	if (config.defect == FAKE_CLOSE_TWO)
		op(context);
	op(context);
	return 0;
}

/* What a real library puts into a context when the provider has made it. */
static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	unsigned int op = config.defect == FAKE_CQ_EX_OTHER ? OP_REG_DMABUF_MR : OP_CREATE_CQ_EX;
	struct ibv_cq_ex *(*function)(struct ibv_context *, struct ibv_cq_init_attr_ex *);

	memcpy(&function, &priv_ops(tail_of(context))[slot_of[op]], sizeof(function));
	return function(context, attr);
}

/* As libibverbs does: ask the drivers in order; the first that says yes makes the context. */
static struct mesh_driver_node *match(const char *lower)
{
	struct mesh_driver_node *node, *h = head();

	for (node = h->next; node != h; node = node->next)
		if (node->ops->match_device && node->ops->match_device(NULL) &&
		    !strcmp(node->ops->name, lower))
			return node;
	return NULL;
}

static struct ibv_context *open_with(const char *lower, struct ibv_device *device, void *private_data)
{
	struct mesh_driver_node *node = match(lower);
	struct verbs_context *start = node ? node->ops->alloc_context(device, -1, private_data) : NULL;

	if (!start)
		return NULL;
	tail_of(context_of(start))->create_cq_ex = create_cq_ex;
	return context_of(start);
}

EXPORT struct ibv_context *fake_open_device(const char *lower, struct ibv_device *device);

EXPORT struct ibv_context *fake_open_device(const char *lower, struct ibv_device *device)
{
	return open_with(lower, device, NULL);
}

EXPORT struct ibv_context *fake_open_direct(const char *lower, struct ibv_device *device);

EXPORT struct ibv_context *fake_open_direct(const char *lower, struct ibv_device *device)
{
	return open_with(lower, device, device);
}

#ifdef FAKE_IMPORT
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	(void)cmd_fd;
	return NULL; /* only that it exists matters */
}
#endif

EXPORT struct ibv_context *fake_import_device(const char *lower, struct ibv_device *device);

EXPORT struct ibv_context *fake_import_device(const char *lower, struct ibv_device *device)
{
	struct mesh_driver_node *node = match(lower);
	struct verbs_context *start = node ? node->ops->import_context(device, -1) : NULL;

	return start ? context_of(start) : NULL;
}
