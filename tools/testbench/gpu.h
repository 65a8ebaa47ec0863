/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef TESTBENCH_GPU_H
#define TESTBENCH_GPU_H

#include "bench.h"

/*
 * Memory of a GPU, by libcuda.so.1, which is opened when asked for; what is used of its interface is declared in gpu.c.
 * One GPU: the first that CUDA shows, CUDA_VISIBLE_DEVICES chooses. Not thread-safe: the context is current in the thread
 * that has opened it. Functions return 0 or -errno; q_gpu_why() has the text of what failed last.
 */

/**
 * q_gpu_open - open the GPU: its primary context takes some hundred MiB of the GPU's memory until q_gpu_close()
 * @ret: owned by the caller, for q_gpu_close()
 * @why: gets the text of an error, with what to do about it
 *
 * Return: 0; -ENODEV: no libcuda.so.1 that fits, no GPU, or no context, e.g. in exclusive mode; -ENOMEM.
 */
int q_gpu_open(struct q_gpu **ret, char *why, size_t why_size);
/** q_gpu_close - @gpu may be NULL; its memory has been released */
void q_gpu_close(struct q_gpu *gpu);
/** q_gpu_name - a text for people, owned by @gpu */
const char *q_gpu_name(const struct q_gpu *gpu);
/** q_gpu_why - what failed last, owned by @gpu; "": nothing since memory was had */
const char *q_gpu_why(const struct q_gpu *gpu);

/**
 * q_gpu_check - can a device register the GPU's memory?
 * @why: gets the text of an error, with what to do about it
 *
 * Return: 0; -ENOSPC: the GPU has no memory left; -errno of registering.
 */
int q_gpu_check(struct q_gpu *gpu, struct q_port *port, char *why, size_t why_size);

/**
 * q_gpu_alloc - memory of the GPU, registered: as a dma-buf, else by its address, as with nvidia-peermem
 * @ret: gets addr, mr and gpu; buf and bytes are the caller's. For q_gpu_free()
 */
int q_gpu_alloc(struct q_gpu *gpu, struct q_port *port, size_t bytes, struct q_mem *ret);
void q_gpu_free(struct q_mem *mem);
/** q_gpu_zero - bytes of the GPU's memory become 0, before the function returns */
int q_gpu_zero(struct q_gpu *gpu, uint64_t at, size_t bytes);
/** q_gpu_read - copy bytes of the GPU's memory, before the function returns */
int q_gpu_read(struct q_gpu *gpu, void *to, uint64_t at, size_t bytes);

#endif
