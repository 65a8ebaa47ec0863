// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dmabuf.h"
#include "keyahead.h"
#include "keys.h"
#include "pdstay.h"

LIST_HEAD(shadow_list, mesh_shadow_mr);

static struct mesh_keytab **keytab(void)
{
	return &mesh_root.keys.keytab;
}

/* Noting down */

static bool is_noted(const struct mesh_context *mc)
{
	return mesh_context_active(mc) && atomic_load_explicit(&mesh_root.moves, memory_order_relaxed);
}

/* One that is taken out. Who registers it on a rail goes on using it meanwhile: make_shadow(). */
static void key_free(struct mesh_key *key)
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
 * The program gets a remote key, perhaps one that another region had a moment ago, or this one, with other rights. Programs tell each
 * other of such things within microseconds: whoever was told what the key was on a rail is to have forgotten that by then.
 */
static void given(struct ibv_pd *pd, uint32_t rkey)
{
	int saved_errno = errno, cancel = mesh_cancel_off();

	if (mesh_root.key_given)
		mesh_root.key_given(pd, rkey);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

/* Where a library makes one way to register of another, the inner one has noted it. */
static bool is_known(const struct ibv_mr *mr, const struct ibv_pd *pd)
{
	int cancel = mesh_keys_lock();
	const struct mesh_key *key = mesh_keytab_find_mr(*keytab(), mr);
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
		err = mesh_keytab_add(keytab(), key);
		mesh_keys_unlock(locked);
	}
	if (err)
		key_free(key);
	else
		mesh_keys_ahead_news(key->pd);
	return err;
}

/* Note a region of a live context, before the program gets it. @with: what it was registered with, is taken over. */
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
	struct ibv_mr *mr = mc->reg_mr(pd, addr, length, iova, access);

	/* What we have registered ahead counts against the same limits. */
	if (!mr && (errno == ENOMEM || errno == EAGAIN) && is_noted(mc) && mesh_keys_ahead_give_back())
		mr = mc->reg_mr(pd, addr, length, iova, access);
	if (mr && is_noted(mc))
		note(mr, pd,
		     &(struct mesh_key){.addr = addr, .length = length, .iova = iova, .access = access}, -1);
	return mr;
}

struct ibv_mr *mesh_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				  int access)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	struct ibv_mr *mr = mc->reg_dmabuf_mr(pd, offset, length, iova, fd, access);

	if (mr && is_noted(mc))
		note(mr, pd,
		     &(struct mesh_key){.dmabuf_offset = offset, .length = length, .iova = iova, .access = access},
		     fd);
	return mr;
}

/* One of both is given. */
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
	struct ibv_mr *mr = mc->reg_mr_ex(pd, attr);
	struct mesh_key with;

	if (!mr && (errno == ENOMEM || errno == EAGAIN) && is_noted(mc) && mesh_keys_ahead_give_back())
		mr = mc->reg_mr_ex(pd, attr);
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
	struct ibv_mr *mr = mc->alloc_null_mr(pd);

	if (mr && is_noted(mc))
		note(mr, pd, &(struct mesh_key){.null_mr = true}, -1);
	return mr;
}

/* Forgetting */

/* keys_lock. Does a peer know a key of one of them? */
static bool any_told(const struct mesh_key *key)
{
	const struct mesh_shadow_mr *shadow;

	LIST_FOREACH(shadow, &key->shadows, of_key)
		if (shadow->told)
			return true;
	return false;
}

