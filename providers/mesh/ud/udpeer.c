// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "udint.h"

/*
 * Peers of the program's UD QPs, and the question for a path. A process that wants to send asks the peer's process (UD_GET) for
 * an outlet on the rail that the directory names, and names its own outlet: one exchange serves both directions. The QKey in the
 * question is what datagrams need as well. udhost.c says which hosts are believed.
 */

#define RESEND_NS     2000000ull
#define RESEND_MAX_NS 500000000ull
#define GIVE_UP_NS    10000000000ull
#define AGAIN_NS      1000000000ull /* after a failure: earliest try with a later datagram */
#ifndef REFRESH_NS /* a plugin of tests/sim/rightnic never refreshes */
#define REFRESH_NS    5000000000ull /* interval of questions while in use: the peer may have forgotten this end, or have moved */
#endif

struct mesh_ud_peer *mesh_ud_peer_new(struct mesh_ud_qp *owner, const struct mv_ctl_end *end,
				      const union ibv_gid *local_gid, uint8_t local_type, uint32_t qkey)
{
	struct mesh_ud_peer *peer;
	char why[256] = "";
	int err;

	if (!mesh_ud_make_room(mesh_now_ns())) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "datagrams to more than %u peers behind other rails are lost",
			    UD_MAX_PEERS);
		errno = ENOSPC;
		return NULL;
	}
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->owner = owner;
	peer->end = *end;
	peer->local_gid = *local_gid;
	peer->local_type = local_type;
	peer->qkey = mesh_ud_relay_qkey(owner, qkey);
	peer->state = MESH_UD_FAILED;
	peer->used_at_ns = mesh_now_ns();
	err = mesh_ud_make_relay(peer, why, sizeof(why));
	if (err) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: datagrams to another rail are lost: %s: %s",
			    owner->mc->device, why, strerrordesc_np(-err));
		mesh_ud_peer_free(peer);
		errno = -err;
		return NULL;
	}
	peer->next = owner->peers;
	owner->peers = peer;
	mesh_root.ud.n_peers++;
	return peer;
}

/* ---- its state ------------------------------------------------------------------------------------------------ */

/* For `meshverbs qps`, which shows one peer per queue pair: the last whose state changed. */
static void tell_status(const struct mesh_ud_peer *peer)
{
	char local[MV_GID_STRLEN], end[MV_GID_STRLEN], rail[MV_GID_STRLEN] = "", to[MV_GID_STRLEN] = "";
	struct mv_frame frame = {.type = MV_FRAME_STATUS, .qpn = peer->owner->qpn};
	bool moved = peer->state == MESH_UD_READY;
	int len;

	memcpy(frame.device, peer->owner->mc->device, sizeof(frame.device));
	if (moved) {
		mv_gid_format(&peer->path.gid, to);
		mv_gid_format(&peer->outlet_gid, rail);
	}
	len = snprintf((char *)frame.payload, sizeof(frame.payload),
		       "{\"state\":\"%s\",\"reason\":\"%s\",\"gid\":\"%s\",\"peer_gid\":\"%s\",\"peer_qpn\":%u,"
		       "\"peer_host\":\"%s\",\"rail\":\"%s\",\"rail_gid\":\"%s\",\"rail_peer_gid\":\"%s\"}",
		       moved ? "moved" : "failed", mv_path_verdict_name(MV_PATH_APART),
		       mv_gid_format(&peer->local_gid, local), mv_gid_format(&peer->end.gid, end), peer->end.qpn,
		       peer->host, moved ? peer->outlet->rail->rail->device : "", rail, to);
	if (len < 0 || (size_t)len >= sizeof(frame.payload))
		return;
	frame.len = (uint16_t)len;
	mesh_thread_frame(&frame);
}

static void ready(struct mesh_ud_peer *peer, uint64_t now_ns)
{
	bool fresh = peer->state != MESH_UD_READY;
	char to[MV_GID_STRLEN];

	if (fresh)
		mv_log(&mesh_root.log, peer->spoken ? MV_LOG_INFO : MV_LOG_DEBUG, "%s QP 0x%x: datagrams to %s QP 0x%x go by %s",
		       peer->owner->mc->device, peer->owner->qpn, mv_gid_format(&peer->end.gid, to), peer->end.qpn,
		       peer->outlet->rail->rail->device);
	peer->state = MESH_UD_READY;
	peer->asking.n = 0;
	peer->asking.refresh_at_ns = now_ns + REFRESH_NS;
	mesh_ud_flush_queued(peer);
	if (fresh)
		tell_status(peer);
}

