/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Several packets in one frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "burst.h"
#include "wire.h"

#define QPN_BITS 18
#define N        3

static uint8_t frames[N][WIRE_MAX_FRAME];
static size_t lens[N];

static struct wire_path path_of(bool v6, bool v1)
{
	struct wire_path p = {.hop_limit = 64, .traffic_class = 0x6a, .udp_sport = 0xc123, .v1 = v1};

	memcpy(p.smac, "\2\0\0\0\0\1", 6);
	memcpy(p.dmac, "\2\0\0\0\0\2", 6);
	memcpy(p.sgid, v6 || v1 ? "\xfe\x80\0\0\0\0\0\0\0\0\0\xff\xfe\0\0\1" : "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\0\1", 16);
	memcpy(p.dgid, v6 || v1 ? "\xfe\x80\0\0\0\0\0\0\0\0\0\xff\xfe\0\0\2" : "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\0\2", 16);
	return p;
}

static void build(int i, const struct wire_path *path, uint32_t qpn, const char *payload)
{
	struct wire_packet p = {.opcode = OP_SEND_ONLY, .dest_qpn = qpn, .psn = 6, .payload_len = (uint32_t)strlen(payload)};

	wire_begin(frames[i], path, &p);
	memcpy(p.payload, payload, p.payload_len);
	lens[i] = wire_finish(frames[i], path, &p);
}

/* All frames in one. Return: its bytes, in memory of their exact size. */
static uint8_t *pack(size_t *ret_len)
{
	size_t head = burst_head_len(frames[0], lens[0]), bytes = 0;
	uint8_t *all, *at;

	for (int i = 0; i < N; i++)
		bytes += BURST_LENGTH + lens[i];
	all = malloc(head + bytes);
	assert_non_null(all);
	burst_head(all, frames[0], lens[0], bytes);
	at = all + head;
	for (int i = 0; i < N; at += BURST_LENGTH + lens[i], i++) {
		at[0] = (uint8_t)(lens[i] >> 8);
		at[1] = (uint8_t)lens[i];
		memcpy(at + BURST_LENGTH, frames[i], lens[i]);
	}
	*ret_len = head + bytes;
	return all;
}

static void build_all(bool v6)
{
	struct wire_path path = path_of(v6, false);

	build(0, &path, 5, "first");
	path.udp_sport++; /* each queue pair has its own */
	build(1, &path, 6, "the second");
	build(2, &path, 7, "");
}

static uint32_t sum_of(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	return (sum & 0xffff) + (sum >> 16);
}

static void comes_out_as_it_went_in(void **state)
{
	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		struct wire_packet p;
		struct burst b;
		uint8_t *all, *frame;
		size_t len, one;

		build_all(v6);
		all = pack(&len);
		if (!v6)
			assert_int_equal(sum_of(all + 14), 0xffff);
		/* Filters that sort by the QPN see the first one's; nobody takes it for a packet. */
		assert_int_equal(wire_peek_qpn(all, len), 5);
		assert_int_not_equal(wire_decode(all, len, &p), 0);
		assert_true(burst_open(&b, all, len));
		for (int i = 0; i < N; i++) {
			frame = burst_next(&b, &one);
			assert_non_null(frame);
			assert_int_equal(one, lens[i]);
			assert_memory_equal(frame, frames[i], one);
			assert_int_equal(wire_decode(frame, one, &p), 0);
			assert_int_equal(p.dest_qpn, 5 + i);
		}
		assert_null(burst_next(&b, &one));
		free(all);
	}
}

static bool join(const struct wire_path *path, uint32_t qpn)
{
	build(1, path, qpn, "x");
	return burst_joins(frames[0], lens[0], frames[1], lens[1], QPN_BITS);
}

static void only_what_goes_the_same_way(void **state)
{
	struct wire_path path = path_of(false, false), other;

	(void)state;
	build(0, &path, 5, "first");
	assert_true(join(&path, 6));
	assert_true(join(&path, (1 << QPN_BITS) - 1));
	assert_false(join(&path, 1 << QPN_BITS)); /* another process */
	assert_false(join(&path, WIRE_MCAST_QPN));
	other = path, other.dmac[5]++;
	assert_false(join(&other, 6));
	other = path, other.smac[0]++;
	assert_false(join(&other, 6));
	other = path, other.sgid[12]++;
	assert_false(join(&other, 6));
	other = path, other.dgid[15]++;
	assert_false(join(&other, 6));
	other = path_of(true, false);
	assert_false(join(&other, 6));
	build(0, &other, 5, "first");
	assert_true(join(&other, 6));
	other.dgid[15]++;
	assert_false(join(&other, 6));
	other = path_of(true, false), other.sgid[0]++;
	assert_false(join(&other, 6));

	other = path_of(false, true);
	build(0, &other, 5, "first");
	assert_int_equal(burst_head_len(frames[0], lens[0]), 0);
	assert_false(join(&other, 6));
	build(0, &path, WIRE_MCAST_QPN, "to a group");
	assert_false(join(&path, WIRE_MCAST_QPN));
}

/* Each time in memory of its exact size: the sanitizer sees what is read beyond it. */
static void cut_off_and_damaged(void **state)
{
	struct burst b;
	size_t len, one;
	uint8_t *all;

	(void)state;
	build_all(false);
	all = pack(&len);
	for (size_t n = 0; n < len; n++) {
		uint8_t *copy = malloc(n ? n : 1);

		assert_non_null(copy);
		memcpy(copy, all, n);
		assert_false(burst_open(&b, copy, n));
		free(copy);
	}
	for (size_t i = 0; i < len; i++) {
		all[i] ^= 0x81;
		if (burst_open(&b, all, len))
			for (uint8_t *frame = burst_next(&b, &one); frame; frame = burst_next(&b, &one))
				assert_true(frame > all && frame + one <= all + len);
		all[i] ^= 0x81;
	}
	/* What a short frame was filled up with is not looked at. */
	all = realloc(all, len + 8);
	assert_non_null(all);
	memset(all + len, 0, 8);
	assert_true(burst_open(&b, all, len + 8));
	for (int i = 0; i < N; i++)
		assert_non_null(burst_next(&b, &one));
	assert_null(burst_next(&b, &one));
	/* One that says it is longer than what is there is none. */
	all[burst_head_len(all, len)] = 0xff;
	assert_true(burst_open(&b, all, len));
	assert_null(burst_next(&b, &one));
	free(all);
}

static void packets_are_no_bursts(void **state)
{
	struct burst b;

	(void)state;
	build_all(false);
	for (int i = 0; i < N; i++)
		assert_false(burst_open(&b, frames[i], lens[i]));
	frames[0][13] = 0x06; /* ARP */
	assert_false(burst_open(&b, frames[0], lens[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_out_as_it_went_in),
		cmocka_unit_test(only_what_goes_the_same_way),
		cmocka_unit_test(cut_off_and_damaged),
		cmocka_unit_test(packets_are_no_bursts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
