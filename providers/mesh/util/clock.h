/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CLOCK_H
#define MESH_CLOCK_H

#include <stdint.h>

/** mesh_now_ns - CLOCK_BOOTTIME: deadlines pass while a host is suspended */
uint64_t mesh_now_ns(void);

#endif
