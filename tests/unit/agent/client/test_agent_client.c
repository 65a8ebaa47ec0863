/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections of processes over socket pairs: registration, frames and packs of frames, messages sent and delivered. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clientpairs.h"
#include "fault.h"

static void test_register_first(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION + 1};
	int fd = join();

	(void)state;
	register_qp(fd, "mlx5_0", 1);
	assert_int_equal(next_frame(fd, &frame), -1);
	assert_int_equal(clients.n, 0);
	close(fd);
	/* Of another version: it is told ours, and left alone. */
	fd = join();
	frame = (struct mv_frame){.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION + 1};
	put(fd, &frame);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_WELCOME);
	assert_int_equal(frame.version, MV_CTL_VERSION);
	assert_int_equal(next_frame(fd, &frame), -1);
	close(fd);
	assert_int_equal(n_gone, 2);
}

/* Only who probes says so: processes that do not know the frame drop it. */
static void test_watch(void **state)
{
	const struct mv_frame watch = {.type = MV_FRAME_WATCH,
				       .sgid = unit_gid("10.1.0.1"),
				       .dgid = unit_gid("10.1.0.2"),
				       .watch = MV_WATCH_PRIMARY};
	struct mv_frame frame;
	int fd = registered();

	(void)state;
	assert_int_equal(next_frame(fd, &frame), 0);
	close(fd);
	run_events();
	probing = true;
	fd = registered();
	put(fd, &watch);
	assert_int_equal(watched, MV_WATCH_PRIMARY);
	assert_int_equal(clients.count.watches_refused, 0);
	assert_true(md_clients_path(&clients, watcher->number, &watch.sgid, &watch.dgid, MV_PROBED_DOWN));
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_PATH);
	assert_gid(frame.sgid, "10.1.0.1");
	assert_gid(frame.dgid, "10.1.0.2");
	assert_int_equal(frame.probed, MV_PROBED_DOWN);
	/* What is refused costs nothing but that. */
	watch_result = -ENOSPC;
	put(fd, &watch);
	assert_int_equal(clients.count.watches_refused, 1);
	assert_int_equal(next_frame(fd, &frame), 0);
	assert_int_equal(clients.n, 1);
	/* Who does not read is told again. */
	for (int i = 0; i < 100000; i++)
		if (!md_clients_path(&clients, watcher->number, &watch.sgid, &watch.dgid, MV_PROBED_UP))
			break;
	assert_false(md_clients_path(&clients, watcher->number, &watch.sgid, &watch.dgid, MV_PROBED_UP));
	/* And who is gone has been told enough. */
	assert_true(md_clients_path(&clients, watcher->number + 1, &watch.sgid, &watch.dgid, MV_PROBED_UP));
	close(fd);
	run_events();
}

static void test_garbage(void **state)
{
	static const uint8_t bytes[MV_FRAME_MAX_BYTES + 1] = {0xff};
	static const size_t lens[] = {1, 30, MV_FRAME_MAX_BYTES, MV_FRAME_MAX_BYTES + 1};
	struct mv_frame frame;

	(void)state;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		int fd = registered();

		assert_int_equal(send(fd, bytes, lens[i], 0), lens[i]);
		run_events();
		assert_int_equal(next_frame(fd, &frame), -1);
		close(fd);
	}
	assert_int_equal(clients.count.malformed, 4);
	/* What only the agent says. */
	{
		const struct mv_frame welcome = {.type = MV_FRAME_WELCOME, .version = 1};
		int fd = registered();

		put(fd, &welcome);
		assert_int_equal(next_frame(fd, &frame), -1);
		close(fd);
	}
}

