/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_WATCH_H
#define MD_WATCH_H

#include <systemd/sd-event.h>

#include "async_job.h"
#include "topo_netlink.h"
#include "view.h"

/* Looks at everything: when they are due, and their processor time. CLOCK_BOOTTIME. Event loop's thread only. */
struct md_watch_whole {
	unsigned int n_due; /* looks to follow the next one */
	uint64_t at_ns; /* next one after a notification */
	bool waits; /* one follows the present look at states */
	uint64_t change_ns; /* first notification that the planned ones are for */
	uint64_t cost_ns; /* processor time of the last one */
	uint64_t spent_ns, spent_at_ns; /* processor time of all, less the share that was earned until @spent_at_ns */
};

/* Looks at port states only. CLOCK_BOOTTIME. Event loop's thread only. */
struct md_watch_states {
	bool due; /* the timer is for one */
	uint64_t noticed_ns; /* last notification during the present one; 0: none */
	uint64_t cost_ns; /* processor time of the last one times MD_LOOK_SHARE */
	uint64_t paid_ns; /* when all of them are paid for */
};

/*
 * Keeps the local view up to date. Looks at sysfs and rtnetlink shortly after a notification of the kernel, again a
 * little later (GID tables follow addresses with a delay), and every MD_POLL_NS for changes without notification
 * (InfiniBand port states). A look is a job (async_job.h), because the kernel may block it. All functions: event
 * loop's thread only.
 */
struct md_watch {
	const char *sysfs; /* root of sysfs; owned by the caller */
	const struct mv_config *config; /* owned by the caller */
	const struct md_drained *drained; /* owned by the caller; call md_watch_drained() after a change */
	struct md_jobs *jobs; /* owned by the caller, started */
	struct md_job look;
	/* Owned by the job's thread while the job is out, else by the event loop. */
	struct {
		bool whole; /* with devices and GID tables; false: only states of known ports and netdevs */
		struct mv_topo topo; /* result of the last look */
		uint32_t default_ifindex; /* result of only_default_netdev() */
		uint64_t took_ns; /* processor time */
		int err;
	} looked;
	bool again, again_whole; /* a look was asked for while another one was out */
	struct mv_netlink netlink; /* the job uses it for requests, the event loop for notifications */
	struct md_view *view; /* never NULL after md_watch_start() */
	uint64_t n_looks, n_failed;
	struct md_watch_whole whole;
	struct md_watch_states states;
	int last_err; /* result of the last look; 0: success */
	sd_event_source *notice, *timer;
	/* Called after @view has changed. @old is freed after the call. */
	void (*changed)(void *arg, const struct md_view *old);
	/* The kernel has notified a change, perhaps of a route; may be NULL. */
	void (*noticed)(void *arg);
	/* as in md_gid_grace_add(); may be NULL */
	bool (*taken)(void *arg, const union ibv_gid *gid);
	void *arg;
};

/**
 * md_watch_start - take the first look, which blocks, and watch from then on
 * @w: sysfs, config, drained, jobs, changed and arg are filled in; changed() is not called for the first look
 *
 * A host without RDMA devices has an empty view.
 *
 * Return: 0; -errno of the netlink sockets or of sd-event; -ENOMEM.
 */
int md_watch_start(struct md_watch *w, sd_event *event);
/**
 * md_watch_drained - the drained devices have changed, or the GIDs that are taken
 *
 * Calls changed() before it returns. Exception: if a look is out, or the last look has failed, changed() is called
 * after the next look.
 */
void md_watch_drained(struct md_watch *w);

/** md_watch_noticed - handle a notification of the kernel; exported for tests */
void md_watch_noticed(struct md_watch *w);

void md_watch_stop(struct md_watch *w); /* also after a failed start; to be called after md_jobs_stop() */

#endif
