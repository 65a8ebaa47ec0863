/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TARGETS_H
#define MD_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "directory.h"
#include "hash.h"
#include "bounds.h"
#include "secure_limit.h"

/*
 * Targets: addresses that this agent queries to learn which host has them. Addresses of the hosts file are always
 * queried. Other addresses are queried when a process sends to them and no beacon tells which host has them. No I/O, no
 * clock, no locks: one thread.
 */
struct md_desc;
struct md_gidmap;
struct md_host;

/* Account of all targets that only other hosts have asked about. */
#define MD_TARGETS_OF_OTHERS UINT64_MAX

/* An account that pays for targets, or needs some. How many others have makes no difference to it. */
struct md_target_user {
	UT_hash_handle hh;
	uint64_t account; /* see struct md_peer; 0: root, and the hosts file */
	size_t n; /* targets that the account pays for */
	size_t n_refs; /* from targets, of payers and of needs */
	uint64_t room_at_ns; /* token bucket: MD_QUERY_RATE */
	struct md_limit hinted; /* MD_QUERY_RATE, too: of md_targets_ask_hinted() */
	struct md_limit scarce; /* of targets that have never answered: exchange/unproven.c */
};

struct md_target_need {
	struct md_target_user *user; /* not MD_TARGETS_OF_OTHERS */
	uint64_t used_ns; /* when a process of the account last needed the target; forgotten MD_TARGET_IDLE_NS later */
	bool asked; /* md_targets_use(); else md_targets_share() only */
};

struct md_target {
	UT_hash_handle hh;
	union ibv_gid gid;
	char name[64]; /* name in the hosts file; "" for other addresses */
	struct md_target_user *payer; /* account whose queries these are; chosen anew with each query */
	unsigned int n_needs;
	struct md_target_need needs[MD_TARGET_ACCOUNTS]; /* accounts that may pay */
	uint64_t used_ns; /* when a process, or another host, last needed it */
	uint64_t next_ns; /* next query */
	uint64_t regular_ns; /* next query if the target answers */
	uint64_t asked_ns; /* last query; 0: none yet */
	uint64_t answered_ns; /* last answer; 0: none yet */
	/*
	 * 0: the target answers, or was never queried. A target that has never answered: time of the first unanswered
	 * query. A target that has answered before: when MD_QUERY_TRIES queries in a row had no answer.
	 */
	uint64_t silent_since_ns;
	union ibv_gid via; /* this is another address of the host at @via, and is needed as long as @via is; zero: none */
	unsigned int n_learned;
	union ibv_gid learned[MD_LEARNED_TARGETS]; /* the addresses whose @via this is */
	unsigned int n_hints; /* hints (MD_HINTS) since the last query other than for a hint */
	bool unsent; /* the last query could not leave: a port of ours was down, or no route was there */
	bool tells; /* this host has changed since the last answer: our description goes with each query */
	/*
	 * Unanswered queries in a row since the last change here, until the target counts as silent. A target that has never
	 * answered: its first queries, up to MD_QUERY_TRIES.
	 */
	unsigned int n_tries;
	struct mv_host_id host; /* sender of the last answer */
};

struct md_targets {
	struct md_target *by_gid;
	struct md_target_user root, *users; /* account 0; the others */
	size_t n;
};

/**
 * md_targets_add - add an address of the hosts file
 *
 * Return: 0; -EEXIST: the file has it already; -ENOSPC; -ENOMEM.
 */
int md_targets_add(struct md_targets *targets, const union ibv_gid *gid, const char *name);

/** md_targets_forget_file - to be called before the hosts file is read again */
void md_targets_forget_file(struct md_targets *targets);

/**
 * md_targets_use - a process needs to know which host has an address
 * @account: of the process, or MD_TARGETS_OF_OTHERS
 *
 * Return: the target, owned by @targets. A new target is due at once. NULL: too many targets, of the account or in all,
 * or no memory.
 */
struct md_target *md_targets_use(struct md_targets *targets, const union ibv_gid *gid, uint64_t account, uint64_t now_ns);

/**
 * md_targets_share - a process sends to an address whose host is known
 *
 * If another account has asked for the host, this one may pay for queries, too. Adds no target, and prolongs none.
 */
void md_targets_share(struct md_targets *targets, const union ibv_gid *gid, uint64_t account, uint64_t now_ns);

/**
 * md_targets_unlearn - forget addresses learnt from the host that has answered at @of, which are not in its description now
 *
 * Frees targets, perhaps @of. Addresses of the hosts file stay. A process that needs another one asks for it again.
 */
