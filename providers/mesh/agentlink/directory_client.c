// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "directory_client_int.h"

/* After a look-up without an agent, pause until the next. */
#define RETRY_NS 1000000000ull

/* Cache: requests whose path works by the mapped directory. Ranks have many queue pairs to the same few peers. */
#define N_WORKS 16 /* a power of two */

struct works {
	bool valid;
	char device[IBV_SYSFS_NAME_MAX];
	struct mv_path_request request; /* its device pointer is not used: see @device */
	uint32_t host, rail;
};

/*
 * Cache: results of mv_path_find(). Ranks ask for the same paths, repeatedly during moves. A result depends on the mapped
 * directory and the arguments only.
 */
#define FOUND_BITS 6
#define N_FOUND    (1u << FOUND_BITS)

struct found {
	uint64_t n_dir; /* number of the directory; 0: empty */
	char device[IBV_SYSFS_NAME_MAX];
	struct mv_path_request request; /* its device pointer is not used: see @device */
	uint32_t host, rail;
	size_t n_paths;
	struct mv_path paths[MV_MOVE_MAX_PATHS];
};

/* Cache: results of mv_lid_find(). */
#define N_LIDS 64 /* a power of two */

struct lid {
	uint64_t n_dir; /* as in struct found */
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t port_num;
	uint16_t dlid;
	int err; /* of mv_lid_find() */
	struct mv_lid_ends ends; /* if @err is 0 */
};

/* Last known state of devices: an unplugged device is in no directory. */
#define N_QUALIFIED 64

struct qualified {
	char device[IBV_SYSFS_NAME_MAX]; /* "": empty */
	uint32_t library;
	uint64_t n_dir; /* directory that @last is from */
	enum mv_dir_qualified last;
};

/* Pairs of GIDs for which the kernel recently found no neighbour. */
#define N_ABSENT  16 /* a power of two */
#define ABSENT_NS 10000000000ull /* the kernel needs 1 to 3 s per try, for each of hundreds of queue pairs */

struct absent {
	union ibv_gid local, remote;
	uint64_t until_ns; /* 0: empty */
};

struct mesh_directory_state {
	struct mv_directory dir; /* header NULL: nothing is mapped */
	struct mv_directory former; /* the former one, not used for look-ups any more */
	uint64_t retry_at_ns;
	struct works works[N_WORKS];
	struct found found[N_FOUND];
	struct lid lids[N_LIDS];
	struct qualified qualified[N_QUALIFIED];
	struct absent absent[N_ABSENT];
};

int mesh_directory_lock(void)
{
	int cancel = mesh_cancel_off();

	mesh_lock(&mesh_root.process->directory.lock);
	return cancel;
}

void mesh_directory_unlock(int cancel)
{
	mesh_unlock(&mesh_root.process->directory.lock);
	mesh_cancel_restore(cancel);
}

static void let_go_of_former(struct mesh_directory_state *state)
{
	mv_directory_close(&state->former);
	memset(&state->former, 0, sizeof(state->former));
}

/*
 * Unmap later. To unmap, the kernel interrupts all processors that run the program, and the last user frees the file. Directories
 * change just when connections are about to move.
 */
static void put_aside(struct mesh_directory_state *state)
{
	if (!state->dir.header)
		return;
	let_go_of_former(state);
	state->former = state->dir;
	memset(&state->dir, 0, sizeof(state->dir));
	/* Only the helper thread unmaps later. */
	if (!atomic_load_explicit(&mesh_root.process->thread, memory_order_relaxed))
		let_go_of_former(state);
}

/* Number of the mapped directory. So caches need not be cleared, nor their memory be touched. process->directory.lock */
static uint64_t number_of_directory(void)
{
	return atomic_load_explicit(&mesh_root.process->directory.number, memory_order_relaxed);
}

/* Map the published directory in place of the current one. Return: 0 or -errno; -ESTALE: its agent is not alive. */
static int map(struct mesh_directory_state *state, uint64_t now_ns)
{
	struct mv_directory dir;
	int err = mv_directory_open(mesh_root.run_dir, &dir);

	if (!err && !mv_directory_alive(&dir, now_ns)) {
		mv_directory_close(&dir);
		err = -ESTALE;
	}
	if (err)
		return err;
	put_aside(state);
	state->dir = dir;
	state->retry_at_ns = 0;
	memset(state->works, 0, sizeof(state->works));
	atomic_fetch_add_explicit(&mesh_root.process->directory.number, 1, memory_order_relaxed);
	return 0;
}

