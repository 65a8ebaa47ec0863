/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Replay windows, the table under them, and token buckets: against simple models, with a printed
 * seed. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gid_arbitration.h"
#include "fault.h"
#include "secure_copies.h"
#include "secure_limit.h"
#include "secure_table.h"
#include "secure_window.h"

#define SECOND_NS 1000000000ull
#define LIFE_NS   (2 * MD_COOKIE_EPOCH_NS)

static uint64_t seed;

static uint64_t rnd(uint64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % below;
}

static struct mv_host_id id_of(uint32_t n)
{
	struct mv_host_id id = {{0}};

	memcpy(id.bytes, &n, sizeof(n));
	return id;
}

static enum md_verdict take(struct md_windows *windows, uint32_t id, uint64_t start,
			    uint64_t counter, bool fresh, uint64_t now_ns)
{
	struct mv_host_id host = id_of(id);

	return md_windows_take(windows, &host, start, counter, 0, fresh, now_ns);
}

#define assert_take(verdict, ...)                                                                  \
	assert_string_equal(md_verdict_name(take(__VA_ARGS__)), md_verdict_name(verdict))

static void test_edges(void **state)
{
	struct md_windows w;

	(void)state;
	assert_int_equal(md_windows_init(&w, 4), 0);
	assert_take(MD_OPEN_UNPROVEN, &w, 1, 5, 5000, false, 0);
	assert_take(MD_OPEN_OK, &w, 1, 5, 5000, true, 0);
	/* What is older than the first counts as taken. */
	assert_take(MD_OPEN_REPLAY, &w, 1, 5, 4999, true, 0);
	assert_take(MD_OPEN_REPLAY, &w, 1, 5, 5000 - MD_WINDOW + 1, true, 0);
	assert_take(MD_OPEN_TOO_OLD, &w, 1, 5, 5000 - MD_WINDOW, true, 0);
	/* Inside the window in any order, once each; freshness matters no more. */
	assert_take(MD_OPEN_OK, &w, 1, 5, 5000 + MD_WINDOW, false, 0);
	assert_take(MD_OPEN_TOO_OLD, &w, 1, 5, 5000, false, 0);
	assert_take(MD_OPEN_OK, &w, 1, 5, 5001, false, 0);
	assert_take(MD_OPEN_REPLAY, &w, 1, 5, 5001, false, 0);
	assert_take(MD_OPEN_OK, &w, 1, 5, 5000 + MD_WINDOW - 1, false, 0);
	assert_take(MD_OPEN_REPLAY, &w, 1, 5, 5000 + MD_WINDOW, false, 0);
	/* A leap, to the end of numbers. */
	assert_take(MD_OPEN_OK, &w, 1, 5, UINT64_MAX, false, 0);
	assert_take(MD_OPEN_OK, &w, 1, 5, UINT64_MAX - 1, false, 0);
	assert_take(MD_OPEN_REPLAY, &w, 1, 5, UINT64_MAX, false, 0);
	assert_take(MD_OPEN_TOO_OLD, &w, 1, 5, 5001, false, 0);
	md_windows_fini(&w);
}

