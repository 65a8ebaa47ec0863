/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MESH_PEERVIEW_H
#define MESH_PEERVIEW_H

#include "lidfind.h"
#include "mesh.h"
#include "move.h"
#include "pathfind.h"

/*
 * What this process sees of the other hosts: the agent's directory, mapped. Everything here takes process->view_lock
 * for itself and may be called from any thread; with no agent a call costs one look at the clock.
 */

/* An answer of the directory about one connection, with names resolved: nothing in it points into the mapping. */
struct mesh_view {
	enum mv_path_verdict verdict;
	char host[64]; /* of the destination; "" when not known */
	bool hearsay; /* mv_path_is_hearsay() */
	bool drained; /* MV_PATH_LOCAL_DOWN, MV_PATH_REMOTE_DOWN: by the administrator of that port */
	uint32_t agent_version; /* of that host; 0: no agent heard */
	struct mv_host_id host_id; /* likewise; zero: not known */
	uint64_t generation; /* of the directory; 0: there is none */
	size_t n_paths;
	struct mv_path paths[MV_MOVE_MAX_PATHS]; /* best first; only for verdicts that need another path */
};

/**
 * mesh_view_judge - can the path the program asks for work, and which others are there?
 * @ret: verdict MV_PATH_UNKNOWN without a live agent, and when memory or the file fail
 *
 * To be called with cancellation off.
 */
void mesh_view_judge(const struct mv_path_request *request, struct mesh_view *ret);

/** mesh_view_verdict - the same, but never with paths, the search for which takes far longer than all the rest */
void mesh_view_verdict(const struct mv_path_request *request, struct mesh_view *ret);

/** mesh_view_paths - the same, with all other paths in any case, best first */
void mesh_view_paths(const struct mv_path_request *request, struct mesh_view *ret);

/**
 * mesh_view_lid - mv_lid_find(): the ends of a connection by LID
 *
 * Return: what that does; -ENOENT also without a live agent.
 */
int mesh_view_lid(const char *device, uint8_t port_num, uint16_t dlid, struct mv_lid_ends *ret);

/* One of our rails, as the directory names it. */
struct mesh_view_rail {
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port;
	uint8_t link_layer;
};

/**
 * mesh_view_rail - the rail of this host that has a GID, unless it is excluded
 * @type: enum mv_gid_type
 *
 * Return: 0 or -ENOENT.
 */
int mesh_view_rail(const union ibv_gid *gid, uint8_t type, struct mesh_view_rail *ret);

/**
 * mesh_view_is_stranger - can only a query tell which host has an address?
 * @routed: a route leads there
 *
 * True for an address in doubt (mesh_view_is_doubted()), and for an address that the directory does not have and that is in no network of
 * this host's rails: beacons tell of the addresses in those. False without a live agent, and for link-local addresses.
 */
bool mesh_view_is_stranger(const union ibv_gid *gid, bool routed);

/** mesh_view_is_doubted - mv_dir_gid_is_in_doubt() of an address; false without a live agent, and where no host announces the address */
bool mesh_view_is_doubted(const union ibv_gid *gid, bool routed);

/**
 * mesh_view_note_absent - the kernel has found no host at @remote for a connection from @local
 *
 * mesh_view_is_absent() says so for the next ten seconds.
 */
void mesh_view_note_absent(const union ibv_gid *local, const union ibv_gid *remote, uint64_t now_ns);
bool mesh_view_is_absent(const union ibv_gid *local, const union ibv_gid *remote, uint64_t now_ns);

/** mesh_view_may_join - mv_path_may_join(); true where the directory cannot be read */
bool mesh_view_may_join(const union ibv_gid *local, const union ibv_gid *remote);

/** mesh_view_forget - there is a new directory: nothing is looked up in the old one any more */
void mesh_view_forget(void);

/** mesh_view_rest - there is time to let go of an old one, which is megabytes on a large fleet */
void mesh_view_rest(void);

/**
 * mesh_view_renew - there is a new agent
 *
 * Of one that was stopped and started the directory is another file, of which the old one says nothing; as long as there is none yet, the
 * old one is good for MV_DIRECTORY_STALE_NS.
 */
void mesh_view_renew(void);

/** mesh_view_alive - does another host with a live agent have that GID? */
bool mesh_view_alive(const union ibv_gid *gid);

/**
 * mesh_view_has_path - does the directory have both ends of a path: one of our addresses, and one of a host with an agent?
 *
 * True also where it cannot be read: whoever has to do without it may ask the agent. Any thread; probed_lock may be held.
 */
bool mesh_view_has_path(const union ibv_gid *local, const union ibv_gid *remote);

enum mesh_holder {
	MESH_HOLDER_UNKNOWN, /* nobody is known to have it */
	MESH_HOLDER_SAME,
	MESH_HOLDER_OTHER, /* others have it, and that host has not */
};

/**
 * mesh_view_holder - has that host a GID?
 * @ret_flags: MESH_HOLDER_SAME: enum mv_dir_host_flags
 */
enum mesh_holder mesh_view_holder(const struct mv_host_id *host, const union ibv_gid *gid, uint32_t *ret_flags);

/** mesh_view_n_holders - how many hosts have a GID by the directory; 0: none, or there is no directory. Any thread */
unsigned int mesh_view_n_holders(const union ibv_gid *gid);

/** mesh_view_same_rail - does one rail, of whatever host, have both addresses? Any thread */
bool mesh_view_same_rail(const union ibv_gid *a, const union ibv_gid *b);

/**
 * mesh_view_qualified - has a device of this host qualified with that library?
 *
 * A device that the directory has no more, and one without an agent, is what it was when the directory last had it.
 */
enum mv_dir_qualified mesh_view_qualified(const char *device, uint32_t library);

/** mesh_view_agent - is there a live agent on this host? */
bool mesh_view_agent(void);

#endif
