// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A stand-in for libcuda.so.1, as much as `meshverbs qualify --gpu` uses: one GPU, whose memory is files. The processor
 * cannot reach the memory at the device's address, except by the functions here. The environment says what is
 * otherwise:
 *
 *   SIM_CUDA=unwanted     the library must not be opened
 *   SIM_CUDA=no-gpu       cuInit() finds none
 *   SIM_CUDA=exclusive    no context can be had
 *   SIM_CUDA=peermem      no dma-bufs; ibv_reg_mr() takes the device's address
 *   SIM_CUDA=refused      no dma-bufs; ibv_reg_mr() refuses the device's address
 *   SIM_CUDA=full         no memory
 *   SIM_CUDA=breaks       the hundredth cuMemcpyDtoH() fails
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	OK,
	OUT_OF_MEMORY = 2,
	NO_DEVICE = 100,
	DEVICE_UNAVAILABLE = 46,
	ILLEGAL_ADDRESS = 700,
	NOT_SUPPORTED = 801,
	INVALID_CONTEXT = 201
};

#define EXPORT   __attribute__((visibility("default")))
#define MEMORIES 16
#define GPU_PAGE (2ul << 20)

typedef unsigned long long address;

static struct memory {
	char *device; /* NULL: unused */
	char *host; /* the same bytes, where the functions here reach them */
	size_t bytes;
	int fd;
} memories[MEMORIES];

static int has_context, is_current, n_copies;

static int is_so(const char *word)
{
	const char *now = getenv("SIM_CUDA");

	return now && !strcmp(now, word);
}

/* NULL: the bytes are not all in one memory, or no context is current. */
static struct memory *find(address at, size_t bytes)
{
	for (struct memory *m = memories; m < memories + MEMORIES && is_current; m++)
		if (m->device && at >= (address)(unsigned long)m->device &&
		    at - (address)(unsigned long)m->device <= m->bytes - bytes && bytes <= m->bytes)
			return m;
	return NULL;
}

static char *host_of(const struct memory *m, address at)
{
	return m->host + (at - (address)(unsigned long)m->device);
}

__attribute__((constructor)) static void loaded(void)
{
	if (is_so("unwanted"))
		abort();
}

EXPORT int cuInit(unsigned int flags)
{
	(void)flags;
	return is_so("no-gpu") ? NO_DEVICE : OK;
}

EXPORT int cuGetErrorName(int result, const char **ret)
{
	*ret = result == OUT_OF_MEMORY        ? "CUDA_ERROR_OUT_OF_MEMORY"
	       : result == NO_DEVICE          ? "CUDA_ERROR_NO_DEVICE"
	       : result == DEVICE_UNAVAILABLE ? "CUDA_ERROR_DEVICE_UNAVAILABLE"
	       : result == ILLEGAL_ADDRESS    ? "CUDA_ERROR_ILLEGAL_ADDRESS"
	       : result == NOT_SUPPORTED      ? "CUDA_ERROR_NOT_SUPPORTED"
					      : "CUDA_ERROR_INVALID_CONTEXT";
	return OK;
}

EXPORT int cuDeviceGet(int *ret, int ordinal)
{
	*ret = ordinal;
	return OK;
}

EXPORT int cuDeviceGetName(char *ret, int size, int device)
{
	(void)device;
	strncpy(ret, "Stand-in GPU", (size_t)size);
	return OK;
}

EXPORT int cuDevicePrimaryCtxRetain(void **ret, int device)
{
	(void)device;
	if (is_so("exclusive"))
		return DEVICE_UNAVAILABLE;
	has_context = 1;
	*ret = memories;
	return OK;
}

/* Memory that was not freed, and a context that was not had, are mistakes of the caller. */
EXPORT int cuDevicePrimaryCtxRelease(int device)
{
	(void)device;
	for (struct memory *m = memories; m < memories + MEMORIES; m++)
		if (m->device)
			abort();
	if (!has_context)
		abort();
	has_context = is_current = 0;
	return OK;
}

EXPORT int cuCtxSetCurrent(void *context)
{
	is_current = context == memories && has_context;
	return is_current ? OK : INVALID_CONTEXT;
}

EXPORT int cuCtxSynchronize(void)
{
	return is_current ? OK : INVALID_CONTEXT;
}

/* Where the processor may not read; with peermem it may, for ibv_reg_mr() does. */
EXPORT int cuMemAlloc_v2(address *ret, size_t bytes)
{
	struct memory *m = memories;

	while (m < memories + MEMORIES && m->device)
		m++;
	if (!is_current || m == memories + MEMORIES || is_so("full"))
		return is_current ? OUT_OF_MEMORY : INVALID_CONTEXT;
	m->fd = memfd_create("sim-cuda", MFD_CLOEXEC);
	if (m->fd < 0 || ftruncate(m->fd, (off_t)bytes))
		return OUT_OF_MEMORY;
	m->host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	m->device = mmap(NULL, bytes, is_so("peermem") ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, m->fd, 0);
	m->bytes = bytes;
	if (m->host == MAP_FAILED || m->device == MAP_FAILED)
		abort();
	memset(m->host, 0x5a, bytes);
	*ret = (address)(unsigned long)m->device;
	return OK;
}

EXPORT int cuMemFree_v2(address at)
{
	struct memory *m = find(at, 1);

	if (!m)
		return ILLEGAL_ADDRESS;
	munmap(m->host, m->bytes);
	munmap(m->device, m->bytes);
	close(m->fd);
	memset(m, 0, sizeof(*m));
	return OK;
}

EXPORT int cuMemsetD8_v2(address at, unsigned char value, size_t bytes)
{
	struct memory *m = find(at, bytes);

	if (!m)
		return ILLEGAL_ADDRESS;
	memset(host_of(m, at), value, bytes);
	return OK;
}

EXPORT int cuMemcpyDtoH_v2(void *to, address at, size_t bytes)
{
	struct memory *m = find(at, bytes);

	if (!m || (is_so("breaks") && ++n_copies >= 100))
		return ILLEGAL_ADDRESS;
	memcpy(to, host_of(m, at), bytes);
	return OK;
}

/* Of whole pages of the GPU, as a driver demands. */
EXPORT int cuMemGetHandleForAddressRange(int *ret, address at, size_t bytes, int type, unsigned long long flags)
{
	struct memory *m = find(at, bytes);

	if (is_so("peermem") || is_so("refused"))
		return NOT_SUPPORTED;
	if (!m || at != (address)(unsigned long)m->device || bytes % GPU_PAGE || type != 1 || flags)
		return ILLEGAL_ADDRESS;
	*ret = fcntl(m->fd, F_DUPFD_CLOEXEC, 0);
	return *ret < 0 ? OUT_OF_MEMORY : OK;
}
