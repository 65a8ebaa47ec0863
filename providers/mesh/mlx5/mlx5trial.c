// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mlx5trial.h"

#include <errno.h>
#include <string.h>

#include "context.h"
#include "mlx5own.h"

#define POLL    4u /* CQEs per poll, at most */
#define MOST    8u /* outstanding sends, and receives, at most */
#define LOOKS   5u /* CQEs of each kind for which libmlx5's structs are compared before and after */
#define KINDS   (MESH_OWN_KINDS + 4) /* kinds of CQEs: of sends, and of receives by opcode */
#define N_WORDS (MESH_MLX5_BYTES / sizeof(uint32_t))

struct end {
	struct mesh_own own;
	struct mesh_take_cq cq;
	struct mesh_take_qp qp;
	struct mesh_own_send sends[MOST]; /* outstanding, oldest first */
	uint32_t n_sends;
};

struct trial {
	struct end its, ours; /* libmlx5 consumes the CQEs of @its, the plugin most of @ours */
	uint32_t n_received;
	uint32_t seed;
	struct mesh_own_state before, after;
	uint8_t cq_changes[N_WORDS], qp_changes[N_WORDS]; /* for each word of libmlx5's structs: looks in which it changed */
};

static uint32_t rnd(struct trial *t, uint32_t below)
{
	t->seed = t->seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)t->seed * below >> 32);
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

/* To both queue pairs. */
static int post_send(struct trial *t, unsigned int kind)
{
	uint64_t wr_id = (uint64_t)rnd(t, ~0u) << 32 | rnd(t, ~0u);
	struct end *its = &t->its, *ours = &t->ours;

	if (!mesh_own_send(&its->own, kind, wr_id, &its->sends[its->n_sends]) ||
	    !mesh_own_send(&ours->own, kind, wr_id, &ours->sends[ours->n_sends]))
		return -EOPNOTSUPP;
	its->n_sends++;
	ours->n_sends++;
	return 0;
}

static int post_sends(struct trial *t, uint32_t n)
{
	int err = 0;

	for (; n && !err && t->its.n_sends < MOST; n--)
		err = post_send(t, rnd(t, MESH_OWN_KINDS));
	return err;
}

static int post_receives(struct trial *t, uint32_t n)
{
	uint64_t wr_id;

	for (; n && t->its.own.n_recvs - t->n_received < MOST; n--) {
		wr_id = (uint64_t)rnd(t, ~0u) << 32 | rnd(t, ~0u);
		if (!mesh_own_recv(&t->its.own, wr_id) || !mesh_own_recv(&t->ours.own, wr_id))
			return -EOPNOTSUPP;
	}
	return 0;
}

/* Is there room for one more round, which posts at most MOST sends and MOST receives? */
static bool goes_on(const struct mesh_own *own)
{
	return own->n_sends + MOST < MESH_OWN_WRS && own->n_recvs + MOST < MESH_OWN_WRS;
}

/* ---- completions ------------------------------------------------------------------------------------------------ */

/* The CQE of a send completes the sends before it, too. */
static void sent(struct end *e, uint32_t last, uint32_t bytes)
{
	mesh_own_sent(&e->own, &e->sends[last], bytes);
	e->n_sends -= last + 1;
	memmove(e->sends, &e->sends[last + 1], e->n_sends * sizeof(e->sends[0]));
}

static void complete_send(struct trial *t)
{
	uint32_t last = rnd(t, t->its.n_sends), bytes = rnd(t, 1u << 31);

	sent(&t->its, last, bytes);
	sent(&t->ours, last, bytes);
}

static void complete_receive(struct trial *t, unsigned int opcode)
{
	uint32_t bytes = rnd(t, ~0u), imm = rnd(t, ~0u), flags = rnd(t, ~0u);

	mesh_own_received(&t->its.own, t->n_received, opcode, bytes, imm, flags);
	mesh_own_received(&t->ours.own, t->n_received, opcode, bytes, imm, flags);
	t->n_received++;
}

