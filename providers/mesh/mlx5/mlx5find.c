// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context.h"
#include "mlx5own.h"
#include "mlx5take.h"
#include "mlx5trial.h"

/*
 * Finds the words of mlx5take.h. The plugin posts work to its own queue pair, writes the CQEs, and lets libmlx5 consume them.
 * It copies libmlx5's structs of the CQ and the queue pair before and after.
 *
 * A count, such as cons_index, is the only word that has the expected values before and after in every round. A pointer to an
 * array, such as sq_wrid, is found by the array: in every round it has the expected value at the place of the work request.
 */

#define WORDS    (MESH_MLX5_BYTES / sizeof(uint32_t))
#define POINTERS (MESH_MLX5_BYTES / sizeof(uint64_t))
#define ROUNDS   6u
#define WR_ID    0x6d65736876657262ull /* neither an address nor a count has such a value */

/* Words of one struct that are ruled out: as a count, as the pointer to wr_ids, as the pointer to serial numbers (wqe_head). */
struct candidates {
	bool no_count[WORDS];
	bool no_wrid[POINTERS], no_head[POINTERS];
};

struct search {
	struct mesh_own own;
	struct candidates cq, qp;
	struct mesh_own_state before, after;
	int err; /* -errno: a pointer could not be followed, for lack of descriptors; 0: none yet */
};

/* ---- one round -------------------------------------------------------------------------------------------------- */

static void count(struct candidates *c, const union mesh_own_words *before, const union mesh_own_words *after, uint32_t from, uint32_t to)
{
	size_t i;

	for (i = 0; i < WORDS; i++)
		c->no_count[i] |= before->word[i] != from || after->word[i] != to;
}

static bool is_in(uint64_t pointer, const struct mv_mlx5_ring *ring)
{
	uint64_t from = (uintptr_t)ring->buf;

	return pointer >= from && pointer <= from + (uint64_t)ring->n_wqes * ring->stride;
}

/* Two small counts, one after the other, can look like a pointer. */
static bool is_mapped(uint64_t pointer)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char there;

	return !mincore((void *)(uintptr_t)(pointer - pointer % page), 1, &there);
}

/* Can @pointer lead to an array? That is a block of malloc(): aligned, and apart from the queues and the doorbell records. */
static bool may_be_array(const struct search *s, uint64_t pointer)
{
	const struct mesh_own *own = &s->own;

	return pointer && !(pointer % _Alignof(max_align_t)) && !is_in(pointer, &own->sq) && !is_in(pointer, &own->rq) &&
	       pointer != (uintptr_t)own->sq.dbrec && is_mapped(pointer);
}

static bool is_there(struct search *s, uint64_t pointer, size_t at, const void *value, size_t n)
{
	const char *array = (const char *)(uintptr_t)pointer;
	char found[sizeof(uint64_t)];
	int err;

	if (!may_be_array(s, pointer))
		return false;
	err = mesh_mlx5_peek(array + at * n, found, n);
	if (err && err != -EFAULT)
		s->err = err;
	return !err && !memcmp(found, value, n);
}

/*
 * Rules out pointers, up to the first whose array has the value. Later pointers are not followed: some lead to arrays that
 * nobody has written yet (wr_data), and valgrind reports reads of these.
 */
static void array(struct search *s, bool no[POINTERS], size_t at, const void *value, size_t n)
{
	bool found = false;
	size_t i;

	for (i = 0; i < POINTERS && !found; i++) {
		if (no[i])
			continue;
		found = is_there(s, s->after.qp.pointer[i], at, value, n);
		no[i] = !found;
	}
}

static void arrays(struct search *s, uint32_t place, uint64_t wr_id, const uint32_t *nth)
{
	array(s, s->qp.no_wrid, place, &wr_id, sizeof(wr_id));
	if (nth)
		array(s, s->qp.no_head, place, nth, sizeof(*nth));
}

