// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "turns.h"

#include <errno.h>

#include "ud.h"

#define CACHE_LINE 64
/* When a queue pair that the agent has not been told of is told of again. */
#define CLAIM_AGAIN_NS 20000000ull

void mesh_turn_run(struct mesh_turn *turn, struct mesh_conn *conn)
{
	uint64_t deadline;
	int claimed = mesh_conn_claim(conn);

	if (claimed != -EALREADY)
		atomic_store_explicit(&conn->tell, true, memory_order_relaxed);
	turn->worked |= !claimed; /* an agent that does not read may go on so for hours */
	turn->n_live += mesh_conn_run(conn, turn->now_ns, turn->silent_ns, &deadline);
	if (claimed == -EAGAIN && deadline > turn->now_ns + CLAIM_AGAIN_NS)
		deadline = turn->now_ns + CLAIM_AGAIN_NS;
	if (deadline != UINT64_MAX)
		mesh_conn_queue_at(conn, deadline);
	if (deadline < turn->next_ns)
		turn->next_ns = deadline;
}

void mesh_turn_fetch(const struct mesh_conn *conn)
{
	size_t at;

	for (at = 0; conn && at < sizeof(*conn); at += CACHE_LINE)
		__builtin_prefetch((const char *)conn + at);
}

struct mesh_conn *mesh_turn_whose(const struct mv_frame *frame)
{
	struct mesh_conn *conn = mesh_conn_find(frame->device, frame->qpn);

	mesh_turn_fetch(conn);
	return conn;
}

void mesh_turn_deliver(struct mesh_turn *turn, const struct mv_frame *frame, struct mesh_conn *conn)
{
	struct mv_ctl_keys keys;
	struct mv_ctl_msg msg;

	if (mv_ctl_decode_keys(frame->payload, frame->len, &msg, &keys))
		return;
	if (msg.type == MV_CTL_UD_GET || msg.type == MV_CTL_UD_PUT) {
		mesh_ud_message(frame->device, frame->qpn, &msg, turn->now_ns);
		return;
	}
	if (!conn)
		return;
	mesh_conn_begin_turn(conn);
	if (msg.type >= MV_CTL_KEY_GET && msg.type <= MV_CTL_KEY_DROPPED)
		mesh_conn_key_message(conn, &msg);
	else
		mesh_conn_message(conn, &msg, &keys, turn->now_ns);
	mesh_turn_run(turn, conn);
}

void mesh_turn_unreachable(struct mesh_turn *turn, const struct mv_frame *frame)
{
	struct mesh_conn *conn;
	struct mv_ctl_msg msg;

	if (mv_ctl_decode(frame->payload, frame->len, &msg))
		return;
	if (msg.type == MV_CTL_UD_GET || msg.type == MV_CTL_UD_PUT) {
		mesh_ud_unreachable(&msg, turn->now_ns);
		return;
	}
	conn = mesh_conn_find_end(&msg.from);
	if (!conn)
		return;
	mesh_conn_begin_turn(conn);
	mesh_conn_unreachable(conn, &msg, turn->now_ns);
	mesh_turn_run(turn, conn);
	mesh_conn_put(conn);
}
