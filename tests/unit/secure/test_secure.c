/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What agents that mean well see of each other, with keys, without and with different ones. */
#include "hosts.h"

#include <errno.h>
#include <string.h>

#include <sodium.h>

#include "fault.h"

static struct host a, b, c;

static void start_all(const struct md_keys *keys)
{
	host_start(&a, 1, keys);
	host_start(&b, 2, keys);
	host_start(&c, 3, keys);
}

static int stop_all(void **state)
{
	(void)state;
	host_stop(&a);
	host_stop(&b);
	host_stop(&c);
	return 0;
}

static void check_unicast(const struct md_keys *keys)
{
	static char longest[MD_PAYLOAD_MAX_BYTES + 1];
	struct wire wire;

	start_all(keys);
	wire = seal(&a, MD_KIND_MESSAGE, &b, "hello");
	assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
	wire = wire_reply(&b);
	assert_verdict(receive(&a, &wire), MD_OPEN_LEARNED);
	assert_int_equal(opened.about, MD_KIND_MESSAGE);
	assert_int_equal(opened.reply_len != 0, keys != NULL);
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "hello"), MD_OPEN_OK);
	assert_int_equal(opened.reply_len, 0);
	/* What was taken has told the cookie for the way back. */
	assert_verdict(tell(&b, MD_KIND_ENTRY, &a, ""), MD_OPEN_OK);
	memset(longest, 'x', MD_PAYLOAD_MAX_BYTES);
	assert_verdict(tell(&b, MD_KIND_ENTRY, &a, longest), MD_OPEN_OK);
	stop_all(NULL);
}

static void test_unicast(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0);

	(void)state;
	check_unicast(NULL);
	check_unicast(&keys);
}

/* To one address out of two netdevs: neither takes the other's cookie away. */
static void check_path(const struct md_keys *keys)
{
	struct wire wire;

	start_all(keys);
	wire = seal(&a, MD_KIND_MESSAGE, &b, "x");
	assert_false(md_is_of_path(wire.bytes, wire.len));
	for (int kind = MD_KIND_PROBE; kind <= MD_KIND_ECHO; kind++) {
		wire = seal(&a, kind, &b, "x");
		assert_true(md_is_of_path(wire.bytes, wire.len));
		assert_false(md_is_of_path(wire.bytes, MD_HEADER_BYTES - 1));
		assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
		wire = wire_reply(&b);
		assert_true(md_is_of_path(wire.bytes, wire.len));
		assert_verdict(receive(&a, &wire), MD_OPEN_LEARNED);
		assert_int_equal(opened.about, kind);
		assert_verdict(tell(&a, kind, &b, "x"), MD_OPEN_OK);
		assert_int_equal(opened.kind, kind);
		/* The next kind without. */
		host_restart(&a, keys);
		host_restart(&b, keys);
	}
	stop_all(NULL);
}

static void test_path(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0);

	(void)state;
	check_path(NULL);
	check_path(&keys);
}

static void test_plain_beacon(void **state)
{
	struct wire wire;

	(void)state;
	start_all(NULL);
	wire = seal(&a, MD_KIND_BEACON, NULL, "rails");
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	assert_int_equal(opened.payload_len, 5);
	assert_verdict(receive(&c, &wire), MD_OPEN_OK);
}

