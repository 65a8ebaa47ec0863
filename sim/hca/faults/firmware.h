/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_FIRMWARE_H
#define SIM_FIRMWARE_H

#include "state.h"

/**
 * firmware_wait() - what the driver does while the firmware of @dev executes a command: it sleeps, and no signal ends that.
 *
 * At most dev->firmware_at_once commands are executed at a time, in the order in which they came; others wait. Ends early when
 * the setting is changed to a shorter time meanwhile. Without the lock.
 */
void firmware_wait(struct sim_dev *dev, enum sim_firmware kind);

#endif
