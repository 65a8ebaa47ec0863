/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_COUNTAGENT_H
#define UNIT_COUNTAGENT_H

#include "unit.h"

#include <sys/stat.h>

/* A real agent (realagent.h), and descriptors that processes send to it. */

extern const char *dir; /* the agent's */

int setup(void **state);
enum held { HELD_NOT, HELD_FILE, HELD_ALL };

extern enum held _Atomic held; /* descriptors whose close() waits in other threads until HELD_NOT */
extern ino_t held_ino; /* the file of HELD_FILE, as a file of a FUSE mount whose daemon does not answer */

int teardown(void **state);
/** seen - returns the agent's sum of the counter @place */
uint64_t seen(size_t place);

#endif
