/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages on their way: copies, repetitions, acks, giving up. The network is a list, the clock
 * is ours. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "fault.h"
#include "msg_relay.h"
#include "peers.h"

#define ALL (MD_PATHS_MAX + 1)

static struct md_msg_relay relay;
static uint64_t now;
static size_t n_endpoints; /* that the destination has */
static size_t n_netdevs; /* that they are spread over */
static size_t said_down, cut; /* which of them; none: MD_PATHS_MAX */
static bool willing = true; /* to ask */
static bool bundles; /* does it take them? */
static unsigned int n_looked, n_asked, n_sent, n_bundled, n_done, n_unreachable;
static uint64_t last_client, last_id;
static uint32_t last_qpn;
static unsigned int sent_to[MD_PATHS_MAX]; /* copies by endpoint */

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
static const struct md_endpoint here = {.host = HOST}, elsewhere = {.host = HOST, .ifindex = 99};
static const struct md_endpoint of_another = {.host = {{0xee}}};

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

static unsigned int n_arrived(void)
{
	return (unsigned int)relay.count.arrived;
}

static const struct md_msg_relay_ops ops = {endpoints, is_at, is_from, ask, send_copy, unreachable, done};

static int setup(void **state)
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

static int teardown(void **state)
{
	(void)state;
	md_msg_relay_fini(&relay);
	assert_int_equal(relay.n, 0);
	assert_int_equal(relay.n_unsent, 0);
	return 0;
}

static int send_same(uint64_t client)
{
	const struct text text = {"abc", number};
	union ibv_gid gid = unit_gid("10.1.0.2");

	return md_msg_relay_send(&relay, client, &gid, 77, (const uint8_t *)&text, sizeof(text), now);
}

static int send_one(uint64_t client)
{
	number++;
	return send_same(client);
}

/* Lets time pass, up to @until, in the steps that the carrier asks for. Returns how many. */
static unsigned int run(uint64_t until)
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

static void test_arrives(void **state)
{
	(void)state;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_sent, 2); /* over both ways */
	assert_true(last_id == 1000);
	md_msg_relay_acked(&relay, 1001, &here, now);
	md_msg_relay_acked(&relay, 1000, &elsewhere, now);
	md_msg_relay_acked(&relay, 1000, &of_another, now);
	assert_int_equal(n_done, 0);
	md_msg_relay_acked(&relay, 1000, &here, now);
	assert_int_equal(n_done, 1);
	assert_int_equal(n_arrived(), 1);
	assert_int_equal(last_client, 5);
	md_msg_relay_acked(&relay, 1000, &here, now);
	assert_int_equal(n_done, 1);
	assert_true(md_msg_relay_next(&relay) == UINT64_MAX);
}

/* Where acks take long, copies are not sent before they can be there; and no longer, when they are quick again. */
static void test_slow_acks(void **state)
{
	uint64_t begun;

	(void)state;
	for (int i = 0; i < 30; i++) {
		assert_int_equal(send_one(5), 0);
		run(now + 60 * MD_MS);
		md_msg_relay_acked(&relay, last_id, &here, now);
	}
	n_sent = 0;
	begun = now;
	assert_int_equal(send_one(5), 0);
	run(begun + 110 * MD_MS);
	assert_int_equal(n_sent, 2);
	run(begun + 121 * MD_MS);
	assert_int_equal(n_sent, 4);
	md_msg_relay_acked(&relay, last_id, &here, now);
	for (int i = 0; i < 60; i++) {
		assert_int_equal(send_one(5), 0);
		run(now + MD_MS);
		md_msg_relay_acked(&relay, last_id, &here, now);
	}
	n_sent = 0;
	begun = now;
	assert_int_equal(send_one(5), 0);
	run(begun + 20 * MD_MS);
	assert_int_equal(n_sent, 4);
	/* Never so long that a message that does not arrive is told of much later. */
	relay.slow_ns = 10 * MD_S;
	n_done = 0;
	assert_int_equal(send_one(5), 0);
	run(now + MD_S + MD_TRIES_SLOW_NS);
	assert_true(n_done >= 1);
}

