/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_HOSTS_H
#define MD_HOSTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "beacon.h"
#include "hash.h"
#include "secure.h"
#include "secure_limit.h"
#include "view.h"
#include "vouch.h"

/*
 * The table of other hosts, filled from their beacons and answers. No clock, no I/O, no locks: one thread. The caller
 * passes the time (ns, CLOCK_BOOTTIME) and the datagrams.
 */

/* A rail of another host is heard on a netdev of ours. */
struct md_sighting {
	struct in6_addr ip; /* source address of its beacons; IPv4 in mapped form */
	uint32_t ifindex;
	uint16_t rail; /* index in the other host's description of @generation */
	bool has_rail; /* @rail is a valid index in md_host.desc, too. False: the sighting says nothing of links */
	uint8_t share; /* the share of struct md_hosts whose room the sighting takes; 0: its host's own room */
	uint64_t heard_ns; /* later by the time for which this agent did not run since */
	uint32_t life_ms; /* the sighting expires so long after @heard_ns */
	uint32_t spare_ms; /* md_hosts_excuse_loss() may still add so much to @life_ms */
	uint64_t start; /* start number of the host's agent, as md_heard.start */
	uint64_t generation; /* from the newest beacon; 0: the host's agent has restarted since */
};

static inline uint64_t md_sighting_expires_ns(const struct md_sighting *sighting)
{
	return sighting->heard_ns + sighting->life_ms * MD_MS;
}

/* All sightings of a host. Owner: hosts_sightings.c; each user of struct md_hosts reads them. */
struct md_sightings {
	size_t n, cap; /* up to MD_SIGHTINGS_MAX */
	struct md_sighting *list;
};

/* Netdevs of ours on which a beacon of a host has arrived. Never expires. Owner: hosts_sightings.c. */
struct md_host_met {
	size_t n; /* up to MD_NETS_MAX */
	uint32_t *nets; /* oldest first */
};

/*
 * A description of which pieces are missing. Pieces that come by different links are not put together: a neighbour on one
 * link cannot spoil what comes by another.
 */
struct md_partial {
	struct md_partial *prev, *next; /* in @of */
	struct md_partial *of_host; /* the next one of the same host */
	struct md_host *host;
	struct md_partials *of;
	unsigned int share; /* md_heard_share() of the pieces */
	uint64_t start, generation, begun_ns;
	uint32_t desc_bytes;
	uint64_t have; /* bit n: piece n is here */
	uint8_t bytes[]; /* @desc_bytes of room */
};

struct md_partials {
	struct md_partial *oldest; /* list of utlist.h */
	size_t bytes;
};

/*
 * Shares of limits that others can use up, so that nobody keeps out what comes by another way: one for each link, as in
 * secure.h, and one (0) for answers of targets.
 */
#define MD_HOSTS_SHARES (1 + MD_LINK_SHARES)

/** md_link_share - the share of what arrives on a netdev: below MD_HOSTS_SHARES, not 0 */
static inline unsigned int md_link_share(uint32_t ifindex)
{
	return 1 + ifindex % MD_LINK_SHARES;
}

/* An address of another host that is in a subnet of our netdev. */
struct md_near {
	uint32_t gid; /* index in the host's description */
	uint32_t ifindex;
};

/* A host's place in a struct md_hosts_list. Owner: hosts_room.c. */
struct md_host_room {
	struct md_hosts_list *in;
	struct md_hosts_total *counted; /* one of md_hosts_share.all */
	unsigned int share; /* the share in which the host was first heard */
	struct md_host *prev, *next; /* in md_hosts_list.hosts */
	struct md_host *desc_prev, *desc_next; /* in md_hosts_list.described; NULL: not there */
};

/*
 * Which accounts want the host? Bit n: md_hosts.wanters[n]. Index 0: since the last md_hosts_forget_wants(); 1: before.
 * Owner: hosts_wanted.c.
 */
struct md_host_wanted {
	uint32_t by[2];
	unsigned int charged; /* the host takes the room of that account */
};

