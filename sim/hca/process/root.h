/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_ROOT_H
#define SIM_ROOT_H

#include "hca.h"

/**
 * state_map() - map the host's state file.
 * @ret_fd: the open file, on success.
 *
 * Return: NULL without SIM_STATE in the environment, silently; or, with a line on stderr, if the
 * file is not usable.
 */
struct sim_state *state_map(int *ret_fd);

/** root_peek() - the HCA of the process if there is one; only for callers that hold one of its
 * files. */
struct hca *root_peek(void);

#endif