void md_targets_unlearn(struct md_targets *targets, const struct md_target *of, const struct md_desc *desc);

/**
 * md_targets_learn - add another address of the host that has answered at @of
 *
 * The accounts that need @of pay for the new target, which is queried and forgotten as @of is. MD_LEARNED_TARGETS at most.
 * If the target was learnt from another host, it goes to the host that answers there.
 *
 * Return: true: added, or taken over; false: it exists, or there is no room or memory.
 */
bool md_targets_learn(struct md_targets *targets, const union ibv_gid *gid, const struct md_target *of);

/**
 * md_targets_hurry - something has changed here: query all targets that have ever answered, longest ago first, then
 * those that a known host has, and those whose last query could not leave
 * @map: of the known hosts
 * @tells: the description of this host has changed, so the query brings the new one where there was an answer
 */
void md_targets_hurry(struct md_targets *targets, const struct md_gidmap *map, bool tells, uint64_t now_ns);

/**
 * md_target_hinted - the host at a target queries us: has it changed, so that we should query it? Counts towards
 * MD_HINTS.
 * @host: the host that queries us; NULL: not known
 * @start, @generation: of its agent and of its description, from the query. False if we know both: otherwise two hosts
 * would query each other forever. An agent that was started again counts generations from 1
 */
bool md_target_hinted(struct md_target *target, const struct md_host *host, uint64_t start, uint64_t generation);

/** md_target_is_wanted - does the hosts file or a process of ours need the target? False: only other hosts have asked about it */
static inline bool md_target_is_wanted(const struct md_target *target)
{
	return target->name[0] || target->payer->account != MD_TARGETS_OF_OTHERS;
}

#define MD_TARGET_WANTERS (2 * (MD_TARGET_ACCOUNTS + 1))

/** md_targets_wanters - accounts that have asked for the host at a target, whoever pays. Return: how many; at least one */
size_t md_targets_wanters(const struct md_targets *targets, const struct md_target *target,
			  uint64_t ret[MD_TARGET_WANTERS]);

struct md_target *md_targets_find(const struct md_targets *targets, const union ibv_gid *gid);

/** md_target_silent - queried lately and silent for at least a second: not worth waiting for */
bool md_target_silent(const struct md_target *target, uint64_t now_ns);

/** md_target_expects - queried in the last MD_QUERY_NS, so that an answer may come */
bool md_target_expects(const struct md_target *target, uint64_t now_ns);

/** md_targets_may_answer - may the host answer at the target? Another host than before: only after a silence of one interval */
bool md_targets_may_answer(const struct md_targets *targets, const struct md_target *target, const struct mv_host_id *host, uint64_t now_ns);

/**
 * md_target_answered - an answer has come
 *
 * Return: true: the target did not answer before, or was silent, or another host answers now.
 */
bool md_target_answered(struct md_target *target, const struct mv_host_id *host, uint64_t now_ns);

/** md_targets_interval_ms - time between two queries of a target: MD_QUERY_NS, longer when its account has many targets */
uint32_t md_targets_interval_ms(const struct md_targets *targets, uint64_t account);

/**
 * md_targets_tick - remove targets that nobody needs, query those that are due
 * @ask: sends a query; false: the query could not leave
 *
 * Return: time of the next call.
 */
uint64_t md_targets_tick(struct md_targets *targets, uint64_t now_ns,
			 bool (*ask)(void *arg, const struct md_target *target), void *arg);

/**
 * md_targets_ask_now - query one target out of turn, if MD_QUERY_RATE allows
 * @account: of the process that asks: the query takes the account's room. MD_TARGETS_OF_OTHERS: that of the payer
 *
 * Return: time by which md_targets_tick() is to be called. Without room not at once: each call looks at all targets.
 */
uint64_t md_targets_ask_now(struct md_targets *targets, struct md_target *target, uint64_t account, uint64_t now_ns,
			    bool (*ask)(void *arg, const struct md_target *target), void *arg);

/**
 * md_targets_ask_hinted - query a target out of turn that md_target_hinted()
 *
 * Takes none of the room of other queries: its host may query us without end, and others would not be asked in time.
 */
void md_targets_ask_hinted(struct md_targets *targets, struct md_target *target, uint64_t now_ns,
			   bool (*ask)(void *arg, const struct md_target *target), void *arg);

void md_targets_fini(struct md_targets *targets);

#endif
