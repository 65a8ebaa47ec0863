/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* mv_netlink_parse() on any datagram; what it stores must be sound enough for mv_decide(). */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "decide.h"
#include "topo_netlink.h"

static void check_netdevs(const struct mv_topo *topo)
{
	for (size_t i = 0; i < topo->n_netdevs; i++) {
		const struct mv_netdev *netdev = &topo->netdevs[i];

		FUZZ_CHECK(netdev->ifindex);
		FUZZ_CHECK(strnlen(netdev->name, sizeof(netdev->name)) < sizeof(netdev->name));
		FUZZ_CHECK(mv_topo_netdev(topo, netdev->ifindex) == netdev);
	}
}

static void check_addrs(const struct mv_topo *topo)
{
	for (size_t i = 0; i < topo->n_addrs; i++) {
		const struct mv_addr *addr = &topo->addrs[i];
		union ibv_gid network = mv_gid_network(&addr->prefix, addr->prefix_len);

		FUZZ_CHECK(addr->prefix_len <= 128);
		FUZZ_CHECK(mv_gid_equal(&addr->prefix, &network));
	}
	for (size_t i = 0; i < topo->n_routes; i++)
		FUZZ_CHECK(topo->routes[i].dst_len <= 128 &&
			   topo->routes[i].fib_len == topo->routes[i].dst_len);
}

/* A device whose table names every address found, and a destination for each of them. */
static void check_decisions(struct mv_topo *topo)
{
	struct mv_request request = {.device = "mlx5_0", .port_num = 1, .transport = MV_DATAGRAM};
	struct mv_device *device;
	struct mv_port *port;

	FUZZ_CHECK(!mv_topo_add_device(topo, "mlx5_0", &device));
	FUZZ_CHECK(!mv_topo_add_port(device, 1, &port));
	port->link_layer = IBV_LINK_LAYER_ETHERNET;
	for (size_t i = 0; i < topo->n_addrs && i < 16; i++) {
		struct mv_gid_entry entry = {.gid = topo->addrs[i].gid,
					     .ifindex = topo->addrs[i].ifindex,
					     .index = (uint32_t)(2 * i + 1),
					     .type = MV_GID_TYPE_ROCE_V2};

		FUZZ_CHECK(!mv_port_add_gid(port, &entry));
	}
	for (size_t i = 0; i < topo->n_addrs && i < 16; i++) {
		struct mv_decision decision;

		request.dgid = topo->addrs[i].prefix;
		request.dgid.raw[15] ^= 0x5a;
		decision = mv_decide(topo, &request);
		FUZZ_CHECK(decision.action == MV_KEEP || decision.action == MV_PASS ||
			   mv_port_gid(port, decision.sgid_index));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *buf = malloc(size ? size : 1);
	struct mv_topo topo;
	bool done = false;
	int err;

	/* A copy of exact size, so that the sanitizer sees one byte too far. */
	FUZZ_CHECK(buf);
	memcpy(buf, data, size);
	mv_topo_init(&topo);
	err = mv_netlink_parse(&topo, buf, size, &done);
	FUZZ_CHECK(err <= 0 && err >= -4095);
	free(buf);
	check_netdevs(&topo);
	check_addrs(&topo);
	check_decisions(&topo);
	mv_topo_fini(&topo);
	return 0;
}
