// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "native.h"

#include <errno.h>
#include <string.h>

#include "connpath.h"
#include "connstatus.h"
#include "count.h"
#include "paths.h"
#include "relocate.h"
#include "srq.h"
#include "ud.h"
#include "ways.h"

#define ENTRY_NS 10000000ull /* to look whether a GID is there again */
#define ASK_PEER_NS     1000000ull /* from one question whether the peer receives to the next; doubles up to the second */
#define ASK_PEER_MAX_NS 50000000ull

/* No move after all: the program's own QP is connected, and gets the work. */

/*
 * Most that RTR is refused for, an address handle is refused for as well. That takes as long, but nothing of the queue pair has to stand
 * still for it, and its SRQ's receives, which may have to be dealt out anew for RTR, stay where they are. Return: 0, also where there are
 * no address handles, or no more of the program's objects; -errno.
 */
static int ask_base(const struct mesh_conn *conn, const struct ibv_qp_attr *rtr)
{
	struct ibv_ah_attr attr = rtr->ah_attr;
	struct ibv_ah *ah = mesh_base_ah(conn->mc, conn->qp->pd, &attr);

	if (!ah && (errno == ENOMEM || errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS))
		return 0;
	if (!ah)
		return errno ? -errno : -EIO;
	conn->mc->destroy_ah(ah);
	return 0;
}

/*
 * As the program asked, but for the index. Where no entry reaches the peer now, as while its port is down, none is chosen; but what the
 * program has may be empty since a flap, and its address at another one. Not on old news, nor on those of another namespace.
 */
static void attr_of(struct mesh_conn *conn, uint8_t gid_type, struct ibv_qp_attr *ret)
{
	struct mesh_choice choice = {.index = conn->rtr.ah_attr.grh.sgid_index};
	bool other_type = gid_type != conn->local_type, found = false;

	*ret = conn->rtr;
	if (ret->ah_attr.is_global)
		mesh_paths_choose(conn->mc, conn->qp->context, &ret->ah_attr, MV_CONNECTED, true, &choice);
	if (other_type || (choice.sure && !choice.fits))
		found = !mesh_paths_find(conn->mc, ret->ah_attr.port_num, &conn->local.gid, gid_type,
					 &ret->ah_attr.grh.dgid, &choice.index);
	if (found || !other_type)
		ret->ah_attr.grh.sgid_index = choice.index;
}

/* Has the base's, in RTR, received anything? Also true where that cannot be told. */
static bool has_received(const struct mesh_conn *conn)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	memset(&init, 0, sizeof(init));
	memset(&attr, 0, sizeof(attr));
	return conn->mc->query_qp(conn->qp, &attr, IBV_QP_RQ_PSN, &init) || attr.rq_psn != (conn->rtr.rq_psn & 0xffffff);
}

int mesh_conn_listen_no_more(struct mesh_conn *conn)
{
	struct mesh_srq_native *leaving;
	int err;

	if (!conn->listens)
		return 0;
	if (has_received(conn))
		return -EBUSY;
	leaving = mesh_srq_leaving(conn->mc, conn->qp);
	err = mesh_held_begin_base_again(conn->held, &conn->init, conn->init_mask);
	mesh_srq_left(leaving, !err);
	if (!err)
		conn->listens = false;
	return err;
}

bool mesh_conn_may_listen_on(const struct mesh_conn *conn, const struct mv_move_action *next)
{
	if (!conn->listens || next->type == MV_DO_PREPARE)
		return !conn->listens;
	return next->type != MV_DO_NATIVE || next->gid_type == conn->listen_type;
}

/*
 * To where the program believes it is. @rtr: from attr_of()
 *
 * One that listens stays there if that is the same, or if its peer has reached it like that.
 *
 * Return: 0; -EAGAIN: it listens, as mesh_conn_listen_no_more() says; -errno: it is in INIT still, and receives from no SRQ.
 */
