/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_RAILS_H
#define MESH_RAILS_H

#include <sys/queue.h>

#include "context.h"
#include "devices.h"

/*
 * Where moved connections live: NICs of this host that the plugin opens for itself, through the public functions of
 * libibverbs and without the overlay, and there a protection domain for each of the program's.
 *
 * Everything may be called from any thread of the process that opened it. A fork's child has no rails and must not
 * use or put those of its parent (mesh_context_active() of the program's context says so, too); it opens its own.
 */

/* The descriptors that a rail has: of completion events, of asynchronous events, and of commands. */
enum { MESH_RAIL_COMP, MESH_RAIL_ASYNC, MESH_RAIL_CMD, MESH_RAIL_FILES };

struct mesh_rail {
	struct mesh_rail *next; /* rails_lock; not while @lost */
	unsigned int refs; /* rails_lock */
	_Atomic bool lost; /* written under rails_lock, once; mesh_rail_lose() */
	uint64_t generation; /* of the process that opened it */
	char device[IBV_SYSFS_NAME_MAX];
	struct mesh_device *commands; /* of that device; NULL: there was no memory */
	struct mesh_device_job job; /* its end */
	/* keyahead.c, keys_lock: there is a thread for it; that has to look again */
	bool ahead_thread, ahead_news;
	/* The descriptors in both are -1 once they are not ours. */
	struct ibv_context *context; /* its async_fd does not block */
	struct ibv_comp_channel *channel; /* of all completion queues there; does not block */
	struct mesh_file {
		int fd, mark;
		uint64_t dev, ino;
	} files[MESH_RAIL_FILES]; /* constant; whose they are, mesh_rail_intact() says */
	_Atomic bool taken; /* they are not ours any more; written once */
	_Atomic bool fatal; /* the device said so: the helper thread has to lose it; written once */
	_Atomic uint32_t ports_down; /* bit by port: mesh_port_event() */
	/* What a port was like a moment ago; gid_lock; connpath.c. */
	uint64_t asked_ns;
	uint8_t asked_port, active_mtu;
	uint16_t lid;
	struct mesh_rail_gid {
		uint64_t asked_ns; /* 0: of no use */
		union ibv_gid gid;
		uint8_t port, type, index;
		bool twins; /* several netdevs have it: which one is right depends on the destination */
	} known_gid; /* gid_lock; what was found last, mesh_rail_recall_gid() */
	struct mesh_rail_pkey {
		uint64_t asked_ns; /* 0: of no use */
		const struct ibv_context *own;
		uint8_t own_port, port;
		uint16_t own_index, index;
	} known_pkey; /* gid_lock; what was found last, mesh_rail_find_pkey() */
	MESH_LOCK(GID) gid_lock; /* held over a query of the GID table, or of P_Keys; paths_lock is tried with it */
	MESH_LOCK(SRQ_TABLE) srq_table_lock; /* as in struct mesh_data */
};

/**
 * mesh_rail_get - a NIC of this host, opened if it is not open yet
 * @device: its name; may be one that the program has open, too
 * @why: on failure, a sentence for the operator
 *
 * Takes milliseconds when it has to open; waits for another thread that is opening one.
 *
 * Return: the rail, to be given back with mesh_rail_put(); NULL.
 */
struct mesh_rail *mesh_rail_get(const char *device, char *why, size_t why_size);

/** mesh_rail_ref - one more user of a rail that the caller holds */
struct mesh_rail *mesh_rail_ref(struct mesh_rail *rail);

/**
 * mesh_rail_put - give a rail back; closed with its last user
 *
 * All objects made on it by this user must be gone, or about to go by mesh_device_do(). NULL is fine; in a fork's child nothing happens.
 */
void mesh_rail_put(struct mesh_rail *rail);

/**
 * mesh_rail_lose - its device was reset, unplugged or given another driver: nothing can be done with this context any more
 *
 * mesh_rail_get() opens the device anew, which may have come back under the same name, and mesh_pd_get() makes a PD there. What was made
 * on this one goes when its users drop it, as ever, and the context with the last of them. Once more is fine. The caller has a reference.
 * Helper thread, without locks.
 */
