/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connects probes.h with the network and with processes. */
#include <errno.h>
#include <string.h>

#include <sodium.h>

#include "agent.h"
#include "paths.h"

/* ---- out ------------------------------------------------------------------------------------- */

/* A probe belongs to a path, so the netdev and our own address are given: md_is_of_path(). */
static int send_over(struct md_agent *agent, enum md_kind kind, const struct in6_addr *from, const struct in6_addr *to,
		      uint16_t port, uint32_t ifindex, const struct md_probe_wire *wire)
{
	const struct md_addr addr = {.ip = *to, .port = port, .ifindex = ifindex, .local = *from};
	uint8_t payload[MD_PROBE_BYTES], datagram[MD_DATAGRAM_MAX_BYTES];
	size_t len = md_seal(agent->secure, kind, &addr, ifindex, payload, md_probe_encode(wire, payload), md_now(),
			     datagram);

	return md_tx_raw(agent, to, port, ifindex, from, datagram, len);
}

static int send_probe(void *arg, const struct md_probe_key *path, const struct md_probe_wire *probe)
{
	struct md_agent *agent = arg;
	uint32_t ifindex = md_view_gid_ifindex(agent->watch.view, &path->local);
	struct in6_addr from = md_paths_ip(&path->local), to = md_paths_ip(&path->remote);

	if (!ifindex)
		return -EADDRNOTAVAIL;
	/* The port is down, so there is no answer, and the kernel would try to resolve the neighbour: see md_paths_leave(). */
	if (md_paths_said_down(&agent->hosts, &agent->gidmap, &path->remote))
		return -EHOSTDOWN;
	return send_over(agent, MD_KIND_PROBE, &from, &to, agent->udp.port, ifindex, probe);
}

static unsigned int waiting(void *arg, const struct md_probe_key *path)
{
	const struct md_agent *agent = arg;
	struct in6_addr to = md_paths_ip(&path->remote);

	return md_udp_waiting(&agent->udp, !md_udp_is_ipv4(&to));
}

static bool host_of(void *arg, const struct md_probe_key *path, struct mv_host_id *ret)
{
	const struct md_agent *agent = arg;
	const struct md_holder *holder = md_gidmap_find(&agent->gidmap, &path->remote);

	/* Several hosts may have a link-local address. The first echo tells which. */
	if (!holder || holder->n != 1)
		return false;
	*ret = holder->hosts[0];
	return true;
}

static bool tell(void *arg, uint64_t client, const struct md_probe_key *path, enum mv_probed state)
{
	struct md_agent *agent = arg;

	return md_clients_path(&agent->clients, client, &path->local, &path->remote, state);
}

static bool warn(void *arg, uint64_t client, const struct md_probe_key *path)
{
	struct md_agent *agent = arg;

	return md_clients_suspect(&agent->clients, client, &path->local, &path->remote);
}

static const struct md_probe_ops probe_ops = {send_probe, waiting, host_of, tell, warn};

void md_prober_init(struct md_agent *agent)
{
	const struct mv_config *config = &agent->options->config;
	uint64_t nonce;

	randombytes_buf(&nonce, sizeof(nonce));
	md_probes_init(&agent->prober.probes, &probe_ops, agent, config->probe_interval_ms * MD_MS,
		       config->probe_multiplier, nonce);
}

void md_prober_tick(struct md_agent *agent)
{
	/* Echoes that wait in the sockets have arrived in time. */
	bool drained = md_rx_drain(agent);

	md_probes_tick(&agent->prober.probes, drained, md_udp_dropped(&agent->udp), md_now());
	agent->prober.rest_ns = md_now() + agent->prober.probes.n * MD_PROBES_EACH_NS;
}

uint64_t md_prober_next(const struct md_agent *agent)
{
	const struct md_probes *probes = &agent->prober.probes;

	return probes->next_ns > agent->prober.rest_ns ? probes->next_ns : agent->prober.rest_ns;
}

/* ---- in -------------------------------------------------------------------------------------- */

static const struct md_rate echoes_rate = {.per_second = MD_ECHOES_PER_S, .burst = MD_ECHOES_PER_S / 10};
static const struct md_rate echoes_together_rate = {.per_second = MD_LINKS_TOGETHER * MD_ECHOES_PER_S,
						    .burst = MD_LINKS_TOGETHER * MD_ECHOES_PER_S / 10};