/* For a peer in ASKING. A READY peer stays READY until there is a better path. */
static void failed(struct mesh_ud_peer *peer, uint64_t now_ns, const char *why)
{
	char to[MV_GID_STRLEN];

	mv_log_once(&mesh_root.log, peer->spoken ? MV_LOG_WARN : MV_LOG_DEBUG, "%s: datagrams to %s are lost: %s",
		    peer->owner->mc->device, mv_gid_format(&peer->end.gid, to), why);
	peer->state = MESH_UD_FAILED;
	peer->asking.resend_at_ns = now_ns + AGAIN_NS;
	mesh_ud_flush_queued(peer);
	tell_status(peer);
}

/* ---- asking -------------------------------------------------------------------------------------------------- */

static void begin(const struct mesh_ud_peer *peer, enum mv_ctl_type type, struct mv_ctl_msg *ret)
{
	*ret = (struct mv_ctl_msg){
		.type = (uint8_t)type,
		.attempt = 1,
		.from = {.gid = peer->local_gid, .qpn = peer->owner->qpn},
		.to = peer->end,
		.from_psn = MV_CTL_PSN_NONE,
		.to_psn = MV_CTL_PSN_NONE,
	};
}

void mesh_ud_peer_ask(struct mesh_ud_peer *peer, uint64_t now_ns)
{
	peer->state = MESH_UD_ASKING;
	peer->asking.n = 0;
	peer->asking.request_id = 0;
	peer->asking.resend_at_ns = 0;
	peer->asking.step_ns = RESEND_NS;
	peer->asking.give_up_ns = now_ns + GIVE_UP_NS;
}

/* Look up the current paths, also if the program's own path would work by now: the program still uses the relay's address. */
static void find_paths(struct mesh_ud_peer *peer, struct mesh_path_decision *ret)
{
	struct mv_path_request request = {
		.device = peer->owner->mc->device,
		.port_num = peer->owner->port_num,
		.sgid = peer->local_gid,
		.sgid_type = peer->local_type,
		.dgid = peer->end.gid,
		.routed = peer->routed,
		.by_links = peer->by_links,
		.host = mesh_ud_host_of(peer),
	};

	request.made = request.host != NULL;
	mesh_directory_paths(&request, ret);
	if (!ret->host[0])
		return;
	snprintf(peer->host, sizeof(peer->host), "%s", ret->host);
	peer->host_id = ret->host_id;
}

#define SAME_PATH 4u /* questions per path, because questions get lost */

/* Skip the current path. */
static void next_path(struct mesh_ud_peer *peer)
{
	peer->asking.n = (peer->asking.n + SAME_PATH - 1) / SAME_PATH * SAME_PATH;
}

static void ask_for(struct mesh_ud_peer *peer, const struct mv_path *path, struct mesh_ud_port *outlet)
{
	struct mv_ctl_msg msg;

	peer->asking.gid = path->local_gid;
	peer->asking.type = path->type;
	peer->asking.request_id = ++mesh_root.ud.last_request;
	begin(peer, MV_CTL_UD_GET, &msg);
	msg.gid_type = path->type;
	msg.request_id = peer->asking.request_id;
	msg.path = (struct mv_ctl_end){.gid = path->local_gid, .qpn = outlet->qp->qp_num};
	msg.path_lid = mesh_ud_port_lid(outlet);
	msg.path_peer_gid = path->remote_gid;
	msg.key = peer->qkey;
	msg.rkey = peer->owner->qkey;
	mesh_thread_send(&msg);
}

/* Ask for the next path for which there is an outlet here. Return: false with @why: there is none. */
static bool send_question(struct mesh_ud_peer *peer, char *why, size_t why_size)
{
	struct mesh_ud_port *outlet = NULL;
	const struct mv_path *path;
	struct mesh_path_decision decision;
	size_t i;

	find_paths(peer, &decision);
	snprintf(why, why_size, "no rail of this host reaches one of the peer's");
	for (i = 0; i < decision.n_paths && !outlet; i++) {
		path = &decision.paths[peer->asking.n++ / SAME_PATH % decision.n_paths];
		outlet = mesh_ud_outlet_on(peer->owner, &path->local_gid, path->type, why, why_size);
		if (outlet)
			ask_for(peer, path, outlet);
		else
			next_path(peer);
	}
	return outlet;
}

