/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_MSG_RELAY_H
#define MD_MSG_RELAY_H

#include <sys/queue.h>

#include "msg_dedup.h"
#include "secure_limit.h"
#include "hash.h"
#include "bounds.h"
#include "msg_envelope.h"

/*
 * Messages between agents. A message is sent over several address pairs at once, and repeated until an ack comes, at
 * most MD_TRIES times within about a second. The receiver delivers the first copy only. If a process sends the same
 * message again meanwhile, that only prolongs the first one. No I/O, no clock, one thread: the agent implements struct
 * md_msg_relay_ops.
 */

/* Destination of a datagram. */
struct md_endpoint {
	struct in6_addr ip;
	uint32_t ifindex; /* netdev to leave by; 0: as routes say */
	struct in6_addr from; /* source address, for routes that depend on it; unspecified: the kernel chooses */
	struct mv_host_id host; /* the host there, for which messages are sealed; not used in look-ups */
	bool bundles; /* the host takes bundles; not used in look-ups, as the next two */
	bool said_down; /* the host says that it does not receive at this address */
	bool cut; /* probes by that netdev do not reach the host */
};

struct md_msg {
	TAILQ_ENTRY(md_msg) queue; /* list of its try */
	UT_hash_handle hh, hh_text;
	uint64_t id, due_ns, begun_ns;
	uint64_t text; /* hash of client, destination and content */
	uint64_t said_ns; /* when the client was last told that the message does not arrive; at first: begun_ns */
	bool again; /* the client has sent the same message since the last try */
	uint64_t client; /* number of the sender */
	unsigned int tries; /* number of tries so far */
	bool sent; /* to one endpoint at least */
	bool orphan; /* the sender has ended */
	union ibv_gid dgid;
	uint32_t qpn; /* for UNREACHABLE */
	uint16_t len;
	uint8_t data[]; /* encoded mv_ctl_msg */
};

TAILQ_HEAD(md_msgs, md_msg);

/* An endpoint whose cookie was learnt lately. */
struct md_learned {
	struct md_endpoint to;
	uint64_t at_ns;
};

#define MD_LEARNED_MAX 64

struct md_msg_relay_ops {
	/* Address pairs to the hosts that have the GID, best first. Return: 0: no known host has it. */
	size_t (*endpoints)(void *arg, const union ibv_gid *dgid, struct md_endpoint *ret, size_t max);
	/* Does the host have the GID? */
	bool (*is_at)(void *arg, const struct mv_host_id *host, const union ibv_gid *gid);
	/* Is the address one of a host that has the GID? */
	bool (*is_from)(void *arg, const union ibv_gid *gid, const struct md_endpoint *from);
	/* No known host has the GID: query it, for that client. Return: false: queried lately, without answer. */
	bool (*ask)(void *arg, const union ibv_gid *dgid, uint64_t client);
	/* Sends a copy, now or, with @to->bundles, together with others of this iteration. */
	void (*send)(void *arg, const struct md_endpoint *to, const struct md_envelope *msg);
	/* The message has not arrived within a second: called at the end, and each second while the message is prolonged. */
	void (*unreachable)(void *arg, const struct md_msg *msg);
	/* The message is finished, with or without ack. Its memory is freed after the call. */
	void (*done)(void *arg, const struct md_msg *msg);
};

struct md_msg_relay {
	const struct md_msg_relay_ops *ops;
	void *arg;
	uint64_t next_id;
	size_t n, n_unsent, n_orphans;
	bool changed; /* a host has become known since messages that wait for one were looked at */
	uint64_t known_ns; /* they are not looked at before this time */
	struct md_msg *by_id, *by_text;
	struct md_msgs tries[MD_TRIES + 1]; /* index: number of tries; each list is roughly in order of due_ns */
	uint64_t slow_ns; /* moving average of the time until acks arrive */
	struct md_msg_dedup dedup; /* hashes of messages that have arrived */
	struct md_learned learned[MD_LEARNED_MAX]; /* ring buffer */
	unsigned int next_learned;
	struct md_limit learning; /* MD_LEARNED_RATE */
	struct {
		uint64_t accepted, arrived, unreachable, retried, merged, no_room; /* messages sent by this host */
		uint64_t received, repeated; /* messages sent to this host */
	} count;
};

