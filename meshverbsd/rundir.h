/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_RUNDIR_H
#define MD_RUNDIR_H

/*
 * RUN_DIR: one agent at a time, by a lock that goes with its process; sockets of a former one are replaced.
 */
struct md_rundir {
	int fd, lock_fd;
};

/**
 * md_rundir_open - make the directory (0755) if need be, and lock it
 *
 * Return: 0; -EBUSY when another agent has it; -EPERM when somebody else but root or us owns it, or others may write in
 * it; -errno.
 */
int md_rundir_open(struct md_rundir *rundir, const char *path);
void md_rundir_close(struct md_rundir *rundir); /* releases the lock */

/**
 * md_rundir_listen - make a listening socket there, open to everybody
 * @type: SOCK_SEQPACKET or SOCK_STREAM
 *
 * Return: descriptor or -errno.
 */
int md_rundir_listen(struct md_rundir *rundir, const char *name, int type, int backlog);

/** md_rundir_remove - take a socket away */
void md_rundir_remove(struct md_rundir *rundir, const char *name);

#endif
