// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Keys of registered memory on another NIC: what is registered there, with which rights, and until when. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "gid.h"
#include "keybuffers.h"

static void test_rail(void **state)
{
	struct mesh_rail *again, *own, *none;
	union ibv_gid gid;
	char why[256] = "";
	uint8_t index;

	(void)state;
	assert_null(mesh_context_get(rail->context)); /* without the overlay */
	assert_non_null(mesh_context_get(context));
	again = mesh_rail_get("mlx5_1", why, sizeof(why));
	assert_ptr_equal(again, rail);
	mesh_rail_put(again);

	/* The program's own NIC, a second time. */
	own = mesh_rail_get("mlx5_0", why, sizeof(why));
	assert_non_null(own);
	assert_ptr_not_equal(own->context, context);
	assert_null(mesh_context_get(own->context));
	assert_int_equal(mv_gid_parse("10.1.0.1", &gid), 0);
	assert_int_equal(mesh_rail_find_gid(own, 1, &gid, MV_GID_TYPE_ROCE_V2, &gid, &index), 0);
	assert_int_equal(mesh_rail_find_gid(own, 2, &gid, MV_GID_TYPE_ROCE_V2, &gid, &index), -ENOENT);
	assert_int_equal(mesh_rail_find_gid(rail, 1, &gid, MV_GID_TYPE_ROCE_V2, &gid, &index), -ENOENT);
	mesh_rail_put(own);

	none = mesh_rail_get("mlx5_9", why, sizeof(why));
	assert_null(none);
	assert_string_equal(why, "there is no device mlx5_9 here");

	/* A device the program opens afterwards is overlaid as ever. */
	struct ibv_context *later = open_named("mlx5_1");

	assert_non_null(mesh_context_get(later));
	ibv_close_device(later);
}

static void test_data(void **state)
{
	struct buffer from = buffer_new(pd, 0), to = buffer_new(pd, ACCESS);
	struct loop l;

	(void)state;
	assert_int_not_equal(memcmp(from.bytes, to.bytes, SIZE), 0);
	loop_open(&l, rail, spd->pd);
	assert_int_equal(loop_write(&l, from.bytes, local_key(from.mr->lkey), (uintptr_t)to.bytes,
				    remote_key(to.mr->rkey), SIZE),
			 IBV_WC_SUCCESS);
	assert_int_equal(memcmp(from.bytes, to.bytes, SIZE), 0);
	memset(to.bytes, 0x5a, SIZE);
	/* Neither is registered twice, and lkey and rkey lead to one region. */
	assert_int_equal(local_key(from.mr->lkey), local_key(from.mr->lkey));
	assert_int_equal(loop_read(&l, to.bytes, local_key(to.mr->lkey), (uintptr_t)to.bytes + SIZE / 2,
				   remote_key(to.mr->rkey), SIZE / 2),
			 IBV_WC_SUCCESS);
	loop_close(&l);
	buffer_free(&from);
	buffer_free(&to);
}

