/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What is rationed for all hosts together: messages, of which a datagram has more than a hundred, and answers. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent.h"
#include "hostsint.h"
#include "bundle_wire.h"
#include "paths.h"
#include "oneagent.h"
#include "peers.h"

static uint64_t datagram_ns; /* how long each datagram takes */
static unsigned int n_received;

/* There is always one more, of nobody. */
int __wrap_md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret);
int __wrap_md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret)
{
	(void)udp;
	(void)fd;
	memset(ret, 0, sizeof(*ret));
	clock_ns += datagram_ns;
	n_received++;
	return 0;
}

/* A bundle of @n messages that are none: what is counted as malformed was looked at. */
static size_t make_bundle(uint8_t *buf, unsigned int n)
{
	static const uint8_t none[8];
	struct md_envelope envelope = {.op = MD_MSG_DATA, .len = sizeof(none), .data = none};
	struct md_bundle_writer w;

	md_bundle_begin(&w, buf, MD_MSG_DATA, 0);
	for (envelope.id = 1; envelope.id <= n; envelope.id++)
		assert_true(md_bundle_add(&w, &envelope));
	return md_bundle_end(&w, (uint16_t)n);
}

/* Of a host that is not known. */
static void check_rationed(bool sealed)
{
	const struct md_secure_config config = {.host = {{1}}, .start = 1};
	const struct md_keys no_keys = {0};
	struct md_received received = {0};
	struct md_opened opened = {.kind = MD_KIND_BUNDLE, .sealed = sealed};
	const unsigned int n = 100, most = MD_MESSAGES_BURST / 16;
	uint64_t before;

	memset(&agent, 0, sizeof(agent));
	assert_int_equal(md_secure_new(&config, &no_keys, md_now(), &agent.secure), 0);
	opened.payload_len = make_bundle(opened.payload, n);
	for (unsigned int i = 0; i < 4000; i++)
		md_msg_router_bundle(&agent, &received, &opened);
	assert_int_equal(agent.counts.bundles.received, 4000);
	assert_in_range(agent.counts.payloads.malformed, most - n, most);
	assert_int_equal(agent.counts.payloads.malformed + agent.counts.messages.throttled, 4000 * n);
	/* After a second there is room for some more. */
	clock_ns += MD_S;
	before = agent.counts.payloads.malformed;
	md_msg_router_bundle(&agent, &received, &opened);
	assert_int_equal(agent.counts.payloads.malformed, before + n);
	md_secure_free(agent.secure);
}

static void test_messages_are_rationed(void **state)
{
	(void)state;
	check_rationed(false);
	check_rationed(true);
}

/* What comes from where the host is heard. */
static void from_host(const struct md_host *host, struct md_received *received, struct md_opened *opened)
{
	*received = (struct md_received){.ip = host->sightings.list[0].ip, .ifindex = 1};
	opened->sender = host->id;
	opened->start = host->start;
}

/* Whoever makes up hosts, of which each may send a lot, leaves those alone that this host has to do with. */
static void check_wanted(bool sealed)
{
	struct md_opened opened = {.kind = MD_KIND_BUNDLE, .sealed = sealed};
	struct md_received received;
	struct md_host *host, *wanted;
	uint64_t before;

	begin_agent();
	wanted = add_host(1);
	md_hosts_want(&agent.hosts, wanted, 0);
	opened.payload_len = make_bundle(opened.payload, 100);
	for (unsigned int n = 2; n < 20; n++) {
		host = add_host(n);
		from_host(host, &received, &opened);
		for (unsigned int i = 0; i < MD_MESSAGES_BURST / 100; i++)
			md_msg_router_bundle(&agent, &received, &opened);
	}
	assert_true(agent.counts.messages.throttled > 0);
	from_host(wanted, &received, &opened);
	before = agent.counts.payloads.malformed;
	md_msg_router_bundle(&agent, &received, &opened);
	assert_int_equal(agent.counts.payloads.malformed, before + 100);
	end_agent();
}

static void test_messages_of_wanted_hosts(void **state)
{
	(void)state;
	check_wanted(false);
	check_wanted(true);
}

