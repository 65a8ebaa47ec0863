// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "passthrough.h"

#include <errno.h>
#include <string.h>

#include "connpath.h"
#include "connstatus.h"
#include "count.h"
#include "failover_exec.h"
#include "path_select.h"
#include "paths.h"
#include "srq.h"
#include "ud.h"

#define ENTRY_NS 10000000ull /* interval to look for the GID again */
#define ASK_PEER_NS     1000000ull /* first interval of questions whether the peer receives; doubles up to ASK_PEER_MAX_NS */
#define ASK_PEER_MAX_NS 50000000ull

/* No move: the program's own QP is connected, and gets the work. */

/*
 * Try to make an address handle: most causes of a refused RTR make that fail, too. It takes as long, but the queue pair keeps
 * working meanwhile, and receives of its SRQ need not be redistributed. Return: 0, also where no address handle can be
 * made for another reason; -errno.
 */
static int ask_lower(const struct mesh_conn *conn, const struct ibv_qp_attr *rtr)
{
	struct ibv_ah_attr attr = rtr->ah_attr;
	struct ibv_ah *ah = mesh_lower_ah(conn->mc, conn->qp->pd, &attr);

	if (!ah && (errno == ENOMEM || errno == EAGAIN || errno == EOPNOTSUPP || errno == ENOSYS))
		return 0;
	if (!ah)
		return errno ? -errno : -EIO;
	conn->mc->lower.destroy_ah(ah);
	return 0;
}

/*
 * RTR as the program asked, but with a GID index that fits now. If no entry reaches the peer, as while its port is down, none is
 * chosen. After a flap the program's index may be empty, and its GID have another index: use that, but only by a fresh look-up in
 * this namespace.
 */
static void attr_of(struct mesh_conn *conn, uint8_t gid_type, struct ibv_qp_attr *ret)
{
	struct mesh_choice choice = {.index = conn->attr.rtr.ah_attr.grh.sgid_index};
	bool other_type = gid_type != conn->ends.local_type, found = false;

	*ret = conn->attr.rtr;
	if (ret->ah_attr.is_global)
		mesh_paths_choose(conn->mc, conn->qp->context, &ret->ah_attr, MV_CONNECTED, true, &choice);
	if (other_type || (choice.sure && !choice.fits))
		found = !mesh_paths_find(conn->mc, ret->ah_attr.port_num, &conn->ends.local.gid, gid_type,
					 &ret->ah_attr.grh.dgid, &choice.index);
	if (found || !other_type)
		ret->ah_attr.grh.sgid_index = choice.index;
}

/* Has the program's own QP, in RTR, received a message? True also if that is not known. */
static bool has_received(const struct mesh_conn *conn)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	memset(&init, 0, sizeof(init));
	memset(&attr, 0, sizeof(attr));
	return conn->mc->lower.qp.query_qp(conn->qp, &attr, IBV_QP_RQ_PSN, &init) ||
	       attr.rq_psn != (conn->attr.rtr.rq_psn & 0xffffff);
}

int mesh_conn_listen_no_more(struct mesh_conn *conn)
{
	struct mesh_srq_own_qp *leaving;
	int err;

	if (!conn->own_qp.listens)
		return 0;
	if (has_received(conn))
		return -EBUSY;
	leaving = mesh_srq_leaving(conn->mc, conn->qp);
	err = mesh_vqp_begin_lower_again(conn->vqp, &conn->attr.init, conn->attr.init_mask);
	mesh_srq_left(leaving, !err);
	if (!err)
		conn->own_qp.listens = false;
	return err;
}

bool mesh_conn_may_listen_on(const struct mesh_conn *conn, const struct mv_move_action *next)
{
	if (!conn->own_qp.listens || next->type == MV_DO_PREPARE)
		return !conn->own_qp.listens;
	return next->type != MV_DO_PASSTHROUGH || next->gid_type == conn->own_qp.listen_type;
}

/*
 * Bring the program's own QP to RTR. @rtr: from attr_of(). A QP that listens stays in RTR if its index is the same, or if the
 * peer has reached it.
 *
 * Return: 0; -EAGAIN: it still listens, see mesh_conn_listen_no_more(); -errno: it is still in INIT, and receives from no SRQ.
 */
static int lower_to_rtr(struct mesh_conn *conn, struct ibv_qp_attr *rtr)
{
	int err = 0;

	if (conn->own_qp.listens && rtr->ah_attr.grh.sgid_index != conn->own_qp.listen_index)
		err = mesh_conn_listen_no_more(conn);
	if (conn->own_qp.listens && (!err || err == -EBUSY))
		return 0;
	if (err)
		return err;
	err = -mesh_vqp_modify_lower(conn->vqp, rtr, conn->attr.rtr_mask);
	if (err)
		mesh_srq_left(mesh_srq_leaving(conn->mc, conn->qp), true);
	return err;
}

