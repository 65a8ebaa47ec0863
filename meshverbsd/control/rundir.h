/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_RUNDIR_H
#define MD_RUNDIR_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The agent's two directories. RUN_DIR is mounted into containers, so it has nothing but the directory file and the
 * processes' socket: a process that can open a file can lock it, and a process that can open a socket can use up its
 * connections. CONTROL_DIR has the control socket, the lock, the start number and the list of drained devices. A lock
 * in CONTROL_DIR, released when its process ends, admits one agent at a time. Sockets of a former agent are replaced.
 *
 * Older agents had all files in RUN_DIR.
 */
struct md_rundir {
	int fd; /* RUN_DIR */
	int control_fd; /* CONTROL_DIR */
	int lock_fd;
	/* With -EBUSY: PID of the holder; 0: not known. */
	pid_t holder;
	bool old_agent; /* with -EBUSY: an older agent answers in RUN_DIR */
};

/**
 * md_rundir_open - create the directories (0755) if missing, and take the lock
 *
 * Return: 0; -EBUSY: another agent runs; -EPERM: a directory is owned by neither root nor us, or others may write to
 * it; -EINVAL: CONTROL_DIR is RUN_DIR or below it; another -errno. In any case call md_rundir_close().
 */
int md_rundir_open(struct md_rundir *rundir, const char *run_dir, const char *control_dir);
void md_rundir_close(struct md_rundir *rundir); /* releases the lock */

/**
 * md_rundir_tidy - remove the files of an older agent from RUN_DIR
 * @ret_holder: PID that holds that agent's lock, which has no effect any more; 0: none
 *
 * To be called before md_start_number() and md_drained_load(): it moves their files to CONTROL_DIR.
 */
void md_rundir_tidy(struct md_rundir *rundir, pid_t *ret_holder);

/**
 * md_rundir_listen - make a listening socket that everybody may connect to
 * @dir_fd: of either directory
 * @name: at most 24 characters
 * @type: SOCK_SEQPACKET or SOCK_STREAM
 *
 * Return: descriptor, owned by the caller; -errno.
 */
int md_rundir_listen(int dir_fd, const char *name, int type, int backlog);

/** md_rundir_remove - remove a socket file; @dir_fd: -1: no effect */
void md_rundir_remove(int dir_fd, const char *name);

#endif
