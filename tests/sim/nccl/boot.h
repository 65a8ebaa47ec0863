/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How the ranks of these programs find each other: by TCP, through rank 0, over whatever network
 * its name leads to. */
#ifndef NCCL_TEST_BOOT_H
#define NCCL_TEST_BOOT_H

#include <stddef.h>
#include <time.h>

#define MAX_RANKS 8

struct boot {
	int rank, n_ranks;
	int fds[MAX_RANKS]; /* rank 0: of each other rank; the others: [0] of rank 0 */
	time_t watched; /* when that was */
};

/** die() - says what went wrong, with strerror(@err) if that is not 0, and ends the program with 1.
 */
_Noreturn void die(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/**
 * boot_init() - rank 0 listens on @port, the others connect to it at @host; waits for all of them.
 *
 * Ends the program where that fails for 20 s.
 */
void boot_init(struct boot *boot, int rank, int n_ranks, const char *host, int port);

/**
 * boot_allgather() - every rank's @size bytes, to every rank.
 * @mine: what this one gives
 * @all: n_ranks * @size bytes, in the order of the ranks
 *
 * Waits for all ranks; ends the program when one is gone.
 */
void boot_allgather(struct boot *boot, const void *mine, size_t size, void *all);

/**
 * boot_watch() - ends the program when another rank has ended, as a job's launcher would. To be
 * called all the time; costs nothing most times.
 */
void boot_watch(struct boot *boot);

void boot_close(struct boot *boot);

#endif
