// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "calibrate_find.h"

#define PLACE(member) offsetof(struct verbs_context, member)
#define OPS(member)   offsetof(struct verbs_context, context.ops.member)

#define SLOT(member) {#member, OPS(member)}

const struct mesh_public_slot mesh_public_slots[MESH_N_PUBLIC] = {
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

const struct mesh_public_slot mesh_op_info[MESH_N_OPS] = {
	[MESH_OP_MODIFY_QP] = {"modify_qp", OPS(_compat_modify_qp)},
	[MESH_OP_CREATE_AH] = {"create_ah", OPS(_compat_create_ah)},
	[MESH_OP_ASYNC_EVENT] = {"async_event", OPS(_compat_async_event)},
	[MESH_OP_FREE_CONTEXT] = {"free_context", 0},
	[MESH_OP_ALLOC_PD] = {"alloc_pd", OPS(_compat_alloc_pd)},
	[MESH_OP_DEALLOC_PD] = {"dealloc_pd", OPS(_compat_dealloc_pd)},
	[MESH_OP_ALLOC_PARENT_DOMAIN] = {"alloc_parent_domain", PLACE(alloc_parent_domain)},
	[MESH_OP_REG_MR] = {"reg_mr", OPS(_compat_reg_mr)},
	[MESH_OP_REG_DMABUF_MR] = {"reg_dmabuf_mr", 0},
	[MESH_OP_REG_MR_EX] = {"reg_mr_ex", 0},
	[MESH_OP_IMPORT_MR] = {"import_mr", 0},
	[MESH_OP_IMPORT_PD] = {"import_pd", 0},
	[MESH_OP_UNIMPORT_PD] = {"unimport_pd", 0},
	[MESH_OP_SET_ECE] = {"set_ece", 0},
	[MESH_OP_QUERY_ECE] = {"query_ece", 0},
	[MESH_OP_ALLOC_NULL_MR] = {"alloc_null_mr", PLACE(alloc_null_mr)},
	[MESH_OP_REG_DM_MR] = {"reg_dm_mr", PLACE(reg_dm_mr)},
	[MESH_OP_ALLOC_MW] = {"alloc_mw", OPS(alloc_mw)},
	[MESH_OP_REREG_MR] = {"rereg_mr", OPS(_compat_rereg_mr)},
	[MESH_OP_DEREG_MR] = {"dereg_mr", OPS(_compat_dereg_mr)},
	[MESH_OP_CREATE_CQ] = {"create_cq", OPS(_compat_create_cq)},
	[MESH_OP_CREATE_CQ_EX] = {"create_cq_ex", 0}, /* in the public place of that name the library has its own function */
	[MESH_OP_RESIZE_CQ] = {"resize_cq", OPS(_compat_resize_cq)},
	[MESH_OP_DESTROY_CQ] = {"destroy_cq", OPS(_compat_destroy_cq)},
	[MESH_OP_MODIFY_CQ] = {"modify_cq", PLACE(modify_cq)},
	[MESH_OP_CQ_EVENT] = {"cq_event", OPS(_compat_cq_event)},
	[MESH_OP_POLL_CQ] = {"poll_cq", OPS(poll_cq)},
	[MESH_OP_REQ_NOTIFY_CQ] = {"req_notify_cq", OPS(req_notify_cq)},
	[MESH_OP_CREATE_SRQ] = {"create_srq", OPS(_compat_create_srq)},
	[MESH_OP_CREATE_SRQ_EX] = {"create_srq_ex", PLACE(create_srq_ex)},
	[MESH_OP_MODIFY_SRQ] = {"modify_srq", OPS(_compat_modify_srq)},
	[MESH_OP_QUERY_SRQ] = {"query_srq", OPS(_compat_query_srq)},
	[MESH_OP_DESTROY_SRQ] = {"destroy_srq", OPS(_compat_destroy_srq)},
	[MESH_OP_POST_SRQ_RECV] = {"post_srq_recv", OPS(post_srq_recv)},
	[MESH_OP_CREATE_QP] = {"create_qp", OPS(_compat_create_qp)},
	[MESH_OP_CREATE_QP_EX] = {"create_qp_ex", PLACE(create_qp_ex)},
	[MESH_OP_OPEN_QP] = {"open_qp", PLACE(open_qp)},
	[MESH_OP_QUERY_QP] = {"query_qp", OPS(_compat_query_qp)},
	[MESH_OP_MODIFY_QP_RATE_LIMIT] = {"modify_qp_rate_limit", PLACE(modify_qp_rate_limit)},
	[MESH_OP_DESTROY_QP] = {"destroy_qp", OPS(_compat_destroy_qp)},
	[MESH_OP_POST_SEND] = {"post_send", OPS(post_send)},
	[MESH_OP_POST_RECV] = {"post_recv", OPS(post_recv)},
	[MESH_OP_DESTROY_AH] = {"destroy_ah", OPS(_compat_destroy_ah)},
	[MESH_OP_BIND_MW] = {"bind_mw", OPS(bind_mw)},
	[MESH_OP_QUERY_PORT] = {"query_port", 0}, /* in the public place of that name the library has its own function */
};

const char *mesh_op_name(enum mesh_op op)
{
	return mesh_op_info[op].name;
}

int mesh_find_public(const struct mesh_scratch *s, unsigned int slots[MESH_N_PUBLIC], char *why, size_t why_size)
{
	bool taken[MESH_OPS_MAX] = {false};
	size_t i;

	for (i = 0; i < MESH_N_PUBLIC; i++) {
		if (!mesh_is_marker(mesh_pointer_at(s->tail, mesh_public_slots[i].place), &slots[i]) ||
		    taken[slots[i]]) {
			snprintf(why, why_size, "operation %s is not where it should be",
				 mesh_public_slots[i].name);
			return -ENOTSUP;
		}
		taken[slots[i]] = true;
	}
	return 0;
}

static unsigned int read_place(const struct mesh_scratch *s, size_t place)
{
	unsigned int slot;

	if (!place || !mesh_scratch_holds(s, place) ||
	    !mesh_is_marker(mesh_pointer_at(s->tail, place), &slot))
		return MESH_OP_ABSENT;
	return slot;
}

/* The private copy of the table is searched in so many bytes. In rdma-core 44 the copy begins at byte 24. */
#define PRIV_SEARCH 256

/* The private copy has the order of the table, so it has the markers of slots 0, 1, 2 ... one after another. */
int mesh_find_private(const struct mesh_scratch *s, unsigned int last_slot, size_t *ret_offset, char *why,
			size_t why_size)
{
	const char *priv = (const char *)s->tail->priv;
	size_t off, limit = (last_slot + 1) * sizeof(void *); /* *priv has at least the size of the table */
	unsigned int k;

	if (limit > PRIV_SEARCH)
		limit = PRIV_SEARCH;
	for (off = 0; off < limit; off += sizeof(void *))
		if (mesh_pointer_at(priv, off) == mesh_marker(0))
			break;
	if (off == limit) {
		snprintf(why, why_size, "its private table of operations was not found");
		return -ENOTSUP;
	}
	for (k = 1; k <= last_slot; k++) {
		if (mesh_pointer_at(priv, off + k * sizeof(void *)) != mesh_marker(k)) {
			snprintf(why, why_size, "its private table is not in the order of the public one");
			return -ENOTSUP;
		}
	}
	*ret_offset = off;
	return 0;
}

/* An operation without a public place is found by a call of the function of libibverbs that uses it: mesh_scratch_probe(). */

static void call_close(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	(void)arg;
	lib->close_device(s->context);
}

static void call_reg_dmabuf(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	struct ibv_pd pd = {.context = s->context};

	(void)arg;
	lib->reg_dmabuf_mr(&pd, 0, 4096, 0, -1, 0);
}

/* With a file descriptor, libibverbs changes no memory (ibv_dontfork_range()) before it calls the operation. */
static void call_reg_mr_ex(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	struct {
		struct mesh_mr_init_attr attr;
		char more[256]; /* members of later releases */
	} in = {.attr = {.length = 4096, .fd = -1, .comp_mask = MESH_MR_IOVA | MESH_MR_FD | MESH_MR_FD_OFFSET}};
	struct ibv_pd pd = {.context = s->context};

	(void)arg;
	lib->reg_mr_ex(&pd, &in.attr);
}

static void call_import_mr(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	struct ibv_pd pd = {.context = s->context};

	(void)arg;
	lib->import_mr(&pd, 0);
}

static void call_import_pd(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	(void)arg;
	lib->import_pd(s->context, 0);
}

static void call_unimport_pd(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	struct ibv_pd pd = {.context = s->context};

	(void)arg;
	lib->unimport_pd(&pd);
}

static void call_set_ece(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	struct ibv_qp qp = {.context = s->context};
	struct ibv_ece ece = {.vendor_id = 1}; /* with 0, libibverbs fails and does not call the operation */

	(void)arg;
	lib->set_ece(&qp, &ece);
}

static void call_query_ece(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	struct ibv_qp qp = {.context = s->context};
	struct ibv_ece ece = {0};

	(void)arg;
	lib->query_ece(&qp, &ece);
}

static void call_query_port(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	uint64_t out[32]; /* more than struct ibv_port_attr has, of which this function fills a part */

	(void)arg;
	lib->query_port(s->context, 1, (struct _compat_ibv_port_attr *)out);
}

/* Operations that not every library has. */
static const struct {
	enum mesh_op op;
	size_t function; /* the exported function that calls it: byte offset in struct mesh_library */
	void (*call)(const struct mesh_library *lib, struct mesh_scratch *s, void *arg);
} later_ones[] = {
	{MESH_OP_REG_DMABUF_MR, offsetof(struct mesh_library, reg_dmabuf_mr), call_reg_dmabuf},
	{MESH_OP_REG_MR_EX, offsetof(struct mesh_library, reg_mr_ex), call_reg_mr_ex},
	{MESH_OP_IMPORT_MR, offsetof(struct mesh_library, import_mr), call_import_mr},
	{MESH_OP_IMPORT_PD, offsetof(struct mesh_library, import_pd), call_import_pd},
	{MESH_OP_UNIMPORT_PD, offsetof(struct mesh_library, unimport_pd), call_unimport_pd},
	{MESH_OP_SET_ECE, offsetof(struct mesh_library, set_ece), call_set_ece},
	{MESH_OP_QUERY_ECE, offsetof(struct mesh_library, query_ece), call_query_ece},
	{MESH_OP_QUERY_PORT, offsetof(struct mesh_library, query_port), call_query_port},
};

#define N_LATER (sizeof(later_ones) / sizeof(later_ones[0]))

bool mesh_calibration_lacks(const struct mesh_library *lib, enum mesh_op op)
{
	size_t i;

	for (i = 0; i < N_LATER; i++)
		if (later_ones[i].op == op)
			return !mesh_pointer_at(lib, later_ones[i].function);
	return false;
}

typedef struct ibv_cq_ex *(*create_cq_ex_fn)(struct ibv_context *, struct ibv_cq_init_attr_ex *);

static void call_create_cq_ex(const struct mesh_library *lib, struct mesh_scratch *s, void *arg)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1};
	create_cq_ex_fn function;

	(void)lib;
	memcpy(&function, arg, sizeof(function));
	function(s->context, &attr);
}

