/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_ANNOUNCE_H
#define MD_ANNOUNCE_H

#include "beacon.h"
#include "view.h"

/*
 * When beacons are due, and on which netdevs: at an interval, in a short burst after a change, and as greeting to
 * whoever is new. No I/O, no clock.
 */
struct md_outlet {
	uint32_t ifindex;
	uint64_t next_ns;
	uint64_t last_ns; /* 0: none yet */
	unsigned int burst; /* beacons of a burst that are due, the next one included */
	bool whole; /* the next one has the whole description */
	uint32_t interval_ms;
	size_t n_heard; /* rails of others heard here, for the interval */
};

struct md_announce {
	uint32_t interval_ms; /* wanted; each outlet may take longer */
	size_t n;
	struct md_outlet outlets[MD_NETS_MAX];
	uint32_t (*random)(uint32_t below); /* randombytes_uniform() but in tests */
};

/** md_announce_nets - the view has changed: keep the outlets that are still there, begin on new ones, burst on all */
void md_announce_nets(struct md_announce *announce, const struct md_view *view, uint64_t now_ns);

/** md_announce_heard - how many rails of others are heard on a netdev now */
void md_announce_heard(struct md_announce *announce, uint32_t ifindex, size_t n_heard);

/**
 * md_announce_greet - somebody is new on a netdev
 *
 * Return: 0 when a beacon on that link will do; otherwise there are too many to be bothered, and a beacon to the new
 * one alone is due after that many ns.
 */
uint64_t md_announce_greet(struct md_announce *announce, uint32_t ifindex, uint64_t now_ns);

/**
 * md_announce_due - take what is due
 * @ret_whole: send the whole description, in pieces if need be; otherwise signs of life will do
 *
 * Return: the outlet to send on, whose next beacon is then scheduled; NULL: none is due.
 */
const struct md_outlet *md_announce_due(struct md_announce *announce, uint64_t now_ns, bool *ret_whole);

/** md_announce_next - when the next one is due; UINT64_MAX: no outlet */
uint64_t md_announce_next(const struct md_announce *announce);

#endif
