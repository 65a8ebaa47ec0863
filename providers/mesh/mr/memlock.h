/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MEMLOCK_H
#define MESH_MEMLOCK_H

#include <stdbool.h>

/**
 * mesh_memlock_bounded - is what this process may pin bounded?
 *
 * The kernel counts the pages of memory regions, of queues and of doorbell records against RLIMIT_MEMLOCK, unless the
 * process has CAP_IPC_LOCK in the first user namespace (drivers/infiniband/core/umem.c, ib_umem_get()). In doubt, yes.
 *
 * Any thread. Takes a moment: not for the data path.
 */
bool mesh_memlock_bounded(void);

#endif
