// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "keyahead.h"

#include <errno.h>
#include <unistd.h>

#include "conn.h"
#include "count.h"
#include "keys.h"
#include "ourthreads.h"

/* From the news to the work: what is deregistered by then costs nothing. */
#define SETTLE_US 50000

/* Rails that one process has connections on. */
#define MAX_PDS 64

/*
 * Regions, of whatever PD, that are looked at with keys_lock held, a fraction of a microsecond each. Between two times others get it: a
 * thread that waits for a mutex does not before it has woken up.
 */
#define MAX_LOOK 512
#define PAUSE_US 50

/* ---- the thread ---------------------------------------------------------------------------------------------- */

static bool is_off(void)
{
	int cancel = mesh_keys_lock();
	bool off = mesh_root.process->ahead_off;

	mesh_keys_unlock(cancel);
	return off;
}

static bool is_wanted(const struct mesh_pd *spd)
{
	int cancel = mesh_keys_lock();
	bool wanted = spd->ahead && !mesh_root.process->ahead_off;

	mesh_keys_unlock(cancel);
	return wanted;
}

/* Return: those that had been noted by then have been looked at for it before; if it is new here, none. */
static uint64_t look(struct mesh_pd *spd)
{
	int cancel = mesh_keys_lock();
	uint64_t before = spd->looked;

	spd->looked = mesh_keytab_look(mesh_root.keys.keytab);
	mesh_keys_unlock(cancel);
	return before;
}

static bool missing(const struct mesh_pd *spd, uint64_t after, uint32_t *ret, size_t *ret_n)
{
	int cancel = mesh_keys_lock();
	bool more = mesh_keytab_missing(mesh_root.keys.keytab, spd->program, spd, after, MAX_LOOK, ret, ret_n);

	mesh_keys_unlock(cancel);
	return more;
}

static bool is_shortage(int err)
{
	return err == -ENOMEM || err == -EAGAIN;
}

static void give_up(const struct mesh_pd *spd, int err)
{
	mesh_keys_ahead_give_back();
	mesh_count(MV_COUNT_AHEAD_FAILED);
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "memory cannot be registered on %s ahead: %s; it will be when a connection moves there, which takes longer",
		    spd->rail->device, strerrordesc_np(-err));
}

static void register_some(struct mesh_pd *spd, const uint32_t *lkeys, size_t n)
{
	size_t i;
	int err;

	for (i = 0; i < n && is_wanted(spd); i++) {
		err = mesh_key_ahead(spd, lkeys[i]);
		if (!err)
			mesh_count(MV_COUNT_AHEAD_MR);
		if (is_shortage(err)) {
			give_up(spd, err);
			break;
		}
	}
}

/* Each is looked at once: it is registered then, or not before it is used or registered anew. What is new meanwhile is so the next time. */
static void register_all(struct mesh_pd *spd)
{
	uint64_t after = look(spd);
	uint32_t lkeys[MAX_LOOK];
	bool more = true;
	size_t n;

	while (more && is_wanted(spd)) {
		more = missing(spd, after, lkeys, &n);
		register_some(spd, lkeys, n);
		if (more)
			usleep(PAUSE_US);
	}
	/* What was made after the program had wanted the memory back. */
	if (is_off())
		mesh_keys_drop_unused();
}

/* With a reference each. */
static size_t take_pds(struct mesh_pd **ret)
{
	int cancel = mesh_keys_lock();
	struct mesh_pd *spd;
	size_t n = 0;

	mesh_root.process->ahead_news = false;
	for (spd = mesh_root.keys.pds; spd && n < MAX_PDS; spd = spd->next) {
		if (!spd->ahead)
			continue;
		spd->refs++;
		ret[n++] = spd;
	}
	mesh_keys_unlock(cancel);
	return n;
}

/* Return: false when there is no more to do, and the thread is to end. */
static bool has_more(void)
{
	struct mesh_process *process = mesh_root.process;
	int cancel = mesh_keys_lock();
	bool more = process->ahead_news && !process->ahead_off;

	process->ahead_thread = more;
	mesh_keys_unlock(cancel);
	return more;
}

static void *ahead(void *unused)
{
	struct mesh_pd *pds[MAX_PDS];
	size_t n, i;

	pthread_setname_np(pthread_self(), "meshverbs-keys");
	do {
		usleep(SETTLE_US);
		n = take_pds(pds);
		for (i = 0; i < n; i++) {
			register_all(pds[i]);
			mesh_pd_put(pds[i]);
		}
	} while (has_more());
	return unused;
}

/* ---- for the others ------------------------------------------------------------------------------------------ */

/* Called with keys_lock. Return: is a thread to be started? */
static bool note_news(void)
{
	struct mesh_process *process = mesh_root.process;
	bool start = !process->ahead_thread;

	if (process->ahead_off)
		return false;
	process->ahead_news = true;
	process->ahead_thread = true;
	return start;
}

static void start(void)
{
	int cancel;

	if (!mesh_thread_start(ahead, NULL))
		return;
	cancel = mesh_keys_lock();
	mesh_root.process->ahead_thread = false; /* the next news try again */
	mesh_keys_unlock(cancel);
}

void mesh_keys_ahead(struct mesh_pd *spd)
{
	int cancel = mesh_keys_lock();
	bool news = !spd->ahead && note_news();

	spd->ahead = true;
	mesh_keys_unlock(cancel);
	if (news)
		start();
}

void mesh_keys_ahead_news(const struct ibv_pd *pd)
{
	int cancel = mesh_keys_lock();
	const struct mesh_pd *spd;
	bool news;

	for (spd = mesh_root.keys.pds; spd && (spd->program != pd || !spd->ahead); spd = spd->next)
		;
	news = spd && note_news();
	mesh_keys_unlock(cancel);
	if (news)
		start();
}

bool mesh_keys_ahead_give_back(void)
{
	int cancel = mesh_keys_lock();

	mesh_root.process->ahead_off = true;
	mesh_keys_unlock(cancel);
	if (!mesh_keys_drop_unused())
		return false;
	mv_log_once(&mesh_root.log, MV_LOG_WARN,
		    "there is no more memory to register: what was registered for moves ahead is given back, and will be registered "
		    "when a connection moves; a larger limit of locked memory helps");
	return true;
}
