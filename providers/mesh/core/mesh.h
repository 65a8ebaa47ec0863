/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_MESH_H
#define MESH_MESH_H

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
 * The plugin's rooms share one root. It is filled once, by the constructor, before any hook exists;
 * from then on its members are constant except where noted.
 */

#define MESH_MAX_BASES 8

/* A provider we are stacked over. */
struct mesh_base {
	const char *name; /* libibverbs' driver name, in the provider's memory */
	struct mesh_driver_ops *ops;
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *private_data);
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
};

#define MESH_RAIL_OPENERS 16
#define MESH_READ_RAILS	  32

/* What the process counts; count.h. */
struct mesh_counts {
	uint64_t values[MV_N_COUNTS];
	uint64_t told[MV_N_COUNTS]; /* of these, what earlier agents have seen */
	struct mv_counts_page *page; /* that the agent sees; NULL: none is connected */
};

/* The helper thread and those that stand in for it, workers, those that register ahead, those of devices. */
#define MESH_MAX_THREADS 96

/*
 * State that a fork must not carry over: it lies in a page the kernel clears in the child
 * (MADV_WIPEONFORK), so a child finds unlocked mutexes (all zero is PTHREAD_MUTEX_INITIALIZER) and
 * generation 0, to which no context belongs.
 */
struct mesh_process {
	MESH_LOCK(HOOK) hook_lock; /* guards hooking and calibration; taken before any lock of libibverbs' */
	_Atomic uint64_t generation; /* of this process; 0: no context opened in it yet */
	MESH_LOCK(PATHS) paths_lock; /* guards root.paths and the tables of every struct mesh_context; only counts_lock is taken with it */
	uint64_t last_paths; /* numbers of those given out; under paths_lock */
	_Atomic uint64_t paths_watched; /* of those of which the helper thread sees every change; 0: of none; paths.c */
	MESH_LOCK(VIEW) view_lock; /* guards view */
	struct mesh_view_state *view; /* peerview.c */
	MESH_LOCK(STRANGERS) strangers_lock; /* guards strangers; innermost */
	struct mesh_strangers *strangers; /* NULL before the first one; lookup.c */
	MESH_LOCK(PROBED) probed_lock; /* guards probed; taken before the thread's link_lock and view_lock only */
	struct mesh_probeds *probed; /* NULL before the first one; probed.c */
	MESH_LOCK(CONNS) conns_lock; /* guards conns; conn.c */
	struct mesh_conns *_Atomic conns; /* NULL before the first one */
	_Atomic uint64_t last_attempt; /* connect.c */
	_Atomic bool survives, unqualified_said; /* survives.c */
	MESH_LOCK(COUNTS) counts_lock; /* guards counts; innermost */
	struct mesh_counts counts;
	_Atomic pid_t threads[MESH_MAX_THREADS]; /* those of ours; 0: none; ourthreads.c */
	struct mesh_helper *_Atomic thread; /* set once, under conns_lock; thread.c */
	_Atomic uint32_t turns; /* that the helper thread has begun; starved.h */
	_Atomic unsigned int n_drops; /* KEY_DROPs that have not been answered, of all connections; set under drops_lock; remotekeys.c */
	MESH_LOCK(DROPS) drops_lock; /* guards drops; innermost, taken with a connection's key_lock */
	struct mesh_drops *drops; /* those by their keys; NULL before the first one */
	_Atomic unsigned int n_moving; /* connections that are at work and moving; turns.c has these five */
	_Atomic unsigned int n_fresh; /* those of them that have not been for long */
	_Atomic unsigned int n_prepared; /* and those that prepare to, on a suspicion */
	_Atomic unsigned int n_called; /* whose turn it is to move, and which have not been looked at since */
	_Atomic unsigned int n_more_moving; /* so many more than the least may move at once */
	_Atomic uint64_t moving_ns; /* when one was last */
	_Atomic uint64_t standby_at_ns; /* no queue pair is connected ahead before; prearm.c */
	_Atomic uint64_t turn_ns; /* the last that was given to one that wants a queue pair made ahead; the helper thread's, prearm.c */
	_Atomic uint64_t renew_at_ns, renew_step_ns; /* what was ahead on a lost rail is not made anew before; the helper thread's, prearm.c */
	struct mesh_workers *_Atomic workers; /* worker.c */
	MESH_LOCK(UD) ud_lock; /* guards root.ud; see ud.h for its order */
	MESH_LOCK(SRQS) srqs_lock; /* guards hungry; taken with any lock of an SRQ's, takes none */
	struct mesh_srq *hungry; /* SRQs that want to be dealt out anew; srq.c */

