// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mlx5take.h"

#include <errno.h>
#include <string.h>

#include "context.h"

#define FAILURES 4u /* so many failures end the search for this context; one -EOPNOTSUPP is enough */
#define PORTS_DOWN 25u /* so many failures because no port is up count as one other failure */
#define TRIES    3

/* -EAGAIN: a word changed that should not. It may be memory of others (mesh_mlx5_copy()), so another try may help. */
static int find(struct mesh_context *mc, struct mesh_take_places *ret)
{
	int err = -EAGAIN, tries;

	for (tries = 0; tries < TRIES && err == -EAGAIN; tries++)
		err = mesh_take_find(mc, ret);
	return err;
}

/* Are the places known? They are searched if that has not been decided yet. */
static bool known(struct mesh_context *mc)
{
	struct mesh_mlx5 *m = &mc->data.mlx5;
	int err;

	if (m->take != MESH_MLX5_TAKE_UNKNOWN)
		return m->take == MESH_MLX5_TAKE_FOUND;
	err = find(mc, &m->places);
	/* A shortage of memory or descriptors, or of ports that are up, may be over at the next queue pair. */
	if (err)
		m->n_take_failures += err == -EHOSTUNREACH ? 1 : PORTS_DOWN;
	if (err && err != -EOPNOTSUPP && m->n_take_failures < FAILURES * PORTS_DOWN) {
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s: how libmlx5 polls cannot be told yet: %s", mc->device, strerrordesc_np(-err));
		return false;
	}
	m->take = err ? MESH_MLX5_TAKE_NEVER : MESH_MLX5_TAKE_FOUND;
	if (err)
		mv_log(&mesh_root.log, MV_LOG_INFO,
		       "%s: completions of protected queue pairs are looked at, and then polled by "
		       "libmlx5, which takes longer: %s",
		       mc->device, err == -EOPNOTSUPP ? "how it polls is not known" : strerrordesc_np(-err));
	else
		mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s: completions of protected queue pairs are taken in libmlx5's place", mc->device);
	return !err;
}

void mesh_take_words_cq(struct ibv_cq *cq, const struct mesh_take_places *places, struct mesh_take_cq *ret)
{
	char *start = (char *)cq;

	ret->lock = (uint32_t *)(void *)(start + places->cq_lock);
	ret->cons_index = (uint32_t *)(void *)(start + places->cq_cons_index);
}

void mesh_take_words_qp(struct ibv_qp *qp, const struct mesh_take_places *places, struct mesh_take_qp *ret)
{
	char *start = (char *)qp;

	memcpy(&ret->sq_wrid, start + places->sq_wrid, sizeof(ret->sq_wrid));
	memcpy(&ret->sq_wqe_head, start + places->sq_wqe_head, sizeof(ret->sq_wqe_head));
	memcpy(&ret->rq_wrid, start + places->rq_wrid, sizeof(ret->rq_wrid));
	ret->sq_tail = (uint32_t *)(void *)(start + places->sq_tail);
	ret->rq_tail = (uint32_t *)(void *)(start + places->rq_tail);
}

void mesh_take_open_cq(struct mesh_context *mc, struct ibv_cq *cq, struct mesh_take_cq *ret)
{
	*ret = (struct mesh_take_cq){0};
	if (known(mc))
		mesh_take_words_cq(cq, &mc->data.mlx5.places, ret);
}

void mesh_take_open_qp(struct mesh_context *mc, struct ibv_qp *qp, struct mesh_take_qp *ret)
{
	struct mesh_take_qp words;

	*ret = (struct mesh_take_qp){0};
	if (!known(mc))
		return;
	mesh_take_words_qp(qp, &mc->data.mlx5.places, &words);
	/* Nothing has completed on this queue pair yet, so both counts have to be 0. */
	if (words.sq_wrid && words.sq_wqe_head && !*words.sq_tail && !*words.rq_tail)
		*ret = words;
}
