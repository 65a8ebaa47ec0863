/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIMNET_QUIRK_NAMES_H
#define SIMNET_QUIRK_NAMES_H

#include <stddef.h>

#include "state.h"

/**
 * quirk_set() - the quirks of a device: "NAME ..." instead of those it had, or "none"
 * @text: is cut; NULL: as an empty one, which is an error
 *
 * Return: 0, or -EINVAL and why, which names those that there are.
 */
int quirk_set(struct sim_dev *d, char *text, char *why, size_t why_size);

/** quirk_format() - the names of those that are on, with blanks between; "" for none. Return: length */
size_t quirk_format(const struct sim_dev *d, char *out, size_t size);

#endif
