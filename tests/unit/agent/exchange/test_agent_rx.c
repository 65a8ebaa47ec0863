/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How many datagrams are received in one iteration of the event loop, and when a socket counts as drained. */
#include "oneagent.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static uint64_t datagram_ns; /* how long each datagram takes */
static unsigned int n_received;

/* There is always one more, of nobody. */
int __wrap_md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret);
int __wrap_md_udp_receive(struct md_udp *udp, int fd, struct md_received *ret)
{
	(void)udp;
	(void)fd;
	memset(ret, 0, sizeof(*ret));
	clock_ns += datagram_ns;
	n_received++;
	return 0;
}

/* Datagrams that take long, as those with many messages: fewer of them in an iteration. */
static void test_slow_datagrams(void **state)
{
	(void)state;
	assert_true(sd_event_new(&agent.event) >= 0);
	agent.udp.fd6 = eventfd(1, EFD_CLOEXEC);
	assert_int_equal(md_rx_start(&agent), 0);
	for (unsigned int slow = 0; slow < 2; slow++) {
		datagram_ns = slow ? MD_BUSY_NS / 4 : 1000;
		n_received = 0;
		assert_true(sd_event_run(agent.event, 0) > 0);
		assert_int_equal(n_received, slow ? 4 : MD_DATAGRAMS_PER_TURN);
		n_received = 0;
		assert_false(md_rx_drain(&agent));
		assert_int_equal(n_received, slow ? 32 : MD_DATAGRAMS_DRAINED);
	}
	sd_event_source_unref(agent.listening.io6);
	close(agent.udp.fd6);
	sd_event_unref(agent.event);
}

/* The agent is preempted until all its time is over: an empty socket is drained all the same. */
static void test_drained_late(void **state)
{
	const uint64_t before_ns = clock_ns;
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
	agent.udp.fd6 = ends[0];
	datagram_ns = MD_DRAINED_NS;
	n_received = 0;
	assert_true(md_rx_drain(&agent));
	assert_int_equal(n_received, 1);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_false(md_rx_drain(&agent));
	assert_int_equal(n_received, 2);
	close(ends[0]);
	close(ends[1]);
	clock_ns = before_ns;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_slow_datagrams, setup_agent, teardown_agent),
		cmocka_unit_test_setup_teardown(test_drained_late, setup_agent, teardown_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
