/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "ctl.h"
#include "proof.h"

#define MESSAGE_BYTES 132
#define KEYS_BYTES    32

static struct mv_ctl_msg sample(void)
{
	struct mv_ctl_msg msg = {
		.type = MV_CTL_OFFER,
		.flags = MV_CTL_STAYS,
		.reason = MV_CTL_REASON_NO_PATH,
		.gid_type = MV_GID_TYPE_ROCE_V2,
		.attempt = 0x01020304,
		.to_attempt = 0x05060708,
		.nonce = 0x4142434445464748,
		.to_nonce = 0x5152535455565758,
		.request_id = 0xa0b0c0d0,
		.from = {.gid = unit_gid("10.1.0.1"), .qpn = 0x123456},
		.to = {.gid = unit_gid("10.1.0.2"), .qpn = 0xffffff},
		.proof = MV_PROOF_FROM,
		.tag = 0x6162636465666768,
		.from_psn = 0xabcdef, /* not encoded */
		.path = {.gid = unit_gid("10.2.0.1"), .qpn = 7},
		.path_peer_gid = unit_gid("10.2.0.2"),
		.path_lid = 0x1718,
		.mtu_bytes = 4096,
		.key = 0x21222324,
		.rkey = 0x31323334,
	};

	return msg;
}

static void test_round_trip(void **state)
{
	struct mv_ctl_msg msg = sample(), got;
	uint8_t buf[MV_CTL_MAX_BYTES], again[MV_CTL_MAX_BYTES];

	(void)state;
	assert_int_equal(mv_ctl_encode(&msg, buf), MESSAGE_BYTES);
	assert_int_equal(mv_ctl_decode(buf, MESSAGE_BYTES, &got), 0);
	assert_int_equal(got.type, MV_CTL_OFFER);
	assert_int_equal(got.flags, MV_CTL_STAYS);
	assert_int_equal(got.reason, MV_CTL_REASON_NO_PATH);
	assert_int_equal(got.gid_type, MV_GID_TYPE_ROCE_V2);
	assert_int_equal(got.attempt, 0x01020304);
	assert_int_equal(got.to_attempt, 0x05060708);
	assert_int_equal(got.nonce, 0x4142434445464748);
	assert_int_equal(got.to_nonce, 0x5152535455565758);
	assert_int_equal(got.request_id, 0xa0b0c0d0);
	assert_gid(got.from.gid, "10.1.0.1");
	assert_int_equal(got.from.qpn, 0x123456);
	assert_gid(got.to.gid, "10.1.0.2");
	assert_int_equal(got.to.qpn, 0xffffff);
	assert_int_equal(got.proof, MV_PROOF_FROM);
	assert_int_equal(got.tag, 0x6162636465666768);
	assert_int_equal(got.from_psn, MV_CTL_PSN_NONE);
	assert_int_equal(got.to_psn, MV_CTL_PSN_NONE);
	assert_gid(got.path.gid, "10.2.0.1");
	assert_int_equal(got.path.qpn, 7);
	assert_gid(got.path_peer_gid, "10.2.0.2");
	assert_int_equal(got.path_lid, 0x1718);
	assert_int_equal(got.mtu_bytes, 4096);
	assert_int_equal(got.key, 0x21222324);
	assert_int_equal(got.rkey, 0x31323334);
	assert_int_equal(mv_ctl_encode(&got, again), MESSAGE_BYTES);
	assert_memory_equal(buf, again, MESSAGE_BYTES);
}

/* What another release has to read: the bytes themselves. */
static void test_wire(void **state)
{
	static const uint8_t
		expected[] =
			{
				3,    2,    8,    2,    3,    2,    0x17, 0x18, 0x10, 0,    0,
				0, /* version, type, flags, reason, GID type, proof, ... */
				1,    2,    3,    4,    5,    6,    7,    8, /* attempts */
				0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, /* random numbers */
				0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
				0xa0, 0xb0, 0xc0, 0xd0, /* request */
				0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0xff,
				0xff, 10,   1,    0,    1,    0,    0x12, 0x34, 0x56, /* from */
				0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0xff,
				0xff, 10,   1,    0,    2,    0,    0xff, 0xff, 0xff, /* to */
				0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, /* tag */
				0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0xff,
				0xff, 10,   2,    0,    1,    0,    0,    0,    7, /* path */
				0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0xff,
				0xff, 10,   2,    0,    2, /* path_peer_gid */
				0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34, /* keys */
			};
	struct mv_ctl_msg msg = sample();
	uint8_t buf[MV_CTL_MAX_BYTES];

	(void)state;
	assert_int_equal(sizeof(expected), MESSAGE_BYTES);
	mv_ctl_encode(&msg, buf);
	assert_memory_equal(buf, expected, sizeof(expected));
}

