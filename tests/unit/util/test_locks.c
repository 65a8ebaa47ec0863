// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Is the order of locks checked where the build says so? What aborts does so in a child. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locks.h"
#include "unit.h"

#ifdef MESHVERBS_LOCK_RANKS
#define CHECKED true
#else
#define CHECKED false
#endif
#define HERE MV_LOCK_HERE

static const struct mv_lock_class outer_class = {.name = "outer lock", .rank = 1};
static const struct mv_lock_class inner_class = {.name = "inner lock", .rank = 2};
static const struct mv_lock_class leaf_class = {.name = "leaf lock", .rank = MV_LOCK_INNERMOST};
static const struct mv_lock_class pair_class = {.name = "pair lock", .rank = 3, .pairs = MV_LOCK_BY_ADDRESS};
static const struct mv_lock_class two_class = {.name = "two lock", .rank = 4, .pairs = MV_LOCK_ANY_TWO};
static struct mv_mutex outer, inner, leaf, leaf2, pair[2], two[2];
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void lock(struct mv_mutex *m, const struct mv_lock_class *class) MV_LOCKS_UNCHECKED;
static void unlock(struct mv_mutex *m) MV_LOCKS_UNCHECKED;

static void lock(struct mv_mutex *m, const struct mv_lock_class *class)
{
	mv_mutex_lock(m, class, HERE);
}

static void unlock(struct mv_mutex *m)
{
	mv_mutex_unlock(m);
}

/* What @f writes to stderr, in a child. Return: does it abort? */
static bool aborts(void (*f)(void), char *said, size_t size)
{
	int fds[2], status;
	size_t n = 0;
	ssize_t got;
	pid_t pid;

	assert_return_code(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		const struct rlimit no_core = {0, 0};

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		f();
		_exit(0);
	}
	close(fds[1]);
	while (n < size - 1 && (got = read(fds[0], said + n, size - 1 - n)) > 0)
		n += (size_t)got;
	said[n] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status))
		assert_int_equal(status, 0);
	else
		assert_int_equal(WTERMSIG(status), SIGABRT);
	return WIFSIGNALED(status);
}

static void assert_refused(void (*f)(void), const char *wanted, const char *held)
{
	char said[512];

	assert_int_equal(aborts(f, said, sizeof(said)), CHECKED);
	if (!CHECKED)
		return;
	assert_non_null(strstr(said, wanted));
	assert_non_null(strstr(said, held));
	assert_non_null(strstr(said, "test_locks.c:"));
	assert_true(strstr(said, wanted) <= strstr(said, held));
}

static void assert_allowed(void (*f)(void))
{
	char said[512];

	assert_false(aborts(f, said, sizeof(said)));
	assert_string_equal(said, "");
}

static void inverted(void)
{
	lock(&inner, &inner_class);
	lock(&outer, &outer_class);
}

static void two_innermost(void)
{
	lock(&leaf, &leaf_class);
	lock(&leaf2, &leaf_class);
}

static void two_of_a_row(void)
{
	static struct mv_mutex other;

	lock(&outer, &outer_class);
	lock(&other, &outer_class);
}

/* It is not the lock that was taken last that counts. */
static void behind_another(void)
{
	lock(&inner, &inner_class);
	lock(&leaf, &leaf_class);
	unlock(&inner);
	lock(&inner, &inner_class);
}

static void pair_inverted(void)
{
	lock(&pair[1], &pair_class);
	lock(&pair[0], &pair_class);
}

/* The wait would take its lock again, with the inner one. */
MV_LOCKS_UNCHECKED static void waits_with_another(void)
{
	const struct timespec past = {0};

	lock(&outer, &outer_class);
	lock(&inner, &inner_class);
	mv_mutex_wait(&cond, &outer, &outer_class, HERE, &past);
}

MV_LOCKS_UNCHECKED static void waits_shortly(void)
{
	const struct timespec past = {0};

	lock(&inner, &inner_class);
	mv_mutex_lock_until(&outer, &outer_class, HERE, &past);
}

/* A lock that was tried counts like others. */
MV_LOCKS_UNCHECKED static void after_a_try(void)
{
	if (mv_mutex_trylock(&inner, &inner_class, HERE))
		lock(&outer, &outer_class);
}

static void test_refused(void **state)
{
	(void)state;
	assert_refused(inverted, "outer lock (rank 1)", "inner lock (rank 2)");
	assert_refused(two_innermost, "leaf lock", "leaf lock");
	assert_refused(two_of_a_row, "outer lock", "outer lock");
	assert_refused(behind_another, "inner lock", "leaf lock");
	assert_refused(pair_inverted, "pair lock", "pair lock");
	assert_refused(waits_with_another, "outer lock", "inner lock");
	assert_refused(waits_shortly, "outer lock", "inner lock");
	assert_refused(after_a_try, "outer lock", "inner lock");
}

static void in_order(void)
{
	int i;

	for (i = 0; i < 100; i++) {
		lock(&outer, &outer_class);
		lock(&inner, &inner_class);
		lock(&pair[0], &pair_class);
		lock(&pair[1], &pair_class);
		lock(&two[1], &two_class);
		lock(&two[0], &two_class);
		lock(&leaf, &leaf_class);
		unlock(&outer); /* in any order */
		unlock(&leaf);
		unlock(&two[0]);
		unlock(&two[1]);
		unlock(&pair[0]);
		unlock(&pair[1]);
		unlock(&inner);
	}
}

/* Who tries does not wait. */
MV_LOCKS_UNCHECKED static void tried(void)
{
	lock(&inner, &inner_class);
	if (!mv_mutex_trylock(&outer, &outer_class, HERE))
		abort();
	unlock(&outer);
	unlock(&inner);
	lock(&outer, &outer_class);
}

MV_LOCKS_UNCHECKED static void waits(void)
{
	const struct timespec past = {0};

	lock(&outer, &outer_class);
	lock(&inner, &inner_class);
	mv_mutex_wait(&cond, &inner, &inner_class, HERE, &past);
	unlock(&inner);
	unlock(&outer);
	lock(&inner, &inner_class);
}

static void lent(void)
{
	lock(&inner, &inner_class);
	mv_lock_given(&inner);
	lock(&outer, &outer_class); /* whatever the program calls */
	unlock(&outer);
	unlock(&inner);
}

/* As in a child of fork(), which finds the locks free. */
static void forgotten(void)
{
	lock(&inner, &inner_class);
	mv_locks_forget();
	lock(&outer, &outer_class);
}

static void *lock_outer(void *arg)
{
	lock(&outer, &outer_class);
	return arg;
}

/* Each thread has its own. */
static void of_two_threads(void)
{
	pthread_t thread;

	lock(&inner, &inner_class);
	if (pthread_create(&thread, NULL, lock_outer, NULL) || pthread_join(thread, NULL))
		abort();
}

static void test_allowed(void **state)
{
	(void)state;
	assert_allowed(in_order);
	assert_allowed(tried);
	assert_allowed(waits);
	assert_allowed(lent);
	assert_allowed(forgotten);
	assert_allowed(of_two_threads);
}

/* Builds without the check have nothing of it in a lock. */
static void test_size(void **state)
{
	(void)state;
	assert_int_equal(sizeof(MV_LOCK(7)), sizeof(pthread_mutex_t));
	assert_int_equal(MV_LOCK_CLASS((MV_LOCK(7) *)NULL), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_allowed),
		cmocka_unit_test(test_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