/* Three datagrams after the first beacon and both sides take each other's beacons. */
static void test_sealed_beacon(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0);
	struct wire wire;

	(void)state;
	start_all(&keys);
	wire = seal(&a, MD_KIND_BEACON, NULL, "rails");
	assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
	wire = wire_reply(&b);
	assert_verdict(receive(&a, &wire), MD_OPEN_LEARNED);
	assert_int_equal(opened.about, MD_KIND_BEACON);
	wire = wire_reply(&a);
	assert_verdict(receive(&b, &wire), MD_OPEN_PROVEN);
	assert_int_equal(opened.reply_len, 0);

	wire = seal(&a, MD_KIND_BEACON, NULL, "rails");
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	assert_memory_equal(opened.payload, "rails", 5);
	wire = seal(&b, MD_KIND_BEACON, NULL, "other rails");
	assert_verdict(receive(&a, &wire), MD_OPEN_OK);
	/* To one neighbour alone, as after LEARNED. */
	assert_verdict(tell(&a, MD_KIND_BEACON, &b, "rails"), MD_OPEN_OK);
	/* A receiver with two netdevs on the link gets each beacon twice. What is not multicast comes once. */
	wire = seal(&a, MD_KIND_BEACON, NULL, "rails");
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	wire.from.ifindex = wire.from.arrived = LINK + 1;
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	assert_verdict(receive(&b, &wire), MD_OPEN_REPLAY);
	wire = seal(&a, MD_KIND_MESSAGE, &b, "hello");
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	wire.from.arrived = LINK + 1;
	assert_verdict(receive(&b, &wire), MD_OPEN_REPLAY);
}

static void check_off_link(const struct md_keys *keys)
{
	static const int limits[] = {254, 64, 1, 0, 256, -1};
	struct wire wire;

	start_all(keys);
	meet(&a, &b);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		wire = seal(&a, MD_KIND_BEACON, NULL, "rails");
		wire.hop_limit = limits[i];
		assert_verdict(receive(&b, &wire), MD_OPEN_OFF_LINK);
		assert_int_equal(opened.reply_len, 0);
	}
	wire = seal(&a, MD_KIND_BEACON, NULL, "rails");
	wire.from.ip = ip_of("2001:db8::1");
	assert_verdict(receive(&b, &wire), MD_OPEN_OFF_LINK);
	wire.from.ip = ip_of("10.1.0.1"); /* links without IPv6 */
	wire.hop_limit = 254;
	assert_verdict(receive(&b, &wire), MD_OPEN_OFF_LINK);
	wire.hop_limit = 255;
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	wire = seal(&a, MD_KIND_BEACON, NULL, "rails");
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	/* Others may come through routers. */
	wire = seal(&a, MD_KIND_MESSAGE, &b, "hello");
	wire.hop_limit = 61;
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	stop_all(NULL);
}

static void test_off_link(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0);

	(void)state;
	check_off_link(NULL);
	check_off_link(&keys);
}

static void test_some_without_key(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0), others = keys_of(1, 'o', 0);
	struct wire wire;

	(void)state;
	host_start(&a, 1, &keys);
	host_start(&b, 2, NULL);
	host_start(&c, 3, &others);
	for (int kind = MD_KIND_BEACON; kind <= MD_KIND_MESSAGE; kind++) {
		assert_verdict(tell(&b, kind, &a, "x"), MD_OPEN_PLAIN);
		assert_int_equal(opened.reply_len, 0);
		assert_verdict(tell(&a, kind, &b, "x"), MD_OPEN_SEALED);
		assert_int_equal(opened.reply_len, 0);
		assert_verdict(tell(&a, kind, &c, "x"), MD_OPEN_OTHER_KEY);
		assert_int_equal(opened.reply_len, 0);
	}
	wire = seal(&b, MD_KIND_BEACON, NULL, "x");
	assert_verdict(receive(&a, &wire), MD_OPEN_PLAIN);
}

/* At each step of a rotation every host understands every other, whether it has made the step or
 * not. */
