/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_COUNTAGENT_H
#define UNIT_COUNTAGENT_H

#include "unit.h"

#include <sys/stat.h>

/* A real agent (realagent.h), and descriptors that processes send to it. */

extern const char *dir;

int setup(void **state);
enum held { HELD_NOT, HELD_FILE, HELD_ALL };

extern enum held _Atomic held; /* what waits when it is closed, in other threads than the test's */

int teardown(void **state);
uint64_t seen(size_t place);

/* In other threads than this one: what waits when it is closed, until it is HELD_NOT, whatever signals come. */
extern ino_t held_ino; /* of HELD_FILE: as one of a FUSE mount whose daemon does not answer */

#endif
