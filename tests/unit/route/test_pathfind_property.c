/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What mv_path_find() promises for any directory: exactly the paths that one finds who looks at every pair of GIDs, in the order that
 * pathfind.h says; and with hundreds of GIDs a port it takes no look at every pair. The seed is printed; MESHVERBS_TEST_SEED=n repeats
 * a run. Addresses come from a small set, so that random hosts have much in common.
 */
#include "ctl.h"
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pathfind.h"
#include "random.h"
#include "topo.h"

#define ROUNDS    20000
#define MAX_HOSTS 3
#define MAX_RAILS 24
#define MAX_GIDS  2048
#define MAX_LINKS 64

static struct world {
	struct mv_dir_host hosts[MAX_HOSTS];
	struct mv_dir_rail rails[MAX_RAILS];
	struct mv_dir_gid gids[MAX_GIDS];
	struct mv_dir_link links[MAX_LINKS];
	struct mv_dir_content content;
	struct mv_dir_header *image;
	struct mv_directory dir;
} world;

static unsigned int n_looks;
enum mv_gid_family __real_mv_gid_family(const union ibv_gid *gid);
enum mv_gid_family __wrap_mv_gid_family(const union ibv_gid *gid);
bool __real_mv_gid_in_prefix(const union ibv_gid *gid, const union ibv_gid *prefix, unsigned int prefix_len);
bool __wrap_mv_gid_in_prefix(const union ibv_gid *gid, const union ibv_gid *prefix, unsigned int prefix_len);

enum mv_gid_family __wrap_mv_gid_family(const union ibv_gid *gid)
{
	n_looks++;
	return __real_mv_gid_family(gid);
}

bool __wrap_mv_gid_in_prefix(const union ibv_gid *gid, const union ibv_gid *prefix, unsigned int prefix_len)
{
	n_looks++;
	return __real_mv_gid_in_prefix(gid, prefix, prefix_len);
}

/* ---- directories ----------------------------------------------------------------------------------------------- */

static void empty_world(void)
{
	memset(&world, 0, sizeof(world));
	world.content = (struct mv_dir_content){
		.hosts = world.hosts, .rails = world.rails, .gids = world.gids, .links = world.links};
}

static void add_host(void)
{
	struct mv_dir_host *host = &world.hosts[world.content.n_hosts];

	*host = (struct mv_dir_host){.first_rail = (uint32_t)world.content.n_rails, .agent_version = MV_CTL_VERSION};
	host->id.bytes[0] = (uint8_t)++world.content.n_hosts;
}

static struct mv_dir_rail *add_rail(void)
{
	struct mv_dir_rail *rail = &world.rails[world.content.n_rails++];
	uint32_t host = (uint32_t)world.content.n_hosts - 1;

	*rail = (struct mv_dir_rail){.host = host,
				     .first_gid = (uint32_t)world.content.n_gids,
				     .rate_mbps = 100000,
				     .mtu_bytes = 4096,
				     .port = 1,
				     .link_layer = IBV_LINK_LAYER_ETHERNET,
				     .flags = MV_RAIL_UP};
	snprintf(rail->device, sizeof(rail->device), "d%u", world.hosts[host].n_rails++);
	return rail;
}

static struct mv_dir_gid *add_gid(const union ibv_gid *value, uint8_t type, uint8_t prefix_len)
{
	struct mv_dir_rail *rail = &world.rails[world.content.n_rails - 1];
	struct mv_dir_gid *gid = &world.gids[world.content.n_gids++];

	*gid = (struct mv_dir_gid){.gid = *value,
				   .rail = (uint32_t)world.content.n_rails - 1,
				   .index = rail->n_gids++,
				   .vlan_id = MV_VLAN_NONE,
				   .type = type,
				   .prefix_len = prefix_len};
	return gid;
}

