/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef INJECT_H
#define INJECT_H

#include <stdbool.h>

/*
 * Fault injection: the n-th call of a group fails once. Works on calls made by the objects linked into
 * the test program (--wrap), not on libraries'.
 */
enum inject_group {
	INJECT_NONE,
	INJECT_ALLOC, /* malloc, calloc, realloc: NULL */
	INJECT_SYSCALL, /* mmap, madvise, mprotect, pipe2, open, socket ...: EPERM */
};

void inject_fail(enum inject_group group, int nth); /* nth from 1 */

/* Has the injected failure happened since inject_fail()? */
bool inject_fired(void);

#endif
