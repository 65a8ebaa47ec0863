// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completion events of a rail: how many are read at a time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cqint.h"
#include "railevents.h"

static struct ibv_cq shadow, datagrams;
static unsigned int n_shadows, n_datagrams; /* events that are there: those of datagrams come last */
static unsigned int n_acked, n_notified, n_relayed;

int __wrap_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void __wrap_ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n);
void __wrap_mesh_cq_notify_owner(struct ibv_cq *cq);
bool __wrap_mesh_ud_event(struct mesh_rail *rail, struct ibv_cq *cq);

int __wrap_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	(void)channel;
	if (!n_shadows && !n_datagrams) {
		errno = EAGAIN;
		return -1;
	}
	*cq = n_shadows ? &shadow : &datagrams;
	*cq_context = n_shadows ? &shadow : NULL;
	--*(n_shadows ? &n_shadows : &n_datagrams);
	return 0;
}

void __wrap_ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq;
	n_acked += n;
}

void __wrap_mesh_cq_notify_owner(struct ibv_cq *cq)
{
	assert_ptr_equal(cq, &shadow);
	n_notified++;
}

bool __wrap_mesh_ud_event(struct mesh_rail *rail, struct ibv_cq *cq)
{
	(void)rail;
	assert_ptr_equal(cq, &datagrams);
	n_relayed++;
	return true;
}

/* Each event of a connection is passed on at once. Datagrams may come without end: one event at a time. */
static void test_turns(void **state)
{
	struct mesh_rail rail = {.refs = 1};

	(void)state;
	n_shadows = 5;
	assert_false(mesh_rail_events(&rail));
	assert_int_equal(n_notified, 5);
	n_shadows = 2;
	n_datagrams = 1000;
	assert_true(mesh_rail_events(&rail));
	assert_int_equal(n_notified, 7);
	assert_int_equal(n_relayed, 1);
	assert_true(mesh_rail_events(&rail));
	assert_int_equal(n_relayed, 2);
	assert_int_equal(n_acked, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
