/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "msg_relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

/* Delay after each try, one second in total. */
static const uint64_t wait_ns[MD_TRIES + 1] = {
	0, 20 * MD_MS, 80 * MD_MS, 200 * MD_MS, 300 * MD_MS, 400 * MD_MS,
};

/* Limit of messages sent at once when a cookie was learnt or a host became known. Others wait for their next try. */
#define AT_ONCE_MAX 256

/* Challenges to datagrams that were sent before the cookie was learnt arrive within a round trip. */
#define LEARNED_NS (20 * MD_MS)

void md_msg_relay_init(struct md_msg_relay *relay, const struct md_msg_relay_ops *ops, void *arg,
		       uint64_t first_id)
{
	memset(relay, 0, sizeof(*relay));
	relay->ops = ops;
	relay->arg = arg;
	relay->next_id = first_id;
	for (int i = 0; i <= MD_TRIES; i++)
		TAILQ_INIT(&relay->tries[i]);
}

/* Removes the message from all lists; the caller frees it. */
static void take_out(struct md_msg_relay *relay, struct md_msg *msg)
{
	TAILQ_REMOVE(&relay->tries[msg->tries], msg, queue);
	HASH_DEL(relay->by_id, msg);
	HASH_DELETE(hh_text, relay->by_text, msg);
	relay->n--;
	relay->n_orphans -= msg->orphan;
	relay->n_unsent -= !msg->sent;
}

static void release(struct md_msg_relay *relay, struct md_msg *msg)
{
	take_out(relay, msg);
	free(msg);
}

static void finish(struct md_msg_relay *relay, struct md_msg *msg, bool arrived)
{
	if (arrived)
		relay->count.arrived++;
	else
		relay->count.unreachable++;
	take_out(relay, msg);
	if (!arrived)
		relay->ops->unreachable(relay->arg, msg);
	relay->ops->done(relay->arg, msg);
	free(msg);
}

static void send_to(struct md_msg_relay *relay, const struct md_msg *msg,
		    const struct md_endpoint *to)
{
	const struct md_envelope wire = {
		.op = MD_MSG_DATA, .id = msg->id, .len = msg->len, .data = msg->data};
	struct md_endpoint at = *to;

	/* Later tries go alone: the host may have been restarted with an older agent that takes no bundles. */
	at.bundles &= msg->tries <= MD_TRIES_FEW;
	relay->ops->send(relay->arg, &at, &wire);
}

/*
 * Sends to all endpoints, or to MD_PATHS_AT_ONCE spread over the list, because adjacent endpoints often share a netdev.
 * Each try starts one endpoint further.
 */
static void send_many(struct md_msg_relay *relay, const struct md_msg *msg,
		      const struct md_endpoint *to, size_t n)
{
	size_t at_once = n < MD_PATHS_AT_ONCE ? n : MD_PATHS_AT_ONCE;

	for (size_t i = 0; i < at_once; i++)
		send_to(relay, msg, &to[(i * n / at_once + msg->tries) % n]);
}

/* Return: number of different netdevs; *@ret_first: index in @to of the first endpoint of each. */
static size_t netdevs_of(const struct md_endpoint *to, size_t n, size_t ret_first[static MD_PATHS_MAX])
{
	size_t n_first = 0, i, k;

	for (i = 0; i < n; i++) {
		for (k = 0; k < n_first && to[ret_first[k]].ifindex != to[i].ifindex; k++)
			;
		if (k == n_first)
			ret_first[n_first++] = i;
	}
	return n_first;
}

/* The @nth endpoint after @to[at], cyclically, among those with the same netdev. */
static size_t nth_of_netdev(const struct md_endpoint *to, size_t n, size_t at, unsigned int nth)
{
	uint32_t ifindex = to[at].ifindex;

	while (nth--)
		do
			at = (at + 1) % n;
		while (to[at].ifindex != ifindex);
	return at;
}

/*
 * Removes endpoints that do not receive, as far as is known; keeps all if none is left. @cut: also those whose probes
 * fail.
 * Return: number left.
 */
static size_t leave_out_deaf(struct md_endpoint *to, size_t n, bool cut)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!to[i].said_down && !(cut && to[i].cut))
			to[kept++] = to[i];
	return kept ? kept : n;
}

/*
 * Sends one copy by each of MD_PATHS_FIRST netdevs: when hundreds of queue pairs lose their path, every copy counts,
 * and two NICs seldom fail at once. The second try takes other addresses. Endpoints that do not receive, as far as is
 * known, are left out until the third try, since that knowledge may be out of date.
 */
