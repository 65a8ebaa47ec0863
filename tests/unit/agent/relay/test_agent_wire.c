/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Codecs of descriptions, beacons and envelopes. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "beacon.h"
#include "fault.h"
#include "msg_envelope.h"
#include "peers.h"

#define TWO_RAILS                                                                                  \
	"rail mlx5_0; gid fe80::1/64 v1; gid fe80::1/64 v2; gid 10.1.0.1/24 v2;"                   \
	"rail mlx5_1 down excluded; gid 2001:db8::1/64 v2;"

static void assert_same(const struct md_desc *a, const struct md_desc *b)
{
	assert_int_equal(a->n_rails, b->n_rails);
	assert_int_equal(a->n_gids, b->n_gids);
	assert_memory_equal(a->rails, b->rails, a->n_rails * sizeof(*a->rails));
	assert_memory_equal(a->gids, b->gids, a->n_gids * sizeof(*a->gids));
}

static void test_desc_round_trip(void **state)
{
	static const char *const texts[] = {"", "rail mlx5_0;", TWO_RAILS, "rail ib0 ib;"};
	uint8_t bytes[MD_DESC_BYTES_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct md_desc *desc = peers_desc(texts[i]), *again;
		size_t len = md_desc_encode(desc, bytes);

		assert_int_equal(md_desc_decode(bytes, len, &again), 0);
		assert_same(desc, again);
		free(desc);
		free(again);
	}
}

/* The largest one that the limits allow fits its buffer and its pieces. */
static void test_desc_largest(void **state)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = md_desc_new(MD_RAILS_MAX, MD_GIDS_MAX), *again;

	(void)state;
	for (uint32_t r = 0; r < MD_RAILS_MAX; r++) {
		memset(desc->rails[r].device, 'd', sizeof(desc->rails[r].device) - 1);
		memset(desc->rails[r].netdev, 'n', sizeof(desc->rails[r].netdev) - 1);
		desc->rails[r].port = (uint8_t)(r + 1);
		desc->rails[r].first_gid = r * (MD_GIDS_MAX / MD_RAILS_MAX);
		desc->rails[r].n_gids = MD_GIDS_MAX / MD_RAILS_MAX;
	}
	for (uint32_t g = 0; g < MD_GIDS_MAX; g++) {
		desc->gids[g].gid = unit_gid("10.0.0.1");
		desc->gids[g].rail = g / (MD_GIDS_MAX / MD_RAILS_MAX);
		desc->gids[g].vlan_id = MV_VLAN_NONE;
	}
	assert_int_equal(md_desc_encode(desc, bytes), MD_DESC_BYTES_MAX);
	assert_int_equal(md_desc_decode(bytes, MD_DESC_BYTES_MAX, &again), 0);
	assert_same(desc, again);
	assert_int_equal(md_beacon_pieces(MD_DESC_BYTES_MAX), MD_PIECES_MAX);
	free(desc);
	free(again);
}

static int decode(const struct md_desc *desc)
{
	uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *again = NULL;
	int err = md_desc_decode(bytes, md_desc_encode(desc, bytes), &again);

	free(again);
	return err;
}

static void test_desc_refuses(void **state)
{
	struct md_desc *desc = peers_desc(TWO_RAILS);

	(void)state;
	assert_int_equal(decode(desc), 0);
#define REFUSED(member, bad)                                                                       \
	do {                                                                                       \
		__typeof__(desc->member) good = desc->member;                                      \
		desc->member = bad;                                                                \
		assert_int_equal(decode(desc), -EBADMSG);                                          \
		desc->member = good;                                                               \
		assert_int_equal(decode(desc), 0);                                                 \
	} while (0)
	REFUSED(rails[0].device[2], '/');
	REFUSED(rails[0].device[0], '\0');
	REFUSED(rails[0].device[1], '\033');
	REFUSED(rails[0].netdev[0], '/');
	/* Processes print such names into JSON as they are. */
	REFUSED(rails[0].device[1], '"');
	REFUSED(rails[0].netdev[0], '"');
	REFUSED(rails[0].netdev[0], '\\');
	REFUSED(rails[0].numa_node, -2);
	REFUSED(rails[0].port, 0);
	REFUSED(rails[0].mtu_bytes, 4095);
	REFUSED(rails[0].link_layer, IBV_LINK_LAYER_ETHERNET + 1);
	REFUSED(rails[0].flags, MV_RAIL_UP | MV_RAIL_DRAINED);
	REFUSED(rails[1].device[5], '0'); /* mlx5_0 a second time */
	REFUSED(gids[0].gid, unit_gid("::"));
	REFUSED(gids[0].gid, unit_gid("ff02::1"));
	REFUSED(gids[0].gid, unit_gid("224.0.0.1"));
	REFUSED(gids[0].type, MV_GID_TYPE_ROCE_V2 + 1);
	REFUSED(gids[0].index, 0x10000); /* more is part of the directory's, not of the host's */
	REFUSED(gids[0].index, 0x7fffffff);
	REFUSED(gids[0].index, MV_DIR_INDEX_UNMET);
	REFUSED(gids[0].index, MV_DIR_INDEX_NONE);
	REFUSED(gids[0].prefix_len, 129);
	REFUSED(gids[0].vlan_id, 0xfff);
	free(desc);
}

