/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_FIRMWARE_H
#define SIM_FIRMWARE_H

#include "state.h"

/**
 * firmware_wait() - what the driver does while the firmware of @dev executes a command: it sleeps, and no signal ends that.
 *
 * Others do not wait for it: several commands of a device are executed at a time. Ends early when the time is made shorter meanwhile. Without
 * the lock.
 */
void firmware_wait(const struct sim_dev *dev, enum sim_firmware kind);

#endif
