// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fork.h"
#include "paths.h"
#include "rails.h"
#include "tables.h"

#define FOLDER	"/dev/infiniband/"
#define FORK_MS 1000
#define GID_NS  5000000ull /* how long a looked-up index is used */
#define N_MARKS 24u /* see mark_files(); lower real-time signals are used by the C library */

bool mesh_rail_opening(const struct mesh_root *root)
{
	/* Only the thread itself ever stores its own id there. */
	unsigned long self = (unsigned long)pthread_self();
	bool opening = false;
	int i;

	for (i = 0; i < MESH_RAIL_OPENERS; i++)
		opening |= atomic_load_explicit(&root->process->rail_openers[i], memory_order_relaxed) == self;
	return opening;
}

/* Return: its place; NULL: too many threads. */
static _Atomic unsigned long *begin_opening(struct mesh_process *process)
{
	unsigned long none;
	int i;

	for (i = 0; i < MESH_RAIL_OPENERS; i++) {
		none = 0;
		if (atomic_compare_exchange_strong(&process->rail_openers[i], &none, (unsigned long)pthread_self()))
			return &process->rail_openers[i];
	}
	return NULL;
}

/*
 * Open the device file once for a try: if that fails, libibverbs would wait for udev for five seconds (rdma-core,
 * util/open_cdev.c), where the program on a bare HCA has an error within a second. Return: 0 or -errno.
 */
