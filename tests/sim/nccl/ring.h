/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * NCCL's ring: each rank sends to the next and receives from the one before, on several channels. A
 * channel has a buffer for each direction, cut into steps, of which all may be under way. What NCCL
 * lets its kernels on the GPU do, to copy and to add, the processor does here; connections and
 * transfers are NCCL's own, by its NET/IB.
 */
#ifndef NCCL_TEST_RING_H
#define NCCL_TEST_RING_H

#include "boot.h"
#include "netib.h"

#include <stdbool.h>

#define N_STEPS      8 /* NCCL_STEPS */
#define STEP_BYTES   (512u << 10) /* NCCL_BUFFSIZE by default, 4 MiB, of N_STEPS */
#define MAX_CHANNELS 16

struct channel {
	int dev;
	void *listener, *sender, *receiver;
	char handle[NETIB_HANDLE_BYTES]; /* of the next rank's listener */
	uint8_t *out, *in; /* N_STEPS steps each */
	void *out_memory, *in_memory; /* as registered */
	void *out_requests[N_STEPS], *in_requests[N_STEPS];
	void *flush; /* under way, of the step `received` */
	/* Steps since the beginning of this all_reduce. */
	size_t n_steps, posted_in, received, posted_out, sent;
	size_t turn; /* which step of the buffers is step 0 */
	uint32_t *numbers; /* its share */
	size_t count, block; /* numbers in its share, and in what is worked on at a time */
};

struct ring {
	const struct netib *net;
	struct boot *boot;
	void *ctx;
	int first_dev, n_devs, n_channels;
	bool flush; /* what came, as NCCL does for GPUs before Hopper with GPUDirect; set after
		       ring_init() */
	struct channel channels[MAX_CHANNELS];
	double last_ms, pause_ms; /* of a completion; the longest time without one */
};

/**
 * ring_init() - @channels_per_dev connections each way over each of NCCL's devices.
 *
 * Collective. Ends the program, with NCCL's reason before it, where NCCL cannot.
 */
void ring_init(struct ring *ring, const struct netib *net, struct boot *boot, int channels_per_dev);

/** ring_all_reduce() - sums of @count numbers of each rank, in place. Collective. Ends the program
 * where NCCL reports an error. */
void ring_all_reduce(struct ring *ring, uint32_t *numbers, size_t count);

void ring_close(struct ring *ring);

#endif