void mesh_conn_listen(struct mesh_conn *conn)
{
	uint8_t type = conn->ends.local_type == MV_GID_TYPE_ROCE_V1 ? MV_GID_TYPE_ROCE_V2 : conn->ends.local_type;
	struct ibv_qp_attr rtr = conn->attr.rtr;

	if (!rtr.ah_attr.is_global || !mesh_vqp_can_begin_again(conn->vqp) ||
	    mesh_paths_find(conn->mc, rtr.ah_attr.port_num, &conn->ends.local.gid, type, &rtr.ah_attr.grh.dgid,
			    &rtr.ah_attr.grh.sgid_index))
		return;
	conn->own_qp.listens = !lower_to_rtr(conn, &rtr);
	conn->own_qp.listen_index = rtr.ah_attr.grh.sgid_index;
	conn->own_qp.listen_type = type;
}

/* The last try: the program gets the result that it would have got on a bare HCA. */
static int lower_to_rtr_at_last(struct mesh_conn *conn, uint8_t gid_type)
{
	struct ibv_qp_attr rtr;
	int err, own;

	attr_of(conn, gid_type, &rtr);
	err = lower_to_rtr(conn, &rtr);
	if (err == -EAGAIN && conn->own_qp.listens)
		return 0; /* in RTR already, with that version and the earlier index: mesh_conn_may_listen_on() */
	if (!err || rtr.ah_attr.grh.sgid_index == conn->attr.rtr.ah_attr.grh.sgid_index)
		return err;
	rtr = conn->attr.rtr;
	own = lower_to_rtr(conn, &rtr);
	return own ? -mesh_paths_refusal(-err, -own) : 0;
}

/* Bring the program's own QP to RTS, if the program has asked for that. */
static int lower_to_rts(struct mesh_conn *conn)
{
	struct ibv_qp_attr rts = conn->attr.rts;

	return conn->attr.rts_mask ? -mesh_vqp_modify_lower(conn->vqp, &rts, conn->attr.rts_mask) : 0;
}

/*
 * Give the work to the program's own QP, or fail. @err: of connecting it; @receives: it is in RTR at least. Posting is stopped,
 * and resumes here.
 */
static void settle(struct mesh_conn *conn, uint8_t gid_type, bool receives, int err)
{
	struct mesh_vqp *h = conn->vqp;

	if (!err)
		err = mesh_vqp_passthrough(h);
	mesh_vqp_resume_posting(h);
	conn->own_qp.awaits_peer = false;
	if (!err) {
		conn->vqp = NULL;
		conn->state = MESH_CONN_PASSTHROUGH;
		conn->attempt.unlogged = "no other path was agreed upon when it was made";
		mesh_conn_log_unlogged(conn);
		conn->ends.local_type = gid_type;
	} else {
		mv_log(&mesh_root.log, MV_LOG_WARN, "%s QP 0x%x: the program's own path fails: %s; the program gets its errors",
		       conn->mc->device, conn->qpn, strerrordesc_np(-err));
		mesh_count(MV_COUNT_SURFACED);
		if (receives)
			mesh_vqp_fail(conn->vqp, IBV_WC_RETRY_EXC_ERR);
		else
			mesh_vqp_fail_both(conn->vqp, IBV_WC_RETRY_EXC_ERR);
		conn->attempt.rtr_error = receives ? 0 : -err;
		conn->state = MESH_CONN_FAILED;
	}
	mesh_conn_tell(conn);
	mesh_count_pause(MV_COUNT_CONNECT_PAUSE, mesh_now_ns() - conn->attempt.held_ns);
}

static void give_up(const struct mesh_conn *conn, uint8_t reason, const char *why)
{
	char to[MV_GID_STRLEN];

	mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s to %s on host %s: %s; left as the program asked: %s", conn->mc->device,
		    mv_gid_format(&conn->ends.peer.gid, to), conn->ends.peer_host, mv_path_verdict_text(conn->own_qp.verdict),
		    why);
	mesh_count(MV_COUNT_GIVEN_UP + reason);
}

