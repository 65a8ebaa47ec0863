// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCESS   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define DMA_BUF  1 /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
#define GPU_PAGE (2u << 20) /* a dma-buf is of whole ones */
#define WITHOUT  "or leave out --gpu: host memory alone is tried then"

typedef unsigned long long gpu_address;

struct q_gpu {
	int (*cuInit)(unsigned int);
	int (*cuDeviceGet)(int *, int);
	int (*cuDeviceGetName)(char *, int, int);
	int (*cuDevicePrimaryCtxRetain)(void **, int);
	int (*cuDevicePrimaryCtxRelease)(int);
	int (*cuCtxSetCurrent)(void *);
	int (*cuCtxSynchronize)(void);
	int (*cuGetErrorName)(int, const char **);
	int (*cuMemAlloc_v2)(gpu_address *, size_t);
	int (*cuMemFree_v2)(gpu_address);
	int (*cuMemsetD8_v2)(gpu_address, unsigned char, size_t);
	int (*cuMemcpyDtoH_v2)(void *, gpu_address, size_t);
	int (*cuMemGetHandleForAddressRange)(void *, gpu_address, size_t, int, unsigned long long); /* NULL: before CUDA 11.7 */
	int device;
	bool has_context;
	char name[80];
	char why[200];
};

const char *q_gpu_name(const struct q_gpu *gpu)
{
	return gpu->name;
}

const char *q_gpu_why(const struct q_gpu *gpu)
{
	return gpu->why;
}

static const char *error_name(const struct q_gpu *gpu, int result)
{
	const char *name = NULL;

	return gpu->cuGetErrorName(result, &name) || !name ? "an unknown error" : name;
}

/* Return: 0; -EIO: @gpu->why says what it is. */
static int cuda(struct q_gpu *gpu, int result, const char *call)
{
	if (!result)
		return 0;
	snprintf(gpu->why, sizeof(gpu->why), "%s: %s", call, error_name(gpu, result));
	return -EIO;
}

/* ---- open and close ---------------------------------------------------------------------------- */

/* Return: name of a function that is missing; NULL: all are there. */
static const char *find_functions(struct q_gpu *gpu, void *library)
{
#define FIND(FUNCTION)                                                                                                                     \
	*(void **)&gpu->FUNCTION = dlsym(library, #FUNCTION);                                                                              \
	if (!gpu->FUNCTION)                                                                                                                \
	return #FUNCTION
	FIND(cuInit);
	FIND(cuDeviceGet);
	FIND(cuDeviceGetName);
	FIND(cuDevicePrimaryCtxRetain);
	FIND(cuDevicePrimaryCtxRelease);
	FIND(cuCtxSetCurrent);
	FIND(cuCtxSynchronize);
	FIND(cuGetErrorName);
	FIND(cuMemAlloc_v2);
	FIND(cuMemFree_v2);
	FIND(cuMemsetD8_v2);
	FIND(cuMemcpyDtoH_v2);
#undef FIND
	*(void **)&gpu->cuMemGetHandleForAddressRange = dlsym(library, "cuMemGetHandleForAddressRange");
	return NULL;
}

__attribute__((format(printf, 3, 4))) static int refuse(char *why, size_t why_size, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, why_size, fmt, args);
	va_end(args);
	return -ENODEV;
}

static int load(struct q_gpu *gpu, char *why, size_t why_size)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *missing;

	if (!library)
		return refuse(why, why_size,
			      "--gpu needs libcuda.so.1, which cannot be loaded: %s. Install the library of NVIDIA's driver, " WITHOUT,
			      dlerror());
	missing = find_functions(gpu, library);
	return missing ? refuse(why, why_size, "--gpu: libcuda.so.1 has no %s. Install the library of a newer driver, " WITHOUT, missing)
		       : 0;
}

static int open_device(struct q_gpu *gpu, char *why, size_t why_size)
{
	void *context;
	int err = cuda(gpu, gpu->cuInit(0), "cuInit");

	if (!err)
		err = cuda(gpu, gpu->cuDeviceGet(&gpu->device, 0), "cuDeviceGet");
	if (err)
		return refuse(why, why_size, "--gpu: CUDA has no GPU: %s. See what nvidia-smi -L and CUDA_VISIBLE_DEVICES say, " WITHOUT,
			      gpu->why);
	if (gpu->cuDeviceGetName(gpu->name, sizeof(gpu->name), gpu->device))
		snprintf(gpu->name, sizeof(gpu->name), "unknown GPU");
	err = cuda(gpu, gpu->cuDevicePrimaryCtxRetain(&context, gpu->device), "cuDevicePrimaryCtxRetain");
	gpu->has_context = !err;
	if (!err)
		err = cuda(gpu, gpu->cuCtxSetCurrent(context), "cuCtxSetCurrent");
	if (err)
		return refuse(why, why_size,
			      "--gpu: no CUDA context on %s: %s. It may be in exclusive mode, or full: choose another with "
			      "CUDA_VISIBLE_DEVICES, " WITHOUT,
			      gpu->name, gpu->why);
	return 0;
}

