// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "keys.h"
#include "pdstay.h"

/* A parent domain of the program: its objects belong to another PD. */
struct mesh_parent {
	struct mesh_parent *next;
	struct ibv_pd *parent, *underlying;
	struct ibv_context *verbs;
};

/* Not a virtual address of x86-64, arm64 or POWER, with or without pointer tags. */
#define NOWHERE 0x7edcba9876540000ull

/* Register one byte, without rights, at an iova where no memory is. Any access with its keys fails. */
static int make_dummy(struct mesh_pd *spd)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);

	spd->dummy_page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (spd->dummy_page == MAP_FAILED)
		return -errno;
	spd->dummy = mesh_root.lib.verbs.reg_mr_iova2(spd->pd, spd->dummy_page, 1, NOWHERE, 0);
	if (!spd->dummy) {
		int err = mesh_failure();

		munmap(spd->dummy_page, size);
		return err;
	}
	return 0;
}

static void pd_free(struct mesh_pd *spd)
{
	bool intact = mesh_rail_intact(spd->rail);

	if (spd->dummy && intact)
		mesh_root.lib.verbs.dereg_mr(spd->dummy);
	if (spd->dummy)
		munmap(spd->dummy_page, (size_t)sysconf(_SC_PAGESIZE));
	if (spd->pd && intact)
		mesh_root.lib.verbs.dealloc_pd(spd->pd);
	mesh_rail_put(spd->rail);
	free(spd);
}

static void run_free(struct mesh_device_job *job)
{
	struct mesh_pd *spd = (struct mesh_pd *)job;

	mesh_keys_drop_pd(spd);
	pd_free(spd);
}

static struct mesh_pd *pd_new(struct ibv_pd *program, struct mesh_rail *rail, char *why, size_t why_size)
{
	struct mesh_pd *spd = calloc(1, sizeof(*spd));

	if (!spd) {
		snprintf(why, why_size, "out of memory");
		return NULL;
	}
	LIST_INIT(&spd->shadows);
	spd->program = program;
	spd->verbs = program->context;
	spd->rail = mesh_rail_ref(rail);
	errno = EBADF;
	if (mesh_rail_intact(rail))
		spd->pd = mesh_root.lib.verbs.alloc_pd(rail->context);
	if (!spd->pd || make_dummy(spd)) {
		snprintf(why, why_size, "%s gives no protection domain: %s", rail->device, strerrordesc_np(errno));
		pd_free(spd);
		return NULL;
	}
	return spd;
}

/* process->keys.lock */
static struct ibv_pd *underlying(struct ibv_pd *pd)
{
	const struct mesh_parent *p;

	for (p = mesh_root.keys.parents; p; p = p->next)
		if (p->parent == pd)
			return p->underlying;
	return pd;
}

struct ibv_pd *mesh_pd_underlying(struct ibv_pd *pd)
{
	int cancel = mesh_keys_lock();

	pd = underlying(pd);
	mesh_keys_unlock(cancel);
	return pd;
}

/* process->keys.lock. Takes a reference. PDs on a lost rail are not in the list: mesh_pds_lose(). */
static struct mesh_pd *find(const struct ibv_pd *program, const struct mesh_rail *rail)
{
	struct mesh_pd *spd;

	for (spd = mesh_root.keys.pds; spd; spd = spd->next) {
		if (spd->program == program && spd->rail == rail) {
			spd->refs++;
			return spd;
		}
	}
	return NULL;
}

struct mesh_pd *mesh_pd_get(struct mesh_context *mc, struct ibv_pd *program, struct mesh_rail *rail, char *why,
			    size_t why_size)
{
	int saved_errno = errno, cancel = mesh_cancel_off(), locked;
	struct mesh_pd *spd, *fresh = NULL;

	if (!mc->can_move || !mesh_context_active(mc) || !mesh_rail_current(rail)) {
		snprintf(why, why_size, "it was opened before a fork");
		mesh_cancel_restore(cancel);
		return NULL;
	}
	locked = mesh_keys_lock();
	program = underlying(program);
	spd = find(program, rail);
	mesh_keys_unlock(locked);
	if (!spd)
		fresh = pd_new(program, rail, why, why_size);
	if (fresh) {
		locked = mesh_keys_lock();
		spd = find(program, rail); /* another thread may have been faster */
		if (mesh_rail_lost(rail)) {
			snprintf(why, why_size, "%s was reset or taken away", rail->device);
		} else if (!spd) {
			fresh->refs = 2;
			fresh->next = mesh_root.keys.pds;
			mesh_root.keys.pds = spd = fresh;
			fresh = NULL;
		}
		mesh_keys_unlock(locked);
	}
	if (fresh)
		pd_free(fresh);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return spd;
}

struct mesh_pd *mesh_pd_ref(struct mesh_pd *spd)
{
	int cancel = mesh_keys_lock();

	spd->refs++;
	mesh_keys_unlock(cancel);
	return spd;
}

