/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Replacements for functions of glibc 2.32 and later, for older ones (Debian 11). CMakeLists.txt includes this file
 * into every source there.
 */
#ifndef MESHVERBS_GLIBC_H
#define MESHVERBS_GLIBC_H

#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PT_GNU_PROPERTY
#define PT_GNU_PROPERTY (PT_LOOS + 0x474e553)
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif

/* strerrordesc_np(): thread-safe, not translated. Programs lost access to the table when glibc 2.32 introduced the function. */
static inline const char *mv_strerrordesc(int err)
{
	return err >= 0 && err < sys_nerr ? sys_errlist[err] : NULL;
}
#define strerrordesc_np mv_strerrordesc

/* closefrom() of glibc 2.34, for tests; Linux has the system call since 5.9. */
static inline void mv_closefrom(int first)
{
	syscall(SYS_close_range, first, ~0u, 0);
}
#define closefrom mv_closefrom

#endif
