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

/* A port was down when it was made; its program has said RTS, and only receives. Nobody answers. */
void is_held(void);

/* It leads, and has no path to offer, so it is left as its program asked at once; but its port has been down, and has no address yet. */
void has_no_path(void);

/* Time passes, and a worker does what it is given. Return: was it given something, who reads the table? */
bool looks_after(uint64_t ms);

#endif
