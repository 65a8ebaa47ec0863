/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections that leave a dead rail spread over the rails that are equally good: struct mv_path_request.spread */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "dirworld.h"
#include "pathfind.h"

#define N_RAILS 8
#define N_CONNS 1000

/* "host a; rail mlx5_0; gid 10.0.0.1/24 v2; rail mlx5_1 ..." @down: a mask of rails; @how: added to each rail but mlx5_0 */
static void add_host(char *text, size_t size, char name, unsigned int down, const char *how)
{
	size_t len = strlen(text);

	len += (size_t)snprintf(text + len, size - len, "host %c id %u;", name, name);
	for (unsigned int i = 0; i < N_RAILS; i++)
		len += (size_t)snprintf(text + len, size - len, "rail mlx5_%u %s %s;gid 10.0.%u.%u/24 v2;", i, down & 1u << i ? "down" : "",
					i ? how : "", i, name);
	assert_true(len < size);
}

/* The directory of host @own, which has @other as its peer. */
static void init_view(struct dirworld *world, char own, char other, unsigned int down, const char *how)
{
	char text[4096] = "";

	add_host(text, sizeof(text), own, down, how);
	add_host(text, sizeof(text), other, down, how);
	dirworld_init(world, text);
}

/* The rail of @own by which connection @spread leaves mlx5_0. */
static unsigned int choice(const struct dirworld *world, char own, char other, uint64_t spread)
{
	struct mv_path_request request = {.device = "mlx5_0", .port_num = 1, .sgid_type = MV_GID_TYPE_ROCE_V2, .spread = spread};
	struct mv_path paths[MV_PATH_FIND_MAX];
	char text[32];
	size_t n, i;

	snprintf(text, sizeof(text), "10.0.0.%u", own);
	request.sgid = unit_gid(text);
	snprintf(text, sizeof(text), "10.0.0.%u", other);
	request.dgid = unit_gid(text);
	n = mv_path_find(&world->dir, &request, 1, N_RAILS, paths, MV_PATH_FIND_MAX);
	for (i = 0; i < n && !paths[i].local_rail; i++)
		;
	assert_true(i < n);
	assert_int_equal(paths[i].remote_rail, paths[i].local_rail + N_RAILS);
	return paths[i].local_rail;
}

static uint64_t number(unsigned int i)
{
	return (uint64_t)(0x100 + i) << 32 | (0x2000 + 2 * i);
}

static void test_all_rails_have_some(void **state)
{
	unsigned int count[N_RAILS] = {0};
	struct dirworld world;

	(void)state;
	init_view(&world, 'a', 'b', 0, "");
	for (unsigned int i = 0; i < N_CONNS; i++)
		count[choice(&world, 'a', 'b', number(i))]++;
	for (unsigned int r = 1; r < N_RAILS; r++)
		assert_in_range(count[r], N_CONNS / (N_RAILS - 1) / 2, 2 * N_CONNS / (N_RAILS - 1));
	dirworld_fini(&world);
}

static void test_both_ends_choose_alike(void **state)
{
	struct dirworld a, b;

	(void)state;
	init_view(&a, 'a', 'b', 0, "");
	init_view(&b, 'b', 'a', 0, "");
	for (unsigned int i = 0; i < N_CONNS; i++)
		assert_int_equal(choice(&a, 'a', 'b', number(i)), choice(&b, 'b', 'a', number(i)));
	dirworld_fini(&a);
	dirworld_fini(&b);
}

static void test_only_those_of_a_rail_leave_it(void **state)
{
	const unsigned int dead = 3;
	struct dirworld before, after;
	unsigned int n_left = 0;

	(void)state;
	init_view(&before, 'a', 'b', 0, "");
	init_view(&after, 'a', 'b', 1u << dead, "");
	for (unsigned int i = 0; i < N_CONNS; i++) {
		unsigned int was = choice(&before, 'a', 'b', number(i)), is = choice(&after, 'a', 'b', number(i));

		assert_int_not_equal(is, dead);
		if (was != dead)
			assert_int_equal(is, was);
		n_left += was == dead;
	}
	assert_true(n_left);
	dirworld_fini(&before);
	dirworld_fini(&after);
}

/* Rate and NUMA node count for more than the spread. */
static void check_all_on(unsigned int rail, const char *how)
{
	char text[4096] = "", better[64], *at;
	struct dirworld world;

	add_host(text, sizeof(text), 'a', 0, how);
	add_host(text, sizeof(text), 'b', 0, how);
	/* The rail that is better lacks @how. */
	snprintf(better, sizeof(better), "rail mlx5_%u  %s;", rail, how);
	for (at = text; (at = strstr(at, better));)
		memset(strstr(at, how), ' ', strlen(how));
	dirworld_init(&world, text);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(choice(&world, 'a', 'b', number(i)), rail);
	dirworld_fini(&world);
}

static void test_better_rails_first(void **state)
{
	(void)state;
	check_all_on(5, "rate 25000");
	check_all_on(6, "numa 1");
}

static void test_without_a_number_the_lowest(void **state)
{
	struct dirworld world;

	(void)state;
	init_view(&world, 'a', 'b', 0, "");
	assert_int_equal(choice(&world, 'a', 'b', 0), 1);
	dirworld_fini(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_rails_have_some),	   cmocka_unit_test(test_both_ends_choose_alike),
		cmocka_unit_test(test_only_those_of_a_rail_leave_it), cmocka_unit_test(test_better_rails_first),
		cmocka_unit_test(test_without_a_number_the_lowest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
