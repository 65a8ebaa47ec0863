/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_STANDIN_H
#define MV_STANDIN_H

#include "config.h"
#include "directory.h"

/* Which rail serves the connections of a port that is down? Pure functions, any thread. */

/* Rails of other hosts that are searched for a path at most: a neighbour may invent them, and the caller waits for the result. */
#define MV_STAND_IN_RAILS 8192

struct mv_stand_in_request {
	const char *device; /* the program's; NUL-terminated */
	uint8_t port_num;
	uint32_t agent_version; /* only hosts whose agent has this version count: MV_CTL_VERSION */
	const struct mv_config_list *exclude; /* devices that serve nobody, besides those with MV_RAIL_EXCLUDED */
};

struct mv_stand_in {
	uint32_t rail; /* the serving rail, of host 0; index in the directory */
	uint32_t host; /* a host with an agent to which the serving rail has a path */
};

/**
 * mv_stand_in_find - find the rail that would serve the connections of a port
 * @ret: written on success only
 *
 * The caller knows that the port is down, so MV_RAIL_UP of the port itself does not count: the directory may be some
 * milliseconds old. The serving rail is up, not excluded, of the port's link layer, and has a path (mv_path_find())
 * to a host with an agent. Of several serving rails the first path of the first such host decides, so the result
 * depends on the directory only.
 *
 * Return: 0; -ENODEV: the port is not in the directory; -EPERM: the port is excluded; -EADDRNOTAVAIL: the directory has
 * no GID of the port by which agents could know its connections; -ENETDOWN: no other rail is up; -EHOSTUNREACH: no
 * other rail reaches one of the hosts with an agent that have the first MV_STAND_IN_RAILS rails.
 */
int mv_stand_in_find(const struct mv_directory *dir, const struct mv_stand_in_request *request,
		     struct mv_stand_in *ret);

/**
 * mv_port_speed - width and speed of a port, as in struct ibv_port_attr, from its rate
 * @rate_mbps: as /sys has it, such as 100000 for 4x EDR
 * @ret_width, @ret_speed: written on success only
 *
 * Prefers 4x, so that a rate with several spellings (1x NDR, 4x EDR) has the common one. The product is the rate.
 *
 * Return: false: no pair has that rate.
 */
bool mv_port_speed(uint32_t rate_mbps, uint8_t *ret_width, uint8_t *ret_speed);

#endif
