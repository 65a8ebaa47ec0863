/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A program's /dev/infiniband/rdma_cm: its write() is carried out by the host's simhostd. */
#ifndef SIM_CM_CLIENT_H
#define SIM_CM_CLIENT_H

#include <stddef.h>
#include <sys/types.h>

#define RDMA_CM_PATH  "/dev/infiniband/rdma_cm"
#define RDMA_CM_MAJOR 231
#define RDMA_CM_MINOR 255

struct ucma_file;

/** ucma_open() - a new file. @flags: of open(). Return: its descriptor, noted in fdtab, or -1 with
 * errno: ENXIO if the host has no connection manager. */
int ucma_open(int flags);

/** ucma_hold() - one more descriptor refers to it. */
void ucma_hold(struct ucma_file *f);

/** ucma_close() - one descriptor less, which the caller closes. */
void ucma_close(struct ucma_file *f);

/**
 * ucma_write() - one command, as the kernel's file takes it: GET_EVENT waits unless @fd is
 * O_NONBLOCK. Callable from any thread.
 *
 * The pointers in it are trusted. Return: @len, or -1 with errno.
 */
ssize_t ucma_write(struct ucma_file *f, int fd, const void *buf, size_t len);

#endif
