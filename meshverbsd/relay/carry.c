/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "carry.h"

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

void md_carry_init(struct md_carry *carry, const struct md_carry_ops *ops, void *arg,
		   uint64_t first_id)
{
	memset(carry, 0, sizeof(*carry));
	carry->ops = ops;
	carry->arg = arg;
	carry->next_id = first_id;
	for (int i = 0; i <= MD_TRIES; i++)
		TAILQ_INIT(&carry->tries[i]);
}

/* Removes the parcel from all lists; the caller frees it. */
static void take_out(struct md_carry *carry, struct md_parcel *parcel)
{
	TAILQ_REMOVE(&carry->tries[parcel->tries], parcel, queue);
	HASH_DEL(carry->by_id, parcel);
	HASH_DELETE(hh_text, carry->by_text, parcel);
	carry->n--;
	carry->n_orphans -= parcel->orphan;
	carry->n_unsent -= !parcel->sent;
}

static void release(struct md_carry *carry, struct md_parcel *parcel)
{
	take_out(carry, parcel);
	free(parcel);
}

static void finish(struct md_carry *carry, struct md_parcel *parcel, bool arrived)
{
	if (arrived)
		carry->count.arrived++;
	else
		carry->count.unreachable++;
	take_out(carry, parcel);
	if (!arrived)
		carry->ops->unreachable(carry->arg, parcel);
	carry->ops->done(carry->arg, parcel);
	free(parcel);
}

static void send_to(struct md_carry *carry, const struct md_parcel *parcel,
		    const struct md_endpoint *to)
{
	const struct md_parcel_wire wire = {
		.op = MD_PARCEL_CARRY, .id = parcel->id, .len = parcel->len, .data = parcel->data};
	struct md_endpoint at = *to;

	/* Later tries go alone: the host may have been restarted with an older agent that takes no bundles. */
	at.bundles &= parcel->tries <= MD_TRIES_FEW;
	carry->ops->send(carry->arg, &at, &wire);
}

/*
 * Sends to all endpoints, or to MD_PATHS_AT_ONCE spread over the list, because adjacent endpoints often share a netdev.
 * Each try starts one endpoint further.
 */