/* A beacon is accepted once on each netdev by which it comes, within one to three seconds. Another datagram is accepted once. */
static void test_copies(void **state)
{
	const uint64_t last = 6 + MD_COPY_BEACONS, late_ns = 20 * MD_COPY_NS;
	struct mv_host_id host = id_of(1);
	struct md_windows w;

#define assert_beacon(verdict, counter, netdev, fresh, now_ns)                                                               \
	assert_string_equal(md_verdict_name(md_windows_take(&w, &host, 5, counter, netdev, fresh, now_ns)), md_verdict_name(verdict))
	(void)state;
	assert_int_equal(md_windows_init(&w, 4), 0);
	assert_beacon(MD_OPEN_UNPROVEN, 5, 1, false, 10 * MD_COPY_NS);
	assert_beacon(MD_OPEN_OK, 5, 1, true, 10 * MD_COPY_NS);
	assert_beacon(MD_OPEN_OK, 5, 2, false, 10 * MD_COPY_NS);
	assert_beacon(MD_OPEN_REPLAY, 5, 1, true, 10 * MD_COPY_NS);
	assert_beacon(MD_OPEN_REPLAY, 5, 2, true, 10 * MD_COPY_NS);
	assert_take(MD_OPEN_REPLAY, &w, 1, 5, 5, true, 10 * MD_COPY_NS);
	/* Nor is what was no beacon. */
	assert_take(MD_OPEN_OK, &w, 1, 5, 6, false, 10 * MD_COPY_NS);
	assert_beacon(MD_OPEN_REPLAY, 6, 2, true, 10 * MD_COPY_NS);
	/* Copies of several may come by one netdev and then by the other. */
	for (uint64_t counter = 7; counter <= last; counter++)
		assert_beacon(MD_OPEN_OK, counter, 1, false, 11 * MD_COPY_NS);
	for (uint64_t counter = 7; counter <= last; counter++)
		assert_beacon(MD_OPEN_OK, counter, 2, false, 11 * MD_COPY_NS + 1);
	for (uint64_t counter = 7; counter <= last; counter++)
		assert_beacon(MD_OPEN_REPLAY, counter, 2, true, 11 * MD_COPY_NS + 2);
	assert_beacon(MD_OPEN_REPLAY, 5, 3, true, 11 * MD_COPY_NS + 2); /* too many behind */
	/* Of those of a while ago none, whether its sender is silent since, or not. */
	assert_beacon(MD_OPEN_OK, last, 3, false, 12 * MD_COPY_NS - 1);
	assert_beacon(MD_OPEN_REPLAY, last, 4, true, 12 * MD_COPY_NS);
	assert_beacon(MD_OPEN_OK, last + 1, 1, false, late_ns);
	assert_beacon(MD_OPEN_REPLAY, last, 4, true, late_ns);
	assert_beacon(MD_OPEN_OK, last + 1, 4, false, late_ns);
	for (uint64_t i = 0; i < 40; i++)
		assert_beacon(MD_OPEN_OK, last + 2 + i, 1, false, late_ns + i * MD_COPY_NS / 10);
	assert_beacon(MD_OPEN_REPLAY, last + 2 + 15, 2, true, late_ns + 39 * MD_COPY_NS / 10);
	assert_beacon(MD_OPEN_OK, last + 2 + 30, 2, true, late_ns + 39 * MD_COPY_NS / 10);
	/* Netdevs come and go; by more than there is room for at a time they are refused. */
	for (uint32_t netdev = 10; netdev < 10 + MD_COPY_NETDEVS - 4; netdev++)
		assert_beacon(MD_OPEN_OK, last + 2 + 39, netdev, false, late_ns + 39 * MD_COPY_NS / 10);
	assert_beacon(MD_OPEN_REPLAY, last + 2 + 39, 100, true, late_ns + 39 * MD_COPY_NS / 10);
	for (uint32_t netdev = 100; netdev < 200; netdev++) {
		uint64_t counter = 1000 + netdev * MD_COPY_BEACONS, at_ns = late_ns + netdev * MD_COPY_NS;

		assert_beacon(MD_OPEN_OK, counter, netdev, false, at_ns);
		assert_beacon(MD_OPEN_OK, counter, netdev + 100, false, at_ns);
	}
	/* In another life of its sender all begins anew. */
	assert_string_equal(md_verdict_name(md_windows_take(&w, &host, 6, 5, 1, true, 2 * LIFE_NS)), "ok");
	assert_string_equal(md_verdict_name(md_windows_take(&w, &host, 6, 5, 2, true, 2 * LIFE_NS)), "ok");
	assert_beacon(MD_OPEN_OLD_START, 1000 + 199 * MD_COPY_BEACONS, 3, true, 2 * LIFE_NS);
	/* That life may begin with a datagram that is no beacon. */
	assert_string_equal(md_verdict_name(md_windows_take(&w, &host, 6, 90000, 1, false, 2 * LIFE_NS)), "ok");
	assert_string_equal(md_verdict_name(md_windows_take(&w, &host, 7, 1, 0, true, 4 * LIFE_NS)), "ok");
	assert_string_equal(md_verdict_name(md_windows_take(&w, &host, 7, 2, 1, false, 4 * LIFE_NS)), "ok");
	assert_string_equal(md_verdict_name(md_windows_take(&w, &host, 7, 2, 2, false, 4 * LIFE_NS)), "ok");
	md_windows_fini(&w);
#undef assert_beacon
}

/*
 * Random counters around a moving front: what comes for the first time and is not behind the window
 * passes, nothing passes twice.
 */