/*
 * A later agent may tell more of its rails than is known here: its host is not to vanish from hosts that are updated
 * after it.
 */
static void test_desc_of_later_agent(void **state)
{
	struct md_desc *desc = peers_desc(TWO_RAILS), *again;
	static uint8_t bytes[MD_DESC_BYTES_MAX];

	(void)state;
	desc->rails[0].flags = 0x18 | MV_RAIL_UP;
	assert_int_equal(md_desc_decode(bytes, md_desc_encode(desc, bytes), &again), 0);
	desc->rails[0].flags = MV_RAIL_UP;
	assert_same(desc, again);
	free(desc);
	free(again);
}

static void test_desc_lmc(void **state)
{
	struct md_desc *desc = peers_desc(TWO_RAILS), *again;
	static uint8_t bytes[MD_DESC_BYTES_MAX];

	(void)state;
	desc->rails[0].lmc = 7;
	desc->rails[0].flags = MV_RAIL_EXCLUDED;
	assert_int_equal(md_desc_decode(bytes, md_desc_encode(desc, bytes), &again), 0);
	assert_int_equal(again->rails[0].lmc, 7);
	assert_same(desc, again);
	free(desc);
	free(again);
}

/* Every shorter or longer text is refused, without a look beyond its end (as ASan would see). */
static void test_desc_lengths(void **state)
{
	uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(TWO_RAILS), *again;
	size_t len = md_desc_encode(desc, bytes);

	(void)state;
	for (size_t cut = 0; cut <= len + 1; cut++) {
		uint8_t *exact = malloc(cut ? cut : 1);

		memcpy(exact, bytes, cut);
		if (cut == len) {
			assert_int_equal(md_desc_decode(exact, cut, &again), 0);
			free(again);
		} else {
			assert_int_equal(md_desc_decode(exact, cut, &again), -EBADMSG);
		}
		free(exact);
	}
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_int_equal(md_desc_decode(bytes, len, &again), -ENOMEM);
	fault_disarm();
	free(desc);
}

static struct md_beacon a_beacon(const uint8_t *desc, uint32_t desc_bytes, uint8_t piece)
{
	struct md_beacon beacon = {.name = "host-1",
				   .rail = 3,
				   .agent_version = 7,
				   .interval_ms = 1000,
				   .generation = 0x123456789abcdefull,
				   .desc_bytes = desc_bytes};

	md_beacon_cut(&beacon, desc, piece);
	return beacon;
}

static void test_beacon_pieces(void **state)
{
	static uint8_t desc[2 * MD_PIECE_BYTES + 1];
	uint8_t joined[sizeof(desc)], bytes[MD_PAYLOAD_MAX_BYTES];
	struct md_beacon beacon, again;
	size_t at = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(desc); i++)
		desc[i] = (uint8_t)(i * 7);
	assert_int_equal(md_beacon_pieces(sizeof(desc)), 3);
	for (uint8_t piece = 0; piece < 3; piece++) {
		beacon = a_beacon(desc, sizeof(desc), piece);
		assert_int_equal(md_beacon_decode(bytes, md_beacon_encode(&beacon, bytes), &again),
				 0);
		assert_string_equal(again.name, "host-1");
		assert_int_equal(again.rail, 3);
		assert_int_equal(again.agent_version, 7);
		assert_int_equal(again.interval_ms, 1000);
		assert_true(again.generation == beacon.generation);
		assert_int_equal(again.piece, piece);
		memcpy(joined + at, again.data, again.piece_bytes);
		at += again.piece_bytes;
	}
	assert_int_equal(at, sizeof(desc));
	assert_memory_equal(joined, desc, sizeof(desc));
	beacon = a_beacon(desc, sizeof(desc), MD_NO_PIECE);
	assert_int_equal(md_beacon_decode(bytes, md_beacon_encode(&beacon, bytes), &again), 0);
	assert_int_equal(again.piece_bytes, 0);
}

