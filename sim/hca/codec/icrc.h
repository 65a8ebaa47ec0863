/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SIM_ICRC_H
#define SIM_ICRC_H

#include <stddef.h>
#include <stdint.h>

/**
 * icrc_update() - continue a CRC-32 (polynomial 0x04c11db7, reflected, as in Ethernet) over @len
 * bytes.
 * @crc: 0xffffffff to start; the complement of the last result is the checksum.
 *
 * Pure, callable from any thread.
 */
uint32_t icrc_update(uint32_t crc, const void *data, size_t len);

/**
 * icrc_roce_v2() - invariant CRC of a RoCE v2 packet.
 * @ip: its IPv4 or IPv6 header, UDP and BTH following.
 * @len: bytes from @ip to the end of the padded payload, ICRC not included; at least IP, UDP and
 * BTH.
 *
 * The fields that a router may change count as ones (InfiniBand Architecture, annex A17): IPv4 TOS,
 * TTL and checksum, IPv6 traffic class, flow label and hop limit, UDP checksum, and byte 4 of the
 * BTH; 8 bytes of ones precede all. IPv4 options are not allowed.
 *
 * Return: the value whose least significant byte goes on the wire first.
 */
uint32_t icrc_roce_v2(const void *ip, size_t len);

/** icrc_roce_v1() - the same for RoCE v1; @grh: the GRH, BTH following. */
uint32_t icrc_roce_v1(const void *grh, size_t len);

#endif