/* Likewise with questions. Return: is one more of that host answered? */
static bool is_answered(const struct md_host *host, uint32_t group)
{
	struct md_opened opened = {.kind = MD_KIND_QUERY, .group = group};
	uint64_t before = agent.counts.queries.refused;
	struct md_received received;

	from_host(host, &received, &opened);
	md_tx_entry(&agent, &received, &opened);
	return agent.counts.queries.refused == before;
}

static void test_answers_to_wanted_hosts(void **state)
{
	struct md_host *flood, *wanted[2];
	unsigned int n = 0;

	(void)state;
	begin_agent();
	flood = add_host(1);
	for (unsigned int i = 0; i < 2; i++) {
		wanted[i] = add_host(2 + i);
		md_hosts_want(&agent.hosts, wanted[i], 0);
	}
	/* One address, and then many. */
	while (is_answered(flood, 1))
		n++;
	assert_in_range(n, MD_ANSWERS_BURST, MD_ANSWERS_GROUP_BURST);
	for (uint32_t i = 0; i < 8192; i++)
		is_answered(flood, i % MD_SOURCE_GROUPS);
	assert_true(is_answered(wanted[0], 1));
	/* One of those may not take it all for itself. */
	for (unsigned int i = 0; i < 8192; i++)
		is_answered(wanted[0], 1);
	assert_true(is_answered(wanted[1], 1));
	end_agent();
}

static bool is_taken(const struct md_received *received, const struct md_opened *opened)
{
	uint64_t before = agent.counts.messages.throttled;

	md_msg_router_bundle(&agent, received, opened);
	return agent.counts.messages.throttled == before;
}

/* Whoever uses up all that hosts on his link may send leaves it to those on other links: known ones, and unknown ones. */
static void check_messages_of_another_link(bool sealed)
{
	struct md_opened opened = {.kind = MD_KIND_BUNDLE, .sealed = sealed};
	struct md_received received;
	struct md_host *other;

	begin_agent();
	other = add_host(1);
	opened.payload_len = make_bundle(opened.payload, 100);
	for (unsigned int n = 2; n < 20; n++) {
		from_host(add_host(n), &received, &opened);
		received.hop_limit = 255;
		for (unsigned int i = 0; i < MD_MESSAGES_BURST / 100; i++)
			md_msg_router_bundle(&agent, &received, &opened);
	}
	opened.sender = peers_id(99);
	while (is_taken(&received, &opened))
		;
	from_host(other, &received, &opened);
	received.hop_limit = 255;
	assert_false(is_taken(&received, &opened));
	other->sightings.list[0].ifindex = received.ifindex = 2;
	assert_true(is_taken(&received, &opened));
	opened.sender = peers_id(100);
	assert_true(is_taken(&received, &opened));
	received.hop_limit = 64; /* beyond a router */
	assert_true(is_taken(&received, &opened));
	end_agent();
}

static void test_messages_of_another_link(void **state)
{
	(void)state;
	check_messages_of_another_link(false);
	check_messages_of_another_link(true);
}

static void test_answers_on_another_link(void **state)
{
	struct md_opened opened = {.kind = MD_KIND_QUERY};
	struct md_received received = {.ifindex = 1, .hop_limit = 255};
	uint64_t before;

	(void)state;
	begin_agent();
	for (uint32_t i = 0; i < 8192; i++) {
		opened.group = i % MD_SOURCE_GROUPS;
		md_tx_entry(&agent, &received, &opened);
	}
	before = agent.counts.queries.refused;
	assert_true(before > 0);
	received.ifindex = 2;
	md_tx_entry(&agent, &received, &opened);
	received.hop_limit = 64;
	md_tx_entry(&agent, &received, &opened);
	assert_int_equal(agent.counts.queries.refused, before);
	end_agent();
}

