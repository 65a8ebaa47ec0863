/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DIR_BUILD_H
#define MD_DIR_BUILD_H

#include "gidmap.h"

/*
 * Content of the directory file: this host as number 0; other hosts with the GIDs that they hold; a name without rails
 * for each address of the hosts file without known host; links. Pure.
 */
struct md_dir_build {
	struct mv_dir_content dir; /* points to the arrays below */
	struct mv_dir_host *hosts;
	struct mv_dir_rail *rails;
	struct mv_dir_gid *gids;
	struct mv_dir_link *links;
};

struct md_dir_build_from {
	const struct mv_host_id *self;
	const char *name; /* name of this host */
	const struct md_view *view;
	const struct md_hosts *hosts;
	const struct md_gidmap *map;
	const struct md_targets *targets;
	/* Is the host MV_PEER_AUTHENTICATED? NULL: none is. */
	bool (*is_authenticated)(const void *arg, const struct md_host *host);
	/* mv_dir_gid.library of a qualified device of ours; 0: not qualified. NULL: none is. */
	uint32_t (*library)(const void *arg, const char *device);
	const void *arg;
};

/**
 * md_dir_build_make - gather the content
 * @ret: release with md_dir_build_free()
 *
 * Hosts without known description are left out.
 *
 * Return: 0 or -ENOMEM.
 */
int md_dir_build_make(const struct md_dir_build_from *from, uint64_t now_ns, struct md_dir_build *ret);
void md_dir_build_free(struct md_dir_build *content);

#endif
