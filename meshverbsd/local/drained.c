/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "drained.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DRAINED_FILE "drained"

static size_t find(const struct md_drained *drained, const char *device)
{
	size_t i;

	for (i = 0; i < drained->n; i++)
		if (!strcmp(drained->names[i], device))
			break;
	return i;
}

bool md_drained_has(const struct md_drained *drained, const char *device)
{
	return drained && find(drained, device) < drained->n;
}

/* Names that sysfs allows and that fit on a line. */
static bool is_name(const char *name, size_t len)
{
	if (!len || len >= IBV_SYSFS_NAME_MAX || name[0] == '.')
		return false;
	for (size_t i = 0; i < len; i++)
		if (name[i] <= ' ' || name[i] > '~' || name[i] == '/')
			return false;
	return true;
}

int md_drained_add(struct md_drained *drained, const char *device)
{
	size_t len = strlen(device);

	if (!is_name(device, len))
		return -EINVAL;
	if (md_drained_has(drained, device))
		return 0;
	if (drained->n == MD_RAILS_MAX)
		return -ENOSPC;
	memcpy(drained->names[drained->n++], device, len + 1);
	return 0;
}

int md_drained_remove(struct md_drained *drained, const char *device)
{
	size_t i = find(drained, device);

	if (i == drained->n)
		return -ENOENT;
	drained->n--;
	memmove(drained->names[i], drained->names[i + 1],
		(drained->n - i) * sizeof(drained->names[0]));
	return 0;
}

int md_drained_parse(const char *text, size_t len, struct md_drained *ret)
{
	char name[IBV_SYSFS_NAME_MAX];
	const char *end;
	int err = 0, rc;

	ret->n = 0;
	for (size_t at = 0; at < len; at = (size_t)(end - text) + 1) {
		end = memchr(text + at, '\n', len - at);
		if (!end)
			return -EBADMSG;
		rc = -EBADMSG;
		if (is_name(text + at, (size_t)(end - text) - at)) {
			snprintf(name, sizeof(name), "%.*s", (int)((size_t)(end - text) - at),
				 text + at);
			rc = md_drained_add(ret, name);
		}
		if (rc && !err)
			err = rc;
	}
	return err;
}

int md_drained_load(int dir_fd, struct md_drained *ret)
{
	char text[MD_RAILS_MAX * IBV_SYSFS_NAME_MAX + 1];
	size_t len = 0;
	ssize_t n = 1;
	int fd, err = 0;

	ret->n = 0;
	fd = openat(dir_fd, DRAINED_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	while (n > 0 && len < sizeof(text)) {
		n = read(fd, text + len, sizeof(text) - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		err = -errno;
	close(fd);
	return err ? err : md_drained_parse(text, len, ret);
}

static int write_names(int fd, const struct md_drained *drained)
{
	char line[IBV_SYSFS_NAME_MAX + 1];

	for (size_t i = 0; i < drained->n; i++) {
		int len = snprintf(line, sizeof(line), "%s\n", drained->names[i]);
		ssize_t n = write(fd, line, (size_t)len);

		if (n != len)
			return n < 0 ? -errno : -ENOSPC;
	}
	return 0;
}

/* Written to another file and renamed, so that a crash leaves the old file or the new one. */
int md_drained_save(int dir_fd, const struct md_drained *drained)
{
	static const char aside[] = DRAINED_FILE ".new";
	int fd, err;

	unlinkat(dir_fd, aside, 0);
	fd = openat(dir_fd, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	err = write_names(fd, drained);
	if (!err && renameat(dir_fd, aside, dir_fd, DRAINED_FILE))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (err)
		unlinkat(dir_fd, aside, 0);
	return err;
}