/* Invented hosts on one link all have to be asked for their keys. Those on another one, or that a process wants, are asked meanwhile. */
static void test_questions_for_keys_on_another_link(void **state)
{
	struct md_host *other, *wanted;

	(void)state;
	begin_agent();
	agent.trust.on = true;
	for (unsigned int n = 10; n < 1000; n++)
		add_host(n);
	other = add_host(1);
	other->sightings.list[0].ifindex = 2;
	wanted = add_host(2);
	md_hosts_want(&agent.hosts, wanted, 0);
	for (uint64_t now_ns = MD_S; now_ns < 3 * MD_S; now_ns += MD_S / 4)
		md_trust_look_hosts(&agent, now_ns);
	assert_true(other->asking.n_asked);
	assert_true(wanted->asking.n_asked);
	/* Of him no more than so many. */
	{
		const struct md_host *host;
		unsigned int n_asked = 0;

		for (host = agent.hosts.by_id; host; host = host->hh.next)
			n_asked += host->asking.n_asked;
		assert_in_range(n_asked, 4 * 24, 2 * 4 * 32);
	}
	end_agent();
}

/* Many hosts on one link that never answer: a newer one is asked all the same; and one that keeps silent, among many newer ones. */
static void check_silent(bool many)
{
	struct md_host *last;

	begin_agent();
	agent.trust.on = true;
	for (unsigned int n = 10; n < 10010; n++) {
		struct md_host *host = add_host(n);

		agent.hosts.shares[md_link_share(1)].room_at_ns = 0;
		host->asking.n_asked = many ? 6 : 0;
		host->asking.not_before_ns = 1;
	}
	last = add_host(1);
	last->asking.n_asked = many ? 0 : 6;
	for (uint64_t now_ns = MD_S; now_ns < 100 * MD_S; now_ns += MD_S / 4)
		md_trust_look_hosts(&agent, now_ns);
	assert_true(last->asking.not_before_ns > MD_S + MD_S);
	end_agent();
}

static void test_silent_hosts_delay_none(void **state)
{
	(void)state;
	check_silent(true);
	check_silent(false);
}

/* A host that answers nothing for minutes, for its clock was set back, is still asked then: seldom, and not less. */
static void test_questions_for_keys_do_not_end(void **state)
{
	uint64_t asked_ns = 0, now_ns = MD_S;
	unsigned int n = 0;
	struct md_host *host;

	(void)state;
	begin_agent();
	agent.trust.on = true;
	host = add_host(1);
	for (; now_ns < 600 * MD_S; now_ns += MD_S / 4) {
		uint64_t before = host->asking.not_before_ns;

		md_unproven_came(host, 20); /* a beacon */
		md_trust_look_hosts(&agent, now_ns);
		if (host->asking.not_before_ns == before)
			continue;
		n++;
		asked_ns = now_ns;
	}
	assert_in_range(n, 10, 20);
	assert_true(now_ns - asked_ns <= 64 * MD_S);
	end_agent();
}

/* Statements that nobody has signed, from everywhere on one link. */
static void test_statements_of_another_link(void **state)
{
	struct md_statement said = {.start = 1, .generation = 1, .name = "host1"};
	struct md_opened opened = {.kind = MD_KIND_IDENTITY, .start = 1, .on_link = true};
	struct md_received received = {.ifindex = 1};
	struct md_identity identity;

	(void)state;
	begin_agent();
	agent.trust.on = true;
	said.host = opened.sender = add_host(1)->id;
	assert_int_equal(md_identity_make(&identity), 0);
	opened.payload_len = md_statement_sign(&said, &identity, opened.payload);
	received.ip.s6_addr[10] = received.ip.s6_addr[11] = 0xff;
	opened.payload[opened.payload_len - 1] ^= 1;
	for (uint32_t i = 0; !agent.trust.count.throttled || i < 64 * 1024; i++) {
		memcpy(&received.ip.s6_addr[12], &i, sizeof(i));
		opened.payload[opened.payload_len - 2]++;
		md_trust_statement(&agent, &received, &opened, MD_S);
	}
	opened.payload[opened.payload_len - 1] ^= 2;
	for (uint32_t ifindex = 2; ifindex < 2 + 16; ifindex++) {
		uint64_t rejected = agent.trust.count.rejected;

		received.ifindex = ifindex;
		md_trust_statement(&agent, &received, &opened, MD_S);
		assert_int_equal(agent.trust.count.rejected, rejected + 1);
	}
	/* Beyond a router. */
	received.ifindex = 1;
	opened.on_link = false;
	said.start = agent.trust.count.rejected;
	md_trust_statement(&agent, &received, &opened, MD_S);
	assert_int_equal(agent.trust.count.rejected, said.start + 1);
	end_agent();
}

