// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "threadint.h"

#include <errno.h>
#include <string.h>

#include "fetch.h"
#include "paths.h"
#include "path_monitor.h"
#include "proof.h"
#include "ud.h"

/* Frames from the agent. */

#define RECONNECT_NS 500000000ull
/* An agent that closes the connection before its WELCOME may do so again: double the interval, up to this. */
#define RECONNECT_MAX_NS 16000000000ull
/* Limit of frames per turn, so that a chatty peer does not delay timers. */
#define MAX_FRAMES 256
/* Longest delay of timers by unread frames and by moves of other connections; and the delay for each such move. */
#define SILENCE_LATE_NS 100000000ull
#define SILENCE_EACH_NS 400000ull

/*
 * Time against which connections measure the silence of their peers. Earlier than now if frames of the agent are unread, which
 * may be answers. Also earlier if hundreds of connections move: a message then waits for others, at both ends and at the agents.
 * Limited, so that a chatty peer does not delay timers for ever.
 */
uint64_t mesh_thread_time_of_silence(const struct mesh_thread *thread, uint64_t now_ns)
{
	uint64_t late_ns = thread->n_live * SILENCE_EACH_NS, behind_ns = now_ns - thread->drained_ns;

	if (thread->helper.link.fd >= 0 && behind_ns > late_ns)
		late_ns = behind_ns;
	return now_ns - (late_ns < SILENCE_LATE_NS ? late_ns : SILENCE_LATE_NS);
}

/* @conn: of the frame; NULL: none, or a message about datagrams. @silent_ns: as of mesh_conn_message() */
static void deliver(const struct mv_frame *frame, struct mesh_conn *conn, uint64_t now_ns, uint64_t silent_ns)
{
	struct mv_ctl_keys keys;
	struct mv_host_id from;
	struct mv_ctl_msg msg;
	uint64_t at = now_ns;

	if (mv_ctl_decode_keys(frame->payload, frame->len, &msg, &keys))
		return;
	memcpy(from.bytes, frame->dgid.raw, sizeof(from.bytes));
	if (msg.type == MV_CTL_UD_GET || msg.type == MV_CTL_UD_PUT) {
		mesh_ud_message(frame->device, frame->qpn, &from, &msg, now_ns);
		return;
	}
	if (!conn)
		return;
	if (msg.type >= MV_CTL_KEY_GET && msg.type <= MV_CTL_KEY_DROPPED)
		mesh_conn_key_message(conn, &from, &msg, now_ns);
	else
		at = mesh_conn_message(conn, &from, &msg, &keys, now_ns, silent_ns);
	if (at <= now_ns)
		mesh_conn_queue(conn, false);
	else
		mesh_conn_put_off(conn, at);
}

static void unreachable(const struct mv_frame *frame, uint64_t now_ns)
{
	struct mesh_conn *conn;
	struct mv_ctl_msg msg;

	/* The agent returns the message that it could not deliver. */
	if (mv_ctl_decode(frame->payload, frame->len, &msg))
		return;
	if (msg.type == MV_CTL_UD_GET || msg.type == MV_CTL_UD_PUT) {
		mesh_ud_unreachable(&msg, now_ns);
		return;
	}
	conn = mesh_conn_find_end(&msg.from);
	if (!conn)
		return;
	mesh_conn_unreachable(conn, &msg, now_ns);
	mesh_conn_queue(conn, false);
	mesh_conn_put(conn);
}

/* The agent refused a registration. For a UD QP nothing needs to be done: its questions get no answer. */
static void refused(struct mesh_conn *conn)
{
	if (!conn)
		return;
	mesh_conn_refused(conn);
	mesh_conn_queue(conn, false);
}

/*
 * When all connections look at the new directory. While many move, connections that are done can wait. Connections that wait to move
 * look at it when they may, and connections that move only look at their peer.
 */
static void note_change(struct mesh_thread *thread, bool urgent, uint64_t now_ns)
{
	uint64_t at_ns = mesh_many_move() && !urgent ? now_ns + LIVE_NS : now_ns;

	if (at_ns < thread->directory_at_ns)
		thread->directory_at_ns = at_ns;
}

/* A frame that concerns all connections. */
static void take_note(struct mesh_thread *thread, const struct mv_frame *frame, uint64_t now_ns)
{
	if (frame->type == MV_FRAME_CHANGED) {
		mesh_directory_forget();
		mesh_path_monitor_changed();
	} else {
		mesh_path_monitor_agent(frame->type == MV_FRAME_PROBES);
	}
	if (frame->type != MV_FRAME_WELCOME) {
		note_change(thread, false, now_ns);
	} else if (frame->version == MV_CTL_VERSION) {
		thread->reconnect_ns = 0;
		thread->reconnect_at_ns = mesh_now_ns() + RECONNECT_NS;
	}
}

/* A frame that concerns the connections on a path. */
static void take_path(struct mesh_thread *thread, const struct mv_frame *frame, uint64_t now_ns)
{
	enum mesh_path_monitor_change changed = mesh_path_monitor_told(frame, now_ns);

	if (changed != MESH_MONITOR_NOTHING)
		note_change(thread, changed == MESH_MONITOR_URGENT && mesh_some_prepare(), now_ns);
}

