/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Regions of a dma-buf: any file that can be mapped is one for the simulated HCA. Runs in a host of the simulator. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "pair.h"

#define PAGE       4096u
#define FILE_BYTES (8 * PAGE)
#define IN_PAGE    100u /* where regions begin in a page */
#define OFFSET     (PAGE + IN_PAGE)
#define BYTES      (5 * PAGE + 7)
#define IOVA       (0x600000000000u + IN_PAGE)
#define ACCESS     (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define NAME       "simverbs-dmabuf"

struct region {
	struct pair p;
	int fd;
	uint8_t *file; /* all of it, as the processor sees it */
	struct ibv_mr *mr;
};

static void make_file(struct region *r)
{
	r->fd = memfd_create(NAME, MFD_CLOEXEC);
	assert_int_equal(ftruncate(r->fd, FILE_BYTES), 0);
	r->file = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	assert_ptr_not_equal(r->file, MAP_FAILED);
	for (uint32_t i = 0; i < FILE_BYTES; i++)
		r->file[i] = (uint8_t)(i * 5 + i / 700);
}

static void region_open(struct region *r, int access)
{
	pair_open(&r->p, &(struct options){0});
	for (uint32_t i = 0; i < BUF_BYTES; i++)
		r->p.a.buf[i] = (uint8_t)(i * 7 + i / 1000);
	make_file(r);
	r->mr = ibv_reg_dmabuf_mr(r->p.pd, OFFSET, BYTES, IOVA, r->fd, access);
	assert_non_null(r->mr);
}

static void region_close(struct region *r)
{
	if (r->mr)
		assert_int_equal(ibv_dereg_mr(r->mr), 0);
	if (r->fd >= 0)
		close(r->fd);
	munmap(r->file, FILE_BYTES);
	pair_close(&r->p);
}

static enum ibv_wc_status rdma(struct region *r, enum ibv_wr_opcode op, uint64_t raddr, uint32_t len)
{
	assert_int_equal(post_rdma(&r->p, 1, op, len, IBV_SEND_SIGNALED, raddr, r->mr->rkey), 0);
	return wait_wc(r->p.a.cq).status;
}

/* How often the file is mapped in this process. */
static unsigned int n_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "/memfd:" NAME) != NULL;
	fclose(maps);
	return n;
}

static void write_and_read(void **state)
{
	uint8_t before, behind;
	struct region r;

	(void)state;
	region_open(&r, ACCESS);
	before = r.file[OFFSET - 1];
	behind = r.file[OFFSET + BYTES];
	assert_int_equal(rdma(&r, IBV_WR_RDMA_WRITE, IOVA, BYTES), IBV_WC_SUCCESS);
	assert_memory_equal(r.file + OFFSET, r.p.a.buf, BYTES);
	assert_int_equal(r.file[OFFSET - 1], before);
	assert_int_equal(r.file[OFFSET + BYTES], behind);

	for (uint32_t i = 0; i < FILE_BYTES; i++)
		r.file[i] = (uint8_t)(i * 11);
	assert_int_equal(rdma(&r, IBV_WR_RDMA_READ, IOVA + 1000, 2 * PAGE), IBV_WC_SUCCESS);
	assert_memory_equal(r.p.a.buf, r.file + OFFSET + 1000, 2 * PAGE);
	region_close(&r);
}

