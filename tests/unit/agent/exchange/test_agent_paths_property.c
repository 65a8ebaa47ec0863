/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ways to hosts with many addresses: those that a plain search finds, in its order. Hosts, netdevs and networks are
 * made at random out of few numbers, so that all sorts of things coincide.
 */
#include "paths_fixture.h"

#include <stdio.h>
#include <string.h>

#include "hostsint.h"

/* A round takes eight times as long under AddressSanitizer and thirty times as long under ThreadSanitizer, which has one thread to watch. */
#if defined(__SANITIZE_THREAD__)
#define ROUNDS 100
#elif defined(__SANITIZE_ADDRESS__)
#define ROUNDS 500
#else
#define ROUNDS 3000
#endif

static unsigned int seed;

static unsigned int below(unsigned int n)
{
	/* Numerical Recipes' generator: the same everywhere. */
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

static union ibv_gid any_gid(void)
{
	char text[64];

	switch (below(8)) {
	case 0:
		snprintf(text, sizeof(text), "fe80::%x", 1 + below(4));
		break;
	case 1:
	case 2:
		snprintf(text, sizeof(text), "2001:db8:%x::%x", below(4), 1 + below(30));
		break;
	default:
		snprintf(text, sizeof(text), "10.%u.%u.%u", below(3), below(3), 1 + below(30));
		break;
	}
	return unit_gid(text);
}

static uint8_t any_prefix_len(const union ibv_gid *gid)
{
	static const uint8_t lengths[] = {0, 8, 16, 24, 31, 32};

	if (mv_gid_family(gid) == MV_FAMILY_IPV4)
		return (uint8_t)(96 + lengths[below(6)]);
	return (uint8_t)(below(4) * 32); /* also those that would take mapped addresses in */
}

static struct md_desc *any_desc(uint32_t n_rails, uint32_t n_gids)
{
	struct md_desc *desc = md_desc_new(n_rails, n_gids);

	assert_non_null(desc);
	for (uint32_t r = 0; r < n_rails; r++) {
		desc->rails[r].flags = below(5) ? MV_RAIL_UP : 0;
		desc->rails[r].link_layer = below(9) ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	}
	for (uint32_t g = 0; g < n_gids; g++) {
		struct mv_dir_gid *gid = &desc->gids[g];

		gid->gid = g && below(2) ? desc->gids[g - 1].gid : any_gid();
		gid->rail = below(n_rails);
		gid->vlan_id = MV_VLAN_NONE;
		gid->index = g;
		gid->type = MV_GID_TYPE_ROCE_V2;
		if (!below(6)) {
			gid->type = MV_GID_TYPE_UNKNOWN;
			gid->index = MV_DIR_INDEX_NONE;
		}
	}
	return desc;
}

static void any_view(void)
{
	unsigned int first, n_nets;

	view = calloc(1, sizeof(*view));
	assert_non_null(view);
	view->desc = any_desc(2, below(6));
	first = below(4) ? 0 : 60; /* netdevs of another sort, so that a set of them takes more than a word */
	n_nets = below(8);
	view->n_nets = first + n_nets;
	view->n_onlinks = n_nets ? below(24) : 0;
	view->onlinks = calloc(view->n_onlinks + 1, sizeof(*view->onlinks));
	assert_non_null(view->onlinks);
	for (unsigned int n = 0; n < first; n++)
		view->nets[n].ifindex = 100 + n;
	for (unsigned int n = 0; n < n_nets; n++) {
		view->nets[first + n].ifindex = 1 + n * 3 % 8;
		view->nets[first + n].running = below(5);
	}
	for (size_t i = 0; i < view->n_onlinks; i++) {
		struct md_onlink *onlink = &view->onlinks[i];
		union ibv_gid gid = any_gid();

		/* As the kernel tells of them: those of one netdev together, as a rule. */
		onlink->ifindex = i && below(3) ? onlink[-1].ifindex : view->nets[first + below(n_nets)].ifindex;
		onlink->prefix_len = any_prefix_len(&gid);
		onlink->prefix = mv_gid_network(&gid, onlink->prefix_len);
	}
}

static void any_sightings(struct md_host *host)
{
	host->sightings.n = host->sightings.cap = below(4) ? below(12) : 0;
	host->sightings.list = calloc(host->sightings.n + 1, sizeof(*host->sightings.list));
	assert_non_null(host->sightings.list);
	for (size_t i = 0; i < host->sightings.n; i++) {
		union ibv_gid gid = any_gid();

		host->sightings.list[i].ip = md_paths_ip(&gid);
		host->sightings.list[i].ifindex = 1 + below(10); /* also netdevs that are not ours any more */
	}
}

static void any_hosts(void)
{
	for (unsigned int n = 1 + below(3); n; n--) {
		struct md_host *host = calloc(1, sizeof(*host));

		assert_non_null(host);
		host->id = peers_id(n);
		host->start = 1;
		host->bundles.start = below(2);
		any_sightings(host);
		if (below(9)) {
			host->desc = any_desc(1 + below(3), below(120));
			hosts.bytes += md_desc_bytes(host->desc);
		}
		HASH_ADD(hh, hosts.by_id, id, sizeof(host->id), host);
		hosts.n++;
		md_hosts_count(&hosts, host, 0);
	}
}

static void any_targets(void)
{
	for (unsigned int n = below(6); n; n--) {
		union ibv_gid gid = any_gid();
		struct md_target *target = md_targets_use(&targets, &gid, 0, MD_S);

		if (!target)
			continue;
		target->host = peers_id(1 + below(3));
		target->answered_ns = below(2);
		target->silent_since_ns = !below(4);
		if (below(2))
			strcpy(target->name, "x");
	}
}

static void any_world(void)
{
	any_view();
	any_hosts();
	any_targets();
	claim_all();
}

/* Return: how many of them had as many ways as there is room for. */
static unsigned int check_all_ways(void)
{
	unsigned int n_full = 0;
	struct md_holder *holder, *next;

	HASH_ITER(hh, map.by_gid, holder, next)
	{
		struct md_endpoint ends[MD_PATHS_MAX];

		check_ways(&holder->gid, MD_PATHS_MAX);
		check_ways(&holder->gid, below(MD_PATHS_MAX));
		n_full += md_paths_find(view, &hosts, &map, &targets, &no_probes, &holder->gid, ends, MD_PATHS_MAX) == MD_PATHS_MAX;
	}
	return n_full;
}

static void test_ways(void **state)
{
	unsigned int n_full = 0;

	(void)state;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		struct md_view *old;

		seed = round;
		any_world();
		view->number = below(3);
		n_full += check_all_ways();
		/* What hosts have kept is of no use now. */
		old = view;
		any_view();
		view->number = old->number + 1;
		n_full += check_all_ways();
		md_view_free(old);
		forget_all();
	}
	assert_int_not_equal(n_full, 0);
}

