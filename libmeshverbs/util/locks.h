/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef MV_LOCKS_H
#define MV_LOCKS_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/*
 * Mutexes whose order is checked.
 *
 * A lock has a class: its name and its rank in docs/locking.md. A thread with a lock may wait for locks of higher ranks
 * only. Builds with MESHVERBS_LOCK_RANKS (Debug, sanitizers) check that whenever a thread waits for a lock, and abort with
 * the names of both. Other builds have nothing of it: a lock is a pthread_mutex_t, and these functions are pthread's.
 *
 * clang checks with -Wthread-safety that each function gives back what it takes. A function that does not, or that takes a
 * lock on a condition, says so by one of these words.
 */
#ifdef __clang__
#define MV_THREAD_SAFETY(x) __attribute__((x))
#else
#define MV_THREAD_SAFETY(x)
#endif
/* A lock of the expression; by what MV_LOCK() declares: MV_ACQUIRES(&h->lock) */
#define MV_ACQUIRES(l)	   MV_THREAD_SAFETY(acquire_capability((l)->mutex))
#define MV_RELEASES(l)	   MV_THREAD_SAFETY(release_capability((l)->mutex))
#define MV_TRY_ACQUIRES(l) MV_THREAD_SAFETY(try_acquire_capability(true, (l)->mutex))
#define MV_REQUIRES(l)	   MV_THREAD_SAFETY(requires_capability((l)->mutex))
/* The function takes or releases a lock conditionally, or lends it; clang cannot analyse that. */
#define MV_LOCKS_UNCHECKED MV_THREAD_SAFETY(no_thread_safety_analysis)

struct MV_THREAD_SAFETY(capability("mutex")) mv_mutex {
	pthread_mutex_t pthread;
};

/* A lock of class @n, 1 or more. Zeroed: free. The second member is never set; its type carries the class. */
#define MV_LOCK(n)                                                                                                   \
	union {                                                                                                      \
		struct mv_mutex mutex;                                                                               \
		char (*class)[n];                                                                                    \
	}
#define MV_LOCK_CLASS(l) sizeof(*(l)->class)

#define MV_LOCK_INNERMOST 1000 /* rank: no other lock is taken while it is held */

struct mv_lock_class {
	const char *name;
	unsigned int rank;
	/* May a thread hold two locks of the class? ALONE: never. */
	enum { MV_LOCK_ALONE, MV_LOCK_BY_ADDRESS /* that with the lower address first */, MV_LOCK_ANY_TWO } pairs;
};

#ifdef MESHVERBS_LOCK_RANKS
#define MV_LOCK_LINE_TEXT(line) #line
#define MV_LOCK_LINE(line)	MV_LOCK_LINE_TEXT(line)
#define MV_LOCK_HERE		__FILE__ ":" MV_LOCK_LINE(__LINE__)

/** mv_lock_check - the calling thread will wait for @lock; aborts if it holds a lock of the same or a higher rank */
void mv_lock_check(const void *lock, const struct mv_lock_class *class, const char *where);
/** mv_lock_taken - the calling thread has taken @lock */
void mv_lock_taken(const void *lock, const struct mv_lock_class *class, const char *where);
/** mv_lock_given - the calling thread has released @lock, or lent it to the program, whose calls are not checked against it */
void mv_lock_given(const void *lock);
/** mv_locks_forget - in a child of fork(): the thread holds no lock */
void mv_locks_forget(void);
#else
#define MV_LOCK_HERE NULL

static inline void mv_lock_check(const void *lock, const struct mv_lock_class *class, const char *where)
{
	(void)lock;
	(void)class;
	(void)where;
}
static inline void mv_lock_taken(const void *lock, const struct mv_lock_class *class, const char *where)
{
	(void)lock;
	(void)class;
	(void)where;
}
static inline void mv_lock_given(const void *lock)
{
	(void)lock;
}
static inline void mv_locks_forget(void)
{
}
#endif

static inline void mv_mutex_lock(struct mv_mutex *m, const struct mv_lock_class *class, const char *where)
	MV_THREAD_SAFETY(acquire_capability(*m));
static inline void mv_mutex_unlock(struct mv_mutex *m) MV_THREAD_SAFETY(release_capability(*m));
/* Does not wait, so the order of ranks does not matter. Return: true: taken. */
static inline bool mv_mutex_trylock(struct mv_mutex *m, const struct mv_lock_class *class, const char *where)
	MV_THREAD_SAFETY(try_acquire_capability(true, *m));
/* Waits until @until (CLOCK_MONOTONIC). Return: true: taken. */
static inline bool mv_mutex_lock_until(struct mv_mutex *m, const struct mv_lock_class *class, const char *where,
				       const struct timespec *until) MV_THREAD_SAFETY(try_acquire_capability(true, *m));
/* pthread_cond_timedwait(); @until: NULL: no timeout. Return: 0 or errno. */
static inline int mv_mutex_wait(pthread_cond_t *cond, struct mv_mutex *m, const struct mv_lock_class *class, const char *where,
				const struct timespec *until) MV_THREAD_SAFETY(requires_capability(*m));

MV_LOCKS_UNCHECKED static inline void mv_mutex_lock(struct mv_mutex *m, const struct mv_lock_class *class, const char *where)
{
	mv_lock_check(m, class, where);
	pthread_mutex_lock(&m->pthread);
	mv_lock_taken(m, class, where);
}

MV_LOCKS_UNCHECKED static inline void mv_mutex_unlock(struct mv_mutex *m)
{
	mv_lock_given(m);
	pthread_mutex_unlock(&m->pthread);
}

MV_LOCKS_UNCHECKED static inline bool mv_mutex_trylock(struct mv_mutex *m, const struct mv_lock_class *class, const char *where)
{
	bool locked = !pthread_mutex_trylock(&m->pthread);

	if (locked)
		mv_lock_taken(m, class, where);
	return locked;
}

/* mv_mutex_lock_until() without ranks. */
static inline bool mv_pthread_lock_until(pthread_mutex_t *mutex, const struct timespec *until)
{
#ifdef __SANITIZE_THREAD__
	/* Up to GCC 13 ThreadSanitizer does not know pthread_mutex_clocklock(): what the mutex guards would seem to be without a lock. */
	const struct timespec step = {.tv_nsec = 50000};
	struct timespec now;

	while (pthread_mutex_trylock(mutex)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec))
			return false;
		nanosleep(&step, NULL);
	}
	return true;
#else
	return !pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, until);
#endif
}

MV_LOCKS_UNCHECKED static inline bool mv_mutex_lock_until(struct mv_mutex *m, const struct mv_lock_class *class, const char *where,
							  const struct timespec *until)
{
	bool locked;

	mv_lock_check(m, class, where);
	locked = mv_pthread_lock_until(&m->pthread, until);
	if (locked)
		mv_lock_taken(m, class, where);
	return locked;
}

MV_LOCKS_UNCHECKED static inline int mv_mutex_wait(pthread_cond_t *cond, struct mv_mutex *m, const struct mv_lock_class *class,
						   const char *where, const struct timespec *until)
{
	int err;

	mv_lock_given(m);
	mv_lock_check(m, class, where);
	err = until ? pthread_cond_timedwait(cond, &m->pthread, until) : pthread_cond_wait(cond, &m->pthread);
	mv_lock_taken(m, class, where);
	return err;
}

#endif
