/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <infiniband/verbs.h>

#include "qp_state.h"

#define INIT   (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define RTR_UC (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTR_RC (RTR_UC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_RC                                                                                     \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |     \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static void usual_way_up(void **state)
{
	(void)state;
	assert_true(
		qp_modify_ok(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, INIT | IBV_QP_ACCESS_FLAGS));
	assert_true(qp_modify_ok(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, RTR_RC));
	assert_true(qp_modify_ok(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, RTS_RC));
	assert_true(qp_modify_ok(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, RTR_UC));
	assert_true(
		qp_modify_ok(IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN));
	assert_true(qp_modify_ok(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, INIT | IBV_QP_QKEY));
	assert_true(qp_modify_ok(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE));
	assert_true(
		qp_modify_ok(IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

/* Each required attribute left out in turn. */
static void every_required_attribute_is_required(void **state)
{
	(void)state;
	for (uint32_t bit = 1; bit < 1u << 22; bit <<= 1) {
		if (bit == IBV_QP_STATE)
			continue;
		if (RTR_RC & bit)
			assert_false(
				qp_modify_ok(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, RTR_RC & ~bit));
		if (RTS_RC & bit)
			assert_false(
				qp_modify_ok(IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, RTS_RC & ~bit));
		if (RTR_UC & bit)
			assert_false(
				qp_modify_ok(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, RTR_UC & ~bit));
	}
}

static void foreign_attributes_are_refused(void **state)
{
	(void)state;
	assert_false(qp_modify_ok(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, RTR_RC | IBV_QP_SQ_PSN));
	assert_false(qp_modify_ok(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, RTR_RC));
	assert_false(qp_modify_ok(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, RTR_UC));
	assert_false(
		qp_modify_ok(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_STATE | IBV_QP_SQ_PSN));
	assert_true(qp_modify_ok(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS,
				 IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER));
}

static void no_state_is_skipped(void **state)
{
	(void)state;
	assert_false(qp_modify_ok(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_RTR, RTR_RC));
	assert_false(qp_modify_ok(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTS, RTS_RC));
	assert_false(qp_modify_ok(IBV_QPT_RC, IBV_QPS_ERR, IBV_QPS_RTS, RTS_RC));
	assert_false(
		qp_modify_ok(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_INIT, INIT | IBV_QP_ACCESS_FLAGS));
	assert_false(
		qp_modify_ok(IBV_QPT_RC, IBV_QPS_ERR, IBV_QPS_INIT, INIT | IBV_QP_ACCESS_FLAGS));
}

static void reset_and_err_from_everywhere(void **state)
{
	(void)state;
	for (uint8_t from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
		assert_true(qp_modify_ok(IBV_QPT_RC, from, IBV_QPS_RESET, IBV_QP_STATE));
		assert_true(qp_modify_ok(IBV_QPT_UD, from, IBV_QPS_ERR, IBV_QP_STATE));
	}
}

static void draining(void **state)
{
	(void)state;
	assert_true(qp_modify_ok(IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD,
				 IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	assert_true(qp_modify_ok(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, IBV_QP_AV | IBV_QP_TIMEOUT));
	assert_true(qp_modify_ok(IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, IBV_QP_STATE));
	assert_true(qp_modify_ok(IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS, IBV_QP_STATE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usual_way_up),
		cmocka_unit_test(every_required_attribute_is_required),
		cmocka_unit_test(foreign_attributes_are_refused),
		cmocka_unit_test(no_state_is_skipped),
		cmocka_unit_test(reset_and_err_from_everywhere),
		cmocka_unit_test(draining),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