/* Of a process, which need not have said that it can do so. */
static void test_pack_from_process(void **state)
{
	const struct mv_frame hello = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION};
	uint8_t buf[MV_PACK_MAX_BYTES + 1];
	struct mv_frame frame;
	size_t len = 0;
	int fd = join();

	(void)state;
	len = pack(buf, len, &hello);
	for (uint32_t qpn = 1; qpn <= 100; qpn++)
		len = pack_registration(buf, len, qpn);
	assert_int_equal(send(fd, buf, len, 0), len);
	run_events();
	assert_int_equal(clients.qps.n, 100);
	assert_int_equal(clients.count.frames, 101);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_WELCOME);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_PACKS);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_SENDERS);
	/* What comes before one that is malformed has been said. */
	len = pack_registration(buf, 0, 200);
	memset(buf + len, 0xff, 30);
	assert_int_equal(send(fd, buf, len + 30, 0), len + 30);
	run_events();
	assert_int_equal(clients.count.registrations, 101);
	assert_int_equal(clients.count.malformed, 1);
	assert_int_equal(clients.n, 0);
	close(fd);
	/* As long as may be, and one byte more. */
	fd = registered();
	memset(buf, 0, sizeof(buf));
	for (len = 0; len < MV_PACK_MAX_BYTES;) {
		struct mv_frame status = {.type = MV_FRAME_STATUS, .qpn = 1, .device = "mlx5_0", .len = 100};
		size_t left = MV_PACK_MAX_BYTES - len, bytes;

		memset(status.payload, 'x', sizeof(status.payload) - 1);
		bytes = pack(buf, len, &status) - len;
		if (left < 2 * bytes) {
			status.len = (uint16_t)(status.len + left - bytes);
			bytes = pack(buf, len, &status) - len;
			assert_int_equal(bytes, left);
		}
		len += bytes;
	}
	assert_int_equal(send(fd, buf, MV_PACK_MAX_BYTES, 0), MV_PACK_MAX_BYTES);
	run_events();
	assert_int_equal(clients.n, 1);
	assert_int_equal(send(fd, buf, MV_PACK_MAX_BYTES + 1, 0), MV_PACK_MAX_BYTES + 1);
	run_events();
	assert_int_equal(clients.n, 0);
	close(fd);
}

/* Only a process that has asked for it is told which host a message is from: an older one would drop the message. */
static void test_senders(void **state)
{
	const struct mv_frame senders = {.type = MV_FRAME_SENDERS, .version = MV_CTL_VERSION};
	static const union ibv_gid none;
	struct mv_frame frame;
	int fd = registered();

	(void)state;
	register_qp(fd, "mlx5_0", 1);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_DELIVER);
	assert_memory_equal(frame.dgid.raw, none.raw, sizeof(none.raw));
	put(fd, &senders);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_DELIVER);
	assert_memory_equal(frame.dgid.raw, sender.bytes, sizeof(sender.bytes));
	close(fd);
}

/* An account whose processes do not read has no room for further frames; @n: but for so many packets of no payload. */
static void fill_account(struct md_account *account, size_t n)
{
	const struct mv_frame frame = {.type = MV_FRAME_SENDERS, .version = MV_CTL_VERSION};
	uint8_t buf[MV_FRAME_MAX_BYTES];

	clients.closing.weigh_ns = UINT64_MAX; /* the kernel knows better */
	account->unread_bytes = MD_UNREAD_PER_ACCOUNT - n * (mv_frame_encode(&frame, buf) + MD_UNREAD_EACH);
}

/* No message comes before SENDERS, or it would count without a host: what answers REGISTER is not lost for want of room, but comes first. */
static void test_senders_come_first(void **state)
{
	const struct mv_frame hello = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION};
	const struct mv_frame packs = {.type = MV_FRAME_PACKS, .version = MV_CTL_VERSION};
	static const int all[] = {MV_FRAME_WELCOME, MV_FRAME_PROBES, MV_FRAME_PACKS, MV_FRAME_SENDERS};
	const size_t n_all = sizeof(all) / sizeof(all[0]);

	(void)state;
	probing = true;
	for (size_t room = 0; room <= n_all; room++) {
		int fd = join(), n_lost = clients.count.not_delivered;
		struct md_account *account = md_clients_find(&clients, clients.next_number)->account;
		uint64_t id = account->id;
		struct mv_frame frame;

		account->id = 1; /* root has no limit */
		fill_account(account, room);
		put(fd, &hello);
		if (room > 2)
			put(fd, &packs);
		register_qp(fd, "mlx5_0", (uint32_t)room);
		assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", (uint32_t)room, (const uint8_t *)"x", 1));
		md_clients_flush(&clients);
		for (size_t i = 0; i < room; i++)
			assert_int_equal(next_frame(fd, &frame), all[i]);
		assert_int_equal(next_frame(fd, &frame), 0);
		assert_int_equal(clients.count.not_delivered - n_lost, room < n_all);
		/* The process reads: at the latest with the next message. */
		fill_account(account, 100);
		if (room % 2)
			md_clients_flush(&clients);
		if (room < n_all)
			assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", (uint32_t)room, (const uint8_t *)"y", 1));
		md_clients_flush(&clients);
		for (size_t i = room; i < n_all; i++)
			assert_int_equal(next_frame(fd, &frame), all[i]);
		assert_int_equal(next_frame(fd, &frame), MV_FRAME_DELIVER);
		assert_int_equal(next_frame(fd, &frame), 0);
		account->id = id;
		account->unread_bytes = 0;
		close(fd);
		run_events();
	}
}