/* Hash of a host's description, as a statement has it. Owner: hosts_desc.c. */
struct md_host_content {
	uint8_t hash[MD_CONTENT_BYTES]; /* md_statement_content() */
	uint32_t version; /* agent version that was hashed into @hash */
};

/* The last answer of a host to a query. Owner: hosts_beacon.c. */
struct md_host_told {
	struct in6_addr by; /* source address; of several the same one, as long as it answers */
	uint64_t by_until_ns; /* an answer from another address counts for @by from then on */
	uint64_t expires_ns; /* 0: none */
	uint32_t spare_ms; /* as md_sighting.spare_ms */
};

/* What a host claimed its GIDs by the last time. Owner: gidmap.c; others set @view to 0. */
struct md_host_claimed {
	struct md_netset on; /* nets on which the host was heard */
	uint64_t view; /* number of our view; 0: to claim anew */
	bool late; /* heard on other nets by now: md_gidmap_hear() was rationed */
};

/*
 * For each GID of md_host.desc, our rails from which a route leads there. Owner: routes.c; hosts_desc.c keeps them if
 * the next description has the same GIDs.
 */
struct md_host_routes {
	uint32_t *from; /* masks, as mv_dir_gid.routed_from. NULL: none is known */
	uint64_t number; /* valid while this is md_routes.number */
	uint64_t round; /* turn of md_routes_again() in which the host was looked at */
};

/* Pairs of an address of a host and a netdev of ours in one subnet. Owner: exchange/paths.c; goes with md_host.desc. */
struct md_host_near {
	uint64_t view; /* valid for our view of this number; 0: not computed */
	size_t n; /* up to MD_PATHS_MAX */
	struct md_near *pairs;
};

/* Netdevs of ours by which probes do not reach a host. Owner: exchange/paths.c; goes with md_host.desc. */
struct md_host_cut {
	uint64_t changes, view; /* valid for these path changes (0: not computed), and our view of this number */
	size_t n;
	uint32_t nets[MD_CUT_MAX];
};

/* Questions for a host's statement, or for a confirmation of it. Owner: exchange/peers.c. */
struct md_host_asking {
	uint64_t not_before_ns; /* the host is not asked before this time */
	unsigned int n_asked; /* unanswered questions in a row */
	uint32_t unanswered; /* bytes that have come in the host's name, and that no answer has used up: exchange/unproven.c */
	/* before this time no further answer to messages that cannot be opened; index 1: from addresses of the host */
	uint64_t stranger_ns[2];
};

/* The last request for a host's description. Owner: exchange/datagram_rx.c. */
struct md_host_queried {
	uint64_t at_ns;
	uint32_t ifindex; /* netdev of the beacon or statement that made us ask */
};

/* Does a host's agent take bundles? Owner: exchange/msg_router.c; cookie_refresh.c asks as well. */
struct md_host_bundles {
	uint64_t start; /* start number of the agent that takes them; 0: not known */
	uint64_t ask_ns; /* the host is not asked before this time */
	unsigned int n_asked; /* unanswered questions in a row */
};

struct md_host {
	UT_hash_handle hh;
	struct md_host_room room;
	struct mv_host_id id;
	char name[64];
	uint32_t agent_version;
	uint64_t start, counter; /* of the newest datagram */
	uint64_t generation; /* generation of @desc */
	struct md_limit changes; /* rations changes of @desc that are not proven */
	struct md_limit messages, queries; /* rations what the host sends */
	struct md_limit scarce; /* of a wanted host: exchange/unproven.c */
	struct md_host_wanted wanted;
	struct md_desc *desc; /* NULL until complete */
	struct md_host_content content; /* of @desc */
	struct md_host_claimed claimed;
	struct md_vouch *vouch; /* NULL: no statement */
	struct md_host_asking asking;
	struct md_partial *partials; /* descriptions that are being collected, one for each share; list of utlist.h, by @of_host */
	uint64_t heard_ns; /* when any datagram of the host was last taken */
	bool neighbour; /* a beacon of the host has arrived on a link of ours */
	struct md_host_met met;
	struct md_host_told told;
	struct md_host_queried queried;
	struct md_host_bundles bundles;
	uint64_t renew_ns; /* when cookies for the host are to be renewed, if a process needs them */
	struct md_sightings sightings;
	struct md_host_near near;
	struct md_host_routes routes;
	struct md_host_cut cut;
};

