/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_UD_H
#define MESH_UD_H

#include "ctl.h"
#include "directory_client.h"
#include "helper.h"
#include "paths.h"
#include "rails.h"

/*
 * Unreliable datagrams to a destination that only another NIC reaches.
 *
 * The program's UD queue pair stays where it is. For each peer behind another rail there is a relay: a UD QP of the plugin on the
 * program's own NIC. For each of the program's QPs there is an outlet: a UD QP of the plugin on the rail.
 *
 *     program's QP  <-- loopback -->  relay  ==helper thread==  outlet  <-- wire -->  the peer host's outlet ...
 *
 * Sending: a work request to such a peer is posted to the program's own QP with the relay's address instead of the peer's. So
 * completions, errors and their order come from the device itself. Receiving: the relay sends the datagram to the program's QP
 * over loopback.
 *
 * For the receiver, the relay is the sender. The completion has the relay's QPN as source, and the GRH has an address of this
 * NIC: the address by which the sender knows the receiver, so programs expect it as destination. An answer to these two, as by
 * ibv_create_ah_from_wc(), reaches the peer through the relay. With the peer's own QPN in the completion, answers would go to any
 * QP of this host with that QPN.
 *
 * All datagrams are solicited. Both ports have to be up, because loopback needs that. Datagrams posted without libibverbs
 * (mlx5dv) are lost. Limits: UD_MAX_PEERS peers, UD_RECEIVES datagrams in flight per NIC, and UD_MAX_QUEUED until the
 * peer has answered. Further datagrams are lost, as datagrams may be.
 *
 * Locks: process->ud_lock guards everything but look-ups of the data path. It is taken before rails_lock, data->lock and
 * process->conns.lock, and held over verbs calls that take long. Only posts to a remote peer wait for it.
 */

/** mesh_ud_open - initialise a new context, before any other thread sees it */
void mesh_ud_open(struct mesh_context *mc);
/** mesh_ud_close - free what belongs to a context that is being closed */
void mesh_ud_close(struct mesh_context *mc);

/* Verbs calls of the program. */

/** mesh_ud_modified - the lower provider has modified a UD QP */
void mesh_ud_modified(struct mesh_context *mc, struct ibv_qp *qp, const struct ibv_qp_attr *attr, int mask);
/** mesh_ud_gone - a UD QP will be destroyed, or has been reset. Preserves errno. */
void mesh_ud_gone(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_ud_create_ah - make an address handle for a destination behind another rail
 * @choice: of mesh_paths_choose(); if it is not sure, returns NULL
 *
 * The program's handle is one of the lower provider with an unused address; posts replace it by the relay's. Exception:
 * the destination is in another subnet of the link, and the lower provider finds a neighbour there. Then the handle is
 * the lower provider's own for the destination.
 *
 * Return: NULL: another kind of destination, or impossible: the caller makes the lower provider's handle.
 */
struct ibv_ah *mesh_ud_create_ah(struct mesh_context *mc, struct ibv_pd *pd, const struct ibv_ah_attr *attr,
				 const struct mesh_choice *choice);
int mesh_destroy_ah(struct ibv_ah *ah); /* as in libibverbs */
/**
 * mesh_lower_ah - ah.c: make a handle of the lower provider, for mc->lower.destroy_ah(). The kernel may look for the
 * neighbour. NULL with errno.
 */
struct ibv_ah *mesh_lower_ah(struct mesh_context *mc, struct ibv_pd *pd, struct ibv_ah_attr *attr);

/** mesh_ud_post_send - as ibv_post_send() of a UD QP; no lock is held */
int mesh_ud_post_send(struct mesh_context *mc, struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/* Calls of the helper thread. */

/** mesh_ud_run - do what is due. Return: when to come again, ns. */
uint64_t mesh_ud_run(uint64_t now_ns);
/** mesh_ud_is_registered - is a QP with that QPN registered, so that its end sends UNREGISTER_QP? */
bool mesh_ud_is_registered(const char *device, uint32_t qpn);
/** mesh_ud_register_all - there is a new agent: register all QPs again */
void mesh_ud_register_all(void);
/**
 * mesh_ud_message - a UD_GET or UD_PUT for the QP with that QPN
 * @from: host from which the agent got the message; zero: not known
 */
void mesh_ud_message(const char *device, uint32_t qpn, const struct mv_host_id *from, const struct mv_ctl_msg *msg, uint64_t now_ns);
/** mesh_ud_unreachable - the agent could not deliver @msg to the peer's agent */
void mesh_ud_unreachable(const struct mv_ctl_msg *msg, uint64_t now_ns);
/**
 * mesh_ud_rail_lost - a NIC was reset or unplugged, or its descriptors were closed; without locks, after mesh_rail_lose()
 *
 * Frees all relays and outlets there. The peers of these relays are forgotten, and found again with the next datagram in either
 * direction. Peers of these outlets are asked for another path.
 */
void mesh_ud_rail_lost(const struct mesh_rail *rail);
/**
 * mesh_ud_event - a completion event of a rail. Return: true: the CQ is of this room. What has come before is processed; there is an
 * event for what has come since.
 */
bool mesh_ud_event(struct mesh_rail *rail, struct ibv_cq *cq);

/** mesh_ud_is_driven - does the program post to a QP, or poll its CQs, without libibverbs? The QP is alive. */
bool mesh_ud_is_driven(struct mesh_context *mc, struct ibv_qp *qp);
/* The same of the RC QPs of a PD: mesh_conns_are_driven(); set by callbacks.c. */
extern bool (*mesh_ud_has_driven_rc)(struct mesh_context *mc, const struct ibv_pd *pd);

#endif
