// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "count.h"
#include "cqint.h"
#include "lookup.h"
#include "udint.h"

/* Address handles for destinations behind another rail, and posting with them. */

/* ---- address handles ----------------------------------------------------------------------------------------- */

/*
 * Destination of the program's handle: an unused multicast group. A program that uses the handle without libibverbs (mlx5dv) then
 * disturbs nobody, in particular no QP of this host with the peer's QPN.
 */
static const union ibv_gid nowhere = {
	.raw = {0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 'm', 'v', 'e', 'r', 'b', 's'},
};
#define NOWHERE_LID 0xfffe /* the last one of multicast: subnet managers begin with the first (IBTA vol. 1, section 4.1.3) */

/* @by_links: as in struct mv_path_request; @decision: written */
static bool reaches_by_another_rail(struct mesh_context *mc, const struct ibv_ah_attr *attr, const struct mesh_choice *choice, bool by_links,
				    struct mesh_path_decision *decision)
{
	struct mv_path_request request = {
		.device = mc->device,
		.port_num = attr->port_num,
		.sgid = choice->gid,
		.sgid_type = (uint8_t)choice->type,
		.dgid = attr->grh.dgid,
		.routed = choice->fits,
		.by_links = by_links,
		.dlid = choice->type == MV_GID_TYPE_IB ? attr->dlid : 0,
	};
	char to[MV_GID_STRLEN];
	const char *why = NULL;

	if (choice->type == MV_GID_TYPE_IB && !mv_lid_is_unicast(attr->dlid))
		return false;
	mesh_directory_decide(&request, decision);
	if (decision->verdict == MV_PATH_UNKNOWN && !choice->fits && !mc->logged_only &&
	    mesh_directory_is_stranger(&request.dgid, false) && mesh_lookup(&request.dgid, MESH_LOOKUP_BROKEN))
		mesh_directory_decide(&request, decision);
	switch (decision->verdict) {
	case MV_PATH_APART:
	case MV_PATH_OTHER_SUBNET:
		break;
	case MV_PATH_LOCAL_DOWN:
	case MV_PATH_REMOTE_DOWN: /* loopback needs the port up, too */
		why = mv_path_verdict_text(decision->verdict);
		break;
	default:
		return false;
	}
	if (!why && !decision->agent_version)
		why = "the peer's host has no agent";
	if (!why && decision->agent_version != MV_CTL_VERSION)
		why = "the peer's agent speaks another version";
	if (!why && !decision->n_paths)
		why = "no rail of this host reaches one of the peer's";
	if (why)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s port %u: datagrams to %s on host %s are left as the program asked: %s",
			    mc->device, attr->port_num, mv_gid_format(&attr->grh.dgid, to), decision->host, why);
	if (!why && mc->logged_only) {
		mesh_count(MV_COUNT_OBSERVED_MOVE);
		mv_log_once(&mesh_root.log, MV_LOG_INFO, "%s port %u: datagrams to %s on host %s would go by another NIC: observing only",
			    mc->device, attr->port_num, mv_gid_format(&attr->grh.dgid, to), decision->host);
	}
	return !why && !mc->logged_only;
}

/* Does the plugin intercept posts? Otherwise the handle would lead to the unused group. */
static bool can_lead(struct mesh_context *mc, struct ibv_pd *pd)
{
	bool can;

	mesh_mlx5_is_lower(mc); /* looks up the provider, before locks are taken */
	mesh_lock(&mc->data.lock);
	can = mesh_data_takes(mc, MESH_FOR_DATAGRAMS);
	mesh_unlock(&mc->data.lock);
	if (!can || mesh_ud_posts_pass(mc, pd))
		return can;
	mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: datagrams to another NIC's peers are left as the program asked: the protection domain has no UD "
		    "queue pair yet, or the program posts by functions that are not seen here (mlx5dv)", mc->device);
	return false;
}

/* @dlid: InfiniBand */
static struct ibv_ah *lower_ah(struct mesh_context *mc, struct ibv_pd *pd, const struct ibv_ah_attr *like,
			      const union ibv_gid *dgid, uint16_t dlid)
{
	struct ibv_ah_attr attr = *like;

	attr.grh.dgid = *dgid;
	attr.dlid = dlid;
	return mesh_lower_ah(mc, pd, &attr);
}

/*
 * LID of the program's own port, which leads to relays. @ret_lid: without InfiniBand as the program has it. Return: false: the
 * port has none.
 */
static bool own_lid(const struct ibv_pd *pd, const struct ibv_ah_attr *attr, const struct mesh_choice *choice, uint16_t *ret_lid)
{
	struct ibv_port_attr port;

	*ret_lid = attr->dlid;
	if (choice->type != MV_GID_TYPE_IB)
		return true;
	if (mesh_real_port(pd->context, attr->port_num, &port) || !mv_lid_is_unicast(port.lid))
		return false;
	*ret_lid = port.lid;
	return true;
}

/* With equal prefixes, only beacons say that the two ports are on different fabrics. */
static bool is_by_beacons(const struct mesh_choice *choice, const struct ibv_ah_attr *attr)
{
	return choice->type == MV_GID_TYPE_IB && choice->gid.global.subnet_prefix == attr->grh.dgid.global.subnet_prefix;
}

