/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The text form of packet faults, as `sim fault` takes and shows it. Pure. */
#ifndef SIM_FAULT_RULE_H
#define SIM_FAULT_RULE_H

#include <stddef.h>

#include "state.h"

/**
 * fault_parse() - "drop dir=rx class=ack,nak nth=3" into a rule.
 * @text: is cut up.
 * @f: `action` is set too; the caller who publishes the rule copies it last.
 * @why: what is wrong, on failure.
 *
 * Return: 0, or -EINVAL with *@why set.
 */
int fault_parse(struct sim_fault *f, char *text, char *why, size_t why_size);

/** fault_format() - a rule and its counts as one line without line feed; as snprintf(). */
int fault_format(char *out, size_t size, struct sim_fault *f);

#endif
