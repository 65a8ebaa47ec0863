// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "qpmade.h"

#include <errno.h>
#include <stdlib.h>

#include "mlx5.h"

/* Record of one queue pair; data->made_lock. */
struct mesh_qp_made {
	const struct ibv_qp *qp;
	const char *stays; /* why it cannot move, a constant; NULL: it can */
	struct mesh_qp_ece ece;
};

static const char why_flags[] = "it was made with creation flags, or with attributes that are not known here (ibv_create_qp_ex)";
static const char why_unseen[] = "it was made by a function that is not seen here (mlx5dv_create_qp), which has flags that nobody can ask for";
static const char why_rate[] = "it has a rate limit (ibv_modify_qp_rate_limit)";
static const char why_no_memory[] = "there was no memory when it was made";

/* @made: NULL: no memory. */
static void keep(struct mesh_context *mc, const struct ibv_qp *qp, struct mesh_qp_made *made)
{
	struct mesh_data *data = &mc->data;

	mesh_lock(&data->made_lock);
	free(mesh_map_drop(&data->made, qp));
	if (!made || mesh_map_put(&data->made, qp, made)) {
		data->made_unknown = true;
		free(made);
	}
	mesh_unlock(&data->made_lock);
}

static void note(struct mesh_context *mc, const struct ibv_qp *qp, const char *stays)
{
	int saved_errno = errno;
	struct mesh_qp_made *made = calloc(1, sizeof(*made));

	if (made)
		*made = (struct mesh_qp_made){.qp = qp, .stays = stays};
	keep(mc, qp, made);
	errno = saved_errno;
}

const char *mesh_qp_stays(struct mesh_context *mc, const struct ibv_qp *qp)
{
	struct mesh_data *data = &mc->data;
	const struct mesh_qp_made *made;
	const char *stays = NULL;

	mesh_lock(&data->made_lock);
	made = mesh_map_get(&data->made, qp);
	if (made)
		stays = made->stays;
	else if (data->made_unknown)
		stays = why_no_memory;
	else if (mesh_mlx5_is_lower(mc))
		stays = why_unseen;
	mesh_unlock(&data->made_lock);
	return stays;
}

void mesh_qp_stay(struct mesh_context *mc, const struct ibv_qp *qp, const char *why)
{
	struct mesh_data *data = &mc->data;
	struct mesh_qp_made *made;

	mesh_lock(&data->made_lock);
	made = mesh_map_get(&data->made, qp);
	if (made && !made->stays)
		made->stays = why;
	mesh_unlock(&data->made_lock);
}

void mesh_qp_note_ece(struct mesh_context *mc, const struct ibv_qp *qp, const struct mesh_qp_ece *ece)
{
	struct mesh_data *data = &mc->data;
	struct mesh_qp_made *made;

	mesh_lock(&data->made_lock);
	made = mesh_map_get(&data->made, qp);
	if (made)
		made->ece = ece ? *ece : (struct mesh_qp_ece){0};
	mesh_unlock(&data->made_lock);
}

bool mesh_qp_ece(struct mesh_context *mc, const struct ibv_qp *qp, struct mesh_qp_ece *ret)
{
	struct mesh_data *data = &mc->data;
	const struct mesh_qp_made *made;

	mesh_lock(&data->made_lock);
	made = mesh_map_get(&data->made, qp);
	*ret = made ? made->ece : (struct mesh_qp_ece){0};
	mesh_unlock(&data->made_lock);
	return ret->ece.vendor_id;
}

struct mesh_qp_made *mesh_qp_take(struct mesh_context *mc, const struct ibv_qp *qp)
{
	struct mesh_data *data = &mc->data;
	struct mesh_qp_made *made;

	mesh_lock(&data->made_lock);
	made = mesh_map_drop(&data->made, qp);
	mesh_unlock(&data->made_lock);
	return made;
}

void mesh_qp_taken(struct mesh_context *mc, struct mesh_qp_made *made, bool gone)
{
	if (gone)
		free(made);
	else if (made)
		keep(mc, made->qp, made);
}

void mesh_qps_forget(struct mesh_context *mc)
{
	struct mesh_data *data = &mc->data;
	struct mesh_qp_made *made;

	while ((made = mesh_map_any(&data->made)))
		free(mesh_map_drop(&data->made, made->qp));
	mesh_map_fini(&data->made);
	mesh_lock_fini(&data->made_lock);
}

/* ---- what the program makes ---------------------------------------------------------------------------------- */

static bool is_noted(const struct mesh_context *mc, enum ibv_qp_type type, const void *qp_context)
{
	return type == IBV_QPT_RC && qp_context != &mesh_own_qp && mc->can_move && mesh_context_active(mc);
}

struct ibv_qp *mesh_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	struct ibv_qp *qp = mc->lower.qp.create_qp(pd, attr);

	if (qp && is_noted(mc, attr->qp_type, attr->qp_context))
		note(mc, qp, NULL);
	return qp;
}

/* send_ops_flags do not matter here: mesh_mlx5_builds() checks the result. */
static bool asks_for_more(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	return attr->comp_mask & ~known || (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags);
}

struct ibv_qp *mesh_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct mesh_context *mc = mesh_context_get(context);
	bool more = asks_for_more(attr);
	struct ibv_qp *qp = mc->lower.qp.create_qp_ex(context, attr);

	if (qp && is_noted(mc, attr->qp_type, attr->qp_context))
		note(mc, qp, more ? why_flags : NULL);
	return qp;
}

static bool is_watched(const struct mesh_context *mc, const struct ibv_qp *qp)
{
	return qp->qp_type == IBV_QPT_RC && mc->can_move && mesh_context_active(mc);
}

/* The next queue pair would have no rate limit. mlx5 has no rate limit for RC: its kernel driver refuses it. */
int mesh_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	int err = mc->lower.qp.modify_qp_rate_limit(qp, attr);

	if (!err && attr->rate_limit && is_watched(mc, qp))
		mesh_qp_stay(mc, qp, why_rate);
	return err;
}

int mesh_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	struct mesh_context *mc = mesh_context_get(qp->context);
	int err = mc->lower.qp.set_ece(qp, ece);

	if (!err && is_watched(mc, qp))
		mesh_qp_note_ece(mc, qp, &(struct mesh_qp_ece){.ece = *ece});
	return err;
}
