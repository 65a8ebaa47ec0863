// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Threads of ours in the program's process: how they begin, and that they do not keep it from ending. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "conn.h"
#include "ourthreads.h"

#define LIMIT_MS 100000

static struct mesh_process process;

static int setup(void **state)
{
	(void)state;
	mesh_root.process = &process;
	return 0;
}

static _Atomic size_t stack_bytes;
static bool refuses_own; /* a policy of its own */
static size_t least_bytes; /* thread-local variables of the program's take that much of a stack */

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*function)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*function)(void *), void *arg);

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*function)(void *), void *arg)
{
	size_t bytes;
	int inherits;

	assert_int_equal(pthread_attr_getinheritsched(attr, &inherits), 0);
	if (refuses_own && inherits == PTHREAD_EXPLICIT_SCHED)
		return EPERM;
	assert_int_equal(pthread_attr_getstacksize(attr, &bytes), 0);
	return bytes < least_bytes ? EINVAL : __real_pthread_create(id, attr, function, arg);
}

static void *measure(void *arg)
{
	pthread_attr_t attr;
	size_t bytes;

	assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
	assert_int_equal(pthread_attr_getstacksize(&attr, &bytes), 0);
	pthread_attr_destroy(&attr);
	stack_bytes = bytes;
	return arg;
}

static size_t stack_of_ours(void)
{
	int i;

	stack_bytes = 0;
	assert_int_equal(mesh_thread_start(measure, NULL), 0);
	for (i = 0; !stack_bytes && i < LIMIT_MS; i++)
		usleep(1000);
	return stack_bytes;
}

/* A program may have threads with stacks of a gigabyte, and lock all its memory. */
static void test_stack_is_usual(void **state)
{
	pthread_attr_t attr;

	(void)state;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstacksize(&attr, 64 << 20), 0);
	assert_int_equal(pthread_setattr_default_np(&attr), 0);
	pthread_attr_destroy(&attr);
	assert_int_equal(stack_of_ours(), 8 << 20);
	least_bytes = 9 << 20;
	assert_int_equal(stack_of_ours(), 64 << 20);
	least_bytes = 0;
}

/* Too many processes. What was queued for the thread is not kept for it: a program may make connections for days so. */
static void test_no_thread(void **state)
{
	static struct mesh_context context;
	static struct ibv_qp qp = {.qp_num = 7};
	struct mesh_conn *conn = mesh_conn_new(&context, &qp);

	(void)state;
	assert_non_null(conn);
	mv_log_init(&mesh_root.log, "/dev/null", MV_LOG_DEBUG);
	mesh_conn_queue(conn, true);
	assert_int_equal(conn->refs, 3); /* the table's, too */
	least_bytes = SIZE_MAX;
	assert_int_equal(mesh_thread_wake(true), -EINVAL);
	least_bytes = 0;
	assert_int_equal(conn->refs, 2);
	assert_false(conn->schedule.queued);
	mesh_conn_unlink(conn);
	mesh_conn_put(conn);
}

static sigset_t blocked;
static _Atomic bool known;

static void *look(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	known = true;
	return arg;
}

/* No signal of the program's is handled there; but what an instruction raises ends the process where it is blocked, handler or not. */
static void test_signals(void **state)
{
	static const int own[] = {SIGSYS, SIGSEGV, SIGBUS}, others[] = {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGXFSZ, SIGPIPE, SIGTRAP};
	sigset_t before, after;
	int signal;
	size_t i;

	(void)state;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(mesh_thread_start(look, NULL), 0);
	for (i = 0; !known && i < LIMIT_MS; i++)
		usleep(1000);
	assert_true(known);
	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		assert_int_equal(sigismember(&blocked, own[i]), 0);
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_int_equal(sigismember(&blocked, others[i]), 1);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (signal = 1; signal < NSIG; signal++)
		assert_int_equal(sigismember(&before, signal), sigismember(&after, signal));
}

/* ---- policy and CPUs ------------------------------------------------------------------------------------------- */

static struct mesh_cpus cpus(const char *list)
{
	struct mesh_cpus ret;

	mesh_cpus_parse(list, &ret);
	return ret;
}

#define assert_cpus(is, list)                                                                                          \
	do {                                                                                                           \
		struct mesh_cpus wanted = cpus(list);                                                                  \
		assert_memory_equal(&(is), &wanted, sizeof(wanted));                                                   \
	} while (0)

