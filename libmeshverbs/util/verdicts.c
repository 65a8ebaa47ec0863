/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "verdicts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fd_all.h"

#define FILE_BYTES_MAX (1 << 20)

/* @above: the parent folder, whose owner could replace this one. */
static bool is_trusted(const struct stat *st, const struct stat *above)
{
	return !st->st_uid || st->st_uid == geteuid() || st->st_uid == above->st_uid;
}

static bool others_write(const struct stat *st)
{
	return st->st_mode & (S_IWGRP | S_IWOTH);
}

int mv_verdicts_open(const char *path, int make, char why[MV_VERDICTS_WHY])
{
	struct stat st, above;
	int fd, err = make && mkdir(path, 0755) && errno != EEXIST ? -errno : 0;

	fd = err ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (!err && (fd < 0 || fstat(fd, &st) || fstatat(fd, "..", &above, 0)))
		err = -errno;
	if (!err && !is_trusted(&st, &above)) {
		snprintf(why, MV_VERDICTS_WHY, "it is owned by user %u", st.st_uid);
		err = -EPERM;
	} else if (!err && others_write(&st)) {
		snprintf(why, MV_VERDICTS_WHY, "others may write in it: chmod go-w");
		err = -EPERM;
	} else if (err) {
		snprintf(why, MV_VERDICTS_WHY, "%s", strerrordesc_np(-err));
	}
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

/* Return: the reason to refuse the file; NULL: none. */
static const char *check_file(const struct stat *st, const struct stat *above)
{
	if (!S_ISREG(st->st_mode))
		return "no regular file";
	if (!is_trusted(st, above))
		return "neither root nor the agent owns it";
	if (others_write(st))
		return "others may write it: chmod go-w";
	if (st->st_nlink != 1)
		return "it has another name, too";
	if (st->st_size > FILE_BYTES_MAX)
		return "it is too large";
	return NULL;
}

static int parse_file(int fd, size_t size, struct mv_qualified *ret)
{
	char *buf = malloc(size + 1);
	ssize_t n;
	int err;

	if (!buf)
		return -ENOMEM;
	n = mv_read_all(fd, buf, size);
	err = n < 0 ? (int)n : mv_qualified_parse(buf, (size_t)n, ret);
	free(buf);
	return err;
}

static int read_file(int dir_fd, const char *name, struct mv_qualified *ret, char why[MV_VERDICTS_WHY])
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	const char *wrong = NULL;
	struct stat st, above;

	if (fd < 0 || fstat(fd, &st) || fstat(dir_fd, &above))
		err = -errno;
	if (!err && (wrong = check_file(&st, &above)))
		err = -EPERM;
	if (!err)
		err = parse_file(fd, (size_t)st.st_size, ret);
	if (fd >= 0)
		close(fd);
	if (!wrong && err == -ELOOP)
		wrong = "a symbolic link";
	else if (!wrong && err == -EBADMSG)
		wrong = "no verdict that can be read";
	else if (!wrong && err == -EPROTONOSUPPORT)
		wrong = "of another version of meshverbs";
	if (err && err != -ENOENT)
		snprintf(why, MV_VERDICTS_WHY, "%.60s: %s", name, wrong ? wrong : strerrordesc_np(-err));
	return err == -ELOOP ? -EPERM : err;
}

static bool has_name(const struct mv_qualified *q, const char *name)
{
	char right[NAME_MAX + 1];

	return !mv_qualified_file_name(&q->key, right, sizeof(right)) && !strcmp(right, name);
}

int mv_verdicts_read(int dir_fd, const char *name, struct mv_qualified *ret, char why[MV_VERDICTS_WHY])
{
	int err;

	if (!*name || *name == '.' || strchr(name, '/'))
		return -EINVAL;
	err = read_file(dir_fd, name, ret, why);
	if (!err && !has_name(ret, name)) {
		snprintf(why, MV_VERDICTS_WHY, "%.60s: it is about another combination than its name says", name);
		err = -EBADMSG;
	}
	return err;
}

int mv_verdicts_load(int dir_fd, const struct mv_qualified_key *key, struct mv_qualified *ret, char why[MV_VERDICTS_WHY])
{
	char name[NAME_MAX + 1];
	int err = mv_qualified_file_name(key, name, sizeof(name));

	if (err)
		return -ENOENT;
	err = mv_verdicts_read(dir_fd, name, ret, why);
	if (!err && !mv_qualified_same_key(&ret->key, key)) {
		snprintf(why, MV_VERDICTS_WHY, "%.60s: it is about another combination than its name says", name);
		err = -EBADMSG;
	}
	return err;
}

int mv_verdicts_store(int dir_fd, const struct mv_qualified *q)
{
	static const char aside[] = ".new";
	char name[NAME_MAX + 1], *text;
	int fd, err = mv_qualified_file_name(&q->key, name, sizeof(name));

	if (err)
		return err;
	text = mv_qualified_text(q);
	if (!text)
		return -ENOMEM;
	unlinkat(dir_fd, aside, 0);
	fd = openat(dir_fd, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	err = fd < 0 ? -errno : mv_write_lasting(fd, text, strlen(text));
	/* Independent of the umask. */
	if (!err && fchmod(fd, 0644))
		err = -errno;
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir_fd, aside, dir_fd, name))
		err = -errno;
	if (err && fd >= 0)
		unlinkat(dir_fd, aside, 0);
	free(text);
	return err;
}
