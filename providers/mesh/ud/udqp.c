// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cqint.h"
#include "udint.h"

bool (*mesh_ud_has_driven_rc)(struct mesh_context *mc, const struct ibv_pd *pd);

/* The program's UD QPs. The agent knows them from INIT on, so that peers behind other rails find them. */

/* Longest delay of destroy for the QP's last datagrams, if it has sent any within IN_USE_NS. */
#define SEE_OFF_NS 20000000ull
#define IN_USE_NS 1000000000ull
/* After so many polls without completion, no datagram is on its way to the relay. */
#define QUIET_ROUNDS 3
/* Pause before a REGISTER_QP that the agent had no room for is sent again. */
#define REGISTER_AGAIN_NS 20000000ull

struct mesh_ud_qp *mesh_ud_qp_find(const struct ibv_qp *qp)
{
	struct mesh_ud_qp *u;

	for (u = mesh_root.ud.qps; u && u->qp != qp; u = u->next)
		;
	return u;
}

static struct mesh_ud_qp *add(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_ud_qp *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->mc = mc;
	u->qp = qp;
	u->qpn = qp->qp_num;
	u->next = mesh_root.ud.qps;
	mesh_root.ud.qps = u;
	mesh_ud_install(u);
	return u;
}

struct mesh_ud_qp *mesh_ud_qp_get(struct mesh_context *mc, struct ibv_qp *qp)
{
	struct mesh_ud_qp *u = mesh_ud_qp_find(qp);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (u)
		return u;
	/* The QP was in INIT before there was an agent. */
	if (mc->lower.qp.query_qp(qp, &attr, IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_PKEY_INDEX, &init))
		return NULL;
	u = add(mc, qp);
	if (!u)
		return NULL;
	u->qkey = attr.qkey;
	u->port_num = attr.port_num;
	u->pkey_index = attr.pkey_index;
	return u;
}

static void set_qkey(struct mesh_ud_qp *u, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .qkey = qkey};
	struct mesh_ud_port *outlet;

	u->qkey = qkey;
	for (outlet = u->outlets; outlet; outlet = outlet->next_outlet)
		ibv_modify_qp(outlet->qp, &attr, IBV_QP_STATE | IBV_QP_QKEY);
}

/* A program that polls by direct access to the rings posts that way, too. The queue pair is alive. */
bool mesh_ud_is_driven(struct mesh_context *mc, struct ibv_qp *qp)
{
	bool driven;

	mesh_lock(&mc->data.lock);
	driven = mesh_mlx5_builds(mc, qp) || mesh_cq_is_taken(mc, qp->send_cq) || mesh_cq_is_taken(mc, qp->recv_cq);
	mesh_unlock(&mc->data.lock);
	return driven;
}

/* @ret_any: the PD has UD QPs. Return: true: the program drives one of them itself. */
static bool has_driven_ud(struct mesh_context *mc, struct ibv_pd *pd, bool *ret_any)
{
	int cancel = mesh_ud_lock();
	const struct mesh_ud_qp *u;
	bool driven = false;

	*ret_any = false;
	for (u = mesh_root.ud.qps; u && !driven; u = u->next) {
		if (u->mc != mc || mesh_pd_underlying(u->qp->pd) != pd)
			continue;
		*ret_any = true;
		driven = mesh_ud_is_driven(mc, u->qp);
	}
	mesh_ud_unlock(cancel);
	return driven;
}

bool mesh_ud_posts_pass(struct mesh_context *mc, struct ibv_pd *pd)
{
	bool any;

	pd = mesh_pd_underlying(pd);
	return !has_driven_ud(mc, pd, &any) && any && !mesh_ud_has_driven_rc(mc, pd);
}

void mesh_ud_modified(struct mesh_context *mc, struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int saved_errno = errno, cancel = mesh_ud_lock();
	struct mesh_ud_qp *u = mesh_ud_qp_find(qp);
	bool fresh = false;

	if (!u && mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_INIT && mesh_directory_agent()) {
		u = add(mc, qp);
		fresh = u;
	}
	if (u && mask & IBV_QP_QKEY)
		set_qkey(u, attr->qkey);
	if (u && mask & IBV_QP_PORT)
		u->port_num = attr->port_num;
	if (u && mask & IBV_QP_PKEY_INDEX)
		u->pkey_index = attr->pkey_index;
	mesh_ud_unlock(cancel);
	if (fresh)
		mesh_thread_wake(true); /* the helper thread registers the QP */
	errno = saved_errno;
}

static void unregister_qp(const struct mesh_ud_qp *u)
{
	struct mv_frame frame = {.type = MV_FRAME_UNREGISTER_QP, .qpn = u->qpn};

	if (!u->registered)
		return;
	memcpy(frame.device, u->mc->device, sizeof(frame.device));
	mesh_thread_frame(&frame);
}