/* Make relays and outlets possible first: no error tells a program later that its datagrams are lost. */
static bool has_outlet(struct mesh_context *mc, const struct ibv_pd *pd, const struct ibv_ah_attr *attr,
		       const struct mesh_choice *choice, const struct mesh_path_decision *decision)
{
	char why[256], to[MV_GID_STRLEN];
	int cancel = mesh_cancel_off();
	bool has = mesh_ud_has_outlet(mc, decision, why, sizeof(why));

	if (has && is_by_beacons(choice, attr) && !mesh_ud_is_heard_alike(pd, attr, decision)) {
		snprintf(why, sizeof(why), "beacons of the two ports may go by different partitions");
		has = false;
	}
	if (!has)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s port %u: datagrams to %s on host %s are left as the program asked: %s", mc->device,
			    attr->port_num, mv_gid_format(&attr->grh.dgid, to), decision->host, why);
	mesh_cancel_restore(cancel);
	return has;
}

/* The lower provider's handle, if the kernel finds the peer on the link. NULL: it does not. */
static struct ibv_ah *ask_lower(struct mesh_context *mc, struct ibv_pd *pd, const struct ibv_ah_attr *like)
{
	uint64_t began_ns = mesh_now_ns();
	struct ibv_ah_attr attr = *like;
	int cancel = mesh_ud_lock(), err;
	bool silent = mesh_ud_is_silent(mc, &attr.grh.dgid);
	struct ibv_ah *ah;

	mesh_ud_unlock(cancel);
	if (silent)
		return NULL;
	ah = mc->lower.create_ah(pd, &attr);
	if (ah)
		return ah;
	err = errno;
	cancel = mesh_ud_lock();
	mesh_ud_refused(mc, &attr.grh.dgid, err, began_ns);
	mesh_ud_unlock(cancel);
	return NULL;
}

struct ibv_ah *mesh_ud_create_ah(struct mesh_context *mc, struct ibv_pd *pd, const struct ibv_ah_attr *attr,
				 const struct mesh_choice *choice)
{
	bool infiniband = choice->type == MV_GID_TYPE_IB;
	bool by_links = infiniband || mesh_directory_is_absent(&choice->gid, &attr->grh.dgid);
	int saved_errno = errno, cancel;
	uint16_t lid;
	struct mesh_ud_ah *a;
	struct mesh_path_decision decision;
	struct ibv_ah *ah;
	int err = -ENOMEM;

	/* If the route could not be looked up, there may be one. */
	if (!mc->sees_peers || !choice->sure || !reaches_by_another_rail(mc, attr, choice, by_links, &decision) ||
	    !can_lead(mc, pd))
		return NULL;
	/* Prefer the lower provider's handle: a peer without plugin does not receive relayed datagrams. */
	ah = decision.verdict == MV_PATH_OTHER_SUBNET ? ask_lower(mc, pd, attr) : NULL;
	if (ah || !own_lid(pd, attr, choice, &lid) || !has_outlet(mc, pd, attr, choice, &decision))
		return ah;
	a = malloc(sizeof(*a));
	if (!a)
		return NULL;
	a->attr = *attr;
	a->local_gid = choice->gid;
	a->local_type = (uint8_t)choice->type;
	a->routed = choice->fits;
	a->by_links = by_links;
	a->self = lower_ah(mc, pd, attr, &choice->gid, lid);
	if (a->self)
		ah = lower_ah(mc, pd, attr, &nowhere, infiniband ? NOWHERE_LID : lid);
	a->ah = ah;
	if (ah) {
		cancel = mesh_ud_lock();
		err = mesh_map_put(&mc->ud.ahs, ah, a);
		if (!err) {
			atomic_fetch_add_explicit(&mc->ud.n_ahs, 1, memory_order_release);
			mesh_count(MV_COUNT_RELAYED_AH);
			mesh_lock(&mc->data.lock);
			mesh_data_slots(mc);
			mesh_unlock(&mc->data.lock);
		}
		mesh_ud_unlock(cancel);
	}
	if (err) {
		if (ah)
			mc->lower.destroy_ah(ah);
		if (a->self)
			mc->lower.destroy_ah(a->self);
		free(a);
		ah = NULL;
	}
	errno = saved_errno;
	return ah;
}

static struct mesh_ud_ah *forget(struct mesh_context *mc, const struct ibv_ah *ah)
{
	struct mesh_ud_ah *a;
	int cancel;

	if (!mesh_map_get(&mc->ud.ahs, ah))
		return NULL;
	cancel = mesh_ud_lock();
	a = mesh_map_drop(&mc->ud.ahs, ah);
	if (a)
		atomic_fetch_sub_explicit(&mc->ud.n_ahs, 1, memory_order_relaxed);
	mesh_ud_unlock(cancel);
	return a;
}

