/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "watch.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>
#include <linux/rtnetlink.h>

#include "agent_log.h"
#include "gid_grace.h"
#include "topo_sysfs.h"

/* Delays of whole looks after a notification, last one first: 0.5 ms, then 20, 100 and 500 ms later. */
static const uint64_t settle_ns[] = {500 * MD_MS, 100 * MD_MS, MD_SETTLE_NS, MD_AT_ONCE_NS};
#define N_LOOKS	  (sizeof(settle_ns) / sizeof(settle_ns[0]))
#define N_AT_ONCE (N_LOOKS - 1) /* value of whole.n_due before the first whole look after a notification */
#define N_DOWN	  1 /* value of whole.n_due after a port went down: one look, MD_TABLES_NS later */

/* Does the netdev have a default route in the main table? Looks up routes to addresses that no host has (RFC 5737, RFC 3849). */
static bool has_default_route(struct md_watch *w, uint32_t ifindex)
{
	static const char *const nobody[] = {"203.0.113.1", "2001:db8::1"};
	static const uint8_t default_len[] = {96, 0};

	for (int i = 0; i < 2; i++) {
		union ibv_gid gid;

		if (mv_gid_parse(nobody[i], &gid) ||
		    mv_netlink_add_route(&w->netlink, &w->looked.topo, ifindex, &gid) <= 0)
			continue;
		for (size_t r = 0; r < w->looked.topo.n_routes; r++) {
			const struct mv_route *route = &w->looked.topo.routes[r];

			if (route->ifindex == ifindex && route->table == RT_TABLE_MAIN &&
			    mv_gid_is_zero(&route->src) && route->fib_len == default_len[i] &&
			    mv_gid_equal(&route->dst, &gid))
				return true;
		}
	}
	return false;
}