	/* Guards root.rails, and what rails.h says of them. Taken after a device's open_lock; no device is opened with it. */
	MESH_LOCK(RAILS) rails_lock;
	MESH_LOCK(OPEN) open_lock; /* while a rail lists and opens devices, before any lock of libibverbs'; and by fork(); fork.h */
	/* Those whose events the helper thread reads: any thread adds, the helper thread takes out. */
	MESH_LOCK(READ_RAILS) read_rails_lock; /* taken before rails_lock */
	struct mesh_rail *read_rails[MESH_READ_RAILS];
	_Atomic size_t n_read_rails; /* read without the lock by the helper thread: a rail is written before it is counted */
	_Atomic unsigned long rail_openers[MESH_RAIL_OPENERS]; /* pthread_t of the threads that open a rail now; 0: none */
	MESH_LOCK(DEVICES) devices_lock; /* guards devices; innermost */
	struct mesh_device *devices; /* grows at its front; devices.c */
	/* Guards root.keys. Innermost: no other lock is taken, no verbs function called with it. */
	MESH_LOCK(KEYS) keys_lock;
	pthread_cond_t keys_cond; /* some struct mesh_key is not busy any more */
	_Atomic uint64_t keys_epoch; /* mesh_keys_epoch() */
	_Atomic unsigned int n_stays; /* of root.keys.stays; written under keys_lock */
	const char *_Atomic all_stay; /* NULL: there was memory for each of them; pdstay.c */
	MESH_LOCK(DMABUFS) dmabufs_lock; /* root.dmabufs; also held by fork(); no lock is taken with it; fork.h */
	MESH_LOCK(AHEAD) ahead_lock; /* by who looks for regions that are missing on a rail; taken before keys_lock; keyahead.c */
	bool ahead_off; /* nothing more is registered ahead; keyahead.c, under keys_lock */
};

#define MESH_UD_SILENT 16

/* Of whom the kernel has found out lately that they do not answer; udsilent.c. */
struct mesh_ud_silent {
	const void *from;
	union ibv_gid gid;
	uint64_t until_ns;
};

/* Datagrams to other rails; udint.h. */
struct mesh_ud {
	uint64_t generation; /* of the process whose they are */
	struct mesh_ud_qp *qps;
	struct mesh_ud_rail *rails;
	unsigned int n_peers;
	uint32_t last_request;
	struct mesh_ud_silent silent[MESH_UD_SILENT];
	unsigned int n_silent; /* ever; the oldest one is overwritten */
	uint64_t asked_until_ns; /* udhost.c: how far the time spent on other hosts' questions is paid back */
};

/* Descriptors that are kept, and places for more; dmabuf.c. Survives forks, without descriptors. */
struct mesh_dmabufs {
	struct mesh_dmabuf *_Atomic all; /* grows under dmabufs_lock, read without */
	struct mesh_dmabuf *_Atomic free; /* taken off under dmabufs_lock, put there perhaps without */
	_Atomic unsigned int n; /* that are kept */
};

/* What is known of the program's PDs and memory regions. */
struct mesh_keys {
	uint64_t generation; /* of the process whose they are */
	struct mesh_pd *pds; /* pds.c */
	struct mesh_parent *parents; /* pds.c */
	struct mesh_keytab *keytab; /* keys.c */
	struct mesh_pd_stay *stays; /* pdstay.c */
};

enum mesh_calibration_state { MESH_CALIBRATION_NONE, MESH_CALIBRATION_OK, MESH_CALIBRATION_REFUSED };