static void test_parse(void **state)
{
	struct mesh_cpus some = cpus("2-5,8,64-65\n");

	(void)state;
	assert_int_equal(some.words[0], 0x13c);
	assert_int_equal(some.words[1], 3);
	assert_false(mesh_cpus_empty(&some));
	some = cpus("\n");
	assert_true(mesh_cpus_empty(&some));
	some = cpus("");
	assert_true(mesh_cpus_empty(&some));
	assert_cpus(some, "9-7");
	some = cpus("3,x,4");
	assert_cpus(some, "3");
	some = cpus("8190-18446744073709551615");
	assert_cpus(some, "8190-8191");
}

static struct mesh_cpus choose(const char *start, const char *isolated, const char *starter, bool realtime)
{
	struct mesh_cpus s = cpus(start), i = cpus(isolated), own = cpus(starter), ret;

	assert_true(mesh_cpus_choose(&s, &i, &own, realtime, &ret));
	return ret;
}

static void test_choose(void **state)
{
	struct mesh_cpus ret, none = cpus("");

	(void)state;
	ret = choose("0-7", "", "3", false); /* not where the starter is pinned */
	assert_cpus(ret, "0-7");
	ret = choose("0-7", "4-7", "4", false);
	assert_cpus(ret, "0-3");
	ret = choose("4-7", "4-7", "4", false);
	assert_cpus(ret, "4-7");
	ret = choose("0-7", "", "3", true);
	assert_cpus(ret, "0-2,4-7");
	ret = choose("4-7", "4-7", "4", true);
	assert_cpus(ret, "5-7");
	ret = choose("3-7", "4-7", "3", true); /* isolated is better than where nothing ever runs */
	assert_cpus(ret, "4-7");
	ret = choose("3", "", "3", true); /* taskset 3 chrt -f 1 PROGRAM */
	assert_cpus(ret, "0-2,4-8191");
	assert_false(mesh_cpus_choose(&none, &none, &none, true, &ret));
}

static struct {
	struct mesh_cpus cpus;
	int policy;
	_Atomic bool known;
} ours;

static void *look_at_itself(void *arg)
{
	mesh_cpus_of(0, &ours.cpus);
	ours.policy = sched_getscheduler(0);
	ours.known = true;
	return arg;
}

static void start_ours(void)
{
	int i;

	ours.known = false;
	assert_int_equal(mesh_thread_start(look_at_itself, NULL), 0);
	for (i = 0; !ours.known && i < LIMIT_MS; i++)
		usleep(1000);
	assert_true(ours.known);
}

static struct mesh_cpus pin_to_first(const struct mesh_cpus *of)
{
	struct mesh_cpus ret = {0};
	cpu_set_t one;
	int cpu = 0;

	while (!(of->words[cpu / 64] >> cpu % 64 & 1))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	ret.words[cpu / 64] = 1ul << cpu % 64;
	return ret;
}

/* Started by a thread of the program's that is pinned and has a policy of its own; @policy: as root perhaps a real-time one */
static void has_its_own(int policy, int priority)
{
	const struct sched_param param = {.sched_priority = priority}, usual = {0};
	struct mesh_cpus all, isolated, own, want;
	char text[4096] = "";
	FILE *file;

	mesh_threads_init();
	all = mesh_root.start_cpus;
	file = fopen("/sys/devices/system/cpu/isolated", "re");
	if (file) {
		if (!fgets(text, sizeof(text), file))
			text[0] = '\0';
		fclose(file);
	}
	isolated = cpus(text);
	own = pin_to_first(&all);
	assert_true(mesh_cpus_choose(&all, &isolated, &own, priority, &want));
	assert_int_equal(sched_setscheduler(0, policy, &param), 0);
	start_ours();
	sched_setscheduler(0, SCHED_OTHER, &usual);
	sched_setaffinity(0, sizeof(all.words), (const cpu_set_t *)(const void *)all.words);
	assert_int_equal(ours.policy, SCHED_OTHER);
	/* Of a machine of one CPU, or a cpuset, no others are to be had. */
	if (memcmp(&all, &own, sizeof(all)) != 0)
		assert_memory_equal(&ours.cpus, &want, sizeof(want));
}

static void test_own_cpus(void **state)
{
	(void)state;
	has_its_own(SCHED_BATCH, 0);
}