void mesh_pd_put(struct mesh_pd *spd)
{
	int saved_errno = errno, cancel;
	bool last;

	if (!spd || !mesh_rail_current(spd->rail))
		return;
	cancel = mesh_keys_lock();
	last = !--spd->refs;
	if (last)
		mesh_keys_leave_pd(spd);
	mesh_unlock(&mesh_root.process->keys.lock);
	if (last) {
		spd->job.run = run_free;
		mesh_device_do(spd->rail->commands, &spd->job);
	}
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

/*
 * Take PDs on rails out of the list: those of one PD of the program, of a context, or on a rail. They live on while connections
 * use them.
 */
static void detach(const struct ibv_pd *program, const struct ibv_context *verbs, const struct mesh_rail *rail)
{
	struct mesh_pd **at, *spd, *gone = NULL;
	int cancel = mesh_keys_lock();

	for (at = &mesh_root.keys.pds; (spd = *at);) {
		if (spd->program == program || spd->verbs == verbs || spd->rail == rail) {
			*at = spd->next;
			spd->prereg = false;
			spd->next = gone;
			gone = spd;
		} else {
			at = &spd->next;
		}
	}
	mesh_keys_unlock(cancel);
	while ((spd = gone)) {
		gone = spd->next;
		mesh_pd_put(spd);
	}
}

/* Take parent domains out of the list: one, or all of a context. Return: the last of them; the others are freed. */
static struct mesh_parent *drop_parents(const struct ibv_pd *parent, const struct ibv_context *verbs)
{
	struct mesh_parent **at, *p, *gone = NULL;
	int cancel = mesh_keys_lock();

	for (at = &mesh_root.keys.parents; (p = *at);) {
		if (p->parent == parent || p->verbs == verbs) {
			*at = p->next;
			free(gone);
			gone = p;
		} else {
			at = &p->next;
		}
	}
	mesh_keys_unlock(cancel);
	return gone;
}

static void add_parent(struct mesh_parent *p)
{
	int cancel = mesh_keys_lock();

	p->next = mesh_root.keys.parents;
	mesh_root.keys.parents = p;
	mesh_keys_unlock(cancel);
}

void mesh_pds_lose(const struct mesh_rail *rail)
{
	detach(NULL, NULL, rail);
}

void mesh_pds_close(struct ibv_context *verbs)
{
	int cancel = mesh_cancel_off();

	detach(NULL, verbs, NULL);
	free(drop_parents(NULL, verbs));
	mesh_pd_stay_no_more(NULL, verbs);
	mesh_devices_settle();
	mesh_cancel_restore(cancel);
}

struct ibv_pd *mesh_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	struct mesh_context *mc = mesh_context_get(context);
	struct ibv_pd *pd = mc->lower.pd.alloc_parent_domain(context, attr);
	int saved_errno = errno, cancel;
	struct mesh_parent *p;

	if (!pd || !mesh_context_active(mc))
		return pd;
	cancel = mesh_cancel_off();
	p = malloc(sizeof(*p));
	if (p) {
		*p = (struct mesh_parent){.parent = pd, .underlying = mesh_pd_underlying(attr->pd), .verbs = context};
		add_parent(p);
	} else {
		mesh_pd_stay(pd, "it is a parent domain that there was no memory to note");
		mesh_pd_stay(attr->pd, "it has a parent domain that there was no memory to note");
	}
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return pd;
}

int mesh_dealloc_pd(struct ibv_pd *pd)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	int saved_errno = errno, cancel, err;
	const char *stays;
	struct mesh_parent *p;

	if (!mesh_context_active(mc))
		return mc->lower.pd.dealloc_pd(pd);

	/* Before the lower provider deallocates the PD: afterwards another PD may get its address at any moment. */
	cancel = mesh_cancel_off();
	stays = mesh_pd_stays(pd);
	detach(pd, NULL, NULL);
	mesh_pd_stay_no_more(pd, NULL);
	p = drop_parents(pd, NULL);
	mesh_cancel_restore(cancel);
	errno = saved_errno;

	err = mc->lower.pd.dealloc_pd(pd);
	mesh_devices_settle();
	if (err && stays)
		mesh_pd_stay(pd, stays);
	if (!p)
		return err;
	saved_errno = errno;
	cancel = mesh_cancel_off();
	if (err)
		add_parent(p);
	else
		free(p);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
	return err;
}

/* The kernel's PD lives on, but another PD may get this address. */
void mesh_unimport_pd(struct ibv_pd *pd)
{
	struct mesh_context *mc = mesh_context_get(pd->context);
	int saved_errno = errno, cancel;

	if (mesh_context_active(mc)) {
		cancel = mesh_cancel_off();
		detach(pd, NULL, NULL);
		mesh_pd_stay_no_more(pd, NULL);
		mesh_cancel_restore(cancel);
		errno = saved_errno;
	}
	mc->lower.pd.unimport_pd(pd);
}
