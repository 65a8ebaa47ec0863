// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The slot rules of a GID table: which index an address gets, loses, and gets back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gid_table.h"

#define ETH  11
#define VLAN 12

static const struct gid_owner eth = {ETH, SIM_NO_VLAN, {0x02, 0x6d, 0x76, 0, 1, 0}};
static const struct gid_owner vlan7 = {VLAN, 7, {0x02, 0x6d, 0x76, 0, 1, 0}};
static bool referred[SIM_MAX_GIDS];

static bool is_referred(void *arg, uint32_t index)
{
	(void)arg;
	return referred[index];
}

static uint8_t *ip(uint8_t last)
{
	static uint8_t raw[16];
	uint8_t addr[4] = {10, 1, 0, last};

	gid_from_ipv4(raw, addr);
	return raw;
}

/* The index at which (address, type) is, -1 if nowhere; fails if it is there twice. */
static int where(const struct gid_table *t, const uint8_t raw[16], uint32_t ifindex, uint8_t type)
{
	int found = -1;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct sim_gid *g = &t->gids[i];

		if (g->type == type && g->ifindex == ifindex && !memcmp(g->raw, raw, 16)) {
			assert_int_equal(found, -1);
			found = (int)i;
		}
	}
	return found;
}

static void assert_at(const struct gid_table *t, const uint8_t raw[16], uint32_t ifindex, int v1,
		      int v2)
{
	assert_int_equal(where(t, raw, ifindex, SIM_GID_ROCE_V1), v1);
	assert_int_equal(where(t, raw, ifindex, SIM_GID_ROCE_V2), v2);
}

