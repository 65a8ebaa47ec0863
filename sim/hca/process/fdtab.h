/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which file descriptors of the process are ours. Lock-free to read: every read() and close() of
 * the program asks. */
#ifndef SIM_FDTAB_H
#define SIM_FDTAB_H

enum fd_kind { FD_FREE, FD_UVERBS, FD_EVENTS, FD_UCMA };

/** fdtab_set() - note that @fd is a file of ours, or (FD_FREE, NULL) no more. Descriptors beyond
 * 65535 are ignored. */
void fdtab_set(int fd, enum fd_kind kind, void *file);

/** fdtab_get() - the file behind @fd if it is of that kind, else NULL. */
void *fdtab_get(int fd, enum fd_kind kind);

/** fdtab_clear() - forget all: the child of a fork() has no device. */
void fdtab_clear(void);

#endif
