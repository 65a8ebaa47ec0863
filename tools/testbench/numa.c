// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "numa.h"

#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES     1024 /* of kernels: CONFIG_NODES_SHIFT is 10 at most */
#define WORD_BITS (8 * sizeof(unsigned long))

/* ---- sysfs ------------------------------------------------------------------------------------- */

/* has_memory is a list: "0-1,4". @ret: by node */
static void read_nodes(const char *sysfs, bool ret[NODES])
{
	unsigned int first, last;
	char path[PATH_MAX];
	FILE *file;
	int c;

	snprintf(path, sizeof(path), "%s/devices/system/node/has_memory", sysfs);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fscanf(file, "%u", &first) == 1) {
		last = first;
		c = getc(file);
		if (c == '-') {
			if (fscanf(file, "%u", &last) != 1)
				break;
			c = getc(file);
		}
		for (unsigned int node = first; node <= last && node < NODES; node++)
			ret[node] = true;
		if (c != ',')
			break;
	}
	fclose(file);
}

/* Return: -1: unknown */
static int node_of_device(const char *sysfs, const char *device)
{
	char path[PATH_MAX];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/numa_node", sysfs, device);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1)
		node = -1;
	fclose(file);
	return node < NODES ? node : -1;
}

int numa_other_node(const char *sysfs, const char *device, int own)
{
	int near = node_of_device(sysfs, device);
	bool has_memory[NODES] = {false};

	if (own < 0)
		return -1;
	read_nodes(sysfs, has_memory);
	if (near >= 0 && near != own && has_memory[near])
		return near;
	for (int node = 0; node < NODES; node++)
		if (has_memory[node] && node != own)
			return node;
	return -1;
}

/* ---- memory ------------------------------------------------------------------------------------ */

int numa_node_of(const void *at)
{
	void *page = (void *)((unsigned long)at & ~((unsigned long)sysconf(_SC_PAGESIZE) - 1));
	int node = -1;

	return syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0) || node < 0 ? -1 : node;
}

int numa_place(void *at, size_t bytes, int node)
{
	unsigned long nodes[NODES / WORD_BITS] = {0};

	if (node < 0 || node >= NODES)
		return -EINVAL;
	nodes[(size_t)node / WORD_BITS] = 1ul << (size_t)node % WORD_BITS;
	/* The kernel takes one bit less than it is told. */
	return syscall(SYS_mbind, at, bytes, MPOL_PREFERRED, nodes, NODES + 1ul, 0) ? -errno : 0;
}

bool numa_is_on(const void *at, size_t bytes, int node)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < bytes; i += page)
		if (numa_node_of((const char *)at + i) != node)
			return false;
	return true;
}
