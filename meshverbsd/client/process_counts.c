/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "process_counts.h"

/* Limit of memory that the last one to unmap the page has to free. */
#define PAGES_MAX_BYTES (1 << 20)

/*
 * Seals first: asking for them involves no file system, and only memfds have them. Then the kind of memory: with huge
 * pages, a hole made by the owner could mean SIGBUS if none are left, and munmap() of a part fails.
 */
static bool is_harmless(int fd)
{
	const int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	return seals >= 0 && (seals & wanted) == wanted && !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC && !fstat(fd, &st) &&
	       st.st_size >= (off_t)sizeof(struct mv_counts_page) && st.st_size <= PAGES_MAX_BYTES;
}

int md_counts_map(int fd, const struct mv_counts_page **ret)
{
	const struct mv_counts_page *page;
	void *memory;

	*ret = NULL;
	if (!is_harmless(fd))
		return -EBADF;
	memory = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return 0;
	page = memory;
	if (page->magic == MV_COUNTS_MAGIC)
		*ret = page;
	else
		munmap(memory, sizeof(*page));
	return 0;
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
