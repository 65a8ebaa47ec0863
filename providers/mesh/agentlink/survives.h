/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SURVIVES_H
#define MESH_SURVIVES_H

#include "context.h"

/*
 * Which devices connections may leave, and move to, while they are at work. survive = on: all; off: none; auto: those that have qualified
 * (`meshverbs qualify`) with the provider's library of this process, as the agent's directory says.
 */

/** mesh_survives_on - may connections of a context be at work on that device of this host, and move? Any thread; takes view_lock */
bool mesh_survives_on(struct mesh_context *mc, const char *device);

/** mesh_survives - the same of the context's own device */
bool mesh_survives(struct mesh_context *mc);

/** mesh_survives_some - has the answer been yes for any device? */
bool mesh_survives_some(void);

/**
 * mesh_survives_why_not - why a connection to be made on the context's device is not protected
 *
 * Says so in the log, once per process, with the command that changes it.
 *
 * Return: NULL: it is.
 */
const char *mesh_survives_why_not(struct mesh_context *mc);

#endif
