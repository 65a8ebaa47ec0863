/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Turns: how the time of the agent, and its questions to the kernel, are divided among accounts and processes. */
#include <sys/socket.h>
#include <unistd.h>

#include "clientpairs.h"
#include "resqpkernel.h"

/* Clients of an account that takes much time wait in line: other accounts' clients are read between two of them. */
static void test_busy_account_gets_in_line(void **state)
{
	int many[8], one;
	struct md_account *busy, *other;
	struct mv_frame frame = {.type = MV_FRAME_UNREGISTER_QP, .qpn = 1, .device = "mlx5_0"};
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
	busy->window_ns = UINT64_MAX / 2; /* for ever */
	before = clients.count.frames;
	for (int i = 0; i < 8; i++)
		for (int n = 0; n < 3 * MD_FRAMES_PER_TURN; n++)
			assert_int_equal(send(many[i], buf, len, 0), len);
	frame = (struct mv_frame){.type = MV_FRAME_REGISTER_QP, .qp_type = IBV_QPT_RC, .qpn = 5, .device = "mlx5_0"};
	len = mv_frame_encode(&frame, buf);
	assert_int_equal(send(one, buf, len, 0), len);
	while (!md_clients_find(&clients, 9)->account->n_qps)
		assert_true(sd_event_run(clients.event, 0) > 0);
	assert_true(clients.count.frames - before <= 2 * MD_FRAMES_PER_TURN + 1);
	/* Frames of clients in line are not lost, whether a client goes on or ends. */
	close(many[7]);
	run_events();
	assert_int_equal(clients.count.frames - before, 8 * 3 * MD_FRAMES_PER_TURN + 1);
	assert_int_equal(clients.n, 8);
	/* A client goes while it is in line. */
	assert_int_equal(send(many[0], buf, len, 0), len);
	assert_true(sd_event_run(clients.event, 0) > 0);
	assert_true(md_clients_find(&clients, 1)->backlogged);
	for (int i = 0; i < 7; i++)
		close(many[i]);
	close(one);
}

/* Other accounts wait no longer for an account with many processes that ask than for an account with one. */
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
		send_registrations(many[i], 1000 + 100 * i, 1099 + 100 * i);
	while (n_questions < 12 * MD_QUESTIONS_PER_TURN) /* while all processes wait */
		assert_true(sd_event_run(clients.event, 0) > 0);
	begun = n_questions;
	send_registrations(one, 200, 200);
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

/* One packet can have hundreds of questions: they take turns, and frames behind them wait. */
static void test_questions_are_rationed(void **state)
{
	const struct mv_frame gone = {.type = MV_FRAME_UNREGISTER_QP, .qpn = 100, .device = "mlx5_0"};
	int a = registered(), b = registered();
	unsigned int before, most = 0, when_b = 0;
	uint8_t buf[MV_PACK_MAX_BYTES];
	size_t len = 0;

	(void)state;
	for (uint32_t qpn = 1; qpn <= 100; qpn++)
		len = pack_registration(buf, len, qpn);
	len = pack(buf, len, &gone);
	len = pack_registration(buf, len, ANOTHERS);
	assert_int_equal(send(a, buf, len, 0), len);
	send_registrations(b, 200, 200);
	/* A second packet: its frames count only after the first packet is through. */
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
	assert_int_equal(clients.count.registrations, 101);
	assert_int_equal(clients.count.registrations_refused, 1);
	assert_int_equal(clients.qps.n, 100);
	assert_false(has_qp(100) || has_qp(ANOTHERS));
	assert_int_equal(n_sent, 1);
	assert_int_equal(clients.count.not_its_own, 0);
	/* A registration of a QP that the process has already is no question; */
	send_registrations(a, 1, 99);
	run_events();
	assert_int_equal(n_questions, 103);
	assert_int_equal(clients.count.registrations, 200);
	/* a registration of another process's QP is one. */
	md_clients_find(&clients, 1)->pid = ANOTHER_PID;
	send_registrations(b, 1, 99);
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
	assert_int_equal(clients.count.registrations, 299);
	assert_int_equal(clients.count.registrations_refused, 1);
	md_clients_find(&clients, 1)->pid = getpid();
	/* A process goes before its turn comes, and another one waits when the agent ends. */
	send_registrations(a, 301, 400);
	while (!has_qp(301))
		sd_event_run(clients.event, 0);
	close(a);
	send_registrations(b, 401, 500);
	while (clients.n > 1)
		sd_event_run(clients.event, 0);
	assert_true(has_qp(401));
	close(b);
}

