// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The helper thread: messages for connections, and when the thread looks at connections. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "loopagent.h"
#include "path_monitor.h"
#include "realagent.h"

#define MS 1000000ull

static const struct mv_host_id sender = {.bytes = {7}};

static struct mv_frame message(uint32_t qpn, uint32_t attempt)
{
	static const union ibv_gid gid = {.raw = {0xfe, 0x80, [15] = 1}};
	const struct mv_ctl_msg msg = {.type = MV_CTL_HELLO, .attempt = attempt, .from = {gid, 7}, .to = {gid, qpn}};
	struct mv_frame frame = {.type = MV_FRAME_DELIVER, .qpn = qpn};

	snprintf(frame.device, sizeof(frame.device), "mlx5_0");
	memcpy(frame.dgid.raw, sender.bytes, sizeof(frame.dgid.raw));
	frame.len = (uint16_t)mv_ctl_encode(&msg, frame.payload);
	return frame;
}

/* As the agent does, to be handed over with others. */
static void deliver(uint32_t qpn, uint32_t attempt)
{
	struct mv_frame frame = message(qpn, attempt);

	md_clients_deliver(&clients, &sender, frame.device, qpn, frame.payload, frame.len);
}

/* What came is what is wanted, in that order, and nobody has kept a reference. */
static void assert_got(const struct got *want, unsigned int n)
{
	assert_int_equal(atomic_load(&n_got), n);
	for (unsigned int i = 0; i < n; i++) {
		assert_int_equal(got[i].qpn, want[i].qpn);
		assert_int_equal(got[i].attempt, want[i].attempt);
	}
	for (unsigned int i = 0; i < N - 1; i++)
		assert_int_equal(atomic_load(&conns[i]->refs), 2);
}

/* However many come at once, each connection gets its own, in the order in which they came. */
static void test_messages(void **state)
{
	static const struct got want[] = {{100, 1}, {101, 2}, {100, 3}, {102, 4}, {102, 5}, {101, 6}, {100, 7}};

	(void)state;
	atomic_store(&of_host, 0);
	for (unsigned int n = 0; n <= sizeof(want) / sizeof(want[0]); n++) {
		atomic_store(&n_got, 0);
		for (unsigned int i = 0; i < n; i++)
			deliver(want[i].qpn, want[i].attempt);
		md_clients_flush(&clients);
		settle();
		assert_got(want, n);
		assert_int_equal(atomic_load(&of_host), n ? sender.bytes[0] : 0);
	}
}

/* A packet as the agent could send it. */
static void send_frames(const struct mv_frame *frames, unsigned int n, size_t cut)
{
	uint8_t packet[4096];
	struct md_client *client, *next;
	size_t len = 0;

	for (unsigned int i = 0; i < n; i++)
		len += mv_frame_encode(&frames[i], packet + len);
	HASH_ITER(hh, clients.by_number, client, next)
	assert_int_equal(send(client->fd, packet, len - cut, 0), len - cut);
}

/* What is nobody's, or makes no sense, is not taken; what is beside it is. */
static void test_strange_messages(void **state)
{
	static const struct got want[] = {{100, 1}, {101, 2}, {102, 5}, {100, 6}};
	struct mv_frame cut[] = {message(100, 1), message(101, 2), message(102, 3)};
	struct mv_frame others[] = {message(999, 4), message(102, 5), {.type = MV_FRAME_CHANGED}, message(100, 6), message(101, 7)};

	(void)state;
	atomic_store(&n_got, 0);
	others[4].len--; /* no message */
	send_frames(cut, 3, 1);
	send_frames(others, 5, 0);
	settle();
	assert_got(want, 4);
}

/* The process's SENDERS finds no room. Until the agent has read it, messages without a host are dropped. */
static void test_senders_asked_again(void **state)
{
	static const struct got want[] = {{102, 3}};
	const struct mv_frame registration = {.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .device = "mlx5_0", .qpn = qps[N - 1].qp_num};
	const struct mv_frame senders = {.type = MV_FRAME_SENDERS, .version = MV_CTL_VERSION};
	struct md_client *client, *next;

	(void)state;
	settle();
	atomic_store(&n_got, 0);
	HASH_ITER(hh, clients.by_number, client, next)
	client->out.senders = false;
	while (mesh_thread_frame(&registration) != -EAGAIN)
		;
	send_frames(&senders, 1, 0);
	have_it_look();
	deliver(100, 1);
	md_clients_flush(&clients);
	have_it_look();
	settle();
	atomic_fetch_add(&now_ns, 20 * MS);
	settle();
	deliver(102, 3);
	md_clients_flush(&clients);
	settle();
	assert_got(want, 1);
	assert_int_equal(atomic_load(&of_host), sender.bytes[0]);
}

/* What the agent said before it went. */
static void test_last_messages(void **state)
{
	static const struct got want[] = {{100, 1}, {101, 2}};

	(void)state;
	atomic_store(&n_got, 0);
	deliver(100, 1);
	deliver(101, 2);
	md_clients_flush(&clients);
	disconnect();
	settle();
	assert_got(want, 2);
}

