/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_RAILS_H
#define MESH_RAILS_H

#include <sys/queue.h>

#include "context.h"
#include "devices.h"

/*
 * Rails: NICs of this host that the plugin opens for itself, by libibverbs' public functions, without the overlay. Moved
 * connections use them. Each has a twin of each of the program's protection domains that is needed there.
 *
 * Threads: any of the process that opened the rail. A child of fork() must not use or put rails of its parent (see also
 * mesh_context_active() of the program's context), and opens its own.
 */

/* Descriptors of a rail: completion events, asynchronous events, commands. */
enum { MESH_RAIL_COMP, MESH_RAIL_ASYNC, MESH_RAIL_CMD, MESH_RAIL_FILES };

struct mesh_rail {
	struct mesh_rail *next; /* rails_lock; not in the list if @lost */
	unsigned int refs; /* rails_lock */
	_Atomic bool lost; /* written once, under rails_lock: mesh_rail_lose() */
	uint64_t generation; /* of the process that opened it */
	char device[IBV_SYSFS_NAME_MAX];
	struct mesh_device *commands; /* record of the device; NULL: no memory */
	struct mesh_device_job job; /* closes the rail */
	/* process->keys.lock; mr_prereg.c: a thread runs; that thread has to look again */
	bool prereg_thread, prereg_wanted;
	/* Their descriptors are -1 once the program has closed them. */
	struct ibv_context *context; /* its async_fd is non-blocking */
	struct ibv_comp_channel *channel; /* of all CQs on the rail; non-blocking */
	struct mesh_file {
		int fd, mark;
		uint64_t dev, ino;
	} files[MESH_RAIL_FILES]; /* constant; checked by mesh_rail_intact() */
	_Atomic bool taken; /* the program has closed them; written once */
	_Atomic bool fatal; /* DEVICE_FATAL was read: the helper thread has to lose the rail; written once */
	_Atomic uint32_t ports_down; /* bit per port: mesh_port_event() */
	/* Last port query; gid_lock; connpath.c. */
	uint64_t asked_ns;
	uint8_t asked_port, active_mtu;
	uint16_t lid;
	struct mesh_rail_gid {
		uint64_t asked_ns; /* 0: invalid */
		union ibv_gid gid;
		uint8_t port, type, index;
		bool twins; /* several netdevs have the GID, so the index depends on the destination */
	} known_gid; /* gid_lock; last look-up of mesh_rail_recall_gid() */
	struct mesh_rail_pkey {
		uint64_t asked_ns; /* 0: invalid */
		const struct ibv_context *own;
		uint8_t own_port, port;
		uint16_t own_index, index;
	} known_pkey; /* gid_lock; last look-up of mesh_rail_find_pkey() */
	MESH_LOCK(GID) gid_lock; /* held over a query of the GID table or of P_Keys; process->paths.lock is tried with it */
	MESH_LOCK(SRQ_TABLE) srq_table_lock; /* as in struct mesh_data */
};

/**
 * mesh_rail_get - get the rail of a NIC of this host, opened if needed
 * @device: its name; the program may have it open, too
 * @why: written on failure, a sentence for the operator
 *
 * Opening takes milliseconds, and waits for another thread that opens the same device.
 *
 * Return: the rail, to be given to mesh_rail_put(); NULL.
 */
struct mesh_rail *mesh_rail_get(const char *device, char *why, size_t why_size);

/**
 * mesh_rail_may_open - may this process open the device file of a NIC?
 *
 * False in a container that was given other NICs only. Says nothing of the firmware: mesh_rail_get() may still fail. Lists
 * libibverbs' devices, which takes some 100 us; takes process->open_lock. Preserves nothing of errno.
 */
bool mesh_rail_may_open(const char *device);

/** mesh_rail_ref - take a further reference */
struct mesh_rail *mesh_rail_ref(struct mesh_rail *rail);

/**
 * mesh_rail_put - put a reference; the last one closes the rail
 *
 * The caller's objects on the rail must be destroyed, or queued by mesh_device_do(). NULL is fine. No effect in a child of
 * fork().
 */
void mesh_rail_put(struct mesh_rail *rail);

