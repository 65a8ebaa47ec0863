/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_SECURE_COPIES_H
#define MD_SECURE_COPIES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Copies of beacons. If several netdevs of this host are on one link (two cards on one fabric), each netdev gets each
 * beacon. A replay window accepts the first copy only, but each copy shows that its sender is heard on that netdev. So
 * a further copy is accepted once on each netdev, for one to three MD_COPY_NS.
 *
 * struct md_copies: of one sender. Zeroed at first.
 */
#define MD_COPY_NS	1000000000ull
#define MD_COPY_NETDEVS 8 /* on which a sender is heard; copies on further ones are refused */
#define MD_COPY_BEACONS 64 /* counters behind the newest beacon of which copies are accepted */

struct md_copies {
	uint64_t newest, newest_ns; /* counter of the newest beacon, and when it was accepted */
	uint64_t mark, mark_ns; /* the newest counter at that time */
	uint64_t floor; /* up to this counter beacons are older than MD_COPY_NS */
	uint32_t netdevs[MD_COPY_NETDEVS];
	uint64_t seen[MD_COPY_NETDEVS]; /* bit i: beacon newest - i arrived on that netdev */
};

/** md_copies_first - the replay window has accepted the beacon @counter, which arrived on @netdev */
void md_copies_first(struct md_copies *copies, uint64_t counter, uint32_t netdev, uint64_t now_ns);

/** md_copies_take - may a further copy be accepted, of the same life of its sender? Return: true: yes, and never again */
bool md_copies_take(struct md_copies *copies, uint64_t counter, uint32_t netdev, uint64_t now_ns);

#endif
