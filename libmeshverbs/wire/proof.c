/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "proof.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "bytes.h"

/* Labels, so that the same PSNs give different keys for different uses. */
#define LABEL_TAG    0x6d767461672e3033ull /* "mvtag.03" */
#define LABEL_STREAM 0x6d767374722e3033ull /* "mvstr.03" */
#define LABEL_PSN    0x6d7670736e2e3033ull /* "mvpsn.03" */

/* ---- SipHash-2-4 ---------------------------------------------------------------------------------------------- */

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t x, unsigned int n)
{
	return x << n | x >> (64 - n);
}

static inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 = rotate(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
	s->v3 ^= word;
	sip_round(s);
	sip_round(s);
	s->v0 ^= word;
}

uint64_t mv_proof_hash(const uint64_t key[2], const void *data, size_t len)
{
	struct sip s = {.v0 = key[0] ^ 0x736f6d6570736575ull,
			.v1 = key[1] ^ 0x646f72616e646f6dull,
			.v2 = key[0] ^ 0x6c7967656e657261ull,
			.v3 = key[1] ^ 0x7465646279746573ull};
	const uint8_t *at = data;
	uint64_t word;
	size_t left;

	for (left = len; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		sip_word(&s, le64toh(word));
	}
	word = 0;
	memcpy(&word, at, left);
	sip_word(&s, le64toh(word) | (uint64_t)len << 56);
	s.v2 ^= 0xff;
	for (left = 0; left < 4; left++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* ---- the seal ------------------------------------------------------------------------------------------------- */

static uint64_t hash(uint64_t label, uint32_t from_psn, uint32_t to_psn, const void *data, size_t len)
{
	const uint64_t key[2] = {(uint64_t)from_psn << 32 | to_psn, label};

	return mv_proof_hash(key, data, len);
}

static uint64_t tag_of(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint32_t from_psn, uint32_t to_psn)
{
	struct mv_ctl_msg plain = *msg;
	uint8_t buf[MV_CTL_MAX_BYTES];

	plain.tag = 0;
	return hash(LABEL_TAG, from_psn, to_psn, buf, mv_ctl_encode_keys(&plain, keys, buf));
}

static uint64_t stream(uint64_t tag, uint32_t from_psn, uint32_t to_psn, unsigned int i)
{
	uint8_t input[12];
	struct mv_put put = {.at = input};

	mv_put_u64(&put, tag);
	mv_put_u32(&put, i);
	return hash(LABEL_STREAM, from_psn, to_psn, input, sizeof(input));
}

/* Masks the fields that are keys or PSNs. A second call unmasks them. */
static void mask(struct mv_ctl_msg *msg, struct mv_ctl_keys *keys, uint32_t from_psn, uint32_t to_psn)
{
	uint64_t word = stream(msg->tag, from_psn, to_psn, 0);
	unsigned int i;

	msg->key ^= (uint32_t)(word >> 32);
	msg->rkey ^= (uint32_t)word;
	for (i = 0; keys && i < MV_CTL_KEYS; i++) {
		if (!keys->asked[i].id && !keys->given[i].id)
			continue;
		word = stream(msg->tag, from_psn, to_psn, 1 + i);
		keys->asked[i].key ^= keys->asked[i].id ? (uint32_t)(word >> 32) : 0;
		keys->given[i].key ^= keys->given[i].id ? (uint32_t)word : 0;
	}
}

void mv_proof_seal(struct mv_ctl_msg *msg, struct mv_ctl_keys *keys)
{
	uint32_t from_psn = msg->from_psn, to_psn = msg->to_psn;

	msg->proof = (from_psn == MV_CTL_PSN_NONE ? 0 : MV_PROOF_FROM) | (to_psn == MV_CTL_PSN_NONE ? 0 : MV_PROOF_TO);
	msg->tag = 0;
	msg->from_psn = msg->to_psn = MV_CTL_PSN_NONE;
	if (!msg->proof)
		return;
	msg->tag = tag_of(msg, keys, from_psn, to_psn);
	mask(msg, keys, from_psn, to_psn);
}

/* Are the last two fields valid, if they are PSNs? */
static bool last_fields_valid(const struct mv_ctl_msg *msg)
{
	if (msg->type == MV_CTL_SYNC)
		return msg->next_psn <= 0xffffff;
	if (msg->type == MV_CTL_STANDBY)
		return (msg->flags & MV_CTL_MOVE) && msg->path_psn <= 0xffffff;
	if ((msg->flags & MV_CTL_MOVE) && (msg->type == MV_CTL_OFFER || msg->type == MV_CTL_ANSWER))
		return msg->path_psn <= 0xffffff;
	return true;
}

int mv_proof_open(struct mv_ctl_msg *msg, struct mv_ctl_keys *keys, uint32_t sq_psn, uint32_t rq_psn)
{
	uint32_t from_psn = msg->proof & MV_PROOF_FROM ? rq_psn : MV_CTL_PSN_NONE;
	uint32_t to_psn = msg->proof & MV_PROOF_TO ? sq_psn : MV_CTL_PSN_NONE;
	struct mv_ctl_keys open_keys = {0};
	struct mv_ctl_msg open = *msg;

	if (!msg->proof)
		return -EBADMSG;
	if ((msg->proof & MV_PROOF_FROM && from_psn == MV_CTL_PSN_NONE) || (msg->proof & MV_PROOF_TO && to_psn == MV_CTL_PSN_NONE))
		return -ENOKEY;
	if (keys)
		open_keys = *keys;
	mask(&open, &open_keys, from_psn, to_psn);
	if (tag_of(&open, &open_keys, from_psn, to_psn) != open.tag || !last_fields_valid(&open))
		return -EBADMSG;
	*msg = open;
	msg->from_psn = from_psn;
	msg->to_psn = to_psn;
	if (keys)
		*keys = open_keys;
	return 0;
}

uint32_t mv_proof_psn(uint32_t sq_psn, uint32_t rq_psn, uint64_t nonce, uint32_t offer)
{
	uint8_t input[12];
	struct mv_put put = {.at = input};

	mv_put_u64(&put, nonce);
	mv_put_u32(&put, offer);
	return hash(LABEL_PSN, sq_psn, rq_psn, input, sizeof(input)) & 0xffffff;
}

/* ---- the limit ------------------------------------------------------------------------------------------------ */

bool mv_proof_may_try(const struct mv_proof_limit *limit, uint64_t now_ns)
{
	return limit->full_ns <= now_ns + (MV_PROOF_BURST - 1) * MV_PROOF_EACH_NS;
}

void mv_proof_failed(struct mv_proof_limit *limit, uint64_t now_ns)
{
	limit->full_ns = (limit->full_ns > now_ns ? limit->full_ns : now_ns) + MV_PROOF_EACH_NS;
}