/* libmlx5 consumes the next CQE; its structs are copied before and after. Return: 0 or -errno. */
static int take(struct search *s, uint64_t wr_id)
{
	uint32_t at = mv_mlx5_consumer(&s->own.cqes);
	struct ibv_wc wc;
	int err;

	err = mesh_own_look(&s->own, &s->before);
	if (err)
		return err;
	if (s->own.mc->lower.io.poll_cq(s->own.cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS || wc.wr_id != wr_id ||
	    mv_mlx5_consumer(&s->own.cqes) != at + 1)
		return -EOPNOTSUPP;
	err = mesh_own_look(&s->own, &s->after);
	if (!err)
		count(&s->cq, &s->before.cq, &s->after.cq, at, at + 1);
	return err;
}

/* The public part, struct ibv_qp_ex, has no pointer to an array. */
static void begin(struct candidates *c)
{
	size_t i;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < sizeof(struct ibv_qp_ex) / sizeof(uint64_t); i++)
		c->no_wrid[i] = c->no_head[i] = true;
}

/* ---- counts and arrays ------------------------------------------------------------------------------------------ */

/* Byte offset of the only word that is not ruled out. Return: 0; -EOPNOTSUPP: none, or several. */
static int only(const bool no[WORDS], uint32_t *ret)
{
	size_t i, found = 0;

	for (i = 0; i < WORDS; i++)
		if (!no[i]) {
			*ret = (uint32_t)(i * sizeof(uint32_t));
			found++;
		}
	return found == 1 ? 0 : -EOPNOTSUPP;
}

/*
 * Byte offset of the first pointer that is not ruled out. The copy may end with old memory of a queue pair that was freed: its
 * pointers seem right if its arrays had the same addresses. Return: 0; -EOPNOTSUPP: none.
 */
static int first(const bool no[POINTERS], uint32_t *ret)
{
	size_t i;

	for (i = 0; i < POINTERS; i++)
		if (!no[i]) {
			*ret = (uint32_t)(i * sizeof(uint64_t));
			return 0;
		}
	return -EOPNOTSUPP;
}

/* The rounds post 1, 2, 3, 1, 2, 3 sends. The CQE is of the last send, and completes all sends of the round. */
static int send_round(struct search *s, unsigned int round, uint32_t *n_done)
{
	struct mesh_own_send sends[ROUNDS];
	unsigned int i, n = 1 + round % 3;
	int err;

	for (i = 0; i < n; i++)
		if (!mesh_own_send(&s->own, (round + i) % MESH_OWN_KINDS, WR_ID + 3 * s->own.n_sends, &sends[i]))
			return -EOPNOTSUPP;
	mesh_own_sent(&s->own, &sends[n - 1], 3);
	err = take(s, sends[n - 1].wr_id);
	if (err)
		return err;
	count(&s->qp, &s->before.qp, &s->after.qp, *n_done, sends[n - 1].nth + 1);
	for (i = 0; i < n; i++)
		arrays(s, sends[i].place & (s->own.sq.n_wqes - 1), sends[i].wr_id, &sends[i].nth);
	*n_done = sends[n - 1].nth + 1;
	return s->err;
}

static int find_sends(struct search *s, struct mesh_take_places *places)
{
	uint32_t n_done = s->own.n_sends;
	unsigned int round;
	int err = 0;

	begin(&s->cq);
	begin(&s->qp);
	for (round = 0; round < ROUNDS && !err; round++)
		err = send_round(s, round, &n_done);
	if (!err)
		err = only(s->cq.no_count, &places->cq_cons_index);
	if (!err)
		err = only(s->qp.no_count, &places->sq_tail);
	if (!err)
		err = first(s->qp.no_wrid, &places->sq_wrid);
	if (!err)
		err = first(s->qp.no_head, &places->sq_wqe_head);
	return err;
}

static int recv_round(struct search *s)
{
	uint32_t nth = s->own.n_recvs;
	int err;

	if (!mesh_own_recv(&s->own, WR_ID + 5 * nth))
		return -EOPNOTSUPP;
	mesh_own_received(&s->own, nth, MLX5_CQE_RESP_SEND, 3, 0, 0);
	err = take(s, WR_ID + 5 * nth);
	if (err)
		return err;
	count(&s->qp, &s->before.qp, &s->after.qp, nth, nth + 1);
	arrays(s, nth & (s->own.rq.n_wqes - 1), WR_ID + 5 * nth, NULL);
	return s->err;
}

