/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Starts and stops all parts of the agent. */
#include "agent.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <sodium.h>
#include <systemd/sd-daemon.h>

#include "agent_log.h"
#include "drain.h"
#include "fields.h"
#include "id.h"
#include "order.h"
#include "peer.h"
#include "report.h"
#include "stored.h"

#define FDS_EACH 2 /* a connection and a pidfd of its process */
/* Descriptors other than connections, including those that clients sent and that are being closed, see client.h. */
#define OTHER_FDS (64 + 2 * (MD_STRAYS_MAX + MD_REFUSED_MAX))

/* ---- view ------------------------------------------------------------------------------------ */

/* No host is heard on a netdev that has gone or has no carrier. */
static void forget_nets(struct md_agent *agent, const struct md_view *old)
{
	for (size_t i = 0; i < old->n_nets; i++) {
		uint32_t ifindex = old->nets[i].ifindex;
		const struct md_net *net = md_view_net(agent->watch.view, ifindex);

		if (!net || !net->running)
			md_hosts_forget_net(&agent->hosts, ifindex);
	}
}

/* Does each netdev that runs in @a run in @b? */
static bool run_too(const struct md_view *a, const struct md_view *b)
{
	for (size_t i = 0; i < a->n_nets; i++) {
		const struct md_net *net = md_view_net(b, a->nets[i].ifindex);

		if (a->nets[i].running && (!net || !net->running))
			return false;
	}
	return true;
}

static bool same_rails(const struct md_desc *a, const struct md_desc *b)
{
	if (a->n_rails != b->n_rails)
		return false;
	for (uint32_t r = 0; r < a->n_rails; r++)
		if (a->rails[r].port != b->rails[r].port || strcmp(a->rails[r].device, b->rails[r].device))
			return false;
	return true;
}

/* The kernel's notification may concern routes. */
static void on_notice(void *arg)
{
	struct md_agent *agent = arg;

	md_routes_changed(&agent->routing.routes, md_now() + MD_ROUTES_NS);
}

static int route_leads(void *arg, uint32_t ifindex, const union ibv_gid *from, const union ibv_gid *to)
{
	return mv_netlink_leads(arg, ifindex, from, to);
}

static void on_view(void *arg, const struct md_view *old)
{
	struct md_agent *agent = arg;
	uint64_t now_ns = md_now(), generation = agent->tx.said.generation;

	forget_nets(agent, old);
	md_members_follow(&agent->members, agent->watch.view);
	memset(agent->tx.ipv4_until_ns, 0, sizeof(agent->tx.ipv4_until_ns));
	if (agent->clients.questions.turn) /* else md_resqp is opened with the clients */
		md_resqp_again(&agent->clients.questions.resqp);
	md_gidmap_own(&agent->gidmap, agent->watch.view);
	md_tx_describe(agent, !run_too(old, agent->watch.view) || !run_too(agent->watch.view, old));
	md_announce_nets(&agent->tx.announce, agent->watch.view, now_ns);
	if (!same_rails(old->desc, agent->watch.view->desc))
		md_routes_forget(&agent->routing.routes, &agent->hosts);
	md_routes_changed(&agent->routing.routes, now_ns);
	/* Hosts behind routers; beacons inform the neighbours. */
	md_targets_hurry(&agent->targets, &agent->gidmap, agent->tx.said.generation != generation, now_ns);
	agent->due.targets_ns = 0;
	md_due_directory(agent, md_desc_n_up(agent->watch.view->desc) < md_desc_n_up(old->desc));
}

static bool is_taken(void *arg, const union ibv_gid *gid)
{
	struct md_agent *agent = arg;

	return md_gidmap_find(&agent->gidmap, gid);
}

/* Called before a host's description is freed. */
static void on_leaving(void *arg, const struct md_host *host)
{
	struct md_agent *agent = arg;

	md_gidmap_release(&agent->gidmap, &host->id, host->desc);
}

/* ---- signals --------------------------------------------------------------------------------- */

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *arg)
{
	struct md_agent *agent = arg;

	if (info->ssi_signo != SIGHUP)
		return sd_event_exit(sd_event_source_get_event(source), 0);
	sd_notify(0, "RELOADING=1");
	md_files_hosts(agent);
	md_files_reload_keys(agent);
	md_trust_review(agent, NULL);
	md_due_directory(agent, false);
	sd_notify(0, "READY=1");
	return 0;
}

/* ---- start ----------------------------------------------------------------------------------- */

