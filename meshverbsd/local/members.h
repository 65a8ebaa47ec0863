/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_MEMBERS_H
#define MD_MEMBERS_H

#include "async_job.h"
#include "bounds.h"
#include "udp.h"
#include "view.h"

/*
 * Multicast membership: the netdevs of the view, on which beacons are received. Joining and leaving is done by an
 * job (async_job.h). A join that failed is tried again with the next view.
 */
struct md_member {
	uint32_t ifindex;
	char name[IFNAMSIZ];
	bool wanted;
	bool said; /* the log has said that no beacons are received there */
	int err; /* result of the last join */
};

struct md_members {
	struct md_job job;
	struct md_jobs *jobs; /* owned by the caller, started */
	struct md_udp *udp; /* owned by the caller, open while the job is out */
	/* Owned by the job's thread while the job is out, else by the event loop. */
	struct md_member members[2 * MD_NETS_MAX]; /* with members that have to leave */
	size_t n;
	const struct md_view *view; /* owned by the caller; a view that came while the job was out; NULL: none */
};

/** md_members_start - join the netdevs of @view; blocks */
void md_members_start(struct md_members *m, const struct md_view *view);

/** md_members_follow - the view has changed: join and leave. @view has to stay valid until the next call */
void md_members_follow(struct md_members *m, const struct md_view *view);

#endif
