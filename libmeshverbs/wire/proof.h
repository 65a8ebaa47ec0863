/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_PROOF_H
#define MV_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl.h"

/*
 * Proof that a message comes from the other end of a connection. What only the two ends know are the initial PSNs that their programs gave
 * each other. No message carries one: the sender seals the message with a key made of them, and the receiver, which knows them as well,
 * opens the seal. The sealed bytes include both ends, both attempts and their random numbers.
 *
 * The seal: a tag, SipHash-2-4 (Aumasson, Bernstein 2012) over all fields of the message and the keys that go with the message; then the
 * fields that are PSNs or keys are masked with a stream made of the tag. The tag has 64 bits and the key 48 at most: whoever receives a
 * sealed message can find the PSNs by trying, 2^48 tries for both.
 *
 * Which PSNs an end knows: in RTR its peer's, since RTS its own as well. An end in RTR cannot open what takes both. @from_psn and @to_psn
 * of a message to be sent say with which the message is to be sealed.
 */

/* mv_ctl_msg.proof: PSNs that the key is made of, a mask; 0: the message is not sealed. A larger one shows more */
enum mv_proof {
	MV_PROOF_TO = 1, /* the one that the receiver's program gave to the other: what a sender in RTR knows */
	MV_PROOF_FROM = 2, /* the one that the sender's program gave to the other: what a receiver in RTR knows */
};

/** mv_proof_hash - SipHash-2-4 of @len bytes */
uint64_t mv_proof_hash(const uint64_t key[2], const void *data, size_t len);

/**
 * mv_proof_seal - seal a message that is about to be encoded
 * @msg: from_psn, to_psn: the key; neither: not sealed (UD_*). Both are MV_CTL_PSN_NONE afterwards
 * @keys: that go with the message; NULL: none
 */
void mv_proof_seal(struct mv_ctl_msg *msg, struct mv_ctl_keys *keys);

/**
 * mv_proof_open - open a message that was decoded
 * @sq_psn, @rq_psn: the receiver's own and its peer's initial PSN; MV_CTL_PSN_NONE: not known
 * @keys: that came with the message; NULL: none
 *
 * from_psn and to_psn are afterwards those that the sender has shown to know; MV_CTL_PSN_NONE: not shown. On failure nothing is written.
 *
 * Return: 0; -ENOKEY: sealed with a PSN that the receiver does not know; -EBADMSG: not sealed, or not by who knows them.
 */
int mv_proof_open(struct mv_ctl_msg *msg, struct mv_ctl_keys *keys, uint32_t sq_psn, uint32_t rq_psn);

/** mv_proof_is_whole - sealed with both PSNs? An end in RTR cannot open such a message */
static inline bool mv_proof_is_whole(const struct mv_ctl_msg *msg)
{
	return msg->proof == (MV_PROOF_FROM | MV_PROOF_TO);
}

/** mv_proof_psn - a first PSN for a further QP of a connection: nobody can tell who does not know the initial ones */
uint32_t mv_proof_psn(uint32_t sq_psn, uint32_t rq_psn, uint64_t nonce, uint32_t offer);

/*
 * How many messages that do not open are looked at: MV_PROOF_BURST at once, then one each MV_PROOF_EACH_NS. Of a connection; zero at first.
 * That is 1.7 million keys a day.
 */
struct mv_proof_limit {
	uint64_t full_ns; /* when all of the burst is there again */
};

#define MV_PROOF_BURST   32u
#define MV_PROOF_EACH_NS 50000000ull

/** mv_proof_may_try - may another one be looked at? */
bool mv_proof_may_try(const struct mv_proof_limit *limit, uint64_t now_ns);
/** mv_proof_failed - it did not open */
void mv_proof_failed(struct mv_proof_limit *limit, uint64_t now_ns);

#endif
