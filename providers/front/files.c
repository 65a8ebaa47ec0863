// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

#define MAX_FILE (64 << 20) /* no library of this kind is near that */

/* @path as a process whose root is @root sees it: no link leads out of there, whoever made it. openat2(2) is not needed without a root. */
static int open_below(const char *root, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_IN_ROOT};
	int dir, fd, err;

	if (!root[0]) {
		fd = open(path, flags | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	err = fd < 0 ? -errno : fd;
	close(dir);
	return err;
}

struct place {
	int dir; /* the directory of a file, */
	char name[NAME_MAX + 1], fresh[NAME_MAX + 1]; /* its name there, and that of what is to replace it */
};

static int open_place(const char *root, const char *path, struct place *ret)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];

	if (!slash || !slash[1])
		return -EINVAL;
	if ((size_t)snprintf(ret->name, sizeof(ret->name), "%s", slash + 1) >= sizeof(ret->name) ||
	    (size_t)snprintf(ret->fresh, sizeof(ret->fresh), "%s.new", slash + 1) >= sizeof(ret->fresh) ||
	    (size_t)snprintf(dir, sizeof(dir), "%.*s/", (int)(slash - path), path) >= sizeof(dir))
		return -ENAMETOOLONG;
	ret->dir = open_below(root, dir, O_PATH | O_DIRECTORY);
	return ret->dir < 0 ? ret->dir : 0;
}

static int read_all(int fd, void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = read(fd, (char *)data + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO; /* it shrank meanwhile */
		done += (size_t)n;
	}
	return 0;
}

int file_read(const char *root, const char *path, void **ret_data, size_t *ret_size)
{
	int fd = open_below(root, path, O_RDONLY | O_NONBLOCK), err = 0;
	struct stat st;
	void *data;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE)
		err = -EINVAL;
	if (err) {
		close(fd);
		return err;
	}
	data = malloc((size_t)st.st_size + 1);
	err = data ? read_all(fd, data, (size_t)st.st_size) : -ENOMEM;
	close(fd);
	if (err) {
		free(data);
		return err;
	}
	*ret_data = data;
	*ret_size = (size_t)st.st_size;
	return 0;
}

static int write_all(int fd, const void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, (const char *)data + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return fsync(fd) ? -errno : 0;
}

int file_write(const char *root, const char *path, const void *data, size_t size)
{
	struct place at;
	int fd, err = open_place(root, path, &at);

	if (err)
		return err;
	unlinkat(at.dir, at.fresh, 0);
	fd = openat(at.dir, at.fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0) {
		err = -errno;
		close(at.dir);
		return err;
	}
	err = fchmod(fd, 0644) ? -errno : write_all(fd, data, size);
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(at.dir, at.fresh, at.dir, at.name))
		err = -errno;
	if (err)
		unlinkat(at.dir, at.fresh, 0);
	close(at.dir);
	return err;
}

int file_link(const char *root, const char *path, const char *target)
{
	struct place at;
	int err = open_place(root, path, &at);

	if (err)
		return err;
	unlinkat(at.dir, at.fresh, 0);
	if (symlinkat(target, at.dir, at.fresh)) {
		err = -errno;
	} else if (renameat(at.dir, at.fresh, at.dir, at.name)) {
		err = -errno;
		unlinkat(at.dir, at.fresh, 0);
	}
	close(at.dir);
	return err;
}

int file_remove(const char *root, const char *path)
{
	struct place at;
	int err = open_place(root, path, &at);

	if (!err) {
		err = unlinkat(at.dir, at.name, 0) ? -errno : 1;
		close(at.dir);
	}
	return err == -ENOENT || err == -ENOTDIR ? 0 : err;
}

bool file_exists(const char *root, const char *path)
{
	struct place at;
	struct stat st;
	bool is;

	if (open_place(root, path, &at))
		return false;
	is = !fstatat(at.dir, at.name, &st, AT_SYMLINK_NOFOLLOW);
	close(at.dir);
	return is;
}

/* Where its parent is. */
static int make_one(const char *root, const char *path)
{
	struct place at;
	int err = open_place(root, path, &at);

	if (err)
		return err;
	err = mkdirat(at.dir, at.name, 0755) && errno != EEXIST ? -errno : 0;
	close(at.dir);
	return err;
}

int dir_make(const char *root, const char *path)
{
	char part[PATH_MAX];
	int err = 0;

	if ((size_t)snprintf(part, sizeof(part), "%s", path) >= sizeof(part))
		return -ENAMETOOLONG;
	for (char *p = part + 1; !err && (p = strchr(p, '/')); p++) {
		*p = '\0';
		err = make_one(root, part);
		*p = '/';
	}
	return err ? err : make_one(root, part);
}

void dir_remove(const char *root, const char *path, int levels)
{
	char part[PATH_MAX];
	bool gone = true;

	if ((size_t)snprintf(part, sizeof(part), "%s", path) >= sizeof(part))
		return;
	while (levels-- > 0 && gone && part[0]) {
		struct place at;

		if (open_place(root, part, &at))
			return;
		gone = !unlinkat(at.dir, at.name, AT_REMOVEDIR);
		close(at.dir);
		*strrchr(part, '/') = '\0';
	}
}
