/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Connections of processes over socket pairs: who may claim and send what. And the control socket's
 * requests. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "client.h"
#include "control.h"
#include "fault.h"
#include "say.h"

static struct md_clients clients;
static const struct mv_host_id sender = {.bytes = {7, 7}};
static unsigned int n_sent, n_gone;
static struct mv_ctl_msg sent;
static int send_result;

static int on_send(void *arg, struct md_client *client, const union ibv_gid *dgid,
		   const struct mv_ctl_msg *msg, const uint8_t *data, uint16_t len)
{
	(void)arg;
	(void)client;
	(void)data;
	assert_gid(*dgid, "10.1.0.2");
	assert_true(len > 0);
	n_sent++;
	sent = *msg;
	return send_result;
}

/* mlx5_0 and mlx5_1 have 10.1.0.1 and fe80::1; 10.2.0.1 is mlx5_1's alone. */
static size_t on_devices(void *arg, const union ibv_gid *gid, const char **ret, size_t max)
{
	union ibv_gid shared = unit_gid("fe80::1"), first = unit_gid("10.1.0.1"),
		      second = unit_gid("10.2.0.1");
	size_t n = 0;

	(void)arg;
	assert_true(max >= 2);
	if (mv_gid_equal(gid, &shared) || mv_gid_equal(gid, &first))
		ret[n++] = "mlx5_0";
	if (mv_gid_equal(gid, &shared) || mv_gid_equal(gid, &second))
		ret[n++] = "mlx5_1";
	return n;
}

static void on_gone(void *arg, struct md_client *client)
{
	(void)arg;
	(void)client;
	n_gone++;
}

static bool probing;
static struct md_client *watcher;
static uint8_t watched;
static int watch_result;

static int on_watch(void *arg, struct md_client *client, const union ibv_gid *local,
		    const union ibv_gid *remote, uint8_t watch)
{
	(void)arg;
	assert_gid(*local, "10.1.0.1");
	assert_gid(*remote, "10.1.0.2");
	watcher = client;
	watched = watch;
	return watch_result;
}

static bool on_probes(void *arg)
{
	(void)arg;
	return probing;
}

static bool asks;

static bool on_look(void *arg, const struct md_client *client, const union ibv_gid *dgid)
{
	(void)arg;
	(void)client;
	assert_gid(*dgid, "10.9.0.1");
	return asks;
}

static const struct md_client_ops ops = {on_send, on_devices, on_gone, on_watch, on_probes, on_look};

static int setup(void **state)
{
	int pair[2];

	(void)state;
	md_say_init(MD_ERROR);
	memset(&clients, 0, sizeof(clients));
	n_sent = n_gone = 0;
	send_result = watch_result = 0;
	probing = false;
	assert_true(sd_event_new(&clients.event) >= 0);
	clients.ops = &ops;
	clients.max = MD_CLIENTS_MAX;
	clients.trusts = true; /* as long as there is no kernel to be asked */
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	assert_int_equal(md_clients_start(&clients, pair[0]), 0);
	sd_event_source_set_enabled(clients.source, SD_EVENT_OFF); /* nobody will connect there */
	/* Whatever this machine's kernel knows of mlx5_0 is none of the test's business. */
	md_resqp_close(&clients.resqp);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	md_clients_stop(&clients);
	assert_int_equal(clients.n, 0);
	assert_int_equal(clients.qps.n, 0);
	assert_null(clients.qps.accounts);
	sd_event_unref(clients.event);
	return 0;
}

static void run_events(void)
{
	while (sd_event_run(clients.event, 0) > 0)
		;
}

static int join(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(md_clients_adopt(&clients, pair[0]), 0);
	return pair[1];
}

static void put(int fd, const struct mv_frame *frame)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);

	assert_true(len > 0);
	assert_int_equal(send(fd, buf, len, MSG_NOSIGNAL), len);
	run_events();
}

/* Return: type of the next frame; 0: none; -1: closed. */
static int next_frame(int fd, struct mv_frame *ret)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	if (!n)
		return -1;
	assert_int_equal(mv_frame_decode(buf, (size_t)n, ret), 0);
	return ret->type;
}

static int registered(void)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION, .len = 4};
	int fd = join();

	memcpy(frame.payload, "prog", 4);
	put(fd, &frame);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_WELCOME);
	assert_int_equal(frame.version, MV_CTL_VERSION);
	if (probing)
		assert_int_equal(next_frame(fd, &frame), MV_FRAME_PROBES);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_PACKS);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_SENDERS);
	return fd;
}

static void claim(int fd, const char *device, uint32_t qpn)
{
	struct mv_frame frame = {.type = MV_FRAME_CLAIM, .qp_type = IBV_QPT_RC, .qpn = qpn};

	strcpy(frame.device, device);
	put(fd, &frame);
}

static void unclaim(int fd, const char *device, uint32_t qpn)
{
	struct mv_frame frame = {.type = MV_FRAME_UNCLAIM, .qpn = qpn};

	strcpy(frame.device, device);
	put(fd, &frame);
}

static uint32_t named; /* the receiver's attempt in the next messages */

static void send_message(int fd, const char *from, uint32_t from_qpn)
{
	struct mv_ctl_msg msg = {.type = MV_CTL_HELLO,
				 .gid_type = MV_GID_TYPE_ROCE_V2,
				 .attempt = 1,
				 .to_attempt = named,
				 .from_psn = MV_CTL_PSN_NONE,
				 .to_psn = MV_CTL_PSN_NONE};
	struct mv_frame frame = {.type = MV_FRAME_SEND};

	msg.from.gid = unit_gid(from);
	msg.from.qpn = from_qpn;
	msg.to.gid = frame.dgid = unit_gid("10.1.0.2");
	msg.to.qpn = 9;
	frame.len = (uint16_t)mv_ctl_encode(&msg, frame.payload);
	put(fd, &frame);
}

static void test_register_first(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER, .version = MV_CTL_VERSION + 1};
	int fd = join();

	(void)state;
	claim(fd, "mlx5_0", 1);
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
				       .watch = MV_WATCH_HOME};
	struct mv_frame frame;
	int fd = registered();

	(void)state;
	assert_int_equal(next_frame(fd, &frame), 0);
	close(fd);
	run_events();
	probing = true;
	fd = registered();
	put(fd, &watch);
	assert_int_equal(watched, MV_WATCH_HOME);
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

