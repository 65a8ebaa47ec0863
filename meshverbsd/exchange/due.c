/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* One timer for the agent: directory, expiry, beacons, queries, repetitions. */
#include "agent.h"

#include <time.h>

#include <systemd/sd-daemon.h>

#include "agent_log.h"
#include "dir_build.h"
#include "paths.h"

uint64_t md_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * MD_S + (uint64_t)now.tv_nsec;
}

uint64_t md_realtime_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec;
}

/* ---- directory ------------------------------------------------------------------------------- */

void md_due_directory(struct md_agent *agent, bool urgent)
{
	struct md_publishing *publishing = &agent->publishing;
	uint64_t now_ns = md_now(), spacing_ns = MD_PUBLISH_SHARE * publishing->cost_ns;
	uint64_t delay_ns = urgent ? 0 : MD_PUBLISH_DELAY_NS, at_ns;

	/* The first directory waits for its time even if urgent: the file of the former agent may know more hosts. */
	if (publishing->due_ns != UINT64_MAX && !publishing->rationed && (!urgent || !agent->counts.published))
		return;
	if (!urgent && spacing_ns < MD_PUBLISH_NS)
		spacing_ns = MD_PUBLISH_NS;
	at_ns = publishing->last_ns + spacing_ns;
	if (at_ns < now_ns + delay_ns)
		at_ns = now_ns + delay_ns;
	if (at_ns >= publishing->due_ns)
		return;
	publishing->due_ns = at_ns;
	publishing->rationed = false;
}

static const struct md_rate wakes_rate = {.per_second = MD_WAKES_RATE, .burst = MD_WAKES_BURST};

/* A directory for changes that anybody can bring about. */
static void ration(struct md_agent *agent, bool urgent)
{
	struct md_publishing *publishing = &agent->publishing;
	uint64_t now_ns = md_now();

	if (md_limit_has(&publishing->wakes, &wakes_rate, now_ns)) {
		md_due_directory(agent, urgent);
	} else if (publishing->due_ns == UINT64_MAX) {
		publishing->due_ns = now_ns + MD_S / MD_WAKES_RATE;
		publishing->rationed = true;
	}
}

/*
 * Every new directory wakes all processes of this host. An attacker can invent hosts with keys, so the changes of a host
 * is rationed unless a process watches a path to it.
 */
void md_due_heard(struct md_agent *agent, const struct md_host *host, bool urgent, bool proven)
{
	bool is_signed = md_host_is_vouched(host);
	bool watched = (urgent || is_signed) && md_probes_has_host(&agent->prober.probes, &host->id);

	if (!proven && !(is_signed && watched))
		agent->publishing.unproven = true;
	if (proven || watched)
		md_due_directory(agent, urgent);
	else
		ration(agent, urgent);
}

/* A GID that we only keep is given up as soon as another host has it. */
static void yield_in_grace(struct md_agent *agent)
{
	const struct md_view *view = agent->watch.view;

	for (uint32_t g = 0; view->grace_until_ns && g < view->desc->n_gids; g++) {
		const union ibv_gid *gid = &view->desc->gids[g].gid;

		if (view->grace_until_ns[g] && mv_gid_family(gid) != MV_FAMILY_LINK_LOCAL && md_gidmap_find(&agent->gidmap, gid)) {
			md_watch_drained(&agent->watch); /* this may replace agent->watch.view */
			return;
		}
	}
}

static bool is_authenticated(const void *arg, const struct md_host *host)
{
	return md_trust_is_authenticated(arg, host);
}

static uint32_t library(const void *arg, const char *device)
{
	const struct md_agent *agent = arg;

	return md_qualify_library(&agent->qualify, device);
}

static int write_directory(struct md_agent *agent, uint64_t now_ns)
{
	struct md_dir_build_from from = {.self = &agent->self.id,
					 .name = agent->self.name,
					 .hosts = &agent->hosts,
					 .map = &agent->gidmap,
					 .targets = &agent->targets,
					 .is_authenticated = is_authenticated,
					 .library = library,
					 .arg = agent};
	struct md_dir_build content;
	int err;

	md_gidmap_settle(&agent->gidmap, &agent->hosts, agent->watch.view, &agent->targets);
	yield_in_grace(agent);
	from.view = agent->watch.view;
	err = md_dir_build_make(&from, now_ns, &content);
	if (err)
		return err;
	err = md_dir_publish(&agent->publishing.published, &content.dir, now_ns);
	md_dir_build_free(&content);
	return err;
}