/* Hosts that make room for others in the same order. Lists of utlist.h, oldest first. */
struct md_hosts_list {
	struct md_host *hosts, *described; /* all; those with a description */
	size_t n, bytes; /* hosts; their descriptions */
	size_t charge; /* bytes as of MD_WANTED_EACH */
};

struct md_hosts_total {
	size_t n, bytes; /* as those of struct md_hosts_list */
};

/* A share of the room for hosts. */
struct md_hosts_share {
	struct md_hosts_list of[2]; /* hosts that nobody here wants: unsigned ones, signed ones */
	struct md_hosts_total all[2]; /* unsigned hosts, signed hosts, wanted ones too: the size of the share */
	size_t n_sightings; /* of all hosts, beyond MD_SIGHTINGS_OF_HOST of each: up to MD_SIGHTINGS_OF_LINK */
	uint64_t room_at_ns; /* token bucket for new hosts: MD_NEW_HOSTS_RATE */
	uint64_t gids_at_ns[2]; /* token buckets for new GIDs, MD_NEW_GIDS_RATE: of unsigned hosts, of signed hosts */
};

/* Rate limits of wanted hosts: of each account that wants some, and of all together but root and the hosts file. */
struct md_wanted_limits {
	struct md_limit all, of[MD_WANTERS];
};

/*
 * An account whose processes want hosts. Another host cannot make itself wanted, but with the help of a process of this
 * host. Limits therefore have a share for the wanted hosts of each account: who invents hosts takes nothing from them,
 * and a user whose processes want hosts of an accomplice takes nothing from other users.
 */
struct md_wanter {
	uint64_t account;
	size_t n; /* hosts that the account wants, charged to it or not; 0: the place is free */
	struct md_hosts_list list; /* hosts that are charged to the account, in the order in which they were last wanted */
	struct md_partials partials[MD_HOSTS_SHARES]; /* together up to MD_PARTIAL_BYTES; without room that with most makes some */
};

struct md_hosts {
	struct mv_host_id self; /* our own id; beacons of ours that come back are refused */
	/* Called before a host's description is replaced, or freed with the host; may be NULL. */
	void (*leaving)(void *arg, const struct md_host *host);
	void (*gone)(void *arg, const struct md_host *host); /* called before a host is freed; may be NULL */
	void *arg;
	struct md_host *by_id; /* hash table; iterates in order of arrival */
	size_t n, n_partial;
	struct md_partials partials[MD_HOSTS_SHARES]; /* of hosts that are not wanted, each up to MD_PARTIAL_BYTES */
	size_t bytes; /* of all descriptions together */
	/*
	 * Without room, a new host, or description, takes the place of the newest unsigned host of the largest share that has
	 * one, if that share is larger than its own. A wanted host takes that place in any case. Signed hosts make room for
	 * wanted hosts, and if all but the last eighth of the table is signed or wanted. A wanted host is never forgotten
	 * for another one. Memory for a description takes the places of as many hosts as are necessary, or of none.
	 */
	struct md_hosts_share shares[MD_HOSTS_SHARES];
	/* Beyond MD_WANTED_BYTES, the account with the largest charge no longer wants the host that it last wanted first. */
	struct md_wanter wanters[MD_WANTERS];
	uint64_t forget_wants_ns; /* next md_hosts_forget_wants() */
	struct md_wanted_limits wanted_gids; /* MD_NEW_GIDS_RATE: of signed hosts that are wanted */
	uint64_t n_forgotten; /* hosts that made room for others */
	uint64_t n_refused; /* hosts and descriptions refused for want of room */
	uint64_t n_held_back; /* descriptions delayed by MD_CHANGES_RATE or MD_NEW_GIDS_RATE */
};

