// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Preloaded: as long as there is a file HELD, system calls that take the kernel's rtnl lock wait, as if others had it. rtnetlink requests
 * are held where their answer is read, and memberships of multicast groups.
 */
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HELD "/etc/rtnl.held"

static void lock_rtnl(void)
{
	while (!access(HELD, F_OK))
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

__attribute__((visibility("default"))) ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	int domain = 0;
	socklen_t size = sizeof(domain);
	ssize_t (*next)(int, void *, size_t, int) = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");

	if (!(flags & MSG_DONTWAIT) && !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_NETLINK)
		lock_rtnl();
	return next(fd, buf, len, flags);
}

__attribute__((visibility("default"))) int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	int (*next)(int, int, int, const void *, socklen_t) =
		(int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");

	if ((level == IPPROTO_IPV6 && (option == IPV6_ADD_MEMBERSHIP || option == IPV6_DROP_MEMBERSHIP)) ||
	    (level == IPPROTO_IP && (option == IP_ADD_MEMBERSHIP || option == IP_DROP_MEMBERSHIP)))
		lock_rtnl();
	return next(fd, level, option, value, len);
}
