/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DMABUF_H
#define MESH_DMABUF_H

#include "mesh.h"

/*
 * Duplicates of dma-buf descriptors. Programs close theirs after registration, but the plugin has to register the memory again on
 * other rails.
 *
 * The duplicates are guests in the program's table of descriptors. They use at most a quarter of RLIMIT_NOFILE, and numbers in
 * its upper quarter, or from 4096 on: so the program's own files get their usual numbers (select() takes none from 1024 on). A
 * child of fork() closes its copies. Otherwise GPU memory would stay allocated as long as the child lives.
 *
 * Thread: any.
 */

struct mesh_dmabuf;

/**
 * mesh_dmabuf_keep - duplicate a descriptor
 * @fd: the program's
 *
 * Return: to be given to mesh_dmabuf_drop(); NULL with errno: EMFILE: a quarter of the limit is used, or no number is free there;
 * EAGAIN: another thread's fork() takes longer than the wait; EBADF; ENOMEM.
 */
struct mesh_dmabuf *mesh_dmabuf_keep(int fd);

/**
 * mesh_dmabuf_fd - the duplicate
 *
 * Return: -EBADF: the program has closed it or reused its number.
 */
int mesh_dmabuf_fd(const struct mesh_dmabuf *dmabuf);

/** mesh_dmabuf_drop - close it, if the number is still the plugin's. NULL is fine. Preserves errno. */
void mesh_dmabuf_drop(struct mesh_dmabuf *dmabuf);

/** mesh_dmabufs_forked - in a child of fork(): close all. Does not preserve errno. Takes no lock. */
void mesh_dmabufs_forked(void);

#endif