static void test_reordering(void **state)
{
	enum { SPAN = 200000 };
	uint8_t *taken = calloc(1, SPAN);
	struct md_windows w;
	uint64_t front = 4000, newest = 4000;

	(void)state;
	assert_non_null(taken);
	assert_int_equal(md_windows_init(&w, 1), 0);
	assert_take(MD_OPEN_OK, &w, 1, 1, newest, true, 0);
	memset(taken, 1, newest + 1);
	for (int i = 0; i < 300000; i++) {
		uint64_t counter = front - rnd(2 * MD_WINDOW) + rnd(rnd(100) ? 8 : 3 * MD_WINDOW);
		enum md_verdict verdict, right = MD_OPEN_OK;

		if (counter >= SPAN)
			break;
		if (counter <= newest && newest - counter >= MD_WINDOW)
			right = MD_OPEN_TOO_OLD;
		else if (taken[counter])
			right = MD_OPEN_REPLAY;
		verdict = take(&w, 1, 1, counter, false, 0);
		if (verdict != right)
			fail_msg("counter %lu with newest %lu: %s instead of %s", counter, newest,
				 md_verdict_name(verdict), md_verdict_name(right));
		taken[counter] = 1;
		if (counter > newest)
			newest = counter;
		front += rnd(3);
		if (front < newest - MD_WINDOW)
			front = newest;
	}
	assert_true(newest > SPAN / 2);
	md_windows_fini(&w);
	free(taken);
}

static void test_lives(void **state)
{
	struct md_windows w;

	(void)state;
	assert_int_equal(md_windows_init(&w, 4), 0);
	assert_take(MD_OPEN_OK, &w, 1, 100, 50, true, SECOND_NS);
	assert_take(MD_OPEN_UNPROVEN, &w, 1, 200, 1, false, SECOND_NS);
	assert_take(MD_OPEN_OK, &w, 1, 200, 1, true, SECOND_NS);
	assert_take(MD_OPEN_OLD_START, &w, 1, 100, 51, true, SECOND_NS);
	assert_take(MD_OPEN_OLD_START, &w, 1, 100, 51, true, SECOND_NS + LIFE_NS);
	assert_take(MD_OPEN_UNPROVEN, &w, 1, 100, 51, false, SECOND_NS + LIFE_NS + 1);
	assert_take(MD_OPEN_OK, &w, 1, 100, 51, true, SECOND_NS + LIFE_NS + 1);
	/* A clock that went back makes nothing forgettable. */
	assert_take(MD_OPEN_OLD_START, &w, 1, 99, 1, true, 0);
	md_windows_fini(&w);
}

/* A window makes room only when nothing it took can be fresh. */
static void test_eviction(void **state)
{
	struct md_windows w;

	(void)state;
	assert_int_equal(md_windows_init(&w, 3), 0);
	for (uint32_t id = 0; id < 3; id++)
		assert_take(MD_OPEN_OK, &w, id, 1, 10, true, id * SECOND_NS);
	assert_take(MD_OPEN_OK, &w, 0, 1, 11, false, 5 * SECOND_NS);
	assert_take(MD_OPEN_NO_ROOM, &w, 7, 1, 1, true, 6 * SECOND_NS);
	assert_take(MD_OPEN_NO_ROOM, &w, 7, 1, 1, true, SECOND_NS + LIFE_NS);
	/* 1 is the one not heard for longest; refused ones do not count as heard. */
	assert_take(MD_OPEN_REPLAY, &w, 1, 1, 10, true, SECOND_NS + LIFE_NS);
	assert_take(MD_OPEN_OK, &w, 7, 1, 1, true, SECOND_NS + LIFE_NS + 1);
	assert_take(MD_OPEN_REPLAY, &w, 0, 1, 11, true, SECOND_NS + LIFE_NS + 1);
	assert_take(MD_OPEN_REPLAY, &w, 2, 1, 10, true, SECOND_NS + LIFE_NS + 1);
	assert_take(MD_OPEN_UNPROVEN, &w, 1, 1, 10, false, SECOND_NS + LIFE_NS + 1);
	assert_int_equal(w.senders.n, 3);
	md_windows_fini(&w);
}

struct entry {
	uint64_t key;
	uint64_t value;
};

