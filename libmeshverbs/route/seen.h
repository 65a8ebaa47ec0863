/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_SEEN_H
#define MV_SEEN_H

#include <stddef.h>
#include <stdint.h>

#include "decide.h"

/*
 * Log of all values that the entries of a device's GID tables have had since the program opened the device: any of
 * these the program may have read. One struct mv_seen_log for each verbs context. The caller serialises all calls on
 * one log.
 */
struct mv_seen_log;

/**
 * mv_seen_new - make an empty log
 *
 * Return: release with mv_seen_free(); NULL: no memory.
 */
struct mv_seen_log *mv_seen_new(void);
void mv_seen_free(struct mv_seen_log *log); /* NULL is allowed */

/**
 * mv_seen_update - record a port's present table
 *
 * Only changes take memory, at most MV_SEEN_MAX entries in a log; then the oldest are dropped. An entry that becomes
 * empty is not recorded, because the program may still use its former address.
 *
 * Return: 0; -ENOMEM: the log is unchanged.
 */
int mv_seen_update(struct mv_seen_log *log, const struct mv_port *port);

/**
 * mv_seen_get - addresses seen at one index, newest first
 * @ret: array of @max
 *
 * Return: number of addresses written.
 */
size_t mv_seen_get(const struct mv_seen_log *log, uint8_t port_num, uint32_t index,
		   struct mv_seen *ret, size_t max);

#define MV_SEEN_MAX 4096

#endif
