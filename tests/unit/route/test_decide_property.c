/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What mv_decide() promises for any host. The seed is printed; MESHVERBS_TEST_SEED=n repeats a run.
 * Addresses and interface indexes come from small sets, so that random hosts collide as real ones
 * do.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "decide.h"

#define ROUNDS 100000

static uint64_t random_state;

/* xorshift64* */
static uint32_t next_random(uint32_t below)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (uint32_t)((random_state * 0x2545f4914f6cdd1dull) >> 32) % below;
}

static const char *const addresses[] = {
	"10.1.0.1",        "10.1.0.2",      "10.1.0.9",        "10.2.0.1",
	"10.2.0.2",        "10.100.0.1",    "10.1.128.1",      "192.0.2.1",
	"2001:db8::1",     "2001:db8::2",   "fe80::1",         "fe80::ff:fe00:2",
	"fe80::ff:fe00:3", "2001:db8:9::1", "fe80::ff:fe00:4", "2001:db8:9::2",
};
static const char *const odd_destinations[] = {"224.1.1.1", "ff0e::1", "::", "0.0.0.0", "::1"};
static const uint8_t ipv4_lengths[] = {0, 8, 16, 24, 30, 32};
static const uint8_t ipv6_lengths[] = {0, 10, 32, 48, 64, 128};

#define PICK(array) ((array)[next_random(sizeof(array) / sizeof((array)[0]))])

static uint8_t random_length(const union ibv_gid *gid)
{
	return mv_gid_family(gid) == MV_FAMILY_IPV4 ? 96 + PICK(ipv4_lengths) : PICK(ipv6_lengths);
}

static void random_net(struct mv_topo *topo)
{
	for (uint32_t ifindex = 1; ifindex <= 4; ifindex++) {
		struct mv_netdev netdev = {.ifindex = ifindex,
					   .vlan_id = MV_VLAN_NONE,
					   .up = next_random(8),
					   .running = next_random(8)};

		netdev.mac[0] = 2;
		netdev.mac[5] = (uint8_t)netdev.ifindex;
		if (next_random(8))
			assert_int_equal(mv_topo_add_netdev(topo, &netdev), 0);
	}
	for (uint32_t n = next_random(8); n; n--) {
		struct mv_addr addr = {.ifindex = 1 + next_random(5),
				       .gid = unit_gid(PICK(addresses))};

		addr.prefix_len = random_length(&addr.gid);
		addr.prefix = mv_gid_network(&addr.gid, addr.prefix_len);
		assert_int_equal(mv_topo_add_addr(topo, &addr), 0);
	}
	for (uint32_t n = next_random(4); n; n--) {
		struct mv_route route = {.ifindex = 1 + next_random(5),
					 .dst = unit_gid(PICK(addresses))};

		route.dst_len = random_length(&route.dst);
		route.fib_len =
			next_random(2) ? route.dst_len : (uint8_t)next_random(route.dst_len + 1u);
		if (next_random(2))
			route.gateway = unit_gid(PICK(addresses));
		if (next_random(2))
			route.prefsrc = unit_gid(PICK(addresses));
		if (!next_random(4))
			route.src = unit_gid(PICK(addresses));
		assert_int_equal(mv_topo_add_route(topo, &route), 0);
	}
}

static void random_device(struct mv_topo *topo)
{
	struct mv_device *device;
	struct mv_port *port;

	assert_int_equal(mv_topo_add_device(topo, "mlx5_0", &device), 0);
	assert_int_equal(mv_topo_add_port(device, 1, &port), 0);
	port->link_layer = next_random(16) ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	for (uint32_t n = next_random(12); n; n--) {
		struct mv_gid_entry entry = {.index = next_random(12),
					     .gid = unit_gid(PICK(addresses)),
					     .ifindex = next_random(7),
					     .type = next_random(3) ? MV_GID_TYPE_ROCE_V2
								    : MV_GID_TYPE_ROCE_V1};

		/* Mostly consistent hosts: an address that some netdev holds, under that netdev. */
		if (topo->n_addrs && next_random(6)) {
			const struct mv_addr *addr =
				&topo->addrs[next_random((uint32_t)topo->n_addrs)];

			entry.gid = addr->gid;
			entry.ifindex = addr->ifindex;
		}
		assert_int_equal(mv_port_add_gid(port, &entry), 0);
	}
}

static void random_seen(const struct mv_port *port, struct mv_seen *seen)
{
	*seen = (struct mv_seen){.gid = unit_gid(PICK(addresses)), .type = MV_GID_TYPE_ROCE_V2};
	if (port->n_gids && next_random(4)) {
		const struct mv_gid_entry *entry = &port->gids[next_random((uint32_t)port->n_gids)];

		*seen = (struct mv_seen){.gid = entry->gid, .type = entry->type};
	}
}

