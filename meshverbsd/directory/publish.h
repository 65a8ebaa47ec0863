/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MD_PUBLISH_H
#define MD_PUBLISH_H

#include <stddef.h>

#include "directory.h"

/* The directory file: its writer's mapping of what was published last, and until the next heartbeat of what it replaced. */
struct md_published {
	int dir_fd; /* of RUN_DIR, the caller's */
	struct mv_dir_header *header; /* NULL: nothing yet */
	size_t size_bytes;
	struct mv_dir_header *former; /* NULL: none */
	size_t former_size_bytes;
	uint64_t generation;
};

/**
 * md_publish - replace the directory file
 * @published: dir_fd is filled, all else zero before the first call
 *
 * Readers of the former file, also of one that a former agent left, learn that it is superseded once the new one has its
 * name. On failure the former file stays.
 *
 * Return: 0; -EINVAL, -E2BIG, -ENOMEM of mv_directory_build(); -errno of openat(2), write(2) (-ENOSPC), mmap(2),
 * renameat(2).
 */
int md_publish(struct md_published *published, const struct mv_dir_content *content, uint64_t now_ns);

/** md_publish_heartbeat - the agent is alive */
void md_publish_heartbeat(struct md_published *published, uint64_t now_ns);

/** md_publish_exists - is there a file of a former agent that readers may be using? */
bool md_publish_exists(int dir_fd);

/** md_publish_fini - unmap; the file stays for readers until its heartbeat is too old */
void md_publish_fini(struct md_published *published);

#endif
