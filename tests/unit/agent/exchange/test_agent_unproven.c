/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A neighbour forges source addresses. What the agent sends there is rationed for each link and each group of addresses,
 * and together not longer than what came in.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "peers.h"

#define NET 1 /* our netdev */

static const struct md_options options;
static struct md_agent agent;
static struct md_secure *forger; /* makes datagrams, under any id */
static struct md_identity ours, theirs;
static uint64_t clock_ns;

/* The datagram that arrives next, and what is sent to single addresses. */
static struct md_received next;
static bool is_next;
static struct {
	size_t n, bytes, of_kind[MD_KIND_END], of_net[3];
	size_t longest;
	uint8_t last[MD_DATAGRAM_MAX_BYTES];
	size_t last_len;
} sent;
static size_t came_bytes;

uint64_t __wrap_md_now(void);
uint64_t __wrap_md_now(void)
{
	return clock_ns;
}

int __wrap_md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret);
int __wrap_md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret)
{
	(void)udp;
	(void)fd;
	if (!is_next)
		return -EAGAIN;
	is_next = false;
	*ret = next;
	return 0;
}

int __wrap_md_udp_send(const struct md_udp *udp, const struct in6_addr *to, uint16_t port, uint32_t ifindex,
		       const struct in6_addr *from, const void *bytes, size_t len);
int __wrap_md_udp_send(const struct md_udp *udp, const struct in6_addr *to, uint16_t port, uint32_t ifindex,
		       const struct in6_addr *from, const void *bytes, size_t len)
{
	(void)udp;
	(void)port;
	(void)from;
	if (md_udp_is_multicast(to))
		return 0;
	sent.of_net[ifindex]++;
	sent.n++;
	sent.bytes += len;
	sent.of_kind[((const uint8_t *)bytes)[5]]++;
	sent.longest = len > sent.longest ? len : sent.longest;
	memcpy(sent.last, bytes, len);
	sent.last_len = len;
	return 0;
}

static unsigned int waiting_pct; /* of the send buffer, in use */

unsigned int __wrap_md_udp_waiting(const struct md_udp *udp, bool ipv6);
unsigned int __wrap_md_udp_waiting(const struct md_udp *udp, bool ipv6)
{
	(void)udp;
	(void)ipv6;
	return waiting_pct;
}

static uint32_t no_random(uint32_t below)
{
	return below - 1;
}

/* @n_heard: hosts on our link; where there are many, newcomers are greeted one by one */
static void begin(const char *name, size_t n_heard)
{
	const struct md_secure_config config = {.host = {{0xaa}}, .start = 1}, other = {.host = {{0xbb}}, .start = 1};

	memset(&agent, 0, sizeof(agent));
	memset(&sent, 0, sizeof(sent));
	came_bytes = waiting_pct = 0;
	clock_ns = 1000 * MD_S;
	agent.options = &options;
	agent.udp.fd4 = agent.udp.fd6 = 0;
	agent.self.id = agent.hosts.self = config.host;
	agent.self.start = 1;
	strcpy(agent.self.name, name);
	agent.watch.view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; gid fe80::1/64 v2;");
	assert_int_equal(md_secure_new(&config, NULL, clock_ns, &agent.secure), 0);
	assert_int_equal(md_secure_new(&other, NULL, clock_ns, &forger), 0);
	assert_int_equal(md_identity_make(&ours), 0);
	assert_int_equal(md_identity_make(&theirs), 0);
	agent.trust.on = true;
	agent.trust.identity = ours;
	md_secure_identity(agent.secure, &ours);
	agent.tx.announce.random = no_random;
	agent.tx.announce.n = 1;
	agent.tx.announce.outlets[0] =
		(struct md_outlet){.ifindex = NET, .interval_ms = 1000, .n_heard = n_heard, .next_ns = UINT64_MAX};
	md_tx_describe(&agent, false);
	assert_int_not_equal(agent.trust.statement_len, 0);
}

static void end(void)
{
	md_hosts_fini(&agent.hosts);
	md_gidmap_fini(&agent.gidmap);
	md_bound_drop_all(&agent.trust);
	md_pins_fini(&agent.trust.pins);
	md_view_free(agent.watch.view);
	md_secure_free(agent.secure);
	md_secure_free(forger);
}

