/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_LIBRARY_H
#define MESH_LIBRARY_H

#include "abi.h"

/* library.c */

/**
 * mesh_library_find - look up the functions of the libibverbs that this plugin is bound to
 * @ret: filled on success
 * @why: on failure, a sentence for the operator
 *
 * Return: 0; -ENOENT: libibverbs is not a shared object (static program); -ENOTSUP: a function is missing.
 */
int mesh_library_find(struct mesh_library *ret, char *why, size_t why_size);

/**
 * mesh_library_resolve - mesh_library_find() for a library that the caller has opened (tests)
 * @handle: of dlopen()
 * @anchor: any address in the library
 */
int mesh_library_resolve(struct mesh_library *ret, void *handle, const void *anchor, char *why,
			 size_t why_size);

/* drivers.c */

/**
 * mesh_drivers_find - register the plugin as a driver, and find libibverbs' list of drivers by the words that this changes
 * @own: the plugin's ops; must stay valid for ever
 * @ret_head: written on success
 * @why: on failure, a sentence for the operator
 *
 * Return: 0; -EEXIST: another copy of the plugin is registered; -ENOTSUP: the list was not found, or is not a list; -errno of
 * pipe2(); -ENOMEM. In every case libibverbs stays usable.
 */
int mesh_drivers_find(const struct mesh_library *lib, const struct mesh_driver_ops *own,
		      struct mesh_driver_node **ret_head, char *why, size_t why_size);

/**
 * mesh_drivers_lookup - find a driver in the list
 * @name: of the driver's ops, such as "mlx5" (of libmlx5-rdmav34.so)
 *
 * Return: the ops; NULL: no such driver has registered yet.
 */
struct mesh_driver_ops *mesh_drivers_lookup(struct mesh_driver_node *head, const char *name);

#endif