static void test_rotation(void **state)
{
	struct md_keys steps[] = {keys_of(1, 'o', 0), keys_of(2, 'o', 'n'), keys_of(2, 'n', 'o'),
				  keys_of(1, 'n', 0)};
	struct md_keys other = keys_of(1, 'x', 0);

	(void)state;
	start_all(&steps[0]);
	meet(&a, &b);
	meet(&a, &c);
	for (int i = 1; i < 4; i++) {
		assert_false(md_secure_reload(a.s, &steps[i]));
		assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
		assert_verdict(tell(&b, MD_KIND_MESSAGE, &a, "x"), MD_OPEN_OK);
		md_secure_reload(b.s, &steps[i]);
		assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
		md_secure_reload(c.s, &steps[i]);
	}
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &c, "x"), MD_OPEN_OK);
	/* The old one is worth nothing any more. */
	host_restart(&b, &steps[0]);
	assert_verdict(tell(&b, MD_KIND_MESSAGE, &a, "x"), MD_OPEN_OTHER_KEY);
	md_secure_reload(c.s, &other);
	assert_verdict(tell(&c, MD_KIND_MESSAGE, &a, "x"), MD_OPEN_OTHER_KEY);
}

static void test_key_comes_and_goes(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0), none = {0};

	(void)state;
	start_all(NULL);
	meet(&a, &b);
	assert_true(md_secure_reload(a.s, &keys));
	assert_true(md_secure_has_key(a.s));
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_SEALED);
	assert_true(md_secure_reload(b.s, &keys));
	meet(&a, &b);
	assert_true(md_secure_reload(a.s, NULL));
	assert_true(md_secure_reload(b.s, &none));
	assert_false(md_secure_reload(b.s, &none));
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
}

/* A cookie lives for one to two epochs; one that is used is renewed on the way. */
static void check_epochs(const struct md_keys *keys)
{
	start_all(keys);
	now_ns -= now_ns % MD_COOKIE_EPOCH_NS;
	meet(&a, &b);
	now_ns += 2 * MD_COOKIE_EPOCH_NS - 1;
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
	now_ns++;
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_UNPROVEN);
	meet(&a, &b);
	for (int i = 0; i < 10; i++) {
		now_ns += MD_COOKIE_EPOCH_NS;
		assert_verdict(tell(&a, MD_KIND_QUERY, &b, "x"), MD_OPEN_OK);
		assert_verdict(tell(&b, MD_KIND_ENTRY, &a, "x"), MD_OPEN_OK);
	}
	/* Suspended: neither the cookie of this epoch nor that of the one before has survived. */
	now_ns += MD_COOKIE_EPOCH_NS;
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
	now_ns += 100 * MD_COOKIE_EPOCH_NS;
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_UNPROVEN);
	meet(&a, &b);
	now_ns += 100 * MD_COOKIE_EPOCH_NS;
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_UNPROVEN);
	meet(&a, &b);
	now_ns -= 50 * MD_COOKIE_EPOCH_NS; /* cannot happen, and does no harm */
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_UNPROVEN);
	meet(&a, &b);
	stop_all(NULL);
}

static void test_epochs(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0);

	(void)state;
	check_epochs(NULL);
	check_epochs(&keys);
}

static void check_restarts(const struct md_keys *keys)
{
	start_all(keys);
	meet(&a, &b);
	host_restart(&a, keys);
	meet(&a, &b);
	host_restart(&b, keys);
	meet(&a, &b);
	host_restart(&a, keys);
	host_restart(&b, keys);
	meet(&a, &b);
	stop_all(NULL);
}

static void test_restarts(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0);

	(void)state;
	check_restarts(NULL);
	check_restarts(&keys);
}

/* The sender's clock was set back and its run directory is gone: heard again once its former life
 * is forgotten. */
static void test_start_number_smaller(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0);
	struct wire wire;

	(void)state;
	start_all(&keys);
	meet(&a, &b);
	a.config.start = 50;
	host_restart(&a, &keys);
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_UNPROVEN);
	wire = wire_reply(&b);
	assert_verdict(receive(&a, &wire), MD_OPEN_LEARNED);
	wire = wire_reply(&a);
	assert_verdict(receive(&b, &wire), MD_OPEN_OLD_START);
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OLD_START);
	wire = seal(&a, MD_KIND_BEACON, NULL, "x");
	assert_verdict(receive(&b, &wire), MD_OPEN_OLD_START);
	now_ns += 2 * MD_COOKIE_EPOCH_NS + 1;
	wire = seal(&a, MD_KIND_BEACON, NULL, "x");
	assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
	meet(&a, &b);
}

