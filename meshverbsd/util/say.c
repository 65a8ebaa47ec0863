/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Standard error belongs to the process, and so does what is known of it. */
static enum md_level least = MD_INFO;
static bool to_journal;

void md_say_init(enum md_level level)
{
	least = level;
	to_journal = getenv("JOURNAL_STREAM") != NULL;
}

/* The journal's is a socket; a line that it has no room for is lost rather than waited for. */
static void put(const char *line, size_t len)
{
	if (send(STDERR_FILENO, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno != ENOTSOCK)
		return;
	/* Nobody to tell when that fails. */
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}

void md_say(enum md_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[1024];
	size_t used = 0, from;
	va_list args;

	if (level > least)
		return;
	if (to_journal)
		used = (size_t)snprintf(line, sizeof(line), "<%d>", (int)level);
	else
		used = (size_t)snprintf(line, sizeof(line), "meshverbsd: ");
	from = used;
	va_start(args, fmt);
	vsnprintf(line + used, sizeof(line) - 1 - used, fmt, args);
	va_end(args);
	used = strlen(line);
	for (size_t i = from; i < used; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[used++] = '\n';
	put(line, used);
	errno = saved;
}

const char *md_strerror(int err)
{
	return strerror(err < 0 ? -err : err);
}