void mesh_rail_lose(struct mesh_rail *rail);

/** mesh_rail_lost - has it been lost? May be so a moment later; then the verbs say EIO. Any thread, any lock */
static inline bool mesh_rail_lost(const struct mesh_rail *rail)
{
	return atomic_load_explicit(&rail->lost, memory_order_acquire);
}

/**
 * mesh_rail_intact - are its descriptors still those that it was opened with?
 *
 * A program may close descriptors that are not its own, closefrom(3) or dup2(2) over one; then their numbers are nobody's, or those of
 * its own files: what is read there is its data, and a command acts on a device that it has opened. So ask before each command that frees
 * something, and before reading. Where the answer is no, the numbers are struck off context and channel, and all that is tried with them
 * from then on fails with EBADF, also where nobody asked. What happens between the answer and the system call cannot be helped.
 *
 * Six short system calls: not for every work request. Any thread, any lock; errno stays. Return: false once, false for ever.
 */
bool mesh_rail_intact(struct mesh_rail *rail);

/**
 * mesh_rail_channel_intact - mesh_rail_intact() for the completion channel alone: before events are read
 *
 * One system call where the kernel keeps marks of files, see mark_files(). Where the answer is no, mesh_rail_intact() has been asked.
 */
bool mesh_rail_channel_intact(struct mesh_rail *rail);

/** mesh_rail_taken - has anybody found that they are not? Any thread, any lock */
static inline bool mesh_rail_taken(const struct mesh_rail *rail)
{
	return atomic_load_explicit(&rail->taken, memory_order_acquire);
}

/** mesh_rail_create_srq - ibv_create_srq(), by one thread at a time: see srq_table_lock. Any thread. */
struct ibv_srq *mesh_rail_create_srq(struct mesh_rail *rail, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);

/** mesh_rail_destroy_srq - the other end of mesh_rail_create_srq(). Return: as ibv_destroy_srq(); EBADF: not mesh_rail_intact() */
int mesh_rail_destroy_srq(struct mesh_rail *rail, struct ibv_srq *srq);

/** mesh_rail_current - was it opened by this process? */
static inline bool mesh_rail_current(const struct mesh_rail *rail)
{
	return rail->generation == atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed);
}

/** mesh_rail_opening - is the calling thread opening a rail? Then its context gets no overlay. */
bool mesh_rail_opening(const struct mesh_root *root);

/**
 * mesh_rail_find_gid - under which index does a rail have an address now?
 * @type: enum mv_gid_type
 * @dgid: where it is to reach, if several netdevs have it
 *
 * One system call. Return: 0; -ENOENT; -ENOMEM; the query's error.
 */
int mesh_rail_find_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type,
		       const union ibv_gid *dgid, uint8_t *ret_index);

/**
 * mesh_rail_recall_gid - the same, as it was a few milliseconds ago at most
 *
 * Hundreds that move at once have one address, and ask for it once. Whoever uses an index may find another address there afterwards, whenever
 * he asked; a change that the device has told of (mesh_rail_forget_gid()) is not missed.
 */
int mesh_rail_recall_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type,
			 const union ibv_gid *dgid, uint8_t *ret_index);
/** mesh_rail_forget_gid - its table has changed */
void mesh_rail_forget_gid(struct mesh_rail *rail);

/**
 * mesh_rail_find_pkey - InfiniBand: under which index has a port the P_Key that the program's port has at @own_index?
 * @own: the program's device
 *
 * The same partition with the same membership: limited members cannot talk to each other. Reads files of /sys, or recalls
 * what they said a few milliseconds ago.
 *
 * Return: 0; -ENOENT: it has not, or one of the two tables cannot be read.
 */
int mesh_rail_find_pkey(struct mesh_rail *rail, uint8_t port, struct ibv_context *own, uint8_t own_port, uint16_t own_index,
			uint16_t *ret_index);

/**
 * mesh_keys_lock - lock root.keys, emptied if it is that of a fork's parent
 *
 * Return: to be given to mesh_keys_unlock(): the thread cannot be cancelled meanwhile.
 */