uint64_t mesh_ud_peer_run(struct mesh_ud_peer *peer, uint64_t now_ns)
{
	char why[256];

	if (peer->state == MESH_UD_READY) {
		if (now_ns < peer->asking.refresh_at_ns)
			return UINT64_MAX; /* a later datagram or event is early enough */
		peer->asking.refresh_at_ns = now_ns + REFRESH_NS;
		if (peer->used_at_ns + REFRESH_NS > now_ns) /* used since the last question */
			send_question(peer, why, sizeof(why)); /* if impossible, later */
		return UINT64_MAX;
	}
	if (peer->state != MESH_UD_ASKING)
		return UINT64_MAX;
	if (now_ns >= peer->asking.give_up_ns) {
		failed(peer, now_ns, "the peer's process does not answer");
		return UINT64_MAX;
	}
	if (now_ns >= peer->asking.resend_at_ns) {
		if (!send_question(peer, why, sizeof(why))) {
			failed(peer, now_ns, why);
			return UINT64_MAX;
		}
		peer->asking.resend_at_ns = now_ns + peer->asking.step_ns;
		if (peer->asking.step_ns < RESEND_MAX_NS)
			peer->asking.step_ns *= 2;
	}
	return peer->asking.resend_at_ns;
}

/* ---- messages ------------------------------------------------------------------------------------------------ */

static struct mesh_ud_path path_of(const struct mv_ctl_msg *msg)
{
	return (struct mesh_ud_path){.gid = msg->path.gid, .qpn = msg->path.qpn, .lid = msg->path_lid};
}

/* @peer: NULL: not known yet. Return: enum mv_ctl_reason. */
static int lead(struct mesh_ud_qp *u, struct mesh_ud_peer *peer, const struct mv_host_id *from, const struct mv_ctl_msg *msg,
		struct mv_ctl_msg *reply, uint64_t now_ns)
{
	const struct mesh_ud_path path = path_of(msg);
	struct mesh_ud_port *outlet;
	char why[256];
	int err;

	if (!peer && !mesh_ud_has_room_for(from, now_ns))
		return MV_CTL_REASON_NO_RESOURCES;
	if (!peer)
		peer = mesh_ud_peer_new(u, &msg->from, &msg->to.gid, MV_GID_TYPE_ROCE_V2, msg->rkey);
	if (!peer)
		return MV_CTL_REASON_NO_RESOURCES;
	if (!mv_host_id_is_zero(from))
		peer->host_id = *from;
	outlet = mesh_ud_outlet_on(u, &msg->path_peer_gid, msg->gid_type, why, sizeof(why));
	if (!outlet) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: no way for datagrams: %s", u->mc->device, why);
		return MV_CTL_REASON_NO_PATH;
	}
	err = mesh_ud_set_path(peer, outlet, &msg->path_peer_gid, msg->gid_type, &path);
	if (err) {
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: no way for datagrams by %s: %s", u->mc->device,
			    outlet->rail->rail->device, strerrordesc_np(-err));
		return MV_CTL_REASON_NO_PATH;
	}
	peer->used_at_ns = now_ns;
	ready(peer, now_ns);
	reply->path = (struct mv_ctl_end){.gid = msg->path_peer_gid, .qpn = outlet->qp->qp_num};
	reply->path_lid = mesh_ud_port_lid(outlet);
	return MV_CTL_REASON_NONE;
}

/* As lead(), within the time for such questions. */
static int answer(struct mesh_ud_qp *u, struct mesh_ud_peer *peer, const struct mv_host_id *from, const struct mv_ctl_msg *msg,
		  struct mv_ctl_msg *reply, uint64_t now_ns)
{
	const struct mesh_ud_path path = path_of(msg);
	bool spoken = peer && peer->spoken;
	uint64_t began_ns = mesh_now_ns();
	int reason;

