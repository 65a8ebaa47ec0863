/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_CARRY_H
#define MD_CARRY_H

#include <sys/queue.h>

#include "copies.h"
#include "hash.h"
#include "bounds.h"
#include "parcel_wire.h"

/*
 * Messages on their way between agents: sent over several address pairs at once, repeated until a receipt comes or
 * MD_TRIES are over, about a second; of what arrives the first copy is passed on. What a process says again meanwhile is
 * no further message, but keeps the first one under way. No I/O, no clock: the agent is behind struct md_carry_ops.
 */

/* Where a datagram is sent. */
struct md_endpoint {
	struct in6_addr ip;
	uint32_t ifindex; /* to leave by; 0: as routes say */
	struct in6_addr from; /* our address to be sent from, for routes that depend on it; unspecified: as routes say */
	struct mv_host_id host; /* for whom what is sent there is sealed; nothing, where an endpoint is looked for */
	bool bundles; /* whoever is there takes bundles; nothing, where an endpoint is looked for, as is the next */
	bool said_down; /* the host says that it does not hear there */
	bool cut; /* probes by that netdev do not get through to the host */
};

struct md_parcel {
	TAILQ_ENTRY(md_parcel) queue; /* of its try */
	UT_hash_handle hh, hh_text;
	uint64_t id, due_ns, begun_ns;
	uint64_t text; /* hash of who says what to whom */
	uint64_t said_ns; /* when its process was last told that it does not arrive; first: begun_ns */
	bool again; /* its process has said it again since the last try */
	uint64_t client; /* who sent it */
	unsigned int tries; /* so far */
	bool sent; /* to some endpoint at least */
	bool orphan; /* who sent it is gone */
	union ibv_gid dgid;
	uint32_t qpn; /* for UNREACHABLE */
	uint16_t len;
	uint8_t data[]; /* the encoded mv_ctl_msg */
};

TAILQ_HEAD(md_parcels, md_parcel);

/* An endpoint whose cookie was learnt lately. */
struct md_learned {
	struct md_endpoint to;
	uint64_t at_ns;
};

#define MD_LEARNED_MAX 64

struct md_carry_ops {
	/* Address pairs to the hosts that have that GID, best first; 0: nobody is known to have it. */
	size_t (*endpoints)(void *arg, const union ibv_gid *dgid, struct md_endpoint *ret, size_t max);
	/* Has that host that GID? */
	bool (*is_at)(void *arg, const struct mv_host_id *host, const union ibv_gid *gid);
	/* Does a host that has that GID speak from there? */
	bool (*is_from)(void *arg, const union ibv_gid *gid, const struct md_endpoint *from);
	/* Nobody has it: ask, for that client. Return: false: asked lately, in vain. */
	bool (*ask)(void *arg, const union ibv_gid *dgid, uint64_t client);
	/* A copy of a message goes there, now or, if @to->bundles, together with others of this turn. */
	void (*send)(void *arg, const struct md_endpoint *to, const struct md_parcel_wire *parcel);
	/* One has not arrived in a second: once at its end, and in each second in which it is kept under way. */
	void (*unreachable)(void *arg, const struct md_parcel *parcel);
	/* A parcel is done with: receipt or not. It is released afterwards. */
	void (*done)(void *arg, const struct md_parcel *parcel);
};

struct md_carry {
	const struct md_carry_ops *ops;
	void *arg;
	uint64_t next_id;
	size_t n, n_unsent, n_orphans;
	struct md_parcel *by_id, *by_text;
	struct md_parcels tries[MD_TRIES + 1]; /* by how often they were sent; each about in order of due_ns */
	uint64_t slow_ns; /* how long receipts take lately */
	struct md_copies copies; /* of what has arrived */
	struct md_learned learned[MD_LEARNED_MAX]; /* a ring */
	unsigned int next_learned;
	struct {
		uint64_t accepted, arrived, unreachable, retried, merged, no_room; /* sent from here */
		uint64_t received, repeated; /* sent to here */
	} count;
};

/** md_carry_init - @first_id: not 0, at random: an outsider shall not know ids */
void md_carry_init(struct md_carry *carry, const struct md_carry_ops *ops, void *arg, uint64_t first_id);

#define MD_CARRY_MERGED 1

/**
 * md_carry_send - take a message and send it
 *
 * Return: 0, then ops->done() is called once, perhaps before this returns; MD_CARRY_MERGED when that very message of that client is
 * under way: ops->done() has been promised already; -ENOSPC beyond MD_PARCELS_MAX; -ENOMEM.
 */
int md_carry_send(struct md_carry *carry, uint64_t client, const union ibv_gid *dgid, uint32_t qpn,
		  const uint8_t *data, uint16_t len, uint64_t now_ns);

/**
 * md_carry_receipt - a receipt came
 *
 * One from where the message did not go is ignored: ids are easily guessed by who has got one.
 */
void md_carry_receipt(struct md_carry *carry, uint64_t id, const struct md_endpoint *from, uint64_t now_ns);

/** md_carry_known - a host has become known: send what was waiting for one */
void md_carry_known(struct md_carry *carry);

/**
 * md_carry_learned - what was sent to @host at @to has to be sent once more: secure.h has got its cookie
 *
 * Every datagram that went there without is answered so; the first answer serves for all.
 */
void md_carry_learned(struct md_carry *carry, const struct mv_host_id *host, const struct md_endpoint *to,
		      uint64_t now_ns);

/** md_carry_tick - repeat what is due, give up what was tried enough. Return: when to call again; UINT64_MAX: idle */
uint64_t md_carry_tick(struct md_carry *carry, uint64_t now_ns);

/** md_carry_next - when md_carry_tick() is due; UINT64_MAX: idle */
uint64_t md_carry_next(const struct md_carry *carry);

/**
 * md_carry_first_ways - where the first copy of a message to @dgid may go: one endpoint for each netdev
 *
 * Return: how many were written, at most @max.
 */
size_t md_carry_first_ways(const struct md_carry *carry, const union ibv_gid *dgid, struct md_endpoint *ret, size_t max);

/**
 * md_carry_orphan - a client is gone
 *
 * Its parcels stay until they have arrived or were tried enough: what a process says last is what its peers wait for. No more than
 * MD_ORPHANS_MAX of all clients together; for those beyond ops->done() is not called.
 */
void md_carry_orphan(struct md_carry *carry, uint64_t client);

/**
 * md_carry_first - is this the first copy of a message that has arrived?
 * @sender, @start: as the datagram says (secure.h)
 */
bool md_carry_first(struct md_carry *carry, const struct mv_host_id *sender, uint64_t start,
		    const struct md_parcel_wire *parcel, uint64_t now_ns);

void md_carry_fini(struct md_carry *carry);

#endif