static void send_many(struct md_carry *carry, const struct md_parcel *parcel,
		      const struct md_endpoint *to, size_t n)
{
	size_t at_once = n < MD_PATHS_AT_ONCE ? n : MD_PATHS_AT_ONCE;

	for (size_t i = 0; i < at_once; i++)
		send_to(carry, parcel, &to[(i * n / at_once + parcel->tries) % n]);
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
static void send_few(struct md_carry *carry, const struct md_parcel *parcel,
		     struct md_endpoint *to, size_t n_all)
{
	size_t n = leave_out_deaf(to, n_all, true), first[MD_PATHS_MAX], n_netdevs = netdevs_of(to, n, first);
	size_t few = n_netdevs < MD_PATHS_FIRST ? n_netdevs : MD_PATHS_FIRST;

	for (size_t i = 0; i < few; i++) {
		size_t at = first[(i * n_netdevs / few + parcel->id) % n_netdevs];

		send_to(carry, parcel, &to[nth_of_netdev(to, n, at, parcel->tries - 1)]);
	}
}

/* @to: is reordered */
static void send_copies(struct md_carry *carry, const struct md_parcel *parcel,
			struct md_endpoint *to, size_t n)
{
	/* Several hosts may have a link-local GID, and all of them get the message. */
	if (parcel->tries <= MD_TRIES_FEW &&
	    mv_gid_family(&parcel->dgid) != MV_FAMILY_LINK_LOCAL)
		send_few(carry, parcel, to, n);
	else
		send_many(carry, parcel, to, n);
}

size_t md_carry_first_ways(const struct md_carry *carry, const union ibv_gid *dgid, struct md_endpoint *ret, size_t max)
{
	struct md_endpoint to[MD_PATHS_MAX];
	size_t first[MD_PATHS_MAX], n = leave_out_deaf(to, carry->ops->endpoints(carry->arg, dgid, to, MD_PATHS_MAX), false);
	size_t n_netdevs = netdevs_of(to, n, first);

	if (n_netdevs > max)
		n_netdevs = max;
	for (size_t i = 0; i < n_netdevs; i++)
		ret[i] = to[first[i]];
	return n_netdevs;
}

/* Return: false: no host has the GID, and waiting is useless. */
static bool try_once(struct md_carry *carry, struct md_parcel *parcel)
{
	struct md_endpoint to[MD_PATHS_MAX];
	size_t n = carry->ops->endpoints(carry->arg, &parcel->dgid, to, MD_PATHS_MAX);

	if (!n)
		return carry->ops->ask(carry->arg, &parcel->dgid, parcel->client);
	carry->n_unsent -= !parcel->sent;
	parcel->sent = true;
	send_copies(carry, parcel, to, n);
	return true;
}

/*
 * Busy agents send receipts late, and further copies make them busier. So the second try waits for twice the usual time
 * of receipts.
 */
static uint64_t wait_after(const struct md_carry *carry, unsigned int tries)
{
	uint64_t slow_ns = 2 * carry->slow_ns < MD_TRIES_SLOW_NS ? 2 * carry->slow_ns : MD_TRIES_SLOW_NS;

	return tries == 1 && slow_ns > wait_ns[1] ? slow_ns : wait_ns[tries];
}

/* If a message was sent several times, the receipt may be for any copy. The time since the first copy is the safe estimate. */
static void note_receipt(struct md_carry *carry, const struct md_parcel *parcel, uint64_t now_ns)
{
	uint64_t took_ns = now_ns - parcel->begun_ns;

	/* A prolonged message may be old. */
	if (took_ns > MD_S)
		took_ns = MD_S;
	carry->slow_ns = (7 * carry->slow_ns + took_ns) / 8;
}

static void queue_up(struct md_carry *carry, struct md_parcel *parcel, unsigned int tries,
		     uint64_t now_ns)
{
	parcel->tries = tries;
	parcel->due_ns = now_ns + wait_after(carry, tries);
	TAILQ_INSERT_TAIL(&carry->tries[tries], parcel, queue);
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

/* The parcel with the same message of that client; NULL: none under way. */
static struct md_parcel *find_same(const struct md_carry *carry, uint64_t text, uint64_t client,
				   const union ibv_gid *dgid, const uint8_t *data, uint16_t len)
{
	struct md_parcel *parcel;

	HASH_FIND_BYHASHVALUE(hh_text, carry->by_text, &text, sizeof(text), (unsigned int)text, parcel);
	if (parcel && parcel->client == client && mv_gid_equal(&parcel->dgid, dgid) && parcel->len == len &&
	    !memcmp(parcel->data, data, len))
		return parcel;
	return NULL;
}

/*
 * Adds to both tables, or to none. Keys are used as hash values directly: a keyed hash, and a serial number of our own.
 * Nobody else can choose them.
 */
static bool add(struct md_carry *carry, struct md_parcel *parcel)
{
	HASH_ADD_BYHASHVALUE(hh, carry->by_id, id, sizeof(parcel->id), (unsigned int)parcel->id, parcel);
	if (!parcel->hh.tbl)
		return false;
	HASH_ADD_BYHASHVALUE(hh_text, carry->by_text, text, sizeof(parcel->text), (unsigned int)parcel->text, parcel);
	if (parcel->hh_text.tbl)
		return true;
	HASH_DEL(carry->by_id, parcel);
	return false;
}

int md_carry_send(struct md_carry *carry, uint64_t client, const union ibv_gid *dgid, uint32_t qpn,
		  const uint8_t *data, uint16_t len, uint64_t now_ns)
{
	uint64_t text = text_of(client, dgid, data, len);
	struct md_parcel *parcel = find_same(carry, text, client, dgid, data, len);

	if (parcel) {
		parcel->again = true;
		carry->count.merged++;
		return MD_CARRY_MERGED;
	}
	if (carry->n >= MD_PARCELS_MAX) {
		carry->count.no_room++;
		return -ENOSPC;
	}
	parcel = calloc(1, sizeof(*parcel) + len);
	if (!parcel)
		return -ENOMEM;
	parcel->id = carry->next_id;
	parcel->text = text;
	parcel->client = client;
	parcel->dgid = *dgid;
	parcel->qpn = qpn;
	parcel->begun_ns = now_ns;
	parcel->said_ns = now_ns;
	parcel->len = len;
	memcpy(parcel->data, data, len);
	if (!add(carry, parcel)) {
		free(parcel);
		return -ENOMEM;
	}
	carry->next_id++;
	carry->n++;
	carry->n_unsent++;
	carry->count.accepted++;
	queue_up(carry, parcel, 1, now_ns);
	if (!try_once(carry, parcel))
		finish(carry, parcel, false);
	return 0;
}

void md_carry_receipt(struct md_carry *carry, uint64_t id, const struct md_endpoint *from, uint64_t now_ns)
{
	struct md_parcel *parcel;

	HASH_FIND_BYHASHVALUE(hh, carry->by_id, &id, sizeof(id), (unsigned int)id, parcel);
	if (!parcel || !carry->ops->is_from(carry->arg, &parcel->dgid, from))
		return;
	note_receipt(carry, parcel, now_ns);
	finish(carry, parcel, true);
}

void md_carry_known(struct md_carry *carry)
{
	unsigned int sent = 0;
	struct md_parcel *parcel, *next;

	if (!carry->n_unsent)
		return;
	HASH_ITER(hh, carry->by_id, parcel, next)
	{
		struct md_endpoint to[MD_PATHS_MAX];
		size_t n;

		if (parcel->sent)
			continue;
		n = carry->ops->endpoints(carry->arg, &parcel->dgid, to, MD_PATHS_MAX);
		if (!n)
			continue;
		parcel->sent = true;
		carry->n_unsent--;
		send_copies(carry, parcel, to, n);
		if (++sent == AT_ONCE_MAX || !carry->n_unsent)
			return;
	}
}

static bool learned_lately(struct md_carry *carry, const struct md_endpoint *to, uint64_t now_ns)
{
	for (int i = 0; i < MD_LEARNED_MAX; i++) {
		const struct md_learned *learned = &carry->learned[i];

		if (learned->at_ns && now_ns - learned->at_ns < LEARNED_NS &&
		    learned->to.ifindex == to->ifindex &&
		    IN6_ARE_ADDR_EQUAL(&learned->to.ip, &to->ip))
			return true;
	}
	carry->learned[carry->next_learned++ % MD_LEARNED_MAX] =
		(struct md_learned){.to = *to, .at_ns = now_ns};
	return false;
}

void md_carry_learned(struct md_carry *carry, const struct mv_host_id *host,
		      const struct md_endpoint *to, uint64_t now_ns)
{
	unsigned int sent = 0;
	struct md_parcel *parcel, *next;

	if (learned_lately(carry, to, now_ns))
		return;
	HASH_ITER(hh, carry->by_id, parcel, next)
	{
		if (!parcel->sent || !carry->ops->is_at(carry->arg, host, &parcel->dgid))
			continue;
		send_to(carry, parcel, to);
		if (++sent == AT_ONCE_MAX)
			return;
	}
}

/*
 * Number of the next try. A message that its client has sent again stays at MD_TRIES_KEPT, so that many such messages
 * for an agent without processor are not sent on all paths.
 */
static unsigned int next_try(struct md_parcel *parcel)
{
	bool again = parcel->again;

	parcel->again = false;
	return again && parcel->tries >= MD_TRIES_KEPT ? MD_TRIES_KEPT : parcel->tries + 1;
}

/* Without merging, the client would be told once for each of its messages. */
static void tell_while_kept(struct md_carry *carry, struct md_parcel *parcel, uint64_t now_ns)
{
	if (now_ns - parcel->said_ns < MD_S)
		return;
	parcel->said_ns = now_ns;
	carry->ops->unreachable(carry->arg, parcel);
}

static void try_again(struct md_carry *carry, struct md_parcel *parcel, uint64_t now_ns)
{
	unsigned int next = next_try(parcel);

	if (next > MD_TRIES) {
		finish(carry, parcel, false);
		return;
	}
	TAILQ_REMOVE(&carry->tries[parcel->tries], parcel, queue);
	queue_up(carry, parcel, next, now_ns);
	tell_while_kept(carry, parcel, now_ns);
	carry->count.retried++;
	if (!try_once(carry, parcel))
		finish(carry, parcel, false);
}

uint64_t md_carry_next(const struct md_carry *carry)
{
	uint64_t next_ns = UINT64_MAX;

	for (int i = 1; i <= MD_TRIES; i++) {
		const struct md_parcel *parcel = TAILQ_FIRST(&carry->tries[i]);

		if (parcel && parcel->due_ns < next_ns)
			next_ns = parcel->due_ns;
	}
	return next_ns;
}

uint64_t md_carry_tick(struct md_carry *carry, uint64_t now_ns)
{
	/* From the last list down, so that no message is tried twice in a call. */
	for (int i = MD_TRIES; i >= 1; i--) {
		struct md_parcel *parcel;

		while ((parcel = TAILQ_FIRST(&carry->tries[i])) && parcel->due_ns <= now_ns)
			try_again(carry, parcel, now_ns);
	}
	return md_carry_next(carry);
}

void md_carry_orphan(struct md_carry *carry, uint64_t client)
{
	struct md_parcel *parcel, *next;

	HASH_ITER(hh, carry->by_id, parcel, next)
	{
		if (parcel->client != client)
			continue;
		if (carry->n_orphans == MD_ORPHANS_MAX) {
			release(carry, parcel);
			continue;
		}
		parcel->orphan = true;
		carry->n_orphans++;
	}
}

static uint64_t hash_of(const struct mv_host_id *sender, uint64_t start, const struct md_parcel_wire *parcel)
{
	struct {
		struct mv_host_id sender;
		uint64_t start, id;
		uint8_t data[MV_CTL_MAX_BYTES];
	} what = {.sender = *sender, .start = start, .id = parcel->id};

	memcpy(what.data, parcel->data, parcel->len);
	return md_hash64(&what, offsetof(typeof(what), data) + parcel->len);
}

bool md_carry_is_copy(struct md_carry *carry, const struct mv_host_id *sender, uint64_t start, const struct md_parcel_wire *parcel)
{
	return md_copies_has(&carry->copies, hash_of(sender, start, parcel));
}

bool md_carry_first(struct md_carry *carry, const struct mv_host_id *sender, uint64_t start,
		    const struct md_parcel_wire *parcel, uint64_t now_ns)
{
	bool first = md_copies_first(&carry->copies, hash_of(sender, start, parcel), now_ns);

	if (first)
		carry->count.received++;
	else
		carry->count.repeated++;
	return first;
}

void md_carry_fini(struct md_carry *carry)
{
	struct md_parcel *parcel, *next;

	HASH_ITER(hh, carry->by_id, parcel, next)
	release(carry, parcel);
}
