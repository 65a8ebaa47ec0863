/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "ctl.h"
#include "peers.h"

#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "paths.h"
#include "topo.h"
#include "unit.h"

/* ---- random numbers --------------------------------------------------------------------------- */

/*
 * The same numbers in each run: which addresses share a group (md_hash64()) is not chance. SplitMix64 (G. Steele, D. Lea,
 * C. Flood, Fast Splittable Pseudorandom Number Generators, 2014).
 */
static uint64_t random_state;

static uint32_t next_random(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (uint32_t)(x >> 32);
}

static void fill_random(void *const buf, const size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)buf)[i] = (uint8_t)next_random();
}

static const char *random_name(void)
{
	return "the same numbers";
}

static struct randombytes_implementation same_numbers = {.implementation_name = random_name, .random = next_random, .buf = fill_random};

__attribute__((constructor)) static void use_same_numbers(void)
{
	randombytes_set_implementation(&same_numbers);
}

/* ---- descriptions ----------------------------------------------------------------------------- */

static uint8_t prefix_of(const union ibv_gid *gid, const char *len)
{
	return (uint8_t)(atoi(len) + (mv_gid_family(gid) == MV_FAMILY_IPV4 ? 96 : 0));
}

static void read_rail(struct mv_dir_rail *rail, char *words, uint32_t first_gid)
{
	char *word = strtok(words, " ");

	snprintf(rail->device, sizeof(rail->device), "%s", word);
	snprintf(rail->netdev, sizeof(rail->netdev), "net%c", word[strlen(word) - 1]);
	rail->rate_mbps = 100000;
	rail->mtu_bytes = 4096;
	rail->numa_node = -1;
	rail->port = 1;
	rail->link_layer = IBV_LINK_LAYER_ETHERNET;
	rail->flags = MV_RAIL_UP;
	rail->first_gid = first_gid;
	while ((word = strtok(NULL, " "))) {
		if (!strcmp(word, "down"))
			rail->flags &= (uint8_t)~MV_RAIL_UP;
		else if (!strcmp(word, "drained"))
			rail->flags |= MV_RAIL_DRAINED;
		else if (!strcmp(word, "excluded"))
			rail->flags |= MV_RAIL_EXCLUDED;
		else if (!strcmp(word, "ib"))
			rail->link_layer = IBV_LINK_LAYER_INFINIBAND;
		else
			fail_msg("rail: %s?", word);
	}
}

static void read_gid(struct mv_dir_gid *gid, char *words)
{
	char *address = strtok(words, " "), *type = strtok(NULL, " ");
	char *slash = strchr(address, '/');

	if (slash)
		*slash = '\0';
	gid->gid = unit_gid(address);
	gid->vlan_id = MV_VLAN_NONE;
	gid->type = strcmp(type, "v1") ? MV_GID_TYPE_ROCE_V2 : MV_GID_TYPE_ROCE_V1;
	if (!strcmp(type, "grace")) {
		gid->type = MV_GID_TYPE_UNKNOWN;
		gid->index = MV_DIR_INDEX_NONE;
	}
	if (slash)
		gid->prefix_len = prefix_of(&gid->gid, slash + 1);
}

struct md_desc *peers_desc(const char *text)
{
	struct md_desc *desc = md_desc_new(MD_RAILS_MAX, MD_GIDS_MAX), *exact;
	char *copy = strdup(text), *save;
	uint32_t rails = 0, gids = 0;

	assert_non_null(desc);
	for (char *s = strtok_r(copy, ";", &save); s; s = strtok_r(NULL, ";", &save)) {
		s += strspn(s, " ");
		if (!strncmp(s, "rail ", 5)) {
			read_rail(&desc->rails[rails++], s + 5, gids);
		} else if (!strncmp(s, "gid ", 4)) {
			read_gid(&desc->gids[gids], s + 4);
			desc->gids[gids].rail = rails - 1;
			if (!mv_dir_gid_in_grace(&desc->gids[gids]))
				desc->gids[gids].index = desc->rails[rails - 1].n_gids;
			desc->rails[rails - 1].n_gids++;
			gids++;
		} else if (*s) {
			fail_msg("%s?", s);
		}
	}
	free(copy);
	exact = md_desc_new(rails, gids);
	assert_non_null(exact);
	if (rails)
		memcpy(exact->rails, desc->rails, rails * sizeof(*exact->rails));
	if (gids)
		memcpy(exact->gids, desc->gids, gids * sizeof(*exact->gids));
	free(desc);
	return exact;
}

struct md_view *peers_view(const char *text)
{
	struct md_view *view = calloc(1, sizeof(*view));