static uint32_t no_random(uint32_t below)
{
	return below - 1;
}

static unsigned int n_greetings(uint32_t ifindex)
{
	unsigned int n = 0;

	for (size_t i = 0; i < agent.tx.greetings.n; i++)
		n += agent.tx.greetings.list[i].ifindex == ifindex;
	return n;
}

/* @n newcomers, each with an address of its own. */
static void greet(uint32_t ifindex, unsigned int n)
{
	static uint32_t number;
	struct in6_addr ip = {0};

	while (n--) {
		number++;
		memcpy(&ip.s6_addr[12], &number, sizeof(number));
		md_tx_greet(&agent, &ip, ifindex, 1000, MD_S);
	}
}

/* Somebody makes up newcomers on netdev 2, which has thousands of hosts: those on netdev 1 are greeted. */
static void test_greetings_on_another_link(void **state)
{
	(void)state;
	begin_agent();
	agent.tx.announce.random = no_random;
	agent.tx.announce.n = 2;
	for (uint32_t i = 0; i < 2; i++)
		agent.tx.announce.outlets[i] = (struct md_outlet){.ifindex = 1 + i, .n_heard = 10000};
	greet(2, 1000);
	assert_int_equal(n_greetings(2), MD_GREETINGS_MAX);
	greet(1, 100);
	assert_int_equal(n_greetings(1), 100);
	greet(2, 1000);
	assert_int_equal(n_greetings(1), 100);
	/* Not more than there are on netdev 2. */
	greet(1, 1000);
	assert_int_equal(n_greetings(1), MD_GREETINGS_MAX / 2);
	assert_int_equal(n_greetings(2), MD_GREETINGS_MAX / 2);
	end_agent();
}

static uint64_t n_datagrams(void)
{
	return agent.counts.datagrams.sent + agent.counts.datagrams.failed + agent.counts.datagrams.held;
}

static uint64_t last_id; /* of takes_message() */

/* Message @id of QP 5 of @host to our QP @qpn. Return: false: it was dropped because there are too many. */
static bool takes(const struct md_host *host, uint32_t ifindex, uint32_t qpn, uint32_t to_attempt, uint64_t id)
{
	const struct mv_ctl_msg msg = {.type = MV_CTL_HELLO,
				       .gid_type = MV_GID_TYPE_ROCE_V2,
				       .from_psn = MV_CTL_PSN_NONE,
				       .to_psn = MV_CTL_PSN_NONE,
				       .attempt = 1,
				       .to_attempt = to_attempt,
				       .from = {.gid = host->desc->gids[0].gid, .qpn = 5},
				       .to = {.gid = unit_gid("fe80::1"), .qpn = qpn}};
	struct md_opened opened = {.kind = MD_KIND_MESSAGE, .sealed = true, .sender = host->id, .start = host->start};
	const struct md_received received = {.ip = host->sightings.list[0].ip, .ifindex = ifindex, .hop_limit = 255};
	uint64_t throttled = agent.counts.messages.throttled;
	uint8_t data[MV_CTL_MAX_BYTES];
	struct md_envelope envelope = {.op = MD_MSG_DATA, .id = id, .data = data};

	envelope.len = (uint16_t)mv_ctl_encode(&msg, data);
	opened.payload_len = md_envelope_encode(&envelope, opened.payload);
	md_msg_router_message(&agent, &received, &opened);
	return agent.counts.messages.throttled == throttled;
}

static bool takes_message(const struct md_host *host, uint32_t ifindex, uint32_t qpn, uint32_t to_attempt)
{
	return takes(host, ifindex, qpn, to_attempt, ++last_id);
}

