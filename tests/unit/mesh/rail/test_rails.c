// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A NIC that is reset or taken away under a running process: the helper thread finds out and sleeps on, and the NIC is used again. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "connpath.h"
#include "fault.h"
#include "prearm.h"
#include "ud.h"

#define DEVICE	  "mlx5_1"
#define LIMIT_MS  20000 /* generous: nothing here depends on time */
#define SECOND_NS 1000000000ull
/* How often the helper thread may look in that time; one that spins does so a hundred thousand times. */
#define QUIET_US  300000
#define MAX_TURNS 30u

/* ---- a libibverbs with one device ---------------------------------------------------------------------------- */

struct opened {
	struct ibv_context context;
	struct ibv_comp_channel channel;
	int async[2], events[2]; /* [0] is the plugin's */
	_Atomic unsigned int n_fatal; /* DEVICE_FATAL to be read */
	_Atomic bool closed;
};

static struct ibv_device device = {.name = DEVICE};
static struct opened opened[4];
static unsigned int n_opened;
static _Atomic unsigned int n_pds; /* PDs are given back by a thread of the device */
static bool refuses;

static struct ibv_device **get_device_list(int *n)
{
	static struct ibv_device *list[] = {&device, NULL};

	*n = 1;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	(void)list;
}

static struct opened *opened_by(struct ibv_context *context)
{
	return (struct opened *)((char *)context - offsetof(struct opened, context));
}

static struct ibv_context *open_device(struct ibv_device *of)
{
	struct opened *o = &opened[n_opened];

	assert_ptr_equal(of, &device);
	errno = EIO;
	if (refuses)
		return NULL;
	assert_true(n_opened < sizeof(opened) / sizeof(opened[0]));
	n_opened++;
	*o = (struct opened){.context = {.device = of}};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, o->async), 0);
	o->context.async_fd = o->async[0];
	o->context.cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_true(o->context.cmd_fd >= 0);
	return &o->context;
}

static int close_device(struct ibv_context *context)
{
	struct opened *o = opened_by(context);
	int ret;

	assert_false(o->closed);
	assert_int_equal(close(o->context.cmd_fd), 0);
	ret = close(o->async[0]);
	o->closed = true; /* the last: who waits for it opens the next one in this place */
	return ret;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
	struct opened *o = opened_by(context);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, o->events), 0);
	o->channel = (struct ibv_comp_channel){.context = context, .fd = o->events[0]};
	return &o->channel;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return close(channel->fd);
}

/* Of a rail whose descriptors are the program's by now nothing is given back. */
static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	static struct ibv_pd pds[64];
	static unsigned int n;
	struct ibv_pd *pd = &pds[n++ % 64];

	pd->context = context;
	n_pds++;
	return pd;
}

/* As the kernel may do it when the device is gone. */
static int dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	n_pds--;
	return EIO;
}

static struct ibv_mr mr;

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	(void)pd;
	(void)addr;
	(void)length;
	(void)iova;
	(void)access;
	return &mr;
}

static int dereg_mr(struct ibv_mr *which)
{
	assert_ptr_equal(which, &mr);
	return EIO;
}

int __wrap_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void __wrap_ibv_ack_async_event(struct ibv_async_event *event);

int __wrap_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct opened *o = opened_by(context);
	char byte;

	if (read(context->async_fd, &byte, 1) != 1)
		return -1;
	*event = (struct ibv_async_event){.event_type = o->n_fatal ? IBV_EVENT_DEVICE_FATAL : IBV_EVENT_GID_CHANGE};
	o->n_fatal = 0;
	return 0;
}

void __wrap_ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

/* ---- the helper thread ---------------------------------------------------------------------------------------- */

static struct mesh_process process; /* of all tests, as is the helper thread, which never ends */
static struct mesh_rail *_Atomic to_watch;
static _Atomic unsigned int n_turns;

uint64_t __wrap_mesh_ud_run(uint64_t now_ns);
void __wrap_mesh_thread_rail(struct mesh_rail *rail);
void __real_mesh_thread_rail(struct mesh_rail *rail);

/* Each turn of it comes by here. */
uint64_t __wrap_mesh_ud_run(uint64_t now_ns)
{
	struct mesh_rail *rail = atomic_load(&to_watch);

	(void)now_ns;
	atomic_fetch_add(&n_turns, 1);
	if (rail)
		__real_mesh_thread_rail(rail);
	atomic_store(&to_watch, NULL);
	return UINT64_MAX;
}

