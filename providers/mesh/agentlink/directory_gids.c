// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <string.h>

#include "directory_client_int.h"

/* GIDs in the directory: which hosts have them, whether these are alive, and whether two GIDs are connected. */

bool mesh_directory_may_join(const union ibv_gid *local, const union ibv_gid *remote)
{
	const struct mv_directory *dir;
	int cancel = mesh_directory_lock();
	bool may;

	dir = mesh_directory_mapped();
	may = !dir || mv_path_may_join(dir, local, remote);
	mesh_directory_unlock(cancel);
	return may;
}

static bool is_near(const struct mv_directory *dir, const union ibv_gid *gid)
{
	const struct mv_dir_rail *rail;
	uint32_t r, g;

	for (r = 0; r < dir->hosts[0].n_rails; r++) {
		rail = &dir->rails[r];
		for (g = rail->first_gid; g < rail->first_gid + rail->n_gids; g++)
			if (dir->gids[g].prefix_len && mv_gid_in_prefix(gid, &dir->gids[g].gid, dir->gids[g].prefix_len))
				return true;
	}
	return false;
}

bool mesh_directory_is_stranger(const union ibv_gid *gid, bool routed)
{
	enum mv_gid_family family = mv_gid_family(gid);
	const struct mv_directory *dir;
	bool stranger = false;
	ssize_t at;
	int cancel;

	if (family != MV_FAMILY_IPV4 && family != MV_FAMILY_IPV6)
		return false;
	cancel = mesh_directory_lock();
	dir = mesh_directory_mapped();
	at = dir ? mv_directory_find_gid(dir, gid, 0) : -1;
	if (at >= 0)
		stranger = mv_dir_gid_is_in_doubt(&dir->gids[dir->order[at]], routed); /* an address in doubt has one holder */
	else if (dir)
		stranger = !is_near(dir, gid);
	mesh_directory_unlock(cancel);
	return stranger;
}

bool mesh_directory_is_doubted(const union ibv_gid *gid, bool routed)
{
	const struct mv_directory *dir;
	int cancel = mesh_directory_lock();
	bool doubted = false;
	ssize_t at = -1;

	dir = mesh_directory_mapped();
	while (dir && !doubted && (at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0)
		doubted = mv_dir_gid_is_in_doubt(&dir->gids[dir->order[at]], routed);
	mesh_directory_unlock(cancel);
	return doubted;
}

static bool is_alive(const struct mv_directory *dir, const union ibv_gid *gid)
{
	bool alive = false;
	uint32_t host;
	ssize_t at = -1;

	while (!alive && (at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0) {
		host = dir->rails[dir->gids[dir->order[at]].rail].host;
		alive = host && dir->hosts[host].agent_version;
	}
	return alive;
}

static bool is_own(const struct mv_directory *dir, const union ibv_gid *gid)
{
	bool own = false;
	ssize_t at = -1;

	while (!own && (at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0)
		own = !dir->rails[dir->gids[dir->order[at]].rail].host;
	return own;
}

bool mesh_directory_alive(const union ibv_gid *gid)
{
	const struct mv_directory *dir;
	int cancel = mesh_directory_lock();
	bool alive;

	dir = mesh_directory_mapped();
	alive = dir && is_alive(dir, gid);
	mesh_directory_unlock(cancel);
	return alive;
}

bool mesh_directory_has_path(const union ibv_gid *local, const union ibv_gid *remote)
{
	const struct mv_directory *dir;
	int cancel = mesh_directory_lock();
	bool has;

	dir = mesh_directory_mapped();
	has = !dir || (is_own(dir, local) && is_alive(dir, remote));
	mesh_directory_unlock(cancel);
	return has;
}

static enum mesh_holder holder(const struct mv_directory *dir, const struct mv_host_id *host, const union ibv_gid *gid,
			       uint32_t *ret_flags)
{
	enum mesh_holder found = MESH_HOLDER_UNKNOWN;
	const struct mv_dir_host *there;
	ssize_t at = -1;

	while (found != MESH_HOLDER_SAME && (at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0) {
		there = &dir->hosts[dir->rails[dir->gids[dir->order[at]].rail].host];
		found = memcmp(&there->id, host, sizeof(*host)) ? MESH_HOLDER_OTHER : MESH_HOLDER_SAME;
		*ret_flags = there->flags;
	}
	return found;
}

enum mesh_holder mesh_directory_holder(const struct mv_host_id *host, const union ibv_gid *gid, uint32_t *ret_flags)
{
	enum mesh_holder found = MESH_HOLDER_UNKNOWN;
	const struct mv_directory *dir;
	int cancel = mesh_directory_lock();

	dir = mesh_directory_mapped();
	if (dir)
		found = holder(dir, host, gid, ret_flags);
	mesh_directory_unlock(cancel);
	return found;
}

/* A host that has the GID on several rails counts once. */
static bool is_first_of_host(const struct mv_directory *dir, size_t n, uint32_t host, const union ibv_gid *gid)
{
	ssize_t at = -1;

	while ((at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0 && (size_t)at < n)
		if (dir->rails[dir->gids[dir->order[at]].rail].host == host)
			return false;
	return true;
}

unsigned int mesh_directory_n_holders(const union ibv_gid *gid)
{
	const struct mv_directory *dir;
	int cancel = mesh_directory_lock();
	unsigned int n = 0;
	ssize_t at = -1;

	dir = mesh_directory_mapped();
	while (dir && (at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0)
		n += is_first_of_host(dir, (size_t)at, dir->rails[dir->gids[dir->order[at]].rail].host, gid);
	mesh_directory_unlock(cancel);
	return n;
}

static bool is_of_rail(const struct mv_directory *dir, uint32_t rail, const union ibv_gid *gid)
{
	ssize_t at = -1;

	while ((at = mv_directory_find_gid(dir, gid, (size_t)(at + 1))) >= 0)
		if (dir->gids[dir->order[at]].rail == rail)
			return true;
	return false;
}

bool mesh_directory_same_rail(const union ibv_gid *a, const union ibv_gid *b)
{
	const struct mv_directory *dir;
	bool same = mv_gid_equal(a, b);
	ssize_t at = -1;
	int cancel;

	if (same)
		return true;
	cancel = mesh_directory_lock();
	dir = mesh_directory_mapped();
	while (dir && !same && (at = mv_directory_find_gid(dir, a, (size_t)(at + 1))) >= 0)
		same = is_of_rail(dir, dir->gids[dir->order[at]].rail, b);
	mesh_directory_unlock(cancel);
	return same;
}
