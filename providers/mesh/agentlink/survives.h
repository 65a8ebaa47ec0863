/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_SURVIVES_H
#define MESH_SURVIVES_H

#include "context.h"

/*
 * On which devices connections may move while at work. survive = on: all; off: none; auto: devices that are qualified (`meshverbs
 * qualify`) with this process's provider library, by the agent's directory.
 */

/**
 * mesh_survives_on - may connections of a context be at work on that device of this host, and move? By the published directory.
 * Any thread; takes process->directory.lock.
 */
bool mesh_survives_on(struct mesh_context *mc, const char *device);

/**
 * mesh_survives - mesh_survives_on() the context's own device, by the directory that was mapped last. For callers that have just
 * looked into the directory, as RTR has: does not look whether a newer one is published.
 */
bool mesh_survives(struct mesh_context *mc);

/** mesh_survives_some - may connections move on any device, as far as was asked? */
bool mesh_survives_some(void);

/**
 * mesh_survives_why_not - why a new connection on the context's device is not protected, a constant; NULL: it is protected. As
 * mesh_survives().
 *
 * Logs the reason once per process, with the command that changes it.
 */
const char *mesh_survives_why_not(struct mesh_context *mc);

#endif
