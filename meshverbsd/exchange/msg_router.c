/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages between processes of different hosts, from a process to the network. arrivals.c: from the network to a process. */
#include <errno.h>
#include <string.h>

#include <sodium.h>

#include "agent.h"
#include "agent_log.h"
#include "paths.h"

unsigned int md_msg_router_deliver(struct md_agent *agent, const struct mv_host_id *from, const struct mv_ctl_msg *msg,
			    const uint8_t *data, uint16_t len)
{
	const char *devices[MD_RAILS_MAX];
	size_t n = md_view_devices(agent->watch.view, &msg->to.gid, devices, MD_RAILS_MAX);
	unsigned int delivered = 0;

	/* A link-local address may be on several devices. A QP for which the message is not meant recognises that by its ends. */
	for (size_t i = 0; i < n; i++) {
		if (!msg->to_attempt)
			md_clients_doubt(&agent->clients, devices[i], msg->to.qpn);
		delivered +=
			md_clients_deliver(&agent->clients, from, devices[i], msg->to.qpn, data, len);
	}
	return delivered;
}

bool md_msg_router_names_path(const struct mv_ctl_msg *msg)
{
	return !mv_gid_is_zero(&msg->path.gid);
}

/* A process of the account needs the hosts that have the GID. */
static void want_holders(struct md_agent *agent, const union ibv_gid *dgid, uint64_t account)
{
	const struct md_holder *holder = md_gidmap_find(&agent->gidmap, dgid);

	for (unsigned int h = 0; holder && h < holder->n; h++) {
		struct md_host *host = md_hosts_find(&agent->hosts, &holder->hosts[h]);

		if (host)
			md_hosts_want(&agent->hosts, host, account);
	}
	md_targets_share(&agent->targets, dgid, account, md_now());
}

static int on_send(void *arg, struct md_client *client, const union ibv_gid *dgid,
		   const struct mv_ctl_msg *msg, const uint8_t *data, uint16_t len)
{
	struct md_agent *agent = arg;
	int err;

	if (md_msg_router_names_path(msg) && !md_view_has_gid(agent->watch.view, &msg->path.gid)) {
		agent->counts.messages.not_theirs++;
		return -EADDRNOTAVAIL;
	}
	if (md_view_has_gid(agent->watch.view, dgid)) {
		/* No process has registered the QP yet. After the registration that process asks by itself. */
		if (!md_msg_router_deliver(agent, &agent->hosts.self, msg, data, len))
			agent->counts.messages.unregistered++;
		return 0;
	}
	want_holders(agent, dgid, client->account->id);
	if (!md_has_room(agent->msg_router.relay.n, MD_MSGS_MAX, client->account->id))
		return -ENOSPC;
	client->n_msgs++;
	client->account->n_msgs++;
	err = md_msg_relay_send(&agent->msg_router.relay, client->number, dgid, msg->to.qpn, data, len, md_now());
	if (err) {
		client->n_msgs--;
		client->account->n_msgs--;
	}
	return err == MD_MSG_RELAY_MERGED ? 0 : err;
}

static size_t on_devices(void *arg, const union ibv_gid *gid, const char **ret, size_t max)
{
	struct md_agent *agent = arg;

	return md_view_devices(agent->watch.view, gid, ret, max);
}

static void on_gone(void *arg, struct md_client *client)
{
	struct md_agent *agent = arg;

	md_msg_relay_orphan(&agent->msg_router.relay, client->number);
	md_probes_drop(&agent->prober.probes, &client->watches);
}

/*
 * A process may watch a path from an address of this host to an address of a host with an agent; other hosts get no
 * probes. For a path that the process watches already, the mask may change although one of the addresses is gone,
 * because the process would not ask again later.
 */
static int on_watch(void *arg, struct md_client *client, const union ibv_gid *local, const union ibv_gid *remote,
		    uint8_t watch)
{
	const struct md_probe_key path = {.local = *local, .remote = *remote};
	struct md_agent *agent = arg;

	if (watch && !md_probes_watches(&agent->prober.probes, &path, &client->watches) &&
	    (!md_view_has_gid(agent->watch.view, local) || !md_gidmap_find(&agent->gidmap, remote)))
		return -EADDRNOTAVAIL;
	return md_probes_watch(&agent->prober.probes, &path, watch, client->number, client->account->id,
			       &client->watches, md_now());
}

static bool probes(void *arg)
{
	struct md_agent *agent = arg;

	return agent->prober.probes.interval_ns;
}

static size_t find_endpoints(void *arg, const union ibv_gid *dgid, struct md_endpoint *ret,
			     size_t max)
{
	struct md_agent *agent = arg;

	return md_paths_find(agent->watch.view, &agent->hosts, &agent->gidmap, &agent->targets,
			     &agent->prober.probes, dgid, ret, max);
}

static bool is_at(void *arg, const struct mv_host_id *host, const union ibv_gid *gid)
{
	struct md_agent *agent = arg;

	return md_gidmap_holds(&agent->gidmap, host, gid);
}

