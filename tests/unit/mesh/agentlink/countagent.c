// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "countagent.h"

#include <stdlib.h>
#include <unistd.h>

#include "conn.h"
#include "control.h"
#include "count.h"
#include "realagent.h"

const char *dir;

int setup(void **state)
{
	(void)state;
	dir = realagent_start();
	mesh_root.process = calloc(1, sizeof(*mesh_root.process));
	assert_non_null(mesh_root.process);
	return 0;
}

enum held _Atomic held;

int teardown(void **state)
{
	(void)state;
	atomic_store(&held, HELD_NOT);
	mesh_counts_unshare();
	realagent_stop();
	free(mesh_root.process);
	mesh_root.process = NULL;
	return 0;
}

uint64_t seen(size_t place)
{
	uint64_t sums[MV_COUNTS_MAX];

	md_clients_counts(&clients, sums);
	return sums[place];
}

ino_t held_ino;

int __real_close(int fd);
int __wrap_close(int fd);

static bool is_held(int fd)
{
	enum held what = atomic_load(&held);
	struct stat st;

	return gettid() != getpid() && (what == HELD_ALL || (what == HELD_FILE && !fstat(fd, &st) && st.st_ino == held_ino));
}

int __wrap_close(int fd)
{
	while (is_held(fd))
		usleep(1000);
	return __real_close(fd);
}
