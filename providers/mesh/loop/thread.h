/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_THREAD_H
#define MESH_THREAD_H

#include <stdbool.h>

/** mesh_thread_begin - start the helper thread, unless there is one; @at_once: with the agent connected already. Return: 0 or -errno */
int mesh_thread_begin(bool at_once);

#endif