static int try_file(const struct ibv_device *device)
{
	char path[sizeof(FOLDER) + sizeof(device->dev_name)];
	int fd;

	if (!device->dev_name[0])
		return 0;
	snprintf(path, sizeof(path), "%s%s", FOLDER, device->dev_name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

bool mesh_rail_may_open(const char *device)
{
	struct mesh_process *process = mesh_root.process;
	const struct mesh_verbs *verbs = &mesh_root.lib.verbs;
	bool locked = mesh_fork_lock(&process->open_lock, FORK_MS), may;
	struct ibv_device **list;
	int i, n = 0;

	list = verbs->get_device_list(&n);
	for (i = 0; i < n && strcmp(list[i]->name, device) != 0; i++)
		;
	may = i < n && !try_file(list[i]);
	if (list)
		verbs->free_device_list(list);
	if (locked)
		mesh_unlock(&process->open_lock);
	return may;
}

/* Called with the device's lock only: a device that does not answer delays other threads by FORK_MS at most. */
static struct ibv_context *open_context(const char *device, char *why, size_t why_size)
{
	struct mesh_process *process = mesh_root.process;
	const struct mesh_verbs *verbs = &mesh_root.lib.verbs;
	struct ibv_context *context = NULL;
	_Atomic unsigned long *opener;
	struct ibv_device **list;
	bool locked;
	int i, n = 0, err = 0;

	/* A fork() that takes longer waits for a lock of this thread's callers. */
	locked = mesh_fork_lock(&process->open_lock, FORK_MS);
	list = verbs->get_device_list(&n);
	for (i = 0; i < n && strcmp(list[i]->name, device) != 0; i++)
		;
	if (i == n) {
		snprintf(why, why_size, "there is no device %s here", device);
	} else if ((err = try_file(list[i]))) {
		snprintf(why, why_size, "%s cannot be opened: %s", device, strerrordesc_np(-err));
	} else {
		opener = begin_opening(process);
		errno = EAGAIN;
		context = opener ? verbs->open_device(list[i]) : NULL;
		if (opener)
			atomic_store_explicit(opener, 0, memory_order_relaxed);
		if (!context)
			snprintf(why, why_size, "%s cannot be opened: %s", device, strerrordesc_np(errno));
	}
	if (list)
		verbs->free_device_list(list);
	if (locked)
		mesh_unlock(&process->open_lock);
	return context;
}

/* Check the calibration with the first open context, where it was only inferred. */
static bool confirm(struct mesh_root *root, const struct ibv_context *context)
{
	bool ok;

	mesh_lock(&root->process->hook_lock);
	if (!root->calibration_confirmed)
		root->calibration_confirmed =
			!mesh_calibration_confirm(&root->lib, &root->calibration, context);
	ok = root->calibration_confirmed;
	mesh_unlock(&root->process->hook_lock);
	return ok;
}

static bool set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static bool which_file(int fd, struct mesh_file *ret)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	*ret = (struct mesh_file){.fd = fd, .mark = fcntl(fd, F_GETSIG), .dev = st.st_dev, .ino = st.st_ino};
	return true;
}

/*
 * Give the rail's files a mark. All event files have one inode, and so have all openings of a device. Each open file has its own
 * signal number for O_ASYNC, which is not used otherwise. Rails that are opened one after the other get different numbers.
 */
static bool mark_files(struct mesh_rail *rail)
{
	const int fds[MESH_RAIL_FILES] = {
		[MESH_RAIL_COMP] = rail->channel->fd,
		[MESH_RAIL_ASYNC] = rail->context->async_fd,
		[MESH_RAIL_CMD] = rail->context->cmd_fd,
	};
	static _Atomic unsigned int n;
	int mark = SIGRTMAX - (int)(atomic_fetch_add_explicit(&n, 1, memory_order_relaxed) % N_MARKS), i;

	for (i = 0; i < MESH_RAIL_FILES; i++) {
		fcntl(fds[i], F_SETSIG, mark); /* if the kernel refuses, only the inode is compared */
		if (!which_file(fds[i], &rail->files[i]))
			return false;
	}
	return true;
}

static bool is_same(const struct mesh_file *file)
{
	struct mesh_file now;

	return which_file(file->fd, &now) && now.mark == file->mark && now.dev == file->dev && now.ino == file->ino;
}

/* Other threads may be using these numbers, in libibverbs and without a lock. */
static void strike(struct mesh_rail *rail)
{
	__atomic_store_n(&rail->channel->fd, -1, __ATOMIC_RELAXED);
	__atomic_store_n(&rail->context->async_fd, -1, __ATOMIC_RELAXED);
	__atomic_store_n(&rail->context->cmd_fd, -1, __ATOMIC_RELAXED);
	atomic_store_explicit(&rail->taken, true, memory_order_release);
}

bool mesh_rail_intact(struct mesh_rail *rail)
{
	int saved_errno = errno, i;

	if (mesh_rail_taken(rail))
		return false;
	for (i = 0; i < MESH_RAIL_FILES && is_same(&rail->files[i]); i++)
		;
	if (i < MESH_RAIL_FILES)
		strike(rail);
	errno = saved_errno;
	return i == MESH_RAIL_FILES;
}

bool mesh_rail_channel_intact(struct mesh_rail *rail)
{
	const struct mesh_file *file = &rail->files[MESH_RAIL_COMP];
	int saved_errno = errno;
	bool intact = file->mark > 0 && !mesh_rail_taken(rail) && fcntl(file->fd, F_GETSIG) == file->mark;

	errno = saved_errno;
	return intact || mesh_rail_intact(rail);
}

static struct mesh_rail *rail_new(const char *device, char *why, size_t why_size)
{
	const struct mesh_verbs *verbs = &mesh_root.lib.verbs;
	struct mesh_rail *rail = calloc(1, sizeof(*rail));

	if (!rail) {
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	snprintf(rail->device, sizeof(rail->device), "%s", device);
	rail->commands = mesh_device_get(device);
	rail->generation = atomic_load_explicit(&mesh_root.process->generation, memory_order_relaxed);
	rail->context = open_context(device, why, why_size);
	if (!rail->context)
		goto err_free;
	if (!confirm(&mesh_root, rail->context)) {
		snprintf(why, why_size, "%s creates completion queues in an unknown way", mesh_root.lib.path);
		goto err_close;
	}
	rail->channel = verbs->create_comp_channel(rail->context);
	if (!rail->channel) {
		snprintf(why, why_size, "%s gives no completion channel: %s", device, strerrordesc_np(errno));
		goto err_close;
	}
	if (!set_nonblocking(rail->channel->fd) || !set_nonblocking(rail->context->async_fd) || !mark_files(rail)) {
		snprintf(why, why_size, "%s: %s", device, strerrordesc_np(errno));
		goto err_channel;
	}
	mesh_lock_init(&rail->gid_lock);
	mesh_lock_init(&rail->srq_table_lock);
	return rail;

err_channel:
	verbs->destroy_comp_channel(rail->channel);
err_close:
	mesh_root.lib.close_device(rail->context);
err_free:
	free(rail);
	return NULL;
}

/* rails_lock. The rail may be out of the list already. */
static void take_out(struct mesh_rail *rail)
{
	struct mesh_rail **at;

	for (at = &mesh_root.rails; *at && *at != rail; at = &(*at)->next)
		;
	if (*at)
		*at = rail->next;
}

/* rails_lock */
static struct mesh_rail *find(const char *device)
{
	struct mesh_rail *rail;

	for (rail = mesh_root.rails; rail && strcmp(rail->device, device) != 0; rail = rail->next)
		;
	if (!rail || mesh_rail_intact(rail))
		return rail;
	take_out(rail); /* the helper thread finds that, too */
	return NULL;
}

/* rails_lock. Before a rail is opened, whose descriptors may reuse numbers of closed ones. */
static void look_at_all(void)
{
	struct mesh_rail *rail;

	for (rail = mesh_root.rails; rail; rail = rail->next)
		mesh_rail_intact(rail);
}

/* @fresh: NULL, or a new rail for the list. Return: with a reference; NULL: there is none. */
static struct mesh_rail *find_ref(const char *device, struct mesh_rail *fresh)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_rail *rail;

	mesh_lock(&process->rails_lock);
	if (mesh_root.rails && !mesh_rail_current(mesh_root.rails))
		mesh_root.rails = NULL; /* this is a child of fork() */
	rail = find(device);
	if (fresh) {
		rail = fresh;
		rail->next = mesh_root.rails;
		mesh_root.rails = rail;
	}
	if (rail)
		rail->refs++;
	else
		look_at_all();
	mesh_unlock(&process->rails_lock);
	return rail;
}

/* One thread at a time opens a device. */
static struct mesh_rail *open_ref(const char *device, char *why, size_t why_size)
{
	struct mesh_device *commands = mesh_device_get(device);
	struct mesh_rail *rail;
	int command;

	if (!commands) {
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	mesh_device_open_begin(commands);
	rail = find_ref(device, NULL);
	if (!rail) {
		command = mesh_command_begin(commands);
		rail = rail_new(device, why, why_size);
		mesh_command_end(commands, command);
		if (rail)
			rail = find_ref(device, rail);
	}
	mesh_device_open_end(commands);
	return rail;
}

struct mesh_rail *mesh_rail_get(const char *device, char *why, size_t why_size)
{
	int saved_errno = errno, cancel = mesh_cancel_off();
	struct mesh_rail *rail = find_ref(device, NULL);

	if (!rail)
		rail = open_ref(device, why, why_size);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return rail;
}

struct mesh_rail *mesh_rail_ref(struct mesh_rail *rail)
{
	mesh_lock(&mesh_root.process->rails_lock);
	rail->refs++;
	mesh_unlock(&mesh_root.process->rails_lock);
	return rail;
}

static void rail_free(struct mesh_device_job *job)
{
	struct mesh_rail *rail = (struct mesh_rail *)((char *)job - offsetof(struct mesh_rail, job));

	/* If not intact, closing would close the program's descriptors. */
	if (mesh_rail_intact(rail)) {
		mesh_root.lib.verbs.destroy_comp_channel(rail->channel);
		mesh_root.lib.close_device(rail->context);
	}
	mesh_lock_fini(&rail->srq_table_lock);
	mesh_lock_fini(&rail->gid_lock);
	free(rail);
}

void mesh_rail_lose(struct mesh_rail *rail)
{
	int saved_errno = errno, cancel = mesh_cancel_off();
	bool changed;

	mesh_lock(&mesh_root.process->rails_lock);
	changed = !mesh_rail_lost(rail);
	if (changed) {
		take_out(rail);
		atomic_store_explicit(&rail->lost, true, memory_order_release);
	}
	mesh_unlock(&mesh_root.process->rails_lock);
	if (changed) {
		/* Connections that have moved there have to leave. */
		atomic_store_explicit(&rail->ports_down, UINT32_MAX, memory_order_relaxed);
		mesh_rail_clients.lost(rail);
		if (mesh_rail_taken(rail))
			mv_log(&mesh_root.log, MV_LOG_WARN, "the program has closed descriptors of %s that are not its own; it will be opened again",
			       rail->device);
		else
			mv_log(&mesh_root.log, MV_LOG_WARN, "%s was reset or taken away; it will be opened again when it is there", rail->device);
	}
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

void mesh_rail_put(struct mesh_rail *rail)
{
	struct mesh_process *process = mesh_root.process;
	int saved_errno = errno, cancel;
	bool last;

	if (!rail || !mesh_rail_current(rail))
		return;
	cancel = mesh_cancel_off();
	mesh_lock(&process->rails_lock);
	last = !--rail->refs;
	if (last)
		take_out(rail);
	mesh_unlock(&process->rails_lock);
	if (last) {
		rail->job.run = rail_free;
		mesh_device_do(rail->commands, &rail->job);
	}
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

/* @ret_twins: the table has the GID more than once. */
static int find_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type, const union ibv_gid *dgid,
		    uint8_t *ret_index, bool *ret_twins)
{
	struct mv_gid_entry entries[MESH_PATHS_TWINS];
	ssize_t n = mesh_tables_find_gid(&mesh_root.lib, rail->context, port, gid, type, entries, MESH_PATHS_TWINS);

	if (n <= 0)
		return n ? (int)n : -ENOENT;
	*ret_twins = n > 1;
	*ret_index = (uint8_t)(n > 1 ? mesh_paths_towards(entries, (size_t)n, dgid) : &entries[0])->index;
	return 0;
}

int mesh_rail_find_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type,
		       const union ibv_gid *dgid, uint8_t *ret_index)
{
	bool twins;

	return find_gid(rail, port, gid, type, dgid, ret_index, &twins);
}

int mesh_rail_recall_gid(struct mesh_rail *rail, uint8_t port, const union ibv_gid *gid, uint8_t type,
			 const union ibv_gid *dgid, uint8_t *ret_index)
{
	struct mesh_rail_gid *known = &rail->known_gid;
	uint64_t now_ns = mesh_now_ns();
	int err = 0;

	mesh_lock(&rail->gid_lock);
	if (!known->asked_ns || now_ns >= known->asked_ns + GID_NS || known->port != port || known->type != type ||
	    !mv_gid_equal(&known->gid, gid) || known->twins) {
		*known = (struct mesh_rail_gid){.gid = *gid, .port = port, .type = type};
		err = find_gid(rail, port, gid, type, dgid, &known->index, &known->twins);
		if (!err)
			known->asked_ns = now_ns;
	}
	if (!err)
		*ret_index = known->index;
	mesh_unlock(&rail->gid_lock);
	return err;
}

void mesh_rail_forget_gid(struct mesh_rail *rail)
{
	mesh_lock(&rail->gid_lock);
	rail->known_gid.asked_ns = 0;
	mesh_unlock(&rail->gid_lock);
}

struct ibv_srq *mesh_rail_create_srq(struct mesh_rail *rail, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq;

	mesh_lock(&rail->srq_table_lock);
	srq = mesh_root.lib.verbs.create_srq(pd, attr);
	mesh_unlock(&rail->srq_table_lock);
	return srq;
}

int mesh_rail_destroy_srq(struct mesh_rail *rail, struct ibv_srq *srq)
{
	int err;

	if (!mesh_rail_intact(rail))
		return EBADF;
	mesh_lock(&rail->srq_table_lock);
	err = mesh_root.lib.verbs.destroy_srq(srq);
	mesh_unlock(&rail->srq_table_lock);
	return err;
}
