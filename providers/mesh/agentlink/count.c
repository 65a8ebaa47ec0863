// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "helper.h"
#include "directory_client.h"
#include "count.h"

/* Called with process->counts.lock held: innermost, and no code under it blocks. */

static void add(struct mesh_counts *counts, size_t place, uint64_t n)
{
	counts->values[place] += n;
	if (counts->page)
		atomic_store_explicit(&counts->page->values[place], counts->values[place] - counts->told[place],
				      memory_order_relaxed);
}

void mesh_count(enum mv_count place)
{
	struct mesh_process *process = mesh_root.process;

	mesh_lock(&process->counts.lock);
	add(&process->counts, place, 1);
	mesh_unlock(&process->counts.lock);
}

void mesh_count_pause(enum mv_count first, uint64_t pause_ns)
{
	struct mesh_process *process = mesh_root.process;

	mesh_lock(&process->counts.lock);
	add(&process->counts, first + mv_pause_bucket(pause_ns / 1000), 1);
	add(&process->counts, first + MV_PAUSE_BUCKETS, pause_ns / 1000);
	mesh_unlock(&process->counts.lock);
}

void mesh_counts_changed(void)
{
	if (mesh_directory_agent())
		mesh_thread_tell();
}

/* Sealed, so that no process can shrink it: readers would get SIGBUS. */
static int make_page(struct mv_counts_page **ret_page)
{
	void *page = MAP_FAILED;
	struct rlimit limit;
	int fd;

	/* A file larger than this limit would give the program SIGXFSZ. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < sizeof(**ret_page))
		return -1;
	fd = memfd_create("meshverbs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (!ftruncate(fd, sizeof(**ret_page)) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		page = mmap(NULL, sizeof(**ret_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		close(fd);
		return -1;
	}
	madvise(page, sizeof(**ret_page), MADV_DONTFORK); /* a child has its own counters */
	*ret_page = page;
	return fd;
}

int mesh_counts_share(void)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_counts *counts = &process->counts;
	struct mv_counts_page *page;
	int fd = make_page(&page);

	if (fd < 0)
		return -1;
	page->magic = MV_COUNTS_MAGIC;
	page->n = MV_N_COUNTS;
	mesh_lock(&process->counts.lock);
	counts->page = page;
	for (size_t i = 0; i < MV_N_COUNTS; i++)
		add(counts, i, 0);
	mesh_unlock(&process->counts.lock);
	return fd;
}

void mesh_counts_unshare(void)
{
	struct mesh_process *process = mesh_root.process;
	struct mesh_counts *counts = &process->counts;
	struct mv_counts_page *page;

	mesh_lock(&process->counts.lock);
	page = counts->page;
	counts->page = NULL;
	if (page)
		memcpy(counts->told, counts->values, sizeof(counts->told));
	mesh_unlock(&process->counts.lock);
	if (page)
		munmap(page, sizeof(*page));
}
