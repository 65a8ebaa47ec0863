// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <string.h>

#include "connectint.h"
#include "count.h"
#include "failover_exec.h"
#include "failover_policy.h"
#include "vqp_failover.h"
#include "passthrough.h"
#include "negotiateint.h"
#include "proved.h"
#include "srq.h"
#include "survives.h"

/* The program brings a queue pair to RTR. A connection whose path works goes straight to the lower provider. */

/* @vqp: NULL: the queue pair has the lower provider's functions. */
static int modify_lower(struct mesh_context *mc, struct mesh_vqp *vqp, struct ibv_qp *qp, struct ibv_qp_attr *attr,
		       int mask)
{
	return vqp ? mesh_vqp_modify_lower(vqp, attr, mask) : mc->lower.qp.modify_qp(qp, attr, mask);
}

static int rtr_passthrough(struct mesh_context *mc, struct mesh_vqp *vqp, struct ibv_qp *qp, struct ibv_qp_attr *attr,
			   int mask, uint8_t index)
{
	struct ibv_qp_attr repaired;
	int err = mesh_srq_join_lower(mc, qp, !vqp), own;

	if (err)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: a queue pair cannot receive from its SRQ: what is posted there is in use "
			    "by connections that have moved, and cannot be taken back: %s", mc->device, strerrordesc_np(-err));
	if (err)
		return -err;
	if (!attr->ah_attr.is_global || index == attr->ah_attr.grh.sgid_index)
		return modify_lower(mc, vqp, qp, attr, mask);
	repaired = *attr;
	repaired.ah_attr.grh.sgid_index = index;
	err = modify_lower(mc, vqp, qp, &repaired, mask);
	if (!err) {
		mesh_count(MV_COUNT_REPAIRED_QP);
		return 0;
	}
	mesh_count(MV_COUNT_REPAIR_REFUSED);
	own = modify_lower(mc, vqp, qp, attr, mask);
	if (!own)
		return 0;
	errno = mesh_paths_refusal(err, own);
	return errno;
}

/*
 * The attempt number grows with each connect on this host. So a late message for an earlier connection with the same QPN is
 * recognised.
 */
static uint32_t next_attempt(uint64_t now_ns)
{
	_Atomic uint64_t *last = &mesh_root.process->conns.last_attempt;
	uint64_t before = atomic_load_explicit(last, memory_order_relaxed), next;

	do {
		next = now_ns / 1000000;
		if (next <= before)
			next = before + 1;
		if (!(uint32_t)next)
			next++; /* 0 means none */
	} while (!atomic_compare_exchange_weak_explicit(last, &before, next, memory_order_relaxed, memory_order_relaxed));
	return (uint32_t)next;
}

/* Is the connection self-connected? */
static bool is_itself(const struct mesh_conn *conn, const struct mesh_choice *choice, const struct ibv_qp_attr *attr,
		      const struct mesh_path_decision *decision)
{
	return decision->verdict == MV_PATH_SELF && attr->dest_qp_num == conn->qpn &&
	       mv_gid_equal(&choice->dgid, &choice->gid);
}

static void describe(struct mesh_conn *conn, const struct ibv_qp_attr *attr, int mask, const struct mesh_choice *choice,
		     const struct mesh_path_decision *decision)
{
	conn->attr.rtr = *attr;
	conn->attr.rtr_mask = mask;
	conn->ends.own_host = decision->verdict == MV_PATH_SELF;
	conn->ends.self = is_itself(conn, choice, attr, decision);
	conn->ends.local = (struct mv_ctl_end){.gid = choice->gid, .qpn = conn->qpn};
	conn->ends.peer = (struct mv_ctl_end){.gid = choice->dgid, .qpn = attr->dest_qp_num};
	conn->ends.local_type = choice->type;
	conn->own_qp.verdict = decision->verdict;
	conn->own_qp.fits = choice->fits;
	conn->attempt.rtr_ns = mesh_now_ns();
	conn->attempt.number = next_attempt(conn->attempt.rtr_ns);
	conn->attempt.nonce = 0;
	memcpy(conn->ends.peer_host, decision->host, sizeof(conn->ends.peer_host));
	conn->ends.host_id = decision->host_id;
}

