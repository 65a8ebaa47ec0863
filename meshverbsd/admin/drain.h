/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DRAIN_H
#define MD_DRAIN_H

#include "agent.h"

struct json_object;

/**
 * md_drain_carry_out - "drain" and "undrain", of who may give orders
 * @answer: gets "device" and "drained", or "error"
 *
 * What is drained is announced as down: processes at both ends move what they have there.
 */
void md_drain_carry_out(struct md_agent *agent, const struct md_order *order, struct json_object *answer);

/** md_drain_load - what an earlier agent was told; what is wrong with the file is logged */
void md_drain_load(struct md_agent *agent);

#endif
