// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Memory of each kind for trials. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "gpu.h"
#include "numa.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* ---- kinds ------------------------------------------------------------------------------------- */

void q_kinds(struct q_bench *b, int node, struct q_gpu *gpu)
{
	struct q_kind *host = &b->kinds[Q_HOST], *other = &b->kinds[Q_OTHER_NODE], *gpus = &b->kinds[Q_GPU];

	*host = (struct q_kind){.is_there = true, .node = -1, .figure = "rounds", .figure_cut = "rounds_cut", .name = "host memory"};
	*other = (struct q_kind){.is_there = node >= 0,
				 .is_optional = true,
				 .node = node,
				 .figure = "other_node_rounds",
				 .figure_cut = "other_node_rounds_cut"};
	*gpus = (struct q_kind){.is_there = gpu, .gpu = gpu, .node = -1, .figure = "gpu_rounds", .figure_cut = "gpu_rounds_cut"};
	snprintf(other->name, sizeof(other->name), "memory of NUMA node %d", node);
	if (gpu)
		snprintf(gpus->name, sizeof(gpus->name), "GPU memory (%s)", q_gpu_name(gpu));
}

enum mv_trial_verdict q_kind_broken(struct mv_qualified_trial *t, const struct q_kind *kind, const char *step, int err)
{
	return q_unsure(t, "%s: %s: %s", kind->name, step, kind->gpu && *q_gpu_why(kind->gpu) ? q_gpu_why(kind->gpu) : strerror(-err));
}

/* ---- memory ------------------------------------------------------------------------------------ */

static int register_host(struct q_port *port, const struct q_kind *kind, struct q_mem *mem)
{
	errno = 0;
	mem->addr = (uintptr_t)mem->buf;
	mem->mr = ibv_reg_mr(port->pd, mem->buf, mem->bytes, ACCESS);
	if (!mem->mr)
		return errno ? -errno : -ENOMEM;
	/* Registering may move pages, so the node is asked for afterwards. */
	return kind->node >= 0 && !numa_is_on(mem->buf, mem->bytes, kind->node) ? -ENOMEM : 0;
}

int q_mem_make_of(struct q_port *port, const struct q_kind *kind, size_t bytes, struct q_mem *ret)
{
	struct q_mem mem = {.bytes = bytes};
	void *buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = 0;

	if (buf == MAP_FAILED)
		return -errno;
	mem.buf = buf;
	if (kind->node >= 0)
		err = numa_place(buf, bytes, kind->node);
	if (!err) {
		memset(buf, 0, bytes);
		err = kind->gpu ? q_gpu_alloc(kind->gpu, port, bytes, &mem) : register_host(port, kind, &mem);
	}
	if (err)
		q_mem_end(&mem);
	else
		*ret = mem;
	return err;
}

int q_mem_make(struct q_port *port, size_t bytes, struct q_mem *ret)
{
	return q_mem_make_of(port, &(struct q_kind){.node = -1}, bytes, ret);
}

void q_mem_end(struct q_mem *mem)
{
	if (mem->gpu)
		q_gpu_free(mem);
	else if (mem->mr)
		ibv_dereg_mr(mem->mr);
	if (mem->buf)
		munmap(mem->buf, mem->bytes);
	memset(mem, 0, sizeof(*mem));
}

int q_mem_clear(const struct q_mem *mem)
{
	memset(mem->buf, 0, mem->bytes);
	return mem->gpu ? q_gpu_zero(mem->gpu, mem->addr, mem->bytes) : 0;
}

int q_mem_get(const struct q_mem *mem, size_t at, size_t bytes)
{
	if (mem->gpu)
		return q_gpu_read(mem->gpu, mem->buf + at, mem->addr + at, bytes);
	/* A barrier, because a device writes there. */
	__asm__ volatile("" : : "r"(mem->buf) : "memory");
	return 0;
}

int q_mem_wait(const struct q_mem *mem, size_t at, uint8_t value, uint64_t ns)
{
	uint64_t began_ns = q_now_ns();
	bool over;
	int err;

	for (;;) {
		over = q_now_ns() - began_ns > ns; /* look once more then: this thread may have been preempted */
		err = q_mem_get(mem, at, 1);
		if (err || mem->buf[at] == value)
			return err;
		if (over)
			return -ETIMEDOUT;
		q_pause_after(began_ns);
	}
}
