/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Descriptions that come in pieces: in any order, halves that stay halves, and forged pieces. The clock is ours. */
#include "hosts_fixture.h"

#include <errno.h>
#include <stdlib.h>

#include "ctl.h"
#include "fault.h"

/* More than fits one piece. */
#define G5                                                                                         \
	"gid 10.1.0.2/24 v2;gid 10.1.0.3/24 v2;gid 10.1.0.4/24 v2;gid 10.1.0.5/24 v2;gid "         \
	"10.1.0.6/24 v2;"
#define BIG "rail mlx5_0;" G5 G5 G5 G5 G5 G5 G5 G5 G5 G5 G5 G5

/* Pieces in any order, some of them twice; a generation that is overtaken is dropped. */
static void test_pieces(void **state)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(BIG);
	struct md_heard heard = {.sender = peers_id(1), .start = 1, .ifindex = 1};
	struct md_beacon beacon = {.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .generation = 1};
	static const uint8_t order[] = {1, MD_NO_PIECE, 1, 0};
	unsigned int changed;

	(void)state;
	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	assert_int_equal(md_beacon_pieces(beacon.desc_bytes), 2);
	for (size_t i = 0; i < sizeof(order); i++) {
		md_beacon_cut(&beacon, bytes, order[i]);
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
		assert_int_equal((changed & MD_CHANGED_DESC) != 0, i == 3);
		assert_int_equal((changed & MD_CHANGED_WANTED) != 0, order[i] == MD_NO_PIECE);
	}
	assert_int_equal(host(1)->desc->n_gids, 60);
	assert_int_equal(hosts.n_partial, 0);
	/* Signs of life are enough now. */
	md_beacon_cut(&beacon, bytes, MD_NO_PIECE);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
	assert_int_equal(changed, 0);
	/* Half of generation 2, then 3. What was known stays meanwhile. */
	beacon.generation = 2;
	md_beacon_cut(&beacon, bytes, 0);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
	assert_int_equal(hosts.n_partial, 1);
	beacon.generation = 3;
	md_beacon_cut(&beacon, bytes, 1);
	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
	assert_int_equal(changed, 0);
	assert_int_equal(host(1)->generation, 1);
	/* The rest never comes. */
	md_hosts_expire(&hosts, 2 * MD_S + MD_PARTIAL_NS);
	assert_int_equal(hosts.n_partial, 0);
	free(desc);
}

/* Piece @piece of BIG, from a host by netdev @ifindex. */
static int hear_piece(unsigned int n, uint32_t ifindex, uint64_t start, uint64_t generation, uint8_t piece, uint64_t now_ns)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(BIG);
	struct md_heard heard = {.sender = peers_id(n), .start = start, .ifindex = ifindex};
	struct md_beacon beacon = {.agent_version = MV_CTL_VERSION, .interval_ms = 60000, .generation = generation};
	unsigned int changed;

	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	free(desc);
	md_beacon_cut(&beacon, bytes, piece);
	return md_hosts_hear(&hosts, &heard, &beacon, now_ns, &changed);
}

/* Somebody on netdev 2 makes up hosts and sends one half of their descriptions, again and again: those of hosts on netdev 1 are taken. */
static void test_halves(void **state)
{
	struct peer known = {1, 100, 1, 1000, BIG}, fresh = {2, 100, 1, 1000, BIG}, beside = {3, 100, 1, 1000, BIG};
	const unsigned int n = 1500;
	unsigned int changed;

	(void)state;
	assert_int_equal(peers_hear(&hosts, &known, 1, 0, MD_S, &changed), 0);
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(hear_piece(1000 + i, 2, 1, 1, 0, MD_S), 0);
	assert_in_range(hosts.n_partial, 100, n);
	assert_int_equal(peers_hear(&hosts, &fresh, 1, 0, MD_S, &changed), 0);
	assert_non_null(host(2)->desc);
	/* On his own link, too, if all pieces come before he has sent a thousand halves. */
	assert_int_equal(peers_hear(&hosts, &beside, 2, 0, MD_S, &changed), 0);
	assert_non_null(host(3)->desc);
	for (uint64_t generation = 2; generation < 5; generation++) {
		assert_int_equal(hear_piece(1, 1, 100, generation, 0, MD_S), 0);
		for (unsigned int i = 0; i < n; i++)
			assert_int_equal(hear_piece(1000 + i, 2, 1, generation, 0, MD_S), 0);
		assert_int_equal(hear_piece(1, 1, 100, generation, 1, MD_S), 0);
		assert_int_equal(host(1)->generation, generation);
	}
}

