/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams to other agents: beacons, answers, queries. */
#include <errno.h>
#include <string.h>

#include "agent.h"
#include "ctl.h"
#include "fields.h"
#include "paths.h"
#include "route.h"

/*
 * Address as key of a cookie (secure.h). Link-local addresses include the netdev. Other addresses do not: the answer to
 * a routed datagram may arrive on another netdev.
 */
struct md_addr md_tx_addr(const struct in6_addr *ip, uint16_t port, uint32_t ifindex)
{
	return (struct md_addr){
		.ip = *ip, .port = port, .ifindex = IN6_IS_ADDR_LINKLOCAL(ip) ? ifindex : 0};
}

struct leaving {
	const struct md_agent *agent;
	const struct in6_addr *from;
};

/* Asks the kernel each time: for probes, the notification of a lost carrier comes too late. */
static bool runs(void *arg, const struct md_net *net)
{
	const struct leaving *leaving = arg;

	return net->running && md_udp_runs(&leaving->agent->udp, net->name) != 0;
}

static uint32_t route(void *arg, const struct in6_addr *to)
{
	const struct leaving *leaving = arg;

	return md_route_ifindex(to, leaving->from);
}

static const struct md_paths_ops paths_ops = {runs, route};

int md_tx_raw(struct md_agent *agent, const struct in6_addr *ip, uint16_t port, uint32_t ifindex,
	      const struct in6_addr *from, const void *bytes, size_t len)
{
	struct leaving leaving = {agent, from};
	int err;

	if (!md_paths_leave(agent->watch.view, &paths_ops, &leaving, ip, &ifindex)) {
		agent->counts.datagrams.held++;
		return -ENETDOWN;
	}
	err = md_udp_send(&agent->udp, ip, port, ifindex, from, bytes, len);
	if (err)
		agent->counts.datagrams.failed++;
	else
		agent->counts.datagrams.sent++;
	return err;
}

int md_tx_send(struct md_agent *agent, enum md_kind kind, const struct in6_addr *ip,
	       uint16_t port, uint32_t ifindex, const struct in6_addr *from, const void *payload,
	       size_t len)
{
	return md_tx_send_for(agent, NULL, kind, ip, port, ifindex, from, payload, len);
}

int md_tx_send_for(struct md_agent *agent, const struct mv_host_id *host, enum md_kind kind, const struct in6_addr *ip,
		   uint16_t port, uint32_t ifindex, const struct in6_addr *from, const void *payload, size_t len)
{
	struct md_addr to = md_tx_addr(ip, port, ifindex);
	uint8_t datagram[MD_DATAGRAM_MAX_BYTES];
	size_t datagram_len =
		md_seal_for(agent->secure, host, kind, &to, ifindex, payload, len, md_now(), datagram);

	return md_tx_raw(agent, ip, port, ifindex, from, datagram, datagram_len);
}

/* ---- beacons --------------------------------------------------------------------------------- */

void md_tx_describe(struct md_agent *agent, bool nets_changed)
{
	struct md_said *said = &agent->tx.said;
	uint8_t desc[MD_DESC_BYTES_MAX];
	size_t len = md_desc_encode(agent->watch.view->desc, desc);

	if (!nets_changed && said->generation && len == said->len && !memcmp(desc, said->desc, len))
		return;
	memcpy(said->desc, desc, len);
	said->len = (uint32_t)len;
	said->generation++;
	md_trust_describe(agent);
}

static void fill_beacon(const struct md_agent *agent, struct md_beacon *beacon)
{
	memset(beacon, 0, sizeof(*beacon));
	memcpy(beacon->name, agent->self.name, sizeof(beacon->name));
	beacon->rail = MD_NO_RAIL;
	beacon->agent_version = MV_CTL_VERSION;
	beacon->interval_ms = MD_QUERY_NS / MD_MS;
	beacon->generation = agent->tx.said.generation;
	beacon->desc_bytes = agent->tx.said.len;
}

/* Return: 0 or -errno. */
static int send_multicast(struct md_agent *agent, const struct md_net *net, bool ipv6, enum md_kind kind,
			  const uint8_t *payload, size_t len)
{
	struct in6_addr group = md_udp_group(ipv6);
	uint8_t datagram[MD_DATAGRAM_MAX_BYTES];
	/* Without netdev for IPv4, as in md_tx_addr(). */
	size_t datagram_len = md_seal(agent->secure, kind, NULL, ipv6 ? net->ifindex : 0,
				      payload, len, md_now(), datagram);
	int err = md_udp_send(&agent->udp, &group, agent->udp.port, net->ifindex, NULL, datagram,
			      datagram_len);

	if (err)
		agent->counts.datagrams.failed++;
	else if (kind == MD_KIND_BEACON)
		agent->counts.beacons.sent++;
	return err;
}