/* The current directory of a live agent; NULL: none. Called with process->directory.lock held. */
const struct mv_directory *mesh_directory_mapped(void)
{
	struct mesh_directory_state *state = mesh_root.process->directory.state;
	uint64_t now = mesh_now_ns();
	int err;

	if (!state) {
		state = mesh_root.process->directory.state = calloc(1, sizeof(*state));
		if (!state)
			return NULL;
	}
	if (state->dir.header && !mv_directory_superseded(&state->dir) && mv_directory_alive(&state->dir, now))
		return &state->dir;
	/* An agent that stopped may come back with a new file. */
	if (now < state->retry_at_ns && !(state->dir.header && mv_directory_superseded(&state->dir)))
		return NULL;
	put_aside(state);
	err = map(state, now);
	if (!err)
		return &state->dir;
	if (err != -ENOENT && err != -ESTALE)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s/" MV_DIRECTORY_FILE ": %s; running as without an agent",
			    mesh_root.run_dir, strerrordesc_np(-err));
	state->retry_at_ns = now + RETRY_NS;
	return NULL;
}

void mesh_directory_forget(void)
{
	struct mesh_directory_state *state;
	int cancel = mesh_directory_lock();

	state = mesh_root.process->directory.state;
	if (state) {
		put_aside(state);
		state->retry_at_ns = 0;
	}
	mesh_directory_unlock(cancel);
}

void mesh_directory_rest(void)
{
	struct mesh_directory_state *state;
	int cancel = mesh_directory_lock();

	state = mesh_root.process->directory.state;
	if (state)
		let_go_of_former(state);
	mesh_directory_unlock(cancel);
}

void mesh_directory_renew(void)
{
	struct mesh_directory_state *state;
	int cancel = mesh_directory_lock();

	state = mesh_root.process->directory.state;
	if (state && state->dir.header)
		map(state, mesh_now_ns());
	else if (state)
		state->retry_at_ns = 0;
	mesh_directory_unlock(cancel);
}

static struct works *works_of(const struct mv_path_request *request)
{
	const uint8_t *raw = request->dgid.raw;

	return &mesh_root.process->directory.state->works[(raw[15] ^ raw[14] ^ raw[7]) & (N_WORKS - 1)];
}

/* Compares all fields that mv_path_decide() reads, except @made, @proved and @host. @device: of @known */
static bool is_same(const struct mv_path_request *known, const char *device, const struct mv_path_request *request)
{
	return mv_gid_equal(&known->dgid, &request->dgid) && mv_gid_equal(&known->sgid, &request->sgid) &&
	       known->sgid_type == request->sgid_type && known->routed == request->routed && known->own_host == request->own_host &&
	       known->by_links == request->by_links && known->dlid == request->dlid && known->port_num == request->port_num &&
	       !strcmp(device, request->device);
}

static enum mv_path_verdict decide(const struct mv_directory *dir, const struct mv_path_request *request,
				   uint32_t *ret_host, uint32_t *ret_rail)
{
	struct works *works = works_of(request);
	enum mv_path_verdict verdict;

	if (works->valid && is_same(&works->request, works->device, request) && (request->made || request->proved || !works->request.proved) &&
	    (!request->host || !memcmp(&dir->hosts[works->host].id, request->host, sizeof(*request->host)))) {
		*ret_host = works->host;
		*ret_rail = works->rail;
		return MV_PATH_WORKS;
	}
	verdict = mv_path_decide(dir, request, ret_host, ret_rail);
	/* A path that works for a connection that is being made also works for an existing one. The reverse does not hold. */
	if (verdict == MV_PATH_WORKS && !request->made) {
		*works = (struct works){.valid = true, .request = *request, .host = *ret_host, .rail = *ret_rail};
		snprintf(works->device, sizeof(works->device), "%s", request->device);
	}
	return verdict;
}

/* Did the administrator drain the port that is down? @rail: the destination's */
static bool is_drained(const struct mv_directory *dir, const struct mv_path_request *request, enum mv_path_verdict verdict,
		       uint32_t rail)
{
	uint32_t r;

	if (verdict == MV_PATH_REMOTE_DOWN)
		return dir->rails[rail].flags & MV_RAIL_DRAINED;
	if (verdict != MV_PATH_LOCAL_DOWN)
		return false;
	for (r = 0; r < dir->hosts[0].n_rails; r++)
		if (dir->rails[r].port == request->port_num && !strcmp(dir->rails[r].device, request->device))
			return dir->rails[r].flags & MV_RAIL_DRAINED;
	return false;
}

