/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hash.h"

/* From newer headers; older kernels return ENOPROTOOPT. */
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

#define STATUS_SIZE    4096
#define UID_MAP_SIZE   4096 /* newer kernels allow 340 lines; then only the first part is compared */
#define MOUNTINFO_SIZE 16384 /* the process decides how long the file is */
/* Accounts. A user of the host: the uid. */
#define ACCOUNT_CONTAINER (1ull << 32) /* a container: with a hash */
#define ACCOUNT_UNSEEN	  (2ull << 32) /* place not known: with the uid, so that nobody counts as root unseen */

/* Return: bytes read, at most @size - 1, NUL added; -errno. */
static ssize_t read_proc(pid_t pid, const char *name, char *buf, size_t size)
{
	size_t len = 0;
	char path[64];
	ssize_t n = 1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (n > 0 && len < size - 1) {
		n = read(fd, buf + len, size - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	n = n < 0 ? -errno : 0;
	close(fd);
	buf[len] = '\0';
	return n ? n : (ssize_t)len;
}

/* Return: text after @key on its line; NULL: not found. Names of processes contain no newline here. */
static const char *line_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? at + strlen(key) : NULL;
}

unsigned int md_peer_depth(const char *status)
{
	const char *at = line_of(status, "\nNSpid:");
	unsigned int n = 0;

	for (; at && *at && *at != '\n'; at++)
		n += *at == '\t';
	return n;
}

int md_peer_root(const char *mountinfo, char *ret, size_t size)
{
	const char *line = mountinfo, *end;
	char device[32], root[1024], point[8];
	int err = -ENOENT;

	/* A mount may hide another one, so the last line counts. */
	for (; (end = strchr(line, '\n')); line = end + 1) {
		if (sscanf(line, "%*d %*d %31s %1023s %7s ", device, root, point) != 3 || strcmp(point, "/"))
			continue;
		err = (size_t)snprintf(ret, size, "%s %s", device, root) < size ? 0 : -ENOSPC;
	}
	return err;
}

int md_peer_cgroup(const char *text, char *ret, size_t size)
{
	const char *line = text, *path, *end, *best = NULL;
	size_t len = 1;

	for (; (end = strchr(line, '\n')); line = end + 1) {
		path = memchr(line, ':', (size_t)(end - line));
		path = path ? memchr(path + 1, ':', (size_t)(end - path - 1)) : NULL;
		if (!path || (size_t)(end - path - 1) <= len)
			continue;
		best = path + 1;
		len = (size_t)(end - best);
	}
	if (!best)
		return -ENOENT;
	if (len >= size)
		return -ENOSPC;
	memcpy(ret, best, len);
	ret[len] = '\0';
	return 0;
}

uid_t md_peer_slice_user(const char *path)
{
	unsigned int uid = 0;
	int n = 0;

	if (sscanf(path, "/user.slice/user-%u.slice%n", &uid, &n) != 1 || !n || (path[n] && path[n] != '/'))
		return 0;
	return uid;
}

/* The owner of a cgroup can create others below it. Cuts the path to the part that root owns. */
static void cut_delegated(char *path)
{
	char dir[PATH_MAX];
	struct stat st;
	char *slash;

	while ((slash = strrchr(path, '/')) && slash != path) {
		if ((size_t)snprintf(dir, sizeof(dir), "/sys/fs/cgroup%s", path) >= sizeof(dir) || stat(dir, &st) || !st.st_uid)
			return;
		*slash = '\0';
	}
}

static uint64_t account_of_container(pid_t pid, int fd)
{
	char text[2 * PATH_MAX], path[PATH_MAX];
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	uid_t uid;

	if (pid && read_proc(pid, "cgroup", text, sizeof(text)) > 0 && !md_peer_cgroup(text, path, sizeof(path))) {
		uid = md_peer_slice_user(path);
		if (uid)
			return uid;
		cut_delegated(path);
		return ACCOUNT_CONTAINER | md_hash(path, (unsigned int)strlen(path));
	}
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len))
		cookie = 0;
	return ACCOUNT_CONTAINER | md_hash(&cookie, sizeof(cookie));
}