/* keys_lock. Counterparts go from both their lists to @gone, with a reference to their PDs; one that is not there yet its maker drops. */
static void unlink_shadow(struct mesh_shadow_mr *shadow, struct shadow_list *gone)
{
	LIST_REMOVE(shadow, of_key);
	LIST_REMOVE(shadow, of_pd);
	shadow->key = NULL;
	if (!shadow->mr)
		return;
	shadow->spd->refs++;
	LIST_INSERT_HEAD(gone, shadow, of_key);
	atomic_fetch_add_explicit(&mesh_root.process->keys_epoch, 1, memory_order_release);
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

/* With a reference to its PD. Without the lock. */
static void drop_shadow(struct mesh_shadow_mr *shadow)
{
	shadow->job.run = run_drop;
	mesh_device_do(shadow->spd->rail->commands, &shadow->job);
}

static void drop_shadows(struct shadow_list *gone)
{
	struct mesh_shadow_mr *shadow;

	while ((shadow = LIST_FIRST(gone))) {
		LIST_REMOVE(shadow, of_key);
		drop_shadow(shadow);
	}
}

/*
 * Take a region out, and have its counterparts go: who lets the program go on waits for that, mesh_devices_settle().
 *
 * Return: what was noted, now the caller's; NULL: nothing.
 */
static struct mesh_key *forget(const struct ibv_mr *mr)
{
	struct shadow_list gone = LIST_HEAD_INITIALIZER(gone);
	int saved_errno = errno, cancel = mesh_keys_lock();
	struct mesh_key *key = mesh_keytab_find_mr(*keytab(), mr);
	bool was_told = false;

	if (key) {
		mesh_keytab_del(*keytab(), key);
		was_told = any_told(key);
		unlink_shadows(key, &gone);
	}
	pthread_mutex_unlock(&mesh_root.process->keys_lock);
	if (was_told && mesh_root.key_dropped)
		mesh_root.key_dropped(key->pd, key->rkey);
	drop_shadows(&gone);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return key;
}

/* Put back what forget() gave; the table is there, so this takes no memory. */
static void remember(struct mesh_key *key)
{
	int cancel = mesh_keys_lock();

	mesh_keytab_add(keytab(), key);
	mesh_keys_unlock(cancel);
}

static const char unseen[] = "it has, or had, a memory region that was not registered by a function of libibverbs";

/* Of mlx5dv, most likely. What else the program has of that kind shows no earlier than this. */
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
		return mc->dereg_mr(mr);
	key = forget(mr);
	if (!key)
		note_unseen(mr);
	err = mc->dereg_mr(mr);
	saved_errno = errno;
	mesh_devices_settle();
	if (key && err) {
		remember(key);
		given(key->pd, key->rkey); /* it stays what it was; on the rails it will be another one */
	} else {
		key_free(key);
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
		return mc->rereg_mr(mr, flags, pd, addr, length, access);
	key = forget(mr);
	if (!key)
		note_unseen(mr);
	if (!key && flags & IBV_REREG_MR_CHANGE_PD)
		mesh_pd_stay(pd, unseen);
	err = mc->rereg_mr(mr, flags, pd, addr, length, access);
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
		key->not_ahead = false;
	}
	if (key) {
		remember(key);
		mesh_keys_ahead_news(key->pd);
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
	atomic_fetch_add_explicit(&mesh_root.process->keys_epoch, 1, memory_order_release);
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
	struct mesh_keytab_walk walk = {0};
	struct mesh_key *key, *keys = NULL;
	int cancel = mesh_keys_lock();

	while ((key = mesh_keytab_next_of(*keytab(), verbs, &walk))) {
		mesh_keytab_del(*keytab(), key);
		unlink_shadows(key, &gone);
		key->next[0] = keys;
		keys = key;
	}
	pthread_mutex_unlock(&mesh_root.process->keys_lock);
	drop_shadows(&gone);
	for (; (key = keys); key_free(key)) /* may wait for a fork */
		keys = key->next[0];
	mesh_cancel_restore(cancel);
}

/* Translating */

#define ESSENTIAL_ACCESS                                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                       \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

static struct ibv_mr *register_with(const struct mesh_key *key, struct mesh_pd *spd, int access)
{
	const struct mesh_library *lib = &mesh_root.lib;
	int fd;

	if (!mesh_rail_intact(spd->rail)) {
		errno = EBADF;
		return NULL;
	}
	if (key->null_mr)
		return ibv_alloc_null_mr(spd->pd);
	if (!key->dmabuf)
		return lib->verbs.reg_mr_iova2(spd->pd, key->addr, key->length, key->iova, (unsigned int)access);
	fd = mesh_dmabuf_fd(key->dmabuf);
	if (!lib->reg_dmabuf_mr || fd < 0) {
		errno = EBADF;
		return NULL;
	}
	return lib->reg_dmabuf_mr(spd->pd, key->dmabuf_offset, key->length, key->iova, fd, access);
}

/* Without the lock. @key: as it was with the lock. Return: NULL with @ret_err. */
static struct ibv_mr *register_on(const struct mesh_key *key, struct mesh_pd *spd, int *ret_err)
{
	struct ibv_mr *mr = register_with(key, spd, key->access);

	/* A NIC of another make may lack what only makes things faster. */
	if (!mr && key->access & ~ESSENTIAL_ACCESS)
		mr = register_with(key, spd, key->access & ESSENTIAL_ACCESS);
	*ret_err = mr ? 0 : errno ? -errno : -EIO;
	return mr;
}

static struct mesh_shadow_mr *find_shadow(const struct mesh_key *key, const struct mesh_pd *spd)
{
	struct mesh_shadow_mr *shadow;

	LIST_FOREACH(shadow, &key->shadows, of_key)
		if (shadow->spd == spd)
			return shadow;
	return NULL;
}

/* keys_lock. Return: one that is not there yet, for make_shadow(); NULL: no memory */
static struct mesh_shadow_mr *shadow_new(struct mesh_key *key, struct mesh_pd *spd)
{
	struct mesh_shadow_mr *shadow = calloc(1, sizeof(*shadow));

	if (!shadow)
		return NULL;
	shadow->key = key;
	shadow->spd = spd;
	LIST_INSERT_HEAD(&key->shadows, shadow, of_key);
	LIST_INSERT_HEAD(&spd->shadows, shadow, of_pd);
	key->n_makers++;
	return shadow;
}

/* keys_lock, which is let go: the region went meanwhile, as did the counterpart, which nobody has seen. */
static void drop_late(struct mesh_shadow_mr *shadow, struct mesh_key *key)
{
	struct mesh_process *process = mesh_root.process;
	bool last = key->gone && !key->n_makers;

	if (shadow)
		shadow->spd->refs++;
	pthread_mutex_unlock(&process->keys_lock);
	if (shadow)
		drop_shadow(shadow);
	if (last)
		key_free(key);
	pthread_mutex_lock(&process->keys_lock);
}

/*
 * keys_lock, which is let go meanwhile: memory may take long to register, and a firmware that hangs seconds. Those who need the same
 * region on another rail, or take it away, wait for nothing.
 *
 * Return: 0 or -errno; the counterpart may be gone again by then.
 */
static int make_shadow(struct mesh_key *key, struct mesh_pd *spd, bool ahead)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_shadow_mr *shadow = shadow_new(key, spd);
	const struct mesh_key with = *key; /* it may be registered anew */
	struct ibv_mr *mr;
	int err;

	if (!shadow)
		return -ENOMEM;
	pthread_mutex_unlock(&process->keys_lock);
	mr = register_on(&with, spd, &err);
	if (err && !ahead)
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "a memory region of %llu bytes cannot be registered on %s: %s",
			    (unsigned long long)with.length, spd->rail->device, strerrordesc_np(-err));
	pthread_mutex_lock(&process->keys_lock);
	key->n_makers--;
	shadow->mr = mr;
	if (shadow->key && err) {
		LIST_REMOVE(shadow, of_key);
		LIST_REMOVE(shadow, of_pd);
		key->not_ahead |= ahead;
	}
	pthread_cond_broadcast(&process->keys_cond);
	if (shadow->key && !err)
		return 0;
	if (err) {
		free(shadow);
		shadow = NULL;
	}
	drop_late(shadow, key);
	return err;
}