static void assert_refused(const struct mv_ctl_msg *msg)
{
	uint8_t buf[MV_CTL_MAX_BYTES];
	struct mv_ctl_msg got = {.type = 99};

	assert_int_equal(mv_ctl_decode(buf, mv_ctl_encode(msg, buf), &got), -EBADMSG);
	assert_int_equal(got.type, 99);
}

#define CHANGED(member, value)                                                                     \
	do {                                                                                       \
		struct mv_ctl_msg msg = sample();                                                  \
		msg.member = (value);                                                              \
		assert_refused(&msg);                                                              \
	} while (0)

static void test_refused(void **state)
{
	(void)state;
	CHANGED(type, 0);
	CHANGED(type, MV_CTL_TYPE_END);
	CHANGED(flags, 64);
	CHANGED(flags, 0x80);
	CHANGED(reason, MV_CTL_REASON_END);
	CHANGED(gid_type, MV_GID_TYPE_ROCE_V2 + 1);
	CHANGED(attempt, 0);
	CHANGED(from.qpn, 0x1000000);
	CHANGED(to.qpn, 0x80000000);
	CHANGED(path.qpn, 0x1000000);
	CHANGED(proof, 4);
	CHANGED(mtu_bytes, 128);
	CHANGED(mtu_bytes, 1500);
	CHANGED(mtu_bytes, 8192);
}

static void assert_keys_refused(const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys)
{
	uint8_t buf[MV_CTL_MAX_BYTES];
	struct mv_ctl_keys got;
	struct mv_ctl_msg ret;

	assert_int_equal(mv_ctl_decode_keys(buf, mv_ctl_encode_keys(msg, keys, buf), &ret, &got), -EBADMSG);
}

/* Those that go with the messages of a move, and with no others. */
static void test_keys(void **state)
{
	static const uint8_t expected[] = {1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 0, 0,    0,    0,    0,
					   0, 0, 0, 0, 0,    0,    0,    0,    5, 6, 7, 8, 0x21, 0x22, 0x23, 0x24};
	struct mv_ctl_msg msg = sample(), got;
	struct mv_ctl_keys keys = {0}, got_keys;
	uint8_t buf[MV_CTL_MAX_BYTES] = {0};

	(void)state;
	msg.type = MV_CTL_ANSWER;
	msg.flags = MV_CTL_MOVE;
	msg.path_psn = 1;
	assert_int_equal(mv_ctl_encode_keys(&msg, &keys, buf), MESSAGE_BYTES);
	assert_int_equal(mv_ctl_encode_keys(&msg, NULL, buf), MESSAGE_BYTES);
	keys.asked[0] = (struct mv_ctl_key){.id = 0x01020304, .key = 0x11121314};
	keys.given[1] = (struct mv_ctl_key){.id = 0x05060708, .key = 0x21222324};
	assert_int_equal(mv_ctl_decode_keys(buf, mv_ctl_encode_keys(&msg, &keys, buf), &got, &got_keys), 0);
	assert_memory_equal(&got_keys, &keys, sizeof(keys));
	assert_int_equal(got.path_psn, 1);
	assert_int_equal(sizeof(expected), KEYS_BYTES);
	assert_memory_equal(buf + MESSAGE_BYTES, expected, KEYS_BYTES);
	for (size_t len = 0; len <= sizeof(buf); len++)
		assert_int_equal(mv_ctl_decode(buf, len, &got), len == MESSAGE_BYTES || len == MESSAGE_BYTES + KEYS_BYTES ? 0 : -EBADMSG);
	memset(buf + MESSAGE_BYTES, 0, KEYS_BYTES); /* what brings none is shorter */
	assert_int_equal(mv_ctl_decode(buf, MESSAGE_BYTES + KEYS_BYTES, &got), -EBADMSG);
	assert_int_equal(mv_ctl_decode_keys(buf, MESSAGE_BYTES, &got, &got_keys), 0);
	assert_int_equal(got_keys.asked[0].id, 0);
	assert_int_equal(got_keys.given[1].id, 0);
	msg.flags = 0;
	assert_keys_refused(&msg, &keys);
	msg.flags = MV_CTL_MOVE;
	msg.type = MV_CTL_OFFER;
	assert_keys_refused(&msg, &keys);
	msg.type = MV_CTL_CONFIRM;
	assert_keys_refused(&msg, &keys);
	keys.asked[0].id = 0; /* of a key that nobody asks for */
	assert_keys_refused(&msg, &keys);
	keys.asked[0].key = 0;
	keys.given[0].key = 1;
	assert_keys_refused(&msg, &keys);
	keys.given[0].key = 0;
	assert_int_equal(mv_ctl_decode(buf, mv_ctl_encode_keys(&msg, &keys, buf), &got), 0);
	msg.type = MV_CTL_HELLO;
	assert_keys_refused(&msg, &keys);
	msg.type = MV_CTL_SYNC;
	msg.flags = 0;
	msg.next_psn = 1;
	assert_int_equal(mv_ctl_decode_keys(buf, mv_ctl_encode_keys(&msg, &keys, buf), &got, &got_keys), 0);
	assert_memory_equal(&got_keys, &keys, sizeof(keys));
	keys.asked[1].id = 1;
	assert_keys_refused(&msg, &keys);
}