static void send_to_link(struct md_agent *agent, const struct md_net *net, enum md_kind kind, const uint8_t *payload, size_t len,
			 uint64_t now_ns)
{
	size_t place = (size_t)(net - agent->watch.view->nets);
	bool heard = false;

	/* If no beacon was sent over IPv6, send over IPv4: IPv6 addresses in duplicate address detection cannot send. */
	if (net->has_ipv6)
		heard = !send_multicast(agent, net, true, kind, payload, len);
	if (net->has_ipv4 && (!heard || agent->tx.ipv4_until_ns[place] > now_ns))
		send_multicast(agent, net, false, kind, payload, len);
}

static void send_beacon(struct md_agent *agent, const struct md_net *net,
			const struct md_beacon *beacon, uint64_t now_ns)
{
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	size_t len = md_beacon_encode(beacon, payload);

	send_to_link(agent, net, MD_KIND_BEACON, payload, len, now_ns);
}

/*
 * Sent twice, before and after the beacon. Before: hosts that know us accept the beacon only with its statement. After:
 * hosts that do not know us have to hear the beacon first.
 */
static void send_statement(struct md_agent *agent, const struct md_net *net, uint64_t now_ns)
{
	const uint8_t *statement;
	size_t len = md_trust_own_statement(agent, false, &statement);

	if (len)
		send_to_link(agent, net, MD_KIND_IDENTITY, statement, len, now_ns);
}

static void send_due(struct md_agent *agent, const struct md_outlet *outlet, bool whole,
		     uint64_t now_ns)
{
	const struct md_net *net = md_view_net(agent->watch.view, outlet->ifindex);
	unsigned int n_pieces = md_beacon_pieces(agent->tx.said.len);
	struct md_beacon beacon;

	if (!net || !net->running)
		return;
	fill_beacon(agent, &beacon);
	beacon.rail = (uint16_t)net->rail;
	beacon.interval_ms = outlet->interval_ms;
	/* A single piece costs little more than a beacon without any. */
	if (!whole && n_pieces > 1) {
		md_beacon_cut(&beacon, agent->tx.said.desc, MD_NO_PIECE);
		send_beacon(agent, net, &beacon, now_ns);
		return;
	}
	if (whole)
		send_statement(agent, net, now_ns);
	for (unsigned int i = 0; i < n_pieces; i++) {
		md_beacon_cut(&beacon, agent->tx.said.desc, (uint8_t)i);
		send_beacon(agent, net, &beacon, now_ns);
	}
	if (whole)
		send_statement(agent, net, now_ns);
}

static size_t make_piece(const struct md_agent *agent, const struct md_net *net, uint8_t piece, uint8_t payload[MD_PAYLOAD_MAX_BYTES])
{
	struct md_beacon beacon;

	fill_beacon(agent, &beacon);
	beacon.rail = (uint16_t)net->rail;
	for (size_t i = 0; i < agent->tx.announce.n; i++)
		if (agent->tx.announce.outlets[i].ifindex == net->ifindex)
			beacon.interval_ms = agent->tx.announce.outlets[i].interval_ms;
	md_beacon_cut(&beacon, agent->tx.said.desc, piece);
	return md_beacon_encode(&beacon, payload);
}

static void send_piece_to(struct md_agent *agent, const struct md_net *net, const struct in6_addr *ip, const uint8_t *payload, size_t len)
{
	md_tx_send(agent, MD_KIND_BEACON, ip, agent->udp.port, net->ifindex, NULL, payload, len);
	agent->counts.beacons.sent++;
}

/* Sends all of our beacon to a neighbour that asked for proof, and has shown a cookie. */
void md_tx_beacon_to(struct md_agent *agent, const struct in6_addr *ip, uint32_t ifindex)
{
	const struct md_net *net = md_view_net(agent->watch.view, ifindex);
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];

	if (!net)
		return;
	md_trust_send(agent, ip, agent->udp.port, ifindex, NULL, false);
	for (unsigned int i = 0; i < md_beacon_pieces(agent->tx.said.len); i++)
		send_piece_to(agent, net, ip, payload, make_piece(agent, net, (uint8_t)i, payload));
	md_trust_send(agent, ip, agent->udp.port, ifindex, NULL, false);
}