/* Rights are those of the program's region. */
static void test_rights(void **state)
{
	struct buffer from = buffer_new(pd, 0), to = buffer_new(pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	uint32_t dummy = spd->dummy->rkey;

	(void)state;
	assert_int_equal(loop_once(spd, from.bytes, local_key(from.mr->lkey), (uintptr_t)to.bytes,
				   remote_key(to.mr->rkey), 8),
			 IBV_WC_REM_ACCESS_ERR);
	/* And a dummy has none, at any address. */
	assert_int_equal(loop_once(spd, from.bytes, local_key(from.mr->lkey), (uintptr_t)to.bytes, dummy, 8),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(loop_once(spd, from.bytes, local_key(from.mr->lkey), (uintptr_t)spd->dummy_page, dummy, 1),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(loop_once(spd, from.bytes, spd->dummy->lkey, (uintptr_t)to.bytes,
				   remote_key(to.mr->rkey), 8),
			 IBV_WC_LOC_PROT_ERR);
	buffer_free(&from);
	buffer_free(&to);
}

static void test_iova(void **state)
{
	struct buffer from = buffer_new(pd, 0), to = buffer_new(pd, ACCESS);
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, to.bytes, SIZE, 0x700000000000, ACCESS);

	(void)state;
	assert_non_null(mr);
	assert_int_equal(loop_once(spd, from.bytes, local_key(from.mr->lkey), 0x700000000000,
				   remote_key(mr->rkey), SIZE),
			 IBV_WC_SUCCESS);
	assert_int_equal(memcmp(from.bytes, to.bytes, SIZE), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	buffer_free(&from);
	buffer_free(&to);
}

static void test_dereg(void **state)
{
	struct buffer from = buffer_new(pd, 0), to = buffer_new(pd, ACCESS);
	uint32_t lkey = to.mr->lkey, rkey = to.mr->rkey, old = remote_key(rkey);
	uint64_t epoch = mesh_keys_epoch();

	(void)state;
	assert_int_equal(loop_once(spd, from.bytes, local_key(from.mr->lkey), (uintptr_t)to.bytes, old, 8),
			 IBV_WC_SUCCESS);
	assert_int_equal(mesh_keys_epoch(), epoch);
	assert_int_equal(ibv_dereg_mr(to.mr), 0);
	to.mr = NULL;
	assert_int_not_equal(mesh_keys_epoch(), epoch);
	assert_int_equal(dropped.calls, 1);
	assert_ptr_equal(dropped.pd, pd);
	assert_int_equal(dropped.rkey, rkey);
	assert_unknown(spd, lkey, rkey);
	assert_int_equal(loop_once(spd, from.bytes, local_key(from.mr->lkey), (uintptr_t)to.bytes, old, 8),
			 IBV_WC_REM_ACCESS_ERR);
	buffer_free(&from);
	buffer_free(&to);

	/* A region that nobody asked for goes without a word. */
	epoch = mesh_keys_epoch();
	dropped.calls = 0;
	from = buffer_new(pd, 0);
	buffer_free(&from);
	assert_int_equal(dropped.calls, 0);
	assert_int_equal(mesh_keys_epoch(), epoch);
}

static void test_rereg(void **state)
{
	struct buffer a = buffer_new(pd, ACCESS), b = buffer_new(pd, 0);
	uint8_t *other = aligned_alloc(4096, SIZE);
	struct ibv_pd *second = ibv_alloc_pd(context);
	struct ibv_mr *mr = a.mr;
	uint32_t from = local_key(b.mr->lkey), old = remote_key(mr->rkey);
	char why[256];
	struct mesh_pd *spd2 = mesh_pd_get(mc, second, rail, why, sizeof(why));

	(void)state;
	assert_non_null(spd2);
	assert_ptr_not_equal(spd2->pd, spd->pd);
	memset(other, 0, SIZE);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, SIZE, 0), 0);
	assert_int_equal(dropped.calls, 1);
	assert_int_equal(loop_once(spd, b.bytes, from, (uintptr_t)a.bytes, remote_key(mr->rkey), 8),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(loop_once(spd, b.bytes, from, (uintptr_t)other, remote_key(mr->rkey), SIZE), IBV_WC_SUCCESS);
	assert_int_equal(memcmp(b.bytes, other, SIZE), 0);
	assert_int_equal(loop_once(spd, b.bytes, from, (uintptr_t)other, old, 8), IBV_WC_REM_ACCESS_ERR);

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	assert_int_equal(loop_once(spd, b.bytes, from, (uintptr_t)other, remote_key(mr->rkey), 8),
			 IBV_WC_REM_ACCESS_ERR);

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, second, NULL, 0, 0), 0);
	assert_unknown(spd, mr->lkey, mr->rkey);
	assert_int_equal(mesh_key_local(spd2, mr->lkey, &old), 0);

	/* One that the lower provider refuses changes nothing. */
	assert_int_not_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, SIZE, 0), 0);
	assert_int_equal(mesh_key_local(spd2, mr->lkey, &old), 0);

	mesh_pd_put(spd2);
	free(other);
	buffer_free(&a);
	buffer_free(&b);
	assert_int_equal(ibv_dealloc_pd(second), 0);
}

static int refuse_dereg(struct ibv_mr *mr)
{
	(void)mr;
	return EBUSY;
}

/*
 * Whatever gives the program a remote key lets the peers forget what that was before it returns: behind the drop, if there is one,
 * and when they would be told what it is now.
 */
static void test_given(void **state)
{
	struct buffer b = buffer_new(pd, ACCESS);
	int (*dereg)(struct ibv_mr *mr) = mc->lower.mr.dereg_mr;

	(void)state;
	assert_int_equal(given.calls, 1);
	assert_ptr_equal(given.pd, pd);
	assert_int_equal(given.rkey, b.mr->rkey);
	assert_true(given.known);

	remote_key(b.mr->rkey);
	errno = 0;
	assert_int_equal(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS), 0);
	assert_int_equal(errno, 0);
	assert_int_equal(given.calls, 2);
	assert_int_equal(given.drops, 1);
	assert_int_equal(given.rkey, b.mr->rkey);
	assert_true(given.known);

	/* What is refused leaves it what it was, but not the counterpart. */
	remote_key(b.mr->rkey);
	assert_int_not_equal(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, SIZE, 0), 0);
	assert_int_equal(given.calls, 3);
	assert_int_equal(given.drops, 2);
	assert_true(given.known);
	remote_key(b.mr->rkey);
	mc->lower.mr.dereg_mr = refuse_dereg;
	assert_int_equal(ibv_dereg_mr(b.mr), EBUSY);
	mc->lower.mr.dereg_mr = dereg;
	assert_int_equal(given.calls, 4);
	assert_int_equal(given.drops, 3);
	assert_int_equal(given.rkey, b.mr->rkey);
	assert_true(given.known);

	/* Nothing is given. */
	buffer_free(&b);
	assert_int_equal(given.calls, 4);
}