/* An agent may be an older one now than that which said that it takes bundles: the later tries are for that. */
static void test_bundles_at_first(void **state)
{
	unsigned int n_few;

	(void)state;
	bundles = true;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_bundled, 2);
	run(now + 20 * MD_MS);
	assert_int_equal(n_sent, 2 * MD_TRIES_FEW);
	n_few = n_sent;
	assert_int_equal(n_bundled, n_few);
	run(now + MD_S);
	assert_int_equal(n_done, 1);
	assert_true(n_sent > n_few);
	assert_int_equal(n_bundled, n_few);
}

static void test_gives_up(void **state)
{
	uint64_t begun = now;

	(void)state;
	assert_int_equal(send_one(5), 0);
	run(begun + 999 * MD_MS);
	assert_int_equal(n_sent, 2 * MD_TRIES);
	assert_int_equal(n_done, 0);
	run(begun + MD_S);
	assert_int_equal(n_done, 1);
	assert_int_equal(n_arrived(), 0);
	assert_int_equal(last_qpn, 77);
	assert_int_equal(n_unreachable, 1);
	assert_int_equal(relay.count.unreachable, 1);
	assert_int_equal(relay.count.retried, MD_TRIES - 1);
}

/* Nobody has that GID: asked with every try, sent as soon as somebody has. */
static void test_unknown_host(void **state)
{
	(void)state;
	n_endpoints = 0;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_asked, 1);
	run(now + 200 * MD_MS);
	assert_int_equal(n_asked, 3);
	assert_int_equal(n_sent, 0);
	md_msg_relay_known(&relay, now);
	assert_int_equal(n_sent, 0);
	n_endpoints = 1;
	now += MD_KNOWN_NS;
	md_msg_relay_known(&relay, now);
	assert_int_equal(n_sent, 1);
	md_msg_relay_known(&relay, now);
	assert_int_equal(n_sent, 1);
	md_msg_relay_acked(&relay, last_id, &here, now);
	assert_int_equal(n_arrived(), 1);
	/* One that was asked in vain lately. */
	n_endpoints = 0;
	willing = false;
	assert_int_equal(send_one(6), 0);
	assert_int_equal(n_done, 2);
	assert_int_equal(n_arrived(), 1);
	assert_int_equal(last_client, 6);
}

/* News without end, while thousands of messages wait: they are looked at every 10 ms. */
static void test_news_without_end(void **state)
{
	const unsigned int n = 1000;
	uint64_t begun = now;

	(void)state;
	n_endpoints = 0;
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(send_one(5), 0);
	n_looked = 0;
	for (unsigned int i = 0; i < 10000; i++)
		md_msg_relay_known(&relay, now);
	assert_int_equal(n_looked, n);
	assert_int_equal(md_msg_relay_next(&relay), now + MD_KNOWN_NS);
	/* The last news is not lost. */
	n_endpoints = 1;
	now = begun + MD_KNOWN_NS;
	md_msg_relay_tick(&relay, now);
	assert_int_not_equal(n_sent, 0);
	assert_true(md_msg_relay_next(&relay) > now);
}

static void test_cookie_learnt(void **state)
{
	struct mv_host_id one = peers_id(1), two = peers_id(2);
	struct md_endpoint to = {.ifindex = 1, .ip.s6_addr = {[15] = 1}};

	(void)state;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_sent, 4);
	md_msg_relay_learned(&relay, &two, &to, now);
	assert_int_equal(n_sent, 4);
	now += MD_S;
	md_msg_relay_learned(&relay, &one, &to, now);
	assert_int_equal(n_sent, 6);
	assert_int_equal(sent_to[1], 4);
	/* The second challenge answers what went out before the first one came. */
	md_msg_relay_learned(&relay, &one, &to, now + MD_MS);
	assert_int_equal(n_sent, 6);
}

/* A host with ever other addresses has messages sent again for some of its challenges only. */
static void test_cookies_without_end(void **state)
{
	struct mv_host_id one = peers_id(1);
	struct md_endpoint to = {.ifindex = 1};
	unsigned int n;

	(void)state;
	for (unsigned int i = 0; i < MD_MSGS_PER_ACCOUNT; i++)
		assert_int_equal(send_one(5), 0);
	n_sent = 0;
	for (unsigned int i = 0; i < 10000; i++) {
		to.ip.s6_addr[0] = (uint8_t)(i >> 8);
		to.ip.s6_addr[1] = (uint8_t)i;
		md_msg_relay_learned(&relay, &one, &to, now);
	}
	assert_in_range(n_sent, MD_LEARNED_BURST / 2, MD_LEARNED_BURST);
	n = n_sent;
	now += MD_S;
	to.ip.s6_addr[2] = 1;
	md_msg_relay_learned(&relay, &one, &to, now);
	assert_true(n_sent > n);
}

