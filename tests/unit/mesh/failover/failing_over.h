/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef UNIT_FAILING_OVER_H
#define UNIT_FAILING_OVER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "oneconn.h"

/* One connection (oneconn.h) that is to fail over, and the messages of its peer. */

extern const struct mv_ctl_keys no_keys;

/** waits_for - the connection stays for @reason, waits for move_timeout_ms, and then fails: its program gets the errors */
void waits_for(enum mv_ctl_reason reason);
/** refused - the peer refuses the failover */
void refused(void);

#endif
