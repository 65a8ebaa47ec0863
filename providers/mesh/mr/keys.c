// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmabuf.h"
#include "keys.h"
#include "mr_prereg.h"
#include "pdstay.h"

LIST_HEAD(shadow_list, mesh_shadow_mr);

struct mesh_mr_table **mesh_keys_table(void)
{
	return &mesh_root.keys.mr_table;
}

/* Recording */

static bool is_noted(const struct mesh_context *mc)
{
	return mesh_context_active(mc) && atomic_load_explicit(&mesh_root.moves, memory_order_relaxed);
}

/* @key is out of the table. A thread in mesh_keys_make_shadow() may still use it: then that thread frees it. */
void mesh_key_free(struct mesh_key *key)
{
	int locked;

	if (!key)
		return;
	locked = mesh_keys_lock();
	key->gone = true;
	if (key->n_makers)
		key = NULL;
	mesh_keys_unlock(locked);
	if (!key)
		return;
	mesh_dmabuf_drop(key->dmabuf);
	free(key);
}

/*
 * The program gets an rkey, which may have belonged to another region, or to this region with other rights. Programs pass keys to
 * their peers within microseconds. So before this call returns, peers have to forget translations of that key.
 */
static void given(struct ibv_pd *pd, uint32_t rkey)
{
	int saved_errno = errno, cancel = mesh_cancel_off();

	if (mesh_root.key_given)
		mesh_root.key_given(pd, rkey);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

/* Has an inner call recorded the region already? A library may implement one function by another. */
static bool is_known(const struct ibv_mr *mr, const struct ibv_pd *pd)
{
	int cancel = mesh_keys_lock();
	const struct mesh_key *key = mesh_mr_table_find_mr(*mesh_keys_table(), mr);
	bool known = key && key->pd == pd && key->lkey == mr->lkey && key->rkey == mr->rkey;

	mesh_keys_unlock(cancel);
	return known;
}

/* Return: 0 or -errno. */
static int add_noted(struct ibv_mr *mr, struct ibv_pd *pd, const struct mesh_key *with, int fd)
{
	struct mesh_key *key = malloc(sizeof(*key));
	int err, locked;

	if (!key)
		return -ENOMEM;
	*key = *with;
	key->mr = mr;
	key->pd = mesh_pd_underlying(pd);
	key->verbs = pd->context;
	key->lkey = mr->lkey;
	key->rkey = mr->rkey;
	LIST_INIT(&key->shadows);
	key->dmabuf = fd >= 0 ? mesh_dmabuf_keep(fd) : NULL;
	err = fd >= 0 && !key->dmabuf ? -errno : 0;
	if (!err) {
		locked = mesh_keys_lock();
		err = mesh_mr_table_add(mesh_keys_table(), key);
		mesh_keys_unlock(locked);
	}
	if (err)
		mesh_key_free(key);
	else
		mesh_mr_prereg_changed(key->pd);
	return err;
}

/* Record a region before the program gets it. @with: the arguments of its registration; copied. */
static void note(struct ibv_mr *mr, struct ibv_pd *pd, const struct mesh_key *with, int fd)
{
	int saved_errno = errno, cancel = mesh_cancel_off(), err = 0;

	if (!is_known(mr, mesh_pd_underlying(pd)))
		err = add_noted(mr, pd, with, fd);
	if (err)
		mesh_pd_stay(pd, err == -EMFILE ? "it has a region of a dma-buf that could not be noted: a quarter of the limit of open "
						  "files is there for those" :
						  "it has a memory region that could not be noted");
	given(pd, mr->rkey);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

struct ibv_mr *mesh_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	struct ibv_mr *mr = mc->lower.mr.reg_mr(pd, addr, length, iova, access);

	/* Regions registered in advance count against the same limits: give them back, and try again. */
	if (!mr && (errno == ENOMEM || errno == EAGAIN) && is_noted(mc) && mesh_mr_prereg_give_back())
		mr = mc->lower.mr.reg_mr(pd, addr, length, iova, access);
	if (mr && is_noted(mc))
		note(mr, pd,
		     &(struct mesh_key){.addr = addr, .length = length, .iova = iova, .access = access}, -1);
	return mr;
}

struct ibv_mr *mesh_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				  int access)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	struct ibv_mr *mr = mc->lower.mr.reg_dmabuf_mr(pd, offset, length, iova, fd, access);

	if (mr && is_noted(mc))
		note(mr, pd,
		     &(struct mesh_key){.dmabuf_offset = offset, .length = length, .iova = iova, .access = access},
		     fd);
	return mr;
}

/* @attr has either an address or a descriptor. */
static struct mesh_key described(const struct mesh_mr_init_attr *attr)
{
	struct mesh_key key = {.length = attr->length, .access = attr->access};

