// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "probed.h"

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

struct mesh_probed {
	struct mesh_probed *next; /* in its hash bucket */
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
	struct mesh_probed *alternates[MESH_ALTERNATES];
};

/* Referred to by the process page that fork() clears. */
struct mesh_probeds {
	bool on; /* mesh_probed_on() */
	bool listens; /* the current agent has said PROBES */
	bool news; /* an entry has to be sent, or sent again */
	uint64_t changes; /* counts changes of the directory, and of the agent's room */
	uint64_t again_ns; /* next repetition; UINT64_MAX: none */
	struct mesh_probed *buckets[N_BUCKETS];
};

/* ---- entries; process->probed.lock ------------------------------------------------------------------------------- */

MV_ACQUIRES(&mesh_root.process->probed.lock) static void lock(void)
{
	mesh_lock(&mesh_root.process->probed.lock);
}

MV_RELEASES(&mesh_root.process->probed.lock) static void unlock(void)
{
	mesh_unlock(&mesh_root.process->probed.lock);
}

static struct mesh_probeds *all(void)
{
	struct mesh_process *process = mesh_root.process;

	if (!process->probed.all)
		process->probed.all = calloc(1, sizeof(*process->probed.all));
	return process->probed.all;
}

static struct mesh_probed **bucket_of(struct mesh_probeds *probeds, const union ibv_gid *local, const union ibv_gid *remote)
{
	uint32_t hash = mv_fnv32(mv_fnv32(MV_FNV32_START, local->raw, sizeof(local->raw)), remote->raw, sizeof(remote->raw));

	return &probeds->buckets[(hash ^ hash >> 16) % N_BUCKETS];
}

static bool is_of(const struct mesh_probed *probed, const union ibv_gid *local, const union ibv_gid *remote)
{
	return mv_gid_equal(&probed->local, local) && mv_gid_equal(&probed->remote, remote);
}

static struct mesh_probed *find(struct mesh_probeds *probeds, const union ibv_gid *local, const union ibv_gid *remote)
{
	struct mesh_probed *probed = probeds ? *bucket_of(probeds, local, remote) : NULL;

	while (probed && !is_of(probed, local, remote))
		probed = probed->next;
	return probed;
}

static unsigned int use_of(enum mv_watch watch)
{
	return watch == MV_WATCH_WORK ? WORK : watch == MV_WATCH_PRIMARY ? PRIMARY : ALTERNATE;
}

static uint8_t mask_of(const struct mesh_probed *probed)
{
	return (uint8_t)((probed->uses[WORK] ? MV_WATCH_WORK : 0) | (probed->uses[PRIMARY] ? MV_WATCH_PRIMARY : 0) |
			 (probed->uses[ALTERNATE] ? MV_WATCH_ALTERNATE : 0));
}

static struct mesh_probed *get(struct mesh_probeds *probeds, enum mv_watch watch, const union ibv_gid *local,
			       const union ibv_gid *remote)
{
	struct mesh_probed *probed = find(probeds, local, remote), **bucket;

	if (!probed) {
		probed = calloc(1, sizeof(*probed));
		if (!probed)
			return NULL;
		probed->local = *local;
		probed->remote = *remote;
		bucket = bucket_of(probeds, local, remote);
		probed->next = *bucket;
		*bucket = probed;
	}
	probed->uses[use_of(watch)]++;
	probeds->news |= probed->sent != mask_of(probed);
	return probed;
}

static void put(struct mesh_probeds *probeds, struct mesh_probed *probed, enum mv_watch watch)
{
	size_t i;

	probed->uses[use_of(watch)]--;
	probeds->news |= probed->sent != mask_of(probed);
	/* Ends after one level: paths to compare with have none themselves. */
	for (i = 0; watch == MV_WATCH_WORK && !probed->uses[WORK] && i < MESH_ALTERNATES; i++) {
		if (probed->alternates[i])
			put(probeds, probed->alternates[i], MV_WATCH_ALTERNATE);
		probed->alternates[i] = NULL;
		probed->generation = 0;
	}
}

/* ---- for connections --------------------------------------------------------------------------------------------- */

bool mesh_probed_on(void)
{
	bool on;

	lock();
	on = mesh_root.process->probed.all && mesh_root.process->probed.all->on;
	unlock();
	return on;
}

