/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Statements of other hosts: is the key right? */
#include "agent.h"

#include <stdlib.h>
#include <string.h>

#include "agent_log.h"
#include "id.h"
#include "paths.h"
#include "shell_word.h"

/* For so long after the start, a host known before the start takes its host id back from a host that was met for the first time. */
#define NEWCOMER_NS (60 * MD_S)

/* Bounds the cost of forged statements. When neighbours start together, each needs a few verifications. */
static const struct md_rate all_verified = {.per_second = 500, .burst = 4096};
static const struct md_rate group_verified = {.per_second = 50, .burst = 512};

/* ---- statements of other hosts -------------------------------------------------------------- */

static bool may_verify(struct md_trust *trust, const struct md_received *received, bool on_link, uint64_t now_ns)
{
	struct md_verifying *of_link = &trust->verifying[on_link ? 1 + received->ifindex % MD_LINK_SHARES : 0];
	struct md_limit *group = &of_link->groups[md_hash64(&received->ip, sizeof(received->ip)) % 64];

	if (md_limit_has(&of_link->all, &all_verified, now_ns) && md_limit_take(group, &group_verified, now_ns))
		return md_limit_take(&of_link->all, &all_verified, now_ns);
	trust->count.throttled++;
	return false;
}

bool md_trust_follows(const struct md_trust *trust, const struct md_statement *said, const struct md_public *key)
{
	return md_public_is(&said->sign, key) ||
	       (md_public_is(&said->former, key) && !md_pins_is_revoked(&trust->pins, &said->former));
}

/*
 * Is the statement's key revoked? Or its former key, if no key is pinned for the host: the thief of the former key may
 * have made the new one.
 */
static bool is_revoked(const struct md_trust *trust, const struct md_statement *said)
{
	return md_pins_is_revoked(&trust->pins, &said->sign) ||
	       (md_pins_is_revoked(&trust->pins, &said->former) && !md_pins_find(&trust->pins, said->name, NULL, NULL));
}

bool md_trust_is_right(const struct md_trust *trust, const struct md_statement *said)
{
	const struct md_public *key = md_pins_find(&trust->pins, said->name, NULL, NULL);

	return !is_revoked(trust, said) && (!key || md_trust_follows(trust, said, key));
}

static void pin(struct md_agent *agent, const struct md_statement *said, enum md_pin_how how, const char *what)
{
	struct md_trust *trust = &agent->trust;
	char key[MD_PUBLIC_TEXT_SIZE];
	int err = md_pins_set(&trust->pins, said->name, &said->sign, how, md_realtime_s());

	md_public_format(&said->sign, key);
	if (!err) {
		md_log(MD_INFO, "host %s %s: %s", said->name, what, key);
	} else if (!trust->pins_full) {
		trust->pins_full = true;
		md_log(MD_WARNING, "host %s cannot be noted with its key: %s: meshverbs keys forget hosts that are gone", said->name,
		       md_strerror(err));
	}
}

/* The host id of a silent host stays reserved while that host's key is pinned. Return: the host that owns the id; NULL: none. */
static const struct md_bound *bound_to_another(const struct md_trust *trust, const struct md_statement *said)
{
	const struct md_bound *bound = md_bound_find(trust, &said->host);

	return bound && !md_trust_follows(trust, said, &bound->key) ? bound : NULL;
}

static enum md_trust_in check_pinned(struct md_agent *agent, const struct md_statement *said,
				     const struct md_public *key, enum md_pin_how how)
{
	if (!md_trust_follows(&agent->trust, said, key))
		return MD_TRUST_CHANGED;
	if (md_public_is(&said->sign, key))
		return MD_TRUST_PINNED;
	agent->trust.count.rotated++;
	if (how != MD_PIN_HOSTS_FILE)
		pin(agent, said, how == MD_PIN_UNCONFIRMED ? how : MD_PIN_ROTATED, "has a new key, which its former key has signed");
	return MD_TRUST_PINNED;
}

/*
 * A host without identity file has a new key after each start. Such a key is valid as long as the host is heard, and is not
 * pinned. Likewise a key for which there is no room.
 */
