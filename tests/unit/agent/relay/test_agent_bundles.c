/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Bundles: their codec, and what goes together into which. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "bundles.h"
#include "ctl.h"

#define MESSAGE_BYTES 132 /* one without keys */

static struct md_bundles bundles;
static uint64_t now;
static unsigned int n_sent; /* datagrams */
static struct md_bundle_to sent_to[4 * MD_BUNDLES];
static struct md_bundle_wire sent[4 * MD_BUNDLES];
static uint8_t payloads[4 * MD_BUNDLES][MD_PAYLOAD_MAX_BYTES];

static void on_send(void *arg, const struct md_bundle_to *to, const uint8_t *payload, size_t len)
{
	assert_ptr_equal(arg, &bundles);
	assert_true(n_sent < 4 * MD_BUNDLES);
	assert_true(len <= MD_PAYLOAD_MAX_BYTES);
	memcpy(payloads[n_sent], payload, len);
	assert_int_equal(md_bundle_decode(payloads[n_sent], len, &sent[n_sent]), 0);
	assert_int_equal(sent[n_sent].op, to->op);
	sent_to[n_sent++] = *to;
}

static int setup(void **state)
{
	(void)state;
	memset(&bundles, 0, sizeof(bundles));
	bundles.send = on_send;
	bundles.arg = &bundles;
	n_sent = 0;
	now = MD_S;
	return 0;
}

static struct md_bundle_to place(uint8_t which)
{
	return (struct md_bundle_to){.ip.s6_addr = {[15] = which}, .port = 7, .op = MD_MSG_DATA};
}

static uint32_t psn_of(uint64_t seed)
{
	return (uint32_t)(seed * 0x9e3779b97f4a7c15u >> 40);
}

static uint64_t random_of(uint64_t seed)
{
	return (uint64_t)psn_of(seed + 1000000) << 40 | (uint64_t)psn_of(seed + 2000000) << 20 | psn_of(seed + 3000000);
}

/* Offers of queue pairs that move together, in the order in which they were made: PSNs and random numbers have nothing in common. */
static void message_of(uint64_t id, uint8_t ret[static MESSAGE_BYTES])
{
	const union ibv_gid a = {.raw = {[10] = 0xff, [11] = 0xff, 10, 1, 0, 1}}, b = {.raw = {[10] = 0xff, [11] = 0xff, 10, 1, 0, 2}};
	const uint32_t i = (uint32_t)id;
	const struct mv_ctl_msg msg = {
		.type = MV_CTL_OFFER,
		.flags = MV_CTL_READY | MV_CTL_MOVE,
		.reason = MV_CTL_REASON_PORT,
		.gid_type = MV_GID_TYPE_ROCE_V2,
		.attempt = 1,
		.to_attempt = 1,
		.nonce = random_of(2 * id),
		.to_nonce = random_of(2 * id + 1),
		.request_id = 1,
		.from = {.gid = a, .qpn = 0x200 + i},
		.to = {.gid = b, .qpn = 0x300 + i},
		.from_psn = psn_of(3 * id),
		.to_psn = psn_of(3 * id + 1),
		.path = {.gid = a, .qpn = 0x100 + i},
		.path_peer_gid = b,
		.mtu_bytes = 1024,
		.path_psn = psn_of(3 * id + 2),
	};

	assert_int_equal(mv_ctl_encode(&msg, ret), MESSAGE_BYTES);
}

static void add(const struct md_bundle_to *to, uint64_t id)
{
	uint8_t data[MESSAGE_BYTES];
	const struct md_envelope envelope = {.op = to->op,
					     .id = id,
					     .start = to->start,
					     .len = to->op == MD_MSG_DATA ? MESSAGE_BYTES : 0,
					     .data = data};

	message_of(id, data);
	md_bundles_add(&bundles, to, &envelope, now);
}

/* Ids of a bundle are these, in this order. */
static void assert_ids(struct md_bundle_wire bundle, uint64_t first, unsigned int n)
{
	struct md_envelope envelope;
	uint8_t data[MESSAGE_BYTES];

	assert_int_equal(bundle.n, n);
	for (unsigned int i = 0; i < n; i++) {
		message_of(first + i, data);
		md_bundle_next(&bundle, &envelope);
		assert_true(envelope.id == first + i);
		assert_true(envelope.start == bundle.start);
		assert_int_equal(envelope.len, bundle.op == MD_MSG_DATA ? MESSAGE_BYTES : 0);
		if (envelope.len)
			assert_memory_equal(envelope.data, data, MESSAGE_BYTES);
	}
}