static bool has_room(const struct md_agent *agent, struct md_greeting *greeting, size_t payload_len)
{
	if (md_secure_has_key(agent->secure))
		return true;
	if (!payload_len || greeting->room < MD_HEADER_BYTES + payload_len)
		return false;
	greeting->room -= MD_HEADER_BYTES + payload_len;
	return true;
}

/*
 * A newcomer's address is not proven: the newcomer gets one beacon and one statement at most. If our description does
 * not fit, the newcomer asks for the description by a query, which has a cookie.
 */
static void send_greeting(struct md_agent *agent, struct md_greeting *greeting)
{
	const struct md_net *net = md_view_net(agent->watch.view, greeting->ifindex);
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	size_t len;

	if (!net)
		return;
	len = make_piece(agent, net, md_beacon_pieces(agent->tx.said.len) > 1 ? MD_NO_PIECE : 0, payload);
	if (!has_room(agent, greeting, len)) {
		len = make_piece(agent, net, MD_NO_PIECE, payload);
		if (!has_room(agent, greeting, len))
			return;
	}
	send_piece_to(agent, net, &greeting->ip, payload, len);
	if (has_room(agent, greeting, agent->trust.statement_len))
		md_trust_send(agent, &greeting->ip, agent->udp.port, greeting->ifindex, NULL, false);
}

/*
 * Without room, a newcomer takes the place of the newest one on the link with most newcomers, if that link has more.
 * Return: NULL: no link has more.
 */
static struct md_greeting *place_for(struct md_greetings *greetings, uint32_t ifindex)
{
	unsigned int n[MD_HOSTS_SHARES] = {0}, link = md_link_share(ifindex), most = link;
	struct md_greeting *found = NULL;

	if (greetings->n < MD_GREETINGS_MAX)
		return &greetings->list[greetings->n++];
	for (size_t i = 0; i < greetings->n; i++)
		n[md_link_share(greetings->list[i].ifindex)]++;
	for (unsigned int i = 0; i < MD_HOSTS_SHARES; i++)
		if (n[i] > n[most])
			most = i;
	if (n[most] <= n[link] + 1)
		return NULL;
	for (size_t i = 0; i < greetings->n; i++)
		if (md_link_share(greetings->list[i].ifindex) == most)
			found = &greetings->list[i];
	return found;
}

bool md_tx_greet(struct md_agent *agent, const struct in6_addr *ip, uint32_t ifindex, size_t room, uint64_t now_ns)
{
	struct md_greetings *greetings = &agent->tx.greetings;
	uint64_t delay_ns = md_announce_greet(&agent->tx.announce, ifindex, now_ns);
	struct md_greeting *greeting =
		delay_ns && md_unproven_may(agent, MD_UNPROVEN_GREETING, NULL, ip, ifindex, now_ns) ? place_for(greetings, ifindex) : NULL;

	if (greeting)
		*greeting = (struct md_greeting){.due_ns = now_ns + delay_ns, .ip = *ip, .ifindex = ifindex, .room = room};
	return greeting;
}

static void send_greetings(struct md_agent *agent, uint64_t now_ns)
{
	struct md_greetings *greetings = &agent->tx.greetings;
	size_t kept = 0;

	for (size_t i = 0; i < greetings->n; i++) {
		struct md_greeting greeting = greetings->list[i];

		if (greeting.due_ns > now_ns)
			greetings->list[kept++] = greeting;
		else
			send_greeting(agent, &greeting);
	}
	greetings->n = kept;
}

void md_tx_beacons(struct md_agent *agent, uint64_t now_ns)
{
	const struct md_outlet *outlet;
	bool whole;

	while ((outlet = md_announce_due(&agent->tx.announce, now_ns, &whole)))
		send_due(agent, outlet, whole, now_ns);
	send_greetings(agent, now_ns);
}

uint64_t md_tx_next(const struct md_agent *agent)
{
	uint64_t next_ns = md_announce_next(&agent->tx.announce);

	for (size_t i = 0; i < agent->tx.greetings.n; i++)
		if (agent->tx.greetings.list[i].due_ns < next_ns)
			next_ns = agent->tx.greetings.list[i].due_ns;
	return next_ns;
}

/* ---- queries --------------------------------------------------------------------------------- */

