/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_FD_ALL_H
#define MV_FD_ALL_H

#include <stddef.h>
#include <sys/types.h>

/* Reads and writes that go on until all is done. Signals do not end them. */

/**
 * mv_read_all - read to the end of the file, or @size bytes
 *
 * Return: bytes read; -errno. Who has to know that a file is not longer asks for a byte more than it may have.
 */
ssize_t mv_read_all(int fd, void *buf, size_t size);

/** mv_read_regular - the same of a regular file; -EMEDIUMTYPE: it is none */
ssize_t mv_read_regular(int fd, void *buf, size_t size);

/**
 * mv_write_all - write @len bytes
 *
 * Return: 0; -errno, after some of them; -ENOSPC also where a write takes nothing and names no error.
 */
int mv_write_all(int fd, const void *bytes, size_t len);

/** mv_write_lasting - the same, and on the medium when it returns 0 */
int mv_write_lasting(int fd, const void *bytes, size_t len);

#endif
