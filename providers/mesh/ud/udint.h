/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_UDINT_H
#define MESH_UDINT_H

#include "ud.h"

/* Shared by udqp.c udpost.c udpeer.c udpath.c udhost.c udlocal.c udrail.c udrelay.c udsilent.c. Everything is guarded by ud_lock. */

#define UD_IDLE_NS   10000000000ull /* a peer not used for so long may be forgotten */
#define UD_MAX_PEERS 256u
#define UD_MAX_STRANGERS 192u /* of these, peers that asked for a path, and to which the program has sent nothing */
#define UD_MAX_OF_A_HOST 128u /* such peers of one host */
#define UD_RECEIVES  256u /* buffers of each NIC */
#define UD_SENDS     128u
#define UD_MAX_QUEUED    128u
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

/* An address handle of the program, for a destination behind another rail. */
struct mesh_ud_ah {
	const struct ibv_ah *ah; /* the program's handle */
	struct ibv_ah *self; /* handle of the lower provider to this host's own address: reaches relays */
	struct ibv_ah_attr attr; /* as the program gave them */
	union ibv_gid local_gid; /* GID that the program means by its index */
	uint8_t local_type; /* enum mv_gid_type */
	bool routed, by_links; /* as in struct mv_path_request */
};

/* A UD QP of the plugin: a relay (@peer set), or an outlet. */
struct mesh_ud_port {
	struct mesh_ud_port *next; /* in its rail's hash bucket */
	struct mesh_ud_port *next_outlet; /* of @owner */
	struct mesh_ud_rail *rail;
	struct ibv_qp *qp;
	struct mesh_ud_qp *owner;
	struct mesh_ud_peer *peer;
	uint8_t port_num;
	bool infiniband;
	uint16_t lid; /* InfiniBand: as of @lid_at_ns; 0: none */
	uint64_t lid_at_ns; /* 0: not asked yet */
	uint32_t max_bytes; /* of a datagram */
};

/* The peer's outlet. */
struct mesh_ud_path {
	union ibv_gid gid;
	uint32_t qpn;
	uint16_t lid; /* InfiniBand; else 0 */
};

enum mesh_ud_state {
	MESH_UD_ASKING, /* UD_GET is being sent */
	MESH_UD_READY,
	MESH_UD_FAILED, /* no answer, or no path; tried again with a later datagram */
};

/* The former path. The peer may still use it: for a moment, or as long as the two ends have different paths. */
struct mesh_ud_old {
	struct mesh_ud_port *outlet; /* NULL: none */
	struct mesh_ud_path path;
};

/* Questions for a path (UD_GET). Owner: udpeer.c. */
struct mesh_ud_asking {
	union ibv_gid gid; /* GID of our outlet in the last one */
	uint8_t type; /* of @gid: enum mv_gid_type */
	unsigned int n; /* questions since the last successful one: selects the next path */
	uint32_t request_id; /* of the last one; 0: no answer is awaited */
	uint64_t resend_at_ns; /* in ASKING and FAILED: the next one */
	uint64_t step_ns, give_up_ns; /* in ASKING */
	uint64_t refresh_at_ns; /* in READY */
};

/* Datagrams that wait until their peer is READY. Owner: udrelay.c. */
struct mesh_ud_waiting {
	struct mesh_ud_queued *oldest;
	unsigned int n;
};

/* A peer of one of the program's QPs. */
struct mesh_ud_peer {
	struct mesh_ud_peer *next; /* of @owner */
	struct mesh_ud_qp *owner;
	struct mv_ctl_end end; /* as the program knows it */
	union ibv_gid local_gid; /* our GID, as the peer's program knows it */
	uint8_t local_type;
	bool spoken; /* the program has sent to the peer: @attr, @routed and @by_links are valid */
	struct ibv_ah_attr attr;
	bool routed, by_links; /* as in struct mesh_ud_ah; @by_links: of the handle that was used last */

	struct mesh_ud_port *relay;
	uint32_t qkey; /* of the peer's QP, as the program uses it; also of the relay */
	struct ibv_ah *relay_ah; /* from the relay to the program's QP */