static const struct md_rate answers_rate = {.per_second = MD_ANSWERS_RATE, .burst = MD_ANSWERS_BURST};
static const struct md_rate together_rate = {.per_second = MD_LINKS_TOGETHER * MD_ANSWERS_RATE, .burst = MD_LINKS_TOGETHER * MD_ANSWERS_BURST};
static const struct md_rate host_rate = {.per_second = MD_ANSWERS_HOST_RATE, .burst = MD_ANSWERS_HOST_BURST};
static const struct md_rate group_rate = {.per_second = MD_ANSWERS_GROUP_RATE, .burst = MD_ANSWERS_GROUP_BURST};

/* Limits in this order: a flooding group of addresses, or a link, uses up its own share first. A wanted host has these, too. */
static bool may_answer(struct md_agent *agent, const struct md_received *query, const struct md_opened *opened, uint64_t now_ns)
{
	struct md_host *host = md_hosts_find(&agent->hosts, &opened->sender);
	const struct md_endpoint from = {.ip = query->ip, .ifindex = IN6_IS_ADDR_LINKLOCAL(&query->ip) ? query->ifindex : 0};
	struct md_answers *answers = &agent->tx.answers;
	unsigned int share = md_share_of(query);

	if (host && md_host_is_wanted(host) && md_paths_is_of(host, &from) && md_limit_take(&host->queries, &host_rate, now_ns) &&
	    md_host_take(host, &answers->wanted, &answers_rate, 1, now_ns))
		return true;
	return md_limit_take(&answers->of[share].groups[opened->group], &group_rate, now_ns) &&
	       md_limit_take(&answers->of[share].all, &answers_rate, now_ns) &&
	       md_limit_take(&answers->all, &together_rate, now_ns);
}

static void send_entry(struct md_agent *agent, const struct in6_addr *ip, uint16_t port, uint32_t ifindex, const struct in6_addr *from)
{
	struct md_beacon beacon;

	fill_beacon(agent, &beacon);
	md_trust_send(agent, ip, port, ifindex, from, false);
	for (unsigned int i = 0; i < md_beacon_pieces(agent->tx.said.len); i++) {
		uint8_t payload[MD_PAYLOAD_MAX_BYTES];

		md_beacon_cut(&beacon, agent->tx.said.desc, (uint8_t)i);
		md_tx_send(agent, MD_KIND_ENTRY, ip, port, ifindex, from, payload, md_beacon_encode(&beacon, payload));
		agent->counts.entries.sent++;
	}
	md_trust_send(agent, ip, port, ifindex, from, false);
}

void md_tx_entry(struct md_agent *agent, const struct md_received *query, const struct md_opened *opened)
{
	const struct in6_addr *from = md_udp_is_multicast(&query->to) ? NULL : &query->to;
	uint32_t ifindex = IN6_IS_ADDR_LINKLOCAL(&query->ip) ? query->ifindex : 0;

	if (may_answer(agent, query, opened, md_now()))
		send_entry(agent, &query->ip, query->port, ifindex, from);
	else
		agent->counts.queries.refused++;
}

bool md_tx_query(struct md_agent *agent, const struct in6_addr *ip, uint32_t ifindex)
{
	struct md_writer w = {.buf = (uint8_t[MD_QUERY_BYTES]){0}, .size = MD_QUERY_BYTES};

	md_put64(&w, agent->tx.said.generation);
	agent->counts.queries.sent++;
	return !md_tx_send(agent, MD_KIND_QUERY, ip, agent->udp.port, ifindex, NULL, w.buf, w.len);
}

bool md_tx_ask(void *arg, const struct md_target *target)
{
	struct in6_addr ip = md_paths_ip(&target->gid);
	struct md_agent *agent = arg;
	const struct md_view *view = agent->watch.view;
	bool sent = false;

	if (!md_unproven_may_query(agent, target, md_now()))
		return false;
	if (mv_gid_family(&target->gid) != MV_FAMILY_LINK_LOCAL) {
		/* A host that queries us as well takes it as an answer. Then our query tells nothing new, and uses up none of its MD_HINTS. */
		if (target->tells)
			send_entry(agent, &ip, agent->udp.port, 0, NULL);
		return md_tx_query(agent, &ip, 0);
	}
	/* The address may be on any link of ours. */
	for (size_t i = 0; i < view->n_nets; i++)
		if (view->nets[i].running && view->nets[i].has_ipv6)
			sent |= md_tx_query(agent, &ip, view->nets[i].ifindex);
	return sent;
}
