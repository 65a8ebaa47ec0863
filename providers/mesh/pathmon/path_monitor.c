// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "path_monitor.h"

#include <stdlib.h>
#include <string.h>

#include "directory_client.h"
#include "fnv.h"
#include "helper.h"

#define N_BUCKETS 1024 /* a thousand peers, with paths to compare, make chains of five */
/* Pause after the socket to the agent had no room. */
#define AGAIN_NS 20000000ull
/* First pause before a path without result is watched again; doubles up to ASK_MAX_NS, because the agent may be at its limit. */
#define ASK_NS     1000000000ull
#define ASK_MAX_NS (64 * ASK_NS)

enum { WORK, PRIMARY, ALTERNATE, N_USES };

struct mesh_path_watch {
	struct mesh_path_watch *next; /* in its hash bucket */
	union ibv_gid local, remote;
	unsigned int uses[N_USES];
	uint8_t sent; /* mask of enum mv_watch that the agent was sent */
	bool answered; /* the agent has sent a result */
	/* Before the first result: */
	uint64_t changes; /* of the directory, at the last WATCH */
	uint64_t again_ns, wait_ns; /* earliest repetition, and the pause then; 0: not repeated yet */
	uint8_t state; /* enum mv_probed */
	uint64_t suspect_ns; /* begin of the agent's suspicion, before its verdict; 0: none */
	uint64_t generation; /* of the directory that these are from: */
	struct mesh_path_watch *alternates[MESH_ALTERNATES];
};

/* Referred to by the process page that fork() clears. */
struct mesh_path_monitor {
	bool on; /* mesh_path_monitor_on() */
	bool listens; /* the current agent has said PROBES */
	bool changed; /* an entry has to be sent, or sent again */
	uint64_t changes; /* counts changes of the directory, and of the agent's room */
	uint64_t again_ns; /* next repetition; UINT64_MAX: none */
	struct mesh_path_watch *buckets[N_BUCKETS];
};

/* ---- entries; process->monitor.lock ----------------------------------------------------------------------------- */

MV_ACQUIRES(&mesh_root.process->monitor.lock) static void lock(void)
{
	mesh_lock(&mesh_root.process->monitor.lock);
}

MV_RELEASES(&mesh_root.process->monitor.lock) static void unlock(void)
{
	mesh_unlock(&mesh_root.process->monitor.lock);
}

static struct mesh_path_monitor *all(void)
{
	struct mesh_process *process = mesh_root.process;

	if (!process->monitor.all)
		process->monitor.all = calloc(1, sizeof(*process->monitor.all));
	return process->monitor.all;
}

static struct mesh_path_watch **bucket_of(struct mesh_path_monitor *monitor, const union ibv_gid *local,
					  const union ibv_gid *remote)
{
	uint32_t hash = mv_fnv32(mv_fnv32(MV_FNV32_START, local->raw, sizeof(local->raw)), remote->raw, sizeof(remote->raw));

	return &monitor->buckets[(hash ^ hash >> 16) % N_BUCKETS];
}

static bool is_of(const struct mesh_path_watch *path_watch, const union ibv_gid *local, const union ibv_gid *remote)
{
	return mv_gid_equal(&path_watch->local, local) && mv_gid_equal(&path_watch->remote, remote);
}

static struct mesh_path_watch *find(struct mesh_path_monitor *monitor, const union ibv_gid *local,
				    const union ibv_gid *remote)
{
	struct mesh_path_watch *path_watch = monitor ? *bucket_of(monitor, local, remote) : NULL;

	while (path_watch && !is_of(path_watch, local, remote))
		path_watch = path_watch->next;
	return path_watch;
}

static unsigned int use_of(enum mv_watch watch)
{
	return watch == MV_WATCH_WORK ? WORK : watch == MV_WATCH_PRIMARY ? PRIMARY : ALTERNATE;
}

static uint8_t mask_of(const struct mesh_path_watch *path_watch)
{
	return (uint8_t)((path_watch->uses[WORK] ? MV_WATCH_WORK : 0) |
			 (path_watch->uses[PRIMARY] ? MV_WATCH_PRIMARY : 0) |
			 (path_watch->uses[ALTERNATE] ? MV_WATCH_ALTERNATE : 0));
}

static struct mesh_path_watch *get(struct mesh_path_monitor *monitor, enum mv_watch watch, const union ibv_gid *local,
				   const union ibv_gid *remote)
{
	struct mesh_path_watch *path_watch = find(monitor, local, remote), **bucket;

	if (!path_watch) {
		path_watch = calloc(1, sizeof(*path_watch));
		if (!path_watch)
			return NULL;
		path_watch->local = *local;
		path_watch->remote = *remote;
		bucket = bucket_of(monitor, local, remote);
		path_watch->next = *bucket;
		*bucket = path_watch;
	}
	path_watch->uses[use_of(watch)]++;
	monitor->changed |= path_watch->sent != mask_of(path_watch);
	return path_watch;
}

