/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_UD_H
#define MESH_UD_H

#include "ctl.h"
#include "helper.h"
#include "paths.h"
#include "peerview.h"
#include "rails.h"

/*
 * Unreliable datagrams to a destination that another NIC reaches.
 *
 * The program's UD queue pair stays where it is. For each peer behind another rail there is a relay, a UD QP of ours on
 * the program's own NIC, and for each of the program's QPs an outlet, a UD QP of ours on the rail:
 *
 *    program's QP  <-- loopback -->  relay  ==helper thread==  outlet  <-- wire -->  the peer host's outlet ...
 *
 * A work request to such a peer is posted to the program's own QP with the relay's address in place of the peer's; so its
 * completion, its errors and the order of both are the device's own. What comes in is sent to the program's QP by the
 * relay, over loopback.
 *
 * So to the receiver, its relay is the sender: the completion has the relay's QPN as its source, the GRH an address of this
 * NIC (that by which the sender knows the receiver, so it is what programs expect as destination), and who answers to these
 * two, as ibv_create_ah_from_wc() does, reaches the peer. To tell a completion the peer's own number instead would lead such
 * answers to whatever QP of this host has that number.
 *
 * Every datagram counts as solicited. Both ports have to be up, for loopback needs that. Datagrams posted without
 * libibverbs (mlx5dv) go nowhere. Bounds: UD_MAX_PEERS peers, UD_RECEIVES datagrams under way on each NIC, UD_MAX_KEPT
 * while the peer has not answered yet; what is more is lost, as datagrams may be.
 *
 * process->ud_lock guards everything but look-ups of the data path. It is taken before rails_lock, data->lock and
 * conns_lock, and held over verbs calls that take long: only posting to a remote peer waits for it.
 */

/** mesh_ud_open - a context gets the overlay; nobody sees it yet */
void mesh_ud_open(struct mesh_context *mc);
/** mesh_ud_close - it is being closed */
void mesh_ud_close(struct mesh_context *mc);

/* What the program does. */

/** mesh_ud_modified - a UD QP has been modified by the base */
void mesh_ud_modified(struct mesh_context *mc, struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask);
/** mesh_ud_gone - a UD QP is going to be destroyed, or has been reset; keeps errno */
void mesh_ud_gone(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_ud_create_ah - an address handle for a destination behind another rail
 * @choice: what mesh_paths_choose() said; nothing is done about one that is not sure
 *
 * What the program gets is an address handle of the base that leads nowhere; or, where the destination is in
 * another subnet of the link, and the base finds a way there, the base's own.
 *
 * Return: it; NULL: the destination is not one of those, or this is not possible: the base's own is to be made.
 */
struct ibv_ah *mesh_ud_create_ah(struct mesh_context *mc, struct ibv_pd *pd, const struct ibv_ah_attr *attr,
				 const struct mesh_choice *choice);
int mesh_destroy_ah(struct ibv_ah *ah); /* as libibverbs' */
/** mesh_base_ah - ah.c: one of the base, for mc->destroy_ah(); the kernel may have to look for the neighbour. NULL: errno says why */
struct ibv_ah *mesh_base_ah(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_ah_attr *attr);

/** mesh_ud_post_send - as ibv_post_send() of a UD QP; no lock is held */
int mesh_ud_post_send(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/* The helper thread. */

/** mesh_ud_run - whatever is due; returns when to come again (ns) */
uint64_t mesh_ud_run(uint64_t now_ns);
/** mesh_ud_has_claim - is there a QP of that number that the agent has been told of, and is to be told of its end? */
bool mesh_ud_has_claim(const char *device, uint32_t qpn);
/** mesh_ud_claim_all - a new agent: tell it of all QPs again */
void mesh_ud_claim_all(void);
/**
 * mesh_ud_message - UD_GET or UD_PUT for the QP of that number
 * @from: the host that the agent had it from; zero: not told
 */
void mesh_ud_message(const char *device, uint32_t qpn, const struct mv_host_id *from, const struct mv_ctl_msg *msg, uint64_t now_ns);
/** mesh_ud_unreachable - the agent could not bring a message of ours to the peer's */
void mesh_ud_unreachable(const struct mv_ctl_msg *msg, uint64_t now_ns);
/**
 * mesh_ud_rail_lost - a NIC was reset or taken away, or its descriptors are not ours any more: without locks, after mesh_rail_lose()
 *
 * Everything that datagrams have there is given up. Whom a relay was for is not known any more, and found anew with the next datagram
 * from or to him; who was reached by an outlet is asked for another way.
 */
void mesh_ud_rail_lost(const struct mesh_rail *rail);
/** mesh_ud_event - a completion event of a rail: Return: whether the CQ was one of ours, and has been emptied */
bool mesh_ud_event(struct mesh_rail *rail, struct ibv_cq *cq);

/** mesh_ud_is_driven - does the program post to a queue pair, or poll its CQs, by itself? It is alive */
bool mesh_ud_is_driven(struct mesh_context *mc, struct ibv_qp *qp);
/* Does it to an RC queue pair of that PD: mesh_conns_are_driven(); callbacks.c writes it. */
extern bool (*mesh_ud_has_driven_rc)(struct mesh_context *mc, const struct ibv_pd *pd);

#endif