	if (mesh_ud_is_ambiguous(peer, &msg->from.gid))
		return MV_CTL_REASON_NO_PATH;
	if (!(peer && mesh_ud_has_path(peer, &msg->path_peer_gid, &path)) && !mesh_ud_has_time(spoken, began_ns))
		return MV_CTL_REASON_NO_PATH;
	reason = lead(u, peer, from, msg, reply, now_ns);
	mesh_ud_spent_time(spoken, began_ns);
	return reason;
}

static void got_question(struct mesh_ud_qp *u, const struct mv_host_id *from, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	struct mesh_ud_peer *peer = mesh_ud_peer_find(u, &msg->from.gid, msg->from.qpn);
	struct mv_ctl_msg reply = {
		.type = MV_CTL_UD_PUT,
		.attempt = 1,
		.gid_type = msg->gid_type,
		.request_id = msg->request_id,
		.from = msg->to,
		.to = msg->from,
		.from_psn = MV_CTL_PSN_NONE,
		.to_psn = MV_CTL_PSN_NONE,
	};

	if (msg->key != u->qkey)
		return; /* its datagrams would not be received either */
	/* The directory may have the host a moment later. A peer that gets no answer asks again for ten seconds. */
	if (!mesh_ud_may_speak(peer, from, &msg->from.gid) || !mesh_ud_may_lead_to(from, &msg->path.gid) ||
	    !mesh_directory_may_join(&msg->path_peer_gid, &msg->path.gid)) {
		mv_log_once(&mesh_root.log, MV_LOG_INFO,
			    "%s: a host that asks for a path of datagrams gets no answer while the directory does not say that the "
			    "path leads to that host", u->mc->device);
		return;
	}
	reply.reason = (uint8_t)answer(u, peer, from, msg, &reply, now_ns);
	mesh_thread_send(&reply);
}

static void got_answer(struct mesh_ud_qp *u, const struct mv_host_id *from, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	struct mesh_ud_peer *peer = mesh_ud_peer_find(u, &msg->from.gid, msg->from.qpn);
	const struct mesh_ud_path path = path_of(msg);
	uint64_t began_ns = mesh_now_ns();
	struct mesh_ud_port *outlet;
	char why[256];

	if (!peer || !peer->asking.request_id || msg->request_id != peer->asking.request_id ||
	    peer->state == MESH_UD_FAILED ||
	    !mesh_ud_may_speak(peer, from, &msg->from.gid) || mesh_ud_is_ambiguous(peer, &msg->from.gid))
		return;
	if (msg->reason || !mesh_ud_may_lead_to(from, &msg->path.gid)) {
		next_path(peer);
		return;
	}
	if (!mesh_ud_has_path(peer, &peer->asking.gid, &path) && !mesh_ud_has_time(peer->spoken, began_ns))
		return;
	peer->asking.request_id = 0; /* one try per question */
	outlet = mesh_ud_outlet_on(u, &peer->asking.gid, peer->asking.type, why, sizeof(why));
	if (outlet && !mesh_ud_set_path(peer, outlet, &peer->asking.gid, peer->asking.type, &path))
		ready(peer, now_ns);
	else
		next_path(peer);
	mesh_ud_spent_time(peer->spoken, began_ns);
}

void mesh_ud_message(const char *device, uint32_t qpn, const struct mv_host_id *from, const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	int cancel = mesh_ud_lock();
	struct mesh_ud_qp *u;

	for (u = mesh_root.ud.qps; u; u = u->next)
		if (u->qpn == qpn && !strcmp(u->mc->device, device))
			break;
	if (u && msg->type == MV_CTL_UD_GET)
		got_question(u, from, msg, now_ns);
	else if (u && msg->type == MV_CTL_UD_PUT)
		got_answer(u, from, msg, now_ns);
	mesh_ud_unlock(cancel);
}

void mesh_ud_unreachable(const struct mv_ctl_msg *msg, uint64_t now_ns)
{
	int cancel = mesh_ud_lock();
	struct mesh_ud_peer *peer;
	struct mesh_ud_qp *u;

	for (u = mesh_root.ud.qps; u; u = u->next) {
		peer = u->qpn == msg->from.qpn ? mesh_ud_peer_find(u, &msg->to.gid, msg->to.qpn) : NULL;
		if (peer && peer->state == MESH_UD_ASKING && msg->request_id == peer->asking.request_id)
			failed(peer, now_ns, "the peer's agent does not answer");
	}
	mesh_ud_unlock(cancel);
}
