/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The one process-wide root: the HCA, made when the first device is opened and gone with the last.
 * The child of a fork() starts without one (the engine thread is not in it); what it opens itself
 * gets a new one.
 */
#include "hca.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fdtab.h"
#include "root.h"

static pthread_mutex_t root_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hca *root; /* under root_lock */
static unsigned int root_users; /* under root_lock */

struct sim_state *state_map(int *ret_fd)
{
	const char *path = getenv(SIM_STATE_ENV);
	struct sim_state *st;
	struct stat sb;
	int fd;

	if (!path)
		return NULL;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &sb) || (size_t)sb.st_size < sizeof(*st)) {
		fprintf(stderr, "simhca: %s: %s\n", path,
			fd < 0 ? strerror(errno) : "too short for a state file");
		goto err;
	}
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (st == MAP_FAILED)
		goto err;
	if (atomic_load(&st->magic) != SIM_STATE_MAGIC || st->version != SIM_STATE_VERSION ||
	    st->size != sizeof(*st)) {
		fprintf(stderr, "simhca: %s: version %u, this library has %u: rebuild both\n", path,
			st->version, SIM_STATE_VERSION);
		munmap(st, sizeof(*st));
		goto err;
	}
	*ret_fd = fd;
	return st;
err:
	if (fd >= 0)
		close(fd);
	return NULL;
}

/* Take a slot: the kernel gives our byte lock back whatever way the process ends. */
static int slot_take(struct hca *h)
{
	for (uint32_t i = 0; i < SIM_MAX_SLOTS; i++) {
		struct flock fl = {.l_type = F_WRLCK,
				   .l_whence = SEEK_SET,
				   .l_start = SIM_SLOT_LOCK + i,
				   .l_len = 1};
		struct sim_slot *s = &h->state->slots[i];

		if (fcntl(h->state_fd, F_OFD_SETLK, &fl))
			continue;
		h->slot = i;
		atomic_store(&s->pid, getpid());
		atomic_store(&s->n_qps, 0);
		for (uint32_t *p = (uint32_t *)s->gid_refs;
		     p < (uint32_t *)(s->gid_refs + SIM_MAX_DEVS); p++)
			*p = 0;
		return 0;
	}
	fprintf(stderr, "simhca: all %d process slots of the host are taken\n", SIM_MAX_SLOTS);
	return -EAGAIN;
}

static void hca_free(struct hca *h)
{
	if (h->engine.runs)
		engine_stop(h);
	net_free(h->net);
	faults_free(h->faults);
	atomic_store(&h->state->slots[h->slot].pid, 0);
	munmap(h->state, sizeof(*h->state));
	close(h->state_fd);
	if (h->engine.wake_fd >= 0)
		close(h->engine.wake_fd);
	free(h->doorbells.list);
	free(h->qps);
	free(h->regions.by_key);
	free(h);
}

static struct hca *hca_new(void)
{
	struct hca *h = calloc(1, sizeof(*h));
	pthread_mutexattr_t attr;

	if (!h)
		return NULL;
	h->state = state_map(&h->state_fd);
	if (!h->state) {
		free(h);
		return NULL;
	}
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(&h->lock, &attr);
	TAILQ_INIT(&h->sending.busy);
	TAILQ_INIT(&h->sending.waiting);
	TAILQ_INIT(&h->late);
	h->engine.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	h->events_seen = atomic_load(&h->state->n_events);
	/* Keys differ from host to host and from process to process, so that a mixed-up key is
	 * noticed. */
	for (const char *c = h->state->host; *c; c++)
		h->regions.base = h->regions.base * 31 + (unsigned char)*c;
	h->qps = calloc(1u << SIM_SLOT_QPN_BITS, sizeof(struct qp *));
	if (!h->qps || slot_take(h))
		goto err;
	h->regions.base = 0x100 + (h->regions.base + h->slot * 977) % 0xf000;
	h->regions.variant = (uint8_t)(h->regions.base * 7);
	h->now_ns = engine_clock();
	h->net = net_new(h);
	h->faults = faults_new(h);
	if (!h->net || !h->faults || engine_start(h))
		goto err;
	return h;
err:
	hca_free(h);
	return NULL;
}

struct hca *hca_get(void)
{
	pthread_mutex_lock(&root_lock);
	if (!root)
		root = hca_new();
	if (root)
		root_users++;
	pthread_mutex_unlock(&root_lock);
	return root;
}

void hca_put(struct hca *h)
{
	pthread_mutex_lock(&root_lock);
	if (h == root && !--root_users) {
		root = NULL;
		hca_free(h);
	}
	pthread_mutex_unlock(&root_lock);
}

struct hca *root_peek(void)
{
	return root;
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&root_lock);
	if (root)
		hca_lock(root);
}

static void fork_parent(void)
{
	if (root)
		hca_unlock(root);
	pthread_mutex_unlock(&root_lock);
}

/* The old HCA stays behind, unreachable: its lock, thread and sockets belong to the parent. */
static void fork_child(void)
{
	if (root) {
		fdtab_clear();
		/* Or the slot would stay taken for as long as the child lives. */
		close(root->state_fd);
	}
	root = NULL;
	root_users = 0;
	pthread_mutex_init(&root_lock, NULL);
}

__attribute__((constructor)) static void root_init(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}
