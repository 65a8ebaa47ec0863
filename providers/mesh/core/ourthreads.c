// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ourthreads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mesh.h"

/*
 * The usual size. The program's limit may be a gigabyte, which counts against limits of address space, and is filled by
 * mlockall().
 */
#define STACK_BYTES (8u << 20)

/* ---- starting ------------------------------------------------------------------------------------------------ */

struct beginning {
	void *(*function)(void *);
	void *arg;
};

/* Note a thread of the plugin. Return: its place; NULL: there is none, so mesh_threads_alone() is never true. */
static _Atomic pid_t *note(pid_t tid)
{
	struct mesh_process *process = mesh_root.process;
	size_t i;
	pid_t none;

	for (i = 0; i < sizeof(process->threads) / sizeof(process->threads[0]); i++) {
		none = 0;
		if (atomic_compare_exchange_strong(&process->threads[i], &none, tid))
			return &process->threads[i];
	}
	return NULL;
}

/*
 * Unblock signals that an instruction raises. If blocked, these end the process, even if the program has a handler (emulated
 * system calls, write barriers). All other signals stay blocked.
 */
static void unblock_own(void)
{
	sigset_t own;

	sigemptyset(&own);
	sigaddset(&own, SIGSYS);
	sigaddset(&own, SIGSEGV);
	sigaddset(&own, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &own, NULL);
}

static void *noted(void *arg)
{
	struct beginning beginning = *(struct beginning *)arg;
	_Atomic pid_t *place;
	void *ret;

	free(arg);
	place = note((pid_t)syscall(SYS_gettid));
	unblock_own();
	ret = beginning.function(beginning.arg);
	if (place)
		atomic_store(place, 0);
	return ret;
}

void mesh_threads_init(void)
{
	mesh_cpus_of(getpid(), &mesh_root.start_cpus);
}

static void read_isolated(struct mesh_cpus *ret)
{
	int fd = open("/sys/devices/system/cpu/isolated", O_RDONLY | O_CLOEXEC);
	char text[4096];
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	mesh_cpus_parse(text, ret);
}

/* Does the policy keep threads of other policies from the CPU? */
static bool is_realtime(int policy)
{
	return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

/* Attributes that a new thread does not inherit. The kernel may refuse each, so each try has fewer. */
enum own { OWN_CPUS_AND_POLICY, OWN_POLICY, OWN_NOTHING };

static void set_own(pthread_attr_t *attr, enum own own, const struct mesh_cpus *cpus)
{
	const struct sched_param none = {0};

	if (own == OWN_NOTHING)
		return;
	pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(attr, SCHED_OTHER);
	pthread_attr_setschedparam(attr, &none);
	if (own == OWN_CPUS_AND_POLICY)
		pthread_attr_setaffinity_np(attr, sizeof(cpus->words), (const cpu_set_t *)(const void *)cpus->words);
}

/* Return: as pthread_create(). */
static int create_as(enum own own, const struct mesh_cpus *cpus, void *(*function)(void *), void *arg)
{
	size_t usual = 0;
	pthread_attr_t attr;
	pthread_t id;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_getstacksize(&attr, &usual);
	if (usual > STACK_BYTES)
		pthread_attr_setstacksize(&attr, STACK_BYTES);
	set_own(&attr, own, cpus);
	err = pthread_create(&id, &attr, function, arg);
	if (err == EINVAL && usual > STACK_BYTES) { /* static thread-local variables, of the program, too, are on the stack */
		pthread_attr_setstacksize(&attr, usual);
		err = pthread_create(&id, &attr, function, arg);
	}
	pthread_attr_destroy(&attr);
	return err;
}

static bool is_ours(pid_t tid);

/* A thread of the program may be pinned, or have a real-time policy. Threads of the plugin hand on what they have. */
static enum own own_of(struct mesh_cpus *ret_cpus)
{
	int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	struct mesh_cpus isolated, starter;

	if (is_ours((pid_t)syscall(SYS_gettid)))
		return OWN_NOTHING;
	read_isolated(&isolated);
	mesh_cpus_of(0, &starter);
	if (mesh_cpus_choose(&mesh_root.start_cpus, &isolated, &starter, is_realtime(policy), ret_cpus) &&
	    memcmp(ret_cpus, &starter, sizeof(starter)) != 0)
		return OWN_CPUS_AND_POLICY;
	return policy == SCHED_OTHER ? OWN_NOTHING : OWN_POLICY;
}

static int create(void *(*function)(void *), void *arg)
{
	struct mesh_cpus cpus;
	enum own own = own_of(&cpus);
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; (err = create_as(own, &cpus, function, arg)) && own != OWN_NOTHING; own++)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

int mesh_thread_start(void *(*function)(void *), void *arg)
{
	struct beginning *beginning = malloc(sizeof(*beginning));
	int err;

	if (!beginning)
		return -ENOMEM;
	*beginning = (struct beginning){function, arg};
	err = create(noted, beginning);
	if (err)
		free(beginning);
	return err;
}

/* ---- being left alone ---------------------------------------------------------------------------------------- */

/*
 * The thread that ran main() stays as a zombie until the last thread ends; other threads vanish at their end. Only once that
 * thread has ended can all of the program's. The kernel drops its list of robust futexes, set by the C library, at its end. That
 * query needs no descriptor, which the program might miss, or close.
 */
static bool main_may_have_ended(void)
{
	struct robust_list_head *head = NULL;
	size_t len;

	return syscall(SYS_get_robust_list, getpid(), &head, &len) || !head;
}

/* The last bracket ends the name, which the program chooses and which may have brackets (proc(5)). */
bool mesh_threads_main_ended(const char *stat)
{
	const char *rest = strrchr(stat, ')');

	return rest && !strncmp(rest, ") Z ", 4);
}

static bool main_has_ended(void)
{
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	char text[1024];
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	return mesh_threads_main_ended(text);
}

static bool is_ours(pid_t tid)
{
	struct mesh_process *process = mesh_root.process;
	size_t i;

	for (i = 0; i < sizeof(process->threads) / sizeof(process->threads[0]); i++)
		if (atomic_load(&process->threads[i]) == tid)
			return true;
	return false;
}

/* A thread that starts meanwhile is listed behind its creator, so one of the two is seen. */
static bool all_are_ours(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	bool all = dir, any = false;
	pid_t tid;

	while (all && (entry = readdir(dir))) {
		tid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (tid <= 0 || tid == getpid())
			continue; /* . and .., and the zombie */
		all = is_ours(tid);
		any = true;
	}
	if (dir)
		closedir(dir);
	return all && any;
}

bool mesh_threads_alone(void)
{
	int saved_errno = errno;
	bool alone = main_may_have_ended() && main_has_ended() && all_are_ours();

	errno = saved_errno;
	return alone;
}