/* It is called by the test, in place of that thread. */
void __wrap_mesh_thread_rail(struct mesh_rail *rail)
{
	atomic_store(&to_watch, rail);
	while (atomic_load(&to_watch)) {
		assert_int_equal(mesh_thread_wake(true), 0);
		usleep(1000);
	}
}

static bool gets_lost(const struct mesh_rail *rail)
{
	unsigned int ms;

	for (ms = 0; ms < LIMIT_MS && !mesh_rail_lost(rail); ms++)
		usleep(1000);
	return mesh_rail_lost(rail);
}

/* By the helper thread, who has it last. */
static void gets_closed(struct opened *o)
{
	unsigned int ms;

	shutdown(o->events[1], SHUT_RDWR);
	for (ms = 0; ms < LIMIT_MS && !o->closed; ms++)
		usleep(1000);
	assert_true(o->closed);
	assert_null(mesh_root.rails);
}

static void sleeps(void)
{
	unsigned int before;

	usleep(20000); /* it has something to do, too */
	before = atomic_load(&n_turns);
	usleep(QUIET_US);
	assert_in_range(atomic_load(&n_turns) - before, 0, MAX_TURNS);
}

/* ---- the tests ------------------------------------------------------------------------------------------------ */

static struct ibv_context program;
static struct ibv_pd program_pd = {.context = &program};
static struct mesh_context mc = {.can_move = true, .generation = 1, .device = "mlx5_0"};

static struct mesh_rail *get_rail(void)
{
	char why[256] = "";

	return mesh_rail_get(DEVICE, why, sizeof(why));
}

static struct mesh_pd *get_pd(struct mesh_rail *rail)
{
	char why[256] = "";

	return mesh_pd_get(&mc, &program_pd, rail, why, sizeof(why));
}

/* Once: the helper thread reads it. */
static int setup_all(void **state)
{
	const struct mesh_verbs verbs = {
		.get_device_list = get_device_list,
		.free_device_list = free_device_list,
		.open_device = open_device,
		.create_comp_channel = create_comp_channel,
		.destroy_comp_channel = destroy_comp_channel,
		.alloc_pd = alloc_pd,
		.dealloc_pd = dealloc_pd,
		.reg_mr_iova2 = reg_mr,
		.dereg_mr = dereg_mr,
	};

	(void)state;
	process.generation = 1;
	mesh_root.process = &process;
	mesh_root.lib.verbs = verbs;
	mesh_root.lib.close_device = close_device;
	mesh_root.calibration_confirmed = true;
	mesh_root.config.survive = MV_SURVIVE_ON;
	mesh_root.config.prearm = false; /* the NIC and the PD only */
	return 0;
}

static int setup(void **state)
{
	(void)state;
	n_opened = 0;
	n_pds = 0;
	refuses = false;
	return 0;
}

static int teardown(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < n_opened; i++) {
		close(opened[i].async[1]);
		close(opened[i].events[1]);
	}
	return 0;
}

struct marker {
	struct mesh_device_job job;
	_Atomic bool done;
};

static void done(struct mesh_device_job *job)
{
	((struct marker *)job)->done = true;
}

/* What a device's thread runs may give it more to do: a PD its rail. */
static void run_out(struct mesh_device *commands)
{
	unsigned int round;

	for (round = 0; round < 3; round++) {
		struct marker marker = {.job.run = done};

		mesh_device_do(commands, &marker.job);
		while (!marker.done)
			usleep(100);
	}
}

static void put_rail(struct mesh_rail *rail)
{
	struct mesh_device *commands = rail->commands;

	mesh_rail_put(rail);
	run_out(commands);
}

static void put_pd(struct mesh_pd *spd)
{
	struct mesh_device *commands = spd->rail->commands;

	mesh_pd_put(spd);
	run_out(commands);
}

/*
 * The device is there again under the same name, and what was made before goes in its own time; of what belongs to numbers that have been
 * taken over nothing goes.
 */
