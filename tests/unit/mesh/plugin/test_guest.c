// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The plugin's own file in a program with the real libibverbs and libmlx5: what it does to a process that
 * has loaded it. This program has nothing of the plugin linked in.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <infiniband/verbs.h>

struct process_state {
	char fds[4096]; /* numbers and what they lead to */
	unsigned int n_tasks;
	void (*handlers[NSIG])(int);
	sigset_t blocked;
	mode_t umask;
	char cwd[4096], locale[256];
	size_t n_environ;
};

static void list_fds(char *buf, size_t size)
{
	DIR *dir = opendir("/proc/self/fd");
	char path[300], target[256];
	struct dirent *entry;
	size_t used = 0;
	ssize_t n;

	buf[0] = '\0';
	while ((entry = readdir(dir))) {
		if (atoi(entry->d_name) == dirfd(dir) || entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		used += (size_t)snprintf(buf + used, size - used, "%s %s\n", entry->d_name, target);
		assert_true(used < size);
	}
	closedir(dir);
}

static unsigned int count_tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; /* . and .. */
}

static void observe(struct process_state *s)
{
	int sig;

	memset(s, 0, sizeof(*s));
	list_fds(s->fds, sizeof(s->fds));
	s->n_tasks = count_tasks();
	for (sig = 1; sig < NSIG; sig++) {
		struct sigaction action = {0};

		sigaction(sig, NULL, &action);
		s->handlers[sig] = action.sa_handler;
	}
	sigprocmask(SIG_SETMASK, NULL, &s->blocked);
	s->umask = umask(0);
	umask(s->umask);
	assert_non_null(getcwd(s->cwd, sizeof(s->cwd)));
	snprintf(s->locale, sizeof(s->locale), "%s", setlocale(LC_ALL, NULL));
	while (environ[s->n_environ])
		s->n_environ++;
}

static void assert_same(const struct process_state *a, const struct process_state *b)
{
	int sig;

	assert_string_equal(a->fds, b->fds);
	assert_int_equal(a->n_tasks, b->n_tasks);
	assert_memory_equal(a->handlers, b->handlers, sizeof(a->handlers));
	for (sig = 1; sig < NSIG; sig++)
		assert_int_equal(sigismember(&a->blocked, sig), sigismember(&b->blocked, sig));
	assert_int_equal(a->umask, b->umask);
	assert_string_equal(a->cwd, b->cwd);
	assert_string_equal(a->locale, b->locale);
	assert_int_equal(a->n_environ, b->n_environ);
}

/* stdout and stderr go into memory while the plugin is at work. */
static int capture(int saved[2])
{
	int fd = memfd_create("output", MFD_CLOEXEC);

	fflush(NULL);
	saved[0] = dup(1);
	saved[1] = dup(2);
	dup2(fd, 1);
	dup2(fd, 2);
	return fd;
}

static off_t release(int fd, int saved[2])
{
	off_t size;

	fflush(NULL);
	size = lseek(fd, 0, SEEK_END);
	dup2(saved[0], 1);
	dup2(saved[1], 2);
	close(saved[0]);
	close(saved[1]);
	close(fd);
	return size;
}

static char report[] = "/tmp/meshverbs-report-XXXXXX";

static void read_report(char *buf, size_t size)
{
	FILE *f = fopen(report, "r");
	size_t n;

	assert_non_null(f);
	n = fread(buf, 1, size - 1, f);
	buf[n] = '\0';
	fclose(f);
}

static void test_leaves_the_process_alone(void **state)
{
	struct process_state *before = malloc(sizeof(*before)), *after = malloc(sizeof(*after));
	int fd, saved[2], n, loaded_errno;
	struct ibv_device **list;
	void *plugin, *mlx5;
	off_t printed;
	char text[4096];

	(void)state;
	/* libibverbs' own first use (its log settings, its descriptors) is not the plugin's doing. */
	list = ibv_get_device_list(&n);
	if (list)
		ibv_free_device_list(list);
	mlx5 = dlopen("libmlx5.so.1", RTLD_NOW);
	if (!mlx5)
		fail_msg("%s", dlerror());

	observe(before);
	fd = capture(saved);
	errno = EXDEV;
	plugin = dlopen(PLUGIN, RTLD_NOW);
	loaded_errno = errno;
	printed = release(fd, saved);
	if (!plugin)
		fail_msg("%s", dlerror());
	observe(after);
	assert_int_equal(printed, 0);
	assert_int_equal(loaded_errno, EXDEV);
	read_report(text, sizeof(text));
	assert_non_null(strstr(text, "stage driver-list ok"));
	assert_non_null(strstr(text, "stage base:mlx5 ok"));
	assert_same(before, after);

	/* It stays, for its functions are in libibverbs' tables. */
	dlclose(plugin);
	assert_non_null(dlopen(PLUGIN, RTLD_NOW | RTLD_NOLOAD));

	fd = capture(saved);
	list = ibv_get_device_list(&n);
	if (list)
		ibv_free_device_list(list);
	printed = release(fd, saved);
	assert_int_equal(printed, 0);
	free(before);
	free(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaves_the_process_alone),
	};
	int failures;

	close(mkstemp(report));
	setenv("MESHVERBS_REPORT", report, 1);
	setenv("MESHVERBS_LOG", "/dev/null", 1);
	setenv("MESHVERBS_CONF", "/nonexistent/mesh.conf", 1);
	failures = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(report);
	return failures;
}