static void test_together(void **state)
{
	const struct md_bundle_to a = place(1), b = place(2);

	(void)state;
	add(&a, 10);
	add(&b, 20);
	add(&a, 11);
	assert_int_equal(n_sent, 0);
	md_bundles_flush(&bundles, now);
	assert_int_equal(n_sent, 2);
	assert_int_equal(sent_to[0].ip.s6_addr[15], 1);
	assert_ids(sent[0], 10, 2);
	assert_ids(sent[1], 20, 1);
	md_bundles_flush(&bundles, now);
	assert_int_equal(n_sent, 2);
}

/* Everything that a datagram is sent with has to be the same. */
static void test_apart(void **state)
{
	struct md_bundle_to to[] = {place(1), place(1), place(1), place(1), place(1), place(1)};

	(void)state;
	to[1].port++;
	to[2].ifindex++;
	to[3].from.s6_addr[0]++;
	to[4].op = MD_MSG_ACK;
	to[5].op = MD_MSG_ACK;
	to[5].start++;
	for (int i = 0; i < 6; i++)
		add(&to[i], 5);
	now += MD_ACKS_NS;
	md_bundles_flush(&bundles, now);
	assert_int_equal(n_sent, 6);
	for (int i = 0; i < 6; i++) {
		assert_memory_equal(&sent_to[i], &to[i], sizeof(to[i]));
		assert_ids(sent[i], 5, 1);
	}
}

/* In full there would be eight or nine of them in a datagram. */
static void test_full(void **state)
{
	const struct md_bundle_to to = place(1);
	unsigned int n = 0;

	(void)state;
	for (uint64_t id = 0; id < 200; id++)
		add(&to, id);
	md_bundles_flush(&bundles, now);
	assert_true(n_sent > 1);
	for (unsigned int i = 0; i < n_sent; i++) {
		assert_ids(sent[i], n, sent[i].n);
		n += sent[i].n;
	}
	assert_int_equal(n, 200);
	print_message("%u offers in one datagram\n", sent[0].n);
	assert_true(sent[0].n >= 3 * (MD_PAYLOAD_MAX_BYTES / (10 + MESSAGE_BYTES)));
}

/* Messages that have nothing in common take little more than what they are, whatever their lengths. */
static void test_unlike(void **state)
{
	static const uint16_t lengths[] = {MV_CTL_MAX_BYTES, 1, 300, MV_CTL_MAX_BYTES, 255, 256, 2};
	uint8_t data[MV_CTL_MAX_BYTES], bytes[MD_PAYLOAD_MAX_BYTES];
	struct md_bundle_wire bundle;
	struct md_envelope envelope;
	struct md_bundle_writer w;
	unsigned int n = 0;
	size_t used = MD_BUNDLE_HEADER_BYTES;

	(void)state;
	md_bundle_begin(&w, bytes, MD_MSG_DATA, 0);
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint64_t id = 0x0101010101010101 * (i + 1);

		memset(data, (int)i + 1, sizeof(data));
		used += 2 + MD_DELTA_WIRE_BYTES(8 + (size_t)lengths[i]);
		envelope = (struct md_envelope){.op = MD_MSG_DATA, .id = id, .len = lengths[i], .data = data};
		n += md_bundle_add(&w, &envelope);
		if (used <= sizeof(bytes))
			assert_int_equal(n, i + 1);
	}
	assert_in_range(n, 4, sizeof(lengths) / sizeof(lengths[0]) - 1);
	assert_int_equal(md_bundle_decode(bytes, md_bundle_end(&w, (uint16_t)n), &bundle), 0);
	for (unsigned int i = 0, at = 0; i < n; i++, at++) {
		md_bundle_next(&bundle, &envelope);
		while (envelope.len != lengths[at]) /* one that had no room, where a shorter one had */
			at++;
		memset(data, (int)at + 1, sizeof(data));
		assert_true(envelope.id == 0x0101010101010101 * (at + 1));
		assert_memory_equal(envelope.data, data, envelope.len);
	}
}

static void test_many_acks(void **state)
{
	const unsigned int in_one = (MD_PAYLOAD_MAX_BYTES - MD_BUNDLE_HEADER_BYTES) / MD_BUNDLE_ACK_BYTES;
	struct md_bundle_to to = place(1);

	(void)state;
	to.op = MD_MSG_ACK;
	to.start = 77;
	for (unsigned int i = 0; i <= in_one; i++)
		add(&to, i);
	assert_int_equal(n_sent, 1);
	assert_ids(sent[0], 0, in_one);
	assert_true(sent[0].start == 77);
}

