// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Counters of a process in pages that the agent shares: the plugin's end and the agent's end. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agentlink.h"
#include "conn.h"
#include "control.h"
#include "count.h"
#include "countagent.h"
#include "realagent.h"

static const struct mv_host_id sender = {.bytes = {7}};
static struct mesh_agentlink link_;

static void connect_agent(void)
{
	assert_int_equal(mesh_agentlink_open(&link_, dir), 0);
	realagent_run();
}

static void test_seen_at_once(void **state)
{
	(void)state;
	mesh_count(MV_COUNT_HELD); /* before there is an agent */
	connect_agent();
	assert_int_equal(seen(MV_COUNT_HELD), 1);
	mesh_count(MV_COUNT_HELD);
	mesh_count(MV_COUNT_MOVED);
	assert_int_equal(seen(MV_COUNT_HELD), 2);
	assert_int_equal(seen(MV_COUNT_MOVED), 1);
	mesh_agentlink_close(&link_);
}

static void test_kept_when_the_process_ends(void **state)
{
	pid_t child;
	int status;

	(void)state;
	child = fork();
	if (!child) {
		if (mesh_agentlink_open(&link_, dir))
			_exit(1);
		mesh_count(MV_COUNT_MOVED);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	realagent_run();
	assert_int_equal(clients.n, 0);
	assert_int_equal(seen(MV_COUNT_MOVED), 1);
	connect_agent();
	mesh_count(MV_COUNT_MOVED);
	assert_int_equal(seen(MV_COUNT_MOVED), 2);
	mesh_agentlink_close(&link_);
}

/* Frames go together where the agent says that it takes them so, and come together; each end understands the other. */
static void test_packs(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .device = "mlx5_0"}, got;
	const uint8_t data[MV_CTL_MAX_BYTES] = {1, 2, 3};
	unsigned int n;

	(void)state;
	connect_agent();
	assert_int_equal(mesh_agentlink_recv(&link_, &got), 0);
	assert_int_equal(got.type, MV_FRAME_WELCOME);
	assert_int_equal(mesh_agentlink_recv(&link_, &got), 0);
	assert_int_equal(got.type, MV_FRAME_PACKS);
	assert_int_equal(mesh_agentlink_recv(&link_, &got), 0);
	assert_int_equal(got.type, MV_FRAME_SENDERS);
	mesh_agentlink_senders(&link_);
	mesh_agentlink_packs(&link_);
	/* More than one packet has room for. */
	for (frame.qpn = 1; frame.qpn <= 500; frame.qpn++)
		assert_int_equal(mesh_agentlink_send(&link_, &frame), 0);
	realagent_run();
	assert_true(clients.count.registrations > 0 && clients.count.registrations < 500);
	assert_int_equal(mesh_agentlink_flush(&link_), 0);
	assert_int_equal(mesh_agentlink_flush(&link_), 0);
	realagent_run();
	assert_int_equal(clients.count.registrations, 500);
	assert_int_equal(clients.count.malformed, 0);

	for (n = 1; n <= 40; n++)
		assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", n, data, sizeof(data)));
	md_clients_flush(&clients);
	for (n = 1; n <= 40; n++) {
		assert_int_equal(mesh_agentlink_recv(&link_, &got), 0);
		assert_int_equal(got.type, MV_FRAME_DELIVER);
		assert_int_equal(got.qpn, n);
		assert_memory_equal(got.payload, data, sizeof(data));
	}
	assert_false(mesh_agentlink_has(&link_));
	assert_int_equal(mesh_agentlink_recv(&link_, &got), -EAGAIN);
	mesh_agentlink_close(&link_);
}

/* An agent that does not read: what was accepted is kept until there is room, what was not is said to be lost. */
static void test_packs_without_room(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .qpn = 1, .device = "mlx5_0"};
	unsigned int n = 0;
	int err = 0;

	(void)state;
	connect_agent();
	mesh_agentlink_packs(&link_);
	for (; !err && n < 1000000; n++, frame.qpn = n + 1)
		err = mesh_agentlink_send(&link_, &frame);
	assert_int_equal(err, -EAGAIN);
	assert_int_equal(mesh_agentlink_flush(&link_), -EAGAIN);
	realagent_run();
	assert_int_equal(mesh_agentlink_flush(&link_), 0);
	realagent_run();
	assert_int_equal(clients.count.registrations, n - 1);
	mesh_agentlink_close(&link_);
}