static void opened_anew(struct mesh_rail *rail, struct mesh_pd *spd)
{
	unsigned int n_left = !mesh_rail_intact(rail);
	struct mesh_rail *again = get_rail();
	struct mesh_pd *spd_again;

	assert_non_null(again);
	assert_ptr_not_equal(again, rail);
	assert_int_equal(n_opened, 2);
	assert_null(get_pd(rail));
	spd_again = get_pd(again);
	assert_non_null(spd_again);
	assert_ptr_not_equal(spd_again, spd);
	assert_ptr_equal(spd_again->pd->context, &opened[1].context);
	assert_int_equal(n_pds, 2);
	assert_false(opened[0].closed);
	put_rail(rail);
	put_pd(spd);
	assert_int_equal(n_pds, 1 + n_left);
	put_pd(spd_again);
	mesh_pds_close(&program);
	assert_int_equal(n_pds, n_left);
	put_rail(again);
	assert_null(mesh_root.rails);
	assert_true(opened[1].closed);
}

static void use(struct mesh_rail **ret, struct mesh_pd **ret_spd)
{
	*ret = get_rail();
	assert_non_null(*ret);
	*ret_spd = get_pd(*ret);
	assert_non_null(*ret_spd);
	mesh_thread_rail(*ret);
	sleeps();
	assert_false(mesh_rail_lost(*ret));
}

/* What a kernel does that closes all event files. */
static void test_hung_up(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		n_opened = 0;
		use(&rail, &spd);
		shutdown(i ? opened[0].async[1] : opened[0].events[1], SHUT_RDWR);
		assert_true(gets_lost(rail));
		sleeps();
		opened_anew(rail, spd);
		assert_true(opened[0].closed);
	}
}

/* The event alone: the device is in a state from which nothing but a reset helps. */
static void test_fatal(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;

	(void)state;
	use(&rail, &spd);
	opened[0].n_fatal = 1;
	assert_int_equal(write(opened[0].async[1], "", 1), 1);
	assert_true(gets_lost(rail));
	sleeps();
	opened_anew(rail, spd);
	assert_true(opened[0].closed);
}

/* The program has closed all descriptors, as daemons do, and opens its own: they are not ours to read from, or to close. */
static void test_numbers_of_others(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int fds[2];

	(void)state;
	use(&rail, &spd);
	fds[0] = opened[0].events[0];
	fds[1] = opened[0].async[0];
	close(fds[1]);
	close(fds[0]);
	assert_true(gets_lost(rail));
	sleeps();
	assert_int_equal(dup2(STDERR_FILENO, fds[0]), fds[0]);
	assert_int_equal(dup2(STDERR_FILENO, fds[1]), fds[1]);
	opened_anew(rail, spd);
	assert_false(opened[0].closed);
	assert_true(fcntl(fds[0], F_GETFD) >= 0 && fcntl(fds[1], F_GETFD) >= 0);
	close(fds[0]);
	close(fds[1]);
}

/* A stream of the program's has the number of one of ours, and data in it. */
static void take_number(int number, int ret_ends[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ret_ends), 0);
	assert_int_equal(send(ret_ends[1], "hello", 5, 0), 5);
	assert_int_equal(dup2(ret_ends[0], number), number);
}

