/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DRAIN_H
#define MD_DRAIN_H

#include "agent.h"

struct json_object;

/**
 * md_drain_carry_out - carry out "drain" or "undrain"; the caller has checked who gives the order
 * @answer: gets "device" and "drained", or "error"
 *
 * A drained device is announced as down, so processes at both ends move their connections away.
 */
void md_drain_carry_out(struct md_agent *agent, const struct md_order *order, struct json_object *answer);

/** md_drain_load - read the drained devices at the start; errors in the file are logged */
void md_drain_load(struct md_agent *agent);

#endif
