// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Files of this host, or of another one below --root. */
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"

#define FILE_BYTES_MAX (1u << 20)

__attribute__((format(printf, 3, 0))) static void put_path(const struct doctor *d, char *buf,
							   const char *fmt, va_list args)
{
	char path[PATH_MAX];

	vsnprintf(path, sizeof(path), fmt, args);
	if (!strncmp(path, "/sys/", 5))
		snprintf(buf, PATH_MAX, "%s%s", d->cli->sysfs, path + 4);
	else
		snprintf(buf, PATH_MAX, "%s%s", d->cli->root, path);
}

#define PUT_PATH(d, buf, fmt)                                                                      \
	do {                                                                                       \
		va_list args_;                                                                     \
		va_start(args_, fmt);                                                              \
		put_path(d, buf, fmt, args_);                                                      \
		va_end(args_);                                                                     \
	} while (0)

static int read_path(const char *path, char **ret)
{
	FILE *file = fopen(path, "re");
	char *text;
	size_t len;
	int rc = 0;

	if (!file)
		return -errno;
	text = malloc(FILE_BYTES_MAX + 1);
	if (!text) {
		fclose(file);
		return -ENOMEM;
	}
	errno = 0;
	len = fread(text, 1, FILE_BYTES_MAX, file);
	if (ferror(file))
		rc = errno ? -errno : -EIO;
	fclose(file);
	if (rc) {
		free(text);
		return rc;
	}
	text[len] = '\0';
	*ret = text;
	return 0;
}

int files_read(const struct doctor *d, char **ret, const char *path, ...)
{
	char full[PATH_MAX];

	PUT_PATH(d, full, path);
	return read_path(full, ret);
}

bool files_exist(const struct doctor *d, const char *path, ...)
{
	char full[PATH_MAX];

	PUT_PATH(d, full, path);
	return !access(full, F_OK);
}

int files_access(const struct doctor *d, int mode, const char *path, ...)
{
	char full[PATH_MAX];

	PUT_PATH(d, full, path);
	return access(full, mode) ? -errno : 0;
}

int files_stat(const struct doctor *d, struct stat *ret, const char *path, ...)
{
	char full[PATH_MAX];

	PUT_PATH(d, full, path);
	return stat(full, ret) ? -errno : 0;
}

long files_number(const struct doctor *d, long otherwise, const char *path, ...)
{
	char full[PATH_MAX], *text, *end;
	long number;

	PUT_PATH(d, full, path);
	if (read_path(full, &text))
		return otherwise;
	number = strtol(text, &end, 10);
	if (end == text)
		number = otherwise;
	free(text);
	return number;
}

bool files_link(const struct doctor *d, char *ret, size_t size, const char *path, ...)
{
	char full[PATH_MAX], target[PATH_MAX];
	const char *name;
	ssize_t n;

	PUT_PATH(d, full, path);
	n = readlink(full, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	name = strrchr(target, '/');
	name = name ? name + 1 : target;
	return (size_t)snprintf(ret, size, "%s", name) < size;
}

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

__attribute__((format(printf, 3, 4))) static void put(const struct doctor *d, char *buf,
						      const char *path, ...)
{
	PUT_PATH(d, buf, path);
}

void files_each(struct doctor *d, const char *path,
		void (*visit)(struct doctor *d, const char *name, void *arg), void *arg)
{
	struct dirent **entries;
	char full[PATH_MAX];
	int i, n;

	put(d, full, "%s", path);
	n = scandir(full, &entries, is_shown, alphasort);
	for (i = 0; i < n; i++) {
		visit(d, entries[i]->d_name, arg);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}