static void test_other_pd(void **state)
{
	struct ibv_pd *second = ibv_alloc_pd(context);
	struct buffer b = buffer_new(second, ACCESS);
	struct ibv_context *other = open_named("mlx5_1");
	struct ibv_pd *third = ibv_alloc_pd(other);
	struct buffer c = buffer_new(third, ACCESS);

	(void)state;
	assert_unknown(spd, b.mr->lkey, b.mr->rkey);
	assert_unknown(spd, c.mr->lkey, c.mr->rkey);
	assert_unknown(spd, 0, 0);
	buffer_free(&b);
	buffer_free(&c);
	ibv_dealloc_pd(second);
	ibv_dealloc_pd(third);
	ibv_close_device(other);
}

static void test_parent_domain(void **state)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct buffer b = buffer_new(parent, ACCESS);
	struct mesh_pd *same;
	char why[256];

	(void)state;
	assert_ptr_equal(mesh_pd_underlying(parent), pd);
	same = mesh_pd_get(mc, parent, rail, why, sizeof(why));
	assert_ptr_equal(same, spd);
	local_key(b.mr->lkey); /* it is in the PD below */
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY); /* refused: it is in use */
	assert_ptr_equal(mesh_pd_underlying(parent), pd);
	mesh_pd_put(same);
	buffer_free(&b);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_ptr_equal(mesh_pd_underlying(parent), parent);
}

/* A PD that the lower provider would not let go has a counterpart again when it is asked for. */
static void test_refused_dealloc(void **state)
{
	struct buffer b = buffer_new(pd, ACCESS);
	uint32_t key = local_key(b.mr->lkey);
	struct mesh_pd *again;
	char why[256];

	(void)state;
	assert_int_not_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(local_key(b.mr->lkey), key); /* the connection that holds the old one goes on */
	again = mesh_pd_get(mc, pd, rail, why, sizeof(why));
	assert_non_null(again);
	assert_ptr_not_equal(again, spd);
	assert_int_equal(mesh_key_local(again, b.mr->lkey, &key), 0);
	mesh_pd_put(spd);
	spd = again;
	local_key(b.mr->lkey);
	buffer_free(&b);
}

/* What a program leaves behind goes with its device. */
static void test_close_without_a_word(void **state)
{
	struct ibv_context *other = open_named("mlx5_0");
	struct ibv_pd *left = ibv_alloc_pd(other);
	struct buffer b = buffer_new(left, ACCESS);
	struct ibv_parent_domain_init_attr attr = {.pd = left};
	struct ibv_pd *parent = ibv_alloc_parent_domain(other, &attr);
	uint32_t lkey = b.mr->lkey, rkey = b.mr->rkey, key;
	struct mesh_pd *in;
	char why[256];

	(void)state;
	in = mesh_pd_get(mesh_context_get(other), parent, rail, why, sizeof(why));
	assert_non_null(in);
	assert_int_equal(mesh_key_local(in, lkey, &key), 0);
	assert_int_equal(ibv_close_device(other), 0);
	assert_unknown(in, lkey, rkey);
	mesh_pd_put(in);
	free(b.bytes);
	free(b.mr);
	free(parent);
	free(left);
}

/* While moves are off nothing is noted down. */
static void test_moves_off(void **state)
{
	struct buffer b;

	(void)state;
	atomic_store(&mesh_root.moves, false);
	b = buffer_new(pd, ACCESS);
	assert_unknown(spd, b.mr->lkey, b.mr->rkey);
	atomic_store(&mesh_root.moves, true);
	assert_unknown(spd, b.mr->lkey, b.mr->rkey);
	buffer_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_rail),
		T(test_data),
		T(test_rights),
		T(test_iova),
		T(test_dereg),
		T(test_rereg),
		T(test_given),
		T(test_other_pd),
		T(test_parent_domain),
		T(test_refused_dealloc),
		T(test_close_without_a_word),
		T(test_moves_off),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
