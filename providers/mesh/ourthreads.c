// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "ourthreads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mesh.h"

/* What is usual. The program's limit may be a gigabyte, which counts where address space is limited, and is filled by mlockall(). */
#define STACK_BYTES (8u << 20)

/* mesh_process.threads: how many there are in the lower half; how often that has changed in the upper one. */
#define CHANGED	 (UINT64_C(1) << 32)
#define N_OF(threads) ((uint32_t)(threads))

/* ---- starting ------------------------------------------------------------------------------------------------ */

struct beginning {
	void *(*function)(void *);
	void *arg;
};

/* It is counted from when it is certainly there to before it ends, so never one too many. */
static void *counted(void *arg)
{
	struct beginning beginning = *(struct beginning *)arg;
	void *ret;

	free(arg);
	ret = beginning.function(beginning.arg);
	atomic_fetch_add(&mesh_root.process->threads, CHANGED - 1);
	return ret;
}

/*
 * All but those that an instruction of the thread itself raises: blocked, they end the process where the program has a handler (emulated
 * system calls, write barriers).
 */
static void fill(sigset_t *set)
{
	static const int own[] = {SIGSYS, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
	size_t i;

	sigfillset(set);
	for (i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(set, own[i]);
}

static int create(void *(*function)(void *), void *arg)
{
	sigset_t blocked, before;
	size_t usual = 0;
	pthread_attr_t attr;
	pthread_t id;
	int err;

	fill(&blocked);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_getstacksize(&attr, &usual);
	if (usual > STACK_BYTES)
		pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
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
	err = create(counted, beginning);
	if (err)
		free(beginning);
	else
		atomic_fetch_add(&mesh_root.process->threads, CHANGED + 1);
	return err;
}

/* ---- being left alone ---------------------------------------------------------------------------------------- */

/*
 * The thread that main() ran in stays, as a zombie, until the last one ends; the others go at once. Only where that one has ended can all
 * of the program's have. Where the name ends is told by the last bracket: what is in it the program says (proc(5)).
 */
bool mesh_threads_are_alone(const char *stat, uint32_t n_ours)
{
	const char *rest = strrchr(stat, ')');
	unsigned long n_threads;
	char state;

	return rest && n_ours &&
	       sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lu", &state, &n_threads) == 2 &&
	       state == 'Z' && n_threads == n_ours + 1UL;
}

/* Return: whether there is anything in @ret. */
static bool read_stat(char *ret, size_t size)
{
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd >= 0) {
		n = read(fd, ret, size - 1);
		close(fd);
	}
	ret[n > 0 ? n : 0] = '\0';
	return n > 0;
}

bool mesh_threads_alone(void)
{
	uint64_t before = atomic_load(&mesh_root.process->threads);
	int saved_errno = errno;
	char text[1024];
	bool alone = read_stat(text, sizeof(text)) && mesh_threads_are_alone(text, N_OF(before));

	errno = saved_errno;
	/* One of ours that has ended meanwhile, or begun, would have been taken for one of the program's, or the other way round. */
	return alone && atomic_load(&mesh_root.process->threads) == before;
}