	if (attr->comp_mask & MESH_MR_FD)
		key.dmabuf_offset = attr->fd_offset;
	else
		key.addr = attr->addr;
	key.iova = attr->comp_mask & MESH_MR_IOVA ? attr->iova : (uintptr_t)key.addr;
	return key;
}

struct ibv_mr *mesh_reg_mr_ex(struct ibv_pd *pd, struct mesh_mr_init_attr *attr)
{
	const uint64_t known = MESH_MR_IOVA | MESH_MR_ADDR | MESH_MR_FD | MESH_MR_FD_OFFSET | MESH_MR_DMAH;
	struct mesh_context *mc = mesh_context_get(pd->context);
	uint64_t mask = attr->comp_mask;
	struct ibv_mr *mr = mc->lower.mr.reg_mr_ex(pd, attr);
	struct mesh_key with;

	if (!mr && (errno == ENOMEM || errno == EAGAIN) && is_noted(mc) && mesh_mr_prereg_give_back())
		mr = mc->lower.mr.reg_mr_ex(pd, attr);
	if (!mr || !is_noted(mc))
		return mr;
	if (mask & ~known || !(mask & (MESH_MR_ADDR | MESH_MR_FD))) {
		mesh_pd_stay(pd, mesh_mr_source_why(MESH_SOURCE_ibv_reg_mr_ex));
		return mr;
	}
	with = described(attr);
	note(mr, pd, &with, mask & MESH_MR_FD ? attr->fd : -1);
	return mr;
}

struct ibv_mr *mesh_alloc_null_mr(struct ibv_pd *pd)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	struct ibv_mr *mr = mc->lower.mr.alloc_null_mr(pd);

	if (mr && is_noted(mc))
		note(mr, pd, &(struct mesh_key){.null_mr = true}, -1);
	return mr;
}

/* Forgetting */

/* process->keys.lock. Was a peer told a key of one of its shadows? */
static bool any_told(const struct mesh_key *key)
{
	const struct mesh_shadow_mr *shadow;

	LIST_FOREACH(shadow, &key->shadows, of_key)
		if (shadow->told)
			return true;
	return false;
}

/*
 * process->keys.lock. Moves a shadow to @gone, with a reference to its PD. A shadow that is still being registered is dropped by
 * its maker.
 */
static void unlink_shadow(struct mesh_shadow_mr *shadow, struct shadow_list *gone)
{
	LIST_REMOVE(shadow, of_key);
	LIST_REMOVE(shadow, of_pd);
	shadow->key = NULL;
	if (!shadow->mr)
		return;
	shadow->spd->refs++;
	LIST_INSERT_HEAD(gone, shadow, of_key);
	atomic_fetch_add_explicit(&mesh_root.process->keys.epoch, 1, memory_order_release);
}

static void unlink_shadows(struct mesh_key *key, struct shadow_list *gone)
{
	struct mesh_shadow_mr *shadow;

	while ((shadow = LIST_FIRST(&key->shadows)))
		unlink_shadow(shadow, gone);
}

static void shadow_free(struct mesh_shadow_mr *shadow)
{
	if (mesh_rail_intact(shadow->spd->rail))
		mesh_root.lib.verbs.dereg_mr(shadow->mr);
	free(shadow);
}

static void run_drop(struct mesh_device_job *job)
{
	struct mesh_shadow_mr *shadow = (struct mesh_shadow_mr *)job;
	struct mesh_pd *spd = shadow->spd;

	shadow_free(shadow);
	mesh_pd_put(spd);
}

/* The shadow has a reference to its PD. Called without the lock. */
void mesh_shadow_mr_drop(struct mesh_shadow_mr *shadow)
{
	shadow->job.run = run_drop;
	mesh_device_do(shadow->spd->rail->commands, &shadow->job);
}

static void drop_shadows(struct shadow_list *gone)
{
	struct mesh_shadow_mr *shadow;

	while ((shadow = LIST_FIRST(gone))) {
		LIST_REMOVE(shadow, of_key);
		mesh_shadow_mr_drop(shadow);
	}
}

/*
 * Take a region out of the table, and have its shadows deregistered. The caller waits for that with mesh_devices_settle() before
 * the program goes on.
 *
 * Return: the record, now the caller's; NULL: there is none.
 */
static struct mesh_key *forget(const struct ibv_mr *mr)
{
	struct shadow_list gone = LIST_HEAD_INITIALIZER(gone);
	int saved_errno = errno, cancel = mesh_keys_lock();
	struct mesh_key *key = mesh_mr_table_find_mr(*mesh_keys_table(), mr);
	bool was_told = false;

	if (key) {
		mesh_mr_table_del(*mesh_keys_table(), key);
		was_told = any_told(key);
		unlink_shadows(key, &gone);
	}
	mesh_unlock(&mesh_root.process->keys.lock);
	if (was_told && mesh_root.key_dropped)
		mesh_root.key_dropped(key->pd, key->rkey);
	drop_shadows(&gone);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return key;
}

