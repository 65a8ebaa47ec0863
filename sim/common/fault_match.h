/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which fault rule of a host hits a packet; for whoever sends and receives for it. */
#ifndef SIM_FAULT_MATCH_H
#define SIM_FAULT_MATCH_H

#include "state.h"

/**
 * fault_match() - what happens to a packet; the first rule that hits decides, and counts it.
 * @dir: SIM_FAULT_TX or _RX. @port: from 1. @qpn: of the local queue pair. @opcode, @syndrome: of
 * BTH and AETH.
 * @delay_us: for SIM_FAULT_DELAY.
 */
enum sim_fault_action fault_match(struct sim_state *st, uint8_t dir, uint32_t dev, uint32_t port,
				  uint32_t qpn, uint8_t opcode, uint8_t syndrome,
				  uint32_t *delay_us);

#endif
