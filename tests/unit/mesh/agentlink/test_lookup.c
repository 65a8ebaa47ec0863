// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Whose an address is that no beacon tells of: what the agent is asked, and for how long. */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "directory_client.h"
#include "lookup.h"
#include "mesh.h"
#include "tmpdir.h"

#define SECOND 1000000000ull

uint64_t __wrap_mesh_now_ns(void);
bool __wrap_mesh_directory_is_stranger(const union ibv_gid *gid, bool routed);

static struct mesh_process process;
static struct tmpdir tmp;
static uint64_t later_ns;
static atomic_bool stranger;

/* An agent: what it does when it is asked, and what it was. */
enum mode { KNOWS, REFUSES, IS_SILENT, IS_OLD };
static _Atomic enum mode mode;
static int listener;
static pthread_t agent;
static atomic_uint n_connections, n_registers, n_looks;
static union ibv_gid looked_for;

uint64_t __wrap_mesh_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return later_ns + (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

bool __wrap_mesh_directory_is_stranger(const union ibv_gid *gid, bool routed)
{
	(void)gid;
	(void)routed;
	return stranger;
}

static void say(int fd, uint8_t type)
{
	struct mv_frame frame = {.type = type, .version = type == MV_FRAME_LOOKED ? 0 : MV_CTL_VERSION};
	uint8_t buf[MV_FRAME_MAX_BYTES];

	if (type == MV_FRAME_LOOKED)
		frame.dgid = looked_for;
	send(fd, buf, mv_frame_encode(&frame, buf), MSG_NOSIGNAL);
}

/* Return: whether it goes on. */
static bool answer(int fd, const struct mv_frame *frame)
{
	if (frame->type == MV_FRAME_REGISTER) {
		n_registers++;
		say(fd, MV_FRAME_WELCOME);
		return true;
	}
	assert_int_equal(frame->type, MV_FRAME_LOOK);
	n_looks++;
	looked_for = frame->dgid;
	switch (atomic_load(&mode)) {
	case KNOWS:
		stranger = false;
		say(fd, MV_FRAME_CHANGED);
		return true;
	case REFUSES:
		say(fd, MV_FRAME_LOOKED);
		return true;
	case IS_OLD:
		return false;
	case IS_SILENT:
		return true;
	}
	return true;
}

static void *run_agent(void *arg)
{
	uint8_t buf[MV_FRAME_MAX_BYTES];
	struct mv_frame frame;
	ssize_t n;
	int fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		n_connections++;
		while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
			if (mv_frame_decode(buf, (size_t)n, &frame) || !answer(fd, &frame))
				break;
		close(fd);
	}
	return arg;
}

static int setup(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)state;
	memset(&process, 0, sizeof(process));
	tmpdir_make(&tmp);
	assert_true(strlen(tmp.path) < sizeof(mesh_root.run_dir));
	strcpy(mesh_root.run_dir, tmp.path);
	mesh_root.process = &process;
	later_ns = 100 * SECOND;
	stranger = true;
	n_connections = n_registers = n_looks = 0;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", tmpdir_at(&tmp, "agent"));
	listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(pthread_create(&agent, NULL, run_agent, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	shutdown(listener, SHUT_RDWR);
	pthread_join(agent, NULL);
	close(listener);
	free(process.strangers.all);
	tmpdir_remove(&tmp);
	return 0;
}

static bool look(const char *address, enum mesh_lookup_for what)
{
	union ibv_gid gid = unit_gid(address);

	return mesh_lookup(&gid, what);
}

static void test_known(void **state)
{
	union ibv_gid gid = unit_gid("10.9.0.1");

	(void)state;
	mode = KNOWS;
	assert_true(look("10.9.0.1", MESH_LOOKUP_BROKEN));
	assert_int_equal(n_registers, 1);
	assert_int_equal(n_looks, 1);
	assert_true(mv_gid_equal(&looked_for, &gid));
}

static void test_refused(void **state)
{
	(void)state;
	mode = REFUSES;
	assert_false(look("10.9.0.1", MESH_LOOKUP_BROKEN));
	assert_int_equal(n_looks, 1);
	/* Not again in five seconds; another one is. */
	assert_false(look("10.9.0.1", MESH_LOOKUP_BROKEN));
	assert_int_equal(n_connections, 1);
	assert_false(look("10.9.0.2", MESH_LOOKUP_BROKEN));
	assert_int_equal(n_connections, 2);
	later_ns += 5 * SECOND;
	assert_false(look("10.9.0.1", MESH_LOOKUP_BROKEN));
	assert_int_equal(n_connections, 3);
}

/* It is asked again, for a query may be lost, and not for ever. */
static void test_silent(void **state)
{
	(void)state;
	mode = IS_SILENT;
	assert_false(look("10.9.0.1", MESH_LOOKUP_BROKEN));
	assert_int_equal(n_registers, 1);
	assert_in_range(n_looks, 1, 3);
}

/* It ends the connection, and its log has a line about that: not more than one in a minute. */
static void test_agent_of_before(void **state)
{
	(void)state;
	mode = IS_OLD;
	assert_false(look("10.9.0.1", MESH_LOOKUP_BROKEN));
	assert_int_equal(n_looks, 1);
	assert_false(look("10.9.0.2", MESH_LOOKUP_BROKEN));
	assert_false(look("10.9.0.3", MESH_LOOKUP_WORKS));
	assert_int_equal(n_connections, 1);
	mode = KNOWS; /* it has been upgraded */
	later_ns += 60 * SECOND;
	assert_true(look("10.9.0.2", MESH_LOOKUP_BROKEN));
	assert_int_equal(n_connections, 2);
}

/* Hosts without an agent cost a job whose paths work no more than a few waits. */
static void test_vain(void **state)
{
	char address[32];

	(void)state;
	mode = REFUSES;
	for (int i = 1; i < 20; i++) {
		snprintf(address, sizeof(address), "10.9.0.%d", i);
		assert_false(look(address, MESH_LOOKUP_WORKS));
	}
	assert_int_equal(n_connections, MESH_LOOKUPS_VAIN);
	assert_false(look("10.9.1.1", MESH_LOOKUP_BROKEN));
	assert_int_equal(n_connections, MESH_LOOKUPS_VAIN + 1);
	later_ns += 60 * SECOND;
	assert_false(look("10.9.2.1", MESH_LOOKUP_WORKS));
	assert_int_equal(n_connections, MESH_LOOKUPS_VAIN + 2);
}

static void test_no_agent(void **state)
{
	(void)state;
	unlink(tmpdir_at(&tmp, "agent"));
	errno = EDOM;
	assert_false(look("10.9.0.1", MESH_LOOKUP_BROKEN));
	assert_int_equal(errno, EDOM);
	assert_int_equal(n_connections, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_known, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_silent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_agent_of_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_vain, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_agent, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
