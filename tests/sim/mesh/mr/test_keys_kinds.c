// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Registrations of other kinds: dma-buf, null, reg_mr_ex, and those that stay on their own NIC. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "fault.h"
#include "gid.h"
#include "keybuffers.h"
#include "pdstay.h"

/* What was registered last: the program's descriptor, or the plugin's duplicate. */
static int dmabuf_fd;
static struct ibv_mr *(*lower_reg_dmabuf_mr)(struct ibv_pd *of, uint64_t offset, size_t length, uint64_t iova, int fd,
					     int access);

static struct ibv_mr *note_of_program(struct ibv_pd *of, uint64_t offset, size_t length, uint64_t iova, int fd,
						int access)
{
	dmabuf_fd = fd;
	return lower_reg_dmabuf_mr(of, offset, length, iova, fd, access);
}

static struct ibv_mr *note_of_plugin(struct ibv_pd *of, uint64_t offset, size_t length, uint64_t iova, int fd,
						int access)
{
	dmabuf_fd = fd;
	return ibv_reg_dmabuf_mr(of, offset, length, iova, fd, access);
}

static void note_descriptors(void)
{
	lower_reg_dmabuf_mr = mc->lower.mr.reg_dmabuf_mr;
	mc->lower.mr.reg_dmabuf_mr = note_of_program;
	mesh_root.lib.reg_dmabuf_mr = note_of_plugin;
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
	note_descriptors();

	mr = ibv_reg_dmabuf_mr(pd, SIZE, SIZE, 0x600000000000, fd, ACCESS);
	assert_non_null(mr);
	assert_int_equal(dmabuf_fd, fd);
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

/*
 * What ibv_reg_mr_ex() does, and ibv_reg_buf_mr(), which this libibverbs may not have: the lower provider's own, or
 * made of another operation.
 */
static struct ibv_mr *reg_mr_ex(struct ibv_pd *of, struct mesh_mr_init_attr *attr)
{
	uint64_t iova = attr->comp_mask & MESH_MR_IOVA ? attr->iova : (uintptr_t)attr->addr;

	return mc->lower.mr.reg_mr(of, attr->addr, attr->length, iova, attr->access);
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
	mc->lower.mr.reg_mr_ex = reg_mr_ex;
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
	mc->lower.mr.reg_mr_ex = reg_mr_ex_of_others;
	attr.comp_mask = MESH_MR_ADDR;
	mr = mesh_reg_mr_ex(pd, &attr);
	local_key(mr->lkey);
	lkey = mr->lkey;
	rkey = mr->rkey;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_unknown(spd, lkey, rkey);

	/* A dma-buf, with one descriptor. */
	assert_int_equal(ftruncate(fd, SIZE), 0);
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
	mc->lower.mr.reg_mr_ex = reg_mr_ex;
	attr.comp_mask = MESH_MR_ADDR | 1ull << 40;
	mr = mesh_reg_mr_ex(pd, &attr);
	assert_non_null(mr);
	assert_non_null(strstr(mesh_pd_stays(pd), "ibv_reg_mr_ex"));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	buffer_free(&from);
	buffer_free(&to);
}

static struct ibv_mw strange_mw;

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
	return mc->lower.pd.alloc_pd(of);
}

static void unimport_pd(struct ibv_pd *gone)
{
	assert_int_equal(mc->lower.pd.dealloc_pd(gone), 0);
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
	mc->lower.mr.import_mr = import_mr;
	mc->lower.mr.reg_dm_mr = reg_dm_mr;
	mc->lower.mr.alloc_mw = alloc_mw;
	mc->lower.pd.import_pd = import_pd;
	mc->lower.pd.unimport_pd = unimport_pd;
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

	/* Seen through a parent domain, either way. A PD that the lower provider would not let go has it again. */
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
	bool seen = mesh_mr_table_seen(mesh_root.keys.mr_table, MESH_BY_LKEY, pd, mr->lkey) ||
		    mesh_mr_table_seen(mesh_root.keys.mr_table, MESH_BY_RKEY, pd, mr->rkey);

	mesh_keys_unlock(cancel);
	return seen;
}

/* As mlx5dv_reg_dmabuf_mr() does: past everything that is seen. */
static struct ibv_mr *register_unseen(uint8_t *bytes)
{
	struct ibv_mr *mr;

	while (was_seen(mr = mc->lower.mr.reg_mr(pd, bytes, SIZE, (uintptr_t)bytes, ACCESS)))
		mc->lower.mr.dereg_mr(mr);
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
	note_descriptors();
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_null),
		T(test_reg_mr_ex),
		T(test_stays),
		T(test_unseen),
		T(test_dmabuf),
		T(test_dmabuf_fork),
		T(test_dmabuf_limit),
	};

	fault_one_thread(true); /* NICs have threads of ours */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
