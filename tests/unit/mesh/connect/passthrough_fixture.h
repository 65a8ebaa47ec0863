/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_TOBASE_H
#define UNIT_TOBASE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "oneconn.h"

/* One connection (oneconn.h) that is being made, and may be made as without meshverbs. */

extern const struct mv_ctl_keys no_keys;

/** is_held - a port was down at RTR. The program has gone to RTS, and only receives. The peer does not answer. */
void is_held(void);

/** has_no_path - the leader has no path to offer, so the program's own path is used at once. Its port was down, and has no address yet. */
void has_no_path(void);

/** looks_after - @ms pass, and a worker runs its jobs; returns: was there a job, which reads the GID table? */
bool looks_after(uint64_t ms);

#endif
