/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DIRECTORY_CLIENT_INT_H
#define MESH_DIRECTORY_CLIENT_INT_H

#include "directory_client.h"

/* Shared by directory_client.c and directory_gids.c. */

/**
 * mesh_directory_lock - take process->directory.lock, and disable cancellation. Return: pass it to
 * mesh_directory_unlock().
 */
int mesh_directory_lock(void) MV_ACQUIRES(&mesh_root.process->directory.lock);
void mesh_directory_unlock(int cancel) MV_RELEASES(&mesh_root.process->directory.lock);
/** mesh_directory_mapped - the current directory, mapped; NULL: there is none; process->directory.lock */
const struct mv_directory *mesh_directory_mapped(void);

#endif
