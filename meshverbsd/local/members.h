/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_MEMBERS_H
#define MD_MEMBERS_H

#include "bounds.h"
#include "errands.h"
#include "udp.h"
#include "view.h"

/*
 * Netdevs on which beacons are received: those of the view. Joining and leaving are errands (errands.h). What could not be joined is
 * tried again with the next view.
 */
struct md_member {
	uint32_t ifindex;
	char name[IFNAMSIZ];
	bool wanted;
	bool said; /* that nothing can be heard there */
	int err; /* of the last try to join */
};

struct md_members {
	struct md_errand errand;
	struct md_errands *errands; /* the caller's, started */
	struct md_udp *udp; /* the caller's, open as long as the errand is out */
	/* While the errand is out, its thread's; else of the event loop. */
	struct md_member members[2 * MD_NETS_MAX]; /* with those that are left */
	size_t n;
	const struct md_view *view; /* the caller's, that came while the errand was out; NULL: none */
};

/** md_members_start - join those of @view before it returns */
void md_members_start(struct md_members *m, const struct md_view *view);

/** md_members_follow - join and leave: the view has changed. @view stays until the next call */
void md_members_follow(struct md_members *m, const struct md_view *view);

#endif
