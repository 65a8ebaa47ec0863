/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "say.h"

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

/* Standard error belongs to the process, and so does what is known of it. */
static enum md_level least = MD_INFO;
static bool to_journal;

void md_say_init(enum md_level level)
{
	least = level;
	to_journal = getenv("JOURNAL_STREAM") != NULL;
}

/* ---- no more than can be read ---------------------------------------------------------------- */

#define PLACES 256 /* of the code; those for which there is none have no limit */
#define SECOND 1000000000ull

/* A bucket in one word: when it would be full again. */
static struct place {
	const char *fmt;
	uint64_t full_ns;
	unsigned long left_out; /* since the last line */
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

/* Return: whether it may be written; *ret_left_out: how many like it were not since the last one. */
static bool may_say(const char *fmt, unsigned long *ret_left_out)
{
	uint64_t now_ns = now();
	struct place *place;
	bool may = true;

	mv_mutex_lock(&places_lock, &lock_class, MV_LOCK_HERE);
	place = find_place(fmt);
	if (place) {
		if (place->full_ns < now_ns)
			place->full_ns = now_ns;
		may = place->full_ns - now_ns <= (MD_SAY_BURST - 1) * SECOND;
		*ret_left_out = place->left_out;
		place->left_out = may ? 0 : place->left_out + 1;
		place->full_ns += may ? SECOND : 0;
	}
	mv_mutex_unlock(&places_lock);
	return may;
}

/* ---- lines ----------------------------------------------------------------------------------- */

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
	unsigned long left_out = 0;
	size_t used = 0, from;
	va_list args;

	if (level > least)
		return;
	if (level < MD_DEBUG && !may_say(fmt, &left_out)) {
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