/** md_msg_relay_init - @first_id: random and not 0, so that outsiders cannot guess ids */
void md_msg_relay_init(struct md_msg_relay *relay, const struct md_msg_relay_ops *ops, void *arg, uint64_t first_id);

#define MD_MSG_RELAY_MERGED 1

/**
 * md_msg_relay_send - send a message; it is copied
 *
 * Return: 0: ops->done() will be called once, perhaps before this returns; MD_MSG_RELAY_MERGED: the same message of
 * that client is under way, and there is no further ops->done(); -ENOSPC: MD_MSGS_MAX; -ENOMEM.
 */
int md_msg_relay_send(struct md_msg_relay *relay, uint64_t client, const union ibv_gid *dgid, uint32_t qpn,
		      const uint8_t *data, uint16_t len, uint64_t now_ns);

/**
 * md_msg_relay_acked - an ack has arrived
 * @from: its sender, with md_endpoint.host
 *
 * Ignored if it comes from another host than the message's destination, or from an address at which that host is not
 * known: a host that got one message can guess other ids. The address alone proves little, because neighbours can forge
 * beacons of the host from theirs.
 */
void md_msg_relay_acked(struct md_msg_relay *relay, uint64_t id, const struct md_endpoint *from, uint64_t now_ns);

/**
 * md_msg_relay_known - a host has become known: send messages that wait for one
 *
 * Within MD_KNOWN_NS after the last time, md_msg_relay_tick() does that later.
 */
void md_msg_relay_known(struct md_msg_relay *relay, uint64_t now_ns);

/**
 * md_msg_relay_learned - a cookie of @host at @to was learnt (secure.h): send again what was sent there
 *
 * Each datagram without cookie is answered by a challenge; the first one causes this, and the others are ignored. Beyond
 * MD_LEARNED_RATE nothing is sent: a host may have hundreds of addresses, and messages have further tries.
 */
void md_msg_relay_learned(struct md_msg_relay *relay, const struct mv_host_id *host, const struct md_endpoint *to,
			  uint64_t now_ns);

/**
 * md_msg_relay_tick - repeat messages that are due, end those with enough tries; MD_TRIES_PER_TURN at most
 *
 * Return: time of the next call, @now_ns or earlier if more messages are due; UINT64_MAX: idle
 */
uint64_t md_msg_relay_tick(struct md_msg_relay *relay, uint64_t now_ns);

/** md_msg_relay_next - Return: when md_msg_relay_tick() is due; UINT64_MAX: idle */
uint64_t md_msg_relay_next(const struct md_msg_relay *relay);

/**
 * md_msg_relay_first_ways - endpoints for the first copy of a message to @dgid, one for each netdev
 *
 * Return: number of endpoints written, at most @max.
 */
size_t md_msg_relay_first_ways(const struct md_msg_relay *relay, const union ibv_gid *dgid, struct md_endpoint *ret,
			       size_t max);

/**
 * md_msg_relay_orphan - a client has ended
 *
 * Its messages stay until they have arrived or had enough tries, because its peers wait for its last messages. At most
 * MD_ORPHANS_MAX of all ended clients; further ones are freed without ops->done().
 */
void md_msg_relay_orphan(struct md_msg_relay *relay, uint64_t client);

/**
 * md_msg_relay_is_copy - has a copy of an arrived message arrived before? As md_msg_relay_first(), and remembers
 * nothing
 */
bool md_msg_relay_is_copy(struct md_msg_relay *relay, const struct mv_host_id *sender, uint64_t start,
			  const struct md_envelope *msg);

/**
 * md_msg_relay_first - is this the first copy of an arrived message?
 * @sender, @start: from the datagram (secure.h)
 */
bool md_msg_relay_first(struct md_msg_relay *relay, const struct mv_host_id *sender, uint64_t start,
			const struct md_envelope *msg, uint64_t now_ns);

void md_msg_relay_fini(struct md_msg_relay *relay);

#endif