struct mesh_root {
	struct mv_config config;
	struct mv_move_times move_times;
	unsigned int undetected; /* mask of enum mesh_detect: what does not count */
	struct mv_log log;
	char config_file[256];
	char run_dir[96]; /* of the agent; fits a socket's address */
	char report_file[64]; /* "": nobody asked; see report.c */

	struct mesh_library lib;
	struct mesh_driver_node *drivers; /* head of libibverbs' list; NULL until found; under hook_lock */

	struct mesh_cpus start_cpus; /* of the process when the plugin was loaded; constant; ourthreads.c */
	struct mesh_process *process; /* constant; what it points to is wiped by fork() */
	uint64_t last_generation; /* highest one ever given out; survives forks; under hook_lock */

	struct mesh_paths *paths; /* NULL before the first decision; under paths_lock; paths.c */

	/* Filled under hook_lock; an entry is constant once it can be reached through its hook. */
	unsigned int n_bases;
	struct mesh_base bases[MESH_MAX_BASES];
	bool base_settled[MV_CONFIG_LIST_MAX]; /* config.base.names[i] was hooked or refused; hook_lock */
	_Atomic int calibration_state; /* enum mesh_calibration_state */
	struct mesh_calibration calibration; /* constant once the state is OK */
	bool calibration_confirmed; /* by a rail's context; hook_lock */

	struct mesh_rail *rails; /* rails_lock; of one generation; rails.c */
	struct mesh_ud ud; /* ud_lock; reached through mesh_ud_lock() only */
	struct mesh_keys keys; /* keys_lock; reached through mesh_keys_lock() only */

	struct mesh_dmabufs dmabufs;
	/* pthread_t of the threads that fork and have open_lock or dmabufs_lock; 0: none. Not wiped; fork.c */
	_Atomic unsigned long open_forker, dmabufs_forker;
	_Atomic bool fork_in_vain; /* somebody waited for one of them until his time was up: others do not wait in this fork; fork.c */

	_Atomic bool moves; /* connections of this process may be moved: note down what that takes */
	/* A remote key may have been given away and is not valid any more; see keys.h. Constant. */
	void (*key_dropped)(struct ibv_pd *pd, uint32_t rkey);
	/*
	 * The program is about to get a remote key; returns when nobody uses what it was before, or after some time. Called by the
	 * program's thread, without locks; may be a cancellation point, and changes errno. Constant.
	 */
	void (*key_given)(struct ibv_pd *pd, uint32_t rkey);
};

/* The one process-wide object; filled by entry.c. */
extern struct mesh_root mesh_root;

/* entry.c */
void mesh_load(struct mesh_root *root, const struct mesh_library *lib);

/* report.c */

enum mesh_stage_state { MESH_STAGE_OK, MESH_STAGE_OFF, MESH_STAGE_FAILED, MESH_STAGE_REFUSED };

/**
 * mesh_stage - tell how a step of stacking went
 * @name: "config", "libibverbs", "driver-list", "calibration", "base:NAME", "context:DEVICE", ...
 *
 * What failed or was refused goes to the operator's log, once; every line goes to the file named by
 * MESHVERBS_REPORT, which is how `meshverbs status` knows. Preserves errno.
 */
void mesh_stage(struct mesh_root *root, const char *name, enum mesh_stage_state state, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/**
 * mesh_report_init - look whether somebody wants stage lines
 */
void mesh_report_init(struct mesh_root *root);

/* hook.c */

/**
 * mesh_hook_bases - hook every configured base that is registered and not hooked yet
 *
 * Called when the plugin is loaded and again whenever libibverbs asks us to match a device, because a base
 * may be registered later than we are. The caller holds hook_lock.
 */
void mesh_hook_bases(struct mesh_root *root);

/**
 * mesh_calibrated - measure libibverbs if that was not done yet
 *
 * Return: true when the overlay may be used. Any thread.
 */
bool mesh_calibrated(struct mesh_root *root);

static inline int mesh_positive(int err)
{
	return err < 0 ? -err : err;
}

static inline uint32_t mesh_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu; /* IBV_MTU_256 is 1 */
}

#endif
