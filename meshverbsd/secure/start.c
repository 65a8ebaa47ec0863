/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define START_FILE "start"
/* A last number that is further in the future is wrong, and is ignored. */
#define AHEAD_MAX_NS (10ull * 365 * 86400 * 1000000000)

static uint64_t read_last(int dir_fd)
{
	char text[32], *end;
	uint64_t last;
	ssize_t n;
	int fd;

	fd = openat(dir_fd, START_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	errno = 0;
	last = strtoull(text, &end, 10);
	return errno || *end != '\n' ? 0 : last;
}

/* Written to another file and renamed, so that a crash leaves the old number or the new one. */
static void write_last(int dir_fd, uint64_t start)
{
	static const char aside[] = START_FILE ".new";
	char text[32];
	int fd, len;

	unlinkat(dir_fd, aside, 0);
	fd = openat(dir_fd, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	len = snprintf(text, sizeof(text), "%" PRIu64 "\n", start);
	if (write(fd, text, (size_t)len) == len)
		renameat(dir_fd, aside, dir_fd, START_FILE);
	close(fd);
}

uint64_t md_start_number(int dir_fd, uint64_t realtime_ns)
{
	uint64_t start = realtime_ns ? realtime_ns : 1, last;

	if (dir_fd < 0)
		return start;
	last = read_last(dir_fd);
	if (last >= start && last - start < AHEAD_MAX_NS)
		start = last + 1;
	write_last(dir_fd, start);
	return start;
}