/* Appends a frame. */
static size_t pack(uint8_t *buf, size_t len, const struct mv_frame *frame)
{
	size_t more = mv_frame_encode(frame, buf + len);

	assert_true(more > 0);
	return len + more;
}

static size_t pack_claim(uint8_t *buf, size_t len, uint32_t qpn)
{
	const struct mv_frame frame = {.type = MV_FRAME_CLAIM, .qp_type = IBV_QPT_RC, .qpn = qpn, .device = "mlx5_0"};

	return pack(buf, len, &frame);
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
		len = pack_claim(buf, len, qpn);
	assert_int_equal(send(fd, buf, len, 0), len);
	run_events();
	assert_int_equal(clients.qps.n, 100);
	assert_int_equal(clients.count.frames, 101);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_WELCOME);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_PACKS);
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_SENDERS);
	/* What comes before one that is malformed has been said. */
	len = pack_claim(buf, 0, 200);
	memset(buf + len, 0xff, 30);
	assert_int_equal(send(fd, buf, len + 30, 0), len + 30);
	run_events();
	assert_int_equal(clients.count.claims, 101);
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
	claim(fd, "mlx5_0", 1);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_DELIVER);
	assert_memory_equal(frame.dgid.raw, none.raw, sizeof(none.raw));
	put(fd, &senders);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(fd, &frame), MV_FRAME_DELIVER);
	assert_memory_equal(frame.dgid.raw, sender.bytes, sizeof(sender.bytes));
	close(fd);
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
	claim(fd, "mlx5_0", 1);
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
	for (at = 0; (len = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0; md_clients_flush(&clients))
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

static void test_claims(void **state)
{
	int a = registered(), b = registered();

	(void)state;
	claim(a, "mlx5_0", 1);
	claim(b, "mlx5_0", 1);
	claim(b, "mlx5_1", 1);
	assert_int_equal(clients.count.claims_refused, 1);
	assert_int_equal(clients.qps.n, 2);
	/* Only its owner lets go of it. */
	unclaim(b, "mlx5_0", 1);
	assert_int_equal(clients.qps.n, 2);
	unclaim(a, "mlx5_0", 1);
	claim(b, "mlx5_0", 1);
	assert_int_equal(clients.count.claims_refused, 1);
	/* With the process go its claims. */
	close(b);
	run_events();
	assert_int_equal(clients.n, 1);
	assert_int_equal(clients.qps.n, 0);
	claim(a, "mlx5_0", 1);
	assert_int_equal(clients.qps.n, 1);
	close(a);
}

/* Where nobody can say whose it is, who was refused, which it is not told, has it when it is free. */
static void test_refused_one_is_next(void **state)
{
	int a = registered(), b = registered(), c = registered();
	struct mv_frame frame;

	(void)state;
	claim(a, "mlx5_0", 1);
	claim(b, "mlx5_0", 1);
	claim(c, "mlx5_0", 1);
	assert_int_equal(clients.count.claims_refused, 2);
	send_message(b, "10.1.0.1", 1);
	assert_int_equal(n_sent, 0);
	unclaim(a, "mlx5_0", 1);
	assert_int_equal(clients.qps.n, 1);
	send_message(b, "10.1.0.1", 1);
	assert_int_equal(n_sent, 1);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 1, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(b, &frame), MV_FRAME_DELIVER);
	/* Of one that ends; */
	claim(c, "mlx5_0", 1);
	close(b);
	run_events();
	send_message(c, "10.1.0.1", 1);
	assert_int_equal(n_sent, 2);
	/* but not who does not want it any more, */
	claim(a, "mlx5_0", 1);
	unclaim(a, "mlx5_0", 1);
	unclaim(c, "mlx5_0", 1);
	assert_int_equal(clients.qps.n, 0);
	/* or has ended: then it is the next one's. */
	b = registered();
	claim(a, "mlx5_0", 1);
	claim(b, "mlx5_0", 1);
	close(b);
	run_events();
	claim(c, "mlx5_0", 1);
	close(a);
	run_events();
	send_message(c, "10.1.0.1", 1);
	assert_int_equal(n_sent, 3);
	close(c);
	run_events();
	assert_int_equal(clients.qps.n, 0);
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
	claim(a, "mlx5_1", 5);
	send_message(a, "10.2.0.1", 5);
	assert_int_equal(n_sent, 1);
	assert_int_equal(sent.from.qpn, 5);
	send_message(a, "fe80::1", 5); /* also mlx5_1's */
	assert_int_equal(n_sent, 2);
	send_message(a, "10.1.0.1", 5); /* QP 5 of mlx5_0 would be another one */
	send_message(a, "10.2.0.1", 6); /* not claimed */
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

/* Messages under way are counted for all processes of an account together; root of the host has no bound. */
static void test_messages_of_an_account(void **state)
{
	int a = registered();
	struct md_account *account = md_clients_find(&clients, 1)->account;
	const uint64_t id = account->id;

	(void)state;
	claim(a, "mlx5_1", 5);
	for (int root = 0; root < 2; root++) {
		account->id = root ? 0 : 1000;
		account->n_parcels = MD_PARCELS_PER_ACCOUNT;
		send_message(a, "10.2.0.1", 5);
		assert_int_equal(n_sent, root);
	}
	account->id = 1000;
	account->n_parcels--;
	send_message(a, "10.2.0.1", 5);
	assert_int_equal(n_sent, 2);
	account->id = id;
	account->n_parcels = 0;
	close(a);
}

static void test_deliver(void **state)
{
	struct mv_frame frame;
	union ibv_gid gid = unit_gid("10.1.0.2");
	int fd = registered();

	(void)state;
	claim(fd, "mlx5_0", 7);
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
	claim(a, "mlx5_0", 7);
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

static void test_limits(void **state)
{
	int pair[2], fds[8];

	(void)state;
	/* Its last eighth is root's. */
	clients.max = geteuid() ? 9 : 8; /* 9 - 9 / 8 */
	for (int i = 0; i < 8; i++)
		fds[i] = join();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(md_clients_adopt(&clients, pair[0]), -EUSERS);
	assert_int_equal(clients.count.refused, 1);
	close(pair[1]);
	close(fds[0]);
	run_events();
	fds[0] = join();
	for (int i = 0; i < 8; i++)
		close(fds[i]);
}

/* However many users and containers there are: root of the host finds room. */
static void test_root_share(void **state)
{
	(void)state;
	assert_true(md_has_room(6, 8, 1000));
	assert_false(md_has_room(7, 8, 1000));
	assert_true(md_has_room(7, 8, 0));
	assert_false(md_has_room(8, 8, 0));
}

/* One account cannot take everything; root is free. */
static void test_account_limits(void **state)
{
	struct md_qps qps = {0};
	struct md_qp_list list, others;
	struct md_qp_key key;

	(void)state;
	LIST_INIT(&list);
	LIST_INIT(&others);
	for (uint32_t i = 0; i < MD_QPS_PER_ACCOUNT; i++) {
		key = md_qp_key_make("mlx5_0", i);
		assert_int_equal(md_qps_claim(&qps, &key, IBV_QPT_RC, 1, 1000, &list), 0);
	}
	key = md_qp_key_make("mlx5_1", 0);
	assert_int_equal(md_qps_claim(&qps, &key, IBV_QPT_RC, 1, 1000, &list), -ENOSPC);
	assert_int_equal(md_qps_claim(&qps, &key, IBV_QPT_RC, 2, 1001, &others), 0);
	key = md_qp_key_make("mlx5_0", 0);
	assert_int_equal(md_qps_claim(&qps, &key, IBV_QPT_RC, 2, 1001, &others), -EBUSY);
	while (!LIST_EMPTY(&list))
		assert_int_equal(md_qps_unclaim(&qps, &LIST_FIRST(&list)->key, 1), 0);
	assert_int_equal(qps.n, 1);
	md_qps_fini(&qps);
	assert_int_equal(qps.n, 0);
}

static void test_claim_faults(void **state)
{
	(void)state;
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		struct md_qps qps = {0};
		struct md_qp_list list = LIST_HEAD_INITIALIZER(list);
		struct md_qp_key key = md_qp_key_make("mlx5_0", 1);
		int err = md_qps_claim(&qps, &key, IBV_QPT_RC, 1, 1000, &list);
		bool fired = fault_fired();

		assert_int_equal(err, fired ? -ENOMEM : 0);
		md_qps_fini(&qps);
		assert_int_equal(qps.n, 0);
	});
	FAULT_EACH(FAULT_ALLOC, ENOMEM, {
		int pair[2];
		int err;

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		err = md_clients_adopt(&clients, pair[0]);
		assert_int_equal(err, fault_fired() ? -ENOMEM : 0);
		assert_int_equal(clients.n, fault_fired() ? 0 : 1);
		close(pair[1]);
	});
	run_events();
}

