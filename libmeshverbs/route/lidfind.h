/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_LIDFIND_H
#define MV_LIDFIND_H

#include "directory.h"

/*
 * InfiniBand connections without a GRH name their peer by a LID, which is unique in one subnet only. These functions
 * map the LIDs of a connection to the GIDs (index 0) of its two ports, by which all other code identifies the ends.
 * Pure functions of a directory.
 */

struct mv_lid_ends {
	union ibv_gid local, remote;
};

#define MV_LMC_MAX 7 /* IBTA vol. 1, section 4.1.3; a power of two less one */

/** mv_lid_is_of - is it one of a port's LIDs? @base, @lmc: of the port */
static inline bool mv_lid_is_of(uint16_t base, uint8_t lmc, uint16_t lid)
{
	return base >> (lmc & MV_LMC_MAX) == lid >> (lmc & MV_LMC_MAX);
}

#define MV_LID_UNICAST_MAX 0xbfff /* IBTA vol. 1, section 4.1.3 */

/** mv_lid_is_unicast - can it be the LID of one port? Before a subnet manager has configured it, a port has 0 or 0xffff. */
static inline bool mv_lid_is_unicast(uint16_t lid)
{
	return lid && lid <= MV_LID_UNICAST_MAX;
}

/**
 * mv_lid_find - which two ports does a connection by LID join?
 * @device: the program's device; NUL-terminated
 * @dlid: destination LID from the program
 * @ret: written on success only
 *
 * Two fabrics may have the same (default) subnet prefix, and equal LIDs. The program's own LID is that of its own port.
 * Otherwise a port with the LID is the destination if its beacons are heard on the program's port. If a port could be
 * heard there and is not, it is on another fabric. Of a port without IPoIB, or an excluded one, this is not known. If one
 * of the two ports is down, the LID has to be unique in the directory, and all own ports with that prefix have to hear
 * the same ports.
 *
 * A port with an LMC has several LIDs, and each of them means that port. The directory's LIDs are some seconds old at most, also that of
 * the program's port. Any thread.
 *
 * Return: 0; -ENODEV: the program's port is not in the directory, or not InfiniBand; -EINVAL: not a unicast LID;
 * -EALREADY: another port of this host has the LID, and it is not known whether on the same fabric; -ENOENT: no known
 * port has it; -EACCES: a port of another host has it, but the directory has no GIDs of that port, because this host has
 * no fleet key; -ENOTUNIQ: ambiguous.
 */
int mv_lid_find(const struct mv_directory *dir, const char *device, uint8_t port_num, uint16_t dlid, struct mv_lid_ends *ret);

/**
 * mv_lid_other_fabric - are two InfiniBand ports known to be on different fabrics, since each could hear the other and
 * does not?
 * @local_rail: of host 0
 *
 * Return: false: not known.
 */
bool mv_lid_other_fabric(const struct mv_directory *dir, uint32_t local_rail, uint32_t remote_rail);

/**
 * mv_lid_proven_apart - do beacons prove that two InfiniBand ports are on different fabrics?
 * @local_rail: of host 0
 * @remote_rail: of another host
 *
 * More than mv_lid_other_fabric(): another port of this host hears @remote_rail, so its beacons are sent. @local_rail hears
 * ports, so it receives beacons; and none of them is heard by such another port. One missing link is no proof: an agent
 * does not note all links of a fabric with thousands of hosts (MD_SIGHTINGS_OF_LINK).
 *
 * Beacons go by the partitions of IPoIB netdevs, of which the directory does not tell: the caller has to know that there
 * is only one. Return: false: not known.
 */
bool mv_lid_proven_apart(const struct mv_directory *dir, uint32_t local_rail, uint32_t remote_rail);

/** mv_lid_error_text - part of a sentence for people; @err: result of mv_lid_find(). Constant string */
const char *mv_lid_error_text(int err);

#endif