/* To a process: only one that says that it takes them gets them, at the end of a turn. */
static void test_pack_to_process(void **state)
{
	const struct mv_frame packs = {.type = MV_FRAME_PACKS, .version = MV_CTL_VERSION};
	const uint8_t data[100] = {1, 2, 3};
	uint8_t buf[MV_PACK_MAX_BYTES];
	struct mv_frame frame;
	size_t used, at = 0;
	int fd = registered(), n;
	ssize_t len;

	(void)state;
	register_qp(fd, "mlx5_0", 1);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, data, sizeof(data)));
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_DELIVER);
	put(fd, &packs);
	for (n = 0; n < 3; n++)
		assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, data, sizeof(data)));
	assert_int_equal(next_frame(fd, &frame), 0);
	md_clients_flush(&clients);
	len = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	for (n = 0; (ssize_t)at < len; n++, at += used) {
		assert_int_equal(mv_frame_take(buf + at, (size_t)len - at, &used, &frame), 0);
		assert_int_equal(frame.type, MV_FRAME_DELIVER);
		assert_memory_equal(frame.payload, data, sizeof(data));
	}
	assert_int_equal(n, 3);
	md_clients_flush(&clients);
	assert_int_equal(next_frame(fd, &frame), 0);
	/* One that does not read loses what there is no room for, and that is counted. */
	for (n = 0; n < 1000000 && !clients.count.not_delivered; n++)
		md_clients_deliver(&clients, &sender, "mlx5_0", 1, data, sizeof(data));
	assert_int_equal(clients.count.not_delivered, 1);
	/* What it was promised comes when it reads. */
	for (at = 0; (len = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0; run_events())
		at += (size_t)len;
	assert_true(at / clients.count.delivered >= sizeof(data));
	assert_int_equal(at % (clients.count.delivered - 4), 0);
	/* One that goes while something waits for it. */
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, data, sizeof(data)));
	close(fd);
	run_events();
	assert_int_equal(clients.n, 0);
	md_clients_flush(&clients);
}

/* A full socket is not tried again before the process has read. */
static void test_full_socket(void **state)
{
	const struct mv_frame packs = {.type = MV_FRAME_PACKS, .version = MV_CTL_VERSION};
	const uint8_t data[100] = {0};
	uint8_t buf[MV_PACK_MAX_BYTES];
	int fd = registered();
	struct md_client *client = md_clients_find(&clients, clients.next_number);
	size_t at = 0;
	ssize_t len;

	(void)state;
	register_qp(fd, "mlx5_0", 1);
	put(fd, &packs);
	while (!client->out.blocked) {
		assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, data, sizeof(data)));
		md_clients_flush(&clients);
		assert_int_equal(clients.count.not_delivered, 0);
	}
	assert_true(LIST_EMPTY(&clients.waiting));
	for (unsigned int turn = 0; turn < 3; turn++) {
		assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, data, sizeof(data)));
		assert_true(LIST_EMPTY(&clients.waiting));
		assert_int_equal(sd_event_run(clients.event, 0), 0);
	}
	/* It still says what it wants, ... */
	register_qp(fd, "mlx5_0", 2);
	assert_int_equal(client->account->n_qps, 2);
	/* ... and gets all once it has read. */
	for (; (len = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0; sd_event_run(clients.event, 0))
		at += (size_t)len;
	assert_true(at / clients.count.delivered >= sizeof(data));
	assert_int_equal(clients.count.not_delivered, 0);
	assert_false(client->out.blocked);
	assert_int_equal(sd_event_run(clients.event, 0), 0);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, data, sizeof(data)));
	md_clients_flush(&clients);
	assert_true(recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0);
	close(fd);
	run_events();
}

