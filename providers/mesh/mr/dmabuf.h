/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_DMABUF_H
#define MESH_DMABUF_H

#include "mesh.h"

/*
 * Descriptors of dma-bufs, kept because programs close theirs once the region is registered, and because it has to be
 * registered again on another rail.
 *
 * They are guests among the program's: in the upper quarter of what it may open, or from 4096 on, so that what it opens
 * gets the numbers it would have had (select() takes none from 1024 on), and a quarter of its limit at most. A child of
 * fork() closes its copies: else memory of a GPU would stay for as long as the child lives, whatever its parent frees.
 *
 * Any thread.
 */

struct mesh_dmabuf;

/**
 * mesh_dmabuf_keep - keep what a descriptor leads to
 * @fd: the program's
 *
 * Return: to be given to mesh_dmabuf_drop(); NULL with errno: EMFILE, when a quarter of the limit is kept or nothing is
 * free up there; EAGAIN, when some thread's fork() takes longer than we wait for; EBADF; ENOMEM.
 */
struct mesh_dmabuf *mesh_dmabuf_keep(int fd);

/**
 * mesh_dmabuf_fd - the descriptor
 *
 * Return: -EBADF when it does not lead there any more: programs close descriptors that are not theirs.
 */
int mesh_dmabuf_fd(const struct mesh_dmabuf *dmabuf);

/** mesh_dmabuf_drop - close it, if it is still ours. NULL is fine. Preserves errno. */
void mesh_dmabuf_drop(struct mesh_dmabuf *dmabuf);

/** mesh_dmabufs_forked - in the child of a fork: close all. Preserves nothing, takes no lock */
void mesh_dmabufs_forked(void);

#endif
