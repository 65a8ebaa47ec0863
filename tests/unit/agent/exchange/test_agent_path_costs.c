/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What it costs to find the ways to hosts with many addresses, and to claim their GIDs. */
#include "paths_fixture.h"

#include <errno.h>
#include <stdio.h>

#include "fault.h"
#include "hostsint.h"

#define N_GIDS 128

/*
 * A host of pods: 64 addresses as v1 and v2, each in a network of its own; we have 32 netdevs, on which @n_on_link of these
 * networks are
 */
static void host_of_pods(unsigned int n_on_link)
{
	struct md_host *host = calloc(1, sizeof(*host));

	view = calloc(1, sizeof(*view));
	assert_true(view && host);
	view->desc = md_desc_new(0, 0);
	view->onlinks = calloc(N_GIDS, sizeof(*view->onlinks));
	assert_non_null(view->onlinks);
	view->n_nets = 32;
	for (uint32_t n = 0; n < view->n_nets; n++)
		view->nets[n] = (struct md_net){.ifindex = n + 1, .running = true};
	host->id = peers_id(1);
	host->desc = md_desc_new(1, N_GIDS);
	host->desc->rails[0].flags = MV_RAIL_UP;
	host->desc->rails[0].link_layer = IBV_LINK_LAYER_ETHERNET;
	for (uint32_t g = 0; g < N_GIDS; g++) {
		char text[32];

		snprintf(text, sizeof(text), "10.%u.0.2", g / 2);
		host->desc->gids[g] = (struct mv_dir_gid){.gid = unit_gid(text), .index = g, .type = MV_GID_TYPE_ROCE_V2};
	}
	for (uint32_t i = 0; i < n_on_link; i++)
		view->onlinks[view->n_onlinks++] = (struct md_onlink){
			.ifindex = i % 32 + 1, .prefix = mv_gid_network(&host->desc->gids[2 * i].gid, 112), .prefix_len = 112};
	hosts.bytes += md_desc_bytes(host->desc);
	HASH_ADD(hh, hosts.by_id, id, sizeof(host->id), host);
	md_hosts_count(&hosts, host, 0);
	hosts.n++;
	claim_all();
}

static size_t find_counted(size_t max)
{
	union ibv_gid gid = unit_gid("10.0.0.2");
	struct md_endpoint ends[MD_PATHS_MAX];

	check_ways(&gid, max);
	n_walks = 0;
	return md_paths_find(view, &hosts, &map, &targets, &no_probes, &gid, ends, max);
}

/* One walk over our networks for each address, not for each entry of the GID table and netdev of ours. */
static void test_walks(void **state)
{
	(void)state;
	host_of_pods(32);
	assert_int_equal(find_counted(MD_PATHS_MAX), 32);
	assert_in_range(n_walks, 0, N_GIDS / 2);
}

/* None for the next message, until something is different. */
static void test_kept(void **state)
{
	union ibv_gid gid = unit_gid("10.0.0.2");

	(void)state;
	host_of_pods(32);
	view->number = 1;
	assert_int_equal(find_counted(MD_PATHS_MAX), 32);
	assert_int_equal(n_walks, 0);
	assert_int_equal(find_counted(16), 16);
	assert_int_equal(n_walks, 0);
	view->nets[3].running = false;
	view->number++;
	check_ways(&gid, MD_PATHS_MAX);
	assert_int_equal(find_counted(MD_PATHS_MAX), 31);
	assert_int_equal(n_walks, 0);
	/* That there are none, too. */
	view->n_onlinks = 0;
	view->number++;
	assert_int_equal(find_counted(MD_PATHS_MAX), 0);
	assert_int_equal(n_walks, 0);
}

static void test_kept_without_memory(void **state)
{
	(void)state;
	host_of_pods(32);
	view->number = 1;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		union ibv_gid gid = unit_gid("10.0.0.2");

		view->number++;
		check_ways(&gid, MD_PATHS_MAX);
		check_ways(&gid, MD_PATHS_MAX);
	});
}

