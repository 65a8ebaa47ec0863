// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mr_prereg.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "count.h"
#include "keys.h"
#include "ourthreads.h"

/* Delay between a registration by the program and that in advance. A region that is deregistered by then costs nothing. */
#define SETTLE_US 50000

/* Limit of PDs per rail and round. */
#define MAX_PDS 64

/*
 * Limit of regions that are looked at with process->keys.lock held, a fraction of a microsecond each. A pause follows, because a
 * thread that waits for the mutex gets it only after waking up.
 */
#define MAX_LOOK 512
#define PAUSE_US 50

/* ---- the thread ---------------------------------------------------------------------------------------------- */

static bool is_off(void)
{
	int cancel = mesh_keys_lock();
	bool off = mesh_root.process->keys.prereg_off;

	mesh_keys_unlock(cancel);
	return off;
}

static bool is_wanted(const struct mesh_pd *spd)
{
	int cancel = mesh_keys_lock();
	bool wanted = spd->prereg && !mesh_root.process->keys.prereg_off;

	mesh_keys_unlock(cancel);
	return wanted;
}

/* Begin a walk for @spd. Return: the serial number up to which earlier walks have looked at all regions; 0: there was none. */
static uint64_t look(struct mesh_pd *spd)
{
	int cancel = mesh_keys_lock();
	uint64_t before = spd->looked;

	spd->looked = mesh_mr_table_look(mesh_root.keys.mr_table);
	mesh_keys_unlock(cancel);
	return before;
}

/* lkeys of regions to register. */
struct wanted {
	uint32_t *lkeys;
	size_t n, size;
};

/* Return: true: there may be more. */
static bool find_some(const struct mesh_pd *spd, uint64_t after, struct wanted *ret)
{
	size_t n = 0;
	int cancel;
	bool more;

	if (ret->size < ret->n + MAX_LOOK) {
		uint32_t *larger = reallocarray(ret->lkeys, 2 * ret->size + MAX_LOOK, sizeof(*larger));

		if (!larger)
			return false; /* without memory, regions are registered at the first use */
		ret->lkeys = larger;
		ret->size = 2 * ret->size + MAX_LOOK;
	}
	cancel = mesh_keys_lock();
	more = mesh_mr_table_missing(mesh_root.keys.mr_table, spd->program, spd, after, MAX_LOOK, &ret->lkeys[ret->n],
				     &n);
	mesh_keys_unlock(cancel);
	ret->n += n;
	return more;
}

static bool is_shortage(int err)
{
	return err == -ENOMEM || err == -EAGAIN;
}

static void give_up(const struct mesh_pd *spd, int err)
{
	mesh_mr_prereg_give_back();
	mesh_count(MV_COUNT_ARM_FAILED);
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "memory cannot be registered on %s in advance: %s; it will be when a connection moves there, "
		    "which takes longer",
		    spd->rail->device, strerrordesc_np(-err));
}

static void register_some(struct mesh_pd *spd, const struct wanted *wanted)
{
	size_t i;
	int err;

	for (i = 0; i < wanted->n && is_wanted(spd); i++) {
		err = mesh_mr_prereg_one(spd, wanted->lkeys[i]);
		if (!err)
			mesh_count(MV_COUNT_ARMED_MR);
		if (is_shortage(err)) {
			give_up(spd, err);
			break;
		}
	}
}

/*
 * Each region is looked at once. If that registration fails, the region is registered at its first use. Regions that are added
 * meanwhile are for the next round.
 */
static void register_all(struct mesh_pd *spd)
{
	struct wanted wanted = {0};
	uint64_t after;

	/* A table has one walk at a time. The registrations follow without the lock, because they may take long. */
	mesh_lock(&mesh_root.process->keys.prereg_lock);
	after = look(spd);
	while (is_wanted(spd) && find_some(spd, after, &wanted))
		usleep(PAUSE_US);
	mesh_unlock(&mesh_root.process->keys.prereg_lock);
	register_some(spd, &wanted);
	free(wanted.lkeys);
	/* Undo registrations that were made after the program wanted the memory back. */
	if (is_off())
		mesh_keys_drop_unused();
}