static bool same_decision(const struct mv_decision *a, const struct mv_decision *b)
{
	return a->action == b->action && a->reason == b->reason && a->sgid_index == b->sgid_index &&
	       a->own_verdict == b->own_verdict && mv_gid_equal(&a->gid, &b->gid) &&
	       a->alternative == b->alternative;
}

static bool was_seen(const struct mv_request *request, const struct mv_gid_entry *entry)
{
	for (size_t i = 0; i < request->n_seen; i++)
		if (request->seen[i].type == entry->type &&
		    mv_gid_equal(&request->seen[i].gid, &entry->gid))
			return true;
	return false;
}

static bool is_twin(const struct mv_gid_entry *a, const struct mv_gid_entry *b)
{
	return a && a != b && a->type == b->type && mv_gid_equal(&a->gid, &b->gid);
}

static unsigned int actions[MV_PASS + 1];

static void check_decision(const struct mv_topo *topo, struct mv_request request)
{
	const struct mv_port *port = &topo->devices[0].ports[0];
	struct mv_decision got = mv_decide(topo, &request), again;
	const struct mv_gid_entry *entry;
	struct mv_candidate candidate;

	actions[got.action]++;
	again = mv_decide(topo, &request);
	assert_true(same_decision(&got, &again));

	if (got.alternative) {
		mv_check_entry(topo, got.alternative, &request.dgid, &candidate);
		assert_int_equal(candidate.verdict, MV_VERDICT_OK);
	}
	if (got.action == MV_KEEP || got.action == MV_PASS) {
		assert_int_equal(got.sgid_index, request.sgid_index);
		return;
	}

	/* Never to an entry that is not fit, and never away from one that is. */
	entry = mv_port_gid(port, got.sgid_index);
	assert_non_null(entry);
	mv_check_entry(topo, entry, &request.dgid, &candidate);
	assert_int_equal(candidate.verdict, MV_VERDICT_OK);
	mv_check_entry(topo, mv_port_gid(port, request.sgid_index), &request.dgid, &candidate);
	assert_int_not_equal(candidate.verdict, MV_VERDICT_OK);
	if (candidate.verdict == MV_VERDICT_DOWN)
		assert_true(is_twin(candidate.entry, entry));
	if (got.reason == MV_REASON_OTHER_NETDEV)
		assert_true(is_twin(candidate.entry, entry) && candidate.entry->ifindex != entry->ifindex);
	assert_int_equal(port->link_layer, IBV_LINK_LAYER_ETHERNET);

	/* A connected QP never gets an address that its program cannot have told the peer. */
	if (request.transport == MV_CONNECTED)
		assert_int_equal(got.action, MV_REPAIR);
	if (got.action == MV_REPAIR)
		assert_true(was_seen(&request, entry) || is_twin(mv_port_gid(port, request.sgid_index), entry));

	request.sgid_index = got.sgid_index;
	again = mv_decide(topo, &request);
	assert_int_equal(again.action, MV_KEEP);
	assert_int_equal(again.sgid_index, got.sgid_index);
}

static void test_random_hosts(void **state)
{
	(void)state;
	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct mv_request request = {.device = "mlx5_0", .port_num = 1};
		struct mv_seen seen[3];
		struct mv_topo topo;

		mv_topo_init(&topo);
		random_net(&topo);
		random_device(&topo);
		for (size_t i = 0; i < 3; i++)
			random_seen(&topo.devices[0].ports[0], &seen[i]);
		request.sgid_index = next_random(14);
		request.dgid = unit_gid(next_random(16) ? PICK(addresses) : PICK(odd_destinations));
		request.transport = next_random(2) ? MV_CONNECTED : MV_DATAGRAM;
		request.seen = seen;
		request.n_seen = next_random(4);
		check_decision(&topo, request);
		mv_topo_fini(&topo);
	}
	printf("keep %u, repair %u, replace %u, pass %u\n", actions[MV_KEEP], actions[MV_REPAIR],
	       actions[MV_REPLACE], actions[MV_PASS]);
	/* Hosts so random that nothing ever happens would prove nothing. */
	for (int i = MV_KEEP; i <= MV_PASS; i++)
		assert_true(actions[i] > ROUNDS / 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_hosts)};
	const char *text = getenv("MESHVERBS_TEST_SEED");

	random_state = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
	if (!random_state)
		random_state = 1; /* the one state that xorshift never leaves */
	printf("MESHVERBS_TEST_SEED=%llu\n", (unsigned long long)random_state);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