static void send_few(struct md_msg_relay *relay, const struct md_msg *msg,
		     struct md_endpoint *to, size_t n_all)
{
	size_t n = leave_out_deaf(to, n_all, true), first[MD_PATHS_MAX], n_netdevs = netdevs_of(to, n, first);
	size_t few = n_netdevs < MD_PATHS_FIRST ? n_netdevs : MD_PATHS_FIRST;

	for (size_t i = 0; i < few; i++) {
		size_t at = first[(i * n_netdevs / few + msg->id) % n_netdevs];

		send_to(relay, msg, &to[nth_of_netdev(to, n, at, msg->tries - 1)]);
	}
}

/* @to: is reordered */
static void send_copies(struct md_msg_relay *relay, const struct md_msg *msg,
			struct md_endpoint *to, size_t n)
{
	/* Several hosts may have a link-local GID, and all of them get the message. */
	if (msg->tries <= MD_TRIES_FEW &&
	    mv_gid_family(&msg->dgid) != MV_FAMILY_LINK_LOCAL)
		send_few(relay, msg, to, n);
	else
		send_many(relay, msg, to, n);
}

size_t md_msg_relay_first_ways(const struct md_msg_relay *relay, const union ibv_gid *dgid, struct md_endpoint *ret,
			       size_t max)
{
	struct md_endpoint to[MD_PATHS_MAX];
	size_t first[MD_PATHS_MAX], n = leave_out_deaf(to, relay->ops->endpoints(relay->arg, dgid, to, MD_PATHS_MAX),
						       false);
	size_t n_netdevs = netdevs_of(to, n, first);

	if (n_netdevs > max)
		n_netdevs = max;
	for (size_t i = 0; i < n_netdevs; i++)
		ret[i] = to[first[i]];
	return n_netdevs;
}

/* Return: false: no host has the GID, and waiting is useless. */
static bool try_once(struct md_msg_relay *relay, struct md_msg *msg)
{
	struct md_endpoint to[MD_PATHS_MAX];
	size_t n = relay->ops->endpoints(relay->arg, &msg->dgid, to, MD_PATHS_MAX);

	if (!n)
		return relay->ops->ask(relay->arg, &msg->dgid, msg->client);
	relay->n_unsent -= !msg->sent;
	msg->sent = true;
	send_copies(relay, msg, to, n);
	return true;
}

/*
 * Busy agents send acks late, and further copies make them busier. So the second try waits for twice the usual time
 * of acks.
 */
static uint64_t wait_after(const struct md_msg_relay *relay, unsigned int tries)
{
	uint64_t slow_ns = 2 * relay->slow_ns < MD_TRIES_SLOW_NS ? 2 * relay->slow_ns : MD_TRIES_SLOW_NS;

	return tries == 1 && slow_ns > wait_ns[1] ? slow_ns : wait_ns[tries];
}

/*
 * If a message was sent several times, the ack may be for any copy. The time since the first copy is the safe estimate.
 */
static void note_ack(struct md_msg_relay *relay, const struct md_msg *msg, uint64_t now_ns)
{
	uint64_t took_ns = now_ns - msg->begun_ns;

	/* A prolonged message may be old. */
	if (took_ns > MD_S)
		took_ns = MD_S;
	relay->slow_ns = (7 * relay->slow_ns + took_ns) / 8;
}

static void queue_up(struct md_msg_relay *relay, struct md_msg *msg, unsigned int tries,
		     uint64_t now_ns)
{
	msg->tries = tries;
	msg->due_ns = now_ns + wait_after(relay, tries);
	TAILQ_INSERT_TAIL(&relay->tries[tries], msg, queue);
}

static uint64_t text_of(uint64_t client, const union ibv_gid *dgid, const uint8_t *data, uint16_t len)
{
	struct {
		uint64_t client;
		union ibv_gid dgid;
		uint8_t data[MV_CTL_MAX_BYTES];
	} what = {.client = client, .dgid = *dgid};

	memcpy(what.data, data, len);
	return md_hash64(&what, offsetof(typeof(what), data) + len);
}

/* The same message of that client; NULL: none under way. */
static struct md_msg *find_same(const struct md_msg_relay *relay, uint64_t text, uint64_t client,
				const union ibv_gid *dgid, const uint8_t *data, uint16_t len)
{
	struct md_msg *msg;

	HASH_FIND_BYHASHVALUE(hh_text, relay->by_text, &text, sizeof(text), (unsigned int)text, msg);
	if (msg && msg->client == client && mv_gid_equal(&msg->dgid, dgid) && msg->len == len &&
	    !memcmp(msg->data, data, len))
		return msg;
	return NULL;
}