bool mesh_conn_passthrough_waits(struct mesh_conn *conn, uint64_t now_ns)
{
	const struct ibv_ah_attr *ah = &conn->attr.rtr.ah_attr;

	conn->blocked.entry_again_ns = 0;
	if (!ah->is_global || !mesh_paths_lack(conn->mc, conn->qp->context, ah->port_num, &conn->ends.local.gid,
					       conn->ends.local_type, ah->grh.sgid_index)) {
		conn->blocked.entry_ns = 0;
		return false;
	}
	if (!conn->blocked.entry_ns)
		conn->blocked.entry_ns = now_ns;
	if (now_ns >= conn->blocked.entry_ns + mesh_root.config.move_timeout_ms * 1000000ull)
		return false;
	conn->blocked.entry_again_ns = now_ns + ENTRY_NS;
	return true;
}

/* Posting is stopped, and resumes here. */
static void await_peer(struct mesh_conn *conn, uint8_t gid_type)
{
	uint64_t now_ns = mesh_now_ns();

	mesh_vqp_resume_posting(conn->vqp);
	conn->own_qp.type = gid_type;
	conn->own_qp.awaits_peer = true;
	conn->own_qp.peer_receives = false;
	conn->own_qp.ask_step_ns = ASK_PEER_NS;
	conn->own_qp.ask_peer_ns = now_ns;
	conn->own_qp.await_until_ns = now_ns + mesh_root.config.move_timeout_ms * 1000000ull;
}

/* Ask the peer, which may still be connecting its QP, whether it receives. */
static void ask_peer(struct mesh_conn *conn, uint64_t now_ns)
{
	struct mv_ctl_msg hello;

	mv_move_header(&conn->move, MV_CTL_HELLO, &hello);
	hello.flags = conn->own_qp.verdict == MV_PATH_ASK ? MV_CTL_ASKING : 0;
	mesh_thread_send_later(&hello, NULL);
	conn->own_qp.ask_peer_ns = now_ns + conn->own_qp.ask_step_ns;
	conn->own_qp.ask_step_ns =
		conn->own_qp.ask_step_ns < ASK_PEER_MAX_NS / 2 ? 2 * conn->own_qp.ask_step_ns : ASK_PEER_MAX_NS;
}

uint64_t mesh_conn_await_peer(struct mesh_conn *conn, uint64_t now_ns)
{
	if (!conn->own_qp.awaits_peer || !conn->vqp || conn->state != MESH_CONN_HELD)
		return UINT64_MAX;
	if (conn->own_qp.peer_receives || now_ns >= conn->own_qp.await_until_ns) {
		conn->blocked.in_batch = !mesh_vqp_stop_posting(conn->vqp);
		if (conn->blocked.in_batch)
			return UINT64_MAX; /* mesh_conn_run() comes again for the batch */
		settle(conn, conn->own_qp.type, true, lower_to_rts(conn));
		return UINT64_MAX;
	}
	if (now_ns >= conn->own_qp.ask_peer_ns)
		ask_peer(conn, now_ns);
	return conn->own_qp.ask_peer_ns < conn->own_qp.await_until_ns ? conn->own_qp.ask_peer_ns : conn->own_qp.await_until_ns;
}

bool mesh_conn_take_receives(struct mesh_conn *conn, const struct mv_ctl_msg *msg)
{
	bool passthrough = conn->state == MESH_CONN_HELD && conn->move.state == MV_MOVE_PASSTHROUGH;

	/*
	 * During MV_DO_PASSTHROUGH: drop messages that would begin something else, and answer nothing before this end
	 * receives.
	 */
	if (passthrough && (!conn->own_qp.awaits_peer || msg->flags & MV_CTL_MOVE || msg->type == MV_CTL_SYNC ||
			    msg->type == MV_CTL_STANDBY))
		return msg->type != MV_CTL_BYE;
	if (!passthrough || !mv_move_is_from_peer(&conn->move, msg))
		return false;
	conn->own_qp.peer_receives |=
		msg->type == MV_CTL_BYE || (msg->type == MV_CTL_HELLO && msg->flags & MV_CTL_PASSTHROUGH);
	return false;
}

void mesh_conn_passthrough(struct mesh_conn *conn, const struct mv_move_action *action)
{
	bool receives = false, gone = action->reason == MV_CTL_REASON_GONE;
	int err;

	conn->blocked.entry_ns = 0;
	err = mesh_conn_release_path(conn); /* before the program's own QP can receive messages that the shadow can */

	if (action->reason || action->timed_out)
		give_up(conn, action->reason,
			action->reason ? mv_ctl_reason_text(action->reason) : "the peer's process did not answer");
	if (!err)
		err = lower_to_rtr_at_last(conn, action->gid_type);
	receives = !err;
	/* A peer that never answered cannot be asked whether it receives. */
	if (!err && conn->move.attempts.peer && !action->timed_out && !gone) {
		await_peer(conn, action->gid_type);
		return;
	}
	if (!err)
		err = lower_to_rts(conn);
	/* A peer that is gone shows by an error of the first send, as on a bare HCA. */
	settle(conn, action->gid_type, receives || gone, err);
}

