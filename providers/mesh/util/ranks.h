/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_RANKS_H
#define MESH_RANKS_H

#include "locks.h"

/*
 * The locks of the plugin, in the order of docs/locking.md, which tells what each guards. A thread that holds one may wait only
 * for later ones. X(class, name, rule for two of that class); Y: innermost.
 */
#define MESH_LOCKS(X, Y)                                                                                               \
	X(UD, "process->ud_lock", ALONE)                                                                               \
	X(CONN, "conn->lock", ALONE)                                                                                   \
	X(POST, "vqp->posting.lock", ALONE)                                                                            \
	X(SRQ_JOIN, "srq->join_lock", ALONE)                                                                           \
	X(POLL, "cq->poll_lock", ALONE)                                                                                \
	X(CQE_LOCK, "cq->cqe_locked", ANY_TWO)                                                                         \
	X(CQ, "cq->lock", BY_ADDRESS)                                                                                  \
	X(SRQ, "srq->lock", ALONE)                                                                                     \
	X(DATA, "data->lock", ALONE)                                                                                   \
	X(VQP, "vqp->lock", ALONE)                                                                                     \
	X(DEVICE_OPEN, "device->open_lock", ALONE)                                                                     \
	X(READ_RAILS, "process->read_rails.lock", ALONE)                                                               \
	X(RAILS, "process->rails_lock", ALONE)                                                                         \
	X(OPEN, "process->open_lock", ALONE)                                                                           \
	X(HOOK, "process->hook_lock", ALONE)                                                                           \
	X(GID, "rail->gid_lock", ALONE)                                                                                \
	X(PATHS, "process->paths.lock", ALONE)                                                                         \
	X(CONNS, "process->conns.lock", ALONE)                                                                         \
	X(MONITOR, "process->monitor.lock", ALONE)                                                                     \
	X(KEY, "conn->keys.lock", ALONE)                                                                               \
	X(LINK, "helper->link_lock", ALONE)                                                                            \
	X(VIEW, "process->directory.lock", ALONE)                                                                      \
	X(PREREG, "process->keys.prereg_lock", ALONE)                                                                  \
	X(KEYS, "process->keys.lock", ALONE)                                                                           \
	Y(DROPS, "process->drops.lock")                                                                                \
	Y(SRQS, "process->srqs.lock")                                                                                  \
	Y(STRANGERS, "process->strangers.lock")                                                                        \
	Y(COUNTS, "process->counts.lock")                                                                              \
	Y(DEVICES, "process->devices.lock")                                                                            \
	Y(DEVICE, "device->lock")                                                                                      \
	Y(DMABUFS, "process->dmabufs_lock")                                                                            \
	Y(LAST_WQE, "last_wqe->lock")                                                                                  \
	Y(NOTIFY, "cq->notify.lock")                                                                                   \
	Y(SRQ_TABLE, "srq_table_lock")                                                                                 \
	Y(MADE, "data->made_lock")                                                                                     \
	Y(WORKERS, "workers->lock")                                                                                    \
	Y(HANDOFF, "thread->handoff_lock")                                                                             \
	Y(WAKER, "waker->lock")

#define MESH_LOCK_ENUM(class, ...) MESH_LOCK_##class,
enum mesh_lock_class {
	MESH_LOCK_NONE,
	MESH_LOCKS(MESH_LOCK_ENUM, MESH_LOCK_ENUM)
};
#undef MESH_LOCK_ENUM

/* Type of a lock, for example: MESH_LOCK(VQP) lock; */
#define MESH_LOCK(class) MV_LOCK(MESH_LOCK_##class)

#ifdef MESHVERBS_LOCK_RANKS
extern const struct mv_lock_class mesh_lock_classes[];
#define MESH_LOCK_CLASS(l) (&mesh_lock_classes[MV_LOCK_CLASS(l)])
#define MESH_CLASS(class)  (&mesh_lock_classes[MESH_LOCK_##class])
#else
#define MESH_CLASS(class)  NULL
#define MESH_LOCK_CLASS(l) NULL
#endif

#define mesh_lock_init(l) pthread_mutex_init(&(l)->mutex.pthread, NULL)
#define mesh_lock_fini(l) pthread_mutex_destroy(&(l)->mutex.pthread)
#define mesh_lock(l)	  mv_mutex_lock(&(l)->mutex, MESH_LOCK_CLASS(l), MV_LOCK_HERE)
#define mesh_unlock(l)	  mv_mutex_unlock(&(l)->mutex)
/* Return: true: taken. */
#define mesh_trylock(l)		  mv_mutex_trylock(&(l)->mutex, MESH_LOCK_CLASS(l), MV_LOCK_HERE)
#define mesh_lock_until(l, until) mv_mutex_lock_until(&(l)->mutex, MESH_LOCK_CLASS(l), MV_LOCK_HERE, until)
/* pthread_cond_wait(), pthread_cond_timedwait() */
#define mesh_cond_wait(cond, l)		   mv_mutex_wait(cond, &(l)->mutex, MESH_LOCK_CLASS(l), MV_LOCK_HERE, NULL)
#define mesh_cond_wait_until(cond, l, until) mv_mutex_wait(cond, &(l)->mutex, MESH_LOCK_CLASS(l), MV_LOCK_HERE, until)
/* The thread returns to the program with the lock held, and may then take any lock. */
#define mesh_lock_lend(l) mv_lock_given(&(l)->mutex)

#endif
