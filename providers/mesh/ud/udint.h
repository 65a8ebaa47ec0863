/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_UDINT_H
#define MESH_UDINT_H

#include "ud.h"

/* What udqp.c, udpost.c, udpeer.c, udrail.c and udrelay.c share. Everything is guarded by ud_lock. */

#define UD_IDLE_NS   10000000000ull /* a peer not used for so long may be forgotten */
#define UD_MAX_PEERS 256u
#define UD_MAX_STRANGERS 192u /* of these, peers that have asked for a way, and to which the program has sent nothing */
#define UD_MAX_OF_A_HOST 128u /* such peers of one host */
#define UD_RECEIVES  256u /* buffers of each NIC */
#define UD_SENDS     128u
#define UD_MAX_KEPT  128u
#define UD_GRH_BYTES 40u
#define UD_BYTES     (UD_GRH_BYTES + 4096u) /* a datagram with its GRH */

MV_ACQUIRES(&mesh_root.process->ud_lock) static inline int mesh_ud_lock(void)
{
	int cancel = mesh_cancel_off();
	uint64_t generation;

	mesh_lock(&mesh_root.process->ud_lock);
	generation = atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed);
	if (mesh_root.ud.generation != generation)
		mesh_root.ud = (struct mesh_ud){.generation = generation};
	return cancel;
}

MV_RELEASES(&mesh_root.process->ud_lock) static inline void mesh_ud_unlock(int cancel)
{
	mesh_unlock(&mesh_root.process->ud_lock);
	mesh_cancel_restore(cancel);
}

/* An address handle of the program for a destination behind another rail. */
struct mesh_ud_ah {
	const struct ibv_ah *ah; /* what the program has */
	struct ibv_ah *self; /* of the base, to our own address: the way to a relay */
	struct ibv_ah_attr attr; /* as the program gave it */
	union ibv_gid local_gid; /* what the program means by its index */
	uint8_t local_type; /* enum mv_gid_type */
	bool routed;
};

/* A UD QP of ours: a relay (@peer set) or an outlet. */
struct mesh_ud_port {
	struct mesh_ud_port *next; /* in its rail's bucket */
	struct mesh_ud_port *next_outlet; /* of its QP */
	struct mesh_ud_rail *rail;
	struct ibv_qp *qp;
	struct mesh_ud_qp *owner;
	struct mesh_ud_peer *peer;
	uint8_t port_num;
	uint32_t max_bytes; /* of a datagram */
};

enum mesh_ud_state {
	MESH_UD_ASKING, /* UD_GET is being sent */
	MESH_UD_READY,
	MESH_UD_FAILED, /* nobody answers, or no path; tried again with the next datagram after a while */
};

/* Somebody that one of the program's QPs talks to. */
struct mesh_ud_peer {
	struct mesh_ud_peer *next; /* of its QP */
	struct mesh_ud_qp *owner;
	struct mv_ctl_end end; /* as the program knows it */
	union ibv_gid local_gid; /* as the peer's program is to know us */
	uint8_t local_type;
	bool spoken; /* the program has sent it something; then how it would reach it: */
	struct ibv_ah_attr attr;
	bool routed;

	struct mesh_ud_port *relay;
	uint32_t qkey; /* of the peer's QP, as the program has it; the relay has the same */
	struct ibv_ah *relay_ah; /* from the relay to the program's QP */

	enum mesh_ud_state state;
	struct mesh_ud_port *outlet; /* NULL: none yet */
	union ibv_gid outlet_gid; /* its address */
	struct ibv_ah *path_ah; /* from the outlet to the peer's; NULL: not READY */
	struct mv_ctl_end path; /* the peer's outlet */
	/* The way before this one, by which the peer may be sending: for a moment, or while each end has got what it asked for. */
	struct mesh_ud_port *old_outlet; /* NULL: none */
	struct mv_ctl_end old_path;
	union ibv_gid asked_gid; /* of our outlet, as told in UD_GET */
	uint8_t asked_type;
	char host[64]; /* whose it is, for people; "": not known */
	struct mv_host_id host_id; /* the host that it was met on; zero: not known */
	unsigned int n_asked; /* questions since one was answered with a way: which path comes next */
	uint32_t request_id;
	uint64_t resend_at_ns, step_ns, give_up_ns; /* ASKING; FAILED: resend_at_ns is when to try again */
	uint64_t refresh_at_ns, used_at_ns;

	struct mesh_ud_kept *kept; /* until READY, oldest first */
	unsigned int n_kept;
};

