/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "unit.h"

#include <string.h>

#include "peers.h"
#include "relay_fixture.h"

struct md_msg_relay relay;
uint64_t now;
size_t n_endpoints, n_netdevs, said_down, cut;
bool willing = true, bundles;
unsigned int n_looked, n_asked, n_sent, n_bundled, n_done, n_unreachable;
uint64_t last_client, last_id;
uint32_t last_qpn;
unsigned int sent_to[MD_PATHS_MAX];

/* What a message says: each something else. */
struct text {
	char abc[4];
	uint32_t number;
};

static uint32_t number;

static size_t endpoints(void *arg, const union ibv_gid *dgid, struct md_endpoint *ret, size_t max)
{
	(void)arg;
	(void)dgid;
	n_looked++;
	for (size_t i = 0; i < n_endpoints && i < max; i++)
		ret[i] = (struct md_endpoint){.ifindex = (uint32_t)(i % n_netdevs),
					      .ip.s6_addr = {[15] = (uint8_t)i},
					      .bundles = bundles,
					      .said_down = said_down == i || said_down == ALL,
					      .cut = cut == i};
	return n_endpoints;
}

static bool is_at(void *arg, const struct mv_host_id *host, const union ibv_gid *gid)
{
	struct mv_host_id one = peers_id(1);

	(void)arg;
	(void)gid;
	return !memcmp(host, &one, sizeof(one));
}

#define HOST {.bytes = {[0] = 0xee, [8] = 1}} /* peers_id(1) */
const struct md_endpoint here = {.host = HOST}, elsewhere = {.host = HOST, .ifindex = 99};
const struct md_endpoint of_another = {.host = {{0xee}}};

static bool is_from(void *arg, const union ibv_gid *gid, const struct md_endpoint *from)
{
	(void)arg;
	assert_gid(*gid, "10.1.0.2");
	return from->ifindex != elsewhere.ifindex;
}

static bool ask(void *arg, const union ibv_gid *dgid, uint64_t client)
{
	(void)client;
	(void)arg;
	(void)dgid;
	n_asked++;
	return willing;
}

static void send_copy(void *arg, const struct md_endpoint *to, const struct md_envelope *wire)
{
	(void)arg;
	assert_int_equal(wire->op, MD_MSG_DATA);
	assert_int_equal(wire->len, sizeof(struct text));
	assert_memory_equal(wire->data, "abc", 3);
	last_id = wire->id;
	n_sent++;
	n_bundled += to->bundles;
	sent_to[to->ip.s6_addr[15]]++;
}

static void unreachable(void *arg, const struct md_msg *msg)
{
	(void)arg;
	assert_gid(msg->dgid, "10.1.0.2");
	n_unreachable++;
}

static void done(void *arg, const struct md_msg *msg)
{
	(void)arg;
	assert_gid(msg->dgid, "10.1.0.2");
	assert_memory_equal(msg->data, "abc", 3);
	last_client = msg->client;
	last_qpn = msg->qpn;
	n_done++;
}

unsigned int n_arrived(void)
{
	return (unsigned int)relay.count.arrived;
}

static const struct md_msg_relay_ops ops = {endpoints, is_at, is_from, ask, send_copy, unreachable, done};

int relay_setup(void **state)
{
	(void)state;
	md_msg_relay_init(&relay, &ops, NULL, 1000);
	now = MD_S;
	n_endpoints = 2;
	n_netdevs = MD_PATHS_MAX;
	willing = true;
	bundles = false;
	said_down = cut = MD_PATHS_MAX;
	n_asked = n_sent = n_bundled = n_done = n_unreachable = 0;
	memset(sent_to, 0, sizeof(sent_to));
	return 0;
}

int relay_teardown(void **state)
{
	(void)state;
	md_msg_relay_fini(&relay);
	assert_int_equal(relay.n, 0);
	assert_int_equal(relay.n_unsent, 0);
	return 0;
}

int send_same(uint64_t client)
{
	const struct text text = {"abc", number};
	union ibv_gid gid = unit_gid("10.1.0.2");

	return md_msg_relay_send(&relay, client, &gid, 77, (const uint8_t *)&text, sizeof(text), now);
}

int send_one(uint64_t client)
{
	number++;
	return send_same(client);
}

unsigned int run(uint64_t until)
{
	unsigned int steps = 0;

	while (md_msg_relay_next(&relay) <= until) {
		now = md_msg_relay_next(&relay);
		md_msg_relay_tick(&relay, now);
		assert_true(++steps < 1000000);
	}
	now = until;
	return steps;
}
