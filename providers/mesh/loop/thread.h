/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_THREAD_H
#define MESH_THREAD_H

#include <stdbool.h>

/**
 * mesh_thread_begin - start the helper thread, unless it exists. Return: 0 or -errno.
 * @at_once: true: connect to the agent before this returns
 */
int mesh_thread_begin(bool at_once);

#endif
