/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MESH_H
#define MESH_MESH_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "abi.h"
#include "calibrate.h"
#include "cancel.h"
#include "clock.h"
#include "config.h"
#include "counts.h"
#include "cpus.h"
#include "library.h"
#include "log.h"
#include "move_times.h"
#include "ranks.h"

/*
 * The root that all rooms share. The constructor fills it once, before any hook exists. From then on its members are constant
 * unless noted otherwise.
 */

#define MESH_MAX_BASES 8

/* A lower provider. */
struct mesh_lower_provider {
	const char *name; /* libibverbs' driver name; memory of the provider */
	struct mesh_driver_ops *ops;
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *private_data);
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
};

#define MESH_RAIL_OPENERS 16
#define MESH_LOOKERS	  16 /* one more thread that reads a GID table at the same time is not marked */
#define MESH_READ_RAILS	  32

/* Counters of the process: count.h. @lock guards the rest. */
struct mesh_counts {
	MESH_LOCK(COUNTS) lock; /* innermost */
	uint64_t values[MV_N_COUNTS];
	uint64_t told[MV_N_COUNTS]; /* part of these that earlier agents have seen */
	struct mv_counts_page *page; /* shared with the agent; NULL: not connected */
};

/* Helper thread and its stand-ins, workers, threads that register in advance, and threads of devices. */
#define MESH_MAX_THREADS 96

/*
 * State that fork() must not copy. It lies in a page that the kernel clears in the child (MADV_WIPEONFORK). So a child finds
 * unlocked mutexes (all zero is PTHREAD_MUTEX_INITIALIZER), and generation 0, which no context has.
 */
struct mesh_process {
	_Atomic uint64_t generation; /* of this process; 0: no context was opened in it yet; read by each call of the program */
	MESH_LOCK(HOOK) hook_lock; /* guards hooking and calibration; taken before any lock of libibverbs */
	/* GID tables, netdevs and routes: paths.c. @lock guards root.paths and the tables of each struct mesh_context, too. */
	struct mesh_process_paths {
		MESH_LOCK(PATHS) lock; /* only counts.lock is taken with it */
		uint64_t last; /* last struct mesh_paths.number */
		_Atomic uint64_t watched; /* number of the paths whose changes the helper thread watches; 0: none */
	} paths;
	/* The mapped directory: directory_client.c. @lock guards the rest. */
	struct mesh_process_view {
		MESH_LOCK(VIEW) lock;
		struct mesh_directory_state *state;
		/* Read without @lock: */
		_Atomic uint64_t number; /* of the last mapped directory; 0: none was mapped yet */
		_Atomic bool has_absent; /* mesh_directory_note_absent() was called; never cleared */
	} directory;
	/* Addresses of unknown hosts that were asked for: lookup.c. @lock guards the rest. */
	struct mesh_process_strangers {
		MESH_LOCK(STRANGERS) lock; /* innermost */
		struct mesh_strangers *all; /* NULL: none yet */
	} strangers;
	/* Paths that the agent watches: path_monitor.c. @lock guards the rest. */
	struct mesh_process_monitor {
		MESH_LOCK(MONITOR) lock; /* taken before link_lock and directory.lock only */
		struct mesh_path_monitor *all; /* NULL: none yet */
	} monitor;
	/* Connections: conn.c, connect.c. @lock guards the table. */
	struct mesh_process_conns {
		MESH_LOCK(CONNS) lock;
		struct mesh_conns *_Atomic table; /* NULL: none yet */
		_Atomic uint64_t last_attempt;
		_Atomic bool followed; /* a self-connected QP has followed others; set by mesh_conn_follows(), never cleared */
	} conns;
	_Atomic bool survives, unqualified_said; /* survives.c */
	struct mesh_counts counts;
	_Atomic pid_t threads[MESH_MAX_THREADS]; /* ids of the plugin's threads; 0: none; ourthreads.c */
	struct mesh_helper *_Atomic thread; /* written once, under conns.lock; thread.c */
	_Atomic uint32_t turns; /* turns of the helper thread; stalled.h */
	/* Unanswered KEY_DROPs of all connections: rkey_drops.c, rkey_exchange.c. Written under @lock. */
	struct mesh_process_drops {
		_Atomic unsigned int n;
		MESH_LOCK(DROPS) lock; /* innermost; taken with conn->keys.lock */
		struct mesh_drops *all; /* by key; NULL: none yet */
	} drops;
	/* Connections that move at work, and the limit of their number: move_limiter.c. Atomic, without a lock. */
	struct mesh_process_moves {
		_Atomic unsigned int n_moving; /* connections that move at work */
		_Atomic unsigned int n_fresh; /* those that have not moved for long */
		_Atomic unsigned int n_prepared; /* connections that prepare on suspicion */
		_Atomic unsigned int n_called; /* connections that may move now, and were not looked at since */
		_Atomic unsigned int n_more; /* learned limit of moves, above the minimum */
		_Atomic uint64_t last_ns; /* last time when one moved */
	} moves;
	/* When standbys are made and connected: arm.c. Atomic; all but @at_ns belong to the helper thread. */
	struct mesh_process_standby {
		_Atomic uint64_t at_ns; /* do not connect standbys before */
		_Atomic uint64_t turn_ns; /* last turn given for a standby */
		_Atomic uint64_t renew_at_ns, renew_step_ns; /* earliest new standby after a lost rail, and the interval */
	} standby;
	struct mesh_workers *_Atomic workers; /* worker.c */
	MESH_LOCK(UD) ud_lock; /* guards root.ud; for its order see ud.h */
	/* SRQs to redistribute: srq_rebalance.c. @lock guards the rest. */
	struct mesh_process_srqs {
		MESH_LOCK(SRQS) lock; /* taken with any lock of an SRQ; innermost */
		struct mesh_srq *starved;
	} srqs;

