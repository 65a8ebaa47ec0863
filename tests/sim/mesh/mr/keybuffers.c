// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "keybuffers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ibv_context *context;
struct ibv_pd *pd;
struct mesh_context *mc;
struct mesh_rail *rail;
struct mesh_pd *spd;

struct dropped dropped;

static void note_drop(struct ibv_pd *of, uint32_t rkey)
{
	dropped.calls++;
	dropped.pd = of;
	dropped.rkey = rkey;
}

struct given given;

static void note_given(struct ibv_pd *of, uint32_t rkey)
{
	int cancel;

	given.calls++;
	given.drops = dropped.calls;
	given.pd = of;
	given.rkey = rkey;
	cancel = mesh_keys_lock();
	given.known = mesh_mr_table_find(mesh_root.keys.mr_table, MESH_BY_RKEY, of, rkey);
	mesh_keys_unlock(cancel);
	errno = EAGAIN; /* is none of the program's business */
}

int setup(void **state)
{
	char why[256] = "";

	(void)state;
	memset(&dropped, 0, sizeof(dropped));
	memset(&given, 0, sizeof(given));
	mesh_root.key_dropped = note_drop;
	mesh_root.key_given = note_given;
	context = open_named("mlx5_0");
	mc = mesh_context_get(context);
	assert_non_null(mc);
	assert_true(mc->can_move);
	pd = ibv_alloc_pd(context);
	assert_non_null(pd);
	rail = mesh_rail_get("mlx5_1", why, sizeof(why));
	if (!rail)
		fail_msg("%s", why);
	spd = mesh_pd_get(mc, pd, rail, why, sizeof(why));
	if (!spd)
		fail_msg("%s", why);
	return 0;
}

int teardown(void **state)
{
	(void)state;
	mesh_pd_put(spd);
	mesh_rail_put(rail);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_null(mesh_root.rails); /* nothing else holds it */
	assert_int_equal(ibv_close_device(context), 0);
	return 0;
}

struct buffer buffer_new(struct ibv_pd *of, int access)
{
	struct buffer b = {.bytes = aligned_alloc(4096, SIZE)};
	size_t i;

	assert_non_null(b.bytes);
	for (i = 0; i < SIZE; i++)
		b.bytes[i] = (uint8_t)rand();
	b.mr = ibv_reg_mr(of, b.bytes, SIZE, access);
	assert_non_null(b.mr);
	return b;
}

void buffer_free(struct buffer *b)
{
	if (b->mr)
		assert_int_equal(ibv_dereg_mr(b->mr), 0);
	free(b->bytes);
}

uint32_t local_key(uint32_t lkey)
{
	uint32_t key;

	assert_int_equal(mesh_key_local(spd, lkey, &key), 0);
	return key;
}

uint32_t remote_key(uint32_t rkey)
{
	uint32_t key;

	assert_int_equal(mesh_key_remote(spd, rkey, &key), 0);
	return key;
}

void assert_unknown(struct mesh_pd *in, uint32_t lkey, uint32_t rkey)
{
	uint32_t key = 0;

	assert_int_equal(mesh_key_local(in, lkey, &key), -ENOENT);
	assert_int_equal(key, in->dummy->lkey);
	assert_int_equal(mesh_key_remote(in, rkey, &key), -ENOENT);
	assert_int_equal(key, in->dummy->rkey);
}

struct ibv_mr strange_mr;

struct ibv_mr *import_mr(struct ibv_pd *of, uint32_t handle)
{
	(void)of;
	return handle ? &strange_mr : NULL;
}
