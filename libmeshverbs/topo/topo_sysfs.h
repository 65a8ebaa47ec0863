/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_TOPO_SYSFS_H
#define MV_TOPO_SYSFS_H

#include "topo.h"

/**
 * mv_sysfs_fill - add all RDMA devices below a sysfs root to the snapshot
 * @root: "/sys", or a directory of the same structure
 * @topo: without devices; if its netdevs are filled in, they map the names in gid_attrs/ndevs to interface indexes
 *
 * For agent and tool: a table of 256 entries takes up to 768 file reads. The plugin asks through verbs instead. Sparse
 * tables are normal: unused entries read as zero, and their attributes give EINVAL. An entry whose netdev is in another
 * namespace has ifindex 0. An attribute that cannot be read or parsed keeps its default, unless the device is then
 * unusable.
 *
 * Devices are sorted by name (mlx5_2 before mlx5_10), ports by number.
 *
 * Return: 0; -ENOENT: no class/infiniband (RDMA modules not loaded); -EMFILE, -ENFILE, -ENOMEM or another -errno of
 * opening the class directory; then the snapshot has no devices.
 */
int mv_sysfs_fill(struct mv_topo *topo, const char *root);

/**
 * mv_sysfs_fill_states - read the states of the snapshot's ports, and nothing else
 * @root: as for mv_sysfs_fill()
 *
 * Reads one file for each port. A state that cannot be read becomes IBV_PORT_NOP.
 *
 * Return: 0; -EMFILE, -ENFILE, -ENOMEM, or another -errno of opening @root; then some states may have been read.
 */
int mv_sysfs_fill_states(struct mv_topo *topo, const char *root);

/*
 * Parsers of attributes, for any bytes; exported for tests. @text ends in NUL. Results are written on success only.
 * Return: 0 or -EINVAL.
 */
/* "RoCE v2\n", "IB/RoCE v1\n". The kernel prints the latter for InfiniBand, too, where it means IB. */
int mv_sysfs_parse_gid_type(const char *text, enum mv_gid_type *ret_type);
int mv_sysfs_parse_link_layer(const char *text, uint8_t *ret_link_layer); /* "Ethernet\n" */
/* "80:00:00:48:fe:80:...\n": address of an IPoIB netdev: flags, QPN, and the GID of its port (RFC 4391, 9.1.1). */
int mv_sysfs_parse_ipoib_address(const char *text, union ibv_gid *ret_gid);
int mv_sysfs_parse_state(const char *text, uint8_t *ret_state); /* "4: ACTIVE\n" */
int mv_sysfs_parse_rate(const char *text, uint32_t *ret_mbps); /* "100 Gb/sec (4X EDR)\n" */
int mv_sysfs_parse_guid(const char *text, uint64_t *ret_guid); /* "0c42:a103:0065:1c3e\n" */
int mv_sysfs_parse_gid(const char *text, union ibv_gid *ret_gid); /* eight groups and "\n" */
int mv_sysfs_parse_number(const char *text, uint32_t max,
			  uint32_t *ret_number); /* "17\n", "0x11\n"; up to max */

#endif