/* A pack of @n messages of QP @qpn of 10.1.0.1 to QP 9 at @to. */
static void send_pack(int fd, uint32_t qpn, const char *to, uint32_t to_attempt, unsigned int n)
{
	struct mv_ctl_msg msg = {.type = MV_CTL_HELLO,
				 .gid_type = MV_GID_TYPE_ROCE_V2,
				 .from_psn = MV_CTL_PSN_NONE,
				 .to_psn = MV_CTL_PSN_NONE,
				 .attempt = 1,
				 .to_attempt = to_attempt,
				 .from = {.gid = unit_gid("10.1.0.1"), .qpn = qpn},
				 .to = {.gid = unit_gid(to), .qpn = 9}};
	struct mv_frame frame = {.type = MV_FRAME_SEND, .dgid = unit_gid("10.1.0.2")};
	uint8_t buf[MV_PACK_MAX_BYTES];
	size_t len = 0;

	frame.len = (uint16_t)mv_ctl_encode(&msg, frame.payload);
	while (n--) {
		len = pack(buf, len, &frame);
		assert_true(len + MV_FRAME_MAX_BYTES <= sizeof(buf));
	}
	assert_int_equal(send(fd, buf, len, 0), len);
}

static const struct md_client_ops *usual;

static int send_slowly(void *arg, struct md_client *client, const union ibv_gid *dgid, const struct mv_ctl_msg *msg,
		       const uint8_t *data, uint16_t len)
{
	struct timespec begun, at;

	clock_gettime(CLOCK_BOOTTIME, &begun);
	do
		clock_gettime(CLOCK_BOOTTIME, &at);
	while ((at.tv_sec - begun.tv_sec) * (int64_t)MD_S + at.tv_nsec - begun.tv_nsec < (int64_t)MD_BUSY_NS);
	return usual->send(arg, client, dgid, msg, data, len);
}

/* What a process asks for may take long: then its turn ends with the packet. */
static void test_slow_frames(void **state)
{
	static struct md_client_ops slow;
	int one = registered();

	(void)state;
	usual = clients.ops;
	slow = *usual;
	slow.send = send_slowly;
	clients.ops = &slow;
	register_qp(one, "mlx5_0", 5);
	run_events();
	n_sent = 0;
	for (unsigned int n = 1; n <= 10; n++)
		send_pack(one, 5, "10.1.0.2", 7, 1);
	while (!n_sent) /* the process may be in line by now */
		assert_true(sd_event_run(clients.event, 0) > 0);
	assert_int_equal(n_sent, 1);
	run_events();
	assert_int_equal(n_sent, 10);
	clients.ops = usual;
	close(one);
}

/* Returns the most questions in one turn, until nothing is left to do. */
static unsigned int most_in_a_turn(void)
{
	unsigned int before, most = 0;

	do {
		before = n_questions;
		if (sd_event_run(clients.event, 0) <= 0)
			return most;
		if (n_questions - before > most)
			most = n_questions - before;
	} while (true);
}

