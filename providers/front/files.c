// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files.h"

#define MAX_FILE (64 << 20) /* no library of this kind is near that */

static int full_path(char out[PATH_MAX], const char *root, const char *path, const char *suffix)
{
	return snprintf(out, PATH_MAX, "%s%s%s", root, path, suffix) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int open_below(const char *root, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	int dir, fd, err;

	if (!root[0]) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
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
	int fd = open_below(root, path), err = 0;
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
	char there[PATH_MAX], fresh[PATH_MAX];
	int fd, err = full_path(there, root, path, "");

	if (!err)
		err = full_path(fresh, root, path, ".new");
	if (err)
		return err;
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	err = fchmod(fd, 0644) ? -errno : write_all(fd, data, size);
	if (close(fd) && !err)
		err = -errno;
	if (!err && rename(fresh, there))
		err = -errno;
	if (err)
		unlink(fresh);
	return err;
}

int file_link(const char *root, const char *path, const char *target)
{
	char there[PATH_MAX], fresh[PATH_MAX];
	int err = full_path(there, root, path, "");

	if (!err)
		err = full_path(fresh, root, path, ".new");
	if (err)
		return err;
	unlink(fresh);
	if (symlink(target, fresh))
		return -errno;
	if (rename(fresh, there)) {
		err = -errno;
		unlink(fresh);
	}
	return err;
}

int file_remove(const char *root, const char *path)
{
	char there[PATH_MAX];
	int err = full_path(there, root, path, "");

	if (err)
		return err;
	if (!unlink(there))
		return 1;
	return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
}

int dir_make(const char *root, const char *path)
{
	char there[PATH_MAX];
	int err = full_path(there, root, path, "");

	if (err)
		return err;
	for (char *p = there + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(there, 0755) && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(there, 0755) && errno != EEXIST ? -errno : 0;
}

void dir_remove(const char *root, const char *path, int levels)
{
	char there[PATH_MAX];

	if (full_path(there, root, path, ""))
		return;
	while (levels-- > 0 && !rmdir(there)) {
		char *slash = strrchr(there, '/');

		if (!slash || (size_t)(slash - there) <= strlen(root))
			return;
		*slash = '\0';
	}
}