/*
 * Adds to both tables, or to none. Keys are used as hash values directly: a keyed hash, and a serial number of our own.
 * Nobody else can choose them.
 */
static bool add(struct md_msg_relay *relay, struct md_msg *msg)
{
	HASH_ADD_BYHASHVALUE(hh, relay->by_id, id, sizeof(msg->id), (unsigned int)msg->id, msg);
	if (!msg->hh.tbl)
		return false;
	HASH_ADD_BYHASHVALUE(hh_text, relay->by_text, text, sizeof(msg->text), (unsigned int)msg->text, msg);
	if (msg->hh_text.tbl)
		return true;
	HASH_DEL(relay->by_id, msg);
	return false;
}

int md_msg_relay_send(struct md_msg_relay *relay, uint64_t client, const union ibv_gid *dgid, uint32_t qpn,
		      const uint8_t *data, uint16_t len, uint64_t now_ns)
{
	uint64_t text = text_of(client, dgid, data, len);
	struct md_msg *msg = find_same(relay, text, client, dgid, data, len);

	if (msg) {
		msg->again = true;
		relay->count.merged++;
		return MD_MSG_RELAY_MERGED;
	}
	if (relay->n >= MD_MSGS_MAX) {
		relay->count.no_room++;
		return -ENOSPC;
	}
	msg = calloc(1, sizeof(*msg) + len);
	if (!msg)
		return -ENOMEM;
	msg->id = relay->next_id;
	msg->text = text;
	msg->client = client;
	msg->dgid = *dgid;
	msg->qpn = qpn;
	msg->begun_ns = now_ns;
	msg->said_ns = now_ns;
	msg->len = len;
	memcpy(msg->data, data, len);
	if (!add(relay, msg)) {
		free(msg);
		return -ENOMEM;
	}
	relay->next_id++;
	relay->n++;
	relay->n_unsent++;
	relay->count.accepted++;
	queue_up(relay, msg, 1, now_ns);
	if (!try_once(relay, msg))
		finish(relay, msg, false);
	return 0;
}

void md_msg_relay_acked(struct md_msg_relay *relay, uint64_t id, const struct md_endpoint *from, uint64_t now_ns)
{
	struct md_msg *msg;

	HASH_FIND_BYHASHVALUE(hh, relay->by_id, &id, sizeof(id), (unsigned int)id, msg);
	if (!msg || !relay->ops->is_at(relay->arg, &from->host, &msg->dgid) ||
	    !relay->ops->is_from(relay->arg, &msg->dgid, from))
		return;
	note_ack(relay, msg, now_ns);
	finish(relay, msg, true);
}

static void send_unsent(struct md_msg_relay *relay)
{
	unsigned int sent = 0;
	struct md_msg *msg, *next;

	HASH_ITER(hh, relay->by_id, msg, next)
	{
		struct md_endpoint to[MD_PATHS_MAX];
		size_t n;

		if (msg->sent)
			continue;
		n = relay->ops->endpoints(relay->arg, &msg->dgid, to, MD_PATHS_MAX);
		if (!n)
			continue;
		msg->sent = true;
		relay->n_unsent--;
		send_copies(relay, msg, to, n);
		if (++sent == AT_ONCE_MAX || !relay->n_unsent)
			break;
	}
	relay->changed = sent == AT_ONCE_MAX && relay->n_unsent; /* the others: in MD_KNOWN_NS */
}

/* Others can make changes without end, and thousands of messages may wait. */
void md_msg_relay_known(struct md_msg_relay *relay, uint64_t now_ns)
{
	relay->changed = relay->n_unsent > 0;
	if (!relay->changed || now_ns < relay->known_ns)
		return;
	relay->changed = false;
	relay->known_ns = now_ns + MD_KNOWN_NS;
	send_unsent(relay);
}

static bool learned_lately(struct md_msg_relay *relay, const struct md_endpoint *to, uint64_t now_ns)
{
	for (int i = 0; i < MD_LEARNED_MAX; i++) {
		const struct md_learned *learned = &relay->learned[i];

		if (learned->at_ns && now_ns - learned->at_ns < LEARNED_NS &&
		    learned->to.ifindex == to->ifindex &&
		    IN6_ARE_ADDR_EQUAL(&learned->to.ip, &to->ip))
			return true;
	}
	relay->learned[relay->next_learned++ % MD_LEARNED_MAX] =
		(struct md_learned){.to = *to, .at_ns = now_ns};
	return false;
}

