/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Datagrams of other agents are passed to the parts that they are for. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "agent.h"
#include "agent_log.h"
#include "fields.h"
#include "paths.h"

/*
 * Least time between two requests for one host's description. Less by another link: somebody may repeat its beacons
 * on one.
 */
#define WANTED_NS (200 * MD_MS)
#define WANTED_ELSEWHERE_NS (20 * MD_MS)

static int decode(struct md_agent *agent, const struct md_opened *opened, struct md_beacon *ret)
{
	int err = md_beacon_decode(opened->payload, opened->payload_len, ret);

	if (err == -EPROTONOSUPPORT)
		agent->counts.payloads.version++;
	else if (err)
		agent->counts.payloads.malformed++;
	return err;
}

static bool claim(struct md_agent *agent, struct md_host *host, const struct md_heard *heard, uint64_t now_ns)
{
	if (!heard->proven)
		return md_gidmap_hear(&agent->gidmap, &agent->hosts, host, agent->watch.view, &agent->targets,
				      md_heard_share(heard), now_ns);
	md_gidmap_claim(&agent->gidmap, host, agent->watch.view, &agent->targets);
	return true;
}

/* A beacon without changes: is a claim of its host late? */
static void catch_up(struct md_agent *agent, const struct md_heard *heard, uint64_t now_ns)
{
	struct md_host *host = md_hosts_find(&agent->hosts, &heard->sender);

	if (host && host->claimed.late && claim(agent, host, heard, now_ns))
		md_due_heard(agent, host, false, heard->proven);
}

static bool is_time_to_query(const struct md_host *host, const struct md_heard *heard, uint64_t now_ns)
{
	uint64_t least_ns = heard->ifindex == host->queried.ifindex ? WANTED_NS : WANTED_ELSEWHERE_NS;

	return now_ns - host->queried.at_ns >= least_ns;
}

/* Each beacon and each statement is longer than a query. An answer has brought our cookie. */
static bool may_query(struct md_agent *agent, struct md_host *host, const struct md_heard *heard, uint64_t now_ns)
{
	return heard->answer ||
	       md_unproven_take(agent, MD_UNPROVEN_QUERY, host, &heard->ip, heard->ifindex, MD_QUERY_BYTES, now_ns);
}

/* Passes changes of a host on: to the directory, and to messages that wait for the host. */
static void take_changes(struct md_agent *agent, const struct md_heard *heard, unsigned int changed,
		      uint64_t now_ns)
{
	struct md_host *host = md_hosts_find(&agent->hosts, &heard->sender);

	if (!host)
		return;
	if (changed & MD_CHANGED_WANTED && is_time_to_query(host, heard, now_ns) && may_query(agent, host, heard, now_ns)) {
		host->queried = (struct md_host_queried){.at_ns = now_ns, .ifindex = heard->ifindex};
		md_tx_query(agent, &heard->ip,
			    IN6_IS_ADDR_LINKLOCAL(&heard->ip) ? heard->ifindex : 0);
	}
	if (changed & (MD_CHANGED_DESC | MD_CHANGED_SIGHTING)) {
		md_due_routes(agent, host);
		claim(agent, host, heard, now_ns);
		md_msg_relay_known(&agent->msg_router.relay, now_ns);
	}
	if (changed & (MD_CHANGED_DESC | MD_CHANGED_SIGHTING | MD_CHANGED_NAME))
		md_due_heard(agent, host, changed & MD_CHANGED_DOWN, heard->proven);
	if (changed & MD_CHANGED_HOST)
		md_log(MD_DEBUG, "host %s: heard", host->name);
}

/* The greeting, and a query that has been sent, are together no longer than the beacon. */
static void greet(struct md_agent *agent, struct md_host *host, const struct md_received *received, const struct md_opened *opened,
		  uint64_t now_ns)
{
	size_t room = MD_HEADER_BYTES + opened->payload_len;

	if (host->queried.at_ns == now_ns)
		room -= MD_HEADER_BYTES + MD_QUERY_BYTES;
	if (md_tx_greet(agent, &received->ip, received->ifindex, room, now_ns))
		md_unproven_greeted(host, room);
}

