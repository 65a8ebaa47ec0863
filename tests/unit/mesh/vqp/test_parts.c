// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the data path of moved queue pairs is made of: the map, the queue of sends, the logs of receives. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fault.h"
#include "srq.h"
#include "vqp_int.h"

/* ---- map ----------------------------------------------------------------------------------------------------- */

static void *key_of(uintptr_t n)
{
	return (void *)(0x1000 + n * 16);
}

static void test_map(void **state)
{
	struct mesh_map map = {NULL};
	uintptr_t i;

	(void)state;
	assert_null(mesh_map_get(&map, key_of(1)));
	assert_null(mesh_map_any(&map));
	assert_null(mesh_map_drop(&map, key_of(1)));
	for (i = 1; i < 5000; i++)
		assert_int_equal(mesh_map_put(&map, key_of(i), (void *)i), 0);
	for (i = 1; i < 5000; i++)
		assert_ptr_equal(mesh_map_get(&map, key_of(i)), (void *)i);
	assert_null(mesh_map_get(&map, key_of(5000)));
	assert_int_equal(mesh_map_put(&map, key_of(7), (void *)70), 0);
	assert_ptr_equal(mesh_map_get(&map, key_of(7)), (void *)70);
	for (i = 1; i < 5000; i += 2)
		assert_ptr_equal(mesh_map_drop(&map, key_of(i)), i == 7 ? (void *)70 : (void *)i);
	for (i = 1; i < 5000; i++)
		assert_ptr_equal(mesh_map_get(&map, key_of(i)), i % 2 ? NULL : (void *)i);
	for (i = 2; i < 5000; i += 2)
		mesh_map_drop(&map, key_of(i));
	assert_null(mesh_map_any(&map));
	mesh_map_fini(&map);
}

static void test_map_without_memory(void **state)
{
	struct mesh_map map = {NULL};

	(void)state;
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_int_equal(mesh_map_put(&map, key_of(1), (void *)1), -ENOMEM);
	fault_arm(FAULT_ALLOC, 2, ENOMEM);
	assert_int_equal(mesh_map_put(&map, key_of(1), (void *)1), -ENOMEM);
	fault_disarm();
	assert_null(mesh_map_get(&map, key_of(1)));
	assert_int_equal(mesh_map_put(&map, key_of(1), (void *)1), 0);
	mesh_map_drop(&map, key_of(1));
	/* The place is there now: what is put back after a drop takes no memory. */
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_int_equal(mesh_map_put(&map, key_of(1), (void *)2), 0);
	fault_disarm();
	mesh_map_fini(&map);
}

struct churn {
	struct mesh_map *map;
	_Atomic bool stop;
};

/* Keys 1 to 100 come and go; 200 is always there. */
static void *look(void *arg)
{
	struct churn *churn = arg;
	uintptr_t i, value;

	while (!atomic_load(&churn->stop)) {
		for (i = 1; i <= 100; i++) {
			value = (uintptr_t)mesh_map_get(churn->map, key_of(i));
			if (value && value != i)
				return (void *)1;
		}
		if ((uintptr_t)mesh_map_get(churn->map, key_of(200)) != 200)
			return (void *)2;
	}
	return NULL;
}

static void test_map_looked_at(void **state)
{
	struct mesh_map map = {NULL};
	struct churn churn = {.map = &map};
	pthread_t threads[2];
	void *result;
	uintptr_t i, round;

	(void)state;
	assert_int_equal(mesh_map_put(&map, key_of(200), (void *)200), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, &churn), 0);
	for (round = 0; round < 300; round++) {
		for (i = 1; i <= 100; i++)
			assert_int_equal(mesh_map_put(&map, key_of(i), (void *)i), 0);
		for (i = 1; i <= 100; i++)
			mesh_map_drop(&map, key_of(i));
	}
	atomic_store(&churn.stop, true);
	for (i = 0; i < 2; i++) {
		pthread_join(threads[i], &result);
		assert_null(result);
	}
	mesh_map_fini(&map);
}

/* ---- sends --------------------------------------------------------------------------------------------------- */

static const struct ibv_qp_cap cap = {.max_send_wr = 4, .max_send_sge = 2, .max_inline_data = 10};