/* Frames of the agent up to its SENDERS. */
static void read_senders(void)
{
	struct mv_frame got;

	do
		assert_int_equal(mesh_agentlink_recv(&link_, &got), 0);
	while (got.type != MV_FRAME_SENDERS);
}

/* The agent has a message for the process. @named: the process gets it, with the sender's host; else it is dropped. */
static void deliver(bool named)
{
	const uint8_t data[] = {1, 2, 3};
	struct mv_frame got;

	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, data, sizeof(data)));
	md_clients_flush(&clients);
	assert_int_equal(mesh_agentlink_recv(&link_, &got), named ? 0 : -EBADMSG);
	if (named)
		assert_memory_equal(got.dgid.raw, sender.bytes, sizeof(sender.bytes));
	assert_int_equal(mesh_agentlink_recv(&link_, &got), -EAGAIN);
}

static void register_qp(void)
{
	const struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .qpn = 1, .device = "mlx5_0"};

	assert_int_equal(mesh_agentlink_send(&link_, &frame), 0);
	realagent_run();
}

/* An agent that can name hosts has not read yet that it is to. */
static void test_unnamed_hosts(void **state)
{
	(void)state;
	connect_agent();
	mesh_agentlink_senders(&link_); /* not yet: the agent may be an older one */
	register_qp();
	read_senders();
	deliver(false);
	mesh_agentlink_senders(&link_);
	deliver(false);
	realagent_run();
	deliver(true);
	/* Another connection begins anew. */
	mesh_agentlink_close(&link_);
	realagent_run();
	connect_agent();
	register_qp();
	read_senders();
	deliver(false);
	mesh_agentlink_senders(&link_);
	realagent_run();
	deliver(true);
	mesh_agentlink_close(&link_);
}

/* The question finds no room. */
static void test_senders_without_room(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .qpn = 2, .device = "mlx5_0"};

	(void)state;
	for (unsigned int packs = 0; packs < 2; packs++) {
		connect_agent();
		register_qp();
		read_senders();
		if (packs)
			mesh_agentlink_packs(&link_);
		while (!mesh_agentlink_send(&link_, &frame))
			;
		mesh_agentlink_senders(&link_);
		assert_int_equal(mesh_agentlink_flush(&link_), -EAGAIN);
		realagent_run();
		assert_int_equal(mesh_agentlink_flush(&link_), 0);
		realagent_run();
		deliver(true);
		mesh_agentlink_close(&link_);
		realagent_run();
	}
}

/* An agent of an older version does not name hosts, and does not say that it can. */
static void test_older_agent(void **state)
{
	const struct mv_frame deliver = {.type = MV_FRAME_DELIVER, .device = "mlx5_0", .qpn = 1, .len = 1};
	const struct mv_frame other = {.type = MV_FRAME_SENDERS, .version = MV_CTL_VERSION + 1};
	struct mesh_agentlink old = {0};
	uint8_t buf[MV_FRAME_MAX_BYTES];
	struct mv_frame got;
	struct stat st;
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(fstat(ends[0], &st), 0);
	old.fd = ends[0];
	old.ino = st.st_ino;
	assert_true(send(ends[1], buf, mv_frame_encode(&other, buf), 0) > 0);
	assert_true(send(ends[1], buf, mv_frame_encode(&deliver, buf), 0) > 0);
	assert_int_equal(mesh_agentlink_recv(&old, &got), 0);
	assert_int_equal(mesh_agentlink_recv(&old, &got), 0);
	assert_int_equal(got.type, MV_FRAME_DELIVER);
	mesh_agentlink_senders(&old);
	assert_int_equal(mesh_agentlink_flush(&old), 0);
	assert_int_equal(recv(ends[1], buf, sizeof(buf), MSG_DONTWAIT), -1);
	close(ends[0]);
	close(ends[1]);
}

