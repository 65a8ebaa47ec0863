/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_OURTHREADS_H
#define MESH_OURTHREADS_H

#include <stdbool.h>

/*
 * Threads of the plugin in the program's process: helper thread, workers, threads that register in advance, threads of devices.
 */

/** mesh_threads_init - store the CPUs of the process, when the plugin is loaded */
void mesh_threads_init(void);

/**
 * mesh_thread_start - start a detached thread, with all signals blocked except those that its own instructions raise
 *
 * Policy SCHED_OTHER, and the CPUs of mesh_cpus_choose(), whatever the starting thread of the program has. Settings that the
 * kernel refuses are inherited. A thread started by a thread of the plugin inherits both. The nice value, and all else, is
 * inherited.
 *
 * Return: 0 or -errno.
 */
int mesh_thread_start(void *(*function)(void *), void *arg);

/**
 * mesh_threads_alone - has every thread of the program ended?
 *
 * A process ends with its last thread (pthread_exit(3)), but the plugin's threads never end by themselves. Any thread. One system
 * call as long as main() goes on. Return: false also if that is not known.
 */
bool mesh_threads_alone(void);

/** mesh_threads_main_ended - has the thread that ran main() ended? @stat: text of /proc/self/stat */
bool mesh_threads_main_ended(const char *stat);

#endif
