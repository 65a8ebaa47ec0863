/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "fd_all.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t mv_read_all(int fd, void *buf, size_t size)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, (char *)buf + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

ssize_t mv_read_regular(int fd, void *buf, size_t size)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	return S_ISREG(st.st_mode) ? mv_read_all(fd, buf, size) : -EMEDIUMTYPE;
}

int mv_write_all(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int mv_write_lasting(int fd, const void *bytes, size_t len)
{
	int err = mv_write_all(fd, bytes, len);

	return !err && fsync(fd) ? -errno : err;
}
