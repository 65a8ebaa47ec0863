/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How many messages are taken from which hosts, where a datagram has a hundred, and who pays for queries. */
#include "oneagent.h"

#include <string.h>

#include "peers.h"

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

/* Messages for which the kernel has to be asked who owns a QP. */
static void test_questions_are_rationed(void **state)
{
	const struct md_qp_key keys[] = {md_qp_key_make("mlx5_0", 5), md_qp_key_make("mlx5_0", 6)};
	struct md_qp_list list = LIST_HEAD_INITIALIZER(list);
	struct md_host *host, *wanted;
	unsigned int n = 0;
	uint64_t n_sent;

	(void)state;
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
}

/* Processes that ask for ever more addresses do not have all targets looked at each time. */
static void test_looks_without_room(void **state)
{
	uint64_t asked;

	(void)state;
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
	md_msg_relay_fini(&agent.msg_router.relay);
}

/*
 * Hosts beyond routers that answer with ever other addresses make ever new targets due. Not all targets are looked at each
 * time: an agent with thousands would do nothing else.
 */
static void test_looks_for_ever_others(void **state)
{
	const uint64_t each_ns = MD_S / MD_QUERY_RATE;
	const union ibv_gid one = unit_gid("10.3.0.1");
	struct md_desc *desc[2] = {peers_desc("rail mlx5_0; gid 10.3.0.2/28 v2;"), peers_desc("rail mlx5_0; gid 10.3.0.3/28 v2;")};
	unsigned int n_looks = 0;
	uint64_t begun_ns, asked;

	(void)state;
	md_targets_use(&agent.targets, &one, MALLORY, clock_ns);
	for (uint32_t i = 0; i < 10000; i++) {
		union ibv_gid gid = mv_gid_from_ipv4(htonl(0x0a100001 + i));

		assert_non_null(md_targets_use(&agent.targets, &gid, VICTIM, clock_ns));
	}
	begun_ns = clock_ns;
	asked = agent.counts.queries.sent;
	for (unsigned int n = 0; clock_ns < begun_ns + 10 * MD_S; n++, clock_ns += each_ns) {
		const struct md_target *of = md_targets_find(&agent.targets, &one);

		/* What md_due_routes() does at an answer. */
		md_targets_unlearn(&agent.targets, of, desc[n % 2]);
		assert_true(md_targets_learn(&agent.targets, &desc[n % 2]->gids[0].gid, of));
		agent.due.targets_ns = 0;
		if (md_due_targets_next(&agent) > clock_ns)
			continue;
		n_looks++;
		md_due_targets(&agent, clock_ns);
		assert_true(md_due_targets_next(&agent) > clock_ns);
	}
	assert_in_range(n_looks, 1, 10 * MD_S / (10000 * MD_TARGETS_EACH_NS));
	/* That delays no query beyond the limits of the accounts. */
	assert_true(agent.counts.queries.sent - asked >= (clock_ns - begun_ns) / each_ns);
	clock_ns = begun_ns;
	free(desc[0]);
	free(desc[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_are_rationed),
		cmocka_unit_test(test_messages_of_wanted_hosts),
		cmocka_unit_test(test_messages_of_another_link),
		cmocka_unit_test_setup_teardown(test_questions_are_rationed, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_who_pays, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_looks_without_room, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_looks_for_ever_others, setup_agent, teardown_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