static void build_world(void)
{
	assert_int_equal(mv_directory_build(&world.content, 1, 42, 1000, &world.image), 0);
	assert_int_equal(mv_directory_check(world.image, world.image->size_bytes, &world.dir), 0);
}

#define PICK(array) ((array)[rnd(sizeof(array) / sizeof((array)[0]))])

static const char *const addresses[] = {
	"10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.1.1", "10.1.1.2", "10.2.0.1", "10.2.0.2", "192.0.2.1", "2001:db8::1", "2001:db8::2",
	"2001:db8:1::1", "2001:db8:1::2", "fe80::1", "fe80::2", "fe80::3", "fe80:1::4", "fec0:0:0:1::1", "fec0:0:0:1::2", "ff0e::1", "224.1.1.1",
};

static union ibv_gid random_address(void)
{
	return unit_gid(PICK(addresses));
}

static void random_gid(bool ib)
{
	static const uint8_t ipv4_lengths[] = {0, 0, 112, 120, 120, 120, 127, 128, 96, 10}, ipv6_lengths[] = {0, 0, 10, 33, 48, 64, 64, 65, 128};
	static const uint8_t types[] = {MV_GID_TYPE_ROCE_V2, MV_GID_TYPE_ROCE_V2, MV_GID_TYPE_ROCE_V1, MV_GID_TYPE_UNKNOWN};
	const union ibv_gid address = random_address();
	uint8_t prefix_len = __real_mv_gid_family(&address) == MV_FAMILY_IPV4 ? PICK(ipv4_lengths) : PICK(ipv6_lengths);
	struct mv_dir_gid *gid = add_gid(&address, ib ? MV_GID_TYPE_IB : PICK(types), prefix_len);

	if (chance(15))
		gid->vlan_id = 7;
	if (chance(40) && gid->type == MV_GID_TYPE_UNKNOWN)
		gid->index = MV_DIR_INDEX_NONE;
}

static void random_rail(void)
{
	static const uint32_t rates[] = {100000, 100000, 100000, 200000, 0};
	struct mv_dir_rail *rail = add_rail();
	bool ib = chance(15);

	rail->rate_mbps = PICK(rates);
	rail->numa_node = (int32_t)rnd(3) - 1;
	if (chance(15))
		rail->flags &= (uint8_t)~MV_RAIL_UP;
	if (chance(10))
		rail->flags |= MV_RAIL_EXCLUDED;
	if (ib)
		rail->link_layer = IBV_LINK_LAYER_INFINIBAND;
	if (chance(10))
		rail->mtu_bytes = 1024;
	for (uint32_t n = rnd(10); n; n--)
		random_gid(ib != chance(2));
}

static void random_world(void)
{
	empty_world();
	for (uint32_t h = 1 + rnd(MAX_HOSTS); h; h--) {
		add_host();
		for (uint32_t n = 1 + rnd(5); n; n--)
			random_rail();
	}
	for (uint32_t n = rnd(12); n; n--)
		world.links[world.content.n_links++] =
			(struct mv_dir_link){rnd(world.hosts[0].n_rails), rnd((uint32_t)world.content.n_rails)};
	build_world();
}

/* ---- every pair, and the order of pathfind.h --------------------------------------------------------------------- */

struct found {
	struct mv_path path;
	int64_t order[9]; /* higher goes first */
};

/* Links before prefixes: @a's rail hears somebody, but not @b's, whose host this host hears. */
static bool on_two_links(const struct mv_dir_gid *a, const struct mv_dir_gid *b, bool linked)
{
	uint32_t host = world.rails[b->rail].host;
	bool hears = false, heard = false;

	for (size_t i = 0; i < world.content.n_links; i++) {
		hears |= world.links[i].local_rail == a->rail;
		heard |= world.rails[world.links[i].remote_rail].host == host;
	}
	return host && !linked && hears && heard && world.rails[a->rail].link_layer == IBV_LINK_LAYER_ETHERNET &&
	       a->vlan_id == MV_VLAN_NONE && b->vlan_id == MV_VLAN_NONE && (world.rails[a->rail].flags & MV_RAIL_UP) &&
	       (world.rails[b->rail].flags & MV_RAIL_UP);
}

