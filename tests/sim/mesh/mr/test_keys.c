// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Rails, their protection domains and keys, in a host of the simulator with two NICs: the program's memory regions are
 * registered on mlx5_0, what their keys are translated to moves data through mlx5_1.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fault.h"
#include "gid.h"
#include "keys.h"
#include "loop.h"
#include "pdstay.h"

#define SIZE   65536
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct mesh_context *mc;
static struct mesh_rail *rail;
static struct mesh_pd *spd;

static struct {
	unsigned int calls;
	struct ibv_pd *pd;
	uint32_t rkey;
} dropped;

static void note_drop(struct ibv_pd *of, uint32_t rkey)
{
	dropped.calls++;
	dropped.pd = of;
	dropped.rkey = rkey;
}

static struct {
	unsigned int calls, drops; /* drops: of those told of by then */
	struct ibv_pd *pd;
	uint32_t rkey;
	bool known; /* a peer that asks is answered */
} given;

static void note_given(struct ibv_pd *of, uint32_t rkey)
{
	int cancel;

	given.calls++;
	given.drops = dropped.calls;
	given.pd = of;
	given.rkey = rkey;
	cancel = mesh_keys_lock();
	given.known = mesh_keytab_find(mesh_root.keys.keytab, MESH_BY_RKEY, of, rkey);
	mesh_keys_unlock(cancel);
	errno = EAGAIN; /* is none of the program's business */
}

static int setup(void **state)
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

static int teardown(void **state)
{
	(void)state;
	mesh_pd_put(spd);
	mesh_rail_put(rail);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_null(mesh_root.rails); /* nothing else holds it */
	assert_int_equal(ibv_close_device(context), 0);
	return 0;
}

struct buffer {
	uint8_t *bytes;
	struct ibv_mr *mr;
};

static struct buffer buffer_new(struct ibv_pd *of, int access)
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

static void buffer_free(struct buffer *b)
{
	if (b->mr)
		assert_int_equal(ibv_dereg_mr(b->mr), 0);
	free(b->bytes);
}

static uint32_t local_key(uint32_t lkey)
{
	uint32_t key;

	assert_int_equal(mesh_key_local(spd, lkey, &key), 0);
	return key;
}

static uint32_t remote_key(uint32_t rkey)
{
	uint32_t key;

	assert_int_equal(mesh_key_remote(spd, rkey, &key), 0);
	return key;
}

static void assert_unknown(struct mesh_pd *in, uint32_t lkey, uint32_t rkey)
{
	uint32_t key = 0;

	assert_int_equal(mesh_key_local(in, lkey, &key), -ENOENT);
	assert_int_equal(key, in->dummy->lkey);
	assert_int_equal(mesh_key_remote(in, rkey, &key), -ENOENT);
	assert_int_equal(key, in->dummy->rkey);
}

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

	/* One that the base refuses changes nothing. */
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
	int (*dereg)(struct ibv_mr *mr) = mc->dereg_mr;

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
	mc->dereg_mr = refuse_dereg;
	assert_int_equal(ibv_dereg_mr(b.mr), EBUSY);
	mc->dereg_mr = dereg;
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

/* A PD that the base would not let go has a counterpart again when it is asked for. */
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

/*
 * There is no dma-buf in the simulator: its calls are made up from memory of a file. What counts is which descriptor
 * comes to be used, and when.
 */
static int dmabuf_fd;

static struct ibv_mr *register_file(struct ibv_pd *of, uint64_t offset, size_t length, uint64_t iova, int fd,
				    int access)
{
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	dmabuf_fd = fd;
	if (p == MAP_FAILED)
		return NULL;
	return of->context == context ? mc->reg_mr(of, p, length, iova, access) :
					ibv_reg_mr_iova(of, p, length, iova, access);
}

