/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PROCESS_COUNTS_H
#define MD_PROCESS_COUNTS_H

#include "counts.h"

/*
 * Sums of processes' counters (libmeshverbs/wire/counts.h), of connected and of ended processes. A process may write
 * any figures, so they are for display only, and decide nothing.
 */
struct md_process_counts {
	uint64_t ended[MV_COUNTS_MAX]; /* of ended processes */
};

/**
 * md_counts_map - map the page of counters behind a descriptor
 * @fd: closed, unless -EBADF is returned
 * @ret: release with md_counts_end(); NULL: no memory, or not such a page
 *
 * Accepts only a memfd of sufficient size, of ordinary pages, with sealed size. So access to the page, and its
 * unmapping, can neither block nor fail.
 *
 * Return: 0; -EBADF: something else, whose close(2) may block; the caller keeps @fd.
 */
int md_counts_map(int fd, const struct mv_counts_page **ret);

/** md_counts_end - the process has ended: add its figures, and unmap the page; @page may be NULL */
void md_counts_end(struct md_process_counts *counts, const struct mv_counts_page *page);

/** md_counts_add - add the figures of a page to @sums; @page may be NULL */
void md_counts_add(uint64_t sums[static MV_COUNTS_MAX], const struct mv_counts_page *page);

#endif
