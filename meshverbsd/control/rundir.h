/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_RUNDIR_H
#define MD_RUNDIR_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The agent's two directories. RUN_DIR is mounted into containers and has the directory of peers and the socket of processes,
 * nothing else: whoever can open a file can lock it, and whoever can open a socket can use up its connections. CONTROL_DIR has
 * the control socket, the lock, the start number, the drained devices. One agent at a time, by a lock in CONTROL_DIR that goes
 * with its process; sockets of a former one are replaced.
 *
 * Agents of before had everything in RUN_DIR.
 */
struct md_rundir {
	int fd; /* of RUN_DIR */
	int control_fd; /* of CONTROL_DIR */
	int lock_fd;
	/* With -EBUSY: who has the lock; 0: unknown. */
	pid_t holder;
	bool old_agent; /* with -EBUSY: an agent of before answers in RUN_DIR */
};

/**
 * md_rundir_open - make the directories (0755) if need be, and lock
 *
 * Return: 0; -EBUSY when another agent has them; -EPERM when somebody else but root or us owns one, or others may write in
 * it; -EINVAL when CONTROL_DIR is RUN_DIR or in it; -errno.
 */
int md_rundir_open(struct md_rundir *rundir, const char *run_dir, const char *control_dir);
void md_rundir_close(struct md_rundir *rundir); /* releases the lock */

/**
 * md_rundir_tidy - what an agent of before left in RUN_DIR goes
 * @ret_holder: who has its lock, which counts no more; 0: nobody
 *
 * Before md_start_number() and md_drained_load(): what they read comes along.
 */
void md_rundir_tidy(struct md_rundir *rundir, pid_t *ret_holder);

/**
 * md_rundir_listen - make a listening socket, open to everybody
 * @dir_fd: which of the two directories
 * @type: SOCK_SEQPACKET or SOCK_STREAM
 *
 * Return: descriptor or -errno.
 */
int md_rundir_listen(int dir_fd, const char *name, int type, int backlog);

/** md_rundir_remove - take a socket away; @dir_fd: -1: there is no such directory */
void md_rundir_remove(int dir_fd, const char *name);

#endif
