// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The helper thread and its connection to the agent: what is said there again, and how often it is made anew. The agent's own code is at
 * the other end, and time stands still unless the test moves it.
 */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agentlink.h"
#include "client_int.h"
#include "conn.h"
#include "fault.h"
#include "probed.h"
#include "realagent.h"
#include "ud.h"
#include "unclaims.h"

#define MS 1000000ull
#define S 1000000000ull
#define RECONNECT_NS (S / 2)
#define N 4 /* the last one stays as it is */

static const struct mv_host_id sender = {.bytes = {7}};
static struct mesh_process process;
static struct mesh_context context = {.device = "mlx5_0"};
static struct ibv_qp qps[N];
static struct mesh_conn *conns[N]; /* NULL: gone */

/* ---- the helper thread's clock, and how it sleeps ---------------------------------------------------------------- */

static _Atomic uint64_t now_ns = 1000 * S;
static _Atomic int64_t sleeps_ms; /* for how long, as it said last; -1: until it is woken */
static _Atomic bool sleeps; /* it does now */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);
int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	uint64_t now = atomic_load(&now_ns);

	if (clock != CLOCK_BOOTTIME)
		return __real_clock_gettime(clock, ret);
	*ret = (struct timespec){.tv_sec = (time_t)(now / S), .tv_nsec = (long)(now % S)};
	return 0;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	int n_ready;

	atomic_store(&sleeps_ms, timeout ? timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000 : -1);
	atomic_store(&sleeps, true);
	n_ready = __real_ppoll(fds, n, timeout, mask);
	atomic_store(&sleeps, false);
	return n_ready;
}

/* ---- what happens on the way ------------------------------------------------------------------------------------- */

static void (*_Atomic meanwhile)(void); /* in the thread's next turn, between what it says again and what it claims */

struct mesh_conn *__wrap_mesh_conns_take(uint64_t now, uint64_t *ret_next);
struct mesh_conn *__real_mesh_conns_take(uint64_t now, uint64_t *ret_next);

struct mesh_conn *__wrap_mesh_conns_take(uint64_t now, uint64_t *ret_next)
{
	void (*function)(void) = atomic_load(&meanwhile);

	if (function)
		function();
	atomic_store(&meanwhile, NULL);
	return __real_mesh_conns_take(now, ret_next);
}

static _Thread_local int failure; /* of what this thread sends next: an errno */
static _Atomic int socket_fd; /* by which something was sent last, but for the bytes that wake the thread */

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __real_send(int fd, const void *bytes, size_t len, int flags);

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
	if (len == 1)
		return __real_send(fd, bytes, len, flags);
	atomic_store(&socket_fd, fd);
	if (!failure)
		return __real_send(fd, bytes, len, flags);
	errno = failure;
	failure = 0;
	return -1;
}

static _Atomic bool no_packs; /* the agent is an older one */
static _Atomic unsigned int n_packs; /* connections with them */

void __wrap_mesh_agentlink_packs(struct mesh_agentlink *link);
void __real_mesh_agentlink_packs(struct mesh_agentlink *link);

void __wrap_mesh_agentlink_packs(struct mesh_agentlink *link)
{
	if (!atomic_load(&no_packs))
		__real_mesh_agentlink_packs(link);
	atomic_fetch_add(&n_packs, 1);
}

bool __wrap_mesh_view_agent(void);

bool __wrap_mesh_view_agent(void)
{
	return true;
}

static _Atomic unsigned int n_rests;

void __wrap_mesh_view_rest(void);
void __real_mesh_view_rest(void);

void __wrap_mesh_view_rest(void)
{
	atomic_fetch_add(&n_rests, 1);
	__real_mesh_view_rest();
}

static struct ibv_qp_ex *no_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL;
}

/* ---- the agent --------------------------------------------------------------------------------------------------- */

/* What it has read, by whichever thread runs it; the others wait meanwhile. */
static _Atomic unsigned int n_claims[N], n_unclaims[N], n_other_unclaims;

void __wrap_md_client_claim(struct md_client *client, const struct mv_frame *frame);
void __real_md_client_claim(struct md_client *client, const struct mv_frame *frame);
void __wrap_md_client_unclaim(struct md_client *client, const struct mv_frame *frame);
void __real_md_client_unclaim(struct md_client *client, const struct mv_frame *frame);

void __wrap_md_client_claim(struct md_client *client, const struct mv_frame *frame)
{
	if (frame->qpn - 100 < N)
		atomic_fetch_add(&n_claims[frame->qpn - 100], 1);
	__real_md_client_claim(client, frame);
}

