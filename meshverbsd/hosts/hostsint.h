/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_HOSTSINT_H
#define MD_HOSTSINT_H

#include "hosts.h"

/* Shared by the files hosts*.c only. */

/** md_host_lifetime_ms - how long a host counts as alive after a beacon, if it sends one each @interval_ms */
static inline uint32_t md_host_lifetime_ms(uint32_t interval_ms)
{
	return interval_ms * MD_EXPIRY_TENTHS / 10;
}

/* ---- hosts.c ---- */

/** md_hosts_add - add a host. Return: 0; -ENOSPC: MD_HOSTS_MAX or MD_NEW_HOSTS_RATE; -ENOMEM */
int md_hosts_add(struct md_hosts *hosts, const struct md_heard *heard, uint64_t now_ns, struct md_host **ret);
/** md_hosts_remove - forget a host; @host is freed */
void md_hosts_remove(struct md_hosts *hosts, struct md_host *host);

/* ---- hosts_room.c ---- */

/** md_hosts_take_new - may a further host be added in the share? Limited to MD_NEW_HOSTS_RATE */
bool md_hosts_take_new(struct md_hosts *hosts, unsigned int share, uint64_t now_ns);
/**
 * md_hosts_make_room - is there room for a further host?
 * @wanted: a process of this host, or the hosts file, needs the host
 *
 * May remove another host.
 */
bool md_hosts_make_room(struct md_hosts *hosts, unsigned int share, bool wanted);
/** md_hosts_make_memory - is there memory to replace the host's description by @desc? If there is, other hosts may be removed */
bool md_hosts_make_memory(struct md_hosts *hosts, const struct md_host *host, const struct md_desc *desc);
/** md_hosts_take_gids - may GIDs of the host be claimed anew? @share: by which they came. Limited to MD_NEW_GIDS_RATE */
bool md_hosts_take_gids(struct md_hosts *hosts, const struct md_host *host, unsigned int share, uint32_t n, uint64_t now_ns);
/** md_hosts_count, md_hosts_uncount - a host comes into its share, leaves it */
void md_hosts_count(struct md_hosts *hosts, struct md_host *host, unsigned int share);
void md_hosts_uncount(struct md_host *host);
/**
 * md_hosts_place - to be called when a host begins or ceases to be wanted, or to sign: it is the newest one of its list
 *
 * md_hosts_forget_wants() has lists of hosts that nobody wants in order of arrival again.
 */
void md_hosts_place(struct md_hosts *hosts, struct md_host *host);
/** md_hosts_count_desc, md_hosts_uncount_desc - the host has got a description; will lose it, @for_good or for the next one */
void md_hosts_count_desc(struct md_hosts *hosts, struct md_host *host);
void md_hosts_uncount_desc(struct md_hosts *hosts, struct md_host *host, bool for_good);

/* ---- hosts_wanted.c ---- */

/** md_hosts_unwant - no account wants the host any more: it will be removed */
void md_hosts_unwant(struct md_hosts *hosts, struct md_host *host);
/** md_hosts_forget_wants - to be called regularly: each MD_TARGET_IDLE_NS, what accounts wanted before the last time is forgotten */
void md_hosts_forget_wants(struct md_hosts *hosts, uint64_t now_ns);
/** md_hosts_bound_wants - the charge of @host, which is wanted, has grown: keep to MD_WANTED_BYTES */
void md_hosts_bound_wants(struct md_hosts *hosts, const struct md_host *host);

/* ---- hosts_desc.c ---- */

/** md_hosts_hear_desc - take the description, or the piece of one, in a beacon. Return: as md_hosts_hear() */
int md_hosts_hear_desc(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard, const struct md_beacon *beacon,
		       uint64_t now_ns, unsigned int *changed);
/** md_hosts_drop_desc - call md_hosts.leaving() and free the description, if any */
void md_hosts_drop_desc(struct md_hosts *hosts, struct md_host *host);

/* ---- hosts_pieces.c ---- */

/**
 * md_hosts_add_piece - keep the piece of a description in a beacon
 * @ret: the description that it belongs to, owned by @hosts; written unless -ENOMEM is returned
 *
 * In a full share the oldest description makes room.
 *
 * Return: 1: the description is complete; 0: pieces are missing; -ENOMEM.
 */
int md_hosts_add_piece(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard, const struct md_beacon *beacon,
		       uint64_t now_ns, struct md_partial **ret);
/** md_host_partial - Return: the description whose pieces come as @heard does; NULL: none */
struct md_partial *md_host_partial(const struct md_host *host, const struct md_heard *heard);
void md_hosts_drop_partial(struct md_hosts *hosts, struct md_partial *partial);
/** md_hosts_drop_partials - all of a host */
void md_hosts_drop_partials(struct md_hosts *hosts, struct md_host *host);
/** md_hosts_expire_partials - those of a host that were begun more than MD_PARTIAL_NS ago */
void md_hosts_expire_partials(struct md_hosts *hosts, struct md_host *host, uint64_t now_ns);

/* ---- hosts_sightings.c ---- */

/**
 * md_hosts_hear_sighting - a beacon has arrived on a netdev of ours
 *
 * Without room, a sighting of the host on a link with more of them is replaced.
 *
 * Return: 0; -ENOSPC: the link has as many of the host's as any other; -ENOMEM.
 */
int md_hosts_hear_sighting(struct md_hosts *hosts, struct md_host *host, const struct md_heard *heard,
			   const struct md_beacon *beacon, uint64_t now_ns, unsigned int *changed);
/**
 * md_hosts_sweep_sightings - remove expired sightings, and all on netdev @ifindex (0: none)
 *
 * Return: true: any removed.
 */
bool md_hosts_sweep_sightings(struct md_hosts *hosts, struct md_sightings *of, uint64_t now_ns, uint32_t ifindex);
/** md_hosts_drop_sightings - free all of a host */
void md_hosts_drop_sightings(struct md_hosts *hosts, struct md_sightings *of);

#endif
