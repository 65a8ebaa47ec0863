/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What was once heard is sent again, to the same host or to another, or under another name. */
#include "attacked.h"

static void test_replay(void **state)
{
	struct wire wires[100];

	(void)state;
	meet(&a, &b);
	for (int i = 0; i < 100; i++) {
		wires[i] = seal(&a, i % 2 ? MD_KIND_MESSAGE : MD_KIND_BEACON, i % 2 ? &b : NULL,
				"once");
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_OK);
	}
	for (int i = 0; i < 100; i++)
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_REPLAY);
	for (int i = 0; i < MD_WINDOW; i++)
		assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
	for (int i = 0; i < 100; i++)
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_TOO_OLD);
	/* Under another address as well. */
	wires[1].from = m.addr;
	assert_true(receive(&b, &wires[1]) >= MD_OPEN_UNPROVEN);
	/* And elsewhere: a third host takes no message that was meant for another. */
	host_restart(&m, &keys);
	meet(&a, &m);
	assert_true(receive(&m, &wires[1]) >= MD_OPEN_UNPROVEN);
}

/* All that a has ever said to b, again, after b has forgotten everything: at once, and while they
 * talk anew. */
static void test_replay_to_restarted(void **state)
{
	struct wire wires[40];

	(void)state;
	meet(&a, &b);
	for (int i = 0; i < 40; i++) {
		wires[i] = seal(&a, i % 2 ? MD_KIND_MESSAGE : MD_KIND_BEACON, i % 2 ? &b : NULL,
				"once");
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_OK);
	}
	host_restart(&b, &keys);
	for (int i = 0; i < 40; i++)
		assert_verdict(receive(&b, &wires[i]), MD_OPEN_UNPROVEN);
	meet(&a, &b);
	for (int i = 0; i < 40; i++) {
		enum md_verdict verdict = receive(&b, &wires[i]);

		/* Cookies of b's former life are not even tried against the window. */
		assert_verdict(verdict, i % 2 ? MD_OPEN_UNPROVEN : MD_OPEN_REPLAY);
	}
}

/* What a said in its former life, after its restart. */
static void test_replay_of_former_life(void **state)
{
	struct wire message, beacon;

	(void)state;
	meet(&a, &b);
	message = seal(&a, MD_KIND_MESSAGE, &b, "held back");
	beacon = seal(&a, MD_KIND_BEACON, NULL, "held back");
	host_restart(&a, &keys);
	meet(&a, &b);
	assert_verdict(receive(&b, &message), MD_OPEN_OLD_START);
	assert_verdict(receive(&b, &beacon), MD_OPEN_OLD_START);
	now_ns += 2 * MD_COOKIE_EPOCH_NS + 1;
	assert_verdict(receive(&b, &message), MD_OPEN_UNPROVEN);
	assert_verdict(receive(&b, &beacon), MD_OPEN_UNPROVEN);
}

/* Hosts with the key fill the table; the window of a is not lost to them while its datagrams are
 * fresh. */
static void test_replay_under_eviction(void **state)
{
	struct md_secure_config config = {.host = {{[15] = 2}}, .start = 1000, .max_senders = 8};
	struct host others[32];
	struct wire message, beacon;
	int refused = 0;

	(void)state;
	host_stop(&b);
	b.config = config;
	assert_int_equal(md_secure_new(&config, &keys, now_ns, &b.s), 0);
	meet(&a, &b);
	message = seal(&a, MD_KIND_MESSAGE, &b, "once");
	beacon = seal(&a, MD_KIND_BEACON, NULL, "once");
	assert_verdict(receive(&b, &message), MD_OPEN_OK);
	assert_verdict(receive(&b, &beacon), MD_OPEN_OK);
	for (int i = 0; i < 32; i++)
		host_start(&others[i], (uint8_t)(100 + i), &keys);
	for (int step = 0; step < 130; step++) {
		for (int i = 0; i < 32; i++) {
			enum md_verdict verdict = tell(&others[i], MD_KIND_QUERY, &b, "x");
			struct wire wire;

			refused += verdict == MD_OPEN_NO_ROOM;
			if (!opened.reply_len)
				continue;
			wire = wire_reply(&b);
			receive(&others[i], &wire);
		}
		assert_true(receive(&b, &message) >= MD_OPEN_UNPROVEN);
		assert_true(receive(&b, &beacon) >= MD_OPEN_UNPROVEN);
		now_ns += SECOND_NS;
	}
	assert_true(refused > 0);
	for (int i = 0; i < 32; i++)
		host_stop(&others[i]);
}

static void test_reflection(void **state)
{
	struct wire wire;

	(void)state;
	meet(&a, &b);
	wire = seal(&a, MD_KIND_MESSAGE, &b, "x");
	wire.from = b.addr;
	assert_verdict(receive(&a, &wire), MD_OPEN_OWN);
	wire.bytes[31] = 2; /* sender: b */
	assert_verdict(receive(&a, &wire), MD_OPEN_FORGED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KEYED(test_replay),
		KEYED(test_replay_to_restarted),
		KEYED(test_replay_of_former_life),
		KEYED(test_replay_under_eviction),
		KEYED(test_reflection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
