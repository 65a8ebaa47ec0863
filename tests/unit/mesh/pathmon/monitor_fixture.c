// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "monitor_fixture.h"

int __wrap_mesh_thread_frame(const struct mv_frame *frame);
int __wrap_mesh_thread_wake(bool urgent);
bool __wrap_mesh_directory_has_path(const union ibv_gid *local, const union ibv_gid *remote);

bool has_path;

/* The directory. */
bool __wrap_mesh_directory_has_path(const union ibv_gid *local, const union ibv_gid *remote)
{
	(void)local;
	(void)remote;
	return has_path;
}

struct mv_frame sent[64];
unsigned int n_sent, n_refused, n_woken;
int send_result;
static struct mesh_process process;

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	if (send_result) {
		n_refused++;
		return send_result;
	}
	assert_int_equal(frame->type, MV_FRAME_WATCH);
	if (n_sent < sizeof(sent) / sizeof(sent[0]))
		sent[n_sent] = *frame;
	n_sent++;
	return 0;
}

int __wrap_mesh_thread_wake(bool urgent)
{
	(void)urgent;
	n_woken++;
	return 0;
}

union ibv_gid gid(const char *text)
{
	union ibv_gid ret;

	assert_int_equal(mv_gid_parse(text, &ret), 0);
	return ret;
}

int monitor_setup(void **state)
{
	(void)state;
	memset(&process, 0, sizeof(process));
	mesh_root.process = &process;
	n_sent = n_refused = n_woken = 0;
	send_result = 0;
	has_path = true;
	return 0;
}

int monitor_teardown(void **state)
{
	(void)state;
	send_result = 0;
	mesh_path_monitor_lost();
	assert_true(mesh_path_monitor_run(0) == NEVER);
	free(process.monitor.all);
	return 0;
}

int asked(const char *local, const char *remote)
{
	union ibv_gid a = gid(local), b = gid(remote);
	int watch = -1;
	unsigned int i;

	assert_true(n_sent <= sizeof(sent) / sizeof(sent[0]));
	for (i = 0; i < n_sent; i++)
		if (mv_gid_equal(&sent[i].sgid, &a) && mv_gid_equal(&sent[i].dgid, &b))
			watch = sent[i].watch;
	return watch;
}

void use(struct mesh_path_watch **place, enum mv_watch watch, const char *local, const char *remote)
{
	union ibv_gid a = gid(local), b = gid(remote);

	mesh_path_monitor_use(place, watch, &a, &b);
}

void drop(struct mesh_path_watch **place, enum mv_watch watch)
{
	mesh_path_monitor_use(place, watch, NULL, NULL);
	assert_null(*place);
}

bool told(const char *local, const char *remote, enum mv_probed state)
{
	struct mv_frame frame = {.type = MV_FRAME_PATH, .sgid = gid(local), .dgid = gid(remote), .probed = (uint8_t)state};

	return mesh_path_monitor_told(&frame, 0) != MESH_MONITOR_NOTHING;
}