static bool can_talk(const struct mv_path_request *request, const struct mv_dir_gid *a, const struct mv_dir_gid *b, bool linked)
{
	enum mv_gid_family family = __real_mv_gid_family(&a->gid);
	bool fits = a->type == b->type && a->type != MV_GID_TYPE_UNKNOWN;
	bool known = a->prefix_len && b->prefix_len;

	if (!fits && !(request->down_too && (mv_dir_gid_in_grace(a) || mv_dir_gid_in_grace(b))))
		return false;
	if (a->type == MV_GID_TYPE_IB)
		return !memcmp(a->gid.raw, b->gid.raw, 8);
	if (family != __real_mv_gid_family(&b->gid) || family == MV_FAMILY_MULTICAST)
		return false;
	if (family == MV_FAMILY_LINK_LOCAL)
		return linked && a->vlan_id == b->vlan_id;
	if (a->prefix_len && !__real_mv_gid_in_prefix(&b->gid, &a->gid, a->prefix_len))
		return false;
	if (b->prefix_len && !__real_mv_gid_in_prefix(&a->gid, &b->gid, b->prefix_len))
		return false;
	return linked || (known && !(request->by_links && on_two_links(a, b, linked)));
}

static bool is_loop(const struct mv_dir_gid *a, const struct mv_dir_gid *b)
{
	return a == b && a->type != MV_GID_TYPE_UNKNOWN && __real_mv_gid_family(&a->gid) != MV_FAMILY_MULTICAST;
}

static int found_cmp(const void *p, const void *q)
{
	const struct found *a = p, *b = q;
	size_t i;
	int order;

	for (i = 0; i < sizeof(a->order) / sizeof(a->order[0]); i++)
		if (a->order[i] != b->order[i])
			return a->order[i] < b->order[i] ? 1 : -1;
	order = memcmp(a->path.local_gid.raw, b->path.local_gid.raw, 16);
	return order ? order : memcmp(a->path.remote_gid.raw, b->path.remote_gid.raw, 16);
}

static int family_order(const union ibv_gid *gid)
{
	enum mv_gid_family family = __real_mv_gid_family(gid);

	return family == MV_FAMILY_IPV4 ? 2 : family == MV_FAMILY_IPV6;
}

static ssize_t own_rail(const struct mv_path_request *request)
{
	for (uint32_t r = 0; r < world.hosts[0].n_rails; r++)
		if (!strcmp(world.rails[r].device, request->device) && request->port_num == world.rails[r].port)
			return r;
	return -1;
}

static struct found found_of(const struct mv_path_request *request, const struct mv_dir_gid *a, const struct mv_dir_gid *b,
			     uint32_t remote_rail, bool linked)
{
	const struct mv_dir_rail *local = &world.rails[a->rail], *remote = &world.rails[b->rail];
	ssize_t own = own_rail(request);
	struct found found = {.path = {.local_rail = a->rail,
				       .remote_rail = b->rail,
				       .local_gid = a->gid,
				       .remote_gid = b->gid,
				       .type = a->type,
				       .stays = (uint8_t)((a->rail == own) + 2 * (b->rail == remote_rail)),
				       .linked = linked,
				       .mtu_bytes = local->mtu_bytes < remote->mtu_bytes ? local->mtu_bytes : remote->mtu_bytes,
				       .rate_mbps = local->rate_mbps < remote->rate_mbps ? local->rate_mbps : remote->rate_mbps}};
	const int64_t order[9] = {linked,
				  (a->rail == own) + (b->rail == remote_rail),
				  mv_gid_equal(&a->gid, &request->sgid) + mv_gid_equal(&b->gid, &request->dgid),
				  found.path.rate_mbps,
				  family_order(&a->gid),
				  a->type,
				  own >= 0 && local->numa_node >= 0 && local->numa_node == world.rails[own].numa_node,
				  -(int64_t)a->rail,
				  -(int64_t)b->rail};

	memcpy(found.order, order, sizeof(order));
	return found;
}