static int setup(void **state)
{
	struct gid_table *t = malloc(sizeof(*t));

	memset(referred, 0, sizeof(referred));
	gid_table_init(t, 16);
	t->in_use = is_referred;
	gid_table_set_default(t, &eth);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void test_pairs_in_order(void **state)
{
	struct gid_table *t = *state;
	uint8_t fe80[16];

	gid_link_local(fe80, eth.mac);
	assert_at(t, fe80, ETH, 0, 1);
	assert_int_equal(gid_table_add(t, ip(1), &eth), 0);
	assert_at(t, ip(1), ETH, 2, 3);
	assert_int_equal(gid_table_add(t, ip(2), &eth), 0);
	assert_at(t, ip(2), ETH, 4, 5);
}

static void test_default_gid_is_the_eui64_of_the_mac(void **state)
{
	static const uint8_t expected[16] = {0xfe, 0x80, 0,    0,    0,    0,    0,    0,
					     0x0c, 0x42, 0xa1, 0xff, 0xfe, 0x12, 0x34, 0x56};
	static const uint8_t mac[6] = {0x0e, 0x42, 0xa1, 0x12, 0x34, 0x56};
	uint8_t raw[16];

	(void)state;
	gid_link_local(raw, mac);
	assert_memory_equal(raw, expected, 16);
}

static void test_adding_twice_changes_nothing(void **state)
{
	struct gid_table *t = *state;

	gid_table_add(t, ip(1), &eth);
	memset(t->changed, 0, sizeof(t->changed));
	assert_int_equal(gid_table_add(t, ip(1), &eth), 0);
	gid_table_set_default(t, &eth);
	for (uint32_t i = 0; i < t->n; i++)
		assert_int_equal(t->changed[i], 0);
	assert_at(t, ip(1), ETH, 2, 3);
}

static void test_changes_are_marked(void **state)
{
	struct gid_table *t = *state;

	memset(t->changed, 0, sizeof(t->changed));
	gid_table_add(t, ip(1), &eth);
	for (uint32_t i = 0; i < t->n; i++)
		assert_int_equal(t->changed[i], i == 2 || i == 3);
	memset(t->changed, 0, sizeof(t->changed));
	gid_table_del(t, ip(1), &eth);
	for (uint32_t i = 0; i < t->n; i++)
		assert_int_equal(t->changed[i], i == 2 || i == 3);
}

static void test_readded_address_takes_the_first_free_slots(void **state)
{
	struct gid_table *t = *state;

	gid_table_add(t, ip(1), &eth);
	gid_table_add(t, ip(2), &eth);
	gid_table_del(t, ip(1), &eth);
	assert_at(t, ip(1), ETH, -1, -1);
	gid_table_add(t, ip(1), &eth);
	assert_at(t, ip(1), ETH, 2, 3);
	gid_table_del(t, ip(1), &eth);
	gid_table_add(t, ip(3), &eth);
	gid_table_add(t, ip(1), &eth);
	assert_at(t, ip(3), ETH, 2, 3);
	assert_at(t, ip(1), ETH, 6, 7);
}

static void test_a_flap_under_a_connection_moves_the_index(void **state)
{
	struct gid_table *t = *state;

	gid_table_add(t, ip(1), &eth);
	referred[2] = referred[3] = true;
	gid_table_del(t, ip(1), &eth);
	assert_at(t, ip(1), ETH, -1, -1);
	gid_table_add(t, ip(1), &eth);
	assert_at(t, ip(1), ETH, 4, 5);
	referred[2] = referred[3] = false;
	gid_table_add(t, ip(2), &eth);
	assert_at(t, ip(2), ETH, 2, 3);
}

static void test_a_reference_to_one_of_the_pair_parts_it(void **state)
{
	struct gid_table *t = *state;

	gid_table_add(t, ip(1), &eth);
	referred[3] = true;
	gid_table_del(t, ip(1), &eth);
	gid_table_add(t, ip(1), &eth);
	assert_at(t, ip(1), ETH, 2, 4);
}

static void test_a_late_reference_does_not_keep_a_free_slot(void **state)
{
	struct gid_table *t = *state;

	gid_table_add(t, ip(1), &eth);
	gid_table_del(t, ip(1), &eth);
	/* ib_core cannot get here: a reference is taken on a valid entry only. The slot was free,
	 * so it is taken. */
	referred[2] = true;
	gid_table_add(t, ip(1), &eth);
	assert_at(t, ip(1), ETH, 2, 3);
}

static void test_default_slots_are_for_the_default_gid(void **state)
{
	struct gid_table *t = *state;
	uint8_t fe80[16], private[16] = {0xfe, 0x80, [15] = 9};

	/* The address that the kernel gives the netdev is the default GID already. */
	gid_link_local(fe80, eth.mac);
	gid_table_add(t, fe80, &eth);
	assert_at(t, fe80, ETH, 0, 1);
	/* It goes with ip link set down, the default GID stays. */
	gid_table_del(t, fe80, &eth);
	assert_at(t, fe80, ETH, 0, 1);
	gid_table_add(t, private, &eth);
	assert_at(t, private, ETH, 2, 3);
	gid_table_del_netdev(t, ETH);
	gid_table_add(t, ip(1), &eth);
	assert_at(t, ip(1), ETH, 2, 3);
}

static void test_vlans_have_entries_of_their_own(void **state)
{
	struct gid_table *t = *state;
	uint8_t fe80[16];

	gid_link_local(fe80, eth.mac);
	gid_table_add(t, fe80, &vlan7);
	gid_table_add(t, ip(1), &vlan7);
	gid_table_add(t, ip(1), &eth);
	assert_at(t, fe80, VLAN, 2, 3);
	assert_at(t, ip(1), VLAN, 4, 5);
	assert_at(t, ip(1), ETH, 6, 7);
	assert_int_equal(t->gids[4].vlan_id, 7);
	assert_int_equal(t->gids[6].vlan_id, SIM_NO_VLAN);
	gid_table_del(t, ip(1), &vlan7);
	assert_at(t, ip(1), VLAN, -1, -1);
	assert_at(t, ip(1), ETH, 6, 7);
	gid_table_del_netdev(t, VLAN);
	assert_at(t, fe80, VLAN, -1, -1);
	assert_at(t, fe80, ETH, 0, 1);
}

static void test_a_new_mac_address(void **state)
{
	struct gid_table *t = *state;
	struct gid_owner renewed = eth;
	uint8_t fe80[16];

	renewed.mac[5] = 0x77;
	gid_table_add(t, ip(1), &eth);
	gid_table_del_netdev(t, ETH);
	gid_table_set_default(t, &renewed);
	gid_table_add(t, ip(1), &renewed);
	gid_link_local(fe80, renewed.mac);
	assert_at(t, fe80, ETH, 0, 1);
	assert_at(t, ip(1), ETH, 2, 3);
	assert_int_equal(t->gids[3].mac[5], 0x77);
	/* Entries that are there stay, whatever MAC address they were formed from. */
	gid_table_set_default(t, &eth);
	assert_at(t, fe80, ETH, 0, 1);
}

static void test_a_full_table(void **state)
{
	struct gid_table *t = *state;

	for (uint8_t i = 1; i <= 7; i++)
		assert_int_equal(gid_table_add(t, ip(i), &eth), 0);
	assert_at(t, ip(7), ETH, 14, 15);
	assert_int_equal(gid_table_add(t, ip(8), &eth), -ENOSPC);
	assert_at(t, ip(8), ETH, -1, -1);
	gid_table_init(t, 5);
	assert_int_equal(gid_table_add(t, ip(1), &eth), 0);
	assert_int_equal(gid_table_add(t, ip(2), &eth), -ENOSPC);
	assert_at(t, ip(2), ETH, 4, -1);
}

static void test_the_zero_gid_is_refused(void **state)
{
	static const uint8_t zero[16];

	assert_int_equal(gid_table_add(*state, zero, &eth), -EINVAL);
	assert_int_equal(where(*state, zero, ETH, SIM_GID_ROCE_V1), -1);
}

/* Whatever happens: an address has one entry of each type while it is there, none afterwards, at
 * the lowest free index. */
static void test_any_sequence(void **state)
{
	unsigned int seed = (unsigned int)time(NULL);
	struct gid_table *t = *state;
	bool there[5] = {false};

	print_message("seed %u\n", seed);
	srand(seed);
	for (int step = 0; step < 20000; step++) {
		uint8_t which = (uint8_t)(rand() % 5);
		bool add = rand() & 1;

		for (uint32_t i = 2; i < t->n; i++)
			if (t->use[i] == GID_SLOT_VALID && rand() % 8 == 0)
				referred[i] = !referred[i];
			else if (t->use[i] == GID_SLOT_PENDING && rand() % 2)
				referred[i] = false;
		if (add) {
			int err = gid_table_add(t, ip(which), &eth);

			assert_true(err == 0 || err == -ENOSPC);
			there[which] = there[which] || !err;
			if (err)
				gid_table_del(t, ip(which), &eth);
		} else {
			gid_table_del(t, ip(which), &eth);
			there[which] = false;
		}
		for (uint8_t a = 0; a < 5; a++) {
			bool v1 = where(t, ip(a), ETH, SIM_GID_ROCE_V1) >= (int)t->n_default;
			bool v2 = where(t, ip(a), ETH, SIM_GID_ROCE_V2) >= (int)t->n_default;

			assert_int_equal(v1, there[a]);
			assert_int_equal(v2, there[a]);
		}
		for (uint32_t i = 0; i < t->n; i++)
			assert_int_equal(t->use[i] == GID_SLOT_VALID,
					 t->gids[i].type != SIM_GID_NONE);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_pairs_in_order),
		TEST(test_default_gid_is_the_eui64_of_the_mac),
		TEST(test_adding_twice_changes_nothing),
		TEST(test_changes_are_marked),
		TEST(test_readded_address_takes_the_first_free_slots),
		TEST(test_a_flap_under_a_connection_moves_the_index),
		TEST(test_a_reference_to_one_of_the_pair_parts_it),
		TEST(test_a_late_reference_does_not_keep_a_free_slot),
		TEST(test_default_slots_are_for_the_default_gid),
		TEST(test_vlans_have_entries_of_their_own),
		TEST(test_a_new_mac_address),
		TEST(test_a_full_table),
		TEST(test_the_zero_gid_is_refused),
		TEST(test_any_sequence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
