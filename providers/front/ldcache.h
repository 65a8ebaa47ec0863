/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ld.so's cache, through ldconfig(8). */
#ifndef FRONT_LDCACHE_H
#define FRONT_LDCACHE_H

#include <limits.h>

#define LDCACHE_MAX 16

struct ldcache_paths {
	unsigned int n;
	char paths[LDCACHE_MAX][PATH_MAX]; /* the first is the one that ld.so takes */
};

/**
 * ldcache_find() - the 64-bit libraries that the cache has under a name.
 * @program: path of ldconfig.
 * @root: "" or what stands for /; then root privilege is needed.
 *
 * Return: 0 (perhaps with none), or -errno: ldconfig could not be run or did not end well.
 */
int ldcache_find(const char *program, const char *root, const char *name,
		 struct ldcache_paths *out);

/** ldcache_rebuild() - run ldconfig. Return: 0 or -errno. */
int ldcache_rebuild(const char *program, const char *root);

#endif
