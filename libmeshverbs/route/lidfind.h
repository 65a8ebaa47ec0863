/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_LIDFIND_H
#define MV_LIDFIND_H

#include "directory.h"

/*
 * Connections of InfiniBand without a GRH name their peer by a LID, which is unique in one subnet only. Here LIDs become the GIDs of
 * the two ports (index 0), by which all else knows the two ends. Pure functions of a directory.
 */

struct mv_lid_ends {
	union ibv_gid local, remote;
};

#define MV_LID_UNICAST_MAX 0xbfff /* IBTA 4.1.3 */

/** mv_lid_is_unicast - may it be one port's? A port that no subnet manager has seen has 0 or 0xffff */
static inline bool mv_lid_is_unicast(uint16_t lid)
{
	return lid && lid <= MV_LID_UNICAST_MAX;
}

/**
 * mv_lid_find - which ports does a connection by LID join?
 * @device: the program's; NUL-terminated
 * @dlid: the LID that the program gave as destination
 * @ret: written on success
 *
 * Two fabrics may have one subnet prefix, the default one, and equal LIDs. So a port that has the LID is the one that is meant if its
 * beacons are heard on the program's port. A port that could be heard there and is not is on another fabric; of one without IPoIB, or
 * that is excluded, nothing is known. Where one of the two is down, exactly one port may have the LID, and this host's own ports
 * with that prefix have to hear the same ports.
 *
 * LIDs of a port beyond its base LID (LMC) are not known.
 *
 * Return: 0; -ENODEV: the program's port is not in the directory, or not of InfiniBand; -EINVAL: no unicast LID; -EALREADY: this host's
 * own; -ENOENT: nobody is known to have it; -EACCES: a port of another host has it, and the directory has no GIDs of that port, which is so
 * without a fleet key; -ENOTUNIQ: which port is meant is not known.
 */
int mv_lid_find(const struct mv_directory *dir, const char *device, uint8_t port_num, uint16_t dlid, struct mv_lid_ends *ret);

/**
 * mv_lid_other_fabric - are two ports of InfiniBand on different fabrics, for beacons of the one would be heard on the other?
 * @local_rail: of host 0
 *
 * False where that is not known.
 */
bool mv_lid_other_fabric(const struct mv_directory *dir, uint32_t local_rail, uint32_t remote_rail);

/** mv_lid_error_text - what mv_lid_find() returned, as a sentence part for people */
const char *mv_lid_error_text(int err);

#endif