/* ---- who has a QP, as RDMA netlink tells ------------------------------------------------------
 */

struct message {
	struct nlmsghdr head;
	char body[256];
};

static void put_attr(struct message *message, uint16_t type, const void *value, uint16_t len)
{
	struct nlattr attr = {.nla_len = (uint16_t)(sizeof(attr) + len), .nla_type = type};
	char *at = (char *)message + message->head.nlmsg_len;

	memcpy(at, &attr, sizeof(attr));
	memcpy(at + sizeof(attr), value, len);
	message->head.nlmsg_len += (uint32_t)NLA_ALIGN(attr.nla_len);
}

static struct message a_message(int op)
{
	return (struct message){
		.head = {.nlmsg_len = sizeof(struct nlmsghdr),
			 .nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op)}};
}

static pid_t parse_owner(const void *buf, size_t len, uint32_t qpn, uint32_t *ret_pdn)
{
	const struct md_resqp_object qp = {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_LQPN, qpn, RDMA_NLDEV_ATTR_RES_PDN};

	return md_resqp_parse_owner(buf, len, &qp, ret_pdn);
}

static void test_resqp_answers(void **state)
{
	static const struct {
		int err, says;
	} errors[] = {{-ENOENT, -ENOENT}, {-EAGAIN, -EAGAIN}, {-EINVAL, 0}, {-EPERM, 0}, {0, 0}};
	struct message device = a_message(RDMA_NLDEV_CMD_GET);
	struct message qp = a_message(RDMA_NLDEV_CMD_RES_QP_GET);
	struct message error = {
		.head = {.nlmsg_type = NLMSG_ERROR, .nlmsg_len = sizeof(struct nlmsghdr) + 4}};
	uint32_t index = 3, qpn = 77, pid = 4711, ports = 2, pdn = 9, found;

	(void)state;
	put_attr(&device, RDMA_NLDEV_ATTR_DEV_INDEX, &index, 4);
	put_attr(&device, RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0", 7);
	assert_int_equal(md_resqp_parse_device(&device, device.head.nlmsg_len, "mlx5_0", &found), 3);
	assert_int_equal(found, 1);
	put_attr(&device, RDMA_NLDEV_ATTR_PORT_INDEX, &ports, 4);
	assert_int_equal(md_resqp_parse_device(&device, device.head.nlmsg_len, "mlx5_0", &found), 3);
	assert_int_equal(found, 2);
	assert_int_equal(md_resqp_parse_device(&device, device.head.nlmsg_len, "mlx5_1", &found), -EAGAIN);
	put_attr(&qp, RDMA_NLDEV_ATTR_RES_LQPN, &qpn, 4);
	put_attr(&qp, RDMA_NLDEV_ATTR_RES_PDN, &pdn, 4);
	/* A kernel object, or a thread that has ended: nobody's pid. */
	assert_int_equal(parse_owner(&qp, qp.head.nlmsg_len, 77, &found), -ESRCH);
	assert_int_equal(found, 9);
	put_attr(&qp, RDMA_NLDEV_ATTR_RES_PID, &pid, 4);
	assert_int_equal(parse_owner(&qp, qp.head.nlmsg_len, 77, &found), 4711);
	assert_int_equal(parse_owner(&qp, qp.head.nlmsg_len, 78, &found), 0);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		memcpy(error.body, &errors[i].err, sizeof(errors[i].err));
		assert_int_equal(parse_owner(&error, error.head.nlmsg_len, 77, &found), errors[i].says);
	}
	/* Cut anywhere: no look beyond the end (as ASan would see). */
	for (size_t cut = 0; cut < qp.head.nlmsg_len; cut++) {
		char *exact = malloc(cut ? cut : 1);

		memcpy(exact, &qp, cut);
		assert_int_equal(parse_owner(exact, cut, 77, &found), 0);
		free(exact);
	}
}