static void test_dmabuf(void **state)
{
	struct buffer from = buffer_new(pd, 0);
	int fd = memfd_create("dmabuf", 0), theirs = memfd_create("theirs", 0);
	uint8_t *bytes;
	struct mesh_rail *own;
	struct mesh_pd *there;
	struct ibv_mr *mr;
	unsigned int fds;
	uint32_t rkey;
	char why[256];

	(void)state;
	assert_int_equal(ftruncate(fd, 2 * SIZE), 0);
	assert_int_equal(ftruncate(theirs, 2 * SIZE), 0);
	bytes = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mc->reg_dmabuf_mr = register_file;
	mesh_root.lib.reg_dmabuf_mr = register_file;

	mr = ibv_reg_dmabuf_mr(pd, SIZE, SIZE, 0x600000000000, fd, ACCESS);
	assert_non_null(mr);
	assert_int_equal(given.rkey, mr->rkey);
	assert_true(given.known);
	close(fd); /* as programs do */
	rkey = remote_key(mr->rkey);
	assert_int_not_equal(dmabuf_fd, fd);
	assert_int_equal(loop_once(spd, from.bytes, local_key(from.mr->lkey), 0x600000000000, rkey, SIZE),
			 IBV_WC_SUCCESS);
	assert_int_equal(memcmp(from.bytes, bytes + SIZE, SIZE), 0);

	/* Our descriptor was closed and is another file's now: neither used nor closed. */
	fd = dmabuf_fd;
	assert_int_equal(dup2(theirs, fd), fd);
	own = mesh_rail_get("mlx5_0", why, sizeof(why));
	there = mesh_pd_get(mc, pd, own, why, sizeof(why));
	assert_int_equal(mesh_key_remote(there, mr->rkey, &rkey), -EBADF);
	assert_int_equal(rkey, there->dummy->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	mesh_pd_put(there);
	mesh_rail_put(own);

	/* Otherwise it is closed with the region. */
	fds = fault_open_fds();
	mr = ibv_reg_dmabuf_mr(pd, 0, SIZE, 0x600000000000, theirs, ACCESS);
	assert_int_equal(fault_open_fds(), fds + 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(fault_open_fds(), fds);

	close(fd);
	close(theirs);
	munmap(bytes, 2 * SIZE);
	buffer_free(&from);
}

/* Of no memory: reads as zeros, and what is written there is gone. */
static void test_null(void **state)
{
	struct buffer b = buffer_new(pd, ACCESS);
	struct ibv_mr *null = ibv_alloc_null_mr(pd), *second = ibv_alloc_null_mr(pd);
	uint8_t *before = malloc(SIZE);
	struct loop l;
	size_t i;

	(void)state;
	assert_non_null(null);
	assert_int_equal(null->lkey, second->lkey);
	memcpy(before, b.bytes, SIZE);
	loop_open(&l, rail, spd->pd);
	assert_int_equal(loop_read(&l, NULL, local_key(null->lkey), (uintptr_t)b.bytes, remote_key(b.mr->rkey), SIZE), IBV_WC_SUCCESS);
	assert_int_equal(memcmp(before, b.bytes, SIZE), 0);
	assert_int_equal(loop_write(&l, NULL, local_key(null->lkey), (uintptr_t)b.bytes, remote_key(b.mr->rkey), SIZE), IBV_WC_SUCCESS);
	for (i = 0; i < SIZE; i++)
		assert_int_equal(b.bytes[i], 0);
	loop_close(&l);
	assert_int_equal(ibv_dereg_mr(null), 0);
	local_key(second->lkey);
	assert_int_equal(ibv_dereg_mr(second), 0);
	assert_null(mesh_pd_stays(pd));
	free(before);
	buffer_free(&b);
}

/* What ibv_reg_mr_ex() does, and ibv_reg_buf_mr(), which this libibverbs may not have: the base's own, or made of another operation. */
static struct ibv_mr *reg_mr_ex(struct ibv_pd *of, struct mesh_mr_init_attr *attr)
{
	uint64_t iova = attr->comp_mask & MESH_MR_IOVA ? attr->iova : (uintptr_t)attr->addr;

	return mc->reg_mr(of, attr->addr, attr->length, iova, attr->access);
}

static struct ibv_mr *reg_mr_ex_of_others(struct ibv_pd *of, struct mesh_mr_init_attr *attr)
{
	return attr->comp_mask & MESH_MR_FD ? ibv_reg_dmabuf_mr(of, attr->fd_offset, attr->length, attr->iova, attr->fd, attr->access) :
					      ibv_reg_mr(of, attr->addr, attr->length, attr->access);
}

static void test_reg_mr_ex(void **state)
{
	struct buffer from = buffer_new(pd, 0), to = buffer_new(pd, 0);
	struct mesh_mr_init_attr attr = {.length = SIZE, .access = ACCESS, .comp_mask = MESH_MR_ADDR | MESH_MR_DMAH, .addr = to.bytes};
	int fd = memfd_create("dmabuf", 0);
	uint32_t lkey, rkey;
	unsigned int fds;
	struct ibv_mr *mr;

	(void)state;
	mc->reg_mr_ex = reg_mr_ex;
	mr = mesh_reg_mr_ex(pd, &attr);
	assert_int_equal(given.rkey, mr->rkey);
	assert_true(given.known);
	assert_int_equal(loop_once(spd, from.bytes, local_key(from.mr->lkey), (uintptr_t)to.bytes, remote_key(mr->rkey), SIZE),
			 IBV_WC_SUCCESS);
	assert_int_equal(memcmp(from.bytes, to.bytes, SIZE), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	attr.comp_mask |= MESH_MR_IOVA;
	attr.iova = 0x700000000000;
	mr = mesh_reg_mr_ex(pd, &attr);
	assert_int_equal(loop_once(spd, from.bytes, local_key(from.mr->lkey), 0x700000000000, remote_key(mr->rkey), SIZE),
			 IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	/* Noted once, and gone when it is deregistered. */
	mc->reg_mr_ex = reg_mr_ex_of_others;
	attr.comp_mask = MESH_MR_ADDR;
	mr = mesh_reg_mr_ex(pd, &attr);
	local_key(mr->lkey);
	lkey = mr->lkey;
	rkey = mr->rkey;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_unknown(spd, lkey, rkey);

	/* A dma-buf, with one descriptor. */
	assert_int_equal(ftruncate(fd, SIZE), 0);
	mc->reg_dmabuf_mr = register_file;
	mesh_root.lib.reg_dmabuf_mr = register_file;
	fds = fault_open_fds();
	attr.comp_mask = MESH_MR_FD | MESH_MR_FD_OFFSET | MESH_MR_IOVA;
	attr.fd = fd;
	mr = mesh_reg_mr_ex(pd, &attr);
	assert_int_equal(fault_open_fds(), fds + 1);
	remote_key(mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(fault_open_fds(), fds);
	close(fd);

	/* What a later version has and this one does not know. */
	assert_null(mesh_pd_stays(pd));
	mc->reg_mr_ex = reg_mr_ex;
	attr.comp_mask = MESH_MR_ADDR | 1ull << 40;
	mr = mesh_reg_mr_ex(pd, &attr);
	assert_non_null(mr);
	assert_non_null(strstr(mesh_pd_stays(pd), "ibv_reg_mr_ex"));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	buffer_free(&from);
	buffer_free(&to);
}

/* Made up: the simulator has none of these. */
static struct ibv_mr strange_mr;
static struct ibv_mw strange_mw;

static struct ibv_mr *import_mr(struct ibv_pd *of, uint32_t handle)
{
	(void)of;
	return handle ? &strange_mr : NULL;
}

static struct ibv_mr *reg_dm_mr(struct ibv_pd *of, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access)
{
	(void)of;
	(void)dm;
	(void)length;
	(void)access;
	return offset ? &strange_mr : NULL;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *of, enum ibv_mw_type type)
{
	(void)of;
	return type == IBV_MW_TYPE_1 ? &strange_mw : NULL;
}

static struct ibv_pd *import_pd(struct ibv_context *of, uint32_t handle)
{
	(void)handle;
	return mc->alloc_pd(of);
}

static void unimport_pd(struct ibv_pd *gone)
{
	assert_int_equal(mc->dealloc_pd(gone), 0);
}

static void make_strange(unsigned int which, bool works)
{
	bool done = false;

	switch (which) {
	case 0:
		done = ibv_import_mr(pd, works);
		break;
	case 1:
		done = mesh_reg_dm_mr(pd, NULL, works, SIZE, 0);
		break;
	case 2:
		done = ibv_alloc_mw(pd, works ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
		break;
	}
	assert_int_equal(done, works);
}

/* What makes keys that no other NIC can have: connections of that PD stay, and of no other, as long as it is there. */
static void test_stays(void **state)
{
	static const char *const words[] = {"ibv_import_mr", "ibv_reg_dm_mr", "ibv_alloc_mw"};
	struct ibv_pd *other = ibv_alloc_pd(context), *imported, *parent;
	struct ibv_parent_domain_init_attr attr = {.pd = pd};
	unsigned int i;

	(void)state;
	mc->import_mr = import_mr;
	mc->reg_dm_mr = reg_dm_mr;
	mc->alloc_mw = alloc_mw;
	mc->import_pd = import_pd;
	mc->unimport_pd = unimport_pd;
	for (i = 0; i < 3; i++) {
		make_strange(i, false);
		assert_null(mesh_pd_stays(pd));
		make_strange(i, true);
		assert_non_null(strstr(mesh_pd_stays(pd), words[i]));
		assert_null(mesh_pd_stays(other));
		mesh_pd_stay_no_more(pd, NULL);
		assert_null(mesh_pd_stays(pd));
	}
	imported = ibv_import_pd(context, 1);
	assert_non_null(strstr(mesh_pd_stays(imported), "ibv_import_pd"));
	ibv_unimport_pd(imported);
	assert_null(mesh_pd_stays(imported));

	/* Seen through a parent domain, either way. A PD that the base would not let go has it again. */
	parent = ibv_alloc_parent_domain(context, &attr);
	make_strange(0, true);
	assert_non_null(mesh_pd_stays(parent));
	assert_int_not_equal(ibv_dealloc_pd(pd), 0);
	assert_non_null(mesh_pd_stays(pd));
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	mesh_pd_stay_no_more(pd, NULL);
}

/* Of an earlier PD at the same address, perhaps. */
static bool was_seen(const struct ibv_mr *mr)
{
	int cancel = mesh_keys_lock();
	bool seen = mesh_keytab_seen(mesh_root.keys.keytab, MESH_BY_LKEY, pd, mr->lkey) ||
		    mesh_keytab_seen(mesh_root.keys.keytab, MESH_BY_RKEY, pd, mr->rkey);

	mesh_keys_unlock(cancel);
	return seen;
}

/* As mlx5dv_reg_dmabuf_mr() does: past everything that is seen. */
static struct ibv_mr *register_unseen(uint8_t *bytes)
{
	struct ibv_mr *mr;

	while (was_seen(mr = mc->reg_mr(pd, bytes, SIZE, (uintptr_t)bytes, ACCESS)))
		mc->dereg_mr(mr);
	mr->context = context;
	mr->pd = pd;
	return mr;
}

static void test_unseen(void **state)
{
	struct buffer b = buffer_new(pd, ACCESS);
	struct ibv_mr *mr = register_unseen(b.bytes);
	uint32_t lkey = b.mr->lkey, rkey = b.mr->rkey;

	(void)state;
	assert_true(mesh_pd_check_key(pd, MESH_BY_LKEY, lkey));
	assert_true(mesh_pd_check_key(pd, MESH_BY_RKEY, rkey));
	buffer_free(&b);
	/* One that is gone was there. */
	assert_true(mesh_pd_check_key(pd, MESH_BY_LKEY, lkey));
	assert_true(mesh_pd_check_key(pd, MESH_BY_RKEY, rkey));
	assert_null(mesh_pd_stays(pd));
	assert_false(mesh_pd_check_key(pd, MESH_BY_RKEY, mr->rkey));
	assert_non_null(mesh_pd_stays(pd));
	mesh_pd_stay_no_more(pd, NULL);
	assert_false(mesh_pd_check_key(pd, MESH_BY_LKEY, mr->lkey));
	mesh_pd_stay_no_more(pd, NULL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_non_null(mesh_pd_stays(pd)); /* others like it may be there */
}

/* Without memory to note that all of them stay. */
static void test_stays_no_memory(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(context);

	(void)state;
	mc->import_mr = import_mr;
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_non_null(ibv_import_mr(pd, 1));
	fault_disarm();
	assert_non_null(mesh_pd_stays(pd));
	assert_non_null(mesh_pd_stays(other));
	assert_int_equal(ibv_dealloc_pd(other), 0);
	atomic_store_explicit(&mesh_root.process->all_stay, NULL, memory_order_relaxed);
}

/* How many descriptors lead to the same file as @fd. */
static unsigned int leading_to(int fd)
{
	struct stat to, st;
	unsigned int n = 0;
	int i;

	assert_int_equal(fstat(fd, &to), 0);
	for (i = 0; i < 65536; i++)
		n += !fstat(i, &st) && st.st_ino == to.st_ino && st.st_dev == to.st_dev;
	return n;
}

/* What a child of fork() keeps open stays, whatever its parent frees: a GPU's memory, for as long as a worker of the program lives. */
static void test_dmabuf_fork(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip(); /* as below */
#endif
	struct ibv_mr *mr[3];
	int fd = memfd_create("dmabuf", 0), status, i;
	uint32_t rkey;
	pid_t pid;

	(void)state;
	assert_int_equal(ftruncate(fd, SIZE), 0);
	mc->reg_dmabuf_mr = register_file;
	mesh_root.lib.reg_dmabuf_mr = register_file;
	for (i = 0; i < 3; i++)
		mr[i] = ibv_reg_dmabuf_mr(pd, 0, SIZE, 0x600000000000, fd, ACCESS);
	assert_int_equal(ibv_dereg_mr(mr[1]), 0);
	assert_int_equal(leading_to(fd), 3);
	pid = fork();
	if (!pid)
		_exit(leading_to(fd) != 1); /* the program's own */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);

	assert_int_equal(leading_to(fd), 3);
	remote_key(mr[0]->rkey);
	assert_int_equal(ibv_dereg_mr(mr[0]), 0);
	assert_int_equal(ibv_dereg_mr(mr[2]), 0);
	assert_int_equal(leading_to(fd), 1);
	mr[0] = ibv_reg_dmabuf_mr(pd, 0, SIZE, 0x600000000000, fd, ACCESS);
	assert_int_equal(mesh_key_remote(spd, mr[0]->rkey, &rkey), 0);
	assert_int_equal(ibv_dereg_mr(mr[0]), 0);
	close(fd);
}

#define N_DMABUFS 100

/* Programs run into their limit, and into what select() can do, when they would without us, or a quarter earlier. */
static void test_dmabuf_limit(void **state)
{
	struct rlimit before, limit;
	struct ibv_mr *mr[N_DMABUFS];
	int fd = memfd_create("dmabuf", 0), next = dup(fd), i, n_known = 0;
	unsigned int fds;
	uint32_t key;

	(void)state;
	close(next);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	mc->reg_dmabuf_mr = register_file;
	mesh_root.lib.reg_dmabuf_mr = register_file;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = 64;
	assert_true(next < 40);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fds = fault_open_fds();
	for (i = 0; i < N_DMABUFS; i++) {
		mr[i] = ibv_reg_dmabuf_mr(pd, 0, SIZE, 0x600000000000, fd, ACCESS);
		assert_non_null(mr[i]);
	}
	assert_int_equal(dup(fd), next);
	close(next);
	assert_int_equal(fault_open_fds(), fds + 16);

	/* Those beyond that fail where they are used, if anywhere. */
	for (i = 0; i < N_DMABUFS; i++) {
		int err = mesh_key_remote(spd, mr[i]->rkey, &key);

		assert_true(err == 0 || err == -ENOENT);
		assert_int_equal(key == spd->dummy->rkey, err != 0);
		n_known += !err;
	}
	assert_int_equal(n_known, 16);
	for (i = 0; i < N_DMABUFS; i++)
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
	assert_int_equal(fault_open_fds(), fds);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);

	/* With the usual limits select() can go on with what a program opens. */
	mr[0] = ibv_reg_dmabuf_mr(pd, 0, SIZE, 0x600000000000, fd, ACCESS);
	assert_int_equal(mesh_key_remote(spd, mr[0]->rkey, &key), 0);
	assert_true((rlim_t)dmabuf_fd >= (before.rlim_cur < 5461 ? before.rlim_cur - before.rlim_cur / 4 : 4096));
	assert_int_equal(ibv_dereg_mr(mr[0]), 0);
	close(fd);
}

/* The child of a fork has nothing of its parent's, and leaves its parent's alone. */
static void test_fork(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip(); /* it has no threads after a fork, and the simulated HCA is one */
#endif
	struct buffer b = buffer_new(pd, ACCESS);
	uint32_t key = local_key(b.mr->lkey);
	char why[256] = "";
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		struct ibv_context *other;
		struct mesh_rail *fresh;
		bool ok = !mesh_rail_current(rail) && !mesh_pd_get(mc, pd, rail, why, sizeof(why));

		mesh_pd_put(spd);
		mesh_rail_put(rail);
		other = open_named("mlx5_0"); /* from now on this process has a generation of its own */
		ok = ok && !mesh_rail_current(rail);
		mesh_pd_put(spd);
		mesh_rail_put(rail);
		fresh = mesh_rail_get("mlx5_1", why, sizeof(why));
		ok = ok && fresh && fresh != rail && mesh_rail_current(fresh);
		if (ok) {
			struct ibv_pd *own = ibv_alloc_pd(other);
			struct mesh_pd *in = mesh_pd_get(mesh_context_get(other), own, fresh, why, sizeof(why));
			struct buffer c = buffer_new(own, ACCESS);

			ok = in && !mesh_key_local(in, c.mr->lkey, &key);
			buffer_free(&c);
			mesh_pd_put(in);
			mesh_rail_put(fresh);
			ok = ok && !ibv_dealloc_pd(own) && !ibv_close_device(other);
		}
		_exit(!ok);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(local_key(b.mr->lkey), key);
	buffer_free(&b);
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

static int all_of_it(void)
{
	struct ibv_pd *fresh = ibv_alloc_pd(context);
	struct ibv_parent_domain_init_attr attr = {.pd = fresh};
	struct mesh_rail *own;
	struct mesh_pd *in = NULL;
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct ibv_mr *mr = ibv_reg_mr(fresh, spd->dummy_page, 8, ACCESS);
	char why[256];
	uint32_t key;
	int err = -ENOENT;

	own = mesh_rail_get("mlx5_0", why, sizeof(why));
	if (own)
		in = mesh_pd_get(mc, fresh, own, why, sizeof(why));
	if (in && mr)
		err = mesh_key_local(in, mr->lkey, &key);
	if (in && err)
		assert_int_equal(key, in->dummy->lkey);
	mesh_pd_put(in);
	mesh_rail_put(own);
	if (mr)
		assert_int_equal(ibv_dereg_mr(mr), 0);
	if (parent)
		assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(fresh), 0);
	assert_ptr_equal(mesh_root.rails, rail); /* the other one is closed */
	return err;
}

/* Whatever allocation fails, the program's own calls work, and nothing is left. */
static void test_no_memory(void **state)
{
	unsigned int faults = 0;
	int err;

	(void)state;
	assert_int_equal(all_of_it(), 0);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		err = all_of_it();
		if (!fault_fired())
			assert_int_equal(err, 0);
		faults += err != 0;
	})
	FAULT_EACH(FAULT_MMAP, ENOMEM, {
		err = all_of_it();
		if (!fault_fired())
			assert_int_equal(err, 0);
		faults += err != 0;
	})
	assert_true(faults > 3);
}

/*
 * Some threads register, change and deregister, others translate whatever keys there are, others take and leave PDs on
 * rails that open and close meanwhile.
 */
#define KEYS    32
#define WORKERS 3

static struct {
	_Atomic uint32_t keys[KEYS];
	_Atomic bool stop;
	_Atomic unsigned int translated, unknown, registered;
	uint8_t memory[WORKERS][4096];
} busy;

static void *register_for_ever(void *arg)
{
	unsigned int me = (unsigned int)(uintptr_t)arg, i, seed = me;
	struct ibv_mr *mrs[KEYS / WORKERS] = {NULL}, **mr;

	while (!atomic_load(&busy.stop)) {
		i = (unsigned int)rand_r(&seed) % (KEYS / WORKERS);
		mr = &mrs[i];
		if (!*mr) {
			*mr = ibv_reg_mr(pd, busy.memory[me], sizeof(busy.memory[me]), ACCESS);
			assert_non_null(*mr);
			busy.registered++;
		} else if (rand_r(&seed) % 3) {
			assert_int_equal(ibv_dereg_mr(*mr), 0);
			*mr = NULL;
		} else {
			assert_int_equal(ibv_rereg_mr(*mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
						      IBV_ACCESS_LOCAL_WRITE),
					 0);
		}
		atomic_store(&busy.keys[me * (KEYS / WORKERS) + i], *mr ? (*mr)->lkey : 0);
	}
	for (i = 0; i < KEYS / WORKERS; i++)
		if (mrs[i])
			assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
	return NULL;
}

static void *translate_for_ever(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	uint32_t key, ret;
	int err;

	while (!atomic_load(&busy.stop)) {
		key = atomic_load(&busy.keys[(unsigned int)rand_r(&seed) % KEYS]);
		err = seed & 1 ? mesh_key_local(spd, key, &ret) : mesh_key_remote(spd, key, &ret);
		if (!err) {
			assert_int_not_equal(ret, spd->dummy->lkey);
			busy.translated++;
		} else {
			assert_int_equal(err, -ENOENT);
			busy.unknown++;
		}
	}
	return NULL;
}

static void *take_rails_for_ever(void *arg)
{
	const char *device = arg;
	struct ibv_pd *mine;
	struct ibv_mr *mr;
	struct mesh_rail *r;
	struct mesh_pd *in;
	char why[256];
	uint32_t key;

	while (!atomic_load(&busy.stop)) {
		mine = ibv_alloc_pd(context);
		mr = ibv_reg_mr(mine, busy.memory, 64, 0);
		r = mesh_rail_get(device, why, sizeof(why));
		in = mesh_pd_get(mc, mine, r, why, sizeof(why));
		assert_non_null(in);
		assert_int_equal(mesh_key_local(in, mr->lkey, &key), 0);
		mesh_rail_put(r);
		mesh_pd_put(in);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		assert_int_equal(ibv_dealloc_pd(mine), 0);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[2 * WORKERS + 2];
	unsigned int i;

	(void)state;
	mesh_root.key_dropped = NULL; /* which is not for threads here */
	mesh_root.key_given = NULL;
	memset(busy.keys, 0, sizeof(busy.keys));
	for (i = 0; i < WORKERS; i++) {
		pthread_create(&threads[2 * i], NULL, register_for_ever, (void *)(uintptr_t)i);
		pthread_create(&threads[2 * i + 1], NULL, translate_for_ever, (void *)(uintptr_t)i);
	}
	pthread_create(&threads[2 * WORKERS], NULL, take_rails_for_ever, (char *)"mlx5_0");
	pthread_create(&threads[2 * WORKERS + 1], NULL, take_rails_for_ever, (char *)"mlx5_0");
	sleep(3);
	atomic_store(&busy.stop, true);
	for (i = 0; i < sizeof(threads) / sizeof(threads[0]); i++)
		pthread_join(threads[i], NULL);
	print_message("%u registered, %u translated, %u unknown\n", busy.registered, busy.translated, busy.unknown);
	assert_true(busy.registered > 100 && busy.translated > 100 && busy.unknown > 0);
	assert_null(LIST_FIRST(&spd->shadows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_rail),	  T(test_data),		  T(test_rights),	   T(test_iova),
		T(test_dereg),	  T(test_rereg),	  T(test_given),	  T(test_other_pd),	   T(test_parent_domain),
		T(test_refused_dealloc), T(test_close_without_a_word),
		T(test_null),	  T(test_reg_mr_ex),	  T(test_stays),	   T(test_unseen),	T(test_stays_no_memory),
		T(test_dmabuf),	  T(test_dmabuf_fork), T(test_dmabuf_limit),
		T(test_fork),		  T(test_moves_off),	   T(test_no_memory),
		T(test_threads),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