static void assert_untouched(int number, const int ends[2])
{
	char buf[16];

	assert_int_equal(recv(number, buf, sizeof(buf), MSG_DONTWAIT), 5);
	assert_int_equal(recv(ends[1], buf, sizeof(buf), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN); /* nobody has written there */
}

static int number_of(const struct opened *o, int which)
{
	return which == MESH_RAIL_COMP ? o->events[0] : which == MESH_RAIL_ASYNC ? o->async[0] : o->context.cmd_fd;
}

/* Neither read by the helper thread, nor used for a command, nor closed. */
static void test_number_taken_over(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int which, number, ends[2];

	(void)state;
	for (which = 0; which < MESH_RAIL_FILES; which++) {
		n_opened = 0;
		n_pds = 0;
		use(&rail, &spd);
		number = number_of(&opened[0], which);
		/* Of event files it hears before it looks by itself again, which it does after 50 ms. */
		assert_int_equal(mesh_thread_wake(true), 0);
		usleep(2000);
		take_number(number, ends);
		if (which == MESH_RAIL_CMD)
			usleep(60000);
		assert_int_equal(mesh_thread_wake(true), 0);
		assert_true(gets_lost(rail));
		sleeps();
		assert_int_equal(opened[0].context.cmd_fd, -1);
		assert_int_equal(opened[0].context.async_fd, -1);
		assert_int_equal(opened[0].channel.fd, -1);
		opened_anew(rail, spd);
		assert_false(opened[0].closed);
		assert_untouched(number, ends);
		close(number);
		close(ends[0]);
		close(ends[1]);
	}
}

/* A program that becomes a daemon. The helper thread, too, has lost all it waits for. */
static void test_all_taken_over(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int ends[8][2], i;

	(void)state;
	use(&rail, &spd);
	closefrom(3);
	n_opened = 0; /* nothing for teardown to close */
	for (i = 0; i < 8; i++) {
		/* ThreadSanitizer takes it for a race that another thread looks at a number that is given out anew. That is what is tested. */
		assert_int_equal(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
		assert_int_equal(send(ends[i][0], "hello", 5, 0), 5);
		assert_int_equal(send(ends[i][1], "hello", 5, 0), 5);
	}
	assert_int_equal(mesh_thread_wake(true), 0);
	assert_true(gets_lost(rail));
	sleeps();
	put_pd(spd);
	mesh_pds_close(&program);
	put_rail(rail);
	assert_false(opened[0].closed);
	for (i = 0; i < 16; i++) {
		char buf[16];

		assert_int_equal(recv(ends[i / 2][i % 2], buf, sizeof(buf), MSG_DONTWAIT), 5);
	}
	for (i = 0; i < 16; i++)
		close(ends[i / 2][i % 2]);
}

/* The last one who has it does not need the helper thread to see that. */
static void test_put_after_taken_over(void **state)
{
	struct mesh_rail *rail;
	struct mesh_pd *spd;
	int which, number, ends[2];

	(void)state;
	for (which = 0; which < MESH_RAIL_FILES; which++) {
		n_opened = 0;
		n_pds = 0;
		rail = get_rail();
		spd = get_pd(rail);
		assert_non_null(spd);
		number = number_of(&opened[0], which);
		take_number(number, ends);
		put_pd(spd);
		mesh_pds_close(&program);
		assert_int_equal(n_pds, 1);
		put_rail(rail);
		assert_null(mesh_root.rails);
		assert_false(opened[0].closed);
		assert_untouched(number, ends);
		close(number);
		close(ends[0]);
		close(ends[1]);
	}
}

/* Of the same device: not told from ours by its inode. And who wants the rail before anybody has noticed gets a new one. */
static void test_device_taken_over(void **state)
{
	struct mesh_rail *rail = get_rail(), *again;
	int number = opened[0].context.cmd_fd, own = open("/dev/null", O_RDWR);

	(void)state;
	assert_true(own >= 0);
	assert_int_equal(dup2(own, number), number);
	again = get_rail();
	assert_non_null(again);
	assert_ptr_not_equal(again, rail);
	put_rail(rail);
	assert_false(opened[0].closed);
	assert_true(fcntl(number, F_GETFD) >= 0);
	put_rail(again);
	assert_true(opened[1].closed);
	close(number);
	close(own);
}

/* Nobody has it but the helper thread. */
static void test_last_user(void **state)
{
	struct mesh_rail *rail = get_rail();

	(void)state;
	mesh_thread_rail(rail);
	put_rail(rail);
	gets_closed(&opened[0]);
	sleeps();
}

/* ---- what is made ahead --------------------------------------------------------------------------------------- */

void __wrap_mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret);
int __wrap_mesh_view_rail(const union ibv_gid *gid, uint8_t type, struct mesh_view_rail *ret);

static bool has_path;

void __wrap_mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret)
{
	(void)request;
	*ret = (struct mesh_view){.n_paths = has_path, .paths = {{.local_gid = {.raw = {1}}, .remote_gid = {.raw = {2}}}}};
}

int __wrap_mesh_view_rail(const union ibv_gid *gid, uint8_t type, struct mesh_view_rail *ret)
{
	(void)gid;
	(void)type;
	*ret = (struct mesh_view_rail){.device = DEVICE, .port = 1};
	return 0;
}

static struct ibv_qp qp = {.pd = &program_pd};
static struct mesh_conn conn;

static struct mesh_rail *ahead(void)
{
	uint64_t now_ns = mesh_now_ns();