/** md_host_wanters - mask of the accounts that want the host: bit n is md_hosts.wanters[n] */
static inline uint32_t md_host_wanters(const struct md_host *host)
{
	return host->wanted.by[0] | host->wanted.by[1];
}

/**
 * md_host_is_wanted - did a process of this host, or the hosts file, need the host lately?
 *
 * In the last MD_TARGET_IDLE_NS, or up to twice as long ago. See struct md_wanter.
 */
static inline bool md_host_is_wanted(const struct md_host *host)
{
	return md_host_wanters(host) != 0;
}

/** md_hosts_want - a process of the account (0: root, or the hosts file) needs the host */
void md_hosts_want(struct md_hosts *hosts, struct md_host *host, uint64_t account);

/**
 * md_host_take - take @n tokens of an account that wants the host, and of all users: MD_LINKS_TOGETHER times as many
 *
 * Root and the hosts file need none of all users.
 *
 * Return: false: no account wants the host, or none of those that want it has enough tokens. None is taken.
 */
bool md_host_take(const struct md_host *host, struct md_wanted_limits *limits, const struct md_rate *rate, uint32_t n, uint64_t now_ns);

/** md_host_has_met - has a beacon of the host ever arrived on the netdev? */
bool md_host_has_met(const struct md_host *host, uint32_t ifindex);

/** md_host_takes_bundles - does the host's agent understand bundle_wire.h? */
static inline bool md_host_takes_bundles(const struct md_host *host)
{
	return host->bundles.start && host->bundles.start == host->start;
}

/** md_host_is_vouched - does the host sign, with the key that is pinned for it? */
static inline bool md_host_is_vouched(const struct md_host *host)
{
	return host->vouch && host->vouch->trust == MD_TRUST_PINNED;
}

/* Where a beacon or an answer came from. */
struct md_heard {
	struct mv_host_id sender;
	uint64_t start, counter;
	struct in6_addr ip;
	uint32_t ifindex; /* the netdev on which it arrived; 0: none of ours */
	bool answer; /* an ENTRY: the answer to a query */
	bool near; /* with @answer: a neighbour on @ifindex was asked for its description; else a target was queried (targets.h) */
	bool wanted; /* with @answer: that target is md_target_is_wanted(), by processes of @account */
	uint64_t account;
	bool proven; /* a key proves @sender and @start */
};

/** md_heard_share - the share that limits the datagram: below MD_HOSTS_SHARES */
static inline unsigned int md_heard_share(const struct md_heard *heard)
{
	return heard->answer && !heard->near ? 0 : md_link_share(heard->ifindex);
}

/* What a beacon has changed, or requires: bits. */
enum md_changes {
	MD_CHANGED_HOST = 1, /* the host is new, or its agent has restarted */
	/*
	 * A rail is heard on a new netdev, or for the first time since its agent started; that agent does not hear us
	 * there yet. Or a description has come that tells which rail it is.
	 */
	MD_CHANGED_SIGHTING = 2,
	MD_CHANGED_DESC = 4, /* the description has changed: the directory is to be written anew */
	MD_CHANGED_WANTED = 8, /* the description is not known: ask for it */
	MD_CHANGED_NAME = 16, /* the name has changed */
	MD_CHANGED_DOWN = 32, /* with MD_CHANGED_DESC: fewer rails of the host are up than before */
	/*
	 * A rail that is heard as before was down meanwhile, so its agent does not hear us there. The directory stays as it
	 * is. Anybody can forge the generation that says so, also of a signed host, whose changes are not rationed.
	 */
	MD_CHANGED_BACK = 64,
};

