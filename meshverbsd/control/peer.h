/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PEER_H
#define MD_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where a process lives, as far as an agent without privileges sees. */
enum md_place {
	MD_PLACE_CONTAINER, /* another user or PID namespace, or another root file system, than the host's and the agent's */
	MD_PLACE_HOST,
	MD_PLACE_UNSEEN, /* /proc does not tell: it is mounted with hidepid= */
	MD_PLACE_HIDDEN, /* a PID namespace that the agent does not see, or the process has ended */
};

/*
 * A process at the other end of a local socket. Its user is what the kernel noted when the process connected, translated into
 * the agent's user namespace. Its place is read from /proc; with SO_PEERPIDFD (Linux 6.5) no other process that has got the
 * same number since can be taken for it.
 */
struct md_peer {
	pid_t pid; /* 0: of another PID namespace, which the agent does not see */
	uid_t uid;
	enum md_place place;
	/*
	 * Whom bounds are counted for: a user of the host, or a container with all its users. A container is told by its
	 * cgroup, whose path no process in it can change; where there is none, by its network namespace. What a user starts in a
	 * session is that user's, for each session has a cgroup, and a user has as many as he likes to begin.
	 */
	uint64_t account;
};

/**
 * md_peer_of - who is at the other end of a connected Unix socket
 *
 * Return: 0 or -errno of getsockopt(2).
 */
int md_peer_of(int fd, struct md_peer *ret);

/**
 * md_peer_open - a descriptor of the process at the other end, which polls readable once that process has ended
 * @pid: struct md_peer's
 *
 * No other process that gets the same number is taken for it: with SO_PEERPIDFD never, before Linux 6.5 if the process was still there at the call.
 *
 * Return: the descriptor, the caller's; -ESRCH: it has ended; another -errno: the kernel cannot tell (before Linux 5.3, or @pid is 0).
 */
int md_peer_open(int fd, pid_t pid);

/** md_peer_has_ended - has the process ended? @process: what md_peer_open() returned. Where the kernel cannot tell, it has not. */
bool md_peer_has_ended(int process);

/** md_peer_unbounded - is it root of the host, for whom there is no bound? */
bool md_peer_unbounded(const struct md_peer *peer);

/** md_peer_is_admin - may it give orders, and see all? Root and the agent's user, unless they are of a container. */
bool md_peer_is_admin(const struct md_peer *peer);

/** md_peer_text - "user 0, process 123 in a container", for the log; @buf: @size bytes; returns @buf */
const char *md_peer_text(const struct md_peer *peer, char *buf, size_t size);
#define MD_PEER_TEXT_SIZE 96

/** md_peer_uid - user of a process; (uid_t)-1: /proc does not tell */
uid_t md_peer_uid(pid_t pid);

/* Pure, for tests: what files of /proc say. */

/** md_peer_depth - in how many PID namespaces it has a number, the agent's included; @status: of /proc/PID/status; 0: unknown */
unsigned int md_peer_depth(const char *status);
/** md_peer_root - "MAJOR:MINOR ROOT" of the mount at /; @mountinfo: its beginning. 0; -ENOENT; -ENOSPC */
int md_peer_root(const char *mountinfo, char *ret, size_t size);
/** md_peer_cgroup - the longest path in /proc/PID/cgroup; 0; -ENOENT: none but the root; -ENOSPC */
int md_peer_cgroup(const char *text, char *ret, size_t size);
/** md_peer_slice_user - whose sessions a cgroup is of, as systemd-logind names them; 0: nobody's, or root's */
uid_t md_peer_slice_user(const char *path);

#endif
