/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "clientpairs.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent_log.h"
#include "fault.h"

struct md_clients clients;
const struct mv_host_id sender = {.bytes = {7, 7}};
unsigned int n_sent, n_gone;
struct mv_ctl_msg sent;
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

bool probing;
struct md_client *watcher;
uint8_t watched;
int watch_result;

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

bool asks;

static bool on_look(void *arg, const struct md_client *client, const union ibv_gid *dgid)
{
	(void)arg;
	(void)client;
	assert_gid(*dgid, "10.9.0.1");
	return asks;
}

static const struct md_client_ops ops = {on_send, on_devices, on_gone, on_watch, on_probes, on_look};

int setup(void **state)
{
	int pair[2];

	(void)state;
	md_log_init(MD_ERROR);
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
	md_resqp_close(&clients.questions.resqp);
	return 0;
}

int teardown(void **state)
{
	(void)state;
	md_clients_stop(&clients);
	assert_int_equal(clients.n, 0);
	assert_int_equal(clients.qps.n, 0);
	assert_null(clients.qps.accounts);
	sd_event_unref(clients.event);
	return 0;
}

void run_events(void)
{
	while (sd_event_run(clients.event, 0) > 0)
		;
}

int join(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(md_clients_adopt(&clients, pair[0]), 0);
	return pair[1];
}

void put(int fd, const struct mv_frame *frame)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	size_t len = mv_frame_encode(frame, buf);

	assert_true(len > 0);
	assert_int_equal(send(fd, buf, len, MSG_NOSIGNAL), len);
	run_events();
}

int next_frame(int fd, struct mv_frame *ret)
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

int registered(void)
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

void register_qp(int fd, const char *device, uint32_t qpn)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .qpn = qpn};

	strcpy(frame.device, device);
	put(fd, &frame);
}

void unregister_qp(int fd, const char *device, uint32_t qpn)
{
	struct mv_frame frame = {.type = MV_FRAME_UNREGISTER_QP, .qpn = qpn};

	strcpy(frame.device, device);
	put(fd, &frame);
}

uint32_t named;

void send_message(int fd, const char *from, uint32_t from_qpn)
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

size_t pack(uint8_t *buf, size_t len, const struct mv_frame *frame)
{
	size_t more = mv_frame_encode(frame, buf + len);

	assert_true(more > 0);
	return len + more;
}

size_t pack_registration(uint8_t *buf, size_t len, uint32_t qpn)
{
	const struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .qpn = qpn, .device = "mlx5_0"};

	return pack(buf, len, &frame);
}

bool has_qp(uint32_t qpn)
{
	struct md_qp_key key = md_qp_key_make("mlx5_0", qpn);

	return md_qps_find(&clients.qps, &key);
}

void send_registrations(int fd, uint32_t from, uint32_t to)
{
	uint8_t buf[MV_PACK_MAX_BYTES];
	size_t len = 0;

	for (uint32_t qpn = from; qpn <= to; qpn++)
		len = pack_registration(buf, len, qpn);
	assert_int_equal(send(fd, buf, len, 0), len);
}
