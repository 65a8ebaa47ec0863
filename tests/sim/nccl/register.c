// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory of a GPU, registered as programs do it, between two ranks on mlx5_0 of simulated hosts:
 *
 *   sim_gpu_register [--without-gpu[=refused]] RANK 2 HOST-OF-RANK-0 PORT [-n ROUNDS] [-s BYTES] [-r SEED] [-t SECONDS]
 *
 * Each step of each registration says what came of it, in one line. In each round a rank writes BYTES into each region
 * that both ranks have, and checks what the other rank wrote. A refusal of device memory is an answer: the ranks go on
 * without that region. Host memory must not be refused.
 *
 * --without-gpu: the dma-buf is a memfd, and all other memory is plain. With =refused the memfd and the memory in place
 * of the device's cannot be registered.
 *
 * Exit status: 0 when every byte was right; 77 where there is no libcuda or no GPU. The program opens libcuda when it
 * runs. What it uses of libcuda's interface is declared here, so that building needs nothing of CUDA.
 */
#include "boot.h"
#include "job.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICE       "mlx5_0"
#define ACCESS       (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define CUDA_DMA_BUF 1 /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
#define GPU_PAGE     (2u << 20) /* a dma-buf is of whole ones */

typedef unsigned long long device_address;

static struct {
	int (*cuInit)(unsigned int);
	int (*cuDeviceGetCount)(int *);
	int (*cuDeviceGet)(int *, int);
	int (*cuDeviceGetName)(char *, int, int);
	int (*cuDevicePrimaryCtxRetain)(void **, int);
	int (*cuCtxSetCurrent)(void *);
	int (*cuCtxSynchronize)(void);
	int (*cuGetErrorName)(int, const char **);
	int (*cuMemAlloc_v2)(device_address *, size_t);
	int (*cuMemFree_v2)(device_address);
	int (*cuMemAllocHost_v2)(void **, size_t);
	int (*cuMemFreeHost)(void *);
	int (*cuMemHostRegister_v2)(void *, size_t, unsigned int);
	int (*cuMemHostUnregister)(void *);
	int (*cuMemcpyHtoD_v2)(device_address, const void *, size_t);
	int (*cuMemcpyDtoH_v2)(void *, device_address, size_t);
	int (*cuMemGetHandleForAddressRange)(void *, device_address, size_t, int, unsigned long long);
} api;

static enum { GPU, WITHOUT, REFUSED } way;
static int rank;

static void skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(77);
}

static const char *cuda_name(int result)
{
	const char *name = NULL;

	if (!result)
		return "ok";
	return api.cuGetErrorName(result, &name) || !name ? "an unknown error" : name;
}

static void cuda(int result, const char *what)
{
	if (result)
		die(0, "%s: %s", what, cuda_name(result));
}

static void load_cuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int n = 0, device, err;
	char name[128];

	if (!library)
		skip("no libcuda.so.1");
