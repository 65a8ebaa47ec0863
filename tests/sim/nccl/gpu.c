// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * all_reduces of an unmodified libnccl.so.2 in the memory of a GPU; the ranks may share one.
 *
 *   sim_nccl_gpu RANK RANKS HOST-OF-RANK-0 PORT [-n ROUNDS] [-s BYTES] [-r SEED] [-t SECONDS]
 *
 * Ends with 0 when every number of every all_reduce was right, with 77 where there is no NCCL, no
 * CUDA or no GPU. Both are opened when it runs, so neither is needed to build it: of their
 * interfaces, which are C's and stable, what is used is declared here.
 */
#include "boot.h"
#include "job.h"
#include "netib.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NCCL_UINT32       3
#define NCCL_SUM          0
#define NCCL_IN_PROGRESS  7
#define CUDA_NOT_READY    600
#define CUDA_TO_DEVICE    1
#define CUDA_TO_HOST      2
#define CUDA_STREAM_APART 1 /* cudaStreamNonBlocking */

struct unique_id {
	char bytes[128];
};

static struct {
	int (*cudaGetDeviceCount)(int *);
	int (*cudaMalloc)(void **, size_t);
	int (*cudaFree)(void *);
	int (*cudaMemcpy)(void *, const void *, size_t, int);
	int (*cudaStreamCreateWithFlags)(void **, unsigned int);
	int (*cudaStreamQuery)(void *);
	int (*cudaStreamDestroy)(void *);
	const char *(*cudaGetErrorString)(int);
	int (*ncclGetUniqueId)(struct unique_id *);
	int (*ncclCommInitRank)(void **, int, struct unique_id, int);
	int (*ncclAllReduce)(const void *, void *, size_t, int, int, void *, void *);
	int (*ncclCommGetAsyncError)(void *, int *);
	int (*ncclCommAbort)(void *);
	int (*ncclCommDestroy)(void *);
	const char *(*ncclGetErrorString)(int);
} api;

static void find(void *library, const char *name, void *ret_function)
{
	*(void **)ret_function = dlsym(library, name);
	if (!*(void **)ret_function)
		die(0, "no %s", name);
}

#define FIND(library, name) find(library, #name, (void *)&api.name)

static void skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(77);
}

static void load_cuda(void)
{
	static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so"};
	const char *path = getenv("CUDART_LIBRARY");
	void *cuda = path ? dlopen(path, RTLD_NOW) : NULL;
	int n = 0, err;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !cuda; i++)
		cuda = dlopen(names[i], RTLD_NOW);
	if (!cuda)
		skip("no CUDA runtime library");
	FIND(cuda, cudaGetDeviceCount);
	FIND(cuda, cudaMalloc);
	FIND(cuda, cudaFree);
	FIND(cuda, cudaMemcpy);
	FIND(cuda, cudaStreamCreateWithFlags);
	FIND(cuda, cudaStreamQuery);
	FIND(cuda, cudaStreamDestroy);
	FIND(cuda, cudaGetErrorString);
	err = api.cudaGetDeviceCount(&n);
	if (err || !n)
		skip(err ? api.cudaGetErrorString(err) : "no GPU");
}

static int load_nccl(void)
{
	int version;
	void *nccl = netib_library(&version);

	FIND(nccl, ncclGetUniqueId);
	FIND(nccl, ncclCommInitRank);
	FIND(nccl, ncclAllReduce);
	FIND(nccl, ncclCommGetAsyncError);
	FIND(nccl, ncclCommAbort);
	FIND(nccl, ncclCommDestroy);
	FIND(nccl, ncclGetErrorString);
	return version;
}

static void cuda(int result, const char *what)
{
	if (result)
		die(0, "%s: %s", what, api.cudaGetErrorString(result));
}

static void nccl(int result, const char *what)
{
	if (result && result != NCCL_IN_PROGRESS)
		die(0, "%s: %s", what, api.ncclGetErrorString(result));
}

/* The kernel never ends when the network fails: NCCL tells of that beside it. */
static void finish(struct boot *boot, void *stream, void *comm)
{
	int result;

	while ((result = api.cudaStreamQuery(stream)) == CUDA_NOT_READY) {
		int error = 0;

		nccl(api.ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError");
		if (error && error != NCCL_IN_PROGRESS)
			api.ncclCommAbort(comm);
		nccl(error, "all_reduce");
		boot_watch(boot);
		sched_yield();
	}
	cuda(result, "all_reduce");
}

static void *connect_ranks(struct boot *boot)
{
	struct unique_id id = {{0}}, ids[MAX_RANKS];
	void *comm;

	if (!boot->rank)
		nccl(api.ncclGetUniqueId(&id), "ncclGetUniqueId");
	boot_allgather(boot, &id, sizeof(id), ids);
	nccl(api.ncclCommInitRank(&comm, boot->n_ranks, ids[0], boot->rank), "ncclCommInitRank");
	return comm;
}

int main(int argc, char **argv)
{
	uint32_t *numbers, *memory = NULL;
	char more[64], done[MAX_RANKS];
	void *stream, *comm;
	struct boot boot;
	struct job job;
	size_t size;
	int version;

	job_init(&job, argc, argv);
	version = load_nccl();
	load_cuda();
	boot_init(&boot, job.rank, job.n_ranks, job.root, job.port);
	comm = connect_ranks(&boot);
	size = job.count * sizeof(*numbers);
	numbers = malloc(size);
	if (!numbers)
		die(0, "no memory");
	cuda(api.cudaMalloc((void **)&memory, size), "cudaMalloc");
	cuda(api.cudaStreamCreateWithFlags(&stream, CUDA_STREAM_APART), "cudaStreamCreate");
	for (uint32_t round = 0; round < job.n_rounds; round++) {
		double took;

		job_fill(&job, round, numbers);
		cuda(api.cudaMemcpy(memory, numbers, size, CUDA_TO_DEVICE), "cudaMemcpy");
		took = now_ms();
		nccl(api.ncclAllReduce(memory, memory, job.count, NCCL_UINT32, NCCL_SUM, comm,
				       stream),
		     "ncclAllReduce");
		finish(&boot, stream, comm);
		took = now_ms() - took;
		cuda(api.cudaMemcpy(numbers, memory, size, CUDA_TO_HOST), "cudaMemcpy");
		job_check(&job, round, numbers, took);
	}
	boot_allgather(&boot, "", 1, done);
	nccl(api.ncclCommDestroy(comm), "ncclCommDestroy");
	cuda(api.cudaStreamDestroy(stream), "cudaStreamDestroy");
	cuda(api.cudaFree(memory), "cudaFree");
	boot_close(&boot);
	snprintf(more, sizeof(more), "; NCCL %d.%d.%d on a GPU", version / 10000,
		 version / 100 % 100, version % 100);
	job_tell(&job, more);
	free(numbers);
	free(job.took_ms);
	return 0;
}