void mesh_probed_use(struct mesh_probed **place, enum mv_watch watch, const union ibv_gid *local, const union ibv_gid *remote)
{
	struct mesh_probed *before = *place;
	struct mesh_probeds *probeds;
	bool news = false;

	if (!before && !local)
		return;
	lock();
	probeds = all();
	if (probeds && !(before && local && is_of(before, local, remote))) {
		/* Get the new one first: a path that stays in use for another reason keeps its results. */
		*place = local ? get(probeds, watch, local, remote) : NULL;
		if (before)
			put(probeds, before, watch);
		news = probeds->news;
	}
	unlock();
	if (news)
		mesh_thread_wake(false);
}

enum mv_probed mesh_probed_of(const struct mesh_probed *probed)
{
	enum mv_probed state;

	if (!probed)
		return MV_PROBED_UNKNOWN;
	lock();
	state = probed->state;
	unlock();
	return state;
}

uint64_t mesh_probed_suspect(const struct mesh_probed *probed, uint64_t now_ns)
{
	uint64_t since_ns;

	if (!probed)
		return 0;
	lock();
	since_ns = probed->suspect_ns;
	unlock();
	return since_ns && now_ns < since_ns + MESH_SUSPECT_NS ? since_ns : 0;
}

enum mv_probed mesh_probed_find(const union ibv_gid *local, const union ibv_gid *remote)
{
	const struct mesh_probed *probed;
	enum mv_probed state;

	lock();
	probed = find(mesh_root.process->probed.all, local, remote);
	state = probed ? probed->state : MV_PROBED_UNKNOWN;
	unlock();
	return state;
}

bool mesh_probed_wants_alternates(struct mesh_probed *probed, uint64_t generation)
{
	bool wants;

	if (!probed)
		return false;
	lock();
	wants = probed->generation != generation;
	probed->generation = generation;
	unlock();
	return wants;
}

void mesh_probed_alternates(struct mesh_probed *probed, const struct mv_path *paths, size_t n)
{
	struct mesh_probed *before[MESH_ALTERNATES];
	struct mesh_probeds *probeds;
	size_t i;

	lock();
	probeds = all();
	memcpy(before, probed->alternates, sizeof(before));
	for (i = 0; i < MESH_ALTERNATES; i++)
		probed->alternates[i] =
			i < n ? get(probeds, MV_WATCH_ALTERNATE, &paths[i].local_gid, &paths[i].remote_gid) : NULL;
	for (i = 0; i < MESH_ALTERNATES; i++)
		if (before[i])
			put(probeds, before[i], MV_WATCH_ALTERNATE);
	unlock();
}

/* ---- the agent --------------------------------------------------------------------------------------------------- */

static void forget(struct mesh_probed *probed)
{
	probed->sent = 0;
	probed->answered = false;
	probed->again_ns = probed->wait_ns = 0;
	probed->state = MV_PROBED_UNKNOWN;
	probed->suspect_ns = 0;
}

static void forget_all(struct mesh_probeds *probeds)
{
	struct mesh_probed *probed;
	size_t i;

	for (i = 0; probeds && i < N_BUCKETS; i++)
		for (probed = probeds->buckets[i]; probed; probed = probed->next)
			forget(probed);
	if (probeds)
		probeds->news = true;
}

void mesh_probed_lost(void)
{
	lock();
	forget_all(mesh_root.process->probed.all);
	if (mesh_root.process->probed.all)
		mesh_root.process->probed.all->listens = false;
	unlock();
}

void mesh_probed_agent(bool probes)
{
	struct mesh_probeds *probeds;

	lock();
	probeds = all();
	forget_all(probeds);
	if (probeds)
		probeds->on = probeds->listens = probes;
	unlock();
}

void mesh_probed_changed(void)
{
	struct mesh_probeds *probeds;

	lock();
	probeds = mesh_root.process->probed.all;
	if (probeds) {
		probeds->changes++;
		probeds->news = true;
	}
	unlock();
}

static enum mesh_probed_news take_path(struct mesh_probed *probed, enum mv_probed state)
{
	bool was_suspect = probed->suspect_ns, news = probed->state != state;