/*
 * Which verdicts allow a connect as the program asked?
 *
 * - WORKS: the path fits now. A peer that connects later finds the same, and connects that way.
 * - drained: the NIC works until it is unplugged.
 * - OTHER_SUBNET: works if the kernel finds a neighbour; else the lower provider refuses.
 * - ASK: whether the index has the right RoCE version only the peer could say.
 * - UNKNOWN: no agent, here or there, knows the peer any more, so no other path can be agreed on.
 */
static bool seems_to_work(const struct mesh_path_decision *decision)
{
	return decision->verdict == MV_PATH_WORKS || decision->verdict == MV_PATH_ASK ||
	       decision->verdict == MV_PATH_OTHER_SUBNET || decision->verdict == MV_PATH_UNKNOWN || decision->drained;
}

/* An agent that was restarted knows no peers for a moment: so a change between known and unknown restarts the time. */
static uint64_t works_since(struct mesh_conn *conn, enum mv_path_verdict verdict, uint64_t now_ns)
{
	bool known = verdict != MV_PATH_UNKNOWN;

	if (!conn->own_qp.works_since_ns || conn->own_qp.works_known != known)
		conn->own_qp.works_since_ns = now_ns;
	conn->own_qp.works_known = known;
	return conn->own_qp.works_since_ns;
}

/*
 * The path is checked as at RTR. A port that was down may flap, so the path has to work for the hold-down. The transaction
 * handles ASK and an empty GID index.
 */
uint64_t mesh_conn_passthrough_at(struct mesh_conn *conn, uint64_t now_ns)
{
	uint64_t hold_down_ns = mesh_root.config.hold_down_ms * 1000000ull, at = mv_move_passthrough_at(&conn->move),
		 since;
	struct mv_path_request request;
	struct mesh_path_decision decision;

	if (conn->state != MESH_CONN_HELD || at == UINT64_MAX || conn->own_qp.verdict == MV_PATH_ASK ||
	    conn->own_qp.verdict == MV_PATH_NO_ENTRY)
		return UINT64_MAX;
	mesh_path_now(conn, &request);
	/* While the own port was down there was no route: now let the lower provider decide. */
	request.routed = conn->own_qp.fits || conn->own_qp.verdict == MV_PATH_LOCAL_DOWN;
	mesh_directory_verdict(&request, &decision);
	if (!seems_to_work(&decision)) {
		conn->own_qp.works_since_ns = 0;
		return UINT64_MAX;
	}
	since = works_since(conn, decision.verdict, now_ns);
	return at > since + hold_down_ns ? at : since + hold_down_ns;
}

/* The program's own QP could not be connected. */
static void stay_held(struct mesh_conn *conn, int err)
{
	mv_move_tried(&conn->move, false, mesh_now_ns()); /* the try may have taken long */
	mv_log(&mesh_root.log, MV_LOG_DEBUG, "%s QP 0x%x to host %s: its path seems to work, but cannot be connected: %s",
	       conn->mc->device, conn->qpn, conn->ends.peer_host, strerrordesc_np(-err));
}

void mesh_conn_try_passthrough(struct mesh_conn *conn)
{
	bool due = conn->own_qp.due && mv_move_passthrough_at(&conn->move) <= mesh_now_ns();
	struct ibv_qp_attr rtr;
	int err;

	conn->own_qp.due = false;
	if (!due)
		return;
	attr_of(conn, conn->ends.local_type, &rtr);
	err = ask_lower(conn, &rtr);
	if (err) {
		stay_held(conn, err);
		return;
	}
	/* No shadow exists, because the peer was never heard of. */
	conn->blocked.in_batch = !mesh_vqp_stop_posting(conn->vqp);
	if (conn->blocked.in_batch)
		return;
	err = lower_to_rtr(conn, &rtr);
	if (err) {
		mesh_vqp_resume_posting(conn->vqp);
		stay_held(conn, err);
		return;
	}
	mv_move_tried(&conn->move, true, mesh_now_ns());
	give_up(conn, MV_CTL_REASON_NONE, "that may work, and the peer's process did not answer");
	/*
	 * From here on the QP can receive, so it cannot go back: another QP would have the same receives. If RTS is refused, a
	 * program that only receives goes on in RTR, and a send fails.
	 */
	settle(conn, conn->ends.local_type, true, lower_to_rts(conn));
}
