/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static _Thread_local char here; /* its address names the thread */

static struct {
	_Atomic(const char *) only; /* the thread whose calls count and fail; NULL: any */
	/* Threads of what is tested call as well. */
	_Atomic enum fault_call call;
	_Atomic unsigned int nth; /* 0: none armed */
	_Atomic int err;
	_Atomic bool fired;
	_Atomic unsigned int counts[FAULT_N_CALLS];
} fault;

ssize_t (*fault_sendto_divert)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
ssize_t (*fault_recv_divert)(int, void *, size_t, int);
ssize_t (*fault_recvmsg_divert)(int, struct msghdr *, int);

void fault_arm(enum fault_call call, unsigned int nth, int err)
{
	fault_disarm();
	fault.call = call;
	fault.err = call == FAULT_ALLOC ? ENOMEM : err;
	fault.nth = nth;
}

void fault_disarm(void)
{
	fault.nth = 0;
	fault.fired = false;
	for (int i = 0; i < FAULT_N_CALLS; i++)
		atomic_store_explicit(&fault.counts[i], 0, memory_order_relaxed);
}

void fault_one_thread(bool on)
{
	fault.only = on ? &here : NULL;
}

bool fault_fired(void)
{
	return fault.fired;
}

unsigned int fault_count(enum fault_call call)
{
	return fault.counts[call];
}

/* Counts a call. Returns true, with errno set, if it is to fail. */
static bool fails(enum fault_call call)
{
	const char *only = atomic_load_explicit(&fault.only, memory_order_relaxed);
	unsigned int nth;

	if (only && only != &here)
		return false;
	nth = 1 + atomic_fetch_add_explicit(&fault.counts[call], 1, memory_order_relaxed);
	if (!fault.nth || call != fault.call || nth != fault.nth)
		return false;
	fault.fired = true;
	errno = fault.err;
	return true;
}

#define WRAP(ret, name, params, args, call, failed)                                                \
	ret __real_##name params;                                                                  \
	ret __wrap_##name params;                                                                  \
	ret __wrap_##name params                                                                   \
	{                                                                                          \
		if (fails(call))                                                                   \
			return failed;                                                             \
		return __real_##name args;                                                         \
	}

WRAP(void *, malloc, (size_t size), (size), FAULT_ALLOC, NULL)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), FAULT_ALLOC, NULL)
WRAP(void *, realloc, (void *old, size_t size), (old, size), FAULT_ALLOC, NULL)
WRAP(void *, reallocarray, (void *old, size_t n, size_t size), (old, n, size), FAULT_ALLOC, NULL)
WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), FAULT_SOCKET, -1)
WRAP(int, bind, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len), FAULT_BIND,
     -1)
WRAP(int, getsockname, (int fd, struct sockaddr *addr, socklen_t *len), (fd, addr, len),
     FAULT_GETSOCKNAME, -1)
WRAP(ssize_t, read, (int fd, void *buf, size_t len), (fd, buf, len), FAULT_READ, -1)
WRAP(ssize_t, write, (int fd, const void *buf, size_t len), (fd, buf, len), FAULT_WRITE, -1)
/* Before 2.33 glibc's fstat() is no more than a call of this one. */
#if __GLIBC_PREREQ(2, 33)
WRAP(int, fstat, (int fd, struct stat *st), (fd, st), FAULT_FSTAT, -1)
#else
WRAP(int, __fxstat, (int version, int fd, struct stat *st), (version, fd, st), FAULT_FSTAT, -1)
int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st)
{
	return __wrap___fxstat(_STAT_VER, fd, st);
}
#endif
WRAP(DIR *, fdopendir, (int fd), (fd), FAULT_FDOPENDIR, NULL)
WRAP(void *, mmap, (void *addr, size_t len, int prot, int flags, int fd, off_t off),
     (addr, len, prot, flags, fd, off), FAULT_MMAP, MAP_FAILED)
WRAP(int, madvise, (void *addr, size_t len, int advice), (addr, len, advice), FAULT_MADVISE, -1)
WRAP(int, mprotect, (void *addr, size_t len, int prot), (addr, len, prot), FAULT_MPROTECT, -1)
WRAP(int, pipe2, (int fds[2], int flags), (fds, flags), FAULT_PIPE2, -1)
WRAP(struct dirent *, readdir, (DIR * dir), (dir), FAULT_READDIR, NULL)

unsigned int fault_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	if (!dir)
		abort();
	while (__real_readdir(dir)) /* the count itself is no call of the code under test */
		n++;
	closedir(dir);
	return n;
}

/* A mode is passed only along with O_CREAT. */
#define TAKE_MODE(flags, mode)                                                                     \
	do {                                                                                       \
		va_list args;                                                                      \
		va_start(args, flags);                                                             \
		if ((flags)&O_CREAT)                                                               \
			(mode) = va_arg(args, int);                                                \
		va_end(args);                                                                      \
	} while (0)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	int mode = 0;

	TAKE_MODE(flags, mode);
	return fails(FAULT_OPEN) ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
	int mode = 0;

	TAKE_MODE(flags, mode);
	return fails(FAULT_OPEN) ? -1 : __real_openat(dir, path, flags, mode);
}

ssize_t __real_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
		      socklen_t addr_len);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
		      socklen_t addr_len);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
		      socklen_t addr_len)
{
	if (fails(FAULT_SENDTO))
		return -1;
	if (fault_sendto_divert)
		return fault_sendto_divert(fd, buf, len, flags, addr, addr_len);
	return __real_sendto(fd, buf, len, flags, addr, addr_len);
}

ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	if (fails(FAULT_RECV))
		return -1;
	return fault_recv_divert ? fault_recv_divert(fd, buf, len, flags)
				 : __real_recv(fd, buf, len, flags);
}

ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (fails(FAULT_RECVMSG))
		return -1;
	return fault_recvmsg_divert ? fault_recvmsg_divert(fd, msg, flags)
				    : __real_recvmsg(fd, msg, flags);
}
