// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "gid_table.h"

/* In the order in which the kernel walks the types that a port supports. */
static const uint8_t roce_types[] = {SIM_GID_ROCE_V1, SIM_GID_ROCE_V2};
#define N_TYPES (sizeof(roce_types) / sizeof(roce_types[0]))

void gid_table_init(struct gid_table *t, uint32_t n)
{
	memset(t, 0, sizeof(*t));
	t->n = n < SIM_MAX_GIDS ? n : SIM_MAX_GIDS;
	t->n_default = N_TYPES < t->n ? N_TYPES : t->n;
}

static bool is_default(const struct gid_table *t, uint32_t i)
{
	return i < t->n_default;
}

static bool referred(const struct gid_table *t, uint32_t i)
{
	return t->in_use && t->in_use(t->arg, i);
}

/* The lowest slot that may be taken, or -1. A pending slot whose last user went away counts as
 * free. */
static int find_free(struct gid_table *t, bool want_default)
{
	for (uint32_t i = 0; i < t->n; i++) {
		if (is_default(t, i) != want_default)
			continue;
		if (t->use[i] == GID_SLOT_PENDING && !referred(t, i))
			t->use[i] = GID_SLOT_FREE;
		if (t->use[i] == GID_SLOT_FREE)
			return (int)i;
	}
	return -1;
}

static bool matches(const struct gid_table *t, uint32_t i, const uint8_t raw[16], uint32_t ifindex,
		    uint8_t type)
{
	const struct sim_gid *g = &t->gids[i];

	return t->use[i] == GID_SLOT_VALID && g->type == type && g->ifindex == ifindex &&
	       !memcmp(g->raw, raw, 16);
}

static void fill(struct gid_table *t, uint32_t i, const uint8_t raw[16],
		 const struct gid_owner *owner, uint8_t type)
{
	struct sim_gid *g = &t->gids[i];

	memset(g, 0, sizeof(*g));
	memcpy(g->raw, raw, 16);
	memcpy(g->mac, owner->mac, sizeof(g->mac));
	g->ifindex = owner->ifindex;
	g->vlan_id = owner->vlan_id;
	g->type = type;
	t->use[i] = GID_SLOT_VALID;
	t->changed[i] = 1;
}

static void empty(struct gid_table *t, uint32_t i)
{
	memset(&t->gids[i], 0, sizeof(t->gids[i]));
	t->use[i] = referred(t, i) ? GID_SLOT_PENDING : GID_SLOT_FREE;
	t->changed[i] = 1;
}

static bool has(const struct gid_table *t, const uint8_t raw[16], uint32_t ifindex, uint8_t type)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (matches(t, i, raw, ifindex, type))
			return true;
	return false;
}

int gid_table_add(struct gid_table *t, const uint8_t raw[16], const struct gid_owner *owner)
{
	static const uint8_t zero[16];
	int err = 0;

	if (!memcmp(raw, zero, 16))
		return -EINVAL;
	for (size_t k = 0; k < N_TYPES; k++) {
		int i;

		if (has(t, raw, owner->ifindex, roce_types[k]))
			continue;
		i = find_free(t, false);
		if (i < 0)
			err = -ENOSPC;
		else
			fill(t, (uint32_t)i, raw, owner, roce_types[k]);
	}
	return err;
}

void gid_table_del(struct gid_table *t, const uint8_t raw[16], const struct gid_owner *owner)
{
	for (size_t k = 0; k < N_TYPES; k++)
		for (uint32_t i = t->n_default; i < t->n; i++)
			if (matches(t, i, raw, owner->ifindex, roce_types[k]))
				empty(t, i);
}

static bool has_default(const struct gid_table *t, uint8_t type)
{
	for (uint32_t i = 0; i < t->n_default; i++)
		if (t->use[i] == GID_SLOT_VALID && t->gids[i].type == type)
			return true;
	return false;
}

void gid_table_set_default(struct gid_table *t, const struct gid_owner *owner)
{
	uint8_t raw[16];

	gid_link_local(raw, owner->mac);
	for (size_t k = 0; k < N_TYPES; k++) {
		int i;

		if (has_default(t, roce_types[k]))
			continue;
		i = find_free(t, true);
		if (i >= 0)
			fill(t, (uint32_t)i, raw, owner, roce_types[k]);
	}
}

void gid_table_del_netdev(struct gid_table *t, uint32_t ifindex)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->use[i] == GID_SLOT_VALID && t->gids[i].ifindex == ifindex)
			empty(t, i);
}

void gid_link_local(uint8_t raw[16], const uint8_t mac[6])
{
	memset(raw, 0, 16);
	raw[0] = 0xfe;
	raw[1] = 0x80;
	memcpy(raw + 8, mac, 3);
	raw[8] ^= 2;
	raw[11] = 0xff;
	raw[12] = 0xfe;
	memcpy(raw + 13, mac + 3, 3);
}

void gid_from_ipv4(uint8_t raw[16], const void *addr)
{
	memset(raw, 0, 10);
	raw[10] = raw[11] = 0xff;
	memcpy(raw + 12, addr, 4);
}