static int base_to_rtr(struct mesh_conn *conn, struct ibv_qp_attr *rtr)
{
	int err = 0;

	if (conn->listens && rtr->ah_attr.grh.sgid_index != conn->listen_index)
		err = mesh_conn_listen_no_more(conn);
	if (conn->listens && (!err || err == -EBUSY))
		return 0;
	if (err)
		return err;
	err = -mesh_held_modify_base(conn->held, rtr, conn->rtr_mask);
	if (err)
		mesh_srq_left(mesh_srq_leaving(conn->mc, conn->qp), true);
	return err;
}

void mesh_conn_listen(struct mesh_conn *conn)
{
	uint8_t type = conn->local_type == MV_GID_TYPE_ROCE_V1 ? MV_GID_TYPE_ROCE_V2 : conn->local_type;
	struct ibv_qp_attr rtr = conn->rtr;

	if (!rtr.ah_attr.is_global || !mesh_held_can_begin_again(conn->held) ||
	    mesh_paths_find(conn->mc, rtr.ah_attr.port_num, &conn->local.gid, type, &rtr.ah_attr.grh.dgid,
			    &rtr.ah_attr.grh.sgid_index))
		return;
	conn->listens = !base_to_rtr(conn, &rtr);
	conn->listen_index = rtr.ah_attr.grh.sgid_index;
	conn->listen_type = type;
}

/* There is no other try: the program gets the result that it would have had without us. */
static int base_to_rtr_at_last(struct mesh_conn *conn, uint8_t gid_type)
{
	struct ibv_qp_attr rtr;
	int err, own;

	attr_of(conn, gid_type, &rtr);
	err = base_to_rtr(conn, &rtr);
	if (err == -EAGAIN && conn->listens)
		return 0; /* with that version, by the index of before: mesh_conn_may_listen_on() */
	if (!err || rtr.ah_attr.grh.sgid_index == conn->rtr.ah_attr.grh.sgid_index)
		return err;
	rtr = conn->rtr;
	own = base_to_rtr(conn, &rtr);
	return own ? -mesh_paths_refusal(-err, -own) : 0;
}

/* If the program has said so. */
static int base_to_rts(struct mesh_conn *conn)
{
	struct ibv_qp_attr rts = conn->rts;

	return conn->rts_mask ? -mesh_held_modify_base(conn->held, &rts, conn->rts_mask) : 0;
}

/* @err: of connecting the base's QP; @receives: it is in RTR at least. Posting is stopped, until this is done. */
static void settle(struct mesh_conn *conn, uint8_t gid_type, bool receives, int err)
{
	struct mesh_held *h = conn->held;

	if (!err)
		err = mesh_held_native(h);
	mesh_held_resume_posting(h);
	conn->awaits_peer = false;
	if (!err) {
		conn->held = NULL;
		conn->state = MESH_CONN_NATIVE;
		conn->unlogged = "no other path was agreed upon when it was made";
		mesh_conn_log_unlogged(conn);
		conn->local_type = gid_type;
	} else {
		mv_log(&mesh_root.log, MV_LOG_WARN, "%s QP 0x%x: the program's own path fails: %s; the program gets its errors",
		       conn->mc->device, conn->qpn, strerrordesc_np(-err));
		mesh_count(MV_COUNT_SURFACED);
		if (receives)
			mesh_held_fail(conn->held, IBV_WC_RETRY_EXC_ERR);
		else
			mesh_held_fail_both(conn->held, IBV_WC_RETRY_EXC_ERR);
		conn->rtr_error = receives ? 0 : -err;
		conn->state = MESH_CONN_FAILED;
	}
	mesh_conn_tell(conn);
	mesh_count_pause(MV_COUNT_CONNECT_PAUSE, mesh_now_ns() - conn->held_ns);
}

static void give_up(const struct mesh_conn *conn, uint8_t reason, const char *why)
{
	char to[MV_GID_STRLEN];

	mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s to %s on host %s: %s; left as the program asked: %s", conn->mc->device,
		    mv_gid_format(&conn->peer.gid, to), conn->peer_host, mv_path_verdict_text(conn->verdict), why);
	mesh_count(MV_COUNT_GIVEN_UP + reason);
}

