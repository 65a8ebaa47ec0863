/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_CONTEXT_H
#define MESH_CONTEXT_H

#include "data.h"
#include "mesh.h"
#include "seen.h"
#include "topo.h"

#define MESH_FITS 16 /* a power of two */

/* Functions of the lower provider that the plugin's may replace in struct ibv_context_ops, and that posts and polls call. */
struct mesh_lower_io {
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
};

/* Those for queue pairs. */
struct mesh_lower_qp {
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
	struct ibv_qp *(*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	int (*modify_qp_rate_limit)(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece); /* may be NULL, as the next */
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
};

/* Those for completion queues. */
struct mesh_lower_cq {
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, struct ibv_comp_channel *channel,
				    int comp_vector);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
	void (*cq_event)(struct ibv_cq *cq);
};

/* Those for SRQs. */
struct mesh_lower_srq {
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
	int (*destroy_srq)(struct ibv_srq *srq);
};

/* Those for protection domains. */
struct mesh_lower_pd {
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*import_pd)(struct ibv_context *context, uint32_t handle); /* may be NULL, as the next */
	void (*unimport_pd)(struct ibv_pd *pd);
};

/*
 * Those for memory regions and windows. libibverbs hands out its own struct around the provider's ibv_mr, which is its first
 * member.
 */
struct mesh_lower_mr {
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
					int fd, int access); /* may be NULL, as the next two */
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct mesh_mr_init_attr *attr);
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t handle);
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
				    unsigned int access);
	int (*rereg_mr)(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
};

/*
 * Functions of the lower provider; constant while the context's @verbs is set. Without can_move only modify_qp, create_ah,
 * async_event and free_context are valid. "May be NULL": where the library has no such function. Posts and polls use @io, which
 * comes first.
 */
struct mesh_lower {
	struct mesh_lower_io io;
	struct mesh_lower_qp qp;
	struct mesh_lower_cq cq;
	struct mesh_lower_srq srq;
	struct mesh_lower_pd pd;
	struct mesh_lower_mr mr;
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	int (*destroy_ah)(struct ibv_ah *ah);
	void (*async_event)(struct ibv_context *context, struct ibv_async_event *event);
	void (*free_context)(struct ibv_context *context);
	int (*query_port)(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr); /* NULL: not replaced */
};

/*
 * Record of a verbs context that carries the overlay.
 *
 * Records are in a list that only grows. They are never freed, but reused: so a look-up takes no lock, and works in a child of
 * fork(), whatever other threads did during the fork.
 */
struct mesh_context {
	struct mesh_context *next; /* constant once linked */
	_Atomic(struct ibv_context *) verbs; /* NULL: free for use; RESERVED while being filled */
	uint64_t generation; /* of the process that opened it */
	struct mesh_lower lower;
	char device[IBV_SYSFS_NAME_MAX];
	bool logged_only; /* mode = observe: decisions are logged, and nothing is done */
	/* the path to another host is checked, so that the connection can use another path, or for the log */
	bool sees_peers;
	bool can_move; /* all of @lower is valid */

	_Atomic uint32_t library; /* of the lower provider: mv_directory_library(); 0: not computed yet; survives.c */
	/* Number of a directory << 2 | enum mv_dir_qualified of @device by that directory; 0: not asked yet; survives.c */
	_Atomic uint64_t qualified;
	_Atomic uint32_t ports_down; /* bit per port: mesh_port_event() */
	_Atomic uint32_t stood_in; /* bit per port: down, and last shown to the program as active; portview.c */
	struct mesh_data data; /* data path of virtual QPs; has a lock of its own */
	struct mesh_ud_data ud; /* ud.h */