/* Pieces under a host's id on another link, of the same description or not: what comes by the host's link is complete all the same. */
static void test_forged_pieces(void **state)
{
	(void)state;
	assert_int_equal(hear_piece(1, 1, 100, 1, 0, MD_S), 0);
	assert_int_equal(hear_piece(1, 2, 100, 9, 0, MD_S), 0); /* another generation */
	assert_int_equal(hear_piece(1, 1, 100, 1, 1, MD_S), 0);
	assert_non_null(host(1)->desc);
	assert_int_equal(hear_piece(1, 1, 100, 2, 0, MD_S), 0);
	assert_int_equal(hear_piece(1, 2, 101, 2, 0, MD_S), 0); /* another start */
	assert_int_equal(hear_piece(1, 1, 100, 2, 1, MD_S), 0);
	assert_int_equal(host(1)->generation, 2);
	/* Garbage that completes nothing but itself. */
	{
		static const uint8_t garbage[MD_PIECE_BYTES] = {0xff};
		struct md_heard heard = {.sender = peers_id(1), .start = 100, .ifindex = 2};
		struct md_beacon beacon = {.agent_version = MV_CTL_VERSION,
					   .interval_ms = 60000,
					   .generation = 3,
					   .piece = 1,
					   .data = garbage};
		struct md_desc *desc = peers_desc(BIG);
		uint8_t bytes[MD_DESC_BYTES_MAX];
		unsigned int changed;

		beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
		beacon.piece_bytes = (uint16_t)(beacon.desc_bytes - MD_PIECE_BYTES);
		free(desc);
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
	}
	assert_int_equal(hear_piece(1, 1, 100, 3, 0, MD_S), 0);
	assert_int_equal(hear_piece(1, 1, 100, 3, 1, MD_S), 0);
	assert_int_equal(host(1)->generation, 3);
	md_hosts_expire(&hosts, 2 * MD_S + MD_PARTIAL_NS);
	assert_int_equal(hosts.n_partial, 0);
}

/* Answers of targets, from anywhere: those of hosts that a process wants have room of their own. */
static void test_halves_of_answers(void **state)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(BIG);
	struct md_beacon beacon = {.agent_version = MV_CTL_VERSION, .interval_ms = 60000, .generation = 1};

	(void)state;
	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	free(desc);
	for (unsigned int wanted = 0; wanted < 2; wanted++) {
		struct md_heard heard = {.sender = peers_id(1 + wanted), .start = 1, .answer = true, .wanted = wanted};
		struct md_heard other = {.start = 1, .answer = true};
		unsigned int changed;

		md_beacon_cut(&beacon, bytes, 0);
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
		for (unsigned int i = 0; i < 1000; i++) {
			other.sender = peers_id(1000 + i);
			assert_int_equal(md_hosts_hear(&hosts, &other, &beacon, MD_S, &changed), 0);
			assert_true(hosts.partials[0].bytes <= MD_PARTIAL_BYTES);
		}
		md_beacon_cut(&beacon, bytes, 1);
		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
		assert_int_equal(host(1 + wanted)->desc != NULL, wanted);
	}
	/* Neighbours that were asked count on their links. */
	assert_int_equal(hosts.partials[1 + 3].bytes, 0);
	{
		struct md_heard heard = {.sender = peers_id(3), .start = 1, .answer = true, .near = true, .ifindex = 3};
		unsigned int changed;

		assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
		assert_int_not_equal(hosts.partials[1 + 3].bytes, 0);
	}
}

/* Memory that is not there costs a beacon, nothing else. The test's own calls come first. */
static void test_faults(void **state)
{
	struct md_heard heard = {.sender = peers_id(1), .start = 1, .ifindex = 1};
	struct md_beacon beacon = {.agent_version = MV_CTL_VERSION, .interval_ms = 1000, .generation = 1};
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(BIG);

	(void)state;
	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		int rc = 0;

		for (uint8_t piece = 0; piece < 2 && !rc; piece++) {
			unsigned int changed;

			md_beacon_cut(&beacon, bytes, piece);
			rc = md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed);
		}
		assert_int_equal(rc, fault_fired() ? -ENOMEM : 0);
		md_hosts_fini(&hosts);
		assert_int_equal(hosts.n_partial, 0);
	});
	free(desc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pieces, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_halves, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_forged_pieces, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_halves_of_answers, table_setup, table_teardown),
		cmocka_unit_test_setup_teardown(test_faults, table_setup, table_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
