// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Programs that fork while threads of the plugin are at work: what their children find, and that nobody waits for ever. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "dmabuf.h"
#include "fork.h"
#include "rails.h"

#define CHILD_S 60 /* what a child may take that waits for nobody */
#define N_FORKS 200
#define N_KEPT	8

/* ---- a libibverbs without devices, with a lock that nobody resets in a child ------------------------------------ */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned int list_ms; /* how long listing takes */
static _Atomic bool lists;

static struct ibv_device **get_device_list(int *n)
{
	uint64_t begun_ns;

	pthread_mutex_lock(&list_lock);
	atomic_store(&lists, true);
	begun_ns = mesh_now_ns();
	while (mesh_now_ns() - begun_ns < atomic_load(&list_ms) * 1000000ull)
		usleep(1000);
	atomic_store(&lists, false);
	pthread_mutex_unlock(&list_lock);
	*n = 0;
	return NULL;
}

/* As the plugin's threads do. */
static void *open_rail(void *unused)
{
	char why[256];

	assert_null(mesh_rail_get("mlx5_1", why, sizeof(why)));
	return unused;
}

/* ---- a library of the program that holds its lock over fork(), and calls us with it ------------------------------- */

static pthread_mutex_t program_lock = PTHREAD_MUTEX_INITIALIZER;

static void program_prepare(void)
{
	pthread_mutex_lock(&program_lock);
}

static void program_done(void)
{
	pthread_mutex_unlock(&program_lock);
}

/* The page that has the one record of a device is not searched for pointers. */
static int teardown_all(void **state)
{
	(void)state;
	free(mesh_root.process->devices.all);
	return 0;
}

static int setup_all(void **state)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(page != MAP_FAILED && sizeof(struct mesh_process) <= 4096);
	assert_int_equal(madvise(page, 4096, MADV_WIPEONFORK), 0);
	mesh_root.process = page;
	mesh_root.process->generation = 1;
	mesh_root.lib.verbs.get_device_list = get_device_list;
	/* Before ours: so it runs after ours, as with a library that is there before libibverbs loads the plugin. */
	assert_int_equal(pthread_atfork(program_prepare, program_done, program_done), 0);
	assert_int_equal(mesh_fork_init(mesh_dmabufs_forked), 0);
	return 0;
}

static int kept_file(void)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* Of the file that @fd leads to. */
static unsigned int n_descriptors(int fd)
{
	struct stat to, st;
	unsigned int n = 0;

	if (fstat(fd, &to))
		abort();
	for (int i = 0; i < 8192; i++)
		n += !fstat(i, &st) && st.st_ino == to.st_ino && st.st_dev == to.st_dev;
	return n;
}

