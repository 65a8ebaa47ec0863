/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "standin.h"

#include <errno.h>

#include "pathint.h"

static bool may_serve(const struct mv_directory *dir, const struct mv_stand_in_request *request, uint32_t own,
		      uint32_t rail)
{
	const struct mv_dir_rail *there = &dir->rails[rail];

	return rail != own && is_up(there) && !(there->flags & MV_RAIL_EXCLUDED) &&
	       there->link_layer == dir->rails[own].link_layer &&
	       !mv_config_list_match(request->exclude, there->device);
}

static bool any_may_serve(const struct mv_directory *dir, const struct mv_stand_in_request *request, uint32_t own)
{
	for (uint32_t r = 0; r < dir->hosts[0].n_rails; r++)
		if (may_serve(dir, request, own, r))
			return true;
	return false;
}

/* Peers know a connection by a GID of the program's port. A GID in grace is no entry of its table. */
static bool has_gid(const struct mv_directory *dir, const struct mv_dir_rail *rail)
{
	for (uint32_t g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++)
		if (dir->gids[g].type != MV_GID_TYPE_UNKNOWN)
			return true;
	return false;
}

/* Return: the serving rail towards a host; -1: none. */
static ssize_t towards(const struct mv_directory *dir, const struct mv_stand_in_request *request, uint32_t own,
		       uint32_t host)
{
	const struct mv_path_request wanted = {.device = request->device, .port_num = request->port_num};
	struct mv_path paths[MV_PATH_FIND_MAX];
	size_t n = mv_path_find(dir, &wanted, host, UINT32_MAX, paths, MV_PATH_FIND_MAX);

	for (size_t i = 0; i < n; i++)
		if (may_serve(dir, request, own, paths[i].local_rail))
			return paths[i].local_rail;
	return -1;
}

static bool has_any_gid(const struct mv_directory *dir, const struct mv_dir_host *host)
{
	for (uint32_t r = host->first_rail; r < host->first_rail + host->n_rails; r++)
		if (dir->rails[r].n_gids)
			return true;
	return false;
}

int mv_stand_in_find(const struct mv_directory *dir, const struct mv_stand_in_request *request,
		     struct mv_stand_in *ret)
{
	const struct mv_path_request own_port = {.device = request->device, .port_num = request->port_num};
	ssize_t own = mv_path_own_rail(dir, &own_port), rail;
	uint32_t n_tried = 0; /* rails */

	if (own < 0)
		return -ENODEV;
	if (dir->rails[own].flags & MV_RAIL_EXCLUDED || mv_config_list_match(request->exclude, request->device))
		return -EPERM;
	if (!has_gid(dir, &dir->rails[own]))
		return -EADDRNOTAVAIL;
	if (!any_may_serve(dir, request, (uint32_t)own))
		return -ENETDOWN;
	for (uint32_t h = 1; h < dir->header->n_hosts && n_tried < MV_STAND_IN_RAILS; h++) {
		if (dir->hosts[h].agent_version != request->agent_version || !has_any_gid(dir, &dir->hosts[h]))
			continue;
		n_tried += dir->hosts[h].n_rails;
		rail = towards(dir, request, (uint32_t)own, h);
		if (rail < 0)
			continue;
		*ret = (struct mv_stand_in){.rail = (uint32_t)rail, .host = h};
		return 0;
	}
	return -EHOSTUNREACH;
}

/* Megabits per second of one lane, as the kernel's rate_show() (drivers/infiniband/core/sysfs.c). */
static const struct {
	uint32_t mbps;
	uint8_t speed; /* of struct ibv_port_attr */
} lanes[] = {{100000, 128}, {50000, 64}, {25000, 32}, {14000, 16}, {10000, 4}, {5000, 2}, {2500, 1}};

/* The common widths first. */
static const struct {
	uint32_t n_lanes;
	uint8_t width;
} widths[] = {{4, 2}, {1, 1}, {2, 16}, {8, 4}, {12, 8}};

bool mv_port_speed(uint32_t rate_mbps, uint8_t *ret_width, uint8_t *ret_speed)
{
	for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++)
		for (size_t l = 0; l < sizeof(lanes) / sizeof(lanes[0]); l++)
			if (rate_mbps && rate_mbps == widths[w].n_lanes * lanes[l].mbps) {
				*ret_width = widths[w].width;
				*ret_speed = lanes[l].speed;
				return true;
			}
	return false;
}