	enum mesh_ud_state state;
	struct mesh_ud_port *outlet; /* NULL: none yet */
	union ibv_gid outlet_gid; /* GID of the outlet */
	struct ibv_ah *path_ah; /* from the outlet to the peer's outlet; NULL: not READY */
	struct mesh_ud_path path;
	struct mesh_ud_old old;
	char host[64]; /* name of the peer's host, for logs; "": not known */
	struct mv_host_id host_id; /* host on which the peer was found; zero: not known */
	struct mesh_ud_asking asking;
	uint64_t used_at_ns;
	struct mesh_ud_waiting queued;
};

/* A UD QP of the program that peers can reach through other rails. */
struct mesh_ud_qp {
	struct mesh_ud_qp *next;
	struct mesh_context *mc;
	struct ibv_qp *qp;
	uint32_t qpn, qkey;
	uint16_t pkey_index;
	uint8_t port_num;
	bool registered; /* the agent has got the REGISTER_QP */
	struct mesh_ud_peer *peers;
	struct mesh_ud_port *outlets;
};

/* A datagram that waits until its peer is READY. */
struct mesh_ud_queued {
	struct mesh_ud_queued *next;
	struct mesh_ud_datagram {
		const uint8_t *bytes; /* without GRH */
		uint32_t length;
		bool has_imm;
		__be32 imm;
	} datagram;
	uint8_t bytes[];
};

#define UD_BUCKETS 64u

/* Objects of this room on one NIC. */
struct mesh_ud_rail {
	struct mesh_ud_rail *next;
	struct mesh_rail *rail; /* referenced until it is lost */
	bool watched; /* the helper thread reads its events */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *memory; /* UD_RECEIVES buffers, then UD_SENDS */
	const struct mesh_ud_port *senders[UD_SENDS]; /* port whose send uses a buffer; NULL: free */
	struct mesh_ud_port *ports[UD_BUCKETS]; /* by QPN */
};

/* udqp.c */

