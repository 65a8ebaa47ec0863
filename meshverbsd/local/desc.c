/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "desc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "topo.h"

#define RAIL_FLAGS (MV_RAIL_UP | MV_RAIL_EXCLUDED | MV_RAIL_DRAINED)
/* The LMC has the upper three bits of the byte of flags. Earlier agents send 0 there, and do not look at these bits. */
#define LMC_SHIFT 5

_Static_assert(sizeof(struct md_desc) % _Alignof(struct mv_dir_gid) == 0, "GIDs follow at once");

struct md_desc *md_desc_new(uint32_t n_rails, uint32_t n_gids)
{
	size_t gids_bytes = n_gids * sizeof(struct mv_dir_gid);
	struct md_desc *desc;

	/* GIDs first: they are aligned to 8 bytes, rails to 4. */
	desc = calloc(1, sizeof(*desc) + gids_bytes + n_rails * sizeof(struct mv_dir_rail));
	if (!desc)
		return NULL;
	desc->n_rails = n_rails;
	desc->n_gids = n_gids;
	desc->gids = (void *)(desc + 1);
	desc->rails = (void *)(desc->gids + n_gids);
	return desc;
}

size_t md_desc_bytes(const struct md_desc *desc)
{
	return sizeof(*desc) + desc->n_rails * sizeof(struct mv_dir_rail) +
	       desc->n_gids * sizeof(struct mv_dir_gid);
}

uint32_t md_desc_n_up(const struct md_desc *desc)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < desc->n_rails; r++)
		n += desc->rails[r].flags & MV_RAIL_UP;
	return n;
}

static void put_gid(struct md_writer *w, const struct mv_dir_gid *gid)
{
	md_put(w, gid->gid.raw, sizeof(gid->gid.raw));
	md_put32(w, gid->index);
	md_put16(w, gid->vlan_id);
	md_put8(w, gid->type);
	md_put8(w, gid->prefix_len);
}

static void put_rail(struct md_writer *w, const struct mv_dir_rail *rail)
{
	md_put_text(w, rail->device);
	md_put_text(w, rail->netdev);
	md_put32(w, rail->rate_mbps);
	md_put32(w, (uint32_t)rail->numa_node);
	md_put16(w, rail->lid);
	md_put16(w, rail->mtu_bytes);
	md_put8(w, rail->port);
	md_put8(w, rail->link_layer);
	md_put8(w, (uint8_t)((rail->flags & ((1u << LMC_SHIFT) - 1)) | (unsigned int)rail->lmc << LMC_SHIFT));
	md_put16(w, (uint16_t)rail->n_gids);
}

size_t md_desc_encode(const struct md_desc *desc, uint8_t *buf)
{
	struct md_writer w = {.buf = buf, .size = MD_DESC_BYTES_MAX};

	md_put16(&w, (uint16_t)desc->n_rails);
	md_put16(&w, (uint16_t)desc->n_gids);
	for (uint32_t r = 0; r < desc->n_rails; r++) {
		const struct mv_dir_rail *rail = &desc->rails[r];

		put_rail(&w, rail);
		for (uint32_t g = 0; g < rail->n_gids; g++)
			put_gid(&w, &desc->gids[rail->first_gid + g]);
	}
	return w.len;
}

static bool name_is_good(const char *name, bool may_be_empty)
{
	return (may_be_empty || *name) && !strchr(name, '/');
}

static bool mtu_is_good(uint16_t mtu_bytes)
{
	switch (mtu_bytes) {
	case 0:
	case 256:
	case 512:
	case 1024:
	case 2048:
	case 4096:
		return true;
	}
	return false;
}

static bool rail_is_good(const struct md_desc *desc, uint32_t r)
{
	const struct mv_dir_rail *rail = &desc->rails[r];

	for (uint32_t i = 0; i < r; i++)
		if (desc->rails[i].port == rail->port &&
		    !strcmp(desc->rails[i].device, rail->device))
			return false;
	return name_is_good(rail->device, false) && name_is_good(rail->netdev, true) &&
	       rail->numa_node >= -1 && rail->port && mtu_is_good(rail->mtu_bytes) &&
	       rail->link_layer <= IBV_LINK_LAYER_ETHERNET &&
	       !((rail->flags & MV_RAIL_UP) && (rail->flags & MV_RAIL_DRAINED));
}

static void get_rail(struct md_reader *r, struct mv_dir_rail *rail)
{
	uint8_t flags;

	md_get_text(r, rail->device, sizeof(rail->device));
	md_get_text(r, rail->netdev, sizeof(rail->netdev));
	rail->rate_mbps = md_get32(r);
	rail->numa_node = (int32_t)md_get32(r);
	rail->lid = md_get16(r);
	rail->mtu_bytes = md_get16(r);
	rail->port = md_get8(r);
	rail->link_layer = md_get8(r);
	flags = md_get8(r);
	rail->flags = flags & RAIL_FLAGS; /* a later agent may set others */
	rail->lmc = flags >> LMC_SHIFT;
	rail->n_gids = md_get16(r);
}

static bool gid_is_good(const struct mv_dir_gid *gid)
{
	enum mv_gid_family family = mv_gid_family(&gid->gid);

	return family != MV_FAMILY_NONE && family != MV_FAMILY_MULTICAST && (gid->index <= UINT16_MAX || mv_dir_gid_in_grace(gid)) &&
	       gid->type <= MV_GID_TYPE_ROCE_V2 && gid->prefix_len <= 128 &&
	       (gid->vlan_id < 0xfff || gid->vlan_id == MV_VLAN_NONE);
}

static bool get_gid(struct md_reader *r, struct mv_dir_gid *gid)
{
	md_get_bytes(r, gid->gid.raw, sizeof(gid->gid.raw));
	gid->index = md_get32(r);
	gid->vlan_id = md_get16(r);
	gid->type = md_get8(r);
	gid->prefix_len = md_get8(r);
	return !r->bad && gid_is_good(gid);
}

static bool get_rails(struct md_reader *reader, struct md_desc *desc)
{
	uint32_t n_gids = 0;

	for (uint32_t r = 0; r < desc->n_rails; r++) {
		struct mv_dir_rail *rail = &desc->rails[r];

		get_rail(reader, rail);
		rail->first_gid = n_gids;
		if (reader->bad || !rail_is_good(desc, r) || rail->n_gids > desc->n_gids - n_gids)
			return false;
		for (uint32_t g = 0; g < rail->n_gids; g++, n_gids++) {
			desc->gids[n_gids].rail = r;
			if (!get_gid(reader, &desc->gids[n_gids]))
				return false;
		}
	}
	return n_gids == desc->n_gids && reader->at == reader->len;
}

int md_desc_decode(const uint8_t *buf, size_t len, struct md_desc **ret)
{
	struct md_reader reader = {.buf = buf, .len = len};
	uint32_t n_rails = md_get16(&reader);
	uint32_t n_gids = md_get16(&reader);
	struct md_desc *desc;

	if (reader.bad || n_rails > MD_RAILS_MAX || n_gids > MD_GIDS_MAX)
		return -EBADMSG;
	desc = md_desc_new(n_rails, n_gids);
	if (!desc)
		return -ENOMEM;
	if (!get_rails(&reader, desc)) {
		free(desc);
		return -EBADMSG;
	}
	*ret = desc;
	return 0;
}