static struct in6_addr address(uint32_t n)
{
	struct in6_addr ip = {.s6_addr = {0xfe, 0x80}};

	memcpy(&ip.s6_addr[12], &n, sizeof(n));
	return ip;
}

static uint32_t arrives_on = NET;

/* A datagram of the host @n from the address @at arrives on our link. */
static void arrive(enum md_kind kind, unsigned int n, uint32_t at, bool multicast, const void *payload, size_t len)
{
	const struct mv_host_id id = peers_id(n);
	const struct in6_addr ours_ip = address(0xffff);
	struct md_addr to = md_tx_addr(&ours_ip, 0, arrives_on);

	next = (struct md_received){.ip = address(at),
				    .to = multicast ? md_udp_group(true) : ours_ip,
				    .ifindex = arrives_on,
				    .hop_limit = 255};
	next.len = md_seal(forger, kind, kind == MD_KIND_BEACON ? NULL : &to, arrives_on, payload, len, clock_ns,
			   next.bytes);
	memcpy(next.bytes + MD_HEADER_SENDER_AT, &id, sizeof(id));
	came_bytes += next.len;
	is_next = true;
	md_rx_drain(&agent);
}

static uint16_t from_rail;
static uint64_t generation = 1;

/* @desc: NULL: without the description */
static void beacon(unsigned int n, uint32_t at, const char *desc)
{
	struct md_beacon said = {.name = "h",
				 .agent_version = 1,
				 .interval_ms = 60000,
				 .generation = generation,
				 .desc_bytes = 100,
				 .rail = from_rail};
	uint8_t bytes[MD_DESC_BYTES_MAX], payload[MD_PAYLOAD_MAX_BYTES];
	struct md_desc *parsed;

	if (desc) {
		parsed = peers_desc(desc);
		said.desc_bytes = (uint32_t)md_desc_encode(parsed, bytes);
		free(parsed);
	}
	md_beacon_cut(&said, bytes, desc ? 0 : MD_NO_PIECE);
	arrive(MD_KIND_BEACON, n, at, true, payload, md_beacon_encode(&said, payload));
}

static void beacon_on(uint32_t ifindex, unsigned int n, uint32_t at, const char *desc)
{
	arrives_on = ifindex;
	beacon(n, at, desc);
	arrives_on = NET;
}

static void use_two_links(void)
{
	md_view_free(agent.watch.view);
	agent.watch.view = peers_view("rail mlx5_0; gid 10.1.0.1/24 v2; rail mlx5_1; gid 10.2.0.1/24 v2;");
}

static void statement(unsigned int n, uint32_t at, bool asks, bool multicast)
{
	struct md_statement said = {.host = peers_id(n), .start = 1, .generation = 1, .name = "h"};
	uint8_t payload[MD_PAYLOAD_MAX_BYTES];
	size_t len = md_statement_sign(&said, &theirs, payload);

	md_statement_ask(payload, asks);
	arrive(MD_KIND_IDENTITY, n, at, multicast, payload, len);
}

#define DESC "rail mlx5_0; gid 10.1.0.2/24 v2;"

/* One statement to the group would have all agents of the link answer. One to us draws a challenge, which is a header. */
static void test_statements_that_ask(void **state)
{
	(void)state;
	begin("a-host-with-a-long-name", 1);
	beacon(2, 2, DESC);
	statement(2, 2, false, true);
	memset(&sent, 0, sizeof(sent)); /* it was asked whether it has our key */
	for (unsigned int i = 0; i < 1000; i++)
		statement(2, 7, true, true);
	assert_int_equal(sent.n, 0);
	for (unsigned int i = 0; i < 1000; i++)
		statement(2, 7, true, false);
	assert_int_equal(sent.of_kind[MD_KIND_CHALLENGE], sent.n);
	assert_in_range(sent.n, 1, 64);
	assert_int_equal(sent.longest, MD_HEADER_BYTES);
	end();
}

