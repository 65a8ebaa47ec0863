// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What a completion event of a moved queue pair costs the helper thread: system calls are counted, in a host of the simulator. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "railevents.h"
#include "run.h"

#define N_EVENTS 50u

/* Of the thread that relays, and of nobody else. */
static __thread bool counted;
static _Atomic unsigned int n_polls, n_looks, n_reads; /* threads of the plugin count, too */

int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);
int __real_fcntl(int fd, int cmd, long arg);
int __wrap_fcntl(int fd, int cmd, long arg);
int __real_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
int __wrap_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	n_polls += counted;
	return __real_ppoll(fds, n, timeout, mask);
}

int __wrap_fcntl(int fd, int cmd, long arg)
{
	n_looks += counted;
	return __real_fcntl(fd, cmd, arg);
}

int __wrap_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	n_reads += counted;
	return __real_ibv_get_cq_event(channel, cq, cq_context);
}

static const struct manner moved = {.how = MOVED};
static const struct shape plain = {0};
static struct run r;
static int wake[2];

/* The world has a helper thread that counts nothing: here is another one. */
static void *relay(void *arg)
{
	struct pollfd fds[] = {
		{.fd = wake[0], .events = POLLIN},
		{.fd = world.rail->files[MESH_RAIL_COMP].fd, .events = POLLIN},
		{.fd = world.rail->files[MESH_RAIL_ASYNC].fd, .events = POLLIN},
	};

	counted = true;
	assert_int_equal(mesh_rails_poll(fds, 1, &world.rail, 1, mesh_now_ns() + 600000000000ull, *(const uint64_t *)arg), 1);
	counted = false;
	return NULL;
}

static void *nothing(void *arg)
{
	return arg;
}

static int setup_idle(void **state)
{
	world_setup(state);
	atomic_store(&world.stop, true);
	pthread_join(world.helper, NULL);
	assert_int_equal(pipe2(wake, O_CLOEXEC), 0);
	n_polls = n_looks = n_reads = 0;
	return 0;
}

static int teardown_idle(void **state)
{
	close(wake[0]);
	close(wake[1]);
	assert_int_equal(pthread_create(&world.helper, NULL, nothing, NULL), 0);
	return world_teardown(state);
}

static int setup(void **state)
{
	setup_idle(state);
	run_open(&r, &moved, &plain);
	ends_connect(&r.a, &r.b, &plain);
	return 0;
}

static int teardown(void **state)
{
	run_close(&r);
	return teardown_idle(state);
}

/* The program sleeps, is woken, and there is what it waited for. */
static void one_event(unsigned int i)
{
	struct ibv_wc wc;

	assert_int_equal(end_recv(&r.b, i, 0, 8), 0);
	assert_int_equal(ibv_req_notify_cq(r.b.cq, 0), 0);
	assert_int_equal(end_send_empty(&r.a, i, 0), 0);
	must_come(&r.b);
	wc = end_wait(&r.b);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, i);
}

static void test_calls_of_an_event(void **state)
{
	uint64_t turn_ns = UINT64_MAX;
	pthread_t thread;
	unsigned int i;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, relay, &turn_ns), 0);
	for (i = 0; i < N_EVENTS; i++)
		one_event(i);
	assert_int_equal(write(wake[1], "", 1), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* A poll for each event, and the last one ended it. A thread that did not run for a moment finds two events after one poll. */
	assert_in_range(n_polls, 2, N_EVENTS + 1);
	assert_int_equal(n_looks, n_polls - 1);
	/* A read for each event, and one after each poll that says that there is no other. */
	assert_int_equal(n_reads, N_EVENTS + n_looks);
}

/* When it is time for a turn, an event ends it, too, and has been relayed. */
static void test_time_for_a_turn(void **state)
{
	uint64_t turn_ns = 0;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, relay, &turn_ns), 0);
	one_event(0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(n_polls, 1);
}

/* Somebody has closed the channel, and its number is that of another file now: nothing is read there. */
static void test_channel_is_not_ours(void **state)
{
	struct pollfd fds[2] = {{.fd = world.rail->channel->fd, .events = POLLIN}, {.fd = -1}};
	char byte;

	(void)state;
	assert_int_equal(write(wake[1], "x", 1), 1);
	assert_int_equal(dup2(wake[0], fds[0].fd), fds[0].fd);
	assert_int_equal(mesh_rails_poll(fds, 0, &world.rail, 1, UINT64_MAX, UINT64_MAX), 1);
	assert_true(mesh_rail_taken(world.rail));
	assert_int_equal(read(wake[0], &byte, 1), 1);
	assert_int_equal(byte, 'x');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_calls_of_an_event, setup, teardown),
		cmocka_unit_test_setup_teardown(test_time_for_a_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(test_channel_is_not_ours, setup_idle, teardown_idle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
