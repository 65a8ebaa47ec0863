/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "former.h"

#include "directory.h"

/* Its last sign of life counts for MV_DIRECTORY_STALE_NS; the new file is to be there before. */
#define AGE_MAX_NS (MV_DIRECTORY_STALE_NS - MD_S)

struct md_former md_former_read(const char *run_dir, uint64_t now_ns)
{
	struct md_former former = {.until_ns = now_ns + MD_FORMER_NS};
	struct mv_directory dir;
	uint64_t beat_ns;

	if (mv_directory_open(run_dir, &dir))
		return (struct md_former){0};
	beat_ns = atomic_load_explicit(&dir.header->heartbeat_ns, memory_order_relaxed);
	if (former.until_ns > beat_ns + AGE_MAX_NS)
		former.until_ns = beat_ns + AGE_MAX_NS;
	/* The first one is this host. Without a version: of the hosts file, and no agent heard. */
	for (uint32_t h = 1; h < dir.header->n_hosts; h++)
		former.n_hosts += dir.hosts[h].agent_version != 0;
	mv_directory_close(&dir);
	return former;
}

bool md_former_knows_more(const struct md_former *former, const struct md_hosts *hosts, uint64_t now_ns)
{
	const struct md_host *host, *next;
	size_t n = 0;

	if (now_ns >= former->until_ns)
		return false;
	HASH_ITER(hh, hosts->by_id, host, next)
	n += host->desc != NULL;
	return n < former->n_hosts;
}