static bool is_from(void *arg, const union ibv_gid *gid, const struct md_endpoint *from)
{
	struct md_agent *agent = arg;
	const struct md_holder *holder = md_gidmap_find(&agent->gidmap, gid);

	for (unsigned int h = 0; holder && h < holder->n; h++) {
		const struct md_host *host = md_hosts_find(&agent->hosts, &holder->hosts[h]);

		if (host && md_paths_is_of(host, from))
			return true;
	}
	return false;
}

bool md_msg_router_ask_for(struct md_agent *agent, const union ibv_gid *dgid, uint64_t account)
{
	uint64_t now_ns = md_now(), tick_ns;
	struct md_target *target = md_targets_use(&agent->targets, dgid, account, now_ns);

	if (!target || md_target_silent(target, now_ns))
		return false;
	tick_ns = md_targets_ask_now(&agent->targets, target, account, now_ns, md_tx_ask, agent);
	if (tick_ns < agent->due.targets_ns)
		agent->due.targets_ns = tick_ns;
	return true;
}

/*
 * A process asks which host has a GID. Without a holder, GIDs in our subnets are not queried: beacons tell of hosts on
 * our links, and a query would make the kernel resolve a neighbour. A holder in doubt is queried anywhere, because the
 * beacons of the true owner may not get through.
 */
static bool on_look(void *arg, const struct md_client *client, const union ibv_gid *dgid)
{
	enum mv_gid_family family = mv_gid_family(dgid);
	const struct md_netset none = {0};
	struct md_agent *agent = arg;
	const struct md_holder *holder = md_gidmap_find(&agent->gidmap, dgid);
	struct md_netset near;

	if ((family != MV_FAMILY_IPV4 && family != MV_FAMILY_IPV6) || md_view_has_gid(agent->watch.view, dgid))
		return false;
	if (holder)
		return holder->doubts && md_msg_router_ask_for(agent, dgid, client->account->id);
	near = md_view_on_link(agent->watch.view, dgid);
	return !memcmp(&near, &none, sizeof(near)) && md_msg_router_ask_for(agent, dgid, client->account->id);
}

static const struct md_client_ops client_ops = {on_send, on_devices, on_gone, on_watch, probes, on_look};

/* A query for a process that has ended is charged to the account of other hosts. */
static bool ask(void *arg, const union ibv_gid *dgid, uint64_t number)
{
	struct md_agent *agent = arg;
	const struct md_client *client = md_clients_find(&agent->clients, number);

	return md_msg_router_ask_for(agent, dgid, client ? client->account->id : MD_TARGETS_OF_OTHERS);
}

static void send_envelope(void *arg, const struct md_endpoint *to, const struct md_envelope *envelope)
{
	struct md_agent *agent = arg;
	const struct md_bundle_to place = {.host = to->host,
					   .ip = to->ip,
					   .from = to->from,
					   .port = agent->udp.port,
					   .ifindex = to->ifindex,
					   .op = MD_MSG_DATA};
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];

	if (to->bundles)
		md_bundles_add(&agent->msg_router.bundles, &place, envelope, 0);
	else
		md_tx_send_for(agent, &to->host, MD_KIND_MESSAGE, &to->ip, agent->udp.port, to->ifindex,
			       IN6_IS_ADDR_UNSPECIFIED(&to->from) ? NULL : &to->from, payload,
			       md_envelope_encode(envelope, payload));
}

void md_msg_router_send_bundle(void *arg, const struct md_bundle_to *to, const uint8_t *payload, size_t len)
{
	struct md_agent *agent = arg;

	agent->counts.bundles.sent++;
	md_tx_send_for(agent, &to->host, MD_KIND_BUNDLE, &to->ip, to->port, to->ifindex,
		       IN6_IS_ADDR_UNSPECIFIED(&to->from) ? NULL : &to->from, payload, len);
}

void md_msg_router_flush(struct md_agent *agent)
{
	md_bundles_flush(&agent->msg_router.bundles, md_now());
	md_clients_flush(&agent->clients);
}

static void unreachable(void *arg, const struct md_msg *msg)
{
	struct md_agent *agent = arg;
	struct md_client *client = md_clients_find(&agent->clients, msg->client);

	if (client)
		md_client_unreachable(client, &msg->dgid, msg->qpn, msg->data, msg->len);
}

static void done(void *arg, const struct md_msg *msg)
{
	struct md_agent *agent = arg;
	struct md_client *client = md_clients_find(&agent->clients, msg->client);

	if (!client)
		return;
	client->n_msgs--;
	client->account->n_msgs--;
}

static const struct md_msg_relay_ops relay_ops = {find_endpoints, is_at, is_from, ask,
						  send_envelope, unreachable, done};

void md_msg_router_init(struct md_agent *agent)
{
	uint64_t first_id;

	/* A quarter of the range at most, so that numbers never wrap around; not 0. */
	randombytes_buf(&first_id, sizeof(first_id));
	md_msg_relay_init(&agent->msg_router.relay, &relay_ops, agent, (first_id >> 2) + 1);
	agent->msg_router.bundles.send = md_msg_router_send_bundle;
	agent->msg_router.bundles.arg = agent;
	agent->clients.ops = &client_ops;
	agent->clients.arg = agent;
}
