/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_MESH_PATIENCE_H
#define SIM_MESH_PATIENCE_H

/*
 * How long a test waits for an event before the test fails. Example: a process with nice 19 beside eight busy processes
 * on two processors gets a second of processor time in these minutes. ctest ends a test after 720 s.
 */
#define PATIENCE_S  300
#define PATIENCE_MS (PATIENCE_S * 1000)
#define PATIENCE_NS (PATIENCE_S * 1000000000ull)

#endif