static struct found pairs[128 * 128];

/* All pairs of two rails, in order. */
static size_t pairs_of(const struct mv_path_request *request, uint32_t l, uint32_t r, uint32_t remote_rail)
{
	const struct mv_dir_rail *local = &world.rails[l], *remote = &world.rails[r];
	bool linked = mv_directory_linked(&world.dir, l, r), fits;
	size_t n = 0;

	if ((!request->down_too && !(local->flags & remote->flags & MV_RAIL_UP)) ||
	    ((local->flags | remote->flags) & MV_RAIL_EXCLUDED) || local->link_layer != remote->link_layer)
		return 0;
	for (uint32_t g = local->first_gid; g < local->first_gid + local->n_gids; g++)
		for (uint32_t h = remote->first_gid; h < remote->first_gid + remote->n_gids; h++) {
			fits = l == r ? is_loop(&world.gids[g], &world.gids[h])
				      : can_talk(request, &world.gids[g], &world.gids[h], linked);
			if (fits)
				pairs[n++] = found_of(request, &world.gids[g], &world.gids[h], remote_rail, linked);
		}
	qsort(pairs, n, sizeof(pairs[0]), found_cmp);
	return n;
}

static size_t find_all(const struct mv_path_request *request, uint32_t remote_host, uint32_t remote_rail, struct found *ret, size_t max)
{
	const struct mv_dir_host *host = &world.hosts[remote_host];
	ssize_t own = own_rail(request);
	size_t n = 0, n_pairs;

	max = max < MV_PATH_FIND_MAX ? max : MV_PATH_FIND_MAX;
	for (uint32_t l = 0; l < world.hosts[0].n_rails; l++)
		for (uint32_t r = host->first_rail; r < host->first_rail + host->n_rails; r++) {
			bool theirs = l == own && r == remote_rail;

			if (request->own_host && l != r && !theirs)
				continue;
			n_pairs = pairs_of(request, l, r, remote_rail);
			if (theirs && n_pairs > (max + 1) / 2)
				n_pairs = (max + 1) / 2;
			if (!theirs && n_pairs > 1)
				n_pairs = 1;
			memcpy(&ret[n], pairs, n_pairs * sizeof(pairs[0]));
			n += n_pairs;
		}
	qsort(ret, n, sizeof(*ret), found_cmp);
	return n < max ? n : max;
}

/* ---- tests -------------------------------------------------------------------------------------------------------- */

static bool paths_equal(const struct mv_path *a, const struct mv_path *b)
{
	return a->local_rail == b->local_rail && a->remote_rail == b->remote_rail && mv_gid_equal(&a->local_gid, &b->local_gid) &&
	       mv_gid_equal(&a->remote_gid, &b->remote_gid) && a->type == b->type && a->stays == b->stays && a->linked == b->linked &&
	       a->mtu_bytes == b->mtu_bytes && a->rate_mbps == b->rate_mbps;
}

/* Return: how many paths there are. */
static size_t check(const struct mv_path_request *request, uint32_t host, uint32_t rail, size_t max, uint64_t seed)
{
	static struct found expected[MAX_RAILS * MAX_RAILS + MV_PATH_FIND_MAX];
	struct mv_path paths[MV_PATH_FIND_MAX];
	size_t n = mv_path_find(&world.dir, request, host, rail, paths, max), n_expected;

	n_expected = find_all(request, host, rail, expected, max);
	if (n != n_expected)
		fail_msg("seed %llu: %zu paths, not %zu", (unsigned long long)seed, n, n_expected);
	for (size_t i = 0; i < n; i++)
		if (!paths_equal(&paths[i], &expected[i].path))
			fail_msg("seed %llu: path %zu of %zu is another", (unsigned long long)seed, i, n);
	return n;
}

