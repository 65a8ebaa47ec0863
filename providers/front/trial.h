/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef FRONT_TRIAL_H
#define FRONT_TRIAL_H

#include <stddef.h>

/**
 * trial_load() - load a library image in a child process and look a symbol up through it.
 * @symbol, @version: "" to skip the look-up.
 * @why: on failure, what ld.so or the symbol look-up said.
 *
 * The child is a copy of this process without threads; it is given ten seconds. Nothing is left
 * behind.
 *
 * Return: 0, -ELIBBAD if it cannot be loaded (the child crashed, too), or -errno of making the
 * child; -ECANCELED: that cannot be told: the child was killed, or was not done in ten seconds, or
 * nothing can be loaded from where the image has to be for that.
 */
int trial_load(const void *image, size_t size, const char *symbol, const char *version, char *why,
	       size_t why_size);

#endif
