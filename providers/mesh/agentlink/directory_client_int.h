/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DIRECTORY_CLIENT_INT_H
#define MESH_DIRECTORY_CLIENT_INT_H

#include "directory_client.h"

/* Shared by directory_client.c and directory_gids.c. */

/** mesh_view_lock - take process->view.lock, and disable cancellation. Return: pass it to mesh_view_unlock(). */
int mesh_view_lock(void) MV_ACQUIRES(&mesh_root.process->view.lock);
void mesh_view_unlock(int cancel) MV_RELEASES(&mesh_root.process->view.lock);
/** mesh_view_directory - the current directory, mapped; NULL: there is none; process->view.lock */
const struct mv_directory *mesh_view_directory(void);

#endif