/* On whatever kernel this runs: never more than an answer or none. */
static void test_resqp_live(void **state)
{
	struct md_resqp resqp;

	(void)state;
	md_resqp_open(&resqp);
	assert_int_equal(md_resqp_owner(&resqp, "no_such_device", 1, 0), 0);
	md_resqp_close(&resqp);
	assert_int_equal(md_resqp_owner(&resqp, "no_such_device", 1, 0), 0);
}

/* An agent that starts before ib_core is there opens it when devices come, and once. */
static void test_resqp_comes_later(void **state)
{
	struct md_resqp resqp;

	(void)state;
	fault_arm(FAULT_SOCKET, 1, EPROTONOSUPPORT);
	md_resqp_open(&resqp);
	assert_true(fault_fired());
	assert_int_equal(resqp.fd, -1);
	fault_disarm();
	md_resqp_again(&resqp);
	assert_int_equal(fault_count(FAULT_SOCKET), 1);
	md_resqp_close(&resqp);
	resqp.fd = dup(STDIN_FILENO);
	resqp.n_known = 1;
	fault_disarm();
	md_resqp_again(&resqp);
	assert_int_equal(fault_count(FAULT_SOCKET), 0);
	assert_int_equal(resqp.n_known, 0);
	md_resqp_close(&resqp);
}

/*
 * The kernel, as Linux 6.1 answers: it has mlx5_0 with two ports, all QPs of which are ours but these, and on its first port but ON_PORT_2.
 * ORPHAN and its protection domain were made by threads that have ended, its context was not; UNTOLD's are of another PID namespace.
 */
enum { ANOTHERS = 666, UNTOLD, GONE, THREADS, ON_PORT_2, NO_PORT, ORPHAN };
#define ANOTHER_PID 1
#define ORPHANS_PD  31
#define ORPHANS_CTX 32
static pid_t thread_id; /* that made THREADS */
static pid_t given_away; /* pid that all QPs are of; 0: as above */
static int kernel_fd = -1, kernel_end = -1;
static unsigned int n_dumps, n_questions;

ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);

static void answer(const struct message *message)
{
	assert_int_equal(__real_send(kernel_end, message, message->head.nlmsg_len, 0), message->head.nlmsg_len);
}

static void answer_error(int err)
{
	struct message error = {.head = {.nlmsg_len = sizeof(struct nlmsghdr) + sizeof(err), .nlmsg_type = NLMSG_ERROR}};

	memcpy(error.body, &err, sizeof(err));
	answer(&error);
}

/* The value of an attribute of a question; 0: not named. */
static uint32_t asked(const char *buf, size_t len, uint16_t type)
{
	struct nlattr attr;
	uint32_t value;

	for (size_t at = sizeof(struct nlmsghdr); at < len; at += NLA_ALIGN(attr.nla_len)) {
		memcpy(&attr, buf + at, sizeof(attr));
		memcpy(&value, buf + at + sizeof(attr), sizeof(value));
		if (attr.nla_type == type)
			return value;
	}
	return 0;
}

static void answer_devices(void)
{
	struct message device = a_message(RDMA_NLDEV_CMD_GET);
	uint32_t index = 3, ports = 2;

	n_dumps++;
	put_attr(&device, RDMA_NLDEV_ATTR_DEV_INDEX, &index, 4);
	put_attr(&device, RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0", 7);
	put_attr(&device, RDMA_NLDEV_ATTR_PORT_INDEX, &ports, 4);
	answer(&device);
	device = (struct message){.head = {.nlmsg_len = sizeof(struct nlmsghdr), .nlmsg_type = NLMSG_DONE}};
	answer(&device);
}

static uint32_t pid_of(uint32_t qpn)
{
	if (given_away)
		return (uint32_t)given_away;
	if (qpn == UNTOLD || qpn == ORPHAN)
		return 0;
	return qpn == ANOTHERS ? ANOTHER_PID : (uint32_t)(qpn == THREADS ? thread_id : getpid());
}

static void answer_qp(uint32_t qpn, uint32_t port)
{
	struct message qp = a_message(RDMA_NLDEV_CMD_RES_QP_GET);
	uint32_t pid = pid_of(qpn), pdn = ORPHANS_PD, at = qpn == NO_PORT ? 0 : qpn == ON_PORT_2 ? 2 : 1;

	n_questions += at == port || !at;
	if (!port || port > 2 || qpn == GONE || at != port) {
		answer_error(!port || port > 2 ? -EINVAL : qpn == GONE ? -ENOENT : -EAGAIN);
		return;
	}
	put_attr(&qp, RDMA_NLDEV_ATTR_RES_LQPN, &qpn, 4);
	if (qpn == ORPHAN)
		put_attr(&qp, RDMA_NLDEV_ATTR_RES_PDN, &pdn, 4);
	if (pid)
		put_attr(&qp, RDMA_NLDEV_ATTR_RES_PID, &pid, 4);
	answer(&qp);
}

/* RDMA_NLDEV_CMD_RES_CTX_GET, which <rdma/rdma_netlink.h> of Debian 11 does not have. */
#define RES_CTX_GET 22

static void answer_parent(bool pd, uint32_t id, uint32_t port)
{
	struct message parent = a_message(pd ? RDMA_NLDEV_CMD_RES_PD_GET : RES_CTX_GET);
	uint32_t pid = (uint32_t)getpid(), ctx = ORPHANS_CTX;

	if (port || id != (pd ? ORPHANS_PD : ORPHANS_CTX)) {
		answer_error(port ? -EINVAL : -ENOENT);
		return;
	}
	put_attr(&parent, pd ? RDMA_NLDEV_ATTR_RES_PDN : RDMA_NLDEV_ATTR_RES_CTXN, &id, 4);
	put_attr(&parent, pd ? RDMA_NLDEV_ATTR_RES_CTXN : RDMA_NLDEV_ATTR_RES_PID, pd ? &ctx : &pid, 4);
	answer(&parent);
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
	uint32_t port;
	struct nlmsghdr head;

	if (fd < 0 || fd != kernel_fd)
		return __real_send(fd, buf, len, flags);
	memcpy(&head, buf, sizeof(head));
	port = asked(buf, len, RDMA_NLDEV_ATTR_PORT_INDEX);
	if (head.nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET))
		answer_devices();
	else if (head.nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET))
		answer_qp(asked(buf, len, RDMA_NLDEV_ATTR_RES_LQPN), port);
	else if (head.nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_PD_GET))
		answer_parent(true, asked(buf, len, RDMA_NLDEV_ATTR_RES_PDN), port);
	else
		answer_parent(false, asked(buf, len, RDMA_NLDEV_ATTR_RES_CTXN), port);
	return (ssize_t)len;
}