/* Messages for which the kernel has to be asked who owns a QP. */
static void test_questions_are_rationed(void **state)
{
	const struct md_qp_key keys[] = {md_qp_key_make("mlx5_0", 5), md_qp_key_make("mlx5_0", 6)};
	struct md_qp_list list = LIST_HEAD_INITIALIZER(list);
	struct md_host *host, *wanted;
	unsigned int n = 0;
	uint64_t n_sent;

	(void)state;
	begin_agent();
	host = add_holder(1);
	wanted = add_holder(2);
	md_hosts_want(&agent.hosts, wanted, 0);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(md_qps_register(&agent.clients.qps, &keys[i], IBV_QPT_RC, 1, 0, &list), 0);
	md_qps_find(&agent.clients.qps, &keys[1])->confirmed = true;
	agent.clients.questions.resqp.fd = 0; /* nothing is asked: the QPs' owner is gone */
	while (takes_message(host, 1, 5, 0))
		n++;
	assert_int_equal(n, MD_QUESTIONS_BURST);
	assert_int_equal(agent.counts.messages.unregistered, n); /* no ack for what was dropped: it was not looked at */
	/* A copy of the last one that has arrived needs no question, and has its ack. */
	n_sent = n_datagrams();
	assert_true(takes(host, 1, 5, 0, last_id - 1));
	assert_int_equal(agent.msg_router.relay.count.repeated, 1);
	assert_int_equal(n_datagrams(), n_sent + 1);
	/* Also those to another QP, and within a conversation if the QP is not confirmed. */
	assert_false(takes_message(host, 1, 6, 0));
	assert_false(takes_message(host, 1, 5, 7));
	/* What is dropped puts no QP in doubt: conversations go on. */
	assert_true(md_qps_find(&agent.clients.qps, &keys[1])->confirmed);
	assert_true(takes_message(host, 1, 6, 7));
	/* QPs that nobody has registered need no question. */
	assert_true(takes_message(host, 1, 99, 0));
	/* Others are not kept out: who comes by another link, and who is wanted. */
	assert_true(takes_message(host, 2, 5, 0));
	for (n = 0; takes_message(wanted, 1, 5, 0); n++)
		;
	assert_int_equal(n, MD_QUESTIONS_WANTED_BURST);
	assert_true(takes_message(wanted, 2, 5, 0)); /* by the share of its link */
	clock_ns += MD_S;
	for (n = 0; takes_message(host, 1, 5, 0); n++)
		;
	assert_int_equal(n, MD_QUESTIONS_RATE);
	agent.clients.questions.resqp.fd = -1;
	md_qps_fini(&agent.clients.qps);
	md_gidmap_fini(&agent.gidmap);
	end_agent();
}

/* Somebody makes up newcomers at the address of a victim, which gets little; and at many addresses, in which all get little. */
static void test_greetings_are_rationed(void **state)
{
	struct in6_addr ip = {.s6_addr = {0xfe, 0x80}};
	uint64_t now_ns = MD_S, before;

	(void)state;
	begin_agent();
	agent.tx.said.len = MD_DESC_BYTES_MAX; /* many pieces */
	agent.tx.announce.random = no_random;
	agent.tx.announce.n = 1;
	agent.tx.announce.outlets[0] = (struct md_outlet){.ifindex = 1, .n_heard = 10000, .next_ns = UINT64_MAX};
	for (unsigned int i = 0; i < 1000; i++) {
		md_tx_greet(&agent, &ip, 1, 1000, now_ns);
		md_tx_beacons(&agent, now_ns + 100 * MD_S);
	}
	assert_int_equal(agent.counts.beacons.sent, MD_UNPROVEN_GROUP_BURST);
	assert_int_equal(n_datagrams(), MD_UNPROVEN_GROUP_BURST); /* one each: this host signs nothing */
	for (uint32_t i = 1; i < 100000; i++) {
		memcpy(&ip.s6_addr[8], &i, sizeof(i));
		md_tx_greet(&agent, &ip, 1, 1000, now_ns);
		md_tx_beacons(&agent, now_ns + 100 * MD_S);
	}
	assert_int_equal(n_datagrams(), MD_GREETINGS_BURST);
	/* Newcomers are greeted again later. */
	before = n_datagrams();
	now_ns += MD_S;
	for (uint32_t i = 1; i < 10000; i++) {
		memcpy(&ip.s6_addr[8], &i, sizeof(i));
		md_tx_greet(&agent, &ip, 1, 1000, now_ns);
		md_tx_beacons(&agent, now_ns + 100 * MD_S);
	}
	assert_int_equal(n_datagrams(), before + MD_GREETINGS_RATE);
	end_agent();
}

