// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Which connections take one path when they leave a rail: the number that mesh_path_between() gives to the directory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "conntable.h"
#include "oneconn.h"
#include "path_select.h"

static const union ibv_gid ours = {.raw = {[10] = 0xff, 0xff, 10, 1, 0, 1}};
static const union ibv_gid theirs = {.raw = {[10] = 0xff, 0xff, 10, 1, 0, 2}};
static const union ibv_gid others = {.raw = {[10] = 0xff, 0xff, 10, 1, 0, 3}};

/* The number of a connection between two GIDs. */
static uint64_t spread(const union ibv_gid *local, const union ibv_gid *peer)
{
	conn.ends.local.gid = *local;
	conn.ends.peer.gid = *peer;
	return mesh_path_between(&conn, "mlx5_0", 1, MV_GID_TYPE_ROCE_V2, local, peer).spread;
}

static void test_one_number_for_two_gids(void **state)
{
	uint64_t number = spread(&ours, &theirs);

	(void)state;
	assert_true(number);
	conn.qpn++;
	assert_int_equal(spread(&ours, &theirs), number);
	assert_int_equal(spread(&theirs, &ours), number); /* as the peer computes it */
	assert_int_not_equal(spread(&ours, &others), number);
}

/* A connection that has moved keeps its number: its GIDs are those of the program. */
static void test_number_stays(void **state)
{
	uint64_t number = spread(&ours, &theirs);

	(void)state;
	assert_int_equal(mesh_path_between(&conn, "mlx5_1", 1, MV_GID_TYPE_ROCE_V2, &others, &theirs).spread, number);
}

static void test_srq_stays_together(void **state)
{
	struct ibv_srq srq = {0};

	(void)state;
	conn.qp->srq = &srq;
	assert_int_equal(spread(&ours, &theirs), 0);
	conn.qp->srq = NULL;
	assert_true(spread(&ours, &theirs));
}

/* A self-connected QP can follow to one NIC only. */
static void test_followed_stay_together(void **state)
{
	(void)state;
	mesh_conn_follows(&conn);
	assert_int_equal(spread(&ours, &theirs), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_one_number_for_two_gids),
		T(test_number_stays),
		T(test_srq_stays_together),
		T(test_followed_stay_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