/* Several default routes mean that the fabric is routed by default routes, so they do not mark a management network. */
static uint32_t only_default_netdev(struct md_watch *w)
{
	uint32_t found = 0;

	if (!w->config->exclude_default_route)
		return 0;
	for (size_t i = 0; i < w->looked.topo.n_netdevs; i++) {
		uint32_t ifindex = w->looked.topo.netdevs[i].ifindex;

		if (!md_view_is_rail_netdev(&w->looked.topo, ifindex) || !has_default_route(w, ifindex))
			continue;
		if (found)
			return 0;
		found = ifindex;
	}
	return found;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * MD_S + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

/* Return: processor time of looks beyond their share of 1 / MD_LOOK_SHARE, and beyond MD_LOOKS_AT_ONCE free looks. */
static uint64_t overspent_ns(struct md_watch_whole *whole, uint64_t now)
{
	uint64_t earned = (now - whole->spent_at_ns) / MD_LOOK_SHARE;
	uint64_t free_ns = MD_LOOKS_AT_ONCE * whole->cost_ns;

	whole->spent_ns -= earned < whole->spent_ns ? earned : whole->spent_ns;
	whole->spent_at_ns = now;
	return whole->spent_ns > free_ns ? whole->spent_ns - free_ns : 0;
}

static struct md_watch *watch_of(struct md_job *look)
{
	return md_job_of(look, struct md_watch, look);
}

/* ---- the job ---------------------------------------------------------------------------------- */

static int read_host(struct md_watch *w)
{
	struct mv_topo *topo = &w->looked.topo;
	int err;

	if (w->looked.whole)
		mv_topo_clear_devices(topo);
	err = mv_netlink_fill(&w->netlink, topo);
	if (!err)
		err = w->looked.whole ? mv_sysfs_fill(topo, w->sysfs) : mv_sysfs_fill_states(topo, w->sysfs);
	if (err && err != -ENOENT)
		return err;
	w->looked.default_ifindex = only_default_netdev(w);
	return 0;
}

static void run_look(struct md_job *look)
{
	struct md_watch *w = watch_of(look);
	uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	w->looked.err = read_host(w);
	w->looked.took_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
}

/* ---- the view --------------------------------------------------------------------------------- */

/* Return: 0; -ENOMEM: the view is unchanged. */
static int make_view(struct md_watch *w)
{
	struct md_view *old = w->view, *view = NULL;
	int err = md_view_make(&w->looked.topo, w->config, w->drained, w->looked.default_ifindex, &view);

	if (!err && old)
		err = md_gid_grace_add(view, old, &w->looked.topo, now_ns(), w->taken, w->arg);
	if (err) {
		md_view_free(view);
		return err;
	}
	if (old && md_view_same(old, view)) {
		uint64_t *grace_until_ns = old->grace_until_ns;

		old->grace_until_ns = view->grace_until_ns;
		view->grace_until_ns = grace_until_ns;
		md_view_free(view);
		return 0;
	}
	view->number = old ? old->number + 1 : 1;
	w->view = view;
	if (old)
		w->changed(w->arg, old);
	md_view_free(old);
	return 0;
}

static void begin_look(struct md_watch *w, bool whole)
{
	if (w->look.out) {
		w->again = true;
		w->again_whole |= whole;
		return;
	}
	/* After a failed look, the devices are not known, so their states alone cannot be read. */
	w->looked.whole = whole || w->last_err;
	md_jobs_give(w->jobs, &w->look);
}

static void account(struct md_watch *w)
{
	if (w->looked.whole) {
		w->n_looks++;
		w->whole.cost_ns = w->looked.took_ns;
		overspent_ns(&w->whole, now_ns());
		w->whole.spent_ns += w->looked.took_ns;
	} else {
		uint64_t now = now_ns();

		w->states.cost_ns = MD_LOOK_SHARE * w->looked.took_ns;
		w->states.paid_ns = (w->states.paid_ns > now ? w->states.paid_ns : now) + w->states.cost_ns;
	}
}

static void set_timer(struct md_watch *w, uint64_t delay_ns)
{
	sd_event_source_set_time_relative(w->timer, delay_ns / 1000);
	sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
}

static void look_at_states(struct md_watch *w)
{
	w->states.due = false;
	w->whole.waits = true;
	sd_event_source_set_enabled(w->timer, SD_EVENT_OFF);
	begin_look(w, false);
}

/*
 * The kernel notifies of a port that goes down when it is down, so the first look is immediate. A second one, a moment
 * later, sees what changes together with the port, e.g. the other port of a NIC. Further looks wait until their
 * processor time is paid for.
 */
static uint64_t states_at_ns(const struct md_watch_states *states, uint64_t now)
{
	uint64_t at_ns = states->paid_ns > now ? now + MD_AT_ONCE_NS : now;

	return at_ns + states->cost_ns < states->paid_ns ? states->paid_ns - states->cost_ns : at_ns;
}

/*
 * Further notifications do not put off a planned look. A routing daemon may cause notifications for long; then looks
 * wait until their processor time is paid for.
 */
static void plan_whole(struct md_watch *w, uint64_t now)
{
	uint64_t wait_ns;

	if (w->whole.n_due == N_AT_ONCE)
		return;
	wait_ns = MD_LOOK_SHARE * overspent_ns(&w->whole, now);
	if (wait_ns < MD_AT_ONCE_NS)
		wait_ns = MD_AT_ONCE_NS;
	w->whole.n_due = N_AT_ONCE;
	w->whole.change_ns = now;
	w->whole.at_ns = now + wait_ns;
	w->states.due = false;
	set_timer(w, wait_ns);
}

/* A look at states waits neither for the GID tables, which take long to read, nor for the share of whole looks. */
static void plan_states(struct md_watch *w, uint64_t now)
{
	uint64_t at_ns = states_at_ns(&w->states, now);

	if (w->states.due || w->last_err || at_ns > w->whole.at_ns)
		return;
	if (at_ns > now) {
		w->states.due = true;
		set_timer(w, at_ns - now);
	} else {
		look_at_states(w);
	}
}

/* The kernel sends several notifications when a port goes down. Those within MD_AT_ONCE_NS after the first do not hasten the whole look. */
static void plan(struct md_watch *w, uint64_t noticed_ns)
{
	uint64_t now = now_ns();

	if (w->whole.n_due != N_DOWN || noticed_ns >= w->whole.change_ns + MD_AT_ONCE_NS)
		plan_whole(w, now);
	plan_states(w, now);
}

/* The look at states has ended, perhaps in failure. @more_up: change of the number of ports that are up. */
static void whole_is_next(struct md_watch *w, int more_up)
{
	uint64_t now = now_ns(), noticed_ns = w->states.noticed_ns;

	w->whole.waits = false;
	w->states.noticed_ns = 0;
	if (more_up < 0) {
		w->whole.n_due = N_DOWN;
		if (w->whole.at_ns < now + MD_TABLES_NS)
			w->whole.at_ns = now + MD_TABLES_NS;
	} else if (more_up) {
		plan_whole(w, now);
	}
	set_timer(w, w->whole.at_ns > now ? w->whole.at_ns - now : 0);
	/* A change may have come after its file had been read. */
	if (noticed_ns)
		plan(w, noticed_ns);
}

static void on_looked(struct md_job *look)
{
	struct md_watch *w = watch_of(look);
	uint32_t n_up = md_desc_n_up(w->view->desc);
	int err = w->looked.err;

	account(w);
	if (!err)
		err = make_view(w);
	if (err) {
		/* The view stays as it is; the next poll tries again. */
		w->n_failed++;
		if (err != w->last_err)
			md_log(MD_WARNING, "cannot read the RDMA devices below %s: %s", w->sysfs,
			       md_strerror(err));
	}
	w->last_err = err;
	if (w->again) {
		bool whole = w->again_whole;

		w->again = w->again_whole = false;
		begin_look(w, whole);
	} else if (w->whole.waits) {
		whole_is_next(w, (int)md_desc_n_up(w->view->desc) - (int)n_up);
	}
}

void md_watch_drained(struct md_watch *w)
{
	if (w->look.out || w->last_err || make_view(w))
		begin_look(w, true);
}

/* ---- when ------------------------------------------------------------------------------------- */

static int on_timer(sd_event_source *source, uint64_t usec, void *arg)
{
	struct md_watch *w = arg;

	(void)source;
	(void)usec;
	if (w->states.due) {
		look_at_states(w);
		return 0;
	}
	begin_look(w, true);
	if (w->whole.n_due) {
		w->whole.n_due--;
		set_timer(w, settle_ns[w->whole.n_due]);
	} else {
		set_timer(w, MD_POLL_NS);
	}
	return 0;
}

void md_watch_noticed(struct md_watch *w)
{
	uint64_t now = now_ns();

	if (w->whole.waits)
		w->states.noticed_ns = now;
	else
		plan(w, now);
}

static int on_notice(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct md_watch *w = arg;

	(void)source;
	(void)fd;
	(void)revents;
	if (!mv_netlink_changed(&w->netlink))
		return 0;
	if (w->noticed)
		w->noticed(w->arg);
	md_watch_noticed(w);
	return 0;
}

int md_watch_start(struct md_watch *w, sd_event *event)
{
	int err;

	w->look = (struct md_job){.run = run_look, .done = on_looked};
	mv_topo_init(&w->looked.topo);
	err = mv_netlink_open(&w->netlink);
	if (err)
		return err;
	/* The first look blocks: without a view the agent has nothing to announce. */
	w->looked.whole = true;
	run_look(&w->look);
	err = w->looked.err;
	if (!err)
		err = make_view(w);
	if (err)
		return err;
	err = sd_event_add_io(event, &w->notice, w->netlink.event_fd, EPOLLIN, on_notice, w);
	if (err < 0)
		return err;
	err = sd_event_add_time_relative(event, &w->timer, CLOCK_BOOTTIME, MD_POLL_NS / 1000, MD_TIMER_US,
					 on_timer, w);
	return err < 0 ? err : 0;
}

void md_watch_stop(struct md_watch *w)
{
	w->notice = sd_event_source_disable_unref(w->notice);
	w->timer = sd_event_source_disable_unref(w->timer);
	mv_netlink_close(&w->netlink);
	mv_topo_fini(&w->looked.topo);
	md_view_free(w->view);
	w->view = NULL;
}