static bool take_learning(struct md_msg_relay *relay, uint32_t n, uint64_t now_ns)
{
	static const struct md_rate rate = {.per_second = MD_LEARNED_RATE, .burst = MD_LEARNED_BURST};

	return md_limit_take_some(&relay->learning, &rate, n, now_ns);
}

void md_msg_relay_learned(struct md_msg_relay *relay, const struct mv_host_id *host,
			  const struct md_endpoint *to, uint64_t now_ns)
{
	unsigned int sent = 0;
	struct md_msg *msg, *next;

	/* Sending a message takes some 5 us, and looking at 64 of them as long. */
	if (learned_lately(relay, to, now_ns) || !take_learning(relay, 1 + (uint32_t)relay->n / 64, now_ns))
		return;
	HASH_ITER(hh, relay->by_id, msg, next)
	{
		if (!msg->sent || !relay->ops->is_at(relay->arg, host, &msg->dgid))
			continue;
		if (!take_learning(relay, 1, now_ns))
			return;
		send_to(relay, msg, to);
		if (++sent == AT_ONCE_MAX)
			return;
	}
}

/*
 * Number of the next try. A message that its client has sent again stays at MD_TRIES_KEPT, so that many such messages
 * for an agent without processor are not sent on all paths.
 */
static unsigned int next_try(struct md_msg *msg)
{
	bool again = msg->again;

	msg->again = false;
	return again && msg->tries >= MD_TRIES_KEPT ? MD_TRIES_KEPT : msg->tries + 1;
}

/* Without merging, the client would be told once for each of its messages. */
static void tell_while_kept(struct md_msg_relay *relay, struct md_msg *msg, uint64_t now_ns)
{
	if (now_ns - msg->said_ns < MD_S)
		return;
	msg->said_ns = now_ns;
	relay->ops->unreachable(relay->arg, msg);
}

static void try_again(struct md_msg_relay *relay, struct md_msg *msg, uint64_t now_ns)
{
	unsigned int next = next_try(msg);

	if (next > MD_TRIES) {
		finish(relay, msg, false);
		return;
	}
	TAILQ_REMOVE(&relay->tries[msg->tries], msg, queue);
	queue_up(relay, msg, next, now_ns);
	tell_while_kept(relay, msg, now_ns);
	relay->count.retried++;
	if (!try_once(relay, msg))
		finish(relay, msg, false);
}

/* Return: the message whose next try is due first; NULL: none is under way. */
static struct md_msg *first_due(const struct md_msg_relay *relay)
{
	struct md_msg *first = NULL;

	for (int i = 1; i <= MD_TRIES; i++) {
		struct md_msg *msg = TAILQ_FIRST(&relay->tries[i]);

		if (msg && (!first || msg->due_ns < first->due_ns))
			first = msg;
	}
	return first;
}

uint64_t md_msg_relay_next(const struct md_msg_relay *relay)
{
	const struct md_msg *msg = first_due(relay);
	uint64_t next_ns = msg ? msg->due_ns : UINT64_MAX;

	return relay->changed && relay->known_ns < next_ns ? relay->known_ns : next_ns;
}

uint64_t md_msg_relay_tick(struct md_msg_relay *relay, uint64_t now_ns)
{
	struct md_msg *msg;

	if (relay->changed)
		md_msg_relay_known(relay, now_ns);
	for (unsigned int i = 0; i < MD_TRIES_PER_TURN && (msg = first_due(relay)) && msg->due_ns <= now_ns; i++)
		try_again(relay, msg, now_ns);
	return md_msg_relay_next(relay);
}

void md_msg_relay_orphan(struct md_msg_relay *relay, uint64_t client)
{
	struct md_msg *msg, *next;

	HASH_ITER(hh, relay->by_id, msg, next)
	{
		if (msg->client != client)
			continue;
		if (relay->n_orphans == MD_ORPHANS_MAX) {
			release(relay, msg);
			continue;
		}
		msg->orphan = true;
		relay->n_orphans++;
	}
}

void md_msg_relay_fini(struct md_msg_relay *relay)
{
	struct md_msg *msg, *next;

	HASH_ITER(hh, relay->by_id, msg, next)
	release(relay, msg);
}