/* After a restart all hosts of a large job challenge us. Looking for messages to each leaves room for those that have some. */
static void test_cookies_of_a_fleet(void **state)
{
	struct mv_host_id one = peers_id(1), two = peers_id(2);
	struct md_endpoint to = {.ifindex = 1};

	(void)state;
	for (unsigned int i = 0; i < 1000; i++)
		assert_int_equal(send_one(5), 0);
	n_sent = 0;
	for (unsigned int i = 0; i < 1000; i++) {
		to.ip.s6_addr[0] = (uint8_t)(i >> 8);
		to.ip.s6_addr[1] = (uint8_t)i;
		md_msg_relay_learned(&relay, &two, &to, now);
	}
	assert_int_equal(n_sent, 0);
	to.ip.s6_addr[2] = 1;
	md_msg_relay_learned(&relay, &one, &to, now);
	assert_int_equal(n_sent, 256);
}

/* With many ways each try takes some, and all tries together take all. */
static void test_many_ways(void **state)
{
	(void)state;
	n_endpoints = 24;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_sent, MD_PATHS_FIRST);
	run(now + MD_S);
	assert_int_equal(n_sent, MD_PATHS_FIRST * MD_TRIES_FEW +
					 MD_PATHS_AT_ONCE * (MD_TRIES - MD_TRIES_FEW));
	for (size_t i = 0; i < n_endpoints; i++)
		assert_true(sent_to[i] > 0);
}

/* The first tries take every netdev once, and each another address of it. */
/* Nothing comes of it, but for news that is late: it is not the first that is thought of. */
static void test_said_down(void **state)
{
	const union ibv_gid gid = unit_gid("10.1.0.2");
	struct md_endpoint ways[MD_PATHS_MAX];
	uint64_t begun = now;

	(void)state;
	said_down = 0;
	assert_int_equal(send_one(5), 0);
	run(begun + 30 * MD_MS);
	assert_int_equal(relay.count.retried, 1);
	assert_int_equal(sent_to[0], 0);
	assert_int_equal(sent_to[1], 2);
	run(begun + 110 * MD_MS);
	assert_int_equal(relay.count.retried, 2);
	assert_int_equal(sent_to[0], 1);
	assert_int_equal(sent_to[1], 3);
	md_msg_relay_acked(&relay, last_id, &here, now);
	/* Nor is it one to have a cookie for. */
	assert_int_equal(md_msg_relay_first_ways(&relay, &gid, ways, MD_PATHS_MAX), 1);
	assert_int_equal(ways[0].ip.s6_addr[15], 1);
	/* Then nothing is known of any. */
	said_down = ALL;
	assert_int_equal(md_msg_relay_first_ways(&relay, &gid, ways, MD_PATHS_MAX), 2);
	assert_int_equal(send_one(5), 0);
	assert_int_equal(sent_to[0], 2);
	assert_int_equal(sent_to[1], 4);
}

/* Messages go another way; but a cookie is for later, too. */
static void test_cut(void **state)
{
	const union ibv_gid gid = unit_gid("10.1.0.2");
	struct md_endpoint ways[MD_PATHS_MAX];

	(void)state;
	cut = 1;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(sent_to[0], 1);
	assert_int_equal(sent_to[1], 0);
	assert_int_equal(md_msg_relay_first_ways(&relay, &gid, ways, MD_PATHS_MAX), 2);
	/* And there is no other. */
	said_down = 0;
	assert_int_equal(send_one(6), 0);
	assert_int_equal(sent_to[0], 2);
	assert_int_equal(sent_to[1], 1);
}

