/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TOPO_SYSFS_H
#define MV_TOPO_SYSFS_H

#include "topo.h"

/**
 * mv_sysfs_fill - add every RDMA device under a sysfs root to the snapshot
 * @root: "/sys", or another directory of the same shape
 * @topo: must have no devices; its netdevs, if already filled, turn the netdev names of
 *        gid_attrs/ndevs into interface indexes
 *
 * For tools: a table of 256 entries is 768 file reads. The plugin asks the kernel through verbs
 * instead. Sparse tables are normal: unused entries read as zero, their attributes give EINVAL; an
 * entry whose netdev is in another namespace keeps ifindex 0. An attribute that cannot be read or
 * parsed leaves its default; only what makes the whole device unusable is an error.
 *
 * Devices are sorted by name (mlx5_2 before mlx5_10), ports by number.
 *
 * Return: 0; -ENOENT when there is no class/infiniband (RDMA modules not loaded); -EMFILE, -ENFILE,
 * -ENOMEM or another -errno of opening the class directory, after which the snapshot has no
 * devices.
 */
int mv_sysfs_fill(struct mv_topo *topo, const char *root);

/**
 * mv_sysfs_fill_states - read the states of the ports that the snapshot has, and nothing else
 * @root: as for mv_sysfs_fill()
 *
 * One file for each port. A state that cannot be read becomes IBV_PORT_NOP.
 *
 * Return: 0; -EMFILE, -ENFILE, -ENOMEM, or another -errno of opening @root; then some states may have been read.
 */
int mv_sysfs_fill_states(struct mv_topo *topo, const char *root);

/*
 * The parsers behind it, for any bytes. @text ends in NUL. Results are written on success only.
 * Return: 0 or -EINVAL.
 */
/*
 * "RoCE v2\n", "IB/RoCE v1\n"; the kernel prints the latter on InfiniBand too, where it is to mean
 * IB
 */
int mv_sysfs_parse_gid_type(const char *text, enum mv_gid_type *ret_type);
int mv_sysfs_parse_link_layer(const char *text, uint8_t *ret_link_layer); /* "Ethernet\n" */
/* "80:00:00:48:fe:80:...\n": address of a netdev of IP over InfiniBand: flags, QPN, and the GID of its port (RFC 4391, 9.1.1) */
int mv_sysfs_parse_ipoib_address(const char *text, union ibv_gid *ret_gid);
int mv_sysfs_parse_state(const char *text, uint8_t *ret_state); /* "4: ACTIVE\n" */
int mv_sysfs_parse_rate(const char *text, uint32_t *ret_mbps); /* "100 Gb/sec (4X EDR)\n" */
int mv_sysfs_parse_guid(const char *text, uint64_t *ret_guid); /* "0c42:a103:0065:1c3e\n" */
int mv_sysfs_parse_gid(const char *text, union ibv_gid *ret_gid); /* eight groups and "\n" */
int mv_sysfs_parse_number(const char *text, uint32_t max,
			  uint32_t *ret_number); /* "17\n", "0x11\n"; up to max */

#endif
