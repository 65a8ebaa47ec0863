/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_AGENT_LOG_H
#define MD_AGENT_LOG_H

/*
 * The agent's log: standard error. systemd puts it into the journal, with the level in front ("<4>text"); a terminal
 * gets plain text.
 */
enum md_level { MD_ERROR = 3, MD_WARNING = 4, MD_NOTICE = 5, MD_INFO = 6, MD_DEBUG = 7 };

/** md_log_init - set the least important level to be written; before the first md_log() */
void md_log_init(enum md_level level);

/*
 * Rate limit, because others can cause log lines without end: for each place in the code so many lines at once, then
 * one a second, which tells how many were dropped. MD_DEBUG has no limit.
 */
#define MD_LOG_BURST 64

/** md_log - write one line, within the rate limit; control characters become '?'; preserves errno; any thread */
void md_log(enum md_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** md_strerror - text of an error, positive or negative. Static; valid until the next call */
const char *md_strerror(int err);

#endif
