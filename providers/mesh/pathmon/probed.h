/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PROBED_H
#define MESH_PROBED_H

#include "mesh.h"
#include "ctl.h"
#include "pathfind.h"

/*
 * Paths that this process has its agent watch, and what the agent's probes say of them (ctl.h: WATCH, PATH). One entry for a path,
 * however many connections use it. Everything here takes process->probed_lock for itself and may be called from any thread, but
 * for what says otherwise. An agent that does not probe is asked for nothing.
 */
struct mesh_probed;

#define MESH_SPARES 4 /* other paths that are compared with one that queue pairs work on */
/* How long the agent may think about a path of which it has warned: it does so when the rest takes 100 ms at most; by default, 15 ms. */
#define MESH_SUSPECT_NS 200000000ull

/** mesh_probed_on - does the agent probe? Stays what it was until another agent has said something else. */
bool mesh_probed_on(void);

/**
 * mesh_probed_use - have another path watched in the place of one
 * @place: what it was, NULL: nothing; what it is afterwards: NULL without memory, or when @local is NULL
 * @watch: one of enum mv_watch, the same for all uses of a place
 */
void mesh_probed_use(struct mesh_probed **place, enum mv_watch watch, const union ibv_gid *local,
		     const union ibv_gid *remote);

/** mesh_probed_of - what is known of a path; @probed: NULL: MV_PROBED_UNKNOWN */
enum mv_probed mesh_probed_of(const struct mesh_probed *probed);
/** mesh_probed_find - the same for any path of ours */
enum mv_probed mesh_probed_find(const union ibv_gid *local, const union ibv_gid *remote);
/**
 * mesh_probed_suspect - may a path be dead, so that the agent will say in a moment whether it is?
 *
 * Return: since when, ns; 0: no, or that took longer than MESH_SUSPECT_NS
 */
uint64_t mesh_probed_suspect(const struct mesh_probed *probed, uint64_t now_ns);

/** mesh_probed_wants_spares - are there none of this @generation of the directory yet? Once for each. */
bool mesh_probed_wants_spares(struct mesh_probed *probed, uint64_t generation);
/** mesh_probed_spares - paths to be compared with that one: @n, of which the first MESH_SPARES are taken */
void mesh_probed_spares(struct mesh_probed *probed, const struct mv_path *paths, size_t n);

/* For the helper thread alone. */

/** mesh_probed_lost - the agent is gone: nothing is known any more */
void mesh_probed_lost(void);
/** mesh_probed_agent - a new agent has said WELCOME (@probes false), PROBES */
void mesh_probed_agent(bool probes);
/**
 * mesh_probed_changed - there is a new directory: what the agent had nothing to say to is asked again
 *
 * If the directory has both ends. At the first one at once, then not before a second has passed, two, four, up to 64, for the agent may
 * have reached a bound.
 */
void mesh_probed_changed(void);
enum mesh_probed_news {
	MESH_PROBED_NOTHING, /* new of a path that is watched */
	MESH_PROBED_NEWS,
	MESH_PROBED_URGENT, /* what the agent thinks of a path that it had doubts about */
};

/** mesh_probed_told - a frame PATH or SUSPECT */
enum mesh_probed_news mesh_probed_told(const struct mv_frame *frame, uint64_t now_ns);
/** mesh_probed_run - tell the agent what is to be watched; returns when to come again, UINT64_MAX: when woken */
uint64_t mesh_probed_run(uint64_t now_ns);

#endif
