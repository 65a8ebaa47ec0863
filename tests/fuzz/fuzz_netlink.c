/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mv_netlink_parse() and mv_netlink_apply() on any datagram, the latter as changes to an empty snapshot and to what the former has made
 * of it; what they store must be sound enough for mv_decide().
 */
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

/* Notices replace what they name: no address of a netdev is there twice. */
static void check_once(const struct mv_topo *topo)
{
	for (size_t i = 0; i < topo->n_addrs; i++)
		for (size_t k = 0; k < i; k++)
			FUZZ_CHECK(topo->addrs[i].ifindex != topo->addrs[k].ifindex ||
				   topo->addrs[i].prefix_len != topo->addrs[k].prefix_len ||
				   !mv_gid_equal(&topo->addrs[i].gid, &topo->addrs[k].gid) ||
				   !mv_gid_equal(&topo->addrs[i].prefix, &topo->addrs[k].prefix));
}

static void check_apply(struct mv_topo *topo, const uint8_t *buf, size_t size)
{
	unsigned int seen = 0;
	int err = mv_netlink_apply(topo, buf, size, &seen);

	FUZZ_CHECK(!err || err == -EBADMSG || err == -ENOMEM);
	FUZZ_CHECK(!(seen & ~(unsigned int)(MV_NETLINK_NET | MV_NETLINK_ROUTES)));
}

static void check_all(struct mv_topo *topo)
{
	check_netdevs(topo);
	check_addrs(topo);
	check_decisions(topo);
	mv_topo_fini(topo);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *buf = malloc(size ? size : 1);
	struct mv_topo dumped, told;
	bool done = false;
	int err;

	/* A copy of exact size, so that the sanitizer sees one byte too far. */
	FUZZ_CHECK(buf);
	memcpy(buf, data, size);
	mv_topo_init(&dumped);
	err = mv_netlink_parse(&dumped, buf, size, &done);
	FUZZ_CHECK(err <= 0 && err >= -4095);
	check_netdevs(&dumped);
	check_addrs(&dumped);
	mv_topo_init(&told);
	check_apply(&told, buf, size);
	check_once(&told);
	check_apply(&dumped, buf, size);
	free(buf);
	check_all(&told);
	check_all(&dumped);
	return 0;
}
