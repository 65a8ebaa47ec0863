/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "proof.h"

#define MS   1000000ull
#define NONE MV_CTL_PSN_NONE

#define OUR_PSN 0xabcdef /* the receiver's program gave it to the sender's */
#define ITS_PSN 0x123456

/* Reference values: vectors.h of https://github.com/veorq/SipHash, and appendix A of the paper (15 bytes). */
static void test_hash(void **state)
{
	static const struct {
		size_t len;
		uint64_t hash;
	} known[] = {{0, 0x726fdb47dd0e0e31},  {1, 0x74f839c593dc67fd},	 {7, 0xab0200f58b01d137}, {8, 0x93f5f5799a932462},
		     {15, 0xa129ca6149be45e5}, {16, 0x3f2acc7f57c29bdb}, {63, 0x958a324ceb064572}};
	const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
	uint8_t input[64];

	(void)state;
	for (unsigned int i = 0; i < sizeof(input); i++)
		input[i] = (uint8_t)i;
	for (unsigned int i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_true(mv_proof_hash(key, input, known[i].len) == known[i].hash);
}

static struct mv_ctl_msg sample(uint32_t from_psn, uint32_t to_psn)
{
	return (struct mv_ctl_msg){.type = MV_CTL_ANSWER,
				   .flags = MV_CTL_MOVE | MV_CTL_READY,
				   .gid_type = MV_GID_TYPE_ROCE_V2,
				   .attempt = 5,
				   .to_attempt = 7,
				   .nonce = 0x4142434445464748,
				   .to_nonce = 0x5152535455565758,
				   .request_id = 1,
				   .from = {.gid = unit_gid("10.1.0.1"), .qpn = 11},
				   .to = {.gid = unit_gid("10.1.0.2"), .qpn = 22},
				   .from_psn = from_psn,
				   .to_psn = to_psn,
				   .path = {.gid = unit_gid("10.2.0.1"), .qpn = 7},
				   .mtu_bytes = 4096,
				   .base = 3,
				   .path_psn = 0x777777};
}

static const struct mv_ctl_keys sample_keys = {.asked = {{.id = 1, .key = 0x1111}, {.id = 2, .key = 0x2222}},
					       .given = {{.id = 9, .key = 0x9999}}};

/* Sealed, carried, and opened by who knows these PSNs. */
static int open_with(struct mv_ctl_msg msg, uint32_t sq_psn, uint32_t rq_psn, struct mv_ctl_msg *ret)
{
	uint8_t buf[MV_CTL_MAX_BYTES];

	mv_proof_seal(&msg, NULL);
	assert_int_equal(mv_ctl_decode(buf, mv_ctl_encode(&msg, buf), ret), 0);
	return mv_proof_open(ret, NULL, sq_psn, rq_psn);
}

static void test_opens(void **state)
{
	struct mv_ctl_msg msg = sample(ITS_PSN, OUR_PSN), got;

	(void)state;
	assert_int_equal(open_with(msg, OUR_PSN, ITS_PSN, &got), 0);
	assert_int_equal(got.from_psn, ITS_PSN);
	assert_int_equal(got.to_psn, OUR_PSN);
	assert_int_equal(got.base, 3);
	assert_int_equal(got.path_psn, 0x777777);
	assert_int_equal(got.path.qpn, 7);
	/* A single PSN, either one: what is shown is that one. */
	assert_int_equal(open_with(sample(NONE, OUR_PSN), OUR_PSN, ITS_PSN, &got), 0);
	assert_int_equal(got.from_psn, NONE);
	assert_int_equal(got.to_psn, OUR_PSN);
	assert_int_equal(open_with(sample(ITS_PSN, NONE), NONE, ITS_PSN, &got), 0);
	assert_int_equal(got.from_psn, ITS_PSN);
	assert_int_equal(got.to_psn, NONE);
	/* 0 is a PSN as any. */
	assert_int_equal(open_with(sample(0, 0), 0, 0, &got), 0);
	assert_int_equal(open_with(sample(0, 0), 0, 1, &got), -EBADMSG);
}

static void test_does_not_open(void **state)
{
	struct mv_ctl_msg msg = sample(ITS_PSN, OUR_PSN), got;

	(void)state;
	assert_int_equal(open_with(msg, OUR_PSN ^ 1, ITS_PSN, &got), -EBADMSG);
	assert_int_equal(open_with(msg, OUR_PSN, ITS_PSN ^ 0x800000, &got), -EBADMSG);
	assert_int_equal(open_with(msg, ITS_PSN, OUR_PSN, &got), -EBADMSG); /* the wrong way round */
	assert_int_equal(open_with(msg, NONE, ITS_PSN, &got), -ENOKEY);
	assert_int_equal(open_with(msg, OUR_PSN, NONE, &got), -ENOKEY);
	assert_int_equal(got.from_psn, NONE);
	assert_int_equal(got.to_psn, NONE);
	/* Not sealed. */
	assert_int_equal(open_with(sample(NONE, NONE), OUR_PSN, ITS_PSN, &got), -EBADMSG);
	assert_int_equal(open_with(sample(NONE, NONE), NONE, NONE, &got), -EBADMSG);
	/* That it takes one PSN only is sealed, too. */
	mv_proof_seal(&msg, NULL);
	msg.proof = MV_PROOF_FROM;
	assert_int_equal(mv_proof_open(&msg, NULL, OUR_PSN, ITS_PSN), -EBADMSG);
	/* A PSN has 24 bits. */
	msg = sample(ITS_PSN, OUR_PSN);
	msg.path_psn = 0x1000000;
	assert_int_equal(open_with(msg, OUR_PSN, ITS_PSN, &got), -EBADMSG);
	msg.flags = 0;
	assert_int_equal(open_with(msg, OUR_PSN, ITS_PSN, &got), 0); /* any number of another kind */
	msg.type = MV_CTL_SYNC;
	msg.next_psn = 0x1000000;
	assert_int_equal(open_with(msg, OUR_PSN, ITS_PSN, &got), -EBADMSG);
	msg.type = MV_CTL_STANDBY;
	msg.path_psn = 0;
	assert_int_equal(open_with(msg, OUR_PSN, ITS_PSN, &got), -EBADMSG); /* of a QP at work only */
}

/* Each bit, of the message and of the keys that go with it. */
static void test_every_bit(void **state)
{
	struct mv_ctl_msg msg = sample(ITS_PSN, OUR_PSN), got;
	struct mv_ctl_keys keys = sample_keys, got_keys;
	uint8_t buf[MV_CTL_MAX_BYTES];
	unsigned int n_refused = 0;
	size_t len;

	(void)state;
	mv_proof_seal(&msg, &keys);
	len = mv_ctl_encode_keys(&msg, &keys, buf);
	for (size_t bit = 0; bit < 8 * len; bit++) {
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (!mv_ctl_decode_keys(buf, len, &got, &got_keys)) {
			assert_int_equal(mv_proof_open(&got, &got_keys, OUR_PSN, ITS_PSN), -EBADMSG);
			n_refused++;
		}
		buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_true(n_refused > 900); /* the codec knows of others */
	assert_int_equal(mv_ctl_decode_keys(buf, len, &got, &got_keys), 0);
	assert_int_equal(mv_proof_open(&got, NULL, OUR_PSN, ITS_PSN), -EBADMSG); /* without its keys */
	assert_int_equal(mv_proof_open(&got, &got_keys, OUR_PSN, ITS_PSN), 0);
	assert_memory_equal(&got_keys, &sample_keys, sizeof(got_keys));
}

static bool has(const uint8_t *buf, size_t len, uint32_t number, size_t bytes)
{
	uint8_t wanted[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number};

	for (size_t i = 0; i + bytes <= len; i++)
		if (!memcmp(buf + i, wanted + 4 - bytes, bytes))
			return true;
	return false;
}

/* No PSN is on the wire: not the programs', nor those of other QPs; and no remote key. */
static void test_gives_nothing_away(void **state)
{
	struct mv_ctl_msg msg = sample(ITS_PSN, OUR_PSN);
	struct mv_ctl_keys keys = sample_keys;
	uint8_t buf[MV_CTL_MAX_BYTES];
	size_t len;

	(void)state;
	msg.path_psn = 0x654321;
	keys.given[0].key = 0x87654321;
	assert_true(has(buf, mv_ctl_encode_keys(&msg, &keys, buf), 0x654321, 3));
	assert_true(has(buf, mv_ctl_encode_keys(&msg, &keys, buf), 0x87654321, 4));
	mv_proof_seal(&msg, &keys);
	len = mv_ctl_encode_keys(&msg, &keys, buf);
	assert_false(has(buf, len, ITS_PSN, 3));
	assert_false(has(buf, len, OUR_PSN, 3));
	assert_false(has(buf, len, 0x654321, 3));
	assert_false(has(buf, len, 0x87654321, 4));
	assert_int_equal(msg.from_psn, NONE);
	assert_int_equal(msg.to_psn, NONE);
}

static void test_psn(void **state)
{
	unsigned int n_same = 0;

	(void)state;
	for (uint32_t offer = 1; offer < 1000; offer++) {
		uint32_t psn = mv_proof_psn(1, 2, 3, offer);

		assert_true(psn <= 0xffffff);
		n_same += psn == mv_proof_psn(1, 2, 3, offer - 1);
		n_same += psn == mv_proof_psn(2, 1, 3, offer);
		n_same += psn == mv_proof_psn(1, 2, 4, offer);
	}
	assert_true(n_same < 5);
}

/* A burst, and then one after the other: not more a day than that. */
static void test_limit(void **state)
{
	struct mv_proof_limit limit = {0};
	uint64_t now = 1000 * MS;
	unsigned int n = 0;

	(void)state;
	for (; n < 1000 && mv_proof_may_try(&limit, now); n++)
		mv_proof_failed(&limit, now);
	assert_int_equal(n, MV_PROOF_BURST);
	assert_false(mv_proof_may_try(&limit, now + MV_PROOF_EACH_NS - 1));
	for (uint64_t end = now + 10000 * MS; now < end; now += MS) {
		if (!mv_proof_may_try(&limit, now))
			continue;
		mv_proof_failed(&limit, now);
		n++;
	}
	assert_in_range(n, MV_PROOF_BURST + 10000 * MS / MV_PROOF_EACH_NS - 1, MV_PROOF_BURST + 10000 * MS / MV_PROOF_EACH_NS);
	/* Those that open cost nothing, and after a rest all is there again. */
	now += MV_PROOF_BURST * MV_PROOF_EACH_NS;
	for (n = 0; n < 1000 && mv_proof_may_try(&limit, now); n++)
		mv_proof_failed(&limit, now);
	assert_int_equal(n, MV_PROOF_BURST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hash),	  cmocka_unit_test(test_opens),
		cmocka_unit_test(test_does_not_open), cmocka_unit_test(test_every_bit),
		cmocka_unit_test(test_gives_nothing_away), cmocka_unit_test(test_psn),
		cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