	/* Guards root.rails, and what rails.h says. Taken after a device's open_lock; not held while a device is opened. */
	MESH_LOCK(RAILS) rails_lock;
	MESH_LOCK(OPEN) open_lock; /* held while a rail lists and opens devices, before any lock of libibverbs, and by fork(); fork.h */
	_Atomic unsigned long rail_openers[MESH_RAIL_OPENERS]; /* pthread_t of threads that are opening a rail; 0: none */
	_Atomic unsigned long lookers[MESH_LOOKERS]; /* pthread_t of threads in mesh_looking_begin(); 0: none */
	/* Rails whose events the helper thread reads: readrails.c, railevents.c. Any thread adds, that thread removes; @lock. */
	struct mesh_process_read_rails {
		MESH_LOCK(READ_RAILS) lock; /* taken before rails_lock */
		struct mesh_rail *rails[MESH_READ_RAILS];
		_Atomic size_t n; /* read without the lock by the helper thread: a rail is stored before it is counted */
	} read_rails;
	/* Devices: devices.c. @lock guards the rest. */
	struct mesh_process_devices {
		MESH_LOCK(DEVICES) lock; /* innermost */
		struct mesh_device *all; /* only grows at its front */
	} devices;
	/* Room mr. @lock guards root.keys and the rest. No other lock is taken, and no verbs function called, with it. */
	struct mesh_process_keys {
		MESH_LOCK(KEYS) lock;
		pthread_cond_t cond; /* a registration on a rail has ended */
		_Atomic uint64_t epoch; /* mesh_keys_epoch(); read by posts */
		_Atomic unsigned int n_stays; /* length of root.keys.stays; written under @lock; pdstay.c, as the next */
		const char *_Atomic all_stay; /* reason for all PDs, after there was no memory for an entry; NULL: none */
		/* held by a walk for regions that are missing on a rail; taken before @lock */
		MESH_LOCK(PREREG) prereg_lock;
		bool prereg_off; /* register nothing in advance any more; mr_prereg.c */
	} keys;
	MESH_LOCK(DMABUFS) dmabufs_lock; /* root.dmabufs; also held by fork(); innermost; fork.h */
};

#define MESH_UD_SILENT 16

/* A neighbour that recently did not answer the kernel; udsilent.c. */
struct mesh_ud_silent {
	const void *from;
	union ibv_gid gid;
	uint64_t until_ns;
};

/* Datagrams to other rails; udint.h. */
struct mesh_ud {
	uint64_t generation; /* of the process that owns it */
	struct mesh_ud_qp *qps;
	struct mesh_ud_rail *rails;
	unsigned int n_peers;
	uint32_t last_request;
	struct mesh_ud_silent silent[MESH_UD_SILENT];
	unsigned int n_silent; /* ever; the oldest one is overwritten */
	/* udhost.c: how far the time is paid back that was spent on peers that only ask; on peers that the program has sent to */
	uint64_t asked_until_ns, spoken_until_ns;
};

/* Duplicated dma-buf descriptors, and free places; dmabuf.c. Copied by fork(); the child closes the descriptors. */
struct mesh_dmabufs {
	struct mesh_dmabuf *_Atomic all; /* grows under dmabufs_lock; read without */
	struct mesh_dmabuf *_Atomic free; /* popped under dmabufs_lock; pushed perhaps without */
	_Atomic unsigned int n; /* number of descriptors */
};

