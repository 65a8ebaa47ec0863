/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How long commands of a device take. */
#ifndef SIM_NET_FIRMWARE_RULE_H
#define SIM_NET_FIRMWARE_RULE_H

#include <stddef.h>

#include "state.h"

/**
 * firmware_set() - set what "us=N [at-once=N] [command=KIND,...]" says; without kinds, of all of them; without at-once, any number of
 * commands of the device is executed at a time
 * @text: written to
 * @why: on failure, a sentence
 *
 * Return: 0 or -EINVAL.
 */
int firmware_set(struct sim_dev *d, char *text, char *why, size_t why_size);

/** firmware_format() - "KIND=N KIND=N [at-once=N] commands=N" of those that take time; commands: so far. Return: how long that is. */
size_t firmware_format(const struct sim_dev *d, char *out, size_t size);

#endif
