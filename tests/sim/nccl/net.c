// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * all_reduces over the NET/IB of an unmodified libnccl.so.2, without a GPU.
 *
 *   sim_nccl_net RANK RANKS HOST-OF-RANK-0 PORT [-n ROUNDS] [-s BYTES] [-r SEED] [-t SECONDS]
 *
 * NCCL's settings are in its environment, as always, and three of ours: CHANNELS, connections each
 * way per device, 2 by default; FLUSH, with any value: what came is flushed; MERGE, with any value: all NICs
 * are one device. Ends with 0 when every number of every all_reduce was right, with 77 where there is no NCCL
 * whose NET/IB has a known form.
 */
#include "job.h"
#include "ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *channels = getenv("CHANNELS");
	static struct ring ring;
	char more[128], done[MAX_RANKS];
	const struct netib *net;
	struct boot boot;
	uint32_t *numbers;
	struct job job;
	int version;

	job_init(&job, argc, argv);
	net = netib_load(&version);
	boot_init(&boot, job.rank, job.n_ranks, job.root, job.port);
	ring_init(&ring, net, &boot, channels ? atoi(channels) : 2);
	ring.flush = getenv("FLUSH");
	numbers = malloc(job.count * sizeof(*numbers));
	if (!numbers)
		die(0, "no memory");
	for (uint32_t round = 0; round < job.n_rounds; round++) {
		double begun;

		job_fill(&job, round, numbers);
		begun = now_ms();
		ring.last_ms = begun;
		ring_all_reduce(&ring, numbers, job.count);
		job_check(&job, round, numbers, now_ms() - begun);
	}
	boot_allgather(&boot, "", 1, done);
	ring_close(&ring);
	boot_close(&boot);
	snprintf(more, sizeof(more),
		 ", longest pause %.2f ms; NET/IB of NCCL %d.%d.%d, %d channels", ring.pause_ms,
		 version / 10000, version / 100 % 100, version % 100, ring.n_channels);
	job_tell(&job, more);
	free(numbers);
	free(job.took_ms);
	return 0;
}
