// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "common.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void die(const char *fmt, ...)
{
	int err = errno;
	va_list args;

	va_start(args, fmt);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, args);
	fprintf(stderr, err ? ": %s\n" : "\n", strerror(err));
	va_end(args);
	exit(1);
}

void *need(void *p, const char *what)
{
	if (!p)
		die("%s", what);
	return p;
}

void zero(int err, const char *what)
{
	if (err) {
		errno = err > 0 ? err : errno;
		die("%s", what);
	}
}

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t own_bytes(void)
{
	FILE *file = need(fopen("/proc/self/status", "re"), "/proc/self/status");
	unsigned long long kib = 0;
	char line[128];

	while (fgets(line, sizeof(line), file) && sscanf(line, "RssAnon: %llu kB", &kib) != 1)
		;
	fclose(file);
	return kib * 1024;
}

struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_context *ctx = NULL;
	unsigned int i;

	errno = ENODEV;
	for (i = 0; list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return need(ctx, name);
}

/* ---- the other end -------------------------------------------------------------------------------------------- */

/* @host: NULL: any address of this host */
static struct addrinfo *resolve(const char *host, const char *port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;

	errno = EADDRNOTAVAIL;
	if (getaddrinfo(host, port, &hints, &list))
		die("%s", host ? host : "any address");
	return list;
}

int listen_at(const char *port)
{
	struct addrinfo *a = resolve(NULL, port);
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1))
		die("listen");
	freeaddrinfo(a);
	return fd;
}

int accept_one(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		die("accept");
	close(listener);
	return fd;
}

int connect_to(const char *host, const char *port)
{
	struct addrinfo *a = resolve(host, port);
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);

	if (connect(fd, a->ai_addr, a->ai_addrlen))
		die("%s", host);
	freeaddrinfo(a);
	return fd;
}

bool transfer(int sock, void *data, size_t n, bool out)
{
	size_t done;
	ssize_t k;

	for (done = 0; done < n; done += (size_t)k) {
		errno = 0;
		k = out ? send(sock, (char *)data + done, n - done, MSG_NOSIGNAL) : recv(sock, (char *)data + done, n - done, 0);
		if (!k && !done)
			return false;
		if (k <= 0)
			die("the other end");
	}
	return true;
}