static int start_identity(struct md_agent *agent)
{
	struct md_secure_config secure = {0};
	struct md_id_from from;
	struct timespec now;
	struct md_keys keys;
	int err;

	md_id_gather(&from);
	agent->self.id = md_id_make(&from);
	for (size_t i = 0; from.hostname[i] && i < sizeof(agent->self.name) - 1; i++)
		agent->self.name[i] = from.hostname[i] == ' ' ? '?' : from.hostname[i];
	md_make_text(agent->self.name);
	clock_gettime(CLOCK_REALTIME, &now);
	agent->self.start = md_start_number(agent->rundir.control_fd,
				       (uint64_t)now.tv_sec * MD_S + (uint64_t)now.tv_nsec);
	agent->self.begun_ns = md_now();
	err = md_files_keys(agent->options, &keys);
	if (err)
		return err;
	secure.host = agent->self.id;
	secure.start = agent->self.start;
	err = md_secure_new(&secure, &keys, md_now(), &agent->secure);
	md_keys_wipe(&keys);
	if (err)
		return err;
	agent->gidmap.fleet_key = md_secure_has_key(agent->secure);
	return md_trust_start(agent);
}

static int start_network(struct md_agent *agent)
{
	int err, kept6, kept4;

	md_stored_take(&kept6, &kept4);
	err = md_udp_open(&agent->udp, (uint16_t)agent->options->config.agent_port, kept6, kept4);
	if (err) {
		md_log(MD_ERROR, "cannot use UDP port %u: %s", agent->options->config.agent_port,
		       md_strerror(err));
		return err;
	}
	md_stored_keep(&agent->udp);
	agent->hosts.self = agent->self.id;
	agent->hosts.leaving = on_leaving;
	agent->hosts.arg = agent;
	agent->tx.announce.interval_ms = agent->options->config.beacon_interval_ms;
	agent->tx.announce.random = randombytes_uniform;
	md_tx_describe(agent, false);
	md_announce_nets(&agent->tx.announce, agent->watch.view, md_now());
	agent->members.udp = &agent->udp;
	agent->members.jobs = &agent->jobs;
	md_members_start(&agent->members, agent->watch.view);
	md_files_hosts(agent);
	return md_rx_start(agent);
}

static int start_watch(struct md_agent *agent)
{
	int err;

	agent->routing.netlink = (struct mv_netlink){.request_fd = -1, .event_fd = -1};
	agent->routing.routes = (struct md_routes){
		.leads = route_leads, .arg = &agent->routing.netlink, .number = 1, .next_ns = UINT64_MAX};
	md_drain_load(agent);
	agent->watch.sysfs = agent->options->sysfs;
	agent->watch.config = &agent->options->config;
	agent->watch.drained = &agent->drained;
	agent->watch.jobs = &agent->jobs;
	agent->watch.changed = on_view;
	agent->watch.taken = is_taken;
	agent->watch.noticed = on_notice;
	agent->watch.arg = agent;
	err = md_watch_start(&agent->watch, agent->event);
	if (err)
		md_log(MD_ERROR, "cannot read the RDMA devices below %s: %s", agent->options->sysfs,
		       md_strerror(err));
	return err;
}

/* As many connections as the limit of descriptors allows. */
static size_t clients_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 256;
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_cur > FDS_EACH * MD_CLIENTS_MAX + OTHER_FDS + MD_CONTROLS_MAX)
		limit.rlim_cur = FDS_EACH * MD_CLIENTS_MAX + OTHER_FDS + MD_CONTROLS_MAX;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur > 2 * OTHER_FDS + MD_CONTROLS_MAX
		       ? (limit.rlim_cur - OTHER_FDS - MD_CONTROLS_MAX) / FDS_EACH
		       : 64;
}

static int start_sockets(struct md_agent *agent)
{
	int fd, err;

	md_msg_router_init(agent);
	md_prober_init(agent);
	agent->clients.event = agent->event;
	agent->clients.max = clients_max();
	fd = md_rundir_listen(agent->rundir.fd, "agent", SOCK_SEQPACKET, 256);
	err = fd < 0 ? fd : md_clients_start(&agent->clients, fd);
	if (!err) {
		agent->controls.event = agent->event;
		agent->controls.answer = md_report_answer;
		agent->controls.carry_out = md_order_answer;
		agent->controls.is_long = md_report_is_long;
		agent->controls.arg = agent;
		agent->controls.closer = &agent->clients.closing.closer;
		agent->controls.strays_closer = &agent->clients.closing.strays_closer;
		fd = md_rundir_listen(agent->rundir.control_fd, "control", SOCK_STREAM, 16);
		err = fd < 0 ? fd : md_controls_start(&agent->controls, fd);
	}
	if (err)
		md_log(MD_ERROR, "cannot listen in %s and %s: %s", agent->options->run_dir, agent->options->control_dir,
		       md_strerror(err));
	return err;
}

static int start_signals(struct md_agent *agent)
{
	struct md_signals *signals = &agent->signals;
	int err;

	err = sd_event_add_signal(agent->event, &signals->term, SIGTERM, on_signal, agent);
	if (err >= 0)
		err = sd_event_add_signal(agent->event, &signals->interrupt, SIGINT, on_signal, agent);
	if (err >= 0)
		err = sd_event_add_signal(agent->event, &signals->hup, SIGHUP, on_signal, agent);
	return err < 0 ? err : 0;
}

static int block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD); /* for qualify_run.c */
	return sigprocmask(SIG_BLOCK, &set, NULL) ? -errno : 0;
}

