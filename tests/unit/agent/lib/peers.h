/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TEST_PEERS_H
#define MD_TEST_PEERS_H

#include "gidmap.h"

/*
 * Hosts in a few words, for tests of the agent. Statements end in ';':
 *
 *   rail DEVICE [down] [drained] [excluded] [ib]     with netdev "net" + DEVICE's number, 100000 Mb/s, mtu 4096, port 1
 *   gid ADDRESS[/LEN] v1|v2|grace          of the last rail; LEN as written in ip addr
 */

/** peers_desc - to be released with free() */
struct md_desc *peers_desc(const char *text);

/**
 * peers_view - our own host: as peers_desc(); the netdev of rail r has interface index r + 1, is running and has both
 * families; addresses with LEN are on its link
 *
 * To be released with md_view_free().
 */
struct md_view *peers_view(const char *text);

struct mv_host_id peers_id(unsigned int n);

/** What one host says; text as for peers_desc(). */
struct peer {
	unsigned int n; /* of peers_id() */
	uint64_t start, generation;
	uint32_t interval_ms;
	const char *text;
};

/**
 * peers_hear - a beacon of @peer's rail @rail arrives on netdev @ifindex, in all its pieces
 *
 * Its source address is fe80::N:R. Return: as md_hosts_hear() of the last piece; *changed: of all together.
 */
int peers_hear(struct md_hosts *hosts, const struct peer *peer, uint32_t ifindex, uint16_t rail, uint64_t now_ns,
	       unsigned int *changed);

/** peers_fini - md_hosts_fini(), and then nothing may be left: neither bytes, nor pieces, nor room that sightings take */
void peers_fini(struct md_hosts *hosts);

/** peers_tell - an answer of @peer arrives from @address */
int peers_tell(struct md_hosts *hosts, const struct peer *peer, const char *address, uint64_t now_ns,
	       unsigned int *changed);

#endif