static void on_beacon(struct md_agent *agent, const struct md_received *received,
		      const struct md_opened *opened, uint64_t now_ns)
{
	const struct md_net *net = md_view_net(agent->watch.view, received->ifindex);
	const struct md_heard heard = {.sender = opened->sender,
				       .start = opened->start,
				       .counter = opened->counter,
				       .ip = received->ip,
				       .ifindex = received->ifindex,
				       .proven = md_secure_has_key(agent->secure)};
	struct md_beacon beacon;
	struct md_host *host;
	unsigned int changed;

	agent->counts.beacons.received++;
	/* We announce nothing on this netdev, or the beacon names no rail. */
	if (!net || decode(agent, opened, &beacon) || beacon.rail == MD_NO_RAIL ||
	    md_hosts_hear(&agent->hosts, &heard, &beacon, now_ns, &changed)) {
		agent->counts.beacons.rejected++;
		return;
	}
	host = md_hosts_find(&agent->hosts, &opened->sender);
	if (host)
		md_unproven_came(host, opened->payload_len);
	if (md_udp_is_ipv4(&received->ip))
		agent->tx.ipv4_until_ns[net - agent->watch.view->nets] =
			now_ns + 4 * beacon.interval_ms * MD_MS;
	if (!changed) {
		agent->counts.beacons.unchanged++;
		catch_up(agent, &heard, now_ns);
		return;
	}
	take_changes(agent, &heard, changed, now_ns);
	if (host && changed & (MD_CHANGED_HOST | MD_CHANGED_SIGHTING | MD_CHANGED_BACK))
		greet(agent, host, received, opened, now_ns);
}

/* Did we ask for this answer? *@ret_target: the target that was queried; NULL: a neighbour was asked for its description. */
static bool is_expected(struct md_agent *agent, const struct md_received *received,
			const struct md_opened *opened, uint64_t now_ns,
			struct md_target **ret_target)
{
	union ibv_gid gid = md_paths_gid(&received->ip);
	struct md_host *host = md_hosts_find(&agent->hosts, &opened->sender);

	*ret_target = md_targets_find(&agent->targets, &gid);
	if (*ret_target && md_target_expects(*ret_target, now_ns))
		return md_targets_may_answer(&agent->targets, *ret_target, &opened->sender, now_ns);
	*ret_target = NULL;
	if (!host || now_ns - host->queried.at_ns > MD_PARTIAL_NS)
		return false;
	for (size_t i = 0; i < host->sightings.n; i++)
		if (IN6_ARE_ADDR_EQUAL(&host->sightings.list[i].ip, &received->ip))
			return true;
	return false;
}

static void on_entry(struct md_agent *agent, const struct md_received *received,
		     const struct md_opened *opened, uint64_t now_ns)
{
	struct md_heard heard = {.sender = opened->sender,
				 .start = opened->start,
				 .counter = opened->counter,
				 .ip = received->ip,
				 .ifindex = received->ifindex,
				 .answer = true,
				 .proven = md_secure_has_key(agent->secure)};
	uint64_t wanters[MD_TARGET_WANTERS] = {0};
	struct md_target *target;
	struct md_beacon beacon;
	struct md_host *host;
	unsigned int changed;
	size_t n;

	agent->counts.entries.received++;
	if (!is_expected(agent, received, opened, now_ns, &target) ||
	    decode(agent, opened, &beacon)) {
		agent->counts.entries.rejected++;
		return;
	}
	/* The answer is valid until our next query, whose time we choose. */
	beacon.interval_ms = md_targets_interval_ms(&agent->targets, target ? target->payer->account : 0);
	n = target ? md_targets_wanters(&agent->targets, target, wanters) : 0;
	heard.near = !target;
	heard.wanted = target && md_target_is_wanted(target);
	heard.account = wanters[0];
	if (md_hosts_hear(&agent->hosts, &heard, &beacon, now_ns, &changed)) {
		agent->counts.entries.rejected++;
		return;
	}
	host = md_hosts_find(&agent->hosts, &opened->sender);
	for (size_t i = 1; host && i < n; i++)
		md_hosts_want(&agent->hosts, host, wanters[i]);
	/* The target's address now is a path to the host, and counts as evidence for its claims. */
	if (target && md_target_answered(target, &opened->sender, now_ns)) {
		if (host)
			host->claimed.view = 0;
		changed |= MD_CHANGED_SIGHTING;
	}
	take_changes(agent, &heard, changed, now_ns);
}

