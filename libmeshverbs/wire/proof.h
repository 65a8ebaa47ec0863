/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_PROOF_H
#define MV_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl.h"

/*
 * Proof that a message comes from the other end of a connection. Only the two ends know the initial PSNs that their
 * programs gave each other. No message contains a PSN in clear: the sender seals the message with a key made of the
 * PSNs, and the receiver opens the seal with the same key. The seal covers both ends, both attempts and their random
 * numbers.
 *
 * The seal: a tag, SipHash-2-4 (Aumasson, Bernstein 2012) over all fields of the message and its keys. Then fields that
 * are PSNs or keys are masked with a stream made from the tag. The tag has 64 bits, the key at most 48: a receiver of a
 * sealed message can find the PSNs by trying, 2^48 tries for both.
 *
 * An end knows the PSN of its peer since RTR, and its own since RTS. So an end in RTR cannot open a message that is
 * sealed with both. @from_psn and @to_psn of a message to be sent tell with which PSNs to seal it.
 *
 * Pure, any thread.
 */

/* mv_ctl_msg.proof: mask of the PSNs in the key; 0: not sealed. More PSNs prove more. */
enum mv_proof {
	MV_PROOF_TO = 1, /* the PSN that the receiver's program gave to the sender's: known to a sender in RTR */
	MV_PROOF_FROM = 2, /* the PSN that the sender's program gave to the receiver's: known to a receiver in RTR */
};

/** mv_proof_hash - SipHash-2-4 of @len bytes */
uint64_t mv_proof_hash(const uint64_t key[2], const void *data, size_t len);

/**
 * mv_proof_seal - seal a message, just before it is encoded
 * @msg: from_psn, to_psn: the key; neither: not sealed (UD_*). Both become MV_CTL_PSN_NONE
 * @keys: keys in the message; NULL: none
 */
void mv_proof_seal(struct mv_ctl_msg *msg, struct mv_ctl_keys *keys);

/**
 * mv_proof_open - open a decoded message
 * @sq_psn: the receiver's own initial PSN; MV_CTL_PSN_NONE: not known
 * @rq_psn: its peer's initial PSN; MV_CTL_PSN_NONE: not known
 * @keys: keys in the message; NULL: none
 *
 * On success from_psn and to_psn are the PSNs that the sender has proven to know; MV_CTL_PSN_NONE: not proven. On
 * failure nothing is written.
 *
 * Return: 0; -ENOKEY: sealed with a PSN that the receiver does not know; -EBADMSG: not sealed, or with wrong PSNs.
 */
int mv_proof_open(struct mv_ctl_msg *msg, struct mv_ctl_keys *keys, uint32_t sq_psn, uint32_t rq_psn);

/** mv_proof_is_whole - sealed with both PSNs? An end in RTR cannot open such a message. */
static inline bool mv_proof_is_whole(const struct mv_ctl_msg *msg)
{
	return msg->proof == (MV_PROOF_FROM | MV_PROOF_TO);
}

/** mv_proof_psn - first PSN for a further QP of a connection; secret unless the initial PSNs are known */
uint32_t mv_proof_psn(uint32_t sq_psn, uint32_t rq_psn, uint64_t nonce, uint32_t offer);

/*
 * Limit of messages of a connection that fail to open: MV_PROOF_BURST at once, then one each MV_PROOF_EACH_NS, so an
 * attacker can try 1.7 million keys a day. Zeroed at first.
 */
struct mv_proof_limit {
	uint64_t full_ns; /* when the whole burst is available again */
};

#define MV_PROOF_BURST   32u
#define MV_PROOF_EACH_NS 50000000ull

/** mv_proof_may_try - may another message be opened? */
bool mv_proof_may_try(const struct mv_proof_limit *limit, uint64_t now_ns);
/** mv_proof_failed - a message failed to open */
void mv_proof_failed(struct mv_proof_limit *limit, uint64_t now_ns);

#endif