/*
 * Infers the slot of create_cq_ex, because no function that works without a device calls it. In every known library the table
 * is in alphabetical order, and create_cq_ex is the only operation between create_cq and create_flow. Both of these have a
 * public place. If they are not two slots apart, create_cq_ex counts as absent. mesh_calibration_confirm() checks the slot
 * later.
 */
static unsigned int infer_create_cq_ex(const struct mesh_scratch *s, unsigned int create_cq)
{
	unsigned int create_flow = read_place(s, PLACE(ibv_create_flow));

	return create_flow == create_cq + 2 ? create_cq + 1 : MESH_OP_ABSENT;
}

int mesh_find_slots(const struct mesh_library *lib, struct mesh_scratch *s, struct mesh_calibration *cal,
		      char *why, size_t why_size)
{
	unsigned int calls;
	enum mesh_op op;
	size_t i;

	for (op = 0; op < MESH_N_OPS; op++)
		cal->slot[op] = read_place(s, mesh_op_info[op].place);
	cal->slot[MESH_OP_CREATE_CQ_EX] = infer_create_cq_ex(s, cal->slot[MESH_OP_CREATE_CQ]);

	calls = mesh_scratch_probe(lib, s, call_close, NULL, &cal->slot[MESH_OP_FREE_CONTEXT]);
	if (calls != 1) {
		snprintf(why, why_size, "closing a context calls %u operations, not one", calls);
		return -ENOTSUP;
	}
	for (i = 0; i < N_LATER; i++)
		if (!mesh_calibration_lacks(lib, later_ones[i].op))
			mesh_scratch_probe(lib, s, later_ones[i].call, NULL, &cal->slot[later_ones[i].op]);
	return 0;
}

int mesh_calibration_confirm(const struct mesh_library *lib, const struct mesh_calibration *cal,
			     const struct ibv_context *context)
{
	const struct verbs_context *tail =
		(const struct verbs_context *)((const char *)context - offsetof(struct verbs_context, context));
	create_cq_ex_fn function = tail->create_cq_ex;
	struct mesh_scratch *s;
	unsigned int slot, calls = 0;
	char why[128];
	int err;

	s = malloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	err = mesh_scratch_init(lib, s, why, sizeof(why));
	if (!err) {
		if (function)
			calls = mesh_scratch_probe(lib, s, call_create_cq_ex, &function, &slot);
		if (calls != 1 || slot != cal->slot[MESH_OP_CREATE_CQ_EX])
			err = -ENOTSUP;
		mesh_scratch_fini(s);
	}
	free(s);
	return err;
}
