/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_VIEWINT_H
#define MESH_VIEWINT_H

#include "peerview.h"

/* What peerview.c and gidview.c share. */

/** mesh_view_lock - take view_lock. Return: for mesh_view_unlock(): the thread cannot be cancelled meanwhile */
int mesh_view_lock(void) MV_ACQUIRES(&mesh_root.process->view_lock);
void mesh_view_unlock(int cancel) MV_RELEASES(&mesh_root.process->view_lock);
/** mesh_view_directory - the one of now, mapped; view_lock. Return: NULL: there is none */
const struct mv_directory *mesh_view_directory(void);

#endif