/* Who looks for an address is told when it is not asked for; else the directory will tell. */
static void test_look(void **state)
{
	const struct mv_frame look = {.type = MV_FRAME_LOOK, .dgid = unit_gid("10.9.0.1")};
	struct mv_frame frame;
	int fd = registered();

	(void)state;
	asks = true;
	put(fd, &look);
	assert_int_equal(next_frame(fd, &frame), 0);
	asks = false;
	put(fd, &look);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_LOOKED);
	assert_gid(frame.dgid, "10.9.0.1");
	close(fd);
	run_events();
}

static void test_only_own_messages(void **state)
{
	int a = registered(), b = registered();

	(void)state;
	register_qp(a, "mlx5_1", 5);
	send_message(a, "10.2.0.1", 5);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent.from.qpn, 5);
	send_message(a, "fe80::1", 5); /* also mlx5_1's */
	assert_int_equal(n_sent, 2);
	send_message(a, "10.1.0.1", 5); /* QP 5 of mlx5_0 would be another one */
	send_message(a, "10.2.0.1", 6); /* not registered */
	send_message(a, "10.9.0.1", 5); /* not our GID */
	send_message(b, "10.2.0.1", 5); /* another process's */
	assert_int_equal(n_sent, 2);
	assert_int_equal(clients.count.not_its_own, 4);
	/* A message that is none. */
	{
		struct mv_frame frame = {.type = MV_FRAME_SEND, .len = 10};

		put(a, &frame);
	}
	assert_int_equal(clients.count.malformed, 1);
	assert_int_equal(n_sent, 2);
	close(a);
	close(b);
}

static void test_deliver(void **state)
{
	struct mv_frame frame;
	union ibv_gid gid = unit_gid("10.1.0.2");
	int fd = registered();

	(void)state;
	register_qp(fd, "mlx5_0", 7);
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 8, (const uint8_t *)"x", 1));
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_1", 7, (const uint8_t *)"x", 1));
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 7, (const uint8_t *)"xyz", 3));
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_DELIVER);
	assert_string_equal(frame.device, "mlx5_0");
	assert_int_equal(frame.qpn, 7);
	assert_int_equal(frame.len, 3);
	assert_memory_equal(frame.payload, "xyz", 3);
	md_client_unreachable(md_clients_find(&clients, 1), &gid, 9, (const uint8_t *)"uvw", 3);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_UNREACHABLE);
	assert_gid(frame.dgid, "10.1.0.2");
	assert_int_equal(frame.qpn, 9);
	assert_int_equal(frame.len, 3);
	assert_memory_equal(frame.payload, "uvw", 3);
	/* One that does not read its socket loses messages; the agent does not wait and does not
	 * queue. */
	for (int i = 0; i < 100000 && !clients.count.not_delivered; i++)
		assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 7, (const uint8_t *)"x", 1));
	assert_true(clients.count.not_delivered > 0);
	close(fd);
	run_events();
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 7, (const uint8_t *)"x", 1));
}

static void test_status(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_STATUS, .qpn = 7, .len = 7};
	struct md_qp_key key = md_qp_key_make("mlx5_0", 7);
	int a = registered(), b = registered();

	(void)state;
	strcpy(frame.device, "mlx5_0");
	memcpy(frame.payload, "{\"a\":1}", 7);
	put(a, &frame);
	register_qp(a, "mlx5_0", 7);
	put(a, &frame);
	assert_string_equal(md_qps_find(&clients.qps, &key)->status, "{\"a\":1}");
	frame.payload[5] = '2';
	put(b, &frame);
	assert_string_equal(md_qps_find(&clients.qps, &key)->status, "{\"a\":1}");
	put(a, &frame);
	assert_string_equal(md_qps_find(&clients.qps, &key)->status, "{\"a\":2}");
	close(a);
	close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_register_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pack_from_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pack_to_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(test_senders, setup, teardown),
		cmocka_unit_test_setup_teardown(test_senders_come_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_watch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_look, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_own_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deliver, setup, teardown),
		cmocka_unit_test_setup_teardown(test_status, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