#define FIND(function)                                                                                                 \
	*(void **)&api.function = dlsym(library, #function);                                                           \
	if (!api.function)                                                                                             \
		die(0, "libcuda.so.1 has no " #function)
	FIND(cuInit);
	FIND(cuDeviceGetCount);
	FIND(cuDeviceGet);
	FIND(cuDeviceGetName);
	FIND(cuDevicePrimaryCtxRetain);
	FIND(cuCtxSetCurrent);
	FIND(cuCtxSynchronize);
	FIND(cuGetErrorName);
	FIND(cuMemAlloc_v2);
	FIND(cuMemFree_v2);
	FIND(cuMemAllocHost_v2);
	FIND(cuMemFreeHost);
	FIND(cuMemHostRegister_v2);
	FIND(cuMemHostUnregister);
	FIND(cuMemcpyHtoD_v2);
	FIND(cuMemcpyDtoH_v2);
	FIND(cuMemGetHandleForAddressRange);
	err = api.cuInit(0);
	if (!err)
		err = api.cuDeviceGetCount(&n);
	if (err || !n)
		skip("no GPU");
	cuda(api.cuDeviceGet(&device, 0), "cuDeviceGet");
	cuda(api.cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName");
	cuda(api.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	cuda(api.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	printf("gpu: rank %d uses %s\n", rank, name);
}

/* ---- memory ------------------------------------------------------------------------------------------------ */

struct memory {
	const char *name;
	size_t size;
	uint8_t *host; /* NULL: the processor does not reach it */
	device_address device; /* 0: none */
	int fd; /* dma-buf; -1: none */
	struct ibv_mr *mr; /* NULL: refused */
	uint64_t address; /* in work requests */
};

/* One line for each step. It is the same with meshverbs as without. */
static __attribute__((format(printf, 2, 3))) void tell(const struct memory *m, const char *format, ...)
{
	va_list args;

	printf("gpu: rank %d: %s: ", rank, m->name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static const char *errno_name(int err)
{
	static char other[32];

	switch (err) {
	case 0:
		return "no errno";
	case EBADF:
		return "EBADF";
	case EFAULT:
		return "EFAULT";
	case EINVAL:
		return "EINVAL";
	case EIO:
		return "EIO";
	case ENOMEM:
		return "ENOMEM";
	case ENOSYS:
		return "ENOSYS";
	case EOPNOTSUPP:
		return "EOPNOTSUPP";
	case EPERM:
		return "EPERM";
	case EPROTONOSUPPORT:
		return "EPROTONOSUPPORT";
	}
	snprintf(other, sizeof(other), "errno %d", err);
	return other;
}

static void device_memory(struct memory *m)
{
	cuda(api.cuMemAlloc_v2(&m->device, m->size), "cuMemAlloc");
	tell(m, "cuMemAlloc: ok");
}

static uint8_t *plain(size_t size, int protection)
{
	void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die(errno, "memory");
	return p;
}

/* One that cannot be read cannot be mapped. */
static void memory_file(struct memory *m)
{
	char path[64];
	int fd;

	m->fd = memfd_create("gpu-register", MFD_CLOEXEC);
	if (m->fd < 0 || ftruncate(m->fd, (off_t)m->size))
		die(errno, "memfd");
	if (way == WITHOUT) {
		m->host = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
		if (m->host == MAP_FAILED)
			die(errno, "memory");
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", m->fd);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		die(errno, "%s", path);
	close(m->fd);
	m->fd = fd;
}

static void get_dmabuf(struct memory *m)
{
	int err;

	if (way != GPU) {
		memory_file(m);
		return;
	}
	device_memory(m);
	err = api.cuMemGetHandleForAddressRange(&m->fd, m->device, m->size, CUDA_DMA_BUF, 0);
	tell(m, "cuMemGetHandleForAddressRange: %s", cuda_name(err));
	if (err)
		m->fd = -1;
}

static void get_device(struct memory *m)
{
	if (way == GPU)
		device_memory(m);
	else
		m->host = plain(m->size, way == WITHOUT ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static void get_pinned(struct memory *m)
{
	if (way != GPU) {
		m->host = plain(m->size, PROT_READ | PROT_WRITE);
		return;
	}
	cuda(api.cuMemAllocHost_v2((void **)&m->host, m->size), "cuMemAllocHost");
	tell(m, "cuMemAllocHost: ok");
}

static void get_registered(struct memory *m)
{
	m->host = plain(m->size, PROT_READ | PROT_WRITE);
	if (way != GPU)
		return;
	cuda(api.cuMemHostRegister_v2(m->host, m->size, 0), "cuMemHostRegister");
	tell(m, "cuMemHostRegister: ok");
}

static void free_device(struct memory *m)
{
	if (m->device)
		cuda(api.cuMemFree_v2(m->device), "cuMemFree");
	else if (m->host)
		munmap(m->host, m->size);
}

static void free_pinned(struct memory *m)
{
	if (way == GPU)
		cuda(api.cuMemFreeHost(m->host), "cuMemFreeHost");
	else
		munmap(m->host, m->size);
}

static void free_registered(struct memory *m)
{
	if (way == GPU)
		cuda(api.cuMemHostUnregister(m->host), "cuMemHostUnregister");
	munmap(m->host, m->size);
}

static const struct kind {
	const char *name;
	void (*get)(struct memory *m);
	void (*release)(struct memory *m);
	bool is_dmabuf, is_host;
} kinds[] = {
	{"dma-buf of device memory", get_dmabuf, free_device, true, false},
	{"device memory", get_device, free_device, false, false},
	{"pinned host memory", get_pinned, free_pinned, false, true},
	{"registered host memory", get_registered, free_registered, false, true},
};

#define N_KINDS (sizeof(kinds) / sizeof(*kinds))

/* libibverbs of rdma-core 33, of Debian 11, lacks ibv_reg_dmabuf_mr(). */
static struct ibv_mr *register_dmabuf(struct ibv_pd *pd, const struct memory *m)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);

	*(void **)&reg = dlsym(RTLD_DEFAULT, "ibv_reg_dmabuf_mr");
	if (!reg)
		errno = ENOSYS;
	return reg ? reg(pd, 0, m->size, m->address, m->fd, ACCESS) : NULL;
}

static void memory_register(const struct kind *kind, struct memory *m, struct ibv_pd *pd)
{
	void *start = m->host ? m->host : (void *)(uintptr_t)m->device;

	errno = 0;
	if (kind->is_dmabuf && m->fd < 0)
		return;
	/* Work requests name the device's address. Without a GPU it is one that the process has not. */
	m->address = kind->is_dmabuf && !m->device ? 0x600000000000 : (uintptr_t)start;
	m->mr = kind->is_dmabuf ? register_dmabuf(pd, m) : ibv_reg_mr(pd, start, m->size, ACCESS);
	tell(m, "%s: %s", kind->is_dmabuf ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr", m->mr ? "ok" : errno_name(errno));
	if (!m->mr && kind->is_host)
		die(0, "host memory was refused");
	if (m->fd >= 0)
		close(m->fd); /* as programs do */
}

static void put(struct memory *m, size_t at, const void *from, size_t size)
{
	if (!m->device) {
		memcpy(m->host + at, from, size);
		return;
	}
	cuda(api.cuMemcpyHtoD_v2(m->device + at, from, size), "cuMemcpyHtoD");
	cuda(api.cuCtxSynchronize(), "cuCtxSynchronize"); /* or the bytes may still be on their way */
}

static void get(struct memory *m, size_t at, void *to, size_t size)
{
	if (m->device)
		cuda(api.cuMemcpyDtoH_v2(to, m->device + at, size), "cuMemcpyDtoH");
	else
		memcpy(to, m->host + at, size);
}

/* ---- connection -------------------------------------------------------------------------------------------- */

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	union ibv_gid gid;
	uint8_t gid_index;
};

/* What the other rank has to know. */
struct address {
	union ibv_gid gid;
	uint32_t qpn;
	struct {
		uint64_t address;
		uint32_t rkey, is_there;
	} regions[N_KINDS];
};

static void end_open(struct end *end)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {.cap = {.max_send_wr = 16, .max_send_sge = 1}, .qp_type = IBV_QPT_RC};
	struct ibv_gid_entry entry;

	for (int i = 0; list && list[i] && !end->context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), DEVICE))
			end->context = ibv_open_device(list[i]);
	if (!end->context)
		die(0, "no device " DEVICE ": this is for a simulated host");
	ibv_free_device_list(list);
	for (unsigned int i = 0; i < 255 && !end->gid.global.interface_id; i++)
		if (!ibv_query_gid_ex(end->context, 1, i, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    entry.gid.raw[10] == 0xff) {
			end->gid = entry.gid;
			end->gid_index = (uint8_t)i;
		}
	end->pd = ibv_alloc_pd(end->context);
	end->cq = ibv_create_cq(end->context, 16, NULL, NULL, 0);
	init.send_cq = init.recv_cq = end->cq;
	end->qp = end->pd && end->cq ? ibv_create_qp(end->pd, &init) : NULL;
	if (!end->qp)
		die(errno, "objects");
}

static void end_connect(struct end *end, const struct address *peer)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer->gid, .sgid_index = end->gid_index, .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	int err;

	err = ibv_modify_qp(end->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (!err)
		err = ibv_modify_qp(end->qp, &rtr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (!err)
		err = ibv_modify_qp(end->qp, &rts,
				    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					    IBV_QP_MAX_QP_RD_ATOMIC);
	if (err)
		die(err, "ibv_modify_qp");
}

static void end_close(struct end *end)
{
	if (ibv_destroy_qp(end->qp) || ibv_destroy_cq(end->cq) || ibv_dealloc_pd(end->pd) || ibv_close_device(end->context))
		die(errno, "objects are not taken back");
}

/* ---- data -------------------------------------------------------------------------------------------------- */

struct exchange {
	struct job *job;
	struct boot *boot;
	struct end *end;
	struct memory *memories;
	struct address addresses[2]; /* by rank */
	uint32_t *numbers, *wanted;
	size_t bytes; /* of each direction: the first half of a region is sent, the second half is the other rank's to write */
};

static bool both_have(const struct exchange *x, size_t i)
{
	return x->addresses[0].regions[i].is_there && x->addresses[1].regions[i].is_there;
}

static void barrier(struct exchange *x)
{
	char all[2];

	boot_allgather(x->boot, "", 1, all);
}

static void write_there(struct exchange *x, size_t i)
{
	const struct memory *m = &x->memories[i];
	struct ibv_sge sge = {.addr = m->address, .length = (uint32_t)x->bytes, .lkey = m->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = i,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	int err;

	wr.wr.rdma.remote_addr = x->addresses[!rank].regions[i].address + x->bytes;
	wr.wr.rdma.rkey = x->addresses[!rank].regions[i].rkey;
	err = ibv_post_send(x->end->qp, &wr, &bad);
	if (err)
		die(err, "ibv_post_send");
}

static void wait_completion(struct exchange *x)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(x->end->cq, 1, &wc)))
		boot_watch(x->boot);
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		die(0, "a work request failed: %s", n < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
}

static void fill(const struct exchange *x, int of, uint32_t round, size_t i, uint32_t *numbers)
{
	struct job job = *x->job;

	job.rank = of;
	job_fill(&job, round * (uint32_t)N_KINDS + (uint32_t)i, numbers);
}

static void one_round(struct exchange *x, uint32_t round)
{
	for (size_t i = 0; i < N_KINDS; i++) {
		if (!both_have(x, i))
			continue;
		fill(x, rank, round, i, x->numbers);
		put(&x->memories[i], 0, x->numbers, x->bytes);
		write_there(x, i);
		wait_completion(x);
	}
	barrier(x);
	for (size_t i = 0; i < N_KINDS; i++) {
		if (!both_have(x, i))
			continue;
		fill(x, !rank, round, i, x->wanted);
		get(&x->memories[i], x->bytes, x->numbers, x->bytes);
		if (memcmp(x->numbers, x->wanted, x->bytes))
			die(0, "wrong: rank %d, round %u: %s has other bytes than the peer wrote", rank, round,
			    x->memories[i].name);
	}
	barrier(x); /* the next round overwrites */
}

static void exchange_addresses(struct exchange *x)
{
	struct address mine = {.gid = x->end->gid, .qpn = x->end->qp->qp_num};

	for (size_t i = 0; i < N_KINDS; i++) {
		mine.regions[i].address = x->memories[i].address;
		mine.regions[i].is_there = x->memories[i].mr != NULL;
		mine.regions[i].rkey = x->memories[i].mr ? x->memories[i].mr->rkey : 0;
	}
	boot_allgather(x->boot, &mine, sizeof(mine), x->addresses);
}

static int option(int argc, char **argv)
{
	if (argc < 2 || strncmp(argv[1], "--without-gpu", 13))
		return 0;
	way = strcmp(argv[1] + 13, "=refused") ? WITHOUT : REFUSED;
	return 1;
}

int main(int argc, char **argv)
{
	struct memory memories[N_KINDS] = {{0}};
	struct end end = {0};
	struct boot boot;
	struct job job;
	struct exchange x = {.job = &job, .boot = &boot, .end = &end, .memories = memories};
	int shift = option(argc, argv);
	unsigned int n = 0;

	job_init(&job, argc - shift, argv + shift);
	rank = job.rank;
	if (job.n_ranks != 2)
		die(0, "two ranks");
	x.bytes = job.count * sizeof(uint32_t);
	x.numbers = malloc(x.bytes);
	x.wanted = malloc(x.bytes);
	if (!x.numbers || !x.wanted)
		die(0, "no memory");
	if (way == GPU)
		load_cuda();
	boot_init(&boot, rank, job.n_ranks, job.root, job.port);
	end_open(&end);
	for (size_t i = 0; i < N_KINDS; i++) {
		memories[i] = (struct memory){.name = kinds[i].name,
					      .fd = -1,
					      .size = (2 * x.bytes + GPU_PAGE - 1) / GPU_PAGE * GPU_PAGE};
		kinds[i].get(&memories[i]);
		memory_register(&kinds[i], &memories[i], end.pd);
	}
	exchange_addresses(&x);
	end_connect(&end, &x.addresses[!rank]);
	barrier(&x);
	for (uint32_t round = 0; round < job.n_rounds; round++)
		one_round(&x, round);
	for (size_t i = 0; i < N_KINDS; i++) {
		n += both_have(&x, i);
		if (memories[i].mr && ibv_dereg_mr(memories[i].mr))
			die(errno, "ibv_dereg_mr of %s", memories[i].name);
		kinds[i].release(&memories[i]);
	}
	end_close(&end);
	boot_close(&boot);
	printf("gpu: rank %d of 2: %u rounds of %zu bytes in each of %u regions, every byte right\n", rank, job.n_rounds,
	       x.bytes, n);
	free(x.numbers);
	free(x.wanted);
	free(job.took_ms);
	return 0;
}