static int setup_kernel(void **state)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
	n_dumps = n_questions = 0;
	setup(state);
	clients.trusts = false;
	given_away = 0;
	clients.resqp.fd = kernel_fd = pair[0];
	kernel_end = pair[1];
	return 0;
}

static int teardown_kernel(void **state)
{
	teardown(state); /* closes the one end */
	close(kernel_end);
	kernel_fd = kernel_end = -1;
	return 0;
}

static bool has_qp(uint32_t qpn)
{
	struct md_qp_key key = md_qp_key_make("mlx5_0", qpn);

	return md_qps_find(&clients.qps, &key);
}

static void send_claims(int fd, uint32_t from, uint32_t to)
{
	uint8_t buf[MV_PACK_MAX_BYTES];
	size_t len = 0;

	for (uint32_t qpn = from; qpn <= to; qpn++)
		len = pack_claim(buf, len, qpn);
	assert_int_equal(send(fd, buf, len, 0), len);
}

/*
 * An account that takes much time gets in line: another account's client is read before the second one of that account is, however many of its
 * clients have something to be read.
 */
static void test_busy_account_gets_in_line(void **state)
{
	int many[8], one;
	struct md_account *busy, *other;
	struct mv_frame frame = {.type = MV_FRAME_UNCLAIM, .qpn = 1, .device = "mlx5_0"};
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(&frame, buf);
	uint64_t before;

	(void)state;
	for (int i = 0; i < 8; i++)
		many[i] = registered();
	one = registered();
	busy = md_clients_find(&clients, 1)->account;
	other = md_qps_account(&clients.qps, 77);
	busy->n_clients--;
	other->n_clients++;
	md_clients_find(&clients, 9)->account = other;
	busy->busy_ns = MD_BUSY_NS;
	busy->window_ns = UINT64_MAX / 2; /* does not end */
	before = clients.count.frames;
	for (int i = 0; i < 8; i++)
		for (int n = 0; n < 3 * MD_FRAMES_PER_TURN; n++)
			assert_int_equal(send(many[i], buf, len, 0), len);
	frame = (struct mv_frame){.type = MV_FRAME_CLAIM, .qp_type = IBV_QPT_RC, .qpn = 5, .device = "mlx5_0"};
	len = mv_frame_encode(&frame, buf);
	assert_int_equal(send(one, buf, len, 0), len);
	while (!md_clients_find(&clients, 9)->account->n_qps)
		assert_true(sd_event_run(clients.event, 0) > 0);
	assert_true(clients.count.frames - before <= 2 * MD_FRAMES_PER_TURN + 1);
	/* Nothing of the others is lost, whether it goes on or ends. */
	close(many[7]);
	run_events();
	assert_int_equal(clients.count.frames - before, 8 * 3 * MD_FRAMES_PER_TURN + 1);
	assert_int_equal(clients.n, 8);
	/* One that is gone while it is in line. */
	assert_int_equal(send(many[0], buf, len, 0), len);
	assert_true(sd_event_run(clients.event, 0) > 0);
	assert_true(md_clients_find(&clients, 1)->backlogged);
	for (int i = 0; i < 7; i++)
		close(many[i]);
	close(one);
}

/* One packet can have hundreds of questions: they take turns, and what comes behind them has to wait. */
/* An account with many processes that ask makes no other one wait longer than one with a single process. */
static void test_accounts_take_turns(void **state)
{
	int many[6], one;
	struct md_account *other;
	struct md_client *client;
	unsigned int when = 0, begun;

	(void)state;
	for (int i = 0; i < 6; i++)
		many[i] = registered();
	one = registered();
	other = md_qps_account(&clients.qps, 77);
	client = md_clients_find(&clients, 7);
	client->account->n_clients--;
	other->n_clients++;
	client->account = other;
	for (uint32_t i = 0; i < 6; i++)
		send_claims(many[i], 1000 + 100 * i, 1099 + 100 * i);
	while (n_questions < 12 * MD_QUESTIONS_PER_TURN) /* all of them wait */
		assert_true(sd_event_run(clients.event, 0) > 0);
	begun = n_questions;
	send_claims(one, 200, 200);
	while (sd_event_run(clients.event, 0) > 0)
		if (!when && has_qp(200))
			when = n_questions;
	assert_in_range(when - begun, 1, 3 * MD_QUESTIONS_PER_TURN);
	assert_int_equal(n_questions, 601);
	for (int i = 0; i < 6; i++)
		close(many[i]);
	close(one);
	run_events();
}