static void test_sendq(void **state)
{
	char data[2][8] = {"abcdefg", "ABCDEFG"};
	struct ibv_sge sges[3] = {{(uintptr_t)data[0], 5, 11}, {(uintptr_t)data[1], 5, 12}, {0, 1, 13}};
	struct ibv_send_wr wr = {.sg_list = sges, .num_sge = 2};
	struct mesh_sendq q;
	uint64_t i, out = 0;

	(void)state;
	assert_int_equal(mesh_sendq_init(&q, &cap), 0);
	for (i = 0; i < 10; i++) {
		wr.wr_id = i;
		if (i < 4) {
			assert_int_equal(mesh_sendq_push(&q, &wr), 0);
			continue;
		}
		assert_int_equal(mesh_sendq_push(&q, &wr), ENOMEM);
		assert_int_equal(mesh_sendq_place(&q, 0)->wr.wr_id, out++);
		mesh_sendq_pop(&q);
		assert_int_equal(mesh_sendq_push(&q, &wr), 0);
		assert_int_equal(mesh_sendq_place(&q, 3)->wr.wr_id, i);
	}
	assert_memory_equal(mesh_sendq_place(&q, 2)->wr.sg_list, sges, 2 * sizeof(*sges));
	assert_ptr_not_equal(mesh_sendq_place(&q, 2)->wr.sg_list, sges);

	/* Inline data is taken at once, up to its limit. */
	mesh_sendq_pop(&q);
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(mesh_sendq_push(&q, &wr), 0);
	memset(data, 0, sizeof(data));
	assert_int_equal(mesh_sendq_place(&q, 3)->wr.num_sge, 1);
	assert_int_equal(mesh_sendq_place(&q, 3)->sges[0].length, 10);
	assert_memory_equal((void *)(uintptr_t)mesh_sendq_place(&q, 3)->sges[0].addr, "abcdeABCDE", 10);
	mesh_sendq_pop(&q);
	sges[1].length = 6;
	assert_int_equal(mesh_sendq_push(&q, &wr), ENOMEM);
	wr.send_flags = 0;
	wr.num_sge = 3;
	assert_int_equal(mesh_sendq_push(&q, &wr), ENOMEM);
	wr.num_sge = 0;
	wr.opcode = IBV_WR_LOCAL_INV;
	assert_int_equal(mesh_sendq_push(&q, &wr), EINVAL);
	assert_int_equal(q.n, 3);
	mesh_sendq_fini(&q);
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_int_equal(mesh_sendq_init(&q, &cap), -ENOMEM);
	fault_disarm();
}

/* ---- receives ------------------------------------------------------------------------------------------------ */

static void test_recvlog(void **state)
{
	struct ibv_sge sges[2] = {{1, 2, 3}, {4, 5, 6}};
	struct ibv_recv_wr wr = {.sg_list = sges};
	struct mesh_recvlog log = {0};
	size_t at = 0, i;

	(void)state;
	for (i = 0; i < 100; i++) {
		wr.wr_id = i;
		wr.num_sge = (int)(i % 3);
		mesh_recvlog_add(&log, &wr);
	}
	assert_int_equal(log.n, 100);
	for (i = 0; i < 100; i++) {
		assert_int_equal(log.notes[i].wr_id, i);
		assert_int_equal(log.notes[i].num_sge, i % 3);
		assert_memory_equal(&log.sges[at], sges, i % 3 * sizeof(*sges));
		at += i % 3;
	}
	assert_false(log.incomplete);
	mesh_recvlog_fini(&log);

	/* Without memory for one it is of no use any more. */
	for (i = 1; i <= 2; i++) {
		fault_arm(FAULT_ALLOC, (unsigned int)i, ENOMEM);
		mesh_recvlog_add(&log, &wr);
		fault_disarm();
		assert_true(log.incomplete);
		mesh_recvlog_add(&log, &wr);
		assert_int_equal(log.n, 0);
		mesh_recvlog_fini(&log);
	}
}

/* Against an array that does the same in the plainest way. */
static void test_srqlog(void **state)
{
	struct {
		uint64_t wr_id;
		bool gone;
	} model[4000];
	size_t first = 0, n = 0, i, left;
	struct mesh_srq_recv *recv;
	struct mesh_srqlog log;
	uint32_t random = 1, step;
	uint64_t wr_id;
	bool last;

	(void)state;
	assert_int_equal(mesh_srqlog_init(&log, 16, 2), 0);
	for (step = 0; step < 4000; step++) {
		random = random * 1664525u + 1013904223u;
		for (left = 0, i = first; i < n; i++)
			left += !model[i].gone;
		assert_int_equal(log.n_left, left);
		if (random >> 16 & 1) {
			struct ibv_sge sge = {.addr = step};

			wr_id = random >> 17 & 7; /* many have the same */
			mesh_srqlog_push(&log, wr_id, &sge, 1);
			model[n].wr_id = wr_id;
			model[n++].gone = false;
			if (left == 16) {
				while (model[first].gone)
					first++;
				first++;
			}
			continue;
		}
		wr_id = random >> 17 & 7;
		last = random >> 20 & 1;
		recv = mesh_srqlog_find(&log, wr_id, last);
		for (i = last ? n : first; last ? i-- > first : i < n; i += !last)
			if (!model[i].gone && model[i].wr_id == wr_id)
				break;
		if (last ? i + 1 == first : i == n) {
			assert_null(recv);
			continue;
		}
		assert_non_null(recv);
		assert_int_equal(recv->wr_id, wr_id);
		mesh_srqlog_drop(&log, recv);
		model[i].gone = true;
		while (first < n && model[first].gone)
			first++;
		recv = mesh_srqlog_first(&log);
		assert_true(first == n ? !recv : recv && recv->wr_id == model[first].wr_id);
	}
	mesh_srqlog_fini(&log);
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_int_equal(mesh_srqlog_init(&log, 16, 2), -ENOMEM);
	fault_disarm();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_map_without_memory),
		cmocka_unit_test(test_map_looked_at),
		cmocka_unit_test(test_sendq),
		cmocka_unit_test(test_recvlog),
		cmocka_unit_test(test_srqlog),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
