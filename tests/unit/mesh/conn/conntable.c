// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "conntable.h"

#include <errno.h>
#include <string.h>

int __wrap_mesh_thread_wake(bool urgent);

unsigned int n_urgent;

/* There is none. */
int __wrap_mesh_thread_wake(bool urgent)
{
	n_urgent += urgent;
	return 0;
}

int __wrap_mesh_thread_frame(const struct mv_frame *frame);

struct mv_frame frames[8];
unsigned int n_frames;
int frame_result;
void (*on_frame)(void);

int __wrap_mesh_thread_frame(const struct mv_frame *frame)
{
	void (*meanwhile)(void) = on_frame;

	on_frame = NULL;
	if (meanwhile)
		meanwhile();
	assert_true(n_frames < sizeof(frames) / sizeof(frames[0]));
	if (frame_result != -EAGAIN)
		frames[n_frames++] = *frame;
	return frame_result;
}

static struct mesh_process processes[24]; /* the table of a process is for ever */
static unsigned int n_processes;
struct mesh_context context = {.device = "mlx5_0"};
struct ibv_qp qps[N];
struct mesh_conn *conns[N];

int setup(void **state)
{
	unsigned int i;

	(void)state;
	assert_true(n_processes < sizeof(processes) / sizeof(processes[0]));
	n_frames = 0;
	frame_result = 0;
	mesh_root.process = &processes[n_processes++];
	mesh_lock_init(&mesh_root.process->conns.lock);
	for (i = 0; i < N; i++) {
		qps[i].qp_num = 100 + i;
		conns[i] = mesh_conn_new(&context, &qps[i]);
		assert_non_null(conns[i]);
	}
	return 0;
}

int teardown(void **state)
{
	uint64_t next;
	struct mesh_conn *conn, *rest;
	unsigned int i;

	(void)state;
	for (i = 0; i < N; i++) {
		mesh_conn_unlink(conns[i]);
		mesh_conn_put(conns[i]);
	}
	while ((conn = mesh_conns_take(UINT64_MAX, &next))) {
		for (; conn; conn = rest) {
			rest = conn->schedule.next_taken;
			mesh_conn_put(conn);
		}
	}
	mesh_conns_next_mover(MESH_MOVER_LEADS); /* lets go of those that were waiting, and are gone */
	return 0;
}

unsigned int take_some(uint64_t now_ns, bool *which, uint64_t *ret_next)
{
	struct mesh_conn *conn, *rest;
	unsigned int n = 0;

	for (conn = mesh_conns_take(now_ns, ret_next); conn; conn = rest) {
		rest = conn->schedule.next_taken;
		assert_false(which[conn->qpn - 100]);
		which[conn->qpn - 100] = true;
		n++;
		mesh_conn_put(conn);
	}
	return n;
}

unsigned int take(uint64_t now_ns, bool *which, uint64_t *ret_next)
{
	unsigned int n = 0, some;

	memset(which, 0, N * sizeof(*which));
	while ((some = take_some(now_ns, which, ret_next)))
		n += some;
	return n;
}
