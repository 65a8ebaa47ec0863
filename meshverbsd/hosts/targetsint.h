/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_TARGETSINT_H
#define MD_TARGETSINT_H

#include "targets.h"

/* targets_payers.c: the accounts of targets. Which account pays for a query? */

/* Queries in a row, before MD_QUERY_RATE limits them. */
#define QUERY_BURST 64
#define QUERY_EACH_NS (MD_S / MD_QUERY_RATE)

/** md_target_user_find - NULL: the account has no target. @account 0: root, which is always found */
struct md_target_user *md_target_user_find(const struct md_targets *targets, uint64_t account);
/** md_target_user_get - find or make an account; NULL: no memory. md_target_user_put() gives it back. */
struct md_target_user *md_target_user_get(struct md_targets *targets, uint64_t account);
void md_target_user_put(struct md_targets *targets, struct md_target_user *user);
/** md_target_user_full - does the account pay for as many targets as it may? */
bool md_target_user_full(const struct md_target_user *user);
/** md_target_user_has_room - may the account send a query now? MD_QUERY_RATE, QUERY_BURST */
bool md_target_user_has_room(const struct md_target_user *user, uint64_t now_ns);
void md_target_user_take_room(struct md_target_user *user, uint64_t now_ns);

/** md_target_charge - from now on @user pays for the target */
void md_target_charge(struct md_targets *targets, struct md_target *target, struct md_target_user *user);
/** md_target_first - the target from whose answer @of was learned, else @of; NULL: it is gone */
struct md_target *md_target_first(const struct md_targets *targets, const struct md_target *of);
/**
 * md_target_note_need - an account needs the target
 * @asks: the account has asked for it; false: it only sends to its host
 *
 * Where too many accounts need the target, those with the fewest targets are noted: these are the ones to pay.
 */
void md_target_note_need(struct md_targets *targets, struct md_target *target, struct md_target_user *user, bool asks,
			 uint64_t now_ns);
/**
 * md_target_choose_payer - which account pays for the next query?
 *
 * Of the accounts that need the target, and have room for a query, that with the fewest targets. Whoever has come to need
 * thousands, or asks all the time, does not have the others wait.
 */
void md_target_choose_payer(struct md_targets *targets, struct md_target *target, uint64_t now_ns);

#endif