void __wrap_md_client_unclaim(struct md_client *client, const struct mv_frame *frame)
{
	atomic_fetch_add(frame->qpn - 100 < N ? &n_unclaims[frame->qpn - 100] : &n_other_unclaims, 1);
	__real_md_client_unclaim(client, frame);
}

static bool knows(unsigned int i)
{
	const struct md_qp_key key = md_qp_key_make("mlx5_0", qps[i].qp_num);

	return md_qps_find(&clients.qps, &key);
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* Has it look, to the end: what it says in this turn has been said, and for how long it sleeps is known. */
static void have_it_look(void)
{
	for (int i = 0; i < 2; i++) {
		mesh_conn_queue(conns[N - 1], true);
		assert_int_equal(mesh_thread_wake(true), 0);
		while (mesh_conns_news() || !atomic_load(&sleeps))
			usleep(100);
	}
}

/* All that either has to say to the other. */
static void settle(void)
{
	for (int i = 0; i < 4; i++) {
		realagent_run();
		have_it_look();
	}
	realagent_run();
}

/* Once a second it looks whether anybody else is left. */
static bool is_asleep(void)
{
	return atomic_load(&sleeps_ms) > 500;
}

/* The thread does not look for long, as nothing has happened for long. */
static void fall_asleep(void)
{
	settle();
	atomic_fetch_add(&now_ns, 10 * S);
	have_it_look();
	while (!is_asleep())
		usleep(100);
}

static void add(unsigned int i)
{
	conns[i] = mesh_conn_new(&context, &qps[i]);
	assert_non_null(conns[i]);
	mesh_conn_queue(conns[i], true);
	assert_int_equal(mesh_thread_wake(true), 0);
}

static void end(unsigned int i)
{
	mesh_conn_unlink(conns[i]);
	mesh_conn_put(conns[i]);
	conns[i] = NULL;
}

/* As others do that have news for an agent that does not read them. An UNCLAIM is as long. */
static void fill_socket(void)
{
	const struct mv_frame frame = {.type = MV_FRAME_CLAIM, .qp_type = IBV_QPT_RC, .device = "mlx5_0", .qpn = qps[N - 1].qp_num};

	while (mesh_thread_frame(&frame) != -EAGAIN)
		;
}

static void disconnect(void)
{
	struct md_client *client, *next;

	HASH_ITER(hh, clients.by_number, client, next)
	shutdown(client->fd, SHUT_RDWR);
}

/* The thread's connection is a new one, with packs or without. */
static void connect_anew(bool packs)
{
	unsigned int before = atomic_load(&n_packs);

	atomic_store(&no_packs, !packs);
	atomic_fetch_add(&now_ns, S);
	disconnect();
	while (atomic_load(&n_packs) == before) {
		realagent_run();
		have_it_look();
	}
	settle();
}

static int setup_all(void **state)
{
	const char *dir = realagent_start();

	(void)state;
	assert_true(strlen(dir) < sizeof(mesh_root.run_dir));
	strcpy(mesh_root.run_dir, dir);
	md_resqp_close(&clients.resqp);
	mesh_root.process = &process;
	mesh_root.lib.verbs.qp_to_qp_ex = no_qp_ex;
	for (unsigned int i = 0; i < N; i++)
		qps[i].qp_num = 100 + i;
	return 0;
}

static int teardown_all(void **state)
{
	(void)state;
	realagent_stop();
	return 0;
}

static int begin(bool packs)
{
	alarm(300); /* what is waited for in vain */
	for (unsigned int i = 0; i < N; i++)
		if (!conns[i])
			add(i);
	connect_anew(packs);
	for (unsigned int i = 0; i < N; i++) {
		assert_true(knows(i));
		atomic_store(&n_claims[i], 0);
		atomic_store(&n_unclaims[i], 0);
	}
	atomic_store(&n_other_unclaims, 0);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return begin(true);
}

static int setup_no_packs(void **state)
{
	(void)state;
	return begin(false);
}

/* ---- UNCLAIMs that found no room --------------------------------------------------------------------------------- */

static void test_sent_again(void **state)
{
	(void)state;
	fill_socket();
	end(0);
	end(1);
	have_it_look();
	assert_true(knows(0) && knows(1));
	settle();
	assert_false(knows(0) || knows(1));
	assert_int_equal(atomic_load(&n_unclaims[0]), 1);
	assert_int_equal(atomic_load(&n_unclaims[1]), 1);
}

/* Nothing else wakes the thread. */
static void test_asleep(void **state)
{
	(void)state;
	fall_asleep();
	fill_socket();
	assert_true(is_asleep());
	end(0);
	while (is_asleep())
		usleep(100);
	/* It tries in vain, and less and less often. */
	for (int i = 0; i < 60000 && atomic_load(&sleeps_ms) < 16; i++)
		usleep(1000);
	assert_in_range(atomic_load(&sleeps_ms), 16, 20);
	while (knows(0))
		realagent_run();
	/* That is all. */
	fall_asleep();
	assert_int_equal(atomic_load(&n_unclaims[0]), 1);
}

/* What can wait is done when nothing has happened for long, before it sleeps until it is woken. */
static void test_rests(void **state)
{
	unsigned int before;

	(void)state;
	settle();
	before = atomic_load(&n_rests);
	settle();
	assert_int_equal(atomic_load(&n_rests), before);
	fall_asleep();
	assert_true(atomic_load(&n_rests) > before);
}

/* Nor does it hurry for what it cannot say. */
static void test_claim_waits(void **state)
{
	(void)state;
	fall_asleep();
	fill_socket();
	mesh_conn_unclaimed(conns[0]);
	mesh_conn_queue(conns[0], true);
	have_it_look();
	for (int i = 0; i < 60000 && atomic_load(&sleeps_ms) < 15; i++)
		usleep(1000);
	assert_in_range(atomic_load(&sleeps_ms), 15, 20);
	settle();
	assert_true(knows(0));
}

/* It waits with others in a packet that finds no room, or no memory in the kernel. */
static void test_in_pack(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		fall_asleep();
		failure = i ? ENOBUFS : EAGAIN;
		end(i);
		assert_int_equal(failure, 0);
		while (knows(i))
			realagent_run();
	}
}