static void complete_some(struct trial *t, uint32_t n)
{
	for (; n; n--) {
		if (t->its.n_sends && rnd(t, 2))
			complete_send(t);
		else if (t->its.own.n_recvs != t->n_received)
			complete_receive(t, MLX5_CQE_RESP_WR_IMM + rnd(t, 4));
	}
}

/* Return: false: not a plain CQE, or a word has an impossible value. */
static bool take_one(const struct end *e, const struct mlx5_cqe64 *cqe, struct ibv_wc *wc)
{
	struct mesh_take_kind kind = mesh_take_kind_of(be32toh(cqe->sop_drop_qpn) >> 24);
	uint32_t tail;

	if (mesh_take_plain_receive(cqe)) {
		mesh_take_receive(&e->qp, e->own.rq.n_wqes, cqe, wc);
		return true;
	}
	if (!mesh_take_plain_send(cqe) || !kind.known || !mesh_take_send_tail(&e->qp, e->own.sq.n_wqes, be16toh(cqe->wqe_counter), &tail))
		return false;
	mesh_take_send(&e->qp, e->own.sq.n_wqes, cqe, kind, tail, wc);
	return true;
}

static int take(const struct end *e, int n, struct ibv_wc *wc)
{
	uint32_t at = mv_mlx5_consumer(&e->own.cqes);
	const struct mlx5_cqe64 *cqe;
	int got = 0;

	if (!mesh_take_begin(&e->cq, at))
		return -EBUSY;
	while (got < n && (cqe = mv_mlx5_cqe_at(&e->own.cqes, at + (uint32_t)got)) && take_one(e, cqe, &wc[got]))
		got++;
	mesh_take_end(&e->cq, &e->own.cqes, (uint32_t)got);
	return got;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static bool same_words(const struct trial *t)
{
	const struct end *its = &t->its, *ours = &t->ours;

	return *its->cq.cons_index == *ours->cq.cons_index && *its->qp.sq_tail == *ours->qp.sq_tail &&
	       *its->qp.rq_tail == *ours->qp.rq_tail && mv_mlx5_consumer(&its->own.cqes) == mv_mlx5_consumer(&ours->own.cqes);
}

static void count_changes(const union mesh_own_words *before, const union mesh_own_words *after, uint8_t n_changes[N_WORDS])
{
	size_t i;

	for (i = 0; i < N_WORDS; i++)
		n_changes[i] += before->word[i] != after->word[i];
}

/*
 * Did only the expected words change? A word counts if it changed in most looks, because the copies may have memory of others
 * (mesh_mlx5_copy()). Words are compared by address: an expected word may lie behind the struct @obj, such as a doorbell
 * record.
 */
static bool only_those(const struct trial *t, const void *obj, const uint8_t n_changes[N_WORDS])
{
	const struct end *its = &t->its;
	const uint32_t *word = obj;
	size_t i;

	for (i = 0; i < N_WORDS; i++, word++)
		if (n_changes[i] > LOOKS / 2 && word != its->cq.cons_index && word != its->qp.sq_tail && word != its->qp.rq_tail &&
		    word != its->own.cqes.dbrec)
			return false;
	return true;
}

static int compare(const struct trial *t, int got_its, struct ibv_wc *its, int got_ours, const struct ibv_wc *ours)
{
	int i;

	if (got_its != got_ours || got_its < 0 || !same_words(t))
		return -EOPNOTSUPP;
	for (i = 0; i < got_its; i++) {
		if (its[i].qp_num != t->its.own.qp->qp_num || ours[i].qp_num != t->ours.own.qp->qp_num)
			return -EOPNOTSUPP;
		its[i].qp_num = ours[i].qp_num;
	}
	return memcmp(its, ours, POLL * sizeof(*its)) ? -EOPNOTSUPP : 0;
}

/* libmlx5 consumes CQEs. Nothing else happens between the looks: the copies may have memory of the plugin behind the structs. */
static int poll_looking(struct trial *t, int n, struct ibv_wc *wc, int *ret_got)
{
	struct mesh_own *own = &t->its.own;
	int err = mesh_own_look(own, &t->before);

	if (err)
		return err;
	*ret_got = own->mc->lower.io.poll_cq(own->cq, n, wc);
	err = mesh_own_look(own, &t->after);
	count_changes(&t->before.cq, &t->after.cq, t->cq_changes);
	count_changes(&t->before.qp, &t->after.qp, t->qp_changes);
	return err;
}

static int poll_both(struct trial *t, int n, bool by_us, bool looks)
{
	struct ibv_wc its[POLL], ours[POLL];
	struct end *e = &t->ours;
	int got_its, got_ours, err = 0;

	memset(its, 0xa5, sizeof(its));
	memset(ours, 0xa5, sizeof(ours));
	if (looks)
		err = poll_looking(t, n, its, &got_its);
	else
		got_its = t->its.own.mc->lower.io.poll_cq(t->its.own.cq, n, its);
	if (err)
		return err;
	got_ours = by_us ? take(e, n, ours) : e->own.mc->lower.io.poll_cq(e->own.cq, n, ours);
	return compare(t, got_its, its, got_ours, ours);
}

/* Consume one CQE of that kind, with a look before and after. */
static int look_once(struct trial *t, unsigned int kind)
{
	int err = kind < MESH_OWN_KINDS ? post_send(t, kind) : post_receives(t, 1);

	if (err)
		return err;
	if (kind < MESH_OWN_KINDS)
		complete_send(t);
	else
		complete_receive(t, MLX5_CQE_RESP_WR_IMM + kind - MESH_OWN_KINDS);
	return poll_both(t, 1, true, true);
}

/* Which words does libmlx5 change when it consumes CQEs of that kind? Return: -EAGAIN: also unexpected ones. */
static int look_at(struct trial *t, unsigned int kind)
{
	unsigned int i;
	int err = 0;

	memset(t->cq_changes, 0, sizeof(t->cq_changes));
	memset(t->qp_changes, 0, sizeof(t->qp_changes));
	for (i = 0; i < LOOKS && !err; i++)
		err = look_once(t, kind);
	if (!err && (!only_those(t, t->its.own.cq, t->cq_changes) || !only_those(t, t->its.own.qp, t->qp_changes)))
		err = -EAGAIN; /* perhaps others changed their memory */
	return err;
}

static int round_of(struct trial *t)
{
	int err = post_sends(t, rnd(t, MOST + 1));

	if (!err)
		err = post_receives(t, rnd(t, MOST + 1));
	if (err)
		return err;
	complete_some(t, rnd(t, POLL + 1));
	/* Poll until the CQ is empty. An empty CQ is polled once. */
	do
		err = poll_both(t, 1 + (int)rnd(t, POLL), rnd(t, 4), false);
	while (!err && mv_mlx5_cqe_at(&t->its.own.cqes, mv_mlx5_consumer(&t->its.own.cqes)));
	return err;
}

/* ---- trial ------------------------------------------------------------------------------------------------------ */

static int open_end(struct mesh_context *mc, const struct mesh_take_places *places, struct end *e)
{
	int err = mesh_own_open(mc, &e->own);

	if (!err) {
		mesh_take_words_cq(e->own.cq, places, &e->cq);
		mesh_take_words_qp(e->own.qp, places, &e->qp);
	}
	return err;
}

int mesh_take_try(struct mesh_context *mc, const struct mesh_take_places *places)
{
	struct trial *t = mesh_own_room(sizeof(*t));
	unsigned int kind;
	int err;

	if (!t)
		return -ENOMEM;
	err = open_end(mc, places, &t->its);
	if (!err)
		err = open_end(mc, places, &t->ours);
	for (kind = 0; kind < KINDS && !err; kind++)
		err = look_at(t, kind);
	while (!err && goes_on(&t->its.own))
		err = round_of(t);
	mesh_own_close(&t->its.own);
	mesh_own_close(&t->ours.own);
	mesh_own_room_free(t, sizeof(*t));
	return err;
}