/* With a fleet key each newcomer is greeted: nobody without the key makes up newcomers. */
static void test_greetings_with_a_key(void **state)
{
	const struct md_keys keys = {.n = 1};
	struct in6_addr ip = {.s6_addr = {0xfe, 0x80}};

	(void)state;
	begin_agent();
	md_secure_reload(agent.secure, &keys);
	agent.tx.announce.random = no_random;
	agent.tx.announce.n = 1;
	agent.tx.announce.outlets[0] = (struct md_outlet){.ifindex = 1, .n_heard = 10000, .next_ns = UINT64_MAX};
	for (unsigned int i = 0; i < 2 * MD_GREETINGS_BURST; i++) {
		md_tx_greet(&agent, &ip, 1, 0, MD_S);
		md_tx_beacons(&agent, 100 * MD_S);
	}
	assert_int_equal(agent.counts.beacons.sent, 2 * MD_GREETINGS_BURST);
	end_agent();
}

/* Datagrams that take long, as those with many messages: fewer of them in an iteration. */
static void test_slow_datagrams(void **state)
{
	(void)state;
	begin_agent();
	assert_true(sd_event_new(&agent.event) >= 0);
	agent.udp.fd6 = eventfd(1, EFD_CLOEXEC);
	assert_int_equal(md_rx_start(&agent), 0);
	for (unsigned int slow = 0; slow < 2; slow++) {
		datagram_ns = slow ? MD_BUSY_NS / 4 : 1000;
		n_received = 0;
		assert_true(sd_event_run(agent.event, 0) > 0);
		assert_int_equal(n_received, slow ? 4 : MD_DATAGRAMS_PER_TURN);
		n_received = 0;
		assert_false(md_rx_drain(&agent));
		assert_int_equal(n_received, slow ? 32 : MD_DATAGRAMS_DRAINED);
	}
	sd_event_source_unref(agent.listening.io6);
	close(agent.udp.fd6);
	sd_event_unref(agent.event);
	end_agent();
}

/* The agent is preempted until all its time is over: an empty socket is drained all the same. */
static void test_drained_late(void **state)
{
	const uint64_t before_ns = clock_ns;
	int ends[2];

	(void)state;
	begin_agent();
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
	agent.udp.fd6 = ends[0];
	datagram_ns = MD_DRAINED_NS;
	n_received = 0;
	assert_true(md_rx_drain(&agent));
	assert_int_equal(n_received, 1);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_false(md_rx_drain(&agent));
	assert_int_equal(n_received, 2);
	close(ends[0]);
	close(ends[1]);
	clock_ns = before_ns;
	end_agent();
}

/* ---- hosts that processes of several accounts want -------------------------------------------- */


/* Hosts of an accomplice of Mallory use up all that hosts may have that Mallory wants. Each of @granted() is to be false once. */
static void exhaust(bool (*granted)(struct md_host *host), unsigned int n_hosts)
{
	for (unsigned int n = 100; n < 100 + n_hosts; n++) {
		struct md_host *host = add_holder(n);

		md_hosts_want(&agent.hosts, host, MALLORY);
		for (unsigned int i = 0; granted(host); i++)
			assert_true(i < 1000000);
	}
}