/**
 * mesh_rail_lose - the device was reset, unplugged, or bound to another driver: the context is dead
 *
 * mesh_rail_get() opens the device anew, if it comes back under the same name, and mesh_pd_get() makes a new PD. Objects on the
 * dead context are freed when their users drop them, and the context after the last one. May be called again. The caller has a
 * reference. Helper thread, without locks.
 */
void mesh_rail_lose(struct mesh_rail *rail);

/**
 * mesh_rail_lost - was mesh_rail_lose() called? The loss may also come just after; then verbs return EIO. Any thread, with any
 * locks.
 */
static inline bool mesh_rail_lost(const struct mesh_rail *rail)
{
	return atomic_load_explicit(&rail->lost, memory_order_acquire);
}

/**
 * mesh_rail_intact - are the rail's descriptors still those of its files?
 *
 * A program may close descriptors that are not its own, for example by closefrom(3), or dup2(2) over one, and then reuse the
 * numbers. A read there would take the program's data, and a command act on the program's device. So call this before each
 * command that frees an object, and before reads. If not intact, the numbers in context and channel are set to -1, so that all
 * later calls fail with EBADF. A race between this check and the system call remains.
 *
 * Six short system calls: not for the data path. Any thread, with any locks; preserves errno. Return: once false, false for ever.
 */
bool mesh_rail_intact(struct mesh_rail *rail);

/**
 * mesh_rail_channel_intact - mesh_rail_intact() for the completion channel alone, before events are read
 *
 * One system call if the kernel supports marks of files (mark_files()). Otherwise, or if the mark differs, as mesh_rail_intact().
 */
bool mesh_rail_channel_intact(struct mesh_rail *rail);

/** mesh_rail_taken - has mesh_rail_intact() been false? Any thread, with any locks. */
static inline bool mesh_rail_taken(const struct mesh_rail *rail)
{
	return atomic_load_explicit(&rail->taken, memory_order_acquire);
}

/** mesh_rail_create_srq - ibv_create_srq(), serialised: see srq_table_lock. Any thread. */
struct ibv_srq *mesh_rail_create_srq(struct mesh_rail *rail, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);

/**
 * mesh_rail_destroy_srq - destroy an SRQ of mesh_rail_create_srq(). Return: as ibv_destroy_srq(); EBADF: not mesh_rail_intact().
 */
int mesh_rail_destroy_srq(struct mesh_rail *rail, struct ibv_srq *srq);

/** mesh_rail_current - did this process open the rail, and not the parent of a fork()? */
static inline bool mesh_rail_current(const struct mesh_rail *rail)
{
	return rail->generation == atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed);
}

/** mesh_rail_opening - is the calling thread opening a rail? Then the new context gets no overlay. */
bool mesh_rail_opening(const struct mesh_root *root);

/**
 * mesh_rail_find_gid - current index of a GID on a rail
 * @type: enum mv_gid_type
 * @dgid: destination, which decides if several netdevs have the GID
 *
 * One system call. Return: 0; -ENOENT; -ENOMEM; -errno of the query.
 */
int mesh_rail_find_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type,
		       const union ibv_gid *dgid, uint8_t *ret_index);

/**
 * mesh_rail_recall_gid - mesh_rail_find_gid() with a cache of a few milliseconds
 *
 * Hundreds of connections that move together have one GID, and look it up once. The index may change after any look-up, cached or
 * not. A change that the device has reported (mesh_rail_forget_gid()) is seen.
 */
int mesh_rail_recall_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type,
			 const union ibv_gid *dgid, uint8_t *ret_index);
/** mesh_rail_forget_gid - the GID table has changed: drop the cache */
void mesh_rail_forget_gid(struct mesh_rail *rail);

/**
 * mesh_rail_find_pkey - InfiniBand: index of a P_Key on a rail's port: that which the program's port has at @own_index
 * @own: the program's device
 *
 * Same partition and same membership: two limited members cannot talk to each other. Reads files in /sys, with a cache of a few
 * milliseconds.
 *
 * Return: 0; -ENOENT: the port lacks the P_Key, or a table cannot be read.
 */
int mesh_rail_find_pkey(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port, uint16_t own_index,
			uint16_t *ret_index);
/** mesh_rail_has_one_partition - InfiniBand: have a rail's port and the program's one P_Key each, the same? Reads files in /sys. */
bool mesh_rail_has_one_partition(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port);

