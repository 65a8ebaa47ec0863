/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PROBED_H
#define MESH_PROBED_H

#include "mesh.h"
#include "ctl.h"
#include "pathfind.h"

/*
 * Paths that this process has its agent watch, and the results of the agent's probes (ctl.h: WATCH, PATH). One entry per path,
 * shared by all connections. All functions take process->probed.lock, and may be called from any thread unless noted otherwise.
 * An agent that does not probe is asked for nothing. Times are mesh_now_ns().
 */
struct mesh_probed;

#define MESH_ALTERNATES 4 /* other paths that the agent compares with a path in use */
/*
 * Longest time from the agent's suspicion to its verdict: the agent warns only if the rest takes 100 ms at most; by default 15
 * ms.
 */
#define MESH_SUSPECT_NS 200000000ull

/** mesh_probed_on - does the agent probe? Keeps its value until another agent says otherwise. */
bool mesh_probed_on(void);

/**
 * mesh_probed_use - replace a watched path by another
 * @place: in: the current path; NULL: none; out: the new path; NULL: no memory, or @local is NULL
 * @watch: one of enum mv_watch, the same for all calls with a place
 */
void mesh_probed_use(struct mesh_probed **place, enum mv_watch watch, const union ibv_gid *local,
		     const union ibv_gid *remote);

/** mesh_probed_of - result of the probes of a path; @probed NULL: MV_PROBED_UNKNOWN */
enum mv_probed mesh_probed_of(const struct mesh_probed *probed);
/** mesh_probed_find - the same for a path by its GIDs */
enum mv_probed mesh_probed_find(const union ibv_gid *local, const union ibv_gid *remote);
/**
 * mesh_probed_suspect - does the agent suspect that a path is dead, with its verdict due soon?
 *
 * Return: since when, ns; 0: no, or for longer than MESH_SUSPECT_NS.
 */
uint64_t mesh_probed_suspect(const struct mesh_probed *probed, uint64_t now_ns);

/**
 * mesh_probed_wants_alternates - are paths to compare with missing for this @generation of the directory? True once per
 * generation.
 */
bool mesh_probed_wants_alternates(struct mesh_probed *probed, uint64_t generation);
/** mesh_probed_alternates - set the paths to compare with: the first MESH_ALTERNATES of @n */
void mesh_probed_alternates(struct mesh_probed *probed, const struct mv_path *paths, size_t n);

/* For the helper thread alone. */

/** mesh_probed_lost - the agent is gone: all results are unknown */
void mesh_probed_lost(void);
/** mesh_probed_agent - a new agent has said WELCOME (@probes false), or PROBES (true) */
void mesh_probed_agent(bool probes);
/**
 * mesh_probed_changed - there is a new directory: watch paths again for which the agent had no result
 *
 * Only paths with both ends in the directory. Immediately the first time, then at intervals of 1 s, 2 s, 4 s, up to 64 s, because
 * the agent may have reached its limit of paths.
 */
void mesh_probed_changed(void);
enum mesh_probed_news {
	MESH_PROBED_NOTHING, /* no change */
	MESH_PROBED_NEWS,
	MESH_PROBED_URGENT, /* a verdict on a suspected path */
};

/** mesh_probed_told - process a frame PATH or SUSPECT */
enum mesh_probed_news mesh_probed_told(const struct mv_frame *frame, uint64_t now_ns);
/** mesh_probed_run - send changed watches to the agent. Return: when to come again; UINT64_MAX: when woken. */
uint64_t mesh_probed_run(uint64_t now_ns);

#endif