static void publish(struct md_agent *agent, uint64_t now_ns)
{
	struct md_publishing *publishing = &agent->publishing;
	int err = write_directory(agent, now_ns);

	publishing->last_ns = md_now();
	publishing->cost_ns = publishing->last_ns - now_ns;
	publishing->due_ns = UINT64_MAX;
	publishing->rationed = false;
	if (!err) {
		if (publishing->unproven)
			md_limit_take(&publishing->wakes, &wakes_rate, now_ns);
		publishing->unproven = false;
		md_clients_changed(&agent->clients);
		if (!agent->counts.published++) {
			sd_notify(0, "READY=1");
			sd_event_set_watchdog(agent->event, true); /* failure is harmless: the agent runs without watchdog */
		}
		return;
	}
	if (!agent->counts.publish_failed++)
		md_log(MD_ERROR, "cannot write %s/" MV_DIRECTORY_FILE ": %s",
		       agent->options->run_dir, md_strerror(err));
	/* A full file system, or lack of memory, may pass. */
	publishing->due_ns = publishing->last_ns + MD_S;
}

/* ---- routes ---------------------------------------------------------------------------------- */

/* Query the host at one address of each of its further rails as well, in case the rail of the known address fails. */
static void learn_addresses(struct md_agent *agent, const struct md_host *host)
{
	union ibv_gid told_by = md_paths_gid(&host->told.by);
	const struct md_target *of = md_targets_find(&agent->targets, &told_by);
	uint32_t rail = UINT32_MAX;
	unsigned int n = 0;

	if (of && host->desc) {
		md_targets_unlearn(&agent->targets, of, host->desc);
		of = md_targets_find(&agent->targets, &told_by);
	}
	for (uint32_t g = 0; of && host->routes.from && g < host->desc->n_gids && n < MD_LEARNED_TARGETS; g++) {
		const struct mv_dir_gid *gid = &host->desc->gids[g];

		if (!host->routes.from[g] || gid->rail == rail || mv_dir_gid_in_grace(gid))
			continue;
		rail = gid->rail;
		n++;
		if (md_targets_learn(&agent->targets, &gid->gid, of))
			agent->due.targets_ns = 0;
	}
}

void md_due_routes(struct md_agent *agent, struct md_host *host)
{
	if (md_routes_of(&agent->routing.routes, agent->watch.view, host, md_now()))
		md_due_directory(agent, false);
	learn_addresses(agent, host);
}

static void look_at_routes(struct md_agent *agent, uint64_t now_ns)
{
	if (md_routes_again(&agent->routing.routes, agent->watch.view, &agent->hosts, now_ns))
		md_due_directory(agent, false);
}

/* ---- targets --------------------------------------------------------------------------------- */

void md_due_targets(struct md_agent *agent, uint64_t now_ns)
{
	agent->due.targets_rest_ns = now_ns + agent->targets.n * MD_TARGETS_EACH_NS;
	agent->due.targets_ns = md_targets_tick(&agent->targets, now_ns, md_tx_ask, agent);
}

uint64_t md_due_targets_next(const struct md_agent *agent)
{
	const struct md_due *due = &agent->due;

	return due->targets_ns > due->targets_rest_ns ? due->targets_ns : due->targets_rest_ns;
}

/* ---- time ------------------------------------------------------------------------------------ */

/*
 * While the agent had no processor (busy host, SIGSTOP, suspend) it heard no host, and datagrams wait in the sockets at
 * best. Read them first: otherwise hosts that are alive would expire, and connections be made without them.
 */
static void expire(struct md_agent *agent, uint64_t now_ns)
{
	bool drained = md_rx_drain(agent);

	if (!md_expiry_look(&agent->due.expiry, &agent->hosts, drained, md_udp_dropped(&agent->udp), now_ns))
		return;
	/* Whoever invents hosts has them expire, one after the other. */
	if (md_secure_has_key(agent->secure)) {
		md_due_directory(agent, false);
		return;
	}
	agent->publishing.unproven = true;
	ration(agent, false);
}