static void test_questions_are_rationed(void **state)
{
	const struct mv_frame gone = {.type = MV_FRAME_UNCLAIM, .qpn = 100, .device = "mlx5_0"};
	int a = registered(), b = registered();
	unsigned int before, most = 0, when_b = 0;
	uint8_t buf[MV_PACK_MAX_BYTES];
	size_t len = 0;

	(void)state;
	for (uint32_t qpn = 1; qpn <= 100; qpn++)
		len = pack_claim(buf, len, qpn);
	len = pack(buf, len, &gone);
	len = pack_claim(buf, len, ANOTHERS);
	assert_int_equal(send(a, buf, len, 0), len);
	send_claims(b, 200, 200);
	/* Another packet behind, of which nothing is true before the first one is through. */
	{
		struct mv_ctl_msg msg = {.type = MV_CTL_HELLO,
					 .gid_type = MV_GID_TYPE_ROCE_V2,
					 .from_psn = MV_CTL_PSN_NONE,
					 .to_psn = MV_CTL_PSN_NONE,
					 .attempt = 1,
					 .from = {.gid = unit_gid("10.1.0.1"), .qpn = 99},
					 .to = {.gid = unit_gid("10.1.0.2"), .qpn = 9}};
		struct mv_frame frame = {.type = MV_FRAME_SEND, .dgid = msg.to.gid};

		frame.len = (uint16_t)mv_ctl_encode(&msg, frame.payload);
		len = pack(buf, 0, &frame);
		assert_int_equal(send(a, buf, len, 0), len);
	}
	do {
		before = n_questions;
		if (sd_event_run(clients.event, 0) <= 0)
			break;
		if (n_questions - before > most)
			most = n_questions - before;
		if (!when_b && has_qp(200))
			when_b = n_questions;
	} while (true);
	assert_int_equal(most, MD_QUESTIONS_PER_TURN);
	assert_int_equal(n_questions, 103); /* the last one for the message */
	assert_int_equal(n_dumps, 1);
	assert_in_range(when_b, 1, 2 * MD_QUESTIONS_PER_TURN);
	assert_int_equal(clients.count.frames, 2 + 102 + 1 + 1);
	assert_int_equal(clients.count.claims, 101);
	assert_int_equal(clients.count.claims_refused, 1);
	assert_int_equal(clients.qps.n, 100);
	assert_false(has_qp(100) || has_qp(ANOTHERS));
	assert_int_equal(n_sent, 1);
	assert_int_equal(clients.count.not_its_own, 0);
	/* What is his already is no question; */
	send_claims(a, 1, 99);
	run_events();
	assert_int_equal(n_questions, 103);
	assert_int_equal(clients.count.claims, 200);
	/* what another process has is one as any other. */
	md_clients_find(&clients, 1)->pid = ANOTHER_PID;
	send_claims(b, 1, 99);
	most = 0;
	do {
		before = n_questions;
		if (sd_event_run(clients.event, 0) <= 0)
			break;
		if (n_questions - before > most)
			most = n_questions - before;
	} while (true);
	assert_int_equal(most, MD_QUESTIONS_PER_TURN);
	assert_int_equal(n_questions, 202);
	assert_int_equal(clients.count.claims, 299);
	assert_int_equal(clients.count.claims_refused, 1);
	md_clients_find(&clients, 1)->pid = getpid();
	/* One that goes before it was its turn, and one that waits when the agent ends. */
	send_claims(a, 301, 350);
	while (!has_qp(301))
		sd_event_run(clients.event, 0);
	close(a);
	send_claims(b, 401, 450);
	while (clients.n > 1)
		sd_event_run(clients.event, 0);
	assert_true(has_qp(401));
	close(b);
}

static uint64_t owner_of(uint32_t qpn)
{
	struct md_qp_key key = md_qp_key_make("mlx5_0", qpn);
	const struct md_qp *qp = md_qps_find(&clients.qps, &key);

	assert_non_null(qp);
	return qp->owner;
}

/* A process ends, its queue pair's number is given to another one, and only then its connection ends. */
static void test_stale_claim(void **state)
{
	int a = registered(), b = registered();
	struct mv_frame frame;

	(void)state;
	claim(a, "mlx5_0", 5);
	md_clients_find(&clients, 1)->pid = ANOTHER_PID;
	claim(b, "mlx5_0", 5);
	assert_int_equal(n_questions, 2);
	assert_int_equal(clients.count.claims_refused, 0);
	assert_int_equal(clients.qps.n, 1);
	assert_int_equal(next_frame(b, &frame), 0);
	/* What the first one says of it is not its own any more; */
	send_message(a, "10.1.0.1", 5);
	assert_int_equal(clients.count.not_its_own, 1);
	assert_int_equal(n_sent, 0);
	send_message(b, "10.1.0.1", 5);
	assert_int_equal(n_sent, 1);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 5, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(a, &frame), 0);
	assert_int_equal(next_frame(b, &frame), MV_FRAME_DELIVER);
	/* nor does it give it away, get it back, or take it along. */
	unclaim(a, "mlx5_0", 5);
	assert_int_equal(owner_of(5), 2);
	claim(a, "mlx5_0", 5);
	assert_int_equal(clients.count.claims_refused, 1);
	assert_int_equal(owner_of(5), 2);
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	assert_int_equal(frame.qpn, 5);
	assert_string_equal(frame.device, "mlx5_0");
	close(a);
	run_events();
	assert_int_equal(clients.n, 1);
	assert_int_equal(owner_of(5), 2);
	send_message(b, "10.1.0.1", 5);
	assert_int_equal(n_sent, 2);
	close(b);
}

/* Nobody takes a queue pair but who the kernel says has it. */
static void test_claim_of_anothers(void **state)
{
	int a = registered(), b = registered();
	struct md_client *holder = md_clients_find(&clients, 1), *claimant = md_clients_find(&clients, 2);
	const uid_t uid = holder->uid;
	unsigned int before;

	(void)state;
	claim(a, "mlx5_0", 7);
	holder->pid = ANOTHER_PID;
	claim(a, "mlx5_0", ANOTHERS);
	assert_int_equal(clients.count.claims, 2);
	claim(b, "mlx5_0", ANOTHERS);
	claim(b, "mlx5_0", UNTOLD);
	claim(b, "mlx5_0", GONE);
	assert_int_equal(n_questions, 5);
	assert_int_equal(clients.count.claims_refused, 3);
	assert_int_equal(owner_of(ANOTHERS), 1);
	assert_false(has_qp(UNTOLD) || has_qp(GONE));
	/* Nor does one whose pid is not known here. */
	claimant->pid = 0;
	claim(b, "mlx5_0", 7);
	assert_int_equal(owner_of(7), 1);
	claimant->pid = getpid();
	before = n_questions;
	/* A connection that was passed on when its process ended, and the pid is another user's by now. */
	holder->pid = getpid();
	holder->uid = uid + 1;
	claim(b, "mlx5_0", 7);
	holder->uid = uid;
	assert_int_equal(owner_of(7), 1);
	assert_int_equal(n_questions, before);
	assert_int_equal(clients.count.claims_refused, 5);
	/* A process that has connected anew, before its last connection has ended here. */
	claim(b, "mlx5_0", 7);
	assert_int_equal(owner_of(7), 2);
	/* What the kernel says is another's is not given to him later, either. */
	close(a);
	run_events();
	assert_false(has_qp(ANOTHERS));
	close(b);
}