/* What one connection has shown is not shown again by the next; what came in between is. */
static void test_connected_again(void **state)
{
	(void)state;
	mesh_count(MV_COUNT_STUCK);
	connect_agent();
	mesh_count(MV_COUNT_STUCK);
	mesh_agentlink_close(&link_);
	realagent_run();
	assert_int_equal(clients.n, 0);
	mesh_count(MV_COUNT_STUCK);
	assert_int_equal(seen(MV_COUNT_STUCK), 2);
	connect_agent();
	assert_int_equal(seen(MV_COUNT_STUCK), 3);
	mesh_agentlink_close(&link_);
}

/* A child of fork() leaves its parent's figures alone. */
static void test_fork(void **state)
{
	pid_t child;
	int status;

	(void)state;
	connect_agent();
	child = fork();
	if (!child)
		_exit(madvise(mesh_root.process->counts.page, 1, MADV_NORMAL) && errno == ENOMEM ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	mesh_agentlink_close(&link_);
}

static void test_pauses(void **state)
{
	size_t last = MV_PAUSE_BUCKETS - 1;

	(void)state;
	connect_agent();
	mesh_count_pause(MV_COUNT_CONNECT_PAUSE, 1000000); /* 1 ms is in the first bucket */
	mesh_count_pause(MV_COUNT_CONNECT_PAUSE, 1001000);
	mesh_count_pause(MV_COUNT_CONNECT_PAUSE, 3600000000000ull);
	assert_int_equal(seen(MV_COUNT_CONNECT_PAUSE), 1);
	assert_int_equal(seen(MV_COUNT_CONNECT_PAUSE + 1), 1);
	assert_int_equal(seen(MV_COUNT_CONNECT_PAUSE + last), 1);
	assert_int_equal(seen(MV_COUNT_CONNECT_PAUSE_US), 3600002001ull);
	assert_int_equal(mv_pause_bound_us(0), 1000);
	assert_true(mv_pause_bound_us(last) == UINT64_MAX);
	for (size_t b = 1; b < last; b++)
		assert_true(mv_pause_bound_us(b) > mv_pause_bound_us(b - 1));
	mesh_agentlink_close(&link_);
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* Monitoring takes all of one name for one figure, which has one label and one explanation. */
static void test_rows(void **state)
{
	const struct mv_pause_row *pause;

	(void)state;
	for (size_t i = 0; i < MV_N_COUNTS; i++) {
		const struct mv_count_row *row = mv_count_row(i);

		for (size_t o = 0; row->name && o < i; o++) {
			const struct mv_count_row *other = mv_count_row(o);

			if (!same(row->name, other->name))
				continue;
			assert_non_null(row->label);
			assert_true(same(row->label, other->label) && same(row->help, other->help));
			assert_false(same(row->label_value, other->label_value));
		}
	}
	/* The former name of a counter is not that of another one by now. */
	for (size_t i = 0; i < MV_N_COUNTS; i++)
		for (size_t o = 0; mv_count_row(i)->name && o < MV_N_COUNTS; o++)
			assert_true(!mv_count_former(mv_count_row(i)->name) ||
				    !same(mv_count_former(mv_count_row(i)->name), mv_count_row(o)->name));
	assert_string_equal(mv_count_former(mv_count_row(MV_COUNT_HELD)->name), "connections_held");
	/* Every reason for which a connection can stay has a row, and no histogram lies over another or over a counter. */
	for (size_t reason = 0; reason < MV_CTL_REASON_PORT; reason++)
		assert_non_null(mv_count_row(MV_COUNT_GIVEN_UP + reason)->name);
	for (pause = mv_pause_rows(); pause->cause; pause++) {
		for (size_t i = 0; i < MV_PAUSE_PLACES; i++) {
			assert_true(pause->first + i < MV_N_COUNTS);
			assert_null(mv_count_row(pause->first + i)->name);
		}
		for (const struct mv_pause_row *other = mv_pause_rows(); other != pause; other++)
			assert_true(other->first + MV_PAUSE_PLACES <= pause->first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_packs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_packs_without_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unnamed_hosts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_senders_without_room, setup, teardown),
		cmocka_unit_test(test_older_agent),
		cmocka_unit_test_setup_teardown(test_seen_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_kept_when_the_process_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connected_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pauses, setup, teardown),
		cmocka_unit_test(test_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
