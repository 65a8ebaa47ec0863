/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Datagrams to addresses that have shown no cookie. A beacon or a statement has none, so anybody on the link can send
 * one from a forged address, and all agents of the link answer the victim. So each link, and each group of addresses,
 * gets few of a kind. And all that is sent in answer to a host is together not longer than what has come in its name:
 * a datagram's own answer is not longer than the datagram, and what is left pays for questions later. So whoever sends
 * in a host's name takes nothing from what the host's own datagrams pay for.
 */
#include <string.h>

#include "agent.h"
#include "paths.h"

/* So many bytes are noted, so that beacons of days do not count at once. */
#define UNANSWERED_MAX 16384

static const struct md_rate link_rates[MD_N_UNPROVEN] = {
	[MD_UNPROVEN_GREETING] = {.per_second = MD_GREETINGS_RATE, .burst = MD_GREETINGS_BURST},
	[MD_UNPROVEN_QUERY] = {.per_second = MD_NEW_HOSTS_RATE, .burst = MD_NEW_HOSTS_BURST},
	[MD_UNPROVEN_KEY] = {.per_second = MD_KEYS_RATE, .burst = MD_KEYS_BURST},
	/* Besides, each account has MD_KEYS_RATE. */
	[MD_UNPROVEN_KEY_WANTED] = {.per_second = MD_LINKS_TOGETHER * MD_KEYS_RATE, .burst = MD_LINKS_TOGETHER * MD_KEYS_BURST},
};
static const struct md_rate group_rate = {.per_second = MD_UNPROVEN_GROUP_RATE, .burst = MD_UNPROVEN_GROUP_BURST};

/* Hosts that a process of one account wants have groups of their own: others cannot use these up. */
static unsigned int group_of(const struct md_host *host, const struct in6_addr *ip)
{
	const struct {
		struct in6_addr ip;
		uint32_t wanters;
	} group = {.ip = *ip, .wanters = host ? md_host_wanters(host) : 0};

	return md_hash64(&group, sizeof(group)) % MD_SOURCE_GROUPS;
}

/* @limit: of datagrams that are sent while the send buffer has little room; limit_of(), or the payer's */
static bool has_room(struct md_agent *agent, const struct in6_addr *ip, struct md_limit *limit, uint64_t now_ns)
{
	static const struct md_rate rate = {.per_second = MD_SCARCE_UNPROVEN, .burst = MD_SCARCE_UNPROVEN};
	unsigned int waiting = md_udp_waiting(&agent->udp, !md_udp_is_ipv4(ip));

	return waiting < MD_SCARCE_PERCENT || (waiting < MD_SCARCEST_PERCENT && md_limit_take(limit, &rate, now_ns));
}

/*
 * A wanted host has a limit of its own. Reason: one stuck netdev fills the buffer. Meanwhile that host has to be answered
 * on another link, also if somebody forges addresses there. @host: NULL: not known; @share: of the link
 */
static struct md_limit *limit_of(struct md_agent *agent, struct md_host *host, const struct in6_addr *ip, uint32_t ifindex,
				 unsigned int share)
{
	const struct md_endpoint at = {.ip = *ip, .ifindex = IN6_IS_ADDR_LINKLOCAL(ip) ? ifindex : 0};

	return host && md_host_is_wanted(host) && md_paths_is_of(host, &at) ? &host->scarce : &agent->tx.scarce[share];
}

bool md_unproven_may_answer(struct md_agent *agent, const struct md_received *received, uint64_t now_ns)
{
	struct mv_host_id id;

	memcpy(&id, received->bytes + MD_HEADER_SENDER_AT, sizeof(id));
	return has_room(agent, &received->ip,
			limit_of(agent, md_hosts_find(&agent->hosts, &id), &received->ip, received->ifindex, md_share_of(received)), now_ns);
}

bool md_unproven_may_query(struct md_agent *agent, const struct md_target *target, uint64_t now_ns)
{
	struct in6_addr ip = md_paths_ip(&target->gid);

	return target->answered_ns || has_room(agent, &ip, &target->payer->scarce, now_ns);
}

bool md_unproven_may(struct md_agent *agent, enum md_unproven kind, struct md_host *host, const struct in6_addr *ip, uint32_t ifindex,
		     uint64_t now_ns)
{
	unsigned int share = ifindex ? md_link_share(ifindex) : 0;
	struct md_unproven_limits *limits = &agent->tx.unproven[kind][share];
	struct md_limit *group = &limits->groups[group_of(host, ip)];

	return md_secure_has_key(agent->secure) ||
	       (md_limit_has(group, &group_rate, now_ns) && md_limit_has(&limits->all, &link_rates[kind], now_ns) &&
		has_room(agent, ip, limit_of(agent, host, ip, ifindex, share), now_ns) &&
		md_limit_take(&limits->all, &link_rates[kind], now_ns) && md_limit_take(group, &group_rate, now_ns));
}

void md_unproven_came(struct md_host *host, size_t payload_len)
{
	host->asking.unanswered += MD_HEADER_BYTES + (uint32_t)payload_len;
	if (host->asking.unanswered > UNANSWERED_MAX)
		host->asking.unanswered = UNANSWERED_MAX;
}

static void pay(struct md_host *host, size_t bytes)
{
	host->asking.unanswered -= bytes < host->asking.unanswered ? (uint32_t)bytes : host->asking.unanswered;
}

bool md_unproven_pays(const struct md_agent *agent, const struct md_host *host, size_t payload_len)
{
	return md_secure_has_key(agent->secure) || host->asking.unanswered >= MD_HEADER_BYTES + payload_len;
}

bool md_unproven_take(struct md_agent *agent, enum md_unproven kind, struct md_host *host, const struct in6_addr *ip, uint32_t ifindex,
		      size_t payload_len, uint64_t now_ns)
{
	size_t bytes = MD_HEADER_BYTES + payload_len;

	if (!md_unproven_pays(agent, host, payload_len) || !md_unproven_may(agent, kind, host, ip, ifindex, now_ns))
		return false;
	pay(host, bytes);
	return true;
}

void md_unproven_greeted(struct md_host *host, size_t bytes)
{
	pay(host, bytes);
}