static void put(struct mesh_path_monitor *monitor, struct mesh_path_watch *path_watch, enum mv_watch watch)
{
	size_t i;

	path_watch->uses[use_of(watch)]--;
	monitor->changed |= path_watch->sent != mask_of(path_watch);
	/* Ends after one level: paths to compare with have none themselves. */
	for (i = 0; watch == MV_WATCH_WORK && !path_watch->uses[WORK] && i < MESH_ALTERNATES; i++) {
		if (path_watch->alternates[i])
			put(monitor, path_watch->alternates[i], MV_WATCH_ALTERNATE);
		path_watch->alternates[i] = NULL;
		path_watch->generation = 0;
	}
}

/* ---- for connections --------------------------------------------------------------------------------------------- */

bool mesh_path_monitor_on(void)
{
	bool on;

	lock();
	on = mesh_root.process->monitor.all && mesh_root.process->monitor.all->on;
	unlock();
	return on;
}

void mesh_path_monitor_use(struct mesh_path_watch **place, enum mv_watch watch, const union ibv_gid *local,
			   const union ibv_gid *remote)
{
	struct mesh_path_watch *before = *place;
	struct mesh_path_monitor *monitor;
	bool changed = false;

	if (!before && !local)
		return;
	lock();
	monitor = all();
	if (monitor && !(before && local && is_of(before, local, remote))) {
		/* Get the new one first: a path that stays in use for another reason keeps its results. */
		*place = local ? get(monitor, watch, local, remote) : NULL;
		if (before)
			put(monitor, before, watch);
		changed = monitor->changed;
	}
	unlock();
	if (changed)
		mesh_thread_wake(false);
}

enum mv_probed mesh_path_monitor_state(const struct mesh_path_watch *path_watch)
{
	enum mv_probed state;

	if (!path_watch)
		return MV_PROBED_UNKNOWN;
	lock();
	state = path_watch->state;
	unlock();
	return state;
}

uint64_t mesh_path_monitor_suspect(const struct mesh_path_watch *path_watch, uint64_t now_ns)
{
	uint64_t since_ns;

	if (!path_watch)
		return 0;
	lock();
	since_ns = path_watch->suspect_ns;
	unlock();
	return since_ns && now_ns < since_ns + MESH_SUSPECT_NS ? since_ns : 0;
}

enum mv_probed mesh_path_monitor_find(const union ibv_gid *local, const union ibv_gid *remote)
{
	const struct mesh_path_watch *path_watch;
	enum mv_probed state;

	lock();
	path_watch = find(mesh_root.process->monitor.all, local, remote);
	state = path_watch ? path_watch->state : MV_PROBED_UNKNOWN;
	unlock();
	return state;
}

bool mesh_path_monitor_wants_alternates(struct mesh_path_watch *path_watch, uint64_t generation)
{
	bool wants;

	if (!path_watch)
		return false;
	lock();
	wants = path_watch->generation != generation;
	path_watch->generation = generation;
	unlock();
	return wants;
}

void mesh_path_monitor_alternates(struct mesh_path_watch *path_watch, const struct mv_path *paths, size_t n)
{
	struct mesh_path_watch *before[MESH_ALTERNATES];
	struct mesh_path_monitor *monitor;
	size_t i;

	lock();
	monitor = all();
	memcpy(before, path_watch->alternates, sizeof(before));
	for (i = 0; i < MESH_ALTERNATES; i++)
		path_watch->alternates[i] =
			i < n ? get(monitor, MV_WATCH_ALTERNATE, &paths[i].local_gid, &paths[i].remote_gid) : NULL;
	for (i = 0; i < MESH_ALTERNATES; i++)
		if (before[i])
			put(monitor, before[i], MV_WATCH_ALTERNATE);
	unlock();
}

/* ---- the agent --------------------------------------------------------------------------------------------------- */

static void forget(struct mesh_path_watch *path_watch)
{
	path_watch->sent = 0;
	path_watch->answered = false;
	path_watch->again_ns = path_watch->wait_ns = 0;
	path_watch->state = MV_PROBED_UNKNOWN;
	path_watch->suspect_ns = 0;
}

static void forget_all(struct mesh_path_monitor *monitor)
{
	struct mesh_path_watch *path_watch;
	size_t i;

	for (i = 0; monitor && i < N_BUCKETS; i++)
		for (path_watch = monitor->buckets[i]; path_watch; path_watch = path_watch->next)
			forget(path_watch);
	if (monitor)
		monitor->changed = true;
}

void mesh_path_monitor_lost(void)
{
	lock();
	forget_all(mesh_root.process->monitor.all);
	if (mesh_root.process->monitor.all)
		mesh_root.process->monitor.all->listens = false;
	unlock();
}

void mesh_path_monitor_agent(bool probes)
{
	struct mesh_path_monitor *monitor;

	lock();
	monitor = all();
	forget_all(monitor);
	if (monitor)
		monitor->on = monitor->listens = probes;
	unlock();
}

void mesh_path_monitor_changed(void)
{
	struct mesh_path_monitor *monitor;

	lock();
	monitor = mesh_root.process->monitor.all;
	if (monitor) {
		monitor->changes++;
		monitor->changed = true;
	}
	unlock();
}

