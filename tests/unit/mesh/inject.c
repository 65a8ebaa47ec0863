// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inject.h"

static enum inject_group failing;
static atomic_int countdown;
static atomic_bool fired;

void inject_fail(enum inject_group group, int nth)
{
	failing = group;
	atomic_store(&countdown, nth);
	atomic_store(&fired, false);
}

bool inject_fired(void)
{
	return atomic_load(&fired);
}

static bool now(enum inject_group group)
{
	if (failing != group || atomic_fetch_sub(&countdown, 1) != 1)
		return false;
	atomic_store(&fired, true);
	errno = group == INJECT_ALLOC ? ENOMEM : EPERM;
	return true;
}

#define WRAP(group, type, failure, name, params, args)                                                     \
	type __real_##name params;                                                                         \
	type __wrap_##name params;                                                                         \
	type __wrap_##name params                                                                          \
	{                                                                                                  \
		return now(group) ? (failure) : __real_##name args;                                        \
	}

WRAP(INJECT_ALLOC, void *, NULL, malloc, (size_t n), (n))
WRAP(INJECT_ALLOC, void *, NULL, calloc, (size_t n, size_t m), (n, m))
WRAP(INJECT_ALLOC, void *, NULL, realloc, (void *p, size_t n), (p, n))
WRAP(INJECT_SYSCALL, void *, MAP_FAILED, mmap, (void *a, size_t n, int p, int f, int fd, off_t o),
     (a, n, p, f, fd, o))
WRAP(INJECT_SYSCALL, int, -1, madvise, (void *a, size_t n, int x), (a, n, x))
WRAP(INJECT_SYSCALL, int, -1, mprotect, (void *a, size_t n, int p), (a, n, p))
WRAP(INJECT_SYSCALL, int, -1, pipe2, (int fds[2], int flags), (fds, flags))
WRAP(INJECT_SYSCALL, ssize_t, -1, read, (int fd, void *b, size_t n), (fd, b, n))
WRAP(INJECT_SYSCALL, ssize_t, -1, write, (int fd, const void *b, size_t n), (fd, b, n))
WRAP(INJECT_SYSCALL, int, -1, socket, (int d, int t, int p), (d, t, p))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	if (now(INJECT_SYSCALL))
		return -1;
	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	return __real_open(path, flags, mode);
}
