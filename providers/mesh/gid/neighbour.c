// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "neighbour.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DISCARD 9
#define WAIT_MS 4000 /* the kernel asks three times, a second apart (ndisc: mcast_solicit, retrans_time_ms) */

/* Return: the error reported for the datagram; 0: none within the time; -errno: the datagram could not be sent. */
static int outcome_of_datagram(int fd, const struct sockaddr_in6 *to)
{
	struct pollfd poll_fd = {.fd = fd};
	socklen_t size = sizeof(int);
	int err = 0, on = 1;

	if (setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on)) || connect(fd, (const struct sockaddr *)to, sizeof(*to)) ||
	    send(fd, "", 0, MSG_DONTWAIT) < 0)
		return -errno;
	if (poll(&poll_fd, 1, WAIT_MS) > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size))
		return -errno;
	return err;
}

bool mesh_neighbour_is_missing(struct mesh_context *mc, uint8_t port_num, uint8_t index, const union ibv_gid *gid)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(DISCARD)};
	int saved_errno = errno, fd, err;

	to.sin6_scope_id = mesh_paths_netdev(mc, port_num, index);
	memcpy(&to.sin6_addr, gid->raw, sizeof(to.sin6_addr));
	if (!to.sin6_scope_id)
		return false;
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		errno = saved_errno;
		return false;
	}
	err = outcome_of_datagram(fd, &to);
	close(fd);
	errno = saved_errno;
	return err == EHOSTUNREACH;
}