/* A child that inherited the connection, or anybody who was given it, registers nothing over it and sends nothing. */
static void test_connection_passed_on(void **state)
{
	int a = registered(), status;
	pid_t child = fork();

	(void)state;
	assert_true(child >= 0);
	if (!child) {
		send_claims(a, 5, 6);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	run_events();
	assert_false(has_qp(5) || has_qp(6));
	assert_int_equal(n_questions, 0);
	assert_int_equal(clients.count.malformed, 1);
	assert_int_equal(clients.n, 1);
	claim(a, "mlx5_0", 5);
	assert_true(has_qp(5));
	close(a);
}

/* A connection that outlives its process: its number is another user's process by now, and makes queue pairs. */
static void test_process_has_ended(void **state)
{
	int a = registered(), b = registered(), status;
	struct md_client *old = md_clients_find(&clients, 1);
	pid_t child;

	(void)state;
	claim(a, "mlx5_0", 5);
	assert_true(has_qp(5));
	child = fork();
	if (!child)
		_exit(0);
	old->uid++;
	assert_true(old->process >= 0);
	close(old->process);
	old->process = (int)syscall(SYS_pidfd_open, child, 0);
	assert_true(old->process >= 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	/* It registers nothing more, says nothing of what it has, */
	claim(a, "mlx5_0", 6);
	assert_false(has_qp(6));
	assert_int_equal(n_questions, 1);
	/* and keeps nothing from who has the number now. */
	claim(b, "mlx5_0", 5);
	assert_int_equal(owner_of(5), 2);
	claim(b, "mlx5_0", 7);
	md_clients_find(&clients, 2)->process = old->process;
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 7, (const uint8_t *)"x", 1));
	assert_false(has_qp(7));
	md_clients_find(&clients, 2)->process = -1;
	close(a);
	close(b);
}

/* Which port a queue pair is bound to is found out, and remembered; one that is bound to none is nobody's yet. */
static void test_qp_of_a_port(void **state)
{
	int a = registered();

	(void)state;
	claim(a, "mlx5_0", ON_PORT_2);
	assert_int_equal(owner_of(ON_PORT_2), 1);
	claim(a, "mlx5_0", 1);
	assert_int_equal(owner_of(1), 1);
	claim(a, "mlx5_0", NO_PORT);
	assert_false(has_qp(NO_PORT));
	assert_int_equal(clients.count.claims_refused, 1);
	close(a);
}

/* The thread that made it has ended: who made its protection domain, or its context? */
static void test_qp_of_a_thread_that_ended(void **state)
{
	int a = registered(), b = registered();

	(void)state;
	md_clients_find(&clients, 1)->pid = ANOTHER_PID;
	claim(a, "mlx5_0", ORPHAN);
	assert_int_equal(clients.count.claims_refused, 1);
	claim(b, "mlx5_0", ORPHAN);
	assert_int_equal(owner_of(ORPHAN), 2);
	close(a);
	close(b);
}

/* Of a kernel that cannot be asked, and of a device that it does not list, nothing is believed. */
static void test_kernel_that_cannot_be_asked(void **state)
{
	struct mv_frame frame;
	int a = registered();

	(void)state;
	claim(a, "mlx5_1", 1);
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	md_resqp_close(&clients.resqp);
	claim(a, "mlx5_0", 1);
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	assert_int_equal(clients.count.claims_refused, 2);
	assert_int_equal(clients.qps.n, 0);
	send_message(a, "10.1.0.1", 1);
	assert_int_equal(clients.count.not_its_own, 1);
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 1, (const uint8_t *)"x", 1));
	close(a);
}

/* Its number is another process's when the first message goes or comes: nothing of it is sent or delivered. */
static void test_qp_given_away(void **state)
{
	struct mv_frame frame;
	int a = registered();

	(void)state;
	claim(a, "mlx5_0", 1);
	claim(a, "mlx5_0", 2);
	claim(a, "mlx5_0", 3);
	send_message(a, "10.1.0.1", 3);
	given_away = ANOTHER_PID;
	send_message(a, "10.1.0.1", 1);
	assert_int_equal(n_sent, 1);
	assert_int_equal(clients.count.not_its_own, 1);
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	assert_int_equal(frame.qpn, 1);
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 2, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	assert_int_equal(frame.qpn, 2);
	assert_false(has_qp(1) || has_qp(2));
	/* Of one that has been confirmed it is not asked again, for what names the receiver's attempt. */
	named = 5;
	send_message(a, "10.1.0.1", 3);
	named = 0;
	assert_int_equal(n_sent, 2);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 3, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(a, &frame), MV_FRAME_DELIVER);
	/* A conversation of the number's next owner begins: its last one gets none of it, and says nothing in it. */
	md_clients_doubt(&clients, "mlx5_0", 3);
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 3, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	given_away = 0;
	claim(a, "mlx5_0", 4);
	send_message(a, "10.1.0.1", 4);
	assert_int_equal(n_sent, 3);
	given_away = ANOTHER_PID;
	send_message(a, "10.1.0.1", 4);
	assert_int_equal(n_sent, 3);
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	close(a);
}

static pthread_barrier_t barrier;

static void *make_qps(void *arg)
{
	(void)arg;
	thread_id = (pid_t)syscall(SYS_gettid);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* The kernel names the thread that made a queue pair, which need not be the first one of its process. */
static void test_qp_of_a_thread(void **state)
{
	int a = registered(), b = registered();
	pthread_t thread;

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, make_qps, NULL), 0);
	pthread_barrier_wait(&barrier);
	assert_int_not_equal(thread_id, getpid());
	md_clients_find(&clients, 1)->pid = ANOTHER_PID;
	claim(a, "mlx5_0", THREADS);
	assert_int_equal(clients.count.claims_refused, 1);
	claim(b, "mlx5_0", THREADS);
	assert_int_equal(clients.count.claims_refused, 1);
	assert_int_equal(owner_of(THREADS), 2);
	/* Where a filter of system calls is in the way, no thread is taken for one of another process. */
	unclaim(b, "mlx5_0", THREADS);
	clients.resqp.tells_threads = false;
	claim(b, "mlx5_0", THREADS);
	assert_int_equal(clients.count.claims_refused, 2);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
	close(a);
	close(b);
}

