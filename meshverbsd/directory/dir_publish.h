/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_DIR_PUBLISH_H
#define MD_DIR_PUBLISH_H

#include <stddef.h>

#include "directory.h"

/* The directory file: mappings of the present file and, until the next heartbeat, of the one before. One thread. */
struct md_published {
	int dir_fd; /* RUN_DIR, owned by the caller */
	struct mv_dir_header *header; /* NULL: nothing published yet */
	size_t size_bytes;
	struct mv_dir_header *former; /* NULL: none */
	size_t former_size_bytes;
	uint64_t generation;
};

/**
 * md_dir_publish - replace the directory file
 * @published: dir_fd is filled in, all else zero before the first call
 *
 * Marks the former file as superseded after the new one has its name; also a file of a former agent. On failure the
 * former file stays.
 *
 * Return: 0; -EINVAL, -E2BIG, -ENOMEM of mv_directory_build(); -errno of openat(2), write(2) (-ENOSPC), mmap(2),
 * renameat(2).
 */
int md_dir_publish(struct md_published *published, const struct mv_dir_content *content, uint64_t now_ns);

/** md_dir_publish_heartbeat - write a sign of life; unmaps the former file */
void md_dir_publish_heartbeat(struct md_published *published, uint64_t now_ns);

/** md_dir_publish_exists - has a former agent left a file that readers may use? */
bool md_dir_publish_exists(int dir_fd);

/** md_dir_publish_fini - unmap; readers use the file until its heartbeat is too old */
void md_dir_publish_fini(struct md_published *published);

#endif
