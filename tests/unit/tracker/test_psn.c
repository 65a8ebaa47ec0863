/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* PSN accounting by example; test_psn_property.c tries it against a requester and a responder. */
#include "unit.h"

#include <errno.h>

#include "psn.h"

static const uint32_t mtus[] = {256, 512, 1024, 2048, 4096};

static void test_count(void **state)
{
	static const uint8_t sized[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ};

	(void)state;
	for (size_t i = 0; i < sizeof(sized); i++) {
		for (size_t m = 0; m < 5; m++) {
			uint32_t mtu = mtus[m];

			assert_int_equal(mv_psn_count(sized[i], 0, mtu), 1);
			assert_int_equal(mv_psn_count(sized[i], 1, mtu), 1);
			assert_int_equal(mv_psn_count(sized[i], mtu, mtu), 1);
			assert_int_equal(mv_psn_count(sized[i], mtu + 1, mtu), 2);
			assert_int_equal(mv_psn_count(sized[i], 7 * mtu, mtu), 7);
			assert_int_equal(mv_psn_count(sized[i], UINT64_C(1) << 31, mtu),
					 0x80000000u / mtu);
			assert_int_equal(mv_psn_count(sized[i], (UINT64_C(1) << 31) + 1, mtu), 0);
		}
	}
	assert_int_equal(mv_psn_count(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 256), 1);
	assert_int_equal(mv_psn_count(IBV_WR_ATOMIC_CMP_AND_SWP, 8, 256), 1);
	assert_int_equal(mv_psn_count(IBV_WR_LOCAL_INV, 0, 256), 0);
	assert_int_equal(mv_psn_count(IBV_WR_BIND_MW, 0, 256), 0);
	assert_int_equal(mv_psn_count((enum ibv_wr_opcode)99, 0, 256), 0);
}

/* One letter for each: W write, S send, I write with immediate, R read, A fetch and add; a capital
 * fence: '!' before. */
static size_t parse(const char *text, struct mv_psn_wr *ret)
{
	bool fence = false;
	size_t n = 0;

	for (; *text; text++) {
		if (*text == '!') {
			fence = true;
			continue;
		}
		ret[n++] =
			(struct mv_psn_wr){.opcode = *text == 'W'   ? IBV_WR_RDMA_WRITE
						     : *text == 'S' ? IBV_WR_SEND
						     : *text == 'I' ? IBV_WR_RDMA_WRITE_WITH_IMM
						     : *text == 'R' ? IBV_WR_RDMA_READ
								    : IBV_WR_ATOMIC_FETCH_AND_ADD,
					   .fence = fence,
					   .length_bytes = *text == 'A' ? 8 : 2500};
		fence = false;
	}
	return n;
}

/* All but atomics take three packets. @expected: D done, R replay, L lost. */
static void decide(const char *text, uint32_t packets, size_t n_done, uint32_t max_rd_atomic, const char *expected)
{
	static const uint32_t first[] = {0, 5, 0x7fffff, 0xffffff, 0xfffff8};
	enum mv_fate fates[32];
	struct mv_psn_wr wrs[32];
	size_t n = parse(text, wrs);

	for (size_t f = 0; f < 5; f++) {
		struct mv_psn_view view = {.first_psn = first[f],
					   .rq_psn = (first[f] + packets) & 0xffffff,
					   .mtu_bytes = 1024,
					   .n_done = n_done,
					   .max_rd_atomic = max_rd_atomic};
		uint32_t part = 99;
		char got[33] = {0};

		assert_int_equal(mv_psn_decide(wrs, n, &view, fates, &part), 0);
		assert_true(part <= 2);
		for (size_t i = 0; i < n; i++)
			got[i] = fates[i] == MV_FATE_DONE     ? 'D'
				 : fates[i] == MV_FATE_REPLAY ? 'R'
							      : 'L';
		assert_string_equal(got, expected);
	}
}