/* All devices are asked for only now and then. */
static void test_device_index_is_kept(void **state)
{
	const uint64_t now_ns = 1000 * MD_S;
	pid_t pid = getpid();

	(void)state;
	assert_int_equal(md_resqp_owner(&clients.resqp, "mlx5_0", 1, now_ns), pid);
	assert_int_equal(md_resqp_owner(&clients.resqp, "mlx5_0", 2, now_ns + MD_INDEX_NS - 1), pid);
	assert_int_equal(n_dumps, 1);
	assert_int_equal(md_resqp_owner(&clients.resqp, "mlx5_0", 2, now_ns + MD_INDEX_NS), pid);
	assert_int_equal(n_dumps, 2);
	md_resqp_forget(&clients.resqp);
	assert_int_equal(md_resqp_owner(&clients.resqp, "mlx5_0", ANOTHERS, now_ns + MD_INDEX_NS), ANOTHER_PID);
	assert_int_equal(n_dumps, 3);
	for (int i = 0; i < 2 * MD_RAILS_MAX; i++) {
		char name[IBV_SYSFS_NAME_MAX];

		snprintf(name, sizeof(name), "made_up_%d", i);
		assert_int_equal(md_resqp_owner(&clients.resqp, name, 1, now_ns), 0);
	}
	assert_int_equal(clients.resqp.n_known, 1);
	n_dumps = 0;
	assert_int_equal(md_resqp_owner(&clients.resqp, "mlx5_0", 1, now_ns + MD_INDEX_NS), pid);
	assert_int_equal(n_dumps, 0);
}

/* ---- control requests ------------------------------------------------------------------------ */

static void test_control_requests(void **state)
{
	static const char *const bad[] = {
		"",
		"x",
		"{}",
		"[]",
		"{\"get\":1}",
		"{\"get\":null}",
		"\"get\"",
		"{\"get\"",
		"{\"get\":\"0123456789012345678901234567890123456789\"}",
		"[[[[[[[[[[[[[[[[",
	};
	char name[32];

	(void)state;
	assert_int_equal(md_control_parse("{\"get\": \"peers\"}", 16, name, sizeof(name)), 0);
	assert_string_equal(name, "peers");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(md_control_parse(bad[i], strlen(bad[i]), name, sizeof(name)),
				 -EBADMSG);
}

static void test_control_orders(void **state)
{
	static const char *const bad[] = {
		"{\"do\":1,\"device\":\"a\"}",
		"{\"do\":null,\"device\":\"a\"}",
		"{\"do\":\"drain\"}",
		"{\"do\":\"drain\",\"device\":\"\"}",
		"{\"do\":\"drain\",\"device\":7}",
		"{\"do\":\"drain\",\"device\":\"a\\u0000b\"}",
		"{\"do\":\"drain\",\"device\":\"a\",\"force\":1}",
		"{\"do\":\"drained\",\"device\":\"a\"}",
		"{\"do\":\"key-pin\",\"host\":\"b\"}",
		"{\"do\":\"key-pin\",\"key\":\"AQ==\"}",
		"{\"do\":\"key-forget\",\"host\":\"b\\u0000c\"}",
		"{\"do\":\"key-revoke\",\"host\":\"b\",\"key\":1}",
		"{\"do\":\"key-forget\",\"host\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
		"{\"do\":\"drain\",\"device\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
	};
	static const char good[] = "{\"do\": \"drain\", \"device\": \"mlx5_0\"}",
			  forced[] = "{\"do\":\"undrain\",\"device\":\"mlx5_1\",\"force\":true}",
			  other[] = "{\"get\":\"peers\"}", pin[] = "{\"do\":\"key-pin\",\"host\":\"b\",\"key\":\"AQ==\"}",
			  revoke[] = "{\"do\":\"key-revoke\",\"host\":\"b\"}", rotate[] = "{\"do\":\"key-rotate\"}";
	struct md_order order;

	(void)state;
	assert_int_equal(md_control_parse_order(good, strlen(good), &order), 0);
	assert_string_equal(order.device, "mlx5_0");
	assert_int_equal(order.verb, MD_DRAIN);
	assert_false(order.force);
	assert_int_equal(md_control_parse_order(forced, strlen(forced), &order), 0);
	assert_string_equal(order.device, "mlx5_1");
	assert_int_equal(order.verb, MD_UNDRAIN);
	assert_true(order.force);
	assert_int_equal(md_control_parse_order(pin, strlen(pin), &order), 0);
	assert_int_equal(order.verb, MD_KEY_PIN);
	assert_string_equal(order.host, "b");
	assert_string_equal(order.key, "AQ==");
	assert_int_equal(md_control_parse_order(revoke, strlen(revoke), &order), 0);
	assert_int_equal(order.verb, MD_KEY_REVOKE);
	assert_string_equal(order.key, "");
	assert_int_equal(md_control_parse_order(rotate, strlen(rotate), &order), 0);
	assert_int_equal(order.verb, MD_KEY_ROTATE);
	assert_int_equal(md_control_parse_order(other, strlen(other), &order), -ENOENT);
	assert_int_equal(md_control_parse_order("[1", 2, &order), -ENOENT);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(md_control_parse_order(bad[i], strlen(bad[i]), &order), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_register_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pack_from_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pack_to_process, setup, teardown),
		cmocka_unit_test_setup_teardown(test_senders, setup, teardown),
		cmocka_unit_test_setup_teardown(test_claims, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_one_is_next, setup, teardown),
		cmocka_unit_test_setup_teardown(test_watch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_look, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_own_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deliver, setup, teardown),
		cmocka_unit_test_setup_teardown(test_status, setup, teardown),
		cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_messages_of_an_account, setup, teardown),
		cmocka_unit_test(test_root_share),
		cmocka_unit_test(test_account_limits),
		cmocka_unit_test_setup_teardown(test_claim_faults, setup, teardown),
		cmocka_unit_test(test_resqp_answers),
		cmocka_unit_test(test_resqp_live),
		cmocka_unit_test_setup_teardown(test_accounts_take_turns, setup_kernel, teardown_kernel),
		cmocka_unit_test(test_resqp_comes_later),
		cmocka_unit_test_setup_teardown(test_questions_are_rationed, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_stale_claim, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_claim_of_anothers, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_busy_account_gets_in_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connection_passed_on, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_process_has_ended, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_qp_of_a_thread, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_qp_of_a_port, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_qp_of_a_thread_that_ended, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_kernel_that_cannot_be_asked, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_qp_given_away, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_device_index_is_kept, setup_kernel, teardown_kernel),
		cmocka_unit_test(test_control_requests),
		cmocka_unit_test(test_control_orders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