static void test_own(void **state)
{
	struct host twin;
	struct wire wire;

	(void)state;
	start_all(NULL);
	wire = seal(&a, MD_KIND_BEACON, NULL, "rails");
	assert_verdict(receive(&a, &wire), MD_OPEN_OWN);
	host_start(&twin, 1, NULL);
	host_restart(&twin, NULL);
	wire = seal(&twin, MD_KIND_BEACON, NULL, "rails");
	assert_verdict(receive(&a, &wire), MD_OPEN_SAME_ID);
	host_stop(&twin);
}

/* One host behind several of our netdevs has a cookie for each of them. */
static void test_global_addresses(void **state)
{
	struct wire wire;

	(void)state;
	start_all(NULL);
	a.addr.ip = ip_of("10.1.0.1");
	b.addr.ip = ip_of("10.2.0.1");
	meet(&a, &b);
	/* The way in may change with the routes. */
	wire = seal(&a, MD_KIND_MESSAGE, &b, "x");
	wire.from.ifindex = 9;
	assert_verdict(receive(&b, &wire), MD_OPEN_OK);
	/* Another way out is another source address for the peer, so nothing is known of it. */
	b.addr.ifindex = 9;
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_UNPROVEN);
	meet(&a, &b);
	/* So is another address of ours, on a path; and what is learnt there leaves the former as it was. */
	b.addr.local = ip_of("10.1.0.3");
	assert_verdict(tell(&a, MD_KIND_PROBE, &b, "x"), MD_OPEN_UNPROVEN);
	meet(&a, &b);
	assert_verdict(tell(&a, MD_KIND_PROBE, &b, "x"), MD_OPEN_OK);
	b.addr.local = in6addr_any;
	assert_verdict(tell(&a, MD_KIND_MESSAGE, &b, "x"), MD_OPEN_OK);
}

static void test_vouchers(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0);
	struct mv_host_id first, second;

	(void)state;
	start_all(&keys);
	meet(&a, &b);
	assert_memory_equal(&opened.voucher, &b.config.host, sizeof(first));
	stop_all(NULL);
	start_all(NULL);
	meet(&a, &b); /* ends with a datagram of b */
	first = opened.voucher;
	assert_memory_not_equal(&first, &b.config.host, sizeof(first));
	/* Another address of the same host is another one; the same id from another host is, too.
	 */
	b.addr.ip.s6_addr[14] = 1;
	meet(&a, &b);
	second = opened.voucher;
	assert_memory_not_equal(&first, &second, sizeof(first));
	b.addr.ip.s6_addr[14] = 0;
	host_stop(&c);
	host_start(&c, 2, NULL);
	c.addr = b.addr;
	meet(&a, &c);
	assert_memory_equal(&first, &opened.voucher, sizeof(first));
	c.addr.ifindex++;
	meet(&a, &c);
	assert_memory_not_equal(&first, &opened.voucher, sizeof(first));
}

static void test_newer(void **state)
{
	uint64_t counter;

	(void)state;
	start_all(NULL);
	meet(&a, &b);
	assert_verdict(tell(&a, MD_KIND_QUERY, &b, "x"), MD_OPEN_OK);
	counter = opened.counter;
	assert_verdict(tell(&a, MD_KIND_QUERY, &b, "x"), MD_OPEN_OK);
	assert_true(opened.counter > counter);
}

