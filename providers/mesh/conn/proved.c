// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "proved.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

bool mesh_conn_draw_nonce(struct mesh_conn *conn)
{
	uint64_t nonce;

	if (conn->attempt.nonce)
		return true;
	if (getrandom(&nonce, sizeof(nonce), GRND_NONBLOCK) != sizeof(nonce))
		return false;
	conn->attempt.nonce = nonce ? nonce : 1;
	return true;
}

/* A sender that names the random number of our attempt receives our messages: its messages are exempt from the rate limit. */
static int try(struct mesh_conn *conn, uint64_t nonce, uint32_t sq_psn, uint32_t rq_psn, struct mv_ctl_msg *msg,
	       struct mv_ctl_keys *keys, uint64_t now_ns)
{
	bool named = nonce && msg->to_nonce == nonce;
	int err;

	if (!named && !mv_proof_may_try(&conn->inbound.proof_limit, now_ns))
		return -EBADMSG;
	err = mv_proof_open(msg, keys, sq_psn, rq_psn);
	if (err == -EBADMSG && !named)
		mv_proof_failed(&conn->inbound.proof_limit, now_ns);
	return err;
}

const struct mv_host_id *mesh_conn_peer_host(const struct mesh_conn *conn)
{
	return !mv_host_id_is_zero(&conn->ends.host_id) ? &conn->ends.host_id : NULL;
}

bool mesh_conn_is_of_peer(const struct mesh_conn *conn, const union ibv_gid *gid)
{
	uint32_t flags;

	return mv_host_id_is_zero(&conn->ends.host_id) ||
	       mesh_directory_holder(&conn->ends.host_id, gid, &flags) != MESH_HOLDER_OTHER;
}

/* An unknown PSN counts as 0. A connection without @vqp does not move anyway. */
static bool has_zero_psns(const struct mesh_conn *conn)
{
	return !conn->move.rq_psn && (!conn->move.sq_psn || conn->move.sq_psn == MV_CTL_PSN_NONE);
}

/* An agent of an older version does not name its host (zero). */
static bool is_another_host(const struct mesh_conn *conn, const struct mv_host_id *from)
{
	return !mv_host_id_is_zero(&conn->ends.host_id) && !mv_host_id_is_zero(from) &&
	       memcmp(from, &conn->ends.host_id, sizeof(*from));
}

int mesh_conn_open(struct mesh_conn *conn, const struct mv_host_id *from, struct mv_ctl_msg *msg, struct mv_ctl_keys *keys, uint64_t now_ns)
{
	uint32_t sq_psn;

	/* Nonzero PSNs are proof enough; only without them the host is checked. */
	if (conn->state == MESH_CONN_INIT ||
	    (has_zero_psns(conn) && (is_another_host(conn, from) || !mesh_conn_is_of_peer(conn, &conn->ends.peer.gid))))
		return -EBADMSG;
	if (conn->vqp)
		return try(conn, conn->move.attempts.my_nonce, conn->move.sq_psn, conn->move.rq_psn, msg, keys, now_ns);
	sq_psn = conn->attr.rts_mask ? conn->attr.rts.sq_psn & 0xffffff : mesh_conn_sq_psn(conn);
	return try(conn, conn->attempt.nonce, sq_psn, conn->attr.rtr.rq_psn & 0xffffff, msg, keys, now_ns);
}

int mesh_conn_open_refused(struct mesh_conn *conn, const struct mesh_conn_refusal *refusal, struct mv_ctl_msg *msg, uint64_t now_ns)
{
	return try(conn, refusal->nonce, MV_CTL_PSN_NONE, refusal->rq_psn, msg, NULL, now_ns);
}

const char *mesh_conn_unproved(const struct mesh_conn *conn)
{
	uint32_t flags;

	if (mesh_root.config.survive_unauthenticated || conn->ends.self || conn->ends.own_host ||
	    mv_host_id_is_zero(&conn->ends.host_id))
		return NULL;
	/* If no host is known to have the GID, there is no path either. */
	if (mesh_directory_holder(&conn->ends.host_id, &conn->ends.peer.gid, &flags) != MESH_HOLDER_SAME ||
	    flags & MV_PEER_AUTHENTICATED)
		return NULL;
	if (flags & MV_PEER_ROUTED)
		return "that host is beyond a router, and not authenticated";
	return has_zero_psns(conn) ? "its PSNs are 0, and the hosts have not authenticated each other" : NULL;
}

void mesh_conn_say_unproved(const struct mesh_conn *conn)
{
	const char *why = mesh_conn_unproved(conn);

	if (why)
		mv_log_once(&mesh_root.log, MV_LOG_WARN,
			    "connections to host %s do not move: %s; see `meshverbs keys`, or set unauthenticated = on in [survive] of mesh.conf",
			    conn->ends.peer_host, why);
}

bool mesh_conn_may_speak(uint64_t rtr_ns, uint64_t now_ns)
{
	return now_ns >= rtr_ns + mesh_root.move_times.rtr_ns;
}
