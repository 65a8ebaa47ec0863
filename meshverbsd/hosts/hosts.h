/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_HOSTS_H
#define MD_HOSTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "beacon.h"
#include "hash.h"
#include "view.h"
#include "secure_limit.h"
#include "vouch.h"

/*
 * The other hosts, as their beacons and answers describe them. No clock and no I/O: the caller passes the time
 * (CLOCK_BOOTTIME) and what has arrived.
 */

/* A rail of another host heard on a netdev of ours. */
struct md_sighting {
	struct in6_addr ip; /* source address of its beacons; IPv4 in mapped form */
	uint32_t ifindex;
	uint16_t rail; /* of the other host, as the description of @generation counts them */
	bool has_rail; /* it is that one of the host's @desc as well; else it says nothing of links */
	uint64_t heard_ns, expires_ns;
	uint64_t start; /* its agent's, as md_heard.start */
	uint64_t generation; /* as the newest beacon said; 0: of a former life */
};

/* Pieces of a description that is not complete yet. */
struct md_partial {
	uint64_t generation, begun_ns;
	uint32_t desc_bytes;
	uint64_t have; /* bit per piece */
	uint8_t bytes[]; /* desc_bytes */
};

/* An address of another host's and a netdev of ours, in one network. */
struct md_near {
	uint32_t gid; /* in the description */
	uint32_t ifindex;
};

struct md_host {
	UT_hash_handle hh;
	struct mv_host_id id;
	char name[64];
	uint32_t agent_version;
	uint64_t start, counter; /* of the newest datagram */
	uint64_t generation; /* of @desc */
	struct md_limit changes; /* of @desc, without proof */
	struct md_limit messages, queries; /* from it */
	uint64_t wanted_ns; /* when this host's processes, or the hosts file, last had to do with it; 0: never */
	struct md_desc *desc; /* NULL until complete */
	uint8_t content[MD_CONTENT_BYTES]; /* md_statement_content() of @desc */
	uint32_t content_version; /* and the agent's version in it */
	/* gidmap.c: where it was heard when it claimed the GIDs of @desc, as of that view of ours; 0: not since something has changed */
	struct md_netset claimed_on;
	uint64_t claimed_view;
	struct md_vouch *vouch; /* NULL: no statement */
	uint64_t trust_ask_ns; /* ident/trust.c: its statement, or a confirmation, is not asked for before */
	unsigned int trust_asked; /* so often, in vain */
	uint64_t trust_stranger_ns; /* not told again before that what it seals cannot be opened */
	struct md_partial *partial; /* NULL: none under way */
	uint64_t heard_ns; /* at all */
	bool neighbour; /* a beacon of it has come by a link of ours */
	size_t n_met; /* up to MD_NETS_MAX */
	uint32_t *met; /* the netdevs of ours by which one has come, since it is known */
	struct in6_addr told_by; /* address that ENTRYs are taken from */
	uint64_t told_expires_ns; /* how long an ENTRY counts; 0: none */
	uint64_t queried_ns; /* when it was last asked for its description */
	uint64_t bundles_start; /* in which of its lives it takes bundles; 0: not known */
	uint64_t bundles_ask_ns; /* not to be asked whether it does before */
	unsigned int bundles_asked; /* so often, in vain */
	uint64_t renew_ns; /* when its cookies are to be renewed, should anybody need them */
	size_t n_sightings, cap_sightings;
	struct md_sighting *sightings;
	/* Of paths.c, up to MD_PATHS_MAX: what follows from @desc and from our view of that number; 0: not known. */
	uint64_t near_view;
	size_t n_near;
	struct md_near *near;
	/* Of routes.c: of each GID of @desc, out of which of our rails a route leads to it (mv_dir_gid.routed_from); as of md_routes.number. */
	uint32_t *routed; /* NULL: none is known */
	uint64_t routes_number, routes_round;
	/* As @near: netdevs of ours by which probes do not get through to it; as of so many changes of paths (0: not known), and of that view. */
	uint64_t cut_changes, cut_view;
	size_t n_cut;
	uint32_t cut[MD_CUT_MAX];
};

struct md_hosts {
	struct mv_host_id self; /* the caller's; beacons of this host are ignored */
	/* Called before a host's description is replaced or goes with its host; may be NULL. */
	void (*leaving)(void *arg, const struct md_host *host);
	void (*gone)(void *arg, const struct md_host *host); /* before a host is released; may be NULL */
	void *arg;
	struct md_host *by_id; /* hash; in order of appearance */
	size_t n, n_partial;
	size_t bytes; /* of all descriptions */
	uint64_t room_at_ns; /* MD_NEW_HOSTS_RATE: as if each new host took up 1/RATE seconds */
	uint64_t gids_at_ns[3]; /* MD_NEW_GIDS_RATE, likewise: of what is not signed, is, and is of hosts that are wanted */
	uint64_t n_refused; /* hosts for which there was no room */
	uint64_t n_held_back; /* descriptions that were not taken yet, for MD_CHANGES_RATE or MD_NEW_GIDS_RATE */
};

