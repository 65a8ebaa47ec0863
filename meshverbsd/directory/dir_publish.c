/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "dir_publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fd_all.h"

#define NEW_FILE MV_DIRECTORY_FILE ".new"

static void supersede(struct mv_dir_header *header)
{
	/* Release: a reader that sees the mark finds the new file. */
	atomic_store_explicit(&header->superseded, 1, memory_order_release);
}

/* Maps the file of a former agent; only its header has to be there. */
static struct mv_dir_header *map_former(int dir_fd)
{
	struct mv_dir_header *header = NULL;
	struct stat st;
	int fd;

	fd = openat(dir_fd, MV_DIRECTORY_FILE, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof(*header)) {
		header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (header == MAP_FAILED)
			header = NULL;
	}
	close(fd);
	return header;
}

/* Return: mapping of a new file with that content, named NEW_FILE; NULL: *@err. */
static struct mv_dir_header *make_file(int dir_fd, const struct mv_dir_header *image, int *err)
{
	struct mv_dir_header *header = NULL;
	int fd;

	unlinkat(dir_fd, NEW_FILE, 0);
	fd = openat(dir_fd, NEW_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0) {
		*err = -errno;
		return NULL;
	}
	/* Readable by everybody, whatever the umask. */
	/* write(2), because a full file system then gives an error; with a mapping it would be a signal. */
	*err = fchmod(fd, 0644) ? -errno : mv_write_all(fd, image, image->size_bytes);
	if (!*err) {
		header = mmap(NULL, image->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (header == MAP_FAILED) {
			*err = -errno;
			header = NULL;
		}
	}
	close(fd);
	if (!header)
		unlinkat(dir_fd, NEW_FILE, 0);
	return header;
}

/* Not at publication, which is urgent: unmapping interrupts all processors, and frees the file if no reader maps it. */
static void let_go_of_former(struct md_published *published)
{
	if (published->former)
		munmap(published->former, published->former_size_bytes);
	published->former = NULL;
}

static int replace(struct md_published *published, const struct mv_dir_header *image)
{
	struct mv_dir_header *former = published->header, *header;
	size_t former_size = former ? published->size_bytes : sizeof(*former);
	int err;

	header = make_file(published->dir_fd, image, &err);
	if (!header)
		return err;
	if (!former)
		former = map_former(published->dir_fd);
	if (renameat(published->dir_fd, NEW_FILE, published->dir_fd, MV_DIRECTORY_FILE)) {
		err = -errno;
		unlinkat(published->dir_fd, NEW_FILE, 0);
		munmap(header, image->size_bytes);
		if (former && former != published->header)
			munmap(former, former_size);
		return err;
	}
	if (former) {
		supersede(former);
		let_go_of_former(published);
		published->former = former;
		published->former_size_bytes = former_size;
	}
	published->header = header;
	published->size_bytes = image->size_bytes;
	return 0;
}

int md_dir_publish(struct md_published *published, const struct mv_dir_content *content,
		   uint64_t now_ns)
{
	struct mv_dir_header *image;
	int err;

	err = mv_directory_build(content, published->generation + 1, (uint32_t)getpid(), now_ns,
				 &image);
	if (err)
		return err;
	err = replace(published, image);
	free(image);
	if (!err)
		published->generation++;
	return err;
}

void md_dir_publish_heartbeat(struct md_published *published, uint64_t now_ns)
{
	let_go_of_former(published);
	if (published->header)
		atomic_store_explicit(&published->header->heartbeat_ns, now_ns,
				      memory_order_relaxed);
}

bool md_dir_publish_exists(int dir_fd)
{
	return !faccessat(dir_fd, MV_DIRECTORY_FILE, F_OK, AT_SYMLINK_NOFOLLOW);
}

void md_dir_publish_fini(struct md_published *published)
{
	let_go_of_former(published);
	if (published->header)
		munmap(published->header, published->size_bytes);
	published->header = NULL;
}
