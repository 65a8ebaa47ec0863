/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DRAINED_H
#define MD_DRAINED_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include "bounds.h"

/*
 * Devices that the administrator has drained (`meshverbs drain`): file CONTROL_DIR/drained, a name on each line. The
 * file outlives the agent, and is lost at reboot. A listed device may be absent, e.g. pulled.
 */
struct md_drained {
	size_t n;
	char names[MD_RAILS_MAX][IBV_SYSFS_NAME_MAX];
};

/** md_drained_has - is the device drained? @drained may be NULL: none is */
bool md_drained_has(const struct md_drained *drained, const char *device);

/**
 * md_drained_add - add a device. Return: 0, also if listed already; -EINVAL: not a device name; -ENOSPC: MD_RAILS_MAX
 * are listed
 */
int md_drained_add(struct md_drained *drained, const char *device);
/** md_drained_remove - remove a device. Return: 0 or -ENOENT */
int md_drained_remove(struct md_drained *drained, const char *device);

/**
 * md_drained_parse - parse the content of the file
 * @text: @len bytes of any kind
 *
 * Return: 0; -EBADMSG: a line is not a device name, or the last one has no newline; -ENOSPC: too many. @ret has the
 * good lines in any case.
 */
int md_drained_parse(const char *text, size_t len, struct md_drained *ret);

/**
 * md_drained_load - read the file. @dir_fd: CONTROL_DIR. Return: 0, also without a file; -errno of openat(2), read(2);
 * as md_drained_parse()
 */
int md_drained_load(int dir_fd, struct md_drained *ret);

/** md_drained_save - replace the file atomically. Return: 0 or -errno */
int md_drained_save(int dir_fd, const struct md_drained *drained);

#endif
