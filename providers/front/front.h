/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The front on a host: where its pieces are, and how they are put there and taken away. */
#ifndef FRONT_H
#define FRONT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "elf_read.h"

#define FRONT_SONAME "libmlx5.so.1"
#define FRONT_DEVEL  "libmlx5.so"

enum front_state {
	FRONT_ABSENT,
	FRONT_STALE, /* some of it is there, but not as it has to be */
	FRONT_ACTIVE,
};

struct front {
	/* settings */
	char root[PATH_MAX]; /* "" or the directory that stands for / */
	char dir[PATH_MAX]; /* of the front; this and all that follow are seen from root */
	char plugin[PATH_MAX];
	char conf[PATH_MAX]; /* the snippet in ld.so.conf.d */
	char ldconfig[PATH_MAX]; /* the program */
	/* found by front_survey() */
	bool cache_read; /* what ld.so's cache has is known: the survey came so far */
	char real[PATH_MAX]; /* the library that is used without the front */
	bool real_has_devel; /* libmlx5.so is there as well */
	bool front_first; /* ld.so's cache has the front before it */
	bool devel_first;
	struct elf_facts facts;
	void *image; /* what the front has to be */
	size_t image_bytes;
	char why[512]; /* of the last failure, a sentence for the user */
};

/**
 * front_survey() - look at the host; changes nothing.
 *
 * Return: 0, or -errno with f->why set: the front cannot be made for this host (no libmlx5, an
 * unknown kind of library, no plugin, no usable ldconfig).
 */
int front_survey(struct front *f);

/** front_state() - how much of the front is in place; after a successful front_survey(). */
enum front_state front_state(const struct front *f);

/**
 * front_update() - put the front in place, or bring it up to date; changes nothing where it is.
 *
 * It is first loaded in a child process, also where it is in place: the plugin and the libraries
 * behind it may be others than last time. If the child cannot load it, what is there is taken away.
 * Then files are replaced one by one by rename(2), so that a program that starts meanwhile finds
 * the old or the new one. If ld.so's cache does not prefer the front afterwards, all is taken away
 * again.
 *
 * Return: 1 if something was changed, 0 if nothing had to be, -errno with f->why set: then the host
 * is as it was, or without a front.
 */
int front_update(struct front *f);

/**
 * front_withdraw() - take everything away that front_update() made; also where no libmlx5 is left.
 * @harmful: programs are better off without the library even if ld.so's cache goes on naming it.
 *
 * The library and its link are left where the cache names them and cannot be made again: programs
 * whose libmlx5 is in a directory that only the cache leads to would not start. Without the snippet
 * they are out of the cache as soon as ldconfig works, and the next call takes them.
 *
 * Return: as front_update().
 */
int front_withdraw(struct front *f, bool harmful);

/** front_fini() - free what front_survey() found. */
void front_fini(struct front *f);

#endif
