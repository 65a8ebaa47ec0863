/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Does the other host have our public key? Two hosts that have each other's statement ask each other by CONFIRM, sealed
 * pairwise. Any sealed datagram of the other host, first of all the answer, proves it. From then on their messages are
 * sealed.
 */
#include "agent.h"

#include <string.h>

#include "agent_log.h"
#include "paths.h"

#define LOOK_NS	      (250 * MD_MS)
#define ASK_NS	      MD_S /* until the host is asked again; doubles each time, ASKED_MAX times */
#define ASKED_MAX     6 /* example: a host whose clock was set back ignores us for two minutes, and is asked each 64 s */
#define ASKED_IN_LOOK 32 /* hosts of one share */
#define NEWER_IN_LOOK 24 /* of these: hosts that were asked less than ASKED_MAX times */
#define STRANGER_NS   MD_S /* between two answers to a host that seals with an unknown key */

static const struct md_rate asked_rate = {.per_second = MD_KEYS_RATE, .burst = MD_KEYS_BURST};

void md_trust_send(struct md_agent *agent, const struct in6_addr *ip, uint16_t port, uint32_t ifindex, const struct in6_addr *from,
		   bool asks)
{
	const uint8_t *statement;
	size_t len = md_trust_own_statement(agent, asks, &statement);

	if (len)
		md_tx_send(agent, MD_KIND_IDENTITY, ip, port, ifindex, from, statement, len);
}

/* Where a host is asked. */
struct place {
	struct in6_addr ip;
	uint32_t ifindex; /* 0: it has answered there, and is not heard */
};

/* A number for @n that nobody can tell who does not know @salt. */
static uint64_t mix(uint64_t salt, uint64_t n)
{
	return (salt ^ n) * 0x9e3779b97f4a7c15u;
}

/*
 * Any place at which the host is heard, on any netdev: one link may not carry, and somebody may send beacons of many
 * rails in the host's name there.
 */
static const struct md_sighting *any_sighting(const struct md_sightings *sightings, uint64_t now_ns)
{
	const struct md_sighting *found = NULL;
	uint64_t salt = md_hash64(&now_ns, sizeof(now_ns)), least_net = 0, least = 0;

	for (size_t i = 0; i < sightings->n; i++) {
		uint64_t net = mix(salt, sightings->list[i].ifindex), own = mix(salt, i);

		if (found && (net > least_net || (net == least_net && own > least)))
			continue;
		found = &sightings->list[i];
		least_net = net;
		least = own;
	}
	return found;
}

/* Return: false: the host has neither been heard nor answered. */
static bool find_place(const struct md_host *host, uint64_t now_ns, struct place *ret)
{
	const struct md_sighting *sighting = any_sighting(&host->sightings, now_ns);

	if (sighting) {
		*ret = (struct place){.ip = sighting->ip, .ifindex = sighting->ifindex};
		return true;
	}
	*ret = (struct place){.ip = host->told.by};
	return host->told.expires_ns && !IN6_IS_ADDR_LINKLOCAL(&ret->ip) && !IN6_IS_ADDR_UNSPECIFIED(&ret->ip);
}

static const uint8_t question = '?';

static void ask_at(struct md_agent *agent, const struct md_host *host, const struct in6_addr *ip, uint32_t ifindex)
{
	/* Ask for the host's statement. With ours along, since the host may have lost it, or never had it. */
	md_trust_send(agent, ip, agent->udp.port, ifindex, NULL, !host->vouch);
	if (md_host_is_vouched(host))
		md_tx_send_for(agent, &host->id, MD_KIND_CONFIRM, ip, agent->udp.port, ifindex, NULL, &question, 1);
}

/* Invented hosts on one link, which have to be asked as well, delay no host on another link. */
static unsigned int share_of(const struct place *place)
{
	return place->ifindex ? 1 + place->ifindex % MD_LINK_SHARES : 0;
}

static bool may_ask(struct md_agent *agent, struct md_host *host, const struct place *at, uint64_t now_ns)
{
	bool wanted = md_host_is_wanted(host);
	enum md_unproven kind = wanted ? MD_UNPROVEN_KEY_WANTED : MD_UNPROVEN_KEY;
	size_t len = agent->trust.statement_len;

	if (md_host_is_vouched(host))
		len += MD_HEADER_BYTES + MD_SEALED_BYTES + sizeof(question);
	/* Before a token is taken, which others need. */
	if (at->ifindex && !md_unproven_pays(agent, host, len))
		return false;
	if (wanted && !md_host_take(host, &agent->trust.asking_wanted, &asked_rate, 1, now_ns))
		return false;
	/* An address without netdev has answered a query. */
	return at->ifindex ? md_unproven_take(agent, kind, host, &at->ip, at->ifindex, len, now_ns)
			   : md_unproven_may(agent, kind, host, &at->ip, 0, now_ns);
}

static bool ask(struct md_agent *agent, struct md_host *host, const struct place *at, uint64_t now_ns)
{
	if (now_ns < host->asking.not_before_ns || !may_ask(agent, host, at, now_ns))
		return false;
	host->asking.not_before_ns = now_ns + (ASK_NS << host->asking.n_asked);
	if (host->asking.n_asked < ASKED_MAX)
		host->asking.n_asked++;
	ask_at(agent, host, &at->ip, at->ifindex);
	return true;
}

