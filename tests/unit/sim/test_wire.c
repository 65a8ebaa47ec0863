/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* RoCE packets and their invariant CRC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "icrc.h"
#include "wire.h"

static uint8_t frame[WIRE_MAX_FRAME];

static struct wire_path path_v4(void)
{
	struct wire_path p = {.hop_limit = 64, .traffic_class = 0x6a, .udp_sport = 0xc123};

	memcpy(p.smac, "\2\0\0\0\0\1", 6);
	memcpy(p.dmac, "\2\0\0\0\0\2", 6);
	memcpy(p.sgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\0\1", 16);
	memcpy(p.dgid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\0\2", 16);
	return p;
}

static struct wire_path path_v6(bool v1)
{
	struct wire_path p = path_v4();

	memcpy(p.sgid, "\xfe\x80\0\0\0\0\0\0\0\0\0\xff\xfe\0\0\1", 16);
	memcpy(p.dgid, "\xfe\x80\0\0\0\0\0\0\0\0\0\xff\xfe\0\0\2", 16);
	p.flow_label = 0x12345;
	p.v1 = v1;
	return p;
}

static size_t build(const struct wire_path *path, struct wire_packet *p, const char *payload)
{
	wire_begin(frame, path, p);
	memcpy(p->payload, payload, p->payload_len);
	return wire_finish(frame, path, p);
}

static void crc_of_the_check_string(void **state)
{
	(void)state;
	assert_int_equal(~icrc_update(0xffffffffu, "123456789", 9), 0xcbf43926u);
	/* The same in pieces, and longer than what is done at once. */
	assert_int_equal(icrc_update(icrc_update(0xffffffffu, "1234", 4), "56789", 5),
			 icrc_update(0xffffffffu, "123456789", 9));
}

/* The sample packet of the InfiniBand specification (volume 1, section 7.8): local, so with a LRH.
 */
static void sample_packet_of_the_specification(void **state)
{
	uint8_t packet[52] =
		"\x70\x12\x37\x5c\x00\x0e\x17\xd2\x0a\x20\x24\x87\x00\x87\xb1\xb3\x00\x0d\xec\x2a"
		"\x01\x71\x0a\x1c\x01\x5d\x40\x02\x38\xf2\x7a\x05\x00\x00\x00\x0e\xbb\x88\x4d\x85"
		"\xfd\x5c\xfb\xa4\x72\x8b\xc0\x69\x0e\xd4\x00"; /* and a zero at the end */

	(void)state;
	packet[0] |= 0xf0; /* virtual lane */
	packet[8 + 4] = 0xff;
	assert_int_equal(~icrc_update(0xffffffffu, packet, sizeof(packet)),
			 0x5ab72596u); /* on the wire 96 25 b7 5a */
}

static void round_trip(const struct wire_path *path, bool v1)
{
	struct wire_packet in = {.opcode = OP_WRITE_ONLY_IMM,
				 .solicited = true,
				 .ack_request = true,
				 .pkey = 0xffff,
				 .dest_qpn = 0xabcdef,
				 .psn = 0xfffffe,
				 .va = 0x1122334455667788,
				 .rkey = 0x99aabbcc,
				 .dma_len = 5,
				 .imm = 0x01020304,
				 .payload_len = 5};
	size_t len = build(path, &in, "hello");
	struct wire_packet out;

	assert_int_equal(wire_decode(frame, len, &out), 0);
	assert_int_equal(out.opcode, OP_WRITE_ONLY_IMM);
	assert_true(out.solicited && out.ack_request);
	assert_int_equal(out.dest_qpn, 0xabcdef);
	assert_int_equal(out.psn, 0xfffffe);
	assert_true(out.va == in.va);
	assert_int_equal(out.rkey, in.rkey);
	assert_int_equal(out.dma_len, 5);
	assert_int_equal(out.imm, in.imm);
	assert_int_equal(out.payload_len, 5);
	assert_memory_equal(out.payload, "hello", 5);
	assert_memory_equal(out.sgid, path->sgid, 16);
	assert_memory_equal(out.dgid, path->dgid, 16);
	assert_int_equal(out.v1, v1);
	/* Behind the packet there may be padding of the Ethernet. */
	memset(frame + len, 0, 4);
	assert_int_equal(wire_decode(frame, len + 4, &out), 0);
	assert_int_equal(out.payload_len, 5);
}

static void round_trips(void **state)
{
	struct wire_path v4 = path_v4(), v6 = path_v6(false), v1 = path_v6(true);

	(void)state;
	round_trip(&v4, false);
	round_trip(&v6, false);
	round_trip(&v1, true);
}

static void other_headers(void **state)
{
	struct wire_packet ack = {.opcode = OP_ATOMIC_ACK,
				  .psn = 7,
				  .syndrome = AETH_ACK,
				  .msn = 0x123456,
				  .atomic_orig = 0xfedcba9876543210};
	struct wire_packet cas = {
		.opcode = OP_CMP_SWAP, .va = 8, .rkey = 1, .swap_add = 2, .compare = 3};
	struct wire_packet ud = {.opcode = OP_UD | OP_SEND_ONLY,
				 .qkey = 0x80010000,
				 .src_qpn = 0x1234,
				 .payload_len = 4};
	struct wire_path path = path_v4();
	struct wire_packet out;

	(void)state;
	assert_int_equal(wire_decode(frame, build(&path, &ack, ""), &out), 0);
	assert_int_equal(out.msn, 0x123456);
	assert_true(out.atomic_orig == ack.atomic_orig);
	assert_int_equal(wire_decode(frame, build(&path, &cas, ""), &out), 0);
	assert_int_equal(out.swap_add, 2);
	assert_int_equal(out.compare, 3);
	assert_int_equal(wire_decode(frame, build(&path, &ud, "ping"), &out), 0);
	assert_int_equal(out.qkey, 0x80010000);
	assert_int_equal(out.src_qpn, 0x1234);
}

/* What a router may change does not matter; every other bit does. */
static void icrc_covers_what_it_should(void **state)
{
	struct wire_path path = path_v4();
	struct wire_packet p = {.opcode = OP_SEND_ONLY, .dest_qpn = 5, .psn = 6, .payload_len = 8},
			   out;
	size_t len = build(&path, &p, "12345678");
	uint8_t copy[256];

	(void)state;
	memcpy(copy, frame, len);
	for (size_t i = 14; i < len; i++) {
		bool variant = i == 14 + 1 || i == 14 + 8 || i == 14 + 10 || i == 14 + 11 ||
			       i == 14 + 26 || i == 14 + 27 || i == 14 + 28 + 4;
		int err;

		memcpy(frame, copy, len);
		frame[i] ^= 0x01;
		err = wire_decode(frame, len, &out);
		if (variant)
			assert_int_equal(err, 0);
		else
			assert_int_not_equal(err, 0);
	}
}

static void short_and_foreign_frames(void **state)
{
	struct wire_path path = path_v4();
	struct wire_packet p = {.opcode = OP_READ_REQUEST, .dma_len = 10}, out;
	size_t len = build(&path, &p, "");

	(void)state;
	for (size_t n = 0; n < len; n++)
		assert_int_not_equal(wire_decode(frame, n, &out), 0);
	frame[12] = 0x08;
	frame[13] = 0x06; /* ARP */
	assert_int_equal(wire_decode(frame, len, &out), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc_of_the_check_string),
		cmocka_unit_test(sample_packet_of_the_specification),
		cmocka_unit_test(round_trips),
		cmocka_unit_test(other_headers),
		cmocka_unit_test(icrc_covers_what_it_should),
		cmocka_unit_test(short_and_foreign_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