/* Were it to spin, nothing beside it would run on its CPU. */
static void test_realtime(void **state)
{
	const struct sched_param param = {.sched_priority = 1}, usual = {0};

	(void)state;
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		skip();
	sched_setscheduler(0, SCHED_OTHER, &usual);
	has_its_own(SCHED_FIFO, 1);
}

static struct mesh_cpus of_first;

static void *start_another(void *arg)
{
	of_first = pin_to_first(&mesh_root.start_cpus);
	start_ours();
	return arg;
}

/* What a thread of ours starts has what that has. */
static void test_hands_on(void **state)
{
	int i;

	(void)state;
	mesh_threads_init();
	ours.known = false;
	assert_int_equal(mesh_thread_start(start_another, NULL), 0);
	for (i = 0; !ours.known && i < LIMIT_MS; i++)
		usleep(1000);
	assert_true(ours.known);
	assert_memory_equal(&ours.cpus, &of_first, sizeof(of_first));
}

/* A kernel or a filter that refuses it. */
static void test_refused(void **state)
{
	(void)state;
	mesh_threads_init();
	pin_to_first(&mesh_root.start_cpus);
	refuses_own = true;
	start_ours();
	refuses_own = false;
	sched_setaffinity(0, sizeof(mesh_root.start_cpus.words), (const cpu_set_t *)(const void *)mesh_root.start_cpus.words);
}

#define REST " 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 2 0 33"

static void test_main_has_ended(void **state)
{
	(void)state;
	assert_true(mesh_threads_main_ended("7 (prog) Z" REST));
	assert_false(mesh_threads_main_ended("7 (prog) S" REST));
	assert_false(mesh_threads_main_ended("7 (prog) R" REST));
	assert_false(mesh_threads_main_ended("7 (Z) Z ) S" REST)); /* a name */
	assert_true(mesh_threads_main_ended("7 (a) S) Z" REST));
	assert_false(mesh_threads_main_ended("7 (prog"));
	assert_false(mesh_threads_main_ended("7 (prog)"));
	assert_false(mesh_threads_main_ended(""));
}

static _Atomic bool *program_ended; /* shared with the child */

static void *works(void *arg)
{
	usleep(200000);
	*program_ended = true;
	return arg;
}

static void *helps(void *arg)
{
	for (;; usleep(1000))
		if (mesh_threads_alone())
			_exit(*program_ended ? 7 : 8);
	return arg;
}

static void *helps_a_little(void *arg)
{
	usleep(20000);
	return arg;
}

/* All threads of the program end by pthread_exit(), main()'s as well, which is what the C library ends a process for. */
static void test_the_program_ends(void **state)
{
	pthread_t program;
	int status, i;
	pid_t pid;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it has a thread of its own in each process, which does not end */
#endif
	program_ended = mmap(NULL, sizeof(*program_ended), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(program_ended, MAP_FAILED);
	pid = fork();
	if (!pid) {
		alarm(LIMIT_MS / 1000);
		memset(&process, 0, sizeof(process)); /* as the kernel does */
		if (__real_pthread_create(&program, NULL, works, NULL) || mesh_thread_start(helps, NULL))
			_exit(9);
		for (i = 0; i < 20; i++) /* they come and go */
			mesh_thread_start(helps_a_little, NULL);
		pthread_exit(NULL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	munmap((void *)program_ended, sizeof(*program_ended));
}

static void end_well(void)
{
	_exit(7);
}

/* The helper thread itself, with all that it does besides. */
static void test_the_helper_ends_it(void **state)
{
	int status;
	pid_t pid;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip();
#endif
	pid = fork();
	if (!pid) {
		alarm(LIMIT_MS / 1000);
		memset(&process, 0, sizeof(process));
		mv_config_defaults(&mesh_root.config);
		mv_log_init(&mesh_root.log, "/dev/null", MV_LOG_DEBUG);
		strcpy(mesh_root.run_dir, "/nowhere");
		atexit(end_well);
		if (mesh_thread_wake(true))
			_exit(9);
		pthread_exit(NULL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stack_is_usual),
		cmocka_unit_test(test_no_thread),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_choose),
		cmocka_unit_test(test_own_cpus),
		cmocka_unit_test(test_realtime),
		cmocka_unit_test(test_hands_on),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_main_has_ended),
		cmocka_unit_test(test_the_program_ends),
		cmocka_unit_test(test_the_helper_ends_it),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
