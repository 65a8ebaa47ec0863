/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_FORMER_H
#define MD_FORMER_H

#include "hosts.h"

/*
 * What a former agent of this host knew, by the directory file it has left: until as many are known again, that file says more than
 * one of ours would. No clock.
 */
struct md_former {
	size_t n_hosts; /* others with agents */
	uint64_t until_ns; /* not to be waited for longer */
};

/**
 * md_former_read - look at the file
 *
 * One that is not there or cannot be used, or whose agent has not been alive lately, is nothing to wait for: the cluster may be another
 * one by now. None is waited for until processes would take its agent for dead, nor longer than MD_FORMER_NS.
 */
struct md_former md_former_read(const char *run_dir, uint64_t now_ns);

/** md_former_knows_more - is the first file of ours to wait? */
bool md_former_knows_more(const struct md_former *former, const struct md_hosts *hosts, uint64_t now_ns);

#endif