/* Undo forget(). Cannot fail: the table exists. */
static void remember(struct mesh_key *key)
{
	int cancel = mesh_keys_lock();

	mesh_mr_table_add(mesh_keys_table(), key);
	mesh_keys_unlock(cancel);
}

static const char unseen[] = "it has, or had, a memory region that was not registered by a function of libibverbs";

/*
 * A region that was not recorded, most likely made by mlx5dv: the program may have more such regions, which show no earlier than
 * this.
 */
static void note_unseen(const struct ibv_mr *mr)
{
	if (mr->pd && is_noted(mesh_context_get(mr->context)))
		mesh_pd_stay(mr->pd, unseen);
}

int mesh_dereg_mr(struct ibv_mr *mr)
{
	struct mesh_context *mc = mesh_context_get(mr->context);
	struct mesh_key *key;
	int err, saved_errno;

	if (!mesh_context_active(mc))
		return mc->lower.mr.dereg_mr(mr);
	key = forget(mr);
	if (!key)
		note_unseen(mr);
	err = mc->lower.mr.dereg_mr(mr);
	saved_errno = errno;
	mesh_devices_settle();
	if (key && err) {
		remember(key);
		given(key->pd, key->rkey); /* the key stays valid, but its translations on rails change */
	} else {
		mesh_key_free(key);
	}
	errno = saved_errno;
	return err;
}

int mesh_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct mesh_context *mc = mesh_context_get(mr->context);
	struct mesh_key *key;
	int err, saved_errno;

	if (!mesh_context_active(mc))
		return mc->lower.mr.rereg_mr(mr, flags, pd, addr, length, access);
	key = forget(mr);
	if (!key)
		note_unseen(mr);
	if (!key && flags & IBV_REREG_MR_CHANGE_PD)
		mesh_pd_stay(pd, unseen);
	err = mc->lower.mr.rereg_mr(mr, flags, pd, addr, length, access);
	saved_errno = errno;
	mesh_devices_settle();
	if (key && !err) {
		if (flags & IBV_REREG_MR_CHANGE_PD)
			key->pd = mesh_pd_underlying(pd);
		if (flags & IBV_REREG_MR_CHANGE_ACCESS)
			key->access = access;
		if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
			key->addr = addr;
			key->length = length;
			key->iova = (uintptr_t)addr;
		}
		key->lkey = mr->lkey;
		key->rkey = mr->rkey;
		key->no_prereg = false;
	}
	if (key) {
		remember(key);
		mesh_mr_prereg_changed(key->pd);
		given(key->pd, mr->rkey);
	}
	errno = saved_errno;
	return err;
}

void mesh_keys_leave_pd(struct mesh_pd *spd)
{
	struct mesh_shadow_mr *shadow;

	LIST_FOREACH(shadow, &spd->shadows, of_pd) {
		LIST_REMOVE(shadow, of_key);
		shadow->key = NULL;
	}
	atomic_fetch_add_explicit(&mesh_root.process->keys.epoch, 1, memory_order_release);
}

void mesh_keys_drop_pd(struct mesh_pd *spd)
{
	struct mesh_shadow_mr *shadow;

	while ((shadow = LIST_FIRST(&spd->shadows))) {
		LIST_REMOVE(shadow, of_pd);
		shadow_free(shadow);
	}
}

void mesh_keys_close(struct ibv_context *verbs)
{
	struct shadow_list gone = LIST_HEAD_INITIALIZER(gone);
	struct mesh_mr_table_walk walk = {0};
	struct mesh_key *key, *keys = NULL;
	int cancel = mesh_keys_lock();

	while ((key = mesh_mr_table_next_of(*mesh_keys_table(), verbs, &walk))) {
		mesh_mr_table_del(*mesh_keys_table(), key);
		unlink_shadows(key, &gone);
		key->next[0] = keys;
		keys = key;
	}
	mesh_unlock(&mesh_root.process->keys.lock);
	drop_shadows(&gone);
	for (; (key = keys); mesh_key_free(key)) /* may wait for a fork */
		keys = key->next[0];
	mesh_cancel_restore(cancel);
}

bool mesh_keys_drop_unused(void)
{
	struct shadow_list gone = LIST_HEAD_INITIALIZER(gone);
	struct mesh_shadow_mr *shadow, *next;
	struct mesh_pd *spd;
	int cancel = mesh_keys_lock();
	bool any;

	for (spd = mesh_root.keys.pds; spd; spd = spd->next) {
		for (shadow = LIST_FIRST(&spd->shadows); shadow; shadow = next) {
			next = LIST_NEXT(shadow, of_pd);
			if (!shadow->used && shadow->mr)
				unlink_shadow(shadow, &gone);
		}
	}
	any = !LIST_EMPTY(&gone);
	mesh_unlock(&mesh_root.process->keys.lock);
	drop_shadows(&gone);
	mesh_cancel_restore(cancel);
	if (any)
		mesh_devices_settle();
	return any;
}
