/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_GIDMAP_H
#define MD_GIDMAP_H

#include "gid_arbitration.h"
#include "hosts.h"
#include "targets.h"
#include "view.h"

/*
 * Map from each GID to the host that has it (its holder). A GID has one holder; hosts compete for it by the rules of
 * gid_arbitration.h. A link-local GID is different: every host that claims it is a holder, up to MD_GID_HOSTS_MAX.
 * Beyond, a host on a link without holder takes the place of a host on a link with several. If one holder of a
 * link-local GID signs its description, only hosts that sign theirs are holders. Updated host by host. No I/O, no
 * locks: one thread.
 */
struct md_holder {
	UT_hash_handle hh;
	union ibv_gid gid;
	unsigned int n;
	struct mv_host_id hosts[MD_GID_HOSTS_MAX]; /* 1 unless link-local */
	uint32_t links[MD_GID_HOSTS_MAX]; /* link-local: a netdev of ours on which that host was heard when it claimed the GID; 0: none */
	enum md_evidence evidence; /* for the claim of hosts[0] */
	bool vouched; /* hosts[0] signs its description. Link-local: either all holders sign, or none */
	uint32_t doubts; /* MV_DIR_INDEX_UNMET, MV_DIR_INDEX_UNANSWERED, or 0 */
	bool in_grace; /* hosts[0] does not have the GID now (gid_grace.h). A host that has it wins: gid_arbitration.h */
};

struct md_gidmap {
	/*
	 * True: the fleet key is in use. False: no other host can hold an InfiniBand GID, because every user who may
	 * open an RDMA device can send any packet to IPoIB, and so can pose as any host there. To be set before the
	 * first claim.
	 */
	bool fleet_key;
	struct md_holder *by_gid;
	size_t n_contested; /* claims that failed, and holders that lost a GID, since the last md_gidmap_settle() */
	bool unsettled; /* a holder has released a GID since then, so a claim that failed may succeed now */
	uint64_t ground; /* hash of our running nets and their subnets, on which all claims are checked */
	size_t n_running; /* nets of ours whose link is up */
	bool other_ground; /* @ground has changed since the last md_gidmap_settle() */
};

/**
 * md_gidmap_claim - enter a host as holder of the GIDs in its description
 * @view: our own view. Other hosts cannot hold our GIDs, except those that we only keep
 * @targets: tells which claims the hosts file supports
 *
 * To be called again when the host's description changes, or the set of nets on which the host is heard. Does nothing
 * if neither these nor @view have changed since the last call. A GID for which there is no memory is left out.
 */
void md_gidmap_claim(struct md_gidmap *map, struct md_host *host, const struct md_view *view,
		     const struct md_targets *targets);

/**
 * md_gidmap_hear - the same when a datagram of the host has come that nothing proves
 * @share: that of the datagram
 *
 * If only the nets have changed on which the host is heard, limited to MD_NEW_GIDS_RATE: somebody may forge beacons of
 * many hosts now and then.
 *
 * Return: false: the host keeps its former claims and is @claimed.late; call again with its next datagram.
 */
bool md_gidmap_hear(struct md_gidmap *map, struct md_hosts *hosts, struct md_host *host, const struct md_view *view,
		    const struct md_targets *targets, unsigned int share, uint64_t now_ns);

/** md_gidmap_release - remove a host as holder of the GIDs in @desc: the host is gone, or will claim anew */
void md_gidmap_release(struct md_gidmap *map, const struct mv_host_id *id, const struct md_desc *desc);

/** md_gidmap_own - our own view has changed: our GIDs lose their other holders. md_gidmap_settle() lets hosts claim the rest */
void md_gidmap_own(struct md_gidmap *map, const struct md_view *view);

/** md_gidmap_settle - let all hosts claim anew, if a contested GID was released or our view has changed */
void md_gidmap_settle(struct md_gidmap *map, const struct md_hosts *hosts, const struct md_view *view,
		      const struct md_targets *targets);

/** md_gidmap_find - Return: the holder, owned by @map; NULL: none */
const struct md_holder *md_gidmap_find(const struct md_gidmap *map, const union ibv_gid *gid);

/** md_holder_has - is the host one of the holders? @holder may be NULL: false */
bool md_holder_has(const struct md_holder *holder, const struct mv_host_id *id);

/** md_gidmap_holds - is the host a holder of the GID? */
bool md_gidmap_holds(const struct md_gidmap *map, const struct mv_host_id *id, const union ibv_gid *gid);

void md_gidmap_fini(struct md_gidmap *map);

#endif
