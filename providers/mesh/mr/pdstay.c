// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "pdstay.h"

#include <errno.h>
#include <stdlib.h>

#include "keys.h"

static const char late[] = "it uses a key that was not registered by a function of libibverbs";
static const char foreign[] = "it has a key that was not registered by a function of libibverbs";

static const char *const source_why[MESH_N_MR_SOURCES] = {
#define X(function, what, why) why,
	MESH_MR_SOURCES(X)
#undef X
};

const char *mesh_mr_source_why(enum mesh_mr_source source)
{
	return source_why[source];
}

struct mesh_pd_stay {
	struct mesh_pd_stay *next;
	const struct ibv_pd *pd; /* never a parent domain */
	const struct ibv_context *verbs;
	const char *why;
};

/* process->keys.lock */
static struct mesh_pd_stay *find(const struct ibv_pd *pd)
{
	struct mesh_pd_stay *stay;

	for (stay = mesh_root.keys.stays; stay && stay->pd != pd; stay = stay->next)
		;
	return stay;
}

/* @stay: filled in. Return: true: added, and owned by the list. */
static bool add(struct mesh_pd_stay *stay)
{
	int cancel = mesh_keys_lock();
	bool fresh = !find(stay->pd);

	if (fresh) {
		stay->next = mesh_root.keys.stays;
		mesh_root.keys.stays = stay;
		atomic_fetch_add_explicit(&mesh_root.process->keys.n_stays, 1, memory_order_release);
	}
	mesh_keys_unlock(cancel);
	return fresh;
}

static void note(struct ibv_pd *pd, const char *why)
{
	const struct mesh_context *mc = mesh_context_get(pd->context);
	struct mesh_pd_stay *stay = malloc(sizeof(*stay));

	if (stay) {
		*stay = (struct mesh_pd_stay){.pd = mesh_pd_underlying(pd), .verbs = pd->context, .why = why};
		if (!add(stay)) {
			free(stay);
			return;
		}
	} else {
		atomic_store_explicit(&mesh_root.process->keys.all_stay, why, memory_order_release);
	}
	mv_log_once(&mesh_root.log, MV_LOG_INFO, "%s: connections of a protection domain stay where they are: %s", mc->device, why);
}

void mesh_pd_stay(struct ibv_pd *pd, const char *why)
{
	const struct mesh_context *mc = mesh_context_get(pd->context);
	int saved_errno = errno, cancel;

	if (!mc || !mc->can_move || !mesh_context_active(mc))
		return;
	cancel = mesh_cancel_off();
	note(pd, why);
	mesh_cancel_restore(cancel);
	errno = saved_errno;
}

const char *mesh_pd_stays(struct ibv_pd *pd)
{
	const struct mesh_process *process = mesh_root.process;
	const char *why = atomic_load_explicit(&process->keys.all_stay, memory_order_acquire);
	const struct mesh_pd_stay *stay;
	int cancel;

	if (why || !atomic_load_explicit(&process->keys.n_stays, memory_order_acquire))
		return why;
	pd = mesh_pd_underlying(pd);
	cancel = mesh_keys_lock();
	stay = find(pd);
	why = stay ? stay->why : NULL;
	mesh_keys_unlock(cancel);
	return why;
}

void mesh_pd_stay_no_more(const struct ibv_pd *pd, const struct ibv_context *verbs)
{
	struct mesh_pd_stay **at, *stay, *gone = NULL;
	int saved_errno = errno, cancel = mesh_keys_lock();

	for (at = &mesh_root.keys.stays; (stay = *at);) {
		if (stay->pd == pd || stay->verbs == verbs) {
			*at = stay->next;
			stay->next = gone;
			gone = stay;
			atomic_fetch_sub_explicit(&mesh_root.process->keys.n_stays, 1, memory_order_relaxed);
		} else {
			at = &stay->next;
		}
	}
	mesh_keys_unlock(cancel);
	while ((stay = gone)) {
		gone = stay->next;
		free(stay);
	}
	errno = saved_errno;
}

bool mesh_pd_check_key(struct ibv_pd *pd, enum mesh_key_index index, uint32_t key)
{
	struct ibv_pd *underlying = mesh_pd_underlying(pd);
	int cancel = mesh_keys_lock();
	bool seen = mesh_mr_table_seen(mesh_root.keys.mr_table, index, underlying, key);

	mesh_keys_unlock(cancel);
	if (!seen)
		mesh_pd_stay(pd, foreign);
	return seen;
}

void mesh_pd_key_fails(struct ibv_pd *pd, enum mesh_key_index index, uint32_t key)
{
	if (!mesh_pd_check_key(pd, index, key))
		mv_log_once(&mesh_root.log, MV_LOG_WARN, "%s: work of a connection that has moved fails: %s",
			    mesh_context_get(pd->context)->device, late);
}

/* ---- entry points -------------------------------------------------------------------------------------------- */

struct ibv_mr *mesh_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct ibv_mr *mr = mesh_context_get(pd->context)->lower.mr.import_mr(pd, handle);

	if (mr)
		mesh_pd_stay(pd, mesh_mr_source_why(MESH_SOURCE_ibv_import_mr));
	return mr;
}

/* The PD can use all registrations of the other process. */
struct ibv_pd *mesh_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct ibv_pd *pd = mesh_context_get(context)->lower.pd.import_pd(context, handle);

	if (pd)
		mesh_pd_stay(pd, mesh_mr_source_why(MESH_SOURCE_ibv_import_pd));
	return pd;
}

struct ibv_mr *mesh_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access)
{
	struct ibv_mr *mr = mesh_context_get(pd->context)->lower.mr.reg_dm_mr(pd, dm, offset, length, access);

	if (mr)
		mesh_pd_stay(pd, mesh_mr_source_why(MESH_SOURCE_ibv_reg_dm_mr));
	return mr;
}

/* A window is bound on one NIC only. A type 1 window serves all queue pairs of its protection domain. */
struct ibv_mw *mesh_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = mesh_context_get(pd->context)->lower.mr.alloc_mw(pd, type);

	if (mw)
		mesh_pd_stay(pd, mesh_mr_source_why(MESH_SOURCE_ibv_alloc_mw));
	return mw;
}
