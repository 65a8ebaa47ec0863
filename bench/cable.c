// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "cable.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

struct fault *map_fault(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *p;

	if (fd < 0 || ftruncate(fd, sizeof(struct fault)))
		die("%s", file);
	p = mmap(NULL, sizeof(struct fault), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		die("%s", file);
	close(fd);
	return p;
}

static void set_netdev(int sock, const char *name, bool up)
{
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	zero(ioctl(sock, SIOCGIFFLAGS, &request), name);
	request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
	zero(ioctl(sock, SIOCSIFFLAGS, &request), name);
}

static void set_port(int sock, const char *name, const char *bridge, bool joins)
{
	struct ifreq request = {0};

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", bridge);
	request.ifr_ifindex = (int)if_nametoindex(name);
	zero(ioctl(sock, joins ? SIOCBRADDIF : SIOCBRDELIF, &request), bridge);
}

int cable(const char *file, const char *netns)
{
	struct fault *fault = map_fault(file);
	int ns = open(netns, O_RDONLY | O_CLOEXEC), sock, n;
	char line[64], word[8], name[IFNAMSIZ], bridge[IFNAMSIZ];
	uint64_t before, after;

	if (ns < 0 || setns(ns, CLONE_NEWNET))
		die("%s", netns);
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		die("socket");
	while (fgets(line, sizeof(line), stdin)) {
		n = sscanf(line, "%7s %15s %15s", word, name, bridge);
		if (n < 2)
			die("what is '%s'?", line);
		before = now_ns();
		if (n == 3)
			set_port(sock, name, bridge, !strcmp(word, "join"));
		else
			set_netdev(sock, name, !strcmp(word, "up"));
		after = now_ns();
		if (!strcmp(word, "down") || !strcmp(word, "leave")) {
			atomic_store_explicit(&fault->down_ns, after, memory_order_relaxed);
			atomic_fetch_add_explicit(&fault->number, 1, memory_order_release);
		}
		printf("%llu %llu\n", (unsigned long long)before, (unsigned long long)after);
		fflush(stdout);
	}
	return 0;
}