static void on_statement(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened, uint64_t now_ns)
{
	const struct md_heard heard = {
		.sender = opened->sender, .start = opened->start, .ip = received->ip, .ifindex = received->ifindex};

	take_changes(agent, &heard, md_trust_statement(agent, received, opened, now_ns), now_ns);
}

/* The other agent refused a datagram for want of a cookie. The cookie is here now, so send again. */
static void on_learned(struct md_agent *agent, const struct md_received *received,
		       const struct md_opened *opened, uint64_t now_ns)
{
	uint32_t ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0;
	struct md_endpoint to = {.ip = received->ip, .ifindex = ifindex, .host = opened->sender};
	const struct md_host *host;

	switch (opened->about) {
	case MD_KIND_BEACON:
		md_tx_beacon_to(agent, &received->ip, received->ifindex);
		break;
	case MD_KIND_QUERY:
		md_tx_query(agent, &received->ip, ifindex);
		break;
	case MD_KIND_MESSAGE:
	case MD_KIND_BUNDLE:
		/* Only to an address of that host: otherwise any sender could pose as that host and have its messages. */
		host = md_hosts_find(&agent->hosts, &opened->sender);
		if (!host || !md_paths_is_of(host, &to))
			break;
		to.bundles = md_host_takes_bundles(host);
		md_msg_relay_learned(&agent->msg_router.relay, &host->id, &to, now_ns);
		break;
	case MD_KIND_PROBE:
		md_prober_challenged(agent, received);
		break;
	case MD_KIND_IDENTITY:
	case MD_KIND_CONFIRM:
		md_trust_learned(agent, received, opened);
		break;
	default:
		/* Answers: the agent that wanted one asks again. */
		break;
	}
}

/* An agent that has changed queries the agents that it queries regularly. We query it in turn, to learn of the change. */
static void on_hint(struct md_agent *agent, const struct md_received *query, const struct md_opened *opened, uint64_t now_ns)
{
	struct md_reader r = {.buf = opened->payload, .len = opened->payload_len};
	union ibv_gid gid = md_paths_gid(&query->ip);
	struct md_target *target = md_targets_find(&agent->targets, &gid);
	const struct md_host *host = md_hosts_find(&agent->hosts, &opened->sender);
	uint64_t generation = md_get64(&r);

	if (target && !r.bad && md_target_hinted(target, host, opened->start, generation))
		md_targets_ask_hinted(&agent->targets, target, now_ns, md_tx_ask, agent);
}

static void dispatch(struct md_agent *agent, const struct md_received *received,
		     const struct md_opened *opened, uint64_t now_ns)
{
	switch (opened->kind) {
	case MD_KIND_BEACON:
		on_beacon(agent, received, opened, now_ns);
		break;
	case MD_KIND_QUERY:
		agent->counts.queries.received++;
		md_tx_entry(agent, received, opened);
		on_hint(agent, received, opened, now_ns);
		break;
	case MD_KIND_ENTRY:
		on_entry(agent, received, opened, now_ns);
		break;
	case MD_KIND_MESSAGE:
		md_msg_router_message(agent, received, opened);
		break;
	case MD_KIND_BUNDLE:
		md_msg_router_bundle(agent, received, opened);
		break;
	case MD_KIND_PROBE:
		md_prober_probe(agent, received, opened);
		break;
	case MD_KIND_ECHO:
		md_prober_echo(agent, received, opened);
		break;
	case MD_KIND_IDENTITY:
		on_statement(agent, received, opened, now_ns);
		break;
	case MD_KIND_CONFIRM:
		md_trust_confirm(agent, received, opened);
		break;
	default:
		agent->counts.payloads.version++;
		break;
	}
}

/* A reply has to leave from the address to which the datagram was sent: the cookie includes that address. */
static void reply(struct md_agent *agent, const struct md_received *received,
		  const struct md_opened *opened)
{
	bool same_netdev = IN6_IS_ADDR_LINKLOCAL(&received->ip) || md_is_of_path(received->bytes, received->len);

	md_tx_raw(agent, &received->ip, received->port, same_netdev ? received->ifindex : 0,
		  md_udp_is_multicast(&received->to) ? NULL : &received->to, opened->reply,
		  opened->reply_len);
}

/* Logs verdicts that somebody has to act on, the first of each kind; counters have the rest. */
static void complain(const struct md_agent *agent, const struct md_received *received,
		     enum md_verdict verdict)
{
	union ibv_gid gid = md_paths_gid(&received->ip);
	char text[MV_GID_STRLEN];