static enum mesh_path_monitor_change take_path(struct mesh_path_watch *path_watch, enum mv_probed state)
{
	bool was_suspect = path_watch->suspect_ns, changed = path_watch->state != state;

	path_watch->state = (uint8_t)state;
	path_watch->answered = true;
	path_watch->suspect_ns = 0;
	return was_suspect ? MESH_MONITOR_URGENT : changed ? MESH_MONITOR_CHANGED : MESH_MONITOR_NOTHING;
}

enum mesh_path_monitor_change mesh_path_monitor_told(const struct mv_frame *frame, uint64_t now_ns)
{
	enum mesh_path_monitor_change changed = MESH_MONITOR_NOTHING;
	struct mesh_path_watch *path_watch;

	lock();
	path_watch = find(mesh_root.process->monitor.all, &frame->sgid, &frame->dgid);
	if (path_watch && frame->type == MV_FRAME_PATH) {
		changed = take_path(path_watch, frame->probed);
	} else if (path_watch) {
		path_watch->suspect_ns = now_ns;
		changed = MESH_MONITOR_CHANGED;
	}
	unlock();
	return changed;
}

/* Has the agent no result, and is there a newer directory? */
static bool is_open(const struct mesh_path_monitor *monitor, const struct mesh_path_watch *path_watch)
{
	return path_watch->sent && !path_watch->answered && path_watch->changes != monitor->changes;
}

static void ask_later(struct mesh_path_watch *path_watch, uint64_t now_ns)
{
	path_watch->wait_ns = path_watch->wait_ns ? 2 * path_watch->wait_ns : ASK_NS;
	if (path_watch->wait_ns > ASK_MAX_NS)
		path_watch->wait_ns = ASK_MAX_NS;
	path_watch->again_ns = now_ns + path_watch->wait_ns;
}

static bool send_watch(const struct mesh_path_watch *path_watch)
{
	const struct mv_frame frame = {.type = MV_FRAME_WATCH,
				       .sgid = path_watch->local,
				       .dgid = path_watch->remote,
				       .watch = mask_of(path_watch)};

	return !mesh_thread_frame(&frame);
}

static void tell_agent(struct mesh_path_monitor *monitor, struct mesh_path_watch *path_watch, uint64_t now_ns)
{
	bool again = path_watch->sent == mask_of(path_watch);

	/* The agent refuses paths with unknown ends: repeat only when the directory has both. */
	if (again &&
	    !(is_open(monitor, path_watch) && mesh_directory_has_path(&path_watch->local, &path_watch->remote)))
		return;
	if (again && now_ns < path_watch->again_ns) {
		if (path_watch->again_ns < monitor->again_ns)
			monitor->again_ns = path_watch->again_ns;
		return;
	}
	/* After one frame without room, send no others. */
	if (monitor->changed || !send_watch(path_watch)) {
		monitor->changed = true;
		return;
	}
	path_watch->sent = mask_of(path_watch);
	path_watch->changes = monitor->changes;
	if (again)
		ask_later(path_watch, now_ns);
}

/* Return: has the agent room for other paths now? */
static bool drop_unused(struct mesh_path_monitor *monitor, struct mesh_path_watch **at)
{
	struct mesh_path_watch *path_watch;
	bool room = false;

	while ((path_watch = *at)) {
		if (mask_of(path_watch) ||
		    (monitor->listens && path_watch->sent && (monitor->changed || !send_watch(path_watch)))) {
			monitor->changed |= !mask_of(path_watch);
			at = &path_watch->next;
			continue;
		}
		room |= path_watch->sent;
		*at = path_watch->next;
		free(path_watch);
	}
	return room;
}

static void send_all(struct mesh_path_monitor *monitor, uint64_t now_ns)
{
	struct mesh_path_watch *path_watch;
	bool room = false;
	size_t i;

	monitor->changed = false;
	monitor->again_ns = UINT64_MAX;
	for (i = 0; i < N_BUCKETS; i++)
		room |= drop_unused(monitor, &monitor->buckets[i]);
	/* As after a new directory: paths that the agent refused for lack of room are sent again. */
	monitor->changes += room;
	for (i = 0; i < N_BUCKETS && monitor->listens; i++)
		for (path_watch = monitor->buckets[i]; path_watch; path_watch = path_watch->next)
			if (mask_of(path_watch))
				tell_agent(monitor, path_watch, now_ns);
	/* However many times there are, not a turn for each. */
	if (monitor->again_ns < now_ns + ASK_NS)
		monitor->again_ns = now_ns + ASK_NS;
}

uint64_t mesh_path_monitor_run(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;
	struct mesh_path_monitor *monitor;

	lock();
	monitor = mesh_root.process->monitor.all;
	if (monitor && (monitor->changed || now_ns >= monitor->again_ns))
		send_all(monitor, now_ns);
	if (monitor)
		next_ns = monitor->changed ? now_ns + AGAIN_NS : monitor->again_ns;
	unlock();
	return next_ns;
}
