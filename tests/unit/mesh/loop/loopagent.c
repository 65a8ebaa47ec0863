// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "loopagent.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agentlink.h"
#include "fault.h"
#include "realagent.h"

struct mesh_process process;
struct mesh_context context = {.device = "mlx5_0"};
struct ibv_qp qps[N];
struct mesh_conn *conns[N]; /* NULL: gone */

_Atomic uint64_t now_ns = 1000 * S;
_Atomic int64_t sleeps_ms; /* for how long, as it said last; -1: until it is woken */
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

void (*_Atomic meanwhile)(void); /* in the thread's next turn, between what it says again and what it registers */

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

_Thread_local int failure; /* of what this thread sends next: an errno */
_Atomic int socket_fd; /* by which something was sent last, but for the bytes that wake the thread */

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

bool __wrap_mesh_directory_agent(void);

bool __wrap_mesh_directory_agent(void)
{
	return true;
}

_Atomic unsigned int n_rests;

void __wrap_mesh_directory_rest(void);
void __real_mesh_directory_rest(void);

void __wrap_mesh_directory_rest(void)
{
	atomic_fetch_add(&n_rests, 1);
	__real_mesh_directory_rest();
}

static struct ibv_qp_ex *no_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL;
}

_Atomic unsigned int n_registrations[N], n_unregistrations[N], n_other_unregistrations;

void __wrap_md_client_register_qp(struct md_client *client, const struct mv_frame *frame);
void __real_md_client_register_qp(struct md_client *client, const struct mv_frame *frame);
void __wrap_md_client_unregister_qp(struct md_client *client, const struct mv_frame *frame);
void __real_md_client_unregister_qp(struct md_client *client, const struct mv_frame *frame);

void __wrap_md_client_register_qp(struct md_client *client, const struct mv_frame *frame)
{
	if (frame->qpn - 100 < N)
		atomic_fetch_add(&n_registrations[frame->qpn - 100], 1);
	__real_md_client_register_qp(client, frame);
}

void __wrap_md_client_unregister_qp(struct md_client *client, const struct mv_frame *frame)
{
	atomic_fetch_add(frame->qpn - 100 < N ? &n_unregistrations[frame->qpn - 100] : &n_other_unregistrations, 1);
	__real_md_client_unregister_qp(client, frame);
}

bool knows(unsigned int i)
{
	const struct md_qp_key key = md_qp_key_make("mlx5_0", qps[i].qp_num);

	return md_qps_find(&clients.qps, &key);
}

void have_it_look(void)
{
	for (int i = 0; i < 2; i++) {
		mesh_conn_queue(conns[N - 1], true);
		assert_int_equal(mesh_thread_wake(true), 0);
		while (mesh_conns_changed() || !atomic_load(&sleeps))
			usleep(100);
	}
}

void settle(void)
{
	for (int i = 0; i < 4; i++) {
		realagent_run();
		have_it_look();
	}
	realagent_run();
}

static void add(unsigned int i)
{
	conns[i] = mesh_conn_new(&context, &qps[i]);
	assert_non_null(conns[i]);
	mesh_conn_queue(conns[i], true);
	assert_int_equal(mesh_thread_wake(true), 0);
}

void disconnect(void)
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

int setup_all(void **state)
{
	const char *dir = realagent_start();

	(void)state;
	assert_true(strlen(dir) < sizeof(mesh_root.run_dir));
	strcpy(mesh_root.run_dir, dir);
	md_resqp_close(&clients.questions.resqp);
	mesh_root.process = &process;
	mesh_root.lib.verbs.qp_to_qp_ex = no_qp_ex;
	for (unsigned int i = 0; i < N; i++)
		qps[i].qp_num = 100 + i;
	return 0;
}

int teardown_all(void **state)
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
		atomic_store(&n_registrations[i], 0);
		atomic_store(&n_unregistrations[i], 0);
	}
	atomic_store(&n_other_unregistrations, 0);
	return 0;
}

int setup(void **state)
{
	(void)state;
	return begin(true);
}

int setup_no_packs(void **state)
{
	(void)state;
	return begin(false);
}

struct got got[32];
_Atomic unsigned int n_got;
_Atomic uint64_t look_after_ns; /* each one */

_Atomic uint8_t of_host; /* the last message */

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

_Atomic unsigned int n_looks; /* at the first connection */

uint64_t __wrap_mesh_conn_run(struct mesh_conn *conn, uint64_t now, uint64_t silent);
uint64_t __real_mesh_conn_run(struct mesh_conn *conn, uint64_t now, uint64_t silent);

uint64_t __wrap_mesh_conn_run(struct mesh_conn *conn, uint64_t now, uint64_t silent)
{
	if (conn == conns[0])
		atomic_fetch_add(&n_looks, 1);
	return __real_mesh_conn_run(conn, now, silent);
}
