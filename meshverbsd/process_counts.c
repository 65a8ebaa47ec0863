/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process_counts.h"

const struct mv_counts_page *md_counts_map(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS); /* fails for all but a memfd */
	const struct mv_counts_page *page;
	void *memory = MAP_FAILED;
	struct stat st;

	if (seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &st) &&
	    st.st_size >= (off_t)sizeof(*page))
		memory = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return NULL;
	page = memory;
	if (page->magic == MV_COUNTS_MAGIC)
		return page;
	munmap(memory, sizeof(*page));
	return NULL;
}

void md_counts_add(uint64_t sums[static MV_COUNTS_MAX], const struct mv_counts_page *page)
{
	for (size_t i = 0; page && i < MV_COUNTS_MAX; i++)
		sums[i] += atomic_load_explicit(&page->values[i], memory_order_relaxed);
}

void md_counts_end(struct md_process_counts *counts, const struct mv_counts_page *page)
{
	md_counts_add(counts->ended, page);
	if (page)
		munmap((void *)page, sizeof(*page));
}