/* The format, from its description: other builds of the agent have to understand it. */
static void check_sealed(const struct wire *wire, const struct md_keys *keys, int purpose,
			 const char *payload)
{
	uint8_t subkey[32], id[16], plain[MD_DATAGRAM_MAX_BYTES];
	unsigned long long len;

	assert_memory_equal(wire->bytes, "MVDG\1", 5);
	assert_int_equal(wire->bytes[6], 1);
	crypto_kdf_derive_from_key(id, sizeof(id), 0, "mvkeyid1", keys->keys[0]);
	assert_memory_equal(wire->bytes + 8, id, 8);
	crypto_kdf_derive_from_key(subkey, sizeof(subkey), (uint64_t)purpose, "mvagent1",
				   keys->keys[0]);
	assert_int_equal(crypto_aead_xchacha20poly1305_ietf_decrypt(
				 plain, &len, NULL, wire->bytes + 104, wire->len - 104, wire->bytes,
				 104, wire->bytes + 80, subkey),
			 0);
	assert_int_equal(len, strlen(payload));
	assert_memory_equal(plain, payload, len);
}

static void test_wire_format(void **state)
{
	struct md_keys keys = keys_of(1, 'k', 0);
	struct wire wire;

	(void)state;
	start_all(&keys);
	wire = seal(&a, MD_KIND_BEACON, NULL, "beacon");
	check_sealed(&wire, &keys, 1, "beacon");
	wire = seal(&a, MD_KIND_MESSAGE, &b, "message");
	check_sealed(&wire, &keys, 3, "message");
	assert_verdict(receive(&b, &wire), MD_OPEN_UNPROVEN);
	wire = wire_reply(&b);
	check_sealed(&wire, &keys, 2, "");
	assert_int_equal(wire.bytes[5], MD_KIND_CHALLENGE);
	assert_int_equal(wire.bytes[7], MD_KIND_MESSAGE);
	assert_int_equal(wire.bytes[31], 2); /* sender's id */
	assert_int_equal(wire.bytes[39], 100); /* its start number */
	assert_int_equal(wire.bytes[47], 1); /* its first datagram */
}

static void test_verdict_names(void **state)
{
	(void)state;
	for (int i = 0; i < MD_OPEN_N_VERDICTS; i++) {
		assert_true(strlen(md_verdict_name(i)) > 1);
		assert_true(strlen(md_verdict_text(i)) > 1);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(md_verdict_name(i), md_verdict_name(k));
	}
	assert_string_equal(md_verdict_name(MD_OPEN_N_VERDICTS), "?");
	assert_string_equal(md_verdict_text(-1), "?");
}

static void test_no_memory(void **state)
{
	struct md_secure_config config = {.start = 1, .max_senders = 4, .max_cookies = 4};
	struct md_secure *s = NULL;
	int rc = -1;

	(void)state;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		s = NULL;
		rc = md_secure_new(&config, NULL, now_ns, &s);
		assert_int_equal(rc, fault_fired() ? -ENOMEM : 0);
		assert_int_equal(s == NULL, fault_fired());
		md_secure_free(s);
	})
	assert_int_equal(rc, 0);
	md_secure_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unicast),
		cmocka_unit_test(test_path),
		cmocka_unit_test_teardown(test_plain_beacon, stop_all),
		cmocka_unit_test_teardown(test_sealed_beacon, stop_all),
		cmocka_unit_test(test_off_link),
		cmocka_unit_test_teardown(test_some_without_key, stop_all),
		cmocka_unit_test_teardown(test_rotation, stop_all),
		cmocka_unit_test_teardown(test_key_comes_and_goes, stop_all),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_restarts),
		cmocka_unit_test_teardown(test_start_number_smaller, stop_all),
		cmocka_unit_test_teardown(test_own, stop_all),
		cmocka_unit_test_teardown(test_global_addresses, stop_all),
		cmocka_unit_test_teardown(test_vouchers, stop_all),
		cmocka_unit_test_teardown(test_newer, stop_all),
		cmocka_unit_test_teardown(test_wire_format, stop_all),
		cmocka_unit_test(test_verdict_names),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
