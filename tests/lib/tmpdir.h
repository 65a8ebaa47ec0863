/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TEST_TMPDIR_H
#define MV_TEST_TMPDIR_H

/* A directory for one test, below TMPDIR or /tmp. */
struct tmpdir {
	char path[128];
};

void tmpdir_make(struct tmpdir *dir);
void tmpdir_remove(struct tmpdir *dir); /* with everything in it */

/* PATH inside the directory, in a buffer that the next eight calls leave alone. */
const char *tmpdir_at(const struct tmpdir *dir, const char *path);

/* Write a file (text or link target) inside it, with the directories above it. */
void tmpdir_write(const struct tmpdir *dir, const char *path, const char *text);
void tmpdir_link(const struct tmpdir *dir, const char *path, const char *target);

/* How many mappings this process has of files inside it, also of deleted ones. */
unsigned int tmpdir_mapped(const struct tmpdir *dir);

#endif