static void test_walks_of_claims(void **state)
{
	(void)state;
	host_of_pods(32);
	hosts.by_id->sightings.list = calloc(1, sizeof(struct md_sighting));
	hosts.by_id->sightings.n = hosts.by_id->sightings.cap = 1;
	n_walks = 0;
	claim_all();
	assert_in_range(n_walks, 1, N_GIDS / 2);
}

/* A beacon that tells nothing new of GIDs or links costs none, whatever else it says. */
static void test_walks_of_claims_again(void **state)
{
	struct md_host *host;

	(void)state;
	host_of_pods(32);
	view->number = 1;
	host = hosts.by_id;
	host->sightings.list = calloc(2, sizeof(struct md_sighting));
	assert_non_null(host->sightings.list);
	host->sightings.n = host->sightings.cap = 2;
	host->sightings.list[0].ifindex = host->sightings.list[1].ifindex = view->nets[0].ifindex;
	claim_all();
	n_walks = 0;
	host->sightings.list[0].start = 7;
	host->sightings.list[1].rail = 7;
	claim_all();
	assert_int_equal(n_walks, 0);
	host->sightings.list[1].ifindex = view->nets[1].ifindex;
	claim_all();
	assert_int_not_equal(n_walks, 0);
	n_walks = 0;
	claim_all();
	assert_int_equal(n_walks, 0);
	view->number = 2;
	claim_all();
	assert_int_not_equal(n_walks, 0);
}

/* Nor any when there is no more room. */
static void test_walks_while_there_is_room(void **state)
{
	union ibv_gid gid = unit_gid("10.0.0.2");

	(void)state;
	host_of_pods(64);
	/* Each of the networks is on a second netdev, too. */
	for (size_t i = 0; i < 64; i++) {
		view->onlinks[64 + i] = view->onlinks[i];
		view->onlinks[64 + i].ifindex = (view->onlinks[i].ifindex + 7) % 32 + 1;
	}
	view->n_onlinks = 128;
	assert_int_equal(find_counted(MD_PATHS_MAX), MD_PATHS_MAX);
	assert_int_equal(n_walks, MD_PATHS_MAX / 2);
	/* Nor when it is heard in as many places. */
	hosts.by_id->sightings.list = calloc(32, sizeof(struct md_sighting));
	hosts.by_id->sightings.n = hosts.by_id->sightings.cap = 32;
	for (uint32_t i = 0; i < 32; i++)
		hosts.by_id->sightings.list[i] = (struct md_sighting){.ip = md_paths_ip(&gid), .ifindex = i + 1};
	assert_int_equal(find_counted(32), 32);
	assert_int_equal(n_walks, 0);
}

/* Each of eight rails hears each of the host's eight: all these pairs are considered, and one that is known otherwise. */
static void test_eight_rails(void **state)
{
	struct md_endpoint ends[MD_PATHS_MAX];
	union ibv_gid gid = unit_gid("10.0.0.2");
	struct md_host *host;

	(void)state;
	host_of_pods(1);
	host = hosts.by_id;
	host->sightings.list = calloc(64, sizeof(struct md_sighting));
	assert_non_null(host->sightings.list);
	host->sightings.n = host->sightings.cap = 64;
	for (uint32_t i = 0; i < 64; i++) {
		char text[32];
		union ibv_gid rail;

		snprintf(text, sizeof(text), "fe80::%x", 1 + i % 8);
		rail = unit_gid(text);
		host->sightings.list[i] = (struct md_sighting){.ip = md_paths_ip(&rail), .ifindex = 1 + i / 8};
	}
	claim_all();
	assert_int_equal(md_paths_find(view, &hosts, &map, &targets, &no_probes, &gid, ends, MD_PATHS_MAX), 65);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_walks, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_kept, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_kept_without_memory, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_walks_of_claims, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_walks_of_claims_again, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_walks_while_there_is_room, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_eight_rails, paths_setup, paths_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