static void test_decide(void **state)
{
	(void)state;
	decide("", 0, 0, 0, "");
	decide("WWW", 0, 0, 0, "RRR");
	decide("WWW", 9, 0, 0, "DDD");
	decide("WWW", 3, 0, 0, "DRR");
	/* Parts of a message. */
	decide("SSS", 4, 0, 0, "DRR");
	decide("SIW", 8, 0, 0, "DDR");
	/* Executed, but are the results there? */
	decide("WRW", 9, 0, 0, "DRD");
	decide("WAW", 7, 0, 0, "DLD");
	decide("WAW", 3, 0, 0, "DRR");
	decide("WRW", 9, 2, 0, "DDD");
	decide("WAW", 7, 2, 0, "DDD");
	/* A fenced one was sent, if only its first packet: what is before it was done. */
	decide("RA!WR", 10, 0, 0, "DDDR");
	decide("RA!WW", 5, 0, 0, "DDRR");
	decide("RA!WW", 4, 0, 0, "RLRR");
	/* One result at a time: an executed one means that the one before is there. */
	decide("RAA", 5, 0, 1, "DDL");
	decide("RAA", 5, 0, 2, "DLL");
	decide("RAA", 5, 0, 3, "RLL");
	decide("RAWWR", 10, 0, 1, "DLDDR");
	decide("AAR", 2, 0, 1, "DLR");
}

static int refused(const char *text, uint32_t first, uint32_t rq, uint32_t mtu, size_t n_done)
{
	struct mv_psn_view view = {
		.first_psn = first, .rq_psn = rq, .mtu_bytes = mtu, .n_done = n_done};
	enum mv_fate fates[32] = {MV_FATE_LOST};
	struct mv_psn_wr wrs[32];
	int err = mv_psn_decide(wrs, parse(text, wrs), &view, fates, NULL);

	assert_int_equal(fates[0], err ? MV_FATE_LOST : MV_FATE_DONE);
	return err;
}

static void test_refused(void **state)
{
	struct mv_psn_wr huge[2] = {
		{.opcode = IBV_WR_RDMA_WRITE, .length_bytes = UINT64_C(1) << 31},
		{.opcode = IBV_WR_RDMA_WRITE, .length_bytes = UINT64_C(1) << 31},
	};
	struct mv_psn_view view = {.first_psn = 1, .mtu_bytes = 256};
	enum mv_fate fates[2];
	struct mv_psn_wr wr = {.opcode = IBV_WR_SEND_WITH_INV};

	(void)state;
	assert_int_equal(refused("WW", 10, 16, 1024, 0), 0);
	assert_int_equal(refused("WW", 10, 17, 1024, 0), -ERANGE);
	assert_int_equal(refused("WW", 10, 9, 1024, 0), -ERANGE);
	assert_int_equal(refused("", 10, 11, 1024, 0), -ERANGE);
	assert_int_equal(refused("WW", 10, 13, 1024, 2), -ERANGE);
	assert_int_equal(refused("WW", 10, 15, 1024, 2), -ERANGE);
	assert_int_equal(refused("WWW", 10, 15, 1024, 2), -ERANGE);
	assert_int_equal(refused("WWW", 10, 15, 1024, 1), 0);
	assert_int_equal(refused("WW", 10, 16, 1024, 2), 0);
	assert_int_equal(refused("WW", 10, 16, 1024, 3), -EINVAL);
	assert_int_equal(refused("WW", 10, 16, 1000, 0), -EINVAL);
	assert_int_equal(refused("WW", 10, 16, 0, 0), -EINVAL);
	for (int opcode = 0; opcode < 32; opcode++) {
		bool fine = opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD;

		wr.opcode = (uint8_t)opcode;
		view.rq_psn = 1;
		assert_int_equal(mv_psn_decide(&wr, 1, &view, fates, NULL), fine ? 0 : -EOPNOTSUPP);
	}
	/* Each is half of all PSNs: more cannot be outstanding than one and almost another. */
	view.rq_psn = 0x800001;
	assert_int_equal(mv_psn_decide(huge, 2, &view, fates, NULL), 0);
	assert_int_equal(fates[0], MV_FATE_DONE);
	assert_int_equal(fates[1], MV_FATE_REPLAY);
	view.rq_psn = 0;
	assert_int_equal(mv_psn_decide(huge, 2, &view, fates, NULL), 0);
	assert_int_equal(fates[1], MV_FATE_REPLAY);
	huge[0].length_bytes = 1;
	assert_int_equal(mv_psn_decide(huge, 2, &view, fates, NULL), -ERANGE);
}