static enum md_trust_in check_new(struct md_agent *agent, const struct md_statement *said, bool on_link)
{
	if (!on_link)
		return MD_TRUST_UNPINNED;
	agent->trust.count.pinned++;
	if (said->lasting)
		pin(agent, said, MD_PIN_UNCONFIRMED, "was met for the first time, with the key");
	return MD_TRUST_PINNED;
}

static bool is_id(const struct mv_host_id *a, const struct mv_host_id *b)
{
	return !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

/*
 * Forgets hosts that are vouched for as the host of a statement, under another id. Somebody may repeat statement and
 * beacons of any former life while the host is silent. @sealed: all of them; else those of former lives. Return: true: any.
 */
static bool forget_besides(struct md_agent *agent, const struct md_bound *bound, const struct md_statement *said, bool sealed)
{
	const struct md_vouch *vouch, *next;
	bool any = false;

	for (vouch = LIST_FIRST(&bound->besides); vouch; vouch = next) {
		const struct mv_host_id id = vouch->said.host;

		next = LIST_NEXT(vouch, of_name);
		if (is_id(&id, &said->host) || (!sealed && vouch->said.start > said->start))
			continue;
		md_hosts_forget(&agent->hosts, &id);
		any = true;
	}
	return any;
}

/*
 * The host has that id now. What is known of it under other ids goes at once: somebody may repeat the beacons of a
 * former life, and its GIDs would stay with that id.
 */
static void note_id(struct md_agent *agent, const struct md_statement *said, bool sealed)
{
	const struct md_bound *bound = md_bound_of(&agent->trust, said);
	struct mv_host_id former = bound ? bound->id : said->host;
	struct md_host *host = md_hosts_find(&agent->hosts, &said->host);
	bool gone = bound && (sealed || is_id(&former, &said->host)) && forget_besides(agent, bound, said, sealed);

	md_bound_note(&agent->trust, said, sealed);
	if (!host)
		return;
	if (host->vouch)
		md_bound_list(&agent->trust, host->vouch);
	bound = md_bound_of(&agent->trust, said);
	if (!bound || !is_id(&bound->id, &said->host) || (!gone && is_id(&former, &said->host)))
		return;
	if (!is_id(&former, &said->host))
		md_hosts_forget(&agent->hosts, &former);
	host->claimed.view = 0;
	md_gidmap_claim(&agent->gidmap, host, agent->watch.view, &agent->targets);
	md_due_heard(agent, host, false, false);
}

void md_trust_keep(struct md_agent *agent, const struct md_host *host)
{
	const struct md_statement *said = &host->vouch->said;

	/* Its pin may have made room meanwhile. */
	if (md_pins_confirm(&agent->trust.pins, said->name, &said->sign) && said->lasting && host->neighbour)
		pin(agent, said, MD_PIN_FIRST_CONTACT, "is noted with its key");
	note_id(agent, said, true);
}

static enum md_trust_in decide(struct md_agent *agent, const struct md_host *host, const struct md_statement *said,
			       bool on_link)
{
	const struct md_trust *trust = &agent->trust;
	const struct md_public *key;
	enum md_pin_how how;

	if (is_revoked(trust, said))
		return MD_TRUST_REVOKED;
	if (bound_to_another(trust, said))
		return MD_TRUST_CHANGED;
	key = md_pins_find(&trust->pins, said->name, &how, NULL);
	if (key)
		return check_pinned(agent, said, key, how);
	if (md_host_is_vouched(host) && md_trust_follows(trust, said, &host->vouch->said.sign))
		return MD_TRUST_PINNED;
	return check_new(agent, said, on_link);
}

static void log_distrusted(const struct md_agent *agent, const struct md_statement *said, enum md_trust_in in)
{
	const struct md_public *pinned = md_pins_find(&agent->trust.pins, said->name, NULL, NULL);
	const struct md_bound *bound = bound_to_another(&agent->trust, said);
	char now[MD_PUBLIC_TEXT_SIZE], had[MD_PUBLIC_TEXT_SIZE];

	md_public_format(&said->sign, now);
	if (in == MD_TRUST_CHANGED && bound && !pinned) {
		md_log(MD_WARNING, "host %s with the key %s has the host id of host %s, which is silent: not authenticated", said->name, now,
		       bound->name);
	} else if (in == MD_TRUST_REVOKED) {
		md_log(MD_WARNING, "host %s has the key %s, which has been revoked%s: not authenticated", said->name,
		       now,
		       md_pins_is_revoked(&agent->trust.pins, &said->sign) ? "" : ", or rather the one that has signed it");
	} else if (in == MD_TRUST_CHANGED && pinned) {
		md_public_format(pinned, had);
		md_log(MD_WARNING,
		       "host %s has the key %s, but is known with %s: not authenticated; if it was installed anew: meshverbs keys forget %s",
		       said->name, now, had, MV_SHELL(said->name));
	}
}

/*
 * Host ids prove nothing, and the first to speak after a start may have any key. So if a newcomer uses the id of a host
 * known before the start, the newcomer loses the id as soon as that host is heard.
 */
static bool is_newcomers(const struct md_agent *agent, const struct md_vouch *vouch, const struct md_statement *said, uint64_t now_ns)
{
	const struct md_trust *trust = &agent->trust;
	const struct md_public *key;
	uint64_t since_s;

	if (!vouch->is_new || now_ns - agent->self.begun_ns > NEWCOMER_NS ||
	    md_pins_is_revoked(&trust->pins, &said->sign))
		return false;
	key = md_pins_find(&trust->pins, said->name, NULL, &since_s);
	return key && md_trust_follows(trust, said, key) && since_s < agent->self.start / MD_S;
}

static void turn_out(struct md_agent *agent, struct md_host *host, const struct md_statement *said)
{
	md_log(MD_WARNING, "host %s, met for the first time, had the host id of host %s, which was known before",
	       host->name, said->name);
	md_bound_note(&agent->trust, said, false);
	md_secure_forget_peer(agent->secure, &host->id);
	md_hosts_unvouch(&agent->hosts, host);
}

/* A statement with another key names a host whose key is known. The known host keeps its standing. */
static bool is_impostor(struct md_agent *agent, struct md_host *host, const struct md_received *received,
			const struct md_statement *said, uint64_t now_ns)
{
	char theirs[MD_PUBLIC_TEXT_SIZE], known[MD_PUBLIC_TEXT_SIZE], at[MV_GID_STRLEN];
	const struct md_net *net = md_view_net(agent->watch.view, received->ifindex);
	union ibv_gid ip = md_paths_gid(&received->ip);
	struct md_vouch *vouch = host->vouch;

	if (!md_host_is_vouched(host) || md_trust_follows(&agent->trust, said, &vouch->said.sign))
		return false;
	if (is_newcomers(agent, vouch, said, now_ns)) {
		turn_out(agent, host, said);
		return false;
	}
	agent->trust.count.impostors++;
	if (now_ns < vouch->log_again_ns)
		return true;
	vouch->log_again_ns = now_ns + MD_LOG_AGAIN_NS;
	md_public_format(&said->sign, theirs);
	md_public_format(&vouch->said.sign, known);
	md_log(MD_WARNING, "somebody at %s on %s, with the key %s, speaks as host %s, which has the key %s: ignored",
	       mv_gid_format(&ip, at), net ? net->name : "no link of this host", theirs, host->name, known);
	return true;
}

/*
 * A host has another id after each boot. Its statement under a former id is not believed while the present id is heard:
 * anybody may repeat that statement.
 */
static bool is_of_former_life(const struct md_agent *agent, const struct md_statement *said)
{
	const struct md_bound *bound = md_bound_of(&agent->trust, said);
	const struct md_host *host;

	if (!bound || is_id(&bound->id, &said->host) || said->start > bound->start)
		return false;
	host = md_hosts_find(&agent->hosts, &bound->id);
	return host && md_host_is_vouched(host) && !strcmp(host->vouch->said.name, said->name);
}

static bool is_old(const struct md_host *host, const struct md_statement *said)
{
	const struct md_statement *had = &host->vouch->said;

	return said->start < had->start || (said->start == had->start && said->generation < had->generation);
}

static unsigned int take_statement(struct md_agent *agent, struct md_host *host, const struct md_statement *said,
			   const uint8_t digest[MD_CONTENT_BYTES], bool on_link, uint64_t now_ns)
{
	bool was_vouched = md_host_is_vouched(host), was_known = md_pins_find(&agent->trust.pins, said->name, NULL, NULL);
	bool again = was_vouched && host->vouch->said.start != said->start;
	enum md_trust_in before = host->vouch ? host->vouch->trust : MD_TRUST_PINNED,
			 in = decide(agent, host, said, on_link);
	unsigned int changed;

	if (in == MD_TRUST_PINNED && md_secure_peer(agent->secure, &host->id, &said->box))
		in = MD_TRUST_UNPINNED;
	if (md_hosts_vouch(&agent->hosts, host, said, digest, in, &changed))
		return 0;
	if (!was_vouched)
		host->vouch->is_new = !was_known;
	if (in == MD_TRUST_PINNED)
		note_id(agent, said, md_secure_peer_seals(agent->secure, &host->id));
	if (in != before && in != MD_TRUST_PINNED) {
		agent->trust.count.changed++;
		log_distrusted(agent, said, in);
	}
	/* After a start the host knows nothing of us, so messages sealed for it would be lost. */
	if (in == MD_TRUST_PINNED && (!was_vouched || again)) {
		host->asking.n_asked = 0;
		host->asking.not_before_ns = 0;
		md_trust_ask(agent, host, now_ns);
	}
	/* The directory has a flag for it; and GIDs of a vouched host are safe from other claims. */
	if (was_vouched != md_host_is_vouched(host)) {
		md_gidmap_claim(&agent->gidmap, host, agent->watch.view, &agent->targets);
		md_due_heard(agent, host, false, false);
	}
	return changed;
}

/*
 * Our statement, to who asks for it. All agents of a link hear what is sent to the group, so they do not answer that. Who
 * has not shown a cookie is challenged, and then asks once more: md_trust_learned().
 */
static void answer(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened, uint64_t now_ns)
{
	uint32_t ifindex = IN6_IS_ADDR_LINKLOCAL(&received->ip) ? received->ifindex : 0;
	struct md_addr from = md_tx_addr(&received->ip, received->port, ifindex);
	uint8_t challenge[MD_HEADER_BYTES + MD_SEALED_BYTES];
	size_t len;

	if (md_udp_is_multicast(&received->to))
		return;
	if (opened->fresh) {
		md_trust_send(agent, &received->ip, received->port, ifindex, &received->to, false);
		return;
	}
	from.arrived = received->ifindex;
	len = md_challenge(agent->secure, received->bytes, received->len, &from, received->hop_limit, now_ns, challenge);
	if (len && md_unproven_may_answer(agent, received, now_ns))
		md_tx_raw(agent, &received->ip, received->port, ifindex, &received->to, challenge, len);
}

unsigned int md_trust_statement(struct md_agent *agent, const struct md_received *received, const struct md_opened *opened,
				uint64_t now_ns)
{
	struct md_host *host = md_hosts_find(&agent->hosts, &opened->sender);
	struct md_trust *trust = &agent->trust;
	uint8_t digest[MD_CONTENT_BYTES];
	struct md_statement said;

	if (!trust->on || md_secure_has_key(agent->secure))
		return 0;
	trust->count.received++;
	if (md_statement_decode(opened->payload, opened->payload_len, &opened->sender, opened->start, &said)) {
		trust->count.rejected++;
		return 0;
	}
	if (!host) /* a beacon or an answer has to come first */
		return 0;
	md_unproven_came(host, opened->payload_len);
	md_statement_digest(opened->payload, opened->payload_len, &said, digest);
	if (host->vouch && !memcmp(digest, host->vouch->digest, sizeof(digest))) {
		if (said.asks)
			answer(agent, received, opened, now_ns);
		return 0;
	}
	if ((host->vouch && md_public_is(&said.sign, &host->vouch->said.sign) && is_old(host, &said)) ||
	    !may_verify(trust, received, opened->on_link, now_ns))
		return 0;
	if (!md_statement_verify(opened->payload, opened->payload_len, &said) || is_impostor(agent, host, received, &said, now_ns) ||
	    is_of_former_life(agent, &said)) {
		trust->count.rejected++;
		return 0;
	}
	if (said.asks)
		answer(agent, received, opened, now_ns);
	return take_statement(agent, host, &said, digest, opened->on_link && md_view_net(agent->watch.view, received->ifindex), now_ns);
}