static enum md_evidence plain_evidence(const struct md_host *host, const union ibv_gid *gid)
{
	const struct md_target *target = md_targets_find(&targets, gid);

	if (target && target->answered_ns && !memcmp(&target->host, &host->id, sizeof(host->id)))
		return target->name[0] ? MD_EVIDENCE_FILE : MD_EVIDENCE_ON_LINK;
	if (!host->sightings.n)
		return MD_EVIDENCE_TOLD;
	for (size_t i = 0; i < host->sightings.n; i++)
		if (plain_on_link(host->sightings.list[i].ifindex, gid))
			return MD_EVIDENCE_ON_LINK;
	return MD_EVIDENCE_HEARD;
}

static void test_evidence(void **state)
{
	unsigned int n[MD_EVIDENCE_OWN + 1] = {0};

	(void)state;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		struct md_holder *holder, *next;

		seed = round;
		any_world();
		HASH_ITER(hh, map.by_gid, holder, next)
		{
			if (mv_gid_family(&holder->gid) == MV_FAMILY_LINK_LOCAL)
				continue;
			assert_true(holder->in_grace || !md_view_has_gid(view, &holder->gid));
			assert_int_equal(holder->evidence,
					 plain_evidence(md_hosts_find(&hosts, &holder->hosts[0]), &holder->gid));
			n[holder->evidence]++;
		}
		forget_all();
	}
	assert_true(n[MD_EVIDENCE_FILE] && n[MD_EVIDENCE_TOLD] && n[MD_EVIDENCE_ON_LINK] && n[MD_EVIDENCE_HEARD]);
}

