/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TARGETS_H
#define MD_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "directory.h"
#include "hash.h"
#include "bounds.h"

/*
 * Addresses that are asked which host they belong to: those of the hosts file, always, and those that a process has
 * sent something to while no beacon told whose they are. No I/O, no clock.
 */
struct md_host;

struct md_target {
	UT_hash_handle hh;
	union ibv_gid gid;
	char name[64]; /* in the hosts file; "" for an address not from there */
	uint64_t account; /* whose process needed it first, see struct md_peer; 0: root's, or the hosts file's */
	uint64_t used_ns; /* when a process last needed it */
	uint64_t next_ns; /* when it is to be asked again */
	uint64_t regular_ns; /* the same, if it answers */
	uint64_t asked_ns; /* when it was last asked; 0: not yet */
	uint64_t answered_ns; /* 0: not yet */
	/*
	 * 0: it answers, or was not asked yet. Else since when it was asked in vain, or, if it did answer once, since when it was known
	 * that it does not any more: MD_QUERY_TRIES in a row were in vain.
	 */
	uint64_t silent_since_ns;
	union ibv_gid via; /* of which host this is another address: needed as long as that one is; zero: none */
	unsigned int n_hints; /* MD_HINTS, since it was asked regularly */
	unsigned int n_tries; /* of which there has been no answer so far, while it is not silent */
	struct mv_host_id host; /* that answered last */
};

/* What other hosts have asked about, all together, is an account, too. */
#define MD_TARGETS_OF_OTHERS UINT64_MAX

/* An account but root's, as long as there are targets of it. */
struct md_target_user {
	UT_hash_handle hh;
	uint64_t account;
	size_t n;
};

struct md_targets {
	struct md_target *by_gid;
	struct md_target_user *users;
	size_t n;
	uint64_t room_at_ns; /* MD_QUERY_RATE */
};

/**
 * md_targets_add - an address of the hosts file
 *
 * Return: 0; -EEXIST when it is there already; -ENOSPC; -ENOMEM.
 */
int md_targets_add(struct md_targets *targets, const union ibv_gid *gid, const char *name);

/** md_targets_forget_file - before the hosts file is read again */
void md_targets_forget_file(struct md_targets *targets);

/**
 * md_targets_use - a process needs to know whose address this is
 * @account: the process's, or MD_TARGETS_OF_OTHERS
 *
 * Return: the target, due at once when it is new; NULL when there are too many, of that account or in all, or no memory.
 */
struct md_target *md_targets_use(struct md_targets *targets, const union ibv_gid *gid, uint64_t account, uint64_t now_ns);

/**
 * md_targets_learn - another address of the host that has answered at @of
 *
 * Asked, and forgotten, as @of is, and counted for its account.
 *
 * Return: whether it is new.
 */
bool md_targets_learn(struct md_targets *targets, const union ibv_gid *gid, const struct md_target *of);

/** md_targets_hurry - we are not what we were: ask those that answer, who will ask us in turn */
void md_targets_hurry(struct md_targets *targets, uint64_t now_ns);

/**
 * md_target_hinted - it asks us: is it to be asked, for it is not what it was? Counted.
 * @host: that asks; NULL: it is not known
 * @generation: of its description, as the query says. Of one that is known nothing is to be asked: else two would ask each other in turn
 */
bool md_target_hinted(struct md_target *target, const struct md_host *host, uint64_t generation);

/** md_target_is_wanted - is it asked for the hosts file or a process of ours, not for others alone? */
static inline bool md_target_is_wanted(const struct md_target *target)
{
	return target->name[0] || target->account != MD_TARGETS_OF_OTHERS;
}

struct md_target *md_targets_find(const struct md_targets *targets, const union ibv_gid *gid);

/** md_target_silent - asked for a second or more, lately, and in vain: not worth waiting for */
bool md_target_silent(const struct md_target *target, uint64_t now_ns);

/** md_targets_expects - was it asked so lately that an answer may come? */
bool md_target_expects(const struct md_target *target, uint64_t now_ns);

/** md_targets_may_answer - there is one host at an address: another one counts when the one before has been silent for an interval */
bool md_targets_may_answer(const struct md_targets *targets, const struct md_target *target, const struct mv_host_id *host, uint64_t now_ns);

/**
 * md_target_answered - an answer has come
 *
 * Return: whether that is news: it did not answer before, or had fallen silent, or it is another host's address now.
 */
bool md_target_answered(struct md_target *target, const struct mv_host_id *host, uint64_t now_ns);

/** md_targets_interval_ms - how often each is asked: MD_QUERY_NS, longer when there are many */
uint32_t md_targets_interval_ms(const struct md_targets *targets);

/**
 * md_targets_tick - forget those that nobody needs, ask those that are due
 * @ask: sends a query
 *
 * Return: when to call it again.
 */
uint64_t md_targets_tick(struct md_targets *targets, uint64_t now_ns,
			 void (*ask)(void *arg, const struct md_target *target), void *arg);

/** md_targets_ask_now - ask this one once more, out of turn, as far as MD_QUERY_RATE allows */
void md_targets_ask_now(struct md_targets *targets, struct md_target *target, uint64_t now_ns,
			void (*ask)(void *arg, const struct md_target *target), void *arg);

void md_targets_fini(struct md_targets *targets);

#endif