void mesh_ud_qp_free(struct mesh_ud_qp *u)
{
	struct mesh_ud_qp **at;

	for (at = &mesh_root.ud.qps; *at != u; at = &(*at)->next)
		;
	*at = u->next;
	unregister_qp(u);
	mesh_ud_remove(u);
	while (u->peers)
		mesh_ud_peer_free(u->peers);
	while (u->outlets)
		mesh_ud_outlet_free(u->outlets);
	free(u);
}

/* Has the QP sent through a relay recently? */
static bool is_in_use(const struct mesh_ud_qp *u, uint64_t now_ns)
{
	const struct mesh_ud_peer *peer;

	for (peer = u->peers; peer; peer = peer->next)
		if (peer->state == MESH_UD_READY && peer->used_at_ns + IN_USE_NS > now_ns)
			return true;
	return false;
}

/* One round of polls. Return: false: no more datagrams can come. */
static bool relay_rest(const struct ibv_qp *qp, uint64_t now_ns, bool *ret_any)
{
	int cancel = mesh_ud_lock();
	const struct mesh_ud_qp *u = mesh_ud_qp_find(qp);
	struct mesh_ud_rail *rail;
	bool more = u && is_in_use(u, now_ns);

	*ret_any = false;
	for (rail = mesh_root.ud.rails; more && rail; rail = rail->next)
		*ret_any |= mesh_ud_poll(rail);
	if (more)
		*ret_any |= mesh_ud_sending(u);
	mesh_ud_unlock(cancel);
	return more;
}

/* Relay the last datagrams before the QP is destroyed: the program has completions for them, and may exit afterwards. */
static void see_off(const struct ibv_qp *qp)
{
	const struct timespec pause = {.tv_nsec = 100000};
	uint64_t now = mesh_now_ns(), until = now + SEE_OFF_NS;
	int quiet = 0, cancel = mesh_cancel_off();
	bool any;

	for (; quiet < QUIET_ROUNDS && now < until && relay_rest(qp, now, &any); now = mesh_now_ns()) {
		quiet = any ? 0 : quiet + 1;
		nanosleep(&pause, NULL);
	}
	mesh_cancel_restore(cancel);
}

void mesh_ud_gone(struct mesh_context *mc, struct ibv_qp *qp)
{
	int saved_errno = errno, cancel = mesh_ud_lock();
	struct mesh_ud_qp *u = mesh_ud_qp_find(qp);

	(void)mc;
	if (u && u->peers) {
		mesh_ud_unlock(cancel);
		see_off(qp);
		cancel = mesh_ud_lock();
		u = mesh_ud_qp_find(qp);
	}
	if (u)
		mesh_ud_qp_free(u);
	mesh_ud_unlock(cancel);
	errno = saved_errno;
}

void mesh_ud_open(struct mesh_context *mc)
{
	memset(&mc->ud, 0, sizeof(mc->ud));
}

/* ---- the helper thread --------------------------------------------------------------------------------------- */

/* Return: when to try again, if the socket to the agent had no room; else UINT64_MAX. */
static uint64_t register_qp(struct mesh_ud_qp *u, uint64_t now_ns)
{
	struct mv_frame frame = {.type = MV_FRAME_REGISTER_QP, .qpn = u->qpn, .qp_type = IBV_QPT_UD};

	memcpy(frame.device, u->mc->device, sizeof(frame.device));
	u->registered = mesh_thread_frame(&frame) != -EAGAIN;
	return u->registered ? UINT64_MAX : now_ns + REGISTER_AGAIN_NS;
}

bool mesh_ud_is_registered(const char *device, uint32_t qpn)
{
	int cancel = mesh_ud_lock();
	const struct mesh_ud_qp *u = mesh_root.ud.qps;

	while (u && (!u->registered || u->qpn != qpn || strcmp(u->mc->device, device)))
		u = u->next;
	mesh_ud_unlock(cancel);
	return u;
}

void mesh_ud_register_all(void)
{
	int cancel = mesh_ud_lock();
	struct mesh_ud_qp *u;

	for (u = mesh_root.ud.qps; u; u = u->next)
		u->registered = false;
	mesh_ud_unlock(cancel);
}

uint64_t mesh_ud_run(uint64_t now_ns)
{
	uint64_t next = UINT64_MAX, at;
	int cancel = mesh_ud_lock();
	struct mesh_ud_peer *peer;
	struct mesh_ud_rail *rail;
	struct mesh_ud_qp *u;

	for (u = mesh_root.ud.qps; u; u = u->next) {
		at = u->registered ? UINT64_MAX : register_qp(u, now_ns);
		if (at < next)
			next = at;
		for (peer = u->peers; peer; peer = peer->next) {
			at = mesh_ud_peer_run(peer, now_ns);
			if (at < next)
				next = at;
		}
	}
	for (rail = mesh_root.ud.rails; rail; rail = rail->next) {
		if (!rail->watched)
			mesh_thread_rail(rail->rail);
		rail->watched = true;
	}
	mesh_ud_unlock(cancel);
	return next;
}
