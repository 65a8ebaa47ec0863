/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_WATCH_H
#define MD_WATCH_H

#include <systemd/sd-event.h>

#include "errands.h"
#include "topo_netlink.h"
#include "view.h"

/*
 * Keeps the local view: looks at sysfs and rtnetlink soon after the kernel says that something changed, again a
 * little later (GID tables follow addresses with a delay), and every MD_POLL_NS for what has no notice (port states of
 * InfiniBand). Looking is an errand (errands.h): the kernel may have it wait.
 */
struct md_watch {
	const char *sysfs; /* its root, the caller's */
	const struct mv_config *config; /* the caller's */
	const struct md_drained *drained; /* the caller's; md_watch_drained() after a change */
	struct md_errands *errands; /* the caller's, started */
	struct md_errand look;
	/* While it is out, its thread's; else of the event loop. */
	struct {
		bool whole; /* with devices and GID tables, else what ports and netdevs are now of those that are known */
		struct mv_topo topo; /* of the last one */
		uint32_t default_ifindex; /* only_default_netdev() */
		uint64_t took_ns; /* of a processor, not what others took meanwhile */
		int err;
	} looked;
	bool again, again_whole; /* asked for while one was out */
	struct mv_netlink netlink; /* its requests are the errand's, its events the loop's */
	struct md_view *view; /* never NULL after md_watch_start() */
	unsigned int looks_due; /* further looks after the next one */
	uint64_t n_looks, n_failed;
	uint64_t look_ns; /* what the last one took of a processor */
	uint64_t whole_at_ns; /* when the next one is due after a notice (CLOCK_BOOTTIME) */
	/* Of the states of ports alone: what the last look at them is to be followed by, and when all of them have been (CLOCK_BOOTTIME). */
	uint64_t states_cost_ns, states_paid_ns;
	bool states_due; /* they are what comes next */
	bool whole_waits; /* for the look at the states that was begun */
	uint64_t noticed_ns; /* the last notice since it was begun (CLOCK_BOOTTIME); 0: none */
	uint64_t change_ns; /* the first notice of what whole looks are for (CLOCK_BOOTTIME) */
	uint64_t spent_ns, spent_at_ns; /* what all took, less what was earned until then (CLOCK_BOOTTIME) */
	int last_err; /* of the last look; 0: it did not fail */
	sd_event_source *notice, *timer;
	/* Called after view has changed; @old is released afterwards. */
	void (*changed)(void *arg, const struct md_view *old);
	/* The kernel has said that something changed, which may be a route; may be NULL. */
	void (*noticed)(void *arg);
	/* As md_kept_add(); may be NULL. */
	bool (*taken)(void *arg, const union ibv_gid *gid);
	void *arg;
};

/**
 * md_watch_start - take the first look and watch from then on
 * @w: sysfs, config, drained, changed and arg are filled; changed() is not called for the first look
 *
 * A host without RDMA devices is fine: its view is empty.
 *
 * Return: 0; -errno of the netlink sockets or of sd-event; -ENOMEM.
 */
int md_watch_start(struct md_watch *w, sd_event *event);
/**
 * md_watch_drained - what is drained has changed, or what is taken
 *
 * changed() is called before it returns, unless the host is just being looked at, or could not be the last time: then it is called
 * after the next look.
 */
void md_watch_drained(struct md_watch *w);

/** md_watch_noticed - what follows when the kernel has said that something changed; for tests */
void md_watch_noticed(struct md_watch *w);

void md_watch_stop(struct md_watch *w); /* also one that did not start; after md_errands_stop() */

#endif
