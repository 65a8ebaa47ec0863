/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages of the communication manager: what is encoded is decoded, at the places that the
 * specification names. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mad.h"

#define H 24 /* bytes of the header */

static const uint16_t kinds[] = {MAD_REQ,  MAD_MRA,  MAD_REJ,      MAD_REP,     MAD_RTU,
				 MAD_DREQ, MAD_DREP, MAD_SIDR_REQ, MAD_SIDR_REP};

static void fill(void *p, size_t n)
{
	for (uint8_t *b = p; n--; b++)
		*b = (uint8_t)random();
}

/* A message with every member that its kind has. */
static struct mad random_mad(uint16_t attr)
{
	struct mad m = {.attr = attr, .tid = (uint64_t)random() << 32 | (uint64_t)random()};
	bool sidr = attr == MAD_SIDR_REQ || attr == MAD_SIDR_REP;

	m.local_id = (uint32_t)random() * 2;
	if (!sidr && attr != MAD_REQ)
		m.remote_id = (uint32_t)random() * 2;
	if (sidr || attr == MAD_REQ)
		m.service_id = (uint64_t)random() << 33 | (uint64_t)random();
	if (attr == MAD_REQ || attr == MAD_REP) {
		m.ca_guid = (uint64_t)random() << 33 | (uint64_t)random();
		m.starting_psn = (uint32_t)random() & 0xffffff;
		fill(&m.responder_resources, 1);
		fill(&m.initiator_depth, 1);
		m.flow_control = random() & 1;
		m.srq = random() & 1;
		m.rnr_retry_count = random() & 7;
	}
	if (attr == MAD_REQ || attr == MAD_REP || attr == MAD_DREQ || attr == MAD_SIDR_REP)
		m.qpn = (uint32_t)random() & 0xffffff;
	if (attr == MAD_REQ) {
		m.req.remote_timeout = random() & 31;
		m.req.local_timeout = random() & 31;
		m.req.transport = random() & 3;
		m.retry_count = random() & 7;
		m.req.max_cm_retries = random() & 15;
		m.req.mtu = random() & 15;
		fill(m.req.path.local_gid, 16);
		fill(m.req.path.remote_gid, 16);
		m.req.path.local_lid = (uint16_t)random();
		m.req.path.remote_lid = (uint16_t)random();
		m.req.path.flow_label = (uint32_t)random() & 0xfffff;
		m.req.path.rate = random() & 63;
		fill(&m.req.path.traffic_class, 1);
		fill(&m.req.path.hop_limit, 1);
		m.req.path.sl = random() & 15;
		m.req.path.subnet_local = random() & 1;
		m.req.path.ack_timeout = random() & 31;
	}
	if (attr == MAD_REP) {
		m.ack_delay = random() & 31;
		m.failover = random() & 3;
	}
	if (attr == MAD_REQ || attr == MAD_SIDR_REQ)
		m.pkey = (uint16_t)random();
	if (attr == MAD_MRA || attr == MAD_REJ)
		m.about = random() & 3;
	if (attr == MAD_MRA)
		m.service_timeout = random() & 31;
	if (attr == MAD_REJ) {
		m.rej.reason = (uint16_t)random();
		m.rej.ari_len = random() % (MAD_ARI_BYTES + 1);
		fill(m.rej.ari, m.rej.ari_len);
	}
	if (attr == MAD_SIDR_REP) {
		fill(&m.status, 1);
		m.qkey = (uint32_t)random() * 2;
	}
	m.private_len = mad_private_size(attr);
	fill(m.private_data, m.private_len);
	return m;
}

static void check_path(const struct mad_path *a, const struct mad_path *b)
{
	assert_memory_equal(a->local_gid, b->local_gid, 16);
	assert_memory_equal(a->remote_gid, b->remote_gid, 16);
	assert_true(a->local_lid == b->local_lid && a->remote_lid == b->remote_lid &&
		    a->flow_label == b->flow_label && a->rate == b->rate);
	assert_true(a->traffic_class == b->traffic_class && a->hop_limit == b->hop_limit &&
		    a->sl == b->sl && a->subnet_local == b->subnet_local &&
		    a->ack_timeout == b->ack_timeout);
}

