/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_LOG_H
#define MV_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"

/*
 * The operator's log. A library in somebody's process must not touch stdout, stderr or the state of syslog(3), and
 * keeps no descriptor open: each line is one datagram to /dev/log, or one appending write to a file that is opened and
 * closed for it. Preserves errno. Any thread.
 */

#define MV_LOG_ONCE_SLOTS 256

struct mv_log {
	char target[256]; /* "syslog" or an absolute path; constant after mv_log_init() */
	enum mv_log_level level; /* constant after mv_log_init() */
	_Atomic uint32_t
		once[MV_LOG_ONCE_SLOTS]; /* hashes of lines already written; lock-free */
	_Atomic bool once_full; /* the line that says so was written */
};

/** mv_log_init - set up a log, without I/O; @target is copied */
void mv_log_init(struct mv_log *log, const char *target, enum mv_log_level level);

/** mv_log_wants - are lines of that level written? For callers whose texts are costly */
static inline bool mv_log_wants(const struct mv_log *log, enum mv_log_level level)
{
	return level <= log->level;
}

/**
 * mv_log - write one line: "meshverbs[<pid>]: <program>: <text>"
 *
 * Control characters in the text become '?'; a text is cut at some 900 bytes. Lines in a file begin with the UTC time;
 * the file must be regular, without further hard links, and is created with mode 0600. A line that cannot be written,
 * or for which syslog has no room at once, is lost.
 */
void mv_log(struct mv_log *log, enum mv_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void mv_logv(struct mv_log *log, enum mv_log_level level, const char *fmt, va_list args)
	__attribute__((format(printf, 3, 0)));

/**
 * mv_log_once - as mv_log(), but each text only once in a process
 *
 * After MV_LOG_ONCE_SLOTS different texts, further ones are dropped, and one line says so.
 */
void mv_log_once(struct mv_log *log, enum mv_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
