/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIMMESH_SURVIVE_H
#define SIMMESH_SURVIVE_H

#include <stdbool.h>

#include "context.h"

/*
 * Sets `survive`. In a program the setting never changes, so the plugin's threads read it without a lock. A test changes it between
 * two of its cases, when no connection is left: TSan is not to call that a race of the plugin.
 */
__attribute__((noinline, no_sanitize("thread"), unused)) static void set_survive(enum mv_survive survive)
{
	mesh_root.config.survive = survive;
}

#endif