/* Acks wait for more of them, but not for ever; messages do not. */
static void test_acks_wait(void **state)
{
	struct md_bundle_to to = place(1), acks = to;

	(void)state;
	acks.op = MD_MSG_ACK;
	assert_true(md_bundles_next(&bundles) == UINT64_MAX);
	add(&acks, 1);
	add(&to, 7);
	assert_true(md_bundles_next(&bundles) == now + MD_ACKS_NS);
	now += MD_ACKS_NS / 2;
	add(&acks, 2);
	md_bundles_flush(&bundles, now);
	assert_int_equal(n_sent, 1);
	assert_ids(sent[0], 7, 1);
	now += MD_ACKS_NS / 2;
	assert_true(md_bundles_next(&bundles) == now);
	md_bundles_flush(&bundles, now);
	assert_int_equal(n_sent, 2);
	assert_ids(sent[1], 1, 2);
	assert_true(md_bundles_next(&bundles) == UINT64_MAX);
}

/* More places than there is room for: none is lost, and no place waits for ever. */
static void test_many_places(void **state)
{
	unsigned int n = 0;

	(void)state;
	for (uint8_t i = 0; i < 2 * MD_BUNDLES; i++) {
		const struct md_bundle_to to = place(i);

		add(&to, i);
	}
	assert_int_equal(n_sent, MD_BUNDLES);
	md_bundles_flush(&bundles, now);
	assert_int_equal(n_sent, 2 * MD_BUNDLES);
	for (unsigned int i = 0; i < n_sent; i++) {
		assert_ids(sent[i], sent_to[i].ip.s6_addr[15], 1);
		n += sent_to[i].ip.s6_addr[15];
	}
	assert_int_equal(n, MD_BUNDLES * (2 * MD_BUNDLES - 1));
}

/* Much alike, of any length, so that each byte is now what it was and now not. */
static void test_any(void **state)
{
	static uint8_t data[64][MV_CTL_MAX_BYTES];
	uint8_t bytes[MD_PAYLOAD_MAX_BYTES];
	struct md_bundle_wire bundle;
	struct md_envelope envelope;
	struct md_bundle_writer w;
	uint64_t dice = 1;

	(void)state;
	for (unsigned int round = 0; round < 500; round++) {
		uint16_t len[64];
		unsigned int n;

		md_bundle_begin(&w, bytes, MD_MSG_DATA, 0);
		for (n = 0; n < 64; n++) {
			dice = dice * 6364136223846793005u + 1442695040888963407u;
			len[n] = (uint16_t)(1 + (dice >> 33) % (round % 2 ? MV_CTL_MAX_BYTES : 20));
			for (unsigned int i = 0; i < len[n]; i++) {
				dice = dice * 6364136223846793005u + 1442695040888963407u;
				data[n][i] = (dice >> 33) % (2 + round % 7) == 0;
			}
			envelope = (struct md_envelope){.op = MD_MSG_DATA, .id = dice, .len = len[n], .data = data[n]};
			if (!md_bundle_add(&w, &envelope))
				break;
		}
		assert_true(n > 1);
		assert_int_equal(md_bundle_decode(bytes, md_bundle_end(&w, (uint16_t)n), &bundle), 0);
		for (unsigned int i = 0; i < n; i++) {
			md_bundle_next(&bundle, &envelope);
			assert_int_equal(envelope.len, len[i]);
			assert_memory_equal(envelope.data, data[i], len[i]);
		}
	}
}

/* Other agents read it, so it is to stay as it is. */
static void test_on_the_wire(void **state)
{
	static const uint8_t messages[][10] = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {1, 9, 3, 4}, {1, 9, 0, 0, 0, 6, 7, 8, 9, 11}};
	static const uint16_t lengths[] = {10, 4, 10};
	static const uint8_t expected[] = {
		2, MD_MSG_DATA, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 10, /* id 5: seven zeros as before, then all of it */
		7, 11, 5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
		0, 4, /* id 6; one alike, two alike at the end: in the run */
		7, 5, 6, 1, 9, 3, 4,
		0, 10, /* the same id; the zero at the sixth place is that of beyond the end of the one before */
		10, 8, 0, 0, 0, 6, 7, 8, 9, 11,
	};
	uint8_t bytes[MD_PAYLOAD_MAX_BYTES];
	struct md_bundle_writer w;
	size_t len;

	(void)state;
	md_bundle_begin(&w, bytes, MD_MSG_DATA, 0);
	for (unsigned int i = 0; i < 3; i++) {
		const struct md_envelope envelope = {
			.op = MD_MSG_DATA, .id = i ? 6 : 5, .len = lengths[i], .data = messages[i]};

		assert_true(md_bundle_add(&w, &envelope));
	}
	len = md_bundle_end(&w, 3);
	assert_int_equal(len, sizeof(expected));
	assert_memory_equal(bytes, expected, len);
}