MV_ACQUIRES(&mesh_root.process->keys_lock) static inline int mesh_keys_lock(void)
{
	int cancel = mesh_cancel_off();
	uint64_t generation;

	mesh_lock(&mesh_root.process->keys_lock);
	generation = atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed);
	if (mesh_root.keys.generation != generation)
		mesh_root.keys = (struct mesh_keys){.generation = generation};
	return cancel;
}

MV_RELEASES(&mesh_root.process->keys_lock) static inline void mesh_keys_unlock(int cancel)
{
	mesh_unlock(&mesh_root.process->keys_lock);
	mesh_cancel_restore(cancel);
}

/* A protection domain of the program, on a rail. */
struct mesh_pd {
	struct mesh_device_job job; /* its end */
	struct mesh_pd *next; /* keys_lock */
	unsigned int refs; /* keys_lock; one of them is the program's PD being there */
	struct ibv_pd *program; /* never a parent domain; may be gone: compare, do not follow */
	struct ibv_context *verbs; /* the program's */
	struct mesh_rail *rail;
	struct ibv_pd *pd; /* on the rail */
	/* An MR whose keys fail every access: one byte, no rights, at an address that no memory has. */
	struct ibv_mr *dummy;
	void *dummy_page;
	LIST_HEAD(, mesh_shadow_mr) shadows; /* keys_lock; keys.c */
	bool ahead; /* keys_lock; regions of the program are registered here before they are used; keyahead.c */
	uint64_t looked; /* keys_lock; those that had been noted by then have been looked at for that: mesh_keytab_look() */
};

/**
 * mesh_pd_get - the counterpart of a program's PD on a rail, made if there is none yet
 * @program: may be a parent domain; alive
 *
 * It stays for the next user until the program deallocates its PD. It holds the rail.
 *
 * Return: to be given back with mesh_pd_put(); NULL.
 */
struct mesh_pd *mesh_pd_get(struct mesh_context *mc, struct ibv_pd *program, struct mesh_rail *rail, char *why,
			    size_t why_size);

/** mesh_pd_ref - one more user of one that the caller uses */
struct mesh_pd *mesh_pd_ref(struct mesh_pd *spd);

/** mesh_pd_put - give it back; all objects made in it by this user must be gone, or about to go by mesh_device_do(). NULL is fine. */
void mesh_pd_put(struct mesh_pd *spd);

/**
 * mesh_pd_underlying - the PD that a parent domain stands for
 *
 * Return: itself when it is no parent domain.
 */
struct ibv_pd *mesh_pd_underlying(struct ibv_pd *pd);

/**
 * mesh_rail_async_events - read and log asynchronous events of a rail; any thread that has asked mesh_rail_intact()
 *
 * Return: false: the device is gone. The helper thread calls mesh_rail_lose(); where another thread read that, check_rails()
 * of thread.c finds it.
 */
bool mesh_rail_async_events(struct mesh_rail *rail);
/* What the rooms above do for these; callbacks.c writes them before anything else of the plugin runs. */
struct mesh_rail_clients {
	void (*lost)(const struct mesh_rail *rail); /* nobody gets a PD there any more; without locks */
	void (*port_down)(void); /* of some port; any thread */
	void (*last_wqe)(const struct ibv_qp *qp); /* IBV_EVENT_QP_LAST_WQE_REACHED, not acknowledged yet */
};
extern struct mesh_rail_clients mesh_rail_clients;

/** mesh_thread_rail - read the events of that rail from now on, for as long as it is not lost; helper thread only */
void mesh_thread_rail(struct mesh_rail *rail);
/** mesh_pds_lose - a rail is lost: nobody gets a PD there any more; without locks */
void mesh_pds_lose(const struct mesh_rail *rail);

/** mesh_pds_close - a context is being closed: forget its PDs. After mesh_keys_close(). */
void mesh_pds_close(struct ibv_context *verbs);

/* Verbs entry points (pds.c); contracts are those of libibverbs. */
struct ibv_pd *mesh_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
int mesh_dealloc_pd(struct ibv_pd *pd);

#endif