/* Each entry by itself, so that none is as the one before it. */
static void plain_claim(struct md_gidmap *plain, const struct md_host *host)
{
	struct md_host one = *host;

	for (uint32_t g = 0; host->desc && g < host->desc->n_gids; g++) {
		one.desc = &(struct md_desc){.n_rails = host->desc->n_rails,
					     .n_gids = 1,
					     .rails = host->desc->rails,
					     .gids = &host->desc->gids[g]};
		md_gidmap_claim(plain, &one, view, &targets);
	}
}

static void check_claims(struct md_gidmap *plain)
{
	struct md_holder *holder, *next;

	assert_int_equal(HASH_COUNT(map.by_gid), HASH_COUNT(plain->by_gid));
	assert_int_equal(!map.n_contested, !plain->n_contested);
	HASH_ITER(hh, map.by_gid, holder, next)
	{
		const struct md_holder *other = md_gidmap_find(plain, &holder->gid);

		assert_non_null(other);
		assert_int_equal(holder->n, other->n);
		assert_memory_equal(holder->hosts, other->hosts, holder->n * sizeof(holder->hosts[0]));
		assert_int_equal(holder->in_grace, other->in_grace);
		assert_true(holder->evidence == other->evidence);
	}
}

static void test_claims(void **state)
{
	(void)state;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		struct md_gidmap plain = {0};
		struct md_host *host, *next;

		seed = round;
		any_world();
		HASH_ITER(hh, hosts.by_id, host, next)
		plain_claim(&plain, host);
		check_claims(&plain);
		md_gidmap_fini(&plain);
		forget_all();
	}
}

static uint32_t dead; /* bit per ifindex */

static bool runs(void *arg, const struct md_net *net)
{
	(void)arg;
	return net->ifindex >= 32 || !(dead >> net->ifindex & 1);
}

static uint32_t route(void *arg, const struct in6_addr *to)
{
	(void)arg;
	(void)to;
	return 1;
}

/* By what may it leave of those whose network it is in? -1: by none; 0: as routes say */
static int plain_leave(const union ibv_gid *gid, bool *ret_on_link)
{
	uint32_t down = 0, other = 0;

	for (size_t n = 0; n < view->n_nets; n++)
		if (plain_on_link(view->nets[n].ifindex, gid))
			*(runs(NULL, &view->nets[n]) ? &other : &down) = view->nets[n].ifindex;
	*ret_on_link = down || other;
	return down ? (other ? (int)other : -1) : 0;
}

static void test_leaves(void **state)
{
	static const struct md_paths_ops ops = {runs, route};

	(void)state;
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		seed = round;
		any_view();
		dead = below(256);
		for (int i = 0; i < 8; i++) {
			union ibv_gid gid = any_gid();
			struct in6_addr ip = md_paths_ip(&gid);
			uint32_t ifindex = 0;
			bool is_on_link, leaves = md_paths_leave(view, &ops, NULL, &ip, &ifindex);
			int plain = plain_leave(&gid, &is_on_link);

			if (is_on_link)
				assert_int_equal(leaves ? (int)ifindex : -1, plain);
		}
		forget_all();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ways, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_evidence, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_claims, paths_setup, paths_teardown),
		cmocka_unit_test_setup_teardown(test_leaves, paths_setup, paths_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
