/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What many peers cost an agent, without a network: scale [HOSTS [RAILS]] (10000, 8). Each host has
 * RAILS rails with 6 GIDs, each rail heard on the netdev of the same number, as in a rail-optimised
 * cluster. One JSON object.
 */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "dir_build.h"
#include "dir_publish.h"
#include "topo.h"

static uint64_t now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * MD_S + (uint64_t)ts.tv_nsec;
}

static struct md_desc *describe(uint32_t host, uint32_t n_rails)
{
	struct md_desc *desc = md_desc_new(n_rails, n_rails * 6);

	for (uint32_t r = 0; r < n_rails; r++) {
		struct mv_dir_rail *rail = &desc->rails[r];

		snprintf(rail->device, sizeof(rail->device), "mlx5_%u", r);
		snprintf(rail->netdev, sizeof(rail->netdev), "eth%u", r);
		rail->rate_mbps = 400000;
		rail->mtu_bytes = 4096;
		rail->numa_node = -1;
		rail->port = 1;
		rail->link_layer = IBV_LINK_LAYER_ETHERNET;
		rail->flags = MV_RAIL_UP;
		rail->first_gid = r * 6;
		rail->n_gids = 6;
		for (uint32_t g = 0; g < 6; g++) {
			struct mv_dir_gid *gid = &desc->gids[r * 6 + g];

			/* Link-local, IPv4 and IPv6, each as v1 and v2. */
			memset(&gid->gid, 0, sizeof(gid->gid));
			if (g / 2 == 1) {
				gid->gid = mv_gid_from_ipv4(htonl(10u << 24 | r << 16 | host));
				gid->prefix_len = 96 + 16;
			} else {
				gid->gid.raw[0] = g / 2 ? 0x20 : 0xfe;
				gid->gid.raw[1] = g / 2 ? 0x01 : 0x80;
				gid->gid.raw[9] = (uint8_t)r;
				memcpy(&gid->gid.raw[12], &host, sizeof(host));
				gid->prefix_len = 64;
			}
			gid->rail = r;
			gid->index = g;
			gid->type = g % 2 ? MV_GID_TYPE_ROCE_V2 : MV_GID_TYPE_ROCE_V1;
			gid->vlan_id = MV_VLAN_NONE;
		}
	}
	return desc;
}

static struct md_view *own_view(uint32_t n_rails)
{
	struct md_view *view = calloc(1, sizeof(*view));

	view->desc = describe(60000, n_rails);
	view->onlinks = calloc(n_rails, sizeof(*view->onlinks));
	for (uint32_t r = 0; r < n_rails; r++) {
		view->nets[r].ifindex = r + 1;
		view->nets[r].rail = r;
		view->nets[r].running = true;
		view->onlinks[r].ifindex = r + 1;
		view->onlinks[r].prefix = mv_gid_from_ipv4(htonl(10u << 24 | r << 16));
		view->onlinks[r].prefix_len = 96 + 16;
	}
	view->n_nets = view->n_onlinks = n_rails;
	return view;
}

static struct md_hosts hosts;
static struct md_gidmap map;
static struct md_targets targets;

/* A beacon of each rail of a host. Returns how many told something new. */
static unsigned int hear(const struct md_view *view, uint32_t host, uint32_t n_rails,
			 const uint8_t *payload, size_t len, uint64_t now_ns)
{
	struct md_heard heard = {.start = 1};
	unsigned int n_changes = 0;

	memcpy(&heard.sender.bytes[1], &host, sizeof(host));
	for (uint32_t r = 0; r < n_rails; r++) {
		struct md_beacon beacon;
		unsigned int changed;

		heard.counter++;
		heard.ifindex = r + 1;
		memcpy(&heard.ip.s6_addr[12], &host, sizeof(host));
		if (md_beacon_decode(payload, len, &beacon))
			abort();
		beacon.rail = (uint16_t)r;
		if (md_hosts_hear(&hosts, &heard, &beacon, now_ns, &changed))
			abort();
		if (!changed)
			continue;
		n_changes++;
		md_gidmap_claim(&map, md_hosts_find(&hosts, &heard.sender), view, &targets);
	}
	return n_changes;
}

static size_t describe_host(uint32_t host, uint32_t n_rails, struct md_beacon *beacon,
			    uint8_t *bytes)
{
	struct md_desc *desc = describe(host, n_rails);

	*beacon = (struct md_beacon){
		.name = "host", .agent_version = MV_CTL_VERSION, .interval_ms = 60000, .generation = 1};
	beacon->desc_bytes = (uint32_t)md_desc_encode(desc, bytes);
	free(desc);
	return beacon->desc_bytes;
}