/**
 * md_hosts_hear - take a beacon or an answer
 * @ret_changed: mask of enum md_changes; written unless -EALREADY, -EINVAL, -ESTALE, or an error for a new host is returned
 *
 * An answer says nothing of links. If beacons of the host are heard, an answer counts only when it comes from an
 * address of theirs, or from one in the host's description. An unproven answer from any other address does not count
 * while an answer from another address is valid.
 *
 * Unproven descriptions with other GIDs are taken at MD_NEW_GIDS_RATE; unsigned ones of a host also at MD_CHANGES_RATE.
 * Further ones are dropped, and asked for again. Changes of signed ones are limited by the rate at which statements are
 * verified.
 *
 * For a host that is vouched for, a beacon counts only with the start number and name of the statement, and a
 * description only with the statement's generation and hash. A forged beacon of such a host proves no more than an
 * address and a sign of life.
 *
 * Other hosts may be forgotten to make room.
 *
 * Return: 0; -EPERM: contradicts the host's statement; -ESTALE: proven, with a lower start number than the known one;
 * -EBADMSG: the complete description is malformed; -ENOSPC: too many hosts, sightings or descriptions; -ENOMEM;
 * -EALREADY: sent by this host; -EINVAL: the sender's id is zero.
 */
int md_hosts_hear(struct md_hosts *hosts, const struct md_heard *heard, const struct md_beacon *beacon,
		  uint64_t now_ns, unsigned int *ret_changed);

/**
 * md_hosts_vouch - a statement of a host has been verified
 * @said: its content, copied
 * @digest: hash of the statement, copied
 * @trust: result of the check against the pinned key
 * @ret_changed: MD_CHANGED_WANTED and MD_CHANGED_DESC, or 0
 *
 * When the host becomes vouched for, a description that differs from the statement is dropped.
 *
 * Return: 0; -ENOMEM.
 */
int md_hosts_vouch(struct md_hosts *hosts, struct md_host *host, const struct md_statement *said,
		   const uint8_t digest[MD_CONTENT_BYTES], enum md_trust_in trust, unsigned int *ret_changed);
void md_hosts_unvouch(struct md_hosts *hosts, struct md_host *host);

/**
 * md_hosts_expire - remove sightings, pieces and hosts that have expired
 *
 * Return: true: the directory is to be written anew.
 */
bool md_hosts_expire(struct md_hosts *hosts, uint64_t now_ns);

/**
 * md_hosts_excuse - between @since_ns and @now_ns this agent did not run
 *
 * Hosts that were not heard since @since_ns expire as much later.
 */
void md_hosts_excuse(struct md_hosts *hosts, uint64_t since_ns, uint64_t now_ns);

/**
 * md_hosts_excuse_loss - as md_hosts_excuse(), but this agent did run, and lost datagrams or has not read all of them
 *
 * Others can cause a loss, for example by a flood. So losses give a host one further lifetime at most until the host is heard.
 */
void md_hosts_excuse_loss(struct md_hosts *hosts, uint64_t since_ns, uint64_t now_ns);

/**
 * md_hosts_forget_net - a netdev is gone or has lost its carrier: remove its sightings
 *
 * A host stays until its last sighting would have expired, because its beacons may arrive on another netdev.
 *
 * Return: as md_hosts_expire().
 */
bool md_hosts_forget_net(struct md_hosts *hosts, uint32_t ifindex);

/**
 * md_hosts_take_links - may GIDs of a host be claimed anew that is heard by other links than before?
 * @share: by which its datagram came
 *
 * Limited to MD_NEW_GIDS_RATE, together with new GIDs. Beacons of any host can be forged, so a wanted host takes nothing
 * from the share of wanted hosts.
 */
bool md_hosts_take_links(struct md_hosts *hosts, const struct md_host *host, unsigned int share, uint64_t now_ns);

/* How many rails of other hosts are heard on a netdev? */
struct md_net_heard {
	uint32_t ifindex;
	size_t n;
};

/** md_hosts_on_nets - set md_net_heard.n of each netdev. In one pass: there may be 16,384 hosts and 128 netdevs */
void md_hosts_on_nets(const struct md_hosts *hosts, struct md_net_heard *nets, size_t n_nets);

struct md_host *md_hosts_find(const struct md_hosts *hosts, const struct mv_host_id *id); /* NULL: none */

/** md_hosts_forget - remove a host, as if it had expired. @id may be of none */
void md_hosts_forget(struct md_hosts *hosts, const struct mv_host_id *id);

void md_hosts_fini(struct md_hosts *hosts);

#endif