/**
 * md_host_is_wanted - do processes of this host, or the hosts file, have to do with it?
 *
 * No other host can bring that about. So what is rationed for all hosts together is rationed for these apart: whoever makes up hosts
 * takes nothing away from them.
 */
static inline bool md_host_is_wanted(const struct md_host *host, uint64_t now_ns)
{
	return host->wanted_ns && now_ns - host->wanted_ns < MD_TARGET_IDLE_NS;
}

/** md_host_has_met - has a beacon of it ever come by that netdev, since it is known? */
bool md_host_has_met(const struct md_host *host, uint32_t ifindex);

/** md_host_takes_bundles - does its agent know bundle_wire.h? */
static inline bool md_host_takes_bundles(const struct md_host *host)
{
	return host->bundles_start && host->bundles_start == host->start;
}

/** md_host_is_vouched - is what it says signed with the key that it has to have? */
static inline bool md_host_is_vouched(const struct md_host *host)
{
	return host->vouch && host->vouch->trust == MD_TRUST_PINNED;
}

/* How a beacon or an answer came. */
struct md_heard {
	struct mv_host_id sender;
	uint64_t start, counter;
	struct in6_addr ip;
	uint32_t ifindex; /* the netdev it came in by; 0: not one of ours */
	bool answer; /* to a query: an ENTRY */
	bool proven; /* sender and start are, by a key */
};

/* What a beacon has changed, or asks for. */
enum md_news {
	MD_NEWS_HOST = 1, /* not known before, or started again */
	/*
	 * A rail heard where it was not before, or not since its agent started again, which does not hear us there yet. Or it is
	 * known only now which rail that is.
	 */
	MD_NEWS_SIGHTING = 2,
	MD_NEWS_DESC = 4, /* another description; the directory is to be written anew */
	MD_NEWS_WANTED = 8, /* its description is not known: ask for it */
	MD_NEWS_NAME = 16, /* another name */
	MD_NEWS_DOWN = 32, /* with MD_NEWS_DESC: fewer of its rails are up */
};

/**
 * md_hosts_hear - take a beacon or an answer
 * @ret_news: mask of enum md_news
 *
 * Without proof a description that changes too often is not taken yet: MD_CHANGES_RATE, MD_NEW_GIDS_RATE. It is asked for again. What a statement vouches
 * for is taken as often as it is signed: statements are verified at a bounded rate.
 *
 * An answer says nothing of links. It does not replace the description of a host whose beacons are heard, unless it
 * comes from where they come from. Without proof it does not speak for a host that another address has answered for
 * lately.
 *
 * Of a host that is vouched for a description counts only as its statement has it, and a beacon only with the statement's start number
 * and name. Whoever forges beacons of such a host tells no more than signs of life and addresses.
 *
 * Return: 0; -EPERM: not as that host's statement says; -ESTALE for an older one than was taken before; -EBADMSG when the complete description is malformed;
 * -ENOSPC when there are too many hosts, descriptions or new hosts; -ENOMEM; -EALREADY for this host's own.
 */
int md_hosts_hear(struct md_hosts *hosts, const struct md_heard *heard, const struct md_beacon *beacon,
		  uint64_t now_ns, unsigned int *ret_news);

/**
 * md_hosts_vouch - a statement of a host has been verified
 * @said: what it says; @digest: of it
 *
 * What was known of the host without a statement, and is not as the statement says, is dropped.
 *
 * Return: 0 or -ENOMEM; @ret_news: WANTED and DESC.
 */
int md_hosts_vouch(struct md_hosts *hosts, struct md_host *host, const struct md_statement *said,
		   const uint8_t digest[MD_CONTENT_BYTES], enum md_trust_in trust, unsigned int *ret_news);
void md_hosts_unvouch(struct md_host *host);

/**
 * md_hosts_expire - forget sightings, pieces and hosts whose time is over
 *
 * Return: whether the directory is to be written anew.
 */
bool md_hosts_expire(struct md_hosts *hosts, uint64_t now_ns);

/**
 * md_hosts_excuse - we took nothing from @since_ns until @now_ns, which was our own fault
 *
 * Who has not been heard since is not silent for that: everything lasts as much longer.
 */
void md_hosts_excuse(struct md_hosts *hosts, uint64_t since_ns, uint64_t now_ns);

/**
 * md_hosts_forget_net - a netdev is gone or has lost its carrier: nothing is heard there any more
 *
 * Return: as md_hosts_expire(). Hosts stay until they expire, for their beacons may come another way.
 */
bool md_hosts_forget_net(struct md_hosts *hosts, uint32_t ifindex);

/** md_hosts_on_net - how many rails of others are heard on a netdev */
size_t md_hosts_on_net(const struct md_hosts *hosts, uint32_t ifindex);

struct md_host *md_hosts_find(const struct md_hosts *hosts, const struct mv_host_id *id); /* NULL: none */

void md_hosts_fini(struct md_hosts *hosts);

#endif
