/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Makes the image of a directory file; used by the agent. */
#include "directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "directory_layout.h"

static int compare_order(const void *a, const void *b, void *gids)
{
	return mv_dir_order_cmp(a, b, gids);
}

/* An empty array may be NULL, which is undefined for memcpy(). */
static void put_array(void *at, const void *items, size_t n, size_t size)
{
	if (n)
		memcpy(at, items, n * size);
}

/* Copies the links sorted, without duplicates. Return: number of links. */
static uint32_t put_links(struct mv_dir_link *at, const struct mv_dir_content *content)
{
	uint32_t n = 0;

	put_array(at, content->links, content->n_links, sizeof(*at));
	qsort(at, content->n_links, sizeof(*at), mv_dir_link_cmp);
	for (size_t i = 0; i < content->n_links; i++)
		if (!n || mv_dir_link_cmp(&at[n - 1], &at[i]))
			at[n++] = at[i];
	return n;
}

static void put_header(struct mv_dir_header *header, const struct mv_dir_content *content,
		       uint32_t n_links, struct mv_dir_layout *layout)
{
	/* Duplicate links leave unused room at the end of the last array. */
	mv_dir_layout((uint32_t)content->n_hosts, (uint32_t)content->n_rails,
		      (uint32_t)content->n_gids, n_links, layout);
	header->magic = MV_DIRECTORY_MAGIC;
	header->version = 1;
	header->size_bytes = (uint32_t)layout->size_bytes;
	header->n_hosts = (uint32_t)content->n_hosts;
	header->n_rails = (uint32_t)content->n_rails;
	header->n_gids = (uint32_t)content->n_gids;
	header->n_links = n_links;
	header->hosts_at = (uint32_t)layout->hosts_at;
	header->rails_at = (uint32_t)layout->rails_at;
	header->gids_at = (uint32_t)layout->gids_at;
	header->order_at = (uint32_t)layout->order_at;
	header->links_at = (uint32_t)layout->links_at;
}

static void fill(char *image, const struct mv_dir_content *content, struct mv_dir_layout *layout)
{
	uint32_t *order = (uint32_t *)(void *)(image + layout->order_at);
	struct mv_dir_gid *gids = (struct mv_dir_gid *)(void *)(image + layout->gids_at);
	uint32_t n_links;

	put_array(image + layout->hosts_at, content->hosts, content->n_hosts,
		  sizeof(*content->hosts));
	put_array(image + layout->rails_at, content->rails, content->n_rails,
		  sizeof(*content->rails));
	put_array(gids, content->gids, content->n_gids, sizeof(*content->gids));
	for (uint32_t i = 0; i < content->n_gids; i++)
		order[i] = i;
	qsort_r(order, content->n_gids, sizeof(*order), compare_order, gids);
	n_links = put_links((struct mv_dir_link *)(void *)(image + layout->links_at), content);
	put_header((struct mv_dir_header *)(void *)image, content, n_links, layout);
}

static int layout_of(const struct mv_dir_content *content, struct mv_dir_layout *ret)
{
	if (content->n_hosts > UINT32_MAX || content->n_rails > UINT32_MAX ||
	    content->n_gids > UINT32_MAX || content->n_links > UINT32_MAX)
		return -E2BIG;
	mv_dir_layout((uint32_t)content->n_hosts, (uint32_t)content->n_rails,
		      (uint32_t)content->n_gids, (uint32_t)content->n_links, ret);
	return ret->size_bytes > UINT32_MAX ? -E2BIG : 0;
}

int mv_directory_build(const struct mv_dir_content *content, uint64_t generation,
		       uint32_t agent_pid, uint64_t heartbeat_ns, struct mv_dir_header **ret_image)
{
	struct mv_dir_header *header;
	struct mv_dir_layout layout;
	struct mv_directory checked;
	int err;

	err = layout_of(content, &layout);
	if (err)
		return err;
	/* Zeroed, because padding is written to a file that others read. */
	header = calloc(1, layout.size_bytes);
	if (!header)
		return -ENOMEM;
	fill((char *)header, content, &layout);
	header->generation = generation;
	header->agent_pid = agent_pid;
	atomic_init(&header->heartbeat_ns, heartbeat_ns);
	if (mv_directory_check(header, header->size_bytes, &checked)) {
		free(header);
		return -EINVAL;
	}
	*ret_image = header;
	return 0;
}