static struct found *found_of(const struct mv_path_request *request)
{
	const union ibv_gid *to = &request->dgid, *from = &request->sgid;
	uint64_t sum = to->global.interface_id + 3 * to->global.subnet_prefix + 5 * from->global.interface_id +
		       7 * from->global.subnet_prefix + 11 * request->spread;

	/* Multiplicative hashing (D. Knuth, The Art of Computer Programming, 6.4): the uppermost bits depend on all others. */
	return &mesh_root.process->directory.state->found[sum * 0x9e3779b97f4a7c15u >> (64 - FOUND_BITS)];
}

/* mv_path_find() with a cache. @ret: array of MV_MOVE_MAX_PATHS. Called with process->directory.lock held. */
static size_t find(const struct mv_directory *dir, const struct mv_path_request *request, uint32_t host, uint32_t rail,
		   struct mv_path *ret)
{
	uint64_t n_dir = number_of_directory();
	struct found *found = found_of(request);

	if (found->n_dir != n_dir || found->host != host || found->rail != rail || found->request.down_too != request->down_too ||
	    found->request.spread != request->spread || !is_same(&found->request, found->device, request)) {
		found->n_dir = n_dir;
		found->request = *request;
		snprintf(found->device, sizeof(found->device), "%s", request->device);
		found->host = host;
		found->rail = rail;
		found->n_paths = mv_path_find(dir, request, host, rail, found->paths, MV_MOVE_MAX_PATHS);
	}
	memcpy(ret, found->paths, found->n_paths * sizeof(*ret));
	return found->n_paths;
}

/* When to search for paths, which is by far the slowest part. */
enum search {
	SEARCH_NEVER,
	SEARCH_IF_NEEDED, /* if the path does not work */
	SEARCH_ALWAYS,
};

static void look(const struct mv_path_request *request, enum search search, struct mesh_path_decision *ret)
{
	const struct mv_directory *dir;
	uint32_t host = 0, rail = 0;
	int saved_errno = errno;

	mesh_path_decision_none(ret);
	mesh_lock(&mesh_root.process->directory.lock);
	dir = mesh_directory_mapped();
	if (dir) {
		ret->generation = dir->header->generation;
		ret->n_own_rails = dir->hosts[0].n_rails;
		ret->verdict = decide(dir, request, &host, &rail);
	}
	if (ret->verdict != MV_PATH_UNKNOWN) {
		memcpy(ret->host, dir->hosts[host].name, sizeof(ret->host));
		ret->host_id = dir->hosts[host].id;
	}
	if (ret->verdict != MV_PATH_UNKNOWN && ret->verdict != MV_PATH_SELF) {
		ret->agent_version = dir->hosts[host].agent_version;
		ret->drained = is_drained(dir, request, ret->verdict, rail);
		if (search == SEARCH_ALWAYS || (search == SEARCH_IF_NEEDED && ret->verdict != MV_PATH_WORKS))
			ret->n_paths = find(dir, request, host, rail, ret->paths);
	}
	mesh_unlock(&mesh_root.process->directory.lock);
	errno = saved_errno;
}

void mesh_directory_verdict(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	look(request, SEARCH_NEVER, ret);
}

void mesh_directory_decide(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	look(request, SEARCH_IF_NEEDED, ret);
}

void mesh_directory_paths(const struct mv_path_request *request, struct mesh_path_decision *ret)
{
	look(request, SEARCH_ALWAYS, ret);
}

/* mv_lid_find() with a cache: it looks at all ports, for each of thousands of queue pairs. */
static struct lid *lid_of(const char *device, uint8_t port_num, uint16_t dlid)
{
	struct mesh_directory_state *state = mesh_root.process->directory.state;
	struct lid *lid = &state->lids[dlid & (N_LIDS - 1)];

	if (lid->n_dir == number_of_directory() && lid->port_num == port_num && lid->dlid == dlid &&
	    !strcmp(lid->device, device))
		return lid;
	lid->n_dir = number_of_directory();
	lid->port_num = port_num;
	lid->dlid = dlid;
	snprintf(lid->device, sizeof(lid->device), "%s", device);
	lid->err = mv_lid_find(&state->dir, device, port_num, dlid, &lid->ends);
	return lid;
}

