/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The owner of a queue pair, as RDMA netlink tells: a registration is refused where the process is not the owner. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_netlink.h>

#include "clientpairs.h"
#include "fault.h"
#include "resqpkernel.h"

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
	/* No pid: a QP of the kernel, or of a thread that has ended. */
	assert_int_equal(parse_owner(&qp, qp.head.nlmsg_len, 77, &found), -ESRCH);
	assert_int_equal(found, 9);
	put_attr(&qp, RDMA_NLDEV_ATTR_RES_PID, &pid, 4);
	assert_int_equal(parse_owner(&qp, qp.head.nlmsg_len, 77, &found), 4711);
	assert_int_equal(parse_owner(&qp, qp.head.nlmsg_len, 78, &found), 0);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		memcpy(error.body, &errors[i].err, sizeof(errors[i].err));
		assert_int_equal(parse_owner(&error, error.head.nlmsg_len, 77, &found), errors[i].says);
	}
	/* The message is cut anywhere: nothing is read beyond its end (ASan would see it). */
	for (size_t cut = 0; cut < qp.head.nlmsg_len; cut++) {
		char *exact = malloc(cut ? cut : 1);

		memcpy(exact, &qp, cut);
		assert_int_equal(parse_owner(exact, cut, 77, &found), 0);
		free(exact);
	}
}

/* On the kernel of this machine: no owner of a device that does not exist. */
static void test_resqp_live(void **state)
{
	struct md_resqp resqp;

	(void)state;
	md_resqp_open(&resqp);
	assert_int_equal(md_resqp_owner(&resqp, "no_such_device", 1, 0), 0);
	md_resqp_close(&resqp);
	assert_int_equal(md_resqp_owner(&resqp, "no_such_device", 1, 0), 0);
}

/* ib_core is loaded after the agent: md_resqp opens its socket when devices come, once. */
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

static uint64_t owner_of(uint32_t qpn)
{
	struct md_qp_key key = md_qp_key_make("mlx5_0", qpn);
	const struct md_qp *qp = md_qps_find(&clients.qps, &key);

	assert_non_null(qp);
	return qp->owner;
}

/* A process ends, another process gets its queue pair's number, and only then the first one's connection ends. */
static void test_stale_registration(void **state)
{
	int a = registered(), b = registered();
	struct mv_frame frame;

	(void)state;
	register_qp(a, "mlx5_0", 5);
	md_clients_find(&clients, 1)->pid = ANOTHER_PID;
	register_qp(b, "mlx5_0", 5);
	assert_int_equal(n_questions, 2);
	assert_int_equal(clients.count.registrations_refused, 0);
	assert_int_equal(clients.qps.n, 1);
	assert_int_equal(next_frame(b, &frame), 0);
	/* The first process cannot send for the queue pair any more, */
	send_message(a, "10.1.0.1", 5);
	assert_int_equal(clients.count.not_its_own, 1);
	assert_int_equal(n_sent, 0);
	send_message(b, "10.1.0.1", 5);
	assert_int_equal(n_sent, 1);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 5, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(a, &frame), 0);
	assert_int_equal(next_frame(b, &frame), MV_FRAME_DELIVER);
	/* nor unregister it, register it again, or end its registration by ending. */
	unregister_qp(a, "mlx5_0", 5);
	assert_int_equal(owner_of(5), 2);
	register_qp(a, "mlx5_0", 5);
	assert_int_equal(clients.count.registrations_refused, 1);
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

/* A queue pair goes only to the process that the kernel names. */
static void test_registration_of_anothers(void **state)
{
	int a = registered(), b = registered();
	struct md_client *holder = md_clients_find(&clients, 1), *asker = md_clients_find(&clients, 2);
	const uid_t uid = holder->uid;
	unsigned int before;

	(void)state;
	register_qp(a, "mlx5_0", 7);
	holder->pid = ANOTHER_PID;
	register_qp(a, "mlx5_0", ANOTHERS);
	assert_int_equal(clients.count.registrations, 2);
	register_qp(b, "mlx5_0", ANOTHERS);
	register_qp(b, "mlx5_0", UNTOLD);
	register_qp(b, "mlx5_0", GONE);
	assert_int_equal(n_questions, 5);
	assert_int_equal(clients.count.registrations_refused, 3);
	assert_int_equal(owner_of(ANOTHERS), 1);
	assert_false(has_qp(UNTOLD) || has_qp(GONE));
	/* A process whose pid is not known here gets none. */
	asker->pid = 0;
	register_qp(b, "mlx5_0", 7);
	assert_int_equal(owner_of(7), 1);
	asker->pid = getpid();
	before = n_questions;
	/* The process has ended, its connection was passed on, and its pid is another user's by now. */
	holder->pid = getpid();
	holder->uid = uid + 1;
	register_qp(b, "mlx5_0", 7);
	holder->uid = uid;
	assert_int_equal(owner_of(7), 1);
	assert_int_equal(n_questions, before);
	assert_int_equal(clients.count.registrations_refused, 5);
	/* A process has connected anew before its last connection has ended here. */
	register_qp(b, "mlx5_0", 7);
	assert_int_equal(owner_of(7), 2);
	/* A registration that was refused for another's queue pair is not granted later. */
	close(a);
	run_events();
	assert_false(has_qp(ANOTHERS));
	close(b);
}