static void test_beacon_refuses(void **state)
{
	static uint8_t desc[1500];
	uint8_t bytes[MD_PAYLOAD_MAX_BYTES];
	struct md_beacon again;
	size_t len;

	(void)state;
#define BEACON_REFUSED(member, bad)                                                                \
	do {                                                                                       \
		struct md_beacon beacon = a_beacon(desc, sizeof(desc), 1);                         \
		beacon.member = bad;                                                               \
		len = md_beacon_encode(&beacon, bytes);                                            \
		assert_int_equal(md_beacon_decode(bytes, len, &again), -EBADMSG);                  \
	} while (0)
	BEACON_REFUSED(name[0], '\n');
	BEACON_REFUSED(name[0], '"');
	BEACON_REFUSED(name[0], '\\');
	BEACON_REFUSED(rail, MD_RAILS_MAX);
	BEACON_REFUSED(agent_version, 0);
	BEACON_REFUSED(interval_ms, 0);
	BEACON_REFUSED(interval_ms, MD_INTERVAL_MAX_MS + 1);
	BEACON_REFUSED(desc_bytes, 3);
	BEACON_REFUSED(desc_bytes, MD_DESC_BYTES_MAX + 1);
	BEACON_REFUSED(desc_bytes, 2000); /* then the last piece would be longer */
	BEACON_REFUSED(piece, 0); /* then it would be longer */
	BEACON_REFUSED(piece, 2); /* there are two */
	BEACON_REFUSED(piece, MD_NO_PIECE);
	BEACON_REFUSED(piece_bytes, 499);
	BEACON_REFUSED(piece_bytes, 0);
	{
		struct md_beacon beacon = a_beacon(desc, sizeof(desc), 0);

		len = md_beacon_encode(&beacon, bytes);
	}
	assert_true(len <= MD_PAYLOAD_MAX_BYTES);
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(md_beacon_decode(bytes, cut, &again), -EBADMSG);
	bytes[0]++;
	assert_int_equal(md_beacon_decode(bytes, len, &again), -EPROTONOSUPPORT);
}

static void test_envelope(void **state)
{
	static const uint8_t data[513] = {1, 2, 3}; /* one more than may be */
	struct md_envelope sent = {
		.op = MD_MSG_DATA, .id = 0xfedcba9876543210ull, .len = 512, .data = data};
	struct md_envelope ack = {.op = MD_MSG_ACK, .id = 5, .start = 9}, again;
	uint8_t bytes[MD_PAYLOAD_MAX_BYTES];
	size_t len = md_envelope_encode(&sent, bytes);

	(void)state;
	assert_int_equal(md_envelope_decode(bytes, len, &again), 0);
	assert_true(again.id == sent.id);
	assert_int_equal(again.len, 512);
	assert_memory_equal(again.data, data, 512);
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(md_envelope_decode(bytes, cut, &again), -EBADMSG);
	bytes[1] = 3;
	assert_int_equal(md_envelope_decode(bytes, len, &again), -EBADMSG);
	bytes[0] = 2;
	assert_int_equal(md_envelope_decode(bytes, len, &again), -EPROTONOSUPPORT);
	sent.len = 513;
	len = md_envelope_encode(&sent, bytes);
	assert_int_equal(md_envelope_decode(bytes, len, &again), -EBADMSG);
	sent.len = 0;
	len = md_envelope_encode(&sent, bytes);
	assert_int_equal(md_envelope_decode(bytes, len, &again), -EBADMSG);

	len = md_envelope_encode(&ack, bytes);
	assert_int_equal(md_envelope_decode(bytes, len, &again), 0);
	assert_int_equal(again.op, MD_MSG_ACK);
	assert_true(again.start == 9 && again.id == 5);
	ack.len = 1;
	ack.data = data;
	len = md_envelope_encode(&ack, bytes);
	assert_int_equal(md_envelope_decode(bytes, len, &again), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_desc_round_trip), cmocka_unit_test(test_desc_largest),
		cmocka_unit_test(test_desc_refuses),    cmocka_unit_test(test_desc_lengths),
		cmocka_unit_test(test_desc_of_later_agent),
		cmocka_unit_test(test_desc_lmc),
		cmocka_unit_test(test_beacon_pieces),   cmocka_unit_test(test_beacon_refuses),
		cmocka_unit_test(test_envelope),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
