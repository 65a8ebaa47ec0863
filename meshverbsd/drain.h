/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DRAIN_H
#define MD_DRAIN_H

#include "agent.h"

/**
 * md_drain_answer - for struct md_controls: @arg is the agent; carries out "drain" and "undrain"
 *
 * What is drained is announced as down: processes at both ends move what they have there.
 */
char *md_drain_answer(void *arg, const struct md_order *order, const struct md_peer *peer, size_t *ret_len);

/** md_drain_load - what an earlier agent was told; what is wrong with the file is logged */
void md_drain_load(struct md_agent *agent);

#endif