static void log_busy(const struct md_agent *agent)
{
	const struct md_rundir *rundir = &agent->rundir;

	if (rundir->old_agent)
		md_log(MD_ERROR, "another agent runs in %s, of an older version: end it first",
		       agent->options->run_dir);
	else if (rundir->holder)
		md_log(MD_ERROR, "another agent runs in %s: %s/lock is held by process %d of user %d",
		       agent->options->run_dir,
		       agent->options->control_dir, (int)rundir->holder, (int)md_peer_uid(rundir->holder));
	else
		md_log(MD_ERROR, "another agent runs in %s: it holds %s/lock", agent->options->run_dir,
		       agent->options->control_dir);
}

static int start_rundir(struct md_agent *agent)
{
	const struct md_options *options = agent->options;
	int err = md_rundir_open(&agent->rundir, options->run_dir, options->control_dir);
	pid_t holder;

	if (err == -EBUSY)
		log_busy(agent);
	else if (err == -EINVAL)
		md_log(MD_ERROR, "%s must not be %s or in it: containers mount that one", options->control_dir,
		       options->run_dir);
	else if (err)
		md_log(MD_ERROR, "cannot use %s and %s: %s", options->run_dir, options->control_dir, md_strerror(err));
	if (err)
		return err;
	md_rundir_tidy(&agent->rundir, &holder);
	if (holder)
		md_log(MD_WARNING, "%s/lock, of an agent of an older version, is held by process %d of user %d, which is none: ignored",
		       options->run_dir, (int)holder, (int)md_peer_uid(holder));
	return 0;
}

int md_agent_start(struct md_agent *agent, const struct md_options *options)
{
	int err;

	agent->options = options;
	agent->clients.trusts = options->trusts;
	agent->udp = (struct md_udp){.fd6 = -1, .fd4 = -1};
	agent->rundir = (struct md_rundir){.fd = -1, .control_fd = -1, .lock_fd = -1};
	agent->clients.listen_fd = agent->controls.listen_fd = agent->clients.questions.resqp.fd = -1;
	agent->watch.netlink = (struct mv_netlink){.request_fd = -1, .event_fd = -1};
	agent->publishing.due_ns = UINT64_MAX;
	agent->qualify.dir_fd = agent->qualify.run.fd = agent->qualify.library.fd = -1;
	if (sodium_init() < 0)
		return -EIO;
	err = start_rundir(agent);
	if (!err)
		err = block_signals();
	if (!err)
		err = sd_event_new(&agent->event);
	if (err < 0)
		return err;
	err = md_jobs_start(&agent->jobs, agent->event);
	if (!err)
		err = start_identity(agent);
	if (!err)
		err = start_watch(agent);
	if (!err)
		err = start_network(agent);
	if (!err)
		err = start_sockets(agent);
	if (!err)
		err = start_signals(agent);
	if (!err)
		err = md_due_start(agent);
	if (!err)
		md_qualify_start(agent);
	return err;
}

int md_agent_run(struct md_agent *agent)
{
	return sd_event_loop(agent->event);
}

static void stop_events(struct md_agent *agent)
{
	sd_event_source **sources[] = {&agent->listening.io6, &agent->listening.io4,	    &agent->due.timer,
				       &agent->due.post,      &agent->signals.term,	    &agent->signals.interrupt,
				       &agent->signals.hup};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		*sources[i] = sd_event_source_disable_unref(*sources[i]);
}

static void log_not_back(void)
{
	md_log(MD_WARNING, "a system call has not come back for %d ms: not waited for", MD_JOBS_STOP_MS);
}

bool md_agent_stop(struct md_agent *agent)
{
	bool closed = true;

	sd_notify(0, "STOPPING=1");
	if (agent->controls.event) {
		md_controls_stop(&agent->controls);
		md_rundir_remove(agent->rundir.control_fd, "control");
	}
	if (agent->clients.event) {
		closed = md_clients_stop(&agent->clients);
		if (closed)
			md_controls_fini(&agent->controls);
		else
			log_not_back();
		md_rundir_remove(agent->rundir.fd, "agent");
	}
	stop_events(agent);
	md_qualify_halt(agent);
	if (!md_jobs_stop(&agent->jobs)) {
		log_not_back();
		return false;
	}
	if (agent->msg_router.relay.ops)
		md_msg_relay_fini(&agent->msg_router.relay);
	md_probes_fini(&agent->prober.probes);
	md_hosts_fini(&agent->hosts);
	md_trust_stop(agent);
	md_gidmap_fini(&agent->gidmap);
	md_targets_fini(&agent->targets);
	md_qualify_stop(agent);
	md_watch_stop(&agent->watch);
	mv_netlink_close(&agent->routing.netlink);
	md_udp_close(&agent->udp);
	md_dir_publish_fini(&agent->publishing.published);
	md_secure_free(agent->secure);
	md_rundir_close(&agent->rundir);
	sd_event_unref(agent->event);
	return closed;
}