/* Against an array searched from end to end. */
static void test_table(void **state)
{
	enum { MAX = 50, KEYS = 120 };
	uint64_t used[KEYS] = {0}, tick = 0; /* 0: not in the table */
	struct md_table table;
	size_t n = 0;

	(void)state;
	assert_int_equal(md_table_init(&table, MAX, 8, sizeof(struct entry)), 0);
	assert_null(md_table_oldest(&table));
	for (int i = 0; i < 200000; i++) {
		uint64_t key = rnd(KEYS), oldest = 0;
		struct entry *entry = md_table_find(&table, &key);

		assert_int_equal(entry != NULL, used[key] != 0);
		if (entry)
			assert_int_equal(entry->value, key * 3);
		if (!entry) {
			entry = md_table_add(&table, &key);
			assert_int_equal(entry != NULL, n < MAX);
			if (entry) {
				assert_int_equal(entry->value, 0);
				entry->value = key * 3;
				used[key] = ++tick;
				n++;
			}
		} else if (rnd(3)) {
			md_table_touch(&table, entry);
			used[key] = ++tick;
		} else {
			md_table_remove(&table, entry);
			used[key] = 0;
			n--;
		}
		assert_int_equal(table.n, n);
		for (uint64_t k = 0; k < KEYS; k++)
			if (used[k] && (!oldest || used[k] < used[oldest - 1]))
				oldest = k + 1;
		entry = md_table_oldest(&table);
		assert_int_equal(entry ? entry->key + 1 : 0, oldest);
	}
	md_table_fini(&table);
	md_table_fini(&table);
}

static void test_limit(void **state)
{
	const struct md_rate rate = {.per_second = 10, .burst = 5};
	struct md_limit limit = {0};
	uint64_t now = 77 * SECOND_NS;
	int passed = 0;

	(void)state;
	for (int i = 0; i < 20; i++)
		passed += md_limit_take(&limit, &rate, now);
	assert_int_equal(passed, 5);
	assert_false(md_limit_has(&limit, &rate, now + SECOND_NS / 10 - 1));
	assert_true(md_limit_has(&limit, &rate, now + SECOND_NS / 10));
	/* Ten times as many as allowed for a minute. */
	passed = 0;
	for (int i = 0; i < 6000; i++)
		passed += md_limit_take(&limit, &rate, now += SECOND_NS / 100);
	assert_in_range(passed, 599, 601);
	/* Never more than a burst, however long nothing happened. */
	now += 1000 * SECOND_NS;
	passed = 0;
	for (int i = 0; i < 20; i++)
		passed += md_limit_take(&limit, &rate, now);
	assert_int_equal(passed, 5);
	/* Three at a time: no more of them. */
	now += 1000 * SECOND_NS;
	passed = 0;
	for (int i = 0; i < 6000; i++)
		passed += 3 * md_limit_take_some(&limit, &rate, 3, now += SECOND_NS / 100);
	assert_in_range(passed, 597, 606);
	assert_false(md_limit_take_some(&limit, &rate, rate.burst + 1, now + 1000 * SECOND_NS));
	/* A clock that went back locks nobody out. */
	assert_true(md_limit_take(&limit, &rate, now / 2));
}

static void check_claim(enum md_evidence holder, bool live, enum md_evidence claimant, bool wins)
{
	struct md_gid_claim has = {.host = id_of(1), .evidence = holder, .live = live};
	struct md_gid_claim wants = {.host = id_of(2), .evidence = claimant, .live = true};

	assert_int_equal(md_gid_claim_wins(&has, &wants), wins);
	wants.host = id_of(1);
	assert_true(md_gid_claim_wins(&has, &wants));
}

/* Of a holder that is vouched for. */
static void check_vouched(enum md_evidence holder, enum md_evidence claimant, bool vouched, bool wins)
{
	const struct md_gid_claim has = {.host = id_of(1), .evidence = holder, .vouched = true, .live = true};
	const struct md_gid_claim wants = {.host = id_of(2), .evidence = claimant, .vouched = vouched, .live = true};

	assert_int_equal(md_gid_claim_wins(&has, &wants), wins);
}

static void test_claims(void **state)
{
	(void)state;
	for (int holder = MD_EVIDENCE_TOLD; holder <= MD_EVIDENCE_OWN; holder++)
		for (int claimant = MD_EVIDENCE_TOLD; claimant <= MD_EVIDENCE_OWN; claimant++) {
			check_claim(holder, true, claimant, claimant > holder);
			check_claim(holder, false, claimant, true);
			check_vouched(holder, claimant, false, claimant > holder && claimant >= MD_EVIDENCE_FILE);
			check_vouched(holder, claimant, true,
				      claimant > holder && (claimant >= MD_EVIDENCE_FILE ||
							    (holder < MD_EVIDENCE_ON_LINK && claimant == MD_EVIDENCE_ON_LINK)));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edges),  cmocka_unit_test(test_copies), cmocka_unit_test(test_reordering),
		cmocka_unit_test(test_lives),  cmocka_unit_test(test_eviction),
		cmocka_unit_test(test_table),  cmocka_unit_test(test_limit),
		cmocka_unit_test(test_claims),
	};
	const char *given = getenv("MESHVERBS_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	printf("MESHVERBS_SEED=%lu\n", seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