/* Who shows the cookie of the challenge is answered. */
static void test_statement_with_a_cookie(void **state)
{
	const struct in6_addr us = address(0xffff);
	struct md_addr from = md_tx_addr(&us, 0, NET);
	struct md_opened opened;

	(void)state;
	begin("a-host-with-a-long-name", 1);
	beacon(2, 2, DESC);
	statement(2, 2, false, true);
	statement(2, 2, true, false);
	assert_int_equal(sent.of_kind[MD_KIND_CHALLENGE], 1);
	assert_int_equal(md_open(forger, sent.last, sent.last_len, &from, 255, clock_ns, &opened), MD_OPEN_LEARNED);
	statement(2, 2, true, false);
	assert_int_equal(sent.last[5], MD_KIND_IDENTITY);
	end();
}

/* Datagrams to the group that are none for it: nobody answers. One to us draws a challenge no longer than itself. */
static void test_challenges(void **state)
{
	static const enum md_kind kinds[] = {MD_KIND_QUERY, MD_KIND_ENTRY, MD_KIND_MESSAGE, MD_KIND_PROBE, MD_KIND_ECHO, MD_KIND_BUNDLE};
	static const uint8_t payload[8];

	(void)state;
	begin("h", 1);
	beacon(2, 2, DESC);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		arrive(kinds[i], 2, 7, true, payload, sizeof(payload));
	next.hop_limit = 64; /* a statement from beyond a router */
	is_next = true;
	next.bytes[5] = MD_KIND_IDENTITY;
	md_rx_drain(&agent);
	assert_int_equal(sent.n, 0);
	for (unsigned int i = 0; i < 1000; i++)
		arrive(MD_KIND_QUERY, 2, 7, false, NULL, 0);
	assert_int_equal(sent.of_kind[MD_KIND_CHALLENGE], sent.n);
	assert_in_range(sent.n, 1, 64);
	assert_int_equal(sent.longest, MD_HEADER_BYTES);
	end();
}

/* Beacons of many hosts without description, from the address of a victim; then from an address each. */
static void test_questions_for_descriptions(void **state)
{
	(void)state;
	begin("h", 1);
	for (unsigned int n = 1; n <= 1000; n++)
		beacon(n, 7, NULL);
	assert_int_equal(sent.of_kind[MD_KIND_QUERY], MD_UNPROVEN_GROUP_BURST);
	assert_int_equal(sent.n, MD_UNPROVEN_GROUP_BURST);
	for (unsigned int n = 1001; n <= 20000; n++)
		beacon(n, n, NULL);
	assert_in_range(sent.n, MD_NEW_HOSTS_BURST / 2, MD_NEW_HOSTS_BURST);
	assert_true(sent.bytes <= came_bytes);
	/* Later again. */
	clock_ns += 10 * MD_S;
	beacon(1, 7, NULL);
	assert_int_equal(sent.last[5], MD_KIND_QUERY);
	end();
}

/* Somebody repeats beacons of a host on another link, without end. Where the host is heard, it is still asked. */
static void test_questions_on_another_link(void **state)
{
	(void)state;
	begin("h", 1);
	use_two_links();
	for (unsigned int i = 0; i < 9950; i++) {
		beacon_on(2, 2, 7 + i % 9, NULL);
		clock_ns += MD_MS;
	}
	memset(&sent, 0, sizeof(sent));
	beacon_on(NET, 2, 2, NULL);
	assert_int_equal(sent.of_kind[MD_KIND_QUERY], 1);
	/* Not for each beacon. */
	beacon_on(NET, 2, 2, NULL);
	assert_int_equal(sent.of_kind[MD_KIND_QUERY], 1);
	end();
}

static void look(unsigned int seconds)
{
	for (unsigned int i = 0; i < 4 * seconds; i++) {
		clock_ns += MD_S / 4;
		md_trust_look_hosts(&agent, clock_ns);
		md_tx_beacons(&agent, clock_ns);
	}
}

/* Hosts that somebody makes up at the address of a victim are asked for their keys. */
static void test_questions_for_keys(void **state)
{
	const unsigned int seconds = 60;

	(void)state;
	begin("h", 1);
	for (unsigned int n = 1; n <= 500; n++)
		beacon(n, 7, DESC);
	look(seconds);
	/* A beacon is shorter than our statement. */
	assert_int_equal(sent.n, 0);
	for (unsigned int i = 0; i < 4; i++)
		for (unsigned int n = 1; n <= 500; n++)
			beacon(n, 7, DESC);
	look(seconds);
	assert_int_equal(sent.of_kind[MD_KIND_IDENTITY], sent.n);
	assert_in_range(sent.n, MD_UNPROVEN_GROUP_BURST, MD_UNPROVEN_GROUP_BURST + MD_UNPROVEN_GROUP_RATE * seconds);
	assert_true(sent.bytes <= came_bytes);
	/* A host that is really there says enough. */
	beacon(1000, 1000, DESC);
	statement(1000, 1000, false, true);
	assert_int_equal(sent.last[5], MD_KIND_CONFIRM);
	end();
}

