/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DESC_H
#define MD_DESC_H

#include "directory.h"
#include "bounds.h"

/*
 * Description of a host: its rails and GIDs, as in the directory, but counted from zero for each host:
 * rails[].first_gid is an index in gids[], gids[].rail is an index in rails[], rails[].host is 0. Immutable once made;
 * when a host changes, a new one replaces it.
 */
struct md_desc {
	uint32_t n_rails, n_gids;
	struct mv_dir_rail *rails; /* inside this allocation, as are @gids */
	struct mv_dir_gid *gids; /* ordered by rail */
};

/* Largest encoded description: 4 bytes, for each rail 2 names and 17 bytes, for each GID 24 bytes. */
#define MD_DESC_BYTES_MAX (4 + MD_RAILS_MAX * (1 + 63 + 1 + 15 + 17) + MD_GIDS_MAX * 24)

/**
 * md_desc_new - allocate a description, zeroed
 *
 * Return: release with free(); NULL: no memory.
 */
struct md_desc *md_desc_new(uint32_t n_rails, uint32_t n_gids);

/** md_desc_bytes - bytes of memory that a description takes */
size_t md_desc_bytes(const struct md_desc *desc);

/** md_desc_n_up - number of rails that are up */
uint32_t md_desc_n_up(const struct md_desc *desc);

/**
 * md_desc_encode - encode a description
 * @desc: at most MD_RAILS_MAX rails, MD_GIDS_MAX GIDs
 * @buf: MD_DESC_BYTES_MAX
 *
 * Return: its length.
 */
size_t md_desc_encode(const struct md_desc *desc, uint8_t *buf);

/**
 * md_desc_decode - parse and check a description
 * @ret: written on success only; release with free()
 *
 * Refuses: a length that does not fit; too many rails or GIDs; names that are not printable ASCII, or contain '/';
 * values outside their ranges; zero and multicast GIDs; a port that is listed twice.
 *
 * Return: 0; -EBADMSG; -ENOMEM.
 */
int md_desc_decode(const uint8_t *buf, size_t len, struct md_desc **ret);

#endif
