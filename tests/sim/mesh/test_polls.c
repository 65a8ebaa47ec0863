// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Polling while something else happens: work that is moved, and what a program or another thread does between start_poll and end_poll
 * of an extended CQ, of which libmlx5 has the lock then.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "heldint.h"
#include "live.h"
#include "moved.h"

static struct world world;
static struct end hub; /* has the CQ; its own QP is not used */
static struct end guarded;

static const struct manner bare_ex = {.how = BARE, .extended = true}, moved_ex = {.how = MOVED, .extended = true};
static void path_failed(void *arg)
{
	(void)arg;
}

static const struct mesh_held_ops ops = {.path_failed = path_failed};

static int setup(void **state)
{
	(void)state;
	world_open(&world);
	mesh_root.config.survive = true;
	return 0;
}

static void close_end(struct end *e)
{
	if (e->mr)
		end_close(e);
	memset(e, 0, sizeof(*e));
}

static int teardown(void **state)
{
	(void)state;
	alarm(0);
	close_end(&guarded);
	close_end(&hub);
	mesh_root.config.survive = false;
	world_close(&world);
	return 0;
}

/* ---- whose it is ------------------------------------------------------------------------------------------------- */

/* Not to be told from others' completions, nor from our marks: such a queue pair is left alone. */
static void test_nameless(void **state)
{
	struct mesh_held *h;

	(void)state;
	end_open(&hub, &world, &bare_ex, &(struct shape){.wc_flags = IBV_WC_EX_WITH_BYTE_LEN});
	assert_null(hub.cq_ex->read_qp_num);
	end_open(&guarded, &world, &moved_ex, &(struct shape){.hub = &hub});
	assert_false(mesh_cq_names_qps(world.mc, hub.cq));
	assert_int_equal(mesh_live_guard(world.mc, guarded.qp, &ops, NULL, 1024, &h), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_nameless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
