/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_OWNPATH_H
#define MESH_OWNPATH_H

#include <infiniband/verbs.h>

/**
 * mesh_ownpath_try - try paths from a port of a device to itself, for queue pairs of the plugin
 * @try: connects its queue pairs on that path; returns 0, or -errno to get the next path
 *
 * Any thread. Return: 0; the last result of @try; -EHOSTUNREACH: there is no GID whose port is active; -ENOMEM.
 */
int mesh_ownpath_try(struct ibv_context *verbs, int (*try)(void *arg, const struct ibv_ah_attr *ah), void *arg);

#endif
