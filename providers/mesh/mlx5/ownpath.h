/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_OWNPATH_H
#define MESH_OWNPATH_H

#include <infiniband/verbs.h>

/**
 * mesh_ownpath_try - ways from a port of a device to itself, for connecting queue pairs of ours with each other
 * @try: returns 0 where it could be connected, and -errno to be given the next way
 *
 * Return: 0; what the last call of @try returned; -EHOSTUNREACH: there is no way; -ENOMEM.
 */
int mesh_ownpath_try(struct ibv_context *verbs, int (*try)(void *arg, const struct ibv_ah_attr *ah), void *arg);

#endif