static void assert_child_ends_well(pid_t pid)
{
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- the tests ------------------------------------------------------------------------------------------------ */

/* A server of one thread forks a child for each client; that a thread of ours opens a NIC at that moment is not its business. */
MV_LOCKS_UNCHECKED static void test_lists_meanwhile(void **state)
{
	pthread_t thread;
	pid_t pid;
	int n;

	(void)state;
	atomic_store(&list_ms, 300);
	assert_int_equal(pthread_create(&thread, NULL, open_rail, NULL), 0);
	while (!atomic_load(&lists))
		usleep(100);
	pid = fork();
	if (!pid) {
		alarm(CHILD_S);
		atomic_store(&list_ms, 0);
		get_device_list(&n);
		open_rail(NULL);
		_exit(0);
	}
	pthread_join(thread, NULL);
	assert_child_ends_well(pid);
	atomic_store(&list_ms, 0);
	open_rail(NULL); /* nothing is left locked */
	assert_true(mesh_trylock(&mesh_root.process->open_lock));
	mesh_unlock(&mesh_root.process->open_lock);
}

/* Firmware that does not answer: the program goes on without its child being safe. */
MV_LOCKS_UNCHECKED static void test_lists_for_ever(void **state)
{
	pthread_t thread;
	pid_t pid;

	(void)state;
	atomic_store(&list_ms, UINT32_MAX);
	assert_int_equal(pthread_create(&thread, NULL, open_rail, NULL), 0);
	while (!atomic_load(&lists))
		usleep(100);
	alarm(4 * CHILD_S);
	pid = fork();
	if (!pid)
		_exit(0);
	alarm(0);
	assert_child_ends_well(pid);
	assert_true(atomic_load(&lists));
	atomic_store(&list_ms, 0);
	pthread_join(thread, NULL);
	open_rail(NULL);
	assert_true(mesh_trylock(&mesh_root.process->open_lock)); /* the fork has not given back what it had not */
	mesh_unlock(&mesh_root.process->open_lock);
}

/* fork() has our locks and waits for the program's, with which a thread calls us. */
static void *call_with_lock(void *arg)
{
	int fd = kept_file();
	struct mesh_dmabuf *dmabuf = mesh_dmabuf_keep(fd);

	pthread_mutex_lock(&program_lock);
	assert_non_null(dmabuf);
	atomic_store((_Atomic bool *)arg, true);
	while (!atomic_load(&mesh_root.dmabufs_forker))
		usleep(100);
	mesh_dmabuf_drop(dmabuf);
	errno = 0;
	assert_null(mesh_dmabuf_keep(fd));
	assert_int_equal(errno, EAGAIN);
	open_rail(NULL); /* with a thread that has rails_lock it would be the same */
	pthread_mutex_unlock(&program_lock);
	do /* on a busy machine it takes a while until the fork is through */
		dmabuf = mesh_dmabuf_keep(fd);
	while (!dmabuf && errno == EAGAIN);
	assert_non_null(dmabuf);
	mesh_dmabuf_drop(dmabuf);
	close(fd);
	return NULL;
}

static void test_called_with_lock(void **state)
{
	static _Atomic bool locked;
	pthread_t thread;
	pid_t pid;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, call_with_lock, (void *)&locked), 0);
	while (!atomic_load(&locked))
		usleep(100);
	alarm(4 * CHILD_S);
	pid = fork();
	if (!pid)
		_exit(0);
	pthread_join(thread, NULL);
	alarm(0);
	assert_child_ends_well(pid);
}

static _Atomic bool ends;
static int of_all;

static void *keep_and_drop(void *unused)
{
	struct mesh_dmabuf *kept[N_KEPT] = {NULL};
	unsigned int i;

	for (i = 0; !atomic_load(&ends); i = (i + 1) % N_KEPT) {
		mesh_dmabuf_drop(kept[i]);
		kept[i] = mesh_dmabuf_keep(of_all);
		usleep(10);
	}
	for (i = 0; i < N_KEPT; i++)
		mesh_dmabuf_drop(kept[i]);
	return unused;
}

static _Atomic unsigned int n_bad;

static void *fork_much(void *unused)
{
	for (int i = 0; i < N_FORKS; i++) {
		pid_t pid = fork();
		int status = -1;

		if (!pid) {
			struct mesh_dmabuf *own;

			alarm(CHILD_S);
			if (n_descriptors(of_all) != 1)
				_exit(1);
			own = mesh_dmabuf_keep(of_all);
			_exit(own && n_descriptors(of_all) == 2 ? 0 : 2);
		}
		waitpid(pid, &status, 0);
		atomic_fetch_add(&n_bad, status != 0);
	}
	return unused;
}

/* Whenever a child is made, it has none of them; and what it keeps itself it keeps. */
static void test_kept_meanwhile(void **state)
{
	pthread_t keepers[2], forkers[2];
	int i;

	(void)state;
	of_all = kept_file();
	for (i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&keepers[i], NULL, keep_and_drop, NULL), 0);
		assert_int_equal(pthread_create(&forkers[i], NULL, fork_much, NULL), 0);
	}
	for (i = 0; i < 2; i++)
		pthread_join(forkers[i], NULL);
	atomic_store(&ends, true);
	for (i = 0; i < 2; i++)
		pthread_join(keepers[i], NULL);
	assert_int_equal(n_bad, 0);
	assert_int_equal(n_descriptors(of_all), 1);
	assert_int_equal(mesh_root.dmabufs.n, 0);
	close(of_all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists_meanwhile),
		cmocka_unit_test(test_lists_for_ever),
		cmocka_unit_test(test_called_with_lock),
		cmocka_unit_test(test_kept_meanwhile),
	};

#ifdef __SANITIZE_THREAD__
	print_message("a child of a process with threads has none with this sanitizer\n");
	return 0;
#endif
	return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
