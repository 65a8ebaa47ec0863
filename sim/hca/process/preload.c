/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The system calls that make a uverbs device and rdma_cm, answered inside the process: a library to
 * be preloaded. Everything that is not about one of our files goes on to the next definition of the
 * function. Without SIM_STATE in the environment it does nothing at all.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <rdma/mlx5-abi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "fdtab.h"
#include "hca.h"
#include "root.h"

#define EXPORT             __attribute__((visibility("default")))
#define UVERBS_FOLDER      "/dev/infiniband"
#define UVERBS_DIR         UVERBS_FOLDER "/uverbs"
#define UVERBS_MAJOR       231
#define UVERBS_MINOR       192
#define MMAP_COMMAND_SHIFT 8 /* mmap offset in pages: command above the lower byte of the index */
#define MMAP_SIZE          (1ll << 32) /* beyond the last page of SIM_MAX_UAR_PAGES; it is sparse */

/* The next definition of the function, looked up at the first call. */
#define NEXT(name)                                                                                 \
	({                                                                                         \
		static __typeof__(name) *next_##name;                                              \
		if (!next_##name)                                                                  \
			*(void **)&next_##name = dlsym(RTLD_NEXT, #name);                          \
		next_##name;                                                                       \
	})

/* Return: minor number of a uverbs path of ours, or -1. */
static int uverbs_minor(const char *path)
{
	char *end;
	long n;

	if (!path || strncmp(path, UVERBS_DIR, strlen(UVERBS_DIR)) || !getenv(SIM_STATE_ENV))
		return -1;
	n = strtol(path + strlen(UVERBS_DIR), &end, 10);
	return *end || end == path + strlen(UVERBS_DIR) ? -1 : (int)n;
}

static int dev_index(struct sim_state *st, int minor)
{
	for (uint32_t i = 0; i < st->n_devs && i < SIM_MAX_DEVS; i++)
		if (atomic_load(&st->devs[i].present) && st->devs[i].minor == (uint32_t)minor)
			return (int)i;
	return -1;
}

/* How completion timestamps become wall-clock time: they are nanoseconds already, only counted from
 * elsewhere. */
static void write_clock_page(int fd)
{
	struct mlx5_ib_clock_info info = {
		.mult = 1 << 10, .shift = 10, .mask = 0x7fffffffffffffffull};
	off_t at = ((off_t)MLX5_IB_MMAP_CLOCK_INFO << MMAP_COMMAND_SHIFT) * sysconf(_SC_PAGESIZE);
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	info.nsec = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec;
	info.cycles = engine_clock();
	(void)!pwrite(fd, &info, sizeof(info), at);
}

/*
 * The file behind the descriptor is memory, with the device's pages at the offsets where mlx5 puts
 * them, so mmap() needs no help of ours (there are libraries that take it over themselves). Send
 * and CQ registers are memory that nobody looks at: the HCA watches the doorbell records.
 */
static int device_memory(int flags)
{
	int fd = memfd_create("simhca-uverbs", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);

	if (fd >= 0 && ftruncate(fd, MMAP_SIZE)) {
		NEXT(close)(fd);
		return -1;
	}
	if (fd >= 0)
		write_clock_page(fd);
	return fd;
}

static int uverbs_open(int minor, int flags)
{
	struct hca *h = hca_get();
	struct ucontext *uc;
	int fd, index;

	if (!h) {
		errno = ENXIO;
		return -1;
	}
	index = dev_index(h->state, minor);
	if (index < 0 || atomic_load(&h->state->devs[index].dead)) {
		hca_put(h);
		errno = index < 0 ? ENXIO : EIO;
		return -1;
	}
	fd = device_memory(flags);
	uc = fd >= 0 ? ucontext_open(h, (uint32_t)index) : NULL;
	if (!uc) {
		if (fd >= 0)
			NEXT(close)(fd);
		hca_put(h);
		errno = ENOMEM;
		return -1;
	}
	fdtab_set(fd, FD_UVERBS, uc);
	return fd;
}

/* Return: true with *ret_fd, a descriptor or -1 with errno, if the path is one of ours. */
/* A host has device files, which a test may take away. Programs without a host have none. */
static bool is_taken_away(const char *path)
{
	return !access(UVERBS_FOLDER, F_OK) && access(path, F_OK);
}

static bool open_ours(const char *path, int flags, int *ret_fd)
{
	int minor = uverbs_minor(path);

	if (minor >= 0 && is_taken_away(path))
		*ret_fd = -1; /* with errno */
	else if (minor >= 0)
		*ret_fd = uverbs_open(minor, flags);
	else if (path && !strcmp(path, RDMA_CM_PATH) && getenv(SIM_STATE_ENV))
		*ret_fd = ucma_open(flags);
	else
		return false;
	return true;
}

static mode_t mode_arg(int flags, va_list ap)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

#define DEFINE_OPEN(name)                                                                          \
	EXPORT int name(const char *path, int flags, ...)                                          \
	{                                                                                          \
		mode_t mode;                                                                       \
		va_list ap;                                                                        \
		int fd;                                                                            \
                                                                                                   \
		va_start(ap, flags);                                                               \
		mode = mode_arg(flags, ap);                                                        \
		va_end(ap);                                                                        \
		return open_ours(path, flags, &fd) ? fd : NEXT(name)(path, flags, mode);           \
	}

#define DEFINE_OPENAT(name)                                                                        \
	EXPORT int name(int dir, const char *path, int flags, ...)                                 \
	{                                                                                          \
		mode_t mode;                                                                       \
		va_list ap;                                                                        \
		int fd;                                                                            \
                                                                                                   \
		va_start(ap, flags);                                                               \
		mode = mode_arg(flags, ap);                                                        \
		va_end(ap);                                                                        \
		return open_ours(path, flags, &fd) ? fd : NEXT(name)(dir, path, flags, mode);      \
	}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

/* What _FORTIFY_SOURCE makes of open() with two arguments. */
int __open_2(const char *path, int flags);
EXPORT int __open_2(const char *path, int flags)
{
	int fd;

	return open_ours(path, flags, &fd) ? fd : NEXT(__open_2)(path, flags);
}

EXPORT int close(int fd)
{
	struct ucontext *uc = fdtab_get(fd, FD_UVERBS);
	struct ucma_file *f = fdtab_get(fd, FD_UCMA);
	struct evq *q = fdtab_get(fd, FD_EVENTS);

	if (uc) {
		struct hca *h = uc->hca;

		fdtab_set(fd, FD_FREE, NULL);
		if (ucontext_close(uc))
			hca_put(h);
	} else if (q) {
		struct hca *h = root_peek(); /* NULL if the last context is closed already: then
						nobody else has q */

		fdtab_set(fd, FD_FREE, NULL);
		if (h)
			hca_lock(h);
		q->fd = -1;
		evq_put(q);
		if (h)
			hca_unlock(h);
	} else if (f) {
		fdtab_set(fd, FD_FREE, NULL);
		ucma_close(f);
	}
	return NEXT(close)(fd);
}

/* A duplicate of a uverbs or rdma_cm file is the same file. Return: @copy. */
static int note_copy(int fd, int copy)
{
	struct ucontext *uc = copy >= 0 && copy != fd ? fdtab_get(fd, FD_UVERBS) : NULL;
	struct ucma_file *f = copy >= 0 && copy != fd ? fdtab_get(fd, FD_UCMA) : NULL;

	if (uc) {
		ucontext_hold(uc);
		fdtab_set(copy, FD_UVERBS, uc);
	} else if (f) {
		ucma_hold(f);
		fdtab_set(copy, FD_UCMA, f);
	}
	return copy;
}

EXPORT int dup(int fd)
{
	return note_copy(fd, NEXT(dup)(fd));
}

#define DEFINE_FCNTL(name)                                                                         \
	EXPORT int name(int fd, int cmd, ...)                                                      \
	{                                                                                          \
		va_list ap;                                                                        \
		void *arg;                                                                         \
		int ret;                                                                           \
                                                                                                   \
		va_start(ap, cmd);                                                                 \
		arg = va_arg(ap, void *);                                                          \
		va_end(ap);                                                                        \
		ret = NEXT(name)(fd, cmd, arg);                                                    \
		return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? note_copy(fd, ret) : ret;        \
	}

DEFINE_FCNTL(fcntl)
DEFINE_FCNTL(fcntl64)

EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	struct ucontext *uc = fdtab_get(fd, FD_UVERBS);
	struct ucma_file *f = uc ? NULL : fdtab_get(fd, FD_UCMA);

	if (f)
		return ucma_write(f, fd, buf, len);
	return uc ? cmd_write(uc, buf, len) : NEXT(write)(fd, buf, len);
}

EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	struct evq *q = fdtab_get(fd, FD_EVENTS);
	struct hca *h = q ? root_peek() : NULL;

	return h ? evq_read(h, q, fd, buf, len) : NEXT(read)(fd, buf, len);
}

EXPORT int ioctl(int fd, unsigned long req, ...)
{
	struct ucontext *uc = fdtab_get(fd, FD_UVERBS);
	va_list ap;
	void *arg;

	va_start(ap, req);
	arg = va_arg(ap, void *);
	va_end(ap);
	return uc ? cmd_ioctl(uc, req, arg) : NEXT(ioctl)(fd, req, arg);
}

static void stat_device(struct stat *st, unsigned int major, unsigned int minor)
{
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = makedev(major, minor);
}

static void stat_ours(int fd, struct stat *st)
{
	struct ucontext *uc = fdtab_get(fd, FD_UVERBS);

	if (uc)
		stat_device(st, UVERBS_MAJOR, UVERBS_MINOR + uc->dev->minor);
	else if (fdtab_get(fd, FD_UCMA))
		stat_device(st, RDMA_CM_MAJOR, RDMA_CM_MINOR);
}

EXPORT int fstat(int fd, struct stat *st)
{
	int err = NEXT(fstat)(fd, st);

	if (!err)
		stat_ours(fd, st);
	return err;
}

EXPORT int fstat64(int fd, struct stat64 *st)
{
	return fstat(fd, (struct stat *)(void *)st);
}

/* What programs built against a C library before 2.33 call, and ThreadSanitizer of clang. */
int __fxstat(int version, int fd, struct stat *st);
EXPORT int __fxstat(int version, int fd, struct stat *st)
{
	int err = NEXT(__fxstat)(version, fd, st);

	if (!err)
		stat_ours(fd, st);
	return err;
}

/* A path of ours need not exist as a file. */
EXPORT int stat(const char *path, struct stat *st)
{
	int minor = uverbs_minor(path), fd, index;
	struct sim_state *state;

	if (minor < 0)
		return NEXT(stat)(path, st);
	state = state_map(&fd);
	index = state ? dev_index(state, minor) : -1;
	if (state) {
		munmap(state, sizeof(*state));
		NEXT(close)(fd);
	}
	if (index < 0) {
		errno = ENOENT;
		return -1;
	}
	memset(st, 0, sizeof(*st));
	stat_device(st, UVERBS_MAJOR, UVERBS_MINOR + (unsigned int)minor);
	return 0;
}

/* libibverbs asks RDMA netlink before sysfs; a machine with real RDMA would show its own devices
 * there. */
EXPORT int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && getenv(SIM_STATE_ENV)) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return NEXT(socket)(domain, type, protocol);
}