static int find_receives(struct search *s, struct mesh_take_places *places)
{
	uint32_t cons_index = 0;
	unsigned int round;
	int err = 0;

	begin(&s->cq);
	begin(&s->qp);
	for (round = 0; round < ROUNDS && !err; round++)
		err = recv_round(s);
	if (!err)
		err = only(s->cq.no_count, &cons_index);
	if (!err)
		err = only(s->qp.no_count, &places->rq_tail);
	if (!err)
		err = first(s->qp.no_wrid, &places->rq_wrid);
	if (!err && cons_index != places->cq_cons_index)
		err = -EOPNOTSUPP;
	return err;
}

/* ---- lock of a CQ: libmlx5 holds it from ibv_start_poll() to ibv_end_poll() ------------------------------------- */

static bool spinlocks_are_known(void)
{
	uint32_t is_free, is_taken;
	pthread_spinlock_t lock;

	_Static_assert(sizeof(lock) == sizeof(uint32_t), "it is a word");
	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	memcpy(&is_free, (const void *)&lock, sizeof(is_free));
	pthread_spin_lock(&lock);
	memcpy(&is_taken, (const void *)&lock, sizeof(is_taken));
	pthread_spin_unlock(&lock);
	return is_free == MESH_SPIN_FREE && is_taken == MESH_SPIN_TAKEN;
}

static int lock_round(struct search *s, struct ibv_cq_ex *cq, const struct mv_mlx5_cq *cqes, uint32_t round)
{
	const struct mesh_mlx5 *m = &s->own.mc->data.mlx5;
	struct ibv_poll_cq_attr attr = {0};
	struct mesh_own_send send;
	struct mlx5_cqe64 cqe;
	size_t i;
	int err;

	if (!mesh_own_send(&s->own, 1, WR_ID, &send))
		return -EOPNOTSUPP;
	mesh_own_cqe(&s->own, &send, 3, &cqe);
	mesh_own_write(cqes, round, &cqe);
	err = mesh_mlx5_copy(m, cq, s->before.cq.bytes);
	if (err)
		return err;
	if (cq->start_poll(cq, &attr))
		return -EOPNOTSUPP;
	err = mesh_mlx5_copy(m, cq, s->after.cq.bytes);
	cq->end_poll(cq);
	for (i = 0; i < WORDS; i++)
		s->cq.no_count[i] |= s->before.cq.word[i] != MESH_SPIN_FREE || s->after.cq.word[i] != MESH_SPIN_TAKEN;
	return err;
}

static int find_lock_on(struct search *s, struct ibv_cq_ex *cq, struct mesh_take_places *places)
{
	struct mv_mlx5_cq cqes;
	uint32_t round;
	int err;

	begin(&s->cq);
	err = mesh_mlx5_cq(s->own.mc, ibv_cq_ex_to_cq(cq), &cqes);
	for (round = 0; round < ROUNDS && !err; round++)
		err = lock_round(s, cq, &cqes, round);
	return err ? err : only(s->cq.no_count, &places->cq_lock);
}

static int find_lock(struct search *s, struct mesh_take_places *places)
{
	struct ibv_context *verbs = atomic_load_explicit(&s->own.mc->verbs, memory_order_relaxed);
	struct ibv_cq_init_attr_ex attr = {.cqe = 15, .wc_flags = IBV_WC_EX_WITH_QP_NUM};
	struct ibv_cq_ex *cq;
	int err;

	if (!s->own.mc->lower.cq.create_cq_ex || !spinlocks_are_known())
		return -EOPNOTSUPP;
	cq = s->own.mc->lower.cq.create_cq_ex(verbs, &attr);
	if (!cq)
		return errno == ENOMEM ? -ENOMEM : -EOPNOTSUPP;
	cq->context = verbs; /* as in ibv_create_cq_ex(); mc->lower.cq.create_cq_ex is the provider's function */
	err = find_lock_on(s, cq, places);
	s->own.mc->lower.cq.destroy_cq(ibv_cq_ex_to_cq(cq)); /* mesh_destroy_cq() would take data->lock */
	return err;
}

int mesh_take_find(struct mesh_context *mc, struct mesh_take_places *ret)
{
	struct search *s = mesh_own_room(sizeof(*s));
	int err = s ? mesh_own_open(mc, &s->own) : -ENOMEM;

	if (!err) {
		err = find_sends(s, ret);
		if (!err)
			err = find_receives(s, ret);
		if (!err)
			err = find_lock(s, ret);
		mesh_own_close(&s->own);
	}
	mesh_own_room_free(s, sizeof(*s));
	return err ? err : mesh_take_try(mc, ret);
}
