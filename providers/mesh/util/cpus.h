/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CPUS_H
#define MESH_CPUS_H

#include <stdbool.h>
#include <stddef.h>

/* Sets of CPUs. cpu_set_t is too small for sched_getaffinity(2) on kernels for more than 1,024 CPUs. */

#define MESH_MAX_CPUS  8192
#define MESH_CPU_WORDS (MESH_MAX_CPUS / (8 * sizeof(unsigned long)))

struct mesh_cpus {
	unsigned long words[MESH_CPU_WORDS];
};

/**
 * mesh_cpus_of - the CPUs on which a thread may run
 * @tid: of this process; 0: the calling thread
 * @ret: empty if the kernel does not tell
 */
void mesh_cpus_of(int tid, struct mesh_cpus *ret);

/** mesh_cpus_parse - parse the kernel's list of CPUs, such as "2-5,8\n"; skips malformed parts, and CPUs beyond MESH_MAX_CPUS */
void mesh_cpus_parse(const char *list, struct mesh_cpus *ret);

/** mesh_cpus_empty - is the set empty? */
bool mesh_cpus_empty(const struct mesh_cpus *cpus);

/**
 * mesh_cpus_choose - CPUs for a thread of the plugin
 * @start: CPUs of the process when the plugin was loaded
 * @isolated: CPUs without load balancing: a thread there stays, even beside a thread that spins
 * @starter: CPUs of the program's thread that starts the thread
 * @realtime: the starter has a real-time policy, so no thread of the plugin could run on its CPU
 * @ret: @start without @isolated, and without @starter if @realtime; a step that would leave no CPU is skipped. If a real-time
 * starter has all of @start: all other CPUs, from which the kernel takes those of the process's cpuset, or refuses.
 *
 * Return: false: @start is not known, so a new thread inherits its starter's CPUs.
 */
bool mesh_cpus_choose(const struct mesh_cpus *start, const struct mesh_cpus *isolated, const struct mesh_cpus *starter, bool realtime,
		      struct mesh_cpus *ret);

#endif