	/* Guarded by process->paths.lock. */
	struct mv_topo tables; /* the device's ports and GID tables at the last read */
	uint64_t tables_read_ns; /* begin of that read; 0: too old for a decision */
	/* Cache of choices that fit, valid for these tables and the netdevs as read at that time. */
	struct mesh_fit {
		uint8_t port_num; /* 0: none */
		uint8_t index;
		enum mv_gid_type type;
		union ibv_gid dgid, gid;
	} fits[MESH_FITS];
	uint64_t fits_routes; /* and for the routes after so many changes; see struct mesh_paths */
	struct mv_seen_log *seen;
};

/**
 * mesh_context_get_free - take a free record, for a new context
 *
 * Return: the record, invisible to look-ups until mesh_context_publish(); NULL: no memory.
 */
struct mesh_context *mesh_context_get_free(void);

/** mesh_context_publish - make a filled record visible to look-ups */
void mesh_context_publish(struct mesh_context *mc, struct ibv_context *verbs);

/**
 * mesh_context_release - free a record, published or not
 *
 * Its tables must have been released (mesh_paths_close()).
 */
void mesh_context_release(struct mesh_context *mc);

/**
 * mesh_context_get - the record of a context with overlay
 * @verbs: a context that the caller keeps open
 *
 * Any thread; no lock. Return: the record; never NULL for a context with the plugin's functions.
 */
struct mesh_context *mesh_context_get(const struct ibv_context *verbs);

/**
 * mesh_context_active - may the plugin do more for this context than call the lower provider?
 *
 * False in a child of fork() for contexts that the parent opened.
 */
static inline bool mesh_context_active(const struct mesh_context *mc)
{
	return mc->generation ==
	       atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed);
}

/**
 * mesh_own_qp - its address is the qp_context of the plugin's QPs on the program's device
 *
 * Events of these QPs are hidden from the program (lastwqe.c).
 */
extern const char mesh_own_qp;
/** mesh_data_pd - the plugin's protection domain on the program's device, made if missing; NULL with errno; data->lock */
struct ibv_pd *mesh_data_pd(struct mesh_context *mc);
/**
 * mesh_own_to_err - bring a QP of the plugin from RESET or ERR to ERR
 *
 * By the lower provider's function: the plugin's would take the QP for one of the program. Callers serialise per QP.
 * Return: 0 or errno.
 */
int mesh_own_to_err(struct mesh_context *mc, struct ibv_qp *qp);

/**
 * mesh_real_port - ibv_query_port() of a program's device, or of a rail, as the lower provider answers it
 *
 * The program itself may be shown another port's state (portview.h). Any thread. Return: as ibv_query_port().
 */
int mesh_real_port(struct ibv_context *verbs, uint8_t port_num, struct ibv_port_attr *ret);

/**
 * mesh_looking_begin - the calling thread reads a GID table with a lock of the plugin held
 *
 * Where the kernel has no query of the table, libibverbs queries the port, too: mesh_query_port() then takes no lock.
 *
 * Return: pass it to mesh_looking_end().
 */
_Atomic unsigned long *mesh_looking_begin(void);
void mesh_looking_end(_Atomic unsigned long *looking);
/** mesh_looking - is the calling thread between mesh_looking_begin() and mesh_looking_end()? */
bool mesh_looking(void);

/* overlay.c */

/**
 * mesh_overlay_install - install the plugin's functions in a context that the lower provider has just made
 * @start: result of the lower provider's alloc_context or import_context, not NULL
 * @direct: opened by mlx5dv_open_device(): the program means to drive queue pairs past libibverbs
 *
 * If anything about the context is unexpected, leaves it alone, and reports that. Any thread.
 */
void mesh_overlay_install(struct mesh_root *root, const struct mesh_lower_provider *lower, struct ibv_device *device,
			  struct verbs_context *start, bool direct);

/* Verbs entry points: modify.c, ah.c, event.c, overlay.c. Contracts, errors and thread-safety as in libibverbs. */
int mesh_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
struct ibv_ah *mesh_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
void mesh_async_event(struct ibv_context *context, struct ibv_async_event *event);
void mesh_free_context(struct ibv_context *context);

#endif