/* Return: 0 with @ret_mr, which is valid under the lock. */
static int translate_locked(struct mesh_pd *spd, enum mesh_key_index index, uint32_t value, bool ahead,
			    struct ibv_mr **ret_mr)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_shadow_mr *shadow;
	struct mesh_key *key;
	int err;

	/* Whatever happened while the lock was let go, it is looked up again. */
	while ((key = mesh_keytab_find(*keytab(), index, spd->program, value))) {
		shadow = find_shadow(key, spd);
		if (shadow && !shadow->mr) {
			pthread_cond_wait(&process->keys_cond, &process->keys_lock);
			continue;
		}
		if (shadow) {
			shadow->used |= !ahead;
			shadow->told |= index == MESH_BY_RKEY;
			*ret_mr = shadow->mr;
			return 0;
		}
		err = make_shadow(key, spd, ahead);
		if (err)
			return err;
	}
	return -ENOENT;
}

static int translate(struct mesh_pd *spd, enum mesh_key_index index, uint32_t value, uint32_t *ret)
{
	struct ibv_mr *mr = spd->dummy;
	int saved_errno = errno, cancel = mesh_keys_lock(), err;

	err = translate_locked(spd, index, value, false, &mr);
	*ret = index == MESH_BY_LKEY ? mr->lkey : mr->rkey;
	mesh_keys_unlock(cancel);
	errno = saved_errno;
	return err;
}

int mesh_key_local(struct mesh_pd *spd, uint32_t lkey, uint32_t *ret_lkey)
{
	return translate(spd, MESH_BY_LKEY, lkey, ret_lkey);
}

int mesh_key_remote(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey)
{
	return translate(spd, MESH_BY_RKEY, rkey, ret_rkey);
}

int mesh_key_remote_ready(struct mesh_pd *spd, uint32_t rkey, uint32_t *ret_rkey)
{
	int cancel = mesh_keys_lock();
	struct mesh_key *key = mesh_keytab_find(*keytab(), MESH_BY_RKEY, spd->program, rkey);
	struct mesh_shadow_mr *shadow = key ? find_shadow(key, spd) : NULL;

	if (shadow && !shadow->mr)
		shadow = NULL;
	if (shadow) {
		shadow->used = shadow->told = true;
		*ret_rkey = shadow->mr->rkey;
	}
	mesh_keys_unlock(cancel);
	return shadow ? 0 : key ? -EAGAIN : -ENOENT;
}

int mesh_key_ahead(struct mesh_pd *spd, uint32_t lkey)
{
	int saved_errno = errno, cancel = mesh_keys_lock(), err;
	struct ibv_mr *mr;

	err = translate_locked(spd, MESH_BY_LKEY, lkey, true, &mr);
	mesh_keys_unlock(cancel);
	errno = saved_errno;
	return err;
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
	pthread_mutex_unlock(&mesh_root.process->keys_lock);
	drop_shadows(&gone);
	mesh_cancel_restore(cancel);
	if (any)
		mesh_devices_settle();
	return any;
}