/* A child that inherited the connection, or a process that received it, can register and send nothing over it. */
static void test_connection_passed_on(void **state)
{
	int a = registered(), status;
	pid_t child = fork();

	(void)state;
	assert_true(child >= 0);
	if (!child) {
		send_registrations(a, 5, 6);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	run_events();
	assert_false(has_qp(5) || has_qp(6));
	assert_int_equal(n_questions, 0);
	assert_int_equal(clients.count.malformed, 1);
	assert_int_equal(clients.n, 1);
	register_qp(a, "mlx5_0", 5);
	assert_true(has_qp(5));
	close(a);
}

/* A connection outlives its process. The pid is another user's process by now, which makes queue pairs. */
static void test_process_has_ended(void **state)
{
	int a = registered(), b = registered(), status;
	struct md_client *old = md_clients_find(&clients, 1);
	pid_t child;

	(void)state;
	register_qp(a, "mlx5_0", 5);
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
	/* The connection registers nothing more, sends nothing for its queue pairs, */
	register_qp(a, "mlx5_0", 6);
	assert_false(has_qp(6));
	assert_int_equal(n_questions, 1);
	/* and keeps no queue pair from the process that has the number now. */
	register_qp(b, "mlx5_0", 5);
	assert_int_equal(owner_of(5), 2);
	register_qp(b, "mlx5_0", 7);
	md_clients_find(&clients, 2)->process = old->process;
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 7, (const uint8_t *)"x", 1));
	assert_false(has_qp(7));
	md_clients_find(&clients, 2)->process = -1;
	close(a);
	close(b);
}

/* The port of a queue pair is found by asking for each port. A queue pair on no port has no owner yet. */
static void test_qp_of_a_port(void **state)
{
	int a = registered();

	(void)state;
	register_qp(a, "mlx5_0", ON_PORT_2);
	assert_int_equal(owner_of(ON_PORT_2), 1);
	register_qp(a, "mlx5_0", 1);
	assert_int_equal(owner_of(1), 1);
	register_qp(a, "mlx5_0", NO_PORT);
	assert_false(has_qp(NO_PORT));
	assert_int_equal(clients.count.registrations_refused, 1);
	close(a);
}

/* The thread that made the queue pair has ended: the maker of its protection domain, or of its context, is the owner. */
static void test_qp_of_a_thread_that_ended(void **state)
{
	int a = registered(), b = registered();

	(void)state;
	md_clients_find(&clients, 1)->pid = ANOTHER_PID;
	register_qp(a, "mlx5_0", ORPHAN);
	assert_int_equal(clients.count.registrations_refused, 1);
	register_qp(b, "mlx5_0", ORPHAN);
	assert_int_equal(owner_of(ORPHAN), 2);
	close(a);
	close(b);
}

/* Every registration is refused where the kernel cannot be asked, or does not list the device. */
static void test_kernel_that_cannot_be_asked(void **state)
{
	struct mv_frame frame;
	int a = registered();

	(void)state;
	register_qp(a, "mlx5_1", 1);
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	md_resqp_close(&clients.questions.resqp);
	register_qp(a, "mlx5_0", 1);
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	assert_int_equal(clients.count.registrations_refused, 2);
	assert_int_equal(clients.qps.n, 0);
	send_message(a, "10.1.0.1", 1);
	assert_int_equal(clients.count.not_its_own, 1);
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 1, (const uint8_t *)"x", 1));
	close(a);
}

/* The kernel answers by an error for a while: messages are dropped, registrations stay. */
static void test_kernel_that_fails(void **state)
{
	struct mv_frame frame;
	int a = registered();

	(void)state;
	register_qp(a, "mlx5_0", 1);
	register_qp(a, "mlx5_0", 2);
	send_message(a, "10.1.0.1", 2);
	broken = true;
	send_message(a, "10.1.0.1", 1);
	send_message(a, "10.1.0.1", 2);
	md_clients_doubt(&clients, "mlx5_0", 2);
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 2, (const uint8_t *)"x", 1));
	assert_int_equal(n_sent, 1);
	assert_int_equal(next_frame(a, &frame), 0);
	assert_true(has_qp(1) && has_qp(2));
	broken = false;
	send_message(a, "10.1.0.1", 1);
	assert_int_equal(n_sent, 2);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 2, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(a, &frame), MV_FRAME_DELIVER);
	/* Another process may still take over a QP that is its own by then. */
	broken = true;
	md_clients_doubt(&clients, "mlx5_0", 1);
	send_message(a, "10.1.0.1", 1);
	broken = false;
	given_away = ANOTHER_PID;
	send_message(a, "10.1.0.1", 1);
	assert_false(has_qp(1));
	close(a);
}

