/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "hosts_fixture.h"

#include <string.h>

struct md_targets targets;
unsigned int n_asked;
struct md_view *view;
struct md_hosts hosts;
unsigned int n_left;
struct md_gidmap map;

bool ask(void *arg, const struct md_target *target)
{
	(void)arg;
	(void)target;
	n_asked++;
	return true;
}

uint64_t tick(uint64_t now_ns)
{
	return md_targets_tick(&targets, now_ns, ask, NULL);
}

void first_tries(uint64_t now_ns)
{
	for (int i = 1; i < MD_QUERY_TRIES; i++)
		tick(now_ns + i * MD_QUERY_RETRY_NS);
}

int reset_targets(void **state)
{
	(void)state;
	memset(&targets, 0, sizeof(targets));
	n_asked = 0;
	return 0;
}

int free_targets(void **state)
{
	(void)state;
	md_targets_fini(&targets);
	assert_int_equal(targets.n, 0);
	return 0;
}

struct md_target *use(const char *text, uint64_t account, uint64_t now_ns)
{
	union ibv_gid gid = unit_gid(text);
	struct md_target *target = md_targets_use(&targets, &gid, account, now_ns);

	assert_non_null(target);
	return target;
}

void grow(uint64_t account, uint32_t from, uint64_t now_ns)
{
	for (uint32_t i = 0; i < 5000; i++) {
		union ibv_gid gid = mv_gid_from_ipv4(htonl(from + i));

		assert_non_null(md_targets_use(&targets, &gid, account, now_ns));
	}
}

static void on_leaving(void *arg, const struct md_host *leaving)
{
	(void)arg;
	assert_non_null(leaving->desc);
	n_left++;
}

int table_setup(void **state)
{
	(void)state;
	memset(&hosts, 0, sizeof(hosts));
	hosts.self = peers_id(0);
	hosts.leaving = on_leaving;
	n_left = 0;
	return 0;
}

int table_teardown(void **state)
{
	(void)state;
	peers_fini(&hosts);
	return 0;
}

static void release(void *arg, const struct md_host *leaving)
{
	(void)arg;
	md_gidmap_release(&map, &leaving->id, leaving->desc);
}

int hosts_setup(void **state)
{
	table_setup(state);
	memset(&map, 0, sizeof(map));
	hosts.leaving = release;
	view = peers_view(OWN);
	return reset_targets(state);
}

int hosts_teardown(void **state)
{
	table_teardown(state);
	md_gidmap_fini(&map);
	md_view_free(view);
	return free_targets(state);
}

struct md_host *host(unsigned int n)
{
	struct mv_host_id id = peers_id(n);

	return md_hosts_find(&hosts, &id);
}

void tell(unsigned int n, uint64_t generation, const char *text)
{
	struct peer peer = {n, 1, generation, 5000, text};
	unsigned int changed;

	assert_int_equal(peers_tell(&hosts, &peer, "10.3.0.1", MD_S, &changed), 0);
	md_gidmap_claim(&map, host(n), view, &targets);
	md_gidmap_settle(&map, &hosts, view, &targets);
}
