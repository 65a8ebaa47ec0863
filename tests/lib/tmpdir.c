/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "tmpdir.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* A test that fails does not come to its end: what it made goes when the process does. */
#define MAX_DIRS 64
static char made[MAX_DIRS][sizeof(((struct tmpdir *)0)->path)];
static pid_t made_by;

static void remove_made(void)
{
	if (getpid() != made_by) /* a child that a test forked */
		return;
	for (size_t i = 0; i < MAX_DIRS; i++)
		if (made[i][0])
			nftw(made[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void note(const char *path)
{
	if (!made_by) {
		made_by = getpid();
		atexit(remove_made);
	}
	for (size_t i = 0; i < MAX_DIRS && getpid() == made_by; i++) {
		if (!made[i][0]) {
			memcpy(made[i], path, sizeof(made[i]));
			return;
		}
	}
}

static void forget(const char *path)
{
	for (size_t i = 0; i < MAX_DIRS; i++)
		if (!strcmp(made[i], path))
			made[i][0] = '\0';
}

void tmpdir_make(struct tmpdir *dir)
{
	const char *base = getenv("TMPDIR");

	snprintf(dir->path, sizeof(dir->path), "%s/meshverbs-test-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(dir->path))
		fail_msg("%s: %s", dir->path, strerror(errno));
	note(dir->path);
}

void tmpdir_remove(struct tmpdir *dir)
{
	forget(dir->path);
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

unsigned int tmpdir_mapped(const struct tmpdir *dir)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int n = 0;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, dir->path) != NULL;
	fclose(maps);
	return n;
}
