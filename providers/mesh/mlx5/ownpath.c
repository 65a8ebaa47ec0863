// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ownpath.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "gid.h"
#include "topo.h"

#define ATTEMPTS 8 /* GIDs tried, at most */
#define NO_PORT  1 /* the port is not active; nothing was tried */
#define ENTRIES  512

static int try_entry(struct ibv_context *verbs, const struct ibv_gid_entry *entry, int (*try)(void *arg, const struct ibv_ah_attr *ah),
		     void *arg)
{
	struct ibv_ah_attr ah = {.port_num = (uint8_t)entry->port_num};
	struct ibv_port_attr port;

	memset(&port, 0, sizeof(port));
	if (mesh_real_port(verbs, ah.port_num, &port) || port.state != IBV_PORT_ACTIVE)
		return NO_PORT;
	if (entry->gid_type == IBV_GID_TYPE_IB) {
		ah.dlid = port.lid;
	} else {
		ah.is_global = 1;
		ah.grh = (struct ibv_global_route){.dgid = entry->gid, .sgid_index = (uint8_t)entry->gid_index, .hop_limit = 1};
	}
	return try(arg, &ah);
}

/* IPv4 addresses are tried first: the route of such an address to itself is the simplest. */
static bool is_ipv4(const struct ibv_gid_entry *entry)
{
	return entry->gid_type == IBV_GID_TYPE_ROCE_V2 && mv_gid_family(&entry->gid) == MV_FAMILY_IPV4;
}

int mesh_ownpath_try(struct ibv_context *verbs, int (*try)(void *arg, const struct ibv_ah_attr *ah), void *arg)
{
	struct ibv_gid_entry *entries = calloc(ENTRIES, sizeof(*entries));
	int err = -EHOSTUNREACH, attempts = 0, result;
	ssize_t n, i, pass;

	if (!entries)
		return -ENOMEM;
	n = mesh_root.lib.query_gid_table(verbs, entries, ENTRIES, 0, sizeof(*entries));
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < n && err && attempts < ATTEMPTS; i++)
			if (is_ipv4(&entries[i]) == !pass && entries[i].gid_index <= UINT8_MAX) {
				result = try_entry(verbs, &entries[i], try, arg);
				if (result == NO_PORT)
					continue;
				err = result;
				attempts++;
			}
	free(entries);
	return err;
}