/* Three bytes alike end a run, two do not; of more than 255 it says so twice. */
static void test_runs(void **state)
{
	static const uint8_t record[300] = {[0] = 1, [3] = 1, [7] = 1, [299] = 1};
	static const uint8_t expected[] = {0, 4, 1, 0, 0, 1, 3, 1, 1, 255, 0, 36, 1, 1};
	struct md_delta delta = {.len = 0};
	uint8_t bytes[64];
	struct md_writer w = {.buf = bytes, .size = sizeof(bytes)}, small = {.buf = bytes, .size = sizeof(expected) - 1};

	(void)state;
	assert_false(md_delta_put(&small, &delta, record, sizeof(record)));
	assert_int_equal(delta.len, 0);
	assert_true(md_delta_put(&w, &delta, record, sizeof(record)));
	assert_int_equal(w.len, sizeof(expected));
	assert_memory_equal(bytes, expected, w.len);
}

static size_t encode(uint8_t *bytes, enum md_msg_op op, uint64_t start, unsigned int n)
{
	static const uint8_t data[MV_CTL_MAX_BYTES];
	struct md_bundle_writer w;

	md_bundle_begin(&w, bytes, op, start);
	for (unsigned int i = 0; i < n; i++) {
		const struct md_envelope envelope = {
			.op = op, .id = i, .len = op == MD_MSG_DATA ? MV_CTL_MAX_BYTES : 0, .data = data};

		assert_true(md_bundle_add(&w, &envelope));
	}
	return md_bundle_end(&w, (uint16_t)n);
}

static void test_refuses(void **state)
{
	uint8_t bytes[MD_PAYLOAD_MAX_BYTES + 1];
	struct md_bundle_wire again;
	uint8_t *run;
	size_t len;

	(void)state;
	for (unsigned int n = 0; n <= 2; n++) {
		len = encode(bytes, MD_MSG_DATA, 0, n);
		assert_int_equal(md_bundle_decode(bytes, len, &again), 0);
		for (size_t cut = 0; cut < len; cut++)
			assert_int_equal(md_bundle_decode(bytes, cut, &again), -EBADMSG);
		assert_int_equal(md_bundle_decode(bytes, len + 1, &again), -EBADMSG);
		bytes[0]++;
		assert_int_equal(md_bundle_decode(bytes, len, &again), -EPROTONOSUPPORT);
		bytes[0]--;
		bytes[1] = 3;
		assert_int_equal(md_bundle_decode(bytes, len, &again), -EBADMSG);
		bytes[1] = MD_MSG_DATA;
		bytes[3]++; /* how many */
		assert_int_equal(md_bundle_decode(bytes, len, &again), -EBADMSG);
		bytes[3]--;
		bytes[11] = 1; /* a start number that nobody asked for */
		assert_int_equal(md_bundle_decode(bytes, len, &again), -EBADMSG);
	}
	/* All zero, so that it is runs of what is the same: 255, 255, 10. */
	len = encode(bytes, MD_MSG_DATA, 0, 1);
	assert_int_equal(len, MD_BUNDLE_HEADER_BYTES + 2 + 3 * 2);
	run = bytes + MD_BUNDLE_HEADER_BYTES + 2;
	assert_int_equal(run[0], 255);
	assert_int_equal(run[4], 10);
	run[4] = 11; /* more bytes than it has */
	assert_int_equal(md_bundle_decode(bytes, len, &again), -EBADMSG);
	run[4] = 9;
	assert_int_equal(md_bundle_decode(bytes, len, &again), -EBADMSG);
	run[4] = 10;
	run[2] = 0; /* a run of nothing */
	assert_int_equal(md_bundle_decode(bytes, len, &again), -EBADMSG);
	run[2] = 255;
	assert_int_equal(md_bundle_decode(bytes, len, &again), 0);
	run[-2] = 2; /* 513 bytes */
	run[-1] = 1;
	run[4] = 11;
	assert_int_equal(md_bundle_decode(bytes, len, &again), -EBADMSG);
	run[-2] = run[-1] = 0; /* an empty message */
	run[0] = 8;
	assert_int_equal(md_bundle_decode(bytes, MD_BUNDLE_HEADER_BYTES + 2 + 2, &again), -EBADMSG);

	len = encode(bytes, MD_MSG_ACK, 9, 3);
	assert_int_equal(md_bundle_decode(bytes, len, &again), 0);
	assert_int_equal(again.n, 3);
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(md_bundle_decode(bytes, cut, &again), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_together, setup),      cmocka_unit_test_setup(test_apart, setup),
		cmocka_unit_test_setup(test_full, setup),          cmocka_unit_test(test_unlike), cmocka_unit_test(test_any),
		cmocka_unit_test(test_on_the_wire),                cmocka_unit_test(test_runs),
		cmocka_unit_test_setup(test_many_acks, setup),
		cmocka_unit_test_setup(test_many_places, setup),
		cmocka_unit_test_setup(test_acks_wait, setup),       cmocka_unit_test(test_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