static struct mv_path_request random_request(char device[16], uint32_t *ret_host, uint32_t *ret_rail)
{
	struct mv_path_request request = {.device = device, .port_num = 1, .sgid = random_address(), .dgid = random_address()};

	snprintf(device, 16, "d%u", rnd(world.hosts[0].n_rails + 1));
	request.own_host = chance(15);
	request.down_too = chance(30);
	request.by_links = chance(50);
	*ret_host = request.own_host ? 0 : rnd((uint32_t)world.content.n_hosts);
	*ret_rail = world.hosts[*ret_host].first_rail + rnd(world.hosts[*ret_host].n_rails);
	if (chance(5))
		*ret_rail = rnd((uint32_t)world.content.n_rails);
	return request;
}

static void test_as_by_every_pair(void **state)
{
	const char *given = getenv("MESHVERBS_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	static const size_t maxima[] = {MV_PATH_FIND_MAX, 16, 16, 7, 3, 2, 1, 0, 1000};
	size_t n_paths = 0, n_full = 0;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (unsigned int i = 0; i < ROUNDS; i++, seed++) {
		struct mv_path_request request;
		uint32_t host, rail;
		char device[16];
		size_t max, n;

		rng = (seed + 1) * 0x9e3779b97f4a7c15u;
		random_world();
		for (unsigned int k = 0; k < 4; k++) {
			request = random_request(device, &host, &rail);
			max = PICK(maxima);
			n = check(&request, host, rail, max, seed);
			n_paths += n;
			n_full += n == max;
		}
		free(world.image);
		if (given)
			break;
	}
	assert_true(given || (n_paths > ROUNDS && n_full > ROUNDS / 4));
}

/* Hosts of pods: 8 ports with 128 GIDs each. */
static void pods(uint8_t prefix_len, bool down_remote)
{
	union ibv_gid gid;

	empty_world();
	for (uint8_t h = 0; h < 2; h++) {
		add_host();
		for (uint8_t r = 0; r < 8; r++) {
			struct mv_dir_rail *rail = add_rail();

			if (h && !r && down_remote)
				rail->flags = 0;
			for (uint8_t g = 0; g < 64; g++) {
				gid = mv_gid_from_ipv4(htonl(0x0a000000u | (uint32_t)r << 16 | (uint32_t)g << 8 | (h ? 100 : 1)));
				add_gid(&gid, MV_GID_TYPE_ROCE_V1, prefix_len);
				add_gid(&gid, MV_GID_TYPE_ROCE_V2, prefix_len);
			}
		}
	}
	build_world();
}

/* A search is held under a lock that all connections share. */
static void check_looks(uint8_t prefix_len, bool down_remote)
{
	struct mv_path_request request = {.device = "d0",
					  .port_num = 1,
					  .sgid = unit_gid("10.0.5.1"),
					  .sgid_type = MV_GID_TYPE_ROCE_V2,
					  .dgid = unit_gid("10.0.5.100")};
	struct mv_path paths[16];

	pods(prefix_len, down_remote);
	n_looks = 0;
	mv_path_find(&world.dir, &request, 1, 8, paths, 16);
	/* Each GID for each rail of the other host, and then some; not each GID for each GID, which are a million. */
	assert_in_range(n_looks, 1, 4 * 8 * 8 * 128);
	assert_true(check(&request, 1, 8, 16, 0) >= 7);
	free(world.image);
}

static void test_many_gids(void **state)
{
	static const uint8_t lengths[] = {96 + 24, 96 + 16, 96 + 8};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths); i++) {
		check_looks(lengths[i], false);
		check_looks(lengths[i], true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_by_every_pair),
		cmocka_unit_test(test_many_gids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
