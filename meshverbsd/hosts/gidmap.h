/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_GIDMAP_H
#define MD_GIDMAP_H

#include "claims.h"
#include "hosts.h"
#include "targets.h"
#include "view.h"

/*
 * Whose GID is it? One holder for each, contested by the rules of claims.h; link-local ones belong to whoever says so,
 * up to MD_GID_HOSTS_MAX hosts. While one of these signs what it says, the others have to as well. Kept up to date host by host; no I/O.
 */
struct md_holder {
	UT_hash_handle hh;
	union ibv_gid gid;
	unsigned int n;
	struct mv_host_id hosts[MD_GID_HOSTS_MAX]; /* 1 unless link-local */
	enum md_evidence evidence; /* of hosts[0] */
	bool vouched; /* hosts[0] is; link-local: all are, or none */
	uint32_t doubts; /* MV_DIR_INDEX_UNMET, MV_DIR_INDEX_UNANSWERED, or 0 */
	bool kept; /* by hosts[0], which does not have it at present (kept.h): another's who has it: claims.h */
};

struct md_gidmap {
	/*
	 * The fleet key is in use. Without it no other host holds a GID of InfiniBand: every user who may open an RDMA device can send any packet
	 * to IPoIB, and so can speak for any host there. To be set before the first claim.
	 */
	bool fleet_key;
	struct md_holder *by_gid;
	size_t n_contested; /* claims that failed since the last settlement */
	bool unsettled; /* a holder has let go since, so that a failed claim may succeed now */
	uint64_t ground; /* a hash of what the claims of all rest on in our view */
	size_t n_running; /* nets of ours */
	bool other_ground; /* it has changed since */
};

/**
 * md_gidmap_claim - a host says that it has these GIDs
 *
 * Does nothing if none of what that depends on has changed since it did so last.
 * @view: our own; its GIDs are nobody else's, but for those that it only keeps
 * @targets: to know which claims the hosts file supports
 *
 * To be called again when its description, or where it is heard, has changed. What has no memory is left out.
 */
void md_gidmap_claim(struct md_gidmap *map, struct md_host *host, const struct md_view *view,
		     const struct md_targets *targets);

/** md_gidmap_release - a host is gone, or will claim anew */
void md_gidmap_release(struct md_gidmap *map, const struct mv_host_id *id, const struct md_desc *desc);

/** md_gidmap_own - our own view has changed: take our GIDs from whoever has them, and let others claim what is not ours any more */
void md_gidmap_own(struct md_gidmap *map, const struct md_view *view);

/** md_gidmap_settle - let all claim again, if some holder has let go of something that others wanted, or our view has changed */
void md_gidmap_settle(struct md_gidmap *map, const struct md_hosts *hosts, const struct md_view *view,
		      const struct md_targets *targets);

/** md_gidmap_find - who has it; NULL: nobody */
const struct md_holder *md_gidmap_find(const struct md_gidmap *map, const union ibv_gid *gid);

/** md_holder_has - is that host one of them? @holder: NULL: nobody */
bool md_holder_has(const struct md_holder *holder, const struct mv_host_id *id);

/** md_gidmap_holds - is that host a holder? */
bool md_gidmap_holds(const struct md_gidmap *map, const struct mv_host_id *id, const union ibv_gid *gid);

void md_gidmap_fini(struct md_gidmap *map);

#endif