static void test_lengths_and_version(void **state)
{
	struct mv_ctl_msg msg = sample(), got;
	uint8_t buf[MV_CTL_MAX_BYTES] = {0};

	(void)state;
	mv_ctl_encode(&msg, buf);
	for (size_t len = 0; len <= sizeof(buf); len++)
		assert_int_equal(mv_ctl_decode(buf, len, &got),
				 len == MESSAGE_BYTES ? 0 : -EBADMSG);
	buf[0]++;
	assert_int_equal(mv_ctl_decode(buf, MESSAGE_BYTES, &got), -EBADMSG);
	buf[0]--;
	/* Reserved bytes: a later version may give them a meaning that this one does not know. */
	for (unsigned int i = 0; i < 2; i++) {
		static const uint8_t reserved[] = {10, 11};

		buf[reserved[i]] = 1;
		assert_int_equal(mv_ctl_decode(buf, MESSAGE_BYTES, &got), -EBADMSG);
		buf[reserved[i]] = 0;
	}
	assert_int_equal(mv_ctl_decode(buf, MESSAGE_BYTES, &got), 0);
}

static void test_names(void **state)
{
	(void)state;
	for (unsigned int type = MV_CTL_HELLO; type < MV_CTL_TYPE_END; type++)
		assert_string_not_equal(mv_ctl_type_name(type), "unknown");
	assert_string_equal(mv_ctl_type_name(0), "unknown");
	assert_string_equal(mv_ctl_type_name(MV_CTL_TYPE_END), "unknown");
	for (unsigned int reason = 0; reason < MV_CTL_REASON_END; reason++)
		assert_string_not_equal(mv_ctl_reason_text(reason), "unknown");
	assert_string_equal(mv_ctl_reason_text(MV_CTL_REASON_END), "unknown");
	for (unsigned int type = MV_FRAME_REGISTER; type < MV_FRAME_TYPE_END; type++)
		assert_string_not_equal(mv_frame_type_name(type), "unknown");
	assert_string_equal(mv_frame_type_name(0), "unknown");
	assert_string_equal(mv_frame_type_name(MV_FRAME_TYPE_END), "unknown");
	assert_string_equal(mv_probed_name(MV_PROBED_DOWN), "down");
	assert_string_equal(mv_probed_name(MV_PROBED_END), "invalid");
}

/* ---- frames ------------------------------------------------------------------------------------
 */

static struct mv_frame frame_of(enum mv_frame_type type)
{
	struct mv_frame frame = {.type = (uint8_t)type,
				 .version = MV_CTL_VERSION,
				 .qp_type = IBV_QPT_RC,
				 .device = "mlx5_bond_0",
				 .qpn = 0x4711,
				 .dgid = unit_gid("10.1.0.2"),
				 .sgid = unit_gid("10.1.0.1"),
				 .watch = MV_WATCH_WORK | MV_WATCH_PRIMARY,
				 .probed = MV_PROBED_DOWN,
				 .len = 5};

