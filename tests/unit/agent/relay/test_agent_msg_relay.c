/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Messages on their way: copies, repetitions, acks, giving up. */
#include "unit.h"

#include <errno.h>

#include "fault.h"
#include "peers.h"
#include "relay_fixture.h"

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
		cmocka_unit_test_setup_teardown(test_arrives, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_bundles_at_first, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_slow_acks, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_gives_up, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_unknown_host, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_said_again, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_said_again_late, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_client_goes, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_copies, relay_setup, relay_teardown),
		cmocka_unit_test_setup_teardown(test_faults, relay_setup, relay_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