int mesh_destroy_ah(struct ibv_ah *ah)
{
	struct mesh_context *mc = mesh_context_get(ah->context);
	struct mesh_ud_ah *a = mesh_context_active(mc) ? forget(mc, ah) : NULL;

	if (a) {
		mc->lower.destroy_ah(a->self);
		free(a);
	}
	return mc->lower.destroy_ah(ah);
}

void mesh_ud_close(struct mesh_context *mc)
{
	int cancel = mesh_ud_lock();
	struct mesh_ud_qp *u, *next;
	struct mesh_ud_ah *a;

	for (u = mesh_root.ud.qps; u; u = next) {
		next = u->next;
		if (u->mc == mc)
			mesh_ud_qp_free(u);
	}
	while ((a = mesh_map_any(&mc->ud.ahs))) {
		mesh_map_drop(&mc->ud.ahs, a->ah);
		mc->lower.destroy_ah(a->self);
		free(a);
	}
	mesh_map_fini(&mc->ud.setters);
	mesh_map_fini(&mc->ud.ahs);
	mesh_ud_unlock(cancel);
}

/* ---- posting ------------------------------------------------------------------------------------------------- */

/* QPN of the relay to a peer. @qkey: for the peer; the relay takes the same. Return: 0: no relay could be made. */
static uint32_t relay_to(struct mesh_context *mc, struct ibv_qp *qp, const struct mesh_ud_ah *a, uint32_t qpn,
			 uint32_t qkey)
{
	struct mv_ctl_end end = {.gid = a->attr.grh.dgid, .qpn = qpn};
	int cancel = mesh_ud_lock();
	struct mesh_ud_qp *u = mesh_ud_qp_get(mc, qp);
	struct mesh_ud_peer *peer = u ? mesh_ud_peer_find(u, &end.gid, qpn) : NULL;
	bool ask = false;
	uint32_t relay = 0;

	if (u && !peer)
		peer = mesh_ud_peer_new(u, &end, &a->local_gid, a->local_type, qkey);
	if (peer) {
		mesh_ud_set_qkey(peer, qkey);
		relay = peer->relay->qp->qp_num;
		peer->by_links = a->by_links; /* what the kernel has found for the latest handle */
		if (!peer->spoken) {
			peer->spoken = true;
			peer->attr = a->attr;
			peer->routed = a->routed;
			ask = peer->state != MESH_UD_READY;
			if (ask)
				mesh_ud_peer_ask(peer, mesh_now_ns());
		}
	}
	mesh_ud_unlock(cancel);
	if (ask)
		mesh_thread_wake(true);
	return relay;
}

/* Redirect a datagram to a relay. Without a relay it goes to the unused group. */
static void lead(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_ah **ah, uint32_t *qpn, uint32_t qkey)
{
	const struct mesh_ud_ah *a = mesh_map_get(&mc->ud.ahs, *ah);
	uint32_t relay = a ? relay_to(mc, qp, a, *qpn, qkey) : 0;

	if (!relay)
		return;
	*ah = a->self;
	*qpn = relay;
}

int mesh_ud_post_send(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct ibv_send_wr one, *at, *bad;
	int err;

	for (at = wr; at && !mesh_map_get(&mc->ud.ahs, at->wr.ud.ah); at = at->next)
		;
	if (!at)
		return mc->lower.io.post_send(qp, wr, bad_wr);
	for (at = wr; at; at = at->next) {
		one = *at;
		one.next = NULL;
		lead(mc, qp, &one.wr.ud.ah, &one.wr.ud.remote_qpn, one.wr.ud.remote_qkey);
		err = mc->lower.io.post_send(qp, &one, &bad);
		if (err) {
			*bad_wr = at;
			return err;
		}
	}
	return 0;
}

static void mesh_ud_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct mesh_context *mc = mesh_context_get(ex->qp_base.context);
	__typeof__(ex->wr_set_ud_addr) lower = (__typeof__(lower))(uintptr_t)mesh_map_get(&mc->ud.setters, ex);

	if (mesh_context_active(mc) && mesh_ud_active(mc))
		lead(mc, &ex->qp_base, &ah, &remote_qpn, remote_qkey);
	lower(ex, ah, remote_qpn, remote_qkey);
}

void mesh_ud_install(struct mesh_ud_qp *u)
{
	struct ibv_qp_ex *ex = mesh_root.lib.verbs.qp_to_qp_ex(u->qp);
	struct mesh_map *setters = &u->mc->ud.setters;

	if (ex && ex->wr_set_ud_addr && ex->wr_set_ud_addr != mesh_ud_set_ud_addr &&
	    !mesh_map_put(setters, ex, (void *)(uintptr_t)ex->wr_set_ud_addr))
		ex->wr_set_ud_addr = mesh_ud_set_ud_addr;
}

void mesh_ud_remove(struct mesh_ud_qp *u)
{
	struct ibv_qp_ex *ex = mesh_root.lib.verbs.qp_to_qp_ex(u->qp);
	void *lower = ex ? mesh_map_drop(&u->mc->ud.setters, ex) : NULL;

	if (lower)
		ex->wr_set_ud_addr = (__typeof__(ex->wr_set_ud_addr))(uintptr_t)lower;
}