	memcpy(frame.payload, "hello", 5);
	return frame;
}

static void assert_frame_round_trip(const struct mv_frame *frame, struct mv_frame *ret)
{
	uint8_t buf[MV_FRAME_MAX_BYTES], again[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);

	assert_true(len > 0 && len <= MV_FRAME_MAX_BYTES);
	assert_int_equal(mv_frame_decode(buf, len, ret), 0);
	assert_int_equal(ret->type, frame->type);
	assert_int_equal(mv_frame_encode(ret, again), len);
	assert_memory_equal(buf, again, len);
	/* Shorter and longer ones are no frames. */
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(mv_frame_decode(buf, cut, ret), -EBADMSG);
	buf[len] = 0;
	assert_int_equal(mv_frame_decode(buf, len + 1, ret), -EBADMSG);
	assert_int_equal(mv_frame_decode(buf, len, ret), 0);
}

static void test_frames(void **state)
{
	/* V: version, T: QP type, D: device, Q: QPN, G: GID, P: payload, S: own GID, W: watch, R: probed */
	static const char *const uses[MV_FRAME_TYPE_END] = {
		[MV_FRAME_REGISTER] = "VP",     [MV_FRAME_WELCOME] = "V",
		[MV_FRAME_REGISTER_QP] = "TDQ",       [MV_FRAME_UNREGISTER_QP] = "DQ",
		[MV_FRAME_SEND] = "GP",         [MV_FRAME_DELIVER] = "DGQP",
		[MV_FRAME_UNREACHABLE] = "GQP", [MV_FRAME_STATUS] = "DQP",
		[MV_FRAME_CHANGED] = "V",       [MV_FRAME_PROBES] = "V",
		[MV_FRAME_WATCH] = "GSW",       [MV_FRAME_PATH] = "GSR",
		[MV_FRAME_PACKS] = "V",         [MV_FRAME_SUSPECT] = "GS",
		[MV_FRAME_REFUSED] = "DQ",      [MV_FRAME_LOOK] = "G",
		[MV_FRAME_LOOKED] = "G",        [MV_FRAME_SENDERS] = "V",
	};

	(void)state;
	for (unsigned int type = MV_FRAME_REGISTER; type < MV_FRAME_TYPE_END; type++) {
		struct mv_frame frame = frame_of(type), got;

		assert_frame_round_trip(&frame, &got);
		assert_int_equal(got.version, strchr(uses[type], 'V') ? MV_CTL_VERSION : 0);
		assert_int_equal(got.qp_type, strchr(uses[type], 'T') ? IBV_QPT_RC : 0);
		assert_string_equal(got.device, strchr(uses[type], 'D') ? "mlx5_bond_0" : "");
		assert_int_equal(got.qpn, strchr(uses[type], 'Q') ? 0x4711 : 0);
		assert_int_equal(!mv_gid_is_zero(&got.dgid), strchr(uses[type], 'G') != NULL);
		assert_string_equal((char *)got.payload, strchr(uses[type], 'P') ? "hello" : "");
		assert_int_equal(!mv_gid_is_zero(&got.sgid), strchr(uses[type], 'S') != NULL);
		assert_int_equal(got.watch, strchr(uses[type], 'W') ? MV_WATCH_WORK | MV_WATCH_PRIMARY : 0);
		assert_int_equal(got.probed, strchr(uses[type], 'R') ? MV_PROBED_DOWN : 0);
	}
}

/* All types in one packet, and what is cut off is none. */
static void test_packs(void **state)
{
	uint8_t buf[MV_FRAME_TYPE_END * MV_FRAME_MAX_BYTES];
	size_t len = 0, at = 0, last = 0, used = 0;
	struct mv_frame got;

	(void)state;
	for (unsigned int type = MV_FRAME_REGISTER; type < MV_FRAME_TYPE_END; type++) {
		struct mv_frame frame = frame_of(type);

		last = len;
		len += mv_frame_encode(&frame, &buf[len]);
	}
	for (unsigned int type = MV_FRAME_REGISTER; type < MV_FRAME_TYPE_END; type++) {
		assert_int_equal(mv_frame_take(&buf[at], len - at, &used, &got), 0);
		assert_int_equal(got.type, type);
		assert_int_equal(mv_frame_decode(&buf[at], len - at, &got), at == last ? 0 : -EBADMSG);
		at += used;
	}
	assert_int_equal(at, len);
	assert_int_equal(mv_frame_take(&buf[at], 0, &used, &got), -EBADMSG);
	for (size_t cut = last; cut < len; cut++)
		assert_int_equal(mv_frame_take(&buf[last], cut - last, &used, &got), -EBADMSG);
}

