/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_OURTHREADS_H
#define MESH_OURTHREADS_H

#include <stdbool.h>

/* The threads that we start in the program's process: the helper thread, workers, the one that registers ahead. */

/** mesh_threads_init - remember on which CPUs the process may run; when the plugin is loaded */
void mesh_threads_init(void);

/**
 * mesh_thread_start - a detached thread that no signal reaches but those that its own instructions raise
 *
 * It has policy SCHED_OTHER and the CPUs of mesh_cpus_choose(), whatever the thread of the program's has that starts it; what of that the
 * kernel refuses it inherits. A thread that one of ours starts inherits both. The nice value is inherited, as is all else.
 *
 * Return: 0 or -errno.
 */
int mesh_thread_start(void *(*function)(void *), void *arg);

/**
 * mesh_threads_alone - has every thread of the program ended?
 *
 * A process ends when its last thread does (pthread_exit(3)), and that may be one of ours, which never ends by itself. False also where
 * that cannot be told. One system call as long as main() goes on; any thread.
 */
bool mesh_threads_alone(void);

/** mesh_threads_main_ended - the text of /proc/self/stat: has the thread that main() ran in? */
bool mesh_threads_main_ended(const char *stat);

#endif
