/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SAY_H
#define MD_SAY_H

/*
 * The agent's log: standard error, which systemd takes to the journal with the level in front ("<4>text"), and a
 * terminal shows without.
 */
enum md_level { MD_ERROR = 3, MD_WARNING = 4, MD_NOTICE = 5, MD_INFO = 6, MD_DEBUG = 7 };

/** md_say_init - the least important lines to write; before the first md_say() */
void md_say_init(enum md_level level);

/*
 * Of what may be said on behalf of others, who can have it said without end, the log has so much: lines of one place in the code in a
 * row, and then one a second, which tells how many there would have been. MD_DEBUG has no limit.
 */
#define MD_SAY_BURST 64

/** md_say - write one line, unless there are too many like it; control characters become '?'; keeps errno; for any thread */
void md_say(enum md_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** md_strerror - text of an error, negative or not; valid until the next call */
const char *md_strerror(int err);

#endif
