// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "conn.h"
#include "keys.h"
#include "vqp_failover.h"
#include "pdstay.h"

/*
 * Remote keys in the messages of a move.
 *
 * A queue pair that begins to move knows from its outstanding work which keys of the peer it will need on the new path. The
 * messages of the move ask for these keys, and bring the answers, before any work is posted. That saves two messages per end and
 * a wait. Other keys, and keys in a message that was lost, are asked for later (rkey_exchange.c).
 *
 *   leader   --OFFER--> follower     asked
 *   follower --ANSWER--> leader      asked, given
 *   leader   --CONFIRM--> follower   given; with SYNC, where there is no CONFIRM
 *
 * A given key is valid for the two QPs of that offer. An answer names the number of its question, and the question is forgotten
 * with the QP: so a late answer has no effect. The same holds if the peer's program deregisters such a key (KEY_DROP), which may
 * overtake the answer.
 *
 * A key that this end has never seen is not answered. Then the connection stays (pdstay.h), and both ends know that before any
 * drain. For that reason recently used keys are asked for, too, even if no work is outstanding.
 *
 * A key that was deregistered is not answered. The program may have used the key before, and may use it again after a new
 * registration; a peer that was told "invalid" would not ask then. A key whose memory is not registered on the rail yet is not
 * answered either: registration may take seconds, and the move is not agreed yet.
 *
 * Older plugins and agents drop a message with keys, so a repeated message has none.
 */

_Static_assert(MESH_FAILOVER_KEYS == MV_CTL_KEYS, "all that are found can be asked for");

void mesh_conn_keys_begin(struct mesh_conn *conn)
{
	memset(conn->moving.keys.ours, 0, sizeof(conn->moving.keys.ours));
}

static void ask(struct mesh_conn *conn, uint32_t offer, struct mv_ctl_keys *ret)
{
	struct mesh_conn_move_keys *keys = &conn->moving.keys;
	uint32_t rkeys[MESH_FAILOVER_KEYS];
	size_t n, i;

	if (keys->asked_for == offer)
		return;
	keys->asked_for = offer;
	n = mesh_failover_remote_keys(conn->vqp, rkeys);
	n = mesh_failover_past_keys(conn->vqp, rkeys, n);
	for (i = 0; i < n; i++) {
		ret->asked[i] = (struct mv_ctl_key){.id = mesh_conn_next_request(conn), .key = rkeys[i]};
		keys->ours[i] = (struct mesh_conn_move_key){.id = ret->asked[i].id, .key.rkey = rkeys[i]};
	}
}

static void give(struct mesh_conn *conn, uint32_t offer, struct mv_ctl_keys *ret)
{
	struct mesh_conn_move_keys *keys = &conn->moving.keys;
	const struct mv_ctl_key *asked;
	uint32_t path_rkey;
	size_t i;

	if (keys->told_for == offer || keys->offer != offer || !conn->moving.next_path.pd)
		return;
	keys->told_for = offer;
	mesh_conn_key_peer(conn); /* the first message of a new connection may be this one */
	for (i = 0; i < MV_CTL_KEYS; i++) {
		asked = &keys->asked[i];
		if (!asked->id)
			continue;
		mesh_conn_note_told(conn, asked->key);
		if (!mesh_key_remote_ready(conn->moving.next_path.pd, asked->key, &path_rkey))
			ret->given[i] = (struct mv_ctl_key){.id = asked->id, .key = path_rkey};
	}
}

static bool is_of_move(const struct mv_ctl_msg *msg)
{
	return msg->flags & MV_CTL_MOVE || msg->type == MV_CTL_SYNC;
}

void mesh_conn_keys_go(struct mesh_conn *conn, const struct mv_ctl_msg *msg, struct mv_ctl_keys *ret)
{
	bool answers = msg->type == MV_CTL_ANSWER && msg->flags & MV_CTL_READY;

	*ret = (struct mv_ctl_keys){0};
	if (!is_of_move(msg))
		return;
	if (answers || msg->type == MV_CTL_OFFER)
		ask(conn, msg->request_id, ret);
	if (answers || msg->type == MV_CTL_CONFIRM || msg->type == MV_CTL_SYNC)
		give(conn, msg->request_id, ret);
}

static void take(struct mesh_conn_move_key *ours, const struct mv_ctl_key *given)
{
	size_t i;

	for (i = 0; i < MV_CTL_KEYS; i++) {
		if (!ours[i].id || ours[i].id != given->id)
			continue;
		ours[i].key.path_rkey = given->key;
		ours[i].given = true;
	}
}

/*
 * Check keys that the peer asks for, before any drain. A key that was never seen here cannot be had on another NIC:
 * mesh_failover_lost() says so from now on.
 */
static void check_asked(const struct mesh_conn *conn, const struct mv_ctl_key *asked)
{
	size_t i;

	for (i = 0; i < MV_CTL_KEYS; i++)
		if (asked[i].id)
			mesh_pd_check_key(conn->qp->pd, MESH_BY_RKEY, asked[i].key);
}

void mesh_conn_keys_came(struct mesh_conn *conn, const struct mv_ctl_msg *msg, const struct mv_ctl_keys *keys)
{
	struct mesh_conn_move_keys *ours = &conn->moving.keys;
	size_t i;

	if (!is_of_move(msg) || !conn->vqp || !mv_move_is_from_peer(&conn->move, msg))
		return;
	/* A repeated message has no keys; the first one may have come. */
	if (keys->asked[0].id) {
		check_asked(conn, keys->asked);
		memcpy(ours->asked, keys->asked, sizeof(ours->asked));
		ours->offer = msg->request_id;
	}
	for (i = 0; i < MV_CTL_KEYS; i++)
		take(ours->ours, &keys->given[i]);
}

void mesh_conn_keys_dropped(struct mesh_conn *conn, uint32_t rkey)
{
	struct mesh_conn_move_key *ours = conn->moving.keys.ours;
	size_t i;

	for (i = 0; i < MV_CTL_KEYS; i++)
		if (ours[i].key.rkey == rkey)
			ours[i] = (struct mesh_conn_move_key){0};
}

void mesh_conn_keys_use(const struct mesh_conn *conn, struct mesh_failover_keys *ret)
{
	const struct mesh_conn_move_key *ours = conn->moving.keys.ours;
	size_t i;

	ret->n = 0;
	for (i = 0; i < MV_CTL_KEYS; i++)
		if (ours[i].given)
			ret->keys[ret->n++] = ours[i].key;
}
