// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library.h"

/* More drivers than any libibverbs registers. A longer walk means that this is not the list. */
#define DRIVERS_MAX 256

/*
 * Reads memory that may not be mapped, through a pipe: write() fails with EFAULT, and nothing crashes. (process_vm_readv()
 * would need one call only, but container runtimes filter it.)
 */
struct reader {
	int fds[2];
};

static int reader_init(struct reader *r)
{
	return pipe2(r->fds, O_CLOEXEC | O_NONBLOCK) ? -errno : 0;
}

static void reader_fini(struct reader *r)
{
	close(r->fds[0]);
	close(r->fds[1]);
}

/* @size: at most PIPE_BUF, so that one write() takes all of it */
static bool reader_copy(struct reader *r, void *to, const void *from, size_t size)
{
	ssize_t n = write(r->fds[1], from, size);
	char rest[64];

	if (n != (ssize_t)size) {
		while (n > 0 && read(r->fds[0], rest, sizeof(rest)) > 0)
			;
		return false;
	}
	return read(r->fds[0], to, size) == (ssize_t)size;
}

/* Is @head the head of the list? Then its last node is the one that was just added for @own, behind @old_last. */
static bool is_head(struct reader *r, struct mesh_driver_node *head, const struct mesh_driver_node *old_last,
		    const struct mesh_driver_ops *own)
{
	struct mesh_driver_node node;

	if ((uintptr_t)head->prev % sizeof(void *) || head->prev == head)
		return false;
	if (!reader_copy(r, &node, head->prev, sizeof(node)))
		return false;
	return node.ops == own && node.next == head && node.prev == old_last;
}

/* Checks that the list leads back to its head, that each prev is the reverse of a next, and that each name can be read. */
static int check_list(struct reader *r, struct mesh_driver_node *head, const struct mesh_driver_ops *own,
		      char *why, size_t why_size)
{
	struct mesh_driver_node *at = head->next, *prev = head;
	struct mesh_driver_node node;
	struct mesh_driver_ops ops;
	char name[8];
	unsigned int n;

	for (n = 0; at != head && n < DRIVERS_MAX; n++) {
		if (!reader_copy(r, &node, at, sizeof(node)) || node.prev != prev ||
		    !reader_copy(r, &ops, node.ops, sizeof(ops)) ||
		    !reader_copy(r, name, ops.name, sizeof("mesh"))) {
			snprintf(why, why_size, "its list of drivers is not one");
			return -ENOTSUP;
		}
		if (node.ops != own && !memcmp(name, "mesh", sizeof("mesh"))) {
			snprintf(why, why_size, "another copy of the plugin is loaded already");
			return -EEXIST;
		}
		prev = at;
		at = node.next;
	}
	if (n == DRIVERS_MAX || head->prev != prev) {
		snprintf(why, why_size, "its list of drivers does not end");
		return -ENOTSUP;
	}
	return 0;
}

int mesh_drivers_find(const struct mesh_library *lib, const struct mesh_driver_ops *own,
		      struct mesh_driver_node **ret_head, char *why, size_t why_size)
{
	size_t size = lib->data_end - lib->data_start, off;
	struct mesh_driver_node *head = NULL;
	struct reader reader;
	char *before;
	int err;

	err = reader_init(&reader);
	if (err) {
		snprintf(why, why_size, "no pipe: %s", strerrordesc_np(-err));
		return err;
	}
	before = malloc(size);
	if (!before) {
		snprintf(why, why_size, "out of memory");
		err = -ENOMEM;
		goto out;
	}

	memcpy(before, (const void *)lib->data_start, size);
	lib->register_driver(own);

	/*
	 * Registering has changed the head's prev, which is a word of the library's data. The new node points to the head, so
	 * only one place can pass.
	 */
	for (off = (size_t)(-lib->data_start % sizeof(void *)); off + 2 * sizeof(void *) <= size;
	     off += sizeof(void *)) {
		struct mesh_driver_node *candidate = (struct mesh_driver_node *)(lib->data_start + off);
		struct mesh_driver_node *old_last;

		memcpy(&old_last, before + off + sizeof(void *), sizeof(old_last));
		if (candidate->prev != old_last && is_head(&reader, candidate, old_last, own)) {
			head = candidate;
			break;
		}
	}
	if (!head) {
		snprintf(why, why_size, "its list of drivers was not found");
		err = -ENOTSUP;
		goto out;
	}
	err = check_list(&reader, head, own, why, why_size);
	if (!err)
		*ret_head = head;
out:
	free(before);
	reader_fini(&reader);
	return err;
}

struct mesh_driver_ops *mesh_drivers_lookup(struct mesh_driver_node *head, const char *name)
{
	struct mesh_driver_node *node;
	unsigned int n = 0;

	for (node = head->next; node != head && n < DRIVERS_MAX; node = node->next, n++)
		if (!strcmp(node->ops->name, name))
			return (struct mesh_driver_ops *)node->ops;
	return NULL;
}
