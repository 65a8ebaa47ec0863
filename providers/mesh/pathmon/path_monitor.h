/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PATH_MONITOR_H
#define MESH_PATH_MONITOR_H

#include "mesh.h"
#include "ctl.h"
#include "pathfind.h"

/*
 * Paths that this process has its agent watch, and the results of the agent's probes (ctl.h: WATCH, PATH). One entry per path,
 * shared by all connections. All functions take process->monitor.lock, and may be called from any thread unless noted
 * otherwise. An agent that does not probe is asked for nothing. Times are mesh_now_ns().
 */
struct mesh_path_watch;

#define MESH_ALTERNATES 4 /* other paths that the agent compares with a path in use */
/*
 * Longest time from the agent's suspicion to its verdict: the agent warns only if the rest takes 100 ms at most; by default 15
 * ms.
 */
#define MESH_SUSPECT_NS 200000000ull

/** mesh_path_monitor_on - does the agent probe? Keeps its value until another agent says otherwise. */
bool mesh_path_monitor_on(void);

/**
 * mesh_path_monitor_use - replace a watched path by another
 * @place: in: the current path; NULL: none; out: the new path; NULL: no memory, or @local is NULL
 * @watch: one of enum mv_watch, the same for all calls with a place
 */
void mesh_path_monitor_use(struct mesh_path_watch **place, enum mv_watch watch, const union ibv_gid *local,
			   const union ibv_gid *remote);

/** mesh_path_monitor_state - result of the probes of a path; @path_watch NULL: MV_PROBED_UNKNOWN */
enum mv_probed mesh_path_monitor_state(const struct mesh_path_watch *path_watch);
/** mesh_path_monitor_find - the same for a path by its GIDs */
enum mv_probed mesh_path_monitor_find(const union ibv_gid *local, const union ibv_gid *remote);
/**
 * mesh_path_monitor_suspect - does the agent suspect that a path is dead, with its verdict due soon?
 *
 * Return: since when, ns; 0: no, or for longer than MESH_SUSPECT_NS.
 */
uint64_t mesh_path_monitor_suspect(const struct mesh_path_watch *path_watch, uint64_t now_ns);

/**
 * mesh_path_monitor_wants_alternates - are paths to compare with missing for this @generation of the directory? True
 * once per generation.
 */
bool mesh_path_monitor_wants_alternates(struct mesh_path_watch *path_watch, uint64_t generation);
/** mesh_path_monitor_alternates - set the paths to compare with: the first MESH_ALTERNATES of @n */
void mesh_path_monitor_alternates(struct mesh_path_watch *path_watch, const struct mv_path *paths, size_t n);

/* For the helper thread alone. */

/** mesh_path_monitor_lost - the agent is gone: all results are unknown */
void mesh_path_monitor_lost(void);
/** mesh_path_monitor_agent - a new agent has said WELCOME (@probes false), or PROBES (true) */
void mesh_path_monitor_agent(bool probes);
/**
 * mesh_path_monitor_changed - there is a new directory: watch paths again for which the agent had no result
 *
 * Only paths with both ends in the directory. Immediately the first time, then at intervals of 1 s, 2 s, 4 s, up to 64 s, because
 * the agent may have reached its limit of paths.
 */
void mesh_path_monitor_changed(void);
enum mesh_path_monitor_change {
	MESH_MONITOR_NOTHING, /* no change */
	MESH_MONITOR_CHANGED,
	MESH_MONITOR_URGENT, /* a verdict on a suspected path */
};

/** mesh_path_monitor_told - process a frame PATH or SUSPECT */
enum mesh_path_monitor_change mesh_path_monitor_told(const struct mv_frame *frame, uint64_t now_ns);
/** mesh_path_monitor_run - send changed watches to the agent. Return: when to come again; UINT64_MAX: when woken. */
uint64_t mesh_path_monitor_run(uint64_t now_ns);

#endif