int q_gpu_open(struct q_gpu **ret, char *why, size_t why_size)
{
	struct q_gpu *gpu = calloc(1, sizeof(*gpu));
	int err;

	if (!gpu) {
		snprintf(why, why_size, "no memory");
		return -ENOMEM;
	}
	err = load(gpu, why, why_size);
	if (!err)
		err = open_device(gpu, why, why_size);
	if (err)
		q_gpu_close(gpu);
	else
		*ret = gpu;
	return err;
}

/* The library stays: it has threads. */
void q_gpu_close(struct q_gpu *gpu)
{
	if (gpu && gpu->has_context)
		gpu->cuDevicePrimaryCtxRelease(gpu->device);
	free(gpu);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static int as_dmabuf(struct q_gpu *gpu, struct q_port *port, size_t bytes, struct q_mem *mem)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
	int fd = -1, err;

	/* libibverbs of rdma-core 33 lacks the function. */
	*(void **)&reg = dlsym(RTLD_DEFAULT, "ibv_reg_dmabuf_mr");
	if (!reg || !gpu->cuMemGetHandleForAddressRange) {
		snprintf(gpu->why, sizeof(gpu->why), "%s has no dma-bufs", reg ? "libcuda" : "libibverbs");
		return -EOPNOTSUPP;
	}
	err = cuda(gpu, gpu->cuMemGetHandleForAddressRange(&fd, mem->addr, bytes, DMA_BUF, 0), "cuMemGetHandleForAddressRange");
	if (err)
		return err;
	errno = 0;
	mem->mr = reg(port->pd, 0, bytes, mem->addr, fd, ACCESS);
	err = mem->mr ? 0 : errno ? -errno : -ENOMEM;
	if (err)
		snprintf(gpu->why, sizeof(gpu->why), "ibv_reg_dmabuf_mr: %s", strerror(-err));
	close(fd);
	return err;
}

/* @gpu->why: why both ways failed */
static int by_address(struct q_gpu *gpu, struct q_port *port, size_t bytes, struct q_mem *mem)
{
	size_t len = strlen(gpu->why);
	int err;

	errno = 0;
	mem->mr = ibv_reg_mr(port->pd, (void *)(uintptr_t)mem->addr, bytes, ACCESS);
	err = mem->mr ? 0 : errno ? -errno : -ENOMEM;
	if (err)
		snprintf(gpu->why + len, sizeof(gpu->why) - len, "; ibv_reg_mr: %s", strerror(-err));
	return err;
}

int q_gpu_alloc(struct q_gpu *gpu, struct q_port *port, size_t bytes, struct q_mem *ret)
{
	struct q_mem mem = {.gpu = gpu};
	size_t whole = (bytes + GPU_PAGE - 1) / GPU_PAGE * GPU_PAGE;
	gpu_address addr;
	int err = cuda(gpu, gpu->cuMemAlloc_v2(&addr, whole), "cuMemAlloc");

	if (err)
		return -ENOSPC;
	mem.addr = addr;
	if (as_dmabuf(gpu, port, whole, &mem))
		err = by_address(gpu, port, whole, &mem);
	if (!err)
		err = q_gpu_zero(gpu, addr, bytes);
	if (err) {
		q_gpu_free(&mem);
		return err;
	}
	gpu->why[0] = '\0'; /* by_address() may have mended what it says */
	ret->addr = mem.addr;
	ret->mr = mem.mr;
	ret->gpu = gpu;
	return 0;
}

void q_gpu_free(struct q_mem *mem)
{
	if (mem->mr)
		ibv_dereg_mr(mem->mr);
	mem->gpu->cuMemFree_v2(mem->addr);
	mem->mr = NULL;
}

int q_gpu_zero(struct q_gpu *gpu, uint64_t at, size_t bytes)
{
	int err = cuda(gpu, gpu->cuMemsetD8_v2(at, 0, bytes), "cuMemsetD8");

	/* cuMemsetD8() does not wait for the GPU. */
	return err ? err : cuda(gpu, gpu->cuCtxSynchronize(), "cuCtxSynchronize");
}

int q_gpu_read(struct q_gpu *gpu, void *to, uint64_t at, size_t bytes)
{
	return cuda(gpu, gpu->cuMemcpyDtoH_v2(to, at, bytes), "cuMemcpyDtoH");
}

int q_gpu_check(struct q_gpu *gpu, struct q_port *port, char *why, size_t why_size)
{
	struct q_mem mem;
	int err = q_gpu_alloc(gpu, port, GPU_PAGE, &mem);

	if (!err)
		q_gpu_free(&mem);
	else if (err == -ENOSPC)
		snprintf(why, why_size, "--gpu: %s has no memory left: %s. Choose another with CUDA_VISIBLE_DEVICES, " WITHOUT, gpu->name, gpu->why);
	else
		snprintf(why, why_size,
			 "--gpu: %s cannot register memory of %s: %s. Load the kernel module nvidia-peermem, or use NVIDIA's open kernel "
			 "modules, which export dma-bufs, " WITHOUT,
			 port->device, gpu->name, gpu->why);
	return err;
}