bool md_trust_ask(struct md_agent *agent, struct md_host *host, uint64_t now_ns)
{
	struct place at;

	return find_place(host, now_ns, &at) && ask(agent, host, &at, now_ns);
}

/* True: the host's statement, or its confirmation, is missing. */
static bool is_wanting(const struct md_agent *agent, const struct md_host *host)
{
	return host->vouch ? md_host_is_vouched(host) && !md_secure_peer_seals(agent->secure, &host->id) : true;
}

/*
 * @silent: those that were asked ASKED_MAX times, else the others
 * @n: how many were asked, of each share
 */
static void ask_those(struct md_agent *agent, bool silent, unsigned int *n, uint64_t now_ns)
{
	unsigned int n_max = silent ? ASKED_IN_LOOK : NEWER_IN_LOOK;
	struct md_host *host, *next;
	struct place at;

	HASH_ITER(hh, agent->hosts.by_id, host, next)
	{
		if ((host->asking.n_asked == ASKED_MAX) != silent || now_ns < host->asking.not_before_ns || !is_wanting(agent, host))
			continue;
		/* A host that was heard just now sends its statement by itself. */
		if (!host->asking.n_asked && !host->vouch && !host->asking.not_before_ns) {
			host->asking.not_before_ns = now_ns + ASK_NS;
			continue;
		}
		if (!find_place(host, now_ns, &at))
			continue;
		if (md_host_is_wanted(host))
			ask(agent, host, &at, now_ns);
		else if (n[share_of(&at)] < n_max)
			n[share_of(&at)] += ask(agent, host, &at, now_ns);
	}
}

uint64_t md_trust_look_hosts(struct md_agent *agent, uint64_t now_ns)
{
	unsigned int n[1 + MD_LINK_SHARES] = {0};

	/* Hosts that never answer delay no newer host. */
	ask_those(agent, false, n, now_ns);
	ask_those(agent, true, n, now_ns);
	return LOOK_NS;
}

void md_trust_confirm(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened)
{
	uint32_t ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0;
	static const uint8_t answer = '!';

	if (opened->payload_len == 1 && opened->payload[0] == '?')
		md_tx_send_for(agent, &opened->sender, MD_KIND_CONFIRM, &received->ip, received->port, ifindex,
			       &received->to, &answer, 1);
}

void md_trust_confirmed(struct md_agent *agent, const struct mv_host_id *id)
{
	const struct md_host *host = md_hosts_find(&agent->hosts, id);

	agent->trust.count.confirmed++;
	if (!host)
		return;
	md_log(MD_DEBUG, "host %s: seals what it sends", host->name);
	if (md_host_is_vouched(host))
		md_trust_keep(agent, host);
	md_due_heard(agent, host, false, false); /* the directory has a flag for hosts that seal */
}

/*
 * The host sealed with another key of ours than the present one, or we do not have its key. Or somebody uses its name,
 * who must not use up the answers to its own addresses.
 */
void md_trust_stranger(struct md_agent *agent, const struct md_received *received, uint64_t now_ns)
{
	const struct md_endpoint from = {
		.ip = received->ip,
		.ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0};
	struct mv_host_id id;
	struct md_host *host;
	uint64_t *not_before_ns;

	memcpy(&id, received->bytes + MD_HEADER_SENDER_AT, sizeof(id));
	host = md_hosts_find(&agent->hosts, &id);
	if (!host)
		return;
	not_before_ns = &host->asking.stranger_ns[md_paths_is_of(host, &from)];
	if (now_ns < *not_before_ns)
		return;
	*not_before_ns = now_ns + STRANGER_NS;
	md_trust_send(agent, &received->ip, agent->udp.port, from.ifindex, NULL, true);
}

void md_trust_learned(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened)
{
	uint32_t ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0;
	const struct md_host *host = md_hosts_find(&agent->hosts, &opened->sender);

	if (agent->trust.on && host && !md_secure_has_key(agent->secure))
		ask_at(agent, host, &received->ip, ifindex);
}

static bool is_standing(const struct md_trust *trust, const struct md_vouch *vouch)
{
	return md_trust_is_right(trust, &vouch->said) == (vouch->trust == MD_TRUST_PINNED);
}

void md_trust_review(struct md_agent *agent, const char *name)
{
	struct md_host *host, *next;

	HASH_ITER(hh, agent->hosts.by_id, host, next)
	{
		if (!host->vouch || (name ? strcmp(host->vouch->said.name, name) != 0 : is_standing(&agent->trust, host->vouch)))
			continue;
		md_secure_forget_peer(agent->secure, &host->id);
		md_hosts_unvouch(&agent->hosts, host);
		host->asking.n_asked = 0;
		host->asking.not_before_ns = 1; /* in the next look */
	}
	agent->trust.look_ns = 0;
	md_due_directory(agent, false);
}

bool md_trust_is_authenticated(const struct md_agent *agent, const struct md_host *host)
{
	return md_secure_has_key(agent->secure) || (md_host_is_vouched(host) && md_secure_peer_seals(agent->secure, &host->id));
}