static void test_there_and_back(void **state)
{
	(void)state;
	srandom(1);
	for (int i = 0; i < 2000; i++) {
		struct mad m, got;
		uint8_t bytes[MAD_BYTES], again[MAD_BYTES];

		m = random_mad(kinds[(size_t)i % (sizeof(kinds) / sizeof(kinds[0]))]);
		mad_encode(&m, bytes);
		assert_int_equal(mad_decode(bytes, sizeof(bytes), &got), 0);
		mad_encode(&got, again);
		assert_memory_equal(again, bytes, MAD_BYTES);
		assert_int_equal(got.attr, m.attr);
		assert_true(got.tid == m.tid && got.local_id == m.local_id &&
			    got.remote_id == m.remote_id);
		assert_true(got.service_id == m.service_id && got.ca_guid == m.ca_guid &&
			    got.qpn == m.qpn && got.qkey == m.qkey &&
			    got.starting_psn == m.starting_psn);
		assert_true(got.responder_resources == m.responder_resources &&
			    got.initiator_depth == m.initiator_depth &&
			    got.retry_count == m.retry_count &&
			    got.rnr_retry_count == m.rnr_retry_count &&
			    got.req.max_cm_retries == m.req.max_cm_retries);
		assert_true(got.req.remote_timeout == m.req.remote_timeout &&
			    got.req.local_timeout == m.req.local_timeout && got.req.transport == m.req.transport &&
			    got.flow_control == m.flow_control && got.srq == m.srq);
		assert_true(got.req.mtu == m.req.mtu && got.pkey == m.pkey &&
			    got.ack_delay == m.ack_delay && got.failover == m.failover &&
			    got.about == m.about && got.rej.reason == m.rej.reason &&
			    got.status == m.status && got.service_timeout == m.service_timeout);
		check_path(&got.req.path, &m.req.path);
		assert_int_equal(got.rej.ari_len, m.rej.ari_len);
		assert_memory_equal(got.rej.ari, m.rej.ari, MAD_ARI_BYTES);
		assert_memory_equal(got.private_data, m.private_data, MAD_MAX_PRIVATE);
	}
}

/* Tables of the specification, volume 1, 12.6.5 and following. */
static void test_places(void **state)
{
	struct mad m = {.attr = MAD_REQ,
			.tid = 0x0102030405060708,
			.local_id = 0x11121314,
			.service_id = 0x0000000001061c47,
			.qpn = 0xabcdef,
			.starting_psn = 0x123456,
			.req.remote_timeout = 20,
			.req.local_timeout = 20,
			.retry_count = 7,
			.req.mtu = 5,
			.rnr_retry_count = 6,
			.req.max_cm_retries = 15,
			.private_data = {0x55},
			.private_len = 1};
	uint8_t b[MAD_BYTES];

	(void)state;
	m.req.path.ack_timeout = 18;
	m.req.path.flow_label = 0xabcde;
	m.req.path.rate = 7;
	m.req.path.local_lid = 0x0102;
	m.req.path.remote_lid = 0x0304;
	memset(m.req.path.local_gid, 0xa1, 16);
	memset(m.req.path.remote_gid, 0xa2, 16);
	m.req.path.hop_limit = 1;
	m.req.path.sl = 9;
	m.req.path.subnet_local = true;
	mad_encode(&m, b);
	assert_memory_equal(b, "\x01\x07\x02\x03\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\x10",
			    18);
	assert_memory_equal(b + H, "\x11\x12\x13\x14", 4);
	assert_memory_equal(b + H + 8, "\0\0\0\0\x01\x06\x1c\x47", 8);
	assert_memory_equal(b + H + 32, "\xab\xcd\xef", 3);
	assert_int_equal(b[H + 43], 20 << 3);
	assert_memory_equal(b + H + 44, "\x12\x34\x56", 3);
	assert_int_equal(b[H + 47], 20 << 3 | 7);
	assert_int_equal(b[H + 50], 5 << 4 | 6);
	assert_int_equal(b[H + 51], 15 << 4);
	assert_memory_equal(b + H + 52, "\x01\x02\x03\x04\xa1", 5);
	assert_memory_equal(b + H + 71, "\xa1\xa2", 2);
	assert_memory_equal(b + H + 87, "\xa2", 1);
	assert_memory_equal(b + H + 93, "\x01\x98", 2);
	assert_memory_equal(b + H + 88, "\xab\xcd\xe0\x07", 4);
	assert_int_equal(b[H + 95], 18 << 3);
	assert_int_equal(b[H + 140], 0x55);
	m = (struct mad){.attr = MAD_REP, .rnr_retry_count = 7, .ack_delay = 16, .srq = true};
	mad_encode(&m, b);
	assert_int_equal(b[H + 26], 16 << 3);
	assert_int_equal(b[H + 27], 7 << 5 | 1 << 4);
}

static void test_no_message(void **state)
{
	struct mad m = {.attr = MAD_RTU}, got;
	uint8_t b[MAD_BYTES];

	(void)state;
	for (int at = 0; at < 4; at++) {
		mad_encode(&m, b);
		b[at] ^= 0x40;
		assert_int_equal(mad_decode(b, sizeof(b), &got), -EPROTO);
	}
	mad_encode(&m, b);
	assert_int_equal(mad_decode(b, sizeof(b) - 1, &got), -EPROTO);
	b[17] = 0x19; /* LAP */
	assert_int_equal(mad_decode(b, sizeof(b), &got), -EPROTO);
	b[16] = 0xff;
	assert_int_equal(mad_decode(b, sizeof(b), &got), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_no_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
