/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CPUS_H
#define MESH_CPUS_H

#include <stdbool.h>
#include <stddef.h>

/* Sets of CPUs, larger than cpu_set_t, which sched_getaffinity(2) refuses on a kernel for more than 1,024 CPUs. */

#define MESH_MAX_CPUS  8192
#define MESH_CPU_WORDS (MESH_MAX_CPUS / (8 * sizeof(unsigned long)))

struct mesh_cpus {
	unsigned long words[MESH_CPU_WORDS];
};

/**
 * mesh_cpus_of - the CPUs that a thread may run on
 * @tid: of this process; 0: the calling thread
 * @ret: empty where the kernel does not say
 */
void mesh_cpus_of(int tid, struct mesh_cpus *ret);

/** mesh_cpus_parse - the kernel's list of CPUs, "2-5,8\n"; what is no such list, or beyond MESH_MAX_CPUS, is left out */
void mesh_cpus_parse(const char *list, struct mesh_cpus *ret);

/** mesh_cpus_empty - is none in it? */
bool mesh_cpus_empty(const struct mesh_cpus *cpus);

/**
 * mesh_cpus_choose - where a thread of ours runs that a thread of the program's starts
 * @start: the CPUs of the process when the plugin was loaded
 * @isolated: the CPUs between which the kernel balances no load: a thread that is put on one of them stays there, whoever spins on it
 * @starter: the CPUs of the thread that starts it
 * @realtime: that thread has a real-time policy, so nothing of ours runs beside it on a CPU
 * @ret: @start without @isolated, and without @starter if @realtime; what would leave none is not taken out. Where a real-time thread has all
 *       of @start, every other CPU: the kernel leaves those of them that the process's cpuset allows, or refuses the set.
 *
 * Return: false: nothing is known of @start, so a new thread has the CPUs of its starter.
 */
bool mesh_cpus_choose(const struct mesh_cpus *start, const struct mesh_cpus *isolated, const struct mesh_cpus *starter, bool realtime,
		      struct mesh_cpus *ret);

#endif
