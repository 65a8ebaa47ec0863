// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ourthreads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mesh.h"

/* What is usual. The program's limit may be a gigabyte, which counts where address space is limited, and is filled by mlockall(). */
#define STACK_BYTES (8u << 20)

/* ---- starting ------------------------------------------------------------------------------------------------ */

struct beginning {
	void *(*function)(void *);
	void *arg;
};

/* Where there is no room, nobody is ever taken for left alone. Return: NULL: there is none */
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
 * Those that an instruction raises end the process where they are blocked, if the program has a handler (emulated system calls, write
 * barriers) or not. Of the program's others none is to come here.
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

static int create(void *(*function)(void *), void *arg)
{
	sigset_t all, before;
	size_t usual = 0;
	pthread_attr_t attr;
	pthread_t id;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_getstacksize(&attr, &usual);
	if (usual > STACK_BYTES)
		pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&id, &attr, function, arg);
	if (err == EINVAL && usual > STACK_BYTES) { /* thread-local variables, the program's as well, are there, too */
		pthread_attr_setstacksize(&attr, usual);
		err = pthread_create(&id, &attr, function, arg);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
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
 * The thread that main() ran in stays, as a zombie, until the last one ends; the others go at once. Only where that one has ended can all
 * of the program's have. The C library has given it a list of robust futexes, which the kernel takes away at its end: to ask for that needs
 * no descriptor, which the program might miss, or close.
 */
static bool main_may_have_ended(void)
{
	struct robust_list_head *head = NULL;
	size_t len;

	return syscall(SYS_get_robust_list, getpid(), &head, &len) || !head;
}

/* Where the name ends is told by the last bracket: what is in it the program says (proc(5)). */
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

/* One that begins meanwhile comes behind the one that makes it, and is seen if that is not. */
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