/* PDs on the rail, with a reference each. */
static size_t take_pds(struct mesh_rail *rail, struct mesh_pd **ret)
{
	int cancel = mesh_keys_lock();
	struct mesh_pd *spd;
	size_t n = 0;

	rail->prereg_wanted = false;
	for (spd = mesh_root.keys.pds; spd && n < MAX_PDS; spd = spd->next) {
		if (!spd->prereg || spd->rail != rail)
			continue;
		spd->refs++;
		ret[n++] = spd;
	}
	mesh_keys_unlock(cancel);
	return n;
}

/* Return: false: nothing is left to do, and the thread has to end. */
static bool has_more(struct mesh_rail *rail)
{
	int cancel = mesh_keys_lock();
	bool more = rail->prereg_wanted && !mesh_root.process->keys.prereg_off;

	rail->prereg_thread = more;
	mesh_keys_unlock(cancel);
	return more;
}

/* One thread per rail: registrations take long, and a firmware that hangs blocks for seconds. */
static void *prereg_thread_main(void *arg)
{
	struct mesh_rail *rail = arg;
	struct mesh_pd *pds[MAX_PDS];
	size_t n, i;

	pthread_setname_np(pthread_self(), "meshverbs-keys");
	do {
		usleep(SETTLE_US);
		n = take_pds(rail, pds);
		for (i = 0; i < n; i++) {
			register_all(pds[i]);
			mesh_pd_put(pds[i]);
		}
	} while (has_more(rail));
	mesh_rail_put(rail);
	return NULL;
}

/* ---- entry points -------------------------------------------------------------------------------------------- */

/* Called with process->keys.lock. Return: true: the caller has to call start() for the rail. */
static bool note_change(struct mesh_rail *rail)
{
	bool start = !rail->prereg_thread;

	if (mesh_root.process->keys.prereg_off)
		return false;
	rail->prereg_wanted = true;
	rail->prereg_thread = true;
	return start;
}

/* The rail has a reference for the thread, which puts it. */
static void start(struct mesh_rail *rail)
{
	int cancel;

	if (!mesh_thread_start(prereg_thread_main, rail))
		return;
	cancel = mesh_keys_lock();
	rail->prereg_thread = false; /* the next region tries again */
	mesh_keys_unlock(cancel);
	mesh_rail_put(rail);
}

void mesh_mr_prereg(struct mesh_pd *spd)
{
	int cancel = mesh_keys_lock();
	bool changed = !spd->prereg && note_change(spd->rail);

	spd->prereg = true;
	mesh_keys_unlock(cancel);
	if (changed)
		start(mesh_rail_ref(spd->rail));
}

/* Return: a PD, with a reference, whose rail needs a thread; NULL: none. */
static struct mesh_pd *take_changes(const struct ibv_pd *pd)
{
	int cancel = mesh_keys_lock();
	struct mesh_pd *spd;

	for (spd = mesh_root.keys.pds; spd; spd = spd->next)
		if (spd->program == pd && spd->prereg && note_change(spd->rail))
			break;
	if (spd)
		spd->refs++;
	mesh_keys_unlock(cancel);
	return spd;
}

void mesh_mr_prereg_changed(const struct ibv_pd *pd)
{
	struct mesh_pd *spd;

	while ((spd = take_changes(pd))) {
		start(mesh_rail_ref(spd->rail));
		mesh_pd_put(spd);
	}
}

bool mesh_mr_prereg_give_back(void)
{
	int cancel = mesh_keys_lock();

	mesh_root.process->keys.prereg_off = true;
	mesh_keys_unlock(cancel);
	if (!mesh_keys_drop_unused())
		return false;
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "there is no more memory to register: what was registered in advance of moves is given back, and will be "
		    "registered when a connection moves; a larger limit of locked memory helps");
	return true;
}