/* Unsignaled ones that are done stay in the log until a signaled one is: any number of PSNs. */
static void decide_behind(size_t n_done, uint32_t first)
{
	struct mv_psn_wr wrs[17];
	enum mv_fate fates[17];
	struct mv_psn_view view = {.first_psn = first, .mtu_bytes = 1024, .n_done = n_done};
	size_t n = n_done + 1;
	uint32_t reached = (first + ((uint32_t)n_done << 20)) & 0xffffff, part = 99;

	for (size_t i = 0; i < n; i++)
		wrs[i] = (struct mv_psn_wr){.opcode = IBV_WR_RDMA_WRITE, .length_bytes = 1u << 30};
	view.rq_psn = (reached + 5) & 0xffffff;
	assert_int_equal(mv_psn_decide(wrs, n, &view, fates, &part), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(fates[i], i < n_done ? MV_FATE_DONE : MV_FATE_REPLAY);
	assert_int_equal(part, 5);
	view.rq_psn = (reached + (1u << 20)) & 0xffffff;
	assert_int_equal(mv_psn_decide(wrs, n, &view, fates, &part), 0);
	assert_int_equal(fates[n_done], MV_FATE_DONE);
	/* Behind what is done, by its last packet; and ahead of what was posted. */
	view.rq_psn = (reached - 1) & 0xffffff;
	assert_int_equal(mv_psn_decide(wrs, n, &view, fates, &part), -ERANGE);
	view.rq_psn = (reached + (1u << 20) + 1) & 0xffffff;
	assert_int_equal(mv_psn_decide(wrs, n, &view, fates, &part), -ERANGE);
	/* All of them are done. */
	assert_int_equal(mv_psn_decide(wrs, n_done, &view, fates, &part), -ERANGE);
	view.rq_psn = reached;
	assert_int_equal(mv_psn_decide(wrs, n_done, &view, fates, &part), 0);
	/* Those that are done have to be accountable, too. */
	wrs[n_done - 1].opcode = IBV_WR_SEND_WITH_INV;
	assert_int_equal(mv_psn_decide(wrs, n, &view, fates, &part), -EOPNOTSUPP);
}

static void test_behind(void **state)
{
	(void)state;
	for (size_t n_done = 1; n_done < 17; n_done++) {
		decide_behind(n_done, 0x123456);
		decide_behind(n_done, 0xffffff);
	}
}

static void test_consumes(void **state)
{
	(void)state;
	assert_true(mv_psn_consumes(IBV_WR_SEND) && mv_psn_consumes(IBV_WR_SEND_WITH_IMM) &&
		    mv_psn_consumes(IBV_WR_RDMA_WRITE_WITH_IMM));
	assert_false(mv_psn_consumes(IBV_WR_RDMA_WRITE) || mv_psn_consumes(IBV_WR_RDMA_READ) ||
		     mv_psn_consumes(IBV_WR_ATOMIC_CMP_AND_SWP));
	assert_int_equal(mv_psn_add(0xfffffe, 5), 3);
	assert_int_equal(mv_psn_ahead(0xfffffe, 3), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),  cmocka_unit_test(test_decide),   cmocka_unit_test(test_refused),
		cmocka_unit_test(test_behind), cmocka_unit_test(test_consumes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