static void test_frame_limits(void **state)
{
	struct mv_frame frame = frame_of(MV_FRAME_STATUS), got;
	uint8_t buf[MV_FRAME_MAX_BYTES];

	(void)state;
	/* Texts leave room for a NUL, messages need none. */
	memset(frame.payload, 'x', sizeof(frame.payload));
	memset(frame.device, 'd', sizeof(frame.device));
	frame.device[IBV_SYSFS_NAME_MAX - 1] = '\0';
	frame.len = MV_CTL_MAX_BYTES - 1;
	assert_frame_round_trip(&frame, &got);
	assert_int_equal(strlen((char *)got.payload), MV_CTL_MAX_BYTES - 1);
	frame.len = MV_CTL_MAX_BYTES;
	assert_int_equal(mv_frame_encode(&frame, buf), 0);
	frame.type = MV_FRAME_DELIVER;
	assert_frame_round_trip(&frame, &got);
	frame.len = MV_CTL_MAX_BYTES + 1;
	assert_int_equal(mv_frame_encode(&frame, buf), 0);
	frame.len = 0;
	assert_int_equal(mv_frame_encode(&frame, buf), 0);
	frame.len = 1;
	frame.device[IBV_SYSFS_NAME_MAX - 1] = 'd';
	assert_int_equal(mv_frame_encode(&frame, buf), 0);
	frame.device[0] = '\0';
	assert_int_equal(mv_frame_encode(&frame, buf), 0);
	frame = frame_of(MV_FRAME_TYPE_END);
	assert_int_equal(mv_frame_encode(&frame, buf), 0);
	frame.type = 0;
	assert_int_equal(mv_frame_encode(&frame, buf), 0);
}

static void assert_frame_refused(const struct mv_frame *frame, size_t at, uint8_t value)
{
	struct mv_frame got = {.type = 99};
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);

	assert_true(at < len);
	assert_int_not_equal(buf[at], value);
	buf[at] = value;
	assert_int_equal(mv_frame_decode(buf, len, &got), -EBADMSG);
	assert_int_equal(got.type, 99);
}

static void test_frames_refused(void **state)
{
	struct mv_frame frame = frame_of(MV_FRAME_REGISTER_QP);

	(void)state;
	assert_frame_refused(&frame, 0, 0);
	assert_frame_refused(&frame, 0, MV_FRAME_TYPE_END);
	assert_frame_refused(&frame, 0, 0xff);
	assert_frame_refused(&frame, 1, 1); /* no version in REGISTER_QP, */
	assert_frame_refused(&frame, 10, 1); /* no GID, */
	assert_frame_refused(&frame, 3, 0); /* but a device */
	assert_frame_refused(&frame, 3, 12);
	assert_frame_refused(&frame, 4, 1); /* QPN of 25 bits */
	assert_frame_refused(&frame, 26, '\n');
	assert_frame_refused(&frame, 27, '\0');
	assert_frame_refused(&frame, 28, 0x7f);
	frame = frame_of(MV_FRAME_REGISTER);
	assert_frame_refused(&frame, 2, 1);
	assert_frame_refused(&frame, 7, 1);
	assert_frame_refused(&frame, 26, 0x1b);
	assert_frame_refused(&frame, 25, 4);
	assert_frame_refused(&frame, 24, 2);
	frame = frame_of(MV_FRAME_WATCH);
	assert_frame_refused(&frame, 42, MV_WATCH_ALL + 1);
	assert_frame_refused(&frame, 43, MV_PROBED_UP); /* that is the agent's to say */
	frame = frame_of(MV_FRAME_PATH);
	assert_frame_refused(&frame, 42, MV_WATCH_WORK);
	assert_frame_refused(&frame, 43, MV_PROBED_END);
	frame = frame_of(MV_FRAME_SUSPECT);
	assert_frame_refused(&frame, 42, MV_WATCH_WORK);
	assert_frame_refused(&frame, 43, MV_PROBED_DOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_wire),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_lengths_and_version),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_packs),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_frame_limits),
		cmocka_unit_test(test_frames_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