static void take_packs(struct mesh_thread *thread)
{
	mesh_lock(&thread->helper.link_lock);
	mesh_agentlink_packs(&thread->helper.link);
	mesh_unlock(&thread->helper.link_lock);
}

static void ask_for_senders(struct mesh_thread *thread)
{
	mesh_lock(&thread->helper.link_lock);
	mesh_agentlink_senders(&thread->helper.link);
	mesh_unlock(&thread->helper.link_lock);
}

void mesh_thread_close_link(struct mesh_thread *thread)
{
	mesh_lock(&thread->helper.link_lock);
	mesh_agentlink_close(&thread->helper.link);
	mesh_pending_unregister_drop(&thread->helper.pending_unregister);
	mesh_unlock(&thread->helper.link_lock);
	mesh_path_monitor_lost();
}

static void look_up_inbound(struct inbound *in)
{
	in->conn = in->frame.type == MV_FRAME_DELIVER || in->frame.type == MV_FRAME_REFUSED ? mesh_conn_find(in->frame.device, in->frame.qpn) : NULL;
	mesh_fetch_conn(in->conn);
}

/* A frame that concerns one connection. Return: as take_inbound(). */
static bool take_message(struct lead *lead, const struct inbound *in, uint64_t now_ns)
{
	uint64_t silent_ns = mesh_thread_time_of_silence(lead->thread, now_ns);

	mesh_lead_enter(lead, SECTION_CONN, in->conn);
	if (in->frame.type == MV_FRAME_DELIVER)
		deliver(&in->frame, in->conn, now_ns, silent_ns);
	else if (in->frame.type == MV_FRAME_UNREACHABLE)
		unreachable(&in->frame, now_ns);
	else
		refused(in->conn);
	return mesh_lead_leave(lead);
}

/* Return: false: another thread is the helper thread now. */
static bool take_inbound(struct lead *lead, uint64_t now_ns)
{
	struct mesh_thread *thread = lead->thread;
	/* Copied: after a hand-off, the next helper thread reuses the place. */
	const struct inbound in = thread->places[thread->n_taken++ % N_INBOUND];
	const struct mv_frame *frame = &in.frame;

	if (frame->type == MV_FRAME_DELIVER || frame->type == MV_FRAME_UNREACHABLE || frame->type == MV_FRAME_REFUSED) {
		if (!take_message(lead, &in, now_ns))
			return false;
	} else if (frame->type == MV_FRAME_CHANGED || frame->type == MV_FRAME_WELCOME || frame->type == MV_FRAME_PROBES) {
		take_note(thread, frame, now_ns);
	} else if (frame->type == MV_FRAME_PATH || frame->type == MV_FRAME_SUSPECT) {
		take_path(thread, frame, now_ns);
	} else if (frame->type == MV_FRAME_PACKS && frame->version == MV_CTL_VERSION) {
		take_packs(thread);
	} else if (frame->type == MV_FRAME_SENDERS && frame->version == MV_CTL_VERSION) {
		ask_for_senders(thread);
	}
	mesh_conn_put(in.conn);
	return true;
}

bool mesh_thread_read_agent(struct lead *lead, uint64_t now_ns)
{
	struct mesh_thread *thread = lead->thread;
	struct inbound *places = thread->places;
	unsigned int n;
	int err = 0;

	for (n = 0; n < MAX_FRAMES || mesh_agentlink_has(&thread->helper.link); n++) {
		/* Frames that a former helper thread has read come first. */
		if (thread->n_read - thread->n_taken == N_INBOUND && !take_inbound(lead, now_ns))
			return true;
		err = mesh_agentlink_recv(&thread->helper.link, &places[thread->n_read % N_INBOUND].frame);
		if (err == -EBADMSG)
			continue;
		if (err)
			break;
		look_up_inbound(&places[thread->n_read++ % N_INBOUND]);
		if (thread->n_read - thread->n_taken >= N_INBOUND - 1)
			mesh_fetch_vqp(places[(thread->n_read - 2) % N_INBOUND].conn);
		if (thread->n_read - thread->n_taken == N_INBOUND && !take_inbound(lead, now_ns))
			return true;
	}
	while (thread->n_taken != thread->n_read)
		if (!take_inbound(lead, now_ns))
			return true;
	if (err)
		thread->drained_ns = now_ns;
	if (err == -ECONNRESET) {
		mesh_thread_close_link(thread);
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "the agent is gone; connections stay as they are");
	}
	return n;
}

void mesh_thread_connect_agent(struct mesh_thread *thread, uint64_t now_ns)
{
	struct mesh_agentlink link;

	if (thread->helper.link.fd >= 0 || now_ns < thread->reconnect_at_ns)
		return;
	if (!thread->reconnect_ns)
		thread->reconnect_ns = RECONNECT_NS;
	thread->reconnect_at_ns = now_ns + thread->reconnect_ns;
	if (mesh_agentlink_open(&link, mesh_root.run_dir))
		return;
	/* Double the interval until WELCOME. Without an agent the interval stays short, because that disturbs nobody. */
	if (thread->reconnect_ns < RECONNECT_MAX_NS)
		thread->reconnect_ns *= 2;
	mesh_lock(&thread->helper.link_lock);
	thread->helper.link = link;
	mesh_unlock(&thread->helper.link_lock);
	mesh_directory_renew();
	mesh_conns_queue_all(true);
	mesh_ud_register_all();
}
