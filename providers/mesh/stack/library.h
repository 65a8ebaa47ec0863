/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_LIBRARY_H
#define MESH_LIBRARY_H

#include "abi.h"

/* library.c */

/**
 * mesh_library_find - resolve the loaded libibverbs this plugin is bound to
 * @ret: filled on success
 *
 * Return: 0; -ENOENT when it is not a shared object of its own (static program); -ENOTSUP when an entry
 * point is missing. @why gets a sentence for the operator.
 */
int mesh_library_find(struct mesh_library *ret, char *why, size_t why_size);

/**
 * mesh_library_resolve - the same for a library the caller opened (tests)
 * @handle: from dlopen()
 * @anchor: any address inside it
 */
int mesh_library_resolve(struct mesh_library *ret, void *handle, const void *anchor, char *why,
			 size_t why_size);

/* drivers.c */

/**
 * mesh_drivers_find - register ourselves and find libibverbs' list of drivers by what that changed
 * @own: our ops; must stay valid for ever
 * @ret_head: written on success
 *
 * Return: 0; -EEXIST when another copy of the plugin is already there; -ENOTSUP when the list cannot be
 * told for sure; -errno of pipe2(), -ENOMEM. In every case libibverbs stays usable.
 */
int mesh_drivers_find(const struct mesh_library *lib, const struct mesh_driver_ops *own,
		      struct mesh_driver_node **ret_head, char *why, size_t why_size);

/**
 * mesh_drivers_lookup - ops of the driver of that name
 * @name: as in "libNAME-rdmav34.so"; libibverbs' own names are matched
 *
 * Return: the ops or NULL.
 */
struct mesh_driver_ops *mesh_drivers_lookup(struct mesh_driver_node *head, const char *name);

#endif