/* Take over the QP's work, and begin to ask the peer. conn->lock */
static int hold_locked(struct mesh_conn *conn, const struct mesh_path_decision *decision)
{
	bool drawn = mesh_conn_draw_nonce(conn);
	struct mv_move_begin begin = {.local = conn->ends.local,
				      .peer = conn->ends.peer,
				      .local_type = conn->ends.local_type,
				      .verdict = decision->verdict,
				      .paths = decision->paths,
				      .n_paths = decision->n_paths,
				      .rq_psn = conn->attr.rtr.rq_psn & 0xffffff,
				      .attempt = conn->attempt.number,
				      .nonce = conn->attempt.nonce};
	int err;

	err = drawn ? mesh_vqp_new(conn->mc, conn->qp, &mesh_conn_vqp_ops, conn, &conn->vqp) : -EPERM;
	if (err) {
		conn->vqp = NULL;
		return err;
	}
	mesh_conn_refuse_no_more(conn);
	conn->own_qp.listens = conn->own_qp.awaits_peer = false;
	conn->state = MESH_CONN_HELD;
	conn->attempt.held_ns = mesh_now_ns();
	conn->own_qp.works_since_ns =
		decision->verdict == MV_PATH_OTHER_SUBNET ? 1 : 0; /* another subnet: works from the start */
	conn->own_qp.works_known = true;
	mesh_count(MV_COUNT_HELD);
	mv_move_begin(&conn->move, &begin, &mesh_root.move_times, conn->attempt.held_ns);
	return 0;
}

/* Return: 0; -errno: the connection is as before, but without the record of its receives. */
static int hold(struct mesh_conn *conn, const struct ibv_qp_attr *attr, int mask, const struct mesh_choice *choice,
		const struct mesh_path_decision *decision)
{
	int err = -EALREADY;

	mesh_lock(&conn->lock);
	if (conn->state == MESH_CONN_INIT) {
		describe(conn, attr, mask, choice, decision);
		err = hold_locked(conn, decision);
		if (!err && decision->verdict == MV_PATH_ASK)
			mesh_conn_listen(conn);
	}
	mesh_unlock(&conn->lock);
	if (err)
		return err;
	mesh_conn_connected(conn, &choice->gid, false);
	err = mesh_thread_wake(true);
	if (!err)
		return 0;
	mesh_lock(&conn->lock);
	mesh_conn_listen_no_more(conn); /* before RTR has returned no thread posts */
	mesh_vqp_destroy(conn->vqp); /* the program's own QP has the receives, too */
	conn->vqp = NULL;
	conn->state = MESH_CONN_INIT;
	mesh_conn_key_peer(conn);
	mesh_unlock(&conn->lock);
	return err;
}

/* mode = observe: log what would be asked of the peer. */
static void log_would_move(const struct mesh_context *mc, const struct ibv_qp_attr *attr, const struct mesh_choice *choice,
			   const struct mesh_path_decision *decision)
{
	const struct mv_path *path = &decision->paths[0];
	char to[MV_GID_STRLEN], from[MV_GID_STRLEN], peer[MV_GID_STRLEN];

	mesh_count(MV_COUNT_OBSERVED_MOVE);
	mv_gid_format(&choice->dgid, to);
	if (decision->verdict == MV_PATH_ASK)
		mv_log_once(&mesh_root.log, MV_LOG_INFO,
			    "%s port %u to %s on host %s: would ask the peer for its RoCE version: observing only", mc->device,
			    attr->ah_attr.port_num, to, decision->host);
	else
		mv_log_once(&mesh_root.log, MV_LOG_INFO,
			    "%s port %u to %s on host %s: %s; would go from %s to %s instead: observing only", mc->device,
			    attr->ah_attr.port_num, to, decision->host, mv_path_verdict_text(decision->verdict),
			    mv_gid_format(&path->local_gid, from), mv_gid_format(&path->remote_gid, peer));
}

static void log_stuck(const struct mesh_context *mc, const struct ibv_qp_attr *attr, const struct mesh_choice *choice,
		      const struct mesh_path_decision *decision, const char *why)
{
	char to[MV_GID_STRLEN];

	mesh_count(MV_COUNT_STUCK);
	mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s port %u to %s on host %s: %s; left as the program asked: %s", mc->device,
		    attr->ah_attr.port_num, mv_gid_format(&choice->dgid, to), decision->host,
		    mv_path_verdict_text(decision->verdict), why);
}

static void adopt(struct mesh_conn *conn)
{
	const struct mv_move_begin begin = {.local = conn->ends.local,
					    .peer = conn->ends.peer,
					    .local_type = conn->ends.local_type,
					    .rq_psn = conn->attr.rtr.rq_psn & 0xffffff,
					    .attempt = conn->attempt.number,
					    .nonce = conn->attempt.nonce};

	mv_move_adopt(&conn->move, &begin, MV_CTL_PSN_NONE, &mesh_root.move_times, mesh_now_ns());
}

/*
 * Fail a second RTR of a connected QP: RTR follows INIT only. With @conn->vqp the program's own QP is not asked,
 * because it may still be in INIT. Called with conn->lock held, not in MESH_CONN_INIT. Return: as
 * mc->lower.qp.modify_qp().
 */
