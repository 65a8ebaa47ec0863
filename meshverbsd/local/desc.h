/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DESC_H
#define MD_DESC_H

#include "directory.h"
#include "bounds.h"

/*
 * The description of a host: its rails with their GIDs, as they stand in the directory, only that counts begin
 * at zero for each host: rails[].first_gid points into gids[], rails[].host is 0, gids[].rail into rails[].
 * Immutable once made; a host that changes gets another one.
 */
struct md_desc {
	uint32_t n_rails, n_gids;
	struct mv_dir_rail *rails; /* inside this allocation, as gids */
	struct mv_dir_gid *gids; /* ordered by rail */
};

/* Bytes enough for any encoded description: 4, then per rail 2 names, 17 and its GIDs of 24. */
#define MD_DESC_BYTES_MAX (4 + MD_RAILS_MAX * (1 + 63 + 1 + 15 + 17) + MD_GIDS_MAX * 24)

/**
 * md_desc_new - room for a description, all zero
 *
 * Return: it, to be released with free(); NULL without memory.
 */
struct md_desc *md_desc_new(uint32_t n_rails, uint32_t n_gids);

/** md_desc_bytes - what it takes in memory */
size_t md_desc_bytes(const struct md_desc *desc);

/** md_desc_n_up - how many of its rails are up */
uint32_t md_desc_n_up(const struct md_desc *desc);

/**
 * md_desc_encode - write a description
 * @desc: at most MD_RAILS_MAX rails, MD_GIDS_MAX GIDs
 * @buf: MD_DESC_BYTES_MAX
 *
 * Return: its length.
 */
size_t md_desc_encode(const struct md_desc *desc, uint8_t *buf);

/**
 * md_desc_decode - read and check a description
 * @ret: to be released with free()
 *
 * Refuses what is longer or shorter than it says, more rails or GIDs than the limits, names with anything but
 * printable ASCII or with '/', values outside their enums and ranges, zero and multicast GIDs, and a port twice.
 *
 * Return: 0, -EBADMSG, -ENOMEM.
 */
int md_desc_decode(const uint8_t *buf, size_t len, struct md_desc **ret);

#endif
