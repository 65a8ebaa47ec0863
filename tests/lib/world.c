/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "world.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

#define MAX_WORDS 8

/* Prefix length of an address family, in bits of the GID. */
static uint8_t gid_bits(unsigned int len, bool ipv4)
{
	return (uint8_t)(ipv4 ? 96 + len : len);
}

/* "10.1.0.0/24" */
static union ibv_gid parse_prefix(char *text, uint8_t *ret_len)
{
	char *slash = strchr(text, '/');
	union ibv_gid gid;

	if (!slash)
		fail_msg("'%s' has no prefix length", text);
	*slash = '\0';
	gid = unit_gid(text);
	*ret_len = gid_bits((unsigned int)atoi(slash + 1), !strchr(text, ':'));
	return gid;
}

static void add_dev(struct mv_topo *topo, char **words, size_t n)
{
	struct mv_netdev netdev = {
		.vlan_id = MV_VLAN_NONE, .mtu_bytes = 1500, .up = true, .running = true};

	netdev.ifindex = (uint32_t)atoi(words[1]);
	snprintf(netdev.name, sizeof(netdev.name), "%s", words[2]);
	netdev.mac[0] = 2;
	netdev.mac[5] = (uint8_t)netdev.ifindex;
	if (n > 3) {
		netdev.running = false;
		netdev.up = strcmp(words[3], "down");
	}
	assert_int_equal(mv_topo_add_netdev(topo, &netdev), 0);
}

static void add_addr(struct mv_topo *topo, char **words, bool peer)
{
	struct mv_addr addr = {.ifindex = (uint32_t)atoi(words[1])};

	addr.prefix = parse_prefix(words[peer ? 3 : 2], &addr.prefix_len);
	addr.gid = peer ? unit_gid(words[2]) : addr.prefix;
	addr.prefix = mv_gid_network(&addr.prefix, addr.prefix_len);
	assert_int_equal(mv_topo_add_addr(topo, &addr), 0);
}

static void add_route(struct mv_topo *topo, char **words, size_t n)
{
	struct mv_route route = {.ifindex = (uint32_t)atoi(words[1]), .table = 254};

	route.dst = parse_prefix(words[2], &route.dst_len);
	route.fib_len = route.dst_len;
	if (n > 3)
		route.gateway = unit_gid(words[3]);
	if (n > 4)
		route.prefsrc = unit_gid(words[4]);
	if (n > 5)
		route.src = unit_gid(words[5]);
	assert_int_equal(mv_topo_add_route(topo, &route), 0);
}

static void add_host(struct mv_topo *topo, char **words)
{
	struct mv_route route = {.ifindex = (uint32_t)atoi(words[1]), .table = 254, .dst_len = 128};

	route.dst = unit_gid(words[2]);
	route.gateway = unit_gid("192.0.2.254");
	route.fib_len = gid_bits((unsigned int)atoi(words[3]), !strchr(words[2], ':'));
	assert_int_equal(mv_topo_add_route(topo, &route), 0);
}

static enum mv_gid_type parse_type(const char *word)
{
	return strcmp(word, "v1") ? MV_GID_TYPE_ROCE_V2 : MV_GID_TYPE_ROCE_V1;
}

static void add_gid(struct mv_topo *topo, const char *device, char **words)
{
	struct mv_gid_entry entry = {.index = (uint32_t)atoi(words[1]),
				     .gid = unit_gid(words[2]),
				     .ifindex = (uint32_t)atoi(words[3]),
				     .type = parse_type(words[4])};

	for (size_t i = 0; i < topo->n_devices; i++)
		if (!strcmp(topo->devices[i].name, device))
			assert_int_equal(mv_port_add_gid(&topo->devices[i].ports[0], &entry), 0);
}

static void add_device(struct mv_topo *topo, const char *name)
{
	struct mv_device *device;
	struct mv_port *port;

	assert_int_equal(mv_topo_add_device(topo, name, &device), 0);
	assert_int_equal(mv_topo_add_port(device, 1, &port), 0);
	port->link_layer = IBV_LINK_LAYER_ETHERNET;
	port->state = IBV_PORT_ACTIVE;
}

static void statement(struct mv_topo *topo, char *text)
{
	char *words[MAX_WORDS], *save;
	size_t n = 0;

	for (char *word = strtok_r(text, " \n\t", &save); word && n < MAX_WORDS;
	     word = strtok_r(NULL, " \n\t", &save))
		words[n++] = word;
	if (!n)
		return;
	if (!strcmp(words[0], "dev"))
		add_dev(topo, words, n);
	else if (!strcmp(words[0], "addr"))
		add_addr(topo, words, false);
	else if (!strcmp(words[0], "peer"))
		add_addr(topo, words, true);
	else if (!strcmp(words[0], "route"))
		add_route(topo, words, n);
	else if (!strcmp(words[0], "host"))
		add_host(topo, words);
	else if (!strcmp(words[0], "gid"))
		add_gid(topo, "mlx5_0", words);
	else if (!strcmp(words[0], "gid2"))
		add_gid(topo, "mlx5_1", words);
	else
		fail_msg("world: unknown statement '%s'", words[0]);
}

void world_init(struct mv_topo *topo, const char *text)
{
	char copy[4096], *save;

	mv_topo_init(topo);
	add_device(topo, "mlx5_0");
	add_device(topo, "mlx5_1");
	assert_true(strlen(text) < sizeof(copy));
	strcpy(copy, text);
	for (char *part = strtok_r(copy, ";", &save); part; part = strtok_r(NULL, ";", &save))
		statement(topo, part);
}

size_t world_seen(const char *text, struct mv_seen *seen, size_t max)
{
	char copy[512], gid[64], type[8], *save;
	size_t n = 0;

	if (!text)
		return 0;
	assert_true(strlen(text) < sizeof(copy));
	strcpy(copy, text);
	for (char *part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
		assert_int_equal(sscanf(part, " %63s %7s", gid, type), 2);
		assert_true(n < max);
		seen[n++] = (struct mv_seen){.gid = unit_gid(gid), .type = parse_type(type)};
	}
	return n;
}