	switch (verdict) {
	case MD_OPEN_VERSION:
	case MD_OPEN_SAME_ID:
	case MD_OPEN_PLAIN:
	case MD_OPEN_SEALED:
	case MD_OPEN_OTHER_KEY:
	case MD_OPEN_PORT:
	case MD_OPEN_UNSEALED:
		break;
	default:
		return;
	}
	if (agent->counts.verdicts[verdict] == 1)
		md_log(MD_WARNING, "dropped from %s, and others like it: %s",
		       mv_gid_format(&gid, text), md_verdict_text(verdict));
}

/*
 * The agent owns its port on all addresses of its host, so another source port means another program. With a fleet key
 * the port is not checked: the key proves more, and middleboxes may change ports.
 */
static bool is_from_agent(const struct md_agent *agent, const struct md_received *received)
{
	return received->port == agent->udp.port || md_secure_has_key(agent->secure);
}

static void on_datagram(struct md_agent *agent, const struct md_received *received)
{
	struct md_addr from = md_tx_addr(&received->ip, received->port, received->ifindex);
	uint64_t now_ns = md_now();
	struct md_opened opened;
	enum md_verdict verdict;

	from.arrived = received->ifindex;
	agent->counts.datagrams.received++;
	if (md_is_of_path(received->bytes, received->len)) {
		if (md_prober_is_astray(agent, received))
			return;
		from.ifindex = received->ifindex;
		from.local = received->to;
	}
	verdict = is_from_agent(agent, received) ? md_open(agent->secure, received->bytes, received->len, &from,
							   received->hop_limit, now_ns, &opened)
						 : MD_OPEN_PORT;
	agent->counts.verdicts[verdict]++;
	complain(agent, received, verdict);
	/* One datagram to a group would draw a reply of every agent. Hosts with a fleet key meet by replies to beacons. */
	if (verdict != MD_OPEN_PORT && opened.reply_len &&
	    (!md_udp_is_multicast(&received->to) || md_is_beacon(received->bytes, received->len)) &&
	    (verdict != MD_OPEN_UNPROVEN || md_unproven_may_answer(agent, received, now_ns)))
		reply(agent, received, &opened);
	if (verdict == MD_OPEN_OK && opened.confirmed)
		md_trust_confirmed(agent, &opened.sender);
	if (verdict == MD_OPEN_STRANGER)
		md_trust_stranger(agent, received, now_ns);
	if (verdict == MD_OPEN_OK)
		dispatch(agent, received, &opened, now_ns);
	else if (verdict == MD_OPEN_LEARNED)
		on_learned(agent, received, &opened, now_ns);
}

static int on_readable(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct md_agent *agent = arg;
	struct md_received received;
	uint64_t until_ns = md_now() + MD_DATAGRAMS_NS;

	(void)source;
	(void)revents;
	for (int i = 0; i < MD_DATAGRAMS_PER_TURN && !md_udp_receive(&agent->udp, fd, &received); i++) {
		on_datagram(agent, &received);
		if (md_now() >= until_ns)
			break;
	}
	return 0;
}

static bool is_empty(int fd)
{
	uint8_t byte;

	return recv(fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static bool drain(struct md_agent *agent, int fd)
{
	uint64_t until_ns = md_now() + MD_DRAINED_NS;
	struct md_received received;

	for (int i = 0; fd >= 0 && i < MD_DATAGRAMS_DRAINED && md_now() < until_ns; i++) {
		if (md_udp_receive(&agent->udp, fd, &received))
			return true;
		on_datagram(agent, &received);
	}
	return fd < 0 || is_empty(fd); /* the agent may have been preempted after the last datagram */
}

bool md_rx_drain(struct md_agent *agent)
{
	bool all = drain(agent, agent->udp.fd6);

	return drain(agent, agent->udp.fd4) && all;
}

int md_rx_start(struct md_agent *agent)
{
	int err = 0;

	if (agent->udp.fd6 >= 0)
		err = sd_event_add_io(agent->event, &agent->listening.io6, agent->udp.fd6, EPOLLIN,
				      on_readable, agent);
	if (err >= 0 && agent->udp.fd4 >= 0)
		err = sd_event_add_io(agent->event, &agent->listening.io4, agent->udp.fd4, EPOLLIN,
				      on_readable, agent);
	return err < 0 ? err : 0;
}