	has_path = true;
	conn = (struct mesh_conn){.qp = &qp, .mc = &mc, .state = MESH_CONN_NATIVE};
	assert_true(mesh_conn_prearm(&conn, now_ns) == UINT64_MAX);
	assert_non_null(conn.home.spare);
	return conn.home.spare->rail;
}

/* What waits there for the next move is found dead, and made anew on the new one. */
static void test_ahead(void **state)
{
	struct mesh_rail *rail = ahead();
	uint64_t now_ns;

	(void)state;
	mesh_rail_ref(rail);
	shutdown(opened[0].events[1], SHUT_RDWR); /* nothing was ever moved there, and still we hear of it */
	assert_true(gets_lost(rail));
	sleeps();
	/* Not at once: one that is lost again and again is not opened all the time. */
	now_ns = mesh_now_ns();
	assert_in_range(mesh_conn_prearm(&conn, now_ns), now_ns, now_ns + SECOND_NS);
	assert_null(conn.home.spare);
	/* The driver takes its time. */
	refuses = true;
	now_ns += SECOND_NS;
	assert_int_equal(mesh_conn_prearm(&conn, now_ns), now_ns + 2 * SECOND_NS);
	assert_int_equal(mesh_conn_prearm(&conn, now_ns + 1), now_ns + 2 * SECOND_NS);
	/* Nobody announces it. */
	has_path = false;
	now_ns += 2 * SECOND_NS;
	assert_true(mesh_conn_prearm(&conn, now_ns) == UINT64_MAX);
	has_path = true;
	assert_int_equal(mesh_conn_prearm(&conn, now_ns), now_ns + 4 * SECOND_NS);
	refuses = false;
	assert_true(mesh_conn_prearm(&conn, now_ns + 4 * SECOND_NS) == UINT64_MAX);
	assert_non_null(conn.home.spare);
	assert_ptr_not_equal(conn.home.spare->rail, rail);
	assert_int_equal(n_opened, 2);
	put_rail(rail);
	assert_true(opened[0].closed);
	mesh_conn_disarm(&conn);
	mesh_pds_close(&program);
	gets_closed(&opened[1]);
}

static int open_path(struct mesh_conn_path *ret)
{
	const struct mv_move_action action = {.local_gid = {.raw = {1}}};
	char why[256];

	return mesh_conn_open_path(&conn, &action, ret, why, sizeof(why));
}

/* What waits there is used without a look at its descriptors: the helper thread does that. Once it is known to be another's, it is not. */
static void test_open_path(void **state)
{
	struct mesh_conn_path path = {0};
	struct mesh_rail *rail = ahead();
	int ends[2], number = number_of(&opened[0], MESH_RAIL_CMD);

	(void)state;
	fault_disarm();
	assert_int_equal(open_path(&path), 0);
	assert_int_equal(fault_count(FAULT_FSTAT), 0); /* no look */
	assert_ptr_equal(path.pd, conn.home.spare);
	assert_string_equal(path.device, DEVICE);
	put_pd(path.pd);
	mesh_rail_ref(rail);
	take_number(number, ends);
	assert_false(mesh_rail_intact(rail));
	assert_int_equal(open_path(&path), 0);
	assert_ptr_not_equal(path.pd, conn.home.spare);
	assert_int_equal(n_opened, 2);
	put_pd(path.pd);
	assert_untouched(number, ends);
	put_rail(rail);
	mesh_conn_disarm(&conn);
	mesh_pds_close(&program);
	close(number);
	close(ends[1]);
	gets_closed(&opened[1]);
}

/* What waits on another NIC than the one that was agreed upon, or on one that was reset, is of no use. */
static void test_open_path_elsewhere(void **state)
{
	struct mesh_conn_path path = {0};
	struct mesh_rail *rail = ahead();

	(void)state;
	mesh_rail_ref(rail);
	strcpy(rail->device, "other");
	assert_int_equal(open_path(&path), 0);
	assert_ptr_not_equal(path.pd, conn.home.spare);
	assert_string_equal(path.pd->rail->device, DEVICE);
	assert_int_equal(n_opened, 2);
	put_pd(path.pd);
	strcpy(rail->device, DEVICE);
	mesh_rail_lose(rail);
	assert_int_equal(open_path(&path), 0);
	assert_ptr_not_equal(path.pd, conn.home.spare);
	assert_int_equal(n_opened, 2);
	put_pd(path.pd);
	put_rail(rail);
	mesh_conn_disarm(&conn);
	mesh_pds_close(&program);
	gets_closed(&opened[0]);
	gets_closed(&opened[1]);
}