/* A new queue pair has the number, and the agent reads after the thread has tried in vain, and before it claims. */
static void test_new_rc(void **state)
{
	(void)state;
	fill_socket();
	end(0);
	have_it_look();
	conns[0] = mesh_conn_new(&context, &qps[0]);
	mesh_conn_queue(conns[0], false);
	atomic_store(&meanwhile, realagent_run);
	have_it_look();
	assert_null(atomic_load(&meanwhile));
	settle();
	assert_true(knows(0));
	assert_int_equal(atomic_load(&n_claims[0]), 1);
	assert_int_equal(atomic_load(&n_unclaims[0]), 0);
	/* The claim ends with that one. */
	end(0);
	settle();
	assert_false(knows(0));
}

static void ud_add(unsigned int i)
{
	const struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	mesh_ud_modified(&context, &qps[i], &attr, IBV_QP_STATE);
}

static void ud_add_and_read(void)
{
	ud_add(0);
	realagent_run();
}

static void test_new_ud(void **state)
{
	(void)state;
	end(0);
	ud_add(0);
	settle();
	assert_true(knows(0));
	atomic_store(&n_claims[0], 0);
	atomic_store(&n_unclaims[0], 0);
	fill_socket();
	mesh_ud_gone(&context, &qps[0]);
	have_it_look();
	atomic_store(&meanwhile, ud_add_and_read);
	have_it_look();
	assert_null(atomic_load(&meanwhile));
	settle();
	assert_true(knows(0));
	assert_int_equal(atomic_load(&n_claims[0]), 1);
	assert_int_equal(atomic_load(&n_unclaims[0]), 0);
	mesh_ud_gone(&context, &qps[0]);
	settle();
	assert_false(knows(0));
}

/* Also the agent that has it claimed is not to keep it for one that is gone before its claim. */
static void test_never_claimed(void **state)
{
	(void)state;
	fill_socket();
	end(0);
	conns[0] = mesh_conn_new(&context, &qps[0]); /* not queued */
	have_it_look();
	realagent_run();
	settle();
	end(0);
	settle();
	assert_false(knows(0));
}

static void test_bound(void **state)
{
	struct mv_frame frame = {.type = MV_FRAME_UNCLAIM, .device = "mlx5_0"};
	unsigned int i;

	(void)state;
	fill_socket();
	for (i = 0; i < MESH_UNCLAIMS_MAX + 10; i++) {
		frame.qpn = 1000 + i;
		assert_int_equal(mesh_thread_frame(&frame), -EAGAIN);
	}
	settle();
	while (atomic_load(&n_other_unclaims) < MESH_UNCLAIMS_MAX)
		realagent_run();
	settle();
	/* One may be in the thread's hands. */
	assert_in_range(atomic_load(&n_other_unclaims), MESH_UNCLAIMS_MAX, MESH_UNCLAIMS_MAX + 1);
}

