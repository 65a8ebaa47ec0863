/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MEMLOCK_H
#define MESH_MEMLOCK_H

#include <stdbool.h>

/**
 * mesh_memlock_bounded - is the locked memory of this process limited?
 *
 * The kernel counts pages of memory regions, queues and doorbell records against RLIMIT_MEMLOCK, unless the process has
 * CAP_IPC_LOCK in the initial user namespace (drivers/infiniband/core/umem.c, ib_umem_get()).
 *
 * Thread: any. Makes system calls: not for the data path. Return: true also if that cannot be found out.
 */
bool mesh_memlock_bounded(void);

#endif
