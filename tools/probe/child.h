/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef PROBE_CHILD_H
#define PROBE_CHILD_H

/* What children that are verbs programs have in common. */

/**
 * child_env - the environment of this process, for a child
 * @sysfs: root of sysfs for libibverbs; set only if it is another than /sys, since programs usually do not have it
 * @setting: "NAME=value", in place of what this process has of that name
 *
 * Where this process would report, the child does not, unless @setting says so. One at a time. Return: the array for the
 * caller to free, of strings that are not; NULL: no memory.
 */
char **child_env(const char *sysfs, char *setting);

/**
 * child_begin - in the child after fork(): a group of its own, to be killed with its children; it ends with its parent,
 * leaves no core, reads nothing
 *
 * Async-signal-safe.
 */
void child_begin(void);

#endif
