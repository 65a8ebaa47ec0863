/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_SIMHOST_H
#define SIM_MESH_SIMHOST_H

#include <stdint.h>

/* Faults and quirks of the simulated host that a test runs in, without the command `sim fault`. What is not said to return fails the test. */

/** simhost_open - the host's shared state; once more is fine */
void simhost_open(void);
/** simhost_mute - no packet of a queue pair leaves any more, or reaches it */
void simhost_mute(uint32_t qpn);
/** simhost_unmute - all of them speak again */
void simhost_unmute(void);
/** simhost_late - completions of receives, and LAST_WQE_REACHED, come so much later at all NICs; 0: at once */
void simhost_late(uint32_t us);
/** simhost_lacks_ece - a device lacks these options of ECE; 0: it has all */
void simhost_lacks_ece(const char *device, uint32_t options);
/** simhost_quirks - what a device does otherwise: 1 << enum sim_quirk (state.h); 0: nothing */
void simhost_quirks(const char *device, uint32_t quirks);

#endif
