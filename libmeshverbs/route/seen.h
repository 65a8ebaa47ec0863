/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_SEEN_H
#define MV_SEEN_H

#include <stddef.h>
#include <stdint.h>

#include "decide.h"

/*
 * What a program may have read under each index of a device's GID tables since it opened the
 * device: every value that was ever observed there. One struct mv_seen_log per verbs context; the
 * caller serialises all calls on one log.
 */
struct mv_seen_log;

/**
 * mv_seen_new - an empty log
 *
 * Return: the log, to be released with mv_seen_free(); NULL when out of memory.
 */
struct mv_seen_log *mv_seen_new(void);
void mv_seen_free(struct mv_seen_log *log); /* NULL is fine */

/**
 * mv_seen_update - record a port's current table
 *
 * Only changes take memory, at most MV_SEEN_MAX entries per log; past that the oldest are
 * forgotten. An entry that became empty is not recorded: the program may still hold the address it
 * had.
 *
 * Return: 0 or -ENOMEM, in which case the log is as before.
 */
int mv_seen_update(struct mv_seen_log *log, const struct mv_port *port);

/**
 * mv_seen_get - addresses seen under one index, newest first
 * @ret: array of @max, filled from the start
 *
 * Return: how many were written.
 */
size_t mv_seen_get(const struct mv_seen_log *log, uint8_t port_num, uint32_t index,
		   struct mv_seen *ret, size_t max);

#define MV_SEEN_MAX 4096

#endif
