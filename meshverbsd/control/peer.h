/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PEER_H
#define MD_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where a process runs, as far as an agent without privileges can see. */
enum md_place {
	MD_PLACE_CONTAINER, /* its user namespace, PID namespace or root file system is neither the host's nor the agent's */
	MD_PLACE_HOST,
	MD_PLACE_UNSEEN, /* /proc shows nothing: mounted with hidepid= */
	MD_PLACE_HIDDEN, /* a PID namespace that the agent does not see, or the process has ended */
};

/*
 * The process at the other end of a local socket. The kernel noted its user when it connected, translated to the
 * agent's user namespace. Its place is read from /proc. With SO_PEERPIDFD (Linux 6.5) a later process with the same PID
 * is not mistaken for it.
 */
struct md_peer {
	pid_t pid; /* 0: in a PID namespace that the agent does not see */
	uid_t uid;
	enum md_place place;
	/*
	 * Limits are counted by account: a user of the host, or a container with all its users. A container is
	 * identified by its cgroup, whose path its processes cannot change; without a cgroup, by its network namespace.
	 * Containers in a login session count for the session's user, because each session has a cgroup, and a user can
	 * open any number of sessions.
	 */
	uint64_t account;
};

/**
 * md_peer_of - describe the process at the other end of a connected Unix socket
 *
 * Return: 0; -errno of getsockopt(2).
 */
int md_peer_of(int fd, struct md_peer *ret);

/**
 * md_peer_open - open a pidfd of the process at the other end; it polls readable when the process has ended
 * @pid: from struct md_peer
 *
 * A later process with the same PID is not mistaken for it: never with SO_PEERPIDFD; before Linux 6.5, if the process
 * existed at the call.
 *
 * Return: the pidfd, owned by the caller; -ESRCH: the process has ended; another -errno: not known (before Linux 5.3,
 * or @pid is 0).
 */
int md_peer_open(int fd, pid_t pid);

/** md_peer_has_ended - has the process ended? @process: result of md_peer_open(). False if not known */
bool md_peer_has_ended(int process);

/** md_peer_unbounded - is the process root of the host, who has no limits? */
bool md_peer_unbounded(const struct md_peer *peer);

/** md_peer_is_admin - may the process give orders and see all? Root and the agent's user may, but not in a container. */
bool md_peer_is_admin(const struct md_peer *peer);

/** md_peer_text - text for the log, e.g. "user 0, process 123 in a container". Return: @buf, of @size bytes */
const char *md_peer_text(const struct md_peer *peer, char *buf, size_t size);
#define MD_PEER_TEXT_SIZE 96

/** md_peer_uid - user of a process; (uid_t)-1: not known */
uid_t md_peer_uid(pid_t pid);

/* Pure parsers of /proc files, exported for tests. */

/** md_peer_depth - number of PID namespaces in which the process has a PID, from the agent's on; @status: /proc/PID/status; 0: not known */
unsigned int md_peer_depth(const char *status);
/** md_peer_root - "MAJOR:MINOR ROOT" of the mount at /; @mountinfo: first part of /proc/PID/mountinfo. Return: 0; -ENOENT; -ENOSPC */
int md_peer_root(const char *mountinfo, char *ret, size_t size);
/** md_peer_cgroup - longest path in /proc/PID/cgroup. Return: 0; -ENOENT: only the root cgroup; -ENOSPC */
int md_peer_cgroup(const char *text, char *ret, size_t size);
/** md_peer_slice_user - user whose sessions a cgroup is for, by systemd-logind's names; 0: none, or root */
uid_t md_peer_slice_user(const char *path);

#endif