static void test_few_netdevs(void **state)
{
	unsigned int on[2] = {0};

	(void)state;
	n_endpoints = 6;
	n_netdevs = 2;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_sent, 2);
	for (size_t i = 0; i < n_endpoints; i++)
		on[i % 2] += sent_to[i];
	assert_int_equal(on[0], 1);
	assert_int_equal(on[1], 1);
	now = md_msg_relay_next(&relay);
	md_msg_relay_tick(&relay, now);
	assert_int_equal(n_sent, 4);
	for (size_t i = 0; i < n_endpoints; i++)
		assert_true(sent_to[i] <= 1);
	now = md_msg_relay_next(&relay);
	md_msg_relay_tick(&relay, now);
	assert_int_equal(n_sent, 10);
}

/* A process says the same again and again while the other host's agent gets no processor: that is one message. */
static void test_said_again(void **state)
{
	uint64_t begun = now;

	(void)state;
	n_endpoints = 24;
	assert_int_equal(send_one(5), 0);
	for (int i = 1; i < 50; i++) {
		run(begun + (uint64_t)i * 20 * MD_MS);
		assert_int_equal(send_same(5), MD_MSG_RELAY_MERGED);
	}
	assert_int_equal(relay.n, 1);
	assert_int_equal(relay.count.accepted, 1);
	assert_int_equal(relay.count.merged, 49);
	/* It goes on as long, in which the process is told once a second. */
	assert_true(n_sent <= MD_PATHS_FIRST * MD_TRIES_FEW + MD_PATHS_AT_ONCE * 5);
	assert_int_equal(n_unreachable, 0);
	for (int i = 50; i < 200; i++) {
		run(begun + (uint64_t)i * 20 * MD_MS);
		assert_int_equal(send_same(5), MD_MSG_RELAY_MERGED);
	}
	assert_int_equal(n_unreachable, 3);
	assert_int_equal(n_done, 0);
	assert_true(n_sent <= MD_PATHS_FIRST * MD_TRIES_FEW + MD_PATHS_AT_ONCE * 20);
	/* The last time counts as much as the first one. */
	n_sent = 0;
	begun = now;
	run(begun + 200 * MD_MS);
	assert_true(n_sent > 0);
	run(begun + 400 * MD_MS);
	assert_int_equal(n_done, 0);
	run(begun + 2 * MD_S);
	assert_int_equal(n_done, 1);
	assert_int_equal(relay.n, 0);
	/* Then it is a message like any other. */
	n_sent = 0;
	assert_int_equal(send_same(5), 0);
	assert_int_equal(n_sent, MD_PATHS_FIRST);
	md_msg_relay_acked(&relay, last_id, &here, now);
	assert_int_equal(send_same(5), 0);
}

/* Said again at the end of its tries, it is tried again; and told of as long as it would have been by itself. */
static void test_said_again_late(void **state)
{
	uint64_t begun = now;

	(void)state;
	assert_int_equal(send_one(5), 0);
	run(begun + 990 * MD_MS);
	assert_int_equal(n_sent, 2 * MD_TRIES);
	assert_int_equal(send_same(5), MD_MSG_RELAY_MERGED);
	run(begun + MD_S);
	assert_int_equal(n_sent, 2 * MD_TRIES + 2);
	assert_int_equal(n_unreachable, 1);
	assert_int_equal(n_done, 0);
	md_msg_relay_acked(&relay, last_id, &here, now);
	assert_int_equal(n_arrived(), 1);
	assert_int_equal(n_done, 1);
	/* To another, or from another, it is another one. */
	assert_int_equal(send_one(5), 0);
	assert_int_equal(send_same(6), 0);
	assert_int_equal(relay.count.merged, 1);
}

/* What a process said last is repeated when it is gone, as any other message. */
static void test_client_goes(void **state)
{
	uint64_t begun = now;

	(void)state;
	assert_int_equal(send_one(5), 0);
	assert_int_equal(n_sent, 2);
	md_msg_relay_orphan(&relay, 5);
	run(begun + 100 * MD_MS);
	assert_int_equal(n_sent, 6);
	md_msg_relay_acked(&relay, last_id, &here, now);
	assert_int_equal(n_arrived(), 1);
	assert_int_equal(relay.n_orphans, 0);
	assert_true(md_msg_relay_next(&relay) == UINT64_MAX);
	/* Nor does it stay for ever. */
	assert_int_equal(send_one(6), 0);
	md_msg_relay_orphan(&relay, 6);
	run(now + MD_S + MD_TRIES_SLOW_NS);
	assert_int_equal(n_done, 2);
	assert_int_equal(relay.n, 0);
}