/* Messages that begin a conversation need a question each. Those within a conversation need none, and do not wait. */
static void test_messages_are_rationed(void **state)
{
	int a = registered();

	(void)state;
	send_registrations(a, 5, 9);
	run_events();
	assert_int_equal(n_questions, 5);
	send_pack(a, 5, "10.1.0.2", 0, 40);
	send_pack(a, 5, "10.1.0.2", 0, 40);
	send_pack(a, 5, "10.1.0.2", 7, 10);
	assert_int_equal(most_in_a_turn(), MD_QUESTIONS_PER_TURN);
	assert_int_equal(n_questions, 85);
	assert_int_equal(n_sent, 90);
	send_pack(a, 5, "10.1.0.2", 7, 40);
	assert_int_equal(most_in_a_turn(), 0);
	assert_int_equal(n_sent, 130);
	/* The first message of a QP within a conversation; */
	send_pack(a, 6, "10.1.0.2", 7, 1);
	assert_true(sd_event_run(clients.event, 0) > 0);
	assert_int_equal(n_questions, 85);
	assert_int_equal(most_in_a_turn(), 1);
	assert_int_equal(n_sent, 131);
	/* one to a QP of this host that is not confirmed. */
	send_pack(a, 6, "10.1.0.1", 7, 1);
	assert_true(sd_event_run(clients.event, 0) > 0);
	assert_int_equal(n_sent, 131);
	run_events();
	assert_int_equal(n_sent, 132);
	close(a);
	run_events();
}

/*
 * The socket of a process is full and frames wait, while the process sends without end. It reads everything: it gets these
 * frames, although the event loop looks at its socket between two turns only.
 */
static void check_blocked(bool with_questions)
{
	const struct mv_frame packs = {.type = MV_FRAME_PACKS, .version = MV_CTL_VERSION};
	const struct mv_frame unregister = {.type = MV_FRAME_UNREGISTER_QP, .qpn = 1000, .device = "mlx5_0"};
	uint8_t buf[MV_FRAME_MAX_BYTES], got[MV_PACK_MAX_BYTES];
	size_t len = mv_frame_encode(&unregister, buf);
	const uint8_t data[100] = {0};
	struct md_client *client;
	int fd = registered();

	register_qp(fd, "mlx5_0", 1);
	put(fd, &packs);
	client = md_clients_find(&clients, clients.next_number);
	client->account->busy_ns = MD_BUSY_NS;
	client->account->window_ns = with_questions ? 0 : UINT64_MAX / 2; /* for ever */
	while (!client->out.blocked) {
		md_clients_deliver(&clients, &sender, "mlx5_0", 1, data, sizeof(data));
		md_clients_flush(&clients);
	}
	if (with_questions)
		send_registrations(fd, 100, 100 + 4 * MD_QUESTIONS_PER_TURN);
	for (unsigned int i = 0; !with_questions && i < 4 * MD_FRAMES_PER_TURN; i++)
		assert_int_equal(send(fd, buf, len, 0), len);
	for (unsigned int i = 0; i < 2; i++) { /* it reads nothing yet */
		assert_true(sd_event_run(clients.event, 0) > 0);
		assert_true(with_questions ? client->rest.bytes != NULL : client->backlogged);
		assert_true(client->out.blocked && client->out.len);
	}
	while (recv(fd, got, sizeof(got), MSG_DONTWAIT) > 0)
		;
	assert_true(sd_event_run(clients.event, 0) > 0);
	assert_true(with_questions ? client->rest.bytes != NULL : client->backlogged);
	assert_true(recv(fd, got, sizeof(got), MSG_DONTWAIT) > 0);
	assert_true(!client->out.blocked && !client->out.len);
	close(fd);
	run_events();
}

static void test_blocked_in_line(void **state)
{
	(void)state;
	check_blocked(false);
}

static void test_blocked_asks(void **state)
{
	(void)state;
	check_blocked(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_accounts_take_turns, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_questions_are_rationed, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_messages_are_rationed, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_blocked_in_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_frames, setup, teardown),
		cmocka_unit_test_setup_teardown(test_blocked_asks, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_busy_account_gets_in_line, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