	probed->state = (uint8_t)state;
	probed->answered = true;
	probed->suspect_ns = 0;
	return was_suspect ? MESH_PROBED_URGENT : news ? MESH_PROBED_NEWS : MESH_PROBED_NOTHING;
}

enum mesh_probed_news mesh_probed_told(const struct mv_frame *frame, uint64_t now_ns)
{
	enum mesh_probed_news news = MESH_PROBED_NOTHING;
	struct mesh_probed *probed;

	lock();
	probed = find(mesh_root.process->probed.all, &frame->sgid, &frame->dgid);
	if (probed && frame->type == MV_FRAME_PATH) {
		news = take_path(probed, frame->probed);
	} else if (probed) {
		probed->suspect_ns = now_ns;
		news = MESH_PROBED_NEWS;
	}
	unlock();
	return news;
}

/* Has the agent no result, and is there a newer directory? */
static bool is_open(const struct mesh_probeds *probeds, const struct mesh_probed *probed)
{
	return probed->sent && !probed->answered && probed->changes != probeds->changes;
}

static void ask_later(struct mesh_probed *probed, uint64_t now_ns)
{
	probed->wait_ns = probed->wait_ns ? 2 * probed->wait_ns : ASK_NS;
	if (probed->wait_ns > ASK_MAX_NS)
		probed->wait_ns = ASK_MAX_NS;
	probed->again_ns = now_ns + probed->wait_ns;
}

static bool send_watch(const struct mesh_probed *probed)
{
	const struct mv_frame frame = {
		.type = MV_FRAME_WATCH, .sgid = probed->local, .dgid = probed->remote, .watch = mask_of(probed)};

	return !mesh_thread_frame(&frame);
}

static void tell_agent(struct mesh_probeds *probeds, struct mesh_probed *probed, uint64_t now_ns)
{
	bool again = probed->sent == mask_of(probed);

	/* The agent refuses paths with unknown ends: repeat only when the directory has both. */
	if (again && !(is_open(probeds, probed) && mesh_view_has_path(&probed->local, &probed->remote)))
		return;
	if (again && now_ns < probed->again_ns) {
		if (probed->again_ns < probeds->again_ns)
			probeds->again_ns = probed->again_ns;
		return;
	}
	/* After one frame without room, send no others. */
	if (probeds->news || !send_watch(probed)) {
		probeds->news = true;
		return;
	}
	probed->sent = mask_of(probed);
	probed->changes = probeds->changes;
	if (again)
		ask_later(probed, now_ns);
}

/* Return: has the agent room for other paths now? */
static bool drop_unused(struct mesh_probeds *probeds, struct mesh_probed **at)
{
	struct mesh_probed *probed;
	bool room = false;

	while ((probed = *at)) {
		if (mask_of(probed) || (probeds->listens && probed->sent && (probeds->news || !send_watch(probed)))) {
			probeds->news |= !mask_of(probed);
			at = &probed->next;
			continue;
		}
		room |= probed->sent;
		*at = probed->next;
		free(probed);
	}
	return room;
}

static void send_all(struct mesh_probeds *probeds, uint64_t now_ns)
{
	struct mesh_probed *probed;
	bool room = false;
	size_t i;

	probeds->news = false;
	probeds->again_ns = UINT64_MAX;
	for (i = 0; i < N_BUCKETS; i++)
		room |= drop_unused(probeds, &probeds->buckets[i]);
	/* As after a new directory: paths that the agent refused for lack of room are sent again. */
	probeds->changes += room;
	for (i = 0; i < N_BUCKETS && probeds->listens; i++)
		for (probed = probeds->buckets[i]; probed; probed = probed->next)
			if (mask_of(probed))
				tell_agent(probeds, probed, now_ns);
	/* However many times there are, not a turn for each. */
	if (probeds->again_ns < now_ns + ASK_NS)
		probeds->again_ns = now_ns + ASK_NS;
}

uint64_t mesh_probed_run(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;
	struct mesh_probeds *probeds;

	lock();
	probeds = mesh_root.process->probed.all;
	if (probeds && (probeds->news || now_ns >= probeds->again_ns))
		send_all(probeds, now_ns);
	if (probeds)
		next_ns = probeds->news ? now_ns + AGAIN_NS : probeds->again_ns;
	unlock();
	return next_ns;
}