/* A host is asked for its key on each link on which it is heard: on the first one, its beacons may be forged. */
static void test_questions_for_keys_on_each_link(void **state)
{
	(void)state;
	begin("h", 1);
	use_two_links();
	for (from_rail = 0; from_rail < 16; from_rail++)
		beacon_on(2, 2, 7, DESC);
	from_rail = 0;
	for (unsigned int i = 0; i < 100; i++) {
		beacon(2, 2, DESC);
		look(10);
	}
	assert_in_range(sent.of_net[NET], sent.n / 4, sent.n * 3 / 4);
	assert_in_range(sent.n, 15, 25);
	end();
}

static void sealed_by_stranger(unsigned int n, uint32_t at)
{
	const struct mv_host_id id = peers_id(n);
	struct md_received received = {.ip = address(at), .ifindex = NET};

	memcpy(received.bytes + MD_HEADER_SENDER_AT, &id, sizeof(id));
	md_trust_stranger(&agent, &received, clock_ns);
}

/* Somebody sends what cannot be opened, from his own address in a host's name: the host is still told our key. */
static void test_strangers(void **state)
{
	(void)state;
	begin("h", 1);
	beacon(2, 2, DESC);
	memset(&sent, 0, sizeof(sent));
	for (unsigned int i = 0; i < 10; i++)
		sealed_by_stranger(2, 7);
	assert_int_equal(sent.n, 1);
	for (unsigned int i = 0; i < 10; i++)
		sealed_by_stranger(2, 2);
	assert_int_equal(sent.of_kind[MD_KIND_IDENTITY], 2);
	end();
}

/* A newcomer on a link with many hosts is greeted with no more than it has sent. */
static void test_greetings(void **state)
{
	(void)state;
	begin("a-host-with-a-name-that-is-long-but-still-fits", 1000);
	for (unsigned int n = 1; n <= 10; n++) {
		beacon(n, n, n % 2 ? NULL : DESC);
		look(1);
		assert_true(sent.bytes <= came_bytes);
	}
	end();
	begin("h", 1000);
	beacon(1, 1, DESC);
	look(1);
	assert_int_equal(sent.of_kind[MD_KIND_BEACON], 1);
	assert_true(sent.bytes <= came_bytes);
	/* What was spent on the greeting does not pay for a question, too. */
	for (unsigned int i = 0; i < 10; i++) {
		beacon(1, 1, DESC);
		look(10);
		assert_true(sent.bytes <= came_bytes);
	}
	assert_int_not_equal(sent.of_kind[MD_KIND_IDENTITY], 0);
	end();
}

/*
 * A port that was down is greeted, and that is all: the directory stays as it is. Otherwise who forges the generations of a signed host
 * would wake all processes each time.
 */
static void test_greeting_of_a_port_that_is_back(void **state)
{
	(void)state;
	begin("h", 1000);
	use_two_links();
	beacon_on(2, 2, 2, DESC);
	beacon(2, 2, DESC);
	look(1);
	for (generation = 3; generation <= 7; generation += 2) {
		beacon_on(2, 2, 2, DESC);
		memset(&sent, 0, sizeof(sent));
		agent.publishing.due_ns = UINT64_MAX;
		beacon(2, 2, DESC);
		look(1);
		assert_int_equal(sent.of_kind[MD_KIND_BEACON], 1);
		assert_int_equal(agent.publishing.due_ns, UINT64_MAX);
	}
	generation = 1;
	end();
}

