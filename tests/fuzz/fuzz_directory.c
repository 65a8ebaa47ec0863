/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* mv_directory_check() on any image; every look-up and search must then be able to use it. */
#include "fuzz.h"

#include <string.h>

#include "pathfind.h"

static void check_gids(const struct mv_directory *dir)
{
	for (uint32_t g = 0; g < dir->header->n_gids && g < 64; g++) {
		const union ibv_gid *gid = &dir->gids[g].gid;
		bool found = false;

		for (ssize_t at = -1;
		     (at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0;) {
			FUZZ_CHECK(mv_gid_equal(&dir->gids[dir->order[at]].gid, gid));
			found = found || dir->order[at] == g;
		}
		FUZZ_CHECK(found);
	}
}

static void check_links(const struct mv_directory *dir)
{
	for (uint32_t l = 0; l < dir->header->n_links; l++) {
		const struct mv_dir_link *link = &dir->links[l];

		FUZZ_CHECK(dir->rails[link->local_rail].host == 0);
		FUZZ_CHECK(link->remote_rail < dir->header->n_rails);
		FUZZ_CHECK(mv_directory_linked(dir, link->local_rail, link->remote_rail));
	}
}

static void check_path(const struct mv_directory *dir, const struct mv_path *path, uint32_t host)
{
	FUZZ_CHECK(dir->rails[path->local_rail].host == 0);
	FUZZ_CHECK(dir->rails[path->remote_rail].host == host);
	FUZZ_CHECK(!(dir->rails[path->local_rail].flags & MV_RAIL_EXCLUDED));
	FUZZ_CHECK(!(dir->rails[path->remote_rail].flags & MV_RAIL_EXCLUDED));
	FUZZ_CHECK(path->type == MV_GID_TYPE_IB || path->type == MV_GID_TYPE_ROCE_V1 ||
		   path->type == MV_GID_TYPE_ROCE_V2);
}

static void check_search(const struct mv_directory *dir, const struct mv_dir_gid *own,
			 const struct mv_dir_gid *destination)
{
	const struct mv_dir_rail *rail = &dir->rails[own->rail];
	struct mv_path_request request = {.device = rail->device,
					  .port_num = rail->port,
					  .sgid = own->gid,
					  .sgid_type = own->type,
					  .dgid = destination->gid};
	struct mv_path paths[MV_PATH_FIND_MAX];
	uint32_t host, remote;
	enum mv_path_verdict verdict = mv_path_decide(dir, &request, &host, &remote);
	size_t n;

	if (verdict == MV_PATH_UNKNOWN || verdict == MV_PATH_SELF)
		return;
	FUZZ_CHECK(host && host < dir->header->n_hosts && dir->rails[remote].host == host);
	n = mv_path_find(dir, &request, host, remote, paths, MV_PATH_FIND_MAX);
	FUZZ_CHECK(n <= MV_PATH_FIND_MAX);
	for (size_t i = 0; i < n; i++)
		check_path(dir, &paths[i], host);
}

static void check_searches(const struct mv_directory *dir)
{
	for (uint32_t a = 0; a < dir->header->n_gids && a < 8; a++) {
		if (dir->rails[dir->gids[a].rail].host)
			break;
		for (uint32_t b = 0; b < dir->header->n_gids && b < 16; b++)
			check_search(dir, &dir->gids[a], &dir->gids[b]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *image = aligned_alloc(8, (size + 8) & ~(size_t)7);
	struct mv_directory dir;

	FUZZ_CHECK(image);
	memcpy(image, data, size);
	if (!mv_directory_check(image, size, &dir)) {
		FUZZ_CHECK(dir.header->n_hosts && dir.size_bytes == size);
		for (uint32_t h = 0; h < dir.header->n_hosts; h++)
			FUZZ_CHECK(strlen(dir.hosts[h].name) < sizeof(dir.hosts[h].name));
		mv_directory_alive(&dir, 0);
		mv_directory_superseded(&dir);
		check_gids(&dir);
		check_links(&dir);
		check_searches(&dir);
	}
	free(image);
	return 0;
}