static void check_accounts(bool (*granted)(struct md_host *host), unsigned int n_hosts)
{
	const struct md_qp_key key = md_qp_key_make("mlx5_0", 5);
	struct md_qp_list list = LIST_HEAD_INITIALIZER(list);
	struct md_host *theirs[2], *shared;

	begin_agent();
	assert_int_equal(md_qps_register(&agent.clients.qps, &key, IBV_QPT_RC, 1, 0, &list), 0);
	agent.clients.questions.resqp.fd = 0; /* nothing is asked: the QP's owner is gone */
	shared = add_holder(3);
	md_hosts_want(&agent.hosts, shared, MALLORY);
	for (unsigned int i = 0; i < 2; i++) {
		theirs[i] = add_holder(1 + i);
		md_hosts_want(&agent.hosts, theirs[i], i ? 0 : VICTIM);
	}
	exhaust(granted, n_hosts);
	assert_false(granted(shared));
	assert_true(granted(theirs[0]));
	assert_true(granted(theirs[1]));
	/* Mallory takes nothing from hosts by wanting them as well. */
	md_hosts_want(&agent.hosts, shared, VICTIM);
	assert_true(granted(shared));
	md_hosts_want(&agent.hosts, theirs[0], MALLORY);
	assert_true(granted(theirs[0]));
	agent.clients.questions.resqp.fd = -1;
	md_qps_fini(&agent.clients.qps);
	md_gidmap_fini(&agent.gidmap);
	end_agent();
}

static bool takes_bundle(struct md_host *host)
{
	struct md_opened opened = {.kind = MD_KIND_BUNDLE, .sealed = true};
	struct md_received received;

	opened.payload_len = make_bundle(opened.payload, 100);
	from_host(host, &received, &opened);
	return is_taken(&received, &opened);
}

static bool takes_question(struct md_host *host)
{
	return takes_message(host, 1, 5, 0);
}

static bool takes_query(struct md_host *host)
{
	return is_answered(host, 1);
}

static bool asks_for_key(struct md_host *host)
{
	host->asking = (struct md_host_asking){0};
	md_unproven_came(host, MD_PAYLOAD_MAX_BYTES);
	return md_trust_ask(&agent, host, md_now());
}

static void test_accounts(void **state)
{
	(void)state;
	check_accounts(takes_bundle, 20); /* they use up the share of their link, too */
	check_accounts(takes_question, 2);
	check_accounts(takes_query, 5);
	check_accounts(asks_for_key, 10); /* few at one address */
}

/* All users together have some times as much as one, and root and the hosts file theirs. */
static void test_all_accounts(void **state)
{
	const struct md_rate rate = {.per_second = 1, .burst = 100};
	struct md_wanted_limits limits = {0};
	unsigned int n_taken = 0, n_root = 0;
	struct md_host *host = NULL;

	(void)state;
	begin_agent();
	for (unsigned int n = 1; n <= 10; n++) {
		host = add_holder(n);
		assert_false(md_host_take(host, &limits, &rate, 1, md_now()));
		md_hosts_want(&agent.hosts, host, n);
		for (unsigned int i = 0; i < 200; i++)
			n_taken += md_host_take(host, &limits, &rate, 1, md_now());
	}
	assert_int_equal(n_taken, MD_LINKS_TOGETHER * 100);
	/* Who got nothing has spent nothing: 100 are there as soon as all have some. */
	limits.all = (struct md_limit){0};
	assert_true(md_host_take(host, &limits, &rate, 100, md_now()));
	while (md_limit_take(&limits.all, &rate, md_now()))
		;
	md_hosts_want(&agent.hosts, host, 0);
	for (unsigned int i = 0; i < 200; i++)
		n_root += md_host_take(host, &limits, &rate, 1, md_now());
	assert_in_range(n_root, 100, 101);
	md_gidmap_fini(&agent.gidmap);
	end_agent();
}

/* @per_second, @burst: of one account */
static void use_up(struct md_limit *all, uint32_t per_second, uint32_t burst)
{
	const struct md_rate rate = {.per_second = MD_LINKS_TOGETHER * per_second, .burst = MD_LINKS_TOGETHER * burst};

	assert_true(md_limit_take_some(all, &rate, rate.burst, md_now()));
}

