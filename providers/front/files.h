/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Files below another root, replaced atomically. Symbolic links there lead to what they would lead to if that were the root, and never
 * out of it: a container's, or a host's that is being made, may belong to who cannot write here. That needs openat2(2), Linux 5.6.
 */
#ifndef FRONT_FILES_H
#define FRONT_FILES_H

#include <stdbool.h>
#include <stddef.h>

/**
 * file_read() - the whole of a regular file.
 * @root: "" or a directory
 *
 * Return: 0 with *@ret_data (free it) and *@ret_size; -errno.
 */
int file_read(const char *root, const char *path, void **ret_data, size_t *ret_size);

/** file_write() - @path below @root becomes a file with these bytes, mode 0644, at once or not at
 * all. */
int file_write(const char *root, const char *path, const void *data, size_t size);

/** file_link() - @path below @root becomes a symbolic link to @target, at once or not at all. */
int file_link(const char *root, const char *path, const char *target);

/** file_remove() - it is gone afterwards. Return: 1, 0 if it was not there, -errno. */
int file_remove(const char *root, const char *path);

/** file_exists() - is there anything under that name, be it a link that leads nowhere? */
bool file_exists(const char *root, const char *path);

/** dir_make() - @path and what is missing above it, mode 0755. Return: 0 or -errno. */
int dir_make(const char *root, const char *path);

/** dir_remove() - @path and then its parents up to @levels directories, as far as they are empty.
 */
void dir_remove(const char *root, const char *path, int levels);

#endif