int mesh_directory_lid(const char *device, uint8_t port_num, uint16_t dlid, struct mv_lid_ends *ret)
{
	int saved_errno = errno, cancel = mesh_directory_lock(), err = -ENOENT;
	const struct lid *lid;

	if (mesh_directory_mapped()) {
		lid = lid_of(device, port_num, dlid);
		err = lid->err;
		if (!err)
			*ret = lid->ends;
	}
	mesh_directory_unlock(cancel);
	errno = saved_errno;
	return err;
}

int mesh_directory_rail(const union ibv_gid *gid, uint8_t type, struct mesh_directory_rail *ret)
{
	const struct mv_directory *dir;
	const struct mv_dir_gid *entry;
	const struct mv_dir_rail *rail;
	int cancel, err = -ENOENT;
	ssize_t at = -1;

	cancel = mesh_directory_lock();
	dir = mesh_directory_mapped();
	while (dir && err && (at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0) {
		entry = &dir->gids[dir->order[at]];
		rail = &dir->rails[entry->rail];
		/* The peer may name any rail of this host, so check exclusion. */
		if (rail->host || entry->type != type || (rail->flags & MV_RAIL_EXCLUDED) ||
		    mv_config_list_match(&mesh_root.config.exclude, rail->device))
			continue;
		memcpy(ret->device, rail->device, sizeof(ret->device)); /* the decoder has checked its terminating 0 */
		ret->port = rail->port;
		ret->link_layer = rail->link_layer;
		err = 0;
	}
	mesh_directory_unlock(cancel);
	return err;
}

/* With more devices than places, the first place is reused. process->directory.lock */
static struct qualified *qualified_of(const char *device, uint32_t library)
{
	struct qualified *places = mesh_root.process->directory.state->qualified, *at;

	for (at = places; at < places + N_QUALIFIED && at->device[0]; at++)
		if (at->library == library && !strcmp(at->device, device))
			return at;
	if (at == places + N_QUALIFIED)
		at = places;
	*at = (struct qualified){.library = library, .last = MV_DIR_QUALIFIED_UNKNOWN};
	snprintf(at->device, sizeof(at->device), "%s", device);
	return at;
}

enum mv_dir_qualified mesh_directory_qualified(const char *device, uint32_t library)
{
	enum mv_dir_qualified now = MV_DIR_QUALIFIED_UNKNOWN;
	const struct mv_directory *dir;
	struct qualified *known;
	int cancel = mesh_directory_lock();

	dir = mesh_directory_mapped();
	if (mesh_root.process->directory.state) {
		known = qualified_of(device, library);
		if (dir && known->n_dir != number_of_directory()) {
			now = mv_directory_qualified(dir, device, library);
			known->n_dir = number_of_directory();
		}
		if (now == MV_DIR_QUALIFIED_UNKNOWN)
			now = known->last;
		known->last = now;
	}
	mesh_directory_unlock(cancel);
	return now;
}

static struct absent *absent_of(const union ibv_gid *local, const union ibv_gid *remote)
{
	return &mesh_root.process->directory.state
			->absent[(remote->raw[15] ^ remote->raw[14] ^ local->raw[15]) & (N_ABSENT - 1)];
}

void mesh_directory_note_absent(const union ibv_gid *local, const union ibv_gid *remote)
{
	int cancel = mesh_directory_lock();

	if (mesh_root.process->directory.state)
		*absent_of(local, remote) = (struct absent){.local = *local, .remote = *remote, .until_ns = mesh_now_ns() + ABSENT_NS};
	atomic_store_explicit(&mesh_root.process->directory.has_absent, true, memory_order_relaxed);
	mesh_directory_unlock(cancel);
}

bool mesh_directory_is_among_absent(const union ibv_gid *local, const union ibv_gid *remote)
{
	int cancel = mesh_directory_lock();
	const struct absent *absent;
	bool is_absent = false;

	if (mesh_root.process->directory.state) {
		absent = absent_of(local, remote);
		is_absent = mesh_now_ns() < absent->until_ns && mv_gid_equal(&absent->local, local) && mv_gid_equal(&absent->remote, remote);
	}
	mesh_directory_unlock(cancel);
	return is_absent;
}

bool mesh_directory_agent(void)
{
	int cancel = mesh_directory_lock();
	bool there = mesh_directory_mapped();

	mesh_directory_unlock(cancel);
	return there;
}