/* The number is another process's when the first message is sent or delivered: the message is dropped. */
static void test_qp_given_away(void **state)
{
	struct mv_frame frame;
	int a = registered();

	(void)state;
	register_qp(a, "mlx5_0", 1);
	register_qp(a, "mlx5_0", 2);
	register_qp(a, "mlx5_0", 3);
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
	/* QP 3 has been confirmed: the kernel is not asked again for a message that names the receiver's attempt. */
	named = 5;
	send_message(a, "10.1.0.1", 3);
	named = 0;
	assert_int_equal(n_sent, 2);
	assert_true(md_clients_deliver(&clients, &sender, "mlx5_0", 3, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(a, &frame), MV_FRAME_DELIVER);
	/* The number's next owner begins a conversation: the last owner receives nothing of it, and sends nothing in it. */
	md_clients_doubt(&clients, "mlx5_0", 3);
	assert_false(md_clients_deliver(&clients, &sender, "mlx5_0", 3, (const uint8_t *)"x", 1));
	assert_int_equal(next_frame(a, &frame), MV_FRAME_REFUSED);
	given_away = 0;
	register_qp(a, "mlx5_0", 4);
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

/* The kernel names the thread that made the queue pair, which need not be the main thread of its process. */
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
	register_qp(a, "mlx5_0", THREADS);
	assert_int_equal(clients.count.registrations_refused, 1);
	register_qp(b, "mlx5_0", THREADS);
	assert_int_equal(clients.count.registrations_refused, 1);
	assert_int_equal(owner_of(THREADS), 2);
	/* A seccomp filter may hide which process a thread belongs to: then the thread is no owner. */
	unregister_qp(b, "mlx5_0", THREADS);
	clients.questions.resqp.tells_threads = false;
	register_qp(b, "mlx5_0", THREADS);
	assert_int_equal(clients.count.registrations_refused, 2);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
	close(a);
	close(b);
}

/* The index of a device is remembered: the kernel's devices are dumped only now and then. */
static void test_device_index_is_kept(void **state)
{
	const uint64_t now_ns = 1000 * MD_S;
	pid_t pid = getpid();

	(void)state;
	assert_int_equal(md_resqp_owner(&clients.questions.resqp, "mlx5_0", 1, now_ns), pid);
	assert_int_equal(md_resqp_owner(&clients.questions.resqp, "mlx5_0", 2, now_ns + MD_INDEX_NS - 1), pid);
	assert_int_equal(n_dumps, 1);
	assert_int_equal(md_resqp_owner(&clients.questions.resqp, "mlx5_0", 2, now_ns + MD_INDEX_NS), pid);
	assert_int_equal(n_dumps, 2);
	md_resqp_forget(&clients.questions.resqp);
	assert_int_equal(md_resqp_owner(&clients.questions.resqp, "mlx5_0", ANOTHERS, now_ns + MD_INDEX_NS), ANOTHER_PID);
	assert_int_equal(n_dumps, 3);
	for (int i = 0; i < 2 * MD_RAILS_MAX; i++) {
		char name[IBV_SYSFS_NAME_MAX];

		snprintf(name, sizeof(name), "made_up_%d", i);
		assert_int_equal(md_resqp_owner(&clients.questions.resqp, name, 1, now_ns), 0);
	}
	assert_int_equal(clients.questions.resqp.n_known, 1);
	n_dumps = 0;
	assert_int_equal(md_resqp_owner(&clients.questions.resqp, "mlx5_0", 1, now_ns + MD_INDEX_NS), pid);
	assert_int_equal(n_dumps, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_resqp_answers),
		cmocka_unit_test(test_resqp_live),
		cmocka_unit_test(test_resqp_comes_later),
		cmocka_unit_test_setup_teardown(test_stale_registration, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_registration_of_anothers, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_connection_passed_on, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_process_has_ended, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_qp_of_a_thread, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_qp_of_a_port, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_qp_of_a_thread_that_ended, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_kernel_that_cannot_be_asked, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_kernel_that_fails, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_qp_given_away, setup_kernel, teardown_kernel),
		cmocka_unit_test_setup_teardown(test_device_index_is_kept, setup_kernel, teardown_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
