// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "boot.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_TENTHS 600 /* for rank 0 to listen */

void die(int err, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	va_start(args, format);
	fputs("nccl: ", stderr);
	vfprintf(stderr, format, args);
	fprintf(stderr, err ? ": %s\n" : "\n", strerror(err));
	va_end(args);
	exit(1);
}

static void give(int fd, const void *data, size_t size)
{
	for (const char *at = data; size;) {
		ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

		if (n <= 0)
			die(n ? errno : EPIPE, "another rank is gone");
		at += n;
		size -= (size_t)n;
	}
}

static void take(int fd, void *data, size_t size)
{
	for (char *at = data; size;) {
		ssize_t n = recv(fd, at, size, 0);

		if (n <= 0)
			die(n ? errno : EPIPE, "another rank is gone");
		at += n;
		size -= (size_t)n;
	}
}

static int listener(int port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, MAX_RANKS))
		die(errno, "listening on port %d", port);
	return fd;
}

static int try_connect(const struct addrinfo *to)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen)) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

static int caller(const char *host, int port)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	struct timespec tenth = {.tv_nsec = 100000000};
	char service[16];
	int fd = -1;

	snprintf(service, sizeof(service), "%d", port);
	if (getaddrinfo(host, service, &hints, &found))
		die(0, "no host '%s'", host);
	for (int i = 0; i < PATIENCE_TENTHS && fd < 0; i++) {
		fd = try_connect(found);
		if (fd < 0)
			nanosleep(&tenth, NULL);
	}
	if (fd < 0)
		die(errno, "connecting to %s:%d", host, port);
	freeaddrinfo(found);
	return fd;
}

void boot_init(struct boot *boot, int rank, int n_ranks, const char *host, int port)
{
	uint32_t number = (uint32_t)rank;

	boot->rank = rank;
	boot->n_ranks = n_ranks;
	if (rank) {
		boot->fds[0] = caller(host, port);
		give(boot->fds[0], &number, sizeof(number));
		return;
	}
	int from = listener(port);

	for (int i = 1; i < n_ranks; i++) {
		int fd = accept4(from, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			die(errno, "accept");
		take(fd, &number, sizeof(number));
		if (!number || number >= (uint32_t)n_ranks)
			die(0, "a rank %u of %d", number, n_ranks);
		boot->fds[number] = fd;
	}
	close(from);
}

void boot_allgather(struct boot *boot, const void *mine, size_t size, void *all)
{
	size_t total = size * (size_t)boot->n_ranks;

	if (boot->rank) {
		give(boot->fds[0], mine, size);
		take(boot->fds[0], all, total);
		return;
	}
	memcpy(all, mine, size);
	for (int i = 1; i < boot->n_ranks; i++)
		take(boot->fds[i], (char *)all + (size_t)i * size, size);
	for (int i = 1; i < boot->n_ranks; i++)
		give(boot->fds[i], all, total);
}

/* The sockets that a rank has: rank 0 all but its own, the others the one to it. */
static int first_fd(const struct boot *boot)
{
	return boot->rank ? 0 : 1;
}

static int end_fd(const struct boot *boot)
{
	return boot->rank ? 1 : boot->n_ranks;
}

void boot_watch(struct boot *boot)
{
	time_t now = time(NULL);
	char byte;

	if (now == boot->watched)
		return;
	boot->watched = now;
	for (int i = first_fd(boot); i < end_fd(boot); i++) {
		if (!recv(boot->fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT))
			die(0, "another rank is gone");
	}
}

void boot_close(struct boot *boot)
{
	for (int i = first_fd(boot); i < end_fd(boot); i++)
		close(boot->fds[i]);
}