/* Where users have used up all that wanted hosts have, a wanted host has no less than others on its link. */
static void test_wanted_hosts_have_share_of_link(void **state)
{
	struct md_host *host;

	(void)state;
	begin_agent();
	host = add_holder(1);
	md_hosts_want(&agent.hosts, host, VICTIM);
	use_up(&agent.msg_router.limits.wanted.all, MD_MESSAGES_ALL_RATE, MD_MESSAGES_ALL_BURST);
	use_up(&agent.tx.answers.wanted.all, MD_ANSWERS_RATE, MD_ANSWERS_BURST);
	assert_true(takes_bundle(host));
	assert_true(takes_query(host));
	md_gidmap_fini(&agent.gidmap);
	end_agent();
}

/* An account that sends to a host may pay for queries to it, although another account has asked for the host. */
static void test_who_pays(void **state)
{
	const struct mv_ctl_msg msg = {.type = MV_CTL_HELLO};
	struct md_account account = {.id = VICTIM};
	struct md_client client = {.number = 1, .account = &account};
	const uint8_t data[8] = {0};
	const union ibv_gid *gids[2];
	struct md_target *target;

	(void)state;
	begin_agent();
	md_msg_router_init(&agent);
	for (unsigned int i = 0; i < 2; i++)
		gids[i] = &add_holder(1 + i)->desc->gids[0].gid;
	target = md_targets_use(&agent.targets, gids[0], MALLORY, md_now());
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(agent.clients.ops->send(&agent, &client, gids[i], &msg, data, sizeof(data)), 0);
	assert_int_equal(target->n_needs, 2);
	assert_int_equal(target->needs[1].user->account, VICTIM);
	/* The other host is heard: no query is needed. */
	assert_null(md_targets_find(&agent.targets, gids[1]));
	md_msg_relay_fini(&agent.msg_router.relay);
	md_targets_fini(&agent.targets);
	md_gidmap_fini(&agent.gidmap);
	end_agent();
}

/* Processes that ask for ever more addresses do not have all targets looked at each time. */
static void test_looks_without_room(void **state)
{
	uint64_t asked;

	(void)state;
	begin_agent();
	md_msg_router_init(&agent);
	agent.due.targets_ns = UINT64_MAX;
	for (uint32_t i = 0; i < 1000; i++) {
		union ibv_gid gid = mv_gid_from_ipv4(htonl(0x0a100001 + i));

		asked = agent.counts.queries.sent;
		assert_true(md_msg_router_ask_for(&agent, &gid, MALLORY));
		assert_true(agent.due.targets_ns > md_now() && agent.due.targets_ns <= md_now() + MD_QUERY_NS);
	}
	assert_true(agent.counts.queries.sent == asked); /* no room */
	assert_true(agent.due.targets_ns <= md_now() + MD_S); /* there will be room sooner than a target is asked again */
	md_targets_fini(&agent.targets);
	md_msg_relay_fini(&agent.msg_router.relay);
	end_agent();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_are_rationed),
		cmocka_unit_test(test_messages_of_wanted_hosts),
		cmocka_unit_test(test_answers_to_wanted_hosts),
		cmocka_unit_test(test_messages_of_another_link),
		cmocka_unit_test(test_answers_on_another_link),
		cmocka_unit_test(test_questions_for_keys_on_another_link),
		cmocka_unit_test(test_questions_for_keys_do_not_end),
		cmocka_unit_test(test_silent_hosts_delay_none),
		cmocka_unit_test(test_statements_of_another_link),
		cmocka_unit_test(test_greetings_are_rationed),
		cmocka_unit_test(test_greetings_with_a_key),
		cmocka_unit_test(test_questions_are_rationed),
		cmocka_unit_test(test_greetings_on_another_link),
		cmocka_unit_test(test_slow_datagrams),
		cmocka_unit_test(test_drained_late),
		cmocka_unit_test(test_accounts),
		cmocka_unit_test(test_all_accounts),
		cmocka_unit_test(test_wanted_hosts_have_share_of_link),
		cmocka_unit_test(test_who_pays),
		cmocka_unit_test(test_looks_without_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