/* Clients that come and go leave room for others. */
static void test_orphans(void **state)
{
	(void)state;
	for (uint64_t client = 5; client < 10; client++) {
		for (int i = 0; i < MD_MSGS_PER_CLIENT; i++)
			assert_int_equal(send_one(client), 0);
		md_msg_relay_orphan(&relay, client);
		assert_int_equal(relay.n, MD_ORPHANS_MAX);
		assert_int_equal(relay.n_orphans, MD_ORPHANS_MAX);
	}
	assert_int_equal(n_done, 0);
	assert_int_equal(send_one(10), 0);
	run(now + MD_S);
	assert_int_equal(n_done, MD_ORPHANS_MAX + 1);
	assert_int_equal(relay.n_orphans, 0);
}

static void test_limit(void **state)
{
	(void)state;
	n_endpoints = 0;
	for (int i = 0; i < MD_MSGS_MAX; i++)
		assert_int_equal(send_one(5), 0);
	assert_int_equal(send_one(5), -ENOSPC);
	assert_int_equal(relay.count.no_room, 1);
	run(now + MD_S);
	assert_int_equal(n_done, MD_MSGS_MAX);
	assert_int_equal(send_one(5), 0);
}

/*
 * A user may have thousands of messages due at the same time, each of which is sent to eight addresses. The event loop
 * does other things in between, and of all messages those go first that have been due for longest.
 */
static void test_many_due(void **state)
{
	const unsigned int n = MD_MSGS_PER_ACCOUNT;
	unsigned int calls = 1, before;

	(void)state;
	n_endpoints = MD_PATHS_MAX;
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(send_one(5), 0);
	run(now + 200 * MD_MS);
	assert_int_equal(send_one(6), 0);
	now += MD_S;
	before = n_sent;
	assert_true(md_msg_relay_tick(&relay, now) < now);
	assert_in_range(n_sent - before, 1, MD_TRIES_PER_TURN * MD_PATHS_AT_ONCE);
	while (md_msg_relay_tick(&relay, now) <= now)
		calls++;
	assert_int_equal(calls, n / MD_TRIES_PER_TURN);
	assert_int_equal(relay.count.retried, 3 * n + 1);
	assert_int_equal(n_done, 0);
}

static void test_copies(void **state)
{
	struct md_envelope envelope = {.id = 10, .len = 3, .data = (const uint8_t *)"abc"};
	struct mv_host_id one = peers_id(1), two = peers_id(2);

	(void)state;
	assert_false(md_msg_relay_is_copy(&relay, &one, 1, &envelope));
	assert_true(md_msg_relay_first(&relay, &one, 1, &envelope, now));
	assert_true(md_msg_relay_is_copy(&relay, &one, 1, &envelope));
	assert_false(md_msg_relay_first(&relay, &one, 1, &envelope, now));
	/* Another sender, another life of it, another number, another content. */
	assert_true(md_msg_relay_first(&relay, &two, 1, &envelope, now));
	assert_true(md_msg_relay_first(&relay, &one, 2, &envelope, now));
	envelope.id = 11;
	assert_true(md_msg_relay_first(&relay, &one, 1, &envelope, now));
	envelope.data = (const uint8_t *)"abd";
	assert_true(md_msg_relay_first(&relay, &one, 1, &envelope, now));
	assert_int_equal(relay.count.received, 5);
	assert_int_equal(relay.count.repeated, 1);
}

static void test_faults(void **state)
{
	(void)state;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		int err = send_one(5);

		assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
		assert_int_equal(relay.n, fault_fired() ? 0 : 1);
	});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_arrives, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bundles_at_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_acks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gives_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unknown_host, setup, teardown),
		cmocka_unit_test_setup_teardown(test_news_without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cookie_learnt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cookies_without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cookies_of_a_fleet, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_ways, setup, teardown),
		cmocka_unit_test_setup_teardown(test_few_netdevs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_said_down, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(test_said_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_said_again_late, setup, teardown),
		cmocka_unit_test_setup_teardown(test_client_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_orphans, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_due, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
