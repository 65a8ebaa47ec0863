/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PROCESS_COUNTS_H
#define MD_PROCESS_COUNTS_H

#include "counts.h"

/*
 * What processes count (libmeshverbs/wire/counts.h), added up over those that are connected and those
 * that were. A process can say of itself what it likes: these are figures for people, and nothing
 * is decided by them.
 */
struct md_process_counts {
	uint64_t ended[MV_COUNTS_MAX]; /* of processes that are gone */
};

/**
 * md_counts_map - the page behind a descriptor that a process sent
 * @fd: closed, unless -EBADF is returned
 * @ret: the page, to be given back with md_counts_end(); NULL: without memory, or it is not such a page
 *
 * Takes a memfd only that is large enough, of ordinary pages, and can become neither smaller nor larger: so looking at it later,
 * and letting go of it, can neither wait nor fail.
 *
 * Return: 0; -EBADF: it is something else, and to close it may wait for whoever made it: the caller's.
 */
int md_counts_map(int fd, const struct mv_counts_page **ret);

/** md_counts_end - the process is gone: its figures stay; @page: NULL is fine */
void md_counts_end(struct md_process_counts *counts, const struct mv_counts_page *page);

/** md_counts_add - add the figures of a page to @sums; @page: NULL is fine */
void md_counts_add(uint64_t sums[static MV_COUNTS_MAX], const struct mv_counts_page *page);

#endif