static void count_heard(struct md_agent *agent, uint64_t now_ns)
{
	struct md_announce *announce = &agent->tx.announce;
	struct md_net_heard nets[MD_NETS_MAX];
	size_t n = announce->n;

	for (size_t i = 0; i < n; i++)
		nets[i] = (struct md_net_heard){.ifindex = announce->outlets[i].ifindex};
	md_hosts_on_nets(&agent->hosts, nets, n);
	for (size_t i = 0; i < n; i++)
		md_announce_heard(announce, nets[i].ifindex, nets[i].n);
	agent->due.count_ns = now_ns + MD_S + agent->hosts.n * MD_MS;
}

/* Read acks that wait in the sockets before anything is repeated. */
static void repeat(struct md_agent *agent, uint64_t now_ns)
{
	md_rx_drain(agent);
	if (md_msg_relay_next(&agent->msg_router.relay) <= now_ns)
		md_msg_relay_tick(&agent->msg_router.relay, now_ns);
}

static void do_what_is_due(struct md_agent *agent, uint64_t now_ns)
{
	if (agent->due.expiry.due_ns <= now_ns)
		expire(agent, now_ns);
	if (agent->due.count_ns <= now_ns)
		count_heard(agent, now_ns);
	if (md_tx_next(agent) <= now_ns)
		md_tx_beacons(agent, now_ns);
	if (md_due_targets_next(agent) <= now_ns)
		md_due_targets(agent, now_ns);
	if (md_msg_relay_next(&agent->msg_router.relay) <= now_ns)
		repeat(agent, now_ns);
	if (md_prober_next(agent) <= now_ns)
		md_prober_tick(agent);
	else if (md_probes_hurries(&agent->prober.probes))
		md_probes_tell_the_rest(&agent->prober.probes);
	if (md_cookie_refresh_next(agent) <= now_ns)
		md_cookie_refresh_look(agent, now_ns);
	if (md_trust_next(agent) <= now_ns)
		md_trust_look(agent, now_ns);
	if (agent->routing.routes.next_ns <= now_ns)
		look_at_routes(agent, now_ns);
	if (agent->publishing.due_ns <= now_ns)
		publish(agent, now_ns);
	if (agent->due.heartbeat_ns <= now_ns) {
		md_dir_publish_heartbeat(&agent->publishing.published, now_ns);
		md_clients_weigh(&agent->clients);
		agent->due.heartbeat_ns = now_ns + MD_HEARTBEAT_NS;
	}
}

static uint64_t earliest(const struct md_agent *agent)
{
	const uint64_t times[] = {
		agent->due.expiry.due_ns,
		agent->due.count_ns,
		md_due_targets_next(agent),
		agent->publishing.due_ns,
		agent->due.heartbeat_ns,
		md_tx_next(agent),
		md_msg_relay_next(&agent->msg_router.relay),
		md_cookie_refresh_next(agent),
		md_trust_next(agent),
		md_probes_hurries(&agent->prober.probes) ? 0 : md_prober_next(agent),
		agent->routing.routes.next_ns,
		md_bundles_next(&agent->msg_router.bundles), /* on_post() flushes the bundles */
	};
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (times[i] < next_ns)
			next_ns = times[i];
	return next_ns;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *arg)
{
	(void)source;
	(void)usec;
	do_what_is_due(arg, md_now());
	return 0;
}

/* Runs after all other events of a loop iteration: sends batched messages, and sets the timer for the next time that is due. */
static int on_post(sd_event_source *source, void *arg)
{
	struct md_agent *agent = arg;

	(void)source;
	md_msg_router_flush(agent);
	sd_event_source_set_time(agent->due.timer, earliest(agent) / 1000 + 1);
	sd_event_source_set_enabled(agent->due.timer, SD_EVENT_ONESHOT);
	return 0;
}

int md_due_start(struct md_agent *agent)
{
	int err;

	err = sd_event_add_time(agent->event, &agent->due.timer, CLOCK_BOOTTIME, 0, MD_TIMER_US, on_timer,
				agent);
	if (err >= 0)
		err = sd_event_add_post(agent->event, &agent->due.post, on_post, agent);
	if (err < 0)
		return err;
	md_expiry_begin(&agent->due.expiry, md_udp_dropped(&agent->udp), md_now());
	/* The directory of a former agent remains in use until the neighbours have answered. */
	agent->publishing.published.dir_fd = agent->rundir.fd;
	agent->publishing.due_ns = md_now();
	if (md_dir_publish_exists(agent->rundir.fd))
		agent->publishing.due_ns += MD_PUBLISH_FIRST_NS;
	return 0;
}