static int rtr_again(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask)
{
	return conn->vqp ? mesh_conn_refuse() : conn->mc->lower.qp.modify_qp(conn->qp, attr, mask);
}

/*
 * The peer may be held, and ask this end. Without an answer, a peer program that only receives would wait for ever; on a bare HCA
 * it has an error at RTR. The lower provider may now wait for ARP or ND for seconds, with conn->lock held: so have the
 * helper thread answer meanwhile. conn->lock
 */
static void begin_refusing(struct mesh_conn *conn)
{
	mesh_conn_draw_nonce(conn);
	mesh_conn_refuse_peer(conn);
	/* The helper thread does not try for conn->lock. */
	atomic_store_explicit(&conn->flags.at_work, true, memory_order_release);
	mesh_conn_connected(conn, &conn->ends.local.gid, false);
	mesh_thread_wake(true);
}

/* @err: result of RTR. From now on the peer gets normal answers. conn->lock */
static void end_refusing(struct mesh_conn *conn, int err)
{
	if (!err)
		mesh_conn_refuse_no_more(conn);
	atomic_store_explicit(&conn->flags.at_work, false, memory_order_release);
	mesh_conn_queue(conn, true);
}

/* Can the peer be told that this end stays as its program asked? */
static bool is_to_refuse(const struct mesh_path_decision *decision)
{
	return mesh_decide_needs_agreement(decision) && decision->agent_version == MV_CTL_VERSION;
}

/*
 * RTR, with a log of work. @refused: the lower provider's error of an earlier try, so that the lower provider is not
 * asked again; or 0. conn->lock
 */
static int rtr_logged(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask, const struct mesh_choice *choice,
		      const struct mesh_path_decision *decision, int refused)
{
	int err;

	if (conn->state != MESH_CONN_INIT)
		return rtr_again(conn, attr, mask); /* another thread was first */
	describe(conn, attr, mask, choice, decision);
	conn->attempt.unlogged = mesh_decide_bound_by(conn, choice, attr, decision);
	if (!conn->attempt.unlogged && !mesh_conn_draw_nonce(conn))
		conn->attempt.unlogged = "the kernel gives the program no random numbers";
	if (!conn->attempt.unlogged)
		conn->attempt.unlogged = mesh_conn_track(conn, mesh_mtu_bytes(attr->path_mtu));
	if (is_to_refuse(decision))
		begin_refusing(conn);
	err = refused ? refused : rtr_passthrough(conn->mc, conn->vqp, conn->qp, attr, mask, choice->index);
	if (is_to_refuse(decision))
		end_refusing(conn, err);
	else if (!err && conn->refusal.on)
		mesh_conn_refuse_no_more(conn); /* of an earlier RTR, which failed */
	if (err && conn->vqp) {
		/* A program may repeat RTR after the kernel did not find the neighbour. */
		mesh_failover_untrack(conn->vqp);
		conn->vqp = NULL;
	}
	if (err)
		return err;
	if (!conn->vqp)
		mesh_recvlog_end(conn->mc, conn->qp);
	conn->state = MESH_CONN_PASSTHROUGH;
	if (conn->vqp) {
		adopt(conn);
		mesh_conn_settled(conn);
	} else {
		mesh_conn_log_unlogged(conn);
	}
	return 0;
}

/* For a QP whose receives are not recorded. */
static void log_unknown(struct mesh_context *mc, const struct ibv_qp *qp)
{
	int saved_errno = errno;

	if (mc->can_move && qp->qp_type == IBV_QPT_RC && mesh_survives(mc))
		mv_log(&mesh_root.log, MV_LOG_DEBUG,
		       "%s QP 0x%x: cannot be moved later: %s; the program gets its errors", mc->device, qp->qp_num,
		       mesh_forgotten_why(mc, qp->qp_num));
	errno = saved_errno;
}

/* @conn: may be NULL */
static int connect_passthrough(struct mesh_context *mc, struct mesh_conn *conn, struct ibv_qp *qp,
			       struct ibv_qp_attr *attr, int mask, const struct mesh_choice *choice,
			       const struct mesh_path_decision *decision, int refused)
{
	bool logged;
	int err, saved_errno;

	if (!conn) {
		err = refused ? refused : rtr_passthrough(mc, NULL, qp, attr, mask, choice->index);
		if (!err)
			log_unknown(mc, qp);
		return err;
	}
	mesh_lock(&conn->lock);
	err = rtr_logged(conn, attr, mask, choice, decision, refused);
	saved_errno = errno;
	logged = conn->vqp;
	mesh_unlock(&conn->lock);
	if (err)
		goto out;
	if (logged || decision->agent_version) {
		/* A peer that finds the path broken gets an answer, also where this end could not look up the route. */
		if (logged && conn->ends.self)
			mesh_conn_follows(conn);
		mesh_conn_connected(conn, &choice->gid, !logged);
		mesh_thread_wake(false);
	} else {
		mesh_conn_unlink(conn);
	}
out:
	errno = saved_errno;
	return err;
}

