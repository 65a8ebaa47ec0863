/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DRAINED_H
#define MD_DRAINED_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include "bounds.h"

/*
 * The devices that the administrator has taken out (`meshverbs drain`): CONTROL_DIR/drained, one name on each line, which a restart
 * of the agent leaves as it is and a reboot takes away. A device may be in it that is not there any more: it was pulled.
 */
struct md_drained {
	size_t n;
	char names[MD_RAILS_MAX][IBV_SYSFS_NAME_MAX];
};

/** md_drained_has - is that device drained? @drained: NULL: none is */
bool md_drained_has(const struct md_drained *drained, const char *device);

/** md_drained_add - 0, also if it is there; -EINVAL: no name of a device; -ENOSPC: MD_RAILS_MAX are there */
int md_drained_add(struct md_drained *drained, const char *device);
/** md_drained_remove - 0 or -ENOENT */
int md_drained_remove(struct md_drained *drained, const char *device);

/**
 * md_drained_parse - the file's content, any bytes
 *
 * Return: 0; -EBADMSG, -ENOSPC: a line is no name of a device, the last one has no end, or there are too many; what is good
 * is in @ret all the same.
 */
int md_drained_parse(const char *text, size_t len, struct md_drained *ret);

/** md_drained_load - @dir_fd: CONTROL_DIR. 0, also without the file; -errno of openat(2), read(2); as md_drained_parse() */
int md_drained_load(int dir_fd, struct md_drained *ret);

/** md_drained_save - replaces the file as a whole; 0 or -errno */
int md_drained_save(int dir_fd, const struct md_drained *drained);

#endif
