/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How many messages of others are looked at, sealed or not: a datagram has more than a hundred of them. */
#include "unit.h"

#include <string.h>

#include "agent.h"
#include "bundle_wire.h"

static struct md_agent agent;

/* A bundle of @n messages that are none: what is counted as malformed was looked at. */
static size_t make_bundle(uint8_t *buf, unsigned int n)
{
	static const uint8_t none[8];
	struct md_parcel_wire parcel = {.op = MD_PARCEL_CARRY, .len = sizeof(none), .data = none};
	struct md_bundle_writer w;

	md_bundle_begin(&w, buf, MD_PARCEL_CARRY, 0);
	for (parcel.id = 1; parcel.id <= n; parcel.id++)
		assert_true(md_bundle_add(&w, &parcel));
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
	uint64_t begun_ns, took_s;

	memset(&agent, 0, sizeof(agent));
	assert_int_equal(md_secure_new(&config, &no_keys, md_now(), &agent.secure), 0);
	opened.payload_len = make_bundle(opened.payload, n);
	begun_ns = md_now();
	for (unsigned int i = 0; i < 4000; i++)
		md_post_bundle(&agent, &received, &opened);
	took_s = (md_now() - begun_ns) / MD_S + 1;
	assert_int_equal(agent.counts.bundles_received, 4000);
	assert_in_range(agent.counts.payloads_malformed, most - n, most + took_s * (MD_MESSAGES_RATE / 16));
	assert_int_equal(agent.counts.payloads_malformed + agent.counts.messages_throttled, 4000 * n);
	md_secure_free(agent.secure);
}

static void test_messages_are_rationed(void **state)
{
	(void)state;
	check_rationed(false);
	check_rationed(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages_are_rationed)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
