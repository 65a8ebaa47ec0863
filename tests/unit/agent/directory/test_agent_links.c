/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Links of a host: the netdevs that its beacons come by, when their numbers change. */
#include "ctl.h"

#include <stdio.h>

#include "heardhosts.h"
#include "peers.h"

/* A beacon of host 1 without a description. */
static void sign_of_life(uint64_t start, uint64_t generation, uint32_t ifindex, uint16_t rail)
{
	struct md_heard heard = {.sender = peers_id(1), .start = start, .ifindex = ifindex};
	struct md_beacon beacon = {.rail = rail,
				   .agent_version = MV_CTL_VERSION,
				   .interval_ms = 1000,
				   .generation = generation,
				   .desc_bytes = 4,
				   .piece = MD_NO_PIECE};
	unsigned int changed;

	assert_int_equal(md_hosts_hear(&hosts, &heard, &beacon, MD_S, &changed), 0);
}

/* Return: our rails and the devices of host 1 that they are linked with, as "0-mlx5_1 1-mlx5_2". */
static const char *links(void)
{
	struct md_dir_build_from what = from();
	struct md_dir_build content;
	static char text[256];
	size_t len = 0;

	text[0] = '\0';
	assert_int_equal(md_dir_build_make(&what, MD_S, &content), 0);
	for (uint32_t local = 0; local < 2; local++)
		for (uint32_t remote = 2; remote < content.dir.n_rails; remote++)
			for (size_t i = 0; i < content.dir.n_links; i++)
				if (content.links[i].local_rail == local && content.links[i].remote_rail == remote)
					len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u-%s", len ? " " : "",
								local, content.rails[remote].device);
	md_dir_build_free(&content);
	return text;
}

#define RAIL_0 "rail mlx5_0; gid 10.3.0.2/24 v2;"
#define RAIL_1 "rail mlx5_1; gid 10.1.0.2/24 v2;"
#define RAIL_2 "rail mlx5_2; gid 10.2.0.2/24 v2;"

static void hear_both(void)
{
	hear(1, 1, RAIL_1 RAIL_2, 1, 0, MD_S);
	hear(1, 1, RAIL_1 RAIL_2, 2, 1, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* A new device comes before the others, so their rails get other numbers. Then the device goes. */
static void test_links_of_new_numbers(void **state)
{
	(void)state;
	hear_both();
	hear(1, 2, RAIL_0 RAIL_1 RAIL_2, 1, 1, MD_S);
	assert_string_equal(links(), "0-mlx5_1");
	hear(1, 2, RAIL_0 RAIL_1 RAIL_2, 2, 2, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	hear(1, 3, RAIL_1 RAIL_2, 2, 1, MD_S);
	assert_string_equal(links(), "1-mlx5_2");
	hear(1, 3, RAIL_1 RAIL_2, 1, 0, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* A device goes and comes back: `devlink dev reload`. */
static void test_links_of_reloaded(void **state)
{
	(void)state;
	hear_both();
	hear(1, 2, RAIL_2, 2, 0, MD_S);
	assert_string_equal(links(), "1-mlx5_2");
	hear(1, 3, RAIL_1 RAIL_2, 2, 1, MD_S);
	assert_string_equal(links(), "1-mlx5_2");
	hear(1, 3, RAIL_1 RAIL_2, 1, 0, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* A change that leaves the rails' numbers keeps all links, also while beacons are ahead of the description or behind it. */
static void test_links_stay(void **state)
{
	(void)state;
	hear_both();
	hear(1, 2, RAIL_1 "gid 10.1.0.3/24 v2;" RAIL_2, 1, 0, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	sign_of_life(1, 4, 1, 0);
	sign_of_life(1, 3, 2, 1);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	hear(1, 4, RAIL_1 RAIL_2, 1, 0, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	sign_of_life(1, 1, 2, 1);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* Beacons have the rail numbers of a description that has not come yet. */
static void test_links_ahead_of_description(void **state)
{
	(void)state;
	hear_both();
	sign_of_life(1, 2, 1, 1);
	sign_of_life(1, 2, 2, 2);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	tell(1, RAIL_1 RAIL_2, "10.7.0.1", MD_S); /* of an older generation: ignored */
	hear(1, 2, RAIL_0 RAIL_1 RAIL_2, 1, 1, MD_S);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	/* A beacon with the former numbers comes late. */
	sign_of_life(1, 1, 2, 1);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	sign_of_life(1, 1, 1, 0);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

/* Generations begin anew with each start. */
static void test_links_of_new_start(void **state)
{
	struct peer peer = {1, 2, 1, 1000, RAIL_0 RAIL_1 RAIL_2};
	unsigned int changed;

	(void)state;
	hear_both();
	assert_int_equal(peers_hear(&hosts, &peer, 1, 1, MD_S, &changed), 0);
	assert_string_equal(links(), "0-mlx5_1");
	assert_int_equal(peers_hear(&hosts, &peer, 2, 2, MD_S, &changed), 0);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
	/* One more start, with the same numbers. */
	peer.start = 3;
	assert_int_equal(peers_hear(&hosts, &peer, 1, 1, MD_S, &changed), 0);
	assert_string_equal(links(), "0-mlx5_1 1-mlx5_2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_links_of_new_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_of_reloaded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_ahead_of_description, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links_of_new_start, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