static void close_socket(void)
{
	close(atomic_load(&socket_fd));
}

/* Somebody closes all descriptors, and the next connection has been made before anything is said again. */
static void test_closed(void **state)
{
	uint64_t before = clients.count.connected;

	(void)state;
	fill_socket();
	end(0);
	have_it_look();
	atomic_fetch_add(&now_ns, S);
	atomic_store(&meanwhile, close_socket);
	while (clients.count.connected == before) {
		have_it_look();
		realagent_run();
	}
	settle();
	assert_int_equal(clients.count.connected, before + 1);
	assert_int_equal(atomic_load(&n_unclaims[0]), 0);
	assert_false(knows(0));
	assert_true(knows(1));
}

static void test_without_memory(void **state)
{
	const struct mv_frame unclaim = {.type = MV_FRAME_UNCLAIM, .device = "mlx5_0", .qpn = 7};
	struct mesh_unclaims unclaims = {.n = 0};
	struct mv_frame frame;

	(void)state;
	fault_arm(FAULT_ALLOC, 1, ENOMEM);
	assert_false(mesh_unclaims_add(&unclaims, &unclaim));
	fault_disarm();
	assert_false(mesh_unclaims_take(&unclaims, &frame));
	assert_true(mesh_unclaims_add(&unclaims, &unclaim));
	assert_false(mesh_unclaims_add(&unclaims, &unclaim));
	assert_true(mesh_unclaims_take(&unclaims, &frame));
	assert_int_equal(frame.type, MV_FRAME_UNCLAIM);
	assert_int_equal(frame.qpn, 7);
	assert_string_equal(frame.device, "mlx5_0");
	mesh_unclaims_drop(&unclaims);
	assert_false(mesh_unclaims_take(&unclaims, &frame));
	assert_true(mesh_unclaims_add(&unclaims, &unclaim));
	mesh_unclaims_drop(&unclaims);
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

/* It has as many as it takes, and closes each one at once. */
static void test_refused(void **state)
{
	uint64_t before = clients.count.refused, passed;

	(void)state;
	clients.max = 0;
	disconnect();
	for (passed = 0; passed < 5; passed++) {
		for (int i = 0; i < 10; i++)
			settle();
		assert_in_range(clients.count.refused - before, passed, passed + 2);
		atomic_fetch_add(&now_ns, RECONNECT_NS << passed);
	}
	/* Less and less often, */
	atomic_fetch_add(&now_ns, 32 * RECONNECT_NS);
	before = clients.count.refused;
	for (passed = 0; passed < 8; passed++) {
		settle();
		atomic_fetch_add(&now_ns, RECONNECT_NS);
	}
	assert_in_range(clients.count.refused - before, 0, 1);
	/* until it is welcome. */
	clients.max = 8;
	atomic_fetch_add(&now_ns, 32 * RECONNECT_NS);
	settle();
	assert_int_equal(clients.n, 1);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static struct got {
	uint32_t qpn, attempt; /* of the message */
} got[32];
static _Atomic unsigned int n_got;
static _Atomic uint64_t look_after_ns; /* each one */

static _Atomic uint8_t of_host; /* the last message */

uint64_t __wrap_mesh_conn_message(struct mesh_conn *conn, const struct mv_host_id *from, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint64_t now,
				    uint64_t silent);

/* The helper thread */
uint64_t __wrap_mesh_conn_message(struct mesh_conn *conn, const struct mv_host_id *from, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys, uint64_t now,
				    uint64_t silent)
{
	unsigned int n = atomic_load(&n_got);

	(void)keys;
	(void)silent;
	if (n < sizeof(got) / sizeof(got[0]))
		got[n] = (struct got){conn->qpn, msg->attempt};
	atomic_store(&of_host, from->bytes[0]);
	atomic_store(&n_got, n + 1);
	return now + atomic_load(&look_after_ns);
}

static _Atomic unsigned int n_looks; /* at the first connection */

uint64_t __wrap_mesh_conn_run(struct mesh_conn *conn, uint64_t now, uint64_t silent);
uint64_t __real_mesh_conn_run(struct mesh_conn *conn, uint64_t now, uint64_t silent);

uint64_t __wrap_mesh_conn_run(struct mesh_conn *conn, uint64_t now, uint64_t silent)
{
	if (conn == conns[0])
		atomic_fetch_add(&n_looks, 1);
	return __real_mesh_conn_run(conn, now, silent);
}

static struct mv_frame message(uint32_t qpn, uint32_t attempt)
{
	static const union ibv_gid gid = {.raw = {0xfe, 0x80, [15] = 1}};
	const struct mv_ctl_msg msg = {.type = MV_CTL_HELLO, .attempt = attempt, .from = {gid, 7}, .to = {gid, qpn}};
	struct mv_frame frame = {.type = MV_FRAME_DELIVER, .qpn = qpn};

	snprintf(frame.device, sizeof(frame.device), "mlx5_0");
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

/* While many move, news of the network are looked at when all have moved, or after a while. */
static void test_news_wait(void **state)
{
	struct mv_frame changed = {.type = MV_FRAME_CHANGED};

	(void)state;
	settle();
	atomic_store(&n_looks, 0);
	send_frames(&changed, 1, 0);
	assert_looks(true);
	atomic_store(&mesh_root.process->n_fresh, MESH_MANY_MOVING);
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
	atomic_store(&mesh_root.process->n_fresh, 0);
	assert_looks(true);
	assert_looks(false);
}

/* But what those wait for that prepare to leave a path. */
static void test_suspicion_is_urgent(void **state)
{
	const union ibv_gid local = {.raw = {1}}, remote = {.raw = {2}};
	struct mv_frame suspect = {.type = MV_FRAME_SUSPECT, .sgid = local, .dgid = remote},
			path = {.type = MV_FRAME_PATH, .sgid = local, .dgid = remote, .probed = MV_PROBED_UP};
	struct mesh_probed *probed = NULL;

	(void)state;
	mesh_probed_use(&probed, MV_WATCH_WORK, &local, &remote);
	assert_looks(true);
	atomic_store(&mesh_root.process->n_fresh, MESH_MANY_MOVING);
	send_frames(&path, 1, 0);
	assert_looks(false);
	atomic_fetch_add(&now_ns, 100 * MS);
	assert_looks(true);
	send_frames(&suspect, 1, 0);
	assert_looks(false);
	atomic_store(&mesh_root.process->n_prepared, 1);
	send_frames(&path, 1, 0);
	assert_looks(true);
	send_frames(&path, 1, 0);
	assert_looks(false);
	/* Nobody has prepared for it: a port is down, and all is known. */
	atomic_store(&mesh_root.process->n_prepared, 0);
	send_frames(&suspect, 1, 0);
	send_frames(&path, 1, 0);
	assert_looks(false);
	atomic_fetch_add(&now_ns, 100 * MS);
	assert_looks(true);
	suspect.sgid = remote; /* nobody's */
	send_frames(&suspect, 1, 0);
	atomic_fetch_add(&now_ns, 100 * MS);
	assert_looks(false);
	atomic_store(&mesh_root.process->n_fresh, 0);
	mesh_probed_use(&probed, MV_WATCH_WORK, NULL, NULL);
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
		cmocka_unit_test(test_without_memory), /* before there is a thread, which allocates as well */
		cmocka_unit_test_setup(test_sent_again, setup),
		cmocka_unit_test_setup(test_sent_again, setup_no_packs),
		cmocka_unit_test_setup(test_asleep, setup),
		cmocka_unit_test_setup(test_rests, setup),
		cmocka_unit_test_setup(test_claim_waits, setup),
		cmocka_unit_test_setup(test_asleep, setup_no_packs),
		cmocka_unit_test_setup(test_in_pack, setup),
		cmocka_unit_test_setup(test_new_rc, setup),
		cmocka_unit_test_setup(test_new_rc, setup_no_packs),
		cmocka_unit_test_setup(test_new_ud, setup),
		cmocka_unit_test_setup(test_new_ud, setup_no_packs),
		cmocka_unit_test_setup(test_never_claimed, setup),
		cmocka_unit_test_setup(test_bound, setup),
		cmocka_unit_test_setup(test_closed, setup),
		cmocka_unit_test_setup(test_refused, setup),
		cmocka_unit_test_setup(test_messages, setup),
		cmocka_unit_test_setup(test_messages, setup_no_packs),
		cmocka_unit_test_setup(test_strange_messages, setup),
		cmocka_unit_test_setup(test_last_messages, setup),
		cmocka_unit_test_setup(test_looked_at_later, setup),
		cmocka_unit_test_setup(test_news_wait, setup),
		cmocka_unit_test_setup(test_suspicion_is_urgent, setup),
		cmocka_unit_test_setup(test_restarted, setup),
	};

	return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