/* A UD QP of the program that can be reached through other rails. */
struct mesh_ud_qp {
	struct mesh_ud_qp *next;
	struct mesh_context *mc;
	struct ibv_qp *qp;
	uint32_t qpn, qkey;
	uint16_t pkey_index;
	uint8_t port_num;
	bool claimed; /* the agent has been told */
	struct mesh_ud_peer *peers;
	struct mesh_ud_port *outlets;
};

/* A datagram that waits. */
struct mesh_ud_kept {
	struct mesh_ud_kept *next;
	struct mesh_ud_datagram {
		const uint8_t *bytes; /* without GRH */
		uint32_t length;
		bool has_imm;
		__be32 imm;
	} datagram;
	uint8_t bytes[];
};

#define UD_BUCKETS 64u

/* What we have on one NIC for all this. */
struct mesh_ud_rail {
	struct mesh_ud_rail *next;
	struct mesh_rail *rail; /* held until it is lost */
	bool watched; /* by the helper thread */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *memory; /* UD_RECEIVES buffers, then UD_SENDS */
	const struct mesh_ud_port *senders[UD_SENDS]; /* whose send a buffer is in; NULL: free */
	struct mesh_ud_port *ports[UD_BUCKETS]; /* by QPN */
};

/* udqp.c */

/** mesh_ud_qp_find - the record of a QP of the program; NULL: none */
struct mesh_ud_qp *mesh_ud_qp_find(const struct ibv_qp *qp);
void mesh_ud_qp_free(struct mesh_ud_qp *u);
/** mesh_ud_qp_get - the same, made if need be; NULL: no memory, or it cannot be relayed */
struct mesh_ud_qp *mesh_ud_qp_get(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_ud_posts_pass - does the program post its datagrams of a protection domain by functions that are replaced here?
 *
 * An address handle names no queue pair. A program that posts past libibverbs (UCX's ud_mlx5) copies the base's address vector out of the
 * handle into its own work requests, and nothing can be led. So @pd needs a UD queue pair, in INIT at least, and none that the program
 * drives itself. A protection domain without a UD queue pair belongs to a program whose queue pairs are not seen (DC, DEVX). RC queue pairs count as
 * well: UCX connects those of rc_mlx5 with datagrams, and a connection is moved whole or not at all.
 *
 * Behind mesh_mlx5_is_base(). Takes ud_lock, conn->lock and data->lock. May wait for an RC queue pair that is being connected.
 */
bool mesh_ud_posts_pass(struct mesh_context *mc, struct ibv_pd *pd);

/* udrail.c */

/**
 * mesh_ud_has_outlet - can datagrams have what they need, on the program's own NIC and on that of one of the paths?
 * @why: filled if not; @why_size: 256 will do
 *
 * Makes it, if it is not there yet: nobody tells a program that its datagrams are lost. Takes ud_lock; cancellation is off.
 */
bool mesh_ud_has_outlet(const struct mesh_context *mc, const struct mesh_view *view, char *why, size_t why_size);

/** mesh_ud_rail_get - what we have on a NIC, made if need be; NULL with @why */
struct mesh_ud_rail *mesh_ud_rail_get(const char *device, char *why, size_t why_size);
/** mesh_ud_rail_of - the same of a rail, if there is anything */
struct mesh_ud_rail *mesh_ud_rail_of(const struct mesh_rail *rail);
/** mesh_ud_port_new - a UD QP of ours that sends and receives; NULL with errno */
struct mesh_ud_port *mesh_ud_port_new(struct mesh_ud_rail *rail, struct mesh_ud_qp *owner, uint8_t port_num,
				      uint16_t pkey_index, uint32_t qkey);
/** mesh_ud_port_free - drains it and destroys it; NULL is fine */
void mesh_ud_port_free(struct mesh_ud_port *port);
struct mesh_ud_port *mesh_ud_port_find(struct mesh_ud_rail *rail, uint32_t qpn);
/** mesh_ud_receive - have a buffer received into (again) */
void mesh_ud_receive(struct mesh_ud_rail *rail, size_t buffer);
static inline uint8_t *mesh_ud_buffer(const struct mesh_ud_rail *rail, size_t buffer)
{
	return rail->memory + buffer * UD_BYTES;
}

/* udpost.c */

/** mesh_ud_install - put ours over a QP's ibv_wr_set_ud_addr(), if it has that */
void mesh_ud_install(struct mesh_ud_qp *u);
void mesh_ud_remove(struct mesh_ud_qp *u);

/* udpeer.c */

struct mesh_ud_peer *mesh_ud_peer_find(struct mesh_ud_qp *owner, const union ibv_gid *gid, uint32_t qpn);
/**
 * mesh_ud_peer_new - with its relay
 * @qkey: of the peer's QP
 *
 * Makes room by forgetting one that nobody has used for a while. NULL with errno.
 */
struct mesh_ud_peer *mesh_ud_peer_new(struct mesh_ud_qp *owner, const struct mv_ctl_end *end,
				      const union ibv_gid *local_gid, uint8_t local_type, uint32_t qkey);
void mesh_ud_peer_free(struct mesh_ud_peer *peer); /* takes it out of its QP's list */
/** mesh_ud_outlet_free - takes it out of its QP's list; peers that it led to are asked for another way */
void mesh_ud_outlet_free(struct mesh_ud_port *outlet);
/** mesh_ud_peer_ask - begin to ask it, or again */
void mesh_ud_peer_ask(struct mesh_ud_peer *peer, uint64_t now_ns);
/** mesh_ud_peer_run - send what is due; returns when to come again */
uint64_t mesh_ud_peer_run(struct mesh_ud_peer *peer, uint64_t now_ns);
/** mesh_ud_set_qkey - the program uses another one for this peer */
void mesh_ud_set_qkey(struct mesh_ud_peer *peer, uint32_t qkey);

/* udhost.c: called with ud_lock held. @from: the host that the agent had a message from; zero: an agent of an older version does not tell */

/**
 * mesh_ud_host_of - the host that the peer was met on
 *
 * Return: NULL: not known; or by the directory the peer's GID is another host's now: the host has a new id since its boot, or the address moved.
 */
const struct mv_host_id *mesh_ud_host_of(const struct mesh_ud_peer *peer);

/**
 * mesh_ud_may_speak - may that host ask, or answer, for the peer with that GID?
 * @peer: NULL: not known yet
 *
 * The host has to have the GID by the directory. A link-local GID can have several holders: then only the host that the peer was met on
 * speaks. A host that took over the GID speaks only where the address is not in doubt (mesh_view_is_doubted()).
 */
bool mesh_ud_may_speak(const struct mesh_ud_peer *peer, const struct mv_host_id *from, const union ibv_gid *gid);

/** mesh_ud_may_lead_to - may that host have datagrams sent to that GID? It has to have the GID, and the address must not be in doubt. */
bool mesh_ud_may_lead_to(const struct mv_host_id *from, const union ibv_gid *gid);

/** mesh_ud_has_room_for - may one more peer of that host be made, that the program has sent nothing to? Idle peers do not count. */
bool mesh_ud_has_room_for(const struct mv_host_id *from, uint64_t now_ns);

/** mesh_ud_has_time - may time be spent now on another host's question? */
bool mesh_ud_has_time(uint64_t now_ns);

/** mesh_ud_spent_time - time was spent on another host's question since @began_ns */
void mesh_ud_spent_time(uint64_t began_ns);

/* udrelay.c */

/** mesh_ud_poll - everything that arrived at or was sent from a NIC; returns whether anything was */
bool mesh_ud_poll(struct mesh_ud_rail *rail);
/** mesh_ud_sending - are datagrams of that QP under way from its outlets? */
bool mesh_ud_sending(const struct mesh_ud_qp *u);
/** mesh_ud_flush_kept - send what was kept for a peer; or drop it, while it is not READY */
void mesh_ud_flush_kept(struct mesh_ud_peer *peer);

/* udsilent.c: called with ud_lock held. @from: what an address handle is wanted for; only compared */

/** mesh_ud_is_silent - is it not worth asking for an address handle now? */
bool mesh_ud_is_silent(const void *from, const union ibv_gid *gid);

/** mesh_ud_refused - there was none; @err: errno; @began_ns: when it was asked for */
void mesh_ud_refused(const void *from, const union ibv_gid *gid, int err, uint64_t began_ns);

/* udpeer.c udlocal.c */

/** mesh_ud_make_room - for one more peer. Return: false: all are in use */
bool mesh_ud_make_room(uint64_t now_ns);
/** mesh_ud_make_relay - the relay of a peer, if it has none. Return: 0 or -errno, and @why */
int mesh_ud_make_relay(struct mesh_ud_peer *peer, char *why, size_t why_size);
/** mesh_ud_free_ah - an address handle of a relay or an outlet; NULL is fine */
void mesh_ud_free_ah(const struct mesh_ud_port *from, struct ibv_ah *ah);

#endif