static unsigned int n_tables; /* that were asked for */
static uint32_t gid_index;

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t size)
{
	(void)context;
	(void)max;
	(void)flags;
	(void)size;
	n_tables++;
	entries[0] = (struct ibv_gid_entry){.gid = {.raw = {1}}, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2, .gid_index = gid_index};
	entries[1] = (struct ibv_gid_entry){.gid = {.raw = {1}}, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V1, .gid_index = 50};
	entries[2] = (struct ibv_gid_entry){.gid = {.raw = {1}}, .port_num = 2, .gid_type = IBV_GID_TYPE_ROCE_V2, .gid_index = 60};
	return 3;
}

static uint8_t recall_at(struct mesh_rail *rail, uint8_t port, uint8_t type, uint8_t address, int expected)
{
	const union ibv_gid gid = {.raw = {address}};
	uint8_t index = 99;

	assert_int_equal(mesh_rail_recall_gid(rail, port, &gid, type, &gid, &index), expected);
	return index;
}

static uint8_t recall(struct mesh_rail *rail, uint8_t address, int expected)
{
	return recall_at(rail, 1, MV_GID_TYPE_ROCE_V2, address, expected);
}

static void gets_forgotten(struct mesh_rail *rail)
{
	bool known = true;
	unsigned int ms;

	for (ms = 0; ms < LIMIT_MS && known; ms++) {
		usleep(100);
		mesh_lock(&rail->gid_lock);
		known = rail->known_gid.asked_ns;
		mesh_unlock(&rail->gid_lock);
	}
	assert_false(known);
}

/* Hundreds ask for the place of an address at once: so the device is not asked each time, but for another address, or when that has changed. */
static void test_recall(void **state)
{
	struct mesh_rail *rail = get_rail();
	unsigned int i;

	(void)state;
	mesh_root.lib.query_gid_table = query_gid_table;
	n_tables = 0;
	gid_index = 3;
	for (i = 0; i < 1000; i++)
		assert_int_equal(recall(rail, 1, 0), 3);
	assert_in_range(n_tables, 1, 500); /* one for every 5 ms */
	/* Another version of RoCE, or another port: another place. */
	for (i = 0; i < 20; i++) {
		assert_int_equal(recall_at(rail, 1, MV_GID_TYPE_ROCE_V1, 1, 0), 50);
		assert_int_equal(recall(rail, 1, 0), 3);
		assert_int_equal(recall_at(rail, 2, MV_GID_TYPE_ROCE_V2, 1, 0), 60);
		assert_int_equal(recall(rail, 1, 0), 3);
	}
	/* The device says that it has changed. */
	mesh_thread_rail(rail);
	for (gid_index = 4; gid_index < 20; gid_index++) {
		assert_int_equal(write(opened[0].async[1], "", 1), 1);
		gets_forgotten(rail);
		assert_int_equal(recall(rail, 1, 0), gid_index);
	}
	gid_index = 21;
	assert_int_equal(recall(rail, 2, -ENOENT), 99);
	assert_int_equal(recall(rail, 1, 0), 21);
	gid_index = 22;
	usleep(6000);
	assert_int_equal(recall(rail, 1, 0), 22);
	put_rail(rail);
	gets_closed(&opened[0]);
}

/* A NIC that was never there is asked for once. */
static void test_never_there(void **state)
{
	uint64_t now_ns = mesh_now_ns();

	(void)state;
	has_path = refuses = true;
	conn = (struct mesh_conn){.qp = &qp, .mc = &mc, .state = MESH_CONN_NATIVE};
	assert_true(mesh_conn_prearm(&conn, now_ns) == UINT64_MAX);
	refuses = false;
	assert_true(mesh_conn_prearm(&conn, now_ns + 3600 * SECOND_NS) == UINT64_MAX);
	assert_null(conn.home.spare);
	assert_int_equal(n_opened, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hung_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fatal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_numbers_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_number_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_all_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_put_after_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_device_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_last_user, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ahead, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_path, setup, teardown),
		cmocka_unit_test_setup_teardown(test_open_path_elsewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(test_recall, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_there, setup, teardown),
	};

	return cmocka_run_group_tests(tests, setup_all, NULL);
}