/*
 * A flood of probes on one link must not make paths of other links look dead. So each link has two limits: for probes of
 * neighbours, and for probes that routers have forwarded. Other datagrams from beyond a router have one limit for all links. That
 * would not do here: in a routed fabric all probes are forwarded.
 */
static bool take_echo_room(struct md_agent *agent, const struct md_received *probe, uint64_t now_ns)
{
	struct md_limit *of = agent->prober.echoes.of[probe->hop_limit == 255];

	return md_limit_take(&of[probe->ifindex % MD_LINK_SHARES], &echoes_rate, now_ns) &&
	       md_limit_take(&agent->prober.echoes.all, &echoes_together_rate, now_ns);
}

/* Payload of PROBE and ECHO. Return: false: unusable, counted. */
static bool decode(struct md_agent *agent, const struct md_opened *opened, struct md_probe_wire *ret)
{
	int err = md_probe_decode(opened->payload, opened->payload_len, ret);

	if (err == -EPROTONOSUPPORT)
		agent->counts.payloads.version++;
	else if (err)
		agent->counts.payloads.malformed++;
	return !err;
}

/*
 * Linux answers for all addresses of a host on all links, so a probe that arrived on another netdev says nothing of its
 * path. Such a datagram is dropped unread, before a cookie is made for its source.
 */
bool md_prober_is_astray(struct md_agent *agent, const struct md_received *received)
{
	union ibv_gid to = md_paths_gid(&received->to);

	if (received->ifindex && md_view_gid_ifindex(agent->watch.view, &to) == received->ifindex)
		return false;
	agent->counts.probes.astray++;
	return true;
}

static struct md_probe_key path_of(const struct md_received *received)
{
	return (struct md_probe_key){.local = md_paths_gid(&received->to), .remote = md_paths_gid(&received->ip)};
}

/* Is there room to answer? A refused probe is counted in the next echo, so that the other end knows of the shortage. */
static bool has_echo_room(struct md_agent *agent, const struct md_received *probe, const struct md_probe_key *path)
{
	switch (md_probes_answer(&agent->prober.probes, path)) {
	case MD_PROBES_LEAVE:
		agent->counts.echoes.held++;
		return false;
	case MD_PROBES_ANSWER:
		if (take_echo_room(agent, probe, md_now()))
			return true;
		break;
	case MD_PROBES_REFUSE:
		break;
	}
	agent->counts.probes.refused++;
	return false;
}

void md_prober_probe(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened)
{
	const struct md_probe_key path = path_of(received);
	struct md_probe_wire probe, echo;
	int err;

	agent->counts.probes.received++;
	if (!decode(agent, opened, &probe) || !has_echo_room(agent, received, &path))
		return;
	/*
	 * @dropped does not count datagrams that were dropped before they were decoded (MD_OPEN_THROTTLED), or that got
	 * no challenge. Otherwise strangers could void every round with a few hundred datagrams a second, and no path
	 * would ever be found dead. Senders with a cookie are not affected, and there are challenges for more paths
	 * than echoes.
	 */
	echo = probe;
	echo.dropped = md_udp_dropped(&agent->udp) + (uint32_t)agent->counts.probes.refused;
	err = send_over(agent, MD_KIND_ECHO, &received->to, &received->ip, received->port, received->ifindex, &echo);
	if (md_probes_is_shortage(err)) {
		agent->counts.probes.refused++;
		return;
	}
	agent->counts.echoes.sent++;
	if (!err)
		md_probes_heard(&agent->prober.probes, &path, &probe, &opened->sender, md_now());
}

void md_prober_echo(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened)
{
	const struct md_probe_key path = path_of(received);
	const struct mv_host_id *sender = &opened->sender;
	struct md_probe_wire echo;

	/* An echo from the address of another host would be a witness against all paths to the host that it names. */
	if (!md_gidmap_holds(&agent->gidmap, &opened->sender, &path.remote))
		sender = NULL;
	if (decode(agent, opened, &echo))
		md_probes_echo(&agent->prober.probes, &path, &echo, sender, md_now());
}

void md_prober_challenged(struct md_agent *agent, const struct md_received *received)
{
	const struct md_probe_key path = path_of(received);

	md_probes_challenged(&agent->prober.probes, &path, md_now());
}