/** mesh_ud_qp_find - the record of a QP of the program; NULL: none */
struct mesh_ud_qp *mesh_ud_qp_find(const struct ibv_qp *qp);
void mesh_ud_qp_free(struct mesh_ud_qp *u);
/** mesh_ud_qp_get - the same, made if missing; NULL: no memory, or the QP cannot be queried */
struct mesh_ud_qp *mesh_ud_qp_get(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_ud_posts_pass - does the program post datagrams of a protection domain by functions that the plugin replaces?
 *
 * An address handle names no queue pair. A program that posts without libibverbs (UCX's ud_mlx5) copies the address vector out of
 * the handle into its own WQEs, so the plugin cannot redirect it. So @pd needs a UD QP, in INIT at least, and no QP that the
 * program drives itself. A PD without UD QP belongs to a program whose QPs the plugin does not see (DC, DEVX). RC QPs count as
 * well: UCX connects those of rc_mlx5 by datagrams, and a connection moves completely or not at all.
 *
 * Call after mesh_mlx5_is_lower(). Takes ud_lock, conn->lock and data->lock. May wait for an RC QP that is being
 * connected.
 */
bool mesh_ud_posts_pass(struct mesh_context *mc, struct ibv_pd *pd);

/* udrail.c */

/**
 * mesh_ud_has_outlet - can relays and outlets be made: on the program's own NIC, and on that of one of the paths?
 * @why: written if not; @why_size: 256 is enough
 *
 * Makes the objects on these NICs if missing, because no error tells a program later that its datagrams are lost. Takes ud_lock;
 * cancellation is off.
 */
bool mesh_ud_has_outlet(const struct mesh_context *mc, const struct mesh_path_decision *decision, char *why,
			size_t why_size);

/** mesh_ud_rail_get - the objects on a NIC, made if missing; NULL with @why */
struct mesh_ud_rail *mesh_ud_rail_get(const char *device, char *why, size_t why_size);
/** mesh_ud_rail_of - the objects on a rail; NULL: none */
struct mesh_ud_rail *mesh_ud_rail_of(const struct mesh_rail *rail);
/** mesh_ud_port_new - make a UD QP of the plugin, in RTS; NULL with errno */
struct mesh_ud_port *mesh_ud_port_new(struct mesh_ud_rail *rail, struct mesh_ud_qp *owner, uint8_t port_num,
				      uint16_t pkey_index, uint32_t qkey);
/** mesh_ud_port_lid - the LID that the port has now, or had some milliseconds ago; 0: not InfiniBand, or no LID of one port */
uint16_t mesh_ud_port_lid(struct mesh_ud_port *port);
/** mesh_ud_port_free - drain and destroy it; NULL is fine */
void mesh_ud_port_free(struct mesh_ud_port *port);
struct mesh_ud_port *mesh_ud_port_find(struct mesh_ud_rail *rail, uint32_t qpn);
/** mesh_ud_receive - post a receive buffer */
void mesh_ud_receive(struct mesh_ud_rail *rail, size_t buffer);
static inline uint8_t *mesh_ud_buffer(const struct mesh_ud_rail *rail, size_t buffer)
{
	return rail->memory + buffer * UD_BYTES;
}

/* udpost.c */

/** mesh_ud_install - replace a QP's wr_set_ud_addr(), if it has one */
void mesh_ud_install(struct mesh_ud_qp *u);
void mesh_ud_remove(struct mesh_ud_qp *u);

/* udpeer.c */

#define UD_QKEY_PRIVILEGED 0x80000000u

/**
 * mesh_ud_relay_qkey - QKey of a relay to a peer whose QP has @qkey
 *
 * A privileged QKey in a work request stands for the QKey of the sender's own QP. Linux gives a QP a privileged QKey only if the
 * process has CAP_NET_RAW.
 */
static inline uint32_t mesh_ud_relay_qkey(const struct mesh_ud_qp *u, uint32_t qkey)
{
	return qkey & UD_QKEY_PRIVILEGED ? u->qkey : qkey;
}

struct mesh_ud_peer *mesh_ud_peer_find(struct mesh_ud_qp *owner, const union ibv_gid *gid, uint32_t qpn);
/**
 * mesh_ud_peer_new - make a peer with its relay. NULL with errno.
 * @qkey: of the peer's QP, or as the program's work request has it
 *
 * With UD_MAX_PEERS, forgets a peer that was not used for a while.
 */
struct mesh_ud_peer *mesh_ud_peer_new(struct mesh_ud_qp *owner, const struct mv_ctl_end *end,
				      const union ibv_gid *local_gid, uint8_t local_type, uint32_t qkey);
void mesh_ud_peer_free(struct mesh_ud_peer *peer); /* also takes it out of its QP's list */
/** mesh_ud_peer_ask - begin to ask the peer for a path, again if needed */
void mesh_ud_peer_ask(struct mesh_ud_peer *peer, uint64_t now_ns);
/** mesh_ud_peer_run - send what is due. Return: when to come again, ns. */
uint64_t mesh_ud_peer_run(struct mesh_ud_peer *peer, uint64_t now_ns);
/** mesh_ud_set_qkey - the program uses another QKey for this peer */
void mesh_ud_set_qkey(struct mesh_ud_peer *peer, uint32_t qkey);

/* udpath.c */

/**
 * mesh_ud_outlet_on - the outlet of a QP on the rail that has that GID, made if missing
 * @why: written if NULL is returned
 */
struct mesh_ud_port *mesh_ud_outlet_on(struct mesh_ud_qp *owner, const union ibv_gid *gid, uint8_t type, char *why,
				       size_t why_size);
/**
 * mesh_ud_is_heard_alike - InfiniBand: is the destination's port heard on a port whose beacons go by the partition of the
 * program's port?
 * @pd, @attr: of the address handle
 * @decision: its paths
 *
 * IPoIB netdevs of two partitions do not hear each other, although one fabric may join their ports. A port may have a netdev for
 * each of its P_Keys, so both ports have to have but one P_Key. Cancellation is off.
 */
bool mesh_ud_is_heard_alike(const struct ibv_pd *pd, const struct ibv_ah_attr *attr, const struct mesh_path_decision *decision);
/** mesh_ud_outlet_free - free an outlet, and ask its peers for another path */
void mesh_ud_outlet_free(struct mesh_ud_port *outlet);
/** mesh_ud_has_path - does the peer use that path? @gid: of the outlet here */
bool mesh_ud_has_path(const struct mesh_ud_peer *peer, const union ibv_gid *gid, const struct mesh_ud_path *path);
/**
 * mesh_ud_set_path - lead the peer's datagrams by that path from now on
 * @gid: of @outlet
 * @type: enum mv_gid_type of @gid
 *
 * May wait for the kernel, which looks for the neighbour. Return: 0; -errno: the peer stays as it was.
 */
int mesh_ud_set_path(struct mesh_ud_peer *peer, struct mesh_ud_port *outlet, const union ibv_gid *gid, uint8_t type,
		     const struct mesh_ud_path *path);

/*
 * udhost.c: called with ud_lock held. @from: the host that sent a message, as the agent says; zero: an agent of an older version,
 * which does not say
 */

/**
 * mesh_ud_host_of - the host on which the peer was met
 *
 * Return: NULL: the host is not known; or by the directory another host has the peer's GID now, because the host was booted, and
 * has a new id, or the address moved.
 */
const struct mv_host_id *mesh_ud_host_of(const struct mesh_ud_peer *peer);

/**
 * mesh_ud_may_speak - may that host ask or answer for the peer with that GID?
 * @peer: NULL: not known yet
 *
 * By the directory the host has to have the GID. A link-local GID can have several holders: then only the host on which the peer
 * was met speaks. A host that took over the GID speaks unless the address is in doubt (mesh_directory_is_doubted()).
 */
bool mesh_ud_may_speak(const struct mesh_ud_peer *peer, const struct mv_host_id *from, const union ibv_gid *gid);

/** mesh_ud_may_lead_to - may that host have datagrams sent to that GID? The host has to have the GID, not in doubt. */
bool mesh_ud_may_lead_to(const struct mv_host_id *from, const union ibv_gid *gid);

/**
 * mesh_ud_is_ambiguous - do several hosts have the peer's GID, and is it not known which of them the peer is on?
 * @peer: NULL: not known yet
 */
bool mesh_ud_is_ambiguous(const struct mesh_ud_peer *peer, const union ibv_gid *gid);

/** mesh_ud_has_room_for - may the host have one more peer to which the program has sent nothing? Idle peers do not count. */
bool mesh_ud_has_room_for(const struct mv_host_id *from, uint64_t now_ns);

/**
 * mesh_ud_has_time - may time be spent now on a question or answer of a peer?
 * @spoken: the program has sent to that peer
 */
bool mesh_ud_has_time(bool spoken, uint64_t now_ns);

/** mesh_ud_spent_time - time was spent on a question or answer of a peer since @began_ns */
void mesh_ud_spent_time(bool spoken, uint64_t began_ns);

/* udrelay.c */

/** mesh_ud_poll - process the completions that are on a NIC now. Return: were there any? */
bool mesh_ud_poll(struct mesh_ud_rail *rail);
/** mesh_ud_sending - do outlets of that QP have sends outstanding? */
bool mesh_ud_sending(const struct mesh_ud_qp *u);
/** mesh_ud_flush_queued - send the datagrams that wait for a peer, or drop them if the peer is not READY */
void mesh_ud_flush_queued(struct mesh_ud_peer *peer);

/* udsilent.c: called with ud_lock held. @from: object for which a handle is wanted; only compared. */

/** mesh_ud_is_silent - did the neighbour not answer recently, so that a try would only take time? */
bool mesh_ud_is_silent(const void *from, const union ibv_gid *gid);

/** mesh_ud_refused - making a handle failed; @err: errno; @began_ns: begin of the call, mesh_now_ns() */
void mesh_ud_refused(const void *from, const union ibv_gid *gid, int err, uint64_t began_ns);

/* udpeer.c udlocal.c */

/** mesh_ud_make_room - make room for one more peer. Return: false: all peers are in use. */
bool mesh_ud_make_room(uint64_t now_ns);
/** mesh_ud_make_relay - make the relay of a peer. Return: 0; -errno with @why. */
int mesh_ud_make_relay(struct mesh_ud_peer *peer, char *why, size_t why_size);
/** mesh_ud_free_ah - destroy an address handle of a relay or an outlet; NULL is fine */
void mesh_ud_free_ah(const struct mesh_ud_port *from, struct ibv_ah *ah);

#endif
