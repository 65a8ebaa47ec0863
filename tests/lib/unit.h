/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TEST_UNIT_H
#define MV_TEST_UNIT_H

/* What cmocka.h wants before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gid.h"

/* The GID that a text names; the test fails if it names none. */
static inline union ibv_gid unit_gid(const char *text)
{
	union ibv_gid gid;

	if (mv_gid_parse(text, &gid))
		fail_msg("'%s' is no GID", text);
	return gid;
}

#define assert_gid(gid, text)                                                                      \
	do {                                                                                       \
		char unit_text[MV_GID_STRLEN];                                                     \
		assert_string_equal(mv_gid_format(&(gid), unit_text), text);                       \
	} while (0)

#endif
