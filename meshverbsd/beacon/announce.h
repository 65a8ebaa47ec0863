/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ANNOUNCE_H
#define MD_ANNOUNCE_H

#include "beacon.h"
#include "view.h"

/*
 * Schedule of beacons for each netdev: regularly, in a burst after a change, and as a greeting of new hosts. No I/O, no
 * clock. One thread.
 */
struct md_outlet {
	uint32_t ifindex;
	uint64_t next_ns;
	uint64_t last_ns; /* 0: none sent yet */
	unsigned int burst; /* beacons left in a burst, including the next one */
	bool whole; /* the next beacon has the whole description */
	uint32_t interval_ms;
	size_t n_heard; /* rails of other hosts heard here; determines the interval */
};

struct md_announce {
	uint32_t interval_ms; /* configured; an outlet may have a longer one */
	size_t n;
	struct md_outlet outlets[MD_NETS_MAX];
	uint32_t (*random)(uint32_t below); /* randombytes_uniform(), except in tests */
};

/** md_announce_nets - the view has changed: keep outlets that still exist, add new ones, begin a burst on all */
void md_announce_nets(struct md_announce *announce, const struct md_view *view, uint64_t now_ns);

/** md_announce_heard - set the number of rails of other hosts heard on a netdev */
void md_announce_heard(struct md_announce *announce, uint32_t ifindex, size_t n_heard);

/**
 * md_announce_greet - a new host is heard on a netdev
 *
 * Return: 0: a beacon on that link was scheduled; otherwise there are too many hosts, and a beacon to the new host
 * alone is due after so many ns.
 */
uint64_t md_announce_greet(struct md_announce *announce, uint32_t ifindex, uint64_t now_ns);

/**
 * md_announce_due - take the next outlet that is due
 * @ret_whole: send the whole description, in pieces if needed; false: a beacon without description is enough
 *
 * Return: the outlet, owned by @announce, with its next beacon scheduled; NULL: none is due.
 */
const struct md_outlet *md_announce_due(struct md_announce *announce, uint64_t now_ns, bool *ret_whole);

/** md_announce_next - when the next beacon is due; UINT64_MAX: no outlet */
uint64_t md_announce_next(const struct md_announce *announce);

#endif
