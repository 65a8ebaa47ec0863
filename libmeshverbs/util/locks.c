// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "locks.h"

#ifdef MESHVERBS_LOCK_RANKS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_HELD 32

/* Locks of the calling thread, in the order of taking. */
static __thread struct held {
	const void *lock;
	const struct mv_lock_class *class;
	const char *where;
} held[MAX_HELD];
static __thread unsigned int n_held;

static bool comes_after(const void *lock, const struct mv_lock_class *class, const struct held *h)
{
	if (class == h->class && class->pairs == MV_LOCK_BY_ADDRESS)
		return (uintptr_t)lock > (uintptr_t)h->lock;
	if (class == h->class && class->pairs == MV_LOCK_ANY_TWO)
		return lock != h->lock;
	return class->rank > h->class->rank;
}

void mv_lock_check(const void *lock, const struct mv_lock_class *class, const char *where)
{
	unsigned int i;

	for (i = 0; i < n_held; i++) {
		if (comes_after(lock, class, &held[i]))
			continue;
		dprintf(STDERR_FILENO, "meshverbs: lock order: %s (rank %u) is wanted at %s with %s (rank %u) taken at %s\n", class->name,
			class->rank, where, held[i].class->name, held[i].class->rank, held[i].where);
		abort();
	}
}

void mv_lock_taken(const void *lock, const struct mv_lock_class *class, const char *where)
{
	if (n_held == MAX_HELD) {
		dprintf(STDERR_FILENO, "meshverbs: lock order: %s at %s: too many locks are held\n", class->name, where);
		abort();
	}
	held[n_held++] = (struct held){lock, class, where};
}

void mv_lock_given(const void *lock)
{
	unsigned int i = n_held;

	while (i && held[i - 1].lock != lock)
		i--;
	if (!i)
		return; /* it was lent */
	for (n_held--; i - 1 < n_held; i++)
		held[i - 1] = held[i];
}

void mv_locks_forget(void)
{
	n_held = 0;
}
#else
typedef int mv_locks_are_not_checked; /* ISO C forbids an empty translation unit */
#endif
