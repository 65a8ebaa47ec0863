/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The part of a host's /sys that changes. Files are replaced, never written in place, so a reader
 * sees the old or the new text. What the launcher wrote once is in launcher/sysfs.py.
 */
#ifndef SIM_SYSFS_OUT_H
#define SIM_SYSFS_OUT_H

#include <stdint.h>

#include "state.h"

/**
 * sysfs_port_init() - the state and an empty GID table of port 1 of device @dev.
 *
 * Return: 0 or -errno.
 */
int sysfs_port_init(const char *dev, const struct sim_port *p);

/** sysfs_port_gid() - entry @i of the table, with the name of its netdev ("" for none). Return: 0
 * or -errno. */
int sysfs_port_gid(const char *dev, uint32_t i, const struct sim_gid *g, const char *netdev);

/** sysfs_port_state() - state, phys_state and rate. Return: 0 or -errno. */
int sysfs_port_state(const char *dev, const struct sim_port *p);

/** sysfs_port_counter() - one file below the port's directory, e.g. "counters/port_xmit_data".
 * Return: 0 or -errno. */
int sysfs_port_counter(const char *dev, const char *name, uint64_t value);

/** sysfs_netdev_new() - an entry in /sys/class/net for a netdev that appeared, unless it has one.
 */
void sysfs_netdev_new(const char *netdev);

/** sysfs_netdev_gone() - take that entry away again. */
void sysfs_netdev_gone(const char *netdev);

#endif
