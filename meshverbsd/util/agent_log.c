/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "agent_log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "locks.h"

/* Process-wide, like standard error. */
static enum md_level least = MD_INFO;
static bool to_journal;

void md_log_init(enum md_level level)
{
	least = level;
	to_journal = getenv("JOURNAL_STREAM") != NULL;
}

/* ---- rate limit ---------------------------------------------------------------------------- */

#define PLACES 256 /* places in the code; further ones are not limited */
#define SECOND 1000000000ull

/* Token bucket: the time at which it will be full. */
static struct place {
	const char *fmt;
	uint64_t full_ns;
	unsigned long left_out; /* lines dropped since the last one */
} places[PLACES];
static const struct mv_lock_class lock_class = {.name = "places_lock", .rank = MV_LOCK_INNERMOST};
static struct mv_mutex places_lock;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static struct place *find_place(const char *fmt)
{
	size_t first = ((uintptr_t)fmt >> 3) % PLACES;

	for (size_t i = 0; i < PLACES; i++) {
		struct place *place = &places[(first + i) % PLACES];

		if (!place->fmt)
			place->fmt = fmt;
		if (place->fmt == fmt)
			return place;
	}
	return NULL;
}

/* Return: true: write; *ret_left_out: lines dropped since the last one. */
static bool may_log(const char *fmt, unsigned long *ret_left_out)
{
	uint64_t now_ns = now();
	struct place *place;
	bool may = true;

	mv_mutex_lock(&places_lock, &lock_class, MV_LOCK_HERE);
	place = find_place(fmt);
	if (place) {
		if (place->full_ns < now_ns)
			place->full_ns = now_ns;
		may = place->full_ns - now_ns <= (MD_LOG_BURST - 1) * SECOND;
		*ret_left_out = place->left_out;
		place->left_out = may ? 0 : place->left_out + 1;
		place->full_ns += may ? SECOND : 0;
	}
	mv_mutex_unlock(&places_lock);
	return may;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The journal is a socket: if it is full, the line is lost instead of blocking. */
static void put(const char *line, size_t len)
{
	if (send(STDERR_FILENO, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno != ENOTSOCK)
		return;
	/* There is nowhere to report a failure. */
	if (write(STDERR_FILENO, line, len) < 0)
		return;
}

void md_log(enum md_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[1024];
	unsigned long left_out = 0;
	size_t used = 0, from;
	va_list args;

	if (level > least)
		return;
	if (level < MD_DEBUG && !may_log(fmt, &left_out)) {
		errno = saved;
		return;
	}
	if (to_journal)
		used = (size_t)snprintf(line, sizeof(line), "<%d>", (int)level);
	else
		used = (size_t)snprintf(line, sizeof(line), "meshverbsd: ");
	from = used;
	va_start(args, fmt);
	vsnprintf(line + used, sizeof(line) - 1 - used, fmt, args);
	va_end(args);
	used = strlen(line);
	if (left_out)
		used += (size_t)snprintf(line + used, sizeof(line) - 1 - used, " (%lu more like it)", left_out);
	if (used > sizeof(line) - 2)
		used = sizeof(line) - 2;
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