static void assert_looks(bool some)
{
	settle();
	assert_int_equal(atomic_exchange(&n_looks, 0) > 0, some);
}

/* One that has nothing to do but to wait is looked at when that is over, and not before. */
static void test_looked_at_later(void **state)
{
	(void)state;
	settle();
	atomic_store(&n_looks, 0);
	deliver(100, 1);
	md_clients_flush(&clients);
	assert_looks(true);
	atomic_store(&look_after_ns, 50 * MS);
	deliver(100, 2);
	md_clients_flush(&clients);
	assert_looks(false);
	atomic_fetch_add(&now_ns, 49 * MS);
	assert_looks(false);
	atomic_fetch_add(&now_ns, MS);
	assert_looks(true);
	/* With the next message it waits anew. */
	deliver(100, 3);
	md_clients_flush(&clients);
	settle();
	atomic_fetch_add(&now_ns, 30 * MS);
	deliver(100, 4);
	md_clients_flush(&clients);
	settle();
	atomic_fetch_add(&now_ns, 30 * MS);
	assert_looks(false);
	atomic_fetch_add(&now_ns, 20 * MS);
	assert_looks(true);
	atomic_store(&look_after_ns, 0);
}

/* While many move, changes of the network are looked at when all have moved, or after a while. */
static void test_changes_wait(void **state)
{
	struct mv_frame changed = {.type = MV_FRAME_CHANGED};

	(void)state;
	settle();
	atomic_store(&n_looks, 0);
	send_frames(&changed, 1, 0);
	assert_looks(true);
	atomic_store(&mesh_root.process->moves.n_fresh, MESH_MANY_MOVING);
	send_frames(&changed, 1, 0);
	assert_looks(false);
	atomic_fetch_add(&now_ns, 60 * MS);
	send_frames(&changed, 1, 0); /* does not put off the first */
	assert_looks(false);
	atomic_fetch_add(&now_ns, 40 * MS);
	assert_looks(true);
	assert_looks(false);
	send_frames(&changed, 1, 0);
	assert_looks(false);
	atomic_store(&mesh_root.process->moves.n_fresh, 0);
	assert_looks(true);
	assert_looks(false);
}

/* But what those wait for that prepare to leave a path. */
static void test_suspicion_is_urgent(void **state)
{
	const union ibv_gid local = {.raw = {1}}, remote = {.raw = {2}};
	struct mv_frame suspect = {.type = MV_FRAME_SUSPECT, .sgid = local, .dgid = remote},
			path = {.type = MV_FRAME_PATH, .sgid = local, .dgid = remote, .probed = MV_PROBED_UP};
	struct mesh_path_watch *probed = NULL;

	(void)state;
	mesh_path_monitor_use(&probed, MV_WATCH_WORK, &local, &remote);
	assert_looks(true);
	atomic_store(&mesh_root.process->moves.n_fresh, MESH_MANY_MOVING);
	send_frames(&path, 1, 0);
	assert_looks(false);
	atomic_fetch_add(&now_ns, 100 * MS);
	assert_looks(true);
	send_frames(&suspect, 1, 0);
	assert_looks(false);
	atomic_store(&mesh_root.process->moves.n_prepared, 1);
	send_frames(&path, 1, 0);
	assert_looks(true);
	send_frames(&path, 1, 0);
	assert_looks(false);
	/* Nobody has prepared for it: a port is down, and all is known. */
	atomic_store(&mesh_root.process->moves.n_prepared, 0);
	send_frames(&suspect, 1, 0);
	send_frames(&path, 1, 0);
	assert_looks(false);
	atomic_fetch_add(&now_ns, 100 * MS);
	assert_looks(true);
	suspect.sgid = remote; /* nobody's */
	send_frames(&suspect, 1, 0);
	atomic_fetch_add(&now_ns, 100 * MS);
	assert_looks(false);
	atomic_store(&mesh_root.process->moves.n_fresh, 0);
	mesh_path_monitor_use(&probed, MV_WATCH_WORK, NULL, NULL);
	settle();
	atomic_store(&n_looks, 0);
}

static void test_restarted(void **state)
{
	uint64_t before = clients.count.connected;

	(void)state;
	for (int i = 0; i < 8; i++) {
		settle();
		atomic_fetch_add(&now_ns, RECONNECT_NS);
		disconnect();
		settle();
		assert_int_equal(clients.count.connected, ++before);
		assert_true(knows(0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_messages, setup),
		cmocka_unit_test_setup(test_messages, setup_no_packs),
		cmocka_unit_test_setup(test_strange_messages, setup),
		cmocka_unit_test_setup(test_senders_asked_again, setup),
		cmocka_unit_test_setup(test_senders_asked_again, setup_no_packs),
		cmocka_unit_test_setup(test_last_messages, setup),
		cmocka_unit_test_setup(test_looked_at_later, setup),
		cmocka_unit_test_setup(test_changes_wait, setup),
		cmocka_unit_test_setup(test_suspicion_is_urgent, setup),
		cmocka_unit_test_setup(test_restarted, setup),
	};

	return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
