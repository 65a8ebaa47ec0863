/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The state machine of queue pairs: which attributes a transition needs and allows. */
#ifndef SIM_QP_STATE_H
#define SIM_QP_STATE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * qp_modify_ok() - is this modify allowed?
 * @type: IBV_QPT_RC, _UC or _UD. @from, @to: IBV_QPS_*; the same for a modify that leaves the state
 * alone.
 * @mask: IBV_QP_*; IBV_QP_STATE does not matter.
 *
 * The rules are those of the InfiniBand specification, volume 1, section 11.2.5.2 (table 91), as
 * the kernel's verbs core applies them to every device. Pure.
 */
bool qp_modify_ok(uint8_t type, uint8_t from, uint8_t to, uint32_t mask);

#endif