/* Whatever comes, in whatever order: what goes to single addresses is together not longer. */
static void test_anything(void **state)
{
	(void)state;
	srandom(1);
	for (unsigned int round = 0; round < 4; round++) {
		begin(round % 2 ? "h" : "a-host-with-a-name-that-is-long-but-still-fits", round / 2 ? 1000 : 1);
		for (unsigned int i = 0; i < 5000; i++) {
			const unsigned int n = 1 + (unsigned int)random() % 50;
			const uint32_t at = random() % 2 ? n : 7;

			if (random() % 2)
				beacon(n, at, random() % 2 ? DESC : NULL);
			else
				statement(n, at, random() % 2, random() % 2);
			if (random() % 4 == 0)
				look(1);
			assert_true(sent.bytes <= came_bytes);
		}
		assert_true(sent.bytes > 0);
		end();
	}
}

/* Wanted hosts that nothing can be asked of yet take no tokens from others. */
static void test_hosts_without_bytes_delay_none(void **state)
{
	const unsigned int n_poor = 512, rich = 5000;
	struct mv_host_id id = peers_id(rich);

	(void)state;
	begin("h", 1);
	for (unsigned int n = 1; n <= n_poor; n++) {
		id = peers_id(n);
		beacon(n, n, DESC);
		md_hosts_want(&agent.hosts, md_hosts_find(&agent.hosts, &id), 5);
		md_hosts_find(&agent.hosts, &id)->asking.unanswered = 0;
	}
	for (unsigned int i = 0; i < 4; i++)
		beacon(rich, rich, DESC);
	id = peers_id(rich);
	md_hosts_want(&agent.hosts, md_hosts_find(&agent.hosts, &id), 5);
	memset(&sent, 0, sizeof(sent));
	for (unsigned int i = 0; i < 8; i++) {
		clock_ns += MD_S / 4;
		md_trust_look_hosts(&agent, clock_ns);
	}
	assert_true(sent.of_kind[MD_KIND_IDENTITY] > 0);
	end();
}

/* Datagrams of all kinds in the names of hosts that are not there, each from an address of its own, by a link. */
static size_t n_sent_to_forged(uint32_t ifindex, uint32_t first)
{
	size_t before = sent.n;

	arrives_on = ifindex;
	for (uint32_t i = first; i < first + 300; i++) {
		arrive(MD_KIND_QUERY, i, i, false, NULL, 0);
		arrive(MD_KIND_PROBE, i, i, false, NULL, 0);
		beacon(i, i, NULL);
		beacon(i, i, DESC);
		statement(2, i, true, false);
	}
	arrives_on = NET;
	return sent.n - before;
}

static bool is_asked(uint64_t answered_ns)
{
	const struct md_target target = {.gid = unit_gid("10.9.0.1"), .answered_ns = answered_ns};
	size_t before = sent.n;

	md_tx_ask(&agent, &target);
	return sent.n > before;
}

/*
 * Where nobody has an address, the kernel keeps what is sent there for seconds. Whoever forges such addresses does not fill
 * the send buffer, which beacons need, and takes nothing from other links.
 */
static void test_little_room(void **state)
{
	(void)state;
	begin("h", 1);
	use_two_links();
	beacon(2, 2, DESC);
	assert_true(n_sent_to_forged(NET, 1000) > 10 * MD_SCARCE_UNPROVEN);
	assert_true(is_asked(0));
	waiting_pct = MD_SCARCE_PERCENT;
	assert_int_equal(n_sent_to_forged(NET, 2000), MD_SCARCE_UNPROVEN);
	assert_int_equal(n_sent_to_forged(NET + 1, 3000), MD_SCARCE_UNPROVEN);
	waiting_pct = MD_SCARCEST_PERCENT;
	clock_ns += MD_S;
	assert_int_equal(n_sent_to_forged(NET, 4000), 0);
	assert_false(is_asked(0));
	assert_true(is_asked(clock_ns));
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts_without_bytes_delay_none),
		cmocka_unit_test(test_statements_that_ask),
		cmocka_unit_test(test_statement_with_a_cookie),
		cmocka_unit_test(test_challenges),
		cmocka_unit_test(test_questions_for_descriptions),
		cmocka_unit_test(test_questions_on_another_link),
		cmocka_unit_test(test_questions_for_keys),
		cmocka_unit_test(test_questions_for_keys_on_each_link),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_greetings),
		cmocka_unit_test(test_greeting_of_a_port_that_is_back),
		cmocka_unit_test(test_anything),
		cmocka_unit_test(test_little_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
