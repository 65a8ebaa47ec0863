/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory_layout.h"
#include "fnv.h"
#include "qualified.h"

/* ---- looking up --------------------------------------------------------------------------------
 */

bool mv_directory_superseded(const struct mv_directory *dir)
{
	/* Acquire: a reader that then opens the new file sees all that was written before the mark. */
	return atomic_load_explicit(&dir->header->superseded, memory_order_acquire) != 0;
}

bool mv_directory_alive(const struct mv_directory *dir, uint64_t now_ns)
{
	uint64_t beat = atomic_load_explicit(&dir->header->heartbeat_ns, memory_order_relaxed);

	/* The heartbeat may be newer than the caller's time. */
	return beat >= now_ns || now_ns - beat <= MV_DIRECTORY_STALE_NS;
}

static const union ibv_gid *ordered_gid(const struct mv_directory *dir, size_t at)
{
	return &dir->gids[dir->order[at]].gid;
}

/* Return: the first position whose GID is not below @gid. */
static size_t lower_bound(const struct mv_directory *dir, const union ibv_gid *gid)
{
	size_t low = 0, high = dir->header->n_gids;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memcmp(ordered_gid(dir, middle)->raw, gid->raw, sizeof(gid->raw)) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * An agent of an older version believed neighbours who said that their host's id is zero. Readers take that id for a host
 * that is not known, so they must not find such a host.
 */
static bool has_host(const struct mv_directory *dir, size_t at)
{
	return !mv_host_id_is_zero(&dir->hosts[dir->rails[dir->gids[dir->order[at]].rail].host].id);
}

ssize_t mv_directory_find_gid(const struct mv_directory *dir, const union ibv_gid *gid, size_t from)
{
	/* Equal GIDs are adjacent. */
	for (size_t at = from ? from : lower_bound(dir, gid); at < dir->header->n_gids && mv_gid_equal(ordered_gid(dir, at), gid); at++)
		if (has_host(dir, at))
			return (ssize_t)at;
	return -1;
}

/* Return: index of the first link not before the wanted one; n_links: none. */
static size_t first_link(const struct mv_directory *dir, uint32_t local_rail, uint32_t remote_rail)
{
	const struct mv_dir_link wanted = {local_rail, remote_rail};
	size_t low = 0, high = dir->header->n_links;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (mv_dir_link_cmp(&dir->links[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool mv_directory_linked(const struct mv_directory *dir, uint32_t local_rail, uint32_t remote_rail)
{
	const struct mv_dir_link wanted = {local_rail, remote_rail};
	size_t at = first_link(dir, local_rail, remote_rail);

	return at < dir->header->n_links && !mv_dir_link_cmp(&dir->links[at], &wanted);
}

bool mv_directory_hears(const struct mv_directory *dir, uint32_t local_rail)
{
	size_t at = first_link(dir, local_rail, 0);

	return at < dir->header->n_links && dir->links[at].local_rail == local_rail;
}

uint32_t mv_directory_library(const char *build_id)
{
	uint32_t hash = mv_fnv32(MV_FNV32_START, build_id, strlen(build_id));

	return hash ? hash : 1;
}

uint32_t mv_directory_library_of(const void *function)
{
	char build_id[MV_BUILD_ID_TEXT];

	return mv_build_id(function, build_id) ? 0 : mv_directory_library(build_id);
}

enum mv_dir_qualified mv_directory_qualified(const struct mv_directory *dir, const char *device, uint32_t library)
{
	enum mv_dir_qualified found = MV_DIR_QUALIFIED_UNKNOWN;

	for (uint32_t r = 0; r < dir->hosts[0].n_rails; r++) {
		const struct mv_dir_rail *rail = &dir->rails[r];

		if (!rail->n_gids || strcmp(rail->device, device))
			continue;
		if (!(rail->flags & MV_RAIL_QUALIFIED))
			return MV_DIR_QUALIFIED_NO;
		if (dir->gids[rail->first_gid].library != library)
			return MV_DIR_QUALIFIED_OTHER;
		found = MV_DIR_QUALIFIED_YES;
	}
	return found;
}

/* ---- checking ----------------------------------------------------------------------------------
 */

/* Texts are printed to terminals and logs. */
static bool text_valid(const char *text, size_t size, bool may_be_empty)
{
	size_t len = strnlen(text, size);

	if (len == size || (!len && !may_be_empty))
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	return true;
}

/* The rails of each host follow those of the host before it, and each rail has a host. */
static bool hosts_valid(const struct mv_directory *dir)
{
	uint64_t next = 0;

	for (uint32_t h = 0; h < dir->header->n_hosts; h++) {
		const struct mv_dir_host *host = &dir->hosts[h];

		if (host->first_rail != next || !text_valid(host->name, sizeof(host->name), true))
			return false;
		next += host->n_rails;
		if (next > dir->header->n_rails)
			return false;
		for (uint32_t r = host->first_rail; r < next; r++)
			if (dir->rails[r].host != h)
				return false;
	}
	return next == dir->header->n_rails;
}

static bool rails_valid(const struct mv_directory *dir)
{
	uint64_t next = 0;

	for (uint32_t r = 0; r < dir->header->n_rails; r++) {
		const struct mv_dir_rail *rail = &dir->rails[r];

		if (rail->first_gid != next ||
		    !text_valid(rail->device, sizeof(rail->device), false) ||
		    !text_valid(rail->netdev, sizeof(rail->netdev), true))
			return false;
		next += rail->n_gids;
		if (next > dir->header->n_gids)
			return false;
		for (uint32_t g = rail->first_gid; g < next; g++)
			if (dir->gids[g].rail != r)
				return false;
	}
	return next == dir->header->n_gids;
}

static bool gids_valid(const struct mv_directory *dir)
{
	for (uint32_t i = 0; i < dir->header->n_gids; i++) {
		const struct mv_dir_gid *gid = &dir->gids[i];

		if (mv_gid_is_zero(&gid->gid) || gid->type > MV_GID_TYPE_ROCE_V2 ||
		    gid->prefix_len > 128)
			return false;
		if (dir->order[i] >= dir->header->n_gids)
			return false;
	}
	/* Strictly ascending, equal GIDs by position, so no index occurs twice. */
	for (uint32_t i = 1; i < dir->header->n_gids; i++)
		if (mv_dir_order_cmp(&dir->order[i - 1], &dir->order[i], dir->gids) >= 0)
			return false;
	return true;
}

static bool links_valid(const struct mv_directory *dir)
{
	for (uint32_t i = 0; i < dir->header->n_links; i++) {
		const struct mv_dir_link *link = &dir->links[i];

		if (link->local_rail >= dir->hosts[0].n_rails ||
		    link->remote_rail >= dir->header->n_rails)
			return false;
		if (i && mv_dir_link_cmp(link - 1, link) >= 0)
			return false;
	}
	return true;
}

/* The counts determine the layout, so arrays neither overlap nor leave gaps. */
static bool layout_valid(const struct mv_dir_header *header, size_t size_bytes)
{
	struct mv_dir_layout layout;

	if (header->magic != MV_DIRECTORY_MAGIC || header->version != 1 || !header->n_hosts ||
	    header->size_bytes != size_bytes)
		return false;
	mv_dir_layout(header->n_hosts, header->n_rails, header->n_gids, header->n_links, &layout);
	return layout.size_bytes == size_bytes && header->hosts_at == layout.hosts_at &&
	       header->rails_at == layout.rails_at && header->gids_at == layout.gids_at &&
	       header->order_at == layout.order_at && header->links_at == layout.links_at;
}

int mv_directory_check(const void *image, size_t size_bytes, struct mv_directory *ret)
{
	const char *bytes = image;
	struct mv_directory dir = {.header = image, .size_bytes = size_bytes};

	if (size_bytes < sizeof(*dir.header) || !layout_valid(dir.header, size_bytes))
		return -EBADMSG;
	dir.hosts = (const void *)(bytes + dir.header->hosts_at);
	dir.rails = (const void *)(bytes + dir.header->rails_at);
	dir.gids = (const void *)(bytes + dir.header->gids_at);
	dir.order = (const void *)(bytes + dir.header->order_at);
	dir.links = (const void *)(bytes + dir.header->links_at);
	if (!hosts_valid(&dir) || !rails_valid(&dir) || !gids_valid(&dir) || !links_valid(&dir))
		return -EBADMSG;
	*ret = dir;
	return 0;
}

/* ---- the file ----------------------------------------------------------------------------------
 */

/*
 * Accepted owners: root, the caller, and the owner of the directory (an agent that runs as another user). A file that
 * others may write could change while it is mapped.
 */
static int check_owner(int dir_fd, const struct stat *file)
{
	struct stat dir;

	if (!S_ISREG(file->st_mode))
		return -EPERM;
	if (file->st_mode & (S_IWGRP | S_IWOTH))
		return -EPERM;
	if (!file->st_uid || file->st_uid == geteuid())
		return 0;
	if (fstat(dir_fd, &dir))
		return -errno;
	return file->st_uid == dir.st_uid ? 0 : -EPERM;
}

static int open_retrying(int at, const char *path, int flags)
{
	int fd;

	do
		fd = openat(at, path, flags | O_CLOEXEC | O_RDONLY | O_NOCTTY | O_NONBLOCK);
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

static int map_file(int dir_fd, int fd, struct mv_directory *ret)
{
	struct stat st;
	void *image;
	int err;

	if (fstat(fd, &st))
		return -errno;
	err = check_owner(dir_fd, &st);
	if (err)
		return err;
	if (st.st_size < (off_t)sizeof(struct mv_dir_header) || st.st_size > UINT32_MAX)
		return -EBADMSG;
	/* MAP_SHARED: the agent sets marks later. MAP_POPULATE: the check reads all pages. */
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (image == MAP_FAILED)
		return -errno;
	err = mv_directory_check(image, (size_t)st.st_size, ret);
	if (err)
		munmap(image, (size_t)st.st_size);
	return err;
}

int mv_directory_open(const char *run_dir, struct mv_directory *ret)
{
	int dir_fd, fd, err;

	dir_fd = open_retrying(AT_FDCWD, run_dir, O_DIRECTORY);
	if (dir_fd < 0)
		return dir_fd;
	fd = open_retrying(dir_fd, MV_DIRECTORY_FILE, O_NOFOLLOW);
	err = fd < 0 ? fd : map_file(dir_fd, fd, ret);
	if (fd >= 0)
		close(fd);
	close(dir_fd);
	return err;
}

void mv_directory_close(struct mv_directory *dir)
{
	if (dir->header)
		munmap((void *)(uintptr_t)dir->header, dir->size_bytes);
	*dir = (struct mv_directory){0};
}
