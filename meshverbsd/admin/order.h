/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ORDER_H
#define MD_ORDER_H

#include "agent.h"

/** md_order_answer - md_controls.carry_out(): @arg is the agent; checks the permission, and carries out the order */
char *md_order_answer(void *arg, const struct md_order *order, const struct md_peer *peer, size_t *ret_len);

#endif