/* The program's PDs and memory regions. */
struct mesh_keys {
	uint64_t generation; /* of the process that owns it */
	struct mesh_pd *pds; /* pds.c */
	struct mesh_parent *parents; /* pds.c */
	struct mesh_mr_table *mr_table; /* keys.c */
	struct mesh_pd_stay *stays; /* pdstay.c */
};

enum mesh_calibration_state { MESH_CALIBRATION_NONE, MESH_CALIBRATION_OK, MESH_CALIBRATION_REFUSED };

struct mesh_root {
	struct mv_config config;
	struct mv_move_times move_times;
	unsigned int undetected; /* mask of enum mesh_detect that are off */
	struct mv_log log;
	char config_file[256];
	char run_dir[96]; /* of the agent; fits into a socket address */
	char report_file[64]; /* "": no report is wanted; see report.c */

	struct mesh_library lib;
	struct mesh_driver_node *drivers; /* head of libibverbs' list; NULL: not found yet; hook_lock */

	struct mesh_cpus start_cpus; /* CPUs of the process when the plugin was loaded; constant; ourthreads.c */
	struct mesh_process *process; /* constant; its target is cleared by fork() */
	uint64_t last_generation; /* highest generation so far; copied by fork(); hook_lock */

	struct mesh_paths *paths; /* NULL before the first decision; process->paths.lock; paths.c */

	/* Filled under hook_lock; an entry is constant once its hook is installed. */
	unsigned int n_lower;
	struct mesh_lower_provider lower_providers[MESH_MAX_BASES];
	bool lower_settled[MV_CONFIG_LIST_MAX]; /* config.base.names[i] was hooked or refused; hook_lock */
	_Atomic int calibration_state; /* enum mesh_calibration_state */
	struct mesh_calibration calibration; /* constant once the state is OK */
	bool calibration_confirmed; /* with the first context of a rail; hook_lock */

	struct mesh_rail *rails; /* rails_lock; of one generation; rails.c */
	struct mesh_ud ud; /* ud_lock; accessed through mesh_ud_lock() only */
	struct mesh_keys keys; /* process->keys.lock; accessed through mesh_keys_lock() only */

	struct mesh_dmabufs dmabufs;
	/* pthread_t of the thread that forks with open_lock, or dmabufs_lock, held; 0: none. Copied by fork(); fork.c */
	_Atomic unsigned long open_forker, dmabufs_forker;
	_Atomic bool fork_in_vain; /* a thread waited for one of them in vain: others do not wait in this fork; fork.c */

	_Atomic bool moves; /* connections of this process may move: record registrations */
	/* A remote key that a peer may know is not valid any more; see keys.h. Constant. */
	void (*key_dropped)(struct ibv_pd *pd, uint32_t rkey);
	/*
	 * The program is about to get a remote key: returns once no peer uses its earlier meaning, or after a timeout. Called on
	 * the program's thread, without locks. May be a cancellation point, and changes errno. Constant.
	 */
	void (*key_given)(struct ibv_pd *pd, uint32_t rkey);
};

/* The process-wide root; filled by entry.c. */
extern struct mesh_root mesh_root;

/* entry.c */
void mesh_load(struct mesh_root *root, const struct mesh_library *lib);

/* report.c */

enum mesh_stage_state { MESH_STAGE_OK, MESH_STAGE_OFF, MESH_STAGE_FAILED, MESH_STAGE_REFUSED };

/**
 * mesh_stage - report how a step of stacking went
 * @name: "config", "libibverbs", "driver-list", "calibration", "base:NAME", "context:DEVICE", ...
 *
 * Failures and refusals go to the log, once. Each line goes to the file named by MESHVERBS_REPORT, which `meshverbs status`
 * reads. Preserves errno.
 */
void mesh_stage(struct mesh_root *root, const char *name, enum mesh_stage_state state, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/** mesh_report_init - check whether a report is wanted (MESHVERBS_REPORT) */
void mesh_report_init(struct mesh_root *root);

/* hook.c */

/**
 * mesh_hook_providers - hook each configured lower provider that is registered and not hooked yet; hook_lock
 *
 * Called when the plugin is loaded, and each time libibverbs asks for a match, because a lower provider may be
 * registered later than the plugin.
 */
void mesh_hook_providers(struct mesh_root *root);

/**
 * mesh_calibrated - calibrate libibverbs, if not done yet
 *
 * Return: true: the overlay may be used. Any thread.
 */
bool mesh_calibrated(struct mesh_root *root);

/** mesh_failure - -errno of a call that has just failed. mlx5 sets no errno for each of its failures: then -EIO. */
static inline int mesh_failure(void)
{
	return errno ? -errno : -EIO;
}

static inline int mesh_positive(int err)
{
	return err < 0 ? -err : err;
}

static inline uint32_t mesh_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu; /* IBV_MTU_256 is 1 */
}

#endif
