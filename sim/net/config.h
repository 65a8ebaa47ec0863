/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a host is made of, as the launcher writes it down for simhostd. */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include <limits.h>
#include <linux/if.h>
#include <stdint.h>
#include <sys/un.h>

#include "state.h"

#define CONFIG_MAX_STAND_INS 64

/* A netdev that plays a VLAN of another one where the kernel has no 802.1Q. */
struct config_stand_in {
	char netdev[IFNAMSIZ];
	char parent[IFNAMSIZ];
	uint16_t vlan_id;
};

struct config {
	char host[64];
	char state_path[PATH_MAX];
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	uint64_t seed;
	uint32_t n_devs, n_lids, n_stand_ins;
	struct sim_dev devs[SIM_MAX_DEVS]; /* everything that is fixed, one port each, its netdev by
					      name */
	struct sim_lid lids[SIM_MAX_LIDS];
	struct config_stand_in stand_ins[CONFIG_MAX_STAND_INS];
};

/**
 * config_read() - parse the file at @path into @c.
 *
 * One statement per line: host NAME; state PATH; socket PATH; seed N; dev NAME KEY=VALUE ...; vlan
 * NETDEV PARENT ID; lid LID ADDRESS. The file is written by the launcher, so an error is a defect
 * there; it is printed to stderr with its line number.
 *
 * Return: 0, -EINVAL (said on stderr), or the -errno of opening or reading the file (said on
 * stderr).
 */
int config_read(struct config *c, const char *path);

#endif