static int read_root(pid_t pid, char *ret, size_t size)
{
	char text[MOUNTINFO_SIZE];
	ssize_t len = read_proc(pid, "mountinfo", text, sizeof(text));

	return len < 0 ? (int)len : md_peer_root(text, ret, size);
}

/* On the root file system of the host or of the agent; the agent may be in a container itself. */
static bool has_our_root(pid_t pid)
{
	char root[1100], other[1100];

	if (read_root(pid, root, sizeof(root)))
		return false;
	return (!read_root(getpid(), other, sizeof(other)) && !strcmp(root, other)) ||
	       (!read_root(1, other, sizeof(other)) && !strcmp(root, other));
}

static enum md_place place_of(pid_t pid)
{
	char status[STATUS_SIZE], map[UID_MAP_SIZE], own[UID_MAP_SIZE];
	unsigned int depth;

	if (!pid)
		return MD_PLACE_HIDDEN;
	if (read_proc(pid, "status", status, sizeof(status)) < 0 || read_proc(pid, "uid_map", map, sizeof(map)) < 0 ||
	    read_proc(getpid(), "uid_map", own, sizeof(own)) < 0)
		return MD_PLACE_UNSEEN;
	depth = md_peer_depth(status);
	if (!depth)
		return MD_PLACE_UNSEEN;
	return depth == 1 && !strcmp(map, own) && has_our_root(pid) ? MD_PLACE_HOST : MD_PLACE_CONTAINER;
}

int md_peer_open(int fd, pid_t pid)
{
	socklen_t len = sizeof(int);
	int process = -1;

	if (!pid)
		return -EREMOTE;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &process, &len))
		return process;
	/* EINVAL: the process has ended, and has no PID any more (Linux 6.5 to 6.13). */
	if (errno != ENOPROTOOPT)
		return errno == EINVAL ? -ESRCH : -errno;
	process = (int)syscall(SYS_pidfd_open, pid, 0);
	return process < 0 ? -errno : process;
}

bool md_peer_has_ended(int process)
{
	struct pollfd poller = {.fd = process, .events = POLLIN};

	return process < 0 ? process == -ESRCH : poll(&poller, 1, 0) > 0;
}

/* Has the process ended? Then its PID may be another process's. */
static bool has_ended(int fd, pid_t pid)
{
	int process = md_peer_open(fd, pid);
	bool ended = md_peer_has_ended(process);

	if (process >= 0)
		close(process);
	return ended;
}

int md_peer_of(int fd, struct md_peer *ret)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	*ret = (struct md_peer){.pid = cred.pid, .uid = cred.uid, .place = place_of(cred.pid), .account = cred.uid};
	if (ret->place == MD_PLACE_UNSEEN)
		ret->account |= ACCOUNT_UNSEEN;
	if (ret->place == MD_PLACE_CONTAINER)
		ret->account = account_of_container(ret->pid, fd);
	/* The facts from /proc are about this process only if it still exists. */
	if (ret->pid && has_ended(fd, ret->pid))
		ret->place = MD_PLACE_HIDDEN;
	if (ret->place == MD_PLACE_HIDDEN)
		ret->account = account_of_container(0, fd);
	return 0;
}

bool md_peer_unbounded(const struct md_peer *peer)
{
	return !peer->account;
}

bool md_peer_is_admin(const struct md_peer *peer)
{
	return (!peer->uid || peer->uid == geteuid()) && (peer->place == MD_PLACE_HOST || peer->place == MD_PLACE_UNSEEN);
}

const char *md_peer_text(const struct md_peer *peer, char *buf, size_t size)
{
	snprintf(buf, size, "user %u, process %d%s", (unsigned int)peer->uid, (int)peer->pid,
		 peer->place == MD_PLACE_CONTAINER ? " in a container"
		 : peer->place == MD_PLACE_HIDDEN  ? " that the agent cannot see"
						   : "");
	return buf;
}

uid_t md_peer_uid(pid_t pid)
{
	char status[STATUS_SIZE];
	const char *at;

	if (read_proc(pid, "status", status, sizeof(status)) < 0)
		return (uid_t)-1;
	at = line_of(status, "\nUid:");
	return at ? (uid_t)strtoul(at, NULL, 10) : (uid_t)-1;
}