	assert_non_null(view);
	view->desc = peers_desc(text);
	view->onlinks = calloc(view->desc->n_gids + 1, sizeof(*view->onlinks));
	assert_non_null(view->onlinks);
	view->gid_ifindexes = calloc(view->desc->n_gids + 1, sizeof(*view->gid_ifindexes));
	assert_non_null(view->gid_ifindexes);
	for (uint32_t g = 0; g < view->desc->n_gids; g++)
		view->gid_ifindexes[g] = view->desc->gids[g].rail + 1;
	for (uint32_t r = 0; r < view->desc->n_rails; r++) {
		struct md_net *net = &view->nets[view->n_nets++];

		net->ifindex = view->rail_ifindexes[r] = r + 1;
		net->rail = r;
		net->running = net->has_ipv4 = net->has_ipv6 = true;
		memcpy(net->name, view->desc->rails[r].netdev, sizeof(net->name));
	}
	for (uint32_t g = 0; g < view->desc->n_gids; g++) {
		const struct mv_dir_gid *gid = &view->desc->gids[g];
		struct md_onlink *onlink = &view->onlinks[view->n_onlinks];

		if (!gid->prefix_len || mv_gid_family(&gid->gid) == MV_FAMILY_LINK_LOCAL)
			continue;
		onlink->ifindex = gid->rail + 1;
		onlink->prefix = mv_gid_network(&gid->gid, gid->prefix_len);
		onlink->prefix_len = gid->prefix_len;
		view->n_onlinks++;
	}
	return view;
}

struct mv_host_id peers_id(unsigned int n)
{
	struct mv_host_id id = {.bytes = {0xee}};

	memcpy(&id.bytes[8], &n, sizeof(n));
	return id;
}

static int hear(struct md_hosts *hosts, const struct peer *peer, struct md_heard *heard,
		uint16_t rail, uint64_t now_ns, unsigned int *ret_changed)
{
	static uint64_t counter;
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	struct md_desc *desc = peers_desc(peer->text);
	struct md_beacon beacon = {.rail = rail,
				   .agent_version = MV_CTL_VERSION,
				   .interval_ms = peer->interval_ms,
				   .generation = peer->generation};
	int rc = 0;

	beacon.desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	free(desc);
	snprintf(beacon.name, sizeof(beacon.name), "host%u", peer->n);
	heard->sender = peers_id(peer->n);
	heard->start = peer->start;
	*ret_changed = 0;
	for (unsigned int i = 0; i < md_beacon_pieces(beacon.desc_bytes) && !rc; i++) {
		unsigned int changed = 0;

		md_beacon_cut(&beacon, bytes, (uint8_t)i);
		heard->counter = ++counter;
		rc = md_hosts_hear(hosts, heard, &beacon, now_ns, &changed);
		*ret_changed |= rc ? 0 : changed;
	}
	return rc;
}

int peers_hear(struct md_hosts *hosts, const struct peer *peer, uint32_t ifindex, uint16_t rail,
	       uint64_t now_ns, unsigned int *changed)
{
	struct md_heard heard = {.ifindex = ifindex};
	char text[64];
	union ibv_gid ip;

	snprintf(text, sizeof(text), "fe80::%x:%x:%x", peer->n >> 16, peer->n & 0xffff, rail);
	ip = unit_gid(text);
	heard.ip = md_paths_ip(&ip);
	return hear(hosts, peer, &heard, rail, now_ns, changed);
}

int peers_tell(struct md_hosts *hosts, const struct peer *peer, const char *address,
	       uint64_t now_ns, unsigned int *changed)
{
	union ibv_gid ip = unit_gid(address);
	struct md_heard heard = {.ip = md_paths_ip(&ip), .answer = true};

	return hear(hosts, peer, &heard, MD_NO_RAIL, now_ns, changed);
}

void peers_fini(struct md_hosts *hosts)
{
	md_hosts_fini(hosts);
	assert_int_equal(hosts->n, 0);
	assert_int_equal(hosts->n_partial, 0);
	assert_int_equal(hosts->bytes, 0);
	for (unsigned int share = 0; share < MD_HOSTS_SHARES; share++)
		assert_int_equal(hosts->shares[share].n_sightings, 0);
	for (unsigned int list = 0; list < 2 * MD_HOSTS_SHARES + MD_WANTERS; list++) {
		unsigned int w = list - 2 * MD_HOSTS_SHARES;
		const struct md_hosts_list *of = list < 2 * MD_HOSTS_SHARES ? &hosts->shares[list / 2].of[list % 2] : &hosts->wanters[w].list;

		assert_true(list >= 2 * MD_HOSTS_SHARES || !hosts->shares[list / 2].all[list % 2].n);
		assert_true(!of->hosts && !of->described && !of->n && !of->bytes && !of->charge);
		assert_true(list < 2 * MD_HOSTS_SHARES || !hosts->wanters[w].n);
	}
}