/* Is the QP connected already? Then @ret_err is the result of this RTR. */
static bool is_connected(struct mesh_conn *conn, struct ibv_qp_attr *attr, int mask, int *ret_err)
{
	bool again;

	mesh_lock(&conn->lock);
	again = conn->state != MESH_CONN_INIT;
	if (again)
		*ret_err = rtr_again(conn, attr, mask);
	mesh_unlock(&conn->lock);
	return again;
}

/* Log once per address. A connection that could never move loses nothing, so there is no line. */
static void log_doubted(struct mesh_context *mc, const struct ibv_qp *qp, const struct ibv_qp_attr *attr, const struct mesh_choice *choice)
{
	int saved_errno = errno;
	char to[MV_GID_STRLEN];

	if (mc->can_move && qp->qp_type == IBV_QPT_RC && mesh_survives(mc))
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "%s port %u to %s: the host that announces the address was never heard on the address's link, nor has answered "
			    "there: the address may belong to a host without an agent, so a connection is first made as without meshverbs, "
			    "and stays if that works; name the address in the hosts file, or have a fleet key",
			    mc->device, attr->ah_attr.port_num, mv_gid_format(&choice->dgid, to));
	errno = saved_errno;
}

int mesh_qp_to_rtr(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int cancel = mesh_cancel_off(), err = 0, saved_errno = errno;
	int refused = 0; /* the lower provider's error of the first try, while the peer was not known, or doubted */
	bool stranger, doubted, absent;
	struct mesh_conn *conn = mc->can_move ? mesh_conn_get(qp) : NULL;
	struct mesh_choice choice;
	struct mesh_path_decision decision;
	char no_rail[256];
	const char *why;

	if (conn && is_connected(conn, attr, mask, &err))
		goto out;
	mesh_decide_rtr(mc, qp, attr, false, &choice, &decision);
decided:
	if (mesh_decide_needs_agreement(&decision)) {
		if (!mesh_is_rtr(mask))
			goto passthrough; /* the lower provider reports what is wrong with the attributes */
		why = mesh_decide_cannot_move(mc, conn, qp->qp_num, &decision);
		if (!why && mc->logged_only) {
			log_would_move(mc, attr, &choice, &decision);
			goto passthrough;
		}
		/* Check this before RTR returns 0: afterwards no error could be given to a program that waits for none. */
		if (!why)
			why = mesh_decide_why_no_rail(mc, qp, &decision, no_rail, sizeof(no_rail));
		if (!why) {
			err = hold(conn, attr, mask, &choice, &decision);
			if (!err)
				goto out;
			why = err == -EBUSY ? mesh_vqp_why_busy(mc, qp) : strerrordesc_np(err < 0 ? -err : err);
		}
		if (decision.verdict != MV_PATH_ASK)
			log_stuck(mc, attr, &choice, &decision, why);
	} else {
		mesh_paths_why_not(&choice);
	}
passthrough:
	stranger = !refused && decision.verdict == MV_PATH_UNKNOWN &&
		   mesh_directory_is_stranger(&choice.dgid, choice.fits);
	doubted = stranger && mesh_directory_is_doubted(&choice.dgid, choice.fits);
	if (doubted)
		log_doubted(mc, qp, attr, &choice);
	err = connect_passthrough(mc, conn, qp, attr, mask, &choice, &decision, refused);
	if (!refused || !err)
		saved_errno = errno;
	/*
	 * The kernel found no neighbour, so no host without an agent has the address: believe the host that announces it, and
	 * the links on which that host is heard.
	 */
	absent = !refused && (doubted || decision.verdict == MV_PATH_WORKS) && mesh_is_nobody_there(err);
	if (absent)
		mesh_directory_note_absent(&choice.gid, &choice.dgid);
	/*
	 * The lower provider waits for a missing neighbour for a second or more. By then the peer's host may have
	 * answered the agent.
	 */
	if (absent || (err && stranger && !mesh_directory_is_stranger(&choice.dgid, choice.fits))) {
		refused = err;
		mesh_decide_rtr(mc, qp, attr, true, &choice, &decision);
		if (mesh_decide_needs_agreement(&decision))
			goto decided;
	}
	if (choice.differs || mesh_decide_needs_agreement(&decision))
		mesh_counts_changed();
	errno = saved_errno;
out:
	mesh_conn_put(conn);
	mesh_cancel_restore(cancel);
	return err;
}