bool mesh_conn_native_waits(struct mesh_conn *conn, uint64_t now_ns)
{
	const struct ibv_ah_attr *ah = &conn->rtr.ah_attr;

	conn->entry_again_ns = 0;
	if (!ah->is_global || !mesh_paths_lack(conn->mc, conn->qp->context, ah->port_num, &conn->local.gid, conn->local_type,
					       ah->grh.sgid_index)) {
		conn->entry_ns = 0;
		return false;
	}
	if (!conn->entry_ns)
		conn->entry_ns = now_ns;
	if (now_ns >= conn->entry_ns + mesh_root.config.move_timeout_ms * 1000000ull)
		return false;
	conn->entry_again_ns = now_ns + ENTRY_NS;
	return true;
}

/* Posting is stopped, until this is done. */
static void await_peer(struct mesh_conn *conn, uint8_t gid_type)
{
	uint64_t now_ns = mesh_now_ns();

	mesh_held_resume_posting(conn->held);
	conn->native_type = gid_type;
	conn->awaits_peer = true;
	conn->peer_receives = false;
	conn->ask_step_ns = ASK_PEER_NS;
	conn->ask_peer_ns = now_ns;
	conn->await_until_ns = now_ns + mesh_root.config.move_timeout_ms * 1000000ull;
}

/* The other end may still be about to connect its own. */
static void ask_peer(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mv_ctl_msg hello;

	mv_move_header(&conn->move, MV_CTL_HELLO, &hello);
	hello.flags = conn->verdict == MV_PATH_ASK ? MV_CTL_ASKING : 0;
	mesh_thread_send_later(&hello, NULL);
	conn->ask_peer_ns = now_ns + conn->ask_step_ns;
	conn->ask_step_ns = conn->ask_step_ns < ASK_PEER_MAX_NS / 2 ? 2 * conn->ask_step_ns : ASK_PEER_MAX_NS;
}

uint64_t mesh_conn_await_peer(struct mesh_conn *conn, uint64_t now_ns)
{
	if (!conn->awaits_peer || !conn->held || conn->state != MESH_CONN_HELD)
		return UINT64_MAX;
	if (conn->peer_receives || now_ns >= conn->await_until_ns) {
		conn->in_batch = !mesh_held_stop_posting(conn->held);
		if (conn->in_batch)
			return UINT64_MAX; /* who comes for that */
		settle(conn, conn->native_type, true, base_to_rts(conn));
		return UINT64_MAX;
	}
	if (now_ns >= conn->ask_peer_ns)
		ask_peer(conn, now_ns);
	return conn->ask_peer_ns < conn->await_until_ns ? conn->ask_peer_ns : conn->await_until_ns;
}

bool mesh_conn_take_receives(struct mesh_conn *conn, const struct mv_ctl_msg *msg)
{
	bool native = conn->state == MESH_CONN_HELD && conn->move.state == MV_MOVE_NATIVE;

	/* Nobody is told that this end receives before it does; nothing else is to begin before its work is where it stays. */
	if (native && (!conn->awaits_peer || msg->flags & MV_CTL_MOVE || msg->type == MV_CTL_SYNC || msg->type == MV_CTL_AHEAD))
		return msg->type != MV_CTL_BYE;
	if (!native || !mv_move_is_from_peer(&conn->move, msg))
		return false;
	conn->peer_receives |= msg->type == MV_CTL_BYE || (msg->type == MV_CTL_HELLO && msg->flags & MV_CTL_NATIVE);
	return false;
}

void mesh_conn_native(struct mesh_conn *conn, const struct mv_move_action *action)
{
	bool receives = false, gone = action->reason == MV_CTL_REASON_GONE;
	int err;

	conn->entry_ns = 0;
	err = mesh_conn_release_path(conn); /* before the base can receive what the shadow can */

	if (action->reason || action->timed_out)
		give_up(conn, action->reason,
			action->reason ? mv_ctl_reason_text(action->reason) : "the peer's process did not answer");
	if (!err)
		err = base_to_rtr_at_last(conn, action->gid_type);
	receives = !err;
	/* Who was asked and never answered cannot be asked whether he receives. */
	if (!err && conn->move.peer_attempt && !action->timed_out && !gone) {
		await_peer(conn, action->gid_type);
		return;
	}
	if (!err)
		err = base_to_rts(conn);
	/* A peer that is gone shows by the first send, as on a path that works. */
	settle(conn, action->gid_type, receives || gone, err);
}