/**
 * mesh_keys_lock - take process->keys.lock, and disable cancellation; in a child of fork() root.keys is emptied first
 *
 * Return: pass it to mesh_keys_unlock().
 */
MV_ACQUIRES(&mesh_root.process->keys.lock) static inline int mesh_keys_lock(void)
{
	int cancel = mesh_cancel_off();
	uint64_t generation;

	mesh_lock(&mesh_root.process->keys.lock);
	generation = atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed);
	if (mesh_root.keys.generation != generation)
		mesh_root.keys = (struct mesh_keys){.generation = generation};
	return cancel;
}

MV_RELEASES(&mesh_root.process->keys.lock) static inline void mesh_keys_unlock(int cancel)
{
	mesh_unlock(&mesh_root.process->keys.lock);
	mesh_cancel_restore(cancel);
}

/* Twin of a protection domain of the program, on a rail. */
struct mesh_pd {
	struct mesh_device_job job; /* frees it */
	struct mesh_pd *next; /* process->keys.lock */
	unsigned int refs; /* process->keys.lock; the program's PD counts as one */
	struct ibv_pd *program; /* never a parent domain; may be freed: only compared */
	struct ibv_context *verbs; /* the program's */
	struct mesh_rail *rail;
	struct ibv_pd *pd; /* on the rail */
	/* An MR whose keys fail every access: one byte, no rights, at an iova without memory. */
	struct ibv_mr *dummy;
	void *dummy_page;
	LIST_HEAD(, mesh_shadow_mr) shadows; /* process->keys.lock; keys.c */
	bool prereg; /* process->keys.lock; regions are registered here in advance; mr_prereg.c */
	/* process->keys.lock; serial number of mesh_mr_table_look(): regions up to this were looked at */
	uint64_t looked;
};

/**
 * mesh_pd_get - get the twin of a program's PD on a rail, made if missing
 * @program: may be a parent domain; alive
 *
 * The twin lives until the program deallocates its PD, and its last user puts it. It has a reference to the rail.
 *
 * Return: to be given to mesh_pd_put(); NULL with @why.
 */
struct mesh_pd *mesh_pd_get(struct mesh_context *mc, struct ibv_pd *program, struct mesh_rail *rail, char *why,
			    size_t why_size);

/** mesh_pd_ref - take a further reference */
struct mesh_pd *mesh_pd_ref(struct mesh_pd *spd);

/** mesh_pd_put - put a reference. The caller's objects must be destroyed, or queued by mesh_device_do(). NULL is fine. */
void mesh_pd_put(struct mesh_pd *spd);

/**
 * mesh_pd_underlying - the PD of a parent domain
 *
 * Return: @pd itself if it is no parent domain.
 */
struct ibv_pd *mesh_pd_underlying(struct ibv_pd *pd);

/**
 * mesh_rail_async_events - read and log asynchronous events of a rail; any thread, after mesh_rail_intact()
 *
 * Return: false: the device is gone. The helper thread then calls mesh_rail_lose(). If another thread gets false, check_rails()
 * of thread.c finds that later.
 */
bool mesh_rail_async_events(struct mesh_rail *rail);
/* Functions of the rooms above. callbacks.c fills the table before any other code of the plugin runs. */
struct mesh_rail_clients {
	void (*lost)(const struct mesh_rail *rail); /* mesh_pd_get() fails there from now on; called without locks */
	void (*port_down)(void); /* a port is down; any thread */
	void (*last_wqe)(const struct ibv_qp *qp); /* IBV_EVENT_QP_LAST_WQE_REACHED, before it is acknowledged */
};
extern struct mesh_rail_clients mesh_rail_clients;

/** mesh_thread_rail - read the events of a rail until it is lost; helper thread only */
void mesh_thread_rail(struct mesh_rail *rail);
/** mesh_pds_lose - a rail is lost: mesh_pd_get() fails there from now on; without locks */
void mesh_pds_lose(const struct mesh_rail *rail);

/** mesh_pds_close - a context is being closed: forget its PDs; after mesh_keys_close() */
void mesh_pds_close(struct ibv_context *verbs);

/* Verbs entry points (pds.c). Contracts, errors and thread-safety as in libibverbs. */
struct ibv_pd *mesh_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
int mesh_dealloc_pd(struct ibv_pd *pd);

#endif