/* All hosts, all their rails; whole descriptions, or signs of life. Returns processor time for one
 * beacon. */
static double hear_all(const struct md_view *view, uint32_t n_hosts, uint32_t n_rails, bool whole)
{
	static uint8_t bytes[MD_DESC_BYTES_MAX];
	uint64_t took = 0, clock_ns = MD_S, n = 0;

	for (uint32_t host = 1; host <= n_hosts; host++) {
		struct md_beacon beacon;
		unsigned int n_pieces;

		describe_host(host, n_rails, &beacon, bytes);
		n_pieces = whole ? md_beacon_pieces(beacon.desc_bytes) : 1;
		for (unsigned int i = 0; i < n_pieces; i++) {
			uint8_t payload[MD_PAYLOAD_MAX_BYTES];
			size_t len;
			uint64_t begun;

			md_beacon_cut(&beacon, bytes, whole ? (uint8_t)i : MD_NO_PIECE);
			len = md_beacon_encode(&beacon, payload);
			begun = now(CLOCK_PROCESS_CPUTIME_ID);
			hear(view, host, n_rails, payload, len, clock_ns);
			took += now(CLOCK_PROCESS_CPUTIME_ID) - begun;
			n += n_rails;
		}
		clock_ns += 10 * MD_MS; /* below the rate at which new hosts are taken */
	}
	return (double)took / (double)n;
}

static double publish(const struct md_view *view, size_t *ret_bytes)
{
	struct mv_host_id self = {.bytes = {1}};
	const struct md_dir_build_from from = {.self = &self,
					       .name = "me",
					       .view = view,
					       .hosts = &hosts,
					       .map = &map,
					       .targets = &targets};
	char path[] = "/dev/shm/meshverbs-scale-XXXXXX";
	struct md_published published = {0};
	struct md_dir_build content;
	uint64_t begun;
	double took;

	if (!mkdtemp(path))
		abort();
	published.dir_fd = open(path, O_DIRECTORY | O_RDONLY);
	begun = now(CLOCK_PROCESS_CPUTIME_ID);
	if (md_dir_build_make(&from, MD_S, &content) || md_dir_publish(&published, &content.dir, MD_S))
		abort();
	md_dir_build_free(&content);
	took = (double)(now(CLOCK_PROCESS_CPUTIME_ID) - begun) / 1e6;
	*ret_bytes = published.size_bytes;
	md_dir_publish_fini(&published);
	unlinkat(published.dir_fd, MV_DIRECTORY_FILE, 0);
	close(published.dir_fd);
	rmdir(path);
	return took;
}

int main(int argc, char **argv)
{
	uint32_t n_hosts = argc > 1 ? (uint32_t)atoi(argv[1]) : 10000;
	uint32_t n_rails = argc > 2 ? (uint32_t)atoi(argv[2]) : 8;
	struct md_view *view;
	size_t before, bytes;
	double whole_ns, life_ns, expire_ms, publish_ms;
	uint64_t begun;

	if (!n_hosts || n_hosts > MD_HOSTS_MAX || !n_rails || n_rails > 32) {
		fprintf(stderr, "usage: scale [HOSTS [RAILS]]: up to %d, up to 32\n", MD_HOSTS_MAX);
		return 2;
	}
	view = own_view(n_rails);
	before = mallinfo2().uordblks;
	whole_ns = hear_all(view, n_hosts, n_rails, true);
	life_ns = hear_all(view, n_hosts, n_rails, false);
	publish_ms = publish(view, &bytes);
	begun = now(CLOCK_PROCESS_CPUTIME_ID);
	md_hosts_expire(&hosts, 2 * MD_S);
	expire_ms = (double)(now(CLOCK_PROCESS_CPUTIME_ID) - begun) / 1e6;
	printf("{\"hosts\": %u, \"rails\": %u, \"memory_mb\": %.1f, \"directory_mb\": %.1f, "
	       "\"first_beacon_us\": %.2f, \"beacon_us\": %.2f, \"publish_ms\": %.1f, "
	       "\"expire_ms\": %.2f}\n",
	       n_hosts, n_rails, (double)(mallinfo2().uordblks - before) / 1e6, (double)bytes / 1e6,
	       whole_ns / 1000, life_ns / 1000, publish_ms, expire_ms);
	md_hosts_fini(&hosts);
	md_gidmap_fini(&map);
	md_view_free(view);
	return 0;
}
