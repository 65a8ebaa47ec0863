// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#ifndef UNIT_MESH_REALAGENT_H
#define UNIT_MESH_REALAGENT_H

#include "client.h"

/* The agent's own code for its processes, in the test's process, at a socket in a directory of its own. One at a time, one thread. */
extern struct md_clients clients;

/* Return: the directory, for mesh_agentlink_open() */
const char *realagent_start(void);
/* All that there is to do for it now. */
void realagent_run(void);
/* Nobody may be connected to it any more. */
void realagent_stop(void);

#endif