/* By its local key: what is sent is in it, and what is received. */
static void send_and_receive(void **state)
{
	struct region r;
	struct ibv_sge out, in;
	struct ibv_send_wr send = {
		.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_recv_wr recv = {.sg_list = &in, .num_sge = 1}, *bad_recv;

	(void)state;
	region_open(&r, ACCESS);
	out = (struct ibv_sge){.addr = IOVA, .length = 2 * PAGE, .lkey = r.mr->lkey};
	in = (struct ibv_sge){.addr = IOVA + 2 * PAGE, .length = 2 * PAGE, .lkey = r.mr->lkey};
	assert_int_equal(ibv_post_recv(r.p.b.qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(r.p.a.qp, &send, &bad), 0);
	assert_int_equal(wait_wc(r.p.a.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(wait_wc(r.p.b.cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(r.file + OFFSET, r.file + OFFSET + 2 * PAGE, 2 * PAGE);
	region_close(&r);
}

/* Addresses are the iova's: neither before the region nor behind it, nor where the processor has the file. */
static void out_of_range(void **state)
{
	struct region r;

	(void)state;
	for (int i = 0; i < 3; i++) {
		uint64_t wrong;

		region_open(&r, ACCESS);
		wrong = (uint64_t[]){IOVA - 1, IOVA + BYTES - 63, (uintptr_t)r.file + OFFSET}[i];
		assert_int_equal(rdma(&r, IBV_WR_RDMA_WRITE, IOVA + BYTES - 64, 64), IBV_WC_SUCCESS);
		assert_int_equal(rdma(&r, IBV_WR_RDMA_WRITE, wrong, 64), IBV_WC_REM_ACCESS_ERR);
		region_close(&r);
	}
}

static void without_the_right(void **state)
{
	struct region r;

	(void)state;
	region_open(&r, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(rdma(&r, IBV_WR_RDMA_READ, IOVA, 64), IBV_WC_SUCCESS);
	assert_memory_equal(r.p.a.buf, r.file + OFFSET, 64);
	assert_int_equal(rdma(&r, IBV_WR_RDMA_WRITE, IOVA, 64), IBV_WC_REM_ACCESS_ERR);
	region_close(&r);
}

/* The key stays valid after the descriptor is closed. Deregistering ends the key and the mapping. */
static void closed_and_deregistered(void **state)
{
	struct region r;
	uint32_t rkey;

	(void)state;
	region_open(&r, ACCESS);
	assert_int_equal(n_mappings(), 2);
	close(r.fd);
	r.fd = -1;
	assert_int_equal(rdma(&r, IBV_WR_RDMA_WRITE, IOVA, BYTES), IBV_WC_SUCCESS);
	assert_memory_equal(r.file + OFFSET, r.p.a.buf, BYTES);
	rkey = r.mr->rkey;
	assert_int_equal(ibv_dereg_mr(r.mr), 0);
	r.mr = NULL;
	assert_int_equal(n_mappings(), 1);
	assert_int_equal(post_rdma(&r.p, 1, IBV_WR_RDMA_WRITE, 64, IBV_SEND_SIGNALED, IOVA, rkey), 0);
	assert_int_equal(wait_wc(r.p.a.cq).status, IBV_WC_REM_ACCESS_ERR);
	region_close(&r);
}

/* A child has no device, and nothing of what the device holds. */
static void not_in_a_child(void **state)
{
	struct region r;
	int status;
	pid_t pid;

	(void)state;
	region_open(&r, ACCESS);
	pid = fork();
	if (!pid)
		_exit(n_mappings() != 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(rdma(&r, IBV_WR_RDMA_WRITE, IOVA, BYTES), IBV_WC_SUCCESS);
	assert_memory_equal(r.file + OFFSET, r.p.a.buf, BYTES);
	region_close(&r);
}

/* ib_core says the same, and there is no mapping left. */
static void is_refused(struct region *r, uint64_t offset, size_t len, uint64_t iova, int fd, int access, int err)
{
	unsigned int n = n_mappings();

	errno = 0;
	assert_null(ibv_reg_dmabuf_mr(r->p.pd, offset, len, iova, fd, access));
	assert_int_equal(errno, err);
	assert_int_equal(n_mappings(), n);
}

static int reopen(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, flags | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void refused(void **state)
{
	struct region r;
	struct ibv_mr *mr;
	int ends[2], fd;

	(void)state;
	region_open(&r, ACCESS);
	is_refused(&r, 0, PAGE, 0, -1, ACCESS, EBADF);
	fd = dup(r.fd);
	close(fd);
	is_refused(&r, 0, PAGE, 0, fd, ACCESS, EBADF);

	/* Where it lies in the page is to be the same; the end is to be in the file. */
	is_refused(&r, 0, PAGE, IOVA, r.fd, ACCESS, EINVAL);
	is_refused(&r, IN_PAGE, PAGE, 0, r.fd, ACCESS, EINVAL);
	is_refused(&r, FILE_BYTES, 1, 0, r.fd, ACCESS, EINVAL);
	is_refused(&r, 0, FILE_BYTES + 1, 0, r.fd, ACCESS, EINVAL);
	is_refused(&r, UINT64_MAX - PAGE + 1, 2 * PAGE, 0, r.fd, ACCESS, EINVAL);
	is_refused(&r, 0, 0, 0, r.fd, ACCESS, EINVAL);

	is_refused(&r, 0, PAGE, 0, r.fd, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	is_refused(&r, 0, PAGE, 0, r.fd, ACCESS | IBV_ACCESS_MW_BIND, EINVAL);

	/* No dma-buf; and one that the processor cannot reach. */
	assert_int_equal(pipe(ends), 0);
	is_refused(&r, 0, PAGE, 0, ends[0], ACCESS, EINVAL);
	close(ends[0]);
	close(ends[1]);
	fd = reopen(r.fd, O_WRONLY);
	is_refused(&r, 0, PAGE, 0, fd, ACCESS, EOPNOTSUPP);
	close(fd);
	fd = reopen(r.fd, O_RDONLY);
	is_refused(&r, 0, PAGE, 0, fd, ACCESS, EOPNOTSUPP);
	mr = ibv_reg_dmabuf_mr(r.p.pd, 0, FILE_BYTES, 0, fd, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close(fd);

	/* All that was refused has changed nothing. */
	assert_int_equal(rdma(&r, IBV_WR_RDMA_WRITE, IOVA, BYTES), IBV_WC_SUCCESS);
	assert_memory_equal(r.file + OFFSET, r.p.a.buf, BYTES);
	region_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_and_read),
		cmocka_unit_test(send_and_receive),
		cmocka_unit_test(out_of_range),
		cmocka_unit_test(without_the_right),
		cmocka_unit_test(closed_and_deregistered),
		cmocka_unit_test(not_in_a_child),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
