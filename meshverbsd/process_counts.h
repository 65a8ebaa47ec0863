/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PROCESS_COUNTS_H
#define MD_PROCESS_COUNTS_H

#include "counts.h"

/*
 * What processes count (libmeshverbs/counts.h), added up over those that are connected and those
 * that were. A process can say of itself what it likes: these are figures for people, and nothing
 * is decided by them.
 */
struct md_process_counts {
	uint64_t ended[MV_COUNTS_MAX]; /* of processes that are gone */
};

/**
 * md_counts_map - the page behind a descriptor that a process sent
 * @fd: taken over
 *
 * Takes a memfd only that is large enough and cannot become smaller, so that looking at it later
 * can neither wait nor fail. Return: the page, to be given back with md_counts_end(); NULL.
 */
const struct mv_counts_page *md_counts_map(int fd);

/** md_counts_end - the process is gone: its figures stay; @page: NULL is fine */
void md_counts_end(struct md_process_counts *counts, const struct mv_counts_page *page);

/** md_counts_add - add the figures of a page to @sums; @page: NULL is fine */
void md_counts_add(uint64_t sums[static MV_COUNTS_MAX], const struct mv_counts_page *page);

#endif
