/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_DIRECTORY_LAYOUT_H
#define MV_DIRECTORY_LAYOUT_H

#include <string.h>

#include "directory.h"

/* Layout of the arrays in a directory file; shared by directory*.c only. */
struct mv_dir_layout {
	uint64_t hosts_at, rails_at, gids_at, order_at, links_at, size_bytes;
};

/* Counts below 2^32 cannot overflow 64 bits here. */
static inline void mv_dir_layout(uint32_t n_hosts, uint32_t n_rails, uint32_t n_gids,
				 uint32_t n_links, struct mv_dir_layout *ret)
{
#define MV_DIR_ALIGN(bytes) (((bytes) + 7) & ~7ull)
	ret->hosts_at = MV_DIR_ALIGN(sizeof(struct mv_dir_header));
	ret->rails_at = MV_DIR_ALIGN(ret->hosts_at + n_hosts * sizeof(struct mv_dir_host));
	ret->gids_at = MV_DIR_ALIGN(ret->rails_at + n_rails * sizeof(struct mv_dir_rail));
	ret->order_at = MV_DIR_ALIGN(ret->gids_at + n_gids * sizeof(struct mv_dir_gid));
	ret->links_at = MV_DIR_ALIGN(ret->order_at + n_gids * sizeof(uint32_t));
	ret->size_bytes = MV_DIR_ALIGN(ret->links_at + n_links * sizeof(struct mv_dir_link));
#undef MV_DIR_ALIGN
}

/* Orders by GID bytes, then by position. @a and @b point to indexes in @gids. */
static inline int mv_dir_order_cmp(const void *a, const void *b, const void *gids)
{
	const struct mv_dir_gid *table = gids;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int order = memcmp(table[x].gid.raw, table[y].gid.raw, sizeof(table[x].gid.raw));

	return order ? order : (x > y) - (x < y);
}

static inline int mv_dir_link_cmp(const void *a, const void *b)
{
	const struct mv_dir_link *x = a, *y = b;

	if (x->local_rail != y->local_rail)
		return x->local_rail < y->local_rail ? -1 : 1;
	return (x->remote_rail > y->remote_rail) - (x->remote_rail < y->remote_rail);
}

#endif