/*
 * Bare, what was made while a port was down works when that is back; a drained one works until it is pulled; what goes to another
 * subnet of the link does if the kernel finds a neighbour, else the base refuses. What fits now, a peer that comes late judges
 * likewise, and goes there. Whether an index of RoCE v1 is right only the peer could say. And where no agent knows of the peer any
 * more, ours or its own, nobody is left with whom another path could be agreed upon: what was held for that is as bare.
 */
static bool seems_to_work(const struct mesh_view *view)
{
	return view->verdict == MV_PATH_WORKS || view->verdict == MV_PATH_ASK || view->verdict == MV_PATH_OTHER_SUBNET ||
	       view->verdict == MV_PATH_UNKNOWN || view->drained;
}

/* An agent that is started anew knows nothing for a moment. */
static uint64_t works_since(struct mesh_conn *conn, enum mv_path_verdict verdict, uint64_t now_ns)
{
	bool known = verdict != MV_PATH_UNKNOWN;

	if (!conn->works_since_ns || conn->works_known != known)
		conn->works_since_ns = now_ns;
	conn->works_known = known;
	return conn->works_since_ns;
}

/*
 * Judged as at RTR. A port that has been down may flap: as one that is gone home to, it has to work for a while. ASK, and an index
 * that is empty, are for the transaction.
 */
uint64_t mesh_conn_native_at(struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t hold_down_ns = mesh_root.config.hold_down_ms * 1000000ull, at = mv_move_native_at(&conn->move), since;
	struct mv_path_request request;
	struct mesh_view view;

	if (conn->state != MESH_CONN_HELD || at == UINT64_MAX || conn->verdict == MV_PATH_ASK || conn->verdict == MV_PATH_NO_ENTRY)
		return UINT64_MAX;
	mesh_way_now(conn, &request);
	/* While the own port was down there was no route. Now the base is to say. */
	request.routed = conn->fits || conn->verdict == MV_PATH_LOCAL_DOWN;
	mesh_view_verdict(&request, &view);
	if (!seems_to_work(&view)) {
		conn->works_since_ns = 0;
		return UINT64_MAX;
	}
	since = works_since(conn, view.verdict, now_ns);
	return at > since + hold_down_ns ? at : since + hold_down_ns;
}

/* The base's has not been connected. */
static void stay_held(struct mesh_conn *conn, int err)
{
	mv_move_tried(&conn->move, false, mesh_now_ns()); /* that may have taken long */
	mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x to host %s: its path seems to work, but cannot be connected: %s",
	       conn->mc->device, conn->qpn, conn->peer_host, strerrordesc_np(-err));
}

void mesh_conn_try_native(struct mesh_conn *conn)
{
	bool due = conn->native_due && mv_move_native_at(&conn->move) <= mesh_now_ns();
	struct ibv_qp_attr rtr;
	int err;

	conn->native_due = false;
	if (!due)
		return;
	attr_of(conn, conn->local_type, &rtr);
	err = ask_base(conn, &rtr);
	if (err) {
		stay_held(conn, err);
		return;
	}
	/* There is no shadow: the peer has never been heard of. */
	conn->in_batch = !mesh_held_stop_posting(conn->held);
	if (conn->in_batch)
		return;
	err = base_to_rtr(conn, &rtr);
	if (err) {
		mesh_held_resume_posting(conn->held);
		stay_held(conn, err);
		return;
	}
	mv_move_tried(&conn->move, true, mesh_now_ns());
	give_up(conn, MV_CTL_REASON_NONE, "that may work, and the peer's process did not answer");
	/*
	 * From here on it can receive, so there is no way back: what it takes another QP must not take again. If RTS is refused, the
	 * program has what it would have had: one that only receives goes on in RTR, and a send fails.
	 */
	settle(conn, conn->local_type, true, base_to_rts(conn));
}
