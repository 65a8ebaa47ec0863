// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "onedevice.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

struct ibv_device device = {.name = DEVICE};
struct opened opened[4];
unsigned int n_opened;
_Atomic unsigned int n_pds; /* PDs are given back by a thread of the device */
bool refuses;

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

bool gets_lost(const struct mesh_rail *rail)
{
	unsigned int ms;

	for (ms = 0; ms < LIMIT_MS && !mesh_rail_lost(rail); ms++)
		usleep(1000);
	return mesh_rail_lost(rail);
}

void gets_closed(struct opened *o)
{
	unsigned int ms;

	shutdown(o->events[1], SHUT_RDWR);
	for (ms = 0; ms < LIMIT_MS && !o->closed; ms++)
		usleep(1000);
	assert_true(o->closed);
	assert_null(mesh_root.rails);
}

void sleeps(void)
{
	unsigned int before, turns;
	uint64_t begun_ns, times;

	usleep(20000); /* it has something to do, too */
	begun_ns = mesh_now_ns();
	before = atomic_load(&n_turns);
	usleep(QUIET_US);
	turns = atomic_load(&n_turns) - before;
	times = 1 + (mesh_now_ns() - begun_ns) / (QUIET_US * 1000ull); /* this thread may get no processor for long */
	assert_in_range(turns, 0, times * MAX_TURNS);
}

struct ibv_context program;
struct ibv_pd program_pd = {.context = &program};
struct mesh_context mc = {.can_move = true, .generation = 1, .device = "mlx5_0"};

struct mesh_rail *get_rail(void)
{
	char why[256] = "";

	return mesh_rail_get(DEVICE, why, sizeof(why));
}

int setup_all(void **state)
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
	mesh_root.config.arm = false; /* the NIC and the PD only */
	return 0;
}

int setup(void **state)
{
	(void)state;
	n_opened = 0;
	n_pds = 0;
	refuses = false;
	return 0;
}

int teardown(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < n_opened; i++) {
		close(opened[i].async[1]);
		close(opened[i].events[1]);
	}
	return 0;
}

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

void put_rail(struct mesh_rail *rail)
{
	struct mesh_device *commands = rail->commands;

	mesh_rail_put(rail);
	run_out(commands);
}

void put_pd(struct mesh_pd *spd)
{
	struct mesh_device *commands = spd->rail->commands;

	mesh_pd_put(spd);
	run_out(commands);
}

void take_number(int number, int ret_ends[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ret_ends), 0);
	assert_int_equal(send(ret_ends[1], "hello", 5, 0), 5);
	assert_int_equal(dup2(ret_ends[0], number), number);
}

void assert_untouched(int number, const int ends[2])
{
	char buf[16];

	assert_int_equal(recv(number, buf, sizeof(buf), MSG_DONTWAIT), 5);
	assert_int_equal(recv(ends[1], buf, sizeof(buf), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN); /* nobody has written there */
}

int number_of(const struct opened *o, int which)
{
	return which == MESH_RAIL_COMP ? o->events[0] : which == MESH_RAIL_ASYNC ? o->async[0] : o->context.cmd_fd;
}

void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret);
int __wrap_mesh_directory_rail(const union ibv_gid *gid, uint8_t type, struct mesh_directory_rail *ret);

bool has_path;

void __wrap_mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	(void)request;
	*ret = (struct mesh_path_decision){.n_paths = has_path,
					   .paths = {{.local_gid = {.raw = {1}}, .remote_gid = {.raw = {2}}}}};
}

int __wrap_mesh_directory_rail(const union ibv_gid *gid, uint8_t type, struct mesh_directory_rail *ret)
{
	(void)gid;
	(void)type;
	*ret = (struct mesh_directory_rail){.device = DEVICE, .port = 1};
	return 0;
}
