/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tmpdir.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

void tmpdir_make(struct tmpdir *dir)
{
	const char *base = getenv("TMPDIR");

	snprintf(dir->path, sizeof(dir->path), "%s/meshverbs-test-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(dir->path))
		fail_msg("%s: %s", dir->path, strerror(errno));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void tmpdir_remove(struct tmpdir *dir)
{
	assert_int_equal(nftw(dir->path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *tmpdir_at(const struct tmpdir *dir, const char *path)
{
	static char buffers[8][512];
	static unsigned int next;
	char *buf = buffers[next++ % 8];

	snprintf(buf, sizeof(buffers[0]), "%s/%s", dir->path, path);
	return buf;
}

static void make_parents(const char *path)
{
	char part[512];

	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0755) && errno != EEXIST)
			fail_msg("%s: %s", part, strerror(errno));
		*slash = '/';
	}
}

void tmpdir_write(const struct tmpdir *dir, const char *path, const char *text)
{
	const char *full = tmpdir_at(dir, path);
	FILE *file;

	make_parents(full);
	file = fopen(full, "we");
	if (!file)
		fail_msg("%s: %s", full, strerror(errno));
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

void tmpdir_link(const struct tmpdir *dir, const char *path, const char *target)
{
	const char *full = tmpdir_at(dir, path);

	make_parents(full);
	assert_int_equal(symlink(target, full), 0);
}
